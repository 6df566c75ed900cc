//! Exact-match table: an index of hashes and the records it leads to.

use std::num::NonZeroU32;

use linerate_memory::{Backing, MemoryError, Reserved, prefetch};

use super::index::{Index, signature};
use super::{Key, Refusal, Seed};

/// Lookups under way at once. More than the cache misses a core can have outstanding, few enough
/// for their lines to stay in its first cache.
const GROUP: usize = 64;
/// With so many entries, index and records of small keys are in the first caches, where asking for lines
/// ahead costs more than it saves.
const NEAR: usize = 1024;
/// With so few keys there is nothing to overlap.
const FEW: usize = 3;
/// The number of no entry.
const NO_ENTRY: u32 = u32::MAX;

/// Names an entry of a table from its insertion to its removal. Afterwards the name is given to
/// another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Entry(NonZeroU32);

impl Entry {
    /// For arrays beside the table: counted from 0, below the largest number of entries there were.
    #[inline(always)]
    #[must_use]
    pub fn number(self) -> usize {
        self.0.get() as usize - 1
    }

    /// The entry of that number, whether or not there is one: a table knows none of the name of
    /// one that was removed.
    #[inline(always)]
    #[must_use]
    pub fn from_number(number: u32) -> Entry {
        Entry(NonZeroU32::MIN.saturating_add(number))
    }
}

#[derive(Debug)]
#[repr(C)]
struct Record<K, V> {
    /// Stays when the entry is removed; nothing in the index leads to it then.
    key: K,
    value: Option<V>,
}

/// A table of exact matches. See the [module](super) for its layout and the cost of operations.
///
/// ```
/// use linerate_tables::exact::{Backing, Table};
///
/// let mut table = Table::new(1_000_000, Backing::OnDemand)?;
/// let (entry, old) = table.insert([0x0a00_0001, 0x0a00_0002_0050u64], "web")?;
/// assert_eq!(old, None);
/// let mut found = [None; 2];
/// table.lookup_many(&[[1, 1], [0x0a00_0001, 0x0a00_0002_0050]], &mut found);
/// assert_eq!(found, [None, Some(entry)]);
/// assert_eq!(table.get(entry), Some(&"web"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Table<K, V> {
    seed: Seed,
    index: Index,
    records: Reserved<Record<K, V>>,
    /// Numbers of records whose entries were removed; the last is taken first.
    free: Reserved<u32>,
    limit: usize,
}

impl<K: Key, V> Table<K, V> {
    /// Entries a table can have at most.
    pub const LIMIT: usize = 1 << 30;

    /// An empty table for at most `limit` entries, with a random seed.
    ///
    /// # Errors
    ///
    /// When the machine has not the memory, or not the addresses for [`Backing::OnDemand`].
    pub fn new(limit: usize, backing: Backing) -> Result<Table<K, V>, MemoryError> {
        Self::with_seed(limit, backing, Seed::random())
    }

    /// Makes a table with a known seed, for tests and for runs that must repeat.
    ///
    /// # Errors
    ///
    /// As for [`new`](Self::new).
    pub fn with_seed(
        limit: usize,
        backing: Backing,
        seed: Seed,
    ) -> Result<Table<K, V>, MemoryError> {
        let limit = limit.min(Self::LIMIT);
        Ok(Table {
            seed,
            index: Index::new(limit, backing)?,
            records: Reserved::new(limit, backing)?,
            free: Reserved::new(limit, backing)?,
            limit,
        })
    }

    /// Entries.
    pub fn len(&self) -> usize {
        self.records.len() - self.free.len()
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Entries there may be.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Bytes of memory it occupies. Removing entries gives none back: they are used again first.
    pub fn memory(&self) -> usize {
        self.index.memory() + self.records.memory() + self.free.memory()
    }

    /// The entry of a key. Where several keys are at hand, [`lookup_many`](Self::lookup_many) costs
    /// less for each.
    #[inline]
    pub fn lookup(&self, key: &K) -> Option<Entry> {
        self.find(key, self.signature(key)).map(Entry::from_number)
    }

    /// The entries of many keys. The cache misses of up to 64 overlap; when it returns, the first
    /// lines of the entries found are in the cache. Bursts of 64 and more cost the least per key.
    ///
    /// # Panics
    ///
    /// When there are not as many places as keys.
    #[inline]
    pub fn lookup_many(&self, keys: &[K], found: &mut [Option<Entry>]) {
        assert_eq!(keys.len(), found.len(), "a place for each key");
        if self.records.len() <= NEAR || keys.len() <= FEW {
            return self.lookup_each(keys, found);
        }
        for (keys, found) in keys.chunks(GROUP).zip(found.chunks_mut(GROUP)) {
            self.lookup_group(keys, found);
        }
    }

    /// One after the other. Packets come in trains, so a key is often the one before.
    #[inline(always)]
    fn lookup_each(&self, keys: &[K], found: &mut [Option<Entry>]) {
        let Some(&(mut last)) = keys.first() else { return };
        let mut entry = self.lookup_near(&last);
        for (key, found) in keys.iter().zip(found) {
            if *key != last {
                (last, entry) = (*key, self.lookup_near(key));
            }
            *found = entry;
        }
    }

    /// As [`lookup`](Self::lookup), as short as it can be where the first entry with the key's signature
    /// is the key's.
    #[inline(always)]
    fn lookup_near(&self, key: &K) -> Option<Entry> {
        let hash = self.signature(key);
        if let Some(number) = self.index.first(hash).any(hash)
            && let Some(record) = self.records.get(number as usize)
            && record.key == *key
        {
            return Some(Entry::from_number(number));
        }
        self.lookup_further(key, hash)
    }

    #[inline(never)]
    fn lookup_further(&self, key: &K, hash: u32) -> Option<Entry> {
        self.find(key, hash).map(Entry::from_number)
    }

    fn lookup_group(&self, keys: &[K], found: &mut [Option<Entry>]) {
        let mut hashes = [0; GROUP];
        let mut candidates = [NO_ENTRY; GROUP];
        for (key, hash) in keys.iter().zip(&mut hashes) {
            *hash = self.signature(key);
            self.index.prefetch_first(*hash);
        }
        // Those whose first bucket says that an entry of theirs may be in the second.
        let mut displaced = [0; GROUP];
        let mut count = 0;
        for (at, (&hash, candidate)) in hashes[..keys.len()].iter().zip(&mut candidates).enumerate()
        {
            let bucket = self.index.first(hash);
            if let Some(number) = bucket.any(hash) {
                self.prefetch(number);
                *candidate = number;
            } else if bucket.has_displaced(hash) {
                self.index.prefetch_second(hash);
                displaced[count % GROUP] = at as u8;
                count += 1;
            }
        }
        for &at in &displaced[..count] {
            let at = usize::from(at) % GROUP;
            if let Some(number) = self.index.second(hashes[at]).any(hashes[at]) {
                self.prefetch(number);
                candidates[at] = number;
            }
        }
        for (((key, &hash), &candidate), found) in
            keys.iter().zip(&hashes).zip(&candidates).zip(found)
        {
            *found = match self.records.get(candidate as usize) {
                Some(record) if record.key == *key => Some(Entry::from_number(candidate)),
                Some(_) => self.find_among_equals(key, hash),
                None => None,
            };
        }
    }

    /// The entry of a key when the first entry with its signature is another key's: one lookup in
    /// some hundreds in a table of millions.
    #[cold]
    fn find_among_equals(&self, key: &K, hash: u32) -> Option<Entry> {
        self.find(key, hash).map(Entry::from_number)
    }

    #[inline(always)]
    fn signature(&self, key: &K) -> u32 {
        signature(key.hash(&self.seed))
    }

    #[inline(always)]
    fn prefetch(&self, number: u32) {
        if let Some(record) = self.records.get(number as usize) {
            prefetch(record);
            // Records of other sizes may cross into the next line.
            if size_of::<Record<K, V>>() > 64 || !size_of::<Record<K, V>>().is_power_of_two() {
                prefetch(&record.value);
            }
        }
    }

    #[inline]
    fn find(&self, key: &K, hash: u32) -> Option<u32> {
        let is = |number: u32| {
            self.records.get(number as usize).is_some_and(|record| record.key == *key)
        };
        self.index.find(hash, is)
    }

    /// The value of an entry.
    #[inline(always)]
    pub fn get(&self, entry: Entry) -> Option<&V> {
        self.records.get(entry.number())?.value.as_ref()
    }

    /// The value of an entry, to be changed.
    #[inline(always)]
    pub fn get_mut(&mut self, entry: Entry) -> Option<&mut V> {
        self.records.get_mut(entry.number())?.value.as_mut()
    }

    /// The entry of that [number](Entry::number), when there is one: for users that keep numbers,
    /// as a wheel of deadlines does.
    pub fn entry(&self, number: usize) -> Option<Entry> {
        self.records.get(number)?.value.as_ref()?;
        u32::try_from(number).ok().map(Entry::from_number)
    }

    /// The key of an entry.
    pub fn key(&self, entry: Entry) -> Option<&K> {
        let record = self.records.get(entry.number())?;
        record.value.is_some().then_some(&record.key)
    }

    /// Adds a key, or replaces its value: then the old one comes back and the entry keeps its name.
    ///
    /// # Errors
    ///
    /// [`Refusal`]; the value is dropped.
    pub fn insert(&mut self, key: K, value: V) -> Result<(Entry, Option<V>), Refusal> {
        let hash = self.signature(&key);
        if let Some(number) = self.find(&key, hash) {
            let entry = Entry::from_number(number);
            return Ok((entry, self.get_mut(entry).map(|old| std::mem::replace(old, value))));
        }
        let vacated = self.free.last().copied();
        let number = vacated.unwrap_or(self.records.len() as u32);
        if self.len() == self.limit {
            return Err(Refusal::Full);
        }
        self.index.insert(hash, number)?;
        let record = Record { key, value: Some(value) };
        match vacated {
            Some(_) => {
                self.free.pop();
                self.records[number as usize] = record;
            }
            // There is room: fewer entries than the limit, and none vacated.
            None => drop(self.records.push(record)),
        }
        Ok((Entry::from_number(number), None))
    }

    /// Removes a key; its value comes back.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let entry = self.lookup(key)?;
        self.remove_entry(entry).map(|(_, value)| value)
    }

    /// Removes an entry; its key and value come back.
    pub fn remove_entry(&mut self, entry: Entry) -> Option<(K, V)> {
        let record = self.records.get_mut(entry.number())?;
        let value = record.value.take()?;
        let key = record.key;
        let number = entry.number() as u32;
        self.index.remove(self.signature(&key), number);
        // There is room: as many places as records.
        let _ = self.free.push(number);
        Some((key, value))
    }

    /// All entries, in no useful order. O(largest number of entries there were).
    pub fn iter(&self) -> impl Iterator<Item = (Entry, &K, &V)> {
        self.records.iter().zip(0..).filter_map(|(record, number)| {
            record.value.as_ref().map(|value| (Entry::from_number(number), &record.key, value))
        })
    }
}
