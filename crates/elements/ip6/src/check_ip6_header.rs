//! `CheckIP6Header`: only packets with a sound IPv6 header.

use std::net::Ipv6Addr;

use linerate_graph::{Arg, Class, Context, Element, Handler, HandlerError, Make};
use linerate_memory::Frame;

use super::{
    FAMILY,
    header::{LEAST, LENGTH, Refused, SOURCE, Verdict, address, get16, mark},
};

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
    args: &[
        Arg::optional("BADADDRS", "IPv6 addresses", "", "source addresses to refuse"),
        Arg::optional("OFFSET", "bytes", "0", "where the IPv6 header is"),
    ],
    handlers: &[Handler::count("drops", "packets that were not sound")],
    annotates: true,
    drops: &["no buffer", "no IPv6 header", "IPv6 header not sound"],
    cost: "One pass: the first line of the packet and a line of annotations.",
    example: "InfiniteSource(DATA \\<60000000 0000 3b40 20010db8000000000000000000000001 \
        20010db8000000000000000000000002>, LIMIT 10, STOP true) -> CheckIP6Header -> Discard;",
    make: |make| Box::new(CheckIp6Header::new(make)),
    ..Class::EMPTY
};

struct CheckIp6Header {
    bad: Vec<[u8; 16]>,
    offset: usize,
    drops: u64,
    refused: Refused,
}

impl CheckIp6Header {
    fn new(make: &mut Make<'_>) -> CheckIp6Header {
        let mut bad = vec![[255; 16]];
        let text = make.get::<String>("BADADDRS");
        let offset = make.or::<i32>("OFFSET", 0);
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
        // No packet has a header in front of its start.
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        CheckIp6Header { bad, offset, drops: 0, refused: Refused::new(make) }
    }
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

impl Element for CheckIp6Header {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let CheckIp6Header { bad, offset, drops, refused } = self;
        cx.pool.arena().prefetch_packets(frame);
        let gone = refused.sift(cx, frame, |packet| {
            let bytes = packet.bytes().get(*offset..).unwrap_or_default();
            let Some(length) = check(bytes, bad) else { return Verdict::Refuse };
            packet.truncate(*offset + length);
            mark(packet.parts().1, *offset);
            Verdict::Keep
        });
        if gone > 0 {
            if *drops == 0 {
                cx.console().report("IP6 header check failed\n");
            }
            *drops += gone;
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> Result<String, HandlerError> {
        match handler {
            "drops" => Ok(self.drops.to_string()),
            _ => Err(HandlerError::missing(handler)),
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
