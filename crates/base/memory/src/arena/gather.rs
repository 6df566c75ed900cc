//! Words of the packets of a frame, side by side.
//!
//! For decisions by a few words of each packet, at any offset: eight packets are located together,
//! one check covers all their lengths, and then each word is a load and a store to its column.

use super::{
    Arena,
    header_cache::{AHEAD, Bases, Group, HeaderCache},
    header_kernel::{Column, LANES},
};
use crate::{
    frame::Frame,
    processor::{BitWork, with_vectors},
    slot::{SHARED, Slot},
};

/// Start that the offset of a word counts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WordBase {
    /// The start of the packet.
    Packet,
    /// The network header, as metadata says.
    Network,
    /// The transport header, as metadata says.
    Transport,
}

/// All bases, by number.
const BASES: [WordBase; 3] = [WordBase::Packet, WordBase::Network, WordBase::Transport];

/// The place of a word: so many bytes behind its base.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WordAt {
    /// Start of the offset.
    pub base: WordBase,
    /// Bytes from there.
    pub offset: usize,
}

impl Arena {
    /// Reads the words at these places of packets, as this machine does, eight packets at a time:
    /// those of the `turn`th eight at the `n`th place go to `to[column(turn, n)]`, or nowhere. Tells
    /// `missing` which of eight packets have all of them, where not all have. A word is zero where
    /// there is none, or it would begin in front of the packet. Where packets are is found for those
    /// behind as well, and words of network headers that are known are not loaded again.
    ///
    /// # Panics
    ///
    /// When a packet belongs to another arena.
    #[inline]
    pub fn gather<const N: usize>(
        &self,
        frame: &mut Frame,
        header_cache: &mut HeaderCache,
        at: [WordAt; N],
        (to, column): (&mut [Column], impl Fn(usize, usize) -> usize),
        missing: impl FnMut(usize, [bool; LANES]),
    ) {
        let is_known = header_cache.is_of(&self.inner, frame);
        let has_places = header_cache.fill(&self.inner, frame);
        let words = if is_known { header_cache.words } else { 0 };
        let known = at.map(|at| {
            let word = at.offset / 4;
            let is_word = at.base == WordBase::Network && at.offset.is_multiple_of(4);
            (is_word && word < words).then_some(word)
        });
        let groups = has_places.then_some(&*header_cache.groups);
        with_vectors(Gather {
            arena: self,
            frame,
            groups,
            is_known,
            at,
            known,
            to,
            column,
            missing,
        });
    }
}

struct Gather<'a, C, M, const N: usize> {
    arena: &'a Arena,
    frame: &'a Frame,
    /// Addresses of the packets, if none of them is shared and they are not too few.
    groups: Option<&'a [Group]>,
    /// Whether an element before has loaded lines of these packets.
    is_known: bool,
    at: [WordAt; N],
    /// Index of each word among the network header words that the groups hold, if there.
    known: [Option<usize>; N],
    to: &'a mut [Column],
    column: C,
    missing: M,
}

impl<const N: usize, C, M> BitWork for Gather<'_, C, M, N>
where
    C: Fn(usize, usize) -> usize,
    M: FnMut(usize, [bool; LANES]),
{
    type Output = ();

    #[inline(always)]
    fn run(self) {
        if self.at.iter().all(|at| at.base == WordBase::Packet) {
            self.gather::<false>();
        } else {
            self.gather::<true>();
        }
    }
}

impl<const N: usize, C, M> Gather<'_, C, M, N>
where
    C: Fn(usize, usize) -> usize,
    M: FnMut(usize, [bool; LANES]),
{
    /// With `HEADERS` some words are in headers, else all count from the start of packets.
    #[inline(always)]
    fn gather<const HEADERS: bool>(self) {
        let Gather { arena, frame, groups, is_known, at, known, to, column, mut missing } = self;
        // Bytes that a packet has behind each base when it has all words; 0 where none is there.
        let reach = BASES.map(|base| {
            let ends = at.iter().filter(|at| at.base == base).map(|at| at.offset.saturating_add(4));
            ends.max().unwrap_or(0).min(1 << 17) as u32
        });
        let memory = arena.inner.bases();
        let prefetch = |group: &Group| {
            if HEADERS {
                group.prefetch(memory);
            } else {
                group.prefetch_starts(memory);
            }
        };
        let mut own = Group::NONE;
        let (eights, rest) = frame.slots().as_chunks::<LANES>();
        for (turn, slots) in eights.iter().enumerate() {
            let group = match groups.and_then(|groups| groups.get(turn..)) {
                Some(groups) => {
                    if !is_known && turn.is_multiple_of(AHEAD) {
                        groups.iter().take(AHEAD).for_each(prefetch);
                    }
                    groups.first()
                }
                // Others may hold packets that are only read.
                None => {
                    let others = own.find(&arena.inner, slots) & !arena.inner.mask & !SHARED;
                    let is_ours = others == 0;
                    if is_ours {
                        prefetch(&own);
                    }
                    is_ours.then_some(&own)
                }
            };
            // SAFETY: the group has the places of these slots' packets, which are the arena's.
            let bases =
                group.and_then(|group| unsafe { group.bases::<HEADERS>(memory, slots, &reach) });
            let (Some(group), Some(bases)) = (group, bases) else {
                gather_each(arena, slots, at, (to, |n| column(turn, n)), |there| {
                    missing(turn, there);
                });
                continue;
            };
            // By number: iterators over arrays keep this loop a loop.
            for n in 0..N {
                let Some(words) = to.get_mut(column(turn, n)) else { continue };
                if let (true, Some(word)) = (HEADERS, known[n]) {
                    *words = group.words[word].map(u32::to_le);
                    continue;
                }
                let first = memory.byte(at[n].offset as u64).cast_const();
                let bases = &bases[at[n].base as usize];
                for lane in 0..LANES {
                    let place = first.wrapping_add(bases[lane] as usize).cast::<[u8; 4]>();
                    // SAFETY: in the packet, by the reach of the base, and borrowed with the
                    // frame.
                    words[lane] = u32::from_ne_bytes(unsafe { place.read() });
                }
            }
        }
        if !rest.is_empty() {
            let turn = eights.len();
            gather_each(arena, rest, at, (to, |n| column(turn, n)), |there| {
                missing(turn, there);
            });
        }
    }
}

/// Gathers the words of at most eight packets, one packet after the other.
#[inline(never)]
fn gather_each<const N: usize>(
    arena: &Arena,
    slots: &[Slot],
    at: [WordAt; N],
    (to, column): (&mut [Column], impl Fn(usize) -> usize),
    missing: impl FnOnce([bool; LANES]),
) {
    let mut whole = [true; LANES];
    for (n, at) in at.into_iter().enumerate() {
        let mut words = [0; LANES];
        for (lane, slot) in slots.iter().enumerate() {
            let word = arena.word_at(slot, at);
            whole[lane] &= word.is_some();
            words[lane] = word.unwrap_or(0);
        }
        if let Some(to) = to.get_mut(column(n)) {
            *to = words;
        }
    }
    if whole != [true; LANES] {
        missing(whole);
    }
}

impl Arena {
    /// The word at a place, as this machine reads it.
    fn word_at(&self, slot: &Slot, at: WordAt) -> Option<u32> {
        let base = match at.base {
            WordBase::Packet => 0,
            WordBase::Network => self.meta(slot).network.index(slot.headroom()),
            WordBase::Transport => self.meta(slot).transport.index(slot.headroom()),
        };
        // A header in front of the packet, or not known, is beyond its end.
        let rest = self.packet(slot).get(base.checked_add(at.offset)?..)?;
        rest.first_chunk().map(|word| u32::from_ne_bytes(*word))
    }
}

impl Group {
    /// All bases of eight packets, in bytes from the first buffer, if behind each base all of them
    /// have as many bytes as `reach` says; a base that reaches nowhere may be anything.
    ///
    /// # Safety
    ///
    /// The group has the places of these slots' packets, which are of the arena with these bases.
    #[inline(always)]
    unsafe fn bases<const HEADERS: bool>(
        &self,
        memory: Bases,
        slots: &[Slot; LANES],
        reach: &[u32; 3],
    ) -> Option<[[u64; LANES]; 3]> {
        let mut pairs = [0; LANES];
        if HEADERS {
            for (pair, meta) in pairs.iter_mut().zip(self.metas) {
                // SAFETY: the metadata of a packet of the arena, which is borrowed with its slot.
                *pair = unsafe { (*memory.meta_at(meta)).header_pair() };
            }
        }
        let words = slots.each_ref().map(Slot::word);
        let mut short = 0;
        let mut from = [[0; LANES]; 3];
        for lane in 0..LANES {
            let (length, headroom) =
                ((words[lane] >> 48) as u32, (words[lane] >> 32) as u32 & 0xffff);
            // The sign of the difference says that a word is not there.
            short |= length.wrapping_sub(reach[0]);
            if HEADERS {
                let headers = [pairs[lane] & 0xffff, pairs[lane] >> 16];
                for (base, header) in (1..).zip(headers) {
                    let at = header.wrapping_sub(headroom);
                    let missing = at | length.wrapping_sub(at).wrapping_sub(reach[base]);
                    short |= if reach[base] > 0 { missing } else { 0 };
                    from[base][lane] = at;
                }
            }
        }
        if short >> 31 != 0 {
            return None;
        }
        let mut bases = [self.starts; 3];
        if HEADERS {
            for base in 1..BASES.len() {
                for lane in 0..LANES {
                    bases[base][lane] = bases[base][lane].wrapping_add(from[base][lane].into());
                }
            }
        }
        Some(bases)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::ArenaOptions;

    /// Of packets that others hold or not, found first and known then.
    #[test]
    fn words_are_gathered_where_they_are() {
        let arena = ArenaOptions { size: 1 << 18, ..Default::default() }.create().unwrap();
        let mut pool = arena.cache(64);
        let mut frame = Frame::new(64);
        let at = |base, offset| WordAt { base, offset };
        let start = [at(WordBase::Packet, 9), at(WordBase::Packet, 1)];
        let header = [at(WordBase::Network, 9), at(WordBase::Packet, 2)];
        let both = [at(WordBase::Transport, 1), at(WordBase::Network, 3)];
        for count in 0..=50usize {
            for (shortest, places) in [0, 5, 9, 20].into_iter().zip([start, header, both, header]) {
                let mut shared = Frame::new(64);
                for n in 0..count {
                    let length = if n % 11 == 3 { shortest } else { 30 + n % 3 };
                    let mut slot = pool.take_one(length).unwrap();
                    let bytes = arena.packet_mut(&mut slot).unwrap();
                    bytes.iter_mut().enumerate().for_each(|(at, byte)| *byte = (n + 7 * at) as u8);
                    let headroom = slot.headroom();
                    let meta = arena.meta_mut(&mut slot).unwrap();
                    meta.set_headers(headroom, n % 5, 5 + n % 7);
                    match (count > 30, n % 13) {
                        (true, 4) => meta.forget_headers(),
                        // In front of the packet.
                        (true, 7) => meta.bytes_moved(-9),
                        _ => {}
                    }
                    if count % 2 == 0 && n % 7 == 1 {
                        shared.push(pool.share(&mut slot).unwrap()).unwrap();
                    }
                    frame.push(slot).unwrap();
                }
                let word = |slot: &Slot, at: WordAt| {
                    let room = slot.headroom();
                    let base = match at.base {
                        WordBase::Packet => Some(0),
                        WordBase::Network => arena.meta(slot).network.offset(room),
                        WordBase::Transport => arena.meta(slot).transport.offset(room),
                    };
                    let base = usize::try_from(base?).ok()?;
                    let word = arena.packet(slot).get(base + at.offset..)?.first_chunk()?;
                    Some(u32::from_ne_bytes(*word))
                };
                let wanted: Vec<_> = frame
                    .slots()
                    .iter()
                    .map(|slot| {
                        let words = places.map(|at| word(slot, at));
                        let is_whole = words.iter().all(Option::is_some);
                        (words.map(Option::unwrap_or_default), is_whole)
                    })
                    .collect();
                let mut header_cache = HeaderCache::new(64);
                for _ in 0..2 {
                    let mut seen = Vec::new();
                    let turns = count.div_ceil(LANES);
                    let mut columns = vec![[1; LANES]; 2 * turns];
                    let mut whole = vec![[true; LANES]; turns];
                    // The second words before the first.
                    let column = |turn, n| turn + (1 - n) * turns;
                    let to = (&mut *columns, column);
                    arena.gather(&mut frame, &mut header_cache, places, to, |turn, there| {
                        whole[turn] = there;
                    });
                    for turn in 0..turns {
                        let words = [0, 1].map(|n| columns[column(turn, n)]);
                        let of = |lane: usize| (words.map(|word| word[lane]), whole[turn][lane]);
                        seen.extend((0..LANES).map(of));
                    }
                    assert_eq!(seen.len(), count.next_multiple_of(LANES));
                    assert_eq!(seen[..count], wanted);
                }
                pool.give(&mut frame);
                pool.give(&mut shared);
            }
        }
    }
}
