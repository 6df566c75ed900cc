//! From a configuration string to an element's arguments.
//!
//! Which arguments there are is declared by the class; here they are found in
//! the configuration string by Click's rules (positional first, keywords
//! anywhere behind, the last of several wins) and turned into values. Errors
//! are collected, so that all of them are reported at once.

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex},
};

use linerate_memory::Arena;
use linerate_port::Context as PortContext;

use crate::{
    class::{Library, Need},
    console::Console,
    lang::config::{split, unquote},
    names::Names,
    plan::{Plan, Processing},
    value::Value,
};

/// What a class needs to make an element.
pub struct Make<'a> {
    /// What all elements share.
    pub world: &'a World,
    plan: &'a Plan,
    element: usize,
    replica: Replica,
    given: Vec<Given>,
    errors: Vec<String>,
    warnings: Vec<String>,
}

/// What the elements of a graph are made for and of.
#[derive(Debug, Clone)]
pub struct World {
    /// The classes there are.
    pub library: Library,
    /// Ports are opened with it.
    pub ports: PortContext,
    /// Most packets in a frame.
    pub frame_limit: usize,
    /// Workers there are.
    pub workers: usize,
    /// Whether time is simulated.
    pub simulated: bool,
    /// Whether any element uses what is known about packets besides their
    /// bytes.
    pub annotated: bool,
    /// Addresses and ports by name.
    pub names: Arc<Names>,
    /// Where elements write text for people.
    pub console: Console,
    /// What replicas of an element share, by element.
    pub shared: Shared,
    /// The graph this one is to replace.
    pub predecessor: Option<Arc<Plan>>,
}

impl World {
    /// The arena all packets are in.
    pub fn arena(&self) -> &Arena {
        &self.ports.arena
    }

    /// What all elements of this graph share: one value of each type, made by
    /// the first that asks.
    pub fn common<T: Any + Send + Sync + Default>(&self) -> Arc<T> {
        self.shared.get(String::new(), T::default)
    }
}

/// Values that replicas of one element share, and those all elements share.
#[derive(Clone, Default)]
pub struct Shared {
    /// By their owner, empty for all elements, and their type.
    values: Arc<Mutex<HashMap<(String, TypeId), SharedValue>>>,
}

type SharedValue = Arc<dyn Any + Send + Sync>;

impl Shared {
    fn get<T: Any + Send + Sync>(&self, owner: String, make: impl FnOnce() -> T) -> Arc<T> {
        let mut values = self.values.lock().expect("no panic while held");
        let value = values.entry((owner, TypeId::of::<T>())).or_insert_with(|| Arc::new(make()));
        Arc::clone(value).downcast().expect("the key names the type")
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

/// Which part of an element's work a replica does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replica {
    /// The worker it is on.
    pub worker: usize,
    /// Its number among the replicas of the element.
    pub index: usize,
    /// Replicas there are.
    pub count: usize,
    /// Whether packets are pushed to it here.
    pub pushed: bool,
    /// Whether packets are pulled from it here.
    pub pulled: bool,
}

impl Replica {
    /// The only one.
    pub const ONLY: Replica = Replica { worker: 0, index: 0, count: 1, pushed: true, pulled: true };
}

/// One argument as it was written.
#[derive(Debug)]
struct Given {
    /// Empty for a positional one.
    keyword: String,
    text: String,
}

impl<'a> Make<'a> {
    pub(crate) fn new(
        world: &'a World,
        plan: &'a Plan,
        element: usize,
        replica: Replica,
    ) -> Make<'a> {
        Make::with_config(world, plan, element, replica, &plan.elements[element].config)
    }

    pub(crate) fn with_config(
        world: &'a World,
        plan: &'a Plan,
        element: usize,
        replica: Replica,
        config: &str,
    ) -> Make<'a> {
        let mut make = Make {
            world,
            plan,
            element,
            replica,
            given: Vec::new(),
            errors: Vec::new(),
            warnings: Vec::new(),
        };
        make.assign(split(config));
        make
    }

    /// Gives each argument to the one it is meant for.
    fn assign(&mut self, arguments: Vec<String>) {
        let class = self.plan.elements[self.element].class;
        let declared: Vec<_> = class.args.iter().filter(|arg| arg.need != Need::Rest).collect();
        let rest = class.args.iter().find(|arg| arg.need == Need::Rest);
        let mut places = declared
            .iter()
            .filter(|arg| matches!(arg.need, Need::Positional { .. }))
            .map(|arg| arg.name);
        let mut too_many = false;
        for argument in arguments {
            let (word, value) = keyword(&argument);
            let known = declared.iter().any(|arg| arg.name == word);
            if known {
                self.given.push(Given { keyword: word.into(), text: value.into() });
                continue;
            }
            match (places.next(), rest) {
                (Some(name), _) => self.given.push(Given { keyword: name.into(), text: argument }),
                (None, Some(_)) => {
                    self.given.push(Given { keyword: String::new(), text: argument });
                }
                (None, None) if word.is_empty() || value.is_empty() => too_many = true,
                (None, None) => self.errors.push(format!("{word}: unknown argument")),
            }
        }
        if too_many {
            self.errors.push("too many arguments".into());
        }
    }

    /// The value of a declared argument; `None` when it was not given or is
    /// wrong, which is then reported.
    pub fn get<T: Value>(&mut self, name: &str) -> Option<T> {
        debug_assert!(
            self.plan.elements[self.element].class.arg(name).is_some(),
            "{name} is not a declared argument"
        );
        let given = self.given.iter().rev().find(|given| given.keyword == name)?;
        match T::parse(
            &given.text,
            &Scope { plan: self.plan, names: &self.world.names, name: self.name() },
        ) {
            Ok(value) => Some(value),
            Err(error) => {
                self.errors.push(format!("{name}: {error}"));
                None
            }
        }
    }

    /// The value of an argument, or `default`.
    pub fn or<T: Value>(&mut self, name: &str, default: T) -> T {
        self.get(name).unwrap_or(default)
    }

    /// The value of an argument that must be given; a stand-in when it was not.
    pub fn need<T: Value + Default>(&mut self, name: &str) -> T {
        if !self.is_given(name) {
            self.errors.push(format!("{name}: required argument missing"));
            return T::default();
        }
        self.get(name).unwrap_or_default()
    }

    /// Whether an argument was given.
    pub fn is_given(&self, name: &str) -> bool {
        self.given.iter().any(|given| given.keyword == name)
    }

    /// The arguments a class with [`Arg::rest`](crate::Arg::rest) takes, as
    /// they were written.
    pub fn rest(&self) -> Vec<String> {
        let rest = self.given.iter().filter(|given| given.keyword.is_empty());
        rest.map(|given| given.text.clone()).collect()
    }

    /// Reads some text as a value.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
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
                self.errors.push(format!("{name}: must be positive"));
                limit
            }
            Some(burst) => (burst as usize).min(limit),
        }
    }

    /// Whether input `port` pulls.
    pub fn input_is_pull(&self, port: usize) -> bool {
        self.plan.elements[self.element].inputs.get(port) == Some(&Processing::Pull)
    }

    /// Whether output `port` pushes.
    pub fn output_is_push(&self, port: usize) -> bool {
        self.plan.elements[self.element].outputs.get(port) == Some(&Processing::Push)
    }

    /// The configuration of the element whose state this one will take over
    /// ([`Element::take_state`](crate::Element::take_state)): what can be had
    /// only once, it has.
    pub fn predecessor(&self) -> Option<&'a str> {
        let plan = self.world.predecessor.as_deref()?;
        let old = &plan.elements[plan.find(self.name())?];
        let same = old.class.name == self.plan.elements[self.element].class.name;
        same.then_some(old.config.as_str())
    }

    /// Something is wrong with the configuration.
    pub fn error(&mut self, message: impl Into<String>) {
        self.errors.push(message.into());
    }

    /// Something about the configuration is likely not meant; it is run all the
    /// same. The text is shown as it is, so it says that it is a warning.
    pub fn warn(&mut self, message: impl Into<String>) {
        self.warnings.push(message.into());
    }

    pub(crate) fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    pub(crate) fn into_errors(self) -> Vec<String> {
        self.errors
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

    /// Which part of the element's work is done here.
    pub fn replica(&self) -> Replica {
        self.replica
    }

    /// What all replicas of this element share: made by the first that asks.
    pub fn shared<T: Any + Send + Sync>(&self, make: impl FnOnce() -> T) -> Arc<T> {
        self.world.shared.get(self.name().into(), make)
    }
}

/// The keyword an argument begins with, and what follows it.
fn keyword(argument: &str) -> (&str, &str) {
    let end = argument
        .find(|c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'))
        .unwrap_or(argument.len());
    let (word, rest) = argument.split_at(end);
    let starts = word.starts_with(|c: char| c.is_ascii_uppercase() || c == '_');
    if starts && (rest.is_empty() || rest.starts_with(char::is_whitespace)) {
        (word, rest.trim_start())
    } else {
        ("", argument)
    }
}

impl fmt::Debug for Make<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Make").field("element", &self.name()).finish_non_exhaustive()
    }
}

/// Where names in an argument are looked up.
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
