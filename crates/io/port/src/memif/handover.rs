//! Handover of rings to the workers that use them, and back.
//!
//! The negotiator puts the ring of a new connection here, or that there is none, and the worker,
//! which sees by one load per burst that something has changed, takes it. The worker leaves its
//! former ring here: unmapping and closing is the negotiator's, too, which it tells so
//! ([`Connection::control`](super::ring::Connection::control)).

use std::{
    os::fd::OwnedFd,
    sync::{
        Mutex,
        atomic::{AtomicU32, Ordering},
    },
};

use crate::peer::event;

/// Source of the rings of one side of a queue.
#[derive(Debug)]
pub(super) struct Handover<T> {
    /// Number of rings put here so far.
    changes: AtomicU32,
    state: Mutex<HandoverState<T>>,
    /// Set when something was.
    event: OwnedFd,
}

#[derive(Debug)]
struct HandoverState<T> {
    next: Option<T>,
    left: Vec<T>,
}

impl<T> Handover<T> {
    pub(super) fn new() -> std::io::Result<Handover<T>> {
        Ok(Handover {
            changes: AtomicU32::new(0),
            state: Mutex::new(HandoverState { next: None, left: Vec::new() }),
            event: event::new()?,
        })
    }

    /// Event that is set when something was put here.
    pub(super) fn event(&self) -> &OwnedFd {
        &self.event
    }

    /// Negotiator: from now on the worker is to use this.
    pub(super) fn put(&self, next: Option<T>) {
        let before = {
            let mut state = self.state.lock().expect("no panic while held");
            let before = std::mem::replace(&mut state.next, next);
            self.changes.fetch_add(1, Ordering::Release);
            (before, std::mem::take(&mut state.left))
        };
        drop(before);
        event::set(&self.event);
    }

    /// Negotiator: drops the rings that workers have left.
    pub(super) fn sweep(&self) {
        let left = std::mem::take(&mut self.state.lock().expect("no panic while held").left);
        drop(left);
    }

    /// Worker: whether something else was put here than it has seen.
    #[inline]
    pub(super) fn has_changed(&self, seen: u32) -> bool {
        self.changes.load(Ordering::Relaxed) != seen
    }

    /// Worker: leaves its ring and takes the one here now. Changes nothing while the negotiator is
    /// here: the worker comes again.
    pub(super) fn exchange(&self, has: &mut Option<T>, seen: &mut u32) {
        if let Ok(mut state) = self.state.try_lock() {
            *seen = self.changes.load(Ordering::Acquire);
            let next = state.next.take();
            state.left.extend(std::mem::replace(has, next));
        }
    }

    /// Worker: leaves its ring, because it is of no use.
    pub(super) fn leave(&self, has: &mut Option<T>) {
        if let Ok(mut state) = self.state.lock() {
            state.left.extend(has.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_ring_is_handed_over_once_and_the_former_is_swept() {
        let handover = Handover::new().unwrap();
        let (mut has, mut seen) = (None, 0);
        assert!(!handover.has_changed(seen));
        let first = Arc::new(());
        handover.put(Some(Arc::clone(&first)));
        assert!(handover.has_changed(seen));
        handover.exchange(&mut has, &mut seen);
        assert!(has.is_some() && !handover.has_changed(seen));
        handover.put(Some(Arc::new(())));
        handover.put(None);
        handover.exchange(&mut has, &mut seen);
        assert!(has.is_none() && Arc::strong_count(&first) == 2);
        handover.sweep();
        assert_eq!(Arc::strong_count(&first), 1);
    }
}
