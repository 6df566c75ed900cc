//! A group.

use std::sync::Arc;

use super::Counters;
use crate::wire::{Bucket, GroupType, Selection};

/// A group. It never changes: one that is modified is another.
#[derive(Debug, Clone)]
pub struct Group {
    /// Its number.
    pub number: u32,
    /// Which buckets it does.
    pub kind: GroupType,
    /// Its buckets, in order.
    pub buckets: Vec<GroupBucket>,
    /// How one is selected.
    pub selection: Option<Selection>,
    /// When it was added, in nanoseconds of the steady clock.
    pub added: u64,
    /// What it has had.
    pub counters: Arc<Counters>,
}

/// A bucket of a group, and what it has had.
#[derive(Debug, Clone)]
pub struct GroupBucket {
    /// The bucket.
    pub bucket: Bucket,
    /// What it has had.
    pub counters: Arc<Counters>,
}
