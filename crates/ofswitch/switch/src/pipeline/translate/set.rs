//! Action sets and buckets: actions in the specification's order (OpenFlow 1.3.5, section 5.10).

use crate::wire::{Action, PortNumber};

/// Returns the place in the order, for kinds of actions that come before fields are set.
fn place(action: &Action) -> Option<usize> {
    Some(match action {
        Action::Meter(_) => 0,
        Action::CopyTtlIn => 1,
        Action::PopVlan => 2,
        Action::PopMpls(_) => 3,
        Action::PopPbb => 4,
        Action::Decap(_) => 5,
        Action::Encap(_) => 6,
        Action::PushMpls(_) => 7,
        Action::PushPbb(_) => 8,
        Action::PushVlan(_) => 9,
        Action::CopyTtlOut => 10,
        Action::DecIpTtl | Action::DecIpTtlFor(_) => 11,
        Action::DecMplsTtl => 12,
        Action::DecNshTtl => 13,
        _ => return None,
    })
}

const PLACES: usize = 14;

fn is_last(action: &Action) -> bool {
    matches!(
        action,
        Action::SetQueue(_)
            | Action::Group(_)
            | Action::Output { .. }
            | Action::Resubmit { .. }
            | Action::Ct(_)
    )
}

/// The actions of a set as they are done.
///
/// Of each kind the last is done, but all that set fields. A group replaces an output, and either
/// replaces lookups (`resubmit`, `ct`).
pub(super) fn in_order<'a>(set: &[&'a Action]) -> Vec<&'a Action> {
    let mut places = [None; PLACES];
    for &action in set {
        if let Some(place) = place(action) {
            places[place] = Some(action);
        }
    }
    let mut ordered: Vec<&Action> = places.into_iter().flatten().collect();
    ordered.extend(set.iter().filter(|action| place(action).is_none() && !is_last(action)));
    let last = |is: fn(&Action) -> bool| set.iter().rev().find(|action| is(action)).copied();
    ordered.extend(last(|action| matches!(action, Action::SetQueue(_))));
    let end = last(|action| matches!(action, Action::Group(_)))
        .or_else(|| last(|action| matches!(action, Action::Output { .. })))
        .or_else(|| last(|action| matches!(action, Action::Resubmit { .. })))
        .or_else(|| last(|action| matches!(action, Action::Ct(_))));
    ordered.extend(end);
    ordered
}

/// Returns the output of a set so far, for matches on it.
pub(super) fn output(set: &[&Action]) -> PortNumber {
    let mut port = PortNumber::UNSET;
    for action in set {
        match action {
            Action::Group(_) => return PortNumber::UNSET,
            Action::Output { port: to, .. } => port = *to,
            _ => {}
        }
    }
    port
}
