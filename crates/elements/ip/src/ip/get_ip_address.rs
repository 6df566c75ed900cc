//! `GetIPAddress`, `SetIPAddress`: set the destination annotation, from the packet or to a given
//! address.

use std::net::Ipv4Addr;

use linerate_graph::{Arguments, Class, ElementBuilder, Right, Step, Text, Verdict, unquoted};
use linerate_memory::PacketMut;

use super::FAMILY;
use linerate_element_support::{
    annotation_byte::Word,
    ip::{DESTINATION, SOURCE},
};

pub(super) const GET: Class = Class {
    name: "GetIPAddress",
    family: FAMILY,
    summary: "makes an address in the packet its destination annotation",
    description: "The four bytes at `OFFSET`, or the source or destination of the IP header, \
        which must then be known. Packets without them are left alone.",
    ports: "1/1",
    annotates: true,
    cost: "One pass: the line of the address and a line of annotations.",
    example: "FromIPSummaryDump(STOP true, FIELDS ip_dst, DATA \"1.0.0.1\") -> GetIPAddress(16) \
        -> Discard;",
    ..GetIpAddress::CLASS
};

pub(super) const SET: Class = Class {
    name: "SetIPAddress",
    reconfigured: Some(Right::Write),
    family: FAMILY,
    summary: "sets the destination annotation",
    description: "To the same address for every packet, such as that of a gateway.",
    ports: "1/1",
    annotates: true,
    cost: "Writes a line of annotations per packet.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> SetIPAddress(1.0.0.1) -> Discard;",
    ..SetIpAddress::CLASS
};

#[derive(Arguments)]
#[arguments(check = GetIpAddress::check)]
struct GetIpAddress {
    /// where the address is
    #[arg(optional, kind = "bytes", shown = "")]
    offset: Option<i32>,
    /// the annotation to set, of four bytes
    #[arg(optional, default = "DST_IP")]
    anno: Word,
    /// which address of the IP header to take instead
    #[arg(keyword, kind = "src or dst", shown = "")]
    ip: Option<Text>,
    /// Offset from the packet's start or the IP header's.
    at: usize,
}

impl GetIpAddress {
    fn check(&mut self, make: &mut ElementBuilder<'_>) {
        let offset = self.offset.and_then(|offset| usize::try_from(offset).ok());
        let which = self.ip.as_ref().map(|Text(text)| unquoted(text)).unwrap_or_default();
        self.at = match (offset, which.as_str()) {
            (Some(offset), "") => offset,
            (None, "src") => SOURCE,
            (None, "dst") => DESTINATION,
            (wrong, text) => {
                let both = wrong.is_some() || text.is_empty();
                make.error(if both { "set one of OFFSET, IP" } else { "bad IP" });
                0
            }
        };
    }
}

impl Step for GetIpAddress {
    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict {
        let start = if self.ip.is_some() { packet.network() } else { 0 };
        let (bytes, meta) = packet.parts();
        let rest = bytes.get(start..).and_then(|header| header.get(self.at..));
        if let Some(address) = rest.and_then(|rest| rest.first_chunk()) {
            self.anno.set(meta, *address);
        }
        Ok(())
    }
}

#[derive(Arguments)]
struct SetIpAddress {
    /// the address
    #[arg(name = "IPADDR", stand_in = Ipv4Addr::UNSPECIFIED)]
    #[handler(value)]
    addr: Ipv4Addr,
    /// the annotation to set, of four bytes
    #[arg(keyword, default = "DST_IP")]
    anno: Word,
}

impl Step for SetIpAddress {
    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict {
        self.anno.set(packet.meta_mut(), self.addr.octets());
        Ok(())
    }
}
