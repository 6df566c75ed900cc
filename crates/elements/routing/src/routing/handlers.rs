//! Handlers of the classes for IPv4, carried out beside the workers.

use std::{net::Ipv4Addr, sync::Arc};

use linerate_graph::{HandlerError, HandlerResult, OffWorker, Scope, Value};

use super::{
    change::Change,
    family::Family as _,
    route::{self, Route},
    table::{Refusal, Table},
};

/// The table of an element, as its handlers see it.
pub(super) struct Routes4 {
    pub(super) table: Arc<Table<u32>>,
    pub(super) outputs: usize,
}

impl Routes4 {
    /// Reads a route a handler was given.
    fn route(&self, scope: &Scope<'_>, text: &str, least: i32) -> Result<Route<u32>, HandlerError> {
        let removing = least < 0;
        let form = if removing { "[GATEWAY OUTPUT]" } else { "[GATEWAY] OUTPUT" };
        let wrong = || HandlerError::refused(format!("expected 'ADDR/MASK {form}'"));
        let route = route::parse(text, scope, removing).ok_or_else(wrong)?;
        let (most, lowest) = route.outputs();
        if lowest < least || most >= self.outputs as i32 {
            return Err(HandlerError::refused("bad OUTPUT"));
        }
        Ok(route)
    }

    /// One command, of those that `change` is made of.
    fn command(
        &self,
        change: &mut Change<'_, u32>,
        scope: &Scope<'_>,
        command: &str,
        text: &str,
    ) -> Result<Route<u32>, HandlerError> {
        let least = if command == "remove" { -1 } else { 0 };
        let route = self.route(scope, text, least)?;
        let done = match command {
            "remove" => change.remove(&route),
            _ => change.add(&route, command == "set").map(drop),
        };
        done.map_err(|refusal| refused(&route, refusal))?;
        Ok(route)
    }

    /// Carries out commands, one a line: all or none of them.
    fn control(&self, scope: &Scope<'_>, text: &str) -> Result<(), HandlerError> {
        let mut change = self.table.change();
        let mut last = None;
        for line in lines(text) {
            let (command, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            last = Some(match command {
                "add" | "set" | "remove" => self.command(&mut change, scope, command, rest)?,
                _ => return Err(HandlerError::refused(format!("bad command '{command}'"))),
            });
        }
        let finished = change.finish();
        match (finished, last) {
            (Err(refusal), Some(route)) => Err(refused(&route, refusal)),
            _ => Ok(()),
        }
    }

    /// Replaces all routes by those given, one a line.
    fn reload(&self, scope: &Scope<'_>, text: &str) -> Result<(), HandlerError> {
        let routes: Result<Vec<_>, _> =
            lines(text).map(|line| self.route(scope, line, 0)).collect();
        self.table.load(&routes?, true).map(drop).map_err(full)
    }
}

/// The lines of a value that say something.
pub(super) fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty())
}

fn refused(route: &Route<u32>, refusal: Refusal<u32>) -> HandlerError {
    HandlerError::refused(route::refusal(route, refusal))
}

/// A table as a whole was not changed.
pub(super) fn full<A>(refusal: Refusal<A>) -> HandlerError {
    HandlerError::refused(match refusal {
        Refusal::Mask => "a mask is not that of a prefix",
        _ => "no memory to change the table",
    })
}

impl OffWorker for Routes4 {
    fn read(&self, scope: &Scope<'_>, handler: &str, parameter: &str) -> HandlerResult {
        match handler {
            "table" => {
                let mut text = String::new();
                self.table.for_each(|route| text += &(route::text(&route, true) + "\n"));
                Ok(text)
            }
            "lookup" => {
                let address = Ipv4Addr::parse(parameter.trim(), scope);
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

    fn write(&self, scope: &Scope<'_>, handler: &str, value: &str) -> HandlerResult {
        match handler {
            "add" | "set" | "remove" => {
                let mut change = self.table.change();
                let route = self.command(&mut change, scope, handler, value)?;
                change.finish().map_err(|refusal| refused(&route, refusal))?;
            }
            "ctrl" => self.control(scope, value)?,
            "reload" => self.reload(scope, value)?,
            "flush" => self.table.load(&[], true).map(drop).map_err(full)?,
            _ => return Err(HandlerError::missing(handler)),
        }
        Ok(String::new())
    }
}
