//! `examples/router.click` and the kernel's IPv4.

use linerate_test_support::Namespace;

use super::routers::{
    Comparison, Difference, FAR, FAR_MAC, Forwarder, NEAR, NEAR_MAC, Sides, only, word,
};

#[test]
#[ignore = "needs root"]
fn packets_leave_as_they_leave_linux() {
    let comparison = Comparison {
        packets: include_str!("packets4.py"),
        example: "router.click",
        linux,
        neighbours: [
            ("left/arp.insert", "198.18.0.2 02:00:00:00:00:0a"),
            ("right/arp.insert", "198.19.0.2 02:00:00:00:00:0b"),
        ],
        case,
        own,
        differences: DIFFERENCES,
        least: [30, 25],
    };
    comparison.run();
}

fn linux(router: &Namespace) {
    for (interface, own, host, mac) in [
        ("left", "198.18.0.1/24", "198.18.0.2", NEAR_MAC),
        ("right", "198.19.0.1/24", "198.19.0.2", FAR_MAC),
    ] {
        router.add_address(interface, own);
        let known = ["lladdr", mac, "nud", "permanent", "dev", interface];
        router.expect([&["ip", "neighbour", "add", host], &known[..]].concat());
    }
    router.set("net/ipv4/ip_forward", "1");
    router.set("net/ipv4/icmp_ratemask", "0");
}

fn case(frame: &[u8]) -> Option<usize> {
    let packet = &frame[14..];
    let header = usize::from(packet[0] & 15) * 4;
    let (protocol, body) = (packet[9], &packet[header..]);
    let from_router = packet[12..16] == [198, 18, 0, 1] || packet[12..16] == [198, 19, 0, 1];
    Some(match (protocol, body.first()) {
        (1, Some(3 | 5 | 11 | 12)) if from_router => word(body, 8 + 4),
        (1, Some(0)) if from_router => word(body, 4),
        (6, _) if from_router => word(body, 2) - 1000,
        _ => word(packet, 4),
    })
}

/// A router's headers of its own packets.
struct RouterHeaders {
    /// The TTL of errors and of echo replies when they arrive. Ours go through the whole path of
    /// a packet to forward, as in Click's classic router, where 200 and 255 are counted down.
    ttl: [u8; 2],
    /// The type of service of errors about packets of type 0. RFC 1812 section 4.3.2.5 would like
    /// the precedence of internetwork control, which Click does not give.
    tos: u8,
}

const LINUX: RouterHeaders = RouterHeaders { ttl: [64, 64], tos: 0xc0 };
const OURS: RouterHeaders = RouterHeaders { ttl: [199, 254], tos: 0 };

/// A frame for the near end without parts that legitimately vary: the IP identification, and the
/// fields that follow from the manners, which must be as said.
#[track_caller]
fn own(mut frame: Vec<u8>, who: Forwarder) -> Vec<u8> {
    let headers = if who == Forwarder::Linux { LINUX } else { OURS };
    let packet = &mut frame[14..];
    let length = usize::from(packet[0] & 15) * 4;
    let sum: usize = (0..length).step_by(2).map(|at| word(packet, at)).sum();
    assert_eq!(sum % 0xffff, 0, "the header's checksum is wrong: {packet:02x?}");
    if packet[9] == 1 {
        let echo_reply = packet[length] == 0;
        assert_eq!(packet[8], headers.ttl[usize::from(echo_reply)]);
        if !echo_reply {
            // From the quoted packet Linux takes over the bits that were the type before RFC 2474.
            let quoted = if headers.tos == 0 { 0 } else { packet[length + 8 + 1] & 0x1e };
            assert_eq!(packet[1], headers.tos | quoted);
            packet[1] = 0;
        }
        packet[8] = 0;
    }
    packet[4..6].fill(0);
    packet[10..12].fill(0);
    frame
}

const DIFFERENCES: &[Difference] = &[
    ("over-mtu-options", NO_OPERATION, same_but_for_options),
    ("over-mtu-df", COUNTED_DOWN, same_but_for_the_quoted_ttl),
    ("over-mtu-df-udp", COUNTED_DOWN, same_but_for_the_quoted_ttl),
    (
        "own-udp-far",
        "Linux says so from the address that was asked, ours from that of the interface it says it \
            by, as RFC 1812 section 4.3.2.4 demands",
        |linux, ours| {
            let (linux, ours) = (packet(linux), packet(ours));
            let sources = (&linux.header[12..16], &ours.header[12..16]);
            sources == (&[198, 19, 0, 1], &[198, 18, 0, 1])
                && linux.header[16..] == ours.header[16..]
                && linux.body == ours.body
        },
    ),
    (
        "own-tcp",
        "it has no TCP that could reset a connection, and says that there is no such port",
        |linux, ours| {
            let (reset, error) = (packet(linux), packet(ours));
            (reset.protocol, reset.body[13], error.kind()) == (6, 0x14, (3, 3))
        },
    ),
    (
        "option-source-route",
        "Linux refuses source routes silently unless told to take them; ours takes the packet for \
            one to a port, and returns the error by the way it came",
        |linux, ours| linux[NEAR].is_empty() && packet(ours).kind() == (3, 3),
    ),
    (
        "option-too-long",
        "Linux points at the option, ours at its length, which is what is wrong",
        |linux, ours| {
            let (linux, ours) = (packet(linux), packet(ours));
            let pointers = (linux.body[4], ours.body[4]);
            linux.kind() == (12, 0) && pointers == (20, 21) && linux.body[5..] == ours.body[5..]
        },
    ),
    (
        "option-record-route-ttl-1",
        "Linux copies the option into the error, and quotes the packet with the address of the \
            interface it came by; ours has no options, and quotes it with that of the other",
        |linux, ours| {
            let (linux, ours) = (packet(linux), packet(ours));
            linux.kind() == (11, 0) && ours.kind() == (11, 0) && linux.header.len() == 36
        },
    ),
];

const NO_OPERATION: &str = "options that say nothing are copied into later fragments by Linux, \
    and left out, which makes the header shorter, by ours";
const COUNTED_DOWN: &str = "ours counts the TTL down before it finds the packet too long, as the \
    classic router does, and quotes it so";

fn same_but_for_options(linux: &Sides, ours: &Sides) -> bool {
    let bodies = |sides: &Sides| -> Vec<Vec<u8>> {
        sides[FAR].iter().map(|frame| Packet::parse(frame).body.to_vec()).collect()
    };
    linux[FAR][0] == ours[FAR][0] && bodies(linux) == bodies(ours)
}

fn same_but_for_the_quoted_ttl(linux: &Sides, ours: &Sides) -> bool {
    let mut expected = linux.clone();
    let quoted = &mut expected[NEAR][0][14 + 20 + 8..];
    quoted[8] -= 1;
    // The sum grows by the decrement of the TTL.
    let sum = word(quoted, 10) + 0x100;
    quoted[10..12].copy_from_slice(&u16::try_from(sum).expect("no carry").to_be_bytes());
    expected == *ours
}

struct Packet<'a> {
    protocol: u8,
    header: &'a [u8],
    body: &'a [u8],
}

impl Packet<'_> {
    fn parse(frame: &[u8]) -> Packet<'_> {
        let (header, body) = frame[14..].split_at(usize::from(frame[14] & 15) * 4);
        Packet { protocol: header[9], header, body }
    }

    /// Type and code of an ICMP message.
    fn kind(&self) -> (u8, u8) {
        assert_eq!(self.protocol, 1);
        (self.body[0], self.body[1])
    }
}

/// The only packet, at the near end.
#[track_caller]
fn packet(sides: &Sides) -> Packet<'_> {
    Packet::parse(only(sides, NEAR))
}
