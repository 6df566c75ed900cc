//! Visiting the packets of a frame with all of each at hand: its bytes, its slot
//! and its metadata.

use std::convert::Infallible;

use super::{Arena, Inner, Packet, PacketMut, foreign};
use crate::{
    frame::Frame,
    meta::Meta,
    prefetch::prefetch_address,
    slot::{SHARED, Slot},
};

impl Arena {
    /// Prefetches the first line of each packet and that of its metadata. Pays
    /// where packets have just come from another core, and costs ten
    /// instructions for each.
    #[inline]
    pub fn prefetch_packets(&self, frame: &Frame) {
        let Inner { buffers, meta, mask, stride, .. } = *self.inner;
        let prefetch = |slot: &Slot| {
            let index = (slot.buffer & mask) as usize;
            let start = index * stride as usize + slot.headroom();
            prefetch_address(buffers.as_ptr().wrapping_add(start));
            prefetch_address(meta.as_ptr().wrapping_add(index).cast());
        };
        let (fours, rest) = frame.slots().as_chunks::<4>();
        fours.iter().for_each(|four| four.iter().for_each(prefetch));
        rest.iter().for_each(prefetch);
    }

    /// Keeps the packets `judge` has nothing against, which it may change, in
    /// their order, and passes the others to `out` with their places in the frame
    /// and what was said about them, oldest first. What is the same for all packets
    /// is loaded once. Nothing is prefetched: whoever is first to touch packets
    /// calls [`Arena::prefetch_packets`] before.
    ///
    /// Packets that [`Arena::packet_mut`] refuses are kept without being judged:
    /// unshare them before.
    #[inline]
    pub fn sift_packets<V>(
        &self,
        frame: &mut Frame,
        mut judge: impl FnMut(&mut PacketMut<'_>) -> Result<(), V>,
        out: impl FnMut(usize, Slot, V),
    ) {
        let Inner { buffers, meta, tag, mask, stride, .. } = *self.inner;
        let stride = stride as usize;
        frame.sift_judged(
            move |slot| {
                let index = slot.buffer ^ tag;
                if index & !mask != 0 {
                    return Ok(());
                }
                self.track_used(slot.buffer);
                // SAFETY: the buffer is one of this arena's, so its index is
                // inside both arrays, and the slot is not shared; its start is
                // inside the buffer or at its end.
                judge(&mut unsafe {
                    let start = buffers.add(index as usize * stride + slot.headroom());
                    PacketMut::new(self, slot, index, (start, meta.add(index as usize)))
                })
            },
            out,
        );
    }

    /// As [`Arena::sift_packets`], for reading: packets may have other holders.
    #[inline]
    pub fn sift_read<V>(
        &self,
        frame: &mut Frame,
        mut judge: impl FnMut(&mut Packet<'_>) -> Result<(), V>,
        out: impl FnMut(usize, Slot, V),
    ) {
        let Inner { buffers, meta, tag, stride, .. } = *self.inner;
        let stride = stride as usize;
        frame.sift_judged(
            move |slot| {
                let index = slot.buffer ^ tag;
                let at = (index & !SHARED) as usize;
                let start = buffers.as_ptr().wrapping_add(at * stride + slot.headroom());
                let meta = meta.as_ptr().wrapping_add(at);
                // SAFETY: found by the index, as above.
                judge(&mut unsafe { Packet::new(self, slot, index, (start, meta)) })
            },
            out,
        );
    }

    /// A packet with all of it at hand, for writing; `None` when [`Arena::packet_mut`]
    /// refuses it.
    #[inline]
    pub fn writable<'a>(&'a self, slot: &'a mut Slot) -> Option<PacketMut<'a>> {
        let Inner { buffers, meta, tag, mask, stride, .. } = *self.inner;
        let index = slot.buffer ^ tag;
        if index & !mask != 0 {
            return None;
        }
        self.track_used(slot.buffer);
        // SAFETY: as in `sift_packets`.
        Some(unsafe {
            let start = buffers.add(index as usize * stride as usize + slot.headroom());
            PacketMut::new(self, slot, index, (start, meta.add(index as usize)))
        })
    }

    /// The same for packets that all stay.
    #[inline]
    pub fn edit_packets(&self, frame: &mut Frame, mut edit: impl FnMut(&mut PacketMut<'_>)) {
        self.sift_packets(
            frame,
            |packet| -> Result<(), Infallible> {
                edit(packet);
                Ok(())
            },
            |_, _, never| match never {},
        );
    }

    /// Calls `each` with the metadata of each packet, in order; their bytes are
    /// not touched. Nothing is prefetched: somebody has just written the
    /// metadata.
    ///
    /// # Panics
    ///
    /// When a packet belongs to another arena.
    #[inline]
    pub fn for_each_meta(&self, frame: &Frame, mut each: impl FnMut(&Meta)) {
        let Inner { meta, tag, mask, .. } = *self.inner;
        for slot in frame.slots() {
            let index = (slot.buffer & !SHARED) ^ tag;
            if index & !mask != 0 {
                foreign(slot);
            }
            self.track_used(slot.buffer & !SHARED);
            // SAFETY: as in `meta`; the borrow ends with the call.
            each(unsafe { meta.add(index as usize).as_ref() });
        }
    }

    /// The same for writing, passing over those that [`Arena::meta_mut`]
    /// refuses, each with the one of `with` in its place.
    #[inline]
    pub fn for_each_meta_mut<T>(
        &self,
        frame: &mut Frame,
        with: impl IntoIterator<Item = T>,
        mut each: impl FnMut(&mut Meta, T),
    ) {
        let Inner { meta, tag, mask, .. } = *self.inner;
        for (slot, with) in frame.slots_mut().iter_mut().zip(with) {
            let index = slot.buffer ^ tag;
            if index & !mask != 0 {
                continue;
            }
            self.track_used(slot.buffer);
            // SAFETY: as in `meta_mut`; the borrow ends with the call.
            each(unsafe { meta.add(index as usize).as_mut() }, with);
        }
    }
}
