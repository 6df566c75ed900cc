//! `NeighborhoodTest`: which elements are near.

use std::collections::VecDeque;

use linerate_graph::{
    Class, Context, DropReason, Element, Handler, HandlerError, HandlerResult, Plan, flow_outputs,
};
use linerate_memory::Frame;

use super::FAMILY;

/// Ports that have a handler of their own.
const PORTS: usize = 4;

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    /// every packet
    Every,
}

pub(super) const CLASS: Class = Class {
    name: "NeighborhoodTest",
    family: FAMILY,
    summary: "tells which elements are near",
    description: "The handlers name the elements that packets come from, or go to, within as many \
        connections as the parameter says: 1 without one. Elements whose ports have nothing to do \
        with each other end the way. Packets are dropped.",
    ports: "-/-",
    flow: "x/y",
    handlers: &[
        Handler::read("upstream", "elements packets come from").with_parameter(),
        Handler::read("downstream", "elements they would go to").with_parameter(),
        Handler::read("upstream0", "the same of input 0").with_parameter(),
        Handler::read("upstream1", "of input 1").with_parameter(),
        Handler::read("upstream2", "of input 2").with_parameter(),
        Handler::read("upstream3", "of input 3").with_parameter(),
        Handler::read("downstream0", "the same of output 0").with_parameter(),
        Handler::read("downstream1", "of output 1").with_parameter(),
        Handler::read("downstream2", "of output 2").with_parameter(),
        Handler::read("downstream3", "of output 3").with_parameter(),
    ],
    drops: Reason::REASONS,
    cost: "One call per frame.",
    example: "Idle -> a :: Null -> n :: NeighborhoodTest -> Discard;\n\
        Script(print n.upstream, print $(n.upstream 2), stop);",
    make: |_| Box::new(NeighborhoodTest),
    ..Class::here()
};

struct NeighborhoodTest;

/// The direction of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

/// The elements within `distance` of a port of `start`, or of all its ports, the nearest first.
fn near(
    plan: &Plan,
    start: usize,
    way: Direction,
    port: Option<usize>,
    distance: u32,
) -> Vec<usize> {
    let ends = |element: usize, port: usize| {
        let element = &plan.elements[element];
        let ends = if way == Direction::Up { &element.sources } else { &element.targets };
        ends[port].iter().map(|end| (end.element, end.port)).collect::<Vec<_>>()
    };
    let ports = |element: usize| {
        let element = &plan.elements[element];
        if way == Direction::Up { element.inputs.len() } else { element.outputs.len() }
    };
    // By which ports packets go on that came by another.
    let onward = |element: usize, port: usize| -> Vec<usize> {
        let at = &plan.elements[element];
        let outputs = |input| flow_outputs(at.class.flow, input, at.outputs.len());
        match way {
            Direction::Down => outputs(port),
            Direction::Up => (0..at.inputs.len()).filter(|i| outputs(*i).contains(&port)).collect(),
        }
    };
    let first = (0..ports(start)).filter(|at| port.is_none_or(|port| port == *at));
    let mut open: VecDeque<_> = first.flat_map(|at| ends(start, at)).map(|end| (end, 1)).collect();
    let (mut found, mut seen) = (Vec::new(), Vec::new());
    while let Some((end, far)) = open.pop_front() {
        if far > distance || seen.contains(&end) {
            continue;
        }
        seen.push(end);
        if !found.contains(&end.0) {
            found.push(end.0);
        }
        let further = onward(end.0, end.1).into_iter().flat_map(|port| ends(end.0, port));
        open.extend(further.map(|end| (end, far + 1)));
    }
    found
}

impl Element for NeighborhoodTest {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        cx.drop_frame(frame, Reason::Every);
    }

    fn read(&mut self, cx: &mut Context, handler: &str, parameter: &str) -> HandlerResult {
        let (way, port) = match handler.strip_prefix("upstream") {
            Some(port) => (Direction::Up, port),
            None => (Direction::Down, handler.strip_prefix("downstream").unwrap_or_default()),
        };
        let port = port.parse().ok().filter(|port| *port < PORTS);
        let wrong = || HandlerError::Refused("syntax error".into());
        let distance = match parameter.trim() {
            "" => 1,
            number => number.parse().map_err(|_| wrong())?,
        };
        let plan = cx.plan();
        let found = near(plan, cx.element(), way, port, distance);
        Ok(found.into_iter().map(|at| plan.elements[at].name.clone() + "\n").collect())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    /// Answers of the handlers, lines as words.
    fn answers(graph: &str, handlers: &[&str]) -> Vec<String> {
        let print: String =
            handlers.iter().map(|name| format!("print '>', print $({name}), ")).collect();
        let mut run = Run::new(&format!("{graph} Script({print} stop)"));
        run.run();
        let words = |answer: &str| answer.split_whitespace().collect::<Vec<_>>().join(" ");
        run.output().split('>').skip(1).map(words).collect()
    }

    #[test]
    fn neighbours_are_named_by_distance_and_port() {
        let graph = "i :: Idle -> c :: Null -> b :: Null -> a :: Null -> n :: NeighborhoodTest;
            n -> x :: Null -> y :: Null -> Discard; j :: Idle -> [1] n; n [1] -> e :: Discard;";
        // What Click answers.
        let expected = [
            ("n.upstream", "a j"),
            ("n.upstream 2", "a j b"),
            ("n.upstream0 2", "a b"),
            ("n.upstream1 2", "j"),
            ("n.downstream", "x e"),
            ("n.downstream0", "x"),
            ("n.downstream1 9", "e"),
        ];
        assert_eq!(
            answers(graph, &expected.map(|(name, _)| name)),
            expected.map(|(_, found)| found)
        );
    }

    #[test]
    fn ports_that_have_nothing_to_do_with_each_other_end_the_way() {
        let graph =
            "Idle -> r :: NeighborhoodTest -> a :: Null -> n :: NeighborhoodTest -> Discard;";
        assert_eq!(answers(graph, &["n.upstream 5"]), ["a r"]);
    }
}
