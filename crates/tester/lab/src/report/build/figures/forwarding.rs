//! Forwarding, by what is varied.

use linerate_model::{
    Limits, Plain, Scenario, line_rate,
    units::{BitsPerSecond, Bytes, CyclesPerPacket, Packets},
};

use super::{add_model, add_published, forward, rate};
use crate::{
    calibration::{Calibrated, forwarder},
    point::{Driver, Forward, Point, PollRate, Record, Touch, value},
    report::{
        Axis, Figure, Scale, Series, SeriesSource,
        build::{published::BURST, sweep::Sweep},
    },
};

pub(super) fn bursts(records: &[Record], calibrated: &Calibrated) -> Option<Figure> {
    let x = Axis::decimal("burst (packets)", Scale::Log2);
    // A kernel's interface is hundreds of times slower than a ring.
    let y = Axis::decimal("throughput (packets/s)", Scale::Log10);
    let mut sweep = Sweep::new(records, "burst", "Throughput against burst", x, y);
    sweep.plain(value::RATE, |point| {
        forward(
            point,
            |usual, this| {
                usual.burst = this.burst;
                usual.touch = if this.touch == Touch::Mac { Touch::Mac } else { Touch::None };
            },
            |this| (format!("{}{}", this.driver, touched(this.touch)), this.burst.into()),
        )
    });
    if sweep.is_empty() {
        return None;
    }
    add_model(&mut sweep, calibrated, |burst| Scenario {
        burst: Packets::new(burst),
        ..forwarder()
    });
    add_published(&mut sweep, BURST);
    sweep.done(
        "Forwarding of 64-byte frames by one worker, by driver. Marks are medians of the \
         repetitions, bars their range. The published curves end in the cards' limit.",
    )
}

pub(super) fn load(records: &[Record], calibrated: &Calibrated) -> Option<Figure> {
    let x = Axis::decimal("load (cycles/packet)", Scale::Linear);
    let y = Axis::decimal("throughput (packets/s)", Scale::Log10);
    let mut sweep = Sweep::new(records, "load", "Throughput against emulated load", x, y);
    sweep.plain(value::RATE, |point| {
        forward(
            point,
            |usual, this| usual.work = this.work,
            |this| (this.driver.to_string(), this.work.into()),
        )
    });
    add_model(&mut sweep, calibrated, |work| Scenario {
        work: CyclesPerPacket::new(work),
        burst: Packets::new(Forward::default().burst.into()),
        ..forwarder()
    });
    sweep.done(
        "Every packet costs a number of cycles besides input and output. The slope of the time \
         per packet is the clock, where it begins the cost of input and output.",
    )
}

pub(super) fn stack(records: &[Record], calibrated: &Calibrated) -> Option<Figure> {
    let x = Axis::decimal("load (cycles/packet)", Scale::Linear);
    let y = Axis::decimal("cycles/packet", Scale::Linear);
    let title = "Where cycles would go on a 10 Gbit/s link: C_IO, C_task, C_busy";
    let mut probe = Sweep::new(records, "stack", title, x, y);
    let key = |point: &Point| {
        let own = |this: &Forward| (String::new(), f64::from(this.work));
        forward(point, |usual, this| usual.work = this.work, own)
            .filter(|_| matches!(point, Point::Forward(this) if this.driver == Driver::Ring))
    };
    probe.plain(value::CYCLES, key);
    let places = probe.places("");
    let io = calibrated.costs("ring")?.overhead(&Scenario {
        burst: Packets::new(Forward::default().burst.into()),
        ..forwarder()
    });
    if places.is_empty() {
        return None;
    }
    let frame = Bytes::new(64.0);
    let bandwidth = BitsPerSecond::new(10e9);
    let (clock, plain) = (calibrated.cycles(), Plain { io });
    let busy = |work: f64| {
        let task = CyclesPerPacket::new(work);
        let (rate, _) = plain.throughput(clock, task, &Limits::link(bandwidth), frame);
        plain.busy(clock, rate, task).get()
    };
    let knee = plain.knee(clock, line_rate(bandwidth, frame));
    let caption = format!(
        "Input and output as fitted, the load as asked for, and what would be left for polling if \
         a link of 10 Gbit/s brought 14.88 Mpps; in memory nothing is left. Knee: {}.",
        knee.map_or_else(|| "none".to_owned(), |cycles| cycles.to_string())
    );
    let mut figure = probe.done(&caption)?;
    let part = |name: &str, part: &dyn Fn(f64) -> f64| {
        Series::line(name, SeriesSource::Stacked, places.iter().map(|&work| (work, part(work))))
    };
    figure.series = vec![
        part("C_IO (ring ports)", &|_| io.get()),
        part("C_task", &|work| work),
        part("C_busy (calculated)", &busy),
    ];
    Some(figure)
}

pub(super) fn burnt(records: &[Record]) -> Option<Figure> {
    let x = Axis::decimal("asked for (cycles)", Scale::Linear);
    let y = Axis::decimal("measured (cycles)", Scale::Linear);
    let mut sweep = Sweep::new(records, "burnt", "The load emulator", x, y);
    sweep.plain(value::BURNT, |point| match point {
        Point::Load(load) => Some(("burnt".into(), load.cycles.into())),
        _ => None,
    });
    sweep.done("Cycles that were burnt against cycles asked for: a line of slope 1.")
}

pub(super) fn clock(records: &[Record]) -> Option<Figure> {
    let x = Axis::decimal("clock (Hz)", Scale::Linear);
    let mut sweep = Sweep::new(records, "clock", "Throughput against clock", x, rate());
    sweep.plain(value::RATE, |point| match point {
        Point::Forward(this) if this.clock_khz > 0 => {
            Some((this.driver.to_string(), 1e3 * f64::from(this.clock_khz)))
        }
        _ => None,
    });
    sweep.done("Less than in proportion: part of the time is memory's.")
}

pub(super) fn frames(records: &[Record]) -> Option<Figure> {
    let x = Axis::decimal("frame (bytes)", Scale::Log2);
    let y = Axis::decimal("throughput (packets/s)", Scale::Log10);
    let mut sweep = Sweep::new(records, "frame", "Throughput against frame size", x, y);
    sweep.plain(value::RATE, |point| {
        forward(
            point,
            |usual, this| {
                usual.frame = this.frame;
                usual.touch = this.touch;
                usual.bidirectional = this.bidirectional;
            },
            |this| {
                let touch = touched(this.touch);
                let ways = if this.bidirectional { ", both ways" } else { "" };
                (format!("{}{touch}{ways}", this.driver), this.frame.into())
            },
        )
    });
    sweep.done(
        "A packet costs the same whatever its size, unless its bytes are touched. Both ways: the \
         packets of both directions together.",
    )
}

pub(super) fn poll_rate(records: &[Record]) -> Option<Figure> {
    let x = Axis::decimal("polls/s", Scale::Log10);
    let mut sweep = Sweep::new(records, "poll-rate", "Throughput against poll rate", x, rate());
    sweep.plain(value::RATE, |point| match point {
        Point::PollRate(this)
            if this.polls_per_s > 0 && this.frame == PollRate::default().frame =>
        {
            Some((format!("{}, burst {}", this.driver, this.burst), this.polls_per_s.into()))
        }
        _ => None,
    });
    sweep.done("A worker that looks at its port only so often gets a burst at each look.")
}

pub(super) fn slots(records: &[Record]) -> Option<Figure> {
    let x = Axis::decimal("places in the ring", Scale::Log2);
    let mut sweep = Sweep::new(records, "slots", "Throughput against ring size", x, rate());
    sweep.plain(value::RATE, |point| {
        let rewritten = |usual: &mut Forward, this: &Forward| {
            usual.slots = this.slots;
            usual.touch = Touch::Mac;
        };
        forward(point, rewritten, |this| (this.driver.to_string(), this.slots.into()))
    });
    sweep.done(
        "Every packet's addresses are rewritten; there are as many packets on their way as places.",
    )
}

fn touched(touch: Touch) -> &'static str {
    match touch {
        Touch::None => "",
        Touch::Mac => ", addresses written",
        Touch::Read => ", read",
        Touch::Copy => ", copied",
        Touch::Checksum => ", checksum",
    }
}
