//! `DecIPTTL`: decrements the time to live.
//!
//! RFC 1812 section 5.3.1; the checksum is updated as in RFC 1624.

use linerate_graph::{
    Arguments, Class, Context, DropReason, Exit, NoBuffer, Step, Verdict, Writes,
};
use linerate_memory::{
    Column, Frame, HeaderBatch, HeaderKernel, HeaderLane, HeaderLocation, LANES, PacketMut,
};

use super::FAMILY;
use linerate_element_support::ip::{
    DESTINATION, LEAST, NoHeader, TTL, WORDS, get_four, head, is_multicast,
};

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    #[from(NoBuffer)]
    NoBuffer,
    #[from(NoHeader)]
    NoHeader,
    /// time to live expired
    Expired,
}

pub(super) const CLASS: Class = Class {
    name: "DecIPTTL",
    family: FAMILY,
    summary: "takes one from the time to live",
    description: "Packets that may go no further, those with 1 or 0, leave unchanged by output 1, \
        or are dropped where there is none. The IP header must be known (`CheckIPHeader`).",
    ports: "1/1-2",
    processing: "a/ah",
    annotates: true,
    cost: "One pass over the packets' headers: the checksum is updated by one \
        addition.",
    example: "FromIPSummaryDump(STOP true, FIELDS ip_src, DATA \"1.0.0.1\") -> CheckIPHeader \
        -> DecIPTTL -> Discard;",
    ..DecIpTtl::CLASS
};

#[derive(Arguments)]
struct DecIpTtl {
    /// packets that could go no further
    #[handler(count, name = "drops")]
    expired: u64,
    /// whether anything is done
    #[arg(keyword, default = true)]
    #[handler(value, flags = "c")]
    active: bool,
    /// whether it is done to packets for groups
    #[arg(keyword, default = true)]
    multicast: bool,
}

/// Decrements the time to live. `false`, changing nothing, when there is none left.
#[inline(always)]
pub(super) fn decrement(head: &mut [u8; LEAST]) -> bool {
    if head[TTL] <= 1 {
        return false;
    }
    // Time to live, protocol and checksum are one word: a single load and store.
    let [_, _, word, ..] = head.as_chunks_mut::<4>().0 else { return false };
    *word = one_less(u32::from_le_bytes(*word)).to_le_bytes();
    true
}

/// A word with time to live, protocol and checksum, with one hop less.
#[inline(always)]
fn one_less(word: u32) -> u32 {
    // The sum is less by one, so the checksum, its complement, more. Beyond
    // 0xffff is 1, and where the sum becomes 0xffff the checksum is 0.
    let more = if word >= 0xfffe_0000 { 2 << 16 } else { 1 << 16 };
    word.wrapping_add(more).wrapping_sub(1)
}

impl Step<Writes, Reason> for DecIpTtl {
    #[inline]
    fn pass(&mut self, cx: &mut Context, frame: &mut Frame) {
        if self.active {
            cx.process_headers(frame, self);
        }
    }

    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict<Reason> {
        let head = head(packet)?;
        if !self.multicast && is_multicast(get_four(head, DESTINATION)) || decrement(head) {
            return Ok(());
        }
        self.expired += 1;
        Err(Exit::ErrorOutput(Reason::Expired))
    }
}

impl HeaderKernel<WORDS> for DecIpTtl {
    type Exit = Exit<Reason>;
    type LookResult = ();

    #[inline(always)]
    fn at(&self) -> HeaderLocation {
        HeaderLocation::Network
    }

    #[inline(always)]
    fn look(&self, heads: &mut HeaderBatch<WORDS>) -> (Column, ()) {
        let [_, _, words, _, destinations] = &mut heads.words;
        let mut unusual = [0; LANES];
        for ((unusual, word), destination) in unusual.iter_mut().zip(words).zip(destinations) {
            let is_group = *destination & 0xf0 == 0xe0;
            *unusual = u32::from(*word & 0xfe == 0) | u32::from(is_group & !self.multicast);
            *word = one_less(*word);
        }
        (unusual, ())
    }

    #[inline(always)]
    fn finish(
        &mut self,
        heads: &HeaderBatch<WORDS>,
        (): &(),
        lane: usize,
        head: &mut HeaderLane<'_, WORDS>,
    ) {
        head.words()[TTL / 4] = heads.words[TTL / 4][lane].to_le_bytes();
    }

    #[inline(always)]
    fn judge(&mut self, packet: &mut PacketMut<'_>) -> Verdict<Reason> {
        self.step(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    use super::*;

    /// In frames in which some may go no further, some have options and some no header.
    #[test]
    fn packets_together_are_as_one_by_one() {
        let packet = |at: usize| {
            let ttl = [64, 1, 2, 255, 0, 64, 33, 9][at * 5 % 23 % 8];
            let mut header = etherparse::Ipv4Header {
                time_to_live: ttl,
                identification: (at * 40_503) as u16,
                source: [10, 0, 0, 1],
                destination: [if at.is_multiple_of(5) { 224 } else { 10 }, 9, 8, 7],
                ..Default::default()
            };
            header.set_payload_len(4).unwrap();
            header.header_checksum = header.calc_header_checksum();
            header.to_bytes().iter().map(|byte| format!("{byte:02x}")).collect::<String>()
                + "01020304"
        };
        for (kinds, arguments) in [(61, ""), (16, ""), (61, "MULTICAST false"), (9, "ACTIVE false")]
        {
            let packets: Vec<String> = (0..kinds).map(packet).collect();
            let came = [1, 7, 8, 256].map(|limit| {
                let mut run = Run::new(&format!(
                    "Packets({}) -> CheckIPHeader -> d :: DecIPTTL({arguments}) -> c :: Collect;
                     d [1] -> e :: Collect",
                    packets.join(" ")
                ))
                .frame_limit(limit);
                run.run();
                ["c.packets", "e.packets", "d.drops"].map(|handler| run.read(handler).to_owned())
            });
            assert!(came.iter().all(|one| *one == came[0]), "{arguments}");
            assert_eq!(came[0][1].is_empty(), arguments == "ACTIVE false");
        }
    }

    /// Against etherparse, for every time to live and many other fields.
    #[test]
    fn the_checksum_stays_right() {
        for ttl in 0..=255u8 {
            for ident in (0..=u16::MAX).step_by(251) {
                let header = |ttl| {
                    let mut header = etherparse::Ipv4Header {
                        time_to_live: ttl,
                        identification: ident,
                        source: [10, 0, 0, 1],
                        destination: [10, 9, 8, ttl],
                        ..Default::default()
                    };
                    header.header_checksum = header.calc_header_checksum();
                    header
                };
                let mut before = header(ttl);
                let mut head: [u8; LEAST] = before.to_bytes().as_slice().try_into().unwrap();
                let went = decrement(&mut head);
                assert_eq!(went, ttl > 1);
                if went {
                    before.time_to_live -= 1;
                    before.header_checksum = before.calc_header_checksum();
                }
                assert_eq!(head, before.to_bytes().as_slice(), "{ttl} {ident}");
            }
        }
    }
}
