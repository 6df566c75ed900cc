//! Packets of TCP and UDP in tunnels, built by the definitions of their headers, and merged frames
//! of them as the kernel has them: the reference for segmentation and checksums.
//!
//! Everything is written once, from the outside inwards, and summed up by the definition, from the
//! inside outwards: no header is ever changed into that of another packet.

/// TCP's flags of the last segment only.
const FIN_AND_PSH: u8 = 0x09;

/// A header in front of the transport header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of fields say what is there")]
pub enum Head {
    /// Of a frame, or inside of a tunnel.
    Ethernet,
    /// A VLAN tag, behind Ethernet or another one.
    Tag,
    /// A label; the last of them ends the stack.
    Mpls,
    /// IPv4. An atomic packet is not to be fragmented.
    V4 { id: u16, atomic: bool, options: bool },
    /// IPv6, with destination options or without.
    V6 { options: bool },
    /// UDP of a tunnel.
    Udp { checksum: bool },
    /// Behind UDP.
    Vxlan,
    /// Behind UDP, with so many bytes of options, four at a time.
    Geneve { options: usize },
    /// GRE.
    Gre { checksum: bool, key: bool, sequence: bool },
}

use Head::{Ethernet, Geneve, Gre, Mpls, Tag, Udp, V4, V6, Vxlan};

/// A plain IPv4 header. Identifications go round behind it.
pub const IPV4: Head = V4 { id: 0xfffe, atomic: true, options: false };
/// A plain IPv6 header.
pub const IPV6: Head = V6 { options: false };

/// The transport protocol of the innermost IP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Of a stream, with options.
    Tcp,
    /// A datagram.
    Udp,
}

/// A piece of a stream, or a datagram.
#[derive(Debug, Clone, Copy)]
pub struct SegmentPart<'a> {
    /// Its bytes.
    pub payload: &'a [u8],
    /// Index of the piece.
    pub index: u16,
    /// Payload bytes before it.
    pub done: usize,
    /// Whether none follows.
    pub is_last: bool,
}

/// Checksums that are left to the interface: their fields have the sum of the pseudo header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PendingChecksums {
    /// None.
    Nothing,
    /// That of the transport header. Those of tunnels are right once it is computed.
    Transport,
    /// That of the outermost UDP or GRE header.
    Tunnel,
    /// All, as in a merged frame.
    All,
}

/// A packet with these headers.
///
/// # Panics
///
/// When a header cannot be where it is.
#[must_use]
pub fn packet(
    heads: &[Head],
    transport: Transport,
    part: &SegmentPart<'_>,
    undone: PendingChecksums,
) -> Vec<u8> {
    let behind = transport_of(heads);
    let total = behind + header_of(transport) + part.payload.len();
    let mut bytes = Vec::with_capacity(total);
    let mut starts = Vec::new();
    for (at, head) in heads.iter().enumerate() {
        starts.push(bytes.len());
        head.write(&mut bytes, total, heads.get(at + 1).copied(), transport, part.index);
    }
    bytes.extend([0x12, 0x34, 0, 80]);
    match transport {
        Transport::Tcp => {
            let flags = 0x10 | if part.is_last { FIN_AND_PSH } else { 0 };
            bytes.extend(0xffff_ff00_u32.wrapping_add(part.done as u32).to_be_bytes());
            bytes.extend([0, 0, 0, 7, 0x80, flags, 1, 1, 0, 0, 0, 0]);
            bytes.extend([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
        }
        Transport::Udp => {
            bytes.extend(((8 + part.payload.len()) as u16).to_be_bytes());
            bytes.extend([0, 0]);
        }
    }
    bytes.extend(part.payload);

    // From the inside outwards, each over all that is behind it.
    let mut left = Vec::new();
    let mut sum = |bytes: &mut Vec<u8>, field: Field, is_left: bool| {
        let pseudo = field.pseudo(bytes, heads, &starts);
        let whole = [&pseudo[..], &bytes[field.from..]].concat();
        let value = (field.form)(checksum(&whole));
        bytes[field.at..field.at + 2].copy_from_slice(&value.to_be_bytes());
        if is_left {
            left.push((field.at, !checksum(&pseudo)));
        }
    };
    let (protocol, at, form): (u8, usize, fn(u16) -> u16) = match transport {
        Transport::Tcp => (6, behind + 16, |sum| sum),
        Transport::Udp => (17, behind + 6, udp_nonzero),
    };
    let field = Field { from: behind, at, behind: heads.len(), protocol: Some(protocol), form };
    sum(&mut bytes, field, matches!(undone, PendingChecksums::Transport | PendingChecksums::All));
    let outermost = heads.iter().position(|head| head.has_checksum());
    for behind in (0..heads.len()).rev().filter(|at| heads[*at].has_checksum()) {
        let from = starts[behind];
        let field = match heads[behind] {
            Gre { .. } => Field { from, at: from + 4, behind, protocol: None, form: |sum| sum },
            _ => Field { from, at: from + 6, behind, protocol: Some(17), form: udp_nonzero },
        };
        let is_left = undone == PendingChecksums::All
            || (undone == PendingChecksums::Tunnel && outermost == Some(behind));
        sum(&mut bytes, field, is_left);
    }
    for (at, value) in left {
        bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
    }
    bytes
}

/// A checksum field.
struct Field {
    /// Offset of the first byte that it covers.
    from: usize,
    at: usize,
    /// The IP header is before this one.
    behind: usize,
    /// The protocol in its pseudo header, if it has one.
    protocol: Option<u8>,
    form: fn(u16) -> u16,
}

impl Field {
    fn pseudo(&self, bytes: &[u8], heads: &[Head], starts: &[usize]) -> Vec<u8> {
        let Some(protocol) = self.protocol else { return Vec::new() };
        let ip =
            heads[..self.behind].iter().rposition(|head| matches!(head, V4 { .. } | V6 { .. }));
        let start = starts[ip.expect("an IP header")];
        let addresses =
            if bytes[start] >> 4 == 4 { start + 12..start + 20 } else { start + 8..start + 40 };
        let mut pseudo = bytes[addresses].to_vec();
        pseudo.extend([0, protocol]);
        pseudo.extend(((bytes.len() - self.from) as u32).to_be_bytes());
        pseudo
    }
}

/// Returns the offset of the transport header behind these.
#[must_use]
pub fn transport_of(heads: &[Head]) -> usize {
    heads.iter().map(|head| head.length()).sum()
}

/// Bytes of the transport header.
#[must_use]
pub fn header_of(transport: Transport) -> usize {
    match transport {
        Transport::Tcp => 32,
        Transport::Udp => 8,
    }
}

/// The checksum of the Internet (RFC 1071), word by word.
fn checksum(bytes: &[u8]) -> u16 {
    let word = |pair: &[u8]| u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0));
    let mut sum: u64 = bytes.chunks(2).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Zero means that there is none.
fn udp_nonzero(sum: u16) -> u16 {
    if sum == 0 { 0xffff } else { sum }
}

impl Head {
    fn has_checksum(self) -> bool {
        matches!(self, Udp { checksum: true } | Gre { checksum: true, .. })
    }

    fn length(self) -> usize {
        match self {
            Ethernet => 14,
            Tag | Mpls => 4,
            V4 { options, .. } => 20 + if options { 4 } else { 0 },
            V6 { options } => 40 + if options { 8 } else { 0 },
            Udp { .. } | Vxlan => 8,
            Geneve { options } => 8 + options,
            Gre { checksum, key, sequence } => {
                4 + 4 * [checksum, key, sequence].iter().filter(|is| **is).count()
            }
        }
    }

    fn ethertype(self) -> [u8; 2] {
        match self {
            V4 { .. } => [0x08, 0x00],
            V6 { .. } => [0x86, 0xdd],
            Mpls => [0x88, 0x47],
            Tag => [0x81, 0x00],
            Ethernet => [0x65, 0x58],
            other => panic!("{other:?} has no Ethernet type"),
        }
    }

    fn protocol(next: Option<Head>, transport: Transport) -> u8 {
        match next {
            None => match transport {
                Transport::Tcp => 6,
                Transport::Udp => 17,
            },
            Some(V4 { .. }) => 4,
            Some(V6 { .. }) => 41,
            Some(Gre { .. }) => 47,
            Some(Udp { .. }) => 17,
            Some(Mpls) => 137,
            Some(other) => panic!("{other:?} has no protocol number"),
        }
    }

    fn write(
        self,
        to: &mut Vec<u8>,
        total: usize,
        next: Option<Head>,
        transport: Transport,
        index: u16,
    ) {
        let length = total - to.len();
        let half = |length: usize| (length as u16).to_be_bytes();
        let ethertype = || next.map_or([0, 0], Head::ethertype);
        match self {
            Ethernet => {
                to.extend([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
                to.extend(ethertype());
            }
            // Its type is that of the header before it.
            Tag => {
                to.extend([0x00, 0x05]);
                to.extend(ethertype());
            }
            Mpls => to.extend([0, 1, if next == Some(Mpls) { 0x10 } else { 0x11 }, 64]),
            V4 { id, atomic, options } => {
                let start = to.len();
                to.extend([if options { 0x46 } else { 0x45 }, 0]);
                to.extend(half(length));
                let is_fixed = id == 0 && atomic && transport == Transport::Tcp;
                to.extend(if is_fixed { id } else { id.wrapping_add(index) }.to_be_bytes());
                to.extend([
                    if atomic { 0x40 } else { 0 },
                    0,
                    64,
                    Head::protocol(next, transport),
                    0,
                    0,
                ]);
                to.extend([10, 0, start as u8, 1, 10, 0, start as u8, 2]);
                to.extend(if options { &[1, 1, 1, 0][..] } else { &[] });
                let sum = checksum(&to[start..]);
                to[start + 10..start + 12].copy_from_slice(&sum.to_be_bytes());
            }
            V6 { options } => {
                let protocol = Head::protocol(next, transport);
                to.extend([0x60, 0, 0, 0]);
                to.extend(half(length - 40));
                to.extend([if options { 60 } else { protocol }, 64]);
                to.extend([0x20; 32]);
                if options {
                    to.extend([protocol, 0, 1, 4, 0, 0, 0, 0]);
                }
            }
            Udp { .. } => {
                to.extend([0xc0, 0x01, 0x12, 0xb5]);
                to.extend(half(length));
                to.extend([0, 0]);
            }
            Vxlan => to.extend([8, 0, 0, 0, 0, 0, 42, 0]),
            Geneve { options } => {
                to.extend([(options / 4) as u8, 0]);
                to.extend(ethertype());
                to.extend([0, 0, 42, 0]);
                to.extend((0..options).map(|at| if at % 4 == 0 { 0x45 } else { 0x60 }));
            }
            Gre { checksum, key, sequence } => {
                let flags = [(checksum, 0x80), (sequence, 0x10), (key, 0x20)];
                let flags = flags.iter().filter(|(is, _)| *is).fold(0, |all, (_, flag)| all | flag);
                to.extend([flags, 0]);
                to.extend(ethertype());
                to.extend(if checksum { &[0; 4][..] } else { &[] });
                to.extend(if key { &[0, 0, 0, 42][..] } else { &[] });
                to.extend(if sequence { &[0, 0, 0, 7][..] } else { &[] });
            }
        }
    }
}

/// A merged frame as the kernel has it: lengths of the whole, the rest as in the first segment.
#[must_use]
pub fn merged(heads: &[Head], transport: Transport, payload: &[u8]) -> Vec<u8> {
    let part = SegmentPart { payload, index: 0, done: 0, is_last: true };
    packet(heads, transport, &part, PendingChecksums::All)
}

/// The segments that should become of it.
#[must_use]
pub fn pieces(heads: &[Head], transport: Transport, payload: &[u8], size: usize) -> Vec<Vec<u8>> {
    let count = payload.len().div_ceil(size);
    let piece = |(index, chunk): (usize, &[u8])| {
        let part = SegmentPart {
            payload: chunk,
            index: index as u16,
            done: index * size,
            is_last: index + 1 == count,
        };
        packet(heads, transport, &part, PendingChecksums::Nothing)
    };
    payload.chunks(size).enumerate().map(piece).collect()
}

/// Every kind of tunnel the kernel merges packets of, and some it does not.
#[must_use]
pub fn stacks() -> Vec<Vec<Head>> {
    let gre = |checksum, key, sequence| Gre { checksum, key, sequence };
    let plain = V4 { id: 7, atomic: false, options: true };
    let long = V6 { options: true };
    let mut stacks: Vec<Vec<Head>> = vec![
        vec![Ethernet, IPV4],
        vec![Ethernet, IPV6],
        vec![Ethernet, Tag, Tag, plain],
        vec![Ethernet, Mpls, Mpls, IPV4],
        vec![Ethernet, IPV4, IPV4],
        vec![Ethernet, IPV4, IPV6],
        vec![Ethernet, long, plain],
        vec![Ethernet, IPV6, long],
        vec![Ethernet, IPV4, Mpls, IPV6],
        // GRE over UDP, IP over UDP, and one tunnel in another.
        vec![Ethernet, IPV4, Udp { checksum: true }, gre(true, false, false), IPV4],
        vec![Ethernet, IPV4, Udp { checksum: true }, IPV6],
        vec![
            Ethernet,
            IPV6,
            Udp { checksum: true },
            Vxlan,
            Ethernet,
            IPV4,
            gre(true, true, true),
            Ethernet,
            Tag,
            IPV6,
        ],
    ];
    for outer in [IPV4, IPV6, plain, long] {
        for checksum in [false, true] {
            stacks.push(vec![Ethernet, outer, Udp { checksum }, Vxlan, Ethernet, IPV4]);
            stacks.push(vec![Ethernet, Tag, outer, Udp { checksum }, Vxlan, Ethernet, Tag, long]);
            for options in [0, 4, 192, 252] {
                let geneve = Geneve { options };
                stacks.push(vec![
                    Ethernet,
                    outer,
                    Udp { checksum },
                    geneve,
                    Ethernet,
                    Tag,
                    Tag,
                    plain,
                ]);
                stacks.push(vec![Ethernet, outer, Udp { checksum }, geneve, IPV6]);
            }
            for key in [false, true] {
                for sequence in [false, true] {
                    let gre = gre(checksum, key, sequence);
                    stacks.push(vec![Ethernet, outer, gre, IPV4]);
                    stacks.push(vec![Ethernet, outer, gre, IPV6]);
                    stacks.push(vec![Ethernet, outer, gre, Ethernet, Tag, plain]);
                    stacks.push(vec![Ethernet, outer, gre, Mpls, IPV4]);
                }
            }
        }
    }
    stacks
}
