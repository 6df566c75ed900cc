//! What becomes of a packet: the way through the tables, and what it comes to.
//!
//! [`decide`] is the slow path. It walks the tables of a [`Snapshot`] for one key and returns a
//! [`Decision`]: steps that are simple to carry out, and which bits of the key they depend on, so that
//! they hold for every packet with the same ones.

mod continuations;
mod decision;
mod outside;

pub use continuations::Continuations;
pub use decision::{Continuation, Decision, Depends, Learnt, Punt, Rest, Select, Step, Suspended};
pub use outside::{Learning, Memory, Nobody, Outside};

use crate::key::Key;
use crate::table::Snapshot;
use crate::wire::Action;

/// What becomes of a packet with this key, and of all that are like it.
///
/// `from` is what the packet goes on with, where it has come here before; [`Key::continuation`] has its
/// number. `now` is the time of the steady clock in nanoseconds.
#[must_use]
pub fn decide(
    _snapshot: &Snapshot,
    _memory: &Memory,
    _outside: &dyn Outside,
    _key: &Key,
    _from: Option<&Continuation>,
    _now: u64,
) -> Decision {
    Decision::default()
}

/// What becomes of a packet of a controller, whose actions these are. The key has its port, and what else
/// the controller said of it. The decision holds for this packet alone.
#[must_use]
pub fn packet_out(
    _snapshot: &Snapshot,
    _memory: &Memory,
    _outside: &dyn Outside,
    _key: &Key,
    _actions: &[Action],
    _now: u64,
) -> Decision {
    Decision::default()
}

/// As [`decide`], and says how it came to that, a line for each thing that happened. Nothing is learnt, and
/// no packet is counted.
#[must_use]
pub fn trace(
    _snapshot: &Snapshot,
    _memory: &Memory,
    _key: &Key,
    _from: Option<&Continuation>,
    _now: u64,
) -> (Decision, String) {
    (Decision::default(), String::new())
}
