//! `IPMirror`: sends packets back to where they came from.

use linerate_graph::{Arg, Class, Context, Element};
use linerate_memory::{Frame, Slot};
use linerate_packet::IpProtocol;

use super::FAMILY;
use linerate_kit::ip::{
    DESTINATION, DROPS, SOURCE, edit, get_four, get16, header_length, is_first_fragment, protocol,
    put16,
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
    args: &[Arg::optional("DST_ANNO", "bool", "true", "whether the annotation is set")],
    annotates: true,
    drops: DROPS,
    cost: "One pass over the packets' headers.",
    example: "FromIPSummaryDump(STOP true, FIELDS ip_src ip_proto, DATA \"1.0.0.1 U\") \
        -> CheckIPHeader -> IPMirror -> Discard;",
    make: |make| Box::new(IpMirror { annotate: make.or("DST_ANNO", true), failed: Vec::new() }),
    ..Class::EMPTY
};

struct IpMirror {
    annotate: bool,
    failed: Vec<Slot>,
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

impl Element for IpMirror {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let annotate = self.annotate;
        edit(cx, frame, &mut self.failed, |ip, meta| {
            mirror(ip);
            if annotate {
                meta.destination[..4].copy_from_slice(&get_four(ip, DESTINATION));
            }
        });
    }
}
