//! Reads and writes of fields, and their dependencies on the packet.
//!
//! Reading a bit adds it to the decision's mask, unless an action has written it: then its value
//! follows from bits that are in the mask already. Writing adds no step yet: steps are made before
//! the packet is seen ([`Translator::commit`]), so that a field that is written twice is one step.

use super::{Step, Translator, Unknown};
use crate::key::{CONNECTION, CONTINUATION, ENTRY_WORDS, spread};
use crate::wire::field::Needs;
use crate::wire::{Entry, Field, Subfield, VLAN_PRESENT};

/// A fragment but the first.
const LATER_FRAGMENT: u128 = 2;
/// Words from the first header's to the last one's.
pub(super) const HEADERS: std::ops::RangeInclusive<usize> = 1..=15;

/// Returns the bits of a subfield among those of its field.
pub(super) fn bits_of(part: &Subfield) -> u128 {
    (u128::MAX >> (128 - u32::from(part.bits()))) << part.offset()
}

/// Returns true for fields of the Ethernet header, or of tags behind it.
fn is_of_ethernet(field: Field) -> bool {
    matches!(
        field,
        Field::EthDst
            | Field::EthSrc
            | Field::EthType
            | Field::VlanTci
            | Field::VlanVid
            | Field::VlanPcp
    )
}

impl Translator<'_> {
    /// Bits of a field were looked at.
    pub(super) fn look(&mut self, field: Field, bits: u128) {
        let word = crate::key::position_of(field).word;
        let (high, low) = spread(field, bits);
        self.look_in(word, low);
        if high != 0 {
            self.look_in(word - 1, high);
        }
    }

    pub(super) fn look_in(&mut self, word: usize, bits: u64) {
        if word < ENTRY_WORDS {
            let written = self.packet.written.words()[word];
            self.decision.mask.words_mut()[word] |= bits & !written;
        }
    }

    /// The value of a field.
    pub(super) fn read(&mut self, field: Field) -> u128 {
        self.look(field, u128::MAX);
        self.packet.key.get(field)
    }

    /// The value of a part of a field.
    pub(super) fn read_part(&mut self, part: &Subfield) -> u128 {
        self.look(part.field(), bits_of(part));
        (self.packet.key.get(part.field()) & bits_of(part)) >> part.offset()
    }

    /// Returns true if the packet has the headers that a field needs.
    pub(super) fn has(&mut self, needs: Needs) -> bool {
        let carries = |translator: &mut Self, over: Needs, protocol: u128| {
            translator.has(over)
                && translator.read(Field::IpProto) == protocol
                && translator.read(Field::IpFrag) & LATER_FRAGMENT == 0
        };
        match needs {
            Needs::Nothing | Needs::InPort => true,
            Needs::Vlan => {
                self.look(Field::VlanTci, VLAN_PRESENT);
                self.packet.key.get(Field::VlanTci) & VLAN_PRESENT != 0
            }
            Needs::Mpls => matches!(self.read(Field::EthType), 0x8847 | 0x8848),
            Needs::Pbb => self.read(Field::EthType) == 0x88e7,
            Needs::Nsh => self.read(Field::EthType) == 0x894f,
            Needs::Ip => matches!(self.read(Field::EthType), 0x0800 | 0x86dd),
            Needs::Ipv4 => self.read(Field::EthType) == 0x0800,
            Needs::Ipv6 => self.read(Field::EthType) == 0x86dd,
            Needs::Arp => matches!(self.read(Field::EthType), 0x0806 | 0x8035),
            Needs::Tcp => carries(self, Needs::Ip, 6),
            Needs::Udp => carries(self, Needs::Ip, 17),
            Needs::Sctp => carries(self, Needs::Ip, 132),
            Needs::Icmpv4 => carries(self, Needs::Ipv4, 1),
            Needs::Icmpv6 => carries(self, Needs::Ipv6, 58),
            Needs::Discovery => {
                self.has(Needs::Icmpv6) && matches!(self.read(Field::Icmpv6Type), 135 | 136)
            }
            Needs::Solicitation => self.has(Needs::Icmpv6) && self.read(Field::Icmpv6Type) == 135,
            Needs::Advertisement => self.has(Needs::Icmpv6) && self.read(Field::Icmpv6Type) == 136,
            Needs::Tracked => self.read(Field::CtState) & 0x20 != 0,
        }
    }

    /// Returns true if a field can be read or written: its header is there.
    pub(super) fn has_field(&mut self, field: Field) -> bool {
        if !self.is_ethernet() && is_of_ethernet(field) {
            return false;
        }
        self.has(match field {
            Field::VlanVid => Needs::Vlan,
            _ => field.needs(),
        })
    }

    /// Sets bits of a field, where the packet has its header. Their values must be known already.
    pub(super) fn write(&mut self, field: Field, value: u128, mask: u128) {
        if !self.is_ethernet() && is_of_ethernet(field) {
            return;
        }
        if field == Field::VlanTci {
            return self.write_tag(value, mask);
        }
        if field == Field::VlanVid && mask & value & VLAN_PRESENT != 0 && !self.has(Needs::Vlan) {
            // A tag comes with its number.
            return self.push_vlan(0x8100, (value & mask & 0xfff) as u16);
        }
        if !self.has_field(field) {
            return;
        }
        self.write_there(field, value, mask);
    }

    /// As [`Translator::write`], where the header is there for sure.
    pub(super) fn write_there(&mut self, field: Field, value: u128, mask: u128) {
        // Whether there is a tag is not a field's to say.
        let mask = mask & if field == Field::VlanVid { 0xfff } else { field.all_bits() };
        let word = crate::key::position_of(field).word;
        if field == Field::InPort16 {
            // Reserved ports have other numbers in 32 bits.
            let short = self.packet.key.get(Field::InPort) & !mask | value & mask;
            let port = crate::wire::PortNumber::from_short(short as u16);
            self.packet.key.set(Field::InPort, port.0.into());
            self.packet.written.add_all(Field::InPort);
            return;
        }
        self.packet.key.set_masked(field, value, mask);
        self.packet.written.add(field, mask);
        if word == CONTINUATION.word || word >= ENTRY_WORDS || CONNECTION.contains(&word) {
            return;
        }
        let pending = &mut self.packet.pending;
        match pending.iter_mut().find(|(other, _)| *other == field) {
            Some((_, bits)) => *bits |= mask,
            None => pending.push((field, mask)),
        }
    }

    /// Sets a part of a field.
    pub(super) fn write_part(&mut self, part: &Subfield, value: u128) {
        self.write(part.field(), value << part.offset(), bits_of(part));
    }

    /// Adds steps for the fields written, before the packet is seen.
    pub(super) fn commit(&mut self) {
        for (field, mask) in std::mem::take(&mut self.packet.pending) {
            let value = self.packet.key.get(field);
            let tag = matches!(field, Field::VlanVid | Field::VlanPcp);
            if let (true, Some(Step::PushVlan { tci, .. })) = (tag, self.steps.last_mut()) {
                *tci = self.packet.key.get(Field::VlanTci) as u16 & !(VLAN_PRESENT as u16);
                continue;
            }
            self.steps.push(Step::Set(Entry::masked(field, value, mask)));
        }
    }

    /// Forgets the fields of headers: only the packet will have them.
    pub(super) fn forget_headers(&mut self, unknown: Unknown) {
        self.packet.unknown = self.packet.unknown.max(unknown);
    }
}
