//! Slow path of the flow cache, as a trait.

use std::sync::Arc;

use crate::conntrack::{self, Tracked};
use crate::key::Key;
use crate::pipeline::{Continuation, Decision, Punt, decide};
use crate::switch::Switch;
use crate::table::Snapshot;
use crate::wire::Ct;

/// Decides packets without an entry, and does the steps that the cache cannot do.
pub trait Tables {
    /// Takes the newest tables if there are newer ones that can be had at once. Returns true if it
    /// did.
    fn refresh(&self, snapshot: &mut Arc<Snapshot>) -> bool;

    /// Decides a packet.
    fn decide(
        &self,
        snapshot: &Snapshot,
        key: &Key,
        from: Option<&Continuation>,
        now: u64,
    ) -> Decision;

    /// Returns true if a decision of older tables may be another by now, for packets of this key.
    fn concerns(&self, snapshot: &Snapshot, since: u64, decision: &Decision, key: &Key) -> bool {
        match snapshot.changes_since(since) {
            Some(mut changes) => changes.any(|change| decision.concerns(change, key)),
            None => true,
        }
    }

    /// Looks the connection of a packet up.
    fn track(&self, action: &Ct, zone: u16, key: &mut Key, packet: &mut [u8], now: u64) -> Tracked;

    /// Sends a packet to controllers.
    fn punt(&self, punt: &Arc<Punt>, key: &Key, packet: &[u8]) -> bool;
}

impl Tables for Switch {
    #[inline]
    fn refresh(&self, snapshot: &mut Arc<Snapshot>) -> bool {
        Switch::refresh(self, snapshot)
    }

    fn decide(
        &self,
        snapshot: &Snapshot,
        key: &Key,
        from: Option<&Continuation>,
        now: u64,
    ) -> Decision {
        decide(snapshot, self.shared_state(), self, key, from, now)
    }

    fn track(&self, action: &Ct, zone: u16, key: &mut Key, packet: &mut [u8], now: u64) -> Tracked {
        self.shared_state().tracker.track(action, zone, key, packet, now)
    }

    fn punt(&self, punt: &Arc<Punt>, key: &Key, packet: &[u8]) -> bool {
        Switch::punt(self, punt, key, packet)
    }
}

/// Clears the connection fields of a packet.
pub(super) fn clear_connection(key: &mut Key) {
    conntrack::clear(key);
}
