//! `CheckICMPHeader`: passes only packets with a valid ICMP message.

use linerate_graph::{Class, DropReason};
use linerate_packet::{IpProtocol, checksum};

use super::{FAMILY, error_rules::is_error};
use crate::tcpudp::check::{Check, CheckHeader};
use linerate_element_support::ip::{NoHeader, header_length, protocol};

pub(super) const CLASS: Class = Class {
    name: "CheckICMPHeader",
    family: FAMILY,
    summary: "passes packets with a sound ICMP message",
    description: "Checks that the message is as long as its type demands, and the checksum. The \
        IP header must be known and sound (`CheckIPHeader`). Other packets leave by output 1, or \
        are dropped when there is none; the first is reported, each with `VERBOSE`.",
    ports: "1/1-2",
    processing: "a/ah",
    annotates: true,
    drops: Fault::REASONS,
    cost: "Sums up every packet: some cycles for each 32 bytes.",
    example: "FromIPSummaryDump(STOP true, CHECKSUM true, FIELDS ip_src ip_proto, \
        DATA \"1.0.0.1 I\") -> CheckIPHeader -> CheckICMPHeader -> Discard;",
    ..Class::for_element::<CheckHeader<Icmp>>()
};

/// Reasons for which packets are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, DropReason)]
enum Fault {
    /// not ICMP
    #[from(NoHeader)]
    Protocol,
    /// bad packet length
    Length,
    /// bad ICMP checksum
    Checksum,
}

struct Icmp;

impl Check for Icmp {
    const PROTOCOL: &'static str = "ICMP";
    type Fault = Fault;

    fn check(ip: &[u8]) -> Result<(), Fault> {
        check_icmp(ip)
    }
}

fn check_icmp(ip: &[u8]) -> Result<(), Fault> {
    if protocol(ip) != IpProtocol::ICMP {
        return Err(Fault::Protocol);
    }
    let message = &ip[header_length(ip)..];
    let length = message.len();
    let sound = length >= 8
        && match message[0] {
            // They quote an IP header and eight bytes behind it.
            kind if is_error(kind) => length >= 36,
            // Timestamp and its reply, information request and reply.
            13 | 14 => length == 20,
            15 | 16 => length == 8,
            _ => true,
        };
    if !sound {
        return Err(Fault::Length);
    }
    if checksum::verify(message) { Ok(()) } else { Err(Fault::Checksum) }
}
