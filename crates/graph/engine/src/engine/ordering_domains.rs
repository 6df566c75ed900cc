//! Ordering domains: elements that get their packets in one order, because their results depend on
//! one another.
//!
//! Frames go through a graph element by element. That shows only where an element looks at another
//! one ([`Class::observes_state_of`](crate::Class::observes_state_of)), or where several write to
//! the console: a packet must then have come to all of them before the next comes to any. Such
//! elements form a group, and the engine serves the group as one ([`pending`](crate::runtime::pending)); the
//! elements around them keep whole frames.
//!
//! Packets that must even go all the way one by one are found here, too: where a packet can change
//! the treatment of others anywhere.

use std::collections::{HashMap, HashSet};

use crate::element::{Copies, Plan, Processing};

/// A disjoint-set forest (union-find) of elements: each set has a member that represents it.
#[derive(Debug)]
pub(super) struct Sets {
    /// By element: its parent in the set, itself where it represents the set.
    towards: Vec<usize>,
}

impl Sets {
    /// Each in one of its own.
    pub(super) fn new(elements: usize) -> Sets {
        Sets { towards: (0..elements).collect() }
    }

    /// Finds the representative of an element's set.
    pub(super) fn representative(&self, mut element: usize) -> usize {
        while self.towards[element] != element {
            element = self.towards[element];
        }
        element
    }

    /// Makes one set of two. The representative of the first is that of both.
    pub(super) fn join(&mut self, one: usize, other: usize) {
        let (to, from) = (self.shorten(one), self.shorten(other));
        self.towards[from] = to;
    }

    /// Finds the representative of an element's set, and halves the path to it.
    fn shorten(&mut self, mut element: usize) -> usize {
        while self.towards[element] != element {
            self.towards[element] = self.towards[self.towards[element]];
            element = self.towards[element];
        }
        element
    }
}

/// Groups of elements that belong together.
#[derive(Debug)]
pub(crate) struct Groups {
    sets: Sets,
    /// By element: whether it is not alone in its group.
    joint: Vec<bool>,
    /// By element: whether another of its group is behind it.
    leads_on: Vec<bool>,
}

impl Groups {
    pub(crate) fn new(plan: &Plan) -> Groups {
        let count = plan.elements.len();
        let (joint, leads_on) = (vec![false; count], vec![false; count]);
        let mut groups = Groups { sets: Sets::new(count), joint, leads_on };
        let mut printer = None;
        for (at, element) in plan.elements.iter().enumerate() {
            for other in (element.class.observes_state_of)(plan, at) {
                groups.sets.join(at, other);
            }
            if element.class.prints {
                let first = *printer.get_or_insert(at);
                groups.sets.join(first, at);
            }
        }
        groups.part(&regions(plan));
        while groups.take_in(plan) {}
        for at in groups.members() {
            groups.joint[at] = true;
            let behind = pushed_to(plan, at);
            let leads_to = |other: &usize| *other != at && groups.same(at, *other);
            groups.leads_on[at] = behind.iter().any(leads_to);
        }
        groups
    }

    /// Elements that are not alone in their groups.
    fn members(&self) -> Vec<usize> {
        let count = self.joint.len();
        let mut sizes = vec![0; count];
        (0..count).for_each(|at| sizes[self.representative(at)] += 1);
        (0..count).filter(|at| sizes[self.representative(*at)] > 1).collect()
    }

    /// Joins a group with the elements in its middle that have an order of their own: other groups,
    /// and elements where packets meet. Returns true if there was any.
    fn take_in(&mut self, plan: &Plan) -> bool {
        let members = self.members();
        if members.is_empty() {
            return false;
        }
        let behind: Vec<HashSet<usize>> = members.iter().map(|at| pushed_to(plan, *at)).collect();
        let mut any = false;
        for between in 0..self.joint.len() {
            if !(members.binary_search(&between).is_ok() || packets_meet_at(plan, between)) {
                continue;
            }
            let in_front =
                members.iter().zip(&behind).filter(|(_, behind)| behind.contains(&between));
            let in_front: Vec<usize> = in_front.map(|(member, _)| *member).collect();
            if in_front.is_empty() {
                continue;
            }
            let onward = pushed_to(plan, between);
            for from in in_front {
                let returns = |to: &usize| onward.contains(to) && self.same(from, *to);
                if !self.same(from, between) && members.iter().any(returns) {
                    self.sets.join(from, between);
                    any = true;
                }
            }
        }
        any
    }

    /// Elements to which packets never come in the same round need no common order.
    fn part(&mut self, regions: &Sets) {
        let count = self.joint.len();
        let mut parts = Sets::new(count);
        let mut first_of = HashMap::new();
        for at in 0..count {
            let first = *first_of
                .entry((self.representative(at), regions.representative(at)))
                .or_insert(at);
            parts.join(first, at);
        }
        self.sets = parts;
    }

    /// Returns the representative of an element's group.
    pub(crate) fn representative(&self, element: usize) -> usize {
        self.sets.representative(element)
    }

    fn same(&self, one: usize, other: usize) -> bool {
        self.representative(one) == self.representative(other)
    }

    /// Returns true if an element is not alone in its group.
    pub(crate) fn is_joint(&self, element: usize) -> bool {
        self.joint[element]
    }

    /// Returns true if another element of its group is behind an element.
    pub(crate) fn leads_on(&self, element: usize) -> bool {
        self.leads_on[element]
    }

    /// Returns true if packets that leave an element by different outputs can come to one group
    /// again before a queue.
    pub(crate) fn meet_behind(&self, plan: &Plan, element: usize) -> bool {
        let ways = ways(plan, element);
        if ways.len() < 2 {
            return false;
        }
        // The output by which each group was first reached.
        let mut by = HashMap::new();
        for (output, first) in ways.into_iter().enumerate() {
            let mut open = vec![first];
            let mut seen = HashSet::new();
            while let Some(way) = open.pop() {
                if !seen.insert(way.element) {
                    continue;
                }
                if *by.entry(self.representative(way.element)).or_insert(output) != output {
                    return true;
                }
                open.extend(onward(plan, way));
            }
        }
        false
    }

    /// Returns true if packets that leave an element by different outputs can come to one group by
    /// different tasks, which pull them from different queues, or to one task directly and past
    /// another: the order in which these tasks are woken is seen there. Likewise when they are
    /// pushed there by no task, unless each has a place of its own (`placed`).
    pub(crate) fn tasks_meet_behind(&self, plan: &Plan, element: usize, placed: bool) -> bool {
        let ways = ways(plan, element);
        if ways.len() < 2 {
            return false;
        }
        // By whether another task has handled them before.
        let mut pushed_by = [HashMap::new(), HashMap::new()];
        let mut pulled_by = [HashMap::new(), HashMap::new()];
        for (output, first) in ways.into_iter().enumerate() {
            let mut open = vec![(first, false, false)];
            let mut seen: HashMap<usize, [bool; 8]> = HashMap::new();
            // Whether a task has handled them, and whether it has those of another output,
            // too: between these there is one order.
            while let Some((way, handled, mut shared)) = open.pop() {
                let kind =
                    usize::from(way.pulled) + 2 * usize::from(handled) + 4 * usize::from(shared);
                if std::mem::replace(&mut seen.entry(way.element).or_default()[kind], true) {
                    continue;
                }
                let by_others = |by: &HashMap<usize, usize>, at: usize| {
                    by.get(&at).is_some_and(|by| *by != output)
                };
                let leader = self.representative(way.element);
                match (way.pulled, shared) {
                    // That order is not with those that come here past the task.
                    (true, true) if handled && by_others(&pulled_by[0], way.element) => {
                        return true;
                    }
                    (true, true) => {}
                    (true, false) => {
                        let [directly, past_another] =
                            [0, 1].map(|at| by_others(&pulled_by[at], way.element));
                        if past_another || directly && handled {
                            return true;
                        }
                        shared = directly;
                        if !shared {
                            pulled_by[usize::from(handled)].entry(way.element).or_insert(output);
                        }
                    }
                    (false, true) if by_others(&pushed_by[0], leader) => return true,
                    (false, true) => {}
                    (false, false) => {
                        let [directly, by_task] =
                            [0, 1].map(|at| by_others(&pushed_by[at], leader));
                        if by_task || directly && (handled || !placed) {
                            return true;
                        }
                        pushed_by[usize::from(handled)].entry(leader).or_insert(output);
                    }
                }
                let next = self::ways(plan, way.element).into_iter();
                let handles = |next: &Hop| handled || way.pulled && !next.pulled;
                open.extend(next.map(|next| (next, handles(&next), shared)));
            }
        }
        false
    }

    /// Returns true if a task pulls packets through an element of which another of its group gets
    /// them, too, in the same round: a frame would have come to the one whole before the other.
    fn pulls_through_several(&self, plan: &Plan, task: usize) -> bool {
        let mut pulled = Vec::new();
        let mut open = vec![task];
        while let Some(at) = open.pop() {
            if pulled.contains(&at) {
                continue;
            }
            pulled.push(at);
            let element = &plan.elements[at];
            let pulls = element.sources.iter().zip(&element.inputs);
            let pulls = pulls.filter(|(_, input)| **input == Processing::Pull);
            open.extend(pulls.flat_map(|(sources, _)| sources).map(|source| source.element));
        }
        let members: Vec<usize> = pulled.iter().copied().filter(|at| self.is_joint(*at)).collect();
        !members.is_empty()
            && pulled.iter().any(|from| {
                let behind = pushed_to(plan, *from);
                let gets = |at: usize| at == *from || behind.contains(&at);
                let meets = |member: usize| {
                    let mut all = behind.iter().chain([from]);
                    all.any(|at| *at != member && self.same(*at, member))
                };
                members.iter().any(|member| gets(*member) && meets(*member))
            })
    }
}

/// Returns true if packets are pushed to an element by several ways.
fn packets_meet_at(plan: &Plan, element: usize) -> bool {
    let element = &plan.elements[element];
    let pushed = element.sources.iter().zip(&element.inputs);
    let pushed = pushed.filter(|(_, input)| **input == Processing::Push);
    pushed.map(|(sources, _)| sources.len()).sum::<usize>() > 1
}

/// The regions that elements are in. They end where packets wait to be pulled.
fn regions(plan: &Plan) -> Sets {
    let mut regions = Sets::new(plan.elements.len());
    for (at, element) in plan.elements.iter().enumerate() {
        let stores = element.inputs.contains(&Processing::Push);
        let outputs = element.targets.iter().zip(&element.outputs);
        let together = outputs.filter(|(_, output)| **output == Processing::Push || !stores);
        for target in together.flat_map(|(targets, _)| targets) {
            regions.join(at, target.element);
        }
    }
    regions
}

/// A step of packets, to an element.
#[derive(Debug, Clone, Copy)]
struct Hop {
    element: usize,
    /// Whether the element pulled them.
    pulled: bool,
}

/// Returns the next elements of packets that leave an element, by output.
fn ways(plan: &Plan, element: usize) -> Vec<Hop> {
    let element = &plan.elements[element];
    let outputs = element.targets.iter().zip(&element.outputs);
    let targets = outputs.flat_map(|(targets, output)| targets.iter().map(move |to| (to, output)));
    targets
        .map(|(to, output)| Hop { element: to.element, pulled: *output == Processing::Pull })
        .collect()
}

/// Returns the next elements of packets that have come to an element, in the same round. Those that
/// were pushed to an element wait there to be pulled.
fn onward(plan: &Plan, way: Hop) -> impl Iterator<Item = Hop> + '_ {
    ways(plan, way.element).into_iter().filter(move |next| way.pulled || !next.pulled)
}

/// The elements that packets pushed to an element, or pulled by it, can come to in the
/// same round, by their places. The element itself only when packets come back to it.
pub(crate) fn pushed_to(plan: &Plan, element: usize) -> HashSet<usize> {
    let mut seen = HashSet::new();
    let pulled = plan.elements[element].inputs.contains(&Processing::Pull);
    let mut open: Vec<Hop> = onward(plan, Hop { element, pulled }).collect();
    while let Some(way) = open.pop() {
        if seen.insert(way.element) {
            open.extend(onward(plan, way));
        }
    }
    seen
}

/// Returns true if an element gets packets of a task that takes them out of a queue, or off a link,
/// whose state decides its treatment of them: packets taken together would all find it as the last of
/// them has left it. It has no order in common with the element, which packets come to later.
fn observes_behind_it(plan: &Plan, at: usize) -> bool {
    let observed = (plan.elements[at].class.observes_state_of)(plan, at);
    let takers = |other: usize| {
        let element = &plan.elements[other];
        let is_link = !element.inputs.is_empty()
            && !element.inputs.contains(&Processing::Push)
            && !element.outputs.contains(&Processing::Pull);
        let takers = if element.is_queue() { plan.takers(other) } else { Vec::new() };
        takers.into_iter().chain(is_link.then_some(other))
    };
    let takers: Vec<usize> = observed.into_iter().flat_map(takers).collect();
    !takers.is_empty() && {
        let before = plan.all_before([at]);
        takers.iter().any(|taker| before.contains(taker))
    }
}

/// By element: whether packets it sends by itself must go all the way one by one. So they must
/// where a packet can come to an element that sends it by several outputs that meet again, there or
/// behind queues, or that deals packets out in turns and may get it a second time, or that looks at
/// where it waited before, and a task where several of a group get the packets it pulls. Copies with
/// places of their own are like packets that part, but for the tasks they wake: one packet wakes
/// several.
pub(crate) fn find_one_by_one(plan: &Plan, groups: &Groups) -> Vec<bool> {
    let all = 0..plan.elements.len();
    let demands = |at: usize| {
        let class = plan.elements[at].class;
        let copies_meet = match class.copies {
            Copies::None => false,
            Copies::Shared => {
                groups.meet_behind(plan, at) || groups.tasks_meet_behind(plan, at, false)
            }
            Copies::Placed => groups.tasks_meet_behind(plan, at, true),
        };
        copies_meet
            || class.order_dependent && pushed_to(plan, at).contains(&at)
            || observes_behind_it(plan, at)
    };
    let demanding: Vec<usize> = all.clone().filter(|at| demands(*at)).collect();
    let mut one_by_one = vec![false; plan.elements.len()];
    for at in plan.all_before(demanding) {
        one_by_one[at] = true;
    }
    for at in all {
        let element = &plan.elements[at];
        one_by_one[at] |= !element.inputs.contains(&Processing::Push)
            && !element.outputs.contains(&Processing::Pull)
            && (groups.meet_behind(plan, at) || groups.pulls_through_several(plan, at));
    }
    one_by_one
}
