//! The figures of a report.

use linerate_model::{
    Limits, Plain, Scenario, line_rate,
    units::{BitsPerSecond, Bytes, CyclesPerPacket, Packets, PacketsPerSecond},
};

use super::{
    published::{BURST, INLINE, Published, SWITCH},
    sweep::Sweep,
};
use crate::{
    calibration::Calibrated,
    point::{
        Case, Destinations, Driver, Forward, Idle, InlinePath, Kind as Point, Latency, Pages,
        Pipeline, PollRate, Record, Touch, value,
    },
    report::{Axis, Figure, Kind, Scale, Series},
};

pub(super) fn figures(records: &[Record], calibrated: &Calibrated) -> Vec<Figure> {
    let all = [
        bursts(records, calibrated),
        load(records, calibrated),
        stack(records, calibrated),
        burnt(records),
        clock(records),
        frames(records),
        walk(records),
        chains(records),
        accesses(records, calibrated),
        vector_limit(records, "vector-limit", value::RATE),
        vector_limit(records, "vector-mean", value::VECTOR),
        vector_limit(records, "vector-cycles", value::CYCLES_PER_VECTOR),
        flows(records),
        vector_load(records, calibrated),
        latency(records, calibrated),
        tail(records),
        processor(records),
        poll_rate(records),
        pipeline(records),
        workers(records),
        slots(records),
        inline(records),
        batch(records),
    ];
    all.into_iter().flatten().collect()
}

/// A forwarding point that differs from the usual one in nothing else.
fn forward<T>(
    point: &Point,
    differ: impl Fn(&mut Forward, &Forward),
    key: impl Fn(&Forward) -> T,
) -> Option<T> {
    let Point::Forward(this) = point else { return None };
    let mut usual = Forward { driver: this.driver, ..Forward::default() };
    differ(&mut usual, this);
    (usual == *this).then(|| key(this))
}

fn rate() -> Axis {
    Axis::decimal("throughput (packets/s)", Scale::Linear)
}

fn add_published(sweep: &mut Sweep<'_>, published: &[Published]) {
    for Published { name, points } in published {
        sweep.add(Series::line(name, Kind::Published, points.iter().copied()));
    }
}

/// What the model says at the places of a driver's points.
fn add_model(sweep: &mut Sweep<'_>, calibrated: &Calibrated, scenario: impl Fn(f64) -> Scenario) {
    for (driver, fitted) in &calibrated.drivers {
        let places = sweep.places(driver);
        if places.is_empty() {
            continue;
        }
        let predicted = places.into_iter().map(|x| {
            let scenario = Scenario { clock: calibrated.cycles(), ..scenario(x) };
            (x, fitted.calibration.costs.predict(&scenario).throughput.get())
        });
        sweep.add(Series::line(&format!("{driver}, model"), Kind::Fitted, predicted));
    }
}

fn bursts(records: &[Record], calibrated: &Calibrated) -> Option<Figure> {
    let x = Axis::decimal("burst (packets)", Scale::Log2);
    let mut sweep = Sweep::new(records, "burst", "Throughput against burst", x, rate());
    sweep.plain(value::RATE, |point| {
        forward(
            point,
            |usual, this| usual.burst = this.burst,
            |this| (this.driver.to_string(), this.burst.into()),
        )
    });
    if sweep.is_empty() {
        return None;
    }
    add_model(&mut sweep, calibrated, |burst| Scenario {
        burst: Packets::new(burst),
        ..Scenario::default()
    });
    add_published(&mut sweep, BURST);
    sweep.done(
        "Forwarding of 64-byte frames by one worker, by driver. Marks are medians of the \
         repetitions, bars their range. The published curves end in the cards' limit.",
    )
}

fn load(records: &[Record], calibrated: &Calibrated) -> Option<Figure> {
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
        ..Scenario::default()
    });
    sweep.done(
        "Every packet costs a number of cycles besides input and output. The slope of the time \
         per packet is the clock, where it begins the cost of input and output.",
    )
}

fn stack(records: &[Record], calibrated: &Calibrated) -> Option<Figure> {
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
        ..Scenario::default()
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
        Series::line(name, Kind::Stacked, places.iter().map(|&work| (work, part(work))))
    };
    figure.series = vec![
        part("C_IO (ring ports)", &|_| io.get()),
        part("C_task", &|work| work),
        part("C_busy (calculated)", &busy),
    ];
    Some(figure)
}

fn burnt(records: &[Record]) -> Option<Figure> {
    let x = Axis::decimal("asked for (cycles)", Scale::Linear);
    let y = Axis::decimal("measured (cycles)", Scale::Linear);
    let mut sweep = Sweep::new(records, "burnt", "The load emulator", x, y);
    sweep.plain(value::BURNT, |point| match point {
        Point::Load(load) => Some(("burnt".into(), load.cycles.into())),
        _ => None,
    });
    sweep.done("Cycles that were burnt against cycles asked for: a line of slope 1.")
}

fn clock(records: &[Record]) -> Option<Figure> {
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

fn frames(records: &[Record]) -> Option<Figure> {
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
                let touch = match this.touch {
                    Touch::None => "",
                    Touch::Mac => ", addresses written",
                    Touch::Read => ", read",
                    Touch::Copy => ", copied",
                    Touch::Checksum => ", checksum",
                };
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

fn pages_name(pages: Pages) -> &'static str {
    match pages {
        Pages::Small => "4 KiB pages",
        Pages::Transparent => "transparent huge pages",
        Pages::Huge => "2 MiB pages",
    }
}

fn walk(records: &[Record]) -> Option<Figure> {
    let y = Axis::decimal("time per access (ns)", Scale::Log10);
    let x = Axis::bytes("working set");
    let mut sweep = Sweep::new(records, "memory", "Latency of memory", x, y);
    sweep.plain(value::ACCESS, |point| match point {
        Point::Walk(walk) if walk.chains == 1 => {
            Some((pages_name(walk.pages).into(), walk.bytes as f64))
        }
        _ => None,
    });
    sweep.done("A walk along a list in random order, each element a cache line of its own.")
}

fn chains(records: &[Record]) -> Option<Figure> {
    let y = Axis::decimal("time per access (ns)", Scale::Log10);
    let x = Axis::bytes("working set");
    let mut sweep = Sweep::new(records, "chains", "Accesses that do not wait for each other", x, y);
    sweep.plain(value::ACCESS, |point| match point {
        Point::Walk(walk) if walk.pages == Pages::Small => {
            let plural = if walk.chains == 1 { "" } else { "s" };
            Some((format!("{} chain{plural}", walk.chains), walk.bytes as f64))
        }
        _ => None,
    });
    sweep.done("Several lists walked at once: the processor has several accesses under way.")
}

fn accesses(records: &[Record], calibrated: &Calibrated) -> Option<Figure> {
    let title = "Forwarding with accesses to memory";
    let x = Axis::bytes("working set");
    let mut sweep = Sweep::new(records, "access", title, x, rate());
    let usual = Forward::default();
    sweep.plain(value::RATE, |point| match point {
        Point::Forward(this)
            if this.accesses > 0 && this.workers == 1 && this.burst == usual.burst =>
        {
            let plural = if this.accesses == 1 { "" } else { "es" };
            let load = if this.work > 0 { format!(", load {}", this.work) } else { String::new() };
            let name = format!(
                "{}, {} access{plural}, {}{load}",
                this.driver,
                this.accesses,
                pages_name(this.pages)
            );
            Some((name, this.working_set as f64))
        }
        _ => None,
    });
    let scale = |pages| {
        let scale = calibrated.memory_scale.get(&pages)?;
        Some(format!("{:.2} with {}", scale.estimate.value, pages_name(pages)))
    };
    let scales: Vec<String> =
        [Pages::Small, Pages::Transparent, Pages::Huge].into_iter().filter_map(scale).collect();
    let known = match scales.is_empty() {
        true => String::new(),
        false => format!(
            " An access costs a packet so many times what the list says: {}.",
            scales.join(", ")
        ),
    };
    sweep.done(&format!("Each packet makes random accesses to memory of this size.{known}"))
}

/// What a configuration is, in a word or two.
fn graph_name(configuration: &str) -> &str {
    if configuration.contains("IPLookup") || configuration.contains("IPRoute") {
        "IP forwarding"
    } else if configuration.contains("Classifier") || configuration.contains("IPFilter") {
        "filter"
    } else {
        "cross-connect"
    }
}

fn vector_limit(records: &[Record], id: &str, figure: &str) -> Option<Figure> {
    let x = Axis::decimal("vector limit (packets)", Scale::Log2);
    let (title, label, caption) = match figure {
        value::RATE => (
            "Throughput against vector limit",
            "throughput (packets/s)",
            "Graphs run with frames of at most so many packets.",
        ),
        value::VECTOR => (
            "Average vector against its limit",
            "average vector (packets)",
            "Sources always have more, so frames are full wherever the graph does not split them.",
        ),
        _ => (
            "Cycles per vector against its limit",
            "cycles/vector",
            "What does not grow with the vector is spread over its packets.",
        ),
    };
    let scale = if figure == value::RATE { Scale::Linear } else { Scale::Log2 };
    let mut sweep = Sweep::new(records, id, title, x, Axis::decimal(label, scale));
    sweep.plain(figure, |point| match point {
        Point::Graph(graph) => {
            let order = match graph.destinations {
                Destinations::Static => "one destination",
                Destinations::RoundRobin => "round robin",
                Destinations::Uniform => "uniform",
            };
            let usual = crate::point::Graph::default();
            (graph.addresses == usual.addresses && graph.frame == usual.frame).then(|| {
                (format!("{}, {order}", graph_name(&graph.configuration)), graph.vector.into())
            })
        }
        _ => None,
    });
    sweep.done(caption)
}

fn flows(records: &[Record]) -> Option<Figure> {
    let x = Axis::decimal("destinations", Scale::Log2);
    let y = Axis::decimal("cycles/packet", Scale::Linear);
    let mut sweep = Sweep::new(records, "flows", "Cost against destinations in use", x, y);
    sweep.plain(value::CYCLES, |point| match point {
        Point::Graph(graph) if graph.destinations != Destinations::Static => {
            let order = match graph.destinations {
                Destinations::Uniform => "uniform",
                _ => "round robin",
            };
            let name =
                format!("{}, {order}, vector {}", graph_name(&graph.configuration), graph.vector);
            Some((name, graph.addresses.into()))
        }
        _ => None,
    });
    sweep.done("Each doubling pushes the same part of the lookups out of a cache, until all are.")
}

fn polled(point: &Point) -> Option<&Latency> {
    match point {
        Point::Latency(this) if this.slots == Latency::default().slots => Some(this),
        _ => None,
    }
}

fn idle_name(idle: Idle) -> &'static str {
    match idle {
        Idle::Poll => "polling",
        Idle::Adaptive => "adaptive",
        Idle::Block => "blocking",
    }
}

fn vector_load(records: &[Record], calibrated: &Calibrated) -> Option<Figure> {
    let x = Axis::decimal("load (% of the highest throughput)", Scale::Linear);
    let y = Axis::decimal("mean vector (packets)", Scale::Log2);
    let mut sweep = Sweep::new(records, "vector-load", "Mean vector against load", x, y);
    sweep.plain(value::VECTOR, |point| {
        polled(point).map(|this| (idle_name(this.idle).into(), this.load_percent.into()))
    });
    if let Some(fitted) = &calibrated.latency {
        let capacity = fitted.service.capacity();
        let places = sweep.places(idle_name(Idle::Poll));
        let predicted = places.into_iter().map(|load| {
            let mean = fitted.service.mean_vector(capacity * (load / 100.0)).get();
            (load, mean / (1.0 - (-mean).exp()))
        });
        sweep.add(Series::line("model", Kind::Fitted, predicted));
    }
    sweep.done("Of rounds that had packets. The busier the loop, the more packets wait for it.")
}

fn latency(records: &[Record], calibrated: &Calibrated) -> Option<Figure> {
    let x = Axis::decimal("load (% of the highest throughput)", Scale::Linear);
    let y = Axis::decimal("mean latency (ns)", Scale::Log10);
    let mut sweep = Sweep::new(records, "latency", "Latency against load", x, y);
    sweep.plain(value::LATENCY_MEAN, |point| match point {
        Point::Latency(this) => {
            let ring = match this.slots == Latency::default().slots {
                true => String::new(),
                false => format!(", ring of {}", this.slots),
            };
            Some((format!("{}{ring}", idle_name(this.idle)), this.load_percent.into()))
        }
        _ => None,
    });
    if let Some(fitted) = &calibrated.latency {
        let capacity = fitted.service.capacity();
        let predicted =
            sweep.places(idle_name(Idle::Poll)).into_iter().filter(|load| *load < 100.0);
        let predicted: Vec<_> = predicted
            .map(|load| {
                let offered: PacketsPerSecond = capacity * (load / 100.0);
                (load, fitted.service.mean_latency(offered).get() * 1e9)
            })
            .collect();
        sweep.add(Series::line("polling, model", Kind::Fitted, predicted));
    }
    sweep.done(
        "From when a packet was due to when it came back, packets at random times. The loop does \
         a fixed load, so that the generator is not the limit.",
    )
}

fn tail(records: &[Record]) -> Option<Figure> {
    let x = Axis::decimal("load (% of the highest throughput)", Scale::Linear);
    let y = Axis::decimal("latency (ns)", Scale::Log10);
    let mut sweep = Sweep::new(records, "tail", "The slowest packet in a hundred", x, y);
    sweep.plain(value::LATENCY_P99, |point| {
        polled(point).map(|this| (idle_name(this.idle).into(), this.load_percent.into()))
    });
    sweep.done("The 99th percentile. On a machine that others use too, it is theirs as well.")
}

fn processor(records: &[Record]) -> Option<Figure> {
    let x = Axis::decimal("load (% of the highest throughput)", Scale::Linear);
    let mut sweep =
        Sweep::new(records, "processor", "Processor time against load", x, Axis::share("busy"));
    sweep.plain(value::BUSY, |point| {
        polled(point).map(|this| (idle_name(this.idle).into(), this.load_percent.into()))
    });
    sweep.done("Processor time of the worker in shares of a core: polling is always busy.")
}

fn poll_rate(records: &[Record]) -> Option<Figure> {
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

fn pipeline(records: &[Record]) -> Option<Figure> {
    let x = Axis::decimal("load (cycles/packet)", Scale::Linear);
    let title = "Run to completion and pipelines";
    let mut sweep = Sweep::new(records, "pipeline", title, x, rate()).with_single_points();
    let usual = Pipeline::default();
    sweep.plain(value::RATE, |point| match point {
        Point::Pipeline(this) if this.burst == usual.burst && this.touch == usual.touch => {
            let name = format!("{:?}, {} behind", this.placement, this.workers);
            Some((name, this.work.into()))
        }
        _ => None,
    });
    let piped = !sweep.is_empty();
    sweep.plain(value::RATE, |point| match point {
        Point::Forward(this)
            if piped
                && this.driver == Driver::Ring
                && this.burst == usual.burst
                && this.accesses == 0
                && this.touch == Touch::None
                && this.frame == usual.frame
                && !this.bidirectional =>
        {
            Some((format!("run to completion, {} workers", this.workers), this.work.into()))
        }
        _ => None,
    });
    sweep.done("One thread receives and hands over, or all do everything.")
}

fn workers(records: &[Record]) -> Option<Figure> {
    let x = Axis::decimal("workers", Scale::Linear);
    let mut sweep = Sweep::new(records, "workers", "Throughput against workers", x, rate());
    sweep.plain(value::RATE, |point| match point {
        Point::Forward(this)
            if this.driver == Driver::Ring && this.accesses == 0 && this.touch == Touch::None =>
        {
            let name = format!("burst {}, load {}", this.burst, this.work);
            let plain = Forward {
                driver: this.driver,
                burst: this.burst,
                work: this.work,
                workers: this.workers,
                ..Forward::default()
            };
            (plain == *this).then(|| (name, this.workers.into()))
        }
        _ => None,
    });
    sweep.done("Each worker has ports of its own.")
}

fn slots(records: &[Record]) -> Option<Figure> {
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

fn inline(records: &[Record]) -> Option<Figure> {
    let x = Axis::decimal("frame (bytes)", Scale::Log2);
    let y = Axis::share("received of sent");
    let mut sweep = Sweep::new(records, "inline", "Inspection inline", x, y);
    let key = |point: &Point| match point {
        Point::Inline(this) => {
            let path = match this.path {
                InlinePath::Kernel => "the kernel's path",
                InlinePath::Ours => "AF_XDP",
                InlinePath::Memory => "memory",
            };
            Some((format!("{path}, {} Mbit/s", this.offered_mbit_s), this.frame.into()))
        }
        _ => None,
    };
    sweep.measured(value::LOST, Kind::Measured, key, |_, lost| 1.0 - lost);
    if sweep.is_empty() {
        return None;
    }
    add_published(&mut sweep, INLINE);
    sweep.done(
        "The share of packets that an application which looks through their bytes can take. The \
         published shares are of another application on another machine: compare the shapes.",
    )
}

fn batch(records: &[Record]) -> Option<Figure> {
    let x = Axis::decimal("batch (packets)", Scale::Log2);
    let y = Axis::decimal("throughput (packets/s)", Scale::Log10);
    let mut sweep = Sweep::new(records, "batch", "Applications against their batch", x, y);
    sweep.plain(value::RATE, |point| match point {
        Point::BatchCase(this) => {
            let case = match this.case {
                Case::Switch => "switch",
                Case::Click => "graph with a queue",
            };
            Some((format!("{case}, {}", this.driver), this.batch.into()))
        }
        _ => None,
    });
    if sweep.is_empty() {
        return None;
    }
    add_published(&mut sweep, SWITCH);
    sweep.done("The packets an application takes at once, on ports of several kinds.")
}
