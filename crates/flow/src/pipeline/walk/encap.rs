//! Translation of `encap` and `decap`, which change the packet type.
//!
//! A packet of another type than Ethernet keeps a hidden Ethernet header, with addresses of zero
//! and the EtherType of its first header. The packet is parsed and changed like any other, and
//! `decap()` of Ethernet and `encap(ethernet)` only change addresses and packet type. Ports send
//! Ethernet packets only; packet-ins omit the hidden header.

use super::Walk;
use super::headers::{Cover, LABEL_WORD};
use crate::pipeline::Step;
use crate::wire::field::Needs;
use crate::wire::{Action, Field, PacketType};

/// Packet type of the EtherType of transparent Ethernet bridging: an inner Ethernet header.
const BRIDGED: PacketType = PacketType::of_ethernet(0x6558);
/// Length of an Ethernet header.
const ETHERNET_BYTES: u16 = 14;

/// Returns true if an action has no effect on packets of other types than Ethernet.
pub(super) fn needs_ethernet(action: &Action) -> bool {
    matches!(
        action,
        Action::PushVlan(_)
            | Action::PopVlan
            | Action::SetVlanVid(_)
            | Action::SetVlanPcp(_)
            | Action::PushMpls(_)
            | Action::PopMpls(_)
            | Action::PushPbb(_)
            | Action::PopPbb
    )
}

impl Walk<'_> {
    fn packet_type(&self) -> PacketType {
        PacketType(self.packet.key.get(Field::PacketType) as u32)
    }

    fn set_packet_type(&mut self, packet_type: PacketType) {
        self.packet.key.set(Field::PacketType, packet_type.0.into());
        self.packet.written.add_all(Field::PacketType);
    }

    /// Returns true if the packet type is Ethernet. All received packets are Ethernet, so the check
    /// unwildcards no bits.
    pub(super) fn is_ethernet(&self) -> bool {
        self.packet_type() == PacketType::ETHERNET
    }

    /// Length of the hidden Ethernet header; zero for Ethernet packets.
    pub(super) fn hidden_bytes(&self) -> u16 {
        if self.is_ethernet() { 0 } else { ETHERNET_BYTES }
    }

    pub(super) fn encap(&mut self, packet_type: PacketType) {
        match (packet_type, self.is_ethernet()) {
            // The hidden header becomes visible, with addresses of zero.
            (PacketType::ETHERNET, false) => self.set_packet_type(packet_type),
            (PacketType::ETHERNET, true) => {
                self.refuse("the packet begins with a header of Ethernet already");
            }
            (label, false) => {
                let is_labelled = self.packet_type().is_mpls();
                let entry = if is_labelled { self.next_label() } else { self.last_label() };
                self.push_label(label.kind(), entry);
                self.set_packet_type(label);
            }
            (label, true) => self.encap_frame(label),
        }
    }

    /// Pushes an MPLS label in front of the Ethernet header.
    fn encap_frame(&mut self, label: PacketType) {
        self.commit();
        let (kind, entry) = (label.kind(), self.last_label());
        self.cover(Cover::Frame);
        self.carry_nothing();
        self.carry_untagged(kind);
        for field in [Field::EthDst, Field::EthSrc] {
            self.packet.key.set(field, 0);
            self.packet.written.add_all(field);
        }
        self.packet.key.words_mut()[LABEL_WORD] |= entry as u64;
        self.set_packet_type(label);
        self.steps.push(Step::EncapMpls { kind, entry: entry as u32 });
    }

    pub(super) fn decap(&mut self, behind: PacketType) {
        match self.packet_type() {
            PacketType::ETHERNET => self.decap_ethernet(),
            label if label.is_mpls() => self.decap_label(label, behind),
            PacketType(other) => {
                let (space, kind) = (other >> 16, other & 0xffff);
                self.refuse(&format!("no header of type ({space},{kind:#x}) can be taken away"));
            }
        }
    }

    fn decap_ethernet(&mut self) {
        if self.has(Needs::Vlan) {
            return self.refuse("a header of Ethernet with a tag cannot be taken away");
        }
        let kind = self.read(Field::EthType) as u16;
        for field in [Field::EthDst, Field::EthSrc] {
            self.write_there(field, 0, field.all_bits());
        }
        self.set_packet_type(PacketType::of_ethernet(kind));
    }

    /// Removes the outer label, which only tells whether another label is behind it.
    fn decap_label(&mut self, label: PacketType, behind: PacketType) {
        let behind = match behind {
            PacketType::NEXT if self.read(Field::MplsBos) == 0 => label,
            PacketType::NEXT => {
                return self
                    .refuse("the last label does not say what is behind it: packet_type does");
            }
            BRIDGED => PacketType::ETHERNET,
            other => other,
        };
        match (behind, behind.space()) {
            (PacketType::ETHERNET, _) => {
                self.commit();
                self.steps.push(Step::DecapMpls);
                self.set_packet_type(behind);
                self.uncover_all(Cover::Frame);
            }
            (_, 1) => {
                self.pop_mpls(behind.kind());
                self.set_packet_type(behind);
            }
            (PacketType(other), space) => {
                let kind = other & 0xffff;
                self.refuse(&format!("no packet has the type ({space},{kind:#x}) behind a label"));
            }
        }
    }
}
