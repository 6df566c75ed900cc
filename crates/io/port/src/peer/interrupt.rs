//! Eventfds of a peer that workers signal.
//!
//! A peer shares the open file description of its eventfd, so it can make a `write` block for ever. It can
//! also make a signal take milliseconds, because a signal runs through every epoll(7) watch of the eventfd,
//! and a peer may make as many watches as it may open files. So an eventfd is signalled without
//! `write` ([`linerate_linux::eventfd`]). If its signals cost much processor time, a thread of the session
//! signals it from then on, in a twentieth of the time at most. On a kernel without asynchronous I/O that
//! thread signals by `write`. A peer can block the thread, so nothing waits for it; until it ends it holds
//! the session's place.

use std::{
    any::Any,
    io,
    os::fd::OwnedFd,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread::{self, Thread},
    time::{Duration, Instant},
};

use linerate_linux::eventfd::Signaller;
use rustix::time::{ClockId, clock_gettime};

use super::event;

/// A signal that takes longer is slow; waking a sleeping peer takes some microseconds.
const SLOW: Duration = Duration::from_micros(100);
/// Slow signals, less the quick ones since, after which the session's thread signals.
const TOO_SLOW: u32 = 8;
/// The thread spends one in so many parts of its time on slow signals.
const SHARE: u32 = 20;
/// Longest pause between two slow signals.
const PAUSE: Duration = Duration::from_millis(250);

/// The interrupts of a session. Dropped, it ends the thread that signals them, if there is one, without
/// waiting for it.
#[derive(Debug)]
pub(crate) struct Interrupts {
    shared: Arc<Shared>,
    signaller: Option<&'static Signaller>,
    place: SessionSlot,
}

/// The session's place in its limit, held by a thread that may outlive the session.
type SessionSlot = Arc<dyn Any + Send + Sync>;

#[derive(Debug)]
struct Shared {
    events: Mutex<Vec<Weak<Event>>>,
    /// The thread that signals, if it was started.
    thread: OnceLock<Thread>,
    /// Whether a worker needs the thread, which is not started.
    wanted: AtomicBool,
    ended: AtomicBool,
    /// Wakes the negotiator, which starts the thread.
    control: Arc<OwnedFd>,
}

/// An eventfd that the peer shares.
#[derive(Debug)]
pub(crate) struct Interrupt {
    event: Arc<Event>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Event {
    fd: OwnedFd,
    signaller: Option<&'static Signaller>,
    /// Whether the session's thread signals it.
    deferred: AtomicBool,
    /// Whether a signal is due by that thread.
    pending: AtomicBool,
    /// Slow signals, less quick ones.
    slow: AtomicU32,
}

impl Interrupts {
    /// Interrupts of a new session. `control` wakes the thread that calls [`Interrupts::look`].
    pub(crate) fn new(control: &Arc<OwnedFd>, place: SessionSlot) -> Interrupts {
        Interrupts::with(control, place, Signaller::shared().ok())
    }

    fn with(
        control: &Arc<OwnedFd>,
        place: SessionSlot,
        signaller: Option<&'static Signaller>,
    ) -> Interrupts {
        let shared = Arc::new(Shared {
            events: Mutex::default(),
            thread: OnceLock::new(),
            wanted: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            control: Arc::clone(control),
        });
        Interrupts { shared, signaller, place }
    }

    /// Adds an eventfd.
    ///
    /// # Errors
    ///
    /// When it needs the thread, and it cannot be started.
    pub(crate) fn add(&mut self, fd: OwnedFd) -> io::Result<Interrupt> {
        let deferred = self.signaller.is_none();
        let event = Arc::new(Event {
            fd,
            signaller: self.signaller,
            deferred: AtomicBool::new(deferred),
            pending: AtomicBool::new(false),
            slow: AtomicU32::new(0),
        });
        {
            let mut events = self.shared.events();
            events.retain(|event| event.strong_count() > 0);
            events.push(Arc::downgrade(&event));
        }
        if deferred {
            self.start()?;
        }
        Ok(Interrupt { event, shared: Arc::clone(&self.shared) })
    }

    /// Negotiator: starts the thread if a worker needs it.
    pub(crate) fn look(&mut self) {
        if self.shared.wanted.swap(false, Ordering::Relaxed) && self.start().is_err() {
            self.shared.wanted.store(true, Ordering::Relaxed);
        }
    }

    fn start(&mut self) -> io::Result<()> {
        if self.shared.thread.get().is_none() {
            let (shared, place) = (Arc::clone(&self.shared), Arc::clone(&self.place));
            let run = move || {
                shared.run();
                drop(place);
            };
            let thread = thread::Builder::new().name("interrupts".into()).spawn(run)?;
            let _ = self.shared.thread.set(thread.thread().clone());
        }
        // A worker may have left a signal before the thread was there.
        self.shared.thread.get().into_iter().for_each(Thread::unpark);
        Ok(())
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.shared.thread.get() {
            thread.unpark();
            if self.signaller.is_none() {
                // The thread may be blocked in one of these, and continues unless the peer fills it again.
                self.shared.live().iter().for_each(|event| event::clear(&event.fd));
            }
        }
    }
}

impl Shared {
    fn events(&self) -> MutexGuard<'_, Vec<Weak<Event>>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn live(&self) -> Vec<Arc<Event>> {
        self.events().iter().filter_map(Weak::upgrade).collect()
    }

    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Runs the thread.
    fn run(&self) {
        while !self.has_ended() {
            let mut cost = Duration::ZERO;
            for event in self.live() {
                // Acquire: pairs with the worker's release after its writes to the ring.
                if !self.has_ended() && event.pending.swap(false, Ordering::Acquire) {
                    let before = processor_time();
                    event.signal();
                    cost += processor_time().saturating_sub(before);
                }
            }
            if cost > SLOW {
                self.pause((cost * SHARE).min(PAUSE));
            } else {
                thread::park();
            }
        }
    }

    fn pause(&self, length: Duration) {
        let until = Instant::now() + length;
        while !self.has_ended() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            thread::park_timeout(left);
        }
    }
}

impl Event {
    /// Signals it on the session's thread, which may block.
    fn signal(&self) {
        let done = match self.signaller {
            Some(signaller) => signaller.signal(&self.fd),
            None => rustix::io::write(&self.fd, &1u64.to_ne_bytes()).map(drop).map_err(Into::into),
        };
        // The peer has made the eventfd unusable.
        let _: io::Result<()> = done;
    }

    /// Signals it on a worker; returns true if the session's thread has to signal from now on.
    fn signal_at_once(&self, signaller: &Signaller) -> bool {
        // Reading processor time costs a system call, so it follows only a long elapsed time, in which the
        // worker may have lost its core to the peer that it woke.
        let slow = self.slow.load(Ordering::Relaxed);
        let suspect = slow > 0;
        let now = Instant::now();
        let before = if suspect { processor_time() } else { Duration::ZERO };
        if signaller.signal(&self.fd).is_err() {
            return true;
        }
        let took = if suspect { processor_time().saturating_sub(before) } else { now.elapsed() };
        if took > SLOW {
            self.slow.store(slow + 1, Ordering::Relaxed);
        } else if suspect {
            self.slow.store(slow - 1, Ordering::Relaxed);
        }
        slow >= TOO_SLOW
    }
}

impl Interrupt {
    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.event.fd
    }

    /// Signals the eventfd, now or soon. Never blocks.
    #[cold]
    pub(crate) fn raise(&self) {
        let event = &*self.event;
        match event.signaller {
            Some(signaller) if !event.deferred.load(Ordering::Relaxed) => {
                let deferred = event.signal_at_once(signaller);
                event.deferred.store(deferred, Ordering::Relaxed);
                if deferred {
                    self.defer();
                }
            }
            _ => self.defer(),
        }
    }

    fn defer(&self) {
        // Release: the thread signals after the writes before this.
        if self.event.pending.swap(true, Ordering::AcqRel) {
            return;
        }
        match self.shared.thread.get() {
            Some(thread) => thread.unpark(),
            None => {
                self.shared.wanted.store(true, Ordering::Relaxed);
                event::set(&self.shared.control);
            }
        }
    }
}

/// Processor time of the calling thread.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use rustix::{
        event::{EventfdFlags, epoll},
        process::{Resource, Rlimit, getrlimit, setrlimit},
    };

    use super::*;
    use crate::peer::limit::Limit;

    /// Far more than anything here takes.
    const LONG: Duration = Duration::from_secs(20);

    fn eventfd() -> OwnedFd {
        rustix::event::eventfd(0, EventfdFlags::CLOEXEC).unwrap()
    }

    fn fill(eventfd: &OwnedFd) {
        rustix::io::write(eventfd, &(u64::MAX - 1).to_ne_bytes()).unwrap();
    }

    fn control() -> Arc<OwnedFd> {
        Arc::new(event::new().unwrap())
    }

    fn is_set(eventfd: &OwnedFd, limit: Duration) -> bool {
        crate::peer::wait(crate::peer::all(&[eventfd]), Instant::now() + limit).unwrap()[0]
    }

    /// Runs it on a thread; `None` when it does not end.
    fn in_time<T: Send + 'static>(what: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let (tell, told) = mpsc::channel();
        thread::spawn(move || tell.send(what()));
        told.recv_timeout(LONG).ok()
    }

    #[test]
    fn a_full_eventfd_holds_nothing_up() {
        for signaller in [Signaller::shared().ok(), None] {
            let (limit, fd) = (Limit::new(1), eventfd());
            fill(&fd);
            let theirs = fd.try_clone().unwrap();
            let mut interrupts = Interrupts::with(&control(), Arc::new(limit.take()), signaller);
            let interrupt = interrupts.add(fd).unwrap();
            in_time(move || {
                (0..1000).for_each(|_| interrupt.raise());
                drop((interrupts, interrupt));
            })
            .expect("a peer that does not read is not waited for");
            // The blocked thread has gone with the session.
            let until = Instant::now() + LONG;
            while limit.take().is_none() {
                assert!(Instant::now() < until, "the thread has not ended");
                thread::sleep(Duration::from_millis(1));
            }
            drop(theirs);
        }
    }

    #[test]
    fn a_blocked_thread_holds_the_place_of_its_session() {
        let (limit, fd) = (Limit::new(1), eventfd());
        fill(&fd);
        let theirs = fd.try_clone().unwrap();
        let mut interrupts = Interrupts::with(&control(), Arc::new(limit.take()), None);
        let event = Arc::clone(&interrupts.add(fd).unwrap().event);
        event.pending.store(true, Ordering::Release);
        interrupts.start().unwrap();
        // Blocked, or about to be, and not freed by the end of the session.
        let until = Instant::now() + LONG;
        while event.pending.load(Ordering::Acquire) {
            assert!(Instant::now() < until);
            thread::yield_now();
        }
        interrupts.shared.events().clear();
        drop(interrupts);
        assert!(limit.take().is_none());
        event::clear(&theirs);
        while limit.take().is_none() {
            assert!(Instant::now() < until, "the thread has not ended");
            thread::yield_now();
        }
    }

    #[test]
    fn a_signal_that_costs_much_is_made_by_a_thread() {
        // As many open files as may be asked for: often fewer are allowed at first.
        let files = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: files.maximum, ..files }).unwrap();
        let (control, fd) = (control(), eventfd());
        // As a peer does it: a signal runs through all of these.
        let watch = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        let watched: Vec<OwnedFd> = (0..12_000).map_while(|_| fd.try_clone().ok()).collect();
        for fd in &watched {
            let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
            epoll::add(&watch, fd, epoll::EventData::new_u64(0), flags).unwrap();
        }
        let mut interrupts = Interrupts::new(&control, Arc::new(()));
        let interrupt = interrupts.add(fd).unwrap();
        let until = Instant::now() + LONG;
        while !interrupt.event.deferred.load(Ordering::Relaxed) {
            assert!(Instant::now() < until, "{} descriptors", watched.len());
            interrupt.raise();
        }
        assert!(is_set(&control, LONG));
        event::clear(interrupt.fd());
        interrupts.look();
        assert!(is_set(interrupt.fd(), LONG));
        event::clear(interrupt.fd());
        interrupt.raise();
        assert!(is_set(interrupt.fd(), LONG));
    }

    #[test]
    fn a_quick_signal_stays_the_workers() {
        let mut interrupts = Interrupts::new(&control(), Arc::new(()));
        let interrupt = interrupts.add(eventfd()).unwrap();
        (0..10_000).for_each(|_| interrupt.raise());
        assert!(!interrupt.event.deferred.load(Ordering::Relaxed));
        assert!(interrupts.shared.thread.get().is_none());
    }
}
