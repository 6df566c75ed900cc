//! Dump of a flow cache for operators.

use std::sync::Arc;

use super::FlowCache;
use crate::key::{Key, Mask};
use crate::pipeline::Decision;

/// An entry.
#[derive(Debug, Clone)]
pub struct EntryInfo {
    /// Fields that its packets have in common.
    pub key: Key,
    /// Bits of these fields.
    pub mask: Mask,
    /// Decision for its packets.
    pub decision: Arc<Decision>,
    /// Its packets, and their bytes.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// When it was made, in nanoseconds of the steady clock.
    pub made: u64,
    /// When it was last used, up to the last [`FlowCache::tick`] or [`FlowCache::flush`].
    pub used: u64,
    /// The version of the tables it is known to hold for.
    pub version: u64,
}

/// Numbers of entries and masks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Entries.
    pub entries: usize,
    /// Masks they have.
    pub masks: usize,
}

impl FlowCache {
    /// Returns all entries, in no order.
    pub fn entries(&self) -> impl Iterator<Item = EntryInfo> {
        self.entries.numbers().filter_map(|entry| {
            let (hot, cold) = (self.entries.hot.get(entry as usize)?, self.entries.cold(entry)?);
            Some(EntryInfo {
                key: cold.key,
                mask: self.entries.mask_entries.get(usize::from(hot.mask))?.mask,
                decision: Arc::clone(&cold.decision),
                packets: cold.packets + u64::from(hot.packets),
                bytes: cold.bytes + hot.bytes,
                made: cold.made,
                used: cold.used,
                version: cold.version,
            })
        })
    }

    /// The entry packets with this key go by, where there is one that holds.
    #[must_use]
    pub fn entry_of(&self, key: &Key) -> Option<EntryInfo> {
        self.entries().find(|info| info.key.agrees(key, &info.mask))
    }

    /// Returns the numbers of entries and masks.
    #[must_use]
    pub fn totals(&self) -> Totals {
        Totals { entries: self.entries.len(), masks: self.entries.masks() }
    }
}
