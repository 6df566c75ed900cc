//! Which sends are made inside of a callback, and what is held back for them.

use std::{
    cell::{Cell, RefCell},
    mem::MaybeUninit,
    ptr,
    sync::atomic::{AtomicU64, Ordering},
};

use super::Sender;
use crate::handle::Handle;

/// What a call that makes callbacks has on the stack: a number that no other call has, as long as it runs.
#[derive(Default)]
pub(crate) struct Anchor(AtomicU64);

/// The outermost call that makes callbacks on this thread.
#[derive(Clone, Copy)]
struct Outermost {
    anchor: *const AtomicU64,
    number: u64,
}

thread_local! {
    /// Its anchor is null when there is none. A callback that leaves by longjmp(3) leaves this behind: what
    /// is then in the place of the anchor is something else as soon as the stack is used so far again.
    static OUTERMOST: Cell<Outermost> =
        const { Cell::new(Outermost { anchor: ptr::null(), number: 0 }) };
    /// How many there were.
    static CALLS: Cell<u64> = const { Cell::new(0) };
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
    /// `None` when it is not the outermost.
    anchor: Option<&'a Anchor>,
    handle: &'a Handle,
}

impl<'a> Boundary<'a> {
    /// Begins it: the stack below the anchor is the callbacks' of that handle.
    pub(crate) fn begin(anchor: &'a Anchor, handle: &'a Handle) -> Boundary<'a> {
        if is_below(ptr::from_ref(anchor).addr()) {
            return Boundary { anchor: None, handle };
        }
        // Not a number that a stack is full of.
        const START: u64 = 0x5851_f42d_4c95_7f2d;
        let number = CALLS.get().wrapping_add(START);
        CALLS.set(CALLS.get().wrapping_add(1));
        anchor.0.store(number, Ordering::Relaxed);
        OUTERMOST.set(Outermost { anchor: &raw const anchor.0, number });
        Boundary { anchor: Some(anchor), handle }
    }
}

impl Drop for Boundary<'_> {
    fn drop(&mut self) {
        if let Some(anchor) = self.anchor {
            OUTERMOST.set(Outermost { anchor: ptr::null(), number: 0 });
            anchor.0.store(0, Ordering::Relaxed);
            flush_held(self.handle);
        }
    }
}

/// Whether this is a callback, and what it sends can be noted.
pub(super) fn is_inside() -> bool {
    let here = 0u8;
    is_below((&raw const here).addr()) && HELD.try_with(|_| ()).is_ok()
}

/// Whether this is a callback, or a handler of a signal that has interrupted a call that reads. Handlers may
/// have a stack of their own.
pub(crate) fn is_reading() -> bool {
    if OUTERMOST.get().anchor.is_null() {
        return false;
    }
    let here = 0u8;
    is_below((&raw const here).addr()) || is_on_another_stack()
}

fn is_on_another_stack() -> bool {
    let mut stack = MaybeUninit::<libc::stack_t>::zeroed();
    // SAFETY: there is room for the answer, which is plain numbers and a pointer.
    unsafe {
        libc::sigaltstack(ptr::null(), stack.as_mut_ptr()) == 0
            && stack.assume_init().ss_flags & libc::SS_ONSTACK != 0
    }
}

fn is_below(here: usize) -> bool {
    let Outermost { anchor, number } = OUTERMOST.get();
    // SAFETY: the anchor is further up on the stack of this thread, so there is memory, and it is aligned.
    // Where its call has been left by a jump the memory is somebody else's of this thread, or nobody's: a
    // volatile read of a number, which any bytes are.
    !anchor.is_null()
        && here < anchor.addr()
        && unsafe { anchor.cast::<u64>().read_volatile() } == number
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
