//! Headers that are added and taken away, and times to live.
//!
//! The headers behind an added one are remembered, so that taking it away brings them back. Those
//! behind one the packet came with are unknown before it is parsed again; that is put off until
//! they are needed ([`Translator::look_again`]).

use super::fields::HEADERS;
use super::{ActionOrigin, Frame, Translator, Unknown, say};
use crate::key::{INNER_TCI, Mask};
use crate::pipeline::Step;
use crate::wire::field::Needs;
use crate::wire::{Field, PacketInReason, VLAN_PRESENT};

const WORDS: usize = 15;
const VLAN_TYPES: [u128; 2] = [0x8100, 0x88a8];
const MPLS_TYPES: [u128; 2] = [0x8847, 0x8848];
/// A label's time to live where the packet has none, as Open vSwitch has it.
const TTL: u128 = 64;
/// The bits of a label's time to live.
const TTLS: u128 = 0xff;
/// The bit of a label that says it is the last.
const BOTTOM: u128 = 1 << 8;
/// The word of labels, with other things.
pub(super) const LABEL_WORD: usize = 10;

/// Kinds of outer headers that an action adds in front of the packet's headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cover {
    /// A label behind the header of Ethernet.
    Label,
    /// A tag of backbone bridging.
    Backbone,
    /// A network service header behind the Ethernet header.
    Service,
    /// A header in front of the Ethernet header, behind a hidden Ethernet header.
    Frame,
}

/// The headers behind one that was added.
#[derive(Debug, Clone)]
pub(super) struct Covered {
    by: Cover,
    words: [u64; WORDS],
    written: [u64; WORDS],
    tags: Vec<(u64, u64)>,
}

impl<'a> Translator<'a> {
    pub(super) fn push_vlan(&mut self, kind: u16, tci: u16) {
        self.commit();
        let (key, written) = (&mut self.packet.key, &mut self.packet.written);
        let tag = Mask::from_field(Field::VlanTci);
        let word = crate::key::position_of(Field::VlanTci).word;
        let bits = tag.words()[word];
        self.packet.tags.push((key.words()[word] & bits, written.words()[word] & bits));
        key.set(Field::VlanTci, VLAN_PRESENT | u128::from(tci));
        written.add_all(Field::VlanTci);
        self.steps.push(Step::PushVlan { kind, tci });
    }

    pub(super) fn pop_vlan(&mut self) {
        if !self.has(Needs::Vlan) {
            return say!(self, "(no tag: nothing is done)");
        }
        self.commit();
        self.steps.push(Step::PopVlan);
        let word = crate::key::position_of(Field::VlanTci).word;
        let bits = Mask::from_field(Field::VlanTci).words()[word];
        if let Some((tag, written)) = self.packet.tags.pop() {
            let words = self.packet.key.words_mut();
            words[word] = words[word] & !bits | tag;
            let words = self.packet.written.words_mut();
            words[word] = words[word] & !bits | written;
            return;
        }
        if VLAN_TYPES.contains(&self.read(Field::EthType)) {
            // Another one is there.
            self.look_in(INNER_TCI.word, 0xffff << INNER_TCI.shift);
            let inner = self.packet.key.words()[INNER_TCI.word] >> INNER_TCI.shift & 0xffff;
            self.packet.key.set(Field::VlanTci, inner.into());
            self.forget_headers(Unknown::Carried);
        } else {
            self.packet.key.set(Field::VlanTci, 0);
        }
        self.packet.written.add_all(Field::VlanTci);
    }

    /// Sets bits of the control information of a tag, which may add or take one away.
    pub(super) fn write_tag(&mut self, value: u128, mask: u128) {
        let has = self.has(Needs::Vlan);
        // Without a tag all of it is zero.
        let old = if has { self.packet.key.get(Field::VlanTci) } else { 0 };
        let wants = (old & !mask | value & mask) & VLAN_PRESENT != 0;
        match (has, wants) {
            (true, true) => {
                if mask & 0xfff != 0 {
                    self.write_there(Field::VlanVid, value & 0xfff, mask & 0xfff);
                }
                if mask >> 13 != 0 {
                    self.write_there(Field::VlanPcp, value >> 13, mask >> 13);
                }
            }
            (false, true) => self.push_vlan(0x8100, (value & mask & !VLAN_PRESENT) as u16),
            (true, false) => self.pop_vlan(),
            (false, false) => {}
        }
    }

    /// Sets number or priority of a tag, in a new one where there is none.
    pub(super) fn set_tag(&mut self, field: Field, value: u128) {
        if self.has(Needs::Vlan) {
            self.write_there(field, value, field.all_bits());
        } else {
            self.push_vlan(0x8100, (value << if field == Field::VlanPcp { 13 } else { 0 }) as u16);
        }
    }

    /// Saves the packet's headers, which an added outer header covers.
    pub(super) fn cover(&mut self, by: Cover) {
        let (mut words, mut written) = ([0; WORDS], [0; WORDS]);
        words.copy_from_slice(&self.packet.key.words()[HEADERS]);
        written.copy_from_slice(&self.packet.written.words()[HEADERS]);
        let tags = match by {
            Cover::Label | Cover::Service => Vec::new(),
            Cover::Backbone | Cover::Frame => std::mem::take(&mut self.packet.tags),
        };
        self.packet.covered.push(Covered { by, words, written, tags });
    }

    /// All that Ethernet carries becomes zero, and is known to be.
    pub(super) fn carry_nothing(&mut self) {
        let kept = Mask::inner_tag();
        let (key, written) = (self.packet.key.words_mut(), self.packet.written.words_mut());
        for word in 3..=*HEADERS.end() {
            key[word] &= kept.words()[word];
            written[word] |= !kept.words()[word];
        }
    }

    /// A label in front of others, as on the wire: as the one that is there.
    pub(super) fn next_label(&mut self) -> u128 {
        let outer = [Field::MplsLabel, Field::MplsTc, Field::MplsTtl];
        let [label, class, ttl] = outer.map(|field| self.read(field));
        label << 12 | class << 9 | ttl
    }

    /// Returns the last label in front of the payload, without class and time to live.
    pub(super) fn last_label(&mut self) -> u128 {
        // "Explicit null" of IPv4 and of IPv6 (RFC 3032, section 2.1).
        let label = if self.read(Field::EthType) == 0x86dd { 2 } else { 0 };
        label << 12 | BOTTOM | TTL
    }

    pub(super) fn push_mpls(&mut self, kind: u16) {
        let entry = match self.read(Field::EthType) {
            0x8847 | 0x8848 => self.next_label(),
            0x0800 | 0x86dd => {
                let (dscp, ttl) = (self.read(Field::IpDscp), self.read(Field::IpTtl));
                let ttl = if ttl == 0 { TTL } else { ttl };
                self.last_label() & !TTLS | (dscp & 7) << 9 | ttl
            }
            _ => self.last_label(),
        };
        self.push_label(kind, entry);
    }

    /// Adds a label behind the header of Ethernet and the tags that were added or looked at.
    pub(super) fn push_label(&mut self, kind: u16, entry: u128) {
        self.commit();
        // Behind tags known when the packet was looked up, and those added since.
        let present = |(tag, _): &&(u64, u64)| u128::from(*tag) & VLAN_PRESENT != 0;
        let added = self.packet.tags.iter().filter(present).count();
        let tags = (added + usize::from(self.has(Needs::Vlan))) as u8;
        self.cover(Cover::Label);
        self.carry_nothing();
        self.packet.key.words_mut()[LABEL_WORD] |= entry as u64;
        self.packet.key.set(Field::EthType, kind.into());
        self.packet.written.add_all(Field::EthType);
        self.steps.push(Step::PushMpls { kind, entry: entry as u32, tags });
    }

    pub(super) fn pop_mpls(&mut self, kind: u16) {
        if !self.has(Needs::Mpls) {
            return say!(self, "(no label: nothing is done)");
        }
        self.commit();
        self.steps.push(Step::PopMpls(kind));
        self.uncover_carried(Cover::Label, kind);
    }

    /// Restores the headers covered by an added header, or forgets them until the packet is parsed
    /// again; the EtherType becomes `kind`.
    pub(super) fn uncover_carried(&mut self, by: Cover, kind: u16) {
        if let Some(covered) = self.covered_by(by) {
            self.uncover(&covered, 3);
            let ethernet = Mask::from_field(Field::EthType);
            let (word, bits) = (1, ethernet.words()[1]);
            let words = self.packet.key.words_mut();
            words[word] = words[word] & !bits | covered.words[0] & bits;
            let words = self.packet.written.words_mut();
            words[word] = words[word] & !bits | covered.written[0] & bits;
            if self.read(Field::EthType) == u128::from(kind) {
                return;
            }
        }
        self.packet.covered.clear();
        self.packet.key.set(Field::EthType, kind.into());
        self.packet.written.add_all(Field::EthType);
        self.forget_headers(Unknown::Carried);
    }

    /// Pops the headers behind the outer header; `None` unless that was added as `by`.
    fn covered_by(&mut self, by: Cover) -> Option<Covered> {
        self.packet.covered.pop().filter(|covered| covered.by == by)
    }

    fn uncover(&mut self, covered: &Covered, from: usize) {
        let (kept, range) = (Mask::inner_tag(), from..=*HEADERS.end());
        let (key, written) = (self.packet.key.words_mut(), self.packet.written.words_mut());
        for word in range {
            let kept = if word < 3 { 0 } else { kept.words()[word] };
            let at = word - HEADERS.start();
            key[word] = key[word] & kept | covered.words[at] & !kept;
            written[word] = written[word] & kept | covered.written[at] & !kept;
        }
    }

    pub(super) fn push_pbb(&mut self, kind: u16) {
        self.commit();
        let service = if self.has(Needs::Pbb) { self.read(Field::PbbIsid) } else { 0 };
        self.cover(Cover::Backbone);
        self.carry_nothing();
        self.carry_untagged(kind);
        self.packet.key.set(Field::PbbIsid, service);
        self.steps.push(Step::PushPbb { kind, service: service as u32 });
    }

    /// The type of Ethernet becomes this, and there are no tags.
    pub(super) fn carry_untagged(&mut self, kind: u16) {
        let (key, written) = (&mut self.packet.key, &mut self.packet.written);
        key.set(Field::EthType, kind.into());
        key.set(Field::VlanTci, 0);
        key.words_mut()[INNER_TCI.word] &= !Mask::inner_tag().words()[INNER_TCI.word];
        written.add_all(Field::EthType);
        written.add_all(Field::VlanTci);
        written.join(&Mask::inner_tag());
    }

    pub(super) fn pop_pbb(&mut self) {
        if !self.has(Needs::Pbb) {
            return say!(self, "(no such tag: nothing is done)");
        }
        self.commit();
        self.steps.push(Step::PopPbb);
        self.uncover_all(Cover::Backbone);
    }

    /// Restores all headers covered by an added header, or forgets them until the packet is parsed
    /// again.
    pub(super) fn uncover_all(&mut self, by: Cover) {
        if let Some(covered) = self.covered_by(by) {
            self.uncover(&covered, 1);
            let (word, bits) = (INNER_TCI.word, Mask::inner_tag().words()[INNER_TCI.word]);
            let at = word - HEADERS.start();
            let words = self.packet.key.words_mut();
            words[word] = words[word] & !bits | covered.words[at] & bits;
            let words = self.packet.written.words_mut();
            words[word] = words[word] & !bits | covered.written[at] & bits;
            self.packet.tags = covered.tags;
            return;
        }
        self.packet.covered.clear();
        self.packet.tags.clear();
        self.forget_headers(Unknown::Headers);
    }

    pub(super) fn copy_ttl_out(&mut self) {
        if !self.has(Needs::Mpls) {
            return;
        }
        self.commit();
        let is_label = |covered: &&Covered| covered.by == Cover::Label;
        if let Some(covered) = self.packet.covered.last().filter(is_label) {
            // The header behind is known: its time to live is read as if the label were not there.
            let (outer, outer_written) = (self.packet.key, self.packet.written);
            let covered = covered.clone();
            self.uncover(&covered, 1);
            let ttl = match self.read(Field::EthType) {
                0x0800 | 0x86dd => Some(self.read(Field::IpTtl)),
                kind if MPLS_TYPES.contains(&kind) => Some(self.read(Field::MplsTtl)),
                _ => None,
            };
            (self.packet.key, self.packet.written) = (outer, outer_written);
            if let Some(ttl) = ttl {
                self.write(Field::MplsTtl, ttl, 0xff);
            }
            return;
        }
        self.steps.push(Step::CopyTtlOut);
        self.forget_headers(Unknown::Carried);
    }

    pub(super) fn copy_ttl_in(&mut self) {
        if !self.has(Needs::Mpls) {
            return;
        }
        self.commit();
        self.steps.push(Step::CopyTtlIn);
        // The remembered headers do not match any more.
        self.packet.covered.clear();
    }

    pub(super) fn count_down_ip(
        &mut self,
        controllers: &[u16],
        place: ActionOrigin<'a>,
        base: usize,
    ) {
        if !self.has(Needs::Ip) {
            return;
        }
        let ttl = self.read(Field::IpTtl);
        if ttl > 1 {
            return self.write(Field::IpTtl, ttl - 1, 0xff);
        }
        self.time_is_over(controllers, place, base);
    }

    /// Decrements the time to live of a header, if the packet has it.
    pub(super) fn count_down(
        &mut self,
        needs: Needs,
        field: Field,
        place: ActionOrigin<'a>,
        base: usize,
    ) {
        if !self.has(needs) {
            return;
        }
        let ttl = self.read(field);
        if ttl > 1 {
            return self.write(field, ttl - 1, 0xff);
        }
        self.time_is_over(&[0], place, base);
    }

    /// The packet lives no longer: controllers are told, and the flow's actions end.
    fn time_is_over(&mut self, controllers: &[u16], place: ActionOrigin<'a>, base: usize) {
        say!(self, "(its time to live ends: the flow's actions end here)");
        for &id in controllers {
            let reason = PacketInReason::InvalidTtl;
            self.punt_for(id, u16::MAX, ActionOrigin { reason, ..place });
        }
        if self.frames.len() > base {
            self.frames.pop();
        }
        let same = |frame: &Frame<'_>| match (frame, place.flow) {
            (Frame::Instructions { place: other, .. }, Some(flow)) => {
                other.flow.is_some_and(|other| std::ptr::eq(other, flow))
            }
            _ => false,
        };
        if self.frames.len() > base && self.frames.last().is_some_and(same) {
            self.frames.pop();
        }
    }
}
