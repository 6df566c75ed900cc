//! Places in a packet, and its metadata.

use std::{
    cell::Cell,
    ops::{Add, Sub},
};

use crate::code::{VLAN_TAG, VLAN_TAG_PRESENT};

/// Most places that conditions may find. libpcap's programs keep them in their scratch memory, of
/// which five tunnels leave one word.
pub(super) const PLACES_MAX: u8 = 15;

/// A place in a packet: so far behind its beginning, or behind a place that a condition found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Offset {
    /// The number of the place found.
    pub(super) from: Option<u8>,
    /// Bytes behind it; in two's complement before it.
    pub(super) at: u32,
}

impl Offset {
    /// A place so far behind the packet's beginning.
    pub(super) const fn at(at: u32) -> Offset {
        Offset { from: None, at }
    }

    /// A place that a condition found.
    pub(super) const fn found(number: u8) -> Offset {
        Offset { from: Some(number), at: 0 }
    }

    /// Offset of it in a packet.
    pub(super) fn resolve<K: Metadata>(self, metadata: K) -> u32 {
        match self.from {
            Some(number) if K::FINDS => metadata.place(number).wrapping_add(self.at),
            _ => self.at,
        }
    }
}

impl Add<u32> for Offset {
    type Output = Offset;

    fn add(self, bytes: u32) -> Offset {
        Offset { at: self.at.wrapping_add(bytes), ..self }
    }
}

impl Sub<u32> for Offset {
    type Output = Offset;

    fn sub(self, bytes: u32) -> Offset {
        Offset { at: self.at.wrapping_sub(bytes), ..self }
    }
}

/// Metadata of a packet, and the places found in it.
pub(super) trait Metadata: Copy {
    /// Whether places are looked for. Where they are not, nothing is asked for each load.
    const FINDS: bool;

    /// The length it had when it was captured.
    fn length(self, packet: &[u8]) -> u32;

    /// An ancillary load, as [`VLAN_TAG`]; 0 where it is not known.
    fn ancillary(self, which: u32) -> u32;

    /// A place that was found; 0 before.
    fn place(self, number: u8) -> u32;

    /// Notes a place.
    fn found(self, number: u8, at: u32);
}

/// Metadata of a whole packet whose filter looks for no places: none.
#[derive(Debug, Clone, Copy)]
pub(super) struct NoMetadata;

impl Metadata for NoMetadata {
    const FINDS: bool = false;

    fn length(self, packet: &[u8]) -> u32 {
        packet.len() as u32
    }

    fn ancillary(self, _which: u32) -> u32 {
        0
    }

    fn place(self, _number: u8) -> u32 {
        0
    }

    fn found(self, _number: u8, _at: u32) {}
}

/// Of any other.
#[derive(Debug)]
pub(super) struct PacketMetadata {
    length: u32,
    /// The tag that was taken out of it.
    tag: Option<u16>,
    places: [Cell<u32>; PLACES_MAX as usize],
}

impl PacketMetadata {
    /// Of a packet that had this length.
    pub(super) fn new(length: u32) -> PacketMetadata {
        PacketMetadata { length, tag: None, places: Default::default() }
    }

    /// Notes of a packet whose VLAN tag `tag` was stripped.
    pub(super) fn without_tag(length: u32, tag: u16) -> PacketMetadata {
        PacketMetadata { tag: Some(tag), ..PacketMetadata::new(length) }
    }
}

impl Metadata for &PacketMetadata {
    const FINDS: bool = true;

    fn length(self, _packet: &[u8]) -> u32 {
        self.length
    }

    fn ancillary(self, which: u32) -> u32 {
        match (which, self.tag) {
            (VLAN_TAG, Some(tag)) => tag.into(),
            (VLAN_TAG_PRESENT, Some(_)) => 1,
            _ => 0,
        }
    }

    fn place(self, number: u8) -> u32 {
        self.places[usize::from(number)].get()
    }

    fn found(self, number: u8, at: u32) {
        self.places[usize::from(number)].set(at);
    }
}
