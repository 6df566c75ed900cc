//! Handlers of `RadixIPsecLookup`, carried out beside the workers.

use std::{net::Ipv4Addr, sync::Arc};

use linerate_graph::{HandlerError, HandlerResult, OffWorker, Scope, Value};

use super::tunnels::Tunnels;
use crate::routing::{change::Change, handlers::lines};

/// The routes of an element, as its handlers see them.
pub(super) struct Routes {
    pub(super) tunnels: Arc<Tunnels>,
    pub(super) outputs: usize,
}

impl Routes {
    fn command(
        &self,
        change: &mut Change<'_, u32>,
        scope: &Scope<'_>,
        command: &str,
        text: &str,
    ) -> Result<(), String> {
        let removing = command == "remove";
        let form = if removing { " OUTPUT]" } else { "] OUTPUT" };
        let mut said = String::new();
        let collected = std::cell::RefCell::new(&mut said);
        let say = |text: &str| collected.borrow_mut().push_str(text);
        let way = self.tunnels.parse(text, scope, removing, &say);
        let least = if removing { -1 } else { 0 };
        let fits = |output: i32| (least..self.outputs as i32).contains(&output);
        let way = way
            .filter(|way| fits(way.target.output))
            .ok_or_else(|| format!("{}expected 'ADDR/MASK [GATEWAY{form}'", collected.borrow()))?;
        match command {
            "remove" => self.tunnels.remove_in(change, &way),
            _ => self.tunnels.add_in(change, &way, command == "set"),
        }
    }

    /// Carries out commands, one a line: all or none of them.
    fn control(&self, scope: &Scope<'_>, text: &str) -> Result<(), String> {
        let mut change = self.tunnels.change();
        for line in lines(text) {
            let (command, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            match command {
                "add" | "set" | "remove" => self.command(&mut change, scope, command, rest)?,
                _ => return Err(format!("bad command '{command}'")),
            }
        }
        self.tunnels.finish(change)
    }
}

impl OffWorker for Routes {
    fn read(&self, scope: &Scope<'_>, handler: &str, parameter: &str) -> HandlerResult {
        if handler == "table" {
            return Ok(self.tunnels.table());
        }
        let address = Ipv4Addr::parse(parameter.trim(), scope).map_err(|_| {
            HandlerError::refused(format!("expected IP address, not '{}'", parameter.trim()))
        })?;
        Ok(match self.tunnels.lookup(address.to_bits()) {
            None => "-1".into(),
            Some(target) if target.gateway == 0 => target.output.to_string(),
            Some(target) => format!("{} {}", target.output, Ipv4Addr::from(target.gateway)),
        })
    }

    fn write(&self, scope: &Scope<'_>, handler: &str, value: &str) -> HandlerResult {
        let done = match handler {
            "ctrl" => self.control(scope, value),
            command => {
                let mut change = self.tunnels.change();
                let done = self.command(&mut change, scope, command, value);
                done.and_then(|()| self.tunnels.finish(change))
            }
        };
        done.map(|()| String::new()).map_err(HandlerError::refused)
    }
}
