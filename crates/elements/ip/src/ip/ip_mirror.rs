//! `IPMirror`: sends packets back to where they came from.

use linerate_graph::{Arguments, Class, Step, Verdict, Writes};
use linerate_memory::PacketMut;
use linerate_packet::IpProtocol;

use super::FAMILY;
use linerate_element_support::ip::{
    DESTINATION, HeaderReason, SOURCE, get_four, get16, header_length, is_first_fragment, known,
    protocol, put16,
};

pub(super) const CLASS: Class = Class {
    name: "IPMirror",
    family: FAMILY,
    summary: "exchanges source and destination",
    description: "Of the IP header, and the ports of TCP and UDP; also sequence and \
        acknowledgement numbers of TCP. No checksum changes by that. The new destination becomes \
        the destination annotation unless `DST_ANNO` is false. The IP header must be known and \
        sound (`CheckIPHeader`).",
    ports: "1/1",
    annotates: true,
    cost: "One pass over the packets' headers.",
    example: "FromIPSummaryDump(STOP true, FIELDS ip_src ip_proto, DATA \"1.0.0.1 U\") \
        -> CheckIPHeader -> IPMirror -> Discard;",
    ..IpMirror::CLASS
};

#[derive(Arguments)]
struct IpMirror {
    /// whether the annotation is set
    #[arg(optional, default = true)]
    dst_anno: bool,
}

fn mirror(ip: &mut [u8]) {
    let (source, destination) = (get_four(ip, SOURCE), get_four(ip, DESTINATION));
    ip[SOURCE..SOURCE + 4].copy_from_slice(&destination);
    ip[DESTINATION..DESTINATION + 4].copy_from_slice(&source);
    let protocol = protocol(ip);
    if !matches!(protocol, IpProtocol::TCP | IpProtocol::UDP) || !is_first_fragment(ip) {
        return;
    }
    let start = header_length(ip);
    let transport = &mut ip[start..];
    if transport.len() < 8 {
        return;
    }
    let (from, to) = (get16(transport, 0), get16(transport, 2));
    put16(transport, 0, to);
    put16(transport, 2, from);
    if let (IpProtocol::TCP, Some(numbers)) = (protocol, transport.get_mut(4..12)) {
        numbers.rotate_left(4);
    }
}

impl Step<Writes, HeaderReason> for IpMirror {
    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict<HeaderReason> {
        let (ip, meta) = known(packet)?;
        mirror(ip);
        if self.dst_anno {
            meta.destination[..4].copy_from_slice(&get_four(ip, DESTINATION));
        }
        Ok(())
    }
}
