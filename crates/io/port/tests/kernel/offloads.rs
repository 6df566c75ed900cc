//! Every kind of port does the work that senders leave to an interface as the kernel does it: the same
//! frames cross a hub to all of them and to an interface without offloads, where the kernel itself has
//! done it, and are compared byte by byte.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use linerate_memory::{Arena, Frame, PoolCache};
use linerate_port::{Context, Direction, Receive};
use linerate_test_support::{
    Lab, Namespace,
    tunnels::{
        self, Head, IPV4, IPV6, PendingChecksums, SegmentPart, Transport, packet, pieces,
        transport_of,
    },
    vhost_driver::Driver,
};

use crate::{
    rig::Wire,
    support::{TIMEOUT, arena},
};

/// Bytes of a virtio header.
const HEADER: usize = 10;
/// Its flags and kinds of segmentation.
const NEEDS_CHECKSUM: u8 = 1;
const TCP_IPV4: u8 = 1;
const TCP_IPV6: u8 = 4;
const UDP: u8 = 5;
const ECN: u8 = 0x80;
/// The source address of the frames that are made here.
const SOURCE: [u8; 6] = [2, 0, 0, 0, 0, 2];
/// Bytes of payload of a segment, and of the packet.
const SIZE: usize = 1000;
const LENGTH: usize = 4500;
const SEGMENTS: usize = LENGTH.div_ceil(SIZE);

/// TCP's flag of reduced congestion windows.
const CWR: u8 = 0x80;
const TCP_FLAGS: usize = 13;
const TCP_CHECKSUM: usize = 16;

/// Features of interfaces that may leave things undone.
const OFFLOADS: [&str; 8] = [
    "tx",
    "sg",
    "tso",
    "gso",
    "tx-udp-segmentation",
    "tx-tcp-ecn-segmentation",
    "tx-tcp-accecn-segmentation",
    "tx-tcp-mangleid-segmentation",
];

/// A packet that is sent, and its tunnel.
struct Case {
    name: String,
    /// The interface of the sender.
    interface: &'static str,
    /// Frames with their virtio headers.
    frames: Vec<Vec<u8>>,
    /// Number of packets that become of them.
    packets: usize,
    /// Whether a packet socket gets a merged frame; `None` where that depends on the kernel.
    is_merged: Option<bool>,
    /// The packets, where their senders are not the kernel's tunnels.
    expected: Option<Vec<Vec<u8>>>,
    /// Whether the kernel makes the packets that are expected.
    is_kernel_right: bool,
}

fn payload() -> Vec<u8> {
    (0..LENGTH).map(|at| (at * 7) as u8 ^ (at >> 8) as u8).collect()
}

/// A frame behind a virtio header.
fn with_header(
    segmentation: u8,
    size: usize,
    start: usize,
    offset: usize,
    frame: &[u8],
) -> Vec<u8> {
    let header_length =
        if segmentation == 0 { 0 } else { start + [8, 32][usize::from(offset == 16)] };
    let mut bytes = vec![NEEDS_CHECKSUM, segmentation];
    let numbers = [header_length, size, start, offset];
    bytes.extend(numbers.map(|number| (number as u16).to_ne_bytes()).concat());
    bytes.extend(frame);
    bytes
}

/// A frame of which nothing is undone.
fn without_header(frame: &[u8]) -> Vec<u8> {
    [&[0; HEADER], frame].concat()
}

fn heads(ip: Head, tags: usize) -> Vec<Head> {
    let mut heads = vec![Head::Ethernet];
    heads.resize(1 + tags, Head::Tag);
    heads.push(ip);
    heads
}

/// A merged frame, as the stack that sends it has it.
fn merged(interface: &'static str, ip: Head, tags: usize, transport: Transport) -> Case {
    let heads = heads(ip, tags);
    let frame = tunnels::merged(&heads, transport, &payload());
    let (kind, offset) = match (transport, ip) {
        (Transport::Udp, _) => (UDP, 6),
        (Transport::Tcp, Head::V4 { .. }) => (TCP_IPV4, 16),
        (Transport::Tcp, _) => (TCP_IPV6, 16),
    };
    let is_sent_as_it_is = interface == "l0";
    Case {
        name: format!("{transport:?} {heads:?} by {interface}"),
        interface,
        frames: vec![with_header(kind, SIZE, transport_of(&heads), offset, &frame)],
        packets: SEGMENTS,
        is_merged: Some(true),
        expected: is_sent_as_it_is.then(|| pieces(&heads, transport, &payload(), SIZE)),
        is_kernel_right: true,
    }
}

/// A packet that is whole but for its checksum.
fn unfinished(interface: &'static str, ip: Head, transport: Transport) -> Case {
    let heads = heads(ip, 0);
    let part = SegmentPart { payload: &payload()[..SIZE], index: 0, done: 0, is_last: true };
    let frame = packet(&heads, transport, &part, PendingChecksums::Transport);
    let offset = if transport == Transport::Tcp { 16 } else { 6 };
    Case {
        name: format!("checksum of {transport:?} {heads:?} by {interface}"),
        interface,
        frames: vec![with_header(0, 0, transport_of(&heads), offset, &frame)],
        packets: 1,
        is_merged: Some(false),
        expected: (interface == "l0")
            .then(|| vec![packet(&heads, transport, &part, PendingChecksums::Nothing)]),
        is_kernel_right: true,
    }
}

/// A packet that is whole, of which a tunnel's checksum is left undone.
fn finished(interface: &'static str, ip: Head) -> Case {
    let heads = heads(ip, 0);
    let part = SegmentPart { payload: &payload()[..SIZE], index: 0, done: 0, is_last: true };
    Case {
        name: format!("a whole packet {heads:?} by {interface}"),
        interface,
        frames: vec![without_header(&packet(
            &heads,
            Transport::Udp,
            &part,
            PendingChecksums::Nothing,
        ))],
        packets: 1,
        is_merged: Some(false),
        expected: None,
        is_kernel_right: true,
    }
}

/// Packets as from a wire, which the receiving interface merges.
fn received(heads: &[Head]) -> Case {
    let packets = pieces(heads, Transport::Tcp, &payload(), SIZE);
    Case {
        name: format!("received and merged {heads:?}"),
        interface: "i0",
        frames: packets.iter().map(|packet| without_header(packet)).collect(),
        packets: SEGMENTS,
        is_merged: Some(true),
        expected: Some(packets),
        is_kernel_right: true,
    }
}

/// All kinds of segmentation the kernel here has.
fn cases() -> Vec<Case> {
    let fixed = Head::V4 { id: 0, atomic: true, options: false };
    let counted = Head::V4 { id: 0xfffe, atomic: false, options: true };
    let mut cases = Vec::new();
    for transport in [Transport::Tcp, Transport::Udp] {
        for ip in [IPV4, IPV6, counted] {
            cases.push(merged("l0", ip, 0, transport));
            cases.push(unfinished("l0", ip, transport));
        }
        cases.push(merged("l0", IPV4, 1, transport));
        cases.push(merged("l0", IPV6, 2, transport));
        for interface in TUNNELS.map(|tunnel| tunnel.0) {
            cases.push(merged(interface, IPV4, 0, transport));
            cases.push(merged(interface, IPV6, 0, transport));
            cases.push(unfinished(interface, IPV4, transport));
            cases.push(unfinished(interface, IPV6, transport));
        }
    }
    for interface in TUNNELS.map(|tunnel| tunnel.0) {
        cases.push(finished(interface, IPV4));
    }
    cases.push(reducing());

    cases.push(received(&[Head::Ethernet, fixed]));
    cases.push(accurate());
    for key in [false, true] {
        let gre = Head::Gre { checksum: false, key, sequence: false };
        for outer in [IPV4, IPV6] {
            cases.push(received(&[Head::Ethernet, outer, gre, IPV4]));
            cases.push(received(&[Head::Ethernet, outer, gre, IPV6]));
            cases.push(received(&[Head::Ethernet, outer, gre, Head::Ethernet, IPV4]));
        }
    }
    // The kernel forgets that GRE had a checksum when it merges: all segments have that of the first.
    let gre = Head::Gre { checksum: true, key: false, sequence: false };
    let case = received(&[Head::Ethernet, IPV4, gre, IPV4]);
    cases.push(Case { is_kernel_right: false, ..case });
    for outer in [IPV4, IPV6] {
        for inner in [IPV4, IPV6] {
            cases.push(received(&[Head::Ethernet, outer, inner]));
        }
    }
    cases
}

/// A stream whose sender tells once that it has reduced its window (RFC 3168).
fn reducing() -> Case {
    let mut case = merged("l0", IPV4, 0, Transport::Tcp);
    case.name = format!("ECN: {}", case.name);
    let start = HEADER + transport_of(&heads(IPV4, 0));
    case.frames[0][1] |= ECN;
    case.frames[0][start + TCP_FLAGS] |= CWR;
    reduce(&mut case.expected.as_mut().unwrap()[0]);
    case
}

/// A stream in which the flag is a bit of a counter (RFC 9768), here set in all packets.
fn accurate() -> Case {
    let mut case = received(&heads(IPV4, 0));
    case.name = format!("AccECN: {}", case.name);
    case.is_merged = None;
    let expected = case.expected.as_mut().unwrap();
    expected.iter_mut().for_each(|packet| reduce(packet));
    case.frames = expected.iter().map(|packet| without_header(packet)).collect();
    case
}

/// Sets the flag in a packet, and mends the checksum: the sum of all becomes greater by as much.
fn reduce(packet: &mut [u8]) {
    let start = transport_of(&heads(IPV4, 0));
    packet[start + TCP_FLAGS] |= CWR;
    let field = start + TCP_CHECKSUM;
    let sum = u16::from_be_bytes([packet[field], packet[field + 1]]);
    let greater = u32::from(!sum) + u32::from(CWR);
    let folded = !((greater & 0xffff) as u16 + (greater >> 16) as u16);
    packet[field..field + 2].copy_from_slice(&folded.to_be_bytes());
}

/// Interfaces of tunnels, their numbers, families and options.
const TUNNELS: [(&str, &str, &str, &str); 4] = [
    ("vx4", "42", "4", "noudpcsum"),
    ("vx4c", "43", "4", "udpcsum"),
    ("vx6", "44", "6", "udp6zerocsumtx"),
    ("vx6c", "45", "6", "noudp6zerocsumtx"),
];

/// A sender, a hub, and interfaces at it.
struct Hub {
    left: Namespace,
    middle: Namespace,
    right: Namespace,
    _lab: Lab,
}

impl Hub {
    fn new() -> Hub {
        let lab = Lab::new();
        let (left, middle, right) =
            (lab.namespace("left"), lab.namespace("middle"), lab.namespace("right"));
        for (interface, at_hub) in [("l0", "m0"), ("i0", "i1")] {
            lab.veth(&left, interface, &middle, at_hub);
        }
        for (interface, at_hub) in [("r1", "r0"), ("p1", "p0"), ("x1", "x0")] {
            lab.veth(&right, interface, &middle, at_hub);
        }
        let hub = Hub { left, middle, right, _lab: lab };
        // Without memory of addresses it sends all to all.
        let words = "link add br0 type bridge ageing_time 0 mcast_snooping 0";
        hub.middle.expect(["ip"].into_iter().chain(words.split(' ')));
        for interface in ["m0", "i1", "r0", "p0", "x0"] {
            hub.middle.ip(["link", "set", interface, "master", "br0"]);
        }
        hub.middle.link_up("br0");
        // It is no firewall.
        for rules in ["iptables", "ip6tables"] {
            let setting = format!("net/bridge/bridge-nf-call-{rules}");
            if Path::new("/proc/sys").join(&setting).exists() {
                hub.middle.set(&setting, "0");
            }
        }
        for (space, interface) in [(&hub.left, "l0"), (&hub.middle, "p0"), (&hub.middle, "x0")] {
            offloads_on(space, interface);
        }
        // Frames that come there in a burst are merged, and kept until the burst is over.
        hub.middle.expect(["ethtool", "-K", "i1", "gro", "on"]);
        let keep = "echo 2000000 >/sys/class/net/i1/gro_flush_timeout";
        hub.middle.expect(["sh", "-c", keep]);
        hub.tunnels();
        hub
    }

    fn tunnels(&self) {
        let left = &self.left;
        let remote = "02:00:00:00:00:99";
        for (ours, theirs) in [("198.18.0.1/24", "198.18.0.2"), ("2001:db8::1/64", "2001:db8::2")] {
            left.add_address("l0", ours);
            left.ip(["neighbour", "add", theirs, "lladdr", remote, "dev", "l0"]);
        }
        for (name, id, family, checksum) in TUNNELS {
            let (local, remote) = match family {
                "4" => ("198.18.0.1", "198.18.0.2"),
                _ => ("2001:db8::1", "2001:db8::2"),
            };
            let words = format!(
                "link add {name} type vxlan id {id} local {local} remote {remote} dstport 4789 \
                 dev l0 {checksum}"
            );
            left.expect(["ip"].into_iter().chain(words.split_whitespace()));
            left.link_up(name);
        }
    }
}

fn offloads_on(space: &Namespace, interface: &str) {
    for offload in OFFLOADS {
        // Kernels before 6.16 do not know all of them.
        let done = space.run(["ethtool", "-K", interface, offload, "on"]);
        assert!(done.status.success() || offload == "tx-tcp-accecn-segmentation", "{offload}");
    }
}

/// Returns true if it is one of the frames that are compared, and not the hosts' own.
fn is_compared(frame: &[u8]) -> bool {
    let protocol = match frame.get(12..14) {
        Some([0x08, 0x00]) => frame.get(23),
        Some([0x86, 0xdd]) => frame.get(20),
        _ => None,
    };
    frame.get(6..12) == Some(&SOURCE) || protocol == Some(&17)
}

/// A port that gets the frames.
struct Side {
    name: &'static str,
    receive: Box<dyn Receive>,
    pool: PoolCache,
    _arena: Arena,
}

impl Side {
    fn open(name: &'static str, space: Option<&Namespace>, uri: &str) -> Side {
        let arena = arena();
        let context = Context { direction: Direction::Receive, ..Context::new(arena.clone()) };
        let open = || linerate_port::open(&uri.parse().unwrap(), &context);
        let port = space.map_or_else(open, |space| space.enter(open));
        let mut port = port.unwrap_or_else(|error| panic!("{error}"));
        let receive = port.queues.remove(0).receive.unwrap();
        Side { name, receive, pool: arena.cache(64), _arena: arena }
    }

    /// The next `count` frames.
    #[track_caller]
    fn frames(&mut self, count: usize) -> Vec<Vec<u8>> {
        let deadline = Instant::now() + TIMEOUT;
        let mut frames = Vec::new();
        let mut frame = Frame::new(32);
        while frames.len() < count && Instant::now() < deadline {
            if self.receive.receive(&mut self.pool, &mut frame).unwrap() == 0 {
                self.receive.wait(Duration::from_millis(20)).unwrap();
            }
            let packets = self.pool.arena().packets(&frame).filter(|packet| is_compared(packet));
            frames.extend(packets.map(<[u8]>::to_vec));
            self.pool.give(&mut frame);
        }
        frames
    }

    fn assert_same(&mut self, case: &Case, expected: &[Vec<u8>]) {
        let frames = self.frames(expected.len());
        let counts = self.receive.counters().read();
        assert_eq!(frames.len(), expected.len(), "{}, {}: {counts:?}", self.name, case.name);
        for (at, (ours, theirs)) in frames.iter().zip(expected).enumerate() {
            let place = ours.iter().zip(theirs).position(|(a, b)| a != b);
            assert!(
                ours == theirs,
                "{}, {}, packet {at}: {} bytes and {} of the kernel's, which differ at {place:?}\n\
                 ours   {:02x?}\nkernel {:02x?}",
                self.name,
                case.name,
                ours.len(),
                theirs.len(),
                &ours[..ours.len().min(160)],
                &theirs[..theirs.len().min(160)],
            );
        }
        assert_eq!(counts.dropped(), 0, "{}, {}: {counts:?}", self.name, case.name);
    }
}

/// The next `count` frames at a packet socket, without the hosts' own.
fn frames_at(wire: &Wire, skip: usize, is_enough: impl Fn(&[Vec<u8>]) -> bool) -> Vec<Vec<u8>> {
    let deadline = Instant::now() + TIMEOUT;
    let mut frames = Vec::new();
    while !is_enough(&frames) && Instant::now() < deadline {
        let frame = wire.receive(Duration::from_millis(100));
        frames.extend(frame.filter(|frame| is_compared(&frame[skip..])));
    }
    frames
}

/// Number of packets in frames with virtio headers.
fn packets_in(frames: &[Vec<u8>]) -> usize {
    let packets = |bytes: &Vec<u8>| {
        let number = |at: usize| usize::from(u16::from_ne_bytes([bytes[at], bytes[at + 1]]));
        let frame = &bytes[HEADER..];
        match number(4) {
            0 => 1,
            size => {
                let start = number(6);
                let is_tcp = bytes[1] & !ECN != UDP;
                let header = if is_tcp { usize::from(frame[start + 12] >> 4) * 4 } else { 8 };
                (frame.len() - start - header).div_ceil(size)
            }
        }
    };
    frames.iter().map(packets).sum()
}

#[test]
#[ignore = "needs root"]
fn offloads_are_finished_as_the_kernel_finishes_them() {
    let hub = Hub::new();
    let reference = Wire::open(&hub.right, "r1");
    // Frames that AF_PACKET is given.
    let raw = Wire::open(&hub.right, "p1").with_headers();
    let tap = Side::open("tap", Some(&hub.middle), "tap:t0?vnet");
    hub.middle.ip(["link", "set", "t0", "master", "br0"]);
    let mut sides = [
        Side::open("packet", Some(&hub.right), "packet:p1"),
        Side::open("xdp", Some(&hub.right), "xdp:x1"),
        tap,
    ];
    let socket = format!("@linerate-offloads-{}", std::process::id());
    let mut vhost = Side::open("vhost", None, &format!("vhost:{socket}"));
    let mut driver = Driver::connect(&socket);
    for case in cases() {
        let sender = Wire::open(&hub.left, case.interface).with_headers();
        case.frames.iter().for_each(|frame| sender.send(frame));
        let by_kernel = frames_at(&reference, 0, |frames| frames.len() >= case.packets);
        assert_eq!(by_kernel.len(), case.packets, "{}", case.name);
        let expected = case.expected.as_ref().unwrap_or(&by_kernel);
        let is_right = by_kernel == *expected || !case.is_kernel_right;
        assert!(is_right, "{}: the kernel differs", case.name);
        let given = frames_at(&raw, HEADER, |frames| packets_in(frames) >= case.packets);
        assert_eq!(packets_in(&given), case.packets, "{}", case.name);
        let is_merged = given.iter().any(|frame| frame[1] != 0);
        assert!(case.is_merged.is_none_or(|known| known == is_merged), "{}", case.name);
        for side in &mut sides {
            if case.is_kernel_right || side.name == "packet" {
                side.assert_same(&case, expected);
            } else {
                assert_eq!(side.frames(case.packets).len(), case.packets, "{}", case.name);
            }
        }
        // As the kernel of a guest would give it to its device.
        for frame in &given {
            let (header, frame) = frame.split_first_chunk().unwrap();
            driver.send(header, frame);
        }
        vhost.assert_same(&case, expected);
    }
}
