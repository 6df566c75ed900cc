//! Record and replay for elements measured alone: a recorder keeps the packets of an element's
//! inputs, a replayer feeds them to the element, a collector frees its output, and a run timer
//! ends the run.
//!
//! Recorder and replayer are in different runs. A trace goes from one to the other by its number,
//! which is what can be written in a configuration ([`TraceStore`]).

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, AtomicUsize, Ordering},
    },
    time::Duration,
};

use fastrand::Rng;
use linerate_graph::{
    Arg, Class, Context, DuplicateClass, Element, ElementBuilder, Library, Next, Plan, Role,
    lang::{FlatElement, Landmark},
};
use linerate_memory::{Frame, Meta, Slot};

/// Most packets of a trace: as many as a port of samples brings.
const LONGEST: usize = 4096;
/// A run count that no `stop` of a configuration uses up.
const FOR_EVER: i32 = i32::MAX / 2;

/// A packet as an element was given it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Packet {
    headroom: usize,
    bytes: Vec<u8>,
    /// Set when another frame had it, too.
    shared: bool,
    /// Its annotations, where elements read them.
    meta: Option<Meta>,
}

/// The packets of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Burst {
    /// The input they came to.
    port: usize,
    packets: Vec<Packet>,
}

/// The packets of an element's inputs, in order; of more than fit, the last.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct PacketTrace {
    bursts: VecDeque<Burst>,
    packets: usize,
}

impl fmt::Debug for PacketTrace {
    /// Without the packets, which are thousands.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PacketTrace of {} packets in {} calls", self.packets, self.bursts.len())
    }
}

impl PacketTrace {
    /// Returns true if no packet came.
    pub(crate) fn is_empty(&self) -> bool {
        self.bursts.is_empty()
    }

    /// A number that other packets, or the same in other calls, do not have. When they came does
    /// not count.
    pub(crate) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for Burst { port, packets } in &self.bursts {
            (port, packets.len()).hash(&mut hasher);
            for Packet { headroom, bytes, shared, meta } in packets {
                (headroom, bytes, shared).hash(&mut hasher);
                if let Some(Meta { vlan, paint, destination, user, .. }) = meta {
                    (vlan, paint, destination, user).hash(&mut hasher);
                }
            }
        }
        hasher.finish()
    }

    fn record(&mut self, cx: &Context, port: usize, annotated: bool, frame: &Frame) {
        if frame.is_empty() {
            return;
        }
        let arena = cx.arena();
        let packets = frame.slots().iter().map(|slot| Packet {
            headroom: slot.headroom(),
            bytes: arena.packet(slot).to_vec(),
            shared: slot.is_shared(),
            meta: annotated.then(|| *arena.meta(slot)),
        });
        self.bursts.push_back(Burst { port, packets: packets.collect() });
        self.packets += frame.len();
        while let Some(first) = self.bursts.front().filter(|_| self.packets > LONGEST) {
            self.packets -= first.packets.len();
            self.bursts.pop_front();
        }
    }
}

static TRACES: Mutex<BTreeMap<u32, Arc<StoredTrace>>> = Mutex::new(BTreeMap::new());

fn traces() -> MutexGuard<'static, BTreeMap<u32, Arc<StoredTrace>>> {
    TRACES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Content of a store.
#[derive(Debug, Default)]
struct StoredTrace {
    trace: Mutex<PacketTrace>,
    /// The burst whose turn it is among replayers that take turns.
    turn: AtomicUsize,
}

impl StoredTrace {
    fn trace(&self) -> MutexGuard<'_, PacketTrace> {
        self.trace.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Store from which elements of a configuration take a trace by its number, as long as this lives.
#[derive(Debug)]
pub(crate) struct TraceStore {
    number: u32,
    stored: Arc<StoredTrace>,
}

impl TraceStore {
    /// Puts a trace there.
    pub(crate) fn with(trace: PacketTrace) -> TraceStore {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let stored = Arc::new(StoredTrace { trace: Mutex::new(trace), turn: AtomicUsize::new(0) });
        traces().insert(number, Arc::clone(&stored));
        TraceStore { number, stored }
    }

    /// Takes the trace away.
    pub(crate) fn take(&self) -> PacketTrace {
        std::mem::take(&mut *self.stored.trace())
    }
}

impl Drop for TraceStore {
    fn drop(&mut self) {
        traces().remove(&self.number);
    }
}

/// The trace of this number; an unused one where there is none.
fn stored_trace(make: &mut ElementBuilder<'_>) -> Arc<StoredTrace> {
    let number: u32 = make.need("TAPE");
    let stored = traces().get(&number).cloned();
    stored.unwrap_or_else(|| {
        make.error(format!("there is no tape {number}"));
        Arc::default()
    })
}

/// A library, and the lab's own classes.
pub(crate) fn with_own(library: &Library) -> Result<Library, DuplicateClass> {
    library.clone().with([
        &RECORDER,
        &REPLAYER,
        &COLLECTOR,
        &RUN_TIMER,
        &END_OF_RUN,
        &ANNOTATED,
        &TYPED,
    ])
}

const TAPE: Arg = Arg::required("TAPE", "number", "which tape");

/// Passes packets on and records them.
const RECORDER: Class = Class {
    name: "lab@@recorder",
    ports: "1/1",
    args: &[TAPE, Arg::required("PORT", "number", "the input that the packets are for")],
    make: |make| {
        let (port, annotated) = (make.need::<u32>("PORT") as usize, make.world.annotated);
        Box::new(Recorder { stored: stored_trace(make), port, annotated })
    },
    ..Class::here()
};

struct Recorder {
    stored: Arc<StoredTrace>,
    port: usize,
    annotated: bool,
}

impl Element for Recorder {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        self.stored.trace().record(cx, self.port, self.annotated, frame);
    }
}

/// Plays the packets of an input over and over, as fast as they are taken. Those of several inputs
/// can take `TURNS`, in the order in which packets came; by one with several outputs, which could
/// meet at the element, packets would go one by one.
const REPLAYER: Class = Class {
    name: "lab@@player",
    ports: "0/1",
    args: &[
        TAPE,
        Arg::required("PORT", "number", "the input whose packets are played"),
        Arg::required("TURNS", "bool", "whether it waits for the players of other inputs"),
    ],
    role: Role::Io,
    external_input: true,
    make: |make| Box::new(Replayer::new(make)),
    ..Class::here()
};

struct Replayer {
    /// The bursts of all inputs where it takes turns.
    bursts: Vec<Burst>,
    port: usize,
    /// The burst that is played, and how many of its packets have been.
    at: usize,
    played: usize,
    /// The burst to be played next, where it takes turns.
    turns: Option<Arc<StoredTrace>>,
    /// Further owners of its shared packets, until it plays again.
    others: Vec<Slot>,
    annotated: bool,
    pushes: bool,
}

impl Replayer {
    fn new(make: &mut ElementBuilder<'_>) -> Replayer {
        let (stored, port) = (stored_trace(make), make.need::<u32>("PORT") as usize);
        let turns = make.need::<bool>("TURNS").then(|| Arc::clone(&stored));
        let mut bursts: Vec<Burst> = stored.trace().bursts.iter().cloned().collect();
        if turns.is_none() {
            bursts.retain(|burst| burst.port == port);
        }
        let (annotated, pushes) = (make.world.annotated, make.output_is_push(0));
        Replayer { bursts, port, at: 0, played: 0, turns, others: Vec::new(), annotated, pushes }
    }

    /// Adds at most `count` packets of the burst to a frame. Whether there were any, and buffers for
    /// them, and it was its turn.
    fn play(&mut self, cx: &mut Context, count: usize, frame: &mut Frame) -> bool {
        self.others.drain(..).for_each(|slot| cx.pool.give_one(slot));
        if let Some(turns) = &self.turns {
            self.at = turns.turn.load(Ordering::Relaxed);
        }
        let port = self.port;
        let Some(burst) = self.bursts.get(self.at).filter(|burst| burst.port == port) else {
            return false;
        };
        let mut added = 0;
        for packet in burst.packets.iter().skip(self.played).take(count) {
            let Some(mut slot) = cx.pool.take_one(0) else { break };
            let arena = cx.pool.arena();
            arena.reserve(&mut slot, packet.headroom);
            arena.resize(&mut slot, packet.bytes.len());
            if let Some(to) = arena.packet_mut(&mut slot)
                && to.len() == packet.bytes.len()
            {
                to.copy_from_slice(&packet.bytes);
            }
            if self.annotated
                && let Some(to) = arena.meta_mut(&mut slot)
            {
                *to = packet.meta.unwrap_or(Meta::EMPTY);
            }
            if packet.shared {
                self.others.extend(cx.pool.share(&mut slot));
            }
            if let Err(slot) = frame.push(slot) {
                cx.pool.give_one(slot);
                break;
            }
            added += 1;
        }
        self.played += added;
        if self.played >= burst.packets.len() {
            (self.at, self.played) = ((self.at + 1) % self.bursts.len(), 0);
            if let Some(turns) = &self.turns {
                turns.turn.store(self.at, Ordering::Relaxed);
            }
        }
        added > 0
    }
}

impl Element for Replayer {
    fn run(&mut self, cx: &mut Context, frame: &mut Frame) -> Next {
        if self.play(cx, frame.limit(), frame) {
            Next::Again
        } else if self.bursts.is_empty() {
            Next::Sleep
        } else {
            Next::Idle
        }
    }

    fn pull(&mut self, cx: &mut Context, _: usize, count: usize, frame: &mut Frame) {
        self.play(cx, count, frame);
    }

    fn ready(&self) -> Option<usize> {
        Some(self.bursts.get(self.at).map_or(0, |burst| burst.packets.len() - self.played))
    }

    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        if self.pushes {
            cx.schedule();
        }
        Ok(())
    }
}

/// Takes packets away; none ever leaves it. It gives their buffers back in any order if it is to `SCATTER` them, as a
/// graph does in which ways part: packets that come later do not lie one behind the other then.
const COLLECTOR: Class = Class {
    name: "lab@@taker",
    ports: "1/0-1",
    processing: "a/h",
    args: &[Arg::required("SCATTER", "bool", "whether buffers are given back in any order")],
    role: Role::Io,
    make: |make| {
        let random = make.need::<bool>("SCATTER").then(|| Rng::with_seed(1));
        Box::new(Collector { random, pulls: make.input_is_pull(0) })
    },
    ..Class::here()
};

struct Collector {
    /// Set where buffers are given back in any order.
    random: Option<Rng>,
    pulls: bool,
}

impl Element for Collector {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        if let Some(random) = &mut self.random {
            random.shuffle(frame.slots_mut());
        }
        cx.discard(frame);
    }

    fn run(&mut self, cx: &mut Context, frame: &mut Frame) -> Next {
        if cx.pull(0, frame.limit(), frame) == 0 {
            return cx.nothing_pulled();
        }
        self.push(cx, 0, frame);
        Next::Again
    }

    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        if self.pulls {
            cx.schedule();
        }
        Ok(())
    }
}

/// Keeps a configuration from ending its run by itself, and ends it when so many nanoseconds have
/// passed.
const RUN_TIMER: Class = Class {
    name: "lab@@keeper",
    args: &[Arg::optional("END", "nanoseconds", "never", "when the run ends")],
    role: Role::Information,
    // Behind those that say how the run ends.
    late_init: true,
    make: |make| Box::new(RunTimer { end: make.get("END") }),
    ..Class::here()
};

struct RunTimer {
    end: Option<u64>,
}

impl Element for RunTimer {
    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        cx.driver.set(FOR_EVER);
        if let Some(end) = self.end {
            cx.set_timer(0, cx.steady().saturating_add(end));
        }
        Ok(())
    }

    fn timer(&mut self, cx: &mut Context, _: u32, _: &mut Frame) {
        cx.driver.abort();
    }
}

/// Passes packets on, and ends the run when so many have come.
pub(crate) const END_OF_RUN: Class = Class {
    name: "lab@@ender",
    ports: "1/1",
    args: &[Arg::required("PACKETS", "number", "after how many the run ends")],
    make: |make| Box::new(EndOfRun { left: make.need("PACKETS") }),
    ..Class::here()
};

struct EndOfRun {
    left: u64,
}

impl Element for EndOfRun {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        self.left = self.left.saturating_sub(frame.len() as u64);
        if self.left == 0 {
            cx.driver.abort();
        }
    }
}

/// Has a graph keep annotations of packets, as graphs do in which an element reads them.
const ANNOTATED: Class =
    Class { name: "lab@@annotated", role: Role::Information, annotates: true, ..Class::here() };

/// Has a graph find out how packets were addressed on their link.
const TYPED: Class =
    Class { name: "lab@@typed", role: Role::Information, needs_packet_type: true, ..Class::here() };

/// The declarations of elements that have a graph keep the annotations which another one keeps.
pub(crate) fn keeping_as(plan: &Plan, landmark: &Landmark) -> Vec<FlatElement> {
    let any = |does: fn(&Class) -> bool| plan.elements.iter().any(|one| does(one.class));
    let kept = [
        (ANNOTATED.name, any(|class| class.annotates)),
        (TYPED.name, any(|class| class.needs_packet_type)),
    ];
    let declared = |(name, _): (&str, bool)| FlatElement {
        name: name.into(),
        class: name.into(),
        config: String::new(),
        landmark: landmark.clone(),
    };
    kept.into_iter().filter(|(_, is)| *is).map(declared).collect()
}

/// The declaration of an element that records the packets of an input.
pub(crate) fn recorder(
    name: String,
    store: &TraceStore,
    port: usize,
    landmark: Landmark,
) -> FlatElement {
    let config = format!("{}, {port}", store.number);
    FlatElement { name, class: RECORDER.name.into(), config, landmark }
}

/// The declaration of an element that plays the packets of an input, in turns with others or not.
pub(crate) fn replayer(
    name: String,
    store: &TraceStore,
    (port, turns): (usize, bool),
    landmark: Landmark,
) -> FlatElement {
    let config = format!("{}, {port}, {turns}", store.number);
    FlatElement { name, class: REPLAYER.name.into(), config, landmark }
}

/// The declaration of one that takes packets away.
pub(crate) fn collector(name: String, scatter: bool, landmark: Landmark) -> FlatElement {
    FlatElement { name, class: COLLECTOR.name.into(), config: scatter.to_string(), landmark }
}

/// The declaration of one that ends the run after this time, or never.
pub(crate) fn run_timer(end: Option<Duration>, landmark: Landmark) -> FlatElement {
    let config = end.map(|end| end.as_nanos().to_string()).unwrap_or_default();
    FlatElement { name: RUN_TIMER.name.into(), class: RUN_TIMER.name.into(), config, landmark }
}

#[cfg(test)]
mod tests {
    use linerate_graph::{Console, Options, Router, lang::Globals, load};
    use linerate_memory::ArenaOptions;

    use super::*;

    /// Runs a configuration, in real time or in simulated time; returns the value of `handler`
    /// then.
    fn run(text: &str, simulated: bool, handler: &str) -> String {
        let library = with_own(&linerate_elements::library()).unwrap();
        let mut none = |_: &str, _: &str| -> Result<_, Option<_>> { Err(None) };
        let loaded = load("test", text, &library, &Globals::default(), &mut none);
        let plan = loaded.plan.unwrap_or_else(|| panic!("{}", loaded.found.click()));
        let arena = ArenaOptions { huge: false, ..ArenaOptions::default() }.create().unwrap();
        let console = Console::buffered().0;
        let options = Options { simulated, frame_limit: 64, console, ..Options::default() };
        let ports = linerate_port::Context::new(arena);
        let mut router = Router::new(plan, &library, ports, &options).unwrap();
        router.run();
        let said = router.read(handler, "").unwrap();
        router.close();
        said
    }

    #[test]
    fn recorded_packets_are_replayed_over_and_over() {
        let store = TraceStore::with(PacketTrace::default());
        let number = store.number;
        // The run timer has the run go on behind the source's end.
        let text = format!(
            "InfiniteSource(DATA \\<0102>, LIMIT 5, STOP true) -> Paint(3) -> Strip(1)
             -> lab@@recorder({number}, 0) -> c :: Counter -> Discard; lab@@keeper(1000000)"
        );
        assert_eq!(run(&text, true, "c.count"), "5");
        let trace = store.take();
        assert_eq!((trace.packets, trace.bursts.len()), (5, 1));
        let packet = &trace.bursts[0].packets[4];
        assert_eq!((&*packet.bytes, packet.meta.map(|meta| meta.paint)), (&[2][..], Some(3)));
        assert_eq!(trace.fingerprint(), trace.clone().fingerprint());
        assert_ne!(trace.fingerprint(), PacketTrace::default().fingerprint());

        let (from, to) =
            (TraceStore::with(trace.clone()), TraceStore::with(PacketTrace::default()));
        let text = format!(
            "lab@@player({}, 0, false) -> lab@@recorder({}, 0) -> CheckPaint(3) -> c :: Counter -> Discard;
             lab@@keeper(2000000)",
            from.number, to.number
        );
        let count: u64 = run(&text, false, "c.count").parse().unwrap();
        let again = to.take();
        assert!(count > 5, "{count}");
        // Once more, and once more the same.
        assert!(again.bursts.len() > 2);
        assert_eq!((&again.bursts[0], &again.bursts[1]), (&trace.bursts[0], &trace.bursts[0]));
    }

    #[test]
    fn the_last_packet_ends_the_run() {
        let text =
            "InfiniteSource(LIMIT 1000) -> Queue(10) -> a :: Counter -> lab@@ender(500) -> Discard;
            lab@@keeper(1000000)";
        let count: u64 = run(text, true, "a.count").parse().unwrap();
        assert!((500..564).contains(&count), "{count}");
    }

    #[test]
    fn inputs_keep_apart() {
        let packet = |byte| Packet { headroom: 128, bytes: vec![byte], shared: false, meta: None };
        let burst = |port, byte| Burst { port, packets: vec![packet(byte); 3] };
        let trace = PacketTrace { bursts: [burst(0, 1), burst(1, 2)].into(), packets: 6 };
        let store = TraceStore::with(trace);
        let number = store.number;
        // They take turns.
        let to = TraceStore::with(PacketTrace::default());
        let text = format!(
            "lab@@player({number}, 0, true) -> Classifier(0/01) -> lab@@recorder({0}, 0) -> Discard;
             lab@@player({number}, 1, true) -> Classifier(0/02) -> lab@@recorder({0}, 1)
             -> b :: Counter -> Discard; lab@@keeper(2000000)",
            to.number
        );
        let count: u64 = run(&text, false, "b.count").parse().unwrap();
        let ports: Vec<usize> = to.take().bursts.iter().map(|burst| burst.port).collect();
        assert!(count > 0 && ports.windows(2).all(|pair| pair[0] != pair[1]), "{ports:?}");
        let text = format!(
            "lab@@player({number}, 1, false) -> Classifier(0/02) -> b :: Counter -> Discard;
             lab@@keeper(2000000)"
        );
        let count: u64 = run(&text, false, "b.count").parse().unwrap();
        assert!(count > 0);
        // Pulled, too.
        let text = format!(
            "lab@@player({number}, 0, false) -> Unqueue -> b :: Counter -> lab@@taker(true);
             lab@@player({number}, 0, false) -> Queue -> lab@@taker(false); lab@@keeper(2000000)"
        );
        let count: u64 = run(&text, false, "b.count").parse().unwrap();
        assert!(count > 0);
    }
}
