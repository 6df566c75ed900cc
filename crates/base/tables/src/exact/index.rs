//! Index from hashes to entry numbers: cuckoo buckets of one cache line each, whose number is
//! doubled a few at a time.
//!
//! A bucket has room for eight pairs of a 32-bit hash (the signature, in `rte_hash`) and the number
//! of an entry. A hash names two buckets, its first and its second; an entry is in the first if
//! there was room, else it is displaced to the second. Counters beside the numbers say for which hashes the
//! second is worth a cache miss.
//!
//! Growing is linear hashing (Litwin, "Linear hashing: a new tool for file and table addressing",
//! VLDB 1980): buckets are split in order and the new ones are added at the end. Both buckets of an
//! entry are told from its 32-bit hash alone, so a split touches two lines and no key. Once begun,
//! doubling is carried through in four splits per insertion: splitting only as many as the entries
//! need would leave those whose turn comes last with twice the entries of the others.
//!
//! The second bucket and moving entries to it are cuckoo hashing (Pagh and Rodler, 2004; buckets of
//! several: Dietzfelbinger and Weidling, 2007).

use linerate_memory::{Backing, MemoryError, Reserved, equal_lanes, prefetch};

use super::Refusal;

/// Entries in a bucket.
const LANES: usize = 8;
/// Average entries in a bucket at which doubling begins. They are hardly more when it is through, a
/// sixteenth, and at that an insertion finds none of 16 buckets with room once in 10^12 times.
/// Higher, more entries are in their second bucket, which costs lookups a mispredicted branch and a
/// line.
const FILL: usize = 4;
/// Buckets split in one insertion.
const SPLITS: usize = 4;
/// With fewer buckets, an unlucky seed could give many hashes the same two.
const MIN_BUCKETS: usize = 16;
const _: () = assert!(MIN_BUCKETS.is_multiple_of(SPLITS));
/// Of a lane of `entries`, the bits with the number; those above count entries displaced to their second
/// bucket.
const NUMBER: u32 = (1 << COUNT_AT) - 1;
const COUNT_AT: u32 = 30;
/// A lane of `hashes` without entry. No hash is stored as this.
const VACANT: u32 = 0;

#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Bucket {
    /// Hashes of the entries.
    hashes: [u32; LANES],
    /// Numbers of the entries, and in the two bits above each a counter, chosen by the top bits of
    /// a hash: entries whose first bucket this is and that were displaced to their second. A
    /// counter is never too low; it is too high where a split could not tell its bucket, and stays
    /// at 3.
    entries: [u32; LANES],
}

const _: () = assert!(size_of::<Bucket>() == 64);

impl Bucket {
    const EMPTY: Bucket = Bucket { hashes: [0; LANES], entries: [0; LANES] };

    /// The lanes with that hash, a bit each.
    #[inline(always)]
    fn lanes(&self, hash: u32) -> u32 {
        equal_lanes(&self.hashes, hash)
    }

    fn vacant(&self) -> Option<usize> {
        let lane = self.lanes(VACANT).trailing_zeros() as usize;
        (lane < LANES).then_some(lane)
    }

    fn put(&mut self, lane: usize, hash: u32, entry: u32) {
        self.hashes[lane] = hash;
        self.entries[lane] = self.entries[lane] & !NUMBER | entry;
    }

    /// The number of an entry with that hash.
    #[inline(always)]
    pub(super) fn any(&self, hash: u32) -> Option<u32> {
        match self.lanes(hash) {
            0 => None,
            lanes => Some(self.entry(lanes)),
        }
    }

    /// The number of the entry in the first of those lanes.
    #[inline(always)]
    fn entry(&self, lanes: u32) -> u32 {
        self.entries[lanes.trailing_zeros() as usize & 7] & NUMBER
    }

    /// Returns true if an entry with that hash may have been displaced to its second bucket.
    #[inline(always)]
    pub(super) fn has_displaced(&self, hash: u32) -> bool {
        self.entries[counter(hash)] > NUMBER
    }

    fn count_displaced(&mut self, hash: u32) {
        let counter = &mut self.entries[counter(hash)];
        if *counter >> COUNT_AT != 3 {
            *counter += 1 << COUNT_AT;
        }
    }

    fn count_returned(&mut self, hash: u32) {
        let counter = &mut self.entries[counter(hash)];
        if !matches!(*counter >> COUNT_AT, 0 | 3) {
            *counter -= 1 << COUNT_AT;
        }
    }
}

/// The hash's counter.
#[inline(always)]
fn counter(hash: u32) -> usize {
    (hash >> 29) as usize
}

/// Derives the hash that chooses the second bucket: its low bits depend on other bits than those
/// that choose the first.
#[inline(always)]
fn second(hash: u32) -> u32 {
    hash.rotate_right(16).wrapping_mul(0x9e37_79b1)
}

/// The part of a key's hash this index stores and compares.
#[inline(always)]
pub(super) fn signature(hash: u64) -> u32 {
    ((hash >> 32) as u32).max(VACANT + 1)
}

#[derive(Debug)]
pub(super) struct Index {
    buckets: Reserved<Bucket>,
    /// Buckets at the beginning of this round of splits, minus one; they are a power of two.
    mask: u32,
    /// Buckets split in this round.
    split: u32,
    entries: usize,
}

impl Index {
    pub(super) fn new(limit: usize, backing: Backing) -> Result<Index, MemoryError> {
        let capacity = limit.div_ceil(FILL).next_power_of_two().max(MIN_BUCKETS);
        let mut buckets = Reserved::new(capacity, backing)?;
        for _ in 0..MIN_BUCKETS {
            let _ = buckets.push(Bucket::EMPTY);
        }
        Ok(Index { buckets, mask: MIN_BUCKETS as u32 - 1, split: 0, entries: 0 })
    }

    /// The bucket a number chooses.
    #[inline(always)]
    fn bucket_of(&self, chooser: u32) -> usize {
        let bucket = chooser & self.mask;
        (if bucket < self.split { chooser & (2 * self.mask + 1) } else { bucket }) as usize
    }

    /// Prefetches the line [`first`](Self::first) will read.
    #[inline(always)]
    pub(super) fn prefetch_first(&self, hash: u32) {
        prefetch(&self.buckets[self.bucket_of(hash)]);
    }

    /// Prefetches the line [`second`](Self::second) will read.
    #[inline(always)]
    pub(super) fn prefetch_second(&self, hash: u32) {
        prefetch(&self.buckets[self.bucket_of(second(hash))]);
    }

    /// The first bucket of a hash.
    #[inline(always)]
    pub(super) fn first(&self, hash: u32) -> &Bucket {
        &self.buckets[self.bucket_of(hash)]
    }

    /// The second bucket of a hash.
    #[inline(always)]
    pub(super) fn second(&self, hash: u32) -> &Bucket {
        &self.buckets[self.bucket_of(second(hash))]
    }

    /// The entry with that hash that `is` the one wanted.
    #[inline]
    pub(super) fn find(&self, hash: u32, mut is: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut within = |bucket: &Bucket| {
            let mut lanes = bucket.lanes(hash);
            while lanes != 0 {
                let entry = bucket.entry(lanes);
                if is(entry) {
                    return Some(entry);
                }
                lanes &= lanes - 1;
            }
            None
        };
        let bucket = self.first(hash);
        within(bucket).or_else(|| {
            let second = bucket.has_displaced(hash).then(|| self.second(hash))?;
            within(second)
        })
    }

    /// Adds an entry. Looks at 16 buckets at most, and splits four at most.
    pub(super) fn insert(&mut self, hash: u32, entry: u32) -> Result<(), Refusal> {
        if self.split != 0 || self.entries >= FILL * self.buckets.len() {
            (0..SPLITS).for_each(|_| self.split_next());
        }
        let (one, two) = (self.bucket_of(hash), self.bucket_of(second(hash)));
        let place = self.buckets[one]
            .vacant()
            .map(|lane| (one, lane))
            .or_else(|| self.buckets[two].vacant().map(|lane| (two, lane)))
            .or_else(|| self.make_room(one))
            .or_else(|| self.make_room(two));
        let (bucket, lane) = place.ok_or(Refusal::BucketsFull)?;
        self.buckets[bucket].put(lane, hash, entry);
        if bucket != one {
            self.buckets[one].count_displaced(hash);
        }
        self.entries += 1;
        Ok(())
    }

    /// Moves one of a full bucket's entries to the other of its two.
    fn make_room(&mut self, full: usize) -> Option<(usize, usize)> {
        for lane in 0..LANES {
            let hash = self.buckets[full].hashes[lane];
            let (one, two) = (self.bucket_of(hash), self.bucket_of(second(hash)));
            let other = if one == full { two } else { one };
            let Some(vacant) = self.buckets[other].vacant() else { continue };
            let entry = self.buckets[full].entries[lane] & NUMBER;
            self.buckets[other].put(vacant, hash, entry);
            if one == full {
                self.buckets[one].count_displaced(hash);
            } else {
                self.buckets[one].count_returned(hash);
            }
            self.buckets[full].hashes[lane] = VACANT;
            return Some((full, lane));
        }
        None
    }

    /// Removes an entry that is there.
    pub(super) fn remove(&mut self, hash: u32, entry: u32) {
        let (one, two) = (self.bucket_of(hash), self.bucket_of(second(hash)));
        for at in [one, two] {
            let bucket = &mut self.buckets[at];
            let same = |&lane: &usize| {
                bucket.hashes[lane] == hash && bucket.entries[lane] & NUMBER == entry
            };
            if let Some(lane) = (0..LANES).find(same) {
                bucket.hashes[lane] = VACANT;
                if at != one {
                    self.buckets[one].count_returned(hash);
                }
                self.entries -= 1;
                return;
            }
        }
    }

    /// Splits the next bucket, where the capacity reserved allows.
    fn split_next(&mut self) {
        let from = self.split as usize;
        let new = self.buckets.len();
        if self.buckets.push(Bucket::EMPTY).is_err() {
            return;
        }
        let mut stays = Bucket::EMPTY;
        let mut goes = Bucket::EMPTY;
        // Which of the displaced entries it counts go is not known here: both may have them.
        let old = self.buckets[from];
        stays.entries = old.entries.map(|entry| entry & !NUMBER);
        goes.entries = stays.entries;
        for lane in 0..LANES {
            let (hash, entry) = (old.hashes[lane], old.entries[lane] & NUMBER);
            if hash == VACANT {
                continue;
            }
            let one = self.bucket_of(hash);
            let chooser = if one == from { hash } else { second(hash) };
            // A displaced entry goes back where there is room since.
            if one != from
                && let Some(vacant) = self.buckets[one].vacant()
            {
                self.buckets[one].put(vacant, hash, entry);
                self.buckets[one].count_returned(hash);
                continue;
            }
            // The bit that is new in this round.
            let to = if chooser & (self.mask + 1) == 0 { &mut stays } else { &mut goes };
            to.put(lane, hash, entry);
        }
        self.buckets[from] = stays;
        self.buckets[new] = goes;
        self.split += 1;
        if self.split > self.mask {
            self.mask = 2 * self.mask + 1;
            self.split = 0;
        }
    }

    /// Bytes.
    pub(super) fn memory(&self) -> usize {
        self.buckets.memory()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// Checks the invariants of every bucket.
    fn check(index: &Index, model: &HashMap<u32, u32>) {
        let mut gone = HashMap::<(usize, usize), u32>::new();
        let mut found = 0;
        for (at, bucket) in index.buckets.iter().enumerate() {
            for lane in (0..LANES).filter(|&lane| bucket.hashes[lane] != VACANT) {
                let hash = bucket.hashes[lane];
                assert_eq!(model.get(&(bucket.entries[lane] & NUMBER)), Some(&hash));
                found += 1;
                let one = index.bucket_of(hash);
                if one != at {
                    assert_eq!(
                        index.bucket_of(second(hash)),
                        at,
                        "an entry is in one of its two buckets"
                    );
                    *gone.entry((one, counter(hash))).or_default() += 1;
                }
            }
        }
        assert_eq!((found, index.entries), (model.len(), model.len()));
        for ((at, counter), gone) in gone {
            let counted = index.buckets[at].entries[counter] >> COUNT_AT;
            assert!(counted >= gone.min(3), "a counter is never too low");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "thousands of keys take hours")]
    fn buckets_hold_their_invariants_while_they_are_split() {
        let mut random = fastrand::Rng::with_seed(5);
        let mut index = Index::new(3000, Backing::OnDemand).expect("memory");
        let mut model = HashMap::new();
        for entry in 0..6000 {
            if model.len() == 3000 || (!model.is_empty() && random.u8(..) < 60) {
                let &gone = model.keys().nth(random.usize(..model.len().min(50))).expect("one");
                index.remove(model.remove(&gone).expect("there"), gone);
            }
            let hash = signature(random.u64(..));
            index.insert(hash, entry).expect("room");
            model.insert(entry, hash);
            if entry % 37 == 0 {
                check(&index, &model);
            }
        }
        check(&index, &model);
        for (&entry, &hash) in &model {
            assert_eq!(index.find(hash, |found| found == entry), Some(entry));
        }
        assert_eq!(index.buckets.len(), 1024);
    }

    #[test]
    #[cfg_attr(miri, ignore = "thousands of keys take hours")]
    fn an_index_that_cannot_grow_has_each_entry_once() {
        let mut random = fastrand::Rng::with_seed(6);
        let mut index = Index::new(MIN_BUCKETS * FILL, Backing::OnDemand).expect("memory");
        let mut model = HashMap::new();
        for entry in 0..4000 {
            if !model.is_empty() && random.u8(..) < 110 {
                let &gone = model.keys().next().expect("one");
                index.remove(model.remove(&gone).expect("there"), gone);
            }
            let hash = signature(random.u64(..));
            if index.insert(hash, entry).is_ok() {
                model.insert(entry, hash);
            }
            check(&index, &model);
        }
        assert_eq!(index.buckets.len(), MIN_BUCKETS);
        assert!(model.len() > MIN_BUCKETS * FILL, "it was never asked for more");
    }

    #[test]
    fn more_of_one_hash_than_two_buckets_hold_are_refused() {
        let mut index = Index::new(1 << 16, Backing::OnDemand).expect("memory");
        let hash = 0xdead_beef;
        let taken = (0..100).take_while(|&entry| index.insert(hash, entry).is_ok()).count();
        assert_eq!(taken, 2 * LANES);
        assert_eq!(index.insert(hash, 100), Err(Refusal::BucketsFull));
        assert_eq!(index.insert(hash ^ 1, 100), Ok(()));
        // The one that was refused left nothing behind.
        assert_eq!(index.find(hash, |entry| entry == 100), None);
        assert_eq!(index.entries, 2 * LANES + 1);
    }

    #[test]
    #[cfg_attr(miri, ignore = "thousands of keys take hours")]
    fn all_that_two_buckets_cannot_hold_moves_once() {
        // Without moving, a table near its limit refuses some keys.
        let mut random = fastrand::Rng::with_seed(9);
        let mut index = Index::new(1 << 18, Backing::OnDemand).expect("memory");
        for entry in 0..1 << 18 {
            assert_eq!(index.insert(signature(random.u64(..)), entry), Ok(()));
        }
    }
}
