//! Expiring table: exact matches with a deadline for each entry.

use std::num::NonZeroU64;

use linerate_memory::{Backing, MemoryError};

use super::{Entry, Key, Refusal, Table};
use crate::wheel::Wheel;

/// A value and until when it lives. Never 0, so that a record without entry needs no mark of its own.
#[derive(Debug)]
#[repr(C)]
struct Timed<V> {
    deadline: NonZeroU64,
    value: V,
}

fn stored(deadline: u64) -> NonZeroU64 {
    NonZeroU64::new(deadline).unwrap_or(NonZeroU64::MIN)
}

/// A [`Table`] with a deadline for each entry, in ticks of the caller's choice, from 1 on.
///
/// [`touch`](Self::touch) puts a deadline off by a store into the line a lookup has just brought;
/// the [`Wheel`] behind learns of it when the old deadline comes. Beside the table it takes 12 bytes
/// for each entry's place in the wheel, and 8 for its deadline.
///
/// ```
/// use linerate_tables::exact::{Backing, Expiring};
///
/// let mut flows = Expiring::new(65_536, Backing::OnDemand, 1_000)?;
/// let (flow, _) = flows.insert([1u64, 2], "a flow", 1_300)?;
/// flows.touch(flow, 1_600);
/// flows.expire(1_599, 100, |_, _, _| unreachable!("it was put off"));
/// flows.expire(1_600, 100, |_, _, value| assert_eq!(value, "a flow"));
/// assert!(flows.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Expiring<K, V> {
    table: Table<K, Timed<V>>,
    wheel: Wheel,
}

impl<K: Key, V> Expiring<K, V> {
    /// An empty one for at most `limit` entries, at the time `now`.
    ///
    /// # Errors
    ///
    /// As for [`Table::new`].
    pub fn new(limit: usize, backing: Backing, now: u64) -> Result<Expiring<K, V>, MemoryError> {
        let table = Table::new(limit, backing)?;
        let wheel = Wheel::new(now, table.limit(), backing)?;
        Ok(Expiring { table, wheel })
    }

    /// Entries.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Entries there may be.
    pub fn limit(&self) -> usize {
        self.table.limit()
    }

    /// Bytes of memory it occupies.
    pub fn memory(&self) -> usize {
        self.table.memory() + self.wheel.memory()
    }

    /// As [`Table::lookup`]. An entry is there until [`expire`](Self::expire) takes it away, which
    /// may be later than its deadline.
    #[inline]
    pub fn lookup(&self, key: &K) -> Option<Entry> {
        self.table.lookup(key)
    }

    /// As [`Table::lookup_many`].
    ///
    /// # Panics
    ///
    /// When there are not as many places as keys.
    #[inline]
    pub fn lookup_many(&self, keys: &[K], found: &mut [Option<Entry>]) {
        self.table.lookup_many(keys, found);
    }

    /// The value of an entry.
    #[inline(always)]
    pub fn get(&self, entry: Entry) -> Option<&V> {
        self.table.get(entry).map(|timed| &timed.value)
    }

    /// The value of an entry, to be changed.
    #[inline(always)]
    pub fn get_mut(&mut self, entry: Entry) -> Option<&mut V> {
        self.table.get_mut(entry).map(|timed| &mut timed.value)
    }

    /// The key of an entry.
    pub fn key(&self, entry: Entry) -> Option<&K> {
        self.table.key(entry)
    }

    /// Until when an entry lives.
    pub fn deadline(&self, entry: Entry) -> Option<u64> {
        self.table.get(entry).map(|timed| timed.deadline.get())
    }

    /// Puts an entry's deadline off: a store. A deadline that is moved forward this way still
    /// counts only from the time the old one comes; see [`reschedule`](Self::reschedule).
    #[inline(always)]
    pub fn touch(&mut self, entry: Entry, deadline: u64) {
        if let Some(timed) = self.table.get_mut(entry) {
            timed.deadline = stored(deadline);
        }
    }

    /// Moves an entry's deadline either way: a store, and the entry's place in the wheel anew. For
    /// entries that end early, as a connection that was closed.
    pub fn reschedule(&mut self, entry: Entry, deadline: u64) {
        if let Some(timed) = self.table.get_mut(entry) {
            timed.deadline = stored(deadline);
            self.wheel.schedule(entry.number() as u32, deadline);
        }
    }

    /// As [`Table::insert`], with a deadline. The entry of a key that was there gets the new one.
    ///
    /// # Errors
    ///
    /// [`Refusal`]; the value is dropped.
    pub fn insert(
        &mut self,
        key: K,
        value: V,
        deadline: u64,
    ) -> Result<(Entry, Option<V>), Refusal> {
        let timed = Timed { deadline: stored(deadline), value };
        let (entry, old) = self.table.insert(key, timed)?;
        self.wheel.schedule(entry.number() as u32, deadline);
        Ok((entry, old.map(|old| old.value)))
    }

    /// As `insert`; at the limit the entry that would expire next is evicted and given to
    /// `evicted`. The choice is nearly exact: see [`Wheel::oldest`]. With equal time-outs it is
    /// nearly the one least recently touched.
    ///
    /// # Errors
    ///
    /// [`Refusal::BucketsFull`], and [`Refusal::Full`] when the limit is 0; the value is dropped.
    pub fn insert_evicting(
        &mut self,
        key: K,
        value: V,
        deadline: u64,
        evicted: impl FnOnce(Entry, K, V),
    ) -> Result<(Entry, Option<V>), Refusal> {
        if self.len() == self.limit() && self.lookup(&key).is_none() {
            let oldest = self.wheel.oldest(|number| deadline_of(&self.table, number));
            let oldest = Entry::from_number(oldest.ok_or(Refusal::Full)?);
            if let Some((key, value)) = self.remove_entry(oldest) {
                evicted(oldest, key, value);
            }
        }
        self.insert(key, value, deadline)
    }

    /// Removes a key; its value comes back.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let entry = self.lookup(key)?;
        self.remove_entry(entry).map(|(_, value)| value)
    }

    /// Removes an entry; its key and value come back.
    pub fn remove_entry(&mut self, entry: Entry) -> Option<(K, V)> {
        let (key, timed) = self.table.remove_entry(entry)?;
        self.wheel.cancel(entry.number() as u32);
        Some((key, timed.value))
    }

    /// Removes the entries whose deadline is `now` or earlier and gives them to `expired`. Looks at
    /// `budget` entries at most, some of which may have been put off, and returns how many it
    /// looked at: fewer than `budget` when it is through.
    pub fn expire(
        &mut self,
        now: u64,
        budget: usize,
        mut expired: impl FnMut(Entry, K, V),
    ) -> usize {
        let Expiring { table, wheel } = self;
        wheel.advance(now, budget, |number, now| {
            let deadline = deadline_of(table, number);
            if deadline > now {
                return Some(deadline);
            }
            let entry = Entry::from_number(number);
            if let Some((key, timed)) = table.remove_entry(entry) {
                expired(entry, key, timed.value);
            }
            None
        })
    }

    /// When [`expire`](Self::expire) has something to look at next, at the earliest.
    pub fn next(&self) -> Option<u64> {
        self.wheel.next()
    }

    /// All entries, in no useful order.
    pub fn iter(&self) -> impl Iterator<Item = (Entry, &K, &V)> {
        self.table.iter().map(|(entry, key, timed)| (entry, key, &timed.value))
    }
}

/// The deadline of an entry that is scheduled, and therefore in the table.
fn deadline_of<K: Key, V>(table: &Table<K, Timed<V>>, number: u32) -> u64 {
    table.get(Entry::from_number(number)).map_or(0, |timed| timed.deadline.get())
}
