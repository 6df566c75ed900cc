//! Rewriter: the element of all classes of rewriters.

use std::{marker::PhantomData, sync::Arc};

use linerate_graph::{
    Annotation, Context, DropReason, Element, ElementBuilder, Handler, HandlerError, HandlerResult,
    Scope,
};
use linerate_memory::{Arena, Frame, Meta, Slot};
use linerate_packet::IpProtocol;
use linerate_tables::exact::Entry;

use super::{
    arguments::wanted,
    batch_state::{BatchState, DROP, Reason, destination_key, read_flow},
    flow_set::{FlowSet, Rewriting, Unmapped},
    handlers,
    locks::{alone, locked, shared},
    mapping::{Mapping, flags},
    names::Names,
    registry::{CapacitySpec, Registry, RewriterHandle as Home},
    rewrite::{Event, rewrite, shown},
    rewriter_type::{PacketFlow, RewriterKind, RewriterType},
    seq_adjust,
    spec::{Action, Spec},
    times::{AllTimes, milliseconds},
};
use linerate_element_support::annotation_byte::Byte;

/// Flows looked at in one go when those that have ended are removed.
const REAP: usize = 4096;
/// Packets done in one go when one needs the flows to itself: where many do, each would else wait for
/// the others' frames.
const TRAIN: usize = 16;
/// The timer that removes them.
const REAPER: u32 = 0;

/// A rewriter on one worker. The flows are all workers'.
pub(super) struct Rewriter<F> {
    registry: Arc<Registry>,
    names: Arc<Names>,
    home: Option<Home>,
    /// Configuration to install when all have been made.
    new: Option<Rewriting>,
    capacity: Option<usize>,
    /// Silent for longer than this in one direction, a flow may have ended: milliseconds.
    shortest: u64,
    /// Milliseconds, 0 for never.
    reap: u64,
    reaps: bool,
    seed: Option<u64>,
    annotate: bool,
    reply_anno: Option<Byte>,
    batch: BatchState,
    flavour: PhantomData<F>,
}

impl<F: RewriterType> Rewriter<F> {
    /// From the arguments all rewriters have; the times are the class's.
    pub(super) fn new(make: &mut ElementBuilder<'_>, times: AllTimes) -> Rewriter<F> {
        let registry = make.world.common::<Registry>();
        let names = make.world.common::<Names>();
        let capacity = wanted(make);
        let mut reap = 900_000;
        for name in ["REAP_INTERVAL", "REAP_TIME"] {
            reap = milliseconds(make, name).unwrap_or(reap);
        }
        let has = |make: &ElementBuilder<'_>, name: &str| {
            let args = make.plan().elements[make.element()].class.args;
            args.iter().any(|arg| arg.name == name)
        };
        let annotate = !has(make, "DST_ANNO") || make.or("DST_ANNO", true);
        let reply_anno = make.get::<Annotation<1>>("REPLY_ANNO").map(|anno| {
            Byte::from_annotation(anno).unwrap_or_else(|| {
                make.error(format!("REPLY_ANNO: no room for byte {}", anno.offset));
                Byte::PAINT
            })
        });
        let (texts, outputs) = (make.rest(), make.outputs());
        let mut specs = Vec::new();
        if texts.len() == make.inputs() {
            for (number, text) in texts.iter().enumerate() {
                let scope =
                    Scope { plan: make.plan(), names: &make.world.names, name: make.name() };
                let spec = Spec::parse(text, number, outputs, &scope, &names);
                specs.push(spec.unwrap_or_else(|error| {
                    make.error(error);
                    Spec::stand_in()
                }));
            }
        } else if capacity.is_some() {
            make.error(format!("need {} arguments, one per input port", make.inputs()));
        }
        let wanted = capacity.unwrap_or(CapacitySpec::Flows(0));
        registry.declare(make.element(), wanted);
        let capacity = match wanted {
            CapacitySpec::Flows(flows) => Some(flows),
            CapacitySpec::SharedWith(_) => None,
        };
        Rewriter {
            registry,
            names,
            home: None,
            new: Some(Rewriting { kind: F::KIND, times, specs, outputs }),
            capacity,
            shortest: times.shortest(),
            reap,
            reaps: make.replica().index == 0,
            seed: make.world.simulated.then_some(make.element() as u64),
            annotate,
            reply_anno,
            batch: BatchState::default(),
            flavour: PhantomData,
        }
    }

    /// Returns the flow set it works with; after a replacement, that of the successor.
    fn home(&mut self) -> Option<&Home> {
        let home = self.home.as_mut()?;
        let successor = shared(&home.set).successor.clone();
        if let Some(successor) = successor {
            home.set = successor;
        }
        Some(home)
    }
}

/// A frame at work.
struct Work<'a> {
    arena: &'a Arena,
    slots: &'a mut [Slot],
    outputs: Vec<u32>,
    /// Packets that are done.
    done: usize,
    /// The set's count of [removals](FlowSet::removals) when the frame was looked up, where it is
    /// still that set.
    removals: Option<u64>,
    input: usize,
    now: u64,
}

impl<F: RewriterType> Rewriter<F> {
    /// Rewrites the packets of a frame. Other workers have the flows, too, as long as packets change
    /// nothing of theirs but when they were last used.
    fn rewrite(&mut self, home: &mut Home, work: &mut Work<'_>) {
        let mut looked_up = false;
        loop {
            let set = shared(&home.set);
            if let Some(successor) = set.successor.clone() {
                drop(set);
                home.set = successor;
                work.removals = None;
                continue;
            }
            if !looked_up {
                self.batch.look_up(F::KIND, &set, work.arena, work.slots);
                (looked_up, work.removals) = (true, Some(set.removals));
            }
            self.steadily(&set, work);
            drop(set);
            if work.done == work.slots.len() {
                return;
            }
            let mut set = alone(&home.set);
            if set.successor.is_none() {
                self.alone(&mut set, home.rewriter, work);
            }
        }
    }

    /// Up to the first packet that changes more of a flow, or begins one.
    #[inline(always)]
    fn steadily(&mut self, set: &FlowSet, work: &mut Work<'_>) {
        while let Some(slot) = work.slots.get_mut(work.done) {
            let found = self.found(set, work.removals, work.done);
            let output = found
                .and_then(|entry| self.steady(set, work.arena, slot, entry, work.done, work.now));
            let Some(output) = output else { return };
            work.outputs[work.done] = output;
            work.done += 1;
        }
    }

    /// A few packets, the first of which needs the flows to itself.
    #[cold]
    #[inline(never)]
    fn alone(&mut self, set: &mut FlowSet, rewriter: u16, work: &mut Work<'_>) {
        let (input, now) = (work.input, work.now);
        let last = work.slots.len().min(work.done + TRAIN);
        for at in work.done..last {
            let slot = &mut work.slots[at];
            work.outputs[at] = match self.found(set, work.removals, at) {
                Some(entry) => self.one(set, rewriter, work.arena, slot, entry, (input, at), now),
                None => self.new_flow(set, rewriter, work.arena, slot, (input, at), now),
            };
        }
        work.done = last;
    }

    /// The entry that was found for a packet, as long as it is its flow's.
    #[inline(always)]
    fn found(&self, set: &FlowSet, removals: Option<u64>, at: usize) -> Option<Entry> {
        let found = self.batch.found[at]?;
        let same =
            removals == Some(set.removals) || set.table.key(found) == Some(&self.batch.keys[at]);
        same.then_some(found)
    }

    /// Rewrites one packet and returns its output, if it changes nothing of its flow but when that was
    /// last used.
    #[inline(always)]
    fn steady(
        &self,
        set: &FlowSet,
        arena: &Arena,
        slot: &mut Slot,
        entry: Entry,
        at: usize,
        now: u64,
    ) -> Option<u32> {
        let mapping = set.table.get(entry)?;
        if now.saturating_sub(mapping.last.get()) > self.shortest || mapping.shift != 0 {
            return None;
        }
        let mut packet = arena.writable(slot)?;
        let (packet, meta) = packet.parts();
        let place = self.batch.places[at];
        if shown(F::KIND, packet, place, mapping).event != Event::None {
            return None;
        }
        mapping.last.set(now);
        rewrite(F::KIND, packet, place, mapping);
        self.annotate(meta, mapping);
        Some(mapping.output)
    }

    /// Annotates a packet about its flow, for elements behind.
    #[inline(always)]
    fn annotate(&self, meta: &mut Meta, mapping: &Mapping) {
        let reply = mapping.is_reply();
        if self.annotate && (F::KIND != RewriterKind::Address || reply) {
            meta.destination[..4].copy_from_slice(&mapping.to.dst.octets());
        }
        if let Some(byte) = self.reply_anno.filter(|_| reply) {
            byte.set(meta, mapping.reply_anno);
        }
    }

    /// Rewrites one packet; returns its output. A flow that has ended by now counts for nothing, as
    /// if it had been removed already.
    #[allow(clippy::too_many_arguments, reason = "a packet, its flow, and where both are")]
    fn one(
        &mut self,
        set: &mut FlowSet,
        rewriter: u16,
        arena: &Arena,
        slot: &mut Slot,
        entry: Entry,
        (input, at): (usize, usize),
        now: u64,
    ) -> u32 {
        let place = self.batch.places[at];
        let silent =
            set.table.get(entry).map_or(0, |mapping| now.saturating_sub(mapping.last.get()));
        if silent > self.shortest && set.has_ended(entry, now) {
            set.remove(entry);
            return self.new_flow(set, rewriter, arena, slot, (input, at), now);
        }
        let Some(mapping) = set.table.get_mut(entry) else {
            return self.batch.drop(Reason::Failed);
        };
        mapping.last.set(now);
        let Some(mut packet) = arena.writable(slot) else {
            return self.batch.drop(Reason::NoBuffer);
        };
        let (packet, meta) = packet.parts();
        let shown = shown(F::KIND, packet, place, mapping);
        mapping.learn(shown);
        rewrite(F::KIND, packet, place, mapping);
        self.annotate(meta, mapping);
        let (output, shift, reply) = (mapping.output, mapping.shift, mapping.is_reply());
        if shift != 0 {
            seq_adjust::apply(set, packet, place, shift, reply);
        }
        if shown.event != Event::None {
            happened(set, entry, shown.event);
        }
        output
    }

    /// A packet without a mapping when the frame was looked up.
    #[cold]
    #[inline(never)]
    fn new_flow(
        &mut self,
        set: &mut FlowSet,
        rewriter: u16,
        arena: &Arena,
        slot: &mut Slot,
        (input, at): (usize, usize),
        now: u64,
    ) -> u32 {
        let (_, flow) = read_flow(F::KIND, arena.packet(slot), arena.network(slot));
        let (ends, map, may_begin) = match flow {
            PacketFlow::Flow(ends, map) => (ends, map, true),
            PacketFlow::Answer(ends) => (ends, IpProtocol::ICMP, false),
            PacketFlow::Other => return self.unmapped(set, rewriter, input),
        };
        // A packet before this one may have begun it.
        let mut found = set.find(rewriter, map, ends);
        if found.is_none() && F::KIND == RewriterKind::Address {
            let key = ends.key(rewriter, map);
            let other = destination_key(arena.packet(slot), self.batch.places[at], key);
            found = set.table.lookup(&other);
        }
        if let Some(entry) = found {
            return self.one(set, rewriter, arena, slot, entry, (input, at), now);
        }
        if !may_begin {
            return self.unmapped(set, rewriter, input);
        }
        let network = usize::from(self.batch.places[at].network);
        let protocol = IpProtocol(arena.packet(slot).get(network + 9).copied().unwrap_or(0));
        match set.establish(rewriter, input, map, protocol, ends, now) {
            Ok((entry, first)) => {
                if let Some(byte) = self.reply_anno {
                    let anno = byte.get(arena.meta(slot));
                    let peer = set.table.get(entry).map(|mapping| mapping.peer);
                    for entry in [Some(entry), peer].into_iter().flatten() {
                        if let Some(mapping) = set.table.get_mut(entry) {
                            mapping.reply_anno = anno;
                        }
                    }
                }
                let output = self.one(set, rewriter, arena, slot, entry, (input, at), now);
                set.begun(entry);
                if output < DROP { first } else { output }
            }
            Err(Unmapped::Pass(output)) => output,
            Err(Unmapped::Drop) => self.batch.drop(Reason::Specified),
            Err(Unmapped::Failed) => self.batch.drop(Reason::Failed),
        }
    }

    /// A packet that begins no flow.
    fn unmapped(&mut self, set: &FlowSet, rewriter: u16, input: usize) -> u32 {
        match set.rewriters[usize::from(rewriter)].specs.get(input).map(|spec| &spec.action) {
            Some(Action::NoChange(output)) => *output,
            _ => self.batch.drop(Reason::NotRewritten),
        }
    }

    /// Sends the packets where they belong.
    fn send(&mut self, cx: &mut Context, frame: &mut Frame) {
        let BatchState { outputs, dropped, .. } = &mut self.batch;
        if *dropped == [0; Reason::REASONS.len()] {
            return cx.out.distribute(frame, outputs);
        }
        let mut places = outputs.iter();
        let Context { pool, out, .. } = cx;
        frame.drain_front(frame.len(), |slot| match places.next() {
            Some(&output) if output < DROP => out.emit(output as usize, slot),
            _ => pool.give_one(slot),
        });
        cx.count_drops_by_reason::<Reason>(&std::mem::take(dropped));
    }
}

/// Something has happened to a flow that may make it end sooner.
#[cold]
fn happened(set: &mut FlowSet, entry: Entry, event: Event) {
    if event == Event::Reset
        && let Some(peer) = set.table.get(entry).map(|mapping| mapping.peer)
        && let Some(mapping) = set.table.get_mut(peer)
    {
        mapping.flags |= flags::DONE;
        if mapping.is_both() {
            mapping.flags |= flags::DONE << flags::FIRST;
        }
    }
    set.reschedule_flow(entry);
}

fn milliseconds_now(cx: &Context) -> u64 {
    cx.steady() / 1_000_000
}

impl<F: RewriterType> Element for Rewriter<F> {
    fn push(&mut self, cx: &mut Context, port: usize, frame: &mut Frame) {
        cx.unshare::<Reason>(frame);
        let now = milliseconds_now(cx);
        let Some(mut home) = self.home.take() else {
            return cx.drop_frame(frame, Reason::Failed);
        };
        let arena = cx.pool.arena();
        self.batch.read::<F>(home.rewriter, arena, frame);
        let mut outputs = std::mem::take(&mut self.batch.outputs);
        outputs.resize(frame.len(), DROP);
        let slots = frame.slots_mut();
        let mut work = Work { arena, slots, outputs, done: 0, removals: None, input: port, now };
        self.rewrite(&mut home, &mut work);
        self.batch.outputs = work.outputs;
        self.home = Some(home);
        self.send(cx, frame);
    }

    fn timer(&mut self, cx: &mut Context, timer: u32, _: &mut Frame) {
        let (now, reap) = (cx.steady(), self.reap);
        let Some(home) = self.home() else { return };
        let more = alone(&home.set).reap(now / 1_000_000, REAP);
        let next = if more { 1 } else { reap };
        cx.set_timer(timer, now.saturating_add(next.saturating_mul(1_000_000)));
    }

    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        let now = milliseconds_now(cx);
        let plan = Arc::clone(cx.plan());
        let home = self.registry.place(&plan, cx.element(), now)?;
        if let Some(new) = self.new.take() {
            let mut errors = Vec::new();
            for (number, spec) in new.specs.iter().enumerate() {
                let Action::Mapper(mapper) = &spec.action else { continue };
                let wrong = locked(mapper).check(new.outputs);
                errors
                    .extend(wrong.into_iter().map(|error| format!("input spec {number}: {error}")));
            }
            if !errors.is_empty() {
                return Err(errors.join("\n"));
            }
            let mut set = alone(&home.set);
            if let Some(seed) = self.seed {
                set.seed(seed);
            }
            set.install(home.rewriter, new);
            if let Some(capacity) = self.capacity
                && capacity != set.capacity()
            {
                set.set_capacity(capacity, now);
            }
        }
        self.home = Some(home);
        if self.reap > 0 && self.reaps {
            let first = cx.steady().saturating_add(self.reap.saturating_mul(1_000_000));
            cx.set_timer(REAPER, first);
        }
        Ok(())
    }

    fn take_state(&mut self, cx: &mut Context, old: &mut dyn Element) {
        let Some(old) = old.downcast_mut::<Rewriter<F>>() else { return };
        let (Some(from), Some(to)) = (old.home().cloned(), self.home.clone()) else { return };
        if Arc::ptr_eq(&from.set, &to.set) {
            return;
        }
        // In this order everywhere: a thread that has the new one does not lock the old one.
        let (mut before, mut now) = (alone(&from.set), alone(&to.set));
        let all = now.take(&mut before, from.rewriter, to.rewriter);
        if all {
            before.successor = Some(Arc::clone(&to.set));
        }
        if now.len() > now.capacity() {
            let capacity = now.capacity();
            now.set_capacity(capacity, milliseconds_now(cx));
        }
    }

    fn read(&mut self, cx: &mut Context, handler: &str, parameter: &str) -> HandlerResult {
        let now = milliseconds_now(cx);
        let home = self.home().ok_or_else(|| HandlerError::missing(handler))?;
        handlers::read(home, cx, handler, parameter, now)
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        let now = milliseconds_now(cx);
        let names = Arc::clone(&self.names);
        let home = self.home().ok_or_else(|| HandlerError::missing(handler))?;
        handlers::write(home, &names, cx, handler, value, now).map(|()| String::new())
    }

    fn handler(&self, name: &str) -> Option<&'static Handler> {
        handlers::of_input(self.home.as_ref()?, name)
    }

    fn handler_names(&self) -> Vec<String> {
        self.home.as_ref().map(handlers::of_inputs).unwrap_or_default()
    }
}
