//! Check of IPv4 headers, and the notes on valid ones.

use std::net::Ipv4Addr;

use linerate_graph::{Arguments, DropReason, Ipv4OrPrefix, NoBuffer};
use linerate_memory::{
    Annotations, Column, HeaderBatch, HeaderKernel, HeaderLocation, LANES, PacketMut,
};
use linerate_packet::checksum;

use linerate_element_support::ip::{
    DESTINATION, LEAST, SOURCE, TOTAL_LENGTH, WORDS, get_four, get16,
};

/// Drop reason: a fault of the header, or one more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, DropReason)]
pub(super) enum Reason {
    /// tiny packet
    Tiny,
    /// bad IP version
    Version,
    /// bad IP header length
    HeaderLength,
    /// bad IP length
    Length,
    /// bad IP checksum
    Checksum,
    /// bad source address
    Source,
    #[from(NoBuffer)]
    NoBuffer,
}

/// Number of faults of a header.
pub(super) const FAULTS: usize = Reason::NoBuffer as usize;

/// Sources that no packet may have (RFC 1812, section 5.3.7).
pub(super) const INVALID_SOURCES: [Ipv4Addr; 2] = [Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST];

/// Source addresses to refuse, and exceptions.
#[derive(Debug, Arguments)]
pub(super) struct Sources {
    /// addresses and prefixes of the router
    #[arg(keyword, kind = "address/bits list", shown = "")]
    interfaces: Option<Vec<Ipv4OrPrefix>>,
    /// source addresses to refuse
    #[arg(name = "BADSRC", keyword, kind = "IP addresses", shown = "")]
    bad: Option<Vec<Ipv4Addr>>,
    /// destinations for which any source will do
    #[arg(name = "GOODDST", keyword, kind = "IP addresses", shown = "")]
    good: Option<Vec<Ipv4Addr>>,
    /// Addresses in an older form of the arguments.
    pub(super) old: Vec<Ipv4Addr>,
}

impl Sources {
    /// The rules of a class that does or does not look at checksums.
    pub(super) fn rules(&mut self, checksum: bool) -> Rules {
        let (interfaces, old) = (self.interfaces.take(), std::mem::take(&mut self.old));
        // The later of two for the same setting counts.
        let (bad, good) = match interfaces {
            // Their broadcast addresses are bad sources, their own addresses good destinations.
            Some(interfaces) => {
                let broadcast = |prefix: &Ipv4OrPrefix| prefix.0.address | !prefix.0.mask;
                let bad = interfaces.iter().map(broadcast).chain(INVALID_SOURCES);
                (bad.collect(), interfaces.iter().map(|prefix| prefix.0.address).collect())
            }
            None => (old, Vec::new()),
        };
        let (bad, good) = (self.bad.take().unwrap_or(bad), self.good.take().unwrap_or(good));
        let bad_sources = bad.iter().map(|address| u32::from_le_bytes(address.octets())).collect();
        let good_destinations = good.iter().map(Ipv4Addr::octets).collect();
        Rules { checksum, bad_sources, good_destinations }
    }
}

/// Rules for a header.
#[derive(Debug, Default)]
pub(super) struct Rules {
    pub(super) checksum: bool,
    /// The first byte of each lowest. Those of eight packets are compared with one after the
    /// other, three instructions for each.
    bad_sources: Vec<u32>,
    good_destinations: Vec<[u8; 4]>,
}

/// Returns true if the checksum of a header without options is right. The sum is taken in words of
/// 64 bits, which comes to the same (RFC 1071, section 2): halves are then added up, with their
/// carries, in the upper half of a word.
#[inline(always)]
fn is_summed(head: &[u8; LEAST]) -> bool {
    let word = |at: usize| head[at..].first_chunk().map_or(0, |eight| u64::from_ne_bytes(*eight));
    let last = u32::from_ne_bytes(get_four(head, DESTINATION));
    let (sum, carry) = word(0).overflowing_add(word(8));
    let (sum, more) = sum.overflowing_add(u64::from(last) + u64::from(carry));
    let sum = sum.wrapping_add(u64::from(more));
    let sum = (sum.wrapping_add(sum.rotate_left(32)) >> 32) as u32;
    sum.wrapping_add(sum.rotate_left(16)) >> 16 == 0xffff
}

/// `CheckIPHeader` as a step.
#[derive(Debug)]
pub(super) struct Check<'a, F, const SUMMED: bool> {
    pub(super) rules: &'a Rules,
    /// Offset of the header from the start of the packet.
    pub(super) offset: usize,
    /// Function for refused packets.
    pub(super) refuse: F,
}

impl<E, F: FnMut(Reason) -> E, const SUMMED: bool> HeaderKernel<WORDS> for Check<'_, F, SUMMED> {
    type Exit = E;
    /// Lengths of the packets.
    type LookResult = Column;

    #[inline(always)]
    fn at(&self) -> HeaderLocation {
        HeaderLocation::Start(self.offset)
    }

    #[inline(always)]
    fn look(&self, heads: &mut HeaderBatch<WORDS>) -> (Column, Column) {
        self.rules.look::<SUMMED>(heads)
    }

    #[inline(always)]
    fn notes(&self, heads: &HeaderBatch<WORDS>, lengths: &Column) -> Option<Annotations> {
        Some(notes(heads, lengths))
    }

    #[inline(always)]
    fn judge(&mut self, packet: &mut PacketMut<'_>) -> Result<(), E> {
        self.rules.check::<SUMMED>(packet, self.offset).map_err(&mut self.refuse)
    }
}

/// Returns the notes that [`Rules::check`] makes on packets with plain valid headers.
#[inline(always)]
pub(super) fn notes(heads: &HeaderBatch<WORDS>, lengths: &Column) -> Annotations {
    let destinations = Some(heads.words[DESTINATION / 4]);
    Annotations { lengths: *lengths, header: LEAST, destinations }
}

impl Rules {
    /// Checks the header at `offset`, cuts off bytes behind the IP packet, and notes the header's
    /// place and the destination. `SUMMED` is [`Rules::checksum`], so that it is no branch per
    /// packet.
    #[inline(always)]
    pub(super) fn check<const SUMMED: bool>(
        &self,
        packet: &mut PacketMut<'_>,
        offset: usize,
    ) -> Result<(), Reason> {
        let bytes = packet.bytes();
        let rest = bytes.get(offset..).ok_or(Reason::Tiny)?;
        let head: &[u8; LEAST] = rest.first_chunk().ok_or(Reason::Tiny)?;
        let source = get_four(head, SOURCE);
        let length = usize::from(get16(head, TOTAL_LENGTH));
        let mut header = LEAST;
        // Nearly all are like this; the others are looked at once more.
        let is_plain = head[0] == 0x45
            && length >= LEAST
            && length <= rest.len()
            && (!SUMMED || is_summed(head))
            && !self.is_listed(source);
        if !is_plain {
            header = self.examine(rest)?;
        }
        let destination = get_four(head, DESTINATION);
        packet.truncate(offset + length);
        packet.mark_headers(offset, offset + header);
        packet.meta_mut().destination[..4].copy_from_slice(&destination);
        Ok(())
    }

    /// Looks at eight headers as [`Rules::check`] looks at one: zero for those that are plain
    /// and sound, and the lengths of their packets.
    #[inline(always)]
    pub(super) fn look<const SUMMED: bool>(&self, heads: &HeaderBatch<WORDS>) -> (Column, Column) {
        let [first, ident, ttl, source, destination] = &heads.words;
        let (mut unusual, mut lengths) = ([0; LANES], [0; LANES]);
        for lane in 0..LANES {
            let first = first[lane];
            let length = (first >> 8) & 0xff00 | first >> 24;
            // The sign bit is set if one is less than the other.
            let short = length.wrapping_sub(LEAST as u32) | heads.room[lane].wrapping_sub(length);
            // A sum of halves that is a multiple of 0xffff, of which there are ten at most, has
            // just that where its own halves are added up.
            let words = [first, ident[lane], ttl[lane], source[lane], destination[lane]];
            let sum: u32 = words.iter().map(|word| (word & 0xffff) + (word >> 16)).sum();
            let folded = (sum & 0xffff) + (sum >> 16);
            let unsummed = if SUMMED { folded ^ 0xffff } else { 0 };
            unusual[lane] = (first & 0xff ^ 0x45) | short & 0x8000_0000 | unsummed;
            lengths[lane] = length;
        }
        for bad in &self.bad_sources {
            for lane in 0..LANES {
                unusual[lane] |= u32::from(source[lane] == *bad);
            }
        }
        (unusual, lengths)
    }

    /// Likewise for any header, step by step; returns its length.
    #[cold]
    #[inline(never)]
    fn examine(&self, rest: &[u8]) -> Result<usize, Reason> {
        let header = usize::from(rest[0] & 15) * 4;
        if rest[0] >> 4 != 4 {
            return Err(Reason::Version);
        } else if header < LEAST {
            return Err(Reason::HeaderLength);
        }
        let length = usize::from(get16(rest, TOTAL_LENGTH));
        if length > rest.len() || length < header {
            return Err(Reason::Length);
        }
        if self.checksum && !checksum::verify(&rest[..header]) {
            return Err(Reason::Checksum);
        }
        if self.is_bad(get_four(rest, SOURCE), get_four(rest, DESTINATION)) {
            return Err(Reason::Source);
        }
        Ok(header)
    }

    fn is_bad(&self, source: [u8; 4], destination: [u8; 4]) -> bool {
        self.is_listed(source) && !self.good_destinations.contains(&destination)
    }

    /// Returns true if a source is among the bad ones. Without an early end, which would be a
    /// branch for each of them.
    #[inline]
    fn is_listed(&self, source: [u8; 4]) -> bool {
        let source = u32::from_le_bytes(source);
        self.bad_sources.iter().fold(false, |any, bad| any | (*bad == source))
    }
}

#[cfg(test)]
mod tests {
    use linerate_element_support::ip::{CHECKSUM, FRAGMENT, TTL, fill_checksum, put16};
    use linerate_memory::{ArenaOptions, Frame, HeaderCache};
    use proptest::{collection::vec, prelude::*};

    use super::*;

    /// Makes a packet: as a rule a header with a right checksum, of which a byte may then be
    /// changed.
    fn packet() -> impl Strategy<Value = Vec<u8>> {
        let change = prop_oneof![
            6 => Just((0, 0)),
            4 => (0..LEAST, 1..=255u8),
            1 => (Just(0), Just(3)),
            1 => (Just(TOTAL_LENGTH + 1), 1..=255u8),
        ];
        let fields = (any::<u16>(), any::<u16>(), any::<u8>(), 0..6u8, any::<u32>(), 0..40usize);
        (fields, change, any::<bool>()).prop_map(|(fields, (at, other), summed)| {
            let (ident, fragment, ttl, source, destination, more) = fields;
            let mut bytes = vec![0; LEAST + more];
            bytes[0] = 0x45;
            put16(&mut bytes, TOTAL_LENGTH, (LEAST + more / 2) as u16);
            put16(&mut bytes, TOTAL_LENGTH + 2, ident);
            put16(&mut bytes, FRAGMENT, fragment);
            bytes[TTL] = ttl;
            // Some sources are bad, and some have the hash of one that is.
            let source = match source {
                0 => [0; 4],
                1 => [255; 4],
                2 => [10, 0, 0, 255],
                more => [10, more, more, more],
            };
            bytes[SOURCE..DESTINATION].copy_from_slice(&source);
            bytes[DESTINATION..LEAST].copy_from_slice(&destination.to_be_bytes());
            if !summed {
                fill_checksum(&mut bytes);
            }
            bytes[at] ^= other;
            if summed {
                fill_checksum(&mut bytes);
            }
            bytes
        })
    }

    proptest! {
        /// Eight headers at once are found sound or not as each by itself is.
        #[test]
        fn eight_are_checked_as_one_is(
            packets in vec(packet(), 1..60), offset in 0..3usize, all_sound: bool, summed: bool,
        ) {
            let mut sources = Sources {
                interfaces: None,
                bad: Some(vec![[0; 4].into(), [255; 4].into(), [10, 0, 0, 255].into()]),
                good: Some(vec![[10, 0, 0, 1].into()]),
                old: Vec::new(),
            };
            let rules = sources.rules(summed);
            let arena = ArenaOptions { size: 1 << 19, ..Default::default() }.create().unwrap();
            let mut pool = arena.cache(64);
            let mut frames = [(); 2].map(|()| {
                let mut frame = Frame::new(64);
                for bytes in &packets {
                    let mut slot = pool.take_one(offset + bytes.len()).unwrap();
                    let to = &mut arena.packet_mut(&mut slot).unwrap()[offset..];
                    to.copy_from_slice(bytes);
                    if all_sound {
                        to[0] = 0x45;
                        put16(to, TOTAL_LENGTH, bytes.len() as u16);
                        to[SOURCE..DESTINATION].copy_from_slice(&[10, 9, 8, 7]);
                        fill_checksum(to);
                    }
                    arena.meta_mut(&mut slot).unwrap().reset();
                    frame.push(slot).unwrap();
                }
                frame
            });
            let mut refused = [Vec::new(), Vec::new()];
            let mut gone = Vec::new();
            let [together, each] = &mut frames;
            let mut header_cache = HeaderCache::new(64);
            let mut out = |at: usize, slot, why: Reason| {
                gone.push(slot);
                (at, why)
            };
            if summed {
                let mut check = Check::<_, true> { rules: &rules, offset, refuse: |why| why };
                arena.process_headers(together, &mut header_cache, &mut check, |at, slot, why| {
                    refused[0].push(out(at, slot, why));
                });
            } else {
                let mut check = Check::<_, false> { rules: &rules, offset, refuse: |why| why };
                arena.process_headers(together, &mut header_cache, &mut check, |at, slot, why| {
                    refused[0].push(out(at, slot, why));
                });
            }
            arena.retain_packets(
                each,
                |packet| {
                    if summed {
                        rules.check::<true>(packet, offset)
                    } else {
                        rules.check::<false>(packet, offset)
                    }
                },
                |at, slot, why| refused[1].push(out(at, slot, why)),
            );
            prop_assert_eq!(&refused[0], &refused[1]);
            prop_assert!(!all_sound || refused[0].is_empty());
            let [together, each] = &frames;
            prop_assert_eq!(together.len(), each.len());
            for (one, two) in together.slots().iter().zip(each.slots()) {
                prop_assert_eq!(arena.packet(one), arena.packet(two));
                prop_assert_eq!(arena.meta(one), arena.meta(two));
            }
            gone.into_iter().for_each(|slot| pool.give_one(slot));
            frames.iter_mut().for_each(|frame| pool.give(frame));
        }
    }

    /// Against etherparse's sum, for sums of all sizes.
    #[test]
    fn sums_are_taken_as_others_take_them() {
        let mut state = 1u64;
        for round in 0..200_000u32 {
            let mut head = [0u8; LEAST];
            for byte in &mut head {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                // Many are all zeros or all ones.
                *byte = match round % 3 {
                    0 => (state >> 56) as u8,
                    1 => {
                        if state >> 61 == 0 {
                            (state >> 40) as u8
                        } else {
                            0xff
                        }
                    }
                    _ => {
                        if state >> 61 == 0 {
                            (state >> 40) as u8
                        } else {
                            0
                        }
                    }
                };
            }
            head[0] = 0x45;
            assert_eq!(is_summed(&head), checksum::verify(&head), "{head:?}");
            fill_checksum(&mut head);
            assert!(is_summed(&head) && checksum::verify(&head), "{head:?}");
            let sum = etherparse::checksum::Sum16BitWords::new().add_slice(&head);
            assert_eq!(sum.ones_complement(), 0);
            head[CHECKSUM] ^= 1 << (round % 8);
            assert!(!is_summed(&head));
        }
    }
}
