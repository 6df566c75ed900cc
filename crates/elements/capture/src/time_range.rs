//! `TimeRange`: records the first and the last time of packets.

use std::sync::{Arc, Mutex, PoisonError};

use linerate_graph::{
    Arg, Class, Context, Element, ElementBuilder, Handler, HandlerError, HandlerResult, SignedTime,
};
use linerate_memory::Frame;

use super::{FAMILY, stamp::Stamp};

pub(super) const CLASS: Class = Class {
    name: "TimeRange",
    family: FAMILY,
    summary: "keeps the first and the last timestamp of packets",
    description: "The earliest and the latest, or with `SIMPLE` those of the first packet and the \
        last one.",
    ports: "1/1",
    args: &[Arg::keyword("SIMPLE", "bool", "false", "takes packets to be in order")],
    handlers: &[
        Handler::read("first", "the first timestamp"),
        Handler::read("last", "the last timestamp"),
        Handler::read("range", "both"),
        Handler::read("interval", "the time between them"),
        Handler::button("reset", "forgets both"),
    ],
    annotates: true,
    cost: "A look at each packet's metadata; one lock per frame, which only workers of the same \
        element contend for.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> TimeRange -> Discard;",
    make: |make| Box::new(TimeRange::new(make)),
    ..Class::here()
};

/// First and last timestamp; both zero before there is one.
type Range = (u64, u64);

struct TimeRange {
    simple: bool,
    /// The range over all replicas.
    range: Arc<Mutex<Range>>,
}

impl TimeRange {
    fn new(make: &mut ElementBuilder<'_>) -> TimeRange {
        let range = make.shared(Mutex::<Range>::default);
        *range.lock().unwrap_or_else(PoisonError::into_inner) = (0, 0);
        TimeRange { simple: make.or("SIMPLE", false), range }
    }
}

impl Element for TimeRange {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let mut range = self.range.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut first, mut last) = *range;
        cx.pool.arena().for_each_meta(frame, &mut cx.header_cache, |meta| {
            let time = meta.timestamp;
            if first == 0 {
                (first, last) = (time, time);
            } else if self.simple || last < time {
                last = time;
            } else if time < first {
                first = time;
            }
        });
        *range = (first, last);
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        let (first, last) = *self.range.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(match handler {
            "first" => Stamp(first).to_string(),
            "last" => Stamp(last).to_string(),
            "range" => format!("{} {}", Stamp(first), Stamp(last)),
            "interval" => SignedTime::from_nanos(last.wrapping_sub(first)).to_string(),
            _ => return Err(HandlerError::missing(handler)),
        })
    }

    fn write(&mut self, _: &mut Context, _: &str, _: &str) -> HandlerResult {
        *self.range.lock().unwrap_or_else(PoisonError::into_inner) = (0, 0);
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    #[test]
    fn the_earliest_and_the_latest() {
        for frame_limit in [1, 7, 256] {
            for (config, range, interval) in [
                ("", "1.000000 9.500000", "8.500000"),
                ("SIMPLE true", "3.000000 2.000000", "-1.000000"),
            ] {
                let mut run = Run::new(&format!(
                    "FromIPSummaryDump(STOP true, FIELDS timestamp, DATA \"3\\n1\\n9.5\\n4\\n2\\n\")
                        -> t :: TimeRange({config}) -> Discard"
                ))
                .frame_limit(frame_limit);
                run.run();
                assert_eq!(run.read("t.range"), range);
                assert_eq!(run.read("t.interval"), interval);
                run.write("t.reset", "").unwrap();
                assert_eq!(
                    (run.read("t.first"), run.read("t.last")),
                    ("0.000000".into(), "0.000000".into())
                );
            }
        }
    }
}
