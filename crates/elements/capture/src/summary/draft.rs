//! Packet under construction from a line of a dump.
//!
//! Fields that a line lacks are zero, but for a valid IP header, a time to live of 100 and a TCP
//! header of 20 bytes.

use std::net::Ipv4Addr;

use linerate_memory::{HeaderStart, PacketMut};

use super::{
    proto,
    view::{u16_at, u32_at},
};
use linerate_element_support::annotations;

/// Longest packet made.
const LIMIT: usize = 65_535;

/// Default addresses and ports of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flow {
    pub(crate) addresses: [Ipv4Addr; 2],
    pub(crate) ports: [u16; 2],
}

/// A packet being made.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub(crate) bytes: Vec<u8>,
    /// Whether it begins with an Ethernet header.
    pub(super) ethernet: bool,
    /// Offset of the network header.
    pub(super) network: Option<usize>,
    /// Length of the network header.
    pub(super) header: usize,
    /// Whether it is an IP packet, as far as is known.
    pub(super) is_ip: bool,
    pub(super) has_icmp_type: bool,
    pub(super) has_icmp_code: bool,
    /// Whether the line has the length of the headers.
    pub(super) has_ip_length: bool,
    pub(super) has_tcp_length: bool,
    /// Wanted length of the packet; zero when the line has none.
    pub(super) want: usize,
    /// Whether it has become too long to be one.
    failed: bool,
    pub(super) default_protocol: u8,
    pub(super) flow: Option<Flow>,
    /// Minor version of the dump.
    pub(super) minor: u32,
    pub(crate) time: u64,
    pub(super) first_time: u64,
    pub(crate) extra_packets: u32,
    /// Bytes it has beyond those made.
    pub(crate) extra_length: u32,
    pub(super) paint: u8,
    pub(super) aggregate: u32,
}

impl Draft {
    /// Begins with another packet.
    pub(crate) fn begin(&mut self, protocol: u8, flow: Option<Flow>, minor: u32) {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        *self = Draft {
            bytes,
            is_ip: true,
            default_protocol: protocol,
            flow,
            minor,
            ..Draft::default()
        };
    }

    /// Adds `count` zero bytes at the end.
    pub(super) fn grow(&mut self, count: usize) {
        if self.bytes.len() + count > LIMIT {
            self.failed = true;
        } else {
            self.bytes.resize(self.bytes.len() + count, 0);
        }
    }

    /// Puts `count` zero bytes in at `at`.
    pub(super) fn insert(&mut self, at: usize, count: usize) {
        let at = at.min(self.bytes.len());
        if self.bytes.len() + count > LIMIT {
            self.failed = true;
        } else {
            self.bytes.splice(at..at, std::iter::repeat_n(0, count));
        }
    }

    /// Overwrites bytes as far as they are there.
    pub(super) fn set(&mut self, at: usize, bytes: &[u8]) {
        if let Some(to) = self.bytes.get_mut(at..at + bytes.len()) {
            to.copy_from_slice(bytes);
        }
    }

    pub(super) fn ip(&self) -> &[u8] {
        self.network.and_then(|at| self.bytes.get(at..)).unwrap_or_default()
    }

    /// A byte of the IP header, zero when it is not there.
    pub(super) fn ip_byte(&self, at: usize) -> u8 {
        self.ip().get(at).copied().unwrap_or(0)
    }

    pub(super) fn transport_start(&self) -> usize {
        self.network.unwrap_or(0) + self.header
    }

    pub(super) fn transport(&self) -> &[u8] {
        self.bytes.get(self.transport_start()..).unwrap_or_default()
    }

    pub(super) fn is_first_fragment(&self) -> bool {
        u16_at(self.ip(), 6) & 0x1fff == 0
    }

    /// Makes sure of an IP header. `false` when it is no IP packet, or not of
    /// that protocol where one is given.
    pub(super) fn make_ip(&mut self, protocol: u8) -> bool {
        if !self.is_ip {
            return false;
        }
        let network = *self.network.get_or_insert(0);
        if self.bytes.len() < network + 20 {
            self.grow(network + 20 - self.bytes.len());
            self.header = 20;
            self.set(network, &[0x45]);
            self.set(network + 8, &[100, self.default_protocol]);
            if let Some(flow) = self.flow {
                let [source, destination] = flow.addresses.map(|address| address.octets());
                self.set(network + 12, &source);
                self.set(network + 16, &destination);
            }
        }
        protocol == 0 || matches!(self.ip_byte(9), found if found == 0 || found == protocol)
    }

    /// Makes sure of the header behind that of IP. `false` when there is none.
    pub(super) fn make_transport(&mut self) -> bool {
        if !self.is_first_fragment() {
            return false;
        }
        let start = self.transport_start();
        let have = self.transport().len();
        if have >= 8 {
            return true;
        }
        let protocol = self.ip_byte(9);
        let whole = match protocol {
            proto::TCP => 20,
            proto::UDP | proto::UDP_LITE | proto::ICMP => 8,
            proto::DCCP => 12,
            _ => return true,
        };
        let length = match self.want {
            0 => whole,
            want => whole.min(want.saturating_sub(start)),
        };
        if have < length {
            self.grow(length - have);
            if protocol == proto::TCP {
                self.set(start + 12, &[5 << 4]);
            }
            if let Some(flow) = self.flow {
                self.set(start, &flow.ports[0].to_be_bytes());
                self.set(start + 2, &flow.ports[1].to_be_bytes());
            }
        }
        true
    }

    /// Completes the packet. With `checksum` it gets all its bytes and correct
    /// checksums. `false` when it became too long.
    pub(crate) fn finish(&mut self, checksum: bool) -> bool {
        if self.flow.is_some() {
            self.make_ip(0);
        }
        if self.is_ip && self.network.is_some() && self.make_ip(0) {
            self.make_transport();
            self.finish_ip(checksum);
        }
        if self.want > self.bytes.len() {
            self.extra_length = (self.want - self.bytes.len()) as u32;
        }
        !self.failed
    }

    fn finish_ip(&mut self, checksum: bool) {
        let network = self.network.unwrap_or(0);
        let here = self.bytes.len() - network;
        let mut length = usize::from(u16_at(self.ip(), 2));
        if length == 0 {
            length = match self.want.checked_sub(network).unwrap_or(self.want).min(0xffff) {
                0 => here.min(0xffff),
                length => length,
            };
            self.set(network + 2, &(length as u16).to_be_bytes());
        }
        let start = self.transport_start();
        let is_udp = self.ip_byte(9) == proto::UDP && self.is_first_fragment();
        if is_udp && u16_at(self.transport(), 4) == 0 {
            // Of a length that is too small, garbage: as Click has it.
            let length = (length as u16).wrapping_sub(self.header as u16);
            self.set(start + 4, &length.to_be_bytes());
        }
        if checksum {
            self.grow(length.saturating_sub(here));
            self.set_checksums();
        }
    }

    fn set_checksums(&mut self) {
        let network = self.network.unwrap_or(0);
        let start = self.transport_start();
        self.set(network + 10, &[0, 0]);
        let header = usize::from(self.ip_byte(0) & 15) * 4;
        let sum = checksum(0, self.ip().get(..header).unwrap_or_default());
        self.set(network + 10, &sum.to_be_bytes());
        if u16_at(self.ip(), 6) & 0x3fff != 0 {
            return;
        }
        let protocol = self.ip_byte(9);
        let at = match protocol {
            proto::TCP => 16,
            proto::UDP => 6,
            proto::ICMP => 2,
            _ => return,
        };
        self.set(start + at, &[0, 0]);
        let transport = self.transport();
        let pseudo = match protocol {
            proto::ICMP => 0,
            _ => {
                let source = u32_at(self.ip(), 12);
                let halves = [source, self.final_destination()]
                    .map(|address| u64::from(address >> 16) + u64::from(address & 0xffff));
                halves[0] + halves[1] + u64::from(protocol) + transport.len() as u64
            }
        };
        let sum = checksum(pseudo, transport);
        self.set(start + at, &sum.to_be_bytes());
    }

    /// The address the packet gets to in the end: the last of a source route
    /// that is not used up.
    fn final_destination(&self) -> u32 {
        let header = usize::from(self.ip_byte(0) & 15) * 4;
        let mut rest = self.ip().get(20..header).unwrap_or_default();
        while let [kind, behind @ ..] = rest {
            let length = match (*kind, behind) {
                (0, _) | (_, []) => break,
                (1, _) => 1,
                (_, [length, ..]) => usize::from(*length),
            };
            let Some(option) = rest.get(..length).filter(|option| !option.is_empty()) else {
                break;
            };
            if let [131 | 137, _, pointer, .., a, b, c, d] = *option
                && usize::from(pointer) < length
            {
                return u32::from_be_bytes([a, b, c, d]);
            }
            rest = &rest[length..];
        }
        u32_at(self.ip(), 16)
    }

    /// Sets the annotations of the packet, `shown` of whose bytes are in it.
    pub(crate) fn annotate(&self, packet: &mut PacketMut<'_>, shown: usize) {
        let headroom = packet.headroom();
        let meta = packet.meta_mut();
        meta.timestamp = self.time;
        meta.paint = self.paint;
        annotations::set_aggregate(meta, self.aggregate);
        annotations::set_extra_packets(meta, self.extra_packets);
        let cut = (self.bytes.len() - shown) as u32;
        annotations::set_extra_length(meta, self.extra_length.saturating_add(cut));
        annotations::set_first_time(meta, self.first_time);
        if let Some(network) = self.network.filter(|_| self.is_ip)
            && shown >= network + 20
        {
            meta.network = HeaderStart::new(headroom, network);
            meta.transport = HeaderStart::new(headroom, (network + self.header).min(shown));
            meta.destination[..4].copy_from_slice(&self.ip()[16..20]);
        }
    }

    /// First time of the packets it stands for.
    pub(crate) fn first_time(&self) -> u64 {
        self.first_time
    }

    /// Sets the IP length, and that of UDP, to `length` bytes from the IP header on.
    pub(crate) fn set_ip_length(&mut self, length: usize) {
        let Some(network) = self.network else { return };
        let length = length.min(0xffff) as u16;
        if u16_at(self.ip(), 2) != length {
            self.set(network + 2, &length.to_be_bytes());
            if self.ip_byte(9) == proto::UDP {
                let length = length.saturating_sub(self.header as u16);
                self.set(self.transport_start() + 4, &length.to_be_bytes());
            }
        }
    }
}

/// The Internet checksum (RFC 1071) of bytes behind others that sum up to
/// `sum`.
fn checksum(sum: u64, bytes: &[u8]) -> u16 {
    let mut pairs = bytes.chunks_exact(2);
    let mut sum = sum + pairs.by_ref().map(|pair| u64::from(u16_at(pair, 0))).sum::<u64>();
    if let [last] = pairs.remainder() {
        sum += u64::from(*last) << 8;
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
