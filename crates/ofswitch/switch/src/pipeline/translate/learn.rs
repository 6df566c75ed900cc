//! `learn`: a flow is made of the packet.

use super::{ENDS, Translator, say};
use crate::pipeline::{Learning, Learnt};
use crate::table::{Flow, Minimatch};
use crate::wire::{
    Action, Entry, Field, FlowFlags, FlowMod, Instruction, Learn, LearnDestination, LearnFlags,
    LearnSource, Match, PortNumber, Subfield,
};

impl Translator<'_> {
    pub(super) fn learn(&mut self, learn: &Learn) {
        let flow = self.flow_of(learn);
        let learning = self.make(flow, learn);
        if learning != Learning::Made {
            self.decision.depends.unsettled[usize::from(learn.table / 64)] |=
                1 << (learn.table % 64);
        }
        if let Some(result) = &learn.result {
            self.write_part(result, u128::from(learning != Learning::Full));
        }
    }

    /// Has the flow made, if it is not there.
    fn make(&mut self, flow: FlowMod, learn: &Learn) -> Learning {
        let (key, mask) = crate::key::of_match(&flow.matching);
        let there = self.snapshot.flow_strict(flow.table, flow.priority, &key, &mask);
        let pattern = Minimatch::new(&key, &mask);
        self.decision.depends.learnt.push(Learnt { table: flow.table, pattern });
        if let Some(there) = there.filter(|there| is_same(there, &flow)) {
            say!(self, "(such a flow is there)");
            if self.trace.is_none() {
                there.refreshed.iter().for_each(|refreshed| refreshed.touch(self.now));
                there.counters.touch(self.now);
            }
            self.decision.touched.extend(there.refreshed.clone());
            self.decision.touched.push(there.counters.clone());
            return Learning::Made;
        }
        say!(self, "(a flow is made in table {})", flow.table);
        if self.trace.is_some() {
            return Learning::Made;
        }
        self.environment.learn(flow, learn.limit, self.now)
    }

    fn flow_of(&mut self, learn: &Learn) -> FlowMod {
        let (mut matching, mut actions) = (Match::new(), Vec::new());
        for spec in &learn.specs {
            let value = match &spec.source {
                LearnSource::Value(value) => *value,
                LearnSource::Field(part) => {
                    if self.has_field(part.field()) {
                        self.read_part(part)
                    } else {
                        0
                    }
                }
            };
            match spec.destination {
                LearnDestination::Match(part) => {
                    let whole = Subfield::whole(part.field());
                    let mask = super::fields::bits_of(&part);
                    let value = value << part.offset();
                    // Several parts of a field are one entry.
                    let before = matching.get(part.field()).copied();
                    let (others, other_mask) =
                        before.map_or((0, 0), |entry| (entry.value(), entry.mask()));
                    let (value, mask) = (others & !mask | value, other_mask | mask);
                    debug_assert!(mask & !super::fields::bits_of(&whole) == 0);
                    matching = matching.with_entry(entry_of(part.field(), value, mask));
                }
                LearnDestination::Load(part) => actions.push(load(part, value)),
                LearnDestination::Output => {
                    let port = u16::try_from(value).map(PortNumber::from_short);
                    let port = port.unwrap_or(PortNumber(value as u32));
                    actions.push(Action::Output { port, max_len: u16::MAX });
                }
            }
        }
        let (mut idle, mut hard) = (learn.idle_timeout, learn.hard_timeout);
        let ends = learn.fin_idle_timeout != 0 || learn.fin_hard_timeout != 0;
        if ends {
            actions.push(Action::FinTimeout {
                idle: learn.fin_idle_timeout,
                hard: learn.fin_hard_timeout,
            });
            if self.has(crate::wire::field::Needs::Tcp) {
                self.look(Field::TcpFlags, ENDS);
                if self.packet.key.get(Field::TcpFlags) & ENDS != 0 {
                    shorten(&mut idle, learn.fin_idle_timeout);
                    shorten(&mut hard, learn.fin_hard_timeout);
                }
            }
        }
        let told = learn.flags.contains(LearnFlags::SEND_FLOW_REMOVED);
        let instructions =
            if actions.is_empty() { Vec::new() } else { vec![Instruction::ApplyActions(actions)] };
        FlowMod {
            cookie: Some(learn.cookie),
            idle_timeout: idle,
            hard_timeout: hard,
            flags: if told { FlowFlags::SEND_FLOW_REMOVED } else { FlowFlags::default() },
            ..FlowMod::add(learn.table, learn.priority, matching, instructions)
        }
    }
}

fn shorten(timeout: &mut u16, to: u16) {
    if to != 0 && (*timeout == 0 || *timeout > to) {
        *timeout = to;
    }
}

/// As a match has it: a narrow number of a port is a wide one.
fn entry_of(field: Field, value: u128, mask: u128) -> Entry {
    match field {
        Field::InPort16 if mask & 0xffff == 0xffff => {
            Entry::exact(Field::InPort, PortNumber::from_short(value as u16).0.into())
        }
        _ => Entry::masked(field, value, mask),
    }
}

fn load(part: Subfield, value: u128) -> Action {
    match u64::try_from(value) {
        Ok(value) => Action::Load { destination: part, value },
        Err(_) => {
            let mask = super::fields::bits_of(&part);
            Action::SetField(Entry::masked(part.field(), value << part.offset(), mask))
        }
    }
}

/// Returns true if a flow equals the one that would be made.
fn is_same(flow: &Flow, wanted: &FlowMod) -> bool {
    Some(flow.cookie) == wanted.cookie
        && flow.idle_timeout == wanted.idle_timeout
        && flow.hard_timeout == wanted.hard_timeout
        && flow.flags == wanted.flags
        && flow.instructions == wanted.instructions
}
