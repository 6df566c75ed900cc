//! What all rewriters do.

use std::{marker::PhantomData, sync::Arc};

use linerate_graph::{
    Annotation, Arg, Context, Element, ElementRef, Handler, HandlerError, Make, Scope,
    parse_integer,
};
use linerate_lookup::exact::Entry;
use linerate_memory::{Arena, Frame, Meta, Slot, prefetch};
use linerate_packet::{FlowV4, IpProtocol};

use super::{
    flow_set::{FlowSet, Rewriting, Unmapped},
    kind::{Found, Kind},
    mapping::flags,
    registry::{Place as Home, Registry, Wanted, locked},
    rewrite::{Event, Place, rewrite},
    shifting,
    spec::{Action, Spec},
    table,
    times::{AllTimes, milliseconds},
};
use crate::annotation_byte::Byte;

/// Drop reasons.
pub(super) const DROPS: &[&str] =
    &["no buffer for a copy", "nothing it rewrites", "dropped by specification", "no mapping left"];
const NO_BUFFER: usize = 0;
const NOT_REWRITTEN: usize = 1;
const SPECIFIED: usize = 2;
const FAILED: usize = 3;

/// Outputs from here on are drop reasons.
const DROP: u32 = u32::MAX - 3;
/// Packets ahead of which the headers are asked for.
const AHEAD: usize = 8;
/// Flows looked at in one go when those that have ended are removed.
const REAP: usize = 4096;
/// The timer that removes them.
const REAPER: u32 = 0;

/// The arguments all rewriters have.
pub(super) const SPECS: Arg =
    Arg::rest("INPUTSPEC", "specification", "what becomes of new flows, one per input");
pub(super) const REAP_INTERVAL: Arg =
    Arg::keyword("REAP_INTERVAL", "seconds", "900", "how often flows that have ended are removed");
pub(super) const REAP_TIME: Arg =
    Arg::keyword("REAP_TIME", "seconds", "900", "older name of `REAP_INTERVAL`");
pub(super) const MAPPING_CAPACITY: Arg = Arg::keyword(
    "MAPPING_CAPACITY",
    "flows or element",
    "1048576",
    "most flows, or the rewriter to share a number of flows with",
);
pub(super) const CAPACITY: Arg =
    Arg::keyword("CAPACITY", "flows or element", "1048576", "the same");
pub(super) const DST_ANNO: Arg =
    Arg::keyword("DST_ANNO", "bool", "true", "sets the destination annotation too");
pub(super) const REPLY_ANNO: Arg = Arg::keyword(
    "REPLY_ANNO",
    "annotation",
    "none",
    "byte that replies get from the first packet of the flow",
);

/// The handlers all rewriters have.
macro_rules! handlers {
    ($($more:expr),* $(,)?) => {
        &[
            $($more,)*
            linerate_graph::Handler::read("table_size", "flows"),
            linerate_graph::Handler::read("nmappings", "flows, an older name"),
            linerate_graph::Handler::read(
                "mapping_failures",
                "flows there was no room or nothing left of a range for",
            ),
            linerate_graph::Handler::read(
                "patterns",
                "the specification of each input, and its flows in brackets",
            ),
            linerate_graph::Handler::read("size", "flows of all rewriters it shares a capacity with"),
            linerate_graph::Handler::value("capacity", "most flows"),
            linerate_graph::Handler::write("clear", "removes all flows"),
        ]
    };
}
pub(super) use handlers;

/// The specification of one input, `pattern0` and so on.
const PATTERN: Handler = Handler::value("pattern", "the specification of the input");

/// What a class of rewriters is.
pub(super) trait Flavour: Send + 'static {
    const KIND: Kind;
}

/// A rewriter on one worker. The flows are all workers'.
pub(super) struct Rewriter<F> {
    registry: Arc<Registry>,
    home: Option<Home>,
    /// What is installed when all have been made.
    new: Option<Rewriting>,
    capacity: Option<usize>,
    /// Milliseconds, 0 for never.
    reap: u64,
    reaps: bool,
    seed: Option<u64>,
    annotate: bool,
    reply_anno: Option<Byte>,
    scratch: Scratch,
    flavour: PhantomData<F>,
}

/// What is known of the packets of a frame.
#[derive(Default)]
struct Scratch {
    places: Vec<Place>,
    keys: Vec<FlowV4>,
    found: Vec<Option<Entry>>,
    kinds: Vec<Found>,
    outputs: Vec<u32>,
    /// Packets to be looked up the other way round.
    again: Vec<usize>,
    dropped: [usize; 4],
}

impl<F: Flavour> Rewriter<F> {
    /// From the arguments all rewriters have; the times are the class's.
    pub(super) fn new(make: &mut Make<'_>, times: AllTimes) -> Rewriter<F> {
        let registry = make.world.common::<Registry>();
        let capacity = wanted(make);
        let mut reap = 900_000;
        for name in ["REAP_INTERVAL", "REAP_TIME"] {
            reap = milliseconds(make, name).unwrap_or(reap);
        }
        let has = |make: &Make<'_>, name: &str| {
            let args = make.plan().elements[make.element()].class.args;
            args.iter().any(|arg| arg.name == name)
        };
        let annotate = !has(make, "DST_ANNO") || make.or("DST_ANNO", true);
        let reply_anno = make.get::<Annotation<1>>("REPLY_ANNO").map(|anno| {
            Byte::of(anno).unwrap_or_else(|| {
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
                let spec = Spec::parse(text, number, outputs, &scope, &registry);
                specs.push(spec.unwrap_or_else(|error| {
                    make.error(error);
                    Spec::stand_in()
                }));
            }
        } else if capacity.is_some() {
            make.error(format!("need {} arguments, one per input port", make.inputs()));
        }
        let wanted = capacity.unwrap_or(Wanted::Flows(0));
        registry.declare(make.element(), wanted);
        let capacity = match wanted {
            Wanted::Flows(flows) => Some(flows),
            Wanted::SharedWith(_) => None,
        };
        Rewriter {
            registry,
            home: None,
            new: Some(Rewriting { kind: F::KIND, times, specs, outputs }),
            capacity,
            reap,
            reaps: make.replica().index == 0,
            seed: make.world.simulated.then_some(make.element() as u64),
            annotate,
            reply_anno,
            scratch: Scratch::default(),
            flavour: PhantomData,
        }
    }

    /// Whose flows it works with; after a replacement, those of the successor.
    fn home(&mut self) -> Option<&Home> {
        let home = self.home.as_mut()?;
        let successor = locked(&home.set).successor.clone();
        if let Some(successor) = successor {
            home.set = successor;
        }
        Some(home)
    }
}

/// What `MAPPING_CAPACITY` says; nothing when it is wrong, which is said.
fn wanted(make: &mut Make<'_>) -> Option<Wanted> {
    let name = if make.is_given("MAPPING_CAPACITY") { "MAPPING_CAPACITY" } else { "CAPACITY" };
    let Some(text) = make.get::<String>(name) else {
        return Some(Wanted::Flows(FlowSet::DEFAULT_CAPACITY));
    };
    if let Some(number) = parse_integer(&text) {
        let flows = usize::try_from(number.max(0)).unwrap_or(usize::MAX);
        return Some(Wanted::Flows(flows.min(FlowSet::LIMIT)));
    }
    if let Ok(ElementRef(at)) = make.parse(&text)
        && super::is_rewriter(make.plan().elements[at].class)
    {
        return Some(Wanted::SharedWith(at));
    }
    make.error("bad MAPPING_CAPACITY");
    None
}

impl Scratch {
    /// Reads the flows of all packets of a frame.
    #[inline]
    fn read(&mut self, kind: Kind, rewriter: u16, arena: &Arena, frame: &Frame) {
        let slots = frame.slots();
        let nobody = FlowV4 {
            src: [0; 4].into(),
            dst: [0; 4].into(),
            src_port: 0,
            dst_port: 0,
            vlan: u16::MAX,
            protocol: IpProtocol(u8::MAX),
        };
        self.places.clear();
        self.keys.clear();
        self.kinds.clear();
        for slot in &slots[..slots.len().min(AHEAD)] {
            prefetch(arena.meta(slot));
            prefetch(arena.packet(slot));
        }
        for (at, slot) in slots.iter().enumerate() {
            if let Some(ahead) = slots.get(at + AHEAD) {
                prefetch(arena.meta(ahead));
                prefetch(arena.packet(ahead));
            }
            let (place, found) = read_flow(kind, arena, slot);
            self.places.push(place);
            self.kinds.push(found);
            self.keys.push(match found {
                Found::Flow(ends, map) => ends.key(rewriter, map),
                Found::Answer(ends) => ends.key(rewriter, IpProtocol::ICMP),
                Found::Other => nobody,
            });
        }
    }

    /// Looks all of them up.
    #[inline]
    fn look_up(&mut self, kind: Kind, set: &FlowSet, arena: &Arena, frame: &Frame) {
        self.found.clear();
        self.found.resize(self.keys.len(), None);
        set.table.lookup_many(&self.keys, &mut self.found);
        if kind == Kind::Address && self.found.contains(&None) {
            self.look_up_destinations(set, arena, frame);
        }
    }

    /// Packets whose source has no mapping may have a destination with one.
    fn look_up_destinations(&mut self, set: &FlowSet, arena: &Arena, frame: &Frame) {
        let Scratch { places, keys, found, kinds, again, .. } = self;
        again.clear();
        again.extend(
            (0..keys.len()).filter(|at| found[*at].is_none() && kinds[*at] != Found::Other),
        );
        for group in again.chunks(64) {
            let mut others = [keys[group[0]]; 64];
            let mut answers = [None; 64];
            for (other, at) in others.iter_mut().zip(group) {
                let packet = arena.packet(&frame.slots()[*at]);
                *other = destination_key(packet, places[*at], keys[*at]);
            }
            set.table.lookup_many(&others[..group.len()], &mut answers[..group.len()]);
            for ((at, other), answer) in group.iter().zip(others).zip(answers) {
                if answer.is_some() {
                    (keys[*at], found[*at]) = (other, answer);
                }
            }
        }
    }

    fn drop(&mut self, reason: usize) -> u32 {
        self.dropped[reason] += 1;
        DROP + reason as u32
    }
}

/// The key of replies to whom a packet goes.
fn destination_key(packet: &[u8], place: Place, key: FlowV4) -> FlowV4 {
    let dst =
        packet.get(usize::from(place.network) + 16..).and_then(|rest| rest.first_chunk::<4>());
    FlowV4 { src: [0; 4].into(), dst: dst.map_or([0; 4].into(), |dst| (*dst).into()), ..key }
}

/// Where the headers of a packet are, and its flow.
#[inline(always)]
fn read_flow(kind: Kind, arena: &Arena, slot: &Slot) -> (Place, Found) {
    let network = arena.meta(slot).network;
    let none = (Place::default(), Found::Other);
    if network == Meta::UNSET {
        return none;
    }
    let packet = arena.packet(slot);
    let Some(bytes) = packet.get(usize::from(network)..) else { return none };
    let Some(ip) = bytes.first_chunk::<20>() else { return none };
    let header = usize::from(ip[0] & 15) * 4;
    let Some(transport) = bytes.get(header..).filter(|_| ip[0] >> 4 == 4 && header >= 20) else {
        return none;
    };
    let place = Place { network, transport: network + header as u16 };
    (place, kind.flow(ip, transport))
}

impl<F: Flavour> Rewriter<F> {
    /// Rewrites one packet; returns its output.
    #[inline(always)]
    fn one(
        &mut self,
        set: &mut FlowSet,
        arena: &Arena,
        slot: &mut Slot,
        entry: Entry,
        at: usize,
        now: u64,
    ) -> u32 {
        let place = self.scratch.places[at];
        let Some(mapping) = set.table.get_mut(entry) else { return self.scratch.drop(FAILED) };
        mapping.last = now;
        let Some(packet) = arena.packet_mut(slot) else { return self.scratch.drop(NO_BUFFER) };
        let event = rewrite(F::KIND, packet, place, mapping);
        let (output, shift, reply) = (mapping.output, mapping.shift, mapping.is_reply());
        let (dst, anno) = (mapping.to.dst, mapping.reply_anno);
        if shift != 0 {
            shifting::apply(set, packet, place, shift, reply);
        }
        let annotates = self.annotate && (F::KIND != Kind::Address || reply);
        if (annotates || self.reply_anno.is_some())
            && let Some(meta) = arena.meta_mut(slot)
        {
            if annotates {
                meta.destination[..4].copy_from_slice(&dst.octets());
            }
            if let Some(byte) = self.reply_anno.filter(|_| reply) {
                byte.set(meta, anno);
            }
        }
        if event != Event::None {
            happened(set, entry, event);
        }
        output
    }

    /// A packet without a mapping when the frame was looked up.
    #[cold]
    #[inline(never)]
    fn new_flow(
        &mut self,
        set: &mut FlowSet,
        arena: &Arena,
        slot: &mut Slot,
        (input, at): (usize, usize),
        now: u64,
    ) -> u32 {
        let Some(rewriter) = self.home.as_ref().map(|home| home.rewriter) else {
            return self.scratch.drop(FAILED);
        };
        let (ends, map, may_begin) = match self.scratch.kinds[at] {
            Found::Flow(ends, map) => (ends, map, true),
            Found::Answer(ends) => (ends, IpProtocol::ICMP, false),
            Found::Other => return self.unmapped(set, rewriter, input),
        };
        // A packet before this one may have begun it.
        let mut found = set.find(rewriter, map, ends);
        if found.is_none() && F::KIND == Kind::Address {
            let key = ends.key(rewriter, map);
            let other = destination_key(arena.packet(slot), self.scratch.places[at], key);
            found = set.table.lookup(&other);
        }
        if let Some(entry) = found {
            return self.one(set, arena, slot, entry, at, now);
        }
        if !may_begin {
            return self.unmapped(set, rewriter, input);
        }
        let network = usize::from(self.scratch.places[at].network);
        let protocol = IpProtocol(arena.packet(slot).get(network + 9).copied().unwrap_or(0));
        match set.establish(rewriter, input, map, protocol, ends, now) {
            Ok(entry) => {
                if let Some(byte) = self.reply_anno {
                    let anno = byte.get(arena.meta(slot));
                    let peer = set.table.get(entry).map(|mapping| mapping.peer);
                    for entry in [Some(entry), peer].into_iter().flatten() {
                        if let Some(mapping) = set.table.get_mut(entry) {
                            mapping.reply_anno = anno;
                        }
                    }
                }
                self.one(set, arena, slot, entry, at, now)
            }
            Err(Unmapped::Pass(output)) => output,
            Err(Unmapped::Drop) => self.scratch.drop(SPECIFIED),
            Err(Unmapped::Failed) => self.scratch.drop(FAILED),
        }
    }

    /// A packet that begins no flow.
    fn unmapped(&mut self, set: &FlowSet, rewriter: u16, input: usize) -> u32 {
        match set.rewriters[usize::from(rewriter)].specs.get(input).map(|spec| &spec.action) {
            Some(Action::NoChange(output)) => *output,
            _ => self.scratch.drop(NOT_REWRITTEN),
        }
    }

    /// Sends the packets where they belong.
    fn send(&mut self, cx: &mut Context, frame: &mut Frame) {
        let Scratch { outputs, dropped, .. } = &mut self.scratch;
        if *dropped == [0; 4] {
            return cx.out.distribute(frame, outputs);
        }
        let mut places = outputs.iter();
        let Context { pool, out, .. } = cx;
        frame.drain_front(frame.len(), |slot| match places.next() {
            Some(&output) if output < DROP => out.emit(output as usize, slot),
            _ => pool.give_one(slot),
        });
        for (reason, count) in dropped.iter_mut().enumerate() {
            cx.count_drops(reason, std::mem::take(count));
        }
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
    }
    set.hasten(entry);
}

fn milliseconds_now(cx: &Context) -> u64 {
    cx.steady() / 1_000_000
}

impl<F: Flavour> Element for Rewriter<F> {
    fn push(&mut self, cx: &mut Context, port: usize, frame: &mut Frame) {
        cx.unshare(frame, NO_BUFFER);
        let now = milliseconds_now(cx);
        let Some(Home { set, rewriter }) = self.home().cloned() else {
            return cx.drop_frame(frame, FAILED);
        };
        let mut set = locked(&set);
        let arena = cx.pool.arena();
        self.scratch.read(F::KIND, rewriter, arena, frame);
        self.scratch.look_up(F::KIND, &set, arena, frame);
        set.disturbed = false;
        self.scratch.outputs.clear();
        for (at, slot) in frame.slots_mut().iter_mut().enumerate() {
            let mut found = self.scratch.found[at];
            // An entry found before may be another flow's by now.
            if set.disturbed
                && found.and_then(|it| set.table.key(it)) != Some(&self.scratch.keys[at])
            {
                found = None;
            }
            let output = match found {
                Some(entry) => self.one(&mut set, arena, slot, entry, at, now),
                None => self.new_flow(&mut set, arena, slot, (port, at), now),
            };
            self.scratch.outputs.push(output);
        }
        drop(set);
        self.send(cx, frame);
    }

    fn timer(&mut self, cx: &mut Context, timer: u32, _: &mut Frame) {
        let (now, reap) = (cx.steady(), self.reap);
        let Some(home) = self.home() else { return };
        let more = locked(&home.set).reap(now / 1_000_000, REAP);
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
            let mut set = locked(&home.set);
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
        // In this order everywhere: the old one is not locked by who has the new one.
        let (mut before, mut now) = (locked(&from.set), locked(&to.set));
        let all = now.take(&mut before, from.rewriter, to.rewriter);
        if all {
            before.successor = Some(Arc::clone(&to.set));
        }
        if now.len() > now.capacity() {
            let capacity = now.capacity();
            now.set_capacity(capacity, milliseconds_now(cx));
        }
    }

    fn read(
        &mut self,
        cx: &mut Context,
        handler: &str,
        parameter: &str,
    ) -> Result<String, HandlerError> {
        let now = milliseconds_now(cx);
        let Some(home) = self.home() else { return Err(HandlerError::missing(handler)) };
        let set = locked(&home.set);
        let rewriter = home.rewriter;
        let specs = &set.rewriters[usize::from(rewriter)].specs;
        let sum = |of: fn(&Spec) -> u32| specs.iter().map(|spec| u64::from(of(spec))).sum::<u64>();
        match handler {
            "table_size" | "nmappings" => Ok(sum(|spec| spec.count).to_string()),
            "mapping_failures" => Ok(sum(|spec| spec.failures).to_string()),
            "patterns" => Ok(specs.iter().map(Spec::line).collect()),
            "size" => Ok(set.len().to_string()),
            "capacity" => Ok(set.capacity().to_string()),
            "table" | "mappings" => Ok(table::text(&set, rewriter, None, now)),
            "tcp_table" | "tcp_mappings" => {
                Ok(table::text(&set, rewriter, Some(IpProtocol::TCP), now))
            }
            "udp_table" | "udp_mappings" => {
                Ok(table::text(&set, rewriter, Some(IpProtocol::UDP), now))
            }
            "lookup" | "tcp_lookup" => {
                let scope = Scope { plan: cx.plan(), names: &cx.world().names, name: cx.name() };
                let ends = table::flow(parameter, &scope).map_err(HandlerError::Refused)?;
                Ok(table::rewritten(&set, rewriter, ends))
            }
            _ => match input_of(handler).and_then(|input| specs.get(input)) {
                Some(spec) => Ok(spec.line()),
                None => Err(HandlerError::missing(handler)),
            },
        }
    }

    fn write(
        &mut self,
        cx: &mut Context,
        handler: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        let now = milliseconds_now(cx);
        let registry = Arc::clone(&self.registry);
        let Some(home) = self.home() else { return Err(HandlerError::missing(handler)) };
        let mut set = locked(&home.set);
        match handler {
            "capacity" => {
                let mut words = value.split_whitespace();
                let number = words.next().map(parse_integer);
                let number = number
                    .ok_or_else(|| HandlerError::refused("CAPACITY: required argument missing"))?;
                if words.next().is_some() {
                    return Err(HandlerError::refused("too many arguments"));
                }
                let number =
                    number.ok_or_else(|| HandlerError::refused("CAPACITY: invalid number"))?;
                let capacity = usize::try_from(number.max(0)).unwrap_or(usize::MAX);
                if capacity > set.room() {
                    let most = set.room();
                    return Err(HandlerError::Refused(format!("CAPACITY: at most {most} here")));
                }
                set.set_capacity(capacity, now);
            }
            "clear" => set.clear(),
            _ => {
                let outputs = set.rewriters[usize::from(home.rewriter)].outputs;
                let input = input_of(handler).ok_or_else(|| HandlerError::missing(handler))?;
                let scope = Scope { plan: cx.plan(), names: &cx.world().names, name: cx.name() };
                let spec = Spec::parse(value, input, outputs, &scope, &registry)
                    .map_err(HandlerError::Refused)?;
                set.respecify(home.rewriter, input, spec);
            }
        }
        Ok(String::new())
    }

    fn handler(&self, name: &str) -> Option<&'static Handler> {
        let set = locked(&self.home.as_ref()?.set);
        let rewriter = set.rewriters.get(usize::from(self.home.as_ref()?.rewriter))?;
        input_of(name).filter(|input| *input < rewriter.specs.len()).map(|_| &PATTERN)
    }

    fn handler_names(&self) -> Vec<String> {
        let Some(home) = &self.home else { return Vec::new() };
        let set = locked(&home.set);
        let inputs = set.rewriters[usize::from(home.rewriter)].specs.len();
        (0..inputs).map(|input| format!("pattern{input}")).collect()
    }
}

/// The input a handler `patternN` is about.
fn input_of(handler: &str) -> Option<usize> {
    let number = handler.strip_prefix("pattern")?;
    let plain = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let plain = plain && (number.len() == 1 || !number.starts_with('0'));
    number.parse().ok().filter(|_| plain)
}
