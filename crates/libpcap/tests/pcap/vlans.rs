//! Filters about VLANs on an interface: the programs that they are compiled to, and the packets that they
//! choose, beside libpcap's on the same interface.
//!
//! libpcap gives its program to the kernel, which has taken the outer tag out of each frame; ours runs here,
//! on frames by `packet:` and by a ring, with their tags in them.

use std::ffi::CString;

use fastrand::Rng;
use linerate_pcap::{
    abi::*,
    bpf::{Instruction, Metadata, Program, VlanTag},
    compile::{Frames, compile},
    exports::*,
};
use linerate_test_support::{Lab, wait_until};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::support::{Handle, Packet, pair};

/// Filters that speak of VLANs, or of types where a tag is.
const FILTERS: [&str; 37] = [
    "udp and vlan",
    "arp and vlan",
    "tcp port 80 and vlan 101",
    "host 10.0.0.1 and vlan 100",
    "ip and vlan 100",
    "tcp and not vlan",
    "ether proto 0x8100",
    "ether[12:2] = 0x8100",
    "ether proto 0x88a8",
    "vlan",
    "vlan 100",
    "vlan 0",
    "not vlan",
    "not vlan 100",
    "vlan and ip",
    "vlan 100 and ip",
    "vlan and udp port 53",
    "vlan 100 and arp",
    "vlan and not arp",
    "vlan and vlan",
    "vlan 200 and vlan 100",
    "vlan 300 and vlan 100 and udp",
    "vlan and vlan and udp",
    "vlan or ip",
    "ip or vlan",
    "vlan 100 or vlan 101",
    "udp port 53 or (vlan and udp port 53)",
    "tcp port 80 or (vlan and tcp port 80)",
    "vlan and ip6",
    "vlan and less 64",
    "vlan and greater 80",
    "ether src 2:0:0:0:77:1 and vlan and ip[8] = 64",
    "vlan and ether[14:2] & 0xfff = 100",
    "vlan and ip proto 6 and not port 80",
    "inbound and vlan 100",
    "ip",
    "udp",
];
/// Filters that are made.
const MADE: u64 = 300;
/// The stations that the frames are from.
const SOURCE: [u8; 5] = [2, 0, 0, 0, 0x77];
/// The last byte of the last frame's.
const LAST: u8 = 0xff;

/// A frame of a type with tags in front of it: each a type and its control field.
fn frame(tags: &[(u16, u16)], kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = [&[2, 0, 0, 0, 0x77, 2][..], &SOURCE, &[1]].concat();
    for (kind, control) in tags {
        frame.extend([kind.to_be_bytes(), control.to_be_bytes()].concat());
    }
    frame.extend(kind.to_be_bytes());
    frame.extend(payload);
    frame
}

fn ipv4(source: u8, protocol: u8, ports: [u16; 2], length: usize) -> Vec<u8> {
    let mut packet = vec![0; length];
    packet[..2].copy_from_slice(&[0x45, 0]);
    packet[2..4].copy_from_slice(&(length as u16).to_be_bytes());
    packet[8..10].copy_from_slice(&[64, protocol]);
    packet[12..20].copy_from_slice(&[10, 0, 0, source, 10, 0, 0, source + 1]);
    packet[20..24].copy_from_slice(&ports.map(u16::to_be_bytes).concat());
    packet[32] = 0x50;
    packet
}

fn ipv6(next: u8, ports: [u16; 2]) -> Vec<u8> {
    let mut packet = vec![0; 60];
    packet[..8].copy_from_slice(&[0x60, 0, 0, 0, 0, 20, next, 64]);
    packet[8..12].copy_from_slice(&[0x20, 1, 0xd, 0xb8]);
    packet[24..28].copy_from_slice(&[0x20, 1, 0xd, 0xb8]);
    packet[40..44].copy_from_slice(&ports.map(u16::to_be_bytes).concat());
    packet
}

/// Frames with every number of tags, of every type of them, around packets of several kinds.
fn frames() -> Vec<Vec<u8>> {
    let mut arp = vec![0; 46];
    arp[..8].copy_from_slice(&[0, 1, 8, 0, 6, 4, 0, 1]);
    arp[14..18].copy_from_slice(&[10, 0, 0, 1]);
    arp[24..28].copy_from_slice(&[10, 0, 0, 2]);
    let payloads = [
        (0x800, ipv4(1, 17, [1111, 53], 58)),
        (0x800, ipv4(3, 6, [1111, 80], 70)),
        (0x86dd, ipv6(17, [53, 1111])),
        (0x806, arp),
        (50, [&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0][..], &[0; 42]].concat()),
    ];
    let tags: [&[(u16, u16)]; 9] = [
        &[],
        &[(0x8100, 100)],
        &[(0x8100, 101)],
        &[(0x8100, 0)],
        &[(0x8100, 0x6000 | 100)],
        &[(0x8100, 200), (0x8100, 100)],
        &[(0x88a8, 300), (0x8100, 100)],
        &[(0x9100, 100)],
        &[(0x88a8, 100)],
    ];
    let mut frames = Vec::new();
    for tags in tags {
        frames.extend(payloads.iter().map(|(kind, payload)| frame(tags, *kind, payload)));
    }
    frames
}

/// A filter: primitives of which some are about VLANs.
fn made(random: &mut Rng, depth: u32) -> String {
    const PRIMITIVES: &[&str] = &[
        "ip",
        "ip6",
        "arp",
        "udp",
        "tcp",
        "host 10.0.0.1",
        "src net 10.0.0.0/24",
        "dst host 10.0.0.4",
        "port 53",
        "tcp dst port 80",
        "udp src port 53",
        "portrange 50-60",
        "ether proto 0x8100",
        "ether proto 0x88a8",
        "ether proto \\ip",
        "ether dst 2:0:0:0:77:2",
        "ether multicast",
        "ip[8] > 60",
        "ether[14:2] = 0x800",
        "less 70",
        "greater 75",
        "llc",
        "inbound",
    ];
    const VLANS: &[&str] = &["vlan", "vlan 100", "vlan 101", "vlan 0", "vlan 200", "vlan 300"];
    match random.u8(..8) {
        0..=3 if depth > 0 => {
            let joint = *random.choice(&["and", "and", "or"]).unwrap();
            format!("{} {joint} {}", made(random, depth - 1), made(random, depth - 1))
        }
        4 if depth > 0 => format!("({})", made(random, depth - 1)),
        5 if depth > 0 => format!("not {}", made(random, depth - 1)),
        _ if random.u8(..5) < 2 => (*random.choice(VLANS).unwrap()).into(),
        _ => (*random.choice(PRIMITIVES).unwrap()).into(),
    }
}

fn filters() -> Vec<String> {
    let made = (0..MADE).map(|seed| {
        let random = &mut Rng::with_seed(seed);
        let text = made(random, 3);
        // All of them speak of VLANs.
        if text.contains("vlan") { text } else { format!("{text} and vlan") }
    });
    FILTERS.iter().map(|filter| (*filter).into()).chain(made).collect()
}

/// A handle that neither waits nor holds packets back.
fn open(device: &str) -> Handle {
    let handle = Handle::create(device);
    // SAFETY: it is open.
    unsafe {
        assert_eq!(pcap_set_immediate_mode(handle.0, 1), 0);
        assert_eq!(pcap_activate(handle.0), 0, "{}", handle.error());
    }
    handle.set_nonblocking(true);
    handle
}

/// The instructions of a filter.
fn compiled(handle: &Handle, text: &str, optimize: i32) -> Result<Vec<Instruction>, String> {
    let mut program = BpfProgram { length: 0, instructions: std::ptr::null_mut() };
    let name = CString::new(text).unwrap();
    // SAFETY: a string, a program to be written, and as many instructions as it says.
    unsafe {
        if pcap_compile(handle.0, &raw mut program, name.as_ptr(), optimize, 0) != 0 {
            return Err(handle.error());
        }
        let length = program.length as usize;
        let instructions = std::slice::from_raw_parts(program.instructions, length).to_vec();
        pcap_freecode(&raw mut program);
        Ok(instructions)
    }
}

fn set(handle: &Handle, instructions: &[Instruction]) {
    let mut instructions = instructions.to_vec();
    let length = instructions.len() as u32;
    let mut program = BpfProgram { length, instructions: instructions.as_mut_ptr() };
    // SAFETY: so many instructions are there.
    unsafe { assert_eq!(pcap_setfilter(handle.0, &raw mut program), 0, "{}", handle.error()) };
}

/// The frames that have come to a handle, without those of other senders.
fn arrived(handle: &Handle) -> Vec<(Vec<u8>, u32)> {
    let mut arrived = Vec::new();
    loop {
        let (status, packets) = handle.dispatch(-1);
        assert!(status >= 0, "{}", handle.error());
        if packets.is_empty() {
            return arrived;
        }
        let is_ours = |packet: &Packet| packet.bytes[6..].starts_with(&SOURCE);
        let ours = packets.into_iter().filter(is_ours).filter(|it| it.bytes[11] != LAST);
        arrived.extend(ours.map(|packet| (packet.bytes, packet.length)));
    }
}

/// A frame as the kernel has it after reception: without its outer tag, which is in the metadata.
fn received(frame: &[u8]) -> (Vec<u8>, Metadata) {
    let half = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    if !matches!(half(12), 0x8100 | 0x88a8) {
        return (frame.to_vec(), Metadata::default());
    }
    let tag = Some(VlanTag { protocol: half(12), control: half(14) });
    let untagged = [&frame[..12], &frame[16..]].concat();
    (untagged, Metadata { tag, ..Metadata::default() })
}

/// Compares our compiler, used where there is no libpcap or no right to ask it, with libpcap's without its
/// optimizer.
fn compare_with_ours(live: &Handle, text: &str, frames: &[Vec<u8>]) -> bool {
    let ours = compile((DLT_EN10MB, Frames::Untagged), 9000, text, Some(0));
    let (Ok(ours), Ok(theirs)) = (&ours, &compiled(live, text, 0)) else {
        assert!(text.contains("inbound") || ours.is_err(), "{text}: {ours:?}");
        return false;
    };
    let (ours, theirs) = (Program::new(ours).unwrap(), Program::new(theirs).unwrap());
    for frame in frames {
        let (bytes, about) = received(frame);
        let wanted =
            |program: &Program| program.accepts_with(&bytes, bytes.len() as u32, &about) > 0;
        assert_eq!(wanted(&ours), wanted(&theirs), "{text}, on {frame:02x?}");
    }
    true
}

#[test]
#[ignore = "needs root"]
fn filters_choose_as_libpcaps_on_an_interface() {
    let lab = Lab::new();
    let (a, b) = (lab.namespace("a"), lab.namespace("b"));
    lab.veth(&a, "a0", &b, "b0");
    let sender = a.enter(|| open("a0"));
    b.enter(|| {
        // Packets that one processor sends arrive in its order.
        let allowed = sched_getaffinity(None).unwrap();
        let first = (0..CpuSet::MAX_CPU).find(|cpu| allowed.is_set(*cpu)).unwrap();
        let mut one = CpuSet::new();
        one.set(first);
        sched_setaffinity(None, &one).unwrap();

        let (theirs, ours, witness) = (open("b0"), open("packet:b0"), open("b0"));
        let (ring, behind) = pair(0);
        behind.set_nonblocking(true);
        let frames = frames();
        let mut last = frames[0].clone();
        last[11] = LAST;
        let [mut refused, mut chosen, mut compared] = [0; 3];
        for filter in filters() {
            let expected = compiled(&theirs, &filter, 1);
            assert_eq!(compiled(&ours, &filter, 1), expected, "{filter}");
            compared += usize::from(compare_with_ours(&theirs, &filter, &frames));
            let Ok(program) = expected else {
                refused += 1;
                continue;
            };
            [&theirs, &ours, &behind].iter().for_each(|handle| set(handle, &program));
            // libpcap itself looks at the first packet behind a filter, and knows no direction
            // then.
            for _ in 0..if filter.contains("inbound") { 2 } else { 1 } {
                [&theirs, &ours, &behind].iter().for_each(|handle| drop(arrived(handle)));
                for frame in frames.iter().chain([&last]) {
                    assert!(sender.inject(frame) > 0, "{}", sender.error());
                    assert!(ring.inject(frame) > 0, "{}", ring.error());
                }
                let has_all = || {
                    let packets = witness.dispatch(-1).1;
                    packets.iter().any(|packet| packet.bytes.get(..12) == Some(&last[..12]))
                };
                assert!(wait_until(has_all, std::time::Duration::from_secs(60)), "{filter}");
            }
            let expected = arrived(&theirs);
            assert!(arrived(&ours) == expected, "{filter}: other frames than {expected:02x?}");
            assert!(
                arrived(&behind) == expected,
                "{filter}: others by a ring than {expected:02x?}"
            );
            chosen += expected.len();
        }
        assert!(refused > 3 && chosen > 1000 && compared > 200, "{refused} {chosen} {compared}");
        println!("{chosen} frames chosen, {refused} filters refused, {compared} compiled here");
    });
}
