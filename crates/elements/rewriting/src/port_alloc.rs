//! Port allocation: chooses ports and addresses that no flow has.

use linerate_packet::{FlowV4, IpProtocol};
use linerate_tables::exact::{Entry, Table};

use super::{
    mapping::Mapping,
    pattern::{PortAllocator, Range},
    port_bitmap::{PortBitmaps, SHORT},
    rewriter_type::RewriterKind,
};

/// Ends looked up at a time, so that their cache misses overlap.
const GROUP: usize = 64;
/// Groups of random tries in a range too long to be looked through. With one in a thousand free they
/// find none once in 60 times.
const ROUNDS: usize = 64;

/// Chooses such that replies to the rewritten flow are no other flow's.
///
/// Ranges of up to [`SHORT`] are looked through. In longer ones random places are tried, 64 in one
/// lookup, or places in turn; where all are taken, [`PortBitmaps`] knows the free ports. So the
/// work does not grow with how few are left, except for ranges of more than 65,536 addresses, where
/// 4,096 tries must do.
pub(super) struct Chooser<'a> {
    pub(super) table: &'a Table<FlowV4, Mapping>,
    pub(super) bitmaps: &'a mut PortBitmaps,
    pub(super) random: &'a mut fastrand::Rng,
    pub(super) rewriter: u16,
    pub(super) map: IpProtocol,
    pub(super) kind: RewriterKind,
}

impl Chooser<'_> {
    /// The key of replies to the flow with one of the range.
    fn reply(&self, range: &Range<'_>, value: u32) -> FlowV4 {
        let to = self.kind.completed(range.ends_at(value));
        to.reversed().key(self.rewriter, self.map)
    }

    /// The first of at most [`GROUP`] that is free.
    fn first_free(&self, range: &Range<'_>, values: &[u32]) -> Option<u32> {
        let mut keys = [self.reply(range, 0); GROUP];
        let mut found: [Option<Entry>; GROUP] = [None; GROUP];
        for (key, value) in keys.iter_mut().zip(values) {
            *key = self.reply(range, *value);
        }
        let count = values.len().min(GROUP);
        self.table.lookup_many(&keys[..count], &mut found[..count]);
        let free = found[..count].iter().position(Option::is_none)?;
        Some(values[free])
    }

    /// The first free one of `count` from `start` on, going round.
    fn in_turn(&self, range: &Range<'_>, start: u32, count: u64) -> Option<u32> {
        let mut value = start;
        let mut left = count;
        let mut group = [0; GROUP];
        while left > 0 {
            let now = left.min(GROUP as u64) as usize;
            for place in &mut group[..now] {
                *place = value;
                value = if value == range.top { 0 } else { value + 1 };
            }
            if let Some(free) = self.first_free(range, &group[..now]) {
                return Some(free);
            }
            left -= now as u64;
        }
        None
    }

    fn anywhere(&mut self, range: &Range<'_>) -> Option<u32> {
        let group: [u32; GROUP] = std::array::from_fn(|_| self.random.u32(..=range.top));
        self.first_free(range, &group)
    }
}

impl PortAllocator for Chooser<'_> {
    fn choose(&mut self, range: &Range<'_>) -> Option<u32> {
        if let Some(value) = range.preferred
            && self.table.lookup(&self.reply(range, value)).is_none()
        {
            return Some(value);
        }
        let start = range.next.unwrap_or_else(|| self.random.u32(..=range.top));
        if range.top < SHORT {
            return self.in_turn(range, start, u64::from(range.top) + 1);
        }
        let reply = self.reply(range, 0);
        let ports = range.base_port().map(|base| (base, range.top as u16));
        let is_crowd = !self.bitmaps.is_empty()
            && ports.is_some_and(|(base, top)| self.bitmaps.has(&reply, base, top));
        if !is_crowd {
            let found = match range.next {
                Some(_) => self.in_turn(range, start, SHORT.into()),
                None => self.anywhere(range),
            };
            if found.is_some() {
                return found;
            }
        }
        match ports {
            Some((base, top)) => {
                let Chooser { table, rewriter, map, kind, .. } = *self;
                let is_taken = |port: u16| {
                    let ends = range.ends_at(u32::from(port.wrapping_sub(base)));
                    let reply = kind.completed(ends).reversed().key(rewriter, map);
                    table.lookup(&reply).is_some()
                };
                self.bitmaps.find(&reply, base, top, start, is_taken)
            }
            None => (0..ROUNDS).find_map(|_| self.anywhere(range)),
        }
    }
}
