//! References of flows and groups.

use super::Flow;
use super::flow::actions;
use crate::wire::{Action, Instruction, LearnFlags, PortNumber};

/// Something a flow refers to, which has to be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reference {
    Group(u32),
    Meter(u32),
}

/// Every group and meter a flow refers to; one may come more than once.
pub(crate) fn references(flow: &Flow, each: &mut dyn FnMut(Reference)) {
    of_instructions(&flow.instructions, each);
}

/// Likewise for instructions.
pub(crate) fn of_instructions(instructions: &[Instruction], each: &mut dyn FnMut(Reference)) {
    for instruction in instructions {
        match instruction {
            Instruction::Meter(meter) => each(Reference::Meter(*meter)),
            Instruction::ApplyActions(actions) | Instruction::WriteActions(actions) => {
                of_actions(actions, each);
            }
            _ => {}
        }
    }
}

/// Likewise for actions.
pub(crate) fn of_actions(actions: &[Action], each: &mut dyn FnMut(Reference)) {
    for action in actions {
        match action {
            Action::Group(group) => each(Reference::Group(*group)),
            Action::Meter(meter) => each(Reference::Meter(*meter)),
            Action::Clone(actions) => of_actions(actions, each),
            _ => {}
        }
    }
}

/// The table and the cookie of flows that are learnt by a flow and go with it.
pub(crate) fn learnt_with(flow: &Flow, each: &mut dyn FnMut(u8, u64)) {
    fn each_learnt(action: &Action, each: &mut dyn FnMut(u8, u64)) {
        match action {
            Action::Learn(learn) if learn.flags.contains(LearnFlags::DELETE_LEARNED) => {
                each(learn.table, learn.cookie);
            }
            Action::Clone(actions) => actions.iter().for_each(|action| each_learnt(action, each)),
            _ => {}
        }
    }
    flow.actions().for_each(|action| each_learnt(action, each));
}

/// Returns true if a flow sends to a port, as far as its actions name it.
pub(crate) fn sends_to_port(flow: &Flow, port: PortNumber) -> bool {
    fn sends(action: &Action, port: PortNumber) -> bool {
        match action {
            Action::Output { port: to, .. }
            | Action::Enqueue { port: to, .. }
            | Action::OutputTruncated { port: to, .. } => *to == port,
            Action::Controller(_) => port == PortNumber::CONTROLLER,
            Action::Clone(actions) => actions.iter().any(|action| sends(action, port)),
            _ => false,
        }
    }
    actions(&flow.instructions).any(|action| sends(action, port))
}

/// Returns true if a flow sends to a group.
pub(crate) fn sends_to_group(flow: &Flow, group: u32) -> bool {
    let mut found = false;
    references(flow, &mut |reference| found |= reference == Reference::Group(group));
    found
}
