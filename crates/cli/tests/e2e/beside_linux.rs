//! `examples/router.click` beside the kernel's forwarding: the same packets, made by scapy, go to
//! either in the same topology, and what comes out at the far end and back at the near end is
//! compared packet by packet.

use std::collections::BTreeMap;

use linerate_testlab::{Lab, Namespace};

use crate::{
    hosts::{python, run, stop},
    support::{LINERATE, Scratch},
    wire::{Listener, send},
};

const PACKETS: &str = include_str!("packets.py");
const NEAR_MAC: &str = "02:00:00:00:00:0a";
const FAR_MAC: &str = "02:00:00:00:00:0b";
const LEFT_MAC: &str = "02:00:00:00:00:11";
const RIGHT_MAC: &str = "02:00:00:00:00:12";

/// Packets by the number of the one they are a consequence of, at the far end and the near one.
type Outcome = BTreeMap<usize, Sides>;

struct Net {
    near: Namespace,
    router: Namespace,
    far: Namespace,
}

/// Two interfaces that nobody answers at, and a router's two between them.
#[track_caller]
fn net() -> Net {
    let lab = Lab::new();
    let [near, router, far] = ["near", "router", "far"].map(|label| lab.namespace(label));
    lab.veth(&near, "e0", &router, "left");
    lab.veth(&far, "e0", &router, "right");
    for (namespace, interface, mac) in [
        (&near, "e0", NEAR_MAC),
        (&router, "left", LEFT_MAC),
        (&router, "right", RIGHT_MAC),
        (&far, "e0", FAR_MAC),
    ] {
        namespace.ip(["link", "set", interface, "address", mac]);
    }
    router.set_mtu("right", 1280);
    Net { near, router, far }
}

fn packets(net: &Net) -> (Vec<String>, Vec<Vec<u8>>) {
    let shown = python(&net.near, PACKETS, &[NEAR_MAC, LEFT_MAC]);
    let line = |line: &str| {
        let (name, digits) = line.split_once(' ').expect("a name and a frame");
        let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("digits");
        (name.to_owned(), (0..digits.len()).step_by(2).map(byte).collect())
    };
    shown.lines().map(line).unzip()
}

/// Sends all packets and sorts out what comes of them.
#[track_caller]
fn outcome(net: &Net, frames: &[Vec<u8>]) -> Outcome {
    let far = Listener::start(&net.far, "e0");
    let near = Listener::start(&net.near, "e0");
    send(&net.near, "e0", frames);
    let mut outcome = Outcome::new();
    // The last two packets make one frame at each end.
    for (side, listener) in [far, near].into_iter().enumerate() {
        let last = frames.len() - 1 + side;
        let all = |seen: &[Vec<u8>]| seen.iter().any(|frame| case(frame) == last);
        for frame in listener.frames_until(all) {
            let case = case(&frame);
            outcome.entry(case).or_default()[side].push(frame);
        }
    }
    outcome
}

fn word(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]))
}

fn case(frame: &[u8]) -> usize {
    let packet = &frame[14..];
    let header = usize::from(packet[0] & 15) * 4;
    let (protocol, body) = (packet[9], &packet[header..]);
    let from_router = packet[12..16] == [198, 18, 0, 1] || packet[12..16] == [198, 19, 0, 1];
    match (protocol, body.first()) {
        (1, Some(3 | 5 | 11 | 12)) if from_router => word(body, 8 + 4),
        (1, Some(0)) if from_router => word(body, 4),
        (6, _) if from_router => word(body, 2) - 1000,
        _ => word(packet, 4),
    }
}

const FAR: usize = 0;
const NEAR: usize = 1;

/// How a router writes the headers of what it says itself.
struct Manners {
    /// The TTL of errors and of echo replies when they arrive. Ours go through the whole path of
    /// a packet to forward, as in Click's classic router, where 200 and 255 are counted down.
    ttl: [u8; 2],
    /// The type of service of errors about packets of type 0. RFC 1812 section 4.3.2.5 would like
    /// the precedence of internetwork control, which Click does not give.
    tos: u8,
}

const LINUX: Manners = Manners { ttl: [64, 64], tos: 0xc0 };
const OURS: Manners = Manners { ttl: [199, 254], tos: 0 };

/// A frame for the near end without what legitimately varies: the IP identification, and what
/// follows from the manners, which must be as said.
#[track_caller]
fn own(mut frame: Vec<u8>, manners: &Manners) -> Vec<u8> {
    let packet = &mut frame[14..];
    let length = usize::from(packet[0] & 15) * 4;
    let sum: usize = (0..length).step_by(2).map(|at| word(packet, at)).sum();
    assert_eq!(sum % 0xffff, 0, "the header's checksum is wrong: {packet:02x?}");
    if packet[9] == 1 {
        let echo_reply = packet[length] == 0;
        assert_eq!(packet[8], manners.ttl[usize::from(echo_reply)]);
        if !echo_reply {
            // Of the quoted packet's Linux takes over what was the type before RFC 2474.
            let quoted = if manners.tos == 0 { 0 } else { packet[length + 8 + 1] & 0x1e };
            assert_eq!(packet[1], manners.tos | quoted);
            packet[1] = 0;
        }
        packet[8] = 0;
    }
    packet[4..6].fill(0);
    packet[10..12].fill(0);
    frame
}

/// What comes out at the far end and at the near one.
type Sides = [Vec<Vec<u8>>; 2];
/// A packet, why the two treat it differently, and whether they do so as described.
type Difference = (&'static str, &'static str, fn(&Sides, &Sides) -> bool);

const DIFFERENCES: [Difference; 8] = [
    ("over-mtu-options", NO_OPERATION, same_but_for_options),
    ("over-mtu-df", COUNTED_DOWN, same_but_for_the_quoted_ttl),
    ("over-mtu-df-udp", COUNTED_DOWN, same_but_for_the_quoted_ttl),
    (
        "own-udp-far",
        "Linux says so from the address that was asked, ours from that of the interface it says it \
            by, as RFC 1812 section 4.3.2.4 demands",
        |linux, ours| {
            let (linux, ours) = (only(linux, NEAR), only(ours, NEAR));
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
            let (reset, error) = (only(linux, NEAR), only(ours, NEAR));
            (reset.protocol, reset.body[13], error.kind()) == (6, 0x14, (3, 3))
        },
    ),
    (
        "option-source-route",
        "Linux refuses source routes silently unless told to take them; ours takes the packet for \
            one to a port, and returns the error by the way it came",
        |linux, ours| linux[NEAR].is_empty() && only(ours, NEAR).kind() == (3, 3),
    ),
    (
        "option-too-long",
        "Linux points at the option, ours at its length, which is what is wrong",
        |linux, ours| {
            let (linux, ours) = (only(linux, NEAR), only(ours, NEAR));
            let pointers = (linux.body[4], ours.body[4]);
            linux.kind() == (12, 0) && pointers == (20, 21) && linux.body[5..] == ours.body[5..]
        },
    ),
    (
        "option-record-route-ttl-1",
        "Linux copies the option into the error, and quotes the packet with the address of the \
            interface it came by; ours has no options, and quotes it with that of the other",
        |linux, ours| {
            let (linux, ours) = (only(linux, NEAR), only(ours, NEAR));
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
        sides[FAR].iter().map(|frame| Packet::of(frame).body.to_vec()).collect()
    };
    linux[FAR][0] == ours[FAR][0] && bodies(linux) == bodies(ours)
}

fn same_but_for_the_quoted_ttl(linux: &Sides, ours: &Sides) -> bool {
    let mut expected = linux.clone();
    let quoted = &mut expected[NEAR][0][14 + 20 + 8..];
    quoted[8] -= 1;
    // The sum grows by what the TTL loses.
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
    fn of(frame: &[u8]) -> Packet<'_> {
        let (header, body) = frame[14..].split_at(usize::from(frame[14] & 15) * 4);
        Packet { protocol: header[9], header, body }
    }

    /// Type and code of an ICMP message.
    fn kind(&self) -> (u8, u8) {
        assert_eq!(self.protocol, 1);
        (self.body[0], self.body[1])
    }
}

/// The only packet at one side, when there is none at the other.
#[track_caller]
fn only(sides: &Sides, side: usize) -> Packet<'_> {
    assert!(sides[side].len() == 1 && sides[1 - side].is_empty(), "{sides:02x?}");
    Packet::of(&sides[side][0])
}

#[test]
#[ignore = "needs root"]
fn packets_leave_as_they_leave_linux() {
    let linux = net();
    for (interface, own, host, mac) in [
        ("left", "198.18.0.1/24", "198.18.0.2", NEAR_MAC),
        ("right", "198.19.0.1/24", "198.19.0.2", FAR_MAC),
    ] {
        linux.router.add_address(interface, own);
        linux.router.ip([
            "neighbour",
            "add",
            host,
            "lladdr",
            mac,
            "nud",
            "permanent",
            "dev",
            interface,
        ]);
    }
    linux.router.set("net/ipv4/ip_forward", "1");
    linux.router.set("net/ipv4/icmp_ratemask", "0");
    let (names, frames) = packets(&linux);
    let theirs = outcome(&linux, &frames);
    drop(linux);

    let net = net();
    let scratch = Scratch::new();
    let control = scratch.file("control");
    let program = run(&net.router, "router.click", &format!("RIGHT_MTU=1280 --control {control}"));
    for (side, host, mac) in [("left", "198.18.0.2", NEAR_MAC), ("right", "198.19.0.2", FAR_MAC)] {
        let neighbour = format!("{host} {mac}");
        net.near.expect([LINERATE, "call", &control, &format!("{side}/arp.insert"), &neighbour]);
    }
    let ours = outcome(&net, &frames);
    stop(program);
    compare(&names, &theirs, &ours);
}

/// What the two make of a packet is the same, but for the differences explained.
#[track_caller]
fn compare(names: &[String], linux: &Outcome, ours: &Outcome) {
    let (mut forwarded, mut answered) = (0, 0);
    for (number, name) in (1..).zip(names) {
        let of = |outcome: &Outcome, rules: &Manners| {
            let [far, near] = outcome.get(&number).cloned().unwrap_or_default();
            [far, near.into_iter().map(|frame| own(frame, rules)).collect()]
        };
        let (linux, ours) = (of(linux, &LINUX), of(ours, &OURS));
        forwarded += usize::from(!ours[FAR].is_empty());
        answered += usize::from(!ours[NEAR].is_empty());
        match DIFFERENCES.iter().find(|difference| difference.0 == name) {
            Some((_, why, as_said)) => {
                assert!(linux != ours, "{name} is the same now: {why}");
                assert!(as_said(&linux, &ours), "{name}: {why}\n{linux:02x?}\n{ours:02x?}");
            }
            None => assert!(linux == ours, "{name}\nLinux {linux:02x?}\nours  {ours:02x?}"),
        }
    }
    let last = linux.keys().chain(ours.keys()).max().expect("packets");
    assert!(*last <= names.len(), "an answer to nothing: {last}");
    // All this was about packets that came.
    assert!(forwarded > 30 && answered > 20, "{forwarded} {answered}");
}
