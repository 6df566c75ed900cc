//! Which sends are made inside of a callback, and what is held back for them.

use std::cell::{Cell, RefCell};

use super::Sender;

thread_local! {
    /// Where on the stack the outermost call is that makes callbacks on this thread: 0 when there is
    /// none. A callback that leaves by longjmp(3) leaves it behind, and then later calls are above it.
    static OUTERMOST: Cell<usize> = const { Cell::new(0) };
    /// Who holds packets back.
    static HELD: RefCell<Vec<Sender>> = const { RefCell::new(Vec::new()) };
}

/// The time in which a call makes callbacks. At its end, and each time [`flush_held`] is called, what
/// was held back is sent.
pub(crate) struct Boundary {
    outermost: bool,
}

impl Boundary {
    /// Begins it: the stack below `here` is the callbacks'.
    pub(crate) fn begin(here: usize) -> Boundary {
        let outermost = !is_below(here);
        if outermost {
            OUTERMOST.set(here);
        }
        Boundary { outermost }
    }
}

impl Drop for Boundary {
    fn drop(&mut self) {
        if self.outermost {
            OUTERMOST.set(0);
            flush_held();
        }
    }
}

/// Whether this is a callback.
pub(super) fn is_inside() -> bool {
    let here = 0u8;
    is_below((&raw const here).addr())
}

fn is_below(here: usize) -> bool {
    let outermost = OUTERMOST.get();
    outermost != 0 && here < outermost
}

/// Notes who holds packets back.
pub(super) fn remember(sender: &Sender) {
    HELD.with_borrow_mut(|held| {
        if !held.iter().any(|known| known.is(sender)) {
            held.push(sender.clone());
        }
    });
}

/// Forgets one that is closed.
pub(super) fn forget(sender: &Sender) {
    HELD.with_borrow_mut(|held| held.retain(|known| !known.is(sender)));
}

/// Sends what is held back.
#[inline]
pub(crate) fn flush_held() {
    HELD.with_borrow_mut(|held| {
        for sender in held.drain(..) {
            sender.flush();
        }
    });
}
