//! Branches: elements where the ways of packets part, and where they meet again.
//!
//! Before they wait to be pulled, packets that took different ways are put back into the order they
//! had where these meet, which takes as long there as some elements do. So are the packets of
//! sources that take their turns together.

use linerate_graph::{Plan, Processing};

/// From an element, by an output of it, to another.
struct Edge {
    from: usize,
    output: usize,
    to: usize,
}

/// The edges on which packets are pushed, between elements that are `open`.
fn edges(plan: &Plan, open: impl Fn(usize) -> bool) -> Vec<Edge> {
    let mut edges = Vec::new();
    for (from, element) in plan.elements.iter().enumerate().filter(|(from, _)| open(*from)) {
        for (output, targets) in element.targets.iter().enumerate() {
            if element.outputs[output] == Processing::Push {
                let open = targets.iter().map(|to| to.element).filter(|to| open(*to));
                edges.extend(open.map(|to| Edge { from, output, to }));
            }
        }
    }
    edges
}

/// Marks the elements that edges which `begin`, or edges behind these, lead to.
fn reached(edges: &[Edge], count: usize, begins: impl Fn(&Edge) -> bool) -> Vec<bool> {
    let mut reached = vec![false; count];
    let mut next: Vec<usize> =
        edges.iter().filter(|edge| begins(edge)).map(|edge| edge.to).collect();
    while let Some(at) = next.pop() {
        if !std::mem::replace(&mut reached[at], true) {
            next.extend(edges.iter().filter(|edge| edge.from == at).map(|edge| edge.to));
        }
    }
    reached
}

/// Marks the elements reached from an element, by each of its outputs.
fn ways(plan: &Plan, edges: &[Edge], at: usize) -> Vec<Vec<bool>> {
    let by = |output: usize| {
        let begins = |edge: &Edge| edge.from == at && edge.output == output;
        reached(edges, plan.elements.len(), begins)
    };
    (0..plan.elements[at].outputs.len()).map(by).collect()
}

/// By output of an element: the first output, itself among them, whose packets can come to one
/// element with its own; `None` where no other's can.
pub(super) fn rejoining_outputs(plan: &Plan, at: usize) -> Vec<Option<usize>> {
    let ways = ways(plan, &edges(plan, |_| true), at);
    let meet = |one: usize, other: usize| {
        ways[one].iter().zip(&ways[other]).any(|(one, other)| *one && *other)
    };
    let mut first: Vec<usize> = (0..ways.len()).collect();
    for other in 0..ways.len() {
        for one in (0..other).filter(|one| meet(*one, other)) {
            let (to, from) = (first[one].min(first[other]), first[one].max(first[other]));
            first.iter_mut().filter(|first| **first == from).for_each(|first| *first = to);
        }
    }
    let several = |of: usize| first.iter().filter(|first| **first == of).count() > 1;
    first.iter().map(|of| several(*of).then_some(*of)).collect()
}

/// Returns true if packets went several ways from an element; `came` marks the elements with
/// packets.
pub(super) fn splits(plan: &Plan, at: usize, came: &[bool]) -> bool {
    let outputs: Vec<usize> = edges(plan, |at| came[at])
        .iter()
        .filter(|edge| edge.from == at)
        .map(|edge| edge.output)
        .collect();
    outputs.iter().any(|output| *output != outputs[0])
}

/// Marks the elements where packets of different ways met; `came` marks those with packets.
pub(super) fn reorder_points(plan: &Plan, came: &[bool]) -> Vec<bool> {
    let count = plan.elements.len();
    let edges = edges(plan, |at| came[at]);
    let mut ordered = vec![false; count];
    let mut mark = |from: &[usize], ways: &[Vec<bool>]| {
        let on_way = |at: usize| from.contains(&at) || ways.iter().any(|way| way[at]);
        for (at, ordered) in ordered.iter_mut().enumerate() {
            let by_several = ways.iter().filter(|way| way[at]).count() > 1;
            let here = || edges.iter().filter(|edge| edge.to == at && on_way(edge.from)).count();
            *ordered |= by_several && here() > 1;
        }
    };
    for at in (0..count).filter(|at| came[*at]) {
        mark(&[at], &ways(plan, &edges, at));
    }
    // Arrivals from outside have no known order: such sources run by themselves.
    if !plan.is_live() {
        let is_source = |at: &usize| came[*at] && plan.elements[*at].inputs.is_empty();
        let sources: Vec<usize> = (0..count).filter(is_source).collect();
        let from = |source: &usize| reached(&edges, count, |edge| edge.from == *source);
        mark(&sources, &sources.iter().map(from).collect::<Vec<_>>());
    }
    ordered
}

#[cfg(test)]
mod tests {
    use super::{super::packet_counts::tests::trial, *};

    fn at(plan: &Plan, name: &str) -> usize {
        plan.find(name).unwrap()
    }

    #[test]
    fn outputs_meet_where_one_element_is_behind_them() {
        let text = "FromDevice(a) -> s :: HashSwitch(12, 4);
            s[0] -> Counter -> d :: Discard; s[1] -> Discard; s[2] -> Null -> d; s[3] -> Queue -> d2 :: Discard;";
        let trial = trial(text, &[]);
        let plan = &trial.plan;
        assert_eq!(rejoining_outputs(plan, at(plan, "s")), [Some(0), None, Some(0), None]);
        assert_eq!(rejoining_outputs(plan, at(plan, "d")), []);
    }

    #[test]
    fn packets_are_put_in_order_where_ways_meet_that_some_came_by() {
        let text = "FromDevice(a) -> s :: RoundRobinSwitch;
            s[0] -> Null -> met :: Counter -> behind :: Counter -> Discard;
            s[1] -> met; s[2] -> never :: CheckLength(1) -> behind";
        let trial = trial(text, &[]);
        let plan = &trial.plan;
        let all = vec![true; plan.elements.len()];
        let names = |came: &[bool]| {
            let ordered = reorder_points(plan, came);
            let there = plan.elements.iter().zip(ordered).filter(|(_, is)| *is);
            there.map(|(element, _)| element.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(names(&all), ["met", "behind"]);
        let came: Vec<bool> = plan.elements.iter().map(|element| element.name != "never").collect();
        assert_eq!(names(&came), ["met"]);
        assert!(splits(plan, at(plan, "s"), &came) && !splits(plan, at(plan, "met"), &came));
    }

    #[test]
    fn sources_that_take_turns_meet_and_ports_do_not() {
        for (source, wanted) in [("InfiniteSource", true), ("FromDevice(a)", false)] {
            let trial = trial(&format!("{source} -> d :: Discard; {source} -> d"), &[]);
            let came = vec![true; trial.plan.elements.len()];
            assert_eq!(
                reorder_points(&trial.plan, &came)[at(&trial.plan, "d")],
                wanted,
                "{source}"
            );
        }
    }
}
