//! Tasks that others do not run ahead of.

/// A search for tasks that bring packets to another.
#[derive(Debug, Default)]
pub(crate) struct Search {
    /// How many there have been.
    pub(crate) number: u64,
    /// Tasks whose feeders have not been looked at. Empty between searches, kept for its capacity.
    pub(crate) open: Vec<usize>,
}

/// A task that another one does not run ahead of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PacingPeer {
    pub(crate) task: usize,
    /// The queue that both come to.
    pub(crate) store: usize,
    /// The part that `task` has there.
    pub(crate) part: PacingRole,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PacingRole {
    /// It sends packets there that may find no room; whether the first that is taken out wakes it
    /// when the queue is full.
    Overruns { is_woken: bool },
    /// It sends packets there, and bursts of it may find no room.
    Fills { is_woken: bool },
    /// It takes packets out, bursts at once, and sends them to where others wait.
    Empties,
}
