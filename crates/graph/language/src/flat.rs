//! Flat configuration: elements and connections, nothing else.
//!
//! Compounds, groups and variables are gone. Connections are sorted and each
//! is there once. Whether an element has the ports that are connected is not
//! known here.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;

use super::config;
use super::source::{FileId, Landmark, SourceMap};

/// A flat configuration.
#[derive(Clone, Debug)]
pub struct Flat {
    /// The text it was made from.
    pub file: FileId,
    /// The elements, in the order in which Click numbers them.
    pub elements: Vec<FlatElement>,
    /// The connections, sorted by where they lead to, then where they come
    /// from.
    pub connections: Vec<FlatConnection>,
    /// Packages and libraries that the configuration requires.
    pub requirements: Vec<Requirement>,
    /// The names of the configuration's variables: those it defines at file scope, and those that
    /// it refers to and no compound around defines.
    pub variables: BTreeSet<String>,
}

/// An element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlatElement {
    /// Its name, with the names of the compounds it is in.
    pub name: String,
    /// Its class.
    pub class: String,
    /// Its configuration, variables substituted, otherwise as written.
    pub config: String,
    /// Place of its declaration.
    pub landmark: Landmark,
}

/// A connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlatConnection {
    /// The output it comes from.
    pub from: PortRef,
    /// The input it leads to.
    pub to: PortRef,
    /// Its place in the text.
    pub landmark: Landmark,
}

/// A port of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortRef {
    /// The element, an index into [`Flat::elements`].
    pub element: usize,
    /// The port.
    pub port: usize,
}

/// One argument of a `require`; libraries are not among them, they have been
/// read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// `package` or `compact_config`.
    pub kind: String,
    /// The name of the package.
    pub value: String,
}

impl Flat {
    /// The index of the element of this name.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.elements.iter().position(|element| element.name == name)
    }

    /// The text of the handler `config`: the configuration as written, or
    /// flat if it asks for `compact_config`.
    pub fn config(&self, sources: &SourceMap) -> String {
        let compact = |requirement: &Requirement| requirement.kind == "compact_config";
        if self.requirements.iter().any(compact) {
            return self.unparse();
        }
        sources.text(self.file).to_string()
    }

    /// The flat configuration as text, as Click writes it: requirements,
    /// declarations, connections in chains.
    pub fn unparse(&self) -> String {
        self.unparse_with(|element| self.elements[element].config.clone())
    }

    /// Writes the configuration with the present configuration string of each element, which may
    /// have been changed since.
    pub fn unparse_with(&self, config: impl Fn(usize) -> String) -> String {
        let mut out = self.requirements_text();
        for (index, element) in self.elements.iter().enumerate() {
            let _ = write!(out, "{} :: {}", element.name, element.class);
            let config = config(index);
            if !config.is_empty() {
                let _ = write!(out, "({config})");
            }
            out.push_str(";\n");
        }
        if !self.elements.is_empty() {
            out.push('\n');
        }
        out.push_str(&self.connections_text());
        out
    }

    /// Returns the requirements as text: nothing, or one statement and an empty line.
    pub fn requirements_text(&self) -> String {
        let mut out = String::new();
        if self.requirements.is_empty() {
            return out;
        }
        out.push_str("require(");
        for (index, requirement) in self.requirements.iter().enumerate() {
            if index > 0 {
                out.push_str(", ");
            }
            out.push_str(&requirement.kind);
            if !requirement.value.is_empty() {
                out.push(' ');
                out.push_str(&config::quote(requirement.value.as_bytes()));
            }
        }
        out.push_str(");\n\n");
        out
    }

    /// The connections as text, in chains.
    pub fn connections_text(&self) -> String {
        let mut out = String::new();
        let next = self.successors();
        let mut starts = vec![true; self.connections.len()];
        for &next in next.iter().flatten() {
            starts[next] = false;
        }
        let mut used = vec![false; self.connections.len()];
        let first = (0..starts.len()).filter(|&index| starts[index]);
        // The connections left after these are circles.
        for index in first.chain(0..starts.len()) {
            if used[index] {
                continue;
            }
            let from = self.connections[index].from;
            out.push_str(&self.elements[from.element].name);
            if from.port > 0 {
                let _ = write!(out, " [{}]", from.port);
            }
            out.push_str(" -> ");
            let mut at = Some(index);
            while let Some(here) = at.filter(|&here| !used[here]) {
                if here != index {
                    out.push_str("\n    -> ");
                }
                let to = self.connections[here].to;
                if to.port > 0 {
                    let _ = write!(out, "[{}] ", to.port);
                }
                out.push_str(&self.elements[to.element].name);
                used[here] = true;
                at = next[here];
            }
            out.push_str(";\n");
        }
        out
    }

    /// For each connection the one a chain goes on with: from port 0 of the
    /// element whose port 0 it leads to, to a port 0 if there is such a one.
    fn successors(&self) -> Vec<Option<usize>> {
        /// The candidates at an element's output 0. Two of each, since a
        /// connection is not its own successor.
        #[derive(Default)]
        struct Leaving {
            to_zero: Vec<usize>,
            last: [Option<usize>; 2],
        }
        let mut leaving: HashMap<usize, Leaving> = HashMap::new();
        for (index, connection) in self.connections.iter().enumerate() {
            if connection.from.port == 0 {
                let known = leaving.entry(connection.from.element).or_default();
                if connection.to.port == 0 && known.to_zero.len() < 2 {
                    known.to_zero.push(index);
                }
                known.last = [Some(index), known.last[0]];
            }
        }
        self.connections
            .iter()
            .enumerate()
            .map(|(index, connection)| {
                if connection.to.port != 0 {
                    return None;
                }
                let known = leaving.get(&connection.to.element)?;
                let last = known.last.iter().flatten();
                let mut candidates = known.to_zero.iter().chain(last);
                candidates.find(|&&candidate| candidate != index).copied()
            })
            .collect()
    }
}
