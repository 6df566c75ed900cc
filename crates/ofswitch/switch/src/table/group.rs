//! A group.

use std::sync::Arc;

use crate::counters::Counters;
use crate::wire::{Bucket, GroupType, Selection};

/// A group. It never changes: one that is modified is another.
#[derive(Debug, Clone)]
pub struct Group {
    /// Its number.
    pub number: u32,
    /// Type: the buckets that a packet goes to.
    pub kind: GroupType,
    /// Its buckets, in order.
    pub buckets: Vec<GroupBucket>,
    /// Method to select a bucket.
    pub selection: Option<Selection>,
    /// When it was added, in nanoseconds of the steady clock.
    pub added: u64,
    /// Packets and bytes of the group.
    pub counters: Arc<Counters>,
}

/// A bucket of a group, and its counters.
#[derive(Debug, Clone)]
pub struct GroupBucket {
    /// The bucket.
    pub bucket: Bucket,
    /// Packets and bytes of the bucket.
    pub counters: Arc<Counters>,
}
