//! `examples/router6.click` and the kernel's IPv6.

use std::net::Ipv6Addr;

use linerate_test_support::Namespace;

use super::routers::{
    Comparison, Difference, FAR_MAC, Forwarder, NEAR, NEAR_MAC, Sides, only, word,
};

#[test]
#[ignore = "needs root"]
fn packets_leave_as_they_leave_linux() {
    let comparison = Comparison {
        packets: include_str!("packets6.py"),
        example: "router6.click",
        linux,
        neighbours: [
            ("left/neighbours.insert", "2001:db8:0:1::2 02:00:00:00:00:0a"),
            ("right/neighbours.insert", "2001:db8:0:2::2 02:00:00:00:00:0b"),
        ],
        case,
        own,
        differences: DIFFERENCES,
        least: [16, 14],
    };
    comparison.run();
}

fn linux(router: &Namespace) {
    for (interface, own, host, mac) in [
        ("left", "2001:db8:0:1::1/64", "2001:db8:0:1::2", NEAR_MAC),
        ("right", "2001:db8:0:2::1/64", "2001:db8:0:2::2", FAR_MAC),
    ] {
        router.add_address(interface, own);
        let known = ["lladdr", mac, "nud", "permanent", "dev", interface];
        router.expect([&["ip", "neighbour", "add", host], &known[..]].concat());
    }
    router.set("net/ipv6/conf/all/forwarding", "1");
    router.set("net/ipv6/icmp/ratelimit", "0");
}

/// Case of a frame: the flow label of its packet, or of the one an error quotes; a number in
/// answers.
fn case(frame: &[u8]) -> Option<usize> {
    if word(frame, 12) != 0x86dd {
        return None;
    }
    let packet = &frame[14..];
    let routers = ["2001:db8:0:1::1", "2001:db8:0:2::1"];
    let source = Ipv6Addr::from_octets(packet[8..24].try_into().expect("an address"));
    let from_router = routers.contains(&source.to_string().as_str());
    match (packet[6], packet.get(40)) {
        (58, Some(1..=4)) if from_router => Some(word(packet, 48 + 2)),
        (58, Some(129)) if from_router => Some(word(packet, 44)),
        (6, _) if from_router => Some(word(packet, 42) - 1000),
        // The kernel's own talk with neighbours and groups.
        (58, Some(130..=143)) | (0, _) if source.is_unicast_link_local() || from_router => None,
        _ => Some(word(packet, 2)),
    }
}

/// The hop limit of errors when they arrive differs: ours go through the whole path of a packet to
/// forward. Linux gives its own packets a flow label (RFC 6437), ours none.
fn own(mut frame: Vec<u8>, who: Forwarder) -> Vec<u8> {
    let packet = &mut frame[14..];
    if packet[6] == 58 {
        assert_eq!(packet[7], if who == Forwarder::Linux { 64 } else { 254 });
        packet[7] = 0;
        assert!(who == Forwarder::Linux || packet[1..4] == [0, 0, 0]);
        packet[2..4].fill(0);
        packet[1] &= 0xf0;
    }
    frame
}

const DIFFERENCES: &[Difference] = &[
    ("over-mtu", LENGTH_AND_LIMIT, |linux, ours| quotes_less(linux, ours, 1)),
    ("over-mtu-udp", LENGTH_AND_LIMIT, |linux, ours| quotes_less(linux, ours, 1)),
    ("over-mtu-limit-1", LENGTH, |linux, ours| quotes_less(linux, ours, 0)),
    ("nowhere-long", LENGTH, |linux, ours| quotes_less(linux, ours, 0)),
    (
        "own-udp-far",
        "Linux says so from the address that was asked, ours from that of the interface",
        |linux, ours| {
            let source = |sides: &Sides| only(sides, NEAR)[14 + 8..14 + 24].to_vec();
            let quoted = |sides: &Sides| only(sides, NEAR)[14 + 44..].to_vec();
            // The address that was asked is the destination of the quoted packet.
            source(linux) == quoted(linux)[4 + 24..4 + 40]
                && source(linux) != source(ours)
                && kind(ours) == (1, 4)
                && quoted(linux) == quoted(ours)
        },
    ),
    (
        "own-tcp",
        "it has no TCP that could reset a connection, and says that there is no such port",
        |linux, ours| only(linux, NEAR)[14 + 6] == 6 && kind(ours) == (1, 4),
    ),
    (
        "own-protocol-253",
        "the example says nothing about protocols it has not, where Linux names the field",
        |linux, ours| kind(linux) == (4, 1) && ours[NEAR].is_empty(),
    ),
];

const LENGTH: &str = "ours quotes 568 bytes as Click does, Linux as many as make 1,280 in all";
const LENGTH_AND_LIMIT: &str = "ours quotes 568 bytes as Click does, Linux as many as make 1,280 \
    in all; and ours counts the hop limit down before it finds the packet too long";

/// Type and code of the only message at the near end.
#[track_caller]
fn kind(sides: &Sides) -> (u8, u8) {
    let packet = &only(sides, NEAR)[14..];
    assert_eq!(packet[6], 58);
    (packet[40], packet[41])
}

/// Errors of one kind about one packet, of which ours quotes less, with so much smaller a hop
/// limit.
fn quotes_less(linux: &Sides, ours: &Sides, down: u8) -> bool {
    let mut linux_quotes = only(linux, NEAR)[14 + 48..].to_vec();
    let ours_quotes = &only(ours, NEAR)[14 + 48..];
    linux_quotes[7] -= down;
    kind(linux) == kind(ours)
        && only(linux, NEAR)[14 + 44..14 + 48] == only(ours, NEAR)[14 + 44..14 + 48]
        && (linux_quotes.len(), ours_quotes.len()) == (1232, 568)
        && linux_quotes[..568] == *ours_quotes
}
