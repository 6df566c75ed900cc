//! DIR-24-8: the answer for the first 24 bits of an IPv4 address in one array, the
//! tbl24, and groups of 256 answers where more bits matter, the tbl8s (names as in
//! DPDK's `rte_lpm` and `rte_fib`).
//!
//! P. Gupta, S. Lin and N. McKeown, "Routing Lookups in Hardware at Memory Access Speeds", INFOCOM
//! 1998. One memory access for nearly all addresses, two for the others, with any routes.
//!
//! The words of the tbl24 are of 16 bits as long as these can name all next hops and groups in use,
//! and of 32 bits from then on: half the memory is half the cache and TLB misses. Groups are
//! written beside those that are read and published by one store; a change inside a group that is
//! there already is one store for each address. Replaced groups are retired, and reused only after
//! the [`Generation`] has advanced.
//!
//! A lookup is one loop that asks for words ahead while it reads others. Asking for many in a loop of
//! its own waits for the buffers of the first cache, and nothing else is done meanwhile.

use std::{
    hint::black_box,
    io,
    ops::Range,
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicU16, AtomicU32, Ordering, fence},
    },
};

use linerate_memory::{Generation, Words, prefetch_second};

use super::{
    NextHop, Prefix,
    lpm::{Lpm, NoRoom, PAGE},
    rib::Segment,
};

/// Words of the tbl24.
const TBL24: usize = 1 << 24;
/// Answers of a group of the tbl8.
const TBL8: usize = 256;
/// Addresses that are looked up side by side.
const BLOCK: usize = 256;
/// Number of addresses ahead at which words of the tbl24 are prefetched, into the second cache:
/// there are more misses under way at once than the first cache's fill buffers allow, and the loads
/// that find them there are not waited for.
const AHEAD: usize = 64;
/// Fewer addresses than this are looked up one after the other.
const WORTH: usize = 8;
/// Groups retired before they are reclaimed. Readers that are inside retry then, so
/// it is not to happen often.
const RETIRED: usize = 1 << 10;
/// Flag of a word of 32 bits: it names a group (`valid_group` in `rte_lpm`).
const WIDE: u32 = 1 << 31;
/// As [`WIDE`], of a word of 16 bits.
const NARROW: u32 = 1 << 15;

/// The tbl24, of words of either size.
trait Tbl24 {
    /// Says that a word names a group.
    const IS_GROUP: u32;
    fn prefetch(&self, index: usize);
    fn get(&self, index: usize) -> u32;
}

macro_rules! tbl24 {
    ($word:ty, $group:expr) => {
        impl Tbl24 for [$word; TBL24] {
            const IS_GROUP: u32 = $group;

            #[inline(always)]
            fn prefetch(&self, index: usize) {
                prefetch_second(&self[index]);
            }

            #[inline(always)]
            fn get(&self, index: usize) -> u32 {
                self[index].load(Ordering::Relaxed).into()
            }
        }
    };
}

tbl24!(AtomicU16, NARROW);
tbl24!(AtomicU32, WIDE);

/// The word of the tbl24 an address reads.
#[inline(always)]
fn index(address: u32) -> usize {
    (address >> 8) as usize
}

/// Puts the words of addresses in the places of their next hops and has them seen, with the place
/// in the block and the address of each.
#[inline(always)]
fn look_up<F: Tbl24>(
    tbl24: &F,
    addresses: &[u32],
    hops: &mut [NextHop],
    mut see: impl FnMut(usize, u32, u32),
) {
    let (first, later) = addresses.split_at(addresses.len().min(AHEAD));
    first.iter().for_each(|address| tbl24.prefetch(index(*address)));
    let (now, last) = addresses.split_at(later.len());
    let (hops, last_hops) = hops.split_at_mut(later.len());
    for (at, ((&ahead, &address), hop)) in later.iter().zip(now).zip(hops).enumerate() {
        tbl24.prefetch(index(ahead));
        hop.0 = tbl24.get(index(address));
        see(at, address, hop.0);
    }
    for (at, (&address, hop)) in last.iter().zip(last_hops).enumerate() {
        hop.0 = tbl24.get(index(address));
        see(later.len() + at, address, hop.0);
    }
}

/// The tbl8 entry of an address whose word names a group.
#[inline(always)]
fn entry<F: Tbl24>(address: u32, word: u32) -> u32 {
    (word & !F::IS_GROUP) << 8 | address & 255
}

/// The second access, to an entry of the tbl8.
#[inline(always)]
fn answer(tbl8: &[AtomicU32], entry: u32, hop: &mut NextHop) {
    if let Some(answer) = tbl8.get(entry as usize) {
        *hop = NextHop(answer.load(Ordering::Relaxed));
    }
}

/// Arrays that readers share.
#[derive(Debug)]
pub struct Dir24 {
    /// The tbl24.
    narrow: Words<AtomicU16>,
    /// The tbl24 in words of 32 bits, used instead once it is there.
    wide: OnceLock<Words<AtomicU32>>,
    tbl8: Words<AtomicU32>,
    /// Whether a word may name a group: a hint by which lookups choose their loop.
    grouped: AtomicBool,
}

impl Dir24 {
    #[inline(always)]
    fn lookup_blocks<F: Tbl24>(&self, tbl24: &F, addresses: &[u32], hops: &mut [NextHop]) {
        for (addresses, hops) in addresses.chunks(BLOCK).zip(hops.chunks_mut(BLOCK)) {
            self.lookup_block(tbl24, addresses, hops);
        }
    }

    /// Up to [`BLOCK`] addresses in one loop, which lists those that take a second access, to the
    /// tbl8. These are done behind it: they do not wait for each other, so the processor has many
    /// under way by itself.
    ///
    /// Not inlined: its caller has it for both sizes of words, and with loops of both in one
    /// function the compiler keeps half of their values on the stack.
    #[inline(never)]
    fn lookup_block<F: Tbl24>(&self, tbl24: &F, addresses: &[u32], hops: &mut [NextHop]) {
        // A slice by itself is not loaded anew behind every store.
        let tbl8 = &*self.tbl8;
        if addresses.len() < WORTH {
            for (&address, hop) in addresses.iter().zip(hops) {
                hop.0 = tbl24.get(index(address));
                if hop.0 & F::IS_GROUP != 0 {
                    // As below.
                    fence(Ordering::Acquire);
                    answer(tbl8, entry::<F>(address, hop.0), hop);
                }
            }
            return;
        }
        if !self.grouped.load(Ordering::Relaxed) {
            let mut any = 0;
            look_up(tbl24, addresses, hops, |_, _, word| any |= word);
            if any & F::IS_GROUP == 0 {
                return;
            }
        }
        // Their places in the block. Branch-free: every address is written to the end of the list,
        // which advances by the flag. With mixed addresses a branch would be mispredicted every
        // other time.
        let (mut which, mut count) = ([0_u8; BLOCK], 0);
        look_up(tbl24, addresses, hops, |at, _, word| {
            which[count % BLOCK] = at as u8;
            count += (word / F::IS_GROUP) as usize;
        });
        if count == 0 {
            return;
        }
        // Pairs with the fence in `publish`: a reader that loaded a group's number loads its
        // entries.
        fence(Ordering::Acquire);
        for at in which.iter().take(count).map(|at| usize::from(*at)) {
            if let (Some(address), Some(hop)) = (addresses.get(at), hops.get_mut(at)) {
                answer(tbl8, entry::<F>(*address, hop.0), hop);
            }
        }
    }

    /// A word of the tbl24, as the writer reads it.
    fn word(&self, index: u32) -> u32 {
        match self.wide.get() {
            Some(wide) => wide[index as usize].load(Ordering::Relaxed),
            None => widened(self.narrow[index as usize].load(Ordering::Relaxed)),
        }
    }

    /// Makes words of the tbl24 the same.
    fn store(&self, words: Range<u32>, word: u32) {
        let range = words.start as usize..words.end as usize;
        match self.wide.get() {
            Some(wide) => fill(&wide[range], |place| place.store(word, Ordering::Relaxed)),
            None => {
                let group = if word & WIDE != 0 { NARROW } else { 0 };
                let word = (word & !WIDE | group) as u16;
                fill(&self.narrow[range], |place| place.store(word, Ordering::Relaxed));
            }
        }
    }
}

/// A word of the narrow tbl24, as it is in the wide one.
fn widened(word: u16) -> u32 {
    let word = u32::from(word);
    if word & NARROW == 0 { word } else { word & !NARROW | WIDE }
}

/// The writer's side.
#[derive(Debug)]
pub struct Groups {
    free: Vec<u32>,
    /// Replaced; readers may still be in these.
    retired: Vec<u32>,
    /// Groups from here on were never used.
    top: u32,
    limit: u32,
    /// Empty between two changes; it keeps its memory.
    change: Change,
}

/// A change that is written and not published yet.
#[derive(Debug, Default)]
struct Change {
    /// Ranges of the tbl24 and their new values.
    words: Vec<(Range<u32>, u32)>,
    /// Groups it takes, and those it replaces.
    taken: Vec<u32>,
    retired: Vec<u32>,
}

impl Groups {
    fn new(limit: u32) -> Groups {
        let change = Change::default();
        Groups { free: Vec::new(), retired: Vec::new(), top: 0, limit, change }
    }

    fn stage(
        &mut self,
        dir24: &Dir24,
        prefix: Prefix<u32>,
        segments: &[Segment<u32>],
        change: &mut Change,
    ) -> Result<(), NoRoom> {
        let mut rest = segments;
        let (mut index, end) = (prefix.first() >> 8, (prefix.last() >> 8) + 1);
        while index < end {
            let (first, last) = (index << 8, index << 8 | 255);
            advance(&mut rest, first);
            let old = dir24.word(index);
            let next = rest.get(1).map(|next| next.start);
            if prefix.length() <= 24 && next.is_none_or(|next| next > last) {
                // The same answer as far as the next segment.
                let stop = next.map_or(end, |next| next >> 8);
                let groups = (index..stop).map(|index| dir24.word(index)).filter(|w| w & WIDE != 0);
                change.retired.extend(groups.map(|word| word & !WIDE));
                change.words.push((index..stop, rest[0].hop.0));
                index = stop;
                continue;
            }
            // Of a group that is there all answers change: `change_group` does the others.
            let mut answers = [old; TBL8];
            if old & WIDE != 0 {
                change.retired.push(old & !WIDE);
            }
            for address in first.max(prefix.first())..=last.min(prefix.last()) {
                advance(&mut rest, address);
                answers[(address & 255) as usize] = rest[0].hop.0;
            }
            let word = if answers == [answers[0]; TBL8] {
                answers[0]
            } else {
                WIDE | self.write(dir24, &answers, change)?
            };
            change.words.push((index..index + 1, word));
            index += 1;
        }
        Ok(())
    }

    fn write(
        &mut self,
        dir24: &Dir24,
        answers: &[u32; TBL8],
        change: &mut Change,
    ) -> Result<u32, NoRoom> {
        let group = match self.free.pop() {
            Some(group) => group,
            None if self.top < self.limit => {
                self.top += 1;
                self.top - 1
            }
            None => return Err(NoRoom),
        };
        change.taken.push(group);
        dir24.grouped.store(true, Ordering::Relaxed);
        for (word, answer) in dir24.tbl8[group as usize * TBL8..].iter().zip(answers) {
            word.store(*answer, Ordering::Relaxed);
        }
        Ok(group)
    }

    /// Changes answers of a group where they are, one store for each address, if `prefix` is inside
    /// of one. Says whether that was all there was to do.
    fn change_group(
        &mut self,
        dir24: &Dir24,
        prefix: Prefix<u32>,
        segments: &[Segment<u32>],
    ) -> bool {
        let index = prefix.first() >> 8;
        let word = if prefix.length() > 24 { dir24.word(index) } else { 0 };
        if word & WIDE == 0 {
            return false;
        }
        let group = &dir24.tbl8[(word & !WIDE) as usize * TBL8..][..TBL8];
        let mut rest = segments;
        for address in prefix.first()..=prefix.last() {
            advance(&mut rest, address);
            group[(address & 255) as usize].store(rest[0].hop.0, Ordering::Relaxed);
        }
        let first = group[0].load(Ordering::Relaxed);
        let fits = first < NARROW || dir24.wide.get().is_some();
        if fits && group.iter().all(|answer| answer.load(Ordering::Relaxed) == first) {
            dir24.store(index..index + 1, first);
            self.retired.push(word & !WIDE);
        }
        true
    }

    fn publish(&mut self, dir24: &Dir24, change: &mut Change) {
        // Pairs with the fence in `Dir24::lookup_block`.
        fence(Ordering::Release);
        change.words.drain(..).for_each(|(range, word)| dir24.store(range, word));
        change.taken.clear();
        self.retired.append(&mut change.retired);
    }

    /// Frees the groups taken for a change that is not made.
    fn abandon(&mut self, change: &mut Change) {
        self.free.append(&mut change.taken);
        change.words.clear();
        change.retired.clear();
    }

    fn reclaim(&mut self, generation: &Generation) {
        generation.advance();
        self.free.append(&mut self.retired);
    }

    /// Goes over to words of 32 bits. Readers that have begun go on with those
    /// of 16 bits, which are no longer changed.
    fn widen(&mut self, dir24: &Dir24) -> Result<(), NoRoom> {
        let wide = Words::<AtomicU32>::zeroed(TBL24).map_err(|_| NoRoom)?;
        for (wide, narrow) in wide.iter().zip(dir24.narrow.iter()) {
            wide.store(widened(narrow.load(Ordering::Relaxed)), Ordering::Relaxed);
        }
        // No other thread sets it.
        let _ = dir24.wide.set(wide);
        Ok(())
    }
}

fn fill<T>(places: &[T], store: impl Fn(&T)) {
    places.iter().for_each(store);
}

/// Goes on to the segment `address` is in.
fn advance(rest: &mut &[Segment<u32>], address: u32) {
    while let [_, next, ..] = rest
        && next.start <= address
    {
        *rest = &rest[1..];
    }
}

impl Lpm<u32> for Dir24 {
    type Writer = Groups;

    fn new(memory: usize) -> io::Result<(Dir24, Groups)> {
        let limit = (memory / (TBL8 * size_of::<AtomicU32>())).min(1 << 23) as u32;
        let dir24 = Dir24 {
            narrow: Words::zeroed(TBL24)?,
            wide: OnceLock::new(),
            tbl8: Words::zeroed(limit as usize * TBL8)?,
            grouped: AtomicBool::new(false),
        };
        Ok((dir24, Groups::new(limit)))
    }

    #[inline]
    fn lookup(&self, addresses: &[u32], hops: &mut [NextHop]) {
        // Never `Err` by their lengths; a choice made once for a burst.
        match self.wide.get() {
            Some(wide) => {
                if let Ok(tbl24) = <&[AtomicU32; TBL24]>::try_from(&**wide) {
                    self.lookup_blocks(tbl24, addresses, hops);
                }
            }
            None => {
                if let Ok(tbl24) = <&[AtomicU16; TBL24]>::try_from(&*self.narrow) {
                    self.lookup_blocks(tbl24, addresses, hops);
                }
            }
        }
    }

    fn update(
        &self,
        groups: &mut Groups,
        generation: &Generation,
        prefix: Prefix<u32>,
        segments: &[Segment<u32>],
    ) -> Result<(), NoRoom> {
        if groups.retired.len() > RETIRED {
            groups.reclaim(generation);
        }
        if groups.change_group(self, prefix, segments) {
            return Ok(());
        }
        let mut change = std::mem::take(&mut groups.change);
        let mut staged = groups.stage(self, prefix, segments, &mut change);
        if staged.is_err() && !groups.retired.is_empty() {
            groups.abandon(&mut change);
            groups.reclaim(generation);
            staged = groups.stage(self, prefix, segments, &mut change);
        }
        let fits = |word: u32| word & !WIDE < NARROW;
        if staged.is_ok() && self.wide.get().is_none() && !change.words.iter().all(|w| fits(w.1)) {
            staged = groups.widen(self);
        }
        match staged {
            Ok(()) => groups.publish(self, &mut change),
            Err(NoRoom) => groups.abandon(&mut change),
        }
        groups.change = change;
        staged
    }

    fn clear(&self, groups: &mut Groups) {
        self.narrow.clear();
        // Words of 32 bits stay: a reader may be about to load them.
        if let Some(wide) = self.wide.get() {
            wide.clear();
        }
        self.tbl8.clear();
        self.grouped.store(false, Ordering::Relaxed);
        *groups = Groups::new(groups.limit);
    }

    fn prefault(&self) {
        let load = |index| _ = black_box(self.word(index));
        (0..TBL24 as u32).step_by(PAGE / size_of::<AtomicU32>()).for_each(load);
    }

    fn bytes(&self, groups: &Groups) -> usize {
        let wide = if self.wide.get().is_some() { TBL24 * 4 } else { 0 };
        TBL24 * 2 + wide + groups.top as usize * TBL8 * 4
    }
}
