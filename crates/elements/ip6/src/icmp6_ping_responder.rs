//! `ICMP6PingResponder`: answers pings over IPv6 (RFC 4443 section 4).
//!
//! Click has none; `ICMPPingResponder` is the model. Requests behind extension headers, fragments
//! among them, are left to others.

use linerate_element_support::ping::{HOPS as HOP_LIMIT, annotate_reply, make_reply};
use linerate_graph::{
    Arguments, Class, Context, DropReason, Exit, NoBuffer, Step, Verdict, Writes,
};
use linerate_memory::{Frame, PacketMut};
use linerate_packet::IpProtocol;

use super::{
    FAMILY,
    header::{DESTINATION, HOPS, LEAST, NEXT, NoHeader, SOURCE, address, known},
};

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    #[from(NoBuffer)]
    NoBuffer,
    #[from(NoHeader)]
    NoHeader,
    /// not an ICMPv6 echo request
    NotEchoRequest,
}

pub(super) const CLASS: Class = Class {
    name: "ICMP6PingResponder",
    family: FAMILY,
    summary: "answers ICMPv6 echo requests",
    description: "Each becomes its answer, to the address it came from, which is the destination \
        annotation; the paint is taken off. The IPv6 header must be known (`CheckIP6Header`). Other \
        packets, requests to groups and those behind extension headers leave by output 1, or are \
        dropped where there is none.",
    ports: "1/1-2",
    processing: "a/ah",
    annotates: true,
    cost: "One pass over the packets' headers; the checksum is updated, not computed.",
    example: "InfiniteSource(DATA \\<60000000 0008 3a40 20010db8000000000000000000000001 \
        20010db8000000000000000000000002 8000 23b7 00010001>, LIMIT 10, STOP true) \
        -> CheckIP6Header -> ICMP6PingResponder -> Discard;",
    ..Icmp6PingResponder::CLASS
};

/// Length of an echo message without data.
const ECHO: usize = 8;
/// Types.
const REQUEST: u8 = 128;
const REPLY: u8 = 129;
/// The first byte of multicast addresses.
const GROUP: u8 = 0xff;

#[derive(Arguments)]
struct Icmp6PingResponder {
    /// When the frame came.
    now: u64,
}

/// Makes a request its answer; `false`, changing nothing, when it is none.
fn answer(ip: &mut [u8]) -> bool {
    let is_request = ip[NEXT] == IpProtocol::ICMPV6.0
        && ip.len() >= LEAST + ECHO
        && ip[LEAST] == REQUEST
        && ip[DESTINATION] != GROUP;
    if !is_request {
        return false;
    }
    // The pseudo header's sum stays: it does not know which address is which.
    ip[SOURCE..LEAST].rotate_left(DESTINATION - SOURCE);
    ip[HOPS] = HOP_LIMIT;
    // The flow label is one of the sender of the request (RFC 6437); the class is kept, as Linux
    // keeps it.
    ip[1] &= 0xf0;
    ip[2..4].fill(0);
    let message = &mut ip[LEAST..];
    let head = u16::from_be_bytes([REPLY, message[1]]);
    make_reply(message, head);
    true
}

impl Step<Writes, Reason> for Icmp6PingResponder {
    #[inline]
    fn begin(&mut self, cx: &mut Context, _: &mut Frame) -> bool {
        self.now = cx.now();
        true
    }

    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict<Reason> {
        let now = self.now;
        let ip = known(packet)?;
        if !answer(ip) {
            return Err(Exit::ErrorOutput(Reason::NotEchoRequest));
        }
        let destination = address(ip, DESTINATION);
        annotate_reply(packet.meta_mut(), &destination, now);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use etherparse::PacketBuilder;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against etherparse.
        #[test]
        fn answers_are_right(
            addresses in any::<[[u8; 16]; 2]>(),
            ids: (u16, u16),
            payload in prop::collection::vec(any::<u8>(), 0..100),
            hops: u8,
        ) {
            let [from, to] = addresses;
            let (mut bytes, mut expected) = (Vec::new(), Vec::new());
            let request = PacketBuilder::ipv6(from, to, hops).icmpv6_echo_request(ids.0, ids.1);
            request.write(&mut bytes, &payload).unwrap();
            let reply = PacketBuilder::ipv6(to, from, HOP_LIMIT).icmpv6_echo_reply(ids.0, ids.1);
            reply.write(&mut expected, &payload).unwrap();
            if to[0] == GROUP {
                prop_assert!(!answer(&mut bytes));
            } else {
                prop_assert!(answer(&mut bytes));
                prop_assert_eq!(&bytes, &expected);
                prop_assert!(!answer(&mut bytes), "an answer is no request");
            }
        }
    }
}
