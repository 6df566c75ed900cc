//! A driver's memory: regions of files, by the addresses it uses.
//!
//! Buffers are named by *guest addresses*, rings by the addresses of the process that speaks for the
//! guest. Both are looked up, with the length, each time; nothing is ever used that was not inside.

use std::sync::Arc;

use linerate_memory::{ForeignBytes, ForeignRegion};

use super::queue::Plain;

/// A region of `SET_MEM_TABLE`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RegionSpec {
    /// Its first guest address.
    pub(super) guest: u64,
    /// Bytes in it.
    pub(super) size: u64,
    /// The address it has in the process that announces it.
    pub(super) user: u64,
    /// Offset in its file.
    pub(super) offset: u64,
}

/// The regions, as they were announced last.
#[derive(Debug, Default)]
pub(super) struct Memory {
    regions: Vec<(RegionSpec, Arc<ForeignRegion>)>,
}

/// A piece of one region, of which everything is known to be inside.
#[derive(Debug, Clone)]
pub(super) struct Area {
    pub(super) bytes: Arc<ForeignRegion>,
    pub(super) at: usize,
}

/// The bytes of a region, or none.
#[derive(Debug, Clone, Copy, Default)]
struct RegionBytes<'a> {
    /// The guest address of the first.
    guest: u64,
    bytes: ForeignBytes<'a>,
}

impl<'a> RegionBytes<'a> {
    /// The bytes of a chain, if they are all there.
    #[inline]
    fn part(&self, plain: &Plain) -> Option<ForeignBytes<'a>> {
        let at = usize::try_from(plain.at.wrapping_sub(self.guest)).ok()?;
        self.bytes.part(at, plain.len as usize)
    }
}

impl Memory {
    /// Adds a region, the file of which is mapped from its start to the region's end.
    pub(super) fn add(&mut self, spec: RegionSpec, bytes: Arc<ForeignRegion>) {
        self.regions.push((spec, bytes));
    }

    pub(super) fn is_broken(&self) -> bool {
        self.regions.iter().any(|(_, bytes)| bytes.is_broken())
    }

    pub(super) fn is_sealed(&self) -> bool {
        self.regions.iter().all(|(_, bytes)| bytes.is_sealed())
    }

    /// Place of `len` bytes at a guest address, if one region has them all.
    #[inline]
    pub(super) fn locate(&self, guest: u64, len: usize) -> Option<(&ForeignRegion, usize)> {
        let (region, at, left) = self.find(guest)?;
        (len as u64 <= left).then_some((region, at))
    }

    /// The region a guest address is in, where it is there, and how many bytes are behind it.
    #[inline]
    fn find(&self, guest: u64) -> Option<(&ForeignRegion, usize, u64)> {
        self.regions.iter().find_map(|(spec, bytes)| {
            let into = guest.wrapping_sub(spec.guest);
            (into < spec.size).then(|| (&**bytes, (spec.offset + into) as usize, spec.size - into))
        })
    }

    /// The `len` bytes at an address of the announcing process.
    pub(super) fn area(&self, user: u64, len: usize) -> Option<Area> {
        self.regions.iter().find_map(|(spec, bytes)| {
            let into = user.wrapping_sub(spec.user);
            let inside = into < spec.size && len as u64 <= spec.size - into;
            inside.then(|| Area { bytes: Arc::clone(bytes), at: (spec.offset + into) as usize })
        })
    }

    /// Copies bytes at a guest address, which may go on in the next region; `false` when some of
    /// them are nowhere.
    #[inline]
    pub(super) fn read(&self, guest: u64, to: &mut [u8]) -> bool {
        match self.locate(guest, to.len()) {
            Some((region, at)) => region.read(at, to),
            None => self.read_across(guest, to),
        }
    }

    #[cold]
    fn read_across(&self, mut guest: u64, mut to: &mut [u8]) -> bool {
        while !to.is_empty() {
            let Some((region, at, left)) = self.find(guest) else { return false };
            let some = to.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let (now, rest) = to.split_at_mut(some);
            if !region.read(at, now) {
                return false;
            }
            (guest, to) = (guest.wrapping_add(some as u64), rest);
        }
        true
    }

    /// Writes bytes to a guest address.
    #[inline]
    pub(super) fn write(&self, guest: u64, from: &[u8]) -> bool {
        match self.locate(guest, from.len()) {
            Some((region, at)) => region.write(at, from),
            None => self.write_across(guest, from),
        }
    }

    #[cold]
    fn write_across(&self, mut guest: u64, mut from: &[u8]) -> bool {
        while !from.is_empty() {
            let Some((region, at, left)) = self.find(guest) else { return false };
            let some = from.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let (now, rest) = from.split_at(some);
            if !region.write(at, now) {
                return false;
            }
            (guest, from) = (guest.wrapping_add(some as u64), rest);
        }
        true
    }

    /// The bytes of each of these chains, if they are all in one region; none otherwise. Chains mostly are
    /// in the region of the one before.
    #[inline]
    pub(super) fn bytes<'a>(&'a self, chains: &[Plain], to: &mut [ForeignBytes<'a>]) {
        let mut region = RegionBytes::default();
        for (plain, to) in chains.iter().zip(to) {
            *to = region.part(plain).unwrap_or_else(|| {
                region = self.region_of(plain.at);
                region.part(plain).unwrap_or_default()
            });
        }
    }

    /// All bytes of the region a guest address is in.
    #[inline(never)]
    fn region_of(&self, guest: u64) -> RegionBytes<'_> {
        let found = self.regions.iter().find_map(|(spec, bytes)| {
            let is_there = guest.wrapping_sub(spec.guest) < spec.size;
            let bytes = is_there.then(|| bytes.bytes(spec.offset as usize, spec.size as usize));
            Some(RegionBytes { guest: spec.guest, bytes: bytes.flatten()? })
        });
        found.unwrap_or_default()
    }

    /// Prefetches the line at a guest address.
    #[inline]
    pub(super) fn prefetch(&self, guest: u64) {
        if let Some((region, at, _)) = self.find(guest) {
            region.prefetch(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> Memory {
        let mut memory = Memory::default();
        for (guest, user, offset) in [(0x1000, 0x7000, 0), (0x2000, 0x1_0000, 0x800)] {
            let bytes = ForeignRegion::create("test", 0x2000).unwrap().0;
            let spec = RegionSpec { guest, size: 0x1000, user, offset };
            memory.add(spec, Arc::new(bytes));
        }
        memory
    }

    #[test]
    fn addresses_are_looked_up_with_their_lengths() {
        let memory = memory();
        assert!(memory.locate(0x0fff, 1).is_none() && memory.locate(0x1000, 0x1000).is_some());
        assert!(memory.locate(0x1000, 0x1001).is_none() && memory.locate(0x3000, 1).is_none());
        assert!(
            memory.locate(u64::MAX, 1).is_none() && memory.locate(0x1001, usize::MAX).is_none()
        );
        assert_eq!(memory.locate(0x2010, 1).unwrap().1, 0x810);
        assert!(memory.area(0x7000, 0x1000).is_some() && memory.area(0x7001, 0x1000).is_none());
        assert_eq!(memory.area(0x1_0004, 4).unwrap().at, 0x804);
    }

    #[test]
    fn chains_are_looked_up_together() {
        let memory = memory();
        let at = |at, len| Plain { at, len, id: 0 };
        let chains = [
            at(0x1000, 0x1000),
            at(0x1001, 0x1000),
            at(0x2010, 4),
            at(0x1010, 4),
            at(0x0fff, 1),
            at(u64::MAX, 1),
            at(0x2fff, 1),
            at(0x3000, 0),
        ];
        let mut bytes = [ForeignBytes::default(); 8];
        memory.bytes(&chains, &mut bytes);
        assert_eq!(bytes.map(|bytes| bytes.len()), [0x1000, 0, 4, 4, 0, 0, 1, 0]);
        assert!(bytes[2].write(&[7; 4]) && bytes[3].write(&[9; 4]));
        let mut back = [0; 4];
        assert!(memory.read(0x2010, &mut back) && back == [7; 4]);
        assert!(memory.read(0x1010, &mut back) && back == [9; 4]);
    }

    #[test]
    fn bytes_go_on_in_the_next_region() {
        let memory = memory();
        let bytes: Vec<u8> = (1..=32).collect();
        assert!(memory.write(0x1ff0, &bytes));
        let mut back = [0; 32];
        assert!(memory.read(0x1ff0, &mut back));
        assert_eq!(back[..], bytes[..]);
        assert!(memory.read(0x2000, &mut back[..16]) && back[..16] == bytes[16..]);
        assert!(!memory.write(0x2ff0, &bytes) && !memory.read(0x2ff0, &mut back));
    }
}
