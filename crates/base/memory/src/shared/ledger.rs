//! Ledger: the members that hold each buffer.
//!
//! A word per buffer, a bit in it per member; none is set of a buffer that is the server's alone.
//! Only the server writes it: a bit is set before the buffer's name is on the ring to the member,
//! and taken away when the name has come back, or when the member is gone. So there is no moment at
//! which a member's death could leave a word half changed, and one look at each finds all buffers
//! it held.

use super::ring::RingMemory;
use crate::sync::{AtomicU64, Ordering};

/// Most members at a time: bits of a word. Bit 0 is never set.
pub const MEMBERS_MAX: usize = 63;

/// The words, from `base` on.
#[derive(Debug)]
pub struct Ledger<P> {
    place: P,
    base: usize,
    count: u32,
}

impl<P: RingMemory> Ledger<P> {
    /// The ledger of `count` buffers.
    pub fn new(place: P, base: usize, count: u32) -> Ledger<P> {
        Ledger { place, base, count }
    }

    /// The words of all buffers, in their order, for loops over many: bits of holders, which the
    /// server alone writes, relaxed as in [`Ledger::set`].
    #[inline]
    pub fn words(&self) -> &[AtomicU64] {
        self.place.words(self.base, self.count as usize)
    }

    /// The bits of members that hold a buffer.
    #[inline]
    pub fn holders(&self, index: u32) -> u64 {
        self.place.word(self.base + index as usize).load(Ordering::Relaxed)
    }

    /// Returns true if a member holds a buffer.
    #[inline]
    pub fn holds(&self, member: usize, index: u32) -> bool {
        self.holders(index) >> member & 1 != 0
    }

    /// Sets the holders. The server's alone. Relaxed: members see it by the ring's position, stored
    /// behind it.
    #[inline]
    pub fn set(&self, index: u32, holders: u64) {
        self.place.word(self.base + index as usize).store(holders, Ordering::Relaxed);
    }

    /// Takes a member off a buffer it holds; returns the bits of those left.
    #[inline]
    pub fn release(&self, member: usize, index: u32) -> u64 {
        let left = self.holders(index) & !(1 << member);
        self.set(index, left);
        left
    }

    /// Takes a member off all buffers, `held` of them, and calls `left` with those without a holder
    /// now.
    pub fn sweep(&self, member: usize, mut held: u32, mut left: impl FnMut(u32)) {
        for index in 0..self.count {
            if held == 0 {
                break;
            }
            if self.holds(member, index) {
                held -= 1;
                if self.release(member, index) == 0 {
                    left(index);
                }
            }
        }
    }
}
