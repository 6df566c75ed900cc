//! `GetIP6Address`, `SetIP6Address`: the destination annotation.

use std::net::Ipv6Addr;

use linerate_graph::{Arg, Class, Context, Element};
use linerate_memory::Frame;

use super::{FAMILY, header::annotate};

pub(super) const GET: Class = Class {
    name: "GetIP6Address",
    family: FAMILY,
    summary: "sets the destination annotation to an IPv6 address in the packet",
    description: "The 16 bytes from `OFFSET` on, 24 for the destination of an IPv6 packet. A \
        packet that is too short for that keeps the annotation it has.",
    ports: "1/1",
    args: &[Arg::required("OFFSET", "bytes", "where the address is")],
    annotates: true,
    drops: &["no buffer"],
    cost: "Reads the packet and writes a line of annotations.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> GetIP6Address(24) -> Discard;",
    make: |make| {
        let offset: i32 = make.need("OFFSET");
        Box::new(GetIp6Address(usize::try_from(offset).unwrap_or(usize::MAX)))
    },
    ..Class::here()
};

struct GetIp6Address(usize);

impl Element for GetIp6Address {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        annotate(cx, frame, |bytes, meta| {
            let found = bytes.get(self.0..).and_then(|rest| rest.first_chunk());
            if let Some(found) = found {
                meta.destination = *found;
            }
        });
    }
}

pub(super) const SET: Class = Class {
    name: "SetIP6Address",
    family: FAMILY,
    summary: "sets the destination annotation to an IPv6 address",
    description: "The same for all packets.",
    ports: "1/1",
    args: &[Arg::required("IPADDR", "IPv6 address", "the address")],
    annotates: true,
    drops: &["no buffer"],
    cost: "Writes a line of annotations.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> SetIP6Address(2001:db8::1) -> Discard;",
    make: |make| {
        let address = make.get("IPADDR").unwrap_or(Ipv6Addr::UNSPECIFIED);
        Box::new(SetIp6Address(address.octets()))
    },
    ..Class::here()
};

struct SetIp6Address([u8; 16]);

impl Element for SetIp6Address {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        annotate(cx, frame, |_, meta| meta.destination = self.0);
    }
}
