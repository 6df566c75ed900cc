//! Port bitmap: the taken ports of a range so full that random tries find none free.

use std::collections::HashMap;

use linerate_packet::FlowV4;

/// Ranges up to this long are searched as they are.
pub(super) const SHORT: u32 = 1024;

/// One range of ports towards one end.
#[derive(Debug)]
struct PortBitmap {
    base: u16,
    /// Ports but one.
    top: u16,
    used: u32,
    /// A bit for each port, set when taken.
    taken: Vec<u64>,
    /// A bit for each word of `taken`, set when it has no free port.
    full: Vec<u64>,
}

impl PortBitmap {
    fn new(base: u16, top: u16) -> PortBitmap {
        let ports = usize::from(top) + 1;
        let words = ports.div_ceil(64);
        let mut bitmap = PortBitmap {
            base,
            top,
            used: 0,
            taken: vec![0; words],
            full: vec![0; words.div_ceil(64)],
        };
        // Places behind the last.
        (ports..64 * words).for_each(|at| bitmap.mark(at, true));
        (words..64 * bitmap.full.len()).for_each(|at| bitmap.full[at / 64] |= 1 << (at % 64));
        bitmap.used = 0;
        bitmap
    }

    fn mark(&mut self, at: usize, taken: bool) {
        let (word, bit) = (at / 64, 1u64 << (at % 64));
        if (self.taken[word] & bit != 0) == taken {
            return;
        }
        self.taken[word] ^= bit;
        self.used = if taken { self.used + 1 } else { self.used - 1 };
        let full = 1 << (word % 64);
        match self.taken[word] {
            u64::MAX => self.full[word / 64] |= full,
            _ => self.full[word / 64] &= !full,
        }
    }

    /// The first free place at or behind `start`, or else before it.
    fn free(&self, start: usize) -> Option<usize> {
        let within = |word: usize, mask: u64| {
            let free = !self.taken[word] & mask;
            (free != 0).then(|| 64 * word + free.trailing_zeros() as usize)
        };
        let first = start / 64;
        within(first, u64::MAX << (start % 64)).or_else(|| {
            let words = self.next_word(first + 1).or_else(|| self.next_word(0));
            words.and_then(|word| within(word, u64::MAX))
        })
    }

    /// The first word with a free place, from `word` on.
    fn next_word(&self, word: usize) -> Option<usize> {
        let first = word / 64;
        (first..self.full.len()).find_map(|at| {
            let mask = if at == first { u64::MAX << (word % 64) } else { u64::MAX };
            let free = !self.full[at] & mask;
            (free != 0).then(|| 64 * at + free.trailing_zeros() as usize)
        })
    }

    fn place(&self, port: u16) -> Option<usize> {
        let at = port.wrapping_sub(self.base);
        (at <= self.top).then_some(at.into())
    }
}

/// Bitmaps, by the far end and the address in front of the range.
///
/// One is made by looking at every port of its range, when random or successive tries have found
/// none free, and kept up to date until half of the range is free. So there is none that has not
/// hundreds of flows, and their number and memory, at most 8 KiB each, are bounded by that of flows.
#[derive(Debug, Default)]
pub(super) struct PortBitmaps(HashMap<FlowV4, Vec<PortBitmap>>);

/// The key of a reply without the port that tells flows of a bitmap apart.
fn far_end(reply: &FlowV4) -> FlowV4 {
    // The number of a ping's reply follows from its identifier.
    let src_port = if reply.protocol.0 == 1 { 0 } else { reply.src_port };
    FlowV4 { src_port, dst_port: 0, ..*reply }
}

impl PortBitmaps {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A free port of a range with more than one, as its distance from `base`: the first at or
    /// behind `start`, going round. The bitmap is made where there is none, asking `is_taken`.
    pub(super) fn find(
        &mut self,
        reply: &FlowV4,
        base: u16,
        top: u16,
        start: u32,
        is_taken: impl Fn(u16) -> bool,
    ) -> Option<u32> {
        let bitmaps = self.0.entry(far_end(reply)).or_default();
        let same = |bitmap: &&PortBitmap| (bitmap.base, bitmap.top) == (base, top);
        if let Some(bitmap) = bitmaps.iter().find(same) {
            return bitmap.free(start as usize).map(|at| at as u32);
        }
        let mut bitmap = PortBitmap::new(base, top);
        for at in 0..=top {
            bitmap.mark(at.into(), is_taken(base.wrapping_add(at)));
        }
        let free = bitmap.free(start as usize).map(|at| at as u32);
        bitmaps.push(bitmap);
        free
    }

    /// Returns true if there is one for this range.
    pub(super) fn has(&self, reply: &FlowV4, base: u16, top: u16) -> bool {
        let bitmaps = self.0.get(&far_end(reply));
        bitmaps.is_some_and(|all| all.iter().any(|at| (at.base, at.top) == (base, top)))
    }

    /// A flow with this reply was added.
    pub(super) fn added(&mut self, reply: &FlowV4) {
        for bitmap in self.0.get_mut(&far_end(reply)).into_iter().flatten() {
            if let Some(at) = bitmap.place(reply.dst_port) {
                bitmap.mark(at, true);
            }
        }
    }

    /// A flow with this reply is gone.
    pub(super) fn removed(&mut self, reply: &FlowV4) {
        let end = far_end(reply);
        let Some(bitmaps) = self.0.get_mut(&end) else { return };
        bitmaps.retain_mut(|bitmap| {
            if let Some(at) = bitmap.place(reply.dst_port) {
                bitmap.mark(at, false);
            }
            bitmap.used > u32::from(bitmap.top) / 2
        });
        if bitmaps.is_empty() {
            self.0.remove(&end);
        }
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use linerate_packet::IpProtocol;

    use super::*;

    fn reply(port: u16) -> FlowV4 {
        let (src, dst) = (Ipv4Addr::new(2, 0, 0, 1), Ipv4Addr::new(1, 0, 0, 1));
        FlowV4 { src, dst, src_port: 80, dst_port: port, vlan: 0, protocol: IpProtocol(6) }
    }

    #[test]
    fn the_first_free_port_is_found_wherever_it_is() {
        let mut random = fastrand::Rng::with_seed(3);
        for top in [0u16, 1, 62, 63, 64, 100, 4095, 4096, 64511] {
            let mut model = vec![true; usize::from(top) + 1];
            for _ in 0..5 {
                model[random.usize(..=usize::from(top))] = false;
            }
            let mut bitmaps = PortBitmaps::default();
            for _ in 0..50 {
                let start = random.u32(..=u32::from(top));
                let found = bitmaps
                    .find(&reply(0), 1000, top, start, |port| model[usize::from(port - 1000)]);
                let ports = (start..=u32::from(top)).chain(0..start);
                let expected = ports.into_iter().find(|at| !model[*at as usize]);
                assert_eq!(found, expected, "{top} from {start}");
                if let Some(at) = found {
                    bitmaps.added(&reply(1000 + at as u16));
                    model[at as usize] = true;
                }
            }
        }
    }

    #[test]
    fn a_bitmap_goes_when_half_of_it_is_free() {
        let mut bitmaps = PortBitmaps::default();
        assert_eq!(bitmaps.find(&reply(0), 1000, 1999, 7, |_| true), None);
        assert!(bitmaps.has(&reply(5), 1000, 1999) && !bitmaps.has(&reply(5), 1000, 1998));
        bitmaps.removed(&reply(999));
        bitmaps.removed(&reply(1500));
        assert_eq!(bitmaps.find(&reply(0), 1000, 1999, 700, |_| unreachable!()), Some(500));
        (1000..2000).for_each(|port| bitmaps.removed(&reply(port)));
        (1000..2000).for_each(|port| bitmaps.removed(&reply(port)));
        assert!(bitmaps.has(&reply(5), 1000, 1999), "half of them are taken");
        (2000..2001).for_each(|port| bitmaps.removed(&reply(port)));
        assert!(bitmaps.is_empty());
    }
}
