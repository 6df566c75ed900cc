//! `CheckIP6Header`: only packets with a sound IPv6 header.

use std::net::Ipv6Addr;

use linerate_graph::{Arguments, Class, Context, Exit, Make, Step, Way};
use linerate_memory::{Frame, PacketMut};

use super::{
    FAMILY,
    header::{LEAST, LENGTH, REFUSED, SOURCE, address, get16, mark},
};
use linerate_kit::said::Said;

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
    drops: &["no buffer", "no IPv6 header", "IPv6 header not sound"],
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
    #[init(Said::of(make))]
    said: Said,
}

fn bad(make: &mut Make<'_>, name: &str) -> Vec<[u8; 16]> {
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

fn offset(make: &mut Make<'_>, name: &str) -> usize {
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

impl Step for CheckIp6Header {
    #[inline]
    fn begin(&mut self, cx: &mut Context, frame: &mut Frame) -> bool {
        cx.arena().prefetch_packets(frame);
        true
    }

    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Way {
        let bytes = packet.bytes().get(self.offset..).unwrap_or_default();
        let Some(length) = check(bytes, &self.bad) else {
            self.drops += 1;
            return Err(Exit::Refuse(REFUSED));
        };
        packet.truncate(self.offset + length);
        mark(packet, self.offset);
        Ok(())
    }

    fn end(&mut self, cx: &mut Context) {
        if self.said.first() {
            cx.console().report("IP6 header check failed\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
