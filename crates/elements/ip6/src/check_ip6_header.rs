//! `CheckIP6Header`: passes only packets with a valid IPv6 header.

use std::net::Ipv6Addr;

use linerate_graph::{
    Arguments, Class, Context, DropReason, ElementBuilder, Exit, NoBuffer, Step, Verdict, Writes,
};
use linerate_memory::{
    Annotations, Column, Frame, HeaderBatch, HeaderKernel, HeaderLocation, LANES, PacketMut,
};

use super::{
    FAMILY,
    header::{LEAST, LENGTH, NoHeader, SOURCE, address, get16, mark},
};
use linerate_element_support::log_once::LogOnce;

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    #[from(NoBuffer)]
    NoBuffer,
    #[from(NoHeader)]
    NoHeader,
    /// IPv6 header not sound
    BadHeader,
}

pub(super) const CLASS: Class = Class {
    name: "CheckIP6Header",
    family: FAMILY,
    summary: "passes packets with a sound IPv6 header and says where it is",
    description: "Checks the version, that there are as many bytes as the header says, and that \
        the source is none of `BADADDRS`, to which the address of only ones always belongs. What \
        follows the IPv6 packet, such as link padding, is cut off. The header's place becomes \
        known to the elements behind; the destination annotation is set by `GetIP6Address`. Other \
        packets leave by output 1, or are dropped when there is none; the first is reported.",
    ports: "1/1-2",
    processing: "a/ah",
    annotates: true,
    cost: "One pass: the first line of the packet and a line of annotations.",
    example: "InfiniteSource(DATA \\<60000000 0000 3b40 20010db8000000000000000000000001 \
        20010db8000000000000000000000002>, LIMIT 10, STOP true) -> CheckIP6Header -> Discard;",
    ..CheckIp6Header::CLASS
};

#[derive(Arguments)]
struct CheckIp6Header {
    /// source addresses to refuse
    #[arg(optional, name = "BADADDRS", kind = "IPv6 addresses", shown = "", with = bad)]
    bad: Vec<[u8; 16]>,
    /// where the IPv6 header is
    #[arg(optional, kind = "bytes", shown = "0", with = offset)]
    offset: usize,
    /// packets that were not sound
    #[handler(count)]
    drops: u64,
    #[init(LogOnce::for_element(make))]
    said: LogOnce,
}

/// Words of the header that are looked at together, up to the end of the source.
const WORDS: usize = (SOURCE + 16) / 4;

fn bad(make: &mut ElementBuilder<'_>, name: &str) -> Vec<[u8; 16]> {
    let mut bad = vec![[255; 16]];
    let text = make.get::<String>(name);
    for word in text.unwrap_or_default().split_ascii_whitespace() {
        match make.parse::<Ipv6Addr>(word) {
            Ok(address) => bad.push(address.octets()),
            Err(_) => {
                make.error("expects IP6ADDRESS -a ");
                break;
            }
        }
    }
    bad.dedup();
    bad
}

fn offset(make: &mut ElementBuilder<'_>, name: &str) -> usize {
    // No packet has a header in front of its start.
    usize::try_from(make.or::<i32>(name, 0)).unwrap_or(usize::MAX)
}

/// Bytes of the packet that starts with this header, when it is sound.
#[inline(always)]
fn check(bytes: &[u8], bad: &[[u8; 16]]) -> Option<usize> {
    let head = bytes.first_chunk::<LEAST>()?;
    let length = LEAST + usize::from(get16(head, LENGTH));
    let source = address(head, SOURCE);
    let sound = head[0] >> 4 == 6 && length <= bytes.len() && !bad.contains(&source);
    sound.then_some(length)
}

impl Step<Writes, Reason> for CheckIp6Header {
    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict<Reason> {
        let bytes = packet.bytes().get(self.offset..).unwrap_or_default();
        let Some(length) = check(bytes, &self.bad) else {
            self.drops += 1;
            return Err(Exit::ErrorOutput(Reason::BadHeader));
        };
        packet.truncate(self.offset + length);
        mark(packet, self.offset);
        Ok(())
    }

    #[inline]
    fn pass(&mut self, cx: &mut Context, frame: &mut Frame) {
        if cx.process_headers(frame, self) && self.said.first() {
            cx.console().report("IP6 header check failed\n");
        }
    }
}

impl HeaderKernel<WORDS> for CheckIp6Header {
    type Exit = Exit<Reason>;
    /// Lengths of the IPv6 packets.
    type LookResult = Column;

    /// Words kept: length and hop limit; of the source only the end is looked at.
    const KEPT: usize = 2;

    #[inline(always)]
    fn at(&self) -> HeaderLocation {
        HeaderLocation::Start(self.offset)
    }

    /// Checks headers as [`check`] does one.
    #[inline(always)]
    fn look(&self, heads: &mut HeaderBatch<WORDS>) -> (Column, Column) {
        let [first, second, .., source_end] = &heads.words;
        let (mut unusual, mut lengths) = ([0; LANES], [0; LANES]);
        for lane in 0..LANES {
            let length = LEAST as u32 + (second[lane] << 8 & 0xff00 | second[lane] >> 8 & 0xff);
            // The sign bit is set if the packet is shorter.
            let short = heads.room[lane].wrapping_sub(length) & 0x8000_0000;
            unusual[lane] = (first[lane] & 0xf0 ^ 0x60) | short;
            lengths[lane] = length;
        }
        // A packet with the end of a bad address is checked alone.
        for bad in &self.bad {
            let bad = bad.last_chunk().map_or(0, |end| u32::from_le_bytes(*end));
            for lane in 0..LANES {
                unusual[lane] |= u32::from(bad == source_end[lane]);
            }
        }
        (unusual, lengths)
    }

    #[inline(always)]
    fn notes(&self, _: &HeaderBatch<WORDS>, lengths: &Column) -> Option<Annotations> {
        Some(Annotations { lengths: *lengths, header: LEAST, destinations: None })
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

    /// In frames of which some are sound and some are not.
    #[test]
    fn headers_together_are_as_one_by_one() {
        let packet = |at: usize, wrong: bool| {
            let mut packet = [7u8; 52];
            packet[0] = 0x60;
            put(&mut packet, 10);
            match at % 9 {
                3 if wrong => packet[0] = 0x46,
                5 if wrong => put(&mut packet, 13),
                6 if wrong => packet[SOURCE..SOURCE + 16].fill(255),
                7 if wrong => packet[SOURCE..SOURCE + 16].copy_from_slice(&[0x20; 16]),
                2 => packet[SOURCE + 1..SOURCE + 16].fill(255),
                8 => packet[SOURCE..SOURCE + 15].fill(255),
                1 => put(&mut packet, at as u8 % 13),
                _ => {}
            }
            let bytes = &packet[..if wrong && at % 9 == 4 { 39 } else { 52 }];
            "aabb".to_owned() + &bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
        };
        for (count, wrong) in [(61, true), (40, false), (7, true)] {
            let packets: Vec<String> = (0..count).map(|at| packet(at, wrong)).collect();
            let bad = "2020:2020:2020:2020:2020:2020:2020:2020";
            let came = [1, 7, 8, 256].map(|limit| {
                let mut run = Run::new(&format!(
                    "Packets({}) -> k :: CheckIP6Header({bad}, 2) -> c :: Collect; k [1] -> e :: Collect",
                    packets.join(" ")
                ))
                .frame_limit(limit);
                run.run();
                ["c.packets", "e.packets", "k.drops"].map(|handler| run.read(handler).to_owned())
            });
            assert!(came.iter().all(|one| *one == came[0]), "{count} {wrong}");
            assert_eq!(came[0][1].is_empty(), !wrong);
        }
    }

    #[test]
    fn lengths_versions_and_sources() {
        let mut packet = [1; 60];
        packet[0] = 0x6f;
        put(&mut packet, 20);
        assert_eq!(check(&packet, &[[255; 16]]), Some(60));
        assert_eq!(check(&packet, &[[1; 16]]), None);
        assert_eq!(check(&packet[..59], &[]), None);
        assert_eq!(check(&packet[..39], &[]), None);
        put(&mut packet, 0);
        assert_eq!(check(&packet, &[]), Some(40));
        packet[0] = 0x50;
        assert_eq!(check(&packet, &[]), None);
    }

    fn put(packet: &mut [u8], length: u8) {
        [packet[4], packet[5]] = [0, length];
    }
}
