//! Every argument and every handler of every class takes any value without a panic, an abort or a
//! loop without an end: the value is used, or refused with an error.
//!
//! Arguments and handlers are those of the definitions, so that a new one is tried, too. A class is
//! tried in its example, with one of its arguments replaced or added. Elements are made and
//! initialized with each value, and run with those that they take.

use std::io;

use linerate_graph::{
    Class, Console, Context, Element, Library, Need, Next, Options, Plan, Router, argument_keyword,
    handler,
    lang::{Flat, Globals, SourceMap, config::split, load},
};
use linerate_memory::{Arena, ArenaOptions, Frame};
use linerate_test_support::extremes::{Record, VALUES, tried_in_processes};

/// Ends a run by its rounds, or when time has passed the longest of the values.
const BOUND: Class = Class {
    name: "Bound",
    make: |_| Box::new(Bound { rounds: 0, wait: 1_000_000 }),
    ..Class::here()
};
const ROUNDS: u32 = 500;
/// Simulated time from which nothing is waited for: three hundred years behind its start.
const LATE: u64 = 9_000_000_000_000_000_000;

struct Bound {
    rounds: u32,
    /// Until the timer is set again; it doubles, so that time goes on where nothing else moves it.
    wait: u64,
}

impl Element for Bound {
    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        cx.set_timer(0, cx.steady() + self.wait);
        cx.schedule();
        Ok(())
    }

    fn run(&mut self, cx: &mut Context, _: &mut Frame) -> Next {
        self.rounds += 1;
        if self.rounds >= ROUNDS {
            cx.driver.abort();
        }
        if cx.clock.is_simulated() { Next::Idle } else { Next::Again }
    }

    fn timer(&mut self, cx: &mut Context, _: u32, _: &mut Frame) {
        self.wait *= 2;
        match cx.steady() + self.wait {
            late if late > LATE => cx.driver.abort(),
            next => cx.set_timer(0, next),
        }
    }
}

fn library() -> Library {
    Library::new(linerate_elements::library().iter().chain([&BOUND]))
}

/// A class in its example.
struct Trial<'a> {
    class: &'static Class,
    library: &'a Library,
    record: &'a Record,
    arena: Arena,
    flat: Flat,
    source: String,
    /// The place of the first element of the class.
    at: usize,
}

impl<'a> Trial<'a> {
    fn new(class: &'static Class, library: &'a Library, record: &'a Record) -> Option<Trial<'a>> {
        let text = format!("bound :: Bound;\n{}", class.example);
        let mut sources = SourceMap::new();
        let file = sources.add("example", &text);
        let mut loader = |_: &str, _: &str| Err(None);
        let (mut flat, _) = load(&mut sources, file, library, &Globals::default(), &mut loader);
        let mut elements = flat.elements.iter();
        let at = elements.position(|element| element.class == class.name).or_else(|| {
            // Another name of the class in the example, as `SimpleQueue` is one of `Queue`.
            let is_same = |other: &Class| std::ptr::eq(other.args, class.args);
            let mut classes = flat.elements.iter().map(|element| library.find(&element.class));
            classes.position(|other| other.is_some_and(is_same))
        })?;
        class.name.clone_into(&mut flat.elements[at].class);
        let source = flat.config(&sources);
        let arena = ArenaOptions { size: 4 << 20, huge: false, ..Default::default() };
        let arena = arena.create().expect("4 MiB");
        Some(Trial { class, library, record, arena, flat, source, at })
    }

    fn config(&self) -> &str {
        &self.flat.elements[self.at].config
    }

    fn name(&self) -> &str {
        &self.flat.elements[self.at].name
    }

    /// The graph with another configuration of the element, if it can be had.
    fn build(&self, config: &str) -> Option<Router> {
        let mut flat = self.flat.clone();
        config.clone_into(&mut flat.elements[self.at].config);
        let plan = Plan::new(flat, self.source.clone(), self.library).ok()?;
        let _ = (plan.packets_held(), plan.shows_order());
        let ports = linerate_port::Context::new(self.arena.clone());
        let console = Console::new(io::sink(), io::sink());
        let options = Options { simulated: true, console, ..Options::default() };
        Router::new(plan, self.library, ports, &options).ok()
    }

    /// Runs a graph and reads the element's handlers.
    fn run(&self, mut router: Router, parameters: &[&str]) {
        router.run();
        for handler in self.class.common_handlers().chain(self.class.handlers) {
            let parameters = if handler.parameter { parameters } else { &[""] };
            for parameter in parameters.iter().filter(|_| handler.access.reads()) {
                let _ = router.read(&format!("{}.{}", self.name(), handler.name), parameter);
            }
        }
        router.close();
    }

    /// The example as it is, and parameters of the handlers that are read.
    fn try_example(&self) -> bool {
        let what = format!("{} as in its example", self.class.name);
        let built = self.record.attempt(&what, || {
            let router = self.build(self.config())?;
            self.run(router, VALUES);
            Some(())
        });
        built.flatten().is_some()
    }

    fn try_arguments(&self) {
        for config in configs(self.class, self.config()) {
            let what = |value: &str| format!("{}({})", self.class.name, config(value));
            for value in VALUES {
                self.record.attempt(what(value), || {
                    if let Some(router) = self.build(&config(value)) {
                        self.run(router, &[""]);
                    }
                });
            }
        }
    }

    fn try_handlers(&self) {
        let all = self.class.common_handlers().chain(self.class.handlers);
        for handler in all.filter(|handler| handler.access.writes()) {
            let what = |value: &str| {
                let (class, config) = (self.class.name, self.config());
                format!("{class}({config}) with {value:?} written to {}", handler.name)
            };
            let name = format!("{}.{}", self.name(), handler.name);
            for value in VALUES {
                self.record.attempt(what(value), || {
                    if let Some(mut router) = self.build(self.config()) {
                        let _ = router.write(&name, value);
                        self.run(router, &[""]);
                    }
                });
            }
        }
    }
}

/// A configuration as a function of a value.
type Config = Box<dyn Fn(&str) -> String>;

/// Configurations of a class: each argument, each word of one of several words, and arguments that
/// the example does not have.
fn configs(class: &Class, config: &str) -> Vec<Config> {
    let given = split(config);
    let keyword = |text: &str| {
        let keyword = argument_keyword(text)?;
        class.arg(keyword).map(|arg| arg.name)
    };
    let mut all: Vec<Config> = Vec::new();
    let mut replaced = |at: usize, prefix: String, suffix: String| {
        let given = given.clone();
        all.push(Box::new(move |value| {
            let mut given = given.clone();
            let argument = format!("{prefix}{value}{suffix}");
            match given.get_mut(at) {
                Some(old) => *old = argument,
                None => given.push(argument),
            }
            given.join(", ")
        }));
    };
    for (at, text) in given.iter().enumerate() {
        let value = keyword(text).map_or(0, |keyword| keyword.len() + 1);
        replaced(at, text[..value].into(), String::new());
        let mut from = value;
        let words: Vec<&str> = text[value..].split(' ').collect();
        for word in words.iter().filter(|_| words.len() > 1) {
            let end = from + word.len();
            if !word.is_empty() {
                replaced(at, text[..from].into(), text[end..].into());
            }
            from = end + 1;
        }
    }
    let positional = given.iter().filter(|text| keyword(text).is_none()).count();
    let mut place = 0;
    for arg in class.args {
        let is_given = given.iter().any(|text| keyword(text) == Some(arg.name));
        match arg.need {
            Need::Rest => replaced(given.len(), String::new(), String::new()),
            Need::Positional { .. } if !is_given => {
                place += 1;
                if place > positional {
                    replaced(given.len(), format!("{} ", arg.name), String::new());
                }
            }
            Need::Keyword { .. } if !is_given => {
                replaced(given.len(), format!("{} ", arg.name), String::new());
            }
            _ => {}
        }
    }
    all
}

#[test]
fn no_value_harms() {
    let library = library();
    let classes: Vec<&'static Class> = linerate_elements::library().iter().collect();
    let Some(record) = Record::of_this_process() else {
        let (attempts, faults) = tried_in_processes("no_value_harms", classes.len());
        assert!(attempts > 10_000, "{attempts} attempts");
        let shown = faults.iter().take(100).map(String::as_str).collect::<Vec<_>>().join("\n");
        assert!(faults.is_empty(), "{} of {attempts} values do harm:\n{shown}", faults.len());
        return;
    };
    for class in record.share(&classes) {
        match Trial::new(class, &library, &record) {
            None if class.name == "ErrorElement" => {}
            None => record.fault(format!("{} is not in its example", class.name)),
            Some(trial) => {
                if !trial.try_example() && !NOT_RUN.contains(&class.name) {
                    record.fault(format!("the example of {} cannot be run", class.name));
                }
                trial.try_arguments();
                trial.try_handlers();
            }
        }
    }
    record.finish();
}

/// Classes whose examples need privileges to be initialized, or a file.
const NOT_RUN: &[&str] = &[
    "EnsureEther",
    "FromHost",
    "FromRawSocket",
    "KernelTap",
    "KernelTun",
    "RawSocket",
    "ToHost",
    "ToRawSocket",
];

/// Handlers of the router as a whole, some of which are for real time alone.
#[test]
fn no_value_harms_a_router() {
    let text = "bound :: Bound; InfiniteSource(LIMIT 5) -> Discard; TimedSource(1ms) -> Discard";
    let library = library();
    let arena = ArenaOptions { size: 4 << 20, huge: false, ..Default::default() };
    let arena = arena.create().expect("4 MiB");
    let mut taken = 0;
    for handler in handler::GLOBAL.iter().filter(|handler| handler.access.writes()) {
        for (value, simulated) in VALUES.iter().flat_map(|value| [(value, false), (value, true)]) {
            let mut loader = |_: &str, _: &str| Err(None);
            let loaded =
                linerate_graph::load("text", text, &library, &Globals::default(), &mut loader);
            let ports = linerate_port::Context::new(arena.clone());
            let console = Console::new(io::sink(), io::sink());
            let options = Options { simulated, console, ..Options::default() };
            let plan = loaded.plan.expect("a configuration");
            let mut router = Router::new(plan, &library, ports, &options).expect("a router");
            taken += usize::from(router.write(handler.name, value).is_ok());
            router.run();
            for read in handler::GLOBAL.iter().filter(|handler| handler.access.reads()) {
                let _ = router.read(read.name, "");
            }
            router.close();
        }
    }
    assert!(taken > 20, "{taken} values were taken");
}

#[test]
fn arguments_are_put_into_examples() {
    let library = library();
    let queue = library.find("Queue").expect("a class");
    let with = |class: &Class, config: &str| -> Vec<String> {
        configs(class, config).iter().map(|config| config("7")).collect()
    };
    let places = with(queue, "");
    assert!(places.contains(&"CAPACITY 7".to_owned()), "{places:?}");
    let places = with(queue, "5");
    assert_eq!(places.iter().filter(|config| config.contains('5')).count(), places.len() - 1);
    assert!(places.contains(&"7".to_owned()), "{places:?}");
    let places = with(library.find("RadixIPLookup").expect("a class"), "10.0.0.0/8 0");
    for place in ["7", "7 0", "10.0.0.0/8 7", "10.0.0.0/8 0, 7"] {
        assert!(places.contains(&place.to_owned()), "{places:?}");
    }
}
