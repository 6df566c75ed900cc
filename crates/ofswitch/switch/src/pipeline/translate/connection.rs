//! `ct`: decision on its steps. The connection itself is looked up when the packet is there.

use std::sync::Arc;

use super::fields::bits_of;
use super::{Translator, say};
use crate::pipeline::{PendingWork, Step};
use crate::wire::{Action, Ct, Entry, Field, Zone};

impl<'a> Translator<'a> {
    pub(super) fn connection(&mut self, ct: &'a Ct) {
        let zone = match &ct.zone {
            Zone::Number(number) => *number,
            Zone::Field(part) => self.read_part(part) as u16,
        };
        self.commit();
        let actions = ct.actions.iter().filter_map(|action| self.resolved(action)).collect();
        let action = Arc::new(Ct { zone: Zone::Number(zone), actions, ..ct.clone() });
        let track = Step::Track { action, zone };
        let Some(table) = ct.table else {
            self.steps.push(track);
            // The result of the lookup is for a `ct` with a table.
            return self.forget_connection();
        };
        let next = self.suspend_with(vec![PendingWork::Table(table)], true);
        say!(self, "(a copy goes on in table {table} as {})", next.number);
        self.add_copy(vec![track, Step::Continue(next)]);
        self.forget_connection();
    }

    /// Returns an action on a connection, with its values as numbers.
    fn resolved(&mut self, action: &Action) -> Option<Action> {
        match action {
            Action::Move { source, destination } => {
                if !self.has_field(source.field()) {
                    return None;
                }
                let value = self.read_part(source) << destination.offset();
                let entry = Entry::masked(destination.field(), value, bits_of(destination));
                Some(Action::SetField(entry))
            }
            Action::Load { destination, value } => {
                let value = u128::from(*value) << destination.offset();
                let entry = Entry::masked(destination.field(), value, bits_of(destination));
                Some(Action::SetField(entry))
            }
            _ => Some(action.clone()),
        }
    }

    /// Fields, and those of the connection's first packet that stand for them.
    pub(super) fn original_fields(&self) -> Vec<(Field, Field)> {
        let mut fields = vec![
            (Field::IpProto, Field::CtProto),
            (Field::TcpSrc, Field::CtTpSrc),
            (Field::TcpDst, Field::CtTpDst),
        ];
        if self.packet.key.get(Field::EthType) == 0x86dd {
            fields.push((Field::Ipv6Src, Field::CtIpv6Src));
            fields.push((Field::Ipv6Dst, Field::CtIpv6Dst));
        } else {
            fields.push((Field::Ipv4Src, Field::CtIpv4Src));
            fields.push((Field::Ipv4Dst, Field::CtIpv4Dst));
        }
        fields
    }
}
