//! The fast path against the decisions themselves, one packet at a time.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use linerate_memory::{Arena, ArenaOptions, Frame, PoolCache, Slot};
use proptest::prelude::*;

use super::{Drop, FlowCache, Options, Outlet, Tables};
use crate::conntrack::Tracked;
use crate::counters::Counters;
use crate::key::{Key, Mask};
use crate::pipeline::{Continuation, Decision, Punt, Step, Suspended};
use crate::table::{PortCount, Snapshot};
use crate::wire::{Ct, Entry, Field};

const PORTS: u32 = 4;

/// Numbers that repeat.
#[derive(Debug, Clone)]
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit.max(1)
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

/// A rule of the stand-in's only table.
#[derive(Debug, Clone)]
struct Rule {
    key: Key,
    mask: Mask,
    does: Does,
    counters: Arc<Counters>,
}

#[derive(Debug, Clone, Copy)]
enum Does {
    Drop,
    Output(u32),
    Both(u32, u32),
    /// The destination is written between two copies.
    Rewrite(u32, u32),
    Tag(u32),
    Punt,
    /// The packet is tagged and looked up again.
    Again,
    /// For this packet alone.
    Alone(u32),
    /// A rule for its source is made, which sends packets for that address here.
    Learn(u32),
}

/// Rules of a version.
type Rules = Arc<Vec<Rule>>;

/// A table of rules, the first that matches counts.
#[derive(Debug, Default)]
struct StandIn {
    now: Mutex<(Arc<Snapshot>, Rules)>,
    by_version: Mutex<HashMap<u64, Rules>>,
    /// Keys and masks that were changed, and the version of each change.
    changes: Mutex<Vec<(u64, Key, Mask)>>,
    decided: AtomicU64,
    punted: Mutex<Vec<Vec<u8>>>,
    learnt: Mutex<Vec<u64>>,
}

fn continuation() -> Arc<Continuation> {
    Arc::new(Continuation { number: 7, state: Suspended::default() })
}

impl StandIn {
    fn new(rules: Vec<Rule>) -> StandIn {
        let tables = StandIn::default();
        tables.set(rules, &[]);
        tables
    }

    fn rules(&self) -> Rules {
        Arc::clone(&self.now.lock().unwrap().1)
    }

    fn set(&self, rules: Vec<Rule>, changed: &[(Key, Mask)]) {
        let mut now = self.now.lock().unwrap();
        let version = now.0.version() + 1;
        let rules = Arc::new(rules);
        self.by_version.lock().unwrap().insert(version, Arc::clone(&rules));
        let changed = changed.iter().map(|(key, mask)| (version, *key, *mask));
        self.changes.lock().unwrap().extend(changed);
        let mut snapshot = Snapshot::default();
        snapshot.version = version;
        *now = (Arc::new(snapshot), rules);
    }

    /// Returns the decision by the first matching rule, with all bits that were looked at on the
    /// way.
    fn look(&self, rules: &Rules, key: &Key, again: bool) -> Decision {
        let mut mask = Mask::default();
        mask.add_all(Field::InPort);
        let rule = rules.iter().find(|rule| {
            mask.join(&rule.mask);
            key.agrees(&rule.key, &rule.mask)
        });
        let mut decision = Decision { mask, holds: true, ..Decision::default() };
        let Some(rule) = rule else { return decision };
        decision.counted.push(Arc::clone(&rule.counters));
        let output = |port| Step::Output { port, max_len: None, queue: 0 };
        match rule.does {
            Does::Drop => {}
            Does::Output(port) => decision.steps.push(output(port)),
            Does::Both(one, other) => decision.steps.extend([output(one), output(other)]),
            Does::Rewrite(one, other) => decision.steps.extend([
                output(one),
                Step::Set(Entry::exact(Field::EthDst, 0x0202_0304_0506)),
                output(other),
            ]),
            Does::Tag(port) => {
                decision.steps.extend([Step::PushVlan { kind: 0x8100, tci: 5 }, output(port)]);
            }
            Does::Punt => decision.steps.push(Step::Controller(Arc::new(punt()))),
            Does::Again if !again => decision
                .steps
                .extend([Step::PushVlan { kind: 0x8100, tci: 7 }, Step::Continue(continuation())]),
            Does::Again => decision.steps.push(output(2)),
            Does::Alone(port) => {
                decision.holds = false;
                decision.steps.push(output(port));
            }
            Does::Learn(port) => {
                decision.mask.add_all(Field::EthSrc);
                decision.steps.push(output(port));
                self.learn(rules, key, port);
            }
        }
        decision
    }

    fn learn(&self, rules: &Rules, key: &Key, port: u32) {
        let source = key.get(Field::EthSrc);
        let mut learnt = self.learnt.lock().unwrap();
        if learnt.contains(&(source as u64)) {
            return;
        }
        learnt.push(source as u64);
        let (mut own, mut mask) = (Key::default(), Mask::default());
        own.set(Field::EthDst, source);
        mask.add_all(Field::EthDst);
        let made = Rule { key: own, mask, does: Does::Output(port), counters: Arc::default() };
        let mut all = Vec::clone(rules);
        all.insert(0, made);
        self.set(all, &[(own, mask)]);
    }
}

fn punt() -> Punt {
    Punt {
        reason: crate::wire::PacketInReason::Action,
        table: 0,
        cookie: 0,
        max_len: 0xffff,
        id: 0,
        userdata: Vec::new(),
        meter: 0,
        state: Box::default(),
        written: Box::default(),
        resume: None,
    }
}

impl Tables for StandIn {
    fn refresh(&self, snapshot: &mut Arc<Snapshot>) -> bool {
        let now = self.now.lock().unwrap();
        let is_newer = now.0.version() != snapshot.version();
        if is_newer {
            *snapshot = Arc::clone(&now.0);
        }
        is_newer
    }

    fn decide(
        &self,
        snapshot: &Snapshot,
        key: &Key,
        from: Option<&Continuation>,
        _: u64,
    ) -> Decision {
        self.decided.fetch_add(1, Relaxed);
        let rules = self.by_version.lock().unwrap().get(&snapshot.version()).map(Arc::clone);
        self.look(&rules.unwrap_or_default(), key, from.is_some())
    }

    fn concerns(&self, _: &Snapshot, since: u64, decision: &Decision, key: &Key) -> bool {
        self.changes.lock().unwrap().iter().any(|(version, own, mask)| {
            let mut both = Mask::default();
            let words = both.words_mut().iter_mut().zip(mask.words()).zip(decision.mask.words());
            words.for_each(|((word, one), other)| *word = one & other);
            *version > since && key.agrees(own, &both)
        })
    }

    fn track(&self, _: &Ct, _: u16, _: &mut Key, _: &mut [u8], _: u64) -> Tracked {
        Tracked::One
    }

    fn punt(&self, _: &Arc<Punt>, _: &Key, packet: &[u8]) -> bool {
        self.punted.lock().unwrap().push(packet.to_vec());
        true
    }
}

/// Takes packets.
struct TestOutlet {
    pool: PoolCache,
    sent: Vec<Vec<Vec<u8>>>,
    dropped: [u64; Drop::NAMES.len()],
}

impl TestOutlet {
    fn new(arena: &Arena) -> TestOutlet {
        TestOutlet {
            pool: arena.cache(64),
            sent: vec![Vec::new(); PORTS as usize],
            dropped: [0; _],
        }
    }
}

impl Outlet for TestOutlet {
    fn pool(&mut self) -> &mut PoolCache {
        &mut self.pool
    }

    fn send(&mut self, output: usize, slot: Slot) {
        self.sent[output].push(self.pool.arena().packet(&slot).to_vec());
        self.pool.give_one(slot);
    }

    fn send_frame(&mut self, output: usize, frame: &mut Frame) {
        let outputs = vec![output as u32; frame.len()];
        self.distribute(frame, &outputs);
    }

    fn distribute(&mut self, frame: &mut Frame, outputs: &[u32]) {
        assert_eq!(frame.len(), outputs.len());
        let mut outputs = outputs.iter();
        frame.drain_front(frame.len(), |slot| self.send(*outputs.next().unwrap() as usize, slot));
    }

    fn drop_packet(&mut self, slot: Slot, why: Drop) {
        self.dropped[why as usize] += 1;
        self.pool.give_one(slot);
    }

    fn drop_frame(&mut self, frame: &mut Frame, why: Drop) {
        frame.drain_front(frame.len(), |slot| self.drop_packet(slot, why));
    }
}

fn packet(random: &mut Random) -> Vec<u8> {
    let mac = |random: &mut Random| [2, 0, 0, 0, 0, random.below(4) as u8];
    let mut bytes = [mac(random), mac(random)].concat();
    match random.below(12) {
        0 => bytes.truncate(random.below(14) as usize),
        1 => bytes.extend([8, 6]),
        2 => {
            bytes.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, 17, 64]);
            let addresses = (0..32).map(|at| if at % 16 < 13 { 0 } else { random.below(2) as u8 });
            bytes.extend(addresses.collect::<Vec<_>>());
            bytes.extend([0, random.below(3) as u8, 0, random.below(3) as u8, 0, 8, 0, 0]);
        }
        kind => {
            if kind == 3 {
                bytes.extend([0x81, 0, 0, random.below(3) as u8]);
            }
            let protocol = random.one(&[6, 17, 17, 1]);
            let fragment = if random.below(20) == 0 { 0x20 } else { 0 };
            bytes.extend([
                8,
                0,
                0x45,
                random.below(2) as u8,
                0,
                40,
                0,
                0,
                fragment,
                0,
                64,
                protocol,
            ]);
            bytes.extend([0, 0, 10, 0, 0, random.below(8) as u8, 10, random.below(3) as u8, 0, 1]);
            let ports = [0, random.below(4) as u8, 0, random.below(4) as u8];
            bytes.extend(ports);
            bytes.extend([0, 20, 0, 0, 0, 0, 0, 0, 0x50, 2, 0, 0, 0, 0, 0, 0]);
        }
    }
    bytes
}

fn rule(random: &mut Random, kinds: u64) -> Rule {
    let (mut key, mut mask) = (Key::default(), Mask::default());
    let fields = [
        Field::EthDst,
        Field::EthType,
        Field::VlanVid,
        Field::IpProto,
        Field::Ipv4Src,
        Field::Ipv4Dst,
        Field::TcpSrc,
        Field::TcpDst,
        Field::Ipv6Src,
        Field::IpTos,
        Field::InPort,
    ];
    // A packet that shares some fields with the rule, so that it matches sometimes.
    let mut of = Key::default();
    of.set(Field::InPort, u128::from(random.below(2) + 1));
    crate::key::extract(&packet(random), &mut of);
    for _ in 0..random.below(4) {
        let field = random.one(&fields);
        let bits = if random.below(2) == 0 { u128::MAX } else { u128::MAX << random.below(16) };
        key.set_masked(field, of.get(field), bits);
        mask.add(field, bits);
    }
    let (one, other) = (random.below(4) as u32 + 1, random.below(4) as u32 + 1);
    let does = match random.below(kinds) {
        0..8 => Does::Output(one),
        8 => Does::Drop,
        9 => Does::Both(one, other),
        10 => Does::Rewrite(one, other),
        11 => Does::Tag(one),
        12 => Does::Punt,
        13 => Does::Again,
        14 => Does::Alone(one),
        15 => Does::Output(99),
        _ => Does::Learn(one),
    };
    Rule { key, mask, does, counters: Arc::default() }
}

/// A packet that arrives, or a change of the rules.
#[derive(Debug, Clone)]
enum Event {
    Packet(usize, Vec<u8>),
    Remove(usize),
    Add(usize, Box<Rule>),
}

fn events(random: &mut Random, count: u64, kinds: u64) -> Vec<Event> {
    let event = |random: &mut Random| match random.below(60) {
        0 => Event::Remove(random.below(64) as usize),
        1 => Event::Add(random.below(8) as usize, Box::new(rule(random, kinds))),
        _ => Event::Packet(random.below(8) as usize / 5, packet(random)),
    };
    (0..count).map(|_| event(random)).collect()
}

/// Packets sent and punted, and counts of the rules.
#[derive(Debug, PartialEq, Default)]
struct Outcome {
    sent: Vec<Vec<Vec<u8>>>,
    punted: Vec<Vec<u8>>,
    counted: Vec<(u64, u64)>,
}

fn change(tables: &StandIn, event: &Event, counted: &mut Vec<Arc<Counters>>) {
    let mut rules = Vec::clone(&tables.rules());
    match event {
        Event::Remove(at) if !rules.is_empty() => {
            let rule = rules.remove(at % rules.len());
            tables.set(rules, &[(rule.key, rule.mask)]);
        }
        Event::Add(at, rule) => {
            let rule = Rule { counters: Arc::default(), ..Rule::clone(rule) };
            counted.push(Arc::clone(&rule.counters));
            let changed = (rule.key, rule.mask);
            rules.insert(at % (rules.len() + 1), rule);
            tables.set(rules, &[changed]);
        }
        _ => {}
    }
}

/// Packets one by one, each decided by itself.
fn slowly(rules: &[Rule], events: &[Event]) -> Outcome {
    let tables = StandIn::new(fresh(rules));
    let mut counted: Vec<_> =
        tables.rules().iter().map(|rule| Arc::clone(&rule.counters)).collect();
    let mut outcome = Outcome { sent: vec![Vec::new(); PORTS as usize], ..Outcome::default() };
    for event in events {
        let Event::Packet(place, bytes) = event else {
            change(&tables, event, &mut counted);
            continue;
        };
        let (mut bytes, mut from) = (bytes.clone(), None);
        loop {
            let mut key = Key::default();
            key.set(Field::InPort, *place as u128 + 1);
            key.set(Field::InPhyPort, *place as u128 + 1);
            crate::key::extract(&bytes, &mut key);
            let decision = tables.look(&tables.rules(), &key, from.is_some());
            from = None;
            decision.counted.iter().for_each(|one| one.add(1, bytes.len() as u64, 0));
            for step in &decision.steps {
                match step {
                    Step::Output { port, .. } if *port <= PORTS => {
                        outcome.sent[*port as usize - 1].push(bytes.clone());
                    }
                    Step::Output { .. } => {}
                    Step::Controller(_) => outcome.punted.push(bytes.clone()),
                    Step::Continue(next) => from = Some(Arc::clone(next)),
                    step => assert!(step.apply(&mut bytes)),
                }
            }
            if from.is_none() {
                break;
            }
        }
    }
    outcome.counted = counted.iter().map(|one| (one.packets(), one.bytes())).collect();
    outcome
}

fn fresh(rules: &[Rule]) -> Vec<Rule> {
    rules.iter().map(|rule| Rule { counters: Arc::default(), ..rule.clone() }).collect()
}

/// Likewise by the fast path, in frames of at most so many.
fn fast(rules: &[Rule], events: &[Event], limit: usize, entries: usize) -> (Outcome, u64) {
    let tables = StandIn::new(fresh(rules));
    let mut counted: Vec<_> =
        tables.rules().iter().map(|rule| Arc::clone(&rule.counters)).collect();
    let arena = ArenaOptions { size: 1 << 21, ..Default::default() }.create().unwrap();
    let mut out = TestOutlet::new(&arena);
    let ports: Vec<u32> = (1..=PORTS).collect();
    let options = Options { entries, ..Options::default() };
    let mut path = FlowCache::new(&ports, options);
    let (mut frame, mut at) = (Frame::new(limit), 0);
    let send = |path: &mut FlowCache, out: &mut TestOutlet, at: usize, frame: &mut Frame| {
        if !frame.is_empty() {
            path.process(&tables, out, at, frame, 1);
            assert!(frame.is_empty());
        }
    };
    for (number, event) in events.iter().enumerate() {
        match event {
            Event::Packet(place, bytes) => {
                if *place != at || frame.len() == limit {
                    send(&mut path, &mut out, at, &mut frame);
                }
                at = *place;
                let mut slot = out.pool.take_one(bytes.len()).unwrap();
                arena.packet_mut(&mut slot).unwrap().copy_from_slice(bytes);
                frame.push(slot).unwrap();
            }
            change_it => {
                send(&mut path, &mut out, at, &mut frame);
                change(&tables, change_it, &mut counted);
            }
        }
        if number % 100 == 99 {
            path.tick(number as u64);
        }
    }
    send(&mut path, &mut out, at, &mut frame);
    path.flush(1);
    let totals = path.totals();
    assert!(totals.entries <= entries.max(1));
    path.clear(1);
    assert_eq!(path.totals().entries, 0);
    assert_eq!(out.dropped[Drop::Budget as usize], 0);
    let punted = std::mem::take(&mut *tables.punted.lock().unwrap());
    let counted = counted.iter().map(|one| (one.packets(), one.bytes())).collect();
    let TestOutlet { pool, sent, .. } = out;
    std::mem::drop(pool);
    assert_eq!(arena.accounting().held, 0);
    (Outcome { sent, punted, counted }, tables.decided.load(Relaxed))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 96 }))]

    /// Ports, bytes, order by port and counters are as when each packet is decided by itself, in
    /// frames of any size, with caches of any size, with changes between frames and changes that
    /// packets make.
    #[test]
    fn the_flow_cache_acts_as_the_tables(
        seed: u64, rules in 0..20u64, kinds in prop::sample::select(vec![9u64, 12, 17]),
    ) {
        compare(seed, rules, kinds);
    }
}

/// Seeds of cases that were wrong once.
#[test]
fn cases_that_failed_once_pass() {
    compare(10_777_059_136_291_184_121, 4, 17);
}

fn compare(seed: u64, rules: u64, kinds: u64) {
    let mut random = Random(seed);
    let rules: Vec<_> = (0..rules).map(|_| rule(&mut random, kinds)).collect();
    let events = events(&mut random, 600, kinds);
    let slow = slowly(&rules, &events);
    for limit in [1, 7, 256] {
        for entries in [1, 5, 1000] {
            let what = format!("seed {seed}, frames of {limit}, {entries} entries");
            let (fast, decided) = fast(&rules, &events, limit, entries);
            for port in 0..PORTS as usize {
                let (fast, slow) = (&fast.sent[port], &slow.sent[port]);
                let differs = fast.iter().zip(slow).position(|(fast, slow)| fast != slow);
                assert_eq!(fast.len(), slow.len(), "{what}: port {port}, from {differs:?} on");
                assert_eq!(differs, None, "{what}: port {port}");
            }
            assert_eq!(fast, slow, "{what}");
            if kinds == 9 && entries == 1000 {
                assert!(decided < 600, "{what}: {decided} decided");
            }
        }
    }
}

/// Frames of packets to one output by a rule that looks at their addresses.
fn storm(
    path: &mut FlowCache,
    tables: &StandIn,
    out: &mut TestOutlet,
    flows: impl Iterator<Item = u64>,
) {
    let mut frame = Frame::new(32);
    let flows: Vec<_> = flows.collect();
    for flows in flows.chunks(32) {
        for flow in flows {
            let mut slot = out.pool.take_one(60).unwrap();
            let arena = out.pool.arena().clone();
            let bytes = arena.packet_mut(&mut slot).unwrap();
            bytes.fill(0);
            bytes[6..12].copy_from_slice(&flow.to_be_bytes()[2..]);
            frame.push(slot).unwrap();
        }
        path.process(tables, out, 0, &mut frame, 1);
    }
}

#[test]
fn a_storm_is_decided_and_entries_behind_it_are_kept() {
    const ENTRIES: usize = 256;
    let (mut key, mut mask) = (Key::default(), Mask::default());
    key.set(Field::InPort, 1);
    mask.add_all(Field::InPort);
    mask.add_all(Field::EthSrc);
    // A rule that matches nothing and has all look at the whole address.
    let wanting = Rule { key, mask, does: Does::Drop, counters: Arc::default() };
    let all = Rule {
        mask: Mask::from_field(Field::InPort),
        does: Does::Output(2),
        counters: Arc::default(),
        ..wanting.clone()
    };
    let counters = Arc::clone(&all.counters);
    let tables = StandIn::new(vec![wanting, all]);
    let arena = ArenaOptions { size: 1 << 21, ..Default::default() }.create().unwrap();
    let mut out = TestOutlet::new(&arena);
    let ports: Vec<u32> = (1..=PORTS).collect();
    let options = Options { entries: ENTRIES, ..Options::default() };
    let mut path = FlowCache::new(&ports, options);
    let made = |path: &FlowCache| path.counts().made;

    storm(&mut path, &tables, &mut out, 1..20_001);
    let before = (made(&path), path.counts().decided);
    storm(&mut path, &tables, &mut out, 20_001..40_001);
    assert_eq!(path.counts().decided - before.1, 20_000, "each is decided, once");
    let kept = made(&path) - before.0;
    assert!((50..=100).contains(&kept), "{kept} of 20,000 are kept, which is not one in 256");

    // Some flows that stay: they are kept again, and then all are found.
    let stay = |times: u64| (0..times).flat_map(|_| 50_001..50_065);
    storm(&mut path, &tables, &mut out, stay(1000));
    let before = path.counts().decided;
    storm(&mut path, &tables, &mut out, stay(100));
    assert_eq!(path.counts().decided, before);

    path.flush(1);
    assert_eq!(counters.packets(), 40_000 + 1100 * 64);
    let sources = out.sent[1]
        .iter()
        .map(|packet| u64::from_be_bytes([&[0, 0], &packet[6..12]].concat().try_into().unwrap()));
    assert!(sources.eq((1..40_001).chain(stay(1100))), "all of them, in order");
}

/// Copies that go on double each time.
#[derive(Debug, Default)]
struct Doubling(AtomicU64);

impl Tables for Doubling {
    fn refresh(&self, _: &mut Arc<Snapshot>) -> bool {
        false
    }

    fn decide(&self, _: &Snapshot, _: &Key, _: Option<&Continuation>, _: u64) -> Decision {
        self.0.fetch_add(1, Relaxed);
        let copy = Step::Copy(vec![Step::Continue(continuation())]);
        let steps = vec![copy, Step::Continue(continuation())];
        Decision { steps, ..Decision::default() }
    }

    fn concerns(&self, _: &Snapshot, _: u64, _: &Decision, _: &Key) -> bool {
        false
    }

    fn track(&self, _: &Ct, _: u16, _: &mut Key, _: &mut [u8], _: u64) -> Tracked {
        Tracked::One
    }

    fn punt(&self, _: &Arc<Punt>, _: &Key, _: &[u8]) -> bool {
        false
    }
}

#[test]
fn copies_that_are_looked_up_again_come_to_an_end() {
    let arena = ArenaOptions { size: 1 << 21, ..Default::default() }.create().unwrap();
    let mut out = TestOutlet::new(&arena);
    let mut path = FlowCache::new(&[1], Options::default());
    let tables = Doubling::default();
    let mut frame = Frame::new(1);
    frame.push(out.pool.take_one(60).unwrap()).unwrap();
    path.process(&tables, &mut out, 0, &mut frame, 1);
    assert!(tables.0.load(Relaxed) <= 5000);
    assert!(out.dropped[Drop::Loop as usize] > 0);
    std::mem::drop(out);
    assert_eq!(arena.accounting().held, 0);
}

#[test]
fn a_packet_that_no_controller_gets_is_counted() {
    let arena = ArenaOptions { size: 1 << 21, ..Default::default() }.create().unwrap();
    let mut out = TestOutlet::new(&arena);
    let mut path = FlowCache::new(&[1], Options::default());
    let steps = vec![Step::Controller(Arc::new(punt()))];
    let decision = Decision { steps, ..Decision::default() };
    let mut key = Key::default();
    key.set(Field::InPort, 1);
    let slot = out.pool.take_one(60).unwrap();
    path.inject(&Doubling::default(), &mut out, slot, (&key, &decision), 1);
    assert_eq!(path.ports[0].counted[PortCount::PuntsDropped as usize], 1);
}
