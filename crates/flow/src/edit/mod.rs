//! Changes of a packet's headers, its checksums with them.
//!
//! Headers are located by the rules of [`key::extract`](crate::key::extract()): fields that it does
//! not read are not changed. Checksums are updated incrementally: IPv4's own, those of TCP, UDP,
//! ICMP and `ICMPv6`, which are also over the addresses, and SCTP's. A checksum of UDP that is zero
//! stays so. Fragments but the first have no ports to change, and the ports of SCTP are left alone
//! in the first, too, because its checksum is over bytes that are not there.

mod buffer;
mod headers;
mod nsh;
mod sctp;
mod set;
mod tags;

pub use buffer::Bytes;
pub(crate) use headers::Ip;
pub(crate) use set::set;

use crate::pipeline::Step;

/// Does a step that changes headers; others are none of its business.
///
/// A packet that does not have the header is left as it is. `false`, changing nothing, where the
/// packet has no room for a header that is to be added.
pub fn apply(step: &Step, packet: &mut impl Bytes) -> bool {
    match step {
        Step::Set(entry) => {
            let _ = set::set(entry, packet.bytes_mut());
            true
        }
        Step::PushVlan { kind, tci } => tags::push_vlan(packet, *kind, *tci),
        Step::PopVlan => {
            tags::pop_vlan(packet);
            true
        }
        Step::PushMpls { kind, entry, tags } => tags::push_mpls(packet, *kind, *entry, *tags),
        Step::PopMpls(kind) => {
            tags::pop_mpls(packet, *kind);
            true
        }
        Step::EncapMpls { kind, entry } => tags::encap_mpls(packet, *kind, *entry),
        Step::DecapMpls => {
            tags::decap_mpls(packet);
            true
        }
        Step::EncapNsh { header, frame } => nsh::encap(packet, header, *frame),
        Step::DecapNsh => {
            nsh::decap(packet);
            true
        }
        Step::PushPbb { kind, service } => tags::push_pbb(packet, *kind, *service),
        Step::PopPbb => {
            tags::pop_pbb(packet);
            true
        }
        Step::CopyTtlOut => {
            tags::copy_ttl_out(packet);
            true
        }
        Step::CopyTtlIn => {
            tags::copy_ttl_in(packet);
            true
        }
        _ => true,
    }
}
