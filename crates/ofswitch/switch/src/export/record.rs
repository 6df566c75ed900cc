//! Flow record: key, counts and times of a flow.

use crate::key::extract::{ARP, Needed, RARP, extract_words};

/// Flow key: packets that agree in all of this are one flow.
///
/// Of IP these are the port they come in by, the tag, addresses, protocol, type of service and
/// ports; of others the port, addresses and type of Ethernet, and the addresses of ARP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tuple {
    words: [u64; 9],
}

/// Collectors of a flow's records, and the place in the switch where it was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Stream {
    /// The set of collectors.
    pub set: u32,
    /// The observation domain.
    pub domain: u32,
    /// The observation point, 0 for none.
    pub point: u32,
}

/// Why a record was made: the numbers of IPFIX's `flowEndReason`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// No packet came for a while.
    Idle = 1,
    /// It is active, and was not exported for a while.
    Active = 2,
    /// TCP ended it.
    End = 3,
    /// The exporter ends.
    Forced = 4,
    /// Its place was wanted for another.
    LackOfResources = 5,
}

/// Record of a flow. Times are nanoseconds of the steady clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowRecord {
    /// Its flow key.
    pub tuple: Tuple,
    /// Its collectors, and its observation point.
    pub stream: Stream,
    /// Packets since the record before.
    pub packets: u64,
    /// Their bytes from the header of IP on, or all behind the header of Ethernet where there is
    /// none.
    pub bytes: u64,
    /// Their bytes with all headers.
    pub frame_bytes: u64,
    /// When the first of these came.
    pub first: u64,
    /// When the last came.
    pub last: u64,
    /// Destination and source of Ethernet, of the first.
    pub addresses: [u64; 2],
    /// The port the first went out by, 0 for none.
    pub out_port: u32,
    /// All flags of TCP.
    pub tcp_flags: u16,
    /// The smallest time to live and the largest.
    pub ttl: [u8; 2],
    /// Reason of the export.
    pub reason: EndReason,
}

/// Contribution of one packet to a record.
#[derive(Debug, Clone, Copy)]
pub(super) struct PacketRecord {
    pub(super) tuple: Tuple,
    pub(super) bytes: u64,
    pub(super) frame_bytes: u64,
    pub(super) addresses: [u64; 2],
    pub(super) tcp_flags: u16,
    pub(super) ttl: u8,
}

impl PacketRecord {
    /// Reads a packet that came in by a port.
    #[inline]
    pub(super) fn read(packet: &[u8], in_port: u32) -> PacketRecord {
        const NEEDED: Needed = Needed::TRANSPORT.and(Needed::WIDE_NETWORK);
        let mut head = [0; 16];
        extract_words(packet, NEEDED, &mut head);
        let kind = head[1] as u16;
        let tag = head[2] as u16;
        let mut words = [0; 9];
        words[0] = u64::from(in_port) << 32 | u64::from(tag) << 16 | u64::from(kind);
        let mut tcp_flags = 0;
        if is_ip(kind) {
            words[2] = head[4];
            // Protocol, type of service, whether it is a fragment but the first.
            words[1] = head[3] & 0xffff_0002_0000_0000;
            words[3] = head[5] & 0xffff_ffff_0000_0000;
            words[4..8].copy_from_slice(&head[6..10]);
            tcp_flags = (head[5] >> 16) as u16;
        } else {
            // Addresses of ARP; the word has other fields for other types.
            if matches!(kind, ARP | RARP) {
                words[2] = head[4];
            }
            words[3] = head[5];
            words[4] = head[1] & !0xffff;
            words[5] = head[2] & !0xffff;
        }
        let frame_bytes = packet.len() as u64;
        let link = if tag == 0 { 14 } else { 18 };
        PacketRecord {
            tuple: Tuple { words },
            bytes: network_bytes(packet, link, kind),
            frame_bytes,
            addresses: [head[1] >> 16, head[2] >> 16],
            tcp_flags,
            ttl: (head[3] >> 40) as u8,
        }
    }
}

const fn is_ip(kind: u16) -> bool {
    kind == 0x0800 || kind == 0x86dd
}

/// Returns the bytes of the IP packet, or else those behind the header of Ethernet.
fn network_bytes(packet: &[u8], link: usize, kind: u16) -> u64 {
    let behind = packet.len().saturating_sub(link) as u64;
    let there = packet.get(link - 2..link) == Some(&kind.to_be_bytes());
    match packet.get(link..).and_then(<[u8]>::first_chunk::<6>) {
        Some(head) if there && kind == 0x0800 => {
            u64::from(u16::from_be_bytes([head[2], head[3]])).min(behind)
        }
        Some(head) if there && kind == 0x86dd => {
            (40 + u64::from(u16::from_be_bytes([head[4], head[5]]))).min(behind)
        }
        _ => behind,
    }
}

impl Tuple {
    /// Adds the number of a stream, which makes it another key.
    pub(super) fn of_stream(mut self, stream: u32) -> Tuple {
        self.words[8] = u64::from(stream);
        self
    }

    /// A number that is likely another for another tuple.
    #[inline]
    pub(super) fn hash(&self) -> u64 {
        // A folded product of each pair of words, as wyhash mixes them.
        const A: u64 = 0xa076_1d64_78bd_642f;
        const B: u64 = 0xe703_7ed1_a0b4_28db;
        let mix = |one: u64, other: u64| {
            let product = u128::from(one) * u128::from(other);
            (product >> 64) as u64 ^ product as u64
        };
        let words = &self.words;
        let mut hash = mix(words[0] ^ A, words[1] ^ B) ^ mix(words[2] ^ B, words[3] ^ A);
        hash ^= mix(words[4] ^ words[6] ^ A, words[5] ^ words[7].rotate_left(17) ^ B);
        mix(hash ^ words[8], A)
    }

    /// The port it comes in by.
    #[must_use]
    pub fn in_port(&self) -> u32 {
        (self.words[0] >> 32) as u32
    }

    /// The type of Ethernet.
    #[must_use]
    pub fn ether_type(&self) -> u16 {
        self.words[0] as u16
    }

    /// Returns the tag's control information with the bit for its presence, or 0.
    #[must_use]
    pub fn vlan_tci(&self) -> u16 {
        (self.words[0] >> 16) as u16
    }

    /// The protocol of IP.
    #[must_use]
    pub fn protocol(&self) -> u8 {
        (self.words[1] >> 56) as u8
    }

    /// The type of service, or the traffic class.
    #[must_use]
    pub fn tos(&self) -> u8 {
        (self.words[1] >> 48) as u8
    }

    /// Returns source and destination of IPv4, or those of ARP.
    #[must_use]
    pub fn ipv4(&self) -> [u32; 2] {
        [(self.words[2] >> 32) as u32, self.words[2] as u32]
    }

    /// Source and destination of IPv6.
    #[must_use]
    pub fn ipv6(&self) -> [u128; 2] {
        let wide = |nth: usize| u128::from(self.words[nth]) << 64 | u128::from(self.words[nth + 1]);
        [wide(4), wide(6)]
    }

    /// Source and destination port; type and code of ICMP.
    #[must_use]
    pub fn ports(&self) -> [u16; 2] {
        [(self.words[3] >> 48) as u16, (self.words[3] >> 32) as u16]
    }
}
