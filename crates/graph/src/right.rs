//! Rights of handler calls.

use crate::Context;

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

impl Context {
    /// The right of the call that the element handles.
    pub fn right(&self) -> Right {
        self.right
    }

    /// Calls `f` with no more than `right`, which its own calls inherit.
    pub fn with_right<R>(&mut self, right: Right, f: impl FnOnce(&mut Context) -> R) -> R {
        let before = self.right;
        self.right = before.min(right);
        let result = f(self);
        self.right = before;
        result
    }

    /// Calls `f` with every right: it does not act for the caller.
    pub(crate) fn for_another<R>(&mut self, f: impl FnOnce(&mut Context) -> R) -> R {
        let before = std::mem::replace(&mut self.right, Right::ALL);
        let result = f(self);
        self.right = before;
        result
    }
}
