//! Numbers of connections per zone, and their limits.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::per_zone::PerZone;

/// Zones whose counts are made together, when one of them has its first connection.
const TOGETHER: usize = 256;

/// The limit of a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ZoneLimit {
    /// The zone.
    pub zone: u16,
    /// Connections at most.
    pub limit: u32,
    /// Connections now.
    pub count: u32,
}

/// The counts and limits of all zones.
#[derive(Debug)]
pub(super) struct Zones {
    counts: Vec<OnceLock<Box<[AtomicU32]>>>,
    limits: PerZone<u32>,
}

impl Default for Zones {
    fn default() -> Zones {
        Zones {
            counts: (0..=usize::from(u16::MAX) / TOGETHER).map(|_| OnceLock::new()).collect(),
            limits: PerZone::default(),
        }
    }
}

impl Zones {
    fn count(&self, zone: u16) -> &AtomicU32 {
        let zone = usize::from(zone);
        let new = || (0..TOGETHER).map(|_| AtomicU32::new(0)).collect();
        &self.counts[zone / TOGETHER].get_or_init(new)[zone % TOGETHER]
    }

    /// Counts one more connection of a zone, if it may have one.
    pub(super) fn take(&self, zone: u16) -> bool {
        let limit = self.limits.get(zone);
        let before = self.count(zone).fetch_add(1, Relaxed);
        let fits = limit.is_none_or(|limit| before < limit);
        if !fits {
            self.give(zone);
        }
        fits
    }

    /// Counts one connection less.
    pub(super) fn give(&self, zone: u16) {
        self.count(zone).fetch_sub(1, Relaxed);
    }

    /// Limits a zone, or with `None` the zones without their own limit; or removes the limit.
    /// Existing connections stay.
    pub(super) fn set(&self, zone: Option<u16>, limit: Option<u32>) {
        self.limits.set(zone, limit);
    }

    /// The limit of zones that have none of their own, and those that have one.
    pub(super) fn all(&self) -> (Option<u32>, Vec<ZoneLimit>) {
        let (default, of) = self.limits.all();
        let of = of.into_iter().map(|(zone, limit)| ZoneLimit {
            zone,
            limit,
            count: self.count(zone).load(Relaxed),
        });
        (default, of.collect())
    }
}
