//! `SetCycleCount`, `CycleCountAccum`, `RoundTripCycleCount`: how many cycles
//! packets take from one point of a graph to another.

use linerate_graph::{
    Class, Context, DropReason, Element, Handler, HandlerError, HandlerResult, NoBuffer,
};
use linerate_memory::{Frame, clock::cycles};

use super::FAMILY;
use linerate_element_support::{
    annotations::{cycle_count, set_cycle_count},
    log_once::LogOnce,
};

pub(super) const SET: Class = Class {
    name: "SetCycleCount",
    family: FAMILY,
    summary: "notes the cycle counter on packets",
    description: "With `CycleCountAccum` behind it this measures how long packets take from here \
        to there. All packets of a frame get the same count. A packet has room for a cycle count \
        or for the time of the first packet it stands for, not for both.",
    ports: "1/1",
    drops: Reason::REASONS,
    annotates: true,
    cost: "One reading of the cycle counter per frame and a write to each packet's metadata; \
        shared packets are copied.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> SetCycleCount -> CycleCountAccum -> Discard;",
    make: |_| Box::new(SetCycleCount),
    ..Class::here()
};

pub(super) const ACCUM: Class = Class {
    name: "CycleCountAccum",
    family: FAMILY,
    summary: "adds up the cycles since SetCycleCount",
    description: "Packets without a cycle count are counted apart; the first is reported.",
    ports: "1/1",
    handlers: &[
        Handler::count("count", "packets with a cycle count"),
        Handler::count("cycles", "cycles of all these packets together"),
        Handler::count("zero_count", "packets without a cycle count"),
        Handler::button("reset_counts", "sets all three to zero"),
    ],
    annotates: true,
    cost: "One reading of the cycle counter per frame and a look at each packet's metadata.",
    example: SET.example,
    make: |make| {
        Box::new(CycleCountAccum { said: LogOnce::for_element(make), ..Default::default() })
    },
    ..Class::here()
};

pub(super) const ROUND_TRIP: Class = Class {
    name: "RoundTripCycleCount",
    family: FAMILY,
    summary: "adds up the cycles spent on packets behind it, or before it when it is pulled from",
    description: "Where packets are pushed it counts the cycles until they have gone as far as \
        they get; where they are pulled, the cycles of pulling. Frames that arrive while others \
        wait at another branch of the graph are passed on and not counted.",
    ports: "1/1",
    handlers: &[
        Handler::count("packets", "packets measured"),
        Handler::count("cycles", "cycles of all of them together"),
        Handler::button("reset_counts", "sets both to zero"),
    ],
    cost: "Two readings of the cycle counter per frame.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> RoundTripCycleCount -> Discard;",
    make: |_| Box::new(RoundTripCycleCount::default()),
    ..Class::here()
};

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    /// no buffer for a copy
    #[from(NoBuffer)]
    NoBuffer,
}

struct SetCycleCount;

impl Element for SetCycleCount {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        cx.unshare::<Reason>(frame);
        let arena = cx.arena();
        let now = cycles();
        for slot in frame.slots_mut() {
            if let Some(meta) = arena.meta_mut(slot) {
                set_cycle_count(meta, now);
            }
        }
    }
}

#[derive(Default)]
struct CycleCountAccum {
    count: u64,
    cycles: u64,
    zero_count: u64,
    said: LogOnce,
}

impl Element for CycleCountAccum {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let arena = cx.arena();
        let now = cycles();
        let zeros = self.zero_count;
        for slot in frame.slots() {
            match cycle_count(arena.meta(slot)) {
                0 => self.zero_count += 1,
                since => {
                    self.count += 1;
                    self.cycles = self.cycles.wrapping_add(now.saturating_sub(since));
                }
            }
        }
        if zeros == 0 && self.zero_count > 0 && self.said.first() {
            let text = format!(
                "{} :: CycleCountAccum: packet with zero cycle counter annotation!\n",
                cx.name()
            );
            cx.console().report(&text);
        }
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<CycleCountAccum>() {
            self.count += old.count;
            self.cycles += old.cycles;
            self.zero_count += old.zero_count;
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "count" => Ok(self.count.to_string()),
            "cycles" => Ok(self.cycles.to_string()),
            "zero_count" => Ok(self.zero_count.to_string()),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "reset_counts" => {
                self.said.forget();
                *self = CycleCountAccum { said: self.said.clone(), ..Default::default() };
            }
            _ => return Err(HandlerError::missing(handler)),
        }
        Ok(String::new())
    }
}

#[derive(Default)]
struct RoundTripCycleCount {
    packets: u64,
    cycles: u64,
}

impl Element for RoundTripCycleCount {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let count = frame.len() as u64;
        let start = cycles();
        if cx.send_ahead(frame) {
            self.cycles += cycles().saturating_sub(start);
            self.packets += count;
        }
    }

    fn pull(&mut self, cx: &mut Context, _: usize, count: usize, frame: &mut Frame) {
        let start = cycles();
        self.packets += cx.pull(0, count, frame) as u64;
        self.cycles += cycles().saturating_sub(start);
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<RoundTripCycleCount>() {
            self.packets += old.packets;
            self.cycles += old.cycles;
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "packets" => Ok(self.packets.to_string()),
            "cycles" => Ok(self.cycles.to_string()),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "reset_counts" => *self = RoundTripCycleCount::default(),
            _ => return Err(HandlerError::missing(handler)),
        }
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    #[test]
    fn cycles_between_two_points_add_up() {
        for limit in [1, 256] {
            let mut run = Run::new(
                "InfiniteSource(LIMIT 1000, STOP true) -> SetCycleCount -> CycleLoad(100)
                    -> a :: CycleCountAccum -> d :: Discard",
            )
            .frame_limit(limit);
            run.run();
            assert_eq!(run.read("a.count"), "1000");
            assert_eq!(run.read("a.zero_count"), "0");
            assert_eq!(run.read("d.count"), "1000");
            assert!(run.read("a.cycles").parse::<u64>().unwrap() > 0);
            run.write("a.reset_counts", "").unwrap();
            assert_eq!(run.read("a.count"), "0");
        }
    }

    #[test]
    fn packets_without_a_count_are_reported_once() {
        for limit in [1, 256] {
            let mut run =
                Run::new("InfiniteSource(LIMIT 10, STOP true) -> a :: CycleCountAccum -> Discard")
                    .frame_limit(limit);
            run.run();
            assert_eq!(run.read("a.zero_count"), "10");
            assert_eq!(run.read("a.count"), "0");
            assert_eq!(
                run.output(),
                "a :: CycleCountAccum: packet with zero cycle counter annotation!\n"
            );
        }
    }

    #[test]
    fn round_trips_by_push_and_by_pull() {
        for limit in [1, 256] {
            let mut run = Run::new(
                "InfiniteSource(LENGTH 60, LIMIT 1000, STOP true) -> r :: RoundTripCycleCount
                    -> CycleLoad(10) -> q :: Queue(2000) -> s :: RoundTripCycleCount -> c :: Counter
                    -> d :: Discard",
            )
            .frame_limit(limit);
            run.run();
            let held: u64 = run.read("q.length").parse().unwrap();
            assert_eq!(run.read("r.packets"), "1000");
            assert_eq!(run.read("s.packets"), (1000 - held).to_string());
            assert_eq!(run.read("c.count"), (1000 - held).to_string());
            assert!(run.read("r.cycles").parse::<u64>().unwrap() > 1000);
        }
    }

    #[test]
    fn a_branch_that_waits_is_not_overtaken() {
        for limit in [1, 256] {
            let mut run = Run::new(
                "InfiniteSource(LIMIT 100, STOP true) -> t :: Tee -> r :: RoundTripCycleCount
                    -> d :: Discard; t [1] -> e :: Discard",
            )
            .frame_limit(limit);
            run.run();
            assert_eq!(run.read("r.packets"), "0");
            assert_eq!((run.read("d.count"), run.read("e.count")), ("100".into(), "100".into()));
        }
    }
}
