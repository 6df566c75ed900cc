//! The way of one packet through the tables.
//!
//! It is a stack of remaining work, in [`Frame`]s, and no recursion: where a packet must be looked
//! up again, the [`Continuation`](super::Continuation) keeps the rest of the stack. Only actions on
//! a copy (a bucket of a group, a `clone`) call [`Translator::scope`] again, whose frames are those
//! above a mark.

mod actions;
mod choose;
mod connection;
mod encap;
mod fields;
mod group;
mod headers;
mod learn;
mod output;
mod set;
mod suspend;

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;

use super::trace::{self, Trace};
use super::{Decision, Environment, SharedState, Step, Suspended};
use crate::counters::Counters;
use crate::key::{ENTRY_WORDS, Key, Mask};
use crate::table::{Flow, Miss, Snapshot};
use crate::wire::{Action, Field, Instruction, PacketInReason, PacketType, PortNumber};

/// Depth of lookups that do not go to a later table, and of actions on copies, at most.
const DEPTH: u32 = 64;
/// Lookups at most.
const LOOKUPS: u32 = 64 * 64;
/// Limits of the stack, and of steps and copies, those without a step among them, beyond which a
/// packet is taken to be in a loop.
const STACK: usize = 4096;
const STEPS: usize = 16_384;
/// The bit of IP fragments, and that of later ones.
const FRAGMENT: u128 = 1;
const PORTS: [Field; 2] = [Field::TcpSrc, Field::TcpDst];
/// Bits of TCP's flags that say that a connection ends: FIN and RST.
const ENDS: u128 = 0x05;

/// Origin of the current actions.
#[derive(Debug, Clone, Copy)]
struct ActionOrigin<'a> {
    table: u8,
    cookie: u64,
    flow: Option<&'a Arc<Flow>>,
    reason: PacketInReason,
    depth: u32,
}

/// Actions to be done: a flow's, or some that were put in order.
#[derive(Debug)]
enum List<'a> {
    Flow(&'a [Action]),
    Ordered(Vec<&'a Action>),
}

impl<'a> List<'a> {
    fn get(&self, at: usize) -> Option<&'a Action> {
        match self {
            List::Flow(actions) => actions.get(at),
            List::Ordered(actions) => actions.get(at).copied(),
        }
    }
}

/// Remaining work.
#[derive(Debug)]
enum Frame<'a> {
    /// A table is asked.
    Table {
        table: u8,
        /// On a miss, the table's setting applies: not for `resubmit`.
        goto: bool,
        /// As if the packet came from there.
        port: Option<u32>,
        /// With source and destination of the connection's first packet.
        original: bool,
        depth: u32,
    },
    /// Actions are done from some one on.
    Actions { list: List<'a>, at: usize, place: ActionOrigin<'a> },
    /// Instructions are carried out: those after a flow's actions.
    Instructions { list: &'a [Instruction], place: ActionOrigin<'a> },
}

/// Unknown parts of the key after a header was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Unknown {
    Nothing,
    /// The payload of Ethernet.
    Carried,
    /// All headers.
    Headers,
}

/// The state of the packet, which is put back after something was done with a copy.
#[derive(Debug, Clone)]
struct Packet<'a> {
    key: Key,
    /// Bits of the key that differ from the arriving packet: their values are in the decision
    /// already.
    written: Mask,
    /// Fields that were set and no step says so yet.
    pending: Vec<(Field, u128)>,
    /// Headers behind added ones.
    covered: Vec<headers::Covered>,
    /// Tags behind tags that were added, and which of their bits were written.
    tags: Vec<(u64, u64)>,
    unknown: Unknown,
    set: Vec<&'a Action>,
    stack: Vec<(u128, u16)>,
    queue: u32,
    /// A meter may have dropped the packet before.
    conditional: bool,
}

pub(super) struct Translator<'a> {
    snapshot: &'a Snapshot,
    shared_state: &'a SharedState,
    environment: &'a dyn Environment,
    now: u64,
    packet: Packet<'a>,
    frames: Vec<Frame<'a>>,
    steps: Vec<Step>,
    /// Number of steps beside those: in copies, and around the current copy.
    other_steps: usize,
    decision: Decision,
    lookups: u32,
    /// Number of actions on a copy.
    copies: usize,
    /// Groups whose liveness was checked, with the result if it is known.
    watched: BTreeMap<u32, Option<bool>>,
    /// The packet goes on by a continuation: nothing more is done in this scope.
    suspended: bool,
    /// An action has ended everything.
    exited: bool,
    /// It went wrong: the packet is dropped.
    failed: bool,
    /// It went wrong for want of a header: only the bucket's copy is dropped.
    unsupported: bool,
    /// A packet-out, where tables can be a port, and the port needs not be one.
    from_controller: bool,
    pub(super) trace: Option<Trace>,
}

/// Adds a line to the trace, if there is one.
macro_rules! say {
    ($translator:expr, $($text:tt)*) => {
        if $translator.trace.is_some() {
            $translator.trace_line(format!($($text)*));
        }
    };
}
use say;

impl<'a> Translator<'a> {
    pub(super) fn new(
        snapshot: &'a Snapshot,
        shared_state: &'a SharedState,
        environment: &'a dyn Environment,
        key: &Key,
        now: u64,
    ) -> Translator<'a> {
        let mut packet = Packet {
            key: *key,
            written: Mask::default(),
            pending: Vec::new(),
            covered: Vec::new(),
            tags: Vec::new(),
            unknown: Unknown::Nothing,
            set: Vec::new(),
            stack: Vec::new(),
            queue: 0,
            conditional: false,
        };
        packet.key.words_mut()[ENTRY_WORDS..].fill(0);
        packet.key.set(Field::ActionSetOutput, PortNumber::UNSET.0.into());
        // The type of the first header follows from the packet's origin, and never from its bytes.
        packet.written.add_all(Field::PacketType);
        let mut decision = Decision { holds: true, ..Decision::default() };
        // The port, and whether the packet comes in or goes on, always decide.
        decision.mask.words_mut()[0] = u64::MAX;
        Translator {
            snapshot,
            shared_state,
            environment,
            now,
            packet,
            frames: Vec::with_capacity(8),
            steps: Vec::with_capacity(4),
            other_steps: 0,
            decision,
            lookups: 0,
            copies: 0,
            watched: BTreeMap::new(),
            suspended: false,
            exited: false,
            failed: false,
            unsupported: false,
            from_controller: false,
            trace: None,
        }
    }

    /// A packet that comes in.
    pub(super) fn enter(&mut self) {
        self.packet.key.set(Field::PacketType, PacketType::ETHERNET.0.into());
        let port = PortNumber(self.in_port());
        if self.snapshot.port(port).is_some_and(|port| !port.receives()) {
            say!(self, "port {port} takes no packets: dropped");
            return;
        }
        if self.snapshot.drops_fragments() && self.read(Field::IpFrag) != 0 {
            say!(self, "fragments are dropped");
            return;
        }
        if self.snapshot.stands_alone() {
            say!(self, "no controller is there: NORMAL");
            self.normal(None);
            return;
        }
        self.frames.push(Frame::Table {
            table: 0,
            goto: true,
            port: None,
            original: false,
            depth: 0,
        });
        self.do_all();
    }

    /// Actions of a controller.
    pub(super) fn act_for_controller(&mut self, key: &Key, actions: &'a [Action]) {
        self.from_controller = true;
        // Fields of the packet set by the controller.
        self.packet.key.words_mut()[ENTRY_WORDS..].copy_from_slice(&key.words()[ENTRY_WORDS..]);
        self.packet.key.set(Field::ActionSetOutput, PortNumber::UNSET.0.into());
        let place = ActionOrigin {
            table: 0,
            cookie: u64::MAX,
            flow: None,
            reason: PacketInReason::PacketOut,
            depth: 0,
        };
        self.frames.push(Frame::Actions { list: List::Flow(actions), at: 0, place });
        self.do_all();
    }

    /// A packet that goes on.
    pub(super) fn resume(&mut self, from: &'a Suspended) {
        self.take_up(from);
        self.do_all();
    }

    fn do_all(&mut self) {
        self.run(0);
        self.finish_set(0);
    }

    /// Does the work on the stack above a mark.
    fn run(&mut self, base: usize) {
        while self.frames.len() > base && !self.failed && !self.suspended {
            let steps = self.steps.len() + self.other_steps;
            let too_much = steps > STEPS || self.copies > STEPS;
            if too_much || self.packet.stack.len() > STACK {
                self.fail("it does too much");
                return;
            }
            let Some(frame) = self.frames.last_mut() else { return };
            match frame {
                Frame::Actions { list, at, place } => {
                    let (action, place) = (list.get(*at), *place);
                    let Some(action) = action else {
                        self.frames.pop();
                        continue;
                    };
                    if actions::waits(action, self.packet.unknown) {
                        self.look_again(base);
                        return;
                    }
                    *at += 1;
                    self.act(action, place, base);
                }
                Frame::Table { table, goto, port, original, depth } => {
                    if self.packet.unknown != Unknown::Nothing {
                        self.look_again(base);
                        return;
                    }
                    let (table, goto, port, original, depth) =
                        (*table, *goto, *port, *original, *depth);
                    self.frames.pop();
                    self.ask(table, goto, port, original, depth);
                }
                Frame::Instructions { list, place } => {
                    let (list, place) = (*list, *place);
                    self.frames.pop();
                    self.carry_out(list, place);
                }
            }
        }
    }

    /// Does work on a copy: that pushed by `frames`. Returns its steps; the packet is as before.
    fn scope(
        &mut self,
        conditional: bool,
        set: Vec<&'a Action>,
        frames: impl FnOnce(&mut Translator<'a>),
    ) -> Vec<Step> {
        self.copies += 1;
        let before = self.packet.clone();
        let steps = mem::take(&mut self.steps);
        self.other_steps += steps.len();
        self.packet.conditional |= conditional;
        self.packet.set = set;
        let base = self.frames.len();
        frames(self);
        self.run(base);
        self.finish_set(base);
        self.frames.truncate(base);
        self.suspended = false;
        self.packet = before;
        self.other_steps -= steps.len();
        mem::replace(&mut self.steps, steps)
    }

    /// Does the action set, which ends the work above a mark.
    fn finish_set(&mut self, base: usize) {
        if self.failed || self.suspended || self.packet.set.is_empty() {
            return;
        }
        let set = set::in_order(&mem::take(&mut self.packet.set));
        say!(self, "action set:");
        let place = ActionOrigin {
            table: 0xff,
            cookie: u64::MAX,
            flow: None,
            reason: PacketInReason::ActionSet,
            depth: self.deepest(base) + 1,
        };
        self.frames.push(Frame::Actions { list: List::Ordered(set), at: 0, place });
        self.run(base);
    }

    fn deepest(&self, base: usize) -> u32 {
        let depth = |frame: &Frame<'_>| match frame {
            Frame::Table { depth, .. } => *depth,
            Frame::Actions { place, .. } | Frame::Instructions { place, .. } => place.depth,
        };
        self.frames[..base].last().map_or(0, depth)
    }

    /// Steps of a copy become steps here, as a copy only where they change it.
    fn add_copy(&mut self, steps: Vec<Step>) {
        let steps = trimmed(steps);
        if steps.is_empty() {
            return;
        }
        if steps.iter().all(leaves_alone) {
            self.steps.extend(steps);
        } else {
            self.other_steps += steps.len();
            self.steps.push(Step::Copy(steps));
        }
    }

    /// Adds a line to the trace, at the depth of the current actions.
    fn trace_line(&mut self, line: impl AsRef<str>) {
        let depth =
            self.frames.iter().filter(|frame| matches!(frame, Frame::Actions { .. })).count();
        if let Some(trace) = &mut self.trace {
            trace.line(depth, line);
        }
    }

    fn fail(&mut self, why: &str) {
        say!(self, "{why}: the packet is dropped");
        self.failed = true;
        self.frames.clear();
    }

    /// As [`Translator::fail`], but the other buckets of a group are done.
    fn refuse(&mut self, why: &str) {
        say!(self, "{why}: the packet is dropped");
        (self.failed, self.unsupported) = (true, true);
    }

    /// Counts a lookup or copy at a depth. Fails, and returns false, if it is one too many.
    fn count_depth(&mut self, depth: u32) -> bool {
        if depth >= DEPTH {
            self.fail("lookups are too deep in each other");
        } else if self.lookups >= LOOKUPS {
            self.fail("there are too many lookups");
        }
        self.lookups += 1;
        !self.failed
    }

    fn count(&mut self, counters: &Arc<Counters>) {
        if self.packet.conditional {
            self.steps.push(Step::Count(Arc::clone(counters)));
        } else {
            self.decision.counted.push(Arc::clone(counters));
        }
    }

    fn ask(&mut self, table: u8, goto: bool, port: Option<u32>, original: bool, depth: u32) {
        let snapshot = self.snapshot;
        let mut table = table;
        loop {
            let Some(state) = snapshot.table(table) else { return };
            self.decision.depends.tables[usize::from(table / 64)] |= 1 << (table % 64);
            let found = self.look_up(table, port, original);
            self.count(&state.lookups);
            if let Some(flow) = found {
                self.count(&state.matches);
                self.matched(flow, depth);
                return;
            }
            self.decision.depends.missed[usize::from(table / 64)] |= 1 << (table % 64);
            say!(self, "table {table}: no flow matches");
            match snapshot.miss(table) {
                _ if !goto => return,
                Miss::Drop => return,
                Miss::Continue => table += 1,
                Miss::Controller => {
                    let place = ActionOrigin {
                        table,
                        cookie: u64::MAX,
                        flow: None,
                        reason: PacketInReason::NoMatch,
                        depth,
                    };
                    return self.punt(u16::MAX, place);
                }
            }
        }
    }

    fn look_up(&mut self, table: u8, port: Option<u32>, original: bool) -> Option<&'a Arc<Flow>> {
        let mut looked = Mask::default();
        let is_fragment = self.packet.key.get(Field::IpFrag) & FRAGMENT != 0;
        let found = if port.is_none() && !original && !is_fragment {
            let found = self.snapshot.lookup(table, &self.packet.key, &mut looked);
            self.decision.depends.written.join(&self.packet.written);
            found
        } else {
            self.look_up_otherwise(table, port, original, &mut looked)
        };
        if PORTS.iter().any(|&field| looked.get(field) != 0) {
            looked.add(Field::IpFrag, FRAGMENT);
        }
        let (mask, written) = (self.decision.mask.words_mut(), self.packet.written.words());
        let words = mask.iter_mut().zip(looked.words()).zip(written).take(ENTRY_WORDS);
        words.for_each(|((mask, looked), written)| *mask |= looked & !written);
        found
    }

    /// As if the packet came from another port, or were its connection's first.
    fn look_up_otherwise(
        &mut self,
        table: u8,
        port: Option<u32>,
        original: bool,
        looked: &mut Mask,
    ) -> Option<&'a Arc<Flow>> {
        let mut key = self.packet.key;
        let mut other = Mask::default();
        if let Some(port) = port {
            key.set(Field::InPort, port.into());
            other.add_all(Field::InPort);
        }
        if original {
            for (field, of_connection) in self.original_fields() {
                key.set(field, key.get(of_connection));
                other.add_all(field);
            }
        }
        // A fragment has no ports, not even the first, so that all go the same way.
        let is_fragment = key.get(Field::IpFrag) & FRAGMENT != 0;
        if is_fragment {
            for field in PORTS {
                key.set(field, 0);
                other.add_all(field);
            }
        }
        let found = self.snapshot.lookup(table, &key, looked);
        if is_fragment && PORTS.iter().any(|&field| looked.get(field) != 0) {
            looked.add(Field::IpFrag, FRAGMENT);
        }
        if original {
            for (field, of_connection) in self.original_fields() {
                looked.add(of_connection, looked.get(field));
            }
        }
        let words = looked.words_mut().iter_mut().zip(other.words());
        words.for_each(|(looked, other)| *looked &= !other);
        let written = &mut self.decision.depends.written;
        written.join(&self.packet.written);
        written.join(&other);
        found
    }

    fn matched(&mut self, flow: &'a Arc<Flow>, depth: u32) {
        if self.trace.is_some() {
            self.trace_line(trace::flow(flow));
        }
        self.count(&flow.counters);
        self.decision.flows.push(Arc::clone(flow));
        let miss = flow.priority == 0 && flow.matching.is_empty();
        let place = ActionOrigin {
            table: flow.table,
            cookie: flow.cookie,
            flow: Some(flow),
            reason: if miss { PacketInReason::NoMatch } else { PacketInReason::Action },
            depth,
        };
        for instruction in &flow.instructions {
            if let Instruction::Meter(number) = instruction {
                self.meter(*number);
            }
        }
        let mut later = false;
        let mut applied = None;
        for instruction in &flow.instructions {
            match instruction {
                Instruction::ApplyActions(actions) => applied = Some(actions),
                Instruction::Meter(_) => {}
                _ => later = true,
            }
        }
        if later {
            self.frames.push(Frame::Instructions { list: &flow.instructions, place });
        }
        if let Some(actions) = applied {
            self.frames.push(Frame::Actions { list: List::Flow(actions), at: 0, place });
        }
    }

    /// Does the instructions after actions, in the specification's order.
    fn carry_out(&mut self, list: &'a [Instruction], place: ActionOrigin<'a>) {
        if list.contains(&Instruction::ClearActions) {
            say!(self, "clear_actions");
            self.packet.set.clear();
            self.packet.key.set(Field::ActionSetOutput, PortNumber::UNSET.0.into());
        }
        for instruction in list {
            if let Instruction::WriteActions(actions) = instruction {
                say!(self, "write_actions({})", trace::actions(actions));
                self.packet.set.extend(actions);
                let port = set::output(&self.packet.set);
                self.packet.key.set(Field::ActionSetOutput, port.0.into());
            }
        }
        for instruction in list {
            if let Instruction::WriteMetadata { value, mask } = instruction {
                say!(self, "write_metadata:{value:#x}/{mask:#x}");
                self.packet.key.set_masked(Field::Metadata, (*value).into(), (*mask).into());
            }
        }
        for instruction in list {
            if let Instruction::GotoTable(table) = instruction {
                say!(self, "goto_table:{table}");
                self.go_to(*table, true, None, false, place);
            }
        }
    }

    fn go_to(
        &mut self,
        table: u8,
        goto: bool,
        port: Option<u32>,
        original: bool,
        place: ActionOrigin<'a>,
    ) {
        // Only lookups in the same table or an earlier one can be a loop.
        let depth = place.depth + u32::from(table <= place.table);
        if self.count_depth(depth) {
            self.frames.push(Frame::Table { table, goto, port, original, depth });
        }
    }

    fn in_port(&self) -> u32 {
        self.packet.key.get(Field::InPort) as u32
    }

    /// The whole decision.
    pub(super) fn finish(mut self) -> (Decision, Option<Trace>) {
        if !self.failed {
            self.decision.steps = trimmed(self.steps);
            if let Some(trace) = &mut self.trace {
                trace.end(&self.packet.key, &self.packet.written, &self.decision);
            }
        }
        // A group that is watched decides, too.
        self.decision.depends.groups.extend(self.watched.into_keys());
        self.decision.mask.words_mut()[ENTRY_WORDS..].fill(0);
        (self.decision, self.trace)
    }
}

/// Returns true if a step leaves the packet as it is, and goes on.
fn leaves_alone(step: &Step) -> bool {
    matches!(
        step,
        Step::Output { .. }
            | Step::Count(_)
            | Step::Controller(_)
            | Step::Copy(_)
            | Step::Select(_)
            | Step::Sample(_)
    )
}

/// Removes steps at the end that have no effect; the last one left may have the packet itself, for
/// a copy.
fn trimmed(mut steps: Vec<Step>) -> Vec<Step> {
    loop {
        match steps.last() {
            Some(
                Step::Set(_)
                | Step::PushVlan { .. }
                | Step::PopVlan
                | Step::PushMpls { .. }
                | Step::PopMpls(_)
                | Step::EncapMpls { .. }
                | Step::DecapMpls
                | Step::EncapNsh { .. }
                | Step::DecapNsh
                | Step::PushPbb { .. }
                | Step::PopPbb
                | Step::CopyTtlOut
                | Step::CopyTtlIn
                | Step::ClearTrack,
            ) => {
                steps.pop();
            }
            Some(Step::Copy(_)) => {
                let Some(Step::Copy(last)) = steps.pop() else { unreachable!("it is a copy") };
                steps.extend(last);
            }
            _ => return steps,
        }
    }
}
