//! Changes of headers, of the steps that change some.

use super::Step;
use crate::edit::{self, Bytes, nsh, tags};

impl Step {
    /// Changes headers of a packet; steps of another kind change nothing.
    ///
    /// A packet that does not have the header is left as it is. `false`, changing nothing, where the
    /// packet has no room for a header that is to be added.
    pub fn apply(&self, packet: &mut impl Bytes) -> bool {
        match self {
            Step::Set(entry) => {
                let _ = edit::set(entry, packet.bytes_mut());
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
}
