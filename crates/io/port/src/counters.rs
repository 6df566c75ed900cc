//! Counters of a queue, written by one worker and read by any thread.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Why a packet was not passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(usize)]
pub enum DropReason {
    /// Received, but no buffer was free to hold it.
    NoBuffer,
    /// Longer than a buffer or the port's MTU.
    TooLong,
    /// A descriptor or record from outside made no sense.
    Malformed,
    /// The kernel had received it, and the receive ring was full.
    Overrun,
    /// The port could not take it: its transmit queue was full.
    QueueFull,
    /// The port's link is down or its other end has gone.
    LinkDown,
    /// The kernel refused to send it.
    Refused,
}

impl DropReason {
    /// All reasons, in the order of their counters.
    pub const ALL: [DropReason; 7] = [
        DropReason::NoBuffer,
        DropReason::TooLong,
        DropReason::Malformed,
        DropReason::Overrun,
        DropReason::QueueFull,
        DropReason::LinkDown,
        DropReason::Refused,
    ];

    /// Short name for tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            DropReason::NoBuffer => "no_buffer",
            DropReason::TooLong => "too_long",
            DropReason::Malformed => "malformed",
            DropReason::Overrun => "overrun",
            DropReason::QueueFull => "queue_full",
            DropReason::LinkDown => "link_down",
            DropReason::Refused => "refused",
        }
    }
}

impl DropReason {
    /// Text of the reason, for messages and tables.
    pub const fn meaning(self) -> &'static str {
        match self {
            DropReason::NoBuffer => "no free packet buffer",
            DropReason::TooLong => "longer than a buffer or the MTU",
            DropReason::Malformed => "malformed descriptor or record",
            DropReason::Overrun => "the kernel's receive ring was full",
            DropReason::QueueFull => "the transmit queue was full",
            DropReason::LinkDown => "the link was down",
            DropReason::Refused => "the kernel refused to send it",
        }
    }
}

/// Counters of one direction of one queue.
///
/// One worker writes (a load and a store, no locked instruction), so each
/// counter is exact. A reader gets no torn value, but not all counters of the
/// same moment.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Counters {
    packets: AtomicU64,
    bytes: AtomicU64,
    drops: [AtomicU64; DropReason::ALL.len()],
}

/// Counters at a moment, or summed over queues.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Packets passed on.
    pub packets: u64,
    /// Bytes of those packets, Ethernet header to payload, without FCS.
    pub bytes: u64,
    /// Packets dropped, by [`DropReason::ALL`].
    pub drops: [u64; DropReason::ALL.len()],
}

impl Counters {
    /// Fresh counters, to be shared with readers.
    pub fn shared() -> Arc<Counters> {
        Arc::default()
    }

    /// Counts packets passed on.
    #[inline]
    pub fn passed(&self, packets: usize, bytes: u64) {
        bump(&self.packets, packets as u64);
        bump(&self.bytes, bytes);
    }

    /// Counts packets dropped.
    #[inline]
    pub fn dropped(&self, reason: DropReason, packets: usize) {
        bump(&self.drops[reason as usize], packets as u64);
    }

    /// Reads the counters.
    pub fn read(&self) -> Counts {
        Counts {
            packets: self.packets.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            drops: self.drops.each_ref().map(|drops| drops.load(Ordering::Relaxed)),
        }
    }
}

/// Adds as the only writer.
#[inline]
fn bump(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed) + by, Ordering::Relaxed);
}

impl Counts {
    /// Packets dropped for any reason.
    pub fn dropped(&self) -> u64 {
        self.drops.iter().sum()
    }

    /// Packets dropped for one reason.
    pub fn dropped_for(&self, reason: DropReason) -> u64 {
        self.drops[reason as usize]
    }
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        for (sum, drops) in self.drops.iter_mut().zip(other.drops) {
            *sum += drops;
        }
    }
}

impl std::ops::Sub for Counts {
    type Output = Counts;

    fn sub(mut self, earlier: Counts) -> Counts {
        self.packets -= earlier.packets;
        self.bytes -= earlier.bytes;
        for (left, drops) in self.drops.iter_mut().zip(earlier.drops) {
            *left -= drops;
        }
        self
    }
}

impl std::iter::Sum for Counts {
    fn sum<I: Iterator<Item = Counts>>(counts: I) -> Counts {
        counts.fold(Counts::default(), |mut sum, counts| {
            sum += counts;
            sum
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_match_their_counters() {
        for (index, reason) in DropReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, index);
        }
    }

    #[test]
    fn counts_add_and_subtract() {
        let counters = Counters::default();
        counters.passed(3, 180);
        counters.dropped(DropReason::QueueFull, 2);
        let before = counters.read();
        counters.passed(1, 60);
        let mut sum = counters.read() - before;
        assert_eq!((sum.packets, sum.bytes, sum.dropped()), (1, 60, 0));
        sum += before;
        assert_eq!(sum, counters.read());
        assert_eq!(sum.dropped_for(DropReason::QueueFull), 2);
    }
}
