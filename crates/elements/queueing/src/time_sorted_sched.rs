//! `TimeSortedSched`: pulls the packet with the earliest time stamp of all inputs.

use std::{cmp::Reverse, collections::BinaryHeap};

use linerate_graph::{
    Arg, Class, Context, Element, ElementBuilder, Handler, HandlerError, HandlerResult,
};
use linerate_memory::{Frame, Slot};

use super::{FAMILY, TIMER};

pub(super) const CLASS: Class = Class {
    name: "TimeSortedSched",
    family: FAMILY,
    summary: "merges inputs in the order of time stamps",
    description: "Each packet pulled is the earliest of the first `BUFFER` packets of all inputs. \
        Inputs that are sorted become one sorted stream; a larger `BUFFER` sorts what is slightly \
        out of order. `STOP true` asks for the end of the run when no input has packets any more.",
    ports: "-/1",
    processing: "l/l",
    args: &[
        Arg::keyword("STOP", "bool", "false", "whether the end of all inputs ends the run"),
        Arg::keyword("BUFFER", "packets", "1", "packets per input among which it chooses"),
    ],
    handlers: &[
        Handler::read("well_ordered", "whether every packet was later than the last").flags("c")
    ],
    annotates: true,
    cost: "Every input is asked once for a frame of packets and again when they are used up; a \
        heap of the inputs' first packets costs a few comparisons per packet. Up to a frame per \
        input is held.",
    example: "InfiniteSource(LIMIT 5) -> a :: Queue; InfiniteSource(LIMIT 5) -> b :: Queue; \
        a, b => TimeSortedSched -> Unqueue -> Counter(COUNT_CALL 10 stop) -> Discard;",
    make: |make| Box::new(TimeSorted::new(make)),
    ..Class::here()
};

/// Times it looks for packets in vain before the inputs count as ended: before
/// the first of them have run there is nothing either.
const LOOKS: u32 = 8;

struct TimeSorted {
    inputs: Vec<Input>,
    /// The earliest first: stamp, order of arrival, place in `packets`.
    heap: BinaryHeap<Reverse<(u64, u64, u32)>>,
    /// Packets of the heap with their inputs, and places that are free.
    packets: Vec<Option<(Slot, u32)>>,
    free: Vec<u32>,
    /// Packets an input may have in the heap.
    buffer: usize,
    arrivals: u64,
    stop: bool,
    looks: u32,
    last: u64,
    well_ordered: bool,
}

struct Input {
    /// Packets pulled that are not in the heap, last first.
    staged: Frame,
    /// Packets it has in the heap.
    entered: usize,
    /// Whether more may be pulled than it lacks: no element looks at how many a source has given.
    ahead: bool,
}

impl TimeSorted {
    fn new(make: &mut ElementBuilder<'_>) -> TimeSorted {
        let buffer: i32 = make.or("BUFFER", 1);
        if buffer <= 0 {
            make.error("BUFFER must be at least 1");
        }
        let limit = make.world.frame_limit;
        let elements = &make.plan().elements;
        let inputs = elements[make.element()].sources.iter().map(|sources| {
            let first = sources.first().map(|source| &elements[source.element]);
            let ahead = first.is_some_and(|first| first.inputs.is_empty());
            Input { staged: Frame::new(limit), entered: 0, ahead }
        });
        TimeSorted {
            inputs: inputs.collect(),
            heap: BinaryHeap::new(),
            packets: Vec::new(),
            free: Vec::new(),
            buffer: buffer.max(1) as usize,
            arrivals: 0,
            stop: make.or("STOP", false),
            looks: 0,
            last: 0,
            well_ordered: true,
        }
    }

    /// Puts packets of an input in the heap until it has as many there as it may.
    /// `false` when there were not enough.
    fn offer(&mut self, cx: &mut Context, at: usize, most: usize) -> bool {
        while let input = &mut self.inputs[at]
            && input.entered < self.buffer
        {
            if input.staged.is_empty() {
                let missing = self.buffer - input.entered;
                let count = if input.ahead { most } else { missing };
                if cx.pull(at, count, &mut input.staged) == 0 {
                    return false;
                }
                input.staged.slots_mut().reverse();
            }
            let Some(slot) = input.staged.pop() else { return false };
            input.entered += 1;
            self.enter(cx, slot, at);
        }
        true
    }

    /// Puts a packet in the heap.
    fn enter(&mut self, cx: &Context, slot: Slot, input: usize) {
        let stamp = cx.arena().meta(&slot).timestamp;
        let packet = Some((slot, input as u32));
        let place = match self.free.pop() {
            Some(place) => {
                self.packets[place as usize] = packet;
                place
            }
            None => {
                self.packets.push(packet);
                self.packets.len() as u32 - 1
            }
        };
        self.arrivals += 1;
        self.heap.push(Reverse((stamp, self.arrivals, place)));
    }

    /// The earliest packet, and its input if that is still there.
    fn take(&mut self) -> Option<(Slot, Option<usize>)> {
        let Reverse((stamp, _, place)) = self.heap.pop()?;
        self.free.push(place);
        let (slot, input) = self.packets[place as usize].take()?;
        if stamp != 0 {
            self.well_ordered &= stamp >= self.last;
            self.last = stamp;
        }
        let input = input as usize;
        let at = self.inputs.get_mut(input).map(|of| {
            of.entered -= 1;
            input
        });
        Some((slot, at))
    }
}

impl Element for TimeSorted {
    fn pull(&mut self, cx: &mut Context, _: usize, count: usize, frame: &mut Frame) {
        for input in (0..self.inputs.len()).rev() {
            self.offer(cx, input, count);
        }
        while frame.len() < count {
            let Some((slot, input)) = self.take() else { break };
            let pushed = frame.push(slot);
            debug_assert!(pushed.is_ok(), "no more than there is room for");
            // Before others go on without it, more may come of an input that has just
            // been used up.
            if let Some(input) = input.filter(|_| frame.len() < count)
                && !self.offer(cx, input, count)
            {
                break;
            }
        }
        if !self.stop {
            return;
        }
        if !frame.is_empty() {
            self.looks = 0;
        } else if self.looks < LOOKS {
            self.looks += 1;
            cx.set_timer(TIMER, cx.steady());
        } else {
            cx.driver.stop();
        }
    }

    fn timer(&mut self, cx: &mut Context, _: u32, _: &mut Frame) {
        cx.notify();
    }

    fn take_state(&mut self, cx: &mut Context, old: &mut dyn Element) {
        let Some(old) = old.downcast_mut::<TimeSorted>() else { return };
        std::mem::swap(&mut self.heap, &mut old.heap);
        std::mem::swap(&mut self.packets, &mut old.packets);
        std::mem::swap(&mut self.free, &mut old.free);
        self.arrivals = old.arrivals;
        (self.last, self.well_ordered) = (old.last, old.well_ordered);
        for (at, old) in old.inputs.iter_mut().enumerate() {
            match self.inputs.get_mut(at) {
                Some(new) => {
                    std::mem::swap(&mut new.staged, &mut old.staged);
                    new.entered = old.entered;
                }
                // This input is not pulled any more: its packets go in turn.
                None => {
                    while let Some(slot) = old.staged.pop() {
                        self.enter(cx, slot, at);
                    }
                }
            }
        }
        cx.notify();
    }

    fn close(&mut self, cx: &mut Context) {
        self.inputs.iter_mut().for_each(|input| cx.discard(&mut input.staged));
        self.heap.clear();
        for (slot, _) in self.packets.drain(..).flatten() {
            cx.pool.give_one(slot);
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "well_ordered" => Ok(self.well_ordered.to_string()),
            _ => Err(HandlerError::missing(handler)),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    #[test]
    fn streams_become_one_in_the_order_of_time() {
        let mut run = Run::new(
            "TimedSource(3ms, \\<0a>, LIMIT 40) -> a :: Queue; \
                TimedSource(5ms, \\<0b>, LIMIT 20) -> b :: Queue; \
                a, b => t :: TimeSortedSched -> u :: Unqueue(ACTIVE false) -> out :: Collect; \
                TimedSource(1, LIMIT 1) -> Counter(COUNT_CALL 1 u.active true) -> Discard; \
                TimedSource(2, LIMIT 0, STOP true) -> Discard",
        );
        run.run();
        let packets = run.read("out.packets");
        let mut expected: Vec<(u32, &str)> = (1..=40).map(|at| (at * 3, "0a")).collect();
        expected.extend((1..=20).map(|at| (at * 5, "0b")));
        // Of two packets of one time, the last input's comes first, being
        // asked first.
        expected.sort_by_key(|(at, of)| (*at, u8::from(*of == "0a")));
        let times: Vec<&str> = expected.iter().map(|(_, of)| *of).collect();
        assert_eq!(run.read("t.well_ordered"), "true");
        assert_eq!(packets.lines().filter(|line| *line == "0a").count(), 40);
        // Equal stamps may go either way.
        let ties: Vec<usize> = (0..60).filter(|at| expected[*at].0.is_multiple_of(15)).collect();
        for (at, line) in packets.lines().enumerate().filter(|(at, _)| !ties.contains(at)) {
            assert_eq!(line, times[at], "{at}");
        }
    }

    #[test]
    fn the_end_of_all_inputs_ends_the_run() {
        let mut run = Run::new(
            "InfiniteSource(LIMIT 100) -> a :: Queue; InfiniteSource(LIMIT 700) -> b :: Queue; \
                a, b => TimeSortedSched(STOP true) -> d :: Discard",
        );
        run.run();
        assert_eq!(run.read("d.count"), "800");
        let errors = Run::errors("Idle -> TimeSortedSched(BUFFER 0) -> Discard");
        assert!(errors.contains("BUFFER must be at least 1"), "{errors}");
    }
}
