//! `AggregateLast`: passes the last packet of each aggregate.

use std::{collections::HashSet, hash::BuildHasherDefault, mem};

use linerate_graph::{
    Arg, Class, Context, DropReason, Element, ElementBuilder, Handler, HandlerError, HandlerResult,
    Next, NoBuffer, Rank,
};
use linerate_memory::{Frame, Slot};

use super::{
    FAMILY,
    notifiers::check_notifier,
    spread::{ByAggregate, Spread},
};
use linerate_element_support::{
    annotations::{
        aggregate, extra_length, extra_packets, first_time, set_extra_length, set_extra_packets,
        set_first_time,
    },
    run_end::RunEnd,
};

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    /// no buffer for a copy
    #[from(NoBuffer)]
    NoBuffer,
    /// not the last
    NotLast,
    /// too many packets held
    TooManyHeld,
}

/// Default of `CAPACITY`.
const CAPACITY: usize = 16384;

pub(super) const CLASS: Class = Class {
    name: "AggregateLast",
    family: FAMILY,
    summary: "passes the last packet of each aggregate",
    description: "It holds a packet of each aggregate until the next comes, which it holds \
        instead; the one before leaves by output 1, or is dropped where there is none. What is \
        held leaves by output 0 when the handler `clear` is written, in the order of the aggregates; \
        with a `NOTIFIER`, an AggregateIPFlows or AggregateIPAddrPair, that of an aggregate also leaves once \
        it has ended: before the next packet, or, where the notifier is on another worker, when this one has \
        handled the packets that wait for it. Each of several workers is notified of the aggregates that are \
        numbered on it.\n\n\
        The packet stands for all of its aggregate: its annotations say how many other packets and \
        bytes there were, and when the first came.\n\n\
        Of more than `CAPACITY` aggregates none is held: their packets are dropped.",
    ports: "1/1-2",
    processing: "h/h",
    args: &[
        Arg::keyword("NOTIFIER", "element", "", "what says that aggregates have ended"),
        Arg::keyword("STOP_AFTER_CLEAR", "bool", "false", "whether the run ends after clear"),
        Arg::keyword("CAPACITY", "packets", "16384", "most packets held").holds(),
    ],
    handlers: &[Handler::button("clear", "sends on all that is held")],
    annotates: true,
    drops: Reason::REASONS,
    // All held packets may leave at once.
    multiplies: |_, _, _| usize::MAX,
    observes_state_of: |plan, at| plan.elements_named(at, &["NOTIFIER"]),
    // The last packet depends on the order of packets that come by different paths.
    shows_order: |plan, at| plan.has_several_sources(at) || plan.has_several_ways_from("Tee", at),
    cost: "A look-up in a hash table, and lines of annotations of two packets.",
    example: "FromIPSummaryDump(STOP true, FIELDS ip_dst, DATA \"1.2.3.4\") \
        -> AggregateIP(ip dst) -> l :: AggregateLast -> Discard; \
        DriverManager(wait_stop, write l.clear, wait 1ms);",
    make: |make| Box::new(AggregateLast::new(make)),
    ..Class::here()
};

pub(super) struct AggregateLast {
    stops: bool,
    run_end: RunEnd,
    capacity: usize,
    held: ByAggregate<Slot>,
    /// Aggregates that have ended and whose packets are still held.
    ended: Vec<u32>,
    /// Likewise, of another worker's notifier: packets of these may still be on their way.
    ended_elsewhere: Vec<u32>,
    /// Aggregates of that worker whose packets have left last.
    recent: HashSet<u32, BuildHasherDefault<Spread>>,
    /// Whether all held packets are to be flushed.
    clears: bool,
    /// Scratch vector, kept for its capacity.
    slots: Vec<Slot>,
}

impl AggregateLast {
    fn new(make: &mut ElementBuilder<'_>) -> AggregateLast {
        let notifier = make.get("NOTIFIER");
        check_notifier(make, notifier);
        AggregateLast {
            stops: make.or("STOP_AFTER_CLEAR", false),
            run_end: RunEnd::new(make),
            capacity: make.or("CAPACITY", CAPACITY),
            held: ByAggregate::default(),
            ended: Vec::new(),
            ended_elsewhere: Vec::new(),
            recent: HashSet::default(),
            clears: false,
            slots: Vec::new(),
        }
    }

    /// Marks aggregates as ended; they are flushed before the next packet, or by the task.
    pub(super) fn have_ended(&mut self, aggregates: &[u32]) {
        self.ended.extend_from_slice(aggregates);
    }

    /// Marks aggregates as ended whose last packets may be on their way from another worker; they
    /// are flushed when this worker has nothing to do.
    pub(super) fn have_ended_elsewhere(&mut self, cx: &mut Context, aggregates: &[u32]) {
        if self.ended_elsewhere.is_empty() {
            cx.when_idle();
        }
        self.ended_elsewhere.extend_from_slice(aggregates);
    }

    /// Flushes ended aggregates, and after `clear` all, ahead of the packet of that rank if there
    /// is one. Returns the number of packets sent.
    fn settle(&mut self, cx: &mut Context, rank: Rank) -> usize {
        let mut sent = 0;
        let mut send = |slot: Slot, cx: &mut Context| {
            cx.take_part(&slot, rank, sent);
            cx.out.emit(0, slot);
            sent += 1;
        };
        for aggregate in self.ended.drain(..) {
            if let Some(slot) = self.held.remove(&aggregate) {
                send(slot, cx);
            }
        }
        if mem::take(&mut self.clears) {
            let mut all: Vec<(u32, Slot)> = self.held.drain().collect();
            all.sort_unstable_by_key(|(aggregate, _)| *aggregate);
            all.into_iter().for_each(|(_, slot)| send(slot, cx));
            if self.stops {
                self.run_end.ask_for_all(cx);
            }
        }
        sent
    }

    /// Holds a packet in place of its aggregate's earlier one, which leaves or is dropped.
    #[inline]
    fn hold(&mut self, cx: &mut Context, mut slot: Slot, rank: Rank, part: usize) {
        let arena = cx.pool.arena();
        let aggregate = aggregate(arena.meta(&slot));
        if !self.held.contains_key(&aggregate) {
            if self.held.len() >= self.capacity {
                return cx.drop_packet(slot, Reason::TooManyHeld);
            }
            if let Some(meta) = arena.meta_mut(&mut slot) {
                set_first_time(meta, meta.timestamp);
            }
            self.held.insert(aggregate, slot);
            if !self.recent.is_empty() && self.recent.contains(&aggregate) {
                self.have_ended_elsewhere(cx, &[aggregate]);
            }
            return;
        }
        let Some(place) = self.held.get_mut(&aggregate) else { return };
        let (length, before) = (place.len() as u32, *arena.meta(place));
        if let Some(meta) = arena.meta_mut(&mut slot) {
            let packets = extra_packets(meta).wrapping_add(1).wrapping_add(extra_packets(&before));
            set_extra_packets(meta, packets);
            let bytes = extra_length(meta).wrapping_add(length).wrapping_add(extra_length(&before));
            set_extra_length(meta, bytes);
            set_first_time(meta, first_time(&before));
        }
        let earlier = mem::replace(place, slot);
        if cx.out.count() > 1 {
            cx.take_part(&earlier, rank, part);
            cx.out.emit(1, earlier);
        } else {
            cx.drop_packet(earlier, Reason::NotLast);
        }
    }
}

impl Element for AggregateLast {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        cx.unshare::<Reason>(frame);
        let mut slots = mem::take(&mut self.slots);
        frame.drain_front(frame.len(), |slot| slots.push(slot));
        for slot in slots.drain(..) {
            let rank = cx.rank_of(&slot);
            let sent = self.settle(cx, rank);
            self.hold(cx, slot, rank, sent);
        }
        self.slots = slots;
    }

    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        cx.schedule();
        Ok(())
    }

    fn run(&mut self, cx: &mut Context, _: &mut Frame) -> Next {
        self.settle(cx, Rank::default());
        Next::Sleep
    }

    /// Flushes aggregates of another worker's notifier. Packets of these that come later are
    /// flushed the next time: where there always is something to do, this comes before all have
    /// come.
    fn idle(&mut self, cx: &mut Context) {
        self.recent.clear();
        for aggregate in self.ended_elsewhere.drain(..) {
            self.recent.insert(aggregate);
            if let Some(slot) = self.held.remove(&aggregate) {
                cx.out.emit(0, slot);
            }
        }
    }

    fn take_state(&mut self, cx: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<AggregateLast>() {
            self.held = mem::take(&mut old.held);
            self.ended = mem::take(&mut old.ended);
            self.recent = mem::take(&mut old.recent);
            self.have_ended_elsewhere(cx, &old.ended_elsewhere);
            self.clears = old.clears;
        }
    }

    fn close(&mut self, cx: &mut Context) {
        for (_, slot) in self.held.drain() {
            cx.pool.give_one(slot);
        }
    }

    fn write(&mut self, cx: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "clear" => {
                self.clears = true;
                cx.schedule();
            }
            _ => return Err(HandlerError::missing(handler)),
        }
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use linerate_elements_testing::Scratch;

    use crate::testing::Run;

    const PACKETS: &str = "1 5 30\n2 1 31\n3 5 32\n4 4294967295 33\n5 5 34\n6 1 35\n7 0 36";

    #[test]
    fn the_last_of_each_leaves_when_all_is_cleared() {
        let scratch = Scratch::new("aggregate-last");
        let out = scratch.path("out");
        for frame_limit in [1, 2, 7, 256] {
            let mut run = Run::new(&format!(
                "FromIPSummaryDump(STOP true, FIELDS timestamp aggregate ip_len, DATA \"{PACKETS}\")
                    -> l :: AggregateLast -> b :: AggregateCounter(BYTES true)
                    -> ToIPSummaryDump({out}, HEADER false, FIELDS aggregate count first_timestamp ip_len);
                 l [1] -> e :: Collect;
                 DriverManager(wait_stop, print l.drops, write l.clear, wait 1ms)"
            ))
            .frame_limit(frame_limit);
            run.run();
            assert_eq!(run.read("e.lengths"), "30\n32\n31");
            assert_eq!(run.read("b.count"), (30..=36).sum::<u32>().to_string(), "bytes");
            run.close();
            assert_eq!(
                fs::read_to_string(&out).unwrap(),
                "0 1 7.000000 36\n1 2 2.000000 35\n5 3 1.000000 34\n4294967295 1 4.000000 33\n"
            );
        }
    }

    #[test]
    fn others_are_dropped() {
        let mut run = Run::new(
            "FromIPSummaryDump(STOP true, FIELDS aggregate, DATA \"1\n2\n1\n3\n3\n2\")
                -> l :: AggregateLast(CAPACITY 2, STOP_AFTER_CLEAR true) -> c :: Collect;
             DriverManager(wait_stop, write l.clear, wait_stop)",
        );
        run.run();
        assert_eq!(run.read("c.lengths").lines().count(), 2);
        let drops = run.read("l.drops");
        assert!(drops.ends_with("2\tnot the last\n2\ttoo many packets held\n"), "{drops}");
    }

    /// Held packets leave in front of the packet by which their aggregate is known to have ended.
    #[test]
    fn the_last_of_an_aggregate_leaves_when_it_has_ended() {
        let packets = "1 1.0.0.1 1.0.0.2 31\n2 1.0.0.2 1.0.0.1 32\n3 1.0.0.1 1.0.0.3 33\n\
            20 1.0.0.1 1.0.0.2 34\n21 1.0.0.3 1.0.0.1 35\n21 1.0.0.7 1.0.0.1 36\n\
            60 1.0.0.8 1.0.0.1 37";
        for (arguments, passed) in [
            ("TIMEOUT 10", "32\n33\n34\n35\n36\n37"),
            ("TIMEOUT 10, REAP 1", "32\n33\n34\n35\n36\n37"),
        ] {
            for frame_limit in [1, 2, 7, 256] {
                let mut run = Run::new(&format!(
                    "FromIPSummaryDump(STOP true, FIELDS timestamp ip_src ip_dst ip_len,
                            DATA \"{packets}\")
                        -> n :: AggregateIPAddrPair({arguments})
                        -> l :: AggregateLast(NOTIFIER n) -> c :: Collect;
                     DriverManager(wait_stop, print c.lengths, write l.clear, wait 1ms)"
                ))
                .frame_limit(frame_limit);
                run.run();
                assert_eq!(run.read("c.lengths"), passed, "{arguments}");
                let before =
                    if arguments.contains("REAP") { "32\n33\n34\n35\n36" } else { "32\n33" };
                assert_eq!(run.output().trim_end(), before, "{arguments} {frame_limit}");
            }
        }
    }

    /// Behind a queue that another worker empties.
    #[test]
    fn a_notifier_may_be_on_another_worker() {
        let packets = "1 1.0.0.1 1.0.0.2 31\n2 1.0.0.2 1.0.0.1 32\n3 1.0.0.1 1.0.0.3 33\n\
            20 1.0.0.1 1.0.0.2 34\n21 1.0.0.3 1.0.0.1 35\n60 1.0.0.8 1.0.0.1 36";
        for frame_limit in [1, 256] {
            let mut run = Run::new(&format!(
                "i :: FromIPSummaryDump(FIELDS timestamp ip_src ip_dst ip_len, DATA \"{packets}\")
                    -> n :: AggregateIPAddrPair(TIMEOUT 10, REAP 1) -> Queue -> u :: Unqueue
                    -> l :: AggregateLast(NOTIFIER n) -> c :: Counter(COUNT_CALL 4 stop)
                    -> o :: Collect; StaticThreadSched(i 0, u 1); Script(wait 20s, stop)"
            ))
            .workers(2)
            .frame_limit(frame_limit);
            run.run();
            let mut lengths: Vec<String> =
                run.read("o.lengths").lines().map(str::to_owned).collect();
            lengths.sort();
            assert_eq!(lengths, ["32", "33", "34", "35"], "{frame_limit}");
        }
    }

    /// A flow that restarts after its timeout ends the aggregate before.
    #[test]
    fn flows_say_when_they_end() {
        for frame_limit in [1, 2, 7, 256] {
            let mut run = Run::new(
                "FromIPSummaryDump(STOP true, FIELDS timestamp ip_src sport ip_dst dport ip_proto \
                        ip_id, DATA \"1 1.0.0.1 5 1.0.0.2 6 U 41\n2 1.0.0.2 6 1.0.0.1 5 U 42\n\
                        3 1.0.0.1 7 1.0.0.2 6 U 43\n100 1.0.0.1 5 1.0.0.2 6 U 44\")
                    -> n :: AggregateIPFlows -> l :: AggregateLast(NOTIFIER n) -> c :: Collect;
                 DriverManager(wait_stop)",
            )
            .frame_limit(frame_limit);
            run.run();
            let packets = run.read("c.packets");
            let idents: Vec<&str> = packets.lines().map(|packet| &packet[8..12]).collect();
            assert_eq!(idents, ["002a"]);
        }
    }

    /// The error messages are those of Click.
    #[test]
    fn a_notifier_must_be_one() {
        let errors = Run::errors("Idle -> AggregateLast(NOTIFIER d) -> d :: Discard");
        assert!(errors.ends_with("\n  d is not an AggregateNotifier\n"), "{errors}");
    }
}
