//! Sends inside of callbacks, and the packets held back for them.

use std::{
    cell::{Cell, RefCell},
    mem::MaybeUninit,
    ptr,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use super::Sender;

/// Record on the stack of a call that makes callbacks.
#[derive(Default)]
pub(crate) struct Anchor {
    /// Number that no other call has, as long as this one runs.
    number: AtomicU64,
    /// Whether the callback is the call's last.
    is_last: AtomicBool,
}

impl Anchor {
    /// Says whether the next callback is the last: packets it sends have none behind them to go
    /// with.
    #[inline]
    pub(crate) fn say_last(&self, is_last: bool) {
        self.is_last.store(is_last, Ordering::Relaxed);
    }
}

/// The outermost call that makes callbacks on a thread.
struct Outermost {
    /// Null when there is none.
    anchor: Cell<*const Anchor>,
    /// The last one's. Not one that a stack is full of.
    number: Cell<u64>,
}

thread_local! {
    /// A callback that leaves by longjmp(3) leaves this behind: other bytes are in the place of the
    /// anchor as soon as the stack is used so far again.
    static OUTERMOST: Outermost = const {
        Outermost { anchor: Cell::new(ptr::null()), number: Cell::new(0x5851_f42d_4c95_7f2d) }
    };
    /// Senders that hold packets back. A program may call us when its thread has no such variables
    /// any more, by handlers that exit(3) calls last: nothing is held back then.
    static HELD: RefCell<HeldSenders> = const { RefCell::new(HeldSenders(Vec::new())) };
}

struct HeldSenders(Vec<Sender>);

impl Drop for HeldSenders {
    /// A callback has ended its program or its thread: packets it has sent go, as far as there is
    /// room.
    fn drop(&mut self) {
        self.0.iter().for_each(Sender::flush_some);
    }
}

/// The time in which a call makes callbacks. At its end, and each time [`flush_held`] is called,
/// packets held back are sent.
pub(crate) struct Boundary<'a, E: Fn() -> bool> {
    /// `None` when it is not the outermost.
    anchor: Option<&'a Anchor>,
    /// As of [`flush_held`].
    ends: E,
}

impl<'a, E: Fn() -> bool> Boundary<'a, E> {
    /// Begins it: the stack below the anchor is the callbacks'.
    pub(crate) fn begin(anchor: &'a Anchor, ends: E) -> Boundary<'a, E> {
        let outermost = OUTERMOST.with(|outermost| {
            if outermost.is_above(ptr::from_ref(anchor).addr()) {
                return false;
            }
            let number = outermost.number.get().wrapping_add(1);
            outermost.number.set(number);
            anchor.number.store(number, Ordering::Relaxed);
            outermost.anchor.set(anchor);
            true
        });
        Boundary { anchor: outermost.then_some(anchor), ends }
    }
}

impl<E: Fn() -> bool> Drop for Boundary<'_, E> {
    fn drop(&mut self) {
        if let Some(anchor) = self.anchor {
            OUTERMOST.with(|outermost| outermost.anchor.set(ptr::null()));
            anchor.number.store(0, Ordering::Relaxed);
            flush_held(&self.ends);
        }
    }
}

impl Outermost {
    /// Returns true if there is such a call, and the place `here` on the stack belongs to code that
    /// it has called.
    fn is_above(&self, here: usize) -> bool {
        let anchor = self.anchor.get();
        // SAFETY: the anchor is further up on the stack of this thread, so there is memory, and it
        // is aligned. Where its call has been left by a jump the memory holds other values of this
        // thread, or none: a volatile read of a number, which any bytes are.
        !anchor.is_null()
            && here < anchor.addr()
            && unsafe { (&raw const (*anchor).number).cast::<u64>().read_volatile() }
                == self.number.get()
    }

    /// Returns true if the place `here` belongs to a callback that is not the last of its call.
    fn goes_on_above(&self, here: usize) -> bool {
        // SAFETY: as above, and with that number it is the anchor. A volatile read of a byte, which any are.
        self.is_above(here)
            && unsafe { (&raw const (*self.anchor.get()).is_last).cast::<u8>().read_volatile() }
                == 0
    }
}

/// Returns true if this is a callback behind which others may come, and the packets it sends can be
/// noted.
pub(super) fn holds_back() -> bool {
    let here = 0u8;
    let here = (&raw const here).addr();
    OUTERMOST.with(|outermost| outermost.goes_on_above(here)) && HELD.try_with(|_| ()).is_ok()
}

/// Returns true if this is a callback, or a handler of a signal that has interrupted a call that
/// reads. Handlers may have a stack of their own.
pub(crate) fn is_reading() -> bool {
    let here = 0u8;
    let here = (&raw const here).addr();
    OUTERMOST.with(|outermost| {
        !outermost.anchor.get().is_null() && (outermost.is_above(here) || is_on_another_stack())
    })
}

fn is_on_another_stack() -> bool {
    let mut stack = MaybeUninit::<libc::stack_t>::zeroed();
    // SAFETY: there is room for the answer, which is plain numbers and a pointer.
    unsafe {
        libc::sigaltstack(ptr::null(), stack.as_mut_ptr()) == 0
            && stack.assume_init().ss_flags & libc::SS_ONSTACK != 0
    }
}

/// Notes a sender that holds packets back.
pub(super) fn remember(sender: &Sender) {
    with_held(|held| {
        if !held.iter().any(|known| known.is_same(sender)) {
            held.push(sender.clone());
        }
    });
}

/// Forgets one that is closed.
pub(super) fn forget(sender: &Sender) {
    with_held(|held| held.retain(|known| !known.is_same(sender)));
}

/// Sends packets held back. Waits for room, until it `ends`.
#[inline]
pub(crate) fn flush_held(ends: impl Fn() -> bool) {
    with_held(|held| held.retain(|sender| !sender.flush(&ends)));
}

#[inline]
fn with_held(run: impl FnOnce(&mut Vec<Sender>)) {
    let _ = HELD.try_with(|held| run(&mut held.borrow_mut().0));
}
