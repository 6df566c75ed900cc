//! `FrontDropQueue` and `MixedQueue`: queues that also drop, or take in, at the
//! front.
//!
//! Both sides reach the front, so the packets are in a deque under a lock,
//! taken once per frame by either side. A [`Queue`](crate::queue) needs none
//! and is faster where its discipline will do.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use linerate_graph::{
    Class, Context, DropReason, Element, ElementBuilder, HandlerError, HandlerResult, Right,
    Signals, parse_u32,
};
use linerate_memory::{Frame, Slot};

use super::FAMILY;
use crate::queue::{ARGS, HANDLERS, capacity, capacity_from_args};
use linerate_element_support::{
    drops::{self, reject_frame},
    handler_values::record_argument,
};

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    /// queue full
    Full,
}

pub(super) const FRONT_DROP: Class = Class {
    name: "FrontDropQueue",
    reconfigured: Some(Right::Write),
    family: FAMILY,
    summary: "holds packets and drops the oldest when it is full",
    description: "Holds up to `CAPACITY` packets, oldest first out. What arrives when it is full \
        takes the place of the oldest, which leaves by output 1 or is dropped when that is not \
        used. Tasks that pull from it sleep while it is empty.",
    ports: "1/1-2",
    processing: "h/lh",
    args: ARGS,
    handlers: HANDLERS,
    drops: Reason::REASONS,
    signals: Signals { empty: true, full: false },
    cost: "A lock per frame; eight bytes copied in and out per packet.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> FrontDropQueue(4) -> Unqueue -> Discard;",
    make: |make| Box::new(HeldQueue::new(make)),
    ..Class::here()
};

pub(super) const MIXED: Class = Class {
    name: "MixedQueue",
    summary: "holds packets, taking in at both ends",
    description: "Holds up to `CAPACITY` packets. What arrives at input 0 goes to the end, and is \
        dropped when it is full; what arrives at input 1 goes to the front, and when it is full \
        the packet at the end is dropped. Dropped packets leave by output 1 when it is used. \
        Tasks that pull from it sleep while it is empty.",
    ports: "2/1-2",
    // Packets at the front go first: the order shows where others would have been taken out in
    // between.
    observes: |_, at| vec![at],
    example: "InfiniteSource(LIMIT 10, STOP true) -> m :: MixedQueue(4) -> Unqueue -> Discard; \
        Idle -> [1] m;",
    ..FRONT_DROP
};

/// State shared by all replicas.
struct Core {
    packets: VecDeque<Slot>,
    capacity: usize,
    highwater: usize,
    drops: u64,
    /// Set if a puller has found it empty since something was pushed.
    asleep: bool,
    /// Replicas there are.
    users: usize,
}

pub(crate) struct HeldQueue {
    core: Arc<Mutex<Core>>,
    /// The capacity it was configured with.
    capacity: usize,
    front_drop: bool,
    /// Whether another worker is at the other side.
    crosses: bool,
    /// Packets that there is no room for, empty between calls.
    excess: Frame,
}

impl Core {
    fn new(capacity: usize) -> Core {
        let packets = VecDeque::with_capacity(capacity);
        Core { packets, capacity, highwater: 0, drops: 0, asleep: false, users: 0 }
    }
}

impl HeldQueue {
    fn new(make: &mut ElementBuilder<'_>) -> HeldQueue {
        let capacity = capacity_from_args(make);
        let core = make.shared(|| Mutex::new(Core::new(capacity)));
        core.lock().unwrap_or_else(PoisonError::into_inner).users += 1;
        HeldQueue {
            core,
            capacity,
            front_drop: make.plan().elements[make.element()].class.name == FRONT_DROP.name,
            crosses: make.replica().count > 1,
            excess: Frame::new(make.world.frame_limit),
        }
    }

    fn core(&self) -> MutexGuard<'_, Core> {
        // A panic has left whole packets in it.
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the packets held, and the capacity.
    pub(crate) fn held(&self) -> (usize, usize) {
        let core = self.core();
        (core.packets.len(), core.capacity)
    }

    /// Empties the front down to `keep` packets; those taken are as good as
    /// dropped.
    fn shrink(
        &mut self,
        cx: &mut Context,
        keep: usize,
        gone: fn(&mut Context, &mut Frame, Reason),
    ) {
        loop {
            let mut core = self.core.lock().unwrap_or_else(PoisonError::into_inner);
            while core.packets.len() > keep && self.excess.room() > 0 {
                let end = if self.front_drop {
                    core.packets.pop_front()
                } else {
                    core.packets.pop_back()
                };
                let pushed = end.map(|slot| self.excess.push(slot));
                debug_assert!(matches!(pushed, Some(Ok(()))), "there was one, and room");
            }
            drop(core);
            if self.excess.is_empty() {
                return;
            }
            gone(cx, &mut self.excess, Reason::Full);
        }
    }
}

/// Puts a packet in; returns the one there is no room for.
impl Core {
    fn put(&mut self, slot: Slot, front_drop: bool, port: usize) -> Option<Slot> {
        let full = self.packets.len() >= self.capacity;
        let gone = match (full, front_drop, port) {
            (false, _, _) => None,
            (true, true, _) => self.packets.pop_front(),
            (true, false, 0) => {
                self.drops += 1;
                return Some(slot);
            }
            (true, false, _) => self.packets.pop_back(),
        };
        self.drops += u64::from(full);
        if self.capacity == 0 {
            return Some(slot);
        }
        match port {
            0 => self.packets.push_back(slot),
            _ => self.packets.push_front(slot),
        }
        self.highwater = self.highwater.max(self.packets.len());
        gone
    }
}

/// Also one that was made for a configuration that is not taken.
impl Drop for HeldQueue {
    fn drop(&mut self) {
        self.core().users -= 1;
    }
}

impl Element for HeldQueue {
    fn push(&mut self, cx: &mut Context, port: usize, frame: &mut Frame) {
        let mut core = self.core.lock().unwrap_or_else(PoisonError::into_inner);
        let was_empty = core.packets.is_empty();
        let first = core.drops == 0;
        let excess = &mut self.excess;
        let count = frame.len();
        frame.drain_front(count, |slot| {
            if let Some(gone) = core.put(slot, self.front_drop, port) {
                let pushed = excess.push(gone);
                debug_assert!(pushed.is_ok(), "no more than arrived");
            }
        });
        let overflow = first && core.drops > 0 && core.capacity > 0;
        let asleep = std::mem::take(&mut core.asleep);
        drop(core);
        if overflow {
            drops::overflow(cx);
        }
        if !self.excess.is_empty() {
            reject_frame(cx, &mut self.excess, Reason::Full);
        }
        if was_empty {
            cx.notify();
        }
        if asleep && self.crosses {
            cx.notify_others();
        }
    }

    fn pull(&mut self, _: &mut Context, _: usize, count: usize, frame: &mut Frame) {
        let mut core = self.core();
        let count = count.min(core.packets.len());
        for slot in core.packets.drain(..count) {
            let pushed = frame.push(slot);
            debug_assert!(pushed.is_ok(), "no more than there is room for");
        }
        core.asleep = count == 0;
    }

    fn room(&self) -> usize {
        let (held, capacity) = self.held();
        capacity.saturating_sub(held)
    }

    fn ready(&self) -> Option<usize> {
        Some(self.held().0)
    }

    fn take_state(&mut self, cx: &mut Context, old: &mut dyn Element) {
        let Some(old) = old.downcast_mut::<HeldQueue>() else { return };
        if Arc::ptr_eq(&self.core, &old.core) {
            // Only the configuration has been written to.
            self.core().capacity = self.capacity;
            return self.shrink(cx, self.capacity, Context::drop_frame);
        }
        let mut packets = {
            let mut from = old.core();
            let mut core = self.core();
            core.drops += std::mem::take(&mut from.drops);
            std::mem::take(&mut from.packets)
        };
        // They are older than packets that have arrived here since.
        let keep = {
            let mut core = self.core();
            packets.append(&mut core.packets);
            core.packets = packets;
            core.highwater = core.highwater.max(core.packets.len());
            core.capacity
        };
        self.shrink(cx, keep, reject_frame);
        cx.notify();
    }

    fn close(&mut self, cx: &mut Context) {
        let packets = {
            let mut core = self.core();
            // Another worker may still put packets in, which the queue that
            // replaces this one there takes.
            if core.users > 1 {
                return;
            }
            std::mem::take(&mut core.packets)
        };
        packets.into_iter().for_each(|slot| cx.pool.give_one(slot));
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        let core = self.core();
        match handler {
            "length" => Ok(core.packets.len().to_string()),
            "highwater_length" => Ok(core.highwater.to_string()),
            "capacity" => Ok(core.capacity.to_string()),
            "drops" => Ok(core.drops.to_string()),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        match handler {
            "reset_counts" => {
                let mut core = self.core();
                core.drops = 0;
                core.highwater = core.packets.len();
            }
            "reset" => self.shrink(cx, 0, reject_frame),
            "capacity" => {
                let capacity = capacity(parse_u32(value)).map_err(HandlerError::refused)?;
                self.core().capacity = capacity;
                self.shrink(cx, capacity, Context::drop_frame);
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

    #[test]
    fn the_oldest_makes_room() {
        let mut run = Run::new(
            "InfiniteSource(\\<0a>, LIMIT 7) -> q :: FrontDropQueue(5) -> u :: Unqueue(ACTIVE false) \
                -> out :: Collect; q [1] -> gone :: Collect; TimedSource(1ms, \\<0b>, LIMIT 3) -> q; \
                TimedSource(5ms, LIMIT 1) -> Counter(COUNT_CALL 1 u.active true) -> Discard; \
                TimedSource(1, LIMIT 0, STOP true) -> Discard",
        );
        run.run();
        assert_eq!(run.read("out.packets"), "0a\n0a\n0b\n0b\n0b");
        assert_eq!(run.read("gone.lengths").lines().count(), 5);
        assert_eq!((run.read("q.drops"), run.read("q.highwater_length")), ("5".into(), "5".into()));
        assert_eq!(run.output(), "q :: FrontDropQueue: overflow\n");
    }

    /// The packets it holds go back all the same when the run is over.
    #[test]
    fn a_configuration_that_is_not_taken_changes_nothing() {
        let mut run = Run::new(
            "InfiniteSource(LIMIT 7) -> q :: MixedQueue(5) -> Idle; Idle -> [1] q;
            TimedSource(1ms, LIMIT 1, STOP true) -> Discard",
        );
        run.run();
        assert!(run.write("q.config", "-1").is_err());
        assert_eq!(run.read("q.length"), "5");
    }

    /// The example of Click's manual.
    #[test]
    fn both_ends_take_packets() {
        let mut run = Run::new(
            "q :: MixedQueue(5); TimedSource(1ms, \\<0a>, LIMIT 1) -> q; \
                TimedSource(2ms, \\<0b>, LIMIT 1) -> q; TimedSource(3ms, \\<0c>, LIMIT 1) -> [1] q; \
                TimedSource(4ms, \\<0d>, LIMIT 1) -> q; TimedSource(5ms, \\<0e>, LIMIT 1) -> [1] q; \
                TimedSource(6ms, \\<0f>, LIMIT 1) -> q; TimedSource(7ms, \\<10>, LIMIT 1) -> [1] q; \
                q -> u :: Unqueue(ACTIVE false) -> out :: Collect; q [1] -> gone :: Collect; \
                TimedSource(9ms, LIMIT 1) -> Counter(COUNT_CALL 1 u.active true) -> Discard; \
                TimedSource(1, LIMIT 0, STOP true) -> Discard",
        );
        run.run();
        assert_eq!(run.read("out.packets"), "10\n0e\n0c\n0a\n0b");
        assert_eq!(run.read("gone.packets"), "0f\n0d");
    }

    #[test]
    fn a_smaller_capacity_drops_the_surplus() {
        let mut run = Run::new(
            "InfiniteSource(LIMIT 500) -> q :: FrontDropQueue -> Idle; \
                TimedSource(1, LIMIT 0, STOP true) -> Discard",
        );
        run.run();
        run.write("q.capacity", "30").unwrap();
        assert_eq!(
            (run.read("q.length"), run.read("q.config")),
            ("30".into(), "CAPACITY 30".into())
        );
        run.write("q.reset", "").unwrap();
        assert_eq!(run.read("q.length"), "0");
    }
}
