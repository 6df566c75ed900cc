//! Rights of handler calls.

/// The right of a handler call. Each right includes those before it.
///
/// A handler declares the right it needs ([`Handler::read_needs`](crate::Handler::read_needs),
/// [`Handler::write_needs`](crate::Handler::write_needs)); a connection gives its right to the calls
/// of its client. Calls of the configuration itself, at its start, by timers and for packets, have
/// every right. A call that a connection causes, through any number of handlers, has the right of the
/// connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Right {
    /// Reading figures and tables.
    Read,
    /// Changing the state of elements: counts, rates, routes, the run count.
    Write,
    /// All rights of the program: opening files and ports, running scripts, keeping handler calls
    /// that run later, replacing the configuration.
    Replace,
}

impl Right {
    /// The right of the configuration's own calls.
    pub const ALL: Right = Right::Replace;
}
