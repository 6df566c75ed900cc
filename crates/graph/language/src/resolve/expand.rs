//! Expansion of compounds into their elements.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::super::config::{self, Scope};
use super::super::diagnostic::{Diagnostic, Diagnostics};
use super::super::flat::{Flat, FlatConnection, FlatElement, PortRef};
use super::super::source::{FileId, Landmark};
use super::body::{Body, Link, NodeKind};
use super::overload::Resolution;
use super::scope::Class;
use super::{BYTES_MAX, CONNECTIONS_MAX, DEPTH_MAX, ELEMENTS_MAX, Globals, Resolver, tunnel};

impl Resolver<'_> {
    /// Makes the flat configuration. `end` is where the reader is.
    pub(super) fn expand(
        mut self,
        globals: &Globals,
        file: FileId,
        end: Landmark,
    ) -> (Flat, Diagnostics) {
        let mut scope = Scope::global(self.budget.clone());
        for variable in &self.current().variables {
            scope.define(&variable.name, &variable.value, false);
        }
        for (name, value) in &globals.variables {
            scope.define(name, value, true);
        }
        let scope = Rc::new(scope);
        for node in 0..self.current().nodes.len() {
            self.expand_node(node, &scope, 0, &end);
        }
        if self.budget.exhausted() {
            let message = format!("names and configurations of more than {BYTES_MAX} bytes");
            self.limit(&end, message);
        }
        let flat = self.flat(file);
        (flat, self.diagnostics)
    }

    /// Gives a node its final name and configuration, and puts the compound
    /// in its place if its class is one.
    fn expand_node(&mut self, node: usize, scope: &Rc<Scope>, depth: usize, end: &Landmark) {
        self.current().name_anonymous(node);
        let NodeKind::Element(class) = self.current().nodes[node].kind else {
            return;
        };
        let config = scope.expand(&self.current().nodes[node].config);
        let Class::Compound(_) = self.classes.get(class) else {
            self.current().nodes[node].config = config;
            return;
        };
        let Landmark { span, .. } = self.current().nodes[node].landmark;
        if depth >= DEPTH_MAX {
            let landmark = self.current().nodes[node].landmark.clone();
            self.limit(
                &landmark,
                format!("compound elements more than {DEPTH_MAX} deep in one another"),
            );
            return;
        }
        let arguments = config::split(&config);
        let ports = self.current().nodes[node].ports;
        let landmark = Landmark { span, ..end.clone() };
        match self.choose(class, ports, &arguments, &landmark) {
            Resolution::None => {}
            Resolution::Element(class) => {
                let node = &mut self.current().nodes[node];
                node.kind = NodeKind::Element(class);
                node.config = config;
            }
            Resolution::Body(body, values) => {
                let mut inner = Scope::inside(scope, body.depth);
                for (index, variable) in body.variables.iter().enumerate() {
                    if !self.budget.spend(variable.name.len() + 1) {
                        break;
                    }
                    let value = match values.get(index) {
                        Some(value) => value.clone(),
                        None => inner.expand(&variable.value),
                    };
                    inner.define(&variable.name, &value, true);
                }
                self.inline(node, &body, &Rc::new(inner), depth, end);
            }
        }
    }

    /// Puts a copy of `body` in the place of `node`, whose class it is.
    fn inline(
        &mut self,
        node: usize,
        body: &Body,
        scope: &Rc<Scope>,
        depth: usize,
        end: &Landmark,
    ) {
        let name = self.current().nodes[node].name.clone();
        let landmark = self.current().nodes[node].landmark.clone();
        self.current().nodes[node].config = String::new();
        let Some([_, input, output]) = self.borders(&name, &landmark, end) else {
            return;
        };
        let mut copies = vec![None; body.nodes.len()];
        copies[0] = Some(input);
        copies[1] = Some(output);
        let mut index = 2;
        while index < body.nodes.len() {
            let inner = &body.nodes[index];
            let inner_name = format!("{name}/{}", inner.name);
            if !self.has_room(inner_name.len() + inner.config.len(), &landmark) {
                return;
            }
            let taken = self.current().names.get(&inner_name).copied();
            if let Some(taken) = taken {
                let before = self.current().nodes[taken].landmark.clone();
                self.diagnostics.push(
                    Diagnostic::error(
                        landmark.clone(),
                        format!("redeclaration of element '{inner_name}'"),
                    )
                    .note(before, format!("'{inner_name}' previously declared here")),
                );
                index += 1;
                continue;
            }
            if !self.classes.is_open() && self.classes.find(&inner_name).is_some() {
                let message = format!("'{inner_name}' is an element class");
                self.diagnostics.push(Diagnostic::error(landmark.clone(), message));
            }
            if inner.kind.is_tunnel() {
                // A group: itself and its two borders. Click places them where
                // the reader is.
                let place = Landmark { span: inner.landmark.span, ..end.clone() };
                let Some(nodes) = self.borders(&inner_name, &place, end) else {
                    return;
                };
                for (copy, node) in copies[index..].iter_mut().zip(nodes) {
                    *copy = Some(node);
                }
                index += nodes.len();
            } else {
                let config = inner.config.clone();
                let place = inner.landmark.clone();
                copies[index] = Some(self.current().add(&inner_name, inner.kind, config, place));
                index += 1;
            }
        }
        if self.connections + body.links.len() > CONNECTIONS_MAX {
            self.limit(&landmark, format!("more than {CONNECTIONS_MAX} connections"));
            return;
        }
        self.connections += body.links.len();
        for link in &body.links {
            if let (Some(from), Some(to)) = (copies[link.from.0], copies[link.to.0]) {
                self.current().link(Link {
                    from: (from, link.from.1),
                    to: (to, link.to.1),
                    landmark: link.landmark.clone(),
                });
            }
        }
        for copy in copies.into_iter().skip(2).flatten() {
            self.expand_node(copy, scope, depth + 1, end);
        }
    }

    /// Makes borders of the node `name` (which may exist) and of its input and
    /// output sides.
    fn borders(&mut self, name: &str, landmark: &Landmark, end: &Landmark) -> Option<[usize; 3]> {
        if !self.has_room(3 * name.len(), landmark) {
            return None;
        }
        let outer = match self.current().names.get(name) {
            Some(&node) => {
                self.current().nodes[node].kind = NodeKind::TUNNEL;
                node
            }
            None => {
                let landmark = landmark.clone();
                self.current().add(name, NodeKind::TUNNEL, String::new(), landmark)
            }
        };
        let mut sides = [outer; 3];
        let at = Landmark { span: landmark.span, ..end.clone() };
        for (side, place) in [("input", 1), ("output", 2)] {
            let name = format!("{name}/{side}");
            if let Some(&taken) = self.current().names.get(&name) {
                let before = self.current().nodes[taken].landmark.clone();
                self.diagnostics.push(
                    Diagnostic::error(at.clone(), format!("redeclaration of element '{name}'"))
                        .note(before, format!("'{name}' previously declared here")),
                );
            }
            sides[place] = self.current().add(&name, NodeKind::TUNNEL, String::new(), at.clone());
        }
        let [outer, input, output] = sides;
        tunnel::join_borders(self.current(), outer, input, output);
        Some(sides)
    }

    /// Returns true if there is room for a further element.
    fn has_room(&mut self, bytes: usize, landmark: &Landmark) -> bool {
        if self.full {
            return false;
        }
        if self.current().nodes.len() + 3 > ELEMENTS_MAX {
            self.limit(landmark, format!("more than {ELEMENTS_MAX} elements"));
        } else if !self.budget.spend(bytes) {
            let message = format!("names and configurations of more than {BYTES_MAX} bytes");
            self.limit(landmark, message);
        }
        !self.full
    }

    fn flat(&mut self, file: FileId) -> Flat {
        let ends = if self.full {
            // Without all elements the rest of the graph says nothing.
            Vec::new()
        } else {
            self.through_tunnels()
        };
        let body = self.current();
        let mut numbers = Vec::with_capacity(body.nodes.len());
        let mut elements = Vec::new();
        let nodes = std::mem::take(&mut body.nodes);
        for node in nodes {
            numbers.push(elements.len());
            if let NodeKind::Element(class) = node.kind {
                let class = match self.classes.get(class) {
                    Class::Element(class) => class.to_string(),
                    Class::Compound(body) => self.bodies[*body].printable_name().to_owned(),
                };
                elements.push(FlatElement {
                    name: node.name,
                    class,
                    config: node.config,
                    landmark: node.landmark,
                });
            }
        }
        let port =
            |(node, port): (usize, u32)| PortRef { element: numbers[node], port: port as usize };
        let mut connections: Vec<_> = ends
            .into_iter()
            .map(|link| FlatConnection {
                from: port(link.from),
                to: port(link.to),
                landmark: link.landmark,
            })
            .collect();
        connections.sort_by_key(|connection| (connection.to, connection.from));
        connections.dedup_by_key(|connection| (connection.to, connection.from));
        let body = self.current();
        let mut variables: BTreeSet<String> = body.references.drain().collect();
        variables.extend(body.defined.drain());
        let requirements = std::mem::take(&mut self.requirements);
        Flat { file, elements, connections, requirements, variables }
    }
}
