//! `StrideSwitch`: packets to the outputs in proportion to tickets.
//!
//! Stride scheduling (Waldspurger and Weihl, 1995): each output has a pass, the
//! one with the smallest is served and advances by a stride that is the smaller
//! the more tickets it has. Among equal passes the one served last comes first,
//! as in Click.

use linerate_graph::{Arg, Class, Context, Element, Handler, HandlerError, Make, parse_integer};
use linerate_memory::Frame;

use super::{FAMILY, split};
use crate::written::port_of;

/// Drop reason.
const NO_TICKETS: usize = 0;

const STRIDE: u32 = 1 << 16;
const TICKETS_LIMIT: u32 = 1 << 15;

/// One per output, which the element lists.
const TICKETS: Handler = Handler::value("tickets", "tickets of an output");

pub(super) const CLASS: Class = Class {
    name: "StrideSwitch",
    family: FAMILY,
    summary: "sends packets by its outputs in proportion to tickets",
    description: "One argument per output: its tickets, at most 32768. An output without tickets \
        gets nothing. Handlers `tickets0`, `tickets1`... read and set them.",
    ports: "1/1-",
    processing: "h/h",
    args: &[Arg::rest("TICKETS", "tickets per output", "how often each output is chosen")],
    handlers: &[Handler::value("config", "the tickets of all outputs")],
    drops: &["no output has tickets"],
    cost: "A few cycles per packet and output; packets are not touched.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> s :: StrideSwitch(1, 2) -> Discard; \
        s [1] -> Discard;",
    make: |make| Box::new(StrideSwitch::new(make)),
    ..Class::EMPTY
};

struct Client {
    tickets: u32,
    stride: u32,
    pass: u32,
}

impl Client {
    fn set(&mut self, tickets: u32) {
        self.tickets = tickets;
        self.stride = STRIDE.checked_div(tickets).unwrap_or(0);
    }
}

struct StrideSwitch {
    clients: Vec<Client>,
    /// Outputs that have tickets, the next to be served first.
    order: Vec<usize>,
}

impl StrideSwitch {
    fn new(make: &mut Make<'_>) -> StrideSwitch {
        let (given, outputs) = (make.rest(), make.outputs());
        let mut switch = StrideSwitch { clients: Vec::new(), order: Vec::new() };
        if given.len() != outputs {
            make.error(format!("need {outputs} arguments, one per output port"));
            return switch;
        }
        for (at, text) in given.iter().enumerate() {
            let mut tickets = 0;
            let number = parse_integer(text).filter(|number| i32::try_from(*number).is_ok());
            match number {
                None => {
                    make.error(format!("argument {at} should be number of tickets (integer)"));
                }
                Some(number) if number < 0 => {
                    make.error(format!("argument {at} (number of tickets) must be >= 0"));
                }
                Some(number) => {
                    if number > TICKETS_LIMIT.into() {
                        make.warn(format!("input {at}'s tickets reduced to {TICKETS_LIMIT}"));
                    }
                    tickets = number.min(TICKETS_LIMIT.into()) as u32;
                }
            }
            let mut client = Client { tickets: 0, stride: 0, pass: 0 };
            client.set(tickets);
            client.pass = client.stride;
            switch.clients.push(client);
        }
        // Last first, so that the first is served first when passes are equal.
        for output in (0..outputs).rev() {
            if switch.clients[output].tickets > 0 {
                switch.insert(output);
            }
        }
        switch
    }

    /// Puts an output in its place: before those of the same pass.
    fn insert(&mut self, output: usize) {
        let pass = self.clients[output].pass;
        let clients = &self.clients;
        let later = |other: &usize| pass.wrapping_sub(clients[*other].pass).cast_signed() <= 0;
        let at = self.order.iter().position(later).unwrap_or(self.order.len());
        self.order.insert(at, output);
    }

    /// The output to serve.
    fn next(&mut self) -> Option<usize> {
        let &output = self.order.first()?;
        let client = &mut self.clients[output];
        client.pass = client.pass.wrapping_add(client.stride);
        let pass = client.pass;
        let clients = &self.clients;
        let earlier = |other: &&usize| pass.wrapping_sub(clients[**other].pass).cast_signed() > 0;
        let ahead = self.order[1..].iter().take_while(earlier).count();
        self.order[..=ahead].rotate_left(1);
        Some(output)
    }

    fn set_tickets(&mut self, output: usize, tickets: u32) {
        let old = self.clients[output].tickets;
        self.clients[output].set(tickets);
        if tickets == 0 && old > 0 {
            self.order.retain(|other| *other != output);
        } else if tickets > 0 && old == 0 {
            let first = self.order.first().map(|first| self.clients[*first].pass);
            let stride = self.clients[output].stride;
            self.clients[output].pass = first.map_or(0, |pass| pass.wrapping_add(stride));
            self.insert(output);
        }
    }
}

impl Element for StrideSwitch {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        if self.order.is_empty() {
            return cx.drop_frame(frame, NO_TICKETS);
        }
        split(cx, frame, |_, _| self.next().unwrap_or(0));
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> Result<String, HandlerError> {
        if handler == "config" {
            let tickets: Vec<String> =
                self.clients.iter().map(|client| client.tickets.to_string()).collect();
            return Ok(tickets.join(", "));
        }
        let output = port_of(handler, "tickets", self.clients.len());
        let output = output.ok_or_else(|| HandlerError::missing(handler))?;
        Ok(self.clients[output].tickets.to_string())
    }

    fn write(
        &mut self,
        cx: &mut Context,
        handler: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        let output = port_of(handler, "tickets", self.clients.len());
        let output = output.ok_or_else(|| HandlerError::missing(handler))?;
        let number = parse_integer(value.trim())
            .ok_or_else(|| HandlerError::refused("tickets value must be integer"))?;
        if number < 0 {
            return Err(HandlerError::refused("number of tickets must be >= 0"));
        }
        if number > TICKETS_LIMIT.into() {
            let text = format!("warning: port {output}'s tickets reduced to {TICKETS_LIMIT}\n");
            cx.console().report(&text);
        }
        self.set_tickets(output, number.min(TICKETS_LIMIT.into()) as u32);
        Ok(String::new())
    }

    fn handler(&self, name: &str) -> Option<&'static Handler> {
        port_of(name, "tickets", self.clients.len()).map(|_| &TICKETS)
    }

    fn handler_names(&self) -> Vec<String> {
        (0..self.clients.len()).map(|output| format!("tickets{output}")).collect()
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
