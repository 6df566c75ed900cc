//! `ICMPPingResponder`: answers pings.

use linerate_graph::{
    Arguments, Class, Context, DropReason, Exit, NoBuffer, Step, Verdict, Writes,
};
use linerate_memory::{Frame, PacketMut};
use linerate_packet::{IpProtocol, checksum::update16};

use super::FAMILY;
use linerate_element_support::{
    ip::{
        CHECKSUM, DESTINATION, FRAGMENT, NoHeader, SOURCE, TTL, get_four, get16, header_length,
        known, protocol, put16,
    },
    ping::{HOPS, annotate_reply, make_reply},
};

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    #[from(NoBuffer)]
    NoBuffer,
    #[from(NoHeader)]
    NoHeader,
    /// not an ICMP echo request
    NotEchoRequest,
}

pub(super) const CLASS: Class = Class {
    name: "ICMPPingResponder",
    family: FAMILY,
    summary: "answers ICMP echo requests",
    description: "Each becomes its answer, to the address it came from, which is the destination \
        annotation; the paint is taken off. The IP header must be known and sound \
        (`CheckIPHeader`). Other packets leave by output 1, or are dropped where there is none.",
    ports: "1/1-2",
    processing: "a/ah",
    annotates: true,
    cost: "One pass over the packets' headers; checksums are updated, not computed.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> ICMPPingEncap(1.0.0.1, 2.0.0.1) \
        -> ICMPPingResponder -> Discard;",
    ..IcmpPingResponder::CLASS
};

/// Type and code of a reply.
const REPLY: u16 = 0;

#[derive(Arguments)]
struct IcmpPingResponder {
    /// When the frame came.
    now: u64,
}

/// Makes a request its answer; `false`, changing nothing, when it is none.
fn answer(ip: &mut [u8]) -> bool {
    let start = header_length(ip);
    if protocol(ip) != IpProtocol::ICMP || ip.len() < start + 8 || ip[start] != 8 {
        return false;
    }
    let (source, destination) = (get_four(ip, SOURCE), get_four(ip, DESTINATION));
    ip[SOURCE..SOURCE + 4].copy_from_slice(&destination);
    ip[DESTINATION..DESTINATION + 4].copy_from_slice(&source);
    let (fragment, life) = (get16(ip, FRAGMENT), get16(ip, TTL));
    put16(ip, FRAGMENT, 0);
    ip[TTL] = HOPS;
    let sum = update16(update16(get16(ip, CHECKSUM), fragment, 0), life, get16(ip, TTL));
    put16(ip, CHECKSUM, sum);
    make_reply(&mut ip[start..], REPLY);
    true
}

impl Step<Writes, Reason> for IcmpPingResponder {
    #[inline]
    fn begin(&mut self, cx: &mut Context, _: &mut Frame) -> bool {
        self.now = cx.now();
        true
    }

    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict<Reason> {
        let (ip, meta) = known(packet)?;
        if !answer(ip) {
            return Err(Exit::ErrorOutput(Reason::NotEchoRequest));
        }
        annotate_reply(meta, &get_four(ip, DESTINATION), self.now);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use etherparse::{Icmpv4Slice, Ipv4Header, PacketBuilder};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against etherparse.
        #[test]
        fn answers_are_right(
            addresses in any::<[[u8; 4]; 2]>(),
            ids: (u16, u16),
            payload in prop::collection::vec(any::<u8>(), 0..100),
            ttl: u8,
        ) {
            let [from, to] = addresses;
            let build = |from, to, ttl| PacketBuilder::ipv4(from, to, ttl);
            let (mut bytes, mut expected) = (Vec::new(), Vec::new());
            let request = build(from, to, ttl).icmpv4_echo_request(ids.0, ids.1);
            request.write(&mut bytes, &payload).unwrap();
            let reply = build(to, from, HOPS).icmpv4_echo_reply(ids.0, ids.1);
            reply.write(&mut expected, &payload).unwrap();
            prop_assert!(answer(&mut bytes));
            let (mine, rest) = Ipv4Header::from_slice(&bytes).unwrap();
            prop_assert_eq!(mine.header_checksum, mine.calc_header_checksum());
            let (mut theirs, _) = Ipv4Header::from_slice(&expected).unwrap();
            // Their builder forbids fragments.
            theirs.dont_fragment = false;
            theirs.header_checksum = theirs.calc_header_checksum();
            prop_assert_eq!(mine, theirs);
            let message = Icmpv4Slice::from_slice(rest).unwrap();
            prop_assert_eq!(message.slice(), &expected[20..]);
            prop_assert!(!answer(&mut bytes), "an answer is no request");
        }
    }
}
