//! Iteration over the packets of a frame with bytes, slot and metadata of each at hand.

use std::convert::Infallible;

use super::{
    Arena, Column, HeaderCache, Inner, LANES, Packet, PacketMut, PreservedFields, foreign,
    header_cache::Group,
};
use crate::{
    frame::{self, Frame},
    meta::Meta,
    prefetch::prefetch_address,
    processor::{BitWork, with_vectors},
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

    /// Keeps the packets `judge` accepts, which it may change, in their order, and passes the
    /// others to `out` with their places in the frame and the verdict, oldest first. Values common
    /// to all packets are loaded once. Nothing is prefetched: the first pass to touch packets calls
    /// [`Arena::prefetch_packets`] before.
    ///
    /// Packets that [`Arena::packet_mut`] refuses are kept without being judged: unshare them
    /// before.
    #[inline]
    pub fn retain_packets<V>(
        &self,
        frame: &mut Frame,
        mut judge: impl FnMut(&mut PacketMut<'_>) -> Result<(), V>,
        out: impl FnMut(usize, Slot, V),
    ) {
        let Inner { buffers, meta, tag, mask, stride, .. } = *self.inner;
        let stride = stride as usize;
        frame.retain_judged(
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

    /// As [`Arena::retain_packets`], for reading: packets may have other holders.
    #[inline]
    pub fn retain_read<V>(
        &self,
        frame: &mut Frame,
        mut judge: impl FnMut(&mut Packet<'_>) -> Result<(), V>,
        out: impl FnMut(usize, Slot, V),
    ) {
        let Inner { buffers, meta, tag, stride, .. } = *self.inner;
        let stride = stride as usize;
        frame.retain_judged(
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

    /// As [`Arena::retain_packets`], with the places of packets from the header cache, or found and
    /// stored there for the passes behind. `preserved` says which other fields of it are still true
    /// after that.
    #[inline(always)]
    pub fn retain_cached<V>(
        &self,
        frame: &mut Frame,
        header_cache: &mut HeaderCache,
        preserved: PreservedFields,
        mut judge: impl FnMut(&mut PacketMut<'_>) -> Result<(), V>,
        out: impl FnMut(usize, Slot, V),
    ) {
        let is_known = header_cache.fill(&self.inner, frame);
        if is_known {
            header_cache.keep(preserved);
        }
        let index = |slot: &Slot| {
            let index = slot.buffer ^ self.inner.tag;
            (index & !self.inner.mask == 0).then_some(index)
        };
        let judge = |slot: &mut Slot, place| {
            self.track_used(slot.buffer);
            // SAFETY: the header cache is of this frame, or `index` has looked: so the slot's
            // buffer is the arena's and not shared, and its places are these.
            let mut packet = unsafe { PacketMut::at(self, slot, place) };
            let judged = judge(&mut packet);
            (judged, packet.start())
        };
        retain_located(self, (frame, is_known), header_cache, index, judge, out);
    }

    /// As [`Arena::retain_read`], with the places of packets from the header cache, where it has
    /// them. `preserved` says which other fields of it are still true after that: `judge` may write
    /// by [`Packet::writable`].
    #[inline(always)]
    pub fn retain_read_cached<V>(
        &self,
        frame: &mut Frame,
        header_cache: &mut HeaderCache,
        preserved: PreservedFields,
        mut judge: impl FnMut(&mut Packet<'_>) -> Result<(), V>,
        out: impl FnMut(usize, Slot, V),
    ) {
        let is_known = header_cache.is_of(&self.inner, frame);
        if is_known {
            header_cache.keep(preserved);
        }
        let tag = self.inner.tag;
        let index = |slot: &Slot| Some((slot.buffer ^ tag) & !SHARED);
        let judge = |slot: &mut Slot, place| {
            let index = slot.buffer ^ tag;
            // SAFETY: the header cache is of this frame, or they are found by the index.
            let mut packet = unsafe { Packet::new(self, slot, index, place) };
            let judged = judge(&mut packet);
            (judged, packet.start())
        };
        retain_located(self, (frame, is_known), header_cache, index, judge, out);
    }

    /// Sets the first four bytes of the destination annotation of each packet, the first one
    /// lowest, to the one of `with` in its place, by eight; zero leaves it. Packets that
    /// [`Arena::meta_mut`] refuses are passed over.
    #[inline]
    pub fn set_destinations(
        &self,
        frame: &mut Frame,
        header_cache: &mut HeaderCache,
        with: impl Iterator<Item = Column>,
    ) {
        if !(header_cache.has_destinations && header_cache.is_of(&self.inner, frame)) {
            let with = with.flatten();
            return self.for_each_meta_mut(
                frame,
                header_cache,
                PreservedFields::HEADERS,
                with,
                |meta, destination| {
                    if destination != 0 {
                        meta.destination[..4].copy_from_slice(&destination.to_le_bytes());
                    }
                },
            );
        }
        let bases = self.inner.bases();
        let mut left = frame.len();
        let groups = &mut header_cache.groups[..left.div_ceil(LANES)];
        for (group, with) in groups.iter_mut().zip(with) {
            let mut known = [0; LANES];
            for lane in 0..LANES {
                let mark = &mut group.marks[lane];
                known[lane] = if with[lane] == 0 { (*mark >> 32) as u32 } else { with[lane] };
                *mark = u64::from(known[lane]) << 32 | *mark & u64::from(u32::MAX);
            }
            let set = |lane: usize| {
                // SAFETY: the header cache is of this frame, which is borrowed mutably: its
                // metadata is there and without another holder.
                let meta = unsafe { &mut *bases.meta_at(group.metas[lane]) };
                meta.destination[..4].copy_from_slice(&known[lane].to_le_bytes());
            };
            match left {
                LANES.. => (0..LANES).for_each(set),
                _ => (0..left).for_each(set),
            }
            left = left.saturating_sub(LANES);
        }
    }

    /// As [`Frame::strip`], with a header cache that stays the frame's.
    #[inline]
    pub fn strip_packets(&self, frame: &mut Frame, header_cache: &mut HeaderCache, count: usize) {
        let (is_known, number) = (header_cache.is_of(&self.inner, frame), frame.header_cache());
        if is_known {
            with_vectors(Stripped {
                slots: frame.slots(),
                groups: &mut header_cache.groups,
                count,
            });
        }
        frame.strip(count);
        frame.set_header_cache(if is_known { number } else { 0 });
    }

    /// As [`Frame::unstrip`], with a header cache that stays the frame's.
    #[inline]
    pub fn unstrip_packets(
        &self,
        frame: &mut Frame,
        header_cache: &mut HeaderCache,
        count: usize,
    ) -> bool {
        let (is_known, number) = (header_cache.is_of(&self.inner, frame), frame.header_cache());
        let has_room = frame.unstrip(count);
        if is_known {
            if has_room {
                for group in &mut header_cache.groups[..frame.len().div_ceil(LANES)] {
                    group.starts = group.starts.map(|start| start.wrapping_sub(count as u64));
                }
            }
            frame.set_header_cache(number);
        }
        has_room
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
        // SAFETY: as in `retain_packets`.
        Some(unsafe {
            let start = buffers.add(index as usize * stride as usize + slot.headroom());
            PacketMut::new(self, slot, index, (start, meta.add(index as usize)))
        })
    }

    /// Edits all packets of a frame; all stay. See [`Arena::retain_packets`].
    #[inline]
    pub fn edit_packets(&self, frame: &mut Frame, mut edit: impl FnMut(&mut PacketMut<'_>)) {
        self.retain_packets(
            frame,
            |packet| -> Result<(), Infallible> {
                edit(packet);
                Ok(())
            },
            |_, _, never| match never {},
        );
    }

    /// Calls `each` with the metadata of each packet, in order; their bytes are not touched.
    /// Nothing is prefetched: the metadata was written just before. The places found are stored in
    /// the header cache for the passes behind.
    ///
    /// # Panics
    ///
    /// When a packet belongs to another arena.
    #[inline]
    pub fn for_each_meta(
        &self,
        frame: &mut Frame,
        header_cache: &mut HeaderCache,
        mut each: impl FnMut(&Meta),
    ) {
        if header_cache.fill(&self.inner, frame) {
            let bases = self.inner.bases();
            let mut left = frame.len();
            for group in &header_cache.groups[..frame.len().div_ceil(LANES)] {
                // SAFETY: that of the frame's packets, to which there are no writes as long as it
                // is borrowed.
                let mut one = |lane: usize| each(unsafe { &*bases.meta_at(group.metas[lane]) });
                match left {
                    LANES.. => (0..LANES).for_each(&mut one),
                    _ => (0..left).for_each(&mut one),
                }
                left = left.saturating_sub(LANES);
            }
            return;
        }
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

    /// Calls `each` with the metadata of each packet, for writing, and the item of `with` in its
    /// place, skipping packets that [`Arena::meta_mut`] refuses. A header cache of the frame stays
    /// valid, with the fields that `preserved` says.
    #[inline]
    pub fn for_each_meta_mut<T>(
        &self,
        frame: &mut Frame,
        header_cache: &mut HeaderCache,
        preserved: PreservedFields,
        with: impl IntoIterator<Item = T>,
        mut each: impl FnMut(&mut Meta, T),
    ) {
        if header_cache.is_of(&self.inner, frame) {
            header_cache.keep(preserved);
            let bases = self.inner.bases();
            let (mut left, mut with) = (frame.len(), with.into_iter());
            for group in &header_cache.groups[..frame.len().div_ceil(LANES)] {
                let mut one = |lane: usize| {
                    let Some(with) = with.next() else { return };
                    // SAFETY: that of the frame's packets, which have no other holder and are
                    // borrowed mutably.
                    each(unsafe { &mut *bases.meta_at(group.metas[lane]) }, with);
                };
                match left {
                    LANES.. => (0..LANES).for_each(&mut one),
                    _ => (0..left).for_each(&mut one),
                }
                left = left.saturating_sub(LANES);
            }
            return;
        }
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

/// Moves the starts of packets in a header cache as [`Frame::strip`] will move those in the slots.
struct Stripped<'a> {
    slots: &'a [Slot],
    groups: &'a mut [Group],
    count: usize,
}

impl BitWork for Stripped<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let count = self.count.min(usize::from(u16::MAX)) as u32;
        let (eights, rest) = self.slots.as_chunks::<LANES>();
        let mut groups = self.groups.iter_mut();
        for (slots, group) in eights.iter().zip(&mut groups) {
            let taken = slots.each_ref().map(|slot| ((slot.word() >> 48) as u32).min(count));
            for (start, taken) in group.starts.iter_mut().zip(taken) {
                *start += u64::from(taken);
            }
        }
        let last = groups.next().into_iter().flat_map(|group| &mut group.starts);
        for (slot, start) in rest.iter().zip(last) {
            *start += slot.len().min(self.count) as u64;
        }
    }
}

/// Goes over a frame and the places of its packets, which `judge` may move: those that the header
/// cache has, which stays the frame's if all packets stay, or those that follow from `index`.
/// Packets without one are kept without being judged.
///
/// There is one loop for all that, in runs of up to eight packets: a step that is called at two
/// places is compiled into neither.
#[inline(always)]
fn retain_located<V>(
    arena: &Arena,
    (frame, is_known): (&mut Frame, bool),
    header_cache: &mut HeaderCache,
    index: impl Fn(&Slot) -> Option<u32>,
    mut judge: impl FnMut(&mut Slot, (*mut u8, *mut Meta)) -> (Result<(), V>, *mut u8),
    mut out: impl FnMut(usize, Slot, V),
) {
    let bases = arena.inner.bases();
    let number = header_cache.number();
    let HeaderCache { groups, run, .. } = header_cache;
    let mut guard = frame.begin_retain();
    let mut rest = guard.slots();
    let count = rest.len();
    let mut groups = groups[..if is_known { count.div_ceil(LANES) } else { 0 }].iter_mut();
    let mut any_left = false;
    while !rest.is_empty() {
        let (group, len, passed) = match groups.next() {
            Some(group) => (group, rest.len().min(LANES), rest.len().min(LANES)),
            None => {
                let (len, passed) = run.find_run(&arena.inner, rest, &index);
                (&mut **run, len, passed)
            }
        };
        let (slots, behind) = rest.split_at_mut(passed);
        let places = group.starts.iter_mut().zip(&group.metas);
        for (lane, (slot, (start, meta))) in slots[..len].iter_mut().zip(places).enumerate() {
            let place = (bases.byte(*start), bases.meta_at(*meta));
            let (judged, begins) = judge(slot, place);
            if begins != place.0 {
                *start = bases.offset(begins);
            }
            if let Err(verdict) = judged {
                any_left = true;
                let at = count - behind.len() - passed + lane;
                frame::eject(at, frame::leave(slot), verdict, &mut out);
            }
        }
        rest = behind;
    }
    guard.end(any_left);
    if is_known && !any_left {
        frame.set_header_cache(number);
    }
}
