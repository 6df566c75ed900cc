//! `CheckTCPHeader`, `CheckUDPHeader`: pass only packets with a valid header.

use linerate_graph::Class;
use linerate_packet::IpProtocol;

use super::{
    FAMILY,
    check::{Check, CheckHeader, Fault},
    set_checksum::{plain_datagram, pseudo_header},
};
use linerate_kit::ip::{LEAST, TOTAL_LENGTH, get16, header_length, protocol};

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
    drops: &Tcp::REASONS,
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
    drops: &Udp::REASONS,
    example: "FromIPSummaryDump(STOP true, CHECKSUM true, FIELDS ip_src sport ip_proto, \
        DATA \"1.0.0.1 5 U\") -> CheckIPHeader -> CheckUDPHeader -> Discard;",
    make: Class::for_element::<CheckHeader<Udp>>().make,
    ..TCP
};

struct Tcp;

impl Check for Tcp {
    const PROTOCOL: &'static str = "TCP";
    const REASONS: [&'static str; 3] = ["not TCP", "bad packet length", "bad TCP checksum"];

    fn check(ip: &[u8]) -> Result<(), Fault> {
        check_tcp(ip)
    }
}

struct Udp;

impl Check for Udp {
    const PROTOCOL: &'static str = "UDP";
    const NAMES_ITSELF: bool = false;
    const REASONS: [&'static str; 3] = ["not UDP", "bad packet length", "bad UDP checksum"];

    fn check(ip: &[u8]) -> Result<(), Fault> {
        check_udp(ip)
    }
}

fn check_tcp(ip: &[u8]) -> Result<(), Fault> {
    if protocol(ip) != IpProtocol::TCP {
        return Err(Fault::Protocol);
    }
    let start = header_length(ip);
    let segment = ip.get(start..usize::from(get16(ip, TOTAL_LENGTH))).ok_or(Fault::Length)?;
    let header = segment.get(12).map_or(0, |byte| usize::from(byte >> 4) * 4);
    if header < 20 || segment.len() < header {
        return Err(Fault::Length);
    }
    let mut sum = pseudo_header(ip, segment.len());
    sum.add_bytes(segment);
    if sum.is_valid() { Ok(()) } else { Err(Fault::Checksum) }
}

#[inline]
fn check_udp(ip: &[u8]) -> Result<(), Fault> {
    if protocol(ip) != IpProtocol::UDP {
        return Err(Fault::Protocol);
    }
    let Some((datagram, mut sum)) = plain_datagram(ip) else { return check_unusual_udp(ip) };
    if get16(ip, LEAST + 6) == 0 {
        return Ok(());
    }
    sum.add_bytes(datagram);
    if sum.is_valid() { Ok(()) } else { Err(Fault::Checksum) }
}

/// Likewise for a datagram behind options, or one with a wrong length field.
#[cold]
fn check_unusual_udp(ip: &[u8]) -> Result<(), Fault> {
    let start = header_length(ip);
    let length = usize::from(get16(ip, start + 4));
    let datagram = ip.get(start..start + length).filter(|datagram| datagram.len() >= 8);
    let datagram = datagram.ok_or(Fault::Length)?;
    if get16(datagram, 6) == 0 {
        return Ok(());
    }
    let mut sum = pseudo_header(ip, length);
    sum.add_bytes(datagram);
    if sum.is_valid() { Ok(()) } else { Err(Fault::Checksum) }
}
