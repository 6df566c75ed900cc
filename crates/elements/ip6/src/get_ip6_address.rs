//! `GetIP6Address`, `SetIP6Address`: set the destination annotation.

use std::net::Ipv6Addr;

use linerate_graph::{Arguments, Class, ElementBuilder, Step, Verdict};
use linerate_memory::{PacketMut, PreservedFields};

use super::FAMILY;

pub(super) const GET: Class = Class {
    name: "GetIP6Address",
    family: FAMILY,
    summary: "sets the destination annotation to an IPv6 address in the packet",
    description: "The 16 bytes from `OFFSET` on, 24 for the destination of an IPv6 packet. A \
        packet that is too short for that keeps the annotation it has.",
    ports: "1/1",
    annotates: true,
    cost: "Reads the packet and writes a line of annotations.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> GetIP6Address(24) -> Discard;",
    ..GetIp6Address::CLASS
};

#[derive(Arguments)]
struct GetIp6Address {
    /// where the address is
    #[arg(kind = "bytes", with = offset)]
    offset: usize,
}

fn offset(make: &mut ElementBuilder<'_>, name: &str) -> usize {
    // No packet has an address in front of its start.
    usize::try_from(make.need::<i32>(name)).unwrap_or(usize::MAX)
}

impl Step for GetIp6Address {
    #[inline(always)]
    fn preserves(&self) -> PreservedFields {
        PreservedFields::HEADERS
    }

    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict {
        let (bytes, meta) = packet.parts();
        if let Some(found) = bytes.get(self.offset..).and_then(|rest| rest.first_chunk()) {
            meta.destination = *found;
        }
        Ok(())
    }
}

pub(super) const SET: Class = Class {
    name: "SetIP6Address",
    family: FAMILY,
    summary: "sets the destination annotation to an IPv6 address",
    description: "The same for all packets.",
    ports: "1/1",
    annotates: true,
    cost: "Writes a line of annotations.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> SetIP6Address(2001:db8::1) -> Discard;",
    ..SetIp6Address::CLASS
};

#[derive(Arguments)]
struct SetIp6Address {
    /// the address
    #[arg(name = "IPADDR", kind = "IPv6 address", stand_in = Ipv6Addr::UNSPECIFIED)]
    address: Ipv6Addr,
}

impl Step for SetIp6Address {
    #[inline(always)]
    fn preserves(&self) -> PreservedFields {
        PreservedFields::HEADERS
    }

    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict {
        packet.meta_mut().destination = self.address.octets();
        Ok(())
    }
}
