//! Tables of routes are written from another thread while a worker forwards:
//! no packet is lost, and none goes where neither the old nor the new routes
//! lead.

mod common;

use std::{
    fmt::Write as _,
    thread,
    time::{Duration, Instant},
};

use common::load_text;
use linerate_graph::{
    Class, Context, Control, Element, Handler, HandlerResult, Library, Next, Options, Router,
};
use linerate_memory::{ArenaOptions, Frame};

/// Prefixes packets go to, of 8 to 30 bits.
const PREFIXES: u64 = 512;
/// Routes beside them, which no packet takes.
const OTHERS: u32 = 50_000;

/// The address packets of a prefix have, and the prefix.
fn place(number: u64) -> (u32, u32) {
    let length = 9 + (number % 22) as u32;
    // The first nine bits are the prefix's own, below 128.
    let address = (number as u32 % 256) << 23 | ((number / 256) as u32) << 1;
    (address | 1, length)
}

/// Makes packets, one destination after the other, with a sequence number each.
const SOURCE: Class = Class {
    name: "Sequence",
    ports: "0/1",
    processing: "h/h",
    annotates: true,
    handlers: &[Handler::read("made", "packets")],
    make: |_| Box::new(Source(0)),
    ..Class::here()
};

struct Source(u64);

impl Element for Source {
    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        cx.schedule();
        Ok(())
    }

    fn run(&mut self, cx: &mut Context, frame: &mut Frame) -> Next {
        let limit = cx.frame_limit();
        cx.pool.take(frame, limit, 60);
        cx.begin_packets(frame);
        let arena = cx.pool.arena();
        for slot in frame.slots_mut() {
            let to = place(self.0 % PREFIXES).0.to_be_bytes();
            arena.packet_mut(slot).unwrap()[..8].copy_from_slice(&self.0.to_be_bytes());
            arena.meta_mut(slot).unwrap().destination[..4].copy_from_slice(&to);
            self.0 += 1;
        }
        Next::Again
    }

    fn read(&mut self, _: &mut Context, _: &str, _: &str) -> HandlerResult {
        Ok(self.0.to_string())
    }
}

/// Checks that packets arrive at the input their prefix has or had, all and each
/// once.
const SINK: Class = Class {
    name: "Arrive",
    ports: "-/0",
    processing: "h/h",
    handlers: &[
        Handler::read("seen", "packets"),
        Handler::read("wrong", "packets that took a wrong output"),
        Handler::read("missing", "packets between the first and the last that did not come"),
    ],
    make: |_| Box::new(Sink::default()),
    ..Class::here()
};

#[derive(Default)]
struct Sink {
    seen: u64,
    wrong: u64,
    sum: u64,
    last: u64,
}

impl Element for Sink {
    fn push(&mut self, cx: &mut Context, port: usize, frame: &mut Frame) {
        for bytes in cx.pool.arena().packets(frame) {
            let number = u64::from_be_bytes(*bytes.first_chunk().unwrap());
            // Outputs 0 and 2 are those of even prefixes.
            self.wrong += u64::from(port as u64 % 2 != number % PREFIXES % 2 || port > 3);
            self.seen += 1;
            self.sum = self.sum.wrapping_add(number);
            self.last = self.last.max(number);
        }
        cx.discard(frame);
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        // All numbers from 0 to the last have this sum.
        let whole = self.last.wrapping_mul(self.last + 1) / 2;
        Ok(match handler {
            "seen" => self.seen,
            "wrong" => self.wrong,
            _ => (self.last + 1 - self.seen) + u64::from(self.sum != whole),
        }
        .to_string())
    }
}

struct StopAtEnd(Control);

impl Drop for StopAtEnd {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// All routes, where `turn` selects which of its two outputs a prefix has.
fn routes(turn: u32) -> String {
    let mut text = String::from("0/0 4\n");
    for number in 0..PREFIXES {
        let (address, length) = place(number);
        let output = number % 2 + 2 * u64::from(turn % 2);
        let _ = writeln!(text, "{}/{length} {output}", std::net::Ipv4Addr::from(address));
    }
    for number in 0..OTHERS {
        let address = std::net::Ipv4Addr::from(0xc000_0000 | number.wrapping_mul(turn | 1) << 6);
        let _ = writeln!(text, "{address}/26 1.2.3.{} 4", number % 200);
    }
    text
}

/// Changes one route: the other of the two outputs, a longer route for the same
/// packets which goes again, or routes that cover half of all addresses.
fn update(control: &Control, at: u64) {
    let number = at * 7 % PREFIXES;
    let (address, length) = place(number);
    let address = std::net::Ipv4Addr::from(address);
    let (output, other) = (number % 2, number % 2 + 2);
    let value = match at % 5 {
        0 => format!("set {address}/{length} {other}"),
        1 => format!("set {address}/{length} {output}"),
        2 => format!("remove {address}/{length}\nadd {address}/{length} {other}"),
        3 => format!("set {address}/32 {output}\nset 0/0 {}", at % 3 + 4),
        _ if at % 50 == 4 => format!("set 128/1 {}\nset 192/2 {0}", at % 3 + 4),
        _ => format!("set {address}/32 {other}\nremove {address}/32"),
    };
    control.write("r.ctrl", &value).unwrap();
}

/// Forwards while `write` has its way with the table; packets forwarded.
fn forward(workers: usize, write: impl FnOnce(&Control) + Send) -> u64 {
    let library = linerate_elements::library();
    let library = Library::new(library.iter().chain([&SOURCE, &SINK]));
    let text = "s :: Sequence -> r :: RadixIPLookup; a :: Arrive;
        r [0] -> a; r [1] -> [1] a; r [2] -> [2] a; r [3] -> [3] a;
        r [4] -> [4] a; r [5] -> [4] a; r [6] -> [4] a;";
    let plan = load_text(text, &library).unwrap_or_else(|errors| panic!("{errors}"));
    let arena =
        ArenaOptions { size: 16 << 20, huge: false, ..Default::default() }.create().unwrap();
    let ports = linerate_port::Context::new(arena);
    let options = Options { workers, ..Options::default() };
    let mut router = Router::new(plan, &library, ports, &options).unwrap();
    router.write("r.reload", &routes(0)).unwrap();
    let control = router.control();
    thread::scope(|scope| {
        scope.spawn(move || {
            let _stop = StopAtEnd(control.clone());
            write(&control);
        });
        router.run();
    });
    assert_eq!(router.read("r.drops", "").unwrap().lines().next(), Some("0\tno route"));
    let mut number = |name: &str| router.read(name, "").unwrap().parse::<u64>().unwrap();
    assert_eq!((number("a.wrong"), number("a.missing")), (0, 0));
    let (made, seen) = (number("s.made"), number("a.seen"));
    assert_eq!(made, seen);
    router.close();
    seen
}

#[test]
fn routes_change_a_thousand_times_a_second_while_packets_pass() {
    let seen = forward(1, |control| {
        let begun = Instant::now();
        for at in 0..2000 {
            update(control, at);
            let due = begun + Duration::from_millis(at);
            thread::sleep(due.saturating_duration_since(Instant::now()));
        }
    });
    assert!(seen > 10_000, "{seen}");
}

#[test]
fn whole_tables_are_replaced_while_packets_pass() {
    let seen = forward(1, |control| {
        for turn in 1..8 {
            control.write("r.reload", &routes(turn)).unwrap();
            (0..50).for_each(|at| update(control, at));
        }
        control.write("r.reload", &(routes(1) + "1.2.3.4/33 0")).unwrap_err();
    });
    assert!(seen > 10_000, "{seen}");
}
