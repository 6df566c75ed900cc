//! `RoundRobinUnqueue`: pulls from its inputs in turn and pushes to the outputs of same number.

use linerate_graph::{
    Arg, Class, Context, Element, ElementBuilder, Handler, HandlerError, HandlerResult, Next,
};
use linerate_memory::Frame;

use super::{FAMILY, followed::nearest};

pub(super) const CLASS: Class = Class {
    name: "RoundRobinUnqueue",
    family: FAMILY,
    summary: "pulls packets from its inputs in turn and pushes them on",
    description: "In a turn it moves up to `BURST` packets from an input to the output of the same \
        number; the next turn is that of the next input, whether there was any packet or not. There \
        are as many outputs as inputs. With a `BURST` of zero all that an input has are moved.",
    ports: "-/-",
    processing: "l/h",
    flow: "#/#",
    args: &[Arg::optional("BURST", "packets", "1", "most packets moved in a turn")],
    handlers: &[Handler::read("packets", "packets moved")],
    // The cost of an empty turn shows in the length of the other inputs' queues.
    observes: |plan, at| {
        if plan.is_live() {
            return Vec::new();
        }
        nearest(plan, at, true).into_iter().chain([at]).collect()
    },
    cost: "A pull per turn; where packets come from ports, many turns at once.",
    example: "InfiniteSource(LIMIT 5) -> a :: Queue; InfiniteSource(LIMIT 5) -> b :: Queue; \
        c :: Counter(COUNT_CALL 10 stop) -> Discard; r :: RoundRobinUnqueue; \
        a -> r -> c; b -> [1] r [1] -> c;",
    make: |make| Box::new(RoundRobinUnqueue::new(make)),
    writes: false,
    ..Class::here()
};

struct RoundRobinUnqueue {
    /// Packets per turn, if `BURST` is given.
    burst: Option<usize>,
    inputs: usize,
    outputs: usize,
    /// The input of the next turn.
    next: usize,
    /// Consecutive turns without a packet.
    missed: usize,
    count: u32,
}

impl RoundRobinUnqueue {
    fn new(make: &mut ElementBuilder<'_>) -> RoundRobinUnqueue {
        let burst = make.get::<i32>("BURST").map(|burst| match burst {
            0 => usize::MAX,
            burst => usize::try_from(burst).unwrap_or(1),
        });
        let (inputs, outputs) = (make.inputs(), make.outputs());
        RoundRobinUnqueue { burst, inputs, outputs, next: 0, missed: 0, count: 0 }
    }

    /// Gives the next input its turn; returns how many packets it has moved.
    fn turn(&mut self, cx: &mut Context, frame: &mut Frame) -> usize {
        let input = self.next;
        self.next = (input + 1) % self.inputs.max(1);
        let burst = self.burst.unwrap_or(1);
        let mut moved = 0;
        while moved < burst {
            let pulled = cx.pull(input, (burst - moved).min(frame.limit()), frame);
            if pulled == 0 {
                break;
            }
            moved += pulled;
            cx.out.emit_frame(input, frame);
        }
        moved
    }

    /// Rescheduling after a turn without packets.
    fn after_miss(&self, cx: &Context) -> Next {
        let mut ready = (0..self.inputs).map(|input| cx.ready(input));
        match ready.try_fold(0, |sum: usize, ready| Some(sum + ready?)) {
            // An input may have got packets since its turn, and is then not empty: no signal would
            // wake the task for it.
            Some(0) if self.missed >= self.inputs => cx.nothing_pulled(),
            None => Next::Idle,
            Some(_) => Next::Again,
        }
    }
}

impl Element for RoundRobinUnqueue {
    fn burst(&self) -> Option<usize> {
        self.burst
    }

    fn run(&mut self, cx: &mut Context, frame: &mut Frame) -> Next {
        let turns = if self.burst.is_some() { 1 } else { frame.limit() };
        let mut moved = 0;
        for _ in 0..turns {
            let packets = self.turn(cx, frame);
            moved += packets;
            if packets == 0 {
                self.missed = (self.missed + 1).min(self.inputs);
                break;
            }
            self.missed = 0;
        }
        self.count = self.count.wrapping_add(moved as u32);
        if moved > 0 { Next::Again } else { self.after_miss(cx) }
    }

    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        if self.inputs != self.outputs {
            return Err("number of outputs must equal to number of inputs".into());
        }
        cx.schedule();
        Ok(())
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<RoundRobinUnqueue>() {
            self.count = old.count;
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "packets" => Ok(format!("{} packets\n", self.count)),
            _ => Err(HandlerError::missing(handler)),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    /// The order in which packets of two queues leave.
    fn order(arguments: &str, frame_limit: usize) -> String {
        let mut run = Run::new(&format!(
            "InfiniteSource(a, LIMIT 5, BURST 5) -> a :: Queue; \
             InfiniteSource(b, LIMIT 3, BURST 3) -> b :: Queue; \
             r :: RoundRobinUnqueue({arguments}); c :: Collect; \
             a -> r -> c; b -> [1] r [1] -> c; Script(wait 1s, stop)"
        ))
        .frame_limit(frame_limit);
        run.run();
        assert_eq!(run.read("r.packets"), "8 packets\n");
        run.read("c.packets").replace("61", "a").replace("62", "b").replace('\n', "")
    }

    #[test]
    fn inputs_take_turns() {
        for frame_limit in [1, 7, 256] {
            assert_eq!(order("", frame_limit), "abababaa", "{frame_limit}");
            assert_eq!(order("2", frame_limit), "aabbaaba", "{frame_limit}");
            assert_eq!(order("0", frame_limit), "aaaaabbb", "{frame_limit}");
            assert_eq!(order("-3", frame_limit), "abababaa", "{frame_limit}");
        }
    }

    #[test]
    fn later_packets_wake_it() {
        for frame_limit in [1, 256] {
            let mut run = Run::new(
                "r :: RoundRobinUnqueue; TimedSource(10ms, a, LIMIT 9) -> Queue -> r -> c :: Collect; \
                 TimedSource(15ms, b, LIMIT 9) -> Queue -> [1] r [1] -> d :: Collect; \
                 Script(wait 1s, stop)",
            )
            .frame_limit(frame_limit);
            run.run();
            let times = |step: u64| {
                let times = (1..10).map(|number| (number * step * 1_000_000).to_string());
                times.collect::<Vec<_>>().join("\n")
            };
            assert_eq!((run.read("c.times"), run.read("d.times")), (times(10), times(15)));
        }
    }

    #[test]
    fn there_are_as_many_outputs_as_inputs() {
        let errors = Run::errors("r :: RoundRobinUnqueue; Idle -> r -> Discard; Idle -> [1] r");
        assert!(errors.contains("number of outputs must equal to number of inputs"), "{errors}");
    }
}
