//! `StrideSwitch`: outputs in proportion to tickets.

use linerate_graph::{
    Arg, Class, Context, DropReason, Element, ElementBuilder, Handler, HandlerResult, Right,
};
use linerate_memory::Frame;

use super::{FAMILY, split};
use linerate_element_support::tickets::Tickets;

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    /// no output has tickets
    NoTickets,
}

pub(super) const CLASS: Class = Class {
    name: "StrideSwitch",
    reconfigured: Some(Right::Write),
    family: FAMILY,
    summary: "sends packets by its outputs in proportion to tickets",
    description: "One argument per output: its tickets, at most 32768. An output without tickets \
        gets nothing. Handlers `tickets0`, `tickets1`... read and set them.",
    ports: "1/1-",
    processing: "h/h",
    args: &[Arg::rest("TICKETS", "tickets per output", "how often each output is chosen")],
    handlers: &[Handler::value("config", "the tickets of all outputs")],
    drops: Reason::REASONS,
    cost: "A few cycles per packet and output; packets are not touched.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> s :: StrideSwitch(1, 2) -> Discard; \
        s [1] -> Discard;",
    order_dependent: true,
    make: |make| Box::new(StrideSwitch::new(make)),
    ..Class::here()
};

struct StrideSwitch {
    tickets: Tickets,
}

impl StrideSwitch {
    fn new(make: &mut ElementBuilder<'_>) -> StrideSwitch {
        let outputs = make.outputs();
        StrideSwitch { tickets: Tickets::from_args(make, outputs, "output") }
    }
}

impl Element for StrideSwitch {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        if self.tickets.order().is_empty() {
            return cx.drop_frame(frame, Reason::NoTickets);
        }
        split(cx, frame, |_, _| {
            let output = self.tickets.order()[0];
            self.tickets.advance(1);
            output
        });
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "config" => Ok(self.tickets.text()),
            _ => self.tickets.read(handler),
        }
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        self.tickets.write(cx, handler, value)?;
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

    const THREE: &str = "InfiniteSource(LIMIT 60, STOP true) -> s :: StrideSwitch(1, 2, 3)
            -> a :: Counter -> Discard; s [1] -> b :: Counter -> Discard;
         s [2] -> c :: Counter -> Discard;";

    #[test]
    fn outputs_get_their_share() {
        for frame_limit in [1, 7, 256] {
            let mut run = Run::new(THREE).frame_limit(frame_limit);
            run.run();
            let counts = ["a", "b", "c"].map(|name| run.read(&format!("{name}.count")));
            assert_eq!(counts, ["10", "20", "30"]);
        }
    }

    #[test]
    fn tickets_can_be_changed() {
        let mut run = Run::new(THREE);
        for (handler, value) in [("s.tickets0", "0"), ("s.tickets1", "99999"), ("s.tickets2", "0")]
        {
            run.write(handler, value).unwrap();
        }
        assert_eq!(run.read("s.config"), "0, 32768, 0");
        assert_eq!(run.output(), "warning: port 1's tickets reduced to 32768\n");
        run.run();
        assert_eq!(run.read("b.count"), "60");
        for (value, refusal) in
            [("x", "tickets value must be integer"), ("-1", "number of tickets must be >= 0")]
        {
            assert_eq!(run.write("s.tickets0", value).unwrap_err().to_string(), refusal);
        }
        assert!(run.write("s.tickets3", "1").is_err());
        assert!(run.read("s.handlers").contains("tickets2\trw\n"));
    }

    #[test]
    fn without_tickets_nothing_leaves() {
        let mut run =
            Run::new("InfiniteSource(LIMIT 5, STOP true) -> s :: StrideSwitch(0) -> Discard");
        run.run();
        assert_eq!(run.read("s.drops"), "5\tno output has tickets\n");
    }

    #[test]
    fn errors_are_click_s() {
        for (config, error) in [
            ("1, 2", "need 1 arguments, one per output port"),
            ("a", "argument 0 should be number of tickets (integer)"),
            ("-1", "argument 0 (number of tickets) must be >= 0"),
        ] {
            assert_eq!(
                Run::errors(&format!("Idle -> StrideSwitch({config}) -> Discard")),
                format!(
                    "config:1: While configuring 'StrideSwitch@2 :: StrideSwitch':\n  {error}\n"
                )
            );
        }
        let mut run = Run::new("Idle -> s :: StrideSwitch(100000) -> Discard");
        assert_eq!(run.read("s.tickets0"), "32768");
        assert_eq!(
            run.output(),
            "config:1: While configuring 's :: StrideSwitch':\n  \
             warning: input 0's tickets reduced to 32768\n"
        );
    }
}
