//! Flow tables at one moment: a [`Snapshot`] never changes.
//!
//! A change of tables makes another snapshot, which shares all unchanged parts with the one before.
//! So a packet is decided by all old or all new tables, readers need no lock, and any thread can
//! run the pipeline: a worker, a controller's packet-out, a trace.

mod changes;
mod flow;
mod group;
mod lookup;
mod packed;
mod port;
mod prefixes;
mod references;
mod snapshot;
#[cfg(test)]
mod tests;
mod trie;
mod tuple;

pub use changes::{Change, Changes};
pub use flow::Flow;
pub use group::{Group, GroupBucket};
pub use lookup::Table;
pub use packed::{Minimatch, PackedMatch};
pub use port::{PortCount, PortCounters, SwitchPort};
pub(crate) use references::{
    Reference, learnt_with, of_actions, of_instructions, sends_to_group, sends_to_port,
};
pub use snapshot::{Miss, Snapshot};
