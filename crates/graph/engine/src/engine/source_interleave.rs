//! Interleaving of sources whose packets meet: they take their turns together.
//!
//! A packet at a time, two sources in front of one queue fill it in turns. A task of ours
//! takes many turns at once; where that would be seen, because packets of another
//! source come to the same elements before they wait, both take as many turns in one
//! round, and their packets are numbered as if they had come in turns: where they
//! meet, they are in that order ([`order`](crate::runtime::order)).
//!
//! Where packets come from outside ([`Class::external_input`](crate::Class::external_input)) the
//! order of turns packet by packet is unknown, and each source runs by itself.

use std::collections::HashMap;

use linerate_memory::Frame;

use super::ordering_domains::{Groups, Sets, pushed_to};
use crate::{
    element::{Context, Next, Plan, Processing},
    runtime::{account::ENGINE, node::SendLimit, outputs::NOWHERE},
};

/// By element: the sources with which it takes its turns, itself among them; empty for elements
/// that are no sources, or meet no other's packets. Only those that are `here` count.
pub(crate) fn find_companions(
    plan: &Plan,
    groups: &Groups,
    here: impl Fn(usize) -> bool,
) -> Vec<Vec<usize>> {
    let mut companions = vec![Vec::new(); plan.elements.len()];
    if plan.is_live() {
        return companions;
    }
    let is_source = |at: &usize| {
        let element = &plan.elements[*at];
        element.inputs.is_empty() && element.outputs.contains(&Processing::Push) && here(*at)
    };
    let sources: Vec<usize> = (0..plan.elements.len()).filter(is_source).collect();
    // Sources that meet, also by way of others, have the same party.
    let mut parties = Sets::new(plan.elements.len());
    let mut first_at = vec![None; plan.elements.len()];
    for &source in &sources {
        for at in pushed_to(plan, source) {
            let first: usize = *first_at[groups.representative(at)].get_or_insert(source);
            parties.join(first, source);
        }
    }
    let mut mates: HashMap<usize, Vec<usize>> = HashMap::new();
    for &source in &sources {
        mates.entry(parties.representative(source)).or_default().push(source);
    }
    for party in mates.into_values().filter(|party| party.len() > 1) {
        party.iter().for_each(|source| companions[*source].clone_from(&party));
    }
    companions
}

impl Context {
    /// Runs the task of a source, and of those that take their turns with it. `frame` is
    /// empty before and after. Returns whether something was done.
    #[inline(never)]
    pub(super) fn run_together(&mut self, first: usize, frame: &mut Frame) -> bool {
        let mut party = std::mem::take(&mut self.party);
        let turns = self.gather(first, &mut party);
        let worked = match party.len() {
            1 => self.run_apart(first, turns, frame),
            _ => self.run_party(&party, turns, frame),
        };
        party.clear();
        self.party = party;
        worked
    }

    /// Collects the sources that take turns with a source now, itself first, and returns the turns
    /// each of them may take: all that are ready where these are equals, else it goes on alone
    /// until it is another one's turn.
    fn gather(&mut self, first: usize, party: &mut Vec<usize>) -> usize {
        party.push(first);
        let mut turns = self.turns_at_once(first);
        let mut before = usize::MAX;
        for &other in &self.nodes[first].companions {
            if other == first || !self.tasks.is_ready(other) {
                continue;
            }
            before = before.min(self.tasks.turns_before(first, other));
            turns = match (turns, self.turns_at_once(other)) {
                (Some(turns), Some(room)) if self.tasks.are_in_step(first, other) => {
                    party.push(other);
                    Some(turns.min(room))
                }
                _ => None,
            };
        }
        match turns {
            Some(turns) => {
                party[1..].sort_unstable_by_key(|other| self.tasks.since(*other));
                turns
            }
            None => {
                party.truncate(1);
                before
            }
        }
    }

    /// Returns the number of turns a source may take at once; `None` when each has to go all the
    /// way before the next, or when there is not room for a packet of each of those that fill a
    /// queue: the one that comes then must find it full.
    fn turns_at_once(&self, source: usize) -> Option<usize> {
        let runtime = &self.runtimes[source];
        let element = runtime.element.as_ref()?;
        if runtime.counted || runtime.one_by_one || runtime.outputs.count > 1 {
            return None;
        }
        let (room, alone) = match runtime.bound {
            SendLimit::Limits => self.least_room(source),
            bound => self.room_for_turns(source, false, bound),
        };
        if self.nodes[source].is_observed {
            return None;
        }
        let room = if runtime.keeps_step { room.min(self.turns_in_step(source)) } else { room };
        // Its work behind its last packet comes before the others' next turn.
        let left = element.ready().filter(|left| *left > 0).unwrap_or(usize::MAX);
        (!alone && room > 0).then_some(room.min(left))
    }

    /// Runs the tasks of a party for as many turns each.
    fn run_party(&mut self, party: &[usize], turns: usize, frame: &mut Frame) -> bool {
        if self.out.is_exact() {
            self.go_one_by_one(false);
        }
        party[1..].iter().for_each(|other| self.tasks.take(*other));
        self.account.begin();
        self.begin_round();
        let mut most = 0;
        let mut worked = false;
        for (at, &source) in party.iter().enumerate() {
            let (next, taken) = self.run_member(source, turns, (at, party.len()));
            most = most.max(taken);
            worked |= self.ran(source, next, taken.max(1) as u32);
        }
        self.order.turns_taken(party.len() * most);
        self.on_the_way = true;
        self.flow(NOWHERE, frame);
        self.arrived();
        self.account.switch(ENGINE);
        self.account.end(worked | (most > 0));
        worked
    }

    /// Runs the task of a member of a party, whose packets wait for those of the others. Returns
    /// how many there are.
    fn run_member(&mut self, source: usize, turns: usize, place: (usize, usize)) -> (Next, usize) {
        let Some(mut element) = self.runtimes[source].take() else { return (Next::Sleep, 0) };
        (self.task, self.pulled) = (source, 0);
        self.enter(source);
        let mut frame = self.out.fresh();
        let limit = frame.limit();
        frame.set_limit(limit.min(turns));
        let next = element.run(self, &mut frame);
        frame.set_limit(limit);
        let taken = frame.len();
        let runtime = &mut self.runtimes[source];
        runtime.put(element);
        let (to, edge) = (runtime.next, runtime.outputs.first);
        self.task = usize::MAX;
        self.pending.next_call();
        self.order.number_turns(&frame, place, self.pool.arena());
        if self.out.is_touched() {
            // Handlers that it has called may have sent packets.
            self.collect();
        }
        if !self.deferred_writes.is_empty() {
            self.write_late();
        }
        if to == NOWHERE {
            self.runtimes[source].stats.nowhere(taken);
            self.pool.give(&mut frame);
        } else if taken > 0 {
            self.runtimes[source].stats.called(taken);
            self.add_pending((to, edge), frame);
            return (next, taken);
        }
        self.out.recycle(frame);
        (next, taken)
    }
}
