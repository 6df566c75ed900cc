//! Packets kept outside of the arena.

use linerate_element_support::mac_header;
use linerate_graph::Context;
use linerate_memory::{Arena, Meta, Slot};

/// Packets one behind the other, and their annotations.
#[derive(Default)]
pub(super) struct Recording {
    bytes: Vec<u8>,
    /// End of each packet, and its annotations, with headers from its start on.
    packets: Vec<(usize, Meta)>,
}

impl Recording {
    pub(super) fn len(&self) -> usize {
        self.packets.len()
    }

    /// Bytes of all packets, and of what is known about them.
    pub(super) fn memory(&self) -> usize {
        self.bytes.len() + size_of_val(&self.packets[..])
    }

    /// Adds a packet, with a paint.
    pub(super) fn add(&mut self, arena: &Arena, slot: &Slot, paint: u8) {
        self.bytes.extend_from_slice(arena.packet(slot));
        let mut meta = Meta { paint, ..*arena.meta(slot) };
        meta.bytes_moved(-slot.headroom().cast_signed());
        mac_header::copied(&mut meta, slot.headroom(), 0);
        self.packets.push((self.bytes.len(), meta));
    }

    /// The timestamp of a packet.
    pub(super) fn time(&self, at: usize) -> u64 {
        self.packets.get(at).map_or(0, |(_, meta)| meta.timestamp)
    }

    /// Returns a packet in a buffer of its own; `None` when none is free.
    pub(super) fn packet(&self, cx: &mut Context, at: usize) -> Option<Slot> {
        let (end, known) = self.packets.get(at)?;
        let start = at.checked_sub(1).map_or(0, |before| self.packets[before].0);
        let bytes = &self.bytes[start..*end];
        let mut slot = cx.pool.take_one(bytes.len())?;
        let arena = cx.pool.arena();
        let headroom = slot.headroom();
        if let Some(meta) = arena.meta_mut(&mut slot) {
            *meta = *known;
            meta.bytes_moved(headroom.cast_signed());
            mac_header::copied(meta, 0, headroom);
        }
        if let Some(place) = arena.packet_mut(&mut slot) {
            place.copy_from_slice(bytes);
        }
        Some(slot)
    }
}
