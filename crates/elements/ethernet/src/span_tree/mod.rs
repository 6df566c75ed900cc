//! `EtherSpanTree`: spanning tree of a switch's ports.
//!
//! IEEE 802.1D as far as Click has it: configuration messages are sent, kept
//! and compared, and ports are opened over listening and learning. A
//! notification of a topology change is sent, but does nothing where it
//! arrives; Click takes one for the message of a root.

use linerate_graph::{
    Arg, Class, Context, DropReason, Element, ElementBuilder, ElementRef, Handler, HandlerRef,
    HandlerResult, Next, NoBuffer,
};
use linerate_memory::Frame;
use linerate_packet::MacAddr;

use super::FAMILY;

mod message;

use message::{Message, Received};

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    /// no bridge message
    Short,
    #[from(NoBuffer)]
    NoBuffer,
}

pub(super) const CLASS: Class = Class {
    name: "EtherSpanTree",
    family: FAMILY,
    summary: "keeps the ports of an Ethernet switch in a spanning tree (802.1D)",
    description: "Gets the bridges' messages that arrive at each port of a switch (frames to \
        01-80-C2-00-00-00, `Classifier(14/4242)`), sends its own by the port's output every two \
        seconds, and shuts ports by the Suppressors in front of the switch and behind it. A port \
        that is opened learns for 15 seconds, after as many of listening. The priority is 0xDEAD, so \
        that other bridges become the root.",
    ports: "-/=",
    processing: "h/h",
    args: &[
        Arg::required("ADDR", "Ethernet address", "address of the switch"),
        Arg::required("INPUT_SUPPRESSOR", "Suppressor", "the one in front of the switch"),
        Arg::required("OUTPUT_SUPPRESSOR", "Suppressor", "the one behind it"),
        Arg::required("SWITCH", "EtherSwitch", "the switch"),
    ],
    handlers: &[Handler::read("msgs", "the best message of each port, and the one it acts by")],
    drops: Reason::REASONS,
    cost: "Packets are messages of bridges, a few per second.",
    example: "t :: EtherSpanTree(1:1:1:1:1:1, a, b, s); s :: EtherSwitch; a, b :: Suppressor;\n\
        Idle -> c :: Classifier(14/4242, -) -> t -> Discard; c [1] -> a -> s -> b -> Discard;\n\
        Idle -> d :: Classifier(14/4242, -) -> [1] t [1] -> Discard; \
        d [1] -> [1] a [1] -> [1] s [1] -> [1] b [1] -> Discard;",
    make: |make| Box::new(SpanTree::new(make)),
    ..Class::here()
};

const HELLO: u32 = 0;
const SECOND: u64 = 1_000_000_000;
/// A high one, so that it is unlikely to become the root.
const PRIORITY: u64 = 0xdead;

/// State of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Block,
    Listen,
    Learn,
    Forward,
}

impl State {
    fn next(self) -> State {
        match self {
            State::Block => State::Listen,
            State::Listen => State::Learn,
            State::Learn | State::Forward => State::Forward,
        }
    }
}

struct Port {
    state: State,
    /// When it came to that.
    since: u64,
    /// The best message heard there.
    message: Message,
}

struct SpanTree {
    address: [u8; 6],
    id: u64,
    /// In front of the switch and behind it.
    suppressors: [usize; 2],
    ports: Vec<Port>,
    best: Message,
    /// Whether the topology has changed and no bridge has acknowledged that.
    changed: bool,
}

impl SpanTree {
    fn new(make: &mut ElementBuilder<'_>) -> SpanTree {
        let address: MacAddr = make.need("ADDR");
        let suppressors = ["INPUT_SUPPRESSOR", "OUTPUT_SUPPRESSOR"].map(|name| {
            let found = make.element_of(name, "Suppressor", |class| class.name == "Suppressor");
            found.map_or(usize::MAX, |ElementRef(at)| at)
        });
        make.element_of("SWITCH", "EtherSwitch", |class| {
            class.name == "EtherSwitch" || class.name == "ListenEtherSwitch"
        });
        // The address is in the lower bytes as it is in memory.
        let [a, b, c, d, e, f] = address.0;
        let id = PRIORITY << 48 | u64::from_le_bytes([a, b, c, d, e, f, 0, 0]);
        let port = |_| Port { state: State::Block, since: 0, message: Message::NONE };
        SpanTree {
            address: address.0,
            id,
            suppressors,
            ports: (0..make.outputs()).map(port).collect(),
            best: Message::of_root(id),
            changed: true,
        }
    }

    /// Opens a port by a step, or shuts it.
    fn set(&mut self, cx: &mut Context, at: usize, open: bool) {
        let now = cx.now();
        let port = &mut self.ports[at];
        let before = port.state;
        let state = if open { before.next() } else { State::Block };
        if state == before {
            return;
        }
        let change = match (before, state) {
            (State::Block, _) => Some("BLOCK -> FORWARD"),
            (_, State::Block) => Some("FORWARD -> BLOCK"),
            _ => None,
        };
        (port.state, port.since) = (state, now);
        if let Some(change) = change {
            self.changed = true;
            cx.console().report(&format!("Setting send_tc_msg: {change} on {at}\n"));
        }
        let (from, to) = (before as u8, state as u8);
        cx.console().report(&format!("Changing port {at} from {from} to {to}\n"));
        let passes = match state {
            State::Block | State::Listen => [false, false],
            State::Learn => [true, false],
            State::Forward => [true, true],
        };
        for (suppressor, passes) in self.suppressors.into_iter().zip(passes) {
            let handler = HandlerRef { element: Some(suppressor), handler: format!("active{at}") };
            if let Err(error) = cx.write_handler(&handler, &passes.to_string()) {
                cx.console().report(&format!("{}: {error}\n", cx.name()));
            }
        }
    }

    fn open_all(&mut self, cx: &mut Context) {
        (0..self.ports.len()).for_each(|at| self.set(cx, at, true));
    }

    /// Opens ports that have waited, and forgets old messages.
    fn age(&mut self, cx: &mut Context) {
        let now = cx.now();
        let before = |seconds: u32| now.saturating_sub(u64::from(seconds) * SECOND);
        let (waited, old) = (before(self.best.forward_delay), before(self.best.max_age));
        for at in 0..self.ports.len() {
            let Port { state, since, .. } = self.ports[at];
            if matches!(state, State::Listen | State::Learn) && since < waited {
                self.set(cx, at, true);
            }
        }
        for (at, port) in self.ports.iter_mut().enumerate() {
            if port.message.expire(old) {
                cx.console().report(&format!("Expiring message on port {at}\n"));
            }
        }
    }

    /// Finds the best message, and with it the ports that are in the tree: the
    /// one it came from, and those where this bridge's own is the best.
    fn find_tree(&mut self, cx: &mut Context) {
        self.best = Message::of_root(self.id);
        let mut root_port = None;
        for (at, port) in self.ports.iter().enumerate() {
            let Message { cost, .. } = port.message;
            let over = Message { cost: cost.wrapping_add(1), ..port.message };
            if over.rank() < self.best.rank() {
                (self.best, root_port) = (over, Some(at));
            }
        }
        for at in 0..self.ports.len() {
            let own = (self.best.root, self.best.cost, self.id, at as u16);
            let is_in = root_port == Some(at) || own <= self.ports[at].message.rank();
            if !is_in || self.ports[at].state == State::Block {
                self.set(cx, at, is_in);
            }
        }
    }

    /// Returns the message to send by a port.
    fn hello(&self, now: u64, at: usize) -> Option<[u8; message::SIZE]> {
        let heard = self.ports[at].message.rank();
        if self.best.rank() < heard {
            let own = Message { bridge: self.id, port: at as u16, ..self.best };
            return Some(own.write(now, self.address));
        }
        let same = self.best.rank() == heard;
        (same && self.changed).then(|| message::topology_change(self.address))
    }
}

impl Element for SpanTree {
    fn push(&mut self, cx: &mut Context, port: usize, frame: &mut Frame) {
        let now = cx.now();
        for at in 0..frame.len() {
            let bytes = cx.pool.arena().packet(&frame.slots()[at]);
            let Some(Received { message, acknowledges }) = Message::read(bytes, now) else {
                cx.count_drops(Reason::Short, 1);
                continue;
            };
            // One that says the same again is younger.
            if message.rank() <= self.ports[port].message.rank() {
                self.ports[port].message = message;
                self.changed &= !acknowledges;
            }
            self.find_tree(cx);
        }
        cx.discard(frame);
    }

    fn timer(&mut self, cx: &mut Context, _: u32, _: &mut Frame) {
        self.age(cx);
        self.find_tree(cx);
        let now = cx.now();
        for at in 0..self.ports.len() {
            let Some(bytes) = self.hello(now, at) else { continue };
            let Some(mut slot) = cx.pool.take_one(bytes.len()) else {
                cx.count_drops(Reason::NoBuffer, 1);
                continue;
            };
            let arena = cx.pool.arena();
            if let Some(meta) = arena.meta_mut(&mut slot) {
                meta.reset();
            }
            if let Some(place) = arena.packet_mut(&mut slot) {
                place.copy_from_slice(&bytes);
            }
            cx.out.emit(at, slot);
        }
        let wait = u64::from(self.best.hello_time) * SECOND;
        cx.set_timer(HELLO, cx.steady() + wait.max(SECOND / 1000));
    }

    fn run(&mut self, cx: &mut Context, _: &mut Frame) -> Next {
        self.open_all(cx);
        Next::Sleep
    }

    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        // Suppressors on other workers answer once these run.
        match cx.world().workers {
            1 => self.open_all(cx),
            _ => cx.schedule(),
        }
        let wait = u64::from(self.best.hello_time) * SECOND;
        cx.set_timer(HELLO, cx.steady() + wait);
        Ok(())
    }

    fn read(&mut self, _: &mut Context, _: &str, _: &str) -> HandlerResult {
        let ports = self.ports.iter().map(|port| port.message.text());
        Ok(ports.chain([self.best.text()]).collect())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    /// Two bridges with two links between them: one is the root, and the other
    /// shuts one of its ports.
    const TWO: &str = "
        a :: EtherSpanTree(0:0:0:0:0:1, ai, ao, as); b :: EtherSpanTree(0:0:0:0:0:2, bi, bo, bs);
        ai, ao, bi, bo :: Suppressor; as, bs :: EtherSwitch;
        Idle -> ai -> as -> ao -> Discard; Idle -> [1] ai [1] -> [1] as [1] -> [1] ao [1] -> Discard;
        Idle -> bi -> bs -> bo -> Discard; Idle -> [1] bi [1] -> [1] bs [1] -> [1] bo [1] -> Discard;
        a -> c :: Counter -> b; a [1] -> [1] b;
        b -> d :: Counter -> a; b [1] -> [1] a;";

    #[test]
    fn of_two_links_one_is_shut() {
        for frame_limit in [1, 7, 256] {
            let mut run =
                Run::new(&format!("{TWO} DriverManager(wait 40s, stop);")).frame_limit(frame_limit);
            assert_eq!(run.read("bo.active0"), "false");
            run.run();
            let open = |run: &mut Run, name: &str| {
                [0, 1].map(|port| run.read(&format!("{name}.active{port}")) == "true")
            };
            assert_eq!((open(&mut run, "ai"), open(&mut run, "ao")), ([true; 2], [true; 2]));
            let shut = [open(&mut run, "bi"), open(&mut run, "bo")];
            assert_eq!(shut, [[true, false]; 2]);
            assert_eq!((run.read("c.count"), run.read("d.count")), ("19".into(), "0".into()));
        }
    }

    #[test]
    fn a_link_that_falls_silent_is_replaced() {
        let text =
            TWO.replace("a -> c :: Counter -> b;", "a -> c :: Switch -> b; c [1] -> Discard;");
        let mut run = Run::new(&format!(
            "{text} Script(wait 40s, write c.switch 1, wait 80s, print bo.active0, print bo.active1, stop);"
        ));
        run.run();
        let output = run.output();
        assert!(output.contains("Expiring message on port 0\n"), "{output}");
        assert!(output.ends_with("true\ntrue\n"), "{output}");
    }
}
