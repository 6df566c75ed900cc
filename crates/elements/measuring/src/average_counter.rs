//! `AverageCounter`: counts packets and bytes between the first and the last.

use linerate_graph::{
    Arg, Class, Context, Element, ElementBuilder, Handler, HandlerError, HandlerResult, Merge,
};
use linerate_memory::{
    Frame, Slot,
    clock::{cycles, cycles_per_second},
};

use super::FAMILY;
use linerate_element_support::fmt_g::format_g;

pub(super) const CLASS: Class = Class {
    name: "AverageCounter",
    family: FAMILY,
    summary: "counts packets and bytes and their rate between the first and the last",
    description: "The rate is the count divided by the time from the first packet to the last, in \
        whole milliseconds. With `IGNORE` the packets of the first seconds are not counted.",
    ports: "1/1",
    args: &[Arg::optional("IGNORE", "seconds", "0", "seconds at the start that do not count")],
    handlers: &[
        Handler::count("count", "packets counted"),
        Handler::count("byte_count", "bytes counted"),
        Handler::read("rate", "packets per second").merged(Merge::Sum),
        Handler::read("byte_rate", "bytes per second").merged(Merge::Sum),
        Handler::button("reset", "sets the counts and the rates to zero"),
    ],
    cost: "Reads the cycle counter once per frame; packets are not touched.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> AverageCounter -> Discard;",
    make: |make| Box::new(AverageCounter::new(make)),
    ..Class::here()
};

pub(super) const MP: Class = Class {
    name: "AverageCounterMP",
    description: "As AverageCounter. In FastClick, this one may be used by several threads at once; \
        here both count for each worker alone, and add up when they are read.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> AverageCounterMP -> Discard;",
    ..CLASS
};

pub(super) const IMP: Class = Class {
    name: "AverageCounterIMP",
    description: "As AverageCounter. In FastClick, this one has a count for each thread, as both have \
        here.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> AverageCounterIMP -> Discard;",
    ..CLASS
};

struct AverageCounter {
    ignore: u64,
    counts: Counts,
}

#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    count: u64,
    bytes: u64,
    /// Milliseconds at which the first and the last packet came.
    span: Option<(u64, u64)>,
}

impl AverageCounter {
    fn new(make: &mut ElementBuilder<'_>) -> AverageCounter {
        let seconds: u32 = make.or("IGNORE", 0);
        AverageCounter { ignore: u64::from(seconds) * 1000, counts: Counts::default() }
    }

    fn rate(&self, count: u64) -> f64 {
        let (first, last) = self.counts.span.unwrap_or_default();
        let time = (last - first).saturating_sub(self.ignore).max(1);
        count as f64 * 1000.0 / time as f64
    }
}

/// Milliseconds since some point of time.
fn milliseconds(cx: &Context) -> u64 {
    if cx.clock.is_simulated() {
        cx.steady() / 1_000_000
    } else {
        (cycles() as f64 * (1000.0 / cycles_per_second())) as u64
    }
}

impl Element for AverageCounter {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let now = milliseconds(cx);
        let first = self.counts.span.map_or(now, |(first, _)| first);
        if now.saturating_sub(first) >= self.ignore {
            self.counts.count += frame.len() as u64;
            self.counts.bytes += Slot::total_len(frame.slots());
        }
        self.counts.span = Some((first, now.max(first)));
    }

    fn initialize(&mut self, _: &mut Context) -> Result<(), String> {
        // Measured here rather than with the first packet.
        cycles_per_second();
        Ok(())
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<AverageCounter>() {
            self.counts = old.counts;
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "count" => Ok(self.counts.count.to_string()),
            "byte_count" => Ok(self.counts.bytes.to_string()),
            "rate" => Ok(format_g(self.rate(self.counts.count))),
            "byte_rate" => Ok(format_g(self.rate(self.counts.bytes))),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "reset" => self.counts = Counts::default(),
            _ => return Err(HandlerError::missing(handler)),
        }
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    #[test]
    fn counts_and_the_rate_of_one_millisecond() {
        for limit in [1, 256] {
            let mut run = Run::new(
                "InfiniteSource(LENGTH 100, LIMIT 1000, STOP true) -> a :: AverageCounter
                    -> Discard",
            )
            .frame_limit(limit);
            assert_eq!(run.read("a.rate"), "0");
            run.run();
            assert_eq!(run.read("a.count"), "1000");
            assert_eq!(run.read("a.byte_count"), "100000");
            // Simulated time stands still: the shortest time there is.
            assert_eq!(run.read("a.rate"), "1000000");
            assert_eq!(run.read("a.byte_rate"), "100000000");
            run.write("a.reset", "").unwrap();
            assert_eq!(run.read("a.count"), "0");
        }
    }

    #[test]
    fn the_start_can_be_ignored() {
        let mut run =
            Run::new("InfiniteSource(LIMIT 10, STOP true) -> a :: AverageCounter(1) -> Discard");
        run.run();
        assert_eq!(run.read("a.count"), "0");
    }
}
