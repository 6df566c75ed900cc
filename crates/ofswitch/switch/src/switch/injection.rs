//! Injection of a controller's packets, on their way to a worker.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::key::Key;
use crate::pipeline::Decision;

/// A packet with a decision, for a worker to carry out.
#[derive(Debug)]
pub struct Injection {
    /// The packet.
    pub packet: Vec<u8>,
    /// Fields of its arrival as set by the controller, and its headers.
    pub key: Key,
    /// Its decision.
    pub decision: Decision,
}

/// Packets that may wait for a worker.
const ROOM: usize = 1024;

/// Called when a packet waits for a worker that may be asleep.
pub type WakeupFn = dyn Fn() + Send + Sync;

/// The function to be called.
#[derive(Default)]
struct Wakeup(Mutex<Option<Arc<WakeupFn>>>);

impl std::fmt::Debug for Wakeup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wakeup").finish_non_exhaustive()
    }
}

/// Packets that wait for a worker.
#[derive(Debug, Default)]
pub(super) struct Injections {
    wakeup: Wakeup,
    /// Number of waiting packets, written under the lock: a worker looks here first.
    count: AtomicUsize,
    waiting: Mutex<VecDeque<Box<Injection>>>,
}

impl Injections {
    /// Adds one, or gives it back where there is no room.
    pub(super) fn add(&self, injection: Box<Injection>) -> Result<(), Box<Injection>> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() >= ROOM {
            return Err(injection);
        }
        waiting.push_back(injection);
        self.count.store(waiting.len(), Ordering::Release);
        // A worker that is called looks at once, and does not wait for the lock.
        drop(waiting);
        let wake = self.wakeup.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(wake) = wake {
            wake();
        }
        Ok(())
    }

    /// Sets the function to be called.
    pub(super) fn call(&self, wake: Arc<WakeupFn>) {
        *self.wakeup.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(wake);
    }

    /// The next one: one load where there is none, and never a wait.
    pub(super) fn next(&self) -> Option<Box<Injection>> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut waiting = self.waiting.try_lock().ok()?;
        let next = waiting.pop_front();
        self.count.store(waiting.len(), Ordering::Release);
        next
    }
}
