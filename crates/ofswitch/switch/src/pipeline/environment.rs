//! Environment of the pipeline, beside the tables.

use std::sync::Arc;

use super::Continuations;
use crate::conntrack::Tracker;
use crate::mac_learning::Hosts;
use crate::table::Flow;
use crate::wire::FlowMod;

/// State kept between packets, beside the tables. All workers share it.
#[derive(Debug, Default)]
pub struct SharedState {
    /// MAC table of `NORMAL`.
    pub hosts: Hosts,
    /// Connections.
    pub tracker: Tracker,
    /// Continuations of packets that are looked up again.
    pub continuations: Continuations,
}

/// Receiver of changes that packets make in the switch.
pub trait Environment: Sync {
    /// A flow is to be made, or to take the place of one with its match and priority. With a limit
    /// other than 0, not if its table has as many flows with its cookie already.
    fn learn(&self, flow: FlowMod, limit: u32, now: u64) -> Learning;

    /// Notes that `NORMAL` sends packets for this address to another port from now on.
    fn host_changed(&self, vlan: u16, address: u64);

    /// A connection of a flow ends: time-outs of the flow that are longer than these, in seconds,
    /// become these; 0 leaves one.
    fn shorten(&self, flow: &Arc<Flow>, idle: u16, hard: u16, now: u64);
}

/// Result of learning a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Learning {
    /// It is there.
    Made,
    /// It will be there soon, if there is room then.
    Pending,
    /// There was no room.
    Full,
}

/// Null environment: changes by packets are ignored.
#[derive(Debug, Clone, Copy, Default)]
pub struct NullEnvironment;

impl Environment for NullEnvironment {
    fn learn(&self, _flow: FlowMod, _limit: u32, _now: u64) -> Learning {
        Learning::Made
    }

    fn host_changed(&self, _vlan: u16, _address: u64) {}

    fn shorten(&self, _flow: &Arc<Flow>, _idle: u16, _hard: u16, _now: u64) {}
}
