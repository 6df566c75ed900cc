//! Consistency of a flow's actions with its match.
//!
//! An action that needs a header (a TTL of IP to count down, a label to take away) is only for
//! flows that match packets which have it, be it because an action before added it (OpenFlow 1.3.5,
//! section 7.2.5 and `OFPBAC_MATCH_INCONSISTENT`). OpenFlow 1.0 has no such rule: there, such an
//! action does nothing.

use super::action::{Action, Ct, NatAddresses, Zone};
use super::fault::Fault;
use super::field::{Field, Needs};
use super::instruction::Instruction;
use super::matching::{Match, VLAN_PRESENT};
use super::oxm::Entry;
use super::packet_type::PacketType;
use super::subfield::Subfield;

/// Headers known at a place among the actions.
#[derive(Debug, Clone)]
struct HeaderState {
    fields: Match,
    /// A header was taken away behind which anything may be.
    anything: bool,
    /// A tag was taken away behind which another may be.
    tags: bool,
}

pub(crate) fn check(matching: &Match, instructions: &[Instruction]) -> Result<(), Fault> {
    let mut headers = HeaderState { fields: matching.clone(), anything: false, tags: false };
    let lists = |wanted: fn(&Instruction) -> Option<&Vec<Action>>| {
        instructions.iter().filter_map(wanted).flatten()
    };
    // They are done in this order, independent of theirs in the message.
    let applied = lists(|instruction| match instruction {
        Instruction::ApplyActions(actions) => Some(actions),
        _ => None,
    });
    let written = lists(|instruction| match instruction {
        Instruction::WriteActions(actions) => Some(actions),
        _ => None,
    });
    for action in applied {
        headers.check(action)?;
    }
    // Of those done at the end only fields are checked: the headers there are then are unknown.
    for action in written {
        let names_field = matches!(
            action,
            Action::SetField(_) | Action::Load { .. } | Action::Move { .. } | Action::Ct(_)
        );
        match headers.check(action) {
            Err(fault) if names_field => return Err(fault),
            _ => {}
        }
    }
    Ok(())
}

impl HeaderState {
    fn need(&self, needs: Needs) -> Result<(), Fault> {
        if self.anything || self.fields.meets(needs) {
            Ok(())
        } else {
            Err(Fault::MatchInconsistent)
        }
    }

    fn part(&self, part: &Subfield) -> Result<(), Fault> {
        self.need_field(part.field())
    }

    /// Checks a field's prerequisites; Ethernet and VLAN fields also need packet type Ethernet.
    fn need_field(&self, field: Field) -> Result<(), Fault> {
        let is_of_ethernet = matches!(
            field,
            Field::EthDst
                | Field::EthSrc
                | Field::EthType
                | Field::VlanTci
                | Field::VlanVid
                | Field::VlanPcp
        );
        if is_of_ethernet {
            self.need_ethernet()?;
        }
        self.need(field.needs())
    }

    /// The packet begins with a header of Ethernet.
    fn need_ethernet(&self) -> Result<(), Fault> {
        if self.anything || self.packet_type() == PacketType::ETHERNET {
            Ok(())
        } else {
            Err(Fault::MatchInconsistent)
        }
    }

    /// The packet's type; one that is not matched is Ethernet.
    fn packet_type(&self) -> PacketType {
        PacketType(self.fields.exact(Field::PacketType).unwrap_or_default() as u32)
    }

    /// The first header is another one.
    fn becomes_packet(&mut self, packet_type: PacketType) {
        self.set(Entry::exact(Field::PacketType, packet_type.0.into()));
        if packet_type != PacketType::ETHERNET {
            self.set(Entry::exact(Field::EthType, packet_type.kind().into()));
        }
        if !self.fields.meets(Needs::Ip) {
            self.forget(Field::IpProto);
        }
    }

    fn set(&mut self, entry: Entry) {
        self.fields = std::mem::take(&mut self.fields).with_entry(entry);
    }

    fn forget(&mut self, field: Field) {
        self.set(Entry::masked(field, 0, 0));
    }

    /// The type of Ethernet is this, and its payload is unknown.
    fn becomes(&mut self, ethernet: u16) {
        self.set(Entry::exact(Field::EthType, ethernet.into()));
        self.forget(Field::IpProto);
    }

    fn check(&mut self, action: &Action) -> Result<(), Fault> {
        match action {
            Action::SetField(entry) => {
                let field = entry.field();
                self.need_field(field)?;
                if field == Field::VlanVid {
                    self.need(Needs::Vlan)?;
                }
                if matches!(field, Field::EthType | Field::IpProto | Field::VlanTci) {
                    self.set(*entry);
                }
                Ok(())
            }
            Action::Load { destination, .. } => self.part(destination),
            Action::Move { source, destination } => {
                self.part(source)?;
                self.part(destination)
            }
            Action::PushVlan(_) => {
                self.forget(Field::VlanTci);
                self.forget(Field::VlanPcp);
                self.set(Entry::masked(Field::VlanVid, VLAN_PRESENT, VLAN_PRESENT));
                Ok(())
            }
            Action::PopVlan => {
                if !self.tags {
                    self.need(Needs::Vlan)?;
                }
                self.tags = true;
                self.forget(Field::VlanTci);
                self.forget(Field::VlanPcp);
                self.forget(Field::VlanVid);
                Ok(())
            }
            Action::Encap(encap) => {
                self.becomes_packet(encap.packet_type);
                Ok(())
            }
            Action::Decap(_) => {
                // The type of a packet behind any other header is known when that is removed.
                const UNKNOWN: PacketType = PacketType(u32::MAX);
                let behind = match self.packet_type() {
                    PacketType::ETHERNET => {
                        let kind = self.fields.exact(Field::EthType).unwrap_or_default();
                        PacketType::of_ethernet(kind as u16)
                    }
                    _ => UNKNOWN,
                };
                self.becomes_packet(behind);
                Ok(())
            }
            Action::PushMpls(ethernet) | Action::PushPbb(ethernet) => {
                self.need_ethernet()?;
                self.becomes(*ethernet);
                Ok(())
            }
            Action::PopMpls(ethernet) => {
                self.need_ethernet()?;
                self.need(Needs::Mpls)?;
                self.becomes(*ethernet);
                Ok(())
            }
            Action::PopPbb => {
                self.need(Needs::Pbb)?;
                self.anything = true;
                Ok(())
            }
            Action::SetMplsTtl(_) | Action::DecMplsTtl => self.need(Needs::Mpls),
            Action::DecNshTtl => self.need(Needs::Nsh),
            Action::SetIpTtl(_) | Action::DecIpTtl | Action::DecIpTtlFor(_) => self.need(Needs::Ip),
            Action::FinTimeout { .. } => self.need(Needs::Tcp),
            Action::Resubmit { original: true, .. } => self.need(Needs::Tracked),
            Action::Multipath(multipath) => self.part(&multipath.destination),
            Action::Bundle(bundle) => {
                bundle.destination.iter().try_for_each(|part| self.part(part))
            }
            Action::OutputField { source: part, .. }
            | Action::StackPush(part)
            | Action::StackPop(part)
            | Action::CheckLarger { destination: part, .. } => self.part(part),
            Action::Learn(learn) => {
                let fields = learn.specs.iter().filter_map(|spec| spec.source.field());
                fields.into_iter().try_for_each(|part| self.part(part))
            }
            Action::Ct(ct) => self.check_connection(ct),
            Action::Clone(actions) => {
                let mut copy = self.clone();
                actions.iter().try_for_each(|action| copy.check(action))
            }
            _ => Ok(()),
        }
    }

    fn check_connection(&self, ct: &Ct) -> Result<(), Fault> {
        self.need(Needs::Ip)?;
        match ct.helper {
            21 => self.need(Needs::Tcp)?,
            69 => self.need(Needs::Udp)?,
            _ => {}
        }
        if let Zone::Field(part) = &ct.zone {
            self.part(part)?;
        }
        ct.actions.iter().try_for_each(|action| match action {
            Action::Nat(nat) => match nat.addresses {
                NatAddresses::Unchanged => Ok(()),
                NatAddresses::V4(..) => self.need(Needs::Ipv4),
                NatAddresses::V6(..) => self.need(Needs::Ipv6),
            },
            Action::Move { source, .. } => self.part(source),
            _ => Ok(()),
        })
    }
}
