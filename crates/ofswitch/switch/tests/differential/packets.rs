//! Random packets: valid ones of all kinds, and some that are cut or damaged. Values are of few, so
//! that rules find them.

use fastrand::Rng;

/// Values that packets have and rules ask for.
pub(crate) struct Values;

impl Values {
    pub(crate) fn mac(rng: &mut Rng) -> u64 {
        *pick(
            rng,
            &[
                0x0200_0000_0001,
                0x0200_0000_0002,
                0x02aa_bb00_0103,
                0x3333_0000_0001,
                0xffff_ffff_ffff,
            ],
        )
    }
    pub(crate) fn vlan(rng: &mut Rng) -> u16 {
        *pick(rng, &[0, 1, 5, 100, 4095])
    }
    pub(crate) fn ipv4(rng: &mut Rng) -> u32 {
        *pick(rng, &[0x0a00_0001, 0x0a00_0002, 0x0a01_0203, 0xc0a8_0a0a, 0xe000_0001, 0xffff_ffff])
    }
    pub(crate) fn ipv6(rng: &mut Rng) -> u128 {
        *pick(
            rng,
            &[
                0x2001_0db8_0000_0000_0000_0000_0000_0001,
                0x2001_0db8_0000_0001_0000_0000_0000_0002,
                0xfe80_0000_0000_0000_0000_00ff_fe00_0001,
                0xff02_0000_0000_0000_0000_0001_ff00_0001,
            ],
        )
    }
    pub(crate) fn port(rng: &mut Rng) -> u16 {
        *pick(rng, &[0, 53, 80, 443, 1024, 40_000, 65_535])
    }
    pub(crate) fn label(rng: &mut Rng) -> u32 {
        *pick(rng, &[0, 2, 16, 100, 0xf_ffff])
    }
    pub(crate) fn ttl(rng: &mut Rng) -> u8 {
        *pick(rng, &[0, 1, 2, 64, 255])
    }
    pub(crate) fn tos(rng: &mut Rng) -> u8 {
        *pick(rng, &[0, 0x20, 0x48, 0x03, 0xb9])
    }
    pub(crate) fn flow_label(rng: &mut Rng) -> u32 {
        *pick(rng, &[0, 1, 0x12345, 0xfffff])
    }
}

pub(crate) fn pick<'a, T>(rng: &mut Rng, of: &'a [T]) -> &'a T {
    &of[rng.usize(..of.len())]
}

/// One chance in so many.
pub(crate) fn one_in(rng: &mut Rng, of: u32) -> bool {
    rng.u32(..of) == 0
}

fn sum(bytes: &[u8]) -> u32 {
    let pairs = bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or_default()));
    pairs.sum()
}

fn fold(mut sum: u32) -> u16 {
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// A packet.
///
/// Without a length in the type's place where labels are added: Open vSwitch writes a type over it.
pub(crate) fn random(rng: &mut Rng, lengths: bool) -> Vec<u8> {
    let mut packet = Vec::new();
    packet.extend_from_slice(&Values::mac(rng).to_be_bytes()[2..]);
    packet.extend_from_slice(&Values::mac(rng).to_be_bytes()[2..]);
    let tags = *pick(rng, &[0, 0, 0, 1, 1, 2]);
    for tag in 0..tags {
        let kind: u16 = if tag == 0 && tags == 2 { *pick(rng, &[0x88a8, 0x8100]) } else { 0x8100 };
        packet.extend_from_slice(&kind.to_be_bytes());
        // Bit 12, "drop eligible", is lost in Open vSwitch when it sets the priority.
        let tci = Values::vlan(rng) | rng.u16(..8) << 13;
        packet.extend_from_slice(&tci.to_be_bytes());
    }
    let payload = network(rng, &mut packet, lengths);
    packet.extend_from_slice(&payload);
    if one_in(rng, 25) {
        packet.truncate(rng.usize(14..packet.len().max(15)));
    }
    if one_in(rng, 25) && packet.len() > 14 {
        // Without the fragment fields, of which Open vSwitch spoils bytes.
        let at = if packet.len() > 50 && rng.bool() {
            rng.usize(50..packet.len())
        } else {
            rng.usize(12..18.min(packet.len()))
        };
        packet[at] ^= 1 << rng.u32(..8);
        if matches!(packet[12..14], [0x81 | 0x88, _]) {
            packet[14] &= 0xef;
        }
    }
    // Ethernet's least, with bytes behind IP's length.
    if packet.len() < 60 {
        packet.resize(60, 0x55);
    }
    packet
}

/// Returns the bytes behind Ethernet's addresses and tags, and appends their type to these.
fn network(rng: &mut Rng, packet: &mut Vec<u8>, lengths: bool) -> Vec<u8> {
    let kind = rng.u32(..if lengths { 20 } else { 19 });
    let (kind, bytes): (u16, Vec<u8>) = match kind {
        0..8 => (0x0800, ipv4(rng)),
        8..13 => (0x86dd, ipv6(rng)),
        13..15 => (0x0806, arp(rng)),
        15..18 => {
            let mut bytes = Vec::new();
            let labels = rng.u32(1..=2);
            for label in 1..=labels {
                let bottom = u32::from(label == labels) << 8;
                let entry = Values::label(rng) << 12
                    | rng.u32(..8) << 9
                    | bottom
                    | u32::from(Values::ttl(rng));
                bytes.extend_from_slice(&entry.to_be_bytes());
            }
            bytes.extend(match rng.u32(..3) {
                0 => ipv4(rng),
                1 => ipv6(rng),
                _ => arp(rng),
            });
            (*pick(rng, &[0x8847, 0x8847, 0x8848]), bytes)
        }
        18 => (*pick(rng, &[0x88cc, 0x9000, 0x8809]), data(rng)),
        // A length, and a header of 802.2, with SNAP or without.
        _ => {
            let mut bytes =
                if rng.bool() { vec![0xaa, 0xaa, 3, 0, 0, 0, 8, 0] } else { vec![0x42, 0x42, 3] };
            bytes.extend(if rng.bool() { ipv4(rng) } else { data(rng) });
            (bytes.len() as u16, bytes)
        }
    };
    packet.extend_from_slice(&kind.to_be_bytes());
    bytes
}

fn data(rng: &mut Rng) -> Vec<u8> {
    let length = *pick(rng, &[0, 1, 8, 46, 200]);
    (0..length).map(|_| rng.u8(..)).collect()
}

fn arp(rng: &mut Rng) -> Vec<u8> {
    let mut bytes = vec![0, 1, 8, 0, 6, 4, 0, *pick(rng, &[1, 2, 3])];
    for _ in 0..2 {
        bytes.extend_from_slice(&Values::mac(rng).to_be_bytes()[2..]);
        bytes.extend_from_slice(&Values::ipv4(rng).to_be_bytes());
    }
    bytes
}

fn ipv4(rng: &mut Rng) -> Vec<u8> {
    let (source, destination) = (Values::ipv4(rng), Values::ipv4(rng));
    let options = if one_in(rng, 8) { vec![7, 4, 4, 0, 1, 1, 1, 0] } else { Vec::new() };
    let pseudo = sum(&source.to_be_bytes()) + sum(&destination.to_be_bytes());
    let (protocol, mut body) = transport(rng, pseudo, false);
    let fragment: u16 = match rng.u32(..12) {
        0 => 0x2000,
        1 => 0x2000 | rng.u16(1..100),
        2 => rng.u16(1..100),
        3 => 0x4000,
        _ => 0,
    };
    if fragment & 0x1fff != 0 || fragment == 0x2000 && protocol == 132 {
        // Open vSwitch updates a checksum in it that is none, if it is long enough; so it does with
        // that of SCTP where a part of the bytes that it covers is missing.
        body.truncate(7);
    }
    let mut header = vec![0x45 + options.len() as u8 / 4, Values::tos(rng)];
    header.extend_from_slice(&((20 + options.len() + body.len()) as u16).to_be_bytes());
    header.extend_from_slice(&rng.u16(..).to_be_bytes());
    header.extend_from_slice(&fragment.to_be_bytes());
    header.extend_from_slice(&[Values::ttl(rng), protocol, 0, 0]);
    header.extend_from_slice(&source.to_be_bytes());
    header.extend_from_slice(&destination.to_be_bytes());
    header.extend_from_slice(&options);
    let check = fold(sum(&header));
    header[10..12].copy_from_slice(&check.to_be_bytes());
    header.extend(body);
    header
}

fn ipv6(rng: &mut Rng) -> Vec<u8> {
    let (source, destination) = (Values::ipv6(rng), Values::ipv6(rng));
    let pseudo = sum(&source.to_be_bytes()) + sum(&destination.to_be_bytes());
    let (protocol, mut body) = transport(rng, pseudo, true);
    // The last first.
    let (mut next, mut extensions) = (protocol, Vec::<u8>::new());
    for kind in [44_u8, 43, 60, 0] {
        if !one_in(rng, 8) {
            continue;
        }
        let mut header = vec![next, 0];
        match kind {
            44 => {
                let fragment: u16 = *pick(rng, &[1, 8, 9, 801]);
                // Open vSwitch mends no checksum behind this header.
                body.truncate(7);
                header.extend_from_slice(&fragment.to_be_bytes());
                header.extend_from_slice(&rng.u32(..).to_be_bytes());
            }
            43 => header.extend_from_slice(&[0, 0, 0, 0, 0, 0]),
            _ => header.extend_from_slice(&[1, 4, 0, 0, 0, 0]),
        }
        header.extend(extensions);
        (extensions, next) = (header, kind);
    }
    let first = 6 << 28 | u32::from(Values::tos(rng)) << 20 | Values::flow_label(rng);
    let mut header = first.to_be_bytes().to_vec();
    header.extend_from_slice(&((extensions.len() + body.len()) as u16).to_be_bytes());
    header.extend_from_slice(&[next, Values::ttl(rng)]);
    header.extend_from_slice(&source.to_be_bytes());
    header.extend_from_slice(&destination.to_be_bytes());
    header.extend(extensions);
    header.extend(body);
    header
}

/// Returns a protocol and its bytes; the checksum's pseudo header has the sum `addresses`.
fn transport(rng: &mut Rng, addresses: u32, six: bool) -> (u8, Vec<u8>) {
    let ports = |rng: &mut Rng| {
        let (source, destination) = (Values::port(rng), Values::port(rng));
        [source.to_be_bytes(), destination.to_be_bytes()].concat()
    };
    let (protocol, mut body, check) = match rng.u32(..10) {
        0..4 => {
            let mut body = ports(rng);
            body.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 2, 0x50, *pick(rng, &[2, 16, 17, 4])]);
            body.extend_from_slice(&[0x10, 0, 0, 0, 0, 0]);
            (6, body, Some(16))
        }
        4..7 => {
            let mut body = ports(rng);
            body.extend_from_slice(&[0; 4]);
            // Without a checksum, now and then.
            (17, body, (six || !one_in(rng, 5)).then_some(6))
        }
        7 => {
            let mut body = ports(rng);
            body.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 0, 0, 3, 0, 8, 1, 2, 3, 4]);
            (132, body, None)
        }
        8 if six => {
            let mut body = vec![*pick(rng, &[128, 129, 135, 136]), 0, 0, 0, 0, 0, 0, 0];
            if body[0] >= 135 {
                body.extend_from_slice(&Values::ipv6(rng).to_be_bytes());
                let options: &[u8] = match body[0] {
                    _ if one_in(rng, 4) => &[],
                    135 => &[1],
                    _ => &[2],
                };
                for option in options {
                    body.extend_from_slice(&[*option, 1]);
                    body.extend_from_slice(&Values::mac(rng).to_be_bytes()[2..]);
                }
                let check = fold(sum(&body) + addresses + 58 + body.len() as u32);
                body[2..4].copy_from_slice(&check.to_be_bytes());
                return (58, body);
            }
            (58, body, Some(2))
        }
        8 => (1, vec![*pick(rng, &[0, 8, 3]), *pick(rng, &[0, 1]), 0, 0, 0, 1, 0, 1], Some(2)),
        _ => (*pick(rng, &[2, 47, 50, 89, 255]), data(rng), None),
    };
    body.extend(data(rng));
    if protocol == 17 {
        let length = body.len() as u16;
        body[4..6].copy_from_slice(&length.to_be_bytes());
    }
    if let Some(at) = check {
        let pseudo = match protocol {
            1 => 0,
            _ => addresses + u32::from(protocol) + body.len() as u32,
        };
        let check = match fold(sum(&body) + pseudo) {
            0 if protocol == 17 => 0xffff,
            check => check,
        };
        body[at..at + 2].copy_from_slice(&check.to_be_bytes());
    }
    if protocol == 132 {
        let check = crc32c(&body);
        body[8..12].copy_from_slice(&check.to_le_bytes());
    }
    (protocol, body)
}

/// Computes the checksum of SCTP, with its own place as zero.
fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for (at, byte) in bytes.iter().enumerate() {
        crc ^= if (8..12).contains(&at) { 0 } else { u32::from(*byte) };
        for _ in 0..8 {
            crc = crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
        }
    }
    !crc
}
