//! Quotas of mapped foreign memory.
//!
//! Address space and mappings are resources of the process, so each peer has a quota of them, within the
//! quota of its port. The address space of a port's quota is reserved when the port is opened, so the
//! peers of one port cannot use up that of another.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use super::ForeignError;

/// Address space that foreign memory may take: of the 128 TiB of a process, three quarters.
const ADDRESS_SPACE: u64 = 96 << 40;
/// Bytes of it that are reserved.
static RESERVED: AtomicU64 = AtomicU64::new(0);

/// A limit of regions and bytes that are mapped, within that of a parent.
#[derive(Debug)]
pub struct MapQuota {
    limit: MapLimit,
    used: Mutex<MapLimit>,
    parent: Option<Arc<MapQuota>>,
    reserved: u64,
}

/// Numbers of a [`MapQuota`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MapLimit {
    /// Regions.
    pub regions: usize,
    /// Bytes of all regions together.
    pub bytes: u64,
}

/// The part of a quota that a region takes, until it is dropped.
#[derive(Debug)]
pub(super) struct Share {
    quota: Arc<MapQuota>,
    bytes: u64,
}

impl MapQuota {
    /// Reserves address space of the process for a quota.
    ///
    /// # Errors
    ///
    /// When less address space is left.
    pub fn reserve(limit: MapLimit) -> Result<Arc<MapQuota>, ForeignError> {
        let more = |reserved: u64| {
            let total = reserved.checked_add(limit.bytes)?;
            (total <= ADDRESS_SPACE).then_some(total)
        };
        let taken = RESERVED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        let left = |reserved| ForeignError::Reserved {
            wanted: limit.bytes,
            left: ADDRESS_SPACE - reserved,
        };
        taken.map_err(left)?;
        Ok(Arc::new(MapQuota {
            limit,
            used: Mutex::default(),
            parent: None,
            reserved: limit.bytes,
        }))
    }

    /// A limit within this one.
    #[must_use]
    pub fn within(self: &Arc<Self>, limit: MapLimit) -> Arc<MapQuota> {
        let parent = Some(Arc::clone(self));
        Arc::new(MapQuota { limit, used: Mutex::default(), parent, reserved: 0 })
    }

    /// Regions and bytes that are mapped now.
    pub fn used(&self) -> MapLimit {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, MapLimit> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This quota and its parents.
    fn chain(&self) -> impl Iterator<Item = &MapQuota> {
        std::iter::successors(Some(self), |quota| quota.parent.as_deref())
    }

    /// Takes a region of so many bytes from this quota and its parents.
    pub(super) fn take(self: &Arc<Self>, bytes: u64) -> Result<Share, ForeignError> {
        for (taken, quota) in self.chain().enumerate() {
            if let Err(error) = quota.count(bytes) {
                self.chain().take(taken).for_each(|quota| quota.uncount(bytes));
                return Err(error);
            }
        }
        Ok(Share { quota: Arc::clone(self), bytes })
    }

    fn count(&self, bytes: u64) -> Result<(), ForeignError> {
        let mut used = self.lock();
        if used.regions >= self.limit.regions {
            return Err(ForeignError::Regions(self.limit.regions));
        }
        let total = used.bytes.checked_add(bytes).filter(|total| *total <= self.limit.bytes);
        used.bytes = total.ok_or(ForeignError::Bytes { most: self.limit.bytes })?;
        used.regions += 1;
        Ok(())
    }

    fn uncount(&self, bytes: u64) {
        let mut used = self.lock();
        used.regions -= 1;
        used.bytes -= bytes;
    }
}

impl Drop for MapQuota {
    fn drop(&mut self) {
        RESERVED.fetch_sub(self.reserved, Ordering::Relaxed);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.quota.chain().for_each(|quota| quota.uncount(self.bytes));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const fn limit(regions: usize, bytes: u64) -> MapLimit {
        MapLimit { regions, bytes }
    }

    #[test]
    fn a_quota_is_within_its_parents() {
        let port = MapQuota::reserve(limit(4, 100)).unwrap();
        let peers = [port.within(limit(3, 80)), port.within(limit(3, 80))];
        let first = [peers[0].take(10).unwrap(), peers[0].take(60).unwrap()];
        assert!(matches!(peers[0].take(20), Err(ForeignError::Bytes { most: 80 })));
        assert!(matches!(peers[1].take(40), Err(ForeignError::Bytes { most: 100 })));
        let second = [peers[1].take(1).unwrap(), peers[1].take(2).unwrap()];
        assert!(matches!(peers[1].take(3), Err(ForeignError::Regions(4))));
        assert_eq!((peers[1].used(), port.used()), (limit(2, 3), limit(4, 73)));
        drop(first);
        let third = peers[1].take(3).unwrap();
        assert!(matches!(peers[1].take(3), Err(ForeignError::Regions(3))));
        assert!(matches!(peers[1].take(u64::MAX), Err(ForeignError::Regions(3))));
        drop((second, third));
        assert_eq!((peers[1].used(), port.used()), Default::default());
    }

    #[test]
    fn no_more_is_reserved_than_there_is() {
        // Other tests have place for theirs.
        let most = MapQuota::reserve(limit(1, ADDRESS_SPACE - (8 << 40))).unwrap();
        assert!(matches!(
            MapQuota::reserve(limit(1, 16 << 40)),
            Err(ForeignError::Reserved { wanted: 17_592_186_044_416, .. })
        ));
        assert!(MapQuota::reserve(limit(1, u64::MAX)).is_err());
        drop(most);
        assert!(MapQuota::reserve(limit(1, 16 << 40)).is_ok());
    }
}
