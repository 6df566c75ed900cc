//! Translation of `encap` and `decap`, which change the packet type.
//!
//! A packet of another type than Ethernet keeps a hidden Ethernet header, with addresses of zero
//! and the EtherType of its first header. The packet is parsed and changed like any other, and
//! `decap()` of Ethernet and `encap(ethernet)` only change addresses and packet type. Ports send
//! Ethernet packets only; packet-ins omit the hidden header.

use super::Translator;
use super::headers::{Cover, LABEL_WORD};
use crate::key::extract::Nsh;
use crate::pipeline::Step;
use crate::wire::field::Needs;
use crate::wire::{Action, Encap, Field, PacketType};

/// Packet type of the EtherType of transparent Ethernet bridging: an inner Ethernet header.
const BRIDGED: PacketType = PacketType::of_ethernet(0x6558);
/// Length of an Ethernet header.
const ETHERNET_BYTES: u16 = 14;
/// Time to live and index of a new network service header (RFC 8300, sections 2.2 and 2.3).
const SERVICE_TTL: u8 = 63;
const SERVICE_INDEX: u8 = 255;

/// Next protocols of network service headers (RFC 8300, section 11.2.5).
const NEXT: [(u8, PacketType); 4] =
    [(1, PacketType::IPV4), (2, PacketType::IPV6), (3, PacketType::ETHERNET), (4, PacketType::NSH)];

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

impl Translator<'_> {
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

    pub(super) fn encap(&mut self, encap: &Encap) {
        match (encap.packet_type, self.is_ethernet()) {
            // The hidden header becomes visible, with addresses of zero.
            (PacketType::ETHERNET, false) => self.set_packet_type(PacketType::ETHERNET),
            (PacketType::ETHERNET, true) => {
                self.refuse("the packet begins with a header of Ethernet already");
            }
            (PacketType::NSH, _) => self.encap_service(encap),
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
        self.cover_frame(kind);
        self.packet.key.words_mut()[LABEL_WORD] |= entry as u64;
        self.set_packet_type(label);
        self.steps.push(Step::EncapMpls { kind, entry: entry as u32 });
    }

    /// Covers the packet with a hidden Ethernet header of this EtherType.
    fn cover_frame(&mut self, kind: u16) {
        self.cover(Cover::Frame);
        self.carry_nothing();
        self.carry_untagged(kind);
        for field in [Field::EthDst, Field::EthSrc] {
            self.packet.key.set(field, 0);
            self.packet.written.add_all(field);
        }
    }

    /// Adds a network service header in front of the packet.
    fn encap_service(&mut self, encap: &Encap) {
        let inside = self.packet_type();
        let Some(&(next, _)) = NEXT.iter().find(|(_, packet_type)| *packet_type == inside) else {
            let (space, kind) = (inside.space(), inside.kind());
            return self.refuse(&format!(
                "a network service header does not go in front of type ({space},{kind:#x})"
            ));
        };
        if !encap.is_valid() {
            return self.refuse("no network service header has these properties");
        }
        self.commit();
        let frame = inside == PacketType::ETHERNET;
        if frame {
            self.cover_frame(PacketType::NSH.kind());
        } else {
            self.cover(Cover::Service);
            self.carry_nothing();
            self.packet.key.set(Field::EthType, PacketType::NSH.kind().into());
            self.packet.written.add_all(Field::EthType);
        }
        let md_type = encap.nsh_md_type();
        for (field, value) in [
            (Field::NshTtl, SERVICE_TTL),
            (Field::NshMdType, md_type),
            (Field::NshNp, next),
            (Field::NshSi, SERVICE_INDEX),
        ] {
            self.packet.key.set(field, value.into());
        }
        self.set_packet_type(PacketType::NSH);
        let metadata = encap.nsh_metadata();
        let words = (Nsh::BASE + metadata.len()) / 4;
        let base = u16::from(SERVICE_TTL) << 6 | words as u16;
        let [high, low] = base.to_be_bytes();
        let mut header = vec![high, low, md_type, next, 0, 0, 0, SERVICE_INDEX];
        header.extend(metadata);
        self.steps.push(Step::EncapNsh { header: header.into(), frame });
    }

    pub(super) fn decap(&mut self, behind: PacketType) {
        match self.packet_type() {
            PacketType::ETHERNET => self.decap_ethernet(),
            PacketType::NSH => self.decap_service(),
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

    /// Removes the network service header, which names the protocol behind it.
    fn decap_service(&mut self) {
        let next = self.read(Field::NshNp);
        let known = NEXT.iter().find(|(number, _)| u128::from(*number) == next);
        let Some(&(_, behind)) = known else {
            return self.refuse(&format!(
                "no packet type is known of next protocol {next} of a network service header"
            ));
        };
        self.commit();
        self.steps.push(Step::DecapNsh);
        self.set_packet_type(behind);
        if behind == PacketType::ETHERNET {
            self.uncover_all(Cover::Frame);
        } else {
            self.uncover_carried(Cover::Service, behind.kind());
        }
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
