//! Reader of configuration strings into the arguments of an element.
//!
//! The class declares the arguments; here the text given for each is turned into values. Errors are
//! collected, so that all of them are reported at once, in Click's order.

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, OnceLock},
};

use linerate_linux::closest_keyword;
use linerate_memory::Arena;
use linerate_port::Context as PortContext;

use super::{
    Class, Library, OffWorkers, Plan, Processing,
    config_diagnostic::ConfigDiagnostic,
    value::{ElementRef, Value},
};
use crate::{
    arguments::{Arguments, Need, keyword},
    console::Console,
    lang::{
        Cause, Severity,
        config::{split, unquote},
    },
    names::Names,
    right::Right,
    runtime::Replica,
};

/// Input of a class that makes an element.
pub struct ElementBuilder<'a> {
    /// State that all elements share.
    pub world: &'a BuildContext,
    plan: &'a Plan,
    element: usize,
    replica: Replica,
    arguments: Arguments,
    /// The configuration of the element it takes over from, if it does.
    replaces: Option<String>,
    /// Errors of declared arguments, by the place of the declaration.
    wrong: Vec<(usize, ConfigDiagnostic)>,
    /// Diagnostics of the class itself.
    diagnostics: Vec<ConfigDiagnostic>,
}

/// Environment that the elements of a graph are made in.
#[derive(Debug, Clone)]
pub struct BuildContext {
    /// The classes there are.
    pub library: Library,
    /// Ports are opened with it.
    pub ports: PortContext,
    /// Most packets in a frame.
    pub frame_limit: usize,
    /// Workers there are.
    pub workers: usize,
    /// Workers a configuration may name: in simulated time more than there are.
    pub threads: usize,
    /// The worker the configuration has named for each element.
    pub homes: Vec<Option<usize>>,
    /// Whether time is simulated.
    pub simulated: bool,
    /// Whether any element uses annotations of packets ([`Meta`](linerate_memory::Meta)).
    pub annotated: bool,
    /// Whether any element asks how packets were addressed on their link.
    pub types: bool,
    /// Addresses and ports by name.
    pub names: Arc<Names>,
    /// Destination of elements' text for people.
    pub console: Console,
    /// Values that replicas of an element share, by element.
    pub shared: SharedValues,
    /// Answer of the `version` handler.
    pub version: String,
    /// Whether every control connection has every right, as in Click.
    pub insecure_control: bool,
    /// The right of connections that may write: [`Right::Write`], or [`Right::Replace`] where the
    /// graph may be replaced.
    pub writers: Right,
    /// Handlers carried out off the workers, by element.
    pub(crate) off_workers: OffWorkers,
    /// The graph this one is to replace.
    pub predecessor: Option<Arc<Plan>>,
    /// The error an element could not be initialized for ([`BuildContext::failed`]).
    pub(crate) failure: Arc<Mutex<Option<Cause>>>,
}

impl BuildContext {
    /// The arena all packets are in.
    pub fn arena(&self) -> &Arena {
        &self.ports.arena
    }

    /// The text of an error for which an element cannot be initialized. Programs that run the
    /// graph see the error itself: its kind decides how they end.
    pub fn failed(&self, error: impl std::error::Error + Send + Sync + 'static) -> String {
        let text = error.to_string();
        *self.failure.lock().expect("no panic while held") = Some(Cause::new(error));
        text
    }

    /// Returns the value of a type that all elements of this graph share: one of each type, made by
    /// the first that asks.
    pub fn common<T: Any + Send + Sync + Default>(&self) -> Arc<T> {
        self.shared.get(String::new(), T::default)
    }
}

/// Values that replicas of one element share, and those all elements share.
#[derive(Clone, Default)]
pub struct SharedValues {
    /// By their owner, empty for all elements, and their type.
    values: Arc<Mutex<HashMap<(String, TypeId), SharedValue>>>,
}

/// Set by the first that asks, without the lock on all values: making one may take others.
type SharedValue = Arc<OnceLock<Arc<dyn Any + Send + Sync>>>;

impl SharedValues {
    fn get<T: Any + Send + Sync>(&self, owner: String, make: impl FnOnce() -> T) -> Arc<T> {
        let value = {
            let mut values = self.values.lock().expect("no panic while held");
            Arc::clone(values.entry((owner, TypeId::of::<T>())).or_default())
        };
        let value = value.get_or_init(|| Arc::new(make()));
        Arc::clone(value).downcast().expect("the key names the type")
    }
}

impl fmt::Debug for SharedValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedValues").finish_non_exhaustive()
    }
}

impl<'a> ElementBuilder<'a> {
    pub(crate) fn new(
        world: &'a BuildContext,
        plan: &'a Plan,
        element: usize,
        replica: Replica,
    ) -> ElementBuilder<'a> {
        let at = &plan.elements[element];
        let old = world.predecessor.as_deref();
        let old = old.and_then(|old| Some(&old.elements[old.find(&at.name)?]));
        let same = old.filter(|old| old.class.name == at.class.name);
        let replaces = same.map(|old| old.config.clone());
        ElementBuilder::with_config(world, plan, element, replica, &at.config, replaces)
    }

    pub(crate) fn with_config(
        world: &'a BuildContext,
        plan: &'a Plan,
        element: usize,
        replica: Replica,
        config: &str,
        replaces: Option<String>,
    ) -> ElementBuilder<'a> {
        let arguments = Arguments::assign(plan.elements[element].class.args, split(config));
        let (wrong, diagnostics) = (Vec::new(), Vec::new());
        ElementBuilder { world, plan, element, replica, arguments, replaces, wrong, diagnostics }
    }

    /// The value of a declared argument; `None` when it was not given or is
    /// wrong, which is then reported.
    pub fn get<T: Value>(&mut self, name: &str) -> Option<T> {
        self.check_declared(name);
        // As in Click, one that is empty says nothing.
        let (text, at) = self.arguments.last(name).filter(|(text, _)| !text.is_empty())?;
        let (result, argument) = (self.parse(text), self.arguments.written(at));
        result.map_err(|error| self.wrong(name, error, argument)).ok()
    }

    /// The values of a declared argument that may be given several times.
    pub fn all<T: Value>(&mut self, name: &str) -> Vec<T> {
        self.check_declared(name);
        let mut values = Vec::new();
        for (text, at) in self.arguments.all(name) {
            match self.parse(&text) {
                Ok(value) => values.push(value),
                Err(error) => self.wrong(name, error, self.arguments.written(at)),
            }
        }
        values
    }

    fn check_declared(&self, name: &str) {
        debug_assert!(self.class().arg(name).is_some(), "{name} is not a declared argument");
    }

    /// A declared argument is wrong.
    fn wrong(&mut self, name: &str, error: String, argument: String) {
        let place = self.class().args.iter().position(|arg| arg.name == name);
        // Where Click says more than one thing about an argument, so is here.
        for error in error.lines() {
            let message = format!("{name}: {error}");
            let argument = Some(argument.clone());
            let diagnostic = ConfigDiagnostic { argument, ..ConfigDiagnostic::error(message) };
            self.wrong.push((place.unwrap_or(usize::MAX), diagnostic));
        }
    }

    /// The value of an argument, or `default`.
    pub fn or<T: Value>(&mut self, name: &str, default: T) -> T {
        self.get(name).unwrap_or(default)
    }

    /// The value of an argument that must be given, which is reported when it
    /// was not; then it is a stand-in.
    pub fn need<T: Value + Default>(&mut self, name: &str) -> T {
        self.get(name).unwrap_or_default()
    }

    /// Returns another element, by a reference to it: one whose class `fits`, else an error says
    /// that `expected` was.
    pub fn element_of(
        &mut self,
        name: &str,
        expected: &str,
        fits: impl Fn(&Class) -> bool,
    ) -> Option<ElementRef> {
        let found: ElementRef = self.get(name)?;
        if fits(self.plan.elements[found.0].class) {
            return Some(found);
        }
        let (_, at) = self.arguments.last(name)?;
        let message = format!("element type mismatch, expected {expected}");
        self.wrong(name, message, self.arguments.written(at));
        None
    }

    /// The text of an argument that was given without its keyword.
    pub fn given_by_place(&self, name: &str) -> Option<String> {
        let (text, at) = self.arguments.last(name)?;
        (self.arguments.written(at) == text).then(|| text.to_owned())
    }

    /// Returns true if an argument was given.
    pub fn is_given(&self, name: &str) -> bool {
        self.arguments.last(name).is_some()
    }

    /// The arguments a class with [`Arg::rest`](crate::Arg::rest) takes, as
    /// they were written.
    pub fn rest(&self) -> Vec<String> {
        self.arguments.left().map(|(text, _)| text.to_owned()).collect()
    }

    /// Reads some text as a value.
    ///
    /// # Errors
    ///
    /// The error of the text.
    pub fn parse<T: Value>(&self, text: &str) -> Result<T, String> {
        T::parse(text, &Scope { plan: self.plan, names: &self.world.names, name: self.name() })
    }

    /// An argument that says how many packets are handled at a time: all a
    /// frame holds when it is not given, and never more.
    pub fn burst(&mut self, name: &str) -> usize {
        let limit = self.world.frame_limit;
        match self.get::<i64>(name) {
            None => limit,
            Some(burst) if burst < 1 => {
                self.error(format!("{name}: must be positive"));
                limit
            }
            Some(burst) => (burst as usize).min(limit),
        }
    }

    /// Packets of a turn, where it is given ([`Element::burst`](crate::Element::burst)).
    pub fn turn(&mut self, name: &str) -> Option<usize> {
        match self.get::<i64>(name)? {
            burst if burst < 1 => {
                self.error(format!("{name}: must be positive"));
                None
            }
            burst => Some(usize::try_from(burst).unwrap_or(usize::MAX)),
        }
    }

    /// Returns true if input `port` pulls.
    pub fn input_is_pull(&self, port: usize) -> bool {
        self.plan.elements[self.element].inputs.get(port) == Some(&Processing::Pull)
    }

    /// Returns true if output `port` pushes.
    pub fn output_is_push(&self, port: usize) -> bool {
        self.plan.elements[self.element].outputs.get(port) == Some(&Processing::Push)
    }

    /// The arguments of the element whose state this one will take over
    /// ([`Element::take_state`](crate::Element::take_state)), which holds the resources that can be
    /// had only once. Errors of them do not matter any more.
    pub fn predecessor(&self) -> Option<ElementBuilder<'a>> {
        let config = self.replaces.as_deref()?;
        let ElementBuilder { world, plan, element, replica, .. } = *self;
        Some(ElementBuilder::with_config(world, plan, element, replica, config, None))
    }

    /// Something is wrong with the configuration. Not said where an argument is
    /// wrong by itself: it may be a consequence.
    pub fn error(&mut self, message: impl Into<String>) {
        self.diagnostics.push(ConfigDiagnostic::error(message));
    }

    /// Reports an error of an argument, and perhaps marks a word of it. `help` is the correction
    /// that was probably meant.
    pub fn error_at(
        &mut self,
        message: impl Into<String>,
        argument: &str,
        word: Option<&str>,
        help: Option<String>,
    ) {
        let (argument, word) = (Some(argument.to_owned()), word.map(str::to_owned));
        self.diagnostics.push(ConfigDiagnostic {
            argument,
            word,
            help,
            ..ConfigDiagnostic::error(message)
        });
    }

    /// Reports an error that Click reports besides, and that only follows from another: it needs no
    /// correction of its own.
    pub fn error_follows(&mut self, message: impl Into<String>) {
        self.diagnostics
            .push(ConfigDiagnostic { follows: true, ..ConfigDiagnostic::error(message) });
    }

    /// Something about the configuration is likely not meant; it is run all the
    /// same.
    pub fn warn(&mut self, message: impl Into<String>) {
        let severity = Severity::Warning;
        self.diagnostics.push(ConfigDiagnostic { severity, ..ConfigDiagnostic::error(message) });
    }

    /// Something to be told that is nothing to worry about.
    pub fn tell(&mut self, message: impl Into<String>) {
        let severity = Severity::Note;
        self.diagnostics.push(ConfigDiagnostic { severity, ..ConfigDiagnostic::error(message) });
    }

    /// Returns all diagnostics: errors of arguments in the order of their declarations, arguments
    /// that are none, or else the diagnostics of the class.
    pub(crate) fn into_diagnostics(self) -> Vec<ConfigDiagnostic> {
        let class = self.class();
        let mut wrong = self.wrong;
        for (place, arg) in class.args.iter().enumerate() {
            let required = matches!(
                arg.need,
                Need::Positional { required: true } | Need::Keyword { required: true }
            );
            let is_given = self.arguments.last(arg.name).is_some_and(|(text, _)| !text.is_empty());
            if required && !is_given {
                let message = format!("{}: required argument missing", arg.name);
                let help = format!("{}: {}", arg.name, arg.help);
                let help = Some(help).filter(|_| !arg.help.is_empty());
                wrong.push((place, ConfigDiagnostic { help, ..ConfigDiagnostic::error(message) }));
            }
        }
        wrong.sort_by_key(|(place, _)| *place);
        wrong.dedup();
        let mut all: Vec<_> = wrong.into_iter().map(|(_, diagnostic)| diagnostic).collect();
        if class.args.iter().all(|arg| arg.need != Need::Rest) {
            unexpected(class, &self.arguments, &mut all);
        }
        if all.is_empty() { self.diagnostics } else { all }
    }

    fn class(&self) -> &'static Class {
        self.plan.elements[self.element].class
    }

    /// The element's name.
    pub fn name(&self) -> &'a str {
        &self.plan.elements[self.element].name
    }

    /// The element's place in the plan.
    pub fn element(&self) -> usize {
        self.element
    }

    /// The graph it is part of.
    pub fn plan(&self) -> &'a Plan {
        self.plan
    }

    /// Inputs in use.
    pub fn inputs(&self) -> usize {
        self.plan.elements[self.element].inputs.len()
    }

    /// Outputs in use.
    pub fn outputs(&self) -> usize {
        self.plan.elements[self.element].outputs.len()
    }

    /// Returns this replica's part of the element's work.
    pub fn replica(&self) -> Replica {
        self.replica
    }

    /// Returns a value that all replicas of this element share: made by the first that asks.
    pub fn shared<T: Any + Send + Sync>(&self, make: impl FnOnce() -> T) -> Arc<T> {
        self.world.shared.get(self.name().into(), make)
    }

    /// Likewise for another element, whose replicas may be made later.
    pub fn shared_of<T: Any + Send + Sync>(
        &self,
        ElementRef(element): ElementRef,
        make: impl FnOnce() -> T,
    ) -> Arc<T> {
        self.world.shared.get(self.plan.elements[element].name.clone(), make)
    }
}

/// Arguments no declaration is for: unknown keywords, and positional ones
/// beyond the last.
fn unexpected(class: &Class, arguments: &Arguments, diagnostics: &mut Vec<ConfigDiagnostic>) {
    let mut too_many = None;
    for (text, _) in arguments.left() {
        let Some(word) = keyword(text) else {
            too_many.get_or_insert_with(|| text.to_owned());
            continue;
        };
        let known = class.args.iter().map(|arg| arg.name);
        let help = closest_keyword(word, known).map(|name| format!("did you mean `{name}`?"));
        let message = format!("{word}: unknown argument");
        let argument = Some(text.to_owned());
        diagnostics.push(ConfigDiagnostic { argument, help, ..ConfigDiagnostic::error(message) });
    }
    if too_many.is_some() {
        let help = match class.args.iter().map(|arg| arg.name).collect::<Vec<_>>().join(", ") {
            none if none.is_empty() => format!("`{}` takes no arguments", class.name),
            names => format!("`{}` takes {names}", class.name),
        };
        let diagnostic = ConfigDiagnostic::error("too many arguments");
        diagnostics.push(ConfigDiagnostic { argument: too_many, help: Some(help), ..diagnostic });
    }
}

impl fmt::Debug for ElementBuilder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ElementBuilder").field("element", &self.name()).finish_non_exhaustive()
    }
}

/// Scope in which names in an argument are looked up.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    /// The graph: element references.
    pub plan: &'a Plan,
    /// Addresses and ports.
    pub names: &'a Names,
    /// The element whose argument it is.
    pub name: &'a str,
}

/// Text with quotes taken off.
pub fn unquoted(text: &str) -> String {
    String::from_utf8_lossy(&unquote(text)).into_owned()
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, thread, time::Duration};

    use super::*;

    /// A value that is made of others: of all elements, and of the same element.
    #[test]
    fn shared_values_are_made_of_others() {
        let (tell, told) = mpsc::channel();
        thread::spawn(move || {
            let values = SharedValues::default();
            let make = || {
                let common = values.get(String::new(), || 1u8);
                let own = values.get("a".into(), || 2u16);
                u32::from(*common) + u32::from(*own)
            };
            let made = values.get("a".into(), make);
            let again = values.get("a".into(), || 0u32);
            let _ = tell.send((*made, Arc::ptr_eq(&made, &again)));
        });
        assert_eq!(told.recv_timeout(Duration::from_secs(20)), Ok((3, true)));
    }
}
