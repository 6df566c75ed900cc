//! Body: a compound (or the file) after names have been looked up.

use std::collections::{HashMap, HashSet};

use super::super::ast::Side;
use super::super::config::Parameter;
use super::super::source::Landmark;
use super::scope::ClassId;

/// Kind of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeKind {
    /// An element of this class.
    Element(ClassId),
    /// A border that packets cross: packets that enter here go on from the node `forward`, and
    /// packets that leave here came in at the node `backward`. Both are known only in the body that
    /// is the file.
    Tunnel { forward: Option<usize>, backward: Option<usize> },
}

impl NodeKind {
    /// A border not yet joined to anything.
    pub(super) const TUNNEL: NodeKind = NodeKind::Tunnel { forward: None, backward: None };

    pub(super) fn is_tunnel(self) -> bool {
        matches!(self, NodeKind::Tunnel { .. })
    }
}

/// An element, or the border of a compound or group.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) kind: NodeKind,
    pub(super) config: String,
    pub(super) landmark: Landmark,
    /// One more than the highest port used, of inputs and outputs.
    pub(super) ports: [u32; 2],
}

/// A node and a port of it.
pub(super) type End = (usize, u32);

/// A connection.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) from: End,
    pub(super) to: End,
    pub(super) landmark: Landmark,
}

/// A parameter or a defined variable.
#[derive(Clone, Debug)]
pub(super) struct Variable {
    pub(super) name: String,
    /// Of a defined variable.
    pub(super) value: String,
}

#[derive(Clone, Debug)]
pub(super) struct Body {
    /// The name of the class; empty if it has none.
    pub(super) name: String,
    pub(super) landmark: Landmark,
    /// 0 for the file, one more for each compound around it.
    pub(super) depth: usize,
    /// The overload tried if this does not fit.
    pub(super) overload: Option<ClassId>,
    /// Number of overloads from here on, this one included.
    pub(super) overloads: usize,
    pub(super) formals: Vec<Parameter>,
    /// The formals' variables, then the others.
    pub(super) variables: Vec<Variable>,
    /// The names of all variables.
    pub(super) defined: HashSet<String>,
    /// The names of variables that configurations and values in here refer to.
    pub(super) references: HashSet<String>,
    /// Inputs and outputs.
    pub(super) ports: [u32; 2],
    pub(super) nodes: Vec<Node>,
    pub(super) names: HashMap<String, usize>,
    pub(super) links: Vec<Link>,
    /// The nodes that do not count in the numbers of anonymous elements.
    pub(super) offset: usize,
    /// Of names of anonymous elements that were taken: the next number that may
    /// be free.
    next_free: HashMap<String, usize>,
}

/// Most missing ports of a border that are reported.
const MISSING_MAX: usize = 100;

/// Index of inputs and outputs in pairs.
pub(super) fn index(side: Side) -> usize {
    match side {
        Side::Input => 0,
        Side::Output => 1,
    }
}

impl Body {
    pub(super) fn new(name: String, landmark: Landmark, depth: usize) -> Body {
        Body {
            name,
            landmark,
            depth,
            overload: None,
            overloads: 1,
            formals: Vec::new(),
            variables: Vec::new(),
            defined: HashSet::new(),
            references: HashSet::new(),
            ports: [0, 0],
            nodes: Vec::new(),
            names: HashMap::new(),
            links: Vec::new(),
            offset: 0,
            next_free: HashMap::new(),
        }
    }

    /// The name for messages.
    pub(super) fn printable_name(&self) -> &str {
        if self.name.is_empty() { "<anonymous>" } else { &self.name }
    }

    pub(super) fn add(
        &mut self,
        name: &str,
        kind: NodeKind,
        config: String,
        landmark: Landmark,
    ) -> usize {
        let node = self.nodes.len();
        self.names.insert(name.to_owned(), node);
        self.nodes.push(Node { name: name.to_owned(), kind, config, landmark, ports: [0, 0] });
        node
    }

    /// The name of the next anonymous element of a class. It starts with a
    /// semicolon until all names are known, since one may be taken.
    pub(super) fn anonymous_name(&self, class: &str) -> String {
        format!(";{class}@{}", self.nodes.len() - self.offset + 1)
    }

    /// Gives an anonymous node its name: the number goes up while the name is
    /// taken.
    pub(super) fn name_anonymous(&mut self, node: usize) {
        let Some(name) = self.nodes[node].name.strip_prefix(';') else {
            return;
        };
        let mut name = name.to_owned();
        if self.names.contains_key(&name) {
            let digits = name.rfind('@').map_or(name.len(), |at| at + 1);
            let (prefix, number) = name.split_at(digits);
            let mut number: usize = number.parse().unwrap_or(0);
            let mut passed = Vec::new();
            let free = loop {
                let next = format!("{prefix}{number}");
                if !self.names.contains_key(&next) {
                    break next;
                }
                number = self.next_free.get(&next).copied().unwrap_or(number + 1);
                passed.push(next);
            };
            // The next search from these numbers need not try them all.
            self.next_free.extend(passed.into_iter().map(|taken| (taken, number)));
            name = free;
        }
        self.names.insert(name.clone(), node);
        self.nodes[node].name = name;
    }

    pub(super) fn link(&mut self, link: Link) {
        let (from, to) = (link.from, link.to);
        let outputs = &mut self.nodes[from.0].ports[1];
        *outputs = (*outputs).max(from.1 + 1);
        let inputs = &mut self.nodes[to.0].ports[0];
        *inputs = (*inputs).max(to.1 + 1);
        self.links.push(link);
    }

    /// Checks how the node that stands for the inputs (or outputs) has been used by the connections
    /// from `links` on: in one direction only, and without gaps. Returns the number of ports, and
    /// the errors.
    pub(super) fn check_border(
        &self,
        node: usize,
        side: Side,
        name: &str,
        links: usize,
    ) -> (u32, Vec<String>) {
        // Inside, the inputs are where packets come from.
        let inner = index(side.opposite());
        let count = self.nodes[node].ports[inner];
        let mut used = vec![false; count as usize];
        for link in &self.links[links..] {
            let (at, port) = [link.to, link.from][inner];
            if at == node {
                used[port as usize] = true;
            }
        }
        let mut wrong = Vec::new();
        let side_name = side.name();
        if self.nodes[node].ports[index(side)] > 0 {
            wrong.push(format!(
                "'{name}' pseudoelement '{side_name}' may only be used as {}",
                side.opposite().name()
            ));
        }
        // A thousand missing ports are not reported to the last.
        let missing = used.iter().enumerate().filter(|(_, used)| !**used);
        for (port, _) in missing.take(MISSING_MAX) {
            wrong.push(format!("'{name}' {side_name} {port} missing"));
        }
        (count, wrong)
    }
}
