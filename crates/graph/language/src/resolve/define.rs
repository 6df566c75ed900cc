//! Statements: elements and classes are declared, variables defined, libraries
//! read.

use std::collections::HashSet;
use std::rc::Rc;

use super::super::ast::{Body as BodyTree, Config};
use super::super::ast::{
    Class as ClassRef, Compound, Connection, Cursor, Definition, Element, ElementClass,
    ElementList, ElementRef, Formal, Group, Ports, Side, Statement,
};
use super::super::config::{self, Parameter};
use super::super::diagnostic::{Diagnostic, Diagnostics};
use super::super::flat::Requirement;
use super::super::parser;
use super::super::source::{Landmark, Span};
use super::body::{Body, NodeKind, Variable};
use super::connect::Operand;
use super::scope::{Class, ClassId};
use super::spelling::closest_word;
use super::{DEPTH_MAX, ELEMENTS_MAX, GROUP_PORTS_MAX, OVERLOADS_MAX, Resolver};

/// An element of a list before it is looked up.
struct Pending {
    name: String,
    /// The class `name` is the name of.
    class: Option<ClassId>,
    /// The class it is declared with.
    declared: Option<ClassId>,
    config: String,
    landmark: Landmark,
    inputs: Ports,
    outputs: Ports,
}

impl Resolver<'_> {
    pub(super) fn statements(&mut self, statements: &[Statement]) {
        for statement in statements {
            match statement {
                Statement::Connection(connection) => self.connection(connection),
                Statement::ElementClass(class) => self.element_class(class),
                Statement::Require(config) => self.require(config),
                Statement::Define(config) => self.define(config),
            }
        }
    }

    fn connection(&mut self, connection: &Connection) {
        let mut before: Option<Vec<Operand>> = None;
        for (index, list) in connection.lists.iter().enumerate() {
            let operands = self.list(list);
            let span = list.span();
            match (before, index.checked_sub(1), span) {
                (Some(before), Some(arrow), Some(span)) => {
                    let arrow = connection.arrows[arrow];
                    self.connect(&before, &operands, arrow, span, list.cursor);
                }
                (None, _, Some(span))
                    if operands.iter().any(|operand| !operand.inputs.is_empty()) =>
                {
                    let message = "input ports ignored at start of chain";
                    self.error(span, list.cursor, message);
                }
                _ => {}
            }
            before = Some(operands);
        }
        let last = connection.lists.last().and_then(ElementList::span);
        if let (Some(operands), Some(span)) = (before, last)
            && operands.iter().any(|operand| !operand.outputs.is_empty())
        {
            let message = "output ports ignored at end of chain";
            self.error(span, connection.cursor, message);
        }
    }

    fn list(&mut self, list: &ElementList) -> Vec<Operand> {
        let mut pending: Vec<_> =
            list.elements.iter().map(|element| self.pending(element)).collect();
        if list.spread
            && let Some((last, rest)) = pending.split_last_mut()
        {
            for element in rest {
                element.declared = last.declared;
                element.config.clone_from(&last.config);
            }
        }
        pending
            .into_iter()
            .map(|element| {
                let (inputs, outputs) = (element.inputs.clone(), element.outputs.clone());
                Operand { node: self.element(element, list.cursor), inputs, outputs }
            })
            .collect()
    }

    fn pending(&mut self, element: &Element) -> Pending {
        let mut inputs = element.inputs.clone();
        let mut outputs = element.outputs.clone();
        let landmark = self.landmark(element.span, element.cursor);
        let (name, class) = match &element.what {
            ElementRef::Name(name) => (name.name.clone(), self.classes.find(&name.name)),
            ElementRef::Implicit(side) => (side.name().to_owned(), self.classes.find(side.name())),
            ElementRef::Compound(compound) => (String::new(), Some(self.compound(compound, ""))),
            ElementRef::Group(group) => {
                let (name, ports) = self.group(group);
                if inputs.is_empty() {
                    inputs.list = (0..ports[0]).collect();
                }
                // Brackets replace the implied outputs even if nothing is in
                // them.
                if outputs.span.is_none() {
                    outputs.list = (0..ports[1]).collect();
                }
                (name, None)
            }
        };
        let declared = element.class.as_ref().map(|class| match class {
            ClassRef::Name(class, cursor) => self.class(&class.name, class.span, *cursor),
            ClassRef::Compound(compound) => self.compound(compound, ""),
            ClassRef::Missing(cursor) => self.class(&name, element.span, *cursor),
        });
        if let Some(config) = &element.config
            && self.current().names.contains_key(&name)
        {
            let message = "configuration string ignored on element reference";
            self.error(config.span, config.opened, message);
        }
        Pending {
            name,
            class,
            declared,
            config: element.config.as_ref().map_or(String::new(), |c| c.text.clone()),
            landmark,
            inputs,
            outputs,
        }
    }

    /// The class of this name; one that is not known is reported.
    fn class(&mut self, name: &str, span: Span, cursor: Cursor) -> ClassId {
        if let Some(id) = self.classes.find(name) {
            return id;
        }
        if self.classes.is_open() {
            if self.current().names.contains_key(name) {
                let message = format!("'{name}' was previously used as an element name");
                self.error(span, cursor, message);
            }
            return self.classes.define_used(name);
        }
        let landmark = self.landmark(span, cursor);
        let help = self.suggests().then(|| self.classes.suggestion(name)).flatten();
        self.push(
            Diagnostic::error(landmark, format!("unknown element class '{name}'"))
                .help(help.map(|class| format!("did you mean '{class}'?"))),
            cursor,
        );
        self.classes.define_unknown(name)
    }

    /// Returns true if suggestions are made: not for the hundredth error, since all names are
    /// looked through for one.
    fn suggests(&self) -> bool {
        self.diagnostics.errors() < 20
    }

    /// The node an element of a list refers to or declares.
    fn element(&mut self, mut element: Pending, cursor: Cursor) -> usize {
        let known = self.current().names.get(&element.name).copied();
        if let (None, Some(node)) = (element.class, known) {
            if element.declared.is_some() {
                self.redeclared(&element, node, cursor);
            }
            return node;
        }
        let is_class = element.class.is_some()
            || self.classes.is_open()
                && element.declared.is_some_and(|id| self.classes.is_named(id, &element.name));
        if is_class && element.declared.is_some() {
            let message = format!("class '{}' used as element name", element.name);
            self.push(Diagnostic::error(element.landmark.clone(), message), cursor);
        } else if !is_class && element.declared.is_none() && self.classes.is_open() {
            element.class = Some(self.class(&element.name, element.landmark.span, cursor));
        } else if element.class.is_none() && element.declared.is_none() {
            self.undeclared(&element, cursor);
            element.class = Some(self.classes.define_unknown(&element.name));
        }
        let name = match element.class {
            Some(_) => self.current().anonymous_name(&element.name),
            None => element.name,
        };
        let Some(class) = element.class.or(element.declared) else {
            // Not reached: without either it was undeclared.
            return 0;
        };
        self.add(&name, NodeKind::Element(class), element.config, element.landmark, cursor)
    }

    fn redeclared(&mut self, element: &Pending, node: usize, cursor: Cursor) {
        let name = &element.name;
        let mut diagnostic = Diagnostic::error(
            element.landmark.clone(),
            format!("redeclaration of element '{name}'"),
        );
        let node = &self.current().nodes[node];
        if !node.kind.is_tunnel() {
            let before = node.landmark.clone();
            diagnostic =
                diagnostic.note(before, format!("element '{name}' previously declared here"));
        }
        self.push(diagnostic, cursor);
    }

    fn undeclared(&mut self, element: &Pending, cursor: Cursor) {
        let name = &element.name;
        let near = || {
            let elements = self.open_bodies.last()?.names.keys().map(String::as_str);
            let element = || closest_word(name, elements).map(str::to_owned);
            self.classes.suggestion(name).or_else(element)
        };
        let near = self.suggests().then(near).flatten();
        let help = near.map(|near| format!("did you mean '{near}'?"));
        let message = format!("undeclared element '{name}'");
        self.push(
            Diagnostic::error(element.landmark.clone(), message)
                .label("neither an element declared before nor a class")
                .help(help),
            cursor,
        );
    }

    /// Adds a node to the present body.
    fn add(
        &mut self,
        name: &str,
        kind: NodeKind,
        config: String,
        landmark: Landmark,
        cursor: Cursor,
    ) -> usize {
        if all_digits(name) {
            let message = format!("element name '{name}' has all-digit component");
            self.error(landmark.span, cursor, message);
        }
        self.current().references.extend(config::references(&config));
        if self.current().nodes.len() >= ELEMENTS_MAX {
            self.limit(&landmark, format!("more than {ELEMENTS_MAX} elements"));
            // Everything further is the last one.
            return self.current().nodes.len() - 1;
        }
        self.current().add(name, kind, config, landmark)
    }

    /// A group: its name and how many inputs and outputs it has.
    fn group(&mut self, group: &Group) -> (String, [u32; 2]) {
        let name = self.current().anonymous_name("");
        let landmark = self.sources.landmark(group.span, group.span.start);
        let nodes = [name.clone(), format!("{name}/input"), format!("{name}/output")].map(|name| {
            self.add(&name, NodeKind::TUNNEL, String::new(), landmark.clone(), group.cursor)
        });
        let [outer, input, output] = nodes;
        let body = self.current();
        if body.depth == 0 {
            super::tunnel::join_borders(body, outer, input, output);
        }
        let links = body.links.len();
        let saved = [("input", input), ("output", output)]
            .map(|(name, node)| (name, body.names.insert(name.to_owned(), node)));
        self.statements(&group.statements);
        let body = self.current();
        for (name, node) in saved {
            match node {
                Some(node) => body.names.insert(name.to_owned(), node),
                None => body.names.remove(name),
            };
        }
        let mut ports = [0, 0];
        for (count, (node, side)) in
            ports.iter_mut().zip([(input, Side::Input), (output, Side::Output)])
        {
            let (found, wrong) =
                self.current().check_border(node, side, "<anonymous group>", links);
            *count = found;
            for message in wrong {
                self.error(group.span, group.cursor, message);
            }
        }
        match self.group_ports.checked_sub((ports[0] + ports[1]) as usize) {
            Some(left) => self.group_ports = left,
            None => {
                self.limit(&landmark, format!("groups of more than {GROUP_PORTS_MAX} ports"));
                ports = [0, 0];
            }
        }
        (name, ports)
    }

    fn element_class(&mut self, class: &ElementClass) {
        let name = class.name.as_ref().map_or("", |name| &name.name);
        match &class.definition {
            Definition::Compound(compound) => {
                let id = self.compound(compound, name);
                self.classes.define(name, id);
            }
            Definition::Synonym(other) => {
                let id = self.class(&other.name, other.span, class.cursor);
                self.classes.define(name, id);
            }
            Definition::Missing => {
                self.classes.define_unknown(name);
            }
        }
    }

    /// The class a compound defines; it is not given its name yet.
    fn compound(&mut self, compound: &Compound, name: &str) -> ClassId {
        let mut overload = compound.extends.map(|(span, cursor)| {
            if self.classes.is_open() {
                return self.class(name, span, cursor);
            }
            self.classes.find(name).unwrap_or_else(|| {
                let message = format!("cannot extend unknown element class '{name}'");
                self.error(span, cursor, message);
                self.classes.define_unknown(name)
            })
        });
        let mut overloads = match overload.map(|class| self.classes.get(class)) {
            Some(Class::Compound(body)) => self.bodies[*body].overloads,
            _ => 0,
        };
        let bodies: Vec<_> = compound.bodies.iter().map(|body| self.body(body, name)).collect();
        let mut class = None;
        for mut body in bodies.into_iter().rev() {
            overloads += 1;
            if overloads > OVERLOADS_MAX {
                let landmark = body.landmark.clone();
                self.limit(&landmark, format!("more than {OVERLOADS_MAX} overloads of '{name}'"));
                break;
            }
            body.overload = overload;
            body.overloads = overloads;
            self.bodies.push(Rc::new(body));
            class = Some(self.classes.add(Class::Compound(self.bodies.len() - 1)));
            overload = class;
        }
        class.unwrap_or_else(|| self.classes.define_unknown(name))
    }

    fn body(&mut self, tree: &BodyTree, name: &str) -> Body {
        let landmark = self.landmark(tree.span, tree.cursor);
        let depth = self.open_bodies.len();
        let mut body = Body::new(name.to_owned(), landmark.clone(), depth);
        for border in ["input", "output"] {
            body.add(border, NodeKind::TUNNEL, String::new(), landmark.clone());
        }
        body.offset = 2;
        self.open_bodies.push(body);
        self.classes.enter();
        self.formals(&tree.formals);
        self.statements(&tree.statements);
        self.classes.leave();
        let Some(mut body) = self.open_bodies.pop() else {
            // Not reached: it was pushed above.
            return Body::new(name.to_owned(), landmark, depth);
        };
        for (node, side) in [(0, Side::Input), (1, Side::Output)] {
            let (count, wrong) = body.check_border(node, side, body.printable_name(), 0);
            body.ports[node] = count;
            for message in wrong {
                let found = Diagnostic::error(landmark.clone(), message);
                self.push(found, tree.end);
            }
        }
        for node in 0..body.nodes.len() {
            body.name_anonymous(node);
        }
        let references = std::mem::take(&mut body.references);
        let outer = references.into_iter().filter(|name| !body.defined.contains(name));
        self.current().references.extend(outer);
        body
    }

    fn formals(&mut self, formals: &[Formal]) {
        let mut order_reported = false;
        let mut keywords = HashSet::new();
        for formal in formals {
            let parameter = match &formal.keyword {
                None => Parameter::Positional,
                Some(keyword) if keyword.name == "__REST__" => Parameter::Rest,
                Some(keyword) => Parameter::Keyword(keyword.name.clone()),
            };
            if !self.variable(&formal.variable.name, "", formal.variable.span, formal.cursor) {
                continue;
            }
            let body = self.current();
            let repeated = match &formal.keyword {
                Some(keyword) => !keywords.insert(keyword.name.as_str()),
                None => false,
            };
            let disordered = match body.formals.last() {
                Some(Parameter::Rest) => true,
                Some(Parameter::Keyword(_)) => parameter == Parameter::Positional,
                Some(Parameter::Positional) | None => false,
            };
            body.formals.push(parameter);
            if let (true, Some(keyword)) = (repeated, &formal.keyword) {
                let message =
                    format!("repeated keyword parameter '{}' in compound element", keyword.name);
                self.error(keyword.span, formal.cursor, message);
            }
            if disordered && !order_reported {
                order_reported = true;
                let message = "compound element parameters out of order\n\
                    (The correct order is '[positional], [keywords], [__REST__]'.)";
                self.error(formal.variable.span, formal.cursor, message);
            }
        }
    }

    /// Gives a variable of the present body a value; whether it had none.
    fn variable(&mut self, name: &str, value: &str, span: Span, cursor: Cursor) -> bool {
        let body = self.current();
        if !body.defined.insert(name.to_owned()) {
            self.error(span, cursor, format!("parameter '${name}' multiply defined"));
            return false;
        }
        body.references.extend(config::references(value));
        body.variables.push(Variable { name: name.to_owned(), value: value.to_owned() });
        true
    }

    fn define(&mut self, config: &Config) {
        for argument in config::split(&config.text) {
            if argument.is_empty() {
                continue;
            }
            let (word, value) = config::shift_word(&argument);
            let plain = |name: &&str| {
                let mut bytes = name.bytes();
                !name.is_empty() && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            };
            match word.strip_prefix('$').filter(plain) {
                Some(name) => {
                    self.variable(name, value, config.span, config.cursor);
                }
                None => {
                    let message = "bad 'define' declaration: not a variable";
                    self.error(config.span, config.cursor, message);
                }
            }
        }
    }

    fn require(&mut self, config: &Config) {
        for argument in config::split(&config.text) {
            let words = config::words(&argument);
            let Some(first) = words.first() else {
                continue;
            };
            let text = |word: &str| {
                config::string(word).map(|value| String::from_utf8_lossy(&value).into_owned())
            };
            let kind = text(first).filter(|kind| config::is_word(kind.as_bytes()));
            let value = match words.as_slice() {
                [_, value] => text(value),
                _ => None,
            };
            let requirement =
                |kind: &str, value: String| Requirement { kind: kind.to_owned(), value };
            match (kind.as_deref(), words.len(), value) {
                (Some("compact_config"), 1, _) => {
                    self.requirements.push(requirement("compact_config", String::new()));
                }
                (Some("package"), 2, Some(value)) => {
                    self.requirements.push(requirement("package", value));
                }
                (Some("library"), 2, Some(value)) => self.library(&value, config),
                (Some(name), 1, _) if name != "package" && name != "library" => {
                    self.requirements.push(requirement("package", name.to_owned()));
                }
                _ => self.error(config.span, config.cursor, "syntax error at requirement"),
            }
        }
    }

    fn library(&mut self, name: &str, config: &Config) {
        let (span, cursor) = (config.span, config.cursor);
        if self.current().depth > 0 {
            self.error(span, cursor, "'require library' must be used at file scope");
            return;
        }
        if self.requiring >= DEPTH_MAX {
            let message = format!("libraries require one another more than {DEPTH_MAX} deep");
            self.error(span, cursor, message);
            return;
        }
        let from = self.landmark(span, cursor).file;
        let library = match (self.loader)(name, &from) {
            Ok(library) => library,
            Err(None) => {
                let message = format!("library '{name}' not found in CLICKPATH/conf");
                self.error(span, cursor, message);
                return;
            }
            Err(Some(reason)) => {
                self.error(span, cursor, reason);
                return;
            }
        };
        if !self.libraries.insert(library.path.clone()) {
            return;
        }
        let file = self.sources.add(&library.path, &library.text);
        let (ast, mut found) = parser::parse(self.sources, file);
        let before = std::mem::replace(&mut self.diagnostics, Diagnostics::new());
        self.requiring += 1;
        self.statements(&ast.statements);
        self.requiring -= 1;
        found.merge(std::mem::replace(&mut self.diagnostics, before));
        for diagnostic in &found {
            self.push(diagnostic.clone(), cursor);
        }
    }
}

/// Returns true if a part of the name between slashes is a number.
fn all_digits(name: &str) -> bool {
    name.split('/').any(|part| part.bytes().all(|byte| byte.is_ascii_digit()))
}
