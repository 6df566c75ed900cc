//! What the classes for IPv4 do.

use std::{
    net::Ipv4Addr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use linerate_graph::{Context, Element, HandlerError, Inert, Make, Scope, Value};
use linerate_memory::Frame;

use super::{
    family::Family,
    list::Order,
    route,
    sending::Sending,
    table::{Refusal, Route, Table},
};

/// What a class has of its own.
#[derive(Debug, Clone, Copy)]
pub(super) struct Style {
    pub(super) order: Order,
    /// Whether masks need not be those of prefixes.
    pub(super) odd_masks: bool,
    /// Who says that there is no route for an address.
    pub(super) no_route: Option<&'static str>,
}

impl Style {
    pub(super) const PLAIN: Style =
        Style { order: Order::ByAddress, odd_masks: false, no_route: Some("IPRouteTable") };
}

/// Times it is said that there is no route for a packet.
const COMPLAINTS: usize = 5;

/// How often that was said already, by all elements together.
#[derive(Debug, Default)]
struct Complained(AtomicUsize);

/// An element that looks IPv4 addresses up.
pub(super) struct IpLookup {
    style: Style,
    outputs: usize,
    table: Arc<Table<u32>>,
    sending: Sending<u32>,
    /// Whether it is the replica that carries out what is written to all.
    writes: bool,
}

/// The table of the replicas there are now: a new configuration has a new one.
type Current<A> = Mutex<Option<Arc<Table<A>>>>;

/// A new table for the first replica, and the same for the others.
pub(super) fn shared_table<A: Family>(
    make: &mut Make<'_>,
    new: impl FnOnce() -> Option<Table<A>>,
) -> Option<Arc<Table<A>>> {
    let current = make.shared(Current::<A>::default);
    let mut current = current.lock().unwrap_or_else(PoisonError::into_inner);
    if make.replica().index == 0 || current.is_none() {
        *current = new().map(Arc::new);
        if current.is_none() {
            make.error("no memory for a table of routes");
        }
    }
    current.clone()
}

impl IpLookup {
    pub(super) fn make(make: &mut Make<'_>, style: Style) -> Box<dyn Element> {
        let new = || Table::new(style.order, style.odd_masks).ok();
        let Some(table) = shared_table::<u32>(make, new) else { return Box::new(Inert) };
        let first = make.replica().index == 0;
        if first {
            configure(make, &table);
        }
        let (outputs, sending) = (make.outputs(), Sending::new(make.world.frame_limit));
        Box::new(IpLookup { style, outputs, table, sending, writes: first })
    }

    /// Reads a route a handler was given.
    fn route(&self, cx: &Context, text: &str, removing: bool) -> Result<Route<u32>, HandlerError> {
        let scope = Scope { plan: cx.plan(), names: &cx.world().names, name: cx.name() };
        let form = if removing { "[GATEWAY OUTPUT]" } else { "[GATEWAY] OUTPUT" };
        let wrong = || HandlerError::refused(format!("expected 'ADDR/MASK {form}'"));
        let route = route::parse(text, &scope, removing).ok_or_else(wrong)?;
        let least = if removing { -1 } else { 0 };
        if route.output < least || route.output >= self.outputs as i32 {
            return Err(HandlerError::refused("bad OUTPUT"));
        }
        Ok(route)
    }

    /// Carries out one command and says how to undo it.
    fn command(&self, cx: &Context, command: &str, text: &str) -> Result<Undo, HandlerError> {
        let route = self.route(cx, text, command == "remove")?;
        let refused = |refusal| HandlerError::refused(route::refusal(&route, refusal));
        match command {
            "remove" => self.table.remove(route).map(Undo::Add).map_err(refused),
            _ => {
                let old = self.table.add(route, command == "set").map_err(refused)?;
                Ok(old.map_or(Undo::Remove(route), Undo::Set))
            }
        }
    }

    /// Carries out commands, one a line: all or none of them.
    fn control(&self, cx: &Context, text: &str) -> Result<(), HandlerError> {
        let mut done = Vec::new();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (command, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            let outcome = match command {
                "add" | "set" | "remove" => self.command(cx, command, rest),
                _ => Err(HandlerError::refused(format!("bad command '{command}'"))),
            };
            match outcome {
                Ok(undo) => done.push(undo),
                Err(error) => {
                    done.into_iter().rev().for_each(|undo| undo.carry_out(&self.table));
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    #[cold]
    fn complain(&self, cx: &Context, who: &str) {
        let complained = cx.world().common::<Complained>();
        for address in self.sending.unrouted() {
            if complained.0.fetch_add(1, Relaxed) >= COMPLAINTS {
                complained.0.store(COMPLAINTS, Relaxed);
                return;
            }
            let address = Ipv4Addr::from(address);
            cx.console().report(&format!("{who}: no route for {address}\n"));
        }
    }
}

/// Puts the routes of the configuration into the table.
fn configure(make: &mut Make<'_>, table: &Table<u32>) {
    let outputs = make.outputs();
    let mut routes = Vec::new();
    for (at, text) in (1..).zip(make.rest()) {
        let scope = Scope { plan: make.plan(), names: &make.world.names, name: make.name() };
        match route::parse(&text, &scope, false) {
            None => {
                make.error(format!("argument {at} should be 'ADDR/MASK [GATEWAY] OUTPUT'"));
            }
            Some(route) if route.output < 0 || route.output >= outputs as i32 => {
                make.error(format!("argument {at} bad OUTPUT"));
            }
            Some(route) => routes.push(route),
        }
    }
    match table.load(&routes, false) {
        Ok(0) => {}
        Ok(more) => {
            let noun = if more > 1 { "routes" } else { "route" };
            make.warn(format!("{more} {noun} replaced by later versions"));
        }
        Err(Refusal::Mask) => make.error("a mask is not that of a prefix; see LinearIPLookup"),
        Err(_) => make.error("no memory to store the routes"),
    }
}

/// How a command is undone.
enum Undo {
    Add(Route<u32>),
    Set(Route<u32>),
    Remove(Route<u32>),
}

impl Undo {
    /// What was done can be undone: the room is still there.
    fn carry_out(self, table: &Table<u32>) {
        let _ = match self {
            Undo::Add(route) => table.add(route, false).map(drop),
            Undo::Set(route) => table.add(route, true).map(drop),
            Undo::Remove(route) => table.remove(route).map(drop),
        };
    }
}

impl Element for IpLookup {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        self.sending.look_up(cx, frame, &self.table);
        if self.sending.has_unrouted()
            && let Some(who) = self.style.no_route
        {
            self.complain(cx, who);
        }
        self.sending.send(cx, frame);
    }

    fn read(
        &mut self,
        cx: &mut Context,
        handler: &str,
        parameter: &str,
    ) -> Result<String, HandlerError> {
        match handler {
            "table" => {
                let mut text = String::new();
                self.table.for_each(|route| text += &(route::text(&route, true) + "\n"));
                Ok(text)
            }
            "lookup" => {
                let scope = Scope { plan: cx.plan(), names: &cx.world().names, name: cx.name() };
                let address = Ipv4Addr::parse(parameter.trim(), &scope);
                let address = address.map_err(|_| HandlerError::refused("expected IP address"))?;
                let (gateway, output) = self.table.lookup(address.to_bits());
                let output = output.cast_signed();
                Ok(match gateway {
                    0 => output.to_string(),
                    _ => format!("{output} {}", gateway.text()),
                })
            }
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(
        &mut self,
        cx: &mut Context,
        handler: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        if !self.writes {
            return Ok(String::new());
        }
        match handler {
            "add" | "set" | "remove" => self.command(cx, handler, value).map(drop)?,
            "ctrl" => self.control(cx, value)?,
            "flush" => {
                let full = |_| HandlerError::refused("no memory to change the table");
                self.table.flush().map_err(full)?;
            }
            _ => return Err(HandlerError::missing(handler)),
        }
        Ok(String::new())
    }
}
