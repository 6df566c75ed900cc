//! Routes of an element and the tunnels they lead into, shared by its replicas and its handlers.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard},
};

use linerate_graph::Scope;

use super::target::{self, ParsedTunnel, Target, TunnelRoute};
use crate::{
    ipsec::association::{Association, Associations},
    routing::{
        change::Change,
        list::Order,
        table::{Refusal, Table},
    },
};

/// See the module.
pub(super) struct Tunnels {
    /// Its outputs are places in `targets`, of which none is ever taken away.
    table: Table<u32>,
    targets: RwLock<Vec<Target>>,
    /// By security parameters index, for packets that arrive.
    indices: RwLock<HashMap<u32, u32>>,
    associations: Arc<Associations>,
}

impl Tunnels {
    /// `None` when there is no memory for it.
    pub(super) fn new(associations: Arc<Associations>) -> Option<Tunnels> {
        let table = Table::new(Order::LastFreed, false).ok()?;
        Some(Tunnels {
            table,
            targets: RwLock::default(),
            indices: RwLock::default(),
            associations,
        })
    }

    pub(super) fn targets(&self) -> RwLockReadGuard<'_, Vec<Target>> {
        self.targets.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The place of the target of an address, beyond all others without a route.
    pub(super) fn place(&self, address: u32) -> usize {
        self.table.lookup(address).1 as usize
    }

    /// The number of the association of packets that arrive with that index.
    pub(super) fn association(&self, index: u32) -> Option<u32> {
        let indices = self.indices.read().unwrap_or_else(PoisonError::into_inner);
        indices.get(&index).copied()
    }

    /// Reads a route, and notes its tunnel.
    pub(super) fn parse(
        &self,
        text: &str,
        scope: &Scope<'_>,
        removing: bool,
        say: &dyn Fn(&str),
    ) -> Option<TunnelRoute> {
        let (mut way, written) = target::parse(text, scope, removing, say)?;
        if let Some(ParsedTunnel { index, start, association }) = written {
            let number = self.associations.add(association)?;
            (way.target.index, way.target.association) = (index, number);
            if index == 0 || start == 0 {
                say("SATable <unknown>: Attempt to insert data failed. Invalid arguments\n");
            } else {
                let mut indices = self.indices.write().unwrap_or_else(PoisonError::into_inner);
                indices.entry(index).or_insert(number);
            }
        }
        Some(way)
    }

    /// Adds a route, in place of one for the same prefix where `replace` says so.
    pub(super) fn add(&self, way: &TunnelRoute, replace: bool) -> Result<(), String> {
        let mut change = self.change();
        self.add_in(&mut change, way, replace)?;
        self.finish(change)
    }

    pub(super) fn change(&self) -> Change<'_, u32> {
        self.table.change()
    }

    pub(super) fn finish(&self, change: Change<'_, u32>) -> Result<(), String> {
        change.finish().map_err(|_| "no memory to change the table".into())
    }

    pub(super) fn add_in(
        &self,
        change: &mut Change<'_, u32>,
        way: &TunnelRoute,
        replace: bool,
    ) -> Result<(), String> {
        let place = {
            let mut targets = self.targets.write().unwrap_or_else(PoisonError::into_inner);
            targets.push(way.target);
            targets.len() - 1
        };
        let added = change.add(&way.route(place), replace);
        added.map(drop).map_err(|refusal| self.refusal(way, &refusal))
    }

    /// Removes a route. Where it leads must be as it is, unless the output is
    /// below zero.
    pub(super) fn remove_in(
        &self,
        change: &mut Change<'_, u32>,
        way: &TunnelRoute,
    ) -> Result<(), String> {
        let absent = || format!("route '{}' not found", target::text(way, None, false));
        let mut route = way.route(0);
        if way.target.output >= 0 {
            let old = change.find(&route).ok_or_else(absent)?;
            let leads = self.target(old.output);
            if (leads.gateway, leads.output) != (way.target.gateway, way.target.output) {
                return Err(absent());
            }
        }
        route.output = -1;
        change.remove(&route).map_err(|_| absent())
    }

    fn target(&self, place: i32) -> Target {
        let none = Target { gateway: 0, output: -1, index: 0, association: 0 };
        self.targets().get(place as usize).copied().unwrap_or(none)
    }

    fn refusal(&self, way: &TunnelRoute, refusal: &Refusal<u32>) -> String {
        match refusal {
            Refusal::Exists(old) => {
                let old = TunnelRoute { target: self.target(old.output), ..way.clone() };
                format!("conflict with existing route '{}'", self.text(&old, false))
            }
            Refusal::Mask => {
                format!("route '{}' is not for a prefix", target::text(way, None, false))
            }
            _ => format!("no memory to store route '{}'", target::text(way, None, false)),
        }
    }

    fn text(&self, way: &TunnelRoute, columns: bool) -> String {
        let keys: Option<Arc<Association>> = self.associations.get(way.target.association);
        target::text(way, keys.as_deref(), columns)
    }

    /// All routes, a line each or more.
    pub(super) fn table(&self) -> String {
        let mut text = String::new();
        self.table.for_each(|route| {
            let target = self.target(route.output);
            let way = TunnelRoute { address: route.address, mask: route.mask, target };
            text += &(self.text(&way, true) + "\n");
        });
        text
    }

    /// The target of an address.
    pub(super) fn lookup(&self, address: u32) -> Option<Target> {
        self.targets().get(self.place(address)).copied()
    }
}
