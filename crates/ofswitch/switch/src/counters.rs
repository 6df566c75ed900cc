//! Packets and bytes of a flow, a group, a bucket, a meter or a table.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Packets and bytes of an object. Workers add their own counts now and then.
#[derive(Debug, Default)]
pub struct Counters {
    packets: AtomicU64,
    bytes: AtomicU64,
    /// When it was used last, in nanoseconds of the steady clock.
    used: AtomicU64,
}

impl Counters {
    /// Creates counters with zero counts, at a time of the steady clock, in nanoseconds.
    #[must_use]
    pub fn new(now: u64) -> Counters {
        Counters { used: AtomicU64::new(now), ..Counters::default() }
    }

    /// Adds counts of a worker up to `now`.
    pub fn add(&self, packets: u64, bytes: u64, now: u64) {
        self.packets.fetch_add(packets, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
        self.touch(now);
    }

    /// Updates the time of the last use.
    pub fn touch(&self, now: u64) {
        self.used.fetch_max(now, Relaxed);
    }

    /// Returns the packets so far.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.packets.load(Relaxed)
    }

    /// Their bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Returns the time of the last use, in nanoseconds of the steady clock.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }
}
