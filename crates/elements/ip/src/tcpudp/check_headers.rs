//! `CheckTCPHeader`, `CheckUDPHeader`: pass only packets with a valid header.

use linerate_graph::{Class, DropReason};
use linerate_packet::IpProtocol;

use super::{
    FAMILY,
    check::{Check, CheckHeader},
    set_checksum::{plain_datagram, pseudo_header},
};
use linerate_element_support::ip::{LEAST, NoHeader, TOTAL_LENGTH, get16, header_length, protocol};

pub(super) const TCP: Class = Class {
    name: "CheckTCPHeader",
    family: FAMILY,
    summary: "passes packets with a sound TCP header",
    description: "Checks lengths and the checksum. The IP header must be known and sound \
        (`CheckIPHeader`). Other packets leave by output 1, or are dropped when there is none; \
        the first is reported, each with `VERBOSE`.",
    ports: "1/1-2",
    processing: "a/ah",
    annotates: true,
    drops: TcpFault::REASONS,
    cost: "Sums up every packet: some cycles for each 32 bytes.",
    example: "FromIPSummaryDump(STOP true, CHECKSUM true, FIELDS ip_src sport ip_proto, \
        DATA \"1.0.0.1 5 T\") -> CheckIPHeader -> CheckTCPHeader -> Discard;",
    ..Class::for_element::<CheckHeader<Tcp>>()
};

pub(super) const UDP: Class = Class {
    name: "CheckUDPHeader",
    summary: "passes packets with a sound UDP header",
    description: "Checks the length, and the checksum where there is one. The IP header must be \
        known and sound (`CheckIPHeader`). Other packets leave by output 1, or are dropped when \
        there is none; the first is reported, each with `VERBOSE`.",
    drops: UdpFault::REASONS,
    example: "FromIPSummaryDump(STOP true, CHECKSUM true, FIELDS ip_src sport ip_proto, \
        DATA \"1.0.0.1 5 U\") -> CheckIPHeader -> CheckUDPHeader -> Discard;",
    make: Class::for_element::<CheckHeader<Udp>>().make,
    ..TCP
};

/// Drop reason of `CheckTCPHeader`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, DropReason)]
enum TcpFault {
    /// not TCP
    #[from(NoHeader)]
    Protocol,
    /// bad packet length
    Length,
    /// bad TCP checksum
    Checksum,
}

struct Tcp;

impl Check for Tcp {
    const PROTOCOL: &'static str = "TCP";
    type Fault = TcpFault;

    fn check(ip: &[u8]) -> Result<(), TcpFault> {
        check_tcp(ip)
    }
}

/// Drop reason of `CheckUDPHeader`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, DropReason)]
enum UdpFault {
    /// not UDP
    #[from(NoHeader)]
    Protocol,
    /// bad packet length
    Length,
    /// bad UDP checksum
    Checksum,
}

struct Udp;

impl Check for Udp {
    const PROTOCOL: &'static str = "UDP";
    const NAMES_ITSELF: bool = false;
    type Fault = UdpFault;

    fn check(ip: &[u8]) -> Result<(), UdpFault> {
        check_udp(ip)
    }
}

fn check_tcp(ip: &[u8]) -> Result<(), TcpFault> {
    if protocol(ip) != IpProtocol::TCP {
        return Err(TcpFault::Protocol);
    }
    let start = header_length(ip);
    let segment = ip.get(start..usize::from(get16(ip, TOTAL_LENGTH))).ok_or(TcpFault::Length)?;
    let header = segment.get(12).map_or(0, |byte| usize::from(byte >> 4) * 4);
    if header < 20 || segment.len() < header {
        return Err(TcpFault::Length);
    }
    let mut sum = pseudo_header(ip, segment.len());
    sum.add_bytes(segment);
    if sum.is_valid() { Ok(()) } else { Err(TcpFault::Checksum) }
}

#[inline]
fn check_udp(ip: &[u8]) -> Result<(), UdpFault> {
    if protocol(ip) != IpProtocol::UDP {
        return Err(UdpFault::Protocol);
    }
    let Some((datagram, mut sum)) = plain_datagram(ip) else { return check_unusual_udp(ip) };
    if get16(ip, LEAST + 6) == 0 {
        return Ok(());
    }
    sum.add_bytes(datagram);
    if sum.is_valid() { Ok(()) } else { Err(UdpFault::Checksum) }
}

/// Likewise for a datagram behind options, or one with a wrong length field.
#[cold]
fn check_unusual_udp(ip: &[u8]) -> Result<(), UdpFault> {
    let start = header_length(ip);
    let length = usize::from(get16(ip, start + 4));
    let datagram = ip.get(start..start + length).filter(|datagram| datagram.len() >= 8);
    let datagram = datagram.ok_or(UdpFault::Length)?;
    if get16(datagram, 6) == 0 {
        return Ok(());
    }
    let mut sum = pseudo_header(ip, length);
    sum.add_bytes(datagram);
    if sum.is_valid() { Ok(()) } else { Err(UdpFault::Checksum) }
}
