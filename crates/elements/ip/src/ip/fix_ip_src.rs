//! `FixIPSrc`: sets the source address of packets made by the router itself.

use std::net::Ipv4Addr;

use linerate_graph::{Arguments, Class, Context, Step, Verdict};
use linerate_memory::{Frame, PacketMut};

use super::FAMILY;
use linerate_element_support::{
    annotations::{fix_ip_source, set_fix_ip_source},
    ip::{SOURCE, fill_checksum, known},
};

pub(super) const CLASS: Class = Class {
    name: "FixIPSrc",
    family: FAMILY,
    summary: "sets the source address of packets that ask for it",
    description: "`ICMPError` marks what it makes: the address such a packet should come from is \
        that of the interface it leaves by, which is known only there. Other packets pass \
        unchanged.",
    ports: "1/1",
    annotates: true,
    cost: "Reads a line of annotations per packet.",
    example: "FromIPSummaryDump(STOP true, FIELDS ip_src, DATA \"1.0.0.1\") -> CheckIPHeader \
        -> FixIPSrc(2.0.0.1) -> Discard;",
    ..FixIpSrc::CLASS
};

#[derive(Arguments)]
struct FixIpSrc {
    /// the interface's address
    #[arg(name = "IPADDR", stand_in = Ipv4Addr::UNSPECIFIED)]
    address: Ipv4Addr,
}

/// Sets the source of a packet whose annotation asks for it, once. Returns true if it did.
#[inline(always)]
pub(super) fn fix(packet: &mut PacketMut<'_>, address: [u8; 4]) -> bool {
    if fix_ip_source(packet.meta()) == 0 {
        return false;
    }
    let Ok((ip, meta)) = known(packet) else { return false };
    ip[SOURCE..SOURCE + 4].copy_from_slice(&address);
    fill_checksum(ip);
    set_fix_ip_source(meta, 0);
    true
}

impl Step for FixIpSrc {
    #[inline]
    fn begin(&mut self, cx: &mut Context, frame: &mut Frame) -> bool {
        // The packets themselves are not touched unless one is marked.
        let mut any = false;
        let Context { pool, header_cache, .. } = cx;
        pool.arena().for_each_meta(frame, header_cache, |meta| any |= fix_ip_source(meta) != 0);
        any
    }

    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict {
        fix(packet, self.address.octets());
        Ok(())
    }
}
