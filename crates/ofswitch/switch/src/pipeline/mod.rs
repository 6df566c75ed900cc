//! Pipeline: the way of a packet through the tables, and the decision it ends in.
//!
//! [`decide`] is the slow path. It walks the tables of a [`Snapshot`] for one key and returns a
//! [`Decision`]: steps that are simple to carry out, and the bits of the key they depend on, so
//! that they hold for every packet with the same bits.
//!
//! # Guarantees of a decision
//!
//! Every key that has the same bits as this one where [`Decision::mask`] has them gets the same
//! steps from the same tables. Few bits are looked at: those that flows of the tables match, those
//! that are copied, those an action's effect depends on. A field that an action has set is not a
//! bit of the packet any more, so matching it costs nothing.
//!
//! # Agreement with Open vSwitch, and differences
//!
//! Where the specification leaves it open, or Nicira's extensions define it, things are as in Open
//! vSwitch: a field that is not there is not set, but for a tag's number, which a tag comes with; a
//! new tag has number 0; a packet whose time to live ends is sent to controllers, and the actions
//! of its flow end; lookups are at most 64 deep where they do not go to a later table, and at most
//! 4,096, and a packet has at most 16,384 steps; beyond that it is dropped. `ct` without a table
//! changes no field that tables match; its fields are zero then.
//!
//! Hashes are our own: `multipath`, `bundle` and groups that select may choose another one of
//! several. The fields of a tag behind the first cannot be matched before the first is popped. A
//! packet may have any number of labels. `encap(mpls)` of a frame that carries a label has one that
//! is the last, as Ethernet follows it; `decap()` of the last label without a packet type drops the
//! packet. After `check_pkt_larger` all remaining actions are done in two ways; Open vSwitch does
//! so with the rest of the flow's actions alone, and goes on with the packet as it was where the
//! flow was resubmitted to. An `exit` inside `clone` ends all, with the action set. `sample` is
//! carried out by the exporter; `pop_queue` leads back to no queue, also after several settings.

mod apply;
mod continuations;
mod decision;
mod environment;
mod follow;
mod trace;
mod translate;

#[cfg(test)]
mod tests;

pub use continuations::Continuations;
pub use decision::{
    Continuation, Decision, Depends, Learnt, PendingWork, Punt, Select, Step, Suspended,
};
pub use environment::{Environment, Learning, NullEnvironment, SharedState};
pub use follow::{ASSUMED, follow};
pub use trace::{looked_at, print_steps};

use crate::key::Key;
use crate::table::Snapshot;
use crate::wire::Action;
use trace::Trace;
use translate::Translator;

/// Decides a packet with this key, and all that are like it.
///
/// `from` is the continuation of the packet, where it is looked up again; [`Key::continuation`] has
/// its number. `now` is the time of the steady clock in nanoseconds. It costs a lookup per table on
/// the way, and some allocations.
#[must_use]
pub fn decide(
    snapshot: &Snapshot,
    shared_state: &SharedState,
    environment: &dyn Environment,
    key: &Key,
    from: Option<&Continuation>,
    now: u64,
) -> Decision {
    let mut translator = Translator::new(snapshot, shared_state, environment, key, now);
    match from {
        None => translator.enter(),
        Some(from) => translator.resume(&from.state),
    }
    translator.finish().0
}

/// Decides a packet-out with its actions. The key has its port, and other fields set by the
/// controller. The decision is for this packet alone.
#[must_use]
pub fn packet_out(
    snapshot: &Snapshot,
    shared_state: &SharedState,
    environment: &dyn Environment,
    key: &Key,
    actions: &[Action],
    now: u64,
) -> Decision {
    let mut translator = Translator::new(snapshot, shared_state, environment, key, now);
    translator.act_for_controller(key, actions);
    Decision { holds: false, ..translator.finish().0 }
}

/// As [`decide`], and returns a trace, a line for each event: the flows of tables that matched, the
/// actions, the packet at the end, and the bits that were looked at. Nothing is learnt, and nothing
/// counted.
#[must_use]
pub fn trace(
    snapshot: &Snapshot,
    shared_state: &SharedState,
    key: &Key,
    from: Option<&Continuation>,
    now: u64,
) -> (Decision, String) {
    let mut translator = Translator::new(snapshot, shared_state, &NullEnvironment, key, now);
    translator.trace = Some(Trace::new(key));
    match from {
        None => translator.enter(),
        Some(from) => translator.resume(&from.state),
    }
    let (decision, trace) = translator.finish();
    (decision, trace.map_or_else(String::new, Trace::text))
}
