//! Random graphs, and their output, for comparing frames of several packets with packets one at a
//! time.
//!
//! A graph is drawn from a list of choices, numbers below a bound, so that a property
//! test and a fuzzer can both make them. Packets carry the source they come from and
//! their number there; `Record` keeps those of all packets that come to it, in order.

use std::{
    fmt::Write,
    thread,
    time::{Duration, Instant},
};

use linerate_elements::library;
use linerate_graph::{
    Arg, Class, Console, Context, DropReason, Element, Handler, HandlerResult, Library, Merge,
    NoBuffer, Options, Plan, Processing, Router, lang::Globals, load,
};
use linerate_memory::{Arena, Frame};

/// Content of a packet: its source, the queues it has waited in, as a number, and its own number.
type Packet = ((u8, u32), u32);

/// Outcome of a run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// By `Record`: sources and numbers of packets, in the order they came.
    pub(crate) records: Vec<(String, Vec<Packet>)>,
    /// Handlers that count.
    pub(crate) counts: Vec<(String, String)>,
    /// Filling of each queue.
    pub(crate) queues: Vec<Held>,
    /// Printed lines.
    pub(crate) printed: String,
    /// Packets that were dropped.
    pub(crate) drops: u64,
}

/// Filling of a queue: its counts, and the tasks before it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    name: String,
    most: u64,
    capacity: u64,
    drops: u64,
    /// Tasks that fill it.
    fillers: u64,
    /// Whether one of them takes packets out of another queue, or does not look whether it is full.
    is_chance: bool,
    /// Whether one of several is a port: it has brought all it had when it is another one's turn.
    is_shared: bool,
    /// Queues that packets may have come through before, by their names.
    before: Vec<String>,
}

impl Held {
    /// Returns true if it was nearly full at some time: by three quarters, or but for a packet or
    /// less of each task that fills it.
    fn was_nearly_full(&self) -> bool {
        4 * self.most >= 3 * self.capacity || self.most + self.fillers > self.capacity
    }

    /// Returns true if frames may overflow it where packets one at a time did not.
    fn may_overflow(&self) -> bool {
        self.is_shared || self.is_chance && self.was_nearly_full()
    }
}

/// Workers of a graph that is on several.
pub(crate) const WORKERS: usize = 2;

/// Method of comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turns {
    /// Tasks have a limit of packets per turn.
    Said,
    /// They do not: one packet, and many turns at once where no one can notice.
    Open,
    /// Likewise, on several workers. No queue is too small.
    Apart,
    /// They do not, and packets come from ports and go to ports.
    Live,
}

/// A random graph as a configuration. `choose(n)` draws a number below `n`.
pub(crate) fn graph(turns: Turns, choose: &mut dyn FnMut(usize) -> usize) -> String {
    let mut drawing = Drawing {
        turns,
        choose,
        text: String::new(),
        names: 0,
        open: Vec::new(),
        tasks: Vec::new(),
    };
    drawing.draw();
    drawing.text
}

/// Into a ring and out of it again.
fn through_port(name: &str) -> String {
    let ring = format!("ring:{name}?loop&slots=8192");
    format!("-> ToPort({ring}); FromPort({ring}) ")
}

struct Drawing<'a> {
    turns: Turns,
    choose: &'a mut dyn FnMut(usize) -> usize,
    text: String,
    names: usize,
    /// Push outputs that lead nowhere yet.
    open: Vec<Output>,
    /// Elements that start something.
    tasks: Vec<String>,
}

/// A push output.
struct Output {
    name: String,
    /// Whether packets that leave by it may have waited in a queue.
    waited: bool,
}

const PASSING: &[&str] = &[
    "Null",
    "Counter",
    "Paint(1)",
    "Strip(2) -> Unstrip(2)",
    "Paint(2)",
    "Null -> Null -> Null",
    "Align(4, 0)",
    "Truncate(60)",
    "SetTimestamp",
    "Print(p, 12)",
];

/// Elements that choose the output by a packet's content, independent of earlier ones.
const SORTING: &[(&str, usize)] = &[
    ("Classifier(7/00%01, -)", 2),
    ("Classifier(7/00%03, 7/01%03, 7/02%03, -)", 4),
    ("Classifier(7/03%07, -)", 2),
    ("HashSwitch(7, 1)", 2),
    ("Tee", 2),
    ("Tee", 3),
    ("PaintTee(1)", 2),
    ("PaintSwitch", 3),
    ("Switch(1)", 2),
    ("CheckPaint(1)", 2),
];

/// Elements that choose the output by earlier packets.
const DEALING: &[(&str, usize)] = &[
    ("RoundRobinSwitch", 2),
    ("RoundRobinSwitch", 3),
    ("StrideSwitch(1, 2)", 2),
    ("RandomSwitch", 2),
    ("RandomSample(DROP 0.3)", 2),
    ("Meter(1000, 2000)", 3),
    ("RatedSplitter(1000)", 2),
];

/// Capacities of queues between ports. The last one is never too small.
const SMALL: &[i32] = &[1, 2, 8, 60, 5000];

const SCHEDULING: &[&str] = &["RoundRobinSched", "PrioSched", "StrideSched(1, 3)", "DRRSched"];

impl Drawing<'_> {
    fn one_of<T: Copy>(&mut self, list: &[T]) -> T {
        list[(self.choose)(list.len())]
    }

    fn splitter(&mut self) -> (&'static str, usize) {
        // The order between packets of several tasks is a matter of when these run.
        if self.turns == Turns::Said && (self.choose)(2) == 0 {
            self.one_of(DEALING)
        } else {
            self.one_of(SORTING)
        }
    }

    fn name(&mut self) -> String {
        self.names += 1;
        format!("e{}", self.names)
    }

    fn burst(&mut self, separator: &str) -> String {
        match self.turns {
            Turns::Said => {
                let burst = self.one_of(&[1, 2, 5, 16, 40, 100, 300]);
                format!("{separator}BURST {burst}")
            }
            Turns::Open | Turns::Apart | Turns::Live => String::new(),
        }
    }

    fn draw(&mut self) {
        let sources = 1 + (self.choose)(3);
        for source in 0..sources {
            let limit = 1 + (self.choose)(400);
            let burst = self.burst(", ");
            let name = self.name();
            let kind = (self.choose)(4);
            let class = match (self.turns, kind) {
                (Turns::Said, 0) => format!("TimedSource(10ms, LIMIT {limit})"),
                (Turns::Open | Turns::Live, 0) => {
                    format!("RatedSource(RATE 1000, LIMIT {limit})")
                }
                _ => format!("InfiniteSource(LIMIT {limit}{burst})"),
            };
            let port = match self.turns {
                Turns::Live => through_port(&name),
                _ => String::new(),
            };
            let _ = writeln!(self.text, "{name}t :: {class} {port}-> {name} :: Number({source});");
            self.tasks.push(format!("{name}t"));
            self.open.push(Output { name, waited: false });
        }
        for _ in 0..2 + (self.choose)(9) {
            self.step();
        }
        while let Some(Output { name: output, .. }) = self.open.pop() {
            let to = self.name();
            let end = if (self.choose)(3) == 0 { "" } else { " -> Discard" };
            let class = if end.is_empty() { "Record" } else { "Passing" };
            if self.turns == Turns::Live {
                let queue = match (self.choose)(3) {
                    0 => format!("-> Queue({}) ", self.one_of(SMALL)),
                    _ => String::new(),
                };
                let port = through_port(&to);
                let _ = writeln!(self.text, "{output} {queue}{port}-> {to} :: {class}{end};");
                continue;
            }
            let _ = match (self.choose)(4) {
                0 => {
                    let burst = self.burst("");
                    writeln!(
                        self.text,
                        "{output} -> {to}q :: Queue(5000) -> {to} :: Passing \
                            -> {to}t :: Discard({burst});"
                    )
                    .map(|()| self.tasks.push(format!("{to}t")))
                }
                _ => writeln!(self.text, "{output} -> {to} :: {class}{end};"),
            };
        }
        if self.turns == Turns::Apart {
            let tasks = std::mem::take(&mut self.tasks);
            let place = |task| format!("{task} {}", (self.choose)(WORKERS));
            let places: Vec<String> = tasks.iter().map(place).collect();
            let _ = writeln!(self.text, "StaticThreadSched({});", places.join(", "));
        }
        self.text.push_str("DriverManager(wait 100s, stop);\n");
    }

    /// Some outputs that are open, and whether packets of one of them may have waited.
    fn take(&mut self, most: usize) -> (Vec<String>, bool) {
        let count = 1 + (self.choose)(most.min(self.open.len()));
        let mut waited = false;
        let mut take = |_| {
            let at = (self.choose)(self.open.len());
            let output = self.open.swap_remove(at);
            waited |= output.waited;
            output.name
        };
        ((0..count).map(&mut take).collect(), waited)
    }

    fn connect(&mut self, outputs: &[String], to: &str) {
        for output in outputs {
            let _ = writeln!(self.text, "{output} -> {to};");
        }
    }

    fn step(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let name = self.name();
        match (self.choose)(12) {
            0..4 => {
                let (from, waited) = self.take(3);
                let class = self.one_of(PASSING);
                let _ = writeln!(self.text, "{name}i :: Null -> {class} -> {name} :: Null;");
                self.connect(&from, &format!("{name}i"));
                self.open.push(Output { name, waited });
            }
            4..8 => {
                let (from, waited) = self.take(2);
                let (class, outputs) = self.splitter();
                let _ = writeln!(self.text, "{name} :: {class};");
                self.connect(&from, &name);
                let named = |output| Output { name: format!("{name} [{output}]"), waited };
                self.open.extend((0..outputs).map(named));
            }
            8 => self.cycle(name),
            _ => self.queue(name),
        }
    }

    /// Some packets come round a second time.
    fn cycle(&mut self, name: String) {
        let (from, waited) = self.take(2);
        let (class, outputs) = self.splitter();
        let _ = writeln!(
            self.text,
            "{name}i :: Null -> {name}s :: CheckPaint(7); {name}s [1] -> {name}c :: {class};
             {name}b :: Null -> Paint(7) -> {name}i; {name}c [1] -> {name}b;"
        );
        self.connect(&from, &format!("{name}i"));
        self.open.push(Output { name: format!("{name}s [0]"), waited });
        let others = (0..outputs).filter(|output| *output != 1);
        let named = |output| Output { name: format!("{name}c [{output}]"), waited };
        self.open.extend(others.map(named));
    }

    /// Packets wait, and are pulled.
    fn queue(&mut self, name: String) {
        let (from, waited) = self.take(3);
        // The order in several queues filled by several workers is a matter of when these run.
        let several = self.turns != Turns::Apart && from.len() > 1 && (self.choose)(2) == 0;
        let capacities: &[i32] = match self.turns {
            Turns::Apart => &[5000],
            Turns::Live => SMALL,
            _ => &[1, 2, 5, 8, 30, 64, 250, 1000, 5000],
        };
        let mut capacity = || capacities[(self.choose)(capacities.len())];
        if several {
            let capacities: Vec<i32> = from.iter().map(|_| capacity()).collect();
            let scheduler = self.one_of(SCHEDULING);
            let scheduler = if scheduler.starts_with("Stride") && from.len() > 2 {
                "StrideSched(1, 3, 2)"
            } else {
                scheduler
            };
            let _ = writeln!(self.text, "{name}p :: {scheduler};");
            for (at, (output, capacity)) in from.iter().zip(capacities).enumerate() {
                // Packets that waited may meet others at another time, and with them those behind
                // them. Those from ports always may.
                let is_seen = waited && self.turns == Turns::Open || self.turns == Turns::Live;
                let via = format!("-> Via({}) ", self.names * 10 + at);
                let way = if is_seen { &via } else { "" };
                let _ = writeln!(
                    self.text,
                    "{output} -> {name}q{at} :: Queue({capacity}) {way}-> [{at}] {name}p;"
                );
            }
        } else {
            let capacity = capacity();
            let _ = writeln!(self.text, "{name}p :: Queue({capacity});");
            self.connect(&from, &format!("{name}p"));
        }
        let burst = self.burst("");
        let pulled = match (self.choose)(4) {
            0 => "-> Counter ",
            1 => "-> Passing ",
            _ => "",
        };
        let task = match (self.turns, (self.choose)(6)) {
            (Turns::Open, 0) => "RatedUnqueue(300)".to_owned(),
            (Turns::Open, 1) => "DelayUnqueue(10ms)".to_owned(),
            (Turns::Open, 2) => "LinkUnqueue(1ms, 1Mbps)".to_owned(),
            _ => format!("Unqueue({burst})"),
        };
        let via = self.names;
        let _ =
            writeln!(self.text, "{name}p {pulled}-> {name}t :: {task} -> {name} :: Via({via});");
        self.tasks.push(format!("{name}t"));
        self.open.push(Output { name, waited: true });
    }
}

/// Runs a configuration in simulated time.
///
/// # Panics
///
/// When it is not accepted, or a buffer is lost.
pub(crate) fn run(text: &str, frame_limit: usize, arena: &Arena) -> Outcome {
    let options = Options { simulated: true, threads: WORKERS, frame_limit, ..Options::default() };
    run_with(text, options, arena, Router::run)
}

/// Runs a configuration on several workers until as many packets have been recorded as
/// in another run, or too long.
#[allow(dead_code, reason = "the fuzzer has one worker")]
pub(crate) fn run_apart(text: &str, frame_limit: usize, arena: &Arena, other: &Outcome) -> Outcome {
    let options = Options { workers: WORKERS, threads: WORKERS, frame_limit, ..Options::default() };
    run_with(text, options, arena, |router| {
        let control = router.control();
        let deadline = Instant::now() + Duration::from_secs(20);
        let arrived = || {
            let has_all = |(name, packets): &(String, Vec<Packet>)| {
                let count = control.read(&format!("{name}.count"), "").ok();
                count.and_then(|count| count.parse().ok()) >= Some(packets.len())
            };
            other.records.iter().all(has_all)
        };
        thread::scope(|scope| {
            scope.spawn(|| {
                while !arrived() && Instant::now() < deadline {
                    thread::sleep(Duration::from_millis(1));
                }
                control.stop();
            });
            router.run();
        });
    })
}

fn run_with(text: &str, options: Options, arena: &Arena, go: impl FnOnce(&mut Router)) -> Outcome {
    let ours = [&NUMBER, &RECORD, &PASSING_RECORD, &VIA];
    let library = Library::new(library().iter().chain(ours));
    let mut loader = |_: &str, _: &str| Err(None);
    let loaded = load("config", text, &library, &Globals::default(), &mut loader);
    let plan = loaded.plan.unwrap_or_else(|| panic!("{}\n{text}", loaded.found.click()));
    let (console, printed) = Console::buffered();
    let options = Options { console, ..options };
    let ports = linerate_port::Context::new(arena.clone());
    let mut router = Router::new(plan, &library, ports, &options)
        .unwrap_or_else(|error| panic!("{error:?}\n{text}"));
    go(&mut router);
    let mut outcome = Outcome::default();
    let elements: Vec<(String, &'static Class)> =
        router.plan().elements.iter().map(|at| (at.name.clone(), at.class)).collect();
    let queues: Vec<Held> = (0..elements.len()).map(|at| held(router.plan(), at)).collect();
    for ((name, class), queue) in elements.into_iter().zip(queues) {
        let mut read = |handler: &str| router.read(&format!("{name}.{handler}"), "").unwrap();
        if class.name == "Record" || class.name == "Passing" {
            let packets = read("packets");
            let packet = |line: &str| {
                let mut words = line.split(' ').map(|word| word.parse::<u32>().unwrap());
                let mut word = || words.next().unwrap();
                ((word() as u8, word()), word())
            };
            // A worker without packets has an empty line.
            let lines = packets.lines().filter(|line| !line.is_empty());
            outcome.records.push((name.clone(), lines.map(packet).collect()));
        }
        if matches!(class.name, "Counter" | "Discard" | "Unqueue") {
            outcome.counts.push((name.clone(), read("count")));
        }
        if class.name == "Queue" {
            let drops = read("drops");
            outcome.drops += drops.parse::<u64>().unwrap();
            outcome.counts.push((name.clone(), format!("drops {drops}")));
            let length = read("length");
            outcome.counts.push((name.clone(), format!("length {length}")));
            let number = |text: String| text.parse::<u64>().unwrap();
            let (most, capacity) = (number(read("highwater_length")), number(read("capacity")));
            let drops = number(drops);
            outcome.queues.push(Held { name: name.clone(), most, capacity, drops, ..queue });
        }
    }
    router.close();
    drop(router);
    assert_eq!(arena.accounting().held, 0, "buffers leaked by {text}");
    let printed = printed.lock().unwrap();
    let lines = String::from_utf8_lossy(&printed);
    // The first overflow of a queue is printed once, at some moment.
    let lines = lines.lines().filter(|line| !line.contains("overflow"));
    outcome.printed = lines.fold(String::new(), |all, line| all + line + "\n");
    outcome
}

/// Returns the tasks that fill a queue, without its counts.
fn held(plan: &Plan, queue: usize) -> Held {
    let mut held = Held::default();
    let mut is_live = false;
    // By whether packets came from there without having waited.
    let (mut seen, mut open) = (vec![[false; 2]; plan.elements.len()], vec![(queue, true)]);
    while let Some((at, directly)) = open.pop() {
        let element = &plan.elements[at];
        for from in element.sources.iter().flatten().map(|source| source.element) {
            if std::mem::replace(&mut seen[from][usize::from(directly)], true) {
                continue;
            }
            let source = &plan.elements[from];
            if source.class.name == "Queue" && from != queue {
                held.before.push(source.name.clone());
            }
            let is_task = !source.inputs.contains(&Processing::Push)
                && source.outputs.contains(&Processing::Push);
            if directly && is_task {
                held.fillers += 1;
                is_live |= source.class.external_input;
                held.is_chance |=
                    !source.class.external_input && source.class.name != "InfiniteSource";
            }
            open.push((from, directly && !is_task));
        }
    }
    held.is_shared = is_live && held.fillers > 1;
    held
}

/// Returns a difference of a run with whole frames from one with single packets.
pub(crate) fn difference(single: &Outcome, frames: &Outcome, turns: Turns) -> Option<String> {
    match turns {
        Turns::Said => return first_difference(single, frames),
        // Which packets find a queue full is chance.
        Turns::Apart if single.drops > 0 => return None,
        Turns::Apart => return same_ways(single, frames),
        Turns::Open | Turns::Live => {}
    }
    if single.drops > 0 {
        // The packets that find a queue full are a matter of when tasks run, and so are those
        // behind it.
        return None;
    }
    if frames.drops > 0 {
        // So is a queue that is nearly full, and the packets behind it then.
        let dropped =
            |name: &String| frames.queues.iter().any(|at| at.name == *name && at.drops > 0);
        let overrun = single
            .queues
            .iter()
            .find(|at| dropped(&at.name) && !at.may_overflow() && !at.before.iter().any(dropped));
        return overrun.map(|at| format!("{at:?} drops packets only with whole frames"));
    }
    // Sources stop at a queue that is full.
    let stopped = single.queues.iter().any(Held::was_nearly_full);
    same_ways(single, frames)
        .or_else(|| same_counts(single, frames))
        .or_else(|| if stopped || turns == Turns::Live { None } else { same_turns(single, frames) })
}

/// Returns a loss of a run with small queues against one with large ones: but for dropped packets
/// the same ones came by each way, in the order of their source.
#[allow(dead_code, reason = "the fuzzer has no ports")]
pub(crate) fn loss(roomy: &Outcome, run: &Outcome) -> Option<String> {
    assert_eq!(roomy.drops, 0);
    let mut missing = 0;
    for ((name, all), (_, came)) in roomy.records.iter().zip(&run.records) {
        let [mut all, mut came] = [all, came].map(|packets| packets.clone());
        came.sort_by_key(|(way, _)| *way);
        if let Some(pair) =
            came.windows(2).find(|pair| pair[0].0 == pair[1].0 && pair[0].1 > pair[1].1)
        {
            return Some(format!("{name} has {pair:?} in that order"));
        }
        all.sort_unstable();
        let mut all = all.into_iter().peekable();
        for packet in &came {
            while all.next_if(|expected| expected < packet).is_some() {
                missing += 1;
            }
            if all.next_if_eq(packet).is_none() {
                return Some(format!("{name} has {packet:?} too often"));
            }
        }
        missing += all.count();
    }
    (missing > 0 && run.drops == 0).then(|| format!("{missing} packets are missing, none dropped"))
}

/// Handlers count the same, and the same lines are printed.
fn same_counts(single: &Outcome, frames: &Outcome) -> Option<String> {
    let counts = single.counts.iter().zip(&frames.counts).find(|(one, other)| one != other);
    if let Some((one, other)) = counts {
        return Some(format!("{one:?} and {other:?}"));
    }
    let [one, other] = [single, frames].map(|outcome| {
        let mut lines: Vec<&str> = outcome.printed.lines().collect();
        lines.sort_unstable();
        lines
    });
    (one != other).then(|| "what is printed".into())
}

/// Compares the turns of sources whose packets meet before they have waited.
fn same_turns(single: &Outcome, frames: &Outcome) -> Option<String> {
    for ((name, one), (_, other)) in single.records.iter().zip(&frames.records) {
        let [one, other] = [one, other].map(|packets| {
            packets.iter().copied().filter(|((_, via), _)| *via == 0).collect::<Vec<Packet>>()
        });
        if one != other {
            return Some(parted(name, &one, &other));
        }
    }
    None
}

/// Between packets that waited and others the order is a matter of when tasks run: it is
/// the same by each way.
fn same_ways(single: &Outcome, frames: &Outcome) -> Option<String> {
    for ((name, one), (_, other)) in single.records.iter().zip(&frames.records) {
        let [one, other] = [one, other].map(|packets| {
            let mut packets = packets.clone();
            packets.sort_by_key(|(way, _)| *way);
            packets
        });
        if one != other {
            return Some(parted(name, &one, &other));
        }
    }
    None
}

/// Describes the first difference of two lists of packets.
fn parted(name: &str, one: &[Packet], other: &[Packet]) -> String {
    let at = one.iter().zip(other).take_while(|(one, other)| one == other).count();
    let rest = |packets: &[Packet]| format!("{:?}", &packets[at..packets.len().min(at + 12)]);
    let (lengths, one, other) = ((one.len(), other.len()), rest(one), rest(other));
    format!("{name}, {lengths:?} packets, from {at} on: {one} and {other}")
}

fn first_difference(one: &Outcome, other: &Outcome) -> Option<String> {
    for ((name, one), (_, other)) in one.records.iter().zip(&other.records) {
        if one != other {
            return Some(parted(name, one, other));
        }
    }
    let printed = || (one.printed != other.printed).then(|| "the order of what is printed".into());
    same_counts(one, other).or_else(printed)
}

/// Writes the source and a running number into packets.
const NUMBER: Class = Class {
    name: "Number",
    ports: "1/1",
    args: &[Arg::required("SOURCE", "number", "the source")],
    make: |make| Box::new(Number { source: make.need::<u32>("SOURCE") as u8, next: 0 }),
    ..Class::here()
};

struct Number {
    source: u8,
    next: u32,
}

impl Element for Number {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        cx.pool.arena().for_each_mut(frame, |bytes| {
            bytes[2..4].copy_from_slice(&[0, self.source]);
            bytes[4..8].copy_from_slice(&self.next.to_be_bytes());
            bytes[8..12].fill(0);
            self.next += 1;
        });
    }
}

/// Writes into packets that they have waited in a queue.
const VIA: Class = Class {
    name: "Via",
    ports: "1/1",
    args: &[Arg::required("QUEUE", "number", "the queue")],
    drops: NoBuffer::REASONS,
    make: |make| Box::new(Via(make.need("QUEUE"))),
    ..Class::here()
};

struct Via(u32);

impl Element for Via {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        // Copies share their bytes.
        cx.unshare::<NoBuffer>(frame);
        cx.pool.arena().for_each_mut(frame, |bytes| {
            let before = u32::from_be_bytes(bytes[8..12].try_into().unwrap());
            let after = before.wrapping_mul(101).wrapping_add(self.0);
            bytes[8..12].copy_from_slice(&after.to_be_bytes());
        });
    }
}

/// Keeps the content of packets.
const RECORD: Class = Class {
    name: "Record",
    ports: "1/0",
    processing: "h/h",
    handlers: &[
        Handler::read("packets", "source, way and number of each, a line each")
            .merged(Merge::Lines),
        Handler::count("count", "how many"),
    ],
    make: |_| Box::new(Record::default()),
    ..Class::here()
};

/// Likewise, and hands packets on.
const PASSING_RECORD: Class = Class { name: "Passing", ports: "1/1", processing: "a/a", ..RECORD };

#[derive(Default)]
struct Record {
    text: String,
    count: usize,
}

impl Element for Record {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        for bytes in cx.pool.arena().packets(frame) {
            let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
            let _ = writeln!(self.text, "{} {} {}", bytes[3], word(8), word(4));
            self.count += 1;
        }
        if cx.out.count() == 0 && cx.plan().elements[cx.element()].targets.is_empty() {
            cx.discard(frame);
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        Ok(if handler == "count" { self.count.to_string() } else { self.text.trim_end().into() })
    }
}
