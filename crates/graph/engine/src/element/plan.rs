//! Plan: a checked graph, with each element's class and port counts, and push or pull per port.
//!
//! The rules and the error texts are Click's: port counts by `ports`, then a
//! fixpoint over connections and the agnostic ports of each element.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::RangeInclusive;

use linerate_port::{Devices, PortUri, packets_kept};

use super::{Class, Library, unquoted, value::parse_integer};
use crate::{
    arguments::{Arg, Arguments, Holds},
    lang::{
        self, Diagnostic, Diagnostics, Flat, Globals, Landmark, Loader, PortRef, SourceMap,
        config::split,
    },
};

/// Whether packets are handed on or asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Processing {
    /// The element before calls the one behind.
    Push,
    /// The element behind calls the one before.
    Pull,
}

/// One element of a checked graph.
#[derive(Debug)]
pub struct PlanElement {
    /// Its name, with the names of the compounds around it: `outer/inner`.
    pub name: String,
    /// Its class.
    pub class: &'static Class,
    /// Its configuration string.
    pub config: String,
    /// Push or pull, by input.
    pub inputs: Vec<Processing>,
    /// Push or pull, by output.
    pub outputs: Vec<Processing>,
    /// Inputs that its outputs lead to: for a push output exactly one, for a pull output all that
    /// pull from it.
    pub targets: Vec<Vec<PortRef>>,
    /// Outputs that its inputs come from: for a pull input exactly one.
    pub sources: Vec<Vec<PortRef>>,
}

/// A checked graph.
#[derive(Debug)]
pub struct Plan {
    /// Its elements, as declared.
    pub elements: Vec<PlanElement>,
    /// The flat graph it was made from.
    pub flat: Flat,
    /// The text it was made from.
    pub source: String,
    /// Places of elements by their names.
    places: HashMap<String, usize>,
}

/// Result of reading and checking a configuration text.
#[derive(Debug)]
pub struct Loaded {
    /// The texts, for showing findings in them.
    pub sources: SourceMap,
    /// The graph; `None` when there are errors.
    pub plan: Option<Plan>,
    /// Errors and warnings.
    pub found: Diagnostics,
}

/// Reads and checks a configuration. `name` stands for the text in messages; `loader` finds
/// libraries a configuration requires.
pub fn load(
    name: &str,
    text: &str,
    library: &Library,
    globals: &Globals,
    loader: &mut Loader<'_>,
) -> Loaded {
    let mut sources = SourceMap::new();
    let file = sources.add(name, text);
    let (flat, mut found) = lang::load(&mut sources, file, library, globals, loader);
    let mut plan = None;
    if !found.has_errors() {
        let source = flat.config(&sources);
        match Plan::new(flat, source, library) {
            Ok(made) => plan = Some(made),
            Err(errors) => found.merge(errors),
        }
    }
    Loaded { sources, plan, found }
}

impl Plan {
    /// Checks a flat graph against the classes there are.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
    pub fn new(flat: Flat, source: String, library: &Library) -> Result<Plan, Diagnostics> {
        let mut errors = Diagnostics::default();
        let mut elements = Vec::with_capacity(flat.elements.len());
        for element in &flat.elements {
            let class = library.find(&element.class).unwrap_or_else(|| {
                let message = format!("unknown element class '{}'", element.class);
                errors.push(Diagnostic::error(element.landmark.clone(), message));
                const { &Class::here() }
            });
            elements.push(PlanElement {
                name: element.name.clone(),
                class,
                config: element.config.clone(),
                inputs: Vec::new(),
                outputs: Vec::new(),
                targets: Vec::new(),
                sources: Vec::new(),
            });
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let places = elements.iter().enumerate().rev();
        let places = places.map(|(at, element)| (element.name.clone(), at)).collect();
        let mut plan = Plan { elements, flat, source, places };
        plan.count_ports(&mut errors);
        if errors.is_empty() {
            plan.find_processing(&mut errors);
        }
        if errors.is_empty() {
            plan.check_connections(&mut errors);
        }
        if errors.is_empty() { Ok(plan) } else { Err(errors) }
    }

    /// Returns true if the order in which its elements get packets is visible outside
    /// ([`Class::shows_order`]).
    pub fn shows_order(&self) -> bool {
        self.elements.iter().enumerate().any(|(at, PlanElement { class, .. })| {
            class.prints || (class.calls)(self, at) || (class.shows_order)(self, at)
        })
    }

    /// Returns true if an argument of an element was given.
    pub fn is_given(&self, element: usize, argument: &str) -> bool {
        self.arguments(element).last(argument).is_some()
    }

    /// The text of an argument of an element, where it was given.
    pub fn argument(&self, element: usize, argument: &str) -> Option<String> {
        self.arguments(element).last(argument).map(|(text, _)| text.to_owned())
    }

    /// Returns true if packets come from outside, at times not known before.
    pub fn is_live(&self) -> bool {
        self.elements.iter().any(|element| element.class.external_input)
    }

    /// The elements that packets wait in, pushed there, until the inputs of an element pull them.
    pub fn stores_before(&self, element: usize) -> Vec<usize> {
        let mut seen = vec![false; self.elements.len()];
        let (mut open, mut stores) = (vec![element], Vec::new());
        while let Some(at) = open.pop() {
            let pulled = self.elements[at].sources.iter().zip(&self.elements[at].inputs);
            let pulled = pulled.filter(|(_, input)| **input == Processing::Pull);
            for from in pulled.flat_map(|(sources, _)| sources).map(|port| port.element) {
                if std::mem::replace(&mut seen[from], true) {
                    continue;
                }
                let holds = self.elements[from].inputs.contains(&Processing::Push);
                let list = if holds { &mut stores } else { &mut open };
                list.push(from);
            }
        }
        stores
    }

    /// Returns true if packets from more than one source come to an element.
    pub fn has_several_sources(&self, element: usize) -> bool {
        let mut seen = vec![false; self.elements.len()];
        let (mut open, mut sources) = (vec![element], 0);
        while let Some(at) = open.pop() {
            if std::mem::replace(&mut seen[at], true) {
                continue;
            }
            let from = self.elements[at].sources.iter().flatten();
            sources += usize::from(at != element && self.elements[at].inputs.is_empty());
            open.extend(from.map(|port| port.element));
        }
        sources > 1
    }

    /// Returns true if packets from one element of a class come to an element by more than one of
    /// its outputs.
    pub fn has_several_ways_from(&self, class: &str, element: usize) -> bool {
        let mut seen = vec![false; self.elements.len()];
        let mut output = vec![None; self.elements.len()];
        let mut open = vec![element];
        while let Some(at) = open.pop() {
            if std::mem::replace(&mut seen[at], true) {
                continue;
            }
            for from in self.elements[at].sources.iter().flatten() {
                let known = *output[from.element].get_or_insert(from.port);
                if known != from.port && self.elements[from.element].class.name == class {
                    return true;
                }
                open.push(from.element);
            }
        }
        false
    }

    /// The element that all packets of an input come from, as far back as each comes from one
    /// element only, by whichever of its outputs: behind it are elements with a single input.
    pub fn origin(&self, element: usize, input: usize) -> Option<usize> {
        let mut from = self.elements.get(element)?.sources.get(input)?;
        // Ways may lead in a circle.
        for _ in 0..self.elements.len() {
            let (first, others) = from.split_first()?;
            if others.iter().any(|port| port.element != first.element) {
                return None;
            }
            match &self.elements[first.element].sources[..] {
                [before] => from = before,
                _ => return Some(first.element),
            }
        }
        None
    }

    /// The element that all packets of an output go to, as far on as there is one way only: in front
    /// of it are elements with a single output.
    pub fn destination(&self, element: usize, output: usize) -> Option<usize> {
        let mut to = self.elements.get(element)?.targets.get(output)?;
        for _ in 0..self.elements.len() {
            let [only] = to[..] else { return None };
            match &self.elements[only.element].targets[..] {
                [behind] => to = behind,
                _ => return Some(only.element),
            }
        }
        None
    }

    fn arguments(&self, element: usize) -> Arguments {
        let PlanElement { class, config, .. } = &self.elements[element];
        Arguments::assign(class.args, split(config))
    }

    /// The texts of those arguments of an element that are for no declared one.
    pub fn rest(&self, element: usize) -> Vec<String> {
        self.arguments(element).left().map(|(text, _)| text.to_owned()).collect()
    }

    /// The elements that the words of some arguments of an element name.
    pub fn elements_named(&self, element: usize, arguments: &[&str]) -> Vec<usize> {
        let given = self.arguments(element);
        let texts = arguments.iter().filter_map(|argument| given.last(argument));
        let words = texts.flat_map(|(text, _)| text.split_whitespace());
        let name = &self.elements[element].name;
        words.filter_map(|word| self.resolve(word, name)).collect()
    }

    /// Packets all its elements hold when they are full: the sum of the arguments that say so
    /// ([`Arg::holds`](crate::Arg::holds)). An argument that is no number is reported elsewhere,
    /// and counts nothing.
    pub fn packets_held(&self) -> usize {
        let held = (0..self.elements.len()).filter_map(|at| self.packets_held_by(at));
        held.fold(0, usize::saturating_add)
    }

    /// Those that one of its elements holds, if it says so.
    pub fn packets_held_by(&self, at: usize) -> Option<usize> {
        let arguments = self.arguments(at);
        let is_name = |word: &&str| !matches!(*word, "if" | "where");
        let names = |text: &str| text.split_whitespace().take_while(is_name).count();
        let held_by = |arg: &Arg| {
            let text = arguments.last(arg.name).map_or(arg.default, |(text, _)| text);
            let held = usize::try_from(parse_integer(text.trim())?).ok()?;
            let times = match arg.holds {
                Holds::Nothing => return None,
                Holds::Once => 1,
                Holds::ForEach => arguments.left().map(|(text, _)| names(text)).sum(),
            };
            Some(held.saturating_mul(times))
        };
        let args = self.elements[at].class.args.iter();
        args.filter_map(held_by).reduce(usize::saturating_add)
    }

    /// The ports that its elements open, each once, as far as their arguments tell: the URIs there,
    /// the ports of `devices` by that name, and those of the class itself ([`Class::opens`]).
    pub fn ports(&self, devices: &Devices) -> HashSet<PortUri> {
        let mut ports = HashSet::new();
        for (at, element) in self.elements.iter().enumerate() {
            let words =
                element.config.split([',', ' ', '\t', '\n']).map(|word| unquoted(word.trim()));
            let known = |word: String| word.parse().ok().or_else(|| devices.get(&word).cloned());
            ports.extend(words.filter_map(known));
            ports.extend((element.class.opens)(self, at, devices));
        }
        ports
    }

    /// Packets that it needs memory for besides those on their way: those that its elements hold
    /// when they are full, and those that its ports keep.
    pub fn packets_needed(&self, devices: &Devices) -> usize {
        let ports = self.ports(devices);
        ports.iter().map(packets_kept).fold(self.packets_held(), usize::saturating_add)
    }

    /// The element of that name.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }

    /// The element `name` means inside the compound that `from` is in: the
    /// innermost of that name.
    pub fn resolve(&self, name: &str, from: &str) -> Option<usize> {
        let mut scope = from;
        loop {
            scope = scope.rfind('/').map_or("", |slash| &scope[..slash]);
            let full = if scope.is_empty() { name.into() } else { format!("{scope}/{name}") };
            match self.find(&full) {
                Some(found) => return Some(found),
                None if scope.is_empty() => return None,
                None => {}
            }
        }
    }

    /// Formats an element's name for error messages: `'name :: Class'`.
    fn display(&self, element: usize) -> String {
        let PlanElement { name, class, .. } = &self.elements[element];
        format!("'{name} :: {}'", class.name)
    }

    /// About an element as it is declared.
    fn complain(&self, errors: &mut Diagnostics, element: usize, message: String, help: String) {
        let landmark = self.flat.elements[element].landmark.clone();
        errors.push(Diagnostic::error(landmark, message).help(Some(help)));
    }

    /// About an element in a connection, which is marked. The line is that of
    /// the element, as in Click.
    fn complain_at(
        &self,
        errors: &mut Diagnostics,
        element: usize,
        connection: usize,
        message: String,
        label: String,
    ) {
        let span = self.flat.connections[connection].landmark.span;
        let landmark = Landmark { span, ..self.flat.elements[element].landmark.clone() };
        errors.push(Diagnostic::error(landmark, message).label(label));
    }

    fn count_ports(&mut self, errors: &mut Diagnostics) {
        let mut used = vec![(0, 0); self.elements.len()];
        for connection in &self.flat.connections {
            let from = &mut used[connection.from.element].1;
            *from = (*from).max(connection.from.port + 1);
            let to = &mut used[connection.to.element].0;
            *to = (*to).max(connection.to.port + 1);
        }
        for (element, used) in self.elements.iter_mut().zip(used) {
            let (inputs, outputs) = fitting_ports(element.class.ports, used);
            element.inputs = vec![Processing::Push; inputs];
            element.outputs = vec![Processing::Push; outputs];
            element.sources = vec![Vec::new(); inputs];
            element.targets = vec![Vec::new(); outputs];
        }
        for at in 0..self.flat.connections.len() {
            let (from, to) = (self.flat.connections[at].from, self.flat.connections[at].to);
            let mut whole = true;
            if to.port >= self.elements[to.element].inputs.len() {
                let message = format!("{} has no input {}", self.display(to.element), to.port);
                let label = count(self.elements[to.element].inputs.len(), "input");
                self.complain_at(errors, to.element, at, message, label);
                whole = false;
            }
            if from.port >= self.elements[from.element].outputs.len() {
                let message = format!("{} has no output {}", self.display(from.element), from.port);
                let label = count(self.elements[from.element].outputs.len(), "output");
                self.complain_at(errors, from.element, at, message, label);
                whole = false;
            }
            if whole {
                self.elements[from.element].targets[from.port].push(to);
                self.elements[to.element].sources[to.port].push(from);
            }
        }
    }

    /// Spreads push and pull over agnostic ports until nothing changes.
    fn find_processing(&mut self, errors: &mut Diagnostics) {
        let code = |code: &str, port: usize| {
            let code = code.as_bytes();
            match code.get(port).or(code.last()) {
                Some(b'h') => Some(Processing::Push),
                Some(b'l') => Some(Processing::Pull),
                _ => None,
            }
        };
        let mut inputs = Vec::new();
        let mut outputs = Vec::new();
        for element in &self.elements {
            let (input, output) = sides(element.class.processing);
            inputs.push((0..element.inputs.len()).map(|p| code(input, p)).collect::<Vec<_>>());
            outputs.push((0..element.outputs.len()).map(|p| code(output, p)).collect::<Vec<_>>());
        }
        // Connections, and then the insides of elements: in this order Click finds conflicts.
        let connections = self.flat.connections.iter().enumerate();
        let mut links: Vec<(PortRef, PortRef, Option<usize>)> =
            connections.map(|(at, link)| (link.from, link.to, Some(at))).collect();
        for (at, element) in self.elements.iter().enumerate() {
            for (port, input) in inputs[at].iter().enumerate() {
                if input.is_some() {
                    continue;
                }
                let flow = flow_outputs(element.class.flow, port, element.outputs.len());
                let agnostic = flow.into_iter().filter(|out| outputs[at][*out].is_none());
                links.extend(agnostic.map(|out| {
                    let from = PortRef { element: at, port: out };
                    (from, PortRef { element: at, port }, None)
                }));
            }
        }
        // Click goes over all links until nothing changes. Here those are looked at again of which
        // a port has become known, in the same order.
        let mut at_ports: HashMap<(bool, PortRef), Vec<usize>> = HashMap::new();
        for (at, (from, to, _)) in links.iter().enumerate() {
            at_ports.entry((false, *from)).or_default().push(at);
            at_ports.entry((true, *to)).or_default().push(at);
        }
        let mut wrong = vec![false; links.len()];
        let mut round: BTreeSet<usize> = (0..links.len()).collect();
        let mut next = BTreeSet::new();
        while let Some(at) = round.pop_first() {
            let (from, to, connection) = links[at];
            let output = outputs[from.element][from.port];
            let input = inputs[to.element][to.port];
            let known = match (output, input) {
                (Some(known), None) => {
                    inputs[to.element][to.port] = Some(known);
                    Some((true, to))
                }
                (None, Some(known)) => {
                    outputs[from.element][from.port] = Some(known);
                    Some((false, from))
                }
                (Some(output), Some(input)) if output != input => {
                    if !std::mem::replace(&mut wrong[at], true) {
                        errors.push(self.mismatch(from, to, output, connection));
                    }
                    None
                }
                _ => None,
            };
            for &other in known.and_then(|port| at_ports.get(&port)).into_iter().flatten() {
                if other > at {
                    round.insert(other);
                } else {
                    next.insert(other);
                }
            }
            if round.is_empty() {
                round = std::mem::take(&mut next);
            }
        }
        for (at, element) in self.elements.iter_mut().enumerate() {
            let known = |side: &[Option<Processing>]| {
                side.iter().map(|port| port.unwrap_or(Processing::Push)).collect()
            };
            element.inputs = known(&inputs[at]);
            element.outputs = known(&outputs[at]);
        }
    }

    /// Push meets pull, in a connection or inside an element. Click names no
    /// line for it.
    fn mismatch(
        &self,
        from: PortRef,
        to: PortRef,
        output: Processing,
        connection: Option<usize>,
    ) -> Diagnostic {
        let (out, other) = match output {
            Processing::Push => ("push", "pull"),
            Processing::Pull => ("pull", "push"),
        };
        let source = self.display(from.element);
        let Some(connection) = connection else {
            let message = format!(
                "agnostic {source} in mixed context: {other} input {}, {out} output {}",
                to.port, from.port
            );
            let landmark = self.flat.elements[from.element].landmark.clone();
            let help = "put a Queue (push to pull) or an Unqueue (pull to push) on one side of it";
            return Diagnostic::error(landmark, message)
                .unplaced()
                .label("must be push on both sides or pull on both")
                .help(Some(help.into()));
        };
        let target = self.display(to.element);
        let message = format!(
            "{source} {out} output {} connected to {target} {other} input {}",
            from.port, to.port
        );
        let (label, help) = match output {
            Processing::Push => ("pushes into what pulls", "put a Queue between them"),
            Processing::Pull => {
                ("nobody moves packets from here on", "put an Unqueue between them")
            }
        };
        let landmark = self.flat.connections[connection].landmark.clone();
        Diagnostic::error(landmark, message).unplaced().label(label).help(Some(help.into()))
    }

    /// Every port is used; push outputs and pull inputs lead to one place.
    fn check_connections(&self, errors: &mut Diagnostics) {
        for (at, element) in self.elements.iter().enumerate() {
            for (port, input) in element.inputs.iter().enumerate() {
                // One message for each connection too many.
                for _ in 1..element.sources[port].len() {
                    if *input == Processing::Pull {
                        let message =
                            format!("illegal reuse of {} pull input {port}", self.display(at));
                        let help = "a pull input takes packets from one place; a scheduler such as \
                            RoundRobinSched chooses among several";
                        self.complain(errors, at, message, help.into());
                    }
                }
            }
        }
        for (at, element) in self.elements.iter().enumerate() {
            for (port, output) in element.outputs.iter().enumerate() {
                for _ in 1..element.targets[port].len() {
                    if *output == Processing::Push {
                        let message =
                            format!("illegal reuse of {} push output {port}", self.display(at));
                        let help =
                            "a push output leads to one place; Tee copies packets to several";
                        self.complain(errors, at, message, help.into());
                    }
                }
            }
        }
        for (at, element) in self.elements.iter().enumerate() {
            for (port, sources) in element.sources.iter().enumerate() {
                if sources.is_empty() {
                    let message = format!("{} input {port} unused", self.display(at));
                    let help = "connect it; Idle gives no packets";
                    self.complain(errors, at, message, help.into());
                }
            }
        }
        for (at, element) in self.elements.iter().enumerate() {
            for (port, targets) in element.targets.iter().enumerate() {
                if targets.is_empty() {
                    let message = format!("{} output {port} unused", self.display(at));
                    let help = "connect it; Discard takes what is not wanted";
                    self.complain(errors, at, message, help.into());
                }
            }
        }
    }
}

/// Describes the ports of a kind that an element has.
fn count(number: usize, kind: &str) -> String {
    match number {
        0 => format!("there are no {kind}s"),
        1 => format!("there is only {kind} 0"),
        more => format!("there are only {kind}s 0 to {}", more - 1),
    }
}

/// The two sides of a code such as `a/ah`; one side stands for both.
fn sides(code: &str) -> (&str, &str) {
    code.split_once('/').unwrap_or((code, code))
}

/// The port counts an element has when connections use `used` of them.
fn fitting_ports(spec: &str, used: (usize, usize)) -> (usize, usize) {
    let (input, output) = sides(spec);
    let inputs = fit(input, used.0, 0);
    let outputs = match output.strip_prefix('=') {
        Some(more) => inputs + more.len(),
        None => fit(output, used.1, inputs),
    };
    (inputs, outputs)
}

/// The number in `range` nearest to `used`.
fn fit(range: &str, used: usize, same: usize) -> usize {
    let range = match range.split_once('-') {
        _ if range == "=" => return same,
        None => number(range, 0)..=number(range, 0),
        Some((low, high)) => number(low, 0)..=number(high, usize::MAX),
    };
    let range: RangeInclusive<usize> = range;
    used.clamp(*range.start(), *range.end())
}

fn number(text: &str, otherwise: usize) -> usize {
    text.parse().unwrap_or(otherwise)
}

/// The outputs packets from `input` may leave by, according to a flow code.
///
/// Each side is a string of letters, one per port, the last repeating; an
/// input and an output correspond when they have the same letter. `#` stands
/// for the port's own number, `[..]` for any of a set, `[^..]` for any but it.
pub fn flow_outputs(code: &str, input: usize, outputs: usize) -> Vec<usize> {
    let (inputs, outs) = sides(code);
    let (inputs, outs) = (flow_ports(inputs), flow_ports(outs));
    let Some(from) = inputs.get(input).or(inputs.last()) else { return Vec::new() };
    (0..outputs)
        .filter(|port| {
            let to = outs.get(*port).or(outs.last());
            to.is_some_and(|to| from.meets(input, to, *port))
        })
        .collect()
}

/// The letters of one port in a flow code.
#[derive(Debug)]
struct FlowPort {
    letters: Vec<u8>,
    except: bool,
}

impl FlowPort {
    fn has(&self, letter: u8) -> bool {
        self.letters.contains(&letter) != self.except
    }

    fn meets(&self, port: usize, other: &FlowPort, other_port: usize) -> bool {
        if self.has(b'#') && other.letters.contains(&b'#') {
            return (port == other_port) != other.except;
        }
        let shared = |letter: &u8| *letter != b'#' && self.has(*letter) && other.has(*letter);
        self.letters.iter().chain(&other.letters).any(shared)
    }
}

fn flow_ports(side: &str) -> Vec<FlowPort> {
    let mut ports = Vec::new();
    let mut bytes = side.bytes();
    while let Some(byte) = bytes.next() {
        let mut letters = vec![byte];
        let mut except = false;
        if byte == b'[' {
            letters = bytes.by_ref().take_while(|byte| *byte != b']').collect();
            except = letters.first() == Some(&b'^');
            if except {
                letters.remove(0);
            }
        }
        ports.push(FlowPort { letters, except });
    }
    ports
}

mod ways;

#[cfg(test)]
pub(crate) mod tests;
