//! Connections across the borders of compounds and groups.
//!
//! A compound `c` is three nodes: `c`, as seen from outside, and `c/input` and `c/output`, as seen
//! from inside. Packets that enter `c` at port 2 go on from port 2 of `c/input`, and packets that
//! enter `c/output` go on from `c`.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::super::ast::Side;
use super::super::diagnostic::Diagnostic;
use super::body::{Body, End, Link, NodeKind};
use super::{CONNECTIONS_MAX, Resolver};

/// Makes the three nodes of a compound or group the borders they are.
pub(super) fn join_borders(body: &mut Body, outer: usize, input: usize, output: usize) {
    body.nodes[outer].kind = NodeKind::Tunnel { forward: Some(input), backward: Some(output) };
    body.nodes[input].kind = NodeKind::Tunnel { forward: None, backward: Some(outer) };
    body.nodes[output].kind = NodeKind::Tunnel { forward: Some(outer), backward: None };
}

/// Steps that may be made altogether.
const STEPS_MAX: usize = 1 << 24;

/// The connections at borders, by the port they are at.
struct Tunnels {
    /// Ports to which packets that leave this port of a border go.
    leaving: HashMap<End, Vec<End>>,
    /// Ports from which packets that enter this port of a border come.
    entering: HashMap<End, Vec<End>>,
    /// Ports followed so far.
    seen: HashSet<(End, bool)>,
    /// The elements reached from a border.
    reached: HashMap<End, Rc<[End]>>,
    steps: usize,
}

impl Resolver<'_> {
    /// All connections between elements.
    pub(super) fn through_tunnels(&mut self) -> Vec<Link> {
        let links = std::mem::take(&mut self.current().links);
        let mut tunnels = Tunnels {
            leaving: HashMap::new(),
            entering: HashMap::new(),
            seen: HashSet::new(),
            reached: HashMap::new(),
            steps: STEPS_MAX,
        };
        let is_tunnel = |this: &mut Self, end: End| this.current().nodes[end.0].kind.is_tunnel();
        for link in &links {
            if is_tunnel(self, link.from) {
                tunnels.leaving.entry(link.from).or_default().push(link.to);
            }
            if is_tunnel(self, link.to) {
                tunnels.entering.entry(link.to).or_default().push(link.from);
            }
        }
        let mut out = Vec::new();
        for link in links {
            let (from, to) = (is_tunnel(self, link.from), is_tunnel(self, link.to));
            if from {
                // For its errors: the ports it leads to are found from its sources.
                self.follow(&mut tunnels, link.from, Side::Output);
            }
            if !to && !from {
                out.push(link);
            } else if to {
                let reached = match tunnels.reached.get(&link.to) {
                    Some(reached) => reached.clone(),
                    None => self.follow(&mut tunnels, link.to, Side::Input),
                };
                if !from {
                    out.extend(reached.iter().map(|&to| Link { to, ..link.clone() }));
                }
            }
            if tunnels.steps == 0 || out.len() > CONNECTIONS_MAX {
                let landmark = self.current().landmark.clone();
                self.limit(&landmark, format!("more than {CONNECTIONS_MAX} connections"));
                return Vec::new();
            }
        }
        out
    }

    /// The elements that packets entering a border (`Side::Input`) reach, or
    /// that packets leaving it (`Side::Output`) come from. Ends that lead
    /// nowhere are reported once.
    fn follow(&mut self, tunnels: &mut Tunnels, start: End, side: Side) -> Rc<[End]> {
        let forward = side == Side::Input;
        if !forward && tunnels.seen.contains(&(start, forward)) {
            return Rc::default();
        }
        let mut reached = Vec::new();
        let mut known = HashSet::new();
        let mut stack = vec![start];
        while let Some(end) = stack.pop() {
            tunnels.steps = tunnels.steps.saturating_sub(1);
            if tunnels.steps == 0 {
                break;
            }
            if !known.insert(end) {
                continue;
            }
            let (kind, landmark) = {
                let node = &self.current().nodes[end.0];
                (node.kind, node.landmark.clone())
            };
            let NodeKind::Tunnel { forward: ahead, backward: behind } = kind else {
                reached.push(end);
                continue;
            };
            let first = tunnels.seen.insert((end, forward));
            let Some(other) = (if forward { ahead } else { behind }) else {
                let name = self.current().nodes[end.0].name.clone();
                let message = format!("'{name}' used as {}", side.name());
                if first {
                    self.diagnostics.push(Diagnostic::error(landmark, message));
                }
                continue;
            };
            let beyond = if forward {
                tunnels.leaving.get(&(other, end.1))
            } else {
                tunnels.entering.get(&(other, end.1))
            };
            match beyond {
                Some(ends) => stack.extend(ends.iter().rev()),
                None if first => self.dead_end(end, other, forward),
                None => {}
            }
        }
        let reached: Rc<[End]> = reached.into();
        if forward {
            tunnels.reached.insert(start, reached.clone());
        }
        reached
    }

    /// Reports a port of a compound that is used on one side only.
    fn dead_end(&mut self, end: End, other: usize, forward: bool) {
        let node = &self.current().nodes[end.0];
        let outer = matches!(node.kind, NodeKind::Tunnel { forward: Some(_), backward: Some(_) });
        let node = if outer { node } else { &self.current().nodes[other] };
        let (name, port) = (&node.name, end.1);
        let message = match (outer, forward) {
            (true, true) => format!("'{name}' has no input {port}"),
            (true, false) => format!("'{name}' has no output {port}"),
            (false, true) => format!("'{name}' output {port} unused"),
            (false, false) => format!("'{name}' input {port} unused"),
        };
        let landmark = node.landmark.clone();
        self.diagnostics.push(Diagnostic::error(landmark, message));
    }
}
