//! `StrideSched`: serves inputs in proportion to tickets.

use linerate_graph::{Arg, Class, Context, Element, ElementBuilder, Handler, HandlerResult, Right};
use linerate_memory::Frame;

use super::{
    FAMILY,
    merge::{Merge, Turn},
};
use linerate_element_support::tickets::Tickets;

pub(super) const CLASS: Class = Class {
    name: "StrideSched",
    reconfigured: Some(Right::Write),
    family: FAMILY,
    summary: "pulls from its inputs in proportion to tickets",
    description: "An input with twice the tickets of another is served twice as often, one with \
        none never. Inputs without packets are passed over and do not catch up. The handlers \
        `tickets0`, `tickets1`, ... read and set the tickets of an input.",
    ports: "1-/1",
    processing: "l/l",
    args: &[Arg::rest("TICKETS", "tickets", "tickets of each input, at most 32768")],
    handlers: &[Handler::value("config", "the tickets of all inputs")],
    cost: "Some ten cycles per packet; every input is pulled once per frame. One behind which \
        something else than a queue stands is pulled a packet at a time.",
    example: "InfiniteSource(LIMIT 5) -> a :: Queue; InfiniteSource(LIMIT 5) -> b :: Queue; \
        a, b => StrideSched(1, 2) -> Unqueue -> Counter(COUNT_CALL 10 stop) -> Discard;",
    make: |make| Box::new(Stride::new(make)),
    ..Class::here()
};

struct Stride {
    tickets: Tickets,
    merge: Merge,
}

impl Stride {
    fn new(make: &mut ElementBuilder<'_>) -> Stride {
        let inputs = make.inputs();
        Stride { tickets: Tickets::from_args(make, inputs, "input"), merge: Merge::new(make) }
    }

    /// The next input that has a packet has had a turn, and those before it; `false`
    /// when none has any now.
    fn turn(&mut self, cx: &mut Context) -> bool {
        let inputs = self.tickets.order().len();
        for at in 0..inputs {
            match self.merge.turn(cx, self.tickets.order()[at]) {
                Turn::Missed => {}
                Turn::Over => return false,
                Turn::Taken => {
                    self.tickets.advance(at + 1);
                    return true;
                }
            }
        }
        // The pull that finds no packet is one more: behind some the next one is.
        if !self.merge.has_packets() {
            self.tickets.advance(inputs);
        }
        false
    }
}

impl Element for Stride {
    fn pull(&mut self, cx: &mut Context, _: usize, count: usize, frame: &mut Frame) {
        self.merge.begin(cx, count);
        while self.turn(cx) {}
        self.merge.finish(cx, frame);
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Stride>() {
            self.tickets.take_state(&mut old.tickets);
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "config" => Ok(self.tickets.text()),
            _ => self.tickets.read(handler),
        }
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        self.tickets.write(cx, handler, value)?;
        cx.notify();
        Ok(String::new())
    }

    fn handler(&self, name: &str) -> Option<&'static Handler> {
        self.tickets.handler(name)
    }

    fn handler_names(&self) -> Vec<String> {
        self.tickets.handler_names()
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    fn order(tickets: &str, frame_limit: usize) -> String {
        let mut run = Run::new(&format!(
            "InfiniteSource(\\<0a>, LIMIT 30) -> a :: Queue; \
                InfiniteSource(\\<0b>, LIMIT 5) -> b :: Queue; \
                InfiniteSource(\\<0c>, LIMIT 40) -> c :: Queue; \
                a, b, c => StrideSched({tickets}) -> u :: Unqueue(ACTIVE false) -> out :: Collect; \
                TimedSource(1ms, LIMIT 1) -> Counter(COUNT_CALL 1 u.active true) -> Discard; \
                TimedSource(1, LIMIT 0, STOP true) -> Discard"
        ))
        .frame_limit(frame_limit);
        run.run();
        run.read("out.packets").lines().map(|line| &line[1..]).collect()
    }

    #[test]
    fn tickets_share_the_packets() {
        let batch = order("1, 2, 4", 256);
        assert_eq!(batch.len(), 75);
        let share = |of: char| batch[..14].chars().filter(|c| *c == of).count();
        assert_eq!((share('a'), share('b'), share('c')), (2, 4, 8), "{batch}");
        assert!(order("1, 0, 1", 256).chars().all(|c| c != 'b'));
    }

    #[test]
    fn the_order_is_that_of_click() {
        for (tickets, expected) in [
            (
                "1, 2, 4",
                "ccbccbaccbccbaccbccaccccaccccaccccaccccaccccaccccaccccaaaaaaaaaaaaaaaaaaaaa",
            ),
            (
                "3, 5, 7",
                "cbcabccbacbccbaccaccacccaccaccacccaccaccacccaccaccacccaccaccacaaaaaaaaaaaaa",
            ),
        ] {
            for frame_limit in [1, 7, 256] {
                assert_eq!(order(tickets, frame_limit), expected, "{tickets} by {frame_limit}");
            }
        }
    }

    #[test]
    fn handlers() {
        let mut run = Run::new("Idle -> s :: StrideSched(3) -> Discard");
        assert_eq!(run.read("s.tickets0"), "3");
        run.write("s.tickets0", "40000").unwrap();
        assert_eq!(run.read("s.tickets0"), "32768");
        assert_eq!(run.read("s.config"), "32768");
        let errors = Run::errors("Idle -> StrideSched(1, 2) -> Discard");
        assert!(errors.contains("need 1 arguments, one per input port"), "{errors}");
    }
}
