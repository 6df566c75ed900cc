//! Runs configurations for tests.
//!
//! Time is simulated, and besides the library there is `Collect`, which keeps
//! the bytes of packets: its handler `packets` shows each as a line of
//! hexadecimal digits, `lengths` its length, `times` when it came, in
//! nanoseconds since simulated time began. `MarkNetwork` says where the network
//! header is, `Destination` sets the destination annotation.
//! `Packets` sends the packets it is given as words of hexadecimal digits, `-`
//! for an empty one, and ends the run.
#![forbid(unsafe_code)]

mod documented;
mod scratch;

use std::sync::{Arc, Mutex};

use linerate_graph::{
    Arg, BuildError, Class, Console, Context, Element, Handler, HandlerResult, Library, Next,
    Options, Router, Text, lang::Globals, load,
};
use linerate_memory::{Arena, ArenaOptions, Frame};

pub use documented::assert_documented;
pub use scratch::Scratch;

/// A configuration being run.
#[derive(Debug)]
pub struct Run {
    text: String,
    library: Library,
    options: Options,
    output: Arc<Mutex<Vec<u8>>>,
    arena: Arena,
    devices: Vec<(String, linerate_port::PortUri)>,
    router: Option<Router>,
}

impl Run {
    /// A configuration of elements of the library and of this crate.
    pub fn new(text: &str) -> Run {
        let (console, output) = Console::buffered();
        let arena = ArenaOptions { size: 16 << 20, huge: false, ..Default::default() };
        Run {
            text: text.into(),
            library: library(),
            options: Options { simulated: true, console, ..Options::default() },
            output,
            arena: arena.create().expect("16 MiB"),
            devices: Vec::new(),
            router: None,
        }
    }

    /// Adds classes; they stand for those of the same name.
    pub fn with(mut self, classes: &[&'static Class]) -> Run {
        let others = |class: &&Class| classes.iter().all(|more| more.name != class.name);
        let library = self.library.iter().filter(others).chain(classes.iter().copied());
        self.library = Library::new(library.collect::<Vec<_>>());
        self
    }

    /// Lets elements find for themselves where packets and their headers are.
    pub fn without_surveys(mut self) -> Run {
        self.options.surveys = false;
        self
    }

    /// Sets the packets per frame: 1 gives Click's order of events.
    pub fn frame_limit(mut self, frame_limit: usize) -> Run {
        self.options.frame_limit = frame_limit;
        self
    }

    /// Runs on several workers, in real time.
    pub fn workers(mut self, workers: usize) -> Run {
        self.options.workers = workers;
        self.options.simulated = false;
        self
    }

    /// Gives every connection every right (`--insecure-control`).
    pub fn insecure_control(mut self) -> Run {
        self.options.insecure_control = true;
        self
    }

    /// Lets connections that may write replace the configuration.
    pub fn grants_replace(mut self) -> Run {
        self.options.grants_replace = true;
        self
    }

    /// Runs in real time.
    pub fn real_time(mut self) -> Run {
        self.options.simulated = false;
        self
    }

    /// Adds a name for a port, `NAME=PORT`.
    pub fn device(mut self, device: &str) -> Run {
        self.devices.push(linerate_port::parse_device(device).expect("NAME=PORT"));
        self
    }

    fn build(&self) -> Result<Router, String> {
        let library = &self.library;
        let mut loader = |_: &str, _: &str| Err(None);
        let loaded = load("config", &self.text, library, &Globals::default(), &mut loader);
        let Some(plan) = loaded.plan else { return Err(loaded.found.click()) };
        let ports = linerate_port::Context {
            devices: self.devices.iter().cloned().collect(),
            ..linerate_port::Context::new(self.arena.clone())
        };
        Router::new(plan, library, ports, &self.options).map_err(|error| match error {
            BuildError::Configuration(found) => found.click(),
            error => error.to_string(),
        })
    }

    /// Errors of a configuration, in Click's words.
    pub fn errors(text: &str) -> String {
        Run::new(text).refused()
    }

    /// Errors of this configuration, in Click's words; none when it can be run.
    pub fn refused(&self) -> String {
        self.build().err().unwrap_or_default()
    }

    fn router(&mut self) -> &mut Router {
        if self.router.is_none() {
            self.router = Some(self.build().unwrap_or_else(|errors| panic!("{errors}")));
        }
        self.router.as_mut().expect("just made")
    }

    /// The handle on it, for other threads.
    pub fn control(&mut self) -> linerate_graph::Control {
        self.router().control()
    }

    /// The context that its elements share.
    pub fn world(&mut self) -> Arc<linerate_graph::BuildContext> {
        Arc::clone(self.router().first().world())
    }

    /// Runs until something asks for the end.
    pub fn run(&mut self) {
        self.router().run();
    }

    /// Reads a handler, `element.handler`.
    pub fn read(&mut self, handler: &str) -> String {
        self.read_with(handler, "")
    }

    /// Reads a handler, `element.handler`, with a parameter.
    pub fn read_with(&mut self, handler: &str, parameter: &str) -> String {
        let result = self.router().read(handler, parameter);
        result.unwrap_or_else(|error| panic!("{handler}: {error}"))
    }

    /// Writes a handler, `element.handler`.
    pub fn write(&mut self, handler: &str, value: &str) -> HandlerResult {
        self.router().write(handler, value)
    }

    /// Output of elements so far.
    pub fn output(&self) -> String {
        String::from_utf8_lossy(&self.output.lock().unwrap()).into_owned()
    }
}

impl Run {
    /// Ends it: what elements say then is in the output. No buffer may be lost, and no packet
    /// dropped for a reason that the element's class does not declare.
    pub fn close(&mut self) {
        if let Some(mut router) = self.router.take() {
            router.close();
            let (plan, usage) = router.control().usage();
            drop(router);
            if !std::thread::panicking() {
                let workers = usage.iter();
                let elements = workers.flat_map(|usage| plan.elements.iter().zip(&usage.elements));
                for (at, usage) in elements {
                    let (name, class) = (&at.name, at.class.name);
                    assert_eq!(usage.undeclared, 0, "{name} :: {class}: undeclared drop reason");
                }
                assert_eq!(self.arena.accounting().held, 0, "buffers leaked by {}", self.text);
            }
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.close();
    }
}

/// The library and what tests need besides.
pub fn library() -> Library {
    Library::new(linerate_elements::library().iter().chain([
        &COLLECT,
        &DESTINATION,
        &MARK_NETWORK,
        &PACKETS,
    ]))
}

/// When simulated time begins.
const START: u64 = 1_000_000_000_000_000_000;

const COLLECT: Class = Class {
    name: "Collect",
    ports: "1/0",
    handlers: &[
        Handler::read("packets", "bytes, a line per packet"),
        Handler::read("lengths", "lengths, a line per packet"),
        Handler::read("times", "nanoseconds since the start, a line per packet"),
    ],
    make: |_| Box::new(Collect::default()),
    ..Class::here()
};

/// Bytes and times of packets.
#[derive(Default)]
struct Collect(Vec<Vec<u8>>, Vec<u64>);

impl Element for Collect {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        self.0.extend(cx.pool.arena().packets(frame).map(<[u8]>::to_vec));
        self.1.resize(self.0.len(), cx.steady());
        cx.discard(frame);
    }

    fn run(&mut self, cx: &mut Context, frame: &mut Frame) -> Next {
        match cx.pull(0, cx.frame_limit(), frame) {
            0 => cx.nothing_pulled(),
            _ => {
                self.push(cx, 0, frame);
                Next::Again
            }
        }
    }

    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        cx.schedule();
        Ok(())
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        let hex = |bytes: &Vec<u8>| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        let lines: Vec<String> = match handler {
            "times" => self.1.iter().map(|at| (at - START).to_string()).collect(),
            "packets" => self.0.iter().map(hex).collect(),
            _ => self.0.iter().map(|bytes| bytes.len().to_string()).collect(),
        };
        Ok(lines.join("\n"))
    }
}

const DESTINATION: Class = Class {
    name: "Destination",
    ports: "1/1",
    args: &[Arg::required("ADDRESS", "IPv4 address", "the destination annotation")],
    annotates: true,
    make: |make| {
        let address: Option<std::net::Ipv4Addr> = make.get("ADDRESS");
        Box::new(Destination(address.map(|address| address.octets()).unwrap_or_default()))
    },
    ..Class::here()
};

struct Destination([u8; 4]);

impl Element for Destination {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let arena = cx.pool.arena();
        for meta in frame.slots_mut().iter_mut().filter_map(|slot| arena.meta_mut(slot)) {
            meta.destination[..4].copy_from_slice(&self.0);
        }
    }
}

const MARK_NETWORK: Class = Class {
    name: "MarkNetwork",
    ports: "1/1",
    args: &[Arg::required("OFFSET", "bytes", "where the network header is")],
    annotates: true,
    make: |make| Box::new(MarkNetwork(make.need::<u16>("OFFSET").into())),
    ..Class::here()
};

struct MarkNetwork(usize);

impl Element for MarkNetwork {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let arena = cx.pool.arena();
        for mut packet in frame.slots_mut().iter_mut().filter_map(|slot| arena.writable(slot)) {
            packet.mark_network(self.0);
        }
    }
}

const PACKETS: Class = Class {
    name: "Packets",
    ports: "0/1",
    processing: "h/h",
    args: &[Arg::required("PACKETS", "hex", "")],
    make: |make| {
        let Text(text) = make.need("PACKETS");
        let packets = text.split_whitespace().rev().map(|word| {
            let word = word.trim_matches('-');
            let byte = |at: usize| u8::from_str_radix(&word[at..at + 2], 16).expect("hex digits");
            (0..word.len()).step_by(2).map(byte).collect()
        });
        Box::new(Packets(packets.collect()))
    },
    ..Class::here()
};

/// Packets still to send, the next one last.
struct Packets(Vec<Vec<u8>>);

impl Element for Packets {
    fn run(&mut self, cx: &mut Context, frame: &mut Frame) -> Next {
        while frame.room() > 0
            && let Some(bytes) = self.0.pop()
        {
            assert_eq!(cx.pool.take(frame, 1, bytes.len()), 1);
            let slot = frame.slots_mut().last_mut().expect("just taken");
            cx.pool.arena().packet_mut(slot).expect("not shared").copy_from_slice(&bytes);
        }
        cx.begin_packets(frame);
        if self.0.is_empty() {
            cx.driver.stop();
            return Next::Sleep;
        }
        Next::Again
    }

    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        cx.schedule();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use linerate_graph::DropReason;

    use super::*;

    /// declared
    #[derive(Clone, Copy, DropReason)]
    struct Declared;

    /// not declared
    #[derive(Clone, Copy, DropReason)]
    struct Other;

    const STRAY: Class = Class {
        name: "Stray",
        ports: "1/1",
        drops: Declared::REASONS,
        make: |_| Box::new(Stray),
        ..Class::here()
    };

    struct Stray;

    impl Element for Stray {
        fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
            cx.drop_frame(frame, Other);
        }
    }

    #[test]
    #[should_panic(expected = "s :: Stray: undeclared drop reason")]
    fn a_drop_for_an_undeclared_reason_fails_the_test() {
        let mut run = Run::new("Packets(00 01) -> s :: Stray -> Collect").with(&[&STRAY]);
        run.run();
        assert_eq!(run.read("s.drops"), "0\tdeclared\n2\tundeclared reason\n");
        run.close();
    }
}
