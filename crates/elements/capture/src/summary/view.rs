//! A packet whose fields are written to a dump.

use std::fmt::Write;

use linerate_memory::Meta;

use super::proto;
use linerate_element_support::annotations;

/// A packet's bytes, and the places of its headers.
pub(crate) struct View<'a> {
    /// All bytes, with the padding of the network.
    pub(super) bytes: &'a [u8],
    pub(super) meta: &'a Meta,
    /// Time of the packet.
    pub(super) time: u64,
    /// Offset of the network header, by the annotation.
    pub(super) network: Option<usize>,
    /// Offset of the transport header, by the annotation; beyond every packet's end when it is in
    /// front of this one, as long as nothing is added to it without wrapping.
    transport_start: Option<usize>,
    /// The IP packet from its header to its end, when the header is sound.
    pub(super) ip: Option<&'a [u8]>,
    /// Bytes behind the IP header, as far as they are there.
    pub(super) transport: &'a [u8],
    /// Likewise for a packet of that protocol that is no later fragment.
    pub(super) tcp: Option<&'a [u8]>,
    pub(super) udp: Option<&'a [u8]>,
    pub(super) icmp: Option<&'a [u8]>,
    /// Bytes behind the end of the IP packet.
    pub(super) tail: usize,
    /// Bytes the packet had that were not captured.
    pub(super) extra: u32,
    /// Packets it stands for.
    pub(super) count: u32,
    /// Set if lengths include bytes that were not captured.
    pub(super) with_extra: bool,
    /// Fault of the packet, if it is to be noted.
    bad: Option<&'a mut String>,
}

/// Options of the dump.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manner {
    /// Packets shorter than their IP length are bad.
    pub(crate) careful: bool,
    /// Lengths include bytes that were not captured.
    pub(crate) with_extra: bool,
    /// There are fields that need to know where headers are.
    pub(crate) headers: bool,
}

/// Header that is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Header {
    Ethernet,
    Ip,
    Tcp,
    Udp,
    Icmp,
    /// TCP or UDP.
    Ports,
}

impl Header {
    fn is(self, protocol: u8) -> bool {
        match self {
            Header::Ethernet | Header::Ip => true,
            Header::Tcp => protocol == proto::TCP,
            Header::Udp => protocol == proto::UDP,
            Header::Icmp => protocol == proto::ICMP,
            Header::Ports => matches!(protocol, proto::TCP | proto::UDP),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Header::Ethernet => "Ethernet",
            Header::Ip => "IP",
            Header::Tcp => "TCP",
            Header::Udp => "UDP",
            Header::Icmp => "ICMP",
            Header::Ports => "TCP/UDP",
        }
    }
}

/// Two bytes at `at`, zero when they are not there.
pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    let found = bytes.get(at..).and_then(|rest| rest.first_chunk());
    found.map_or(0, |bytes| u16::from_be_bytes(*bytes))
}

/// Four bytes at `at`, zero when they are not there.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let found = bytes.get(at..).and_then(|rest| rest.first_chunk());
    found.map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

impl<'a> View<'a> {
    pub(crate) fn new(
        bytes: &'a [u8],
        meta: &'a Meta,
        headroom: usize,
        manner: Manner,
        bad: Option<&'a mut String>,
    ) -> View<'a> {
        let [network, start] = [meta.network, meta.transport].map(|header| header.index(headroom));
        let mut view = View {
            bytes,
            meta,
            time: meta.timestamp,
            network: (network <= bytes.len() && meta.network.is_known()).then_some(network),
            transport_start: meta.transport.is_known().then_some(start),
            ip: None,
            transport: &[],
            tcp: None,
            udp: None,
            icmp: None,
            tail: 0,
            extra: annotations::extra_length(meta),
            count: annotations::extra_packets(meta).saturating_add(1),
            with_extra: manner.with_extra,
            bad,
        };
        if manner.headers {
            view.find_headers(manner.careful);
        }
        view
    }

    /// Notes a fault of the packet, unless there is one already.
    pub(super) fn complain(&mut self, what: std::fmt::Arguments<'_>) {
        if let Some(bad) = &mut self.bad
            && bad.is_empty()
        {
            let _ = writeln!(bad, "!bad {what}");
        }
    }

    fn find_headers(&mut self, careful: bool) {
        let Some(network) = self.network else { return };
        let all = &self.bytes[network..];
        let Some(&[first, _, high, low]) = all.first_chunk() else {
            return self.complain(format_args!("truncated IP header"));
        };
        let (version, words) = (first >> 4, first & 15);
        let header = usize::from(words) * 4;
        let length = usize::from(u16::from_be_bytes([high, low]));
        if version != 4 {
            return self.complain(format_args!("IP version {version}"));
        } else if words < 5 {
            return self.complain(format_args!("IP header length {words}"));
        } else if length < header {
            return self.complain(format_args!("IP length {length}"));
        }
        let mut extra = u64::from(self.extra);
        if all.len() > length {
            self.tail = all.len() - length;
            extra += self.tail as u64;
        } else if careful && (all.len() as u64) + extra < length as u64 {
            let missing = (length - all.len()) as u64 - extra;
            self.complain(format_args!("truncated IP missing {missing}"));
        }
        let ip = &all[..all.len() - self.tail];
        self.ip = Some(ip);
        self.find_transport(ip, header);
        // From here on lengths are told from the IP header, which is only too
        // small for packets longer than it can say.
        let whole = ip.len() as u64 + extra;
        self.extra = match extra {
            0 => 0,
            _ if length == 0xffff && whole > 0xffff => (whole - 0xffff) as u32,
            _ => 0,
        };
    }

    fn find_transport(&mut self, ip: &'a [u8], header: usize) {
        let end = self.bytes.len() - self.tail;
        if let Some(start) = self.transport_start.filter(|start| *start <= end) {
            self.transport = &self.bytes[start..end];
        }
        if ip.len() <= header || !self.is_first_fragment() {
            return;
        }
        match ip.get(9) {
            Some(&proto::TCP) => match self.transport.get(12).map(|byte| byte >> 4) {
                Some(words @ 0..5) => self.complain(format_args!("TCP header length {words}")),
                _ => self.tcp = Some(self.transport),
            },
            Some(&proto::UDP) => self.udp = Some(self.transport),
            Some(&proto::ICMP) => self.icmp = Some(self.transport),
            _ => {}
        }
    }

    /// Length without padding of the network.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.tail
    }

    pub(super) fn is_first_fragment(&self) -> bool {
        self.ip.is_some_and(|ip| u16_at(ip, 6) & 0x1fff == 0)
    }

    /// Says that a header is missing or shorter than `need`. A packet of
    /// another protocol is not bad.
    pub(super) fn missing<T>(&mut self, header: Header, need: usize) -> Option<T> {
        let Some(ip) = self.ip else {
            if header == Header::Ethernet {
                self.complain(format_args!("Ethernet header"));
            } else {
                self.complain(format_args!("no IP header"));
            }
            return None;
        };
        let name = header.name();
        match header {
            Header::Ethernet => self.complain(format_args!("Ethernet header")),
            Header::Ip => self.complain(format_args!("truncated IP header capture")),
            _ if ip.get(9).is_some_and(|protocol| !header.is(*protocol)) => {}
            _ if !self.is_first_fragment() => {
                self.complain(format_args!("fragmented {name} header"));
            }
            _ if self.transport.len() + self.extra as usize >= need => {
                self.complain(format_args!("truncated {name} header capture"));
            }
            _ => self.complain(format_args!("truncated {name} header")),
        }
        None
    }

    /// The IP packet, when at least `need` bytes of it are there.
    pub(super) fn ip(&mut self, need: usize) -> Option<&'a [u8]> {
        match self.ip {
            Some(ip) if ip.len() >= need => Some(ip),
            _ => self.missing(Header::Ip, need),
        }
    }

    pub(super) fn tcp(&mut self, need: usize) -> Option<&'a [u8]> {
        match self.tcp {
            Some(tcp) if tcp.len() >= need => Some(tcp),
            _ => self.missing(Header::Tcp, need),
        }
    }

    pub(super) fn udp(&mut self, need: usize) -> Option<&'a [u8]> {
        match self.udp {
            Some(udp) if udp.len() >= need => Some(udp),
            _ => self.missing(Header::Udp, need),
        }
    }

    pub(super) fn icmp(&mut self, need: usize) -> Option<&'a [u8]> {
        match self.icmp {
            Some(icmp) if icmp.len() >= need => Some(icmp),
            _ => self.missing(Header::Icmp, need),
        }
    }

    /// The Ethernet header in front of the network header.
    pub(super) fn ethernet(&mut self) -> Option<&'a [u8; 14]> {
        let header = self.bytes.first_chunk();
        match (header, self.network.unwrap_or(self.bytes.len())) {
            (Some(header), 14) => Some(header),
            _ => self.missing(Header::Ethernet, 0),
        }
    }

    /// Returns the most likely offset of the payload, which may be behind the end, and its most
    /// likely length.
    pub(super) fn payload(&self) -> (usize, u32) {
        let (Some(ip), Some(network)) = (self.ip, self.network) else {
            return (0, self.len() as u32);
        };
        let header = usize::from(ip[0] & 15) * 4;
        let mut start = self.transport_start.unwrap_or(network + header);
        if self.is_first_fragment() {
            let header = match ip.get(9) {
                Some(&proto::TCP) => match self.transport.get(12) {
                    Some(offset) if offset >> 4 >= 5 => usize::from(offset >> 4) * 4,
                    _ => 20,
                },
                Some(&(proto::UDP | proto::UDP_LITE)) => 8,
                _ => 0,
            };
            // Out of the room in front of the packet, where it may begin.
            start = start.wrapping_add(header);
        }
        let length = u32::from(u16_at(ip, 2)).wrapping_sub((start.saturating_sub(network)) as u32);
        (start, length)
    }

    /// Returns the payload, as far as it is there.
    pub(super) fn payload_bytes(&self) -> Option<&'a [u8]> {
        let (start, length) = self.payload();
        if length != 0 && start >= self.bytes.len() {
            return None;
        }
        let end = start.saturating_add(length as usize).min(self.len());
        Some(self.bytes.get(start..end).unwrap_or_default())
    }
}
