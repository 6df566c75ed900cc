//! Ways of packets within a round: the elements they come from, and whether packets at one place are
//! all that come to another.

use std::collections::HashSet;

use super::{Plan, PlanElement, Processing};
use crate::{element::Copies, lang::PortRef};

/// Bytes of the longest packet that an element could make several of.
const LONGEST: usize = u16::MAX as usize;

impl PlanElement {
    /// Returns true if its rules may drop packets, or lose those of an output that is not connected.
    pub(crate) fn may_drop(&self) -> bool {
        // A lack of buffers is no rule of an element.
        let drops = self.class.drops.iter().any(|reason| !reason.starts_with("no buffer"));
        drops || self.class.processing.ends_with("ah")
    }

    /// Returns true if packets that are pushed to it wait there to be pulled.
    pub(crate) fn is_queue(&self) -> bool {
        self.inputs.contains(&Processing::Push) && self.outputs.contains(&Processing::Pull)
    }

    /// The outputs that packets are pushed from, to one of its inputs.
    fn pushed_from(&self) -> impl Iterator<Item = PortRef> + '_ {
        let inputs = self.sources.iter().zip(&self.inputs);
        let pushed = inputs.filter(|(_, input)| **input == Processing::Push);
        pushed.flat_map(|(sources, _)| sources).copied()
    }
}

impl Plan {
    /// The elements that packets come to an element from, or for, in the same round: against the
    /// direction of packets, and from a pulled element to the one that pulls.
    pub(crate) fn before(&self, element: usize) -> impl Iterator<Item = usize> + '_ {
        let here = &self.elements[element];
        let outputs = here.targets.iter().zip(&here.outputs);
        let pulled = outputs.filter(|(_, output)| **output == Processing::Pull);
        let pullers = pulled.flat_map(|(targets, _)| targets).copied();
        here.pushed_from().chain(pullers).map(|port| port.element)
    }

    /// These elements, and all from where packets come to them in the same round.
    pub(crate) fn all_before(&self, elements: impl IntoIterator<Item = usize>) -> HashSet<usize> {
        let mut open: Vec<usize> = elements.into_iter().collect();
        let mut found = HashSet::new();
        while let Some(at) = open.pop() {
            if found.insert(at) {
                open.extend(self.before(at));
            }
        }
        found
    }

    /// The tasks that take packets out of a queue.
    pub(crate) fn takers(&self, queue: usize) -> Vec<usize> {
        let (mut open, mut seen, mut takers) = (vec![queue], HashSet::new(), Vec::new());
        while let Some(at) = open.pop() {
            let here = &self.elements[at];
            let pulled = here.targets.iter().zip(&here.outputs);
            let pulled = pulled.filter(|(_, output)| **output == Processing::Pull);
            for to in pulled.flat_map(|(targets, _)| targets).map(|port| port.element) {
                if seen.insert(to) {
                    let pulled_on = self.elements[to].outputs.contains(&Processing::Pull);
                    let list = if pulled_on { &mut open } else { &mut takers };
                    list.push(to);
                }
            }
        }
        takers
    }

    /// Returns true if a queue changes within a round only by the packets that leave an element by
    /// output 0, or come to its input where it pulls, and by each of them at once. So no element in
    /// between drops packets, holds, copies or diverts them, and no others come there in the same
    /// round past the element.
    pub fn changes_alone(&self, element: usize, queue: usize) -> bool {
        let pulls = self.elements[element].inputs.first() == Some(&Processing::Pull);
        let beside = if pulls {
            self.leads_back(element, queue).then(|| self.elements[queue].pushed_from().collect())
        } else {
            self.ways_past(element, queue)
        };
        beside.is_some_and(|beside: Vec<PortRef>| {
            let others = self.all_before(beside.into_iter().map(|port| port.element));
            others.is_disjoint(&self.all_before([element]))
        })
    }

    /// Returns true if the packets that an element pulls are those that leave a queue, one by one.
    fn leads_back(&self, element: usize, queue: usize) -> bool {
        let mut at = element;
        for _ in 0..self.elements.len() {
            let [sources] = &self.elements[at].sources[..] else { return false };
            let [from] = sources[..] else { return false };
            if from.element == queue {
                return true;
            }
            at = from.element;
            if !self.passes_each(at) {
                return false;
            }
        }
        false
    }

    /// The outputs of packets that come to a queue, or to an element in front of it, besides those
    /// that leave an element by its output 0; `None` if these do not come to the queue one by one.
    fn ways_past(&self, element: usize, queue: usize) -> Option<Vec<PortRef>> {
        let mut others = Vec::new();
        let mut from = PortRef { element, port: 0 };
        for _ in 0..self.elements.len() {
            let [to] = self.elements[from.element].targets.first()?[..] else { return None };
            let pushed = self.elements[to.element].pushed_from();
            others.extend(pushed.filter(|source| *source != from));
            if to.element == queue {
                return Some(others);
            }
            if !self.passes_each(to.element) {
                return None;
            }
            from = PortRef { element: to.element, port: 0 };
        }
        None
    }

    /// Returns true if each packet that comes to an element leaves it at once, by its only output.
    fn passes_each(&self, at: usize) -> bool {
        let element = &self.elements[at];
        let class = element.class;
        class.ports == "1/1"
            && element.inputs == element.outputs
            && !element.may_drop()
            && !class.signals.full
            && class.copies == Copies::None
            && (class.multiplies)(self, at, LONGEST) == 1
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::plan;

    fn changes_alone(text: &str) -> bool {
        let plan = plan(text);
        let at = |name: &str| plan.find(name).unwrap_or_else(|| panic!("{name} in {text}"));
        plan.changes_alone(at("e"), at("q"))
    }

    #[test]
    fn a_queue_changes_by_one_element_alone() {
        let rest = "q :: Queue -> Unqueue -> Discard";
        for front in [
            "Source -> e :: Check -> q",
            "Source -> e :: Check -> Null -> Counter -> q",
            // Those of another task come in rounds of their own.
            "Source -> e :: Check -> q; Source -> q",
            "Source -> p :: Queue -> Unqueue -> e :: Null -> q",
        ] {
            assert!(changes_alone(&format!("{rest}; {front}")), "{front}");
        }
        for front in [
            "Source -> e :: Check -> Check -> q",
            "Source -> e :: Check -> t :: Tee -> q; t [1] -> Discard",
            "Source -> t :: Tee -> e :: Null -> q; t [1] -> Null -> q",
            "Source -> e :: Check -> q; e [1] -> q",
            "Source -> e :: Null -> n :: Null -> q; Source -> t :: Tee -> n; t [1] -> e",
            "Source -> e :: Null -> p :: Queue -> Unqueue -> q",
            "Source -> e :: Null -> Discard; Source -> q",
        ] {
            assert!(!changes_alone(&format!("{rest}; {front}")), "{front}");
        }
    }

    #[test]
    fn a_pulled_queue_changes_by_one_element_alone() {
        for rest in ["q -> e :: Null", "q -> Counter -> Null -> e :: Check"] {
            assert!(changes_alone(&format!("Source -> q :: Queue; {rest} -> Unqueue -> Discard")));
        }
        for text in [
            "Source -> q :: Queue -> Check -> e :: Null -> Unqueue -> Discard",
            "Source -> q :: Queue -> e :: Null -> Unqueue -> q",
            "Source -> p :: Queue -> e :: Null -> Unqueue -> q :: Queue -> Unqueue -> Discard",
        ] {
            assert!(!changes_alone(text), "{text}");
        }
    }

    #[test]
    fn tasks_take_packets_out_of_a_queue() {
        let plan = plan("Source -> q :: Queue -> Null -> c :: Check -> u :: Unqueue -> Discard");
        assert_eq!(plan.takers(plan.find("q").unwrap()), [plan.find("u").unwrap()]);
        let mut before: Vec<usize> =
            plan.all_before([plan.find("c").unwrap()]).into_iter().collect();
        before.sort_unstable();
        assert_eq!(before, [plan.find("c").unwrap(), plan.find("u").unwrap()]);
    }
}
