//! Signature table: from hashes of packets to candidate entries.
//!
//! It is a cache of a search: a candidate is compared before it is used, and a forgotten one is
//! found by the search behind it. So full buckets overwrite signatures, none is ever taken out, and
//! a number may lead to an entry that has become another's.

use linerate_memory::{equal_lanes, prefetch};

/// Signatures in a bucket, which is a cache line.
const LANES: usize = 8;
/// Buckets there are at first, and at most: 4 KiB and 2 MiB.
const FIRST: usize = 64;
const MOST: usize = 32_768;
/// Up to so many buckets, prefetching costs more than it saves.
const NEAR: usize = 256;
/// A lane that leads nowhere. No signature is this.
const VACANT: u32 = 0;

#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct Bucket {
    signatures: [u32; LANES],
    entries: [u32; LANES],
}

impl Bucket {
    const EMPTY: Bucket = Bucket { signatures: [VACANT; LANES], entries: [0; LANES] };

    #[inline(always)]
    fn lane(&self, signature: u32) -> Option<usize> {
        let lane = equal_lanes(&self.signatures, signature).trailing_zeros() as usize;
        (lane < LANES).then_some(lane)
    }
}

/// The part of a hash that is kept.
#[inline(always)]
pub(super) fn signature(hash: u64) -> u32 {
    ((hash >> 32) as u32).max(VACANT + 1)
}

#[derive(Debug)]
pub(super) struct Signatures {
    buckets: Vec<Bucket>,
    /// Their number, which is a power of two, less one.
    mask: u32,
    /// Lanes that lead somewhere.
    used: usize,
    /// Lane of a full bucket to overwrite next.
    next: usize,
    /// Buckets there are at most.
    most: usize,
}

impl Signatures {
    /// Creates a table for so many entries, each of which may have some signatures.
    pub(super) fn new(entries: usize) -> Signatures {
        let most = entries.next_power_of_two().clamp(FIRST, MOST);
        Signatures {
            buckets: vec![Bucket::EMPTY; FIRST],
            mask: FIRST as u32 - 1,
            used: 0,
            next: 0,
            most,
        }
    }

    /// Returns true if it is too large for the first cache.
    #[inline(always)]
    pub(super) fn is_far(&self) -> bool {
        self.buckets.len() > NEAR
    }

    #[inline(always)]
    fn bucket(&self, signature: u32) -> Option<&Bucket> {
        self.buckets.get((signature & self.mask) as usize)
    }

    /// Asks for the line that [`find`](Self::find) reads.
    #[inline(always)]
    pub(super) fn prefetch(&self, signature: u32) {
        if let Some(bucket) = self.bucket(signature) {
            prefetch(bucket);
        }
    }

    /// Returns the entry that this signature was last mapped to.
    #[inline(always)]
    pub(super) fn find(&self, signature: u32) -> Option<u32> {
        let bucket = self.bucket(signature)?;
        Some(bucket.entries[bucket.lane(signature)? % LANES])
    }

    /// Maps a signature to an entry.
    pub(super) fn put(&mut self, signature: u32, entry: u32) {
        if self.used > self.buckets.len() * LANES / 2 && self.buckets.len() < self.most {
            self.grow();
        }
        self.place(signature, entry);
    }

    fn place(&mut self, signature: u32, entry: u32) {
        let bucket = &mut self.buckets[(signature & self.mask) as usize];
        let lane = bucket.lane(signature).unwrap_or_else(|| {
            bucket.lane(VACANT).inspect(|_| self.used += 1).unwrap_or_else(|| {
                self.next = (self.next + 1) % LANES;
                self.next
            })
        });
        bucket.signatures[lane] = signature;
        bucket.entries[lane] = entry;
    }

    /// Four times as many buckets.
    #[cold]
    fn grow(&mut self) {
        let count = (self.buckets.len() * 4).min(self.most);
        let old = std::mem::replace(&mut self.buckets, vec![Bucket::EMPTY; count]);
        self.mask = count as u32 - 1;
        self.used = 0;
        for bucket in old {
            for (signature, entry) in bucket.signatures.into_iter().zip(bucket.entries) {
                if signature != VACANT {
                    self.place(signature, entry);
                }
            }
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.buckets.fill(Bucket::EMPTY);
        self.used = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_that_was_said_is_found_or_nothing() {
        let mut signatures = Signatures::new(10_000);
        let of = |number: u32| number.wrapping_mul(0x9e37_79b1).max(1);
        for round in 0..2 {
            for number in 1..=10_000 {
                signatures.put(of(number), number + round);
            }
        }
        let found = |number: &u32| signatures.find(of(*number));
        let wrong =
            (1..=10_000u32).filter(|number| found(number).is_some_and(|at| at != number + 1));
        assert_eq!(wrong.count(), 0);
        let known = (1..=10_000).filter(|number| found(number).is_some()).count();
        assert!(known > 9_900, "{known}");
        assert_eq!(signatures.find(3), None);
    }
}
