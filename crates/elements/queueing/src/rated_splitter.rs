//! `RatedSplitter` and `BandwidthRatedSplitter`: send packets above a rate to output 1.

use linerate_graph::{
    Arg, Class, Context, DropReason, Element, ElementBuilder, Handler, HandlerError, HandlerResult,
    Right,
};
use linerate_memory::Frame;

use super::{
    FAMILY,
    rated_unqueue::{Burst, bucket},
    wrong,
};
use linerate_element_support::{
    drops::reject_frame,
    handler_values::record_argument,
    rate::{Bucket, DEBT, Unit},
};

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    /// above the rate
    Excess,
}

pub(super) const PACKETS: Class = Class {
    name: "RatedSplitter",
    reconfigured: Some(Right::Write),
    family: FAMILY,
    summary: "splits packets above a rate from those below",
    description: "At most `RATE` packets per second leave by output 0, in bursts of at most \
        `BURST_SIZE` packets or what the rate has in `BURST_DURATION`. The others leave by \
        output 1, or are dropped when it is not used.",
    ports: "1/1-2",
    processing: "h/h",
    args: &[
        Arg::required("RATE", "packets per second", "packets by output 0 per second"),
        Arg::keyword("BURST_DURATION", "time", "20 ms", "time that can be made up for"),
        Arg::keyword("BURST_SIZE", "packets", "", "packets that can be made up for"),
    ],
    handlers: &[Handler::value("rate", "the rate")],
    drops: Reason::REASONS,
    cost: "A clock reading and a division per frame; frames are cut in two, not looked through.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> r :: RatedSplitter(100) -> Discard; \
        r [1] -> Discard;",
    order_dependent: true,
    make: |make| Box::new(RatedSplitter::new(make, Unit::Packets)),
    ..Class::here()
};

pub(super) const BANDWIDTH: Class = Class {
    name: "BandwidthRatedSplitter",
    summary: "splits packets above a bandwidth from those below",
    description: "Packets of at most `RATE` bytes per second leave by output 0, in bursts of at \
        most `BURST_BYTES` bytes or what the rate has in `BURST_DURATION`, and one packet more. \
        The others leave by output 1, or are dropped when it is not used.",
    args: &[
        Arg::required("RATE", "bandwidth", "bytes by output 0 per second"),
        Arg::keyword("BURST_DURATION", "time", "20 ms", "time that can be made up for"),
        Arg::keyword("BURST_BYTES", "bytes", "", "bytes that can be made up for"),
    ],
    cost: "A clock reading and a division per frame, an addition per packet.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> r :: BandwidthRatedSplitter(1kbps) \
        -> Discard; r [1] -> Discard;",
    make: |make| Box::new(RatedSplitter::new(make, Unit::Bytes)),
    ..PACKETS
};

struct RatedSplitter {
    unit: Unit,
    bucket: Bucket,
    burst: Burst,
    /// The packets above the rate, empty between calls.
    excess: Frame,
}

impl RatedSplitter {
    fn new(make: &mut ElementBuilder<'_>, unit: Unit) -> RatedSplitter {
        let (bucket, burst) = bucket(make, unit);
        RatedSplitter { unit, bucket, burst, excess: Frame::new(make.world.frame_limit) }
    }
}

impl Element for RatedSplitter {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        self.bucket.fill(cx.steady());
        let tokens = self.bucket.tokens();
        let (count, used) = match self.unit {
            Unit::Packets => {
                let count = usize::try_from(tokens).unwrap_or(usize::MAX).min(frame.len());
                (count, count as u64)
            }
            Unit::Bytes => {
                let mut left = tokens;
                let mut used = 0;
                let may_go = |length: &u64| {
                    let may = left >= DEBT;
                    left -= if may { left.min(*length) } else { 0 };
                    may
                };
                let lengths = frame.slots().iter().map(|slot| slot.len() as u64);
                let count = lengths.take_while(may_go).inspect(|length| used += length).count();
                (count, used)
            }
        };
        self.bucket.take(used);
        if count < frame.len() {
            let mut place = 0;
            let excess = &mut self.excess;
            let within = |_: &mut _| {
                place += 1;
                place <= count
            };
            frame.retain(within, |slot| {
                let pushed = excess.push(slot);
                debug_assert!(pushed.is_ok(), "no more than were in a frame");
            });
            reject_frame(cx, &mut self.excess, Reason::Excess);
        }
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<RatedSplitter>() {
            self.bucket.take_state(&old.bucket);
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "rate" => Ok(self.bucket.rate().text(self.unit)),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        match (handler, self.unit.parse(value)) {
            ("rate", Ok(rate)) => {
                self.bucket.change_filled(rate, self.burst.capacity(rate, self.unit));
                record_argument(cx, 0, "RATE", value);
                Ok(String::new())
            }
            ("rate", Err(error)) => wrong("RATE", error),
            _ => Err(HandlerError::missing(handler)),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    fn counts(config: &str) -> (String, String) {
        let mut run = Run::new(config);
        run.run();
        (run.read("a.count"), run.read("b.count"))
    }

    #[test]
    fn the_burst_goes_straight_on() {
        let split = |splitter: &str| {
            counts(&format!(
                "InfiniteSource(LENGTH 100, LIMIT 1000, STOP true) -> r :: {splitter} \
                    -> a :: Counter -> Discard; r [1] -> b :: Counter -> Discard"
            ))
        };
        assert_eq!(split("RatedSplitter(1000)"), ("20".into(), "980".into()));
        assert_eq!(split("RatedSplitter(0)"), ("0".into(), "1000".into()));
        let bytes = split("BandwidthRatedSplitter(1000, BURST_BYTES 1000)");
        assert_eq!(bytes, ("11".into(), "989".into()));
    }

    #[test]
    fn over_time_the_rate_goes_straight_on() {
        // 100 per second for 1.99 s, and the burst of two; two ticks late, as in Click.
        let (below, above) = counts(
            "RatedSource(RATE 1000, LIMIT 2000, STOP true) -> r :: RatedSplitter(100) \
                -> a :: Counter -> Discard; r [1] -> b :: Counter -> Discard",
        );
        assert_eq!((below.as_str(), above.as_str()), ("200", "1800"));
    }

    #[test]
    fn without_a_second_output_the_excess_is_dropped() {
        let mut run = Run::new(
            "InfiniteSource(LIMIT 1000, STOP true) -> r :: RatedSplitter(1000) -> Discard",
        );
        run.run();
        assert_eq!(run.read("r.drops"), "980\tabove the rate\n");
    }
}
