//! Ports served in proportion to tickets.
//!
//! Stride scheduling (Waldspurger and Weihl, 1995): each port has a pass, the one
//! with the smallest is next, and its pass grows by 65536 divided by its tickets.
//! Among equals the one that has not been served last goes first, as Click's list
//! has it.

use linerate_graph::{
    Context, ElementBuilder, Handler, HandlerError, HandlerResult, parse_integer,
};

use crate::handler_values::port_of;

const STRIDE: u32 = 1 << 16;
const TICKETS_LIMIT: u32 = 1 << 15;

/// Handler of `tickets0` and its like, one per port.
const HANDLER: Handler = Handler::value("tickets", "tickets of a port");

/// The ports of an element with their tickets.
#[derive(Debug)]
pub struct Tickets {
    ports: Vec<Port>,
    /// Ports with tickets, smallest pass first.
    order: Vec<usize>,
}

#[derive(Debug)]
struct Port {
    tickets: u32,
    stride: u32,
    /// Wraps around.
    pass: u32,
}

impl Port {
    fn set(&mut self, tickets: u32) {
        self.tickets = tickets;
        self.stride = STRIDE.checked_div(tickets).unwrap_or(0);
    }
}

impl Tickets {
    /// Reads the arguments, one for each of `count` ports; `side` is the name of these in errors.
    pub fn from_args(make: &mut ElementBuilder<'_>, count: usize, side: &str) -> Tickets {
        let mut given = make.rest();
        if given.len() != count {
            make.error(format!("need {count} arguments, one per {side} port"));
            given.clear();
        }
        let mut tickets = Tickets { ports: Vec::new(), order: Vec::with_capacity(count) };
        for at in 0..count {
            let number = given.get(at).map_or(0, |text| from_arg(make, at, text));
            let mut port = Port { tickets: 0, stride: 0, pass: 0 };
            port.set(number);
            port.pass = port.stride;
            tickets.ports.push(port);
        }
        // Last first, so that the first is served first when passes are equal.
        for port in (0..count).rev() {
            if tickets.ports[port].tickets > 0 {
                tickets.insert(port);
            }
        }
        tickets
    }

    /// The ports that have tickets, in the order of their turns.
    #[inline]
    pub fn order(&self) -> &[usize] {
        &self.order
    }

    /// The first `count` ports of the order have had a turn.
    #[inline]
    pub fn advance(&mut self, count: usize) {
        for port in &self.order[..count] {
            let port = &mut self.ports[*port];
            port.pass = port.pass.wrapping_add(port.stride);
        }
        for waiting in (0..count).rev() {
            self.settle(waiting);
        }
    }

    /// Puts the first of the order in its place, before those of the same pass; the
    /// `waiting` ones behind it are to be put in theirs next.
    #[inline]
    fn settle(&mut self, waiting: usize) {
        let Tickets { ports, order } = self;
        let Some(&port) = order.first() else { return };
        let pass = ports[port].pass;
        let mut at = 0;
        while let Some(&next) = order.get(at + 1)
            && (at < waiting || pass.wrapping_sub(ports[next].pass).cast_signed() > 0)
        {
            order[at] = next;
            at += 1;
        }
        order[at] = port;
    }

    fn insert(&mut self, port: usize) {
        self.order.insert(0, port);
        self.settle(0);
    }

    fn set(&mut self, port: usize, tickets: u32) {
        let before = self.ports[port].tickets;
        self.ports[port].set(tickets);
        if tickets == 0 {
            self.order.retain(|other| *other != port);
        } else if before == 0 {
            let first = self.order.first().map(|first| self.ports[*first].pass);
            let stride = self.ports[port].stride;
            self.ports[port].pass = first.map_or(0, |pass| pass.wrapping_add(stride));
            self.insert(port);
        }
    }

    /// Goes on where another one was that had the same tickets.
    pub fn take_state(&mut self, old: &mut Tickets) {
        let same = |(new, old): (&Port, &Port)| new.tickets == old.tickets;
        if self.ports.len() == old.ports.len() && self.ports.iter().zip(&old.ports).all(same) {
            std::mem::swap(self, old);
        }
    }

    /// The tickets of all ports, as they are configured.
    pub fn text(&self) -> String {
        let tickets: Vec<String> = self.ports.iter().map(|port| port.tickets.to_string()).collect();
        tickets.join(", ")
    }

    /// Reads one of its handlers.
    pub fn read(&self, handler: &str) -> HandlerResult {
        Ok(self.ports[self.port_of(handler)?].tickets.to_string())
    }

    /// Writes one of its handlers.
    pub fn write(&mut self, cx: &Context, handler: &str, value: &str) -> Result<(), HandlerError> {
        let port = self.port_of(handler)?;
        let number = parse_integer(value.trim())
            .ok_or_else(|| HandlerError::refused("tickets value must be integer"))?;
        if number < 0 {
            return Err(HandlerError::refused("number of tickets must be >= 0"));
        }
        if number > TICKETS_LIMIT.into() {
            let text = format!("warning: port {port}'s tickets reduced to {TICKETS_LIMIT}\n");
            cx.console().report(&text);
        }
        self.set(port, number.min(TICKETS_LIMIT.into()) as u32);
        Ok(())
    }

    fn port_of(&self, handler: &str) -> Result<usize, HandlerError> {
        let port = port_of(handler, HANDLER.name, self.ports.len());
        port.ok_or_else(|| HandlerError::missing(handler))
    }

    /// The handler of that name.
    pub fn handler(&self, name: &str) -> Option<&'static Handler> {
        self.port_of(name).ok().map(|_| &HANDLER)
    }

    /// The names of its handlers.
    pub fn handler_names(&self) -> Vec<String> {
        (0..self.ports.len()).map(|port| format!("{}{port}", HANDLER.name)).collect()
    }
}

/// The tickets an argument gives.
fn from_arg(make: &mut ElementBuilder<'_>, at: usize, text: &str) -> u32 {
    let number = parse_integer(text).filter(|number| i32::try_from(*number).is_ok());
    let Some(number) = number else {
        make.error(format!("argument {at} should be number of tickets (integer)"));
        return 0;
    };
    if number < 0 {
        make.error(format!("argument {at} (number of tickets) must be >= 0"));
    }
    if number > TICKETS_LIMIT.into() {
        make.warn(format!("input {at}'s tickets reduced to {TICKETS_LIMIT}"));
    }
    number.clamp(0, TICKETS_LIMIT.into()) as u32
}
