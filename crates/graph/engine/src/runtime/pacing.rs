//! Tasks that others do not run ahead of.

/// A search for tasks that bring packets to another.
#[derive(Debug, Default)]
pub(crate) struct Search {
    /// Number of searches so far.
    pub(crate) number: u64,
    /// Tasks whose feeders have not been looked at. Empty between searches, kept for its capacity.
    pub(crate) open: Vec<usize>,
}

/// A task that another one does not run ahead of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PacingPeer {
    pub(crate) task: usize,
    /// The queue that both tasks fill or empty.
    pub(crate) store: usize,
    /// The role of `task` at the queue.
    pub(crate) role: PacingRole,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PacingRole {
    /// It sends packets there that may find no room. `is_woken` if the first packet taken out of a full
    /// queue wakes it.
    Overruns { is_woken: bool },
    /// It sends packets there, and its bursts may find no room.
    Fills { is_woken: bool },
    /// It moves bursts of packets from there to another queue.
    Empties,
}
