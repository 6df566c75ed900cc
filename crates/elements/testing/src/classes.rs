//! Elements for tests.

use std::time::Duration;

use linerate_graph::{
    Arg, Class, Context, Element, ElementBuilder, Handler, HandlerResult, Next, Text,
};
use linerate_memory::Frame;

/// All of them.
pub(crate) const OWN: &[&Class] = &[&COLLECT, &DESTINATION, &MARK_NETWORK, &PACKETS];

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
    args: &[
        Arg::required("PACKETS", "hex", "the packets"),
        Arg::keyword("INTERVAL", "time", "0", "time before each of them"),
        Arg::keyword("STOP", "bool", "true", "whether the last ends the run"),
    ],
    make: |make| Box::new(Packets::new(make)),
    ..Class::here()
};

/// The timer of [`Packets`].
const TIMER: u32 = 0;

struct Packets {
    /// Packets still to send, the next one last.
    left: Vec<Vec<u8>>,
    /// Nanoseconds before each, zero where they go together.
    interval: u64,
    /// Time of the next.
    due: u64,
    stop: bool,
}

impl Packets {
    fn new(make: &mut ElementBuilder<'_>) -> Packets {
        let Text(text) = make.need("PACKETS");
        let packets = text.split_whitespace().rev().map(|word| {
            let word = word.trim_matches('-');
            let byte = |at: usize| u8::from_str_radix(&word[at..at + 2], 16).expect("hex digits");
            (0..word.len()).step_by(2).map(byte).collect()
        });
        let interval = make.or("INTERVAL", Duration::ZERO).as_nanos();
        Packets {
            left: packets.collect(),
            interval: u64::try_from(interval).expect("a short time"),
            due: 0,
            stop: make.or("STOP", true),
        }
    }

    /// Puts the next packet into the frame. Returns false when there is none.
    fn next(&mut self, cx: &mut Context, frame: &mut Frame) -> bool {
        let Some(bytes) = self.left.pop() else { return false };
        assert_eq!(cx.pool.take(frame, 1, bytes.len()), 1);
        let slot = frame.slots_mut().last_mut().expect("just taken");
        cx.pool.arena().packet_mut(slot).expect("not shared").copy_from_slice(&bytes);
        true
    }

    /// Ends the run after the last packet. Returns true if that is out.
    fn end(&self, cx: &mut Context) -> bool {
        let is_over = self.left.is_empty();
        if is_over && self.stop {
            cx.driver.stop();
        }
        is_over
    }
}

impl Element for Packets {
    fn run(&mut self, cx: &mut Context, frame: &mut Frame) -> Next {
        while self.interval == 0 && frame.room() > 0 && self.next(cx, frame) {}
        cx.begin_packets(frame);
        if self.interval != 0 || self.end(cx) { Next::Sleep } else { Next::Again }
    }

    fn timer(&mut self, cx: &mut Context, _: u32, frame: &mut Frame) {
        self.next(cx, frame);
        cx.begin_packets(frame);
        if !self.end(cx) {
            self.due += self.interval;
            cx.set_timer(TIMER, self.due);
        }
    }

    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        if self.interval == 0 {
            cx.schedule();
        } else {
            self.due = cx.steady() + self.interval;
            cx.set_timer(TIMER, self.due);
        }
        Ok(())
    }
}
