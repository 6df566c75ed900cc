//! Which sends are made inside of a callback, and what is held back for them.

use std::cell::{Cell, RefCell};

use super::Sender;
use crate::handle::Handle;

thread_local! {
    /// Where on the stack the outermost call is that makes callbacks on this thread: 0 when there is
    /// none. A callback that leaves by longjmp(3) leaves it behind: who then sends from further down the
    /// stack has packets held back until the next call that reads.
    static OUTERMOST: Cell<usize> = const { Cell::new(0) };
    /// Who holds packets back. A program may call us when its thread has no such variables any more, by
    /// handlers that exit(3) calls last: nothing is held back then.
    static HELD: RefCell<Held> = const { RefCell::new(Held(Vec::new())) };
}

struct Held(Vec<Sender>);

impl Drop for Held {
    /// A callback has ended its program or its thread: what it has sent goes, as far as there is place.
    fn drop(&mut self) {
        self.0.iter().for_each(Sender::flush_some);
    }
}

/// The time in which a call makes callbacks. At its end, and each time [`flush_held`] is called, what
/// was held back is sent.
pub(crate) struct Boundary<'a> {
    outermost: bool,
    handle: &'a Handle,
}

impl Boundary<'_> {
    /// Begins it: the stack below `here` is the callbacks' of that handle.
    pub(crate) fn begin(here: usize, handle: &Handle) -> Boundary<'_> {
        let outermost = !is_below(here);
        if outermost {
            OUTERMOST.set(here);
        }
        Boundary { outermost, handle }
    }
}

impl Drop for Boundary<'_> {
    fn drop(&mut self) {
        if self.outermost {
            OUTERMOST.set(0);
            flush_held(self.handle);
        }
    }
}

/// Whether this is a callback, and what it sends can be noted.
pub(super) fn is_inside() -> bool {
    let here = 0u8;
    is_below((&raw const here).addr()) && HELD.try_with(|_| ()).is_ok()
}

fn is_below(here: usize) -> bool {
    let outermost = OUTERMOST.get();
    outermost != 0 && here < outermost
}

/// Notes who holds packets back.
pub(super) fn remember(sender: &Sender) {
    with_held(|held| {
        if !held.iter().any(|known| known.is(sender)) {
            held.push(sender.clone());
        }
    });
}

/// Forgets one that is closed.
pub(super) fn forget(sender: &Sender) {
    with_held(|held| held.retain(|known| !known.is(sender)));
}

/// Sends what was held back, in calls of `handle`: who waits for place does so no longer than that may
/// wait.
#[inline]
pub(crate) fn flush_held(handle: &Handle) {
    let ends = || handle.is_nonblocking() || handle.interrupt.is_wanted();
    with_held(|held| held.retain(|sender| !sender.flush(ends)));
}

#[inline]
fn with_held(run: impl FnOnce(&mut Vec<Sender>)) {
    let _ = HELD.try_with(|held| run(&mut held.borrow_mut().0));
}
