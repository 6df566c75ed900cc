//! The ways of packets through a graph, for readers of the generated code: elements that stand
//! behind each other are one line.

use linerate_graph::{Plan, Processing};

/// Lines like `source -> counter -> sink`; `~>` is where packets are pulled, `[1]` a port that is
/// not the first.
pub(super) fn chains(plan: &Plan) -> Vec<String> {
    let ways = Connectivity::new(plan);
    let mut done: Vec<Vec<bool>> =
        plan.elements.iter().map(|element| vec![false; element.targets.len()]).collect();
    let mut chains = Vec::new();
    // Chains that begin where others part or meet, then the circles.
    for begins in [true, false] {
        for at in 0..plan.elements.len() {
            for port in 0..plan.elements[at].targets.len() {
                if !(done[at][port] || begins && ways.is_inner(at)) {
                    for first in 0..plan.elements[at].targets[port].len() {
                        chains.push(ways.chain(at, port, first, &mut done));
                    }
                }
            }
        }
    }
    chains
}

struct Connectivity<'a> {
    plan: &'a Plan,
    /// Number of connections to an element.
    into: Vec<usize>,
}

impl Connectivity<'_> {
    fn new(plan: &Plan) -> Connectivity<'_> {
        let mut into = vec![0; plan.elements.len()];
        for target in plan.elements.iter().flat_map(|element| element.targets.iter().flatten()) {
            into[target.element] += 1;
        }
        Connectivity { plan, into }
    }

    /// Returns true if one connection leads to it and one away.
    fn is_inner(&self, at: usize) -> bool {
        let away: usize = self.plan.elements[at].targets.iter().map(Vec::len).sum();
        self.into[at] == 1 && away == 1
    }

    /// The chain that begins with a connection of an output.
    fn chain(&self, at: usize, port: usize, first: usize, done: &mut [Vec<bool>]) -> String {
        let (mut at, mut port, mut which) = (at, port, first);
        let mut text = self.plan.elements[at].name.clone();
        loop {
            done[at][port] = true;
            let element = &self.plan.elements[at];
            let target = &element.targets[port][which];
            if port > 0 {
                text += &format!("[{port}]");
            }
            text += match element.outputs[port] {
                Processing::Push => " -> ",
                Processing::Pull => " ~> ",
            };
            if target.port > 0 {
                text += &format!("[{}]", target.port);
            }
            let next = &self.plan.elements[target.element];
            text += &next.name;
            let out = next.targets.iter().position(|targets| !targets.is_empty());
            match out.filter(|out| self.is_inner(target.element) && !done[target.element][*out]) {
                Some(out) => (at, port, which) = (target.element, out, 0),
                None => return text,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use linerate_graph::{lang::Globals, load};

    use super::*;

    fn chains_of(text: &str) -> Vec<String> {
        let library = linerate_elements::library();
        let mut loader = |_: &str, _: &str| Err(None);
        let loaded = load("config", text, &library, &Globals::default(), &mut loader);
        chains(&loaded.plan.unwrap_or_else(|| panic!("{}", loaded.found.click())))
    }

    #[test]
    fn ways_part_and_meet() {
        let text = "i :: InfiniteSource -> a :: Null -> t :: Tee(2) -> q :: Queue -> u :: Unqueue \
                    -> d :: Discard; t[1] -> b :: Null -> d";
        assert_eq!(chains_of(text), ["i -> a -> t", "t -> q ~> u -> d", "t[1] -> b -> d"]);
    }

    #[test]
    fn circles_end() {
        assert_eq!(chains_of("a :: Null -> b :: Null -> a"), ["a -> b -> a"]);
        assert_eq!(chains_of("a :: Null -> a"), ["a -> a"]);
        assert_eq!(chains_of("Idle").len(), 0);
    }
}
