//! `FixIPSrc`: the source address of packets the router itself has made.

use std::net::Ipv4Addr;

use linerate_graph::{Arg, Class, Context, Element};
use linerate_memory::{Frame, Meta};

use super::FAMILY;
use linerate_kit::{
    annotations::{fix_ip_source, set_fix_ip_source},
    ip::{NO_BUFFER, SOURCE, fill_checksum, ip_mut},
};

pub(super) const CLASS: Class = Class {
    name: "FixIPSrc",
    family: FAMILY,
    summary: "sets the source address of packets that ask for it",
    description: "`ICMPError` marks what it makes: the address such a packet should come from is \
        that of the interface it leaves by, which is known only there. Other packets pass \
        unchanged.",
    ports: "1/1",
    args: &[Arg::required("IPADDR", "IP address", "the interface's address")],
    annotates: true,
    drops: &["no buffer"],
    cost: "Reads a line of annotations per packet.",
    example: "FromIPSummaryDump(STOP true, FIELDS ip_src, DATA \"1.0.0.1\") -> CheckIPHeader \
        -> FixIPSrc(2.0.0.1) -> Discard;",
    make: |make| {
        let address = make.get("IPADDR").unwrap_or(Ipv4Addr::UNSPECIFIED);
        Box::new(FixIpSrc { address: address.octets() })
    },
    ..Class::EMPTY
};

struct FixIpSrc {
    address: [u8; 4],
}

/// Sets the source of a packet that asks for it, once. Whether it did.
#[inline(always)]
pub(super) fn fix(bytes: &mut [u8], meta: &mut Meta, address: [u8; 4]) -> bool {
    if fix_ip_source(meta) == 0 {
        return false;
    }
    let Some(ip) = ip_mut(bytes, meta) else { return false };
    ip[SOURCE..SOURCE + 4].copy_from_slice(&address);
    fill_checksum(ip);
    set_fix_ip_source(meta, 0);
    true
}

impl Element for FixIpSrc {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        cx.unshare(frame, NO_BUFFER);
        let arena = cx.pool.arena();
        let marked = |slot: &linerate_memory::Slot| fix_ip_source(arena.meta(slot)) != 0;
        // The packets themselves are not touched unless one is marked.
        if !frame.slots().iter().any(marked) {
            return;
        }
        arena.edit_packets(frame, |packet| {
            let (bytes, meta) = packet.parts();
            fix(bytes, meta, self.address);
        });
    }
}
