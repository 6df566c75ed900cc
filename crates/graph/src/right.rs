//! What callers of handlers may have done.

use crate::Context;

/// What a caller of handlers may have done. Each right includes those before it.
///
/// A handler says what it needs ([`Handler::read_needs`](crate::Handler::read_needs),
/// [`Handler::write_needs`](crate::Handler::write_needs)), a connection what its client has. What
/// a configuration does by itself, at its start, by timers and for packets, has every right; what
/// a connection triggers, by however many handlers that call others, has the connection's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Right {
    /// Figures and tables are read.
    Read,
    /// Elements change their state: counts, rates, routes, the run count.
    Write,
    /// All that the program itself may do: files and ports are opened, scripts run, handler calls
    /// are kept that run later, the configuration is replaced.
    Replace,
}

impl Right {
    /// What a configuration may have done.
    pub const ALL: Right = Right::Replace;
}

impl Context {
    /// The right of the caller for whom the element is at work.
    pub fn right(&self) -> Right {
        self.right
    }

    /// Calls `f`, and whatever it calls, with no more than `right`.
    pub fn with_right<R>(&mut self, right: Right, f: impl FnOnce(&mut Context) -> R) -> R {
        let before = self.right;
        self.right = before.min(right);
        let result = f(self);
        self.right = before;
        result
    }

    /// Calls `f` for somebody else than the caller: with every right.
    pub(crate) fn for_another<R>(&mut self, f: impl FnOnce(&mut Context) -> R) -> R {
        let before = std::mem::replace(&mut self.right, Right::ALL);
        let result = f(self);
        self.right = before;
        result
    }
}
