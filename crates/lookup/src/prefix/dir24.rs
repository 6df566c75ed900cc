//! DIR-24-8: the answer for the first 24 bits of an IPv4 address in one array,
//! and groups of 256 answers where more bits matter.
//!
//! P. Gupta, S. Lin and N. McKeown, "Routing Lookups in Hardware at Memory Access
//! Speeds", INFOCOM 1998. One memory access for nearly all addresses, two for
//! the others, whatever the routes are.
//!
//! The array's words are of 16 bits as long as these can name all next hops and
//! groups in use, and of 32 bits from then on: half the memory is half the
//! misses of the caches and of the address translation. Groups, like all of a
//! change, are written beside what is read, and one store makes them seen. What
//! was replaced is written again only when no reader can be in it
//! ([`Generation`]).

use std::{
    hint::black_box,
    io,
    ops::Range,
    sync::{
        OnceLock,
        atomic::{AtomicU16, AtomicU32, Ordering, fence},
    },
};

use linerate_memory::{Generation, Words, prefetch};

use super::{
    NextHop, Prefix,
    engine::{Engine, NoRoom, PAGE},
    rib::Segment,
};

/// Words of the first array.
const FIRST: usize = 1 << 24;
/// Answers of a group.
const GROUP: usize = 256;
/// Addresses that are looked up side by side.
const BLOCK: usize = 256;
/// Addresses of a stage: as many as there is to do while a miss is served.
const STAGE: usize = 64;
/// Groups set aside before they are used again. Readers look twice when that
/// happens, so it is not to happen often.
const RETIRED: usize = 1 << 10;
/// Says that a word of 32 bits names a group.
const WIDE: u32 = 1 << 31;
/// The same of 16 bits.
const NARROW: u32 = 1 << 15;

/// The first array, of words of either size.
trait First {
    /// Says that a word names a group.
    const IS_GROUP: u32;
    fn near(&self, index: usize);
    fn get(&self, index: usize) -> u32;
}

macro_rules! first {
    ($word:ty, $group:expr) => {
        impl First for [$word; FIRST] {
            const IS_GROUP: u32 = $group;

            #[inline(always)]
            fn near(&self, index: usize) {
                prefetch(&self[index]);
            }

            #[inline(always)]
            fn get(&self, index: usize) -> u32 {
                self[index].load(Ordering::Relaxed).into()
            }
        }
    };
}

first!(AtomicU16, NARROW);
first!(AtomicU32, WIDE);

/// Those addresses of a block whose answers are in groups, and where there.
struct InGroups {
    which: [u8; BLOCK],
    place: [u32; BLOCK],
    count: usize,
}

impl InGroups {
    const EMPTY: InGroups = InGroups { which: [0; BLOCK], place: [0; BLOCK], count: 0 };

    /// Lists those of a stage that begins at `start`, without a branch for each:
    /// which they are would be guessed wrong as often as right.
    #[inline(always)]
    fn note<F: First>(&mut self, start: usize, addresses: &[u32], words: &[NextHop]) {
        for (at, (address, word)) in (start..).zip(addresses.iter().zip(words)) {
            self.which[self.count % BLOCK] = at as u8;
            self.place[self.count % BLOCK] = (word.0 & !F::IS_GROUP) << 8 | address & 255;
            self.count += (word.0 / F::IS_GROUP) as usize;
        }
    }
}

/// What readers share.
#[derive(Debug)]
pub struct Dir24 {
    narrow: Words<AtomicU16>,
    /// Used instead once it is there.
    wide: OnceLock<Words<AtomicU32>>,
    groups: Words<AtomicU32>,
}

impl Dir24 {
    #[inline(always)]
    fn lookup_blocks<F: First>(&self, first: &F, addresses: &[u32], hops: &mut [NextHop]) {
        for (addresses, hops) in addresses.chunks(BLOCK).zip(hops.chunks_mut(BLOCK)) {
            self.lookup_block(first, addresses, hops);
        }
    }

    /// Up to [`BLOCK`] addresses, in stages, so that what one waits for is asked
    /// for while others are at work: the words of a stage's addresses are asked
    /// for before those of the stage in front are read, and its groups before
    /// anything of them is.
    #[inline(always)]
    fn lookup_block<F: First>(&self, first: &F, addresses: &[u32], hops: &mut [NextHop]) {
        let index = |address: &u32| (address >> 8) as usize;
        let ask = |addresses: &[u32]| {
            addresses.iter().for_each(|address| first.near(index(address)));
        };
        // Not made where no word names a group.
        let mut in_groups = None;
        let mut stages = addresses.chunks(STAGE).zip(hops.chunks_mut(STAGE)).peekable();
        if let Some((addresses, _)) = stages.peek() {
            ask(addresses);
        }
        let mut start = 0;
        while let Some((addresses, hops)) = stages.next() {
            if let Some((next, _)) = stages.peek() {
                ask(next);
            }
            let mut all = 0;
            for (address, hop) in addresses.iter().zip(hops.iter_mut()) {
                *hop = NextHop(first.get(index(address)));
                all |= hop.0;
            }
            if all & F::IS_GROUP != 0 {
                let places = in_groups.get_or_insert(InGroups::EMPTY);
                let before = places.count;
                places.note::<F>(start, addresses, hops);
                for place in places.place.iter().take(places.count).skip(before) {
                    if let Some(answer) = self.groups.get(*place as usize) {
                        prefetch(answer);
                    }
                }
            }
            start += addresses.len();
        }
        let Some(places) = in_groups else { return };
        // Partner of the fence in `publish`: whoever saw a group's number sees
        // what is in it.
        fence(Ordering::Acquire);
        for (at, place) in places.which.iter().zip(&places.place).take(places.count) {
            if let (Some(answer), Some(hop)) =
                (self.groups.get(*place as usize), hops.get_mut(usize::from(*at)))
            {
                *hop = NextHop(answer.load(Ordering::Relaxed));
            }
        }
    }

    fn first(&self, slot: u32) -> u32 {
        match self.wide.get() {
            Some(wide) => wide[slot as usize].load(Ordering::Relaxed),
            None => widened(self.narrow[slot as usize].load(Ordering::Relaxed)),
        }
    }
}

/// A word of the narrow array, as it is in the wide one.
fn widened(word: u16) -> u32 {
    let word = u32::from(word);
    if word & NARROW == 0 { word } else { word & !NARROW | WIDE }
}

/// The writer's side.
#[derive(Debug)]
pub struct Groups {
    free: Vec<u32>,
    /// Readers may still be in these.
    retired: Vec<u32>,
    /// Groups from here on were never used.
    top: u32,
    limit: u32,
}

/// A change that is ready and not seen yet.
#[derive(Debug, Default)]
struct Change {
    /// Ranges of the first array and what they become.
    words: Vec<(Range<u32>, u32)>,
    taken: Vec<u32>,
    left: Vec<u32>,
}

impl Groups {
    fn new(limit: u32) -> Groups {
        Groups { free: Vec::new(), retired: Vec::new(), top: 0, limit }
    }

    fn stage(
        &mut self,
        fib: &Dir24,
        prefix: Prefix<u32>,
        segments: &[Segment<u32>],
        change: &mut Change,
    ) -> Result<(), NoRoom> {
        let mut rest = segments;
        let (mut slot, end) = (prefix.first() >> 8, (prefix.last() >> 8) + 1);
        while slot < end {
            let (first, last) = (slot << 8, slot << 8 | 255);
            advance(&mut rest, first);
            let old = fib.first(slot);
            let next = rest.get(1).map(|next| next.start);
            if prefix.length() <= 24 && next.is_none_or(|next| next > last) {
                // The same answer as far as the next segment.
                let stop = next.map_or(end, |next| next >> 8);
                let groups = (slot..stop).map(|slot| fib.first(slot)).filter(|w| w & WIDE != 0);
                change.left.extend(groups.map(|word| word & !WIDE));
                change.words.push((slot..stop, rest[0].hop.0));
                slot = stop;
                continue;
            }
            let mut answers = [old; GROUP];
            if old & WIDE != 0 {
                let from = (old & !WIDE) as usize * GROUP;
                for (answer, word) in answers.iter_mut().zip(&fib.groups[from..]) {
                    *answer = word.load(Ordering::Relaxed);
                }
                change.left.push(old & !WIDE);
            }
            for address in first.max(prefix.first())..=last.min(prefix.last()) {
                advance(&mut rest, address);
                answers[(address & 255) as usize] = rest[0].hop.0;
            }
            let word = if answers == [answers[0]; GROUP] {
                answers[0]
            } else {
                WIDE | self.write(fib, &answers, change)?
            };
            change.words.push((slot..slot + 1, word));
            slot += 1;
        }
        Ok(())
    }

    fn write(
        &mut self,
        fib: &Dir24,
        answers: &[u32; GROUP],
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
        for (word, answer) in fib.groups[group as usize * GROUP..].iter().zip(answers) {
            word.store(*answer, Ordering::Relaxed);
        }
        Ok(group)
    }

    fn publish(&mut self, fib: &Dir24, change: Change) {
        // Partner of the fence in `Dir24::lookup_block`.
        fence(Ordering::Release);
        for (range, word) in change.words {
            let range = range.start as usize..range.end as usize;
            match fib.wide.get() {
                Some(wide) => fill(&wide[range], |place| place.store(word, Ordering::Relaxed)),
                None => {
                    let group = if word & WIDE != 0 { NARROW } else { 0 };
                    let word = (word & !WIDE | group) as u16;
                    fill(&fib.narrow[range], |place| place.store(word, Ordering::Relaxed));
                }
            }
        }
        self.retired.extend(change.left);
    }

    fn reclaim(&mut self, generation: &Generation) {
        generation.advance();
        self.free.append(&mut self.retired);
    }

    /// Goes over to words of 32 bits. Readers that have begun go on with those
    /// of 16 bits, which are no longer changed.
    fn widen(&mut self, fib: &Dir24) -> Result<(), NoRoom> {
        let wide = Words::<AtomicU32>::zeroed(FIRST).map_err(|_| NoRoom)?;
        for (wide, narrow) in wide.iter().zip(fib.narrow.iter()) {
            wide.store(widened(narrow.load(Ordering::Relaxed)), Ordering::Relaxed);
        }
        // Nobody else sets it.
        let _ = fib.wide.set(wide);
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

impl Engine<u32> for Dir24 {
    type Writer = Groups;

    fn new(memory: usize) -> io::Result<(Dir24, Groups)> {
        let limit = (memory / (GROUP * size_of::<AtomicU32>())).min(1 << 23) as u32;
        let fib = Dir24 {
            narrow: Words::zeroed(FIRST)?,
            wide: OnceLock::new(),
            groups: Words::zeroed(limit as usize * GROUP)?,
        };
        Ok((fib, Groups::new(limit)))
    }

    #[inline]
    fn lookup(&self, addresses: &[u32], hops: &mut [NextHop]) {
        // Never `None` by their lengths; a choice made once for a burst.
        match self.wide.get() {
            Some(wide) => {
                if let Ok(first) = <&[AtomicU32; FIRST]>::try_from(&**wide) {
                    self.lookup_blocks(first, addresses, hops);
                }
            }
            None => {
                if let Ok(first) = <&[AtomicU16; FIRST]>::try_from(&*self.narrow) {
                    self.lookup_blocks(first, addresses, hops);
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
        let mut change = Change::default();
        let mut staged = groups.stage(self, prefix, segments, &mut change);
        if staged.is_err() && !groups.retired.is_empty() {
            groups.reclaim(generation);
            groups.free.append(&mut change.taken);
            change = Change::default();
            staged = groups.stage(self, prefix, segments, &mut change);
        }
        let fits = |word: u32| word & !WIDE < NARROW;
        if staged.is_ok() && self.wide.get().is_none() && !change.words.iter().all(|w| fits(w.1)) {
            staged = groups.widen(self);
        }
        match staged {
            Ok(()) => groups.publish(self, change),
            Err(NoRoom) => groups.free.append(&mut change.taken),
        }
        staged
    }

    fn clear(&self, groups: &mut Groups) {
        self.narrow.clear();
        // Words of 32 bits stay: a reader may be about to use them.
        if let Some(wide) = self.wide.get() {
            wide.clear();
        }
        self.groups.clear();
        *groups = Groups::new(groups.limit);
    }

    fn touch(&self) {
        let look = |slot| _ = black_box(self.first(slot));
        (0..FIRST as u32).step_by(PAGE / size_of::<AtomicU32>()).for_each(look);
    }

    fn bytes(&self, groups: &Groups) -> usize {
        let wide = if self.wide.get().is_some() { FIRST * 4 } else { 0 };
        FIRST * 2 + wide + groups.top as usize * GROUP * 4
    }
}
