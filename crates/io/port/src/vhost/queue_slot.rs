//! Places at which the negotiator puts queues, and workers find them.
//!
//! A queue of the port is a place that stays; the queue in it comes with a peer and goes with it. A
//! worker has it for the time of a burst, behind a lock that is taken else by the negotiator alone,
//! which stops a queue and reads its position while workers run, as messages demand it, and by
//! other queues of the port where the peer has fewer.

use std::{
    fmt, io,
    os::fd::OwnedFd,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, TryLockError,
        atomic::{AtomicUsize, Ordering},
    },
};

use linerate_memory::{Frame, PoolCache};

use super::queue::Fault;
use crate::{
    counters::{Counters, DropReason},
    peer::{
        event::{self, EventSet},
        interrupt::Interrupt,
    },
};

/// Calls of the negotiator on a queue in use.
pub(super) trait Control: Send {
    /// Sets the event that tells the peer, and whether the peer has enabled the queue.
    fn adjust(&mut self, call: Option<&Arc<Interrupt>>, enabled: bool);

    /// Position, as `GET_VRING_BASE` says it.
    fn position(&self) -> u32;
}

/// A queue packets come in by.
pub(super) trait RxQueue: Control {
    /// Adds packets to the frame.
    fn burst(
        &mut self,
        pool: &mut PoolCache,
        frame: &mut Frame,
        counters: &Counters,
    ) -> Result<usize, Fault>;

    /// Asks to be told of packets from now on. Returns whether there are some already.
    fn arm(&mut self) -> bool;
}

/// Result of sending a frame.
#[derive(Debug, Default)]
pub(super) struct TxResult {
    /// Packets of its front that are done with.
    pub(super) done: usize,
    /// Whether there was no place for the next.
    pub(super) full: bool,
    pub(super) fault: Option<Fault>,
}

impl TxResult {
    /// Drops a frame for which there is no peer.
    pub(super) fn nowhere(
        pool: &mut PoolCache,
        frame: &mut Frame,
        counters: &Counters,
    ) -> TxResult {
        let done = frame.len();
        counters.dropped(DropReason::LinkDown, done);
        pool.give(frame);
        TxResult { done, ..TxResult::default() }
    }
}

/// A queue packets go out by.
pub(super) trait TxQueue: Control {
    /// Takes packets from the front of the frame.
    fn burst(&mut self, pool: &mut PoolCache, frame: &mut Frame, counters: &Counters) -> TxResult;

    /// Packets that the peer has not taken yet, as far as can be told.
    fn on_the_way(&mut self, pool: &mut PoolCache) -> usize;
}

/// A place for a queue.
pub(super) struct QueueSlot<Q: ?Sized> {
    state: Mutex<SlotState<Q>>,
    /// Events to wait for: the peer's event, and ours, which is set when a queue was put here.
    events: EventSet,
    event: OwnedFd,
}

pub(super) struct SlotState<Q: ?Sized> {
    pub(super) queue: Option<Box<Q>>,
    /// Why the queue there was is not used any more.
    pub(super) fault: Option<Fault>,
}

impl<Q: ?Sized> fmt::Debug for QueueSlot<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueSlot").finish_non_exhaustive()
    }
}

impl<Q: ?Sized> QueueSlot<Q> {
    pub(super) fn new() -> io::Result<QueueSlot<Q>> {
        let event = event::new()?;
        let events = EventSet::new(&[&event])?;
        Ok(QueueSlot { state: Mutex::new(SlotState { queue: None, fault: None }), events, event })
    }

    pub(super) fn events(&self) -> &EventSet {
        &self.events
    }

    /// Negotiator: from now on this queue is used, or none.
    pub(super) fn put(&self, queue: Option<Box<Q>>) {
        let before = {
            let mut state = self.lock();
            state.fault = None;
            std::mem::replace(&mut state.queue, queue)
        };
        drop(before);
        event::set(&self.event);
    }

    /// Negotiator: from now on none is used. Returns the one that was.
    pub(super) fn take(&self) -> Option<Box<Q>> {
        let before = {
            let mut state = self.lock();
            state.fault = None;
            state.queue.take()
        };
        event::set(&self.event);
        before
    }

    /// Negotiator: has it to itself.
    pub(super) fn lock(&self) -> MutexGuard<'_, SlotState<Q>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Worker: locks it for a burst, unless it is locked.
    #[inline]
    pub(super) fn try_lock(&self) -> Option<MutexGuard<'_, SlotState<Q>>> {
        match self.state.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(state)) => Some(state.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl<Q: ?Sized> SlotState<Q> {
    /// Worker: the peer has made this queue useless.
    #[cold]
    pub(super) fn fail(&mut self, fault: Fault, control: &OwnedFd) {
        self.fault = Some(fault);
        event::set(control);
    }

    /// The queue, if it can be used.
    #[inline]
    pub(super) fn usable(&mut self) -> Option<&mut Q> {
        if self.fault.is_some() {
            return None;
        }
        self.queue.as_deref_mut()
    }
}

/// The places of a port.
#[derive(Debug)]
pub(super) struct QueueSlots {
    pub(super) rx: Vec<QueueSlot<dyn RxQueue>>,
    pub(super) tx: Vec<QueueSlot<dyn TxQueue>>,
    /// Number of places of `tx` that have a queue, the first ones.
    active: AtomicUsize,
    /// Wakes the negotiator.
    pub(super) control: Arc<OwnedFd>,
}

impl QueueSlots {
    pub(super) fn new(queues: usize) -> io::Result<QueueSlots> {
        let rx: io::Result<Vec<_>> = (0..queues).map(|_| QueueSlot::new()).collect();
        let tx: io::Result<Vec<_>> = (0..queues).map(|_| QueueSlot::new()).collect();
        Ok(QueueSlots {
            rx: rx?,
            tx: tx?,
            active: AtomicUsize::new(0),
            control: Arc::new(event::new()?),
        })
    }

    pub(super) fn set_active(&self, count: usize) {
        self.active.store(count, Ordering::Relaxed);
    }

    /// The place that a queue of the port sends by: its own, or one of those that are used.
    #[inline]
    pub(super) fn tx_of(&self, queue: usize) -> usize {
        let active = self.active.load(Ordering::Relaxed);
        if queue < active || active == 0 { queue } else { queue % active }
    }

    /// The first fault of a queue.
    pub(super) fn fault(&self) -> Option<Fault> {
        let rx = self.rx.iter().find_map(|place| place.lock().fault);
        rx.or_else(|| self.tx.iter().find_map(|place| place.lock().fault))
    }
}
