//! Handler of SIGBUS, by which the kernel reports a failed access to foreign memory.
//!
//! The kernel answers an access behind the end of a file with SIGBUS. The handler here looks
//! whether the address is in a region that is watched, maps zeros of our own over all of it and
//! returns, so that the access is made again and succeeds. Everything else goes to the handler
//! there was before: the standard library's, which reports a stack overflow.

use std::{
    mem::MaybeUninit,
    ptr,
    sync::{
        Once, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

/// Regions that are watched by one part of the table.
const PLACES: usize = 256;

/// The watched regions, which the handler reads without a lock. [Quotas](super::quota) bound their
/// number.
static WATCHED: Table = Table::new();
static INSTALL: Once = Once::new();
/// Action of SIGBUS before ours.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// A part of the table, and the next part; parts are never freed.
struct Table {
    places: [WatchSlot; PLACES],
    rest: OnceLock<Box<Table>>,
}

impl Table {
    const fn new() -> Table {
        Table { places: [const { WatchSlot::new() }; PLACES], rest: OnceLock::new() }
    }

    /// All parts, by loads alone.
    fn parts(&'static self) -> impl Iterator<Item = &'static Table> {
        std::iter::successors(Some(self), |table| table.rest.get().map(|rest| &**rest))
    }

    /// A place that is free.
    fn take(&'static self) -> &'static WatchSlot {
        let free = |place: &&WatchSlot| !place.taken.swap(true, Ordering::Acquire);
        let mut table = self;
        loop {
            if let Some(place) = table.places.iter().find(free) {
                return place;
            }
            table = table.rest.get_or_init(|| Box::new(Table::new()));
        }
    }
}

struct WatchSlot {
    taken: AtomicBool,
    /// Address, zero while nothing is watched here. Written last, so that the length belongs to it.
    start: AtomicUsize,
    len: AtomicUsize,
    broken: AtomicBool,
}

impl WatchSlot {
    const fn new() -> WatchSlot {
        WatchSlot {
            taken: AtomicBool::new(false),
            start: AtomicUsize::new(0),
            len: AtomicUsize::new(0),
            broken: AtomicBool::new(false),
        }
    }
}

/// A mapping that is watched, until it is told that the mapping ends.
pub(super) struct Watch(&'static WatchSlot);

impl Watch {
    /// Watches a mapping.
    pub(super) fn over(start: usize, len: usize) -> Watch {
        INSTALL.call_once(install);
        let place = WATCHED.take();
        place.broken.store(false, Ordering::Relaxed);
        place.len.store(len, Ordering::Relaxed);
        place.start.store(start, Ordering::Release);
        Watch(place)
    }

    pub(super) fn is_broken(&self) -> bool {
        self.0.broken.load(Ordering::Relaxed)
    }

    /// Nothing of the mapping will be accessed any more.
    pub(super) fn end(&self) {
        self.0.start.store(0, Ordering::Relaxed);
        self.0.taken.store(false, Ordering::Release);
    }
}

fn install() {
    // SAFETY: all zeros is a valid `sigaction`, which the kernel fills.
    let before = unsafe {
        let mut before = MaybeUninit::<libc::sigaction>::zeroed();
        libc::sigaction(libc::SIGBUS, ptr::null(), before.as_mut_ptr());
        before.assume_init()
    };
    // There before the handler can be called.
    let _ = BEFORE.set(before);
    // SAFETY: the structure is complete, and the handler does nothing a signal handler may not: it
    // loads and stores atomics and calls mmap and sigaction.
    unsafe {
        let mut ours: libc::sigaction = MaybeUninit::zeroed().assume_init();
        ours.sa_sigaction = handle as *const () as usize;
        // On the stack for signals, for the handler before, which reports stacks that overflowed.
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        libc::sigemptyset(&raw mut ours.sa_mask);
        libc::sigaction(libc::SIGBUS, &raw const ours, ptr::null_mut());
    }
}

extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid structure to handlers with `SA_SIGINFO`.
    let (address, code) = unsafe { ((*info).si_addr() as usize, (*info).si_code) };
    // Sent by a process, and not by an access that failed, when it is not positive.
    if code > 0 && mend(address) {
        return;
    }
    pass_on(signal, info, context);
}

/// Puts zeros where the address is; `false` when it is none of ours, or the kernel refuses.
fn mend(address: usize) -> bool {
    for place in WATCHED.parts().flat_map(|table| &table.places) {
        let start = place.start.load(Ordering::Acquire);
        let len = place.len.load(Ordering::Relaxed);
        if start == 0 || address < start || address - start >= len {
            continue;
        }
        // SAFETY: takes the place of a mapping that this thread is accessing, so it is not being
        // unmapped. There are no references to its bytes, only atomics, which are as valid on zeros.
        let mended = unsafe {
            // Not through rustix's or our own wrappers: this one leaves nothing behind but errno.
            let errno = libc::__errno_location();
            let saved = *errno;
            let mapped = libc::mmap(
                start as *mut libc::c_void,
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE,
                -1,
                0,
            );
            *errno = saved;
            mapped != libc::MAP_FAILED
        };
        place.broken.store(true, Ordering::Release);
        return mended;
    }
    false
}

/// Passes the signal to the action there was before ours.
fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let default = libc::SIG_DFL;
    let (action, flags) =
        BEFORE.get().map_or((default, 0), |before| (before.sa_sigaction, before.sa_flags));
    // SAFETY: the address is of a handler that was installed with these flags, which say its
    // arguments. Without one the signal gets its default action, when the access is made again.
    unsafe {
        if action == libc::SIG_DFL || action == libc::SIG_IGN {
            libc::signal(signal, libc::SIG_DFL);
            if (*info).si_code <= 0 {
                libc::raise(signal);
            }
        } else if flags & libc::SA_SIGINFO != 0 {
            type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
            std::mem::transmute::<usize, Handler>(action)(signal, info, context);
        } else {
            std::mem::transmute::<usize, extern "C" fn(libc::c_int)>(action)(signal);
        }
    }
}
