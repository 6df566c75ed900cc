//! Any accepted configuration on any packets: chains of elements of the whole library with random
//! arguments, run in simulated time on random packets, their handlers read and written.
//!
//! Asserted besides the absence of panics and hangs: no buffer is lost. Left out are elements that
//! reach outside the process (devices, files, sockets) and those that control the run. With `SHOW`
//! in the environment each configuration is shown before it is run.

#![no_main]

use std::{cell::RefCell, env, fmt::Write as _, panic};

use libfuzzer_sys::fuzz_target;
use linerate_graph::{
    Arg, Class, Console, Context, Element, HandlerRef, Library, Need, Next, Options, Router,
    handler, lang::Globals, load,
};
use linerate_memory::{Arena, ArenaOptions, Frame};

/// Elements of a chain.
const CHAIN: usize = 6;
/// Ports of an element.
const PORTS: usize = 4;
/// The simulated time a run takes, and how often the worker's tasks are run in it.
const RUN: u64 = 50_000_000;
const ROUNDS: u32 = 10_000;

const NOT_HERE: &[&str] = &["devices", "control"];
/// Kinds of arguments that name something outside the process.
const OUTSIDE: &[&str] = &["path", "file", "port", "device"];

const VALUES: &[&str] = &[
    "0",
    "1",
    "2",
    "3",
    "7",
    "64",
    "100",
    "1500",
    "65536",
    "-1",
    "4294967295",
    "18446744073709551615",
    "0.5",
    "0.001",
    "1e9",
    "1ms",
    "20us",
    "10s",
    "8kbps",
    "1MBps",
    "100Gbps",
    "true",
    "false",
    "x",
    "e0",
    "e1",
    "1.2.3.4",
    "1.2/16",
    "00:01:02:03:04:05",
    "::1",
    "-",
    "12/0800",
    "0/00??%f0f0",
    "12/0806 20/0001",
    "!0/01",
    "1000/00",
    "\"a b\"",
    "\\<00ff>",
    "PAINT",
    "AGGREGATE",
    "e0 2",
    "e0.count",
    "5 e0.reset_counts",
    "ip",
    "src",
    "timestamp",
    "",
];

/// The bytes of one input, taken one by one; zeros when there are no more.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn next(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// A number below `limit`.
    fn below(&mut self, limit: usize) -> usize {
        usize::from(self.next()) % limit.max(1)
    }

    fn one_in(&mut self, number: usize) -> bool {
        self.below(number) == number - 1
    }

    fn choice<'c, T>(&mut self, among: &'c [T]) -> &'c T {
        &among[self.below(among.len())]
    }
}

/// Ends the run after some simulated time, or when much has happened in less: an element may have a
/// timer every nanosecond.
const CLOCK: Class =
    Class { name: "Clock", make: |_| Box::new(Clock { rounds: 0 }), ..Class::EMPTY };

struct Clock {
    rounds: u32,
}

impl Element for Clock {
    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        cx.set_timer(0, cx.steady() + RUN);
        cx.schedule();
        Ok(())
    }

    fn run(&mut self, cx: &mut Context, _: &mut Frame) -> Next {
        self.rounds += 1;
        if self.rounds == ROUNDS {
            cx.driver.stop();
        }
        Next::Idle
    }

    fn timer(&mut self, cx: &mut Context, _: u32, _: &mut Frame) {
        cx.driver.stop();
    }
}

struct World {
    library: Library,
    /// Those that chains are made of.
    usable: Vec<&'static Class>,
    arena: Arena,
}

thread_local! {
    /// What is being run, to be shown with a panic.
    static RUNNING: RefCell<String> = const { RefCell::new(String::new()) };

    static SHOW: bool = env::var_os("SHOW").is_some();

    static WORLD: World = {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            RUNNING.with_borrow(|text| eprintln!("{text}"));
            before(info);
        }));
        let library = linerate_elements::library();
        let outside = |arg: &Arg| OUTSIDE.iter().any(|kind| arg.kind.contains(kind));
        let usable = |class: &&Class| {
            !NOT_HERE.contains(&class.family) && !class.args.iter().any(outside)
        };
        let options = ArenaOptions { size: 16 << 20, huge: false, ..ArenaOptions::default() };
        World {
            usable: library.iter().filter(usable).collect(),
            library: Library::new(library.iter().chain([&CLOCK])),
            arena: options.create().expect("16 megabytes can be had"),
        }
    };
}

/// How many ports of a side an element is given, by its specification.
fn ports(bytes: &mut Bytes<'_>, side: &str, inputs: usize) -> usize {
    let number = |text: &str, otherwise| text.parse().unwrap_or(otherwise);
    if let Some(more) = side.strip_prefix('=') {
        return inputs + more.len();
    }
    let (low, high) = match side.split_once('-') {
        Some((low, high)) => (number(low, 0), number(high, PORTS)),
        None => (number(side, 0), number(side, 0)),
    };
    let high: usize = high.max(low);
    low + bytes.below(high - low + 1)
}

/// Whether port `port` of a side pushes; nothing if either will do.
fn pushes(side: &str, port: usize) -> Option<bool> {
    let code = side.as_bytes();
    match code.get(port).or(code.last()) {
        Some(b'h') => Some(true),
        Some(b'l') => Some(false),
        _ => None,
    }
}

fn sides(code: &str) -> (&str, &str) {
    code.split_once('/').unwrap_or((code, code))
}

/// What is written for an argument: mostly something of its kind.
fn value(bytes: &mut Bytes<'_>, arg: &Arg) -> &'static str {
    let fitting: &[&'static str] = match arg.kind {
        "bool" => &["true", "false"],
        "time" => &["1ms", "20us", "0", "10s", "0.5"],
        kind if kind.contains("bandwidth") => &["8kbps", "1MBps", "100Gbps", "100"],
        kind if kind.contains("element") => &["e0", "e1", "e0 2"],
        kind if kind.contains("pattern") => &["12/0800", "0/00??%f0f0", "-", "!0/01 3/ff"],
        _ => &["0", "1", "2", "3", "7", "64", "1500", "0.5", "-1"],
    };
    let among = if bytes.one_in(4) { VALUES } else { fitting };
    bytes.choice::<&'static str>(among)
}

/// Arguments for a class, some of them wrong.
fn arguments(bytes: &mut Bytes<'_>, class: &Class) -> String {
    let mut out = Vec::new();
    for arg in class.args {
        let value = value(bytes, arg);
        match arg.need {
            // Nothing goes on for ever.
            _ if arg.name == "LIMIT" => out.push(format!("LIMIT {}", bytes.next())),
            Need::Positional { required: true } => out.push(value.to_owned()),
            Need::Keyword { required: true } => out.push(format!("{} {value}", arg.name)),
            Need::Rest => {
                for _ in 0..bytes.below(PORTS + 1) {
                    out.push(self::value(bytes, arg).to_owned());
                }
            }
            _ if bytes.one_in(3) => out.push(format!("{} {value}", arg.name)),
            _ => {}
        }
    }
    out.join(", ")
}

/// A source of packets of random bytes, and a queue where they are pulled.
fn source(bytes: &mut Bytes<'_>, pushes: bool) -> String {
    let length = bytes.below(80);
    let data: String = (0..length).map(|_| format!("{:02x}", bytes.next())).collect();
    let (limit, burst) = (1 + bytes.below(256), 1 + bytes.below(64));
    let queue = if pushes { "" } else { " -> Queue(64)" };
    format!("InfiniteSource(DATA \\<{data}>, LIMIT {limit}, BURST {burst}){queue}")
}

fn configuration(bytes: &mut Bytes<'_>, usable: &[&Class]) -> String {
    let mut text = "clock :: Clock;\n".to_owned();
    let mut chain = source(bytes, true);
    let mut pushing = true;
    let mut rest = String::new();
    for at in 0..1 + bytes.below(CHAIN) {
        let class = *bytes.choice(usable);
        let _ = writeln!(text, "e{at} :: {}({});", class.name, arguments(bytes, class));
        let ((ins, outs), (input, output)) = (sides(class.ports), sides(class.processing));
        let inputs = ports(bytes, ins, 0);
        let outputs = ports(bytes, outs, inputs);
        for port in 1..inputs {
            let from = source(bytes, pushes(input, port).unwrap_or(pushing));
            let _ = writeln!(rest, "{from} -> [{port}] e{at};");
        }
        for port in 1..outputs {
            let _ = writeln!(rest, "e{at} [{port}] -> Discard;");
        }
        if inputs > 0 {
            let wanted = pushes(input, 0).unwrap_or(pushing);
            match (pushing, wanted) {
                (true, false) => chain.push_str(" -> Queue(20)"),
                (false, true) => chain.push_str(" -> Unqueue"),
                _ => {}
            }
            pushing = wanted;
            let _ = write!(chain, " -> e{at}");
        } else {
            let _ = writeln!(rest, "{chain} -> Discard;");
            chain = format!("e{at}");
            pushing = true;
        }
        if outputs == 0 {
            let _ = writeln!(rest, "{chain};");
            chain = source(bytes, true);
            pushing = true;
        } else {
            pushing = pushes(output, 0).unwrap_or(pushing);
        }
    }
    let _ = write!(rest, "{chain} -> Discard;");
    text + &rest
}

/// Reads every handler of the elements of the chain and writes some.
fn handlers(bytes: &mut Bytes<'_>, router: &mut Router) {
    let plan = router.control().plan();
    for (at, element) in plan.elements.iter().enumerate() {
        for known in element.class.handlers.iter().chain(handler::COMMON) {
            let call = HandlerRef { element: Some(at), handler: known.name.into() };
            let value = *bytes.choice(VALUES);
            if known.access.writes() && bytes.one_in(2) {
                let _ = router.first().write_handler(&call, value);
            }
            if known.access.reads() {
                let _ = router.read(&call, if known.parameter { value } else { "" });
            }
        }
    }
}

fuzz_target!(|data: &[u8]| {
    WORLD.with(|world| {
        let mut bytes = Bytes(data);
        let frame_limit = *bytes.choice(&[1, 2, 7, 32, 256]);
        let text = configuration(&mut bytes, &world.usable);
        if SHOW.with(|show| *show) {
            eprintln!("{text}\n");
        }
        RUNNING.replace(format!("frame limit {frame_limit}\n{text}"));
        let mut loader = |_: &str, _: &str| Err(None);
        let loaded = load("config", &text, &world.library, &Globals::default(), &mut loader);
        let Some(plan) = loaded.plan else {
            let _ = (loaded.found.click(), loaded.found.rich(&loaded.sources, false));
            return;
        };
        let ports = linerate_port::Context::new(world.arena.clone());
        let (console, _) = Console::buffered();
        let options = Options { simulated: true, frame_limit, console, ..Options::default() };
        if let Ok(mut router) = Router::new(plan, &world.library, ports, &options) {
            router.run();
            handlers(&mut bytes, &mut router);
            router.close();
            drop(router);
        }
        assert_eq!(world.arena.accounting().held, 0, "buffers are lost");
    });
});
