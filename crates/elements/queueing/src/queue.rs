//! `Queue` and its relatives: FIFO storage between push and pull.
//!
//! The packets are in a lock-free ring, which also carries them from one worker to another: with
//! both sides on one worker it holds both ends, else each replica holds its own. With several
//! workers pushing, or several pulling, the ring is one that allows that.

use std::sync::{
    Arc, Mutex, MutexGuard,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

use linerate_graph::{
    Arg, Class, Context, DropReason, Element, ElementBuilder, Handler, HandlerError, HandlerResult,
    Replica, Right, Signals, parse_u32,
};
use linerate_memory::{
    Frame, Slot,
    ring::{Consumer, Mpmc, NeedWakeup, Producer, spsc},
};

use linerate_element_support::{
    drops::{overflow, reject_frame},
    handler_values::record_argument,
};

/// The name of their family in the reference: that of the elements for beginners.
const FAMILY: &str = "standard";
/// Default capacity in packets.
const CAPACITY_DEFAULT: usize = 1000;
/// Most packets a queue can hold.
const CAPACITY_LIMIT: usize = 1 << 24;

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    /// queue full
    Full,
}

/// Arguments and handlers of all queues.
pub(crate) const ARGS: &[Arg] =
    &[Arg::optional("CAPACITY", "packets", "1000", "most packets it holds").holds()];
pub(crate) const HANDLERS: &[Handler] = &[
    Handler::read("length", "packets held"),
    Handler::read("highwater_length", "most packets held so far"),
    Handler::value("capacity", "most packets it can hold").flags("."),
    Handler::read("drops", "packets dropped because it was full"),
    Handler::button("reset_counts", "sets drops to zero and highwater_length to length"),
    Handler::button("reset", "drops all packets it holds"),
];

pub(super) const QUEUE: Class = Class {
    name: "Queue",
    reconfigured: Some(Right::Write),
    family: FAMILY,
    summary: "holds packets between push and pull",
    description: "Holds up to `CAPACITY` packets, oldest first out, and drops what arrives when \
        it is full, by output 1 when that is used. Sources in front of it are told when it is full and stop; tasks that pull \
        from it sleep while it is empty. Where the two sides run on different workers the \
        packets cross in a lock-free ring.",
    ports: "1/1-2",
    processing: "h/lh",
    args: ARGS,
    handlers: HANDLERS,
    drops: Reason::REASONS,
    signals: Signals { empty: true, full: true },
    cost: "Eight bytes copied in and out per packet; packets are not touched.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> Queue(16) -> Unqueue -> Discard;",
    make: |make| Box::new(Queue::new(make)),
    writes: false,
    ..Class::here()
};

pub(super) const FULL_NOTE_QUEUE: Class = Class { name: "FullNoteQueue", ..QUEUE };

pub(super) const QUICK_NOTE_QUEUE: Class = Class { name: "QuickNoteQueue", ..QUEUE };

pub(super) const THREAD_SAFE_QUEUE: Class = Class { name: "ThreadSafeQueue", ..QUEUE };

pub(super) const NOTIFIER_QUEUE: Class = Class {
    name: "NotifierQueue",
    description: "As `Queue`, without telling sources that it is full: they go on, and the queue \
        drops.",
    signals: Signals { empty: true, full: false },
    ..QUEUE
};

pub(super) const SIMPLE_QUEUE: Class = Class {
    name: "SimpleQueue",
    description: "As `Queue`, without telling anybody anything: sources go on when it is full, \
        and who pulls from it looks again and again.",
    signals: Signals::NONE,
    ..QUEUE
};

/// All of them.
pub(crate) const CLASSES: &[&Class] = &[
    &FULL_NOTE_QUEUE,
    &NOTIFIER_QUEUE,
    &QUEUE,
    &QUICK_NOTE_QUEUE,
    &SIMPLE_QUEUE,
    &THREAD_SAFE_QUEUE,
];

/// Returns true if a class is a queue.
pub(crate) fn is_queue(class: &Class) -> bool {
    CLASSES.iter().any(|queue| queue.name == class.name)
}

/// The argument `CAPACITY`.
pub(crate) fn capacity_from_args(make: &mut ElementBuilder<'_>) -> usize {
    let wanted = make.get::<u32>("CAPACITY").map(|packets| capacity(Ok(packets)));
    wanted.unwrap_or(Ok(CAPACITY_DEFAULT)).unwrap_or_else(|error| {
        make.error(error);
        CAPACITY_DEFAULT
    })
}

/// A capacity as it was written, if there is memory for it.
pub(crate) fn capacity(written: Result<u32, String>) -> Result<usize, String> {
    let wanted = written.map_err(|error| format!("CAPACITY: {error}"))? as usize;
    if wanted > CAPACITY_LIMIT {
        Err(format!("CAPACITY: out of range, bound {CAPACITY_LIMIT}"))
    } else {
        Ok(wanted)
    }
}

/// State shared by both sides of a queue.
struct Core {
    capacity: AtomicUsize,
    /// Packets there is room for in the ring, once it is made.
    places: AtomicUsize,
    highwater: AtomicUsize,
    drops: AtomicU64,
    /// Wakes a worker that pulls and has found it empty.
    filled: NeedWakeup,
    /// Wakes a worker that pushes and has found it full.
    emptied: NeedWakeup,
    /// Ends that no replica has taken yet, and the ring where it is shared.
    ends: Mutex<Ends>,
}

/// The ring's ends.
#[derive(Default)]
struct Ends {
    /// The replicas there are.
    parts: Vec<Replica>,
    /// Packets of queues that this one replaces, oldest first; they go into the ring when that is
    /// made.
    carried: Vec<Slot>,
    /// Whether there is a ring.
    made: bool,
    producer: Option<Producer<Slot>>,
    consumer: Option<Consumer<Slot>>,
    shared: Option<Arc<Mpmc<Slot>>>,
}

/// One replica's side or sides.
enum Side {
    /// Not taken yet: whether packets are pushed and whether they are pulled here. A queue that is
    /// to replace another takes its sides on first use, since the packets it takes over are unknown
    /// before.
    Untaken {
        pushed: bool,
        pulled: bool,
    },
    Own {
        producer: Option<Producer<Slot>>,
        consumer: Option<Consumer<Slot>>,
    },
    Shared(Arc<Mpmc<Slot>>),
}

pub(crate) struct Queue {
    core: Arc<Core>,
    side: Side,
    /// Whether another worker is at the other side.
    crosses: bool,
    /// The capacity it was configured with.
    capacity: usize,
    /// Whether it is to take over from another.
    inherits: bool,
    /// Packets that still fit when a frame does not.
    part: Option<Frame>,
}

impl Queue {
    fn new(make: &mut ElementBuilder<'_>) -> Queue {
        let capacity = capacity_from_args(make);
        let replica = make.replica();
        let only = replica.count == 1;
        let core = make.shared(|| Core::new(capacity));
        core.ends().add(replica);
        let side = Side::Untaken { pushed: replica.pushed || only, pulled: replica.pulled || only };
        let inherits = make.predecessor().is_some();
        Queue { core, side, crosses: !only, capacity, inherits, part: None }
    }

    /// Returns the packets held.
    pub(crate) fn len(&self) -> usize {
        match &self.side {
            Side::Untaken { .. } => self.core.ends().len(),
            Side::Own { producer: Some(producer), .. } => producer.len(),
            Side::Own { consumer: Some(consumer), .. } => consumer.len(),
            Side::Own { .. } => 0,
            Side::Shared(ring) => ring.len(),
        }
    }

    /// Takes its sides, if it has not yet.
    #[cold]
    fn take_side(&mut self) {
        if let Side::Untaken { pushed, pulled } = self.side {
            self.side = self.core.take_side(pushed, pulled);
        }
    }

    pub(crate) fn store(&mut self, frame: &mut Frame) {
        match &mut self.side {
            Side::Own { producer: Some(producer), .. } => {
                producer.push_frame(frame);
            }
            Side::Own { .. } => {}
            Side::Shared(ring) => {
                ring.push_frame(frame);
            }
            Side::Untaken { .. } => {
                self.take_side();
                self.store(frame);
            }
        }
    }

    fn fetch(&mut self, frame: &mut Frame, count: usize) -> usize {
        match &mut self.side {
            Side::Own { consumer: Some(consumer), .. } => consumer.pop_frame(frame, count),
            Side::Own { .. } => 0,
            Side::Shared(ring) => ring.pop_frame(frame, count),
            Side::Untaken { .. } => {
                self.take_side();
                self.fetch(frame, count)
            }
        }
    }

    /// Makes room for another number of packets. Those that do not fit any
    /// more stay; the queue takes none until there are fewer.
    fn resize(&mut self, cx: &mut Context, capacity: usize) -> Result<(), HandlerError> {
        self.take_side();
        let places = match &mut self.side {
            Side::Own { producer: Some(producer), consumer: Some(consumer) } => {
                if capacity > producer.capacity() {
                    let mut frame = cx.new_frame();
                    let (mut new_producer, new_consumer) = spsc(capacity);
                    while consumer.pop_frame(&mut frame, usize::MAX) > 0 {
                        new_producer.push_frame(&mut frame);
                    }
                    (*producer, *consumer) = (new_producer, new_consumer);
                    self.core.places.store(producer.capacity(), Ordering::Relaxed);
                }
                producer.capacity()
            }
            Side::Own { producer: Some(producer), .. } => producer.capacity(),
            // The limit is the pushing side's: changed from here, it could fall
            // below the room a source over there has just been promised.
            Side::Own { .. } | Side::Untaken { .. } => return Ok(()),
            Side::Shared(ring) => ring.capacity(),
        };
        if capacity > places {
            let reason = format!("between workers it cannot grow beyond {places} while it runs");
            return Err(HandlerError::refused(reason));
        }
        self.core.capacity.store(capacity, Ordering::Relaxed);
        cx.set_full(self.len() >= capacity);
        Ok(())
    }

    /// Drops the newest packets beyond `capacity`, as Click does when it is
    /// written; where the other side is on another worker they stay.
    fn trim(&mut self, cx: &mut Context, capacity: usize) {
        if self.len() <= capacity {
            return;
        }
        for slot in self.take_out(|at, _| at >= capacity).unwrap_or_default() {
            cx.drop_packet(slot, Reason::Full);
        }
    }

    /// Takes packets out at any place, oldest first; the others stay in order. `wanted` is called
    /// for each, with its place. `None` where the other side is on another worker, which does not
    /// wait meanwhile.
    pub(crate) fn take_out(
        &mut self,
        mut wanted: impl FnMut(usize, &Slot) -> bool,
    ) -> Option<Vec<Slot>> {
        self.take_side();
        let Side::Own { producer: Some(producer), consumer: Some(consumer) } = &mut self.side
        else {
            return None;
        };
        let mut taken = Vec::new();
        // Each goes round to where it was.
        for at in 0..producer.len() {
            let Some(slot) = consumer.pop() else { break };
            if wanted(at, &slot) {
                taken.push(slot);
            } else {
                let kept = producer.push(slot);
                debug_assert!(kept.is_ok(), "it had room before");
            }
        }
        Some(taken)
    }

    /// Takes the packets of another queue. All workers stand still meanwhile, and go on when all
    /// replicas have done so.
    fn inherit(&mut self, cx: &Context, old: &mut Queue) {
        let mut frame = cx.new_frame();
        let mut ends = self.core.ends();
        debug_assert!(!ends.made, "nobody has used it yet");
        while old.fetch(&mut frame, usize::MAX) > 0 {
            let count = frame.len();
            frame.drain_front(count, |slot| ends.carried.push(slot));
        }
        let drops = old.core.drops.swap(0, Ordering::Relaxed);
        self.core.drops.fetch_add(drops, Ordering::Relaxed);
        let highwater = old.core.highwater.load(Ordering::Relaxed);
        self.core.highwater.fetch_max(highwater, Ordering::Relaxed);
    }

    fn empty(&mut self, cx: &mut Context) {
        let mut frame = cx.new_frame();
        let count = frame.limit();
        while self.fetch(&mut frame, count) > 0 {
            reject_frame(cx, &mut frame, Reason::Full);
        }
        cx.set_full(false);
    }
}

impl Core {
    fn new(capacity: usize) -> Core {
        Core {
            capacity: AtomicUsize::new(capacity),
            places: AtomicUsize::new(0),
            highwater: AtomicUsize::new(0),
            drops: AtomicU64::new(0),
            filled: NeedWakeup::new(),
            emptied: NeedWakeup::new(),
            ends: Mutex::default(),
        }
    }

    fn ends(&self) -> MutexGuard<'_, Ends> {
        self.ends.lock().expect("no panic while held")
    }

    fn take_side(&self, pushed: bool, pulled: bool) -> Side {
        let mut ends = self.ends();
        if !ends.made {
            let places = ends.make(self.capacity.load(Ordering::Relaxed));
            self.places.store(places, Ordering::Relaxed);
        }
        match &ends.shared {
            Some(ring) => Side::Shared(Arc::clone(ring)),
            None => Side::Own {
                producer: ends.producer.take_if(|_| pushed),
                consumer: ends.consumer.take_if(|_| pulled),
            },
        }
    }

    /// Returns true if the ring of `old` can go on as that of this queue: the same workers are at
    /// its ends, and it is large enough. Every replica comes to the same answer.
    fn can_have_ring_of(&self, old: &Core, capacity: usize) -> bool {
        let alone = |parts: &[Replica]| parts.len() == 1;
        let (new, was) = (self.ends(), old.ends());
        let same = new.parts == was.parts || alone(&new.parts) && alone(&was.parts);
        same && (alone(&new.parts) || capacity <= old.places.load(Ordering::Relaxed))
    }
}

impl Ends {
    fn add(&mut self, replica: Replica) {
        // One that is configured anew is the same one.
        if !self.parts.contains(&replica) {
            self.parts.push(replica);
        }
    }

    /// Makes the ring, with the packets carried over; returns its places.
    fn make(&mut self, capacity: usize) -> usize {
        self.made = true;
        let places = capacity.max(self.carried.len()).max(1);
        let carried = self.carried.drain(..);
        let several = |there: fn(&Replica) -> bool| {
            self.parts.iter().filter(|replica| there(replica)).count() > 1
        };
        // Two replicas can be three ends: one may push as well as pull.
        if several(|replica| replica.pushed) || several(|replica| replica.pulled) {
            let ring = Mpmc::new(places);
            carried.for_each(|slot| drop(ring.push(slot)));
            let places = ring.capacity();
            self.shared = Some(Arc::new(ring));
            return places;
        }
        let (mut producer, consumer) = spsc(places);
        carried.for_each(|slot| drop(producer.push(slot)));
        let places = producer.capacity();
        (self.producer, self.consumer) = (Some(producer), Some(consumer));
        places
    }

    /// Returns the packets held, for a replica that has not taken its side.
    fn len(&self) -> usize {
        let ring = self.shared.as_ref().map(|ring| ring.len());
        let own = self.consumer.as_ref().map(|consumer| consumer.len());
        let other = self.producer.as_ref().map(|producer| producer.len());
        ring.or(own).or(other).unwrap_or(self.carried.len())
    }
}

impl Element for Queue {
    fn initialize(&mut self, _: &mut Context) -> Result<(), String> {
        if !self.inherits {
            self.take_side();
        }
        Ok(())
    }

    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let before = self.len();
        let capacity = self.core.capacity.load(Ordering::Relaxed);
        let room = capacity.saturating_sub(before);
        let after = before + frame.len().min(room);
        if frame.len() <= room {
            self.store(frame);
        } else {
            let mut part = self.part.take().unwrap_or_else(|| cx.new_frame());
            part.append(frame, room);
            self.store(&mut part);
            self.part = Some(part);
        }
        if !frame.is_empty() {
            let before = self.core.drops.fetch_add(frame.len() as u64, Ordering::Relaxed);
            if before == 0 && capacity > 0 {
                overflow(cx);
            }
            reject_frame(cx, frame, Reason::Full);
        }
        if after > self.core.highwater.load(Ordering::Relaxed) {
            self.core.highwater.store(after, Ordering::Relaxed);
        }
        if after >= capacity {
            if self.crosses {
                // Sources look at the room again before they sleep.
                self.core.emptied.arm();
            }
            cx.set_full(true);
        }
        if before == 0 {
            cx.notify();
        }
        if self.crosses && self.core.filled.take() {
            // Taking the bell silences it, for all workers. This one's tasks are woken, too:
            // packets just pushed by another worker may have hidden that it was empty.
            cx.notify();
            cx.notify_others();
        }
    }

    fn pull(&mut self, cx: &mut Context, _: usize, count: usize, frame: &mut Frame) {
        let mut pulled = self.fetch(frame, count);
        if pulled == 0 && self.crosses {
            self.core.filled.arm();
            pulled = self.fetch(frame, count);
        }
        if pulled > 0 {
            cx.set_full(false);
            if self.crosses && self.core.emptied.take() {
                cx.room_for_others();
            }
        }
    }

    fn room(&self) -> usize {
        let room = || self.core.capacity.load(Ordering::Relaxed).saturating_sub(self.len());
        match room() {
            // A pusher without room may sleep: a puller that took an earlier wish for room, and has
            // taken nothing since, would not know of this one.
            0 if self.crosses => {
                self.core.emptied.arm();
                room()
            }
            free => free,
        }
    }

    fn ready(&self) -> Option<usize> {
        Some(self.len())
    }

    fn take_state(&mut self, cx: &mut Context, old: &mut dyn Element) {
        let Some(old) = old.downcast_mut::<Queue>() else { return };
        if Arc::ptr_eq(&self.core, &old.core) {
            // Only the configuration has been written to.
            std::mem::swap(&mut self.side, &mut old.side);
            self.trim(cx, self.capacity);
            // A size that is impossible leaves the old one; `capacity` shows it.
            let _ = self.resize(cx, self.capacity);
        } else if self.core.can_have_ring_of(&old.core, self.capacity) {
            // The ring goes on as it is: the packets in it stay in order, also while the other
            // side's worker uses it.
            old.take_side();
            std::mem::swap(&mut self.side, &mut old.side);
            std::mem::swap(&mut self.core, &mut old.core);
            // There is room for it.
            let _ = self.resize(cx, self.capacity);
        } else {
            self.inherit(cx, old);
        }
        if self.len() > 0 {
            cx.notify();
        }
    }

    fn close(&mut self, cx: &mut Context) {
        let mut frame = cx.new_frame();
        let count = frame.limit();
        while self.fetch(&mut frame, count) > 0 {
            cx.discard(&mut frame);
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "length" => Ok(self.len().to_string()),
            "highwater_length" => Ok(self.core.highwater.load(Ordering::Relaxed).to_string()),
            "capacity" => Ok(self.core.capacity.load(Ordering::Relaxed).to_string()),
            "drops" => Ok(self.core.drops.load(Ordering::Relaxed).to_string()),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        match handler {
            "reset_counts" => {
                self.core.drops.store(0, Ordering::Relaxed);
                self.core.highwater.store(self.len(), Ordering::Relaxed);
            }
            "reset" => self.empty(cx),
            "capacity" => {
                let wanted = capacity(parse_u32(value)).map_err(HandlerError::refused)?;
                self.trim(cx, wanted);
                self.resize(cx, wanted)?;
                record_argument(cx, 0, "CAPACITY", value);
            }
            _ => return Err(HandlerError::missing(handler)),
        }
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    use super::*;

    /// Each time, not only when it was filled: a reader may have taken that wish for an earlier
    /// one.
    #[test]
    fn every_look_at_a_full_queue_asks_for_room() {
        let side = Side::Untaken { pushed: true, pulled: false };
        let core = Arc::new(Core::new(0));
        let queue = Queue { core, side, crosses: true, capacity: 0, inherits: false, part: None };
        for _ in 0..2 {
            assert_eq!(queue.room(), 0);
            assert!(queue.core.emptied.take());
        }
    }

    #[test]
    fn packets_beyond_the_capacity_leave_by_output_1() {
        let mut run = Run::new(
            "TimedSource(1ms, LIMIT 9) -> q :: Queue(5) -> Idle; q [1] -> d :: Discard; \
                TimedSource(1, LIMIT 0, STOP true) -> Discard",
        );
        run.run();
        assert_eq!((run.read("q.drops"), run.read("d.count")), ("4".into(), "4".into()));
        assert_eq!(run.output(), "q :: Queue: overflow\n");
        run.write("q.capacity", "3").unwrap();
        assert_eq!((run.read("q.length"), run.read("q.capacity")), ("3".into(), "3".into()));
        run.write("q.reset", "").unwrap();
        assert_eq!(run.read("q.length"), "0");
    }

    #[test]
    fn a_new_configuration_keeps_the_packets() {
        for class in ["Queue", "FrontDropQueue"] {
            let mut run = Run::new(&format!(
                "InfiniteSource(LIMIT 9) -> q :: {class}(20) -> Idle; \
                    TimedSource(1, LIMIT 0, STOP true) -> Discard"
            ));
            run.run();
            for capacity in ["4000", "10", "12"] {
                run.write("q.config", capacity).unwrap();
                assert_eq!(run.read("q.length"), "9", "{class}");
                assert_eq!(run.read("q.capacity"), capacity, "{class}");
            }
        }
    }

    #[test]
    fn packets_are_counted_when_they_arrive() {
        let mut run = Run::new(
            "InfiniteSource(LIMIT 10, STOP true) -> q :: Queue -> Unqueue -> d :: Discard; \
                TimedSource(1, LIMIT 0, STOP true) -> Discard",
        );
        run.run();
        assert_eq!(run.read("q.icounts"), "10\n");
    }

    /// As in a router of two interfaces on two workers: each queue is pushed to
    /// by both, and pulled from by one of them.
    #[test]
    fn the_pulling_worker_may_push_beside_another() {
        for places in ["a 0, b 1, u 0", "a 0, b 1, u 1"] {
            let mut run = Run::new(&format!(
                "StaticThreadSched({places}); \
                    a :: InfiniteSource(LIMIT 500) -> q :: Queue(2000) -> u :: Unqueue \
                    -> Counter(COUNT_CALL 1000 stop) -> d :: Discard; \
                    b :: InfiniteSource(LIMIT 500) -> q; DriverManager(wait 20s, stop)"
            ))
            .workers(2);
            run.run();
            assert_eq!((run.read("d.count"), run.read("q.drops")), ("1000".into(), "0".into()));
        }
    }

    #[test]
    fn a_queue_for_no_packets_holds_none() {
        let mut run = Run::new(
            "TimedSource(1ms, LIMIT 9) -> q :: Queue(0) -> Discard; \
                TimedSource(1, LIMIT 0, STOP true) -> Discard",
        );
        run.run();
        assert_eq!(run.read("q.drops"), "9");
        assert_eq!(run.output(), "");
    }
}
