//! Nodes: the wiring of an element on a worker, and the limits of its task.

use super::{arrival_times::Arrivals, pacing::PacingPeer};

/// Wiring of one element on this worker, besides its `NodeRuntime`.
#[derive(Debug, Default)]
pub(crate) struct Node {
    /// By input: the element and its output that is pulled.
    pub(crate) sources: Vec<Option<(usize, usize)>>,
    /// Tasks to wake when there is something to pull here.
    pub(crate) pullers: Listeners,
    /// Tasks to wake when there is room again here.
    pub(crate) feeders: Listeners,
    /// Whether all it could pull from wakes it.
    pub(crate) may_sleep: bool,
    /// Elements behind it that say when they are full.
    pub(crate) fulls: Vec<usize>,
    /// Limits of how many packets its task may send at a time.
    pub(crate) limits: Vec<Limit>,
    /// Tasks on this worker whose packets come to wait here.
    pub(crate) pushers: Vec<usize>,
    /// Whether a task that pulls from here pulls packets that wait elsewhere, too, and their order
    /// shows how many were here at that time.
    pub(crate) beside: bool,
    /// Whether its task sends packets to where it takes some out.
    pub(crate) refills: bool,
    /// Tasks that its own does not run ahead of ([`pacing`](super::pacing)).
    pub(crate) pacing_peers: Vec<PacingPeer>,
    /// The last search for feeders that has come to its task.
    pub(crate) searched: u64,
    /// Whether its task takes one turn at a time, because an element looks at how many packets wait
    /// where it puts some or takes some out.
    pub(crate) is_observed: bool,
    /// Elements where packets wait that it sends, for tasks that keep pace.
    pub(crate) feeds: Vec<usize>,
    /// Elements in which the packets it sends have waited, when its task keeps pace with arrivals
    /// there.
    pub(crate) drains: Vec<usize>,
    /// When packets came that wait here, where a task keeps pace with them.
    pub(crate) arrivals: Arrivals,
    /// Sources that take their turns with it (`source_interleave`).
    pub(crate) companions: Vec<usize>,
    /// Whether it is full.
    pub(crate) full: bool,
    /// By port: the port on the other side packets go on by without stopping
    /// ([`Context::pass_through`](crate::Context::pass_through)). Empty when they do stop.
    pub(crate) routes: Vec<usize>,
    /// Whether packets have been found here that went round in circles, which is
    /// said once.
    pub(crate) circled: bool,
}

/// An element that limits how many packets may come to it at a time.
#[derive(Debug)]
pub(crate) struct Limit {
    pub(crate) element: usize,
    /// Packets that come to it at most for one that sets out; where they wait, of all tasks that
    /// send some there.
    pub(crate) copies: usize,
    /// Whether they wait there to be pulled; else it calls handlers of others.
    pub(crate) store: bool,
}

/// Tasks to wake.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    /// On this worker.
    pub(crate) here: Vec<usize>,
    /// On others: worker and task.
    pub(crate) elsewhere: Vec<(usize, usize)>,
}

/// The node and the port of an input.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Input {
    pub(crate) node: u32,
    pub(crate) port: u32,
}

/// Limit of the packets that a task may send, asked before it runs.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SendLimit {
    /// Nothing.
    Open,
    /// The room in one element, all of which it may fill.
    Store(u32),
    /// [`Node::limits`].
    Limits,
}
