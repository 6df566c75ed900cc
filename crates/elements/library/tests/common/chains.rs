//! Chains of ways that part and meet again, with elements on them that make packets, and their
//! output.

use std::fmt::Write;

use linerate_elements::library;
use linerate_graph::{
    Class, Console, Context, DropReason, Element, Handler, HandlerResult, Library, NoBuffer,
    Options, Router, lang::Globals, load,
};
use linerate_memory::{Arena, Frame};

/// Protocol of the packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Four,
    Six,
}

/// With one input and one output.
const FOUR: &[&str] = &[
    "Null",
    "Null -> Null -> Null",
    "ICMPError(9.0.0.1, unreachable, host)",
    "ICMPError(9.0.0.1, timeexceeded)",
    "ICMPPingResponder",
    "IPFragmenter(68)",
    "IPFragmenter(100)",
    "IPFragmenter(400)",
    "IPReassembler",
    "IPFragmenter(200) -> IPReassembler",
    "EnsureEther -> Strip(14)",
    "SetIPDSCP(3)",
];

const SIX: &[&str] = &[
    "Null",
    "Null -> Null -> Null",
    "ICMP6Error(2001:db8::9, 3, 0)",
    "IP6Fragmenter(120)",
    "IP6Fragmenter(400)",
    "EnsureEther(0x86dd) -> Strip(14)",
];

/// From `@i` to `@o`.
const ACROSS_FOUR: &[&str] = &[
    // Every neighbour answers.
    "@i :: Null -> @q :: ARPQuerier(2.9.9.9/8, 2:0:0:0:0:1) -> Strip(14) -> @o :: Null;
     @q [1] -> ARPResponder(2.0.0.0/8 2:0:0:0:0:2) -> [1] @q;",
    // None does, or some already have.
    "@i :: Null -> @q :: ARPQuerier(2.9.9.9/8, 2:0:0:0:0:1) -> @m :: Null -> Strip(14)
     -> @o :: Null; @q [1] -> @m; Idle -> [1] @q;",
    "@i :: RoundRobinSwitch -> @q :: ARPQuerier(2.9.9.9/8, 2:0:0:0:0:1) -> @m :: Null
     -> Strip(14) -> @o :: Null; @i [1] -> Reply -> [1] @q; @q [1] -> Null -> Null -> @m;",
    "@i :: IPFragmenter(100) -> @o :: Null; @i [1] -> ICMPError(9.0.0.1, 3, 4) -> @o;",
    "@i :: DecIPTTL -> @o :: Null; @i [1] -> ICMPError(9.0.0.1, 11) -> @o;",
    // Some packets are copied.
    "@i :: CheckLength(200) -> Paint(1) -> @t :: PaintTee(1) -> @o :: Null;
     @i [1] -> Paint(0) -> @t; @t [1] -> ICMPError(9.0.0.1, redirect, host) -> @o;",
    // Copies of copies, and fragments of both.
    "@i :: Paint(1) -> @t :: PaintTee(1) -> IPFragmenter(100) -> @m :: Null; @t [1] -> Null
     -> Null -> @m; @m -> @u :: PaintTee(1) -> Null -> @o :: Null; @u [1] -> @o;",
    // They come round.
    "@i :: Null -> Paint(1) -> @m :: Null -> @t :: PaintTee(1)
     -> @q :: ARPQuerier(2.9.9.9/8, 2:0:0:0:0:1) -> Strip(14) -> @o :: Null;
     @t [1] -> ICMPError(9.0.0.1, redirect, host) -> Paint(2) -> @m; @q [1] -> Null -> Discard;
     Idle -> [1] @q;",
];

const ACROSS_SIX: &[&str] = &[
    "@i :: Null -> @q :: IP6NDSolicitor(2001:db8::ffff, 2:0:0:0:0:1) -> Strip(14)
     -> @o :: Null;
     @q [1] -> IP6NDAdvertiser(2001:db8::/32 2:0:0:0:0:2) -> [1] @q;",
    "@i :: Null -> @q :: IP6NDSolicitor(2001:db8::ffff, 2:0:0:0:0:1) -> @m :: Null
     -> Strip(14) -> @o :: Null; @q [1] -> @m; Idle -> [1] @q;",
    "@i :: IP6Fragmenter(600) -> @o :: Null; @i [1] -> ICMP6Error(2001:db8::9, 2, 0) -> @o;",
    "@i :: DecIP6HLIM -> @o :: Null; @i [1] -> ICMP6Error(2001:db8::9, 3, 0) -> @o;",
];

const PARTING: &[(&str, usize)] = &[
    ("RoundRobinSwitch", 2),
    ("RoundRobinSwitch", 3),
    ("StrideSwitch(1, 2)", 2),
    ("CheckLength(200)", 2),
    ("HashSwitch(16, 4)", 2),
];

struct Drawing<'a> {
    protocol: Protocol,
    choose: &'a mut dyn FnMut(usize) -> usize,
    text: String,
    names: usize,
}

/// A random chain. `choose(n)` draws a number below `n`.
pub(crate) fn chain(protocol: Protocol, choose: &mut dyn FnMut(usize) -> usize) -> String {
    let mut drawing = Drawing { protocol, choose, text: String::new(), names: 0 };
    let limit = 1 + (drawing.choose)(400);
    let mut from = "v".to_owned();
    let _ = writeln!(drawing.text, "InfiniteSource(LIMIT {limit}) -> v :: Vary;");
    if (drawing.choose)(4) == 0 {
        drawing.text += "v -> t :: Tee; t [1] -> Queue(5000) -> Discard;\n";
        "t".clone_into(&mut from);
    }
    for _ in 0..1 + (drawing.choose)(3) {
        from = drawing.part(&from, 0);
    }
    let _ = writeln!(drawing.text, "{from} -> out :: Record;");
    drawing.text
}

impl Drawing<'_> {
    fn name(&mut self) -> String {
        self.names += 1;
        format!("e{}", self.names)
    }

    /// Ways that part behind an output and meet; returns the output behind.
    fn part(&mut self, from: &str, depth: usize) -> String {
        let (splitter, end) = (self.name(), self.name());
        let (class, outputs) = PARTING[(self.choose)(PARTING.len())];
        let _ = writeln!(self.text, "{from} -> {splitter} :: {class}; {end} :: Null;");
        for output in 0..outputs {
            let mut at = format!("{splitter} [{output}]");
            for _ in 0..(self.choose)(3) {
                at = match (self.choose)(6) {
                    0 if depth < 2 => self.part(&at, depth + 1),
                    1 | 2 => self.across(&at),
                    _ => self.along(&at),
                };
            }
            let _ = writeln!(self.text, "{at} -> {end};");
        }
        end
    }

    fn along(&mut self, from: &str) -> String {
        let list = if self.protocol == Protocol::Four { FOUR } else { SIX };
        let class = list[(self.choose)(list.len())];
        let end = self.name();
        let _ = writeln!(self.text, "{from} -> {class} -> {end} :: Null;");
        end
    }

    fn across(&mut self, from: &str) -> String {
        let list = if self.protocol == Protocol::Four { ACROSS_FOUR } else { ACROSS_SIX };
        let name = self.name();
        let text = list[(self.choose)(list.len())].replace('@', &name);
        let _ = writeln!(self.text, "{text}\n{from} -> {name}i;");
        format!("{name}o")
    }
}

/// Runs a configuration in simulated time; returns the packets of its `out`, in order.
///
/// # Panics
///
/// When it is not accepted, or a buffer is lost.
pub(crate) fn run(
    protocol: Protocol,
    text: &str,
    frame_limit: usize,
    arena: &Arena,
) -> Vec<String> {
    let vary = if protocol == Protocol::Four { &VARY_FOUR } else { &VARY_SIX };
    let library = Library::new(library().iter().chain([vary, &REPLY, &RECORD]));
    let text = &format!("{text}\nDriverManager(wait 10s, stop);");
    let mut loader = |_: &str, _: &str| Err(None);
    let loaded = load("config", text, &library, &Globals::default(), &mut loader);
    let plan = loaded.plan.unwrap_or_else(|| panic!("{}\n{text}", loaded.found.click()));
    let (console, _) = Console::buffered();
    let options = Options { simulated: true, frame_limit, console, ..Options::default() };
    let ports = linerate_port::Context::new(arena.clone());
    let mut router = Router::new(plan, &library, ports, &options)
        .unwrap_or_else(|error| panic!("{error:?}\n{text}"));
    router.run();
    let packets = router.read("out.packets", "").unwrap_or_else(|error| panic!("{error}"));
    router.close();
    drop(router);
    assert_eq!(arena.accounting().held, 0, "buffers leaked by {text}");
    packets.lines().map(str::to_owned).collect()
}

const VARY_FOUR: Class = Class {
    name: "Vary",
    ports: "1/1",
    make: |_| Box::new(Vary { protocol: Protocol::Four, number: 0 }),
    ..Class::here()
};

const VARY_SIX: Class =
    Class { make: |_| Box::new(Vary { protocol: Protocol::Six, number: 0 }), ..VARY_FOUR };

/// Makes packets that differ by their numbers, in their last bytes.
struct Vary {
    protocol: Protocol,
    number: u16,
}

impl Vary {
    fn packet(&self) -> Vec<u8> {
        let (number, [high, low]) = (usize::from(self.number), self.number.to_be_bytes());
        let header = if self.protocol == Protocol::Four { 20 } else { 40 };
        // Sizes that are soon seen again, and others.
        let words = [5, 30, 150, 40 + number % 90][number / 2 % 4];
        let length = header + 4 * words;
        let [long, short] = (length as u16).to_be_bytes();
        let neighbour = (number / 64 * 16 + number * number % 16) as u8;
        let mut bytes = vec![0; length];
        if self.protocol == Protocol::Four {
            let [flags, ttl] = [[0, 0x40][usize::from(number % 7 == 3)], [9, 1][number % 3 / 2]];
            bytes[..10].copy_from_slice(&[0x45, 0, long, short, high, low, flags, 0, ttl, 17]);
            bytes[12..20].copy_from_slice(&[1, 0, 0, low % 5 + 1, 2, 0, 0, neighbour]);
            let sum = linerate_packet::checksum::checksum(&bytes[..20]);
            bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        } else {
            let [long, short] = ((length - header) as u16).to_be_bytes();
            let hops = [9, 1][number % 3 / 2];
            bytes[..8].copy_from_slice(&[0x60, 0, 0, 0, long, short, 17, hops]);
            bytes[8..12].copy_from_slice(&[0x20, 1, 0xd, 0xb8]);
            bytes[24..28].copy_from_slice(&[0x20, 1, 0xd, 0xb8]);
            (bytes[22], bytes[23], bytes[39]) = (9, low % 5 + 1, neighbour);
        }
        for (place, word) in (0..).zip(bytes[header..].chunks_exact_mut(4)) {
            let [far, near] = u16::to_be_bytes(place);
            word.copy_from_slice(&[high, low, far, near]);
        }
        bytes
    }
}

impl Element for Vary {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let arena = cx.pool.arena();
        for slot in frame.slots_mut() {
            let packet = self.packet();
            self.number += 1;
            assert!(arena.resize(slot, packet.len()), "it fits");
            arena.packet_mut(slot).expect("not shared").copy_from_slice(&packet);
            let mut made = arena.writable(slot).expect("not shared");
            let transport = if matches!(self.protocol, Protocol::Four) { 20 } else { 40 };
            made.mark_headers(0, transport);
            let meta = made.meta_mut();
            match self.protocol {
                Protocol::Four => {
                    meta.destination[..4].copy_from_slice(&packet[16..20]);
                }
                Protocol::Six => {
                    meta.destination.copy_from_slice(&packet[24..40]);
                }
            }
        }
    }
}

/// Turns packets into replies of the neighbours that they were for.
const REPLY: Class = Class {
    name: "Reply",
    ports: "1/1",
    drops: NoBuffer::REASONS,
    make: |_| Box::new(Reply),
    ..Class::here()
};

struct Reply;

impl Element for Reply {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        cx.unshare::<NoBuffer>(frame);
        let arena = cx.pool.arena();
        for slot in frame.slots_mut() {
            let neighbour = arena.meta(slot).destination;
            assert!(arena.resize(slot, 42), "it fits");
            let bytes = arena.packet_mut(slot).expect("not shared");
            bytes.fill(0);
            bytes[5] = 1;
            bytes[11] = 2;
            bytes[12..22].copy_from_slice(&[8, 6, 0, 1, 8, 0, 6, 4, 0, 2]);
            bytes[22] = 2;
            bytes[27] = 2;
            bytes[28..32].copy_from_slice(&neighbour[..4]);
            bytes[38..42].copy_from_slice(&[2, 9, 9, 9]);
        }
    }
}

/// Keeps the identifying fields of packets.
const RECORD: Class = Class {
    name: "Record",
    ports: "1/0",
    handlers: &[Handler::read("packets", "length, protocol, last bytes of each")],
    make: |_| Box::new(Record::default()),
    ..Class::here()
};

#[derive(Default)]
struct Record(String);

impl Element for Record {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        for bytes in cx.pool.arena().packets(frame) {
            let end = bytes.last_chunk::<4>().expect("none is shorter");
            let _ = writeln!(self.0, "{} {:02x?} {end:02x?}", bytes.len(), &bytes[..1]);
        }
        cx.discard(frame);
    }

    fn read(&mut self, _: &mut Context, _: &str, _: &str) -> HandlerResult {
        Ok(self.0.trim_end().into())
    }
}
