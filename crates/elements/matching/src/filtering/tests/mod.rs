//! Expressions against Click and against an evaluation of their trees.

mod against_click;
mod ethernet;
mod messages;
mod random;
mod reference;

use linerate_graph::{Names, Plan, Scope, lang::Globals, load};
use linerate_memory::{Arena, ArenaOptions, Frame, HeaderCache, PoolCache};

use super::{
    Expression,
    rules::{Rules, program},
    words::Dictionary,
};
use crate::decision::{Headers, Matcher};

/// A plan without anything in it.
fn plan() -> Plan {
    let mut loader = |_: &str, _: &str| Err(None);
    let loaded = load(
        "config",
        "Idle -> Discard",
        &crate::testing::Run::library(),
        &Globals::default(),
        &mut loader,
    );
    loaded.plan.expect("a plan")
}

/// Reads rules; they are right.
fn rules(plan: &Plan, texts: &[String]) -> Rules {
    let scope = Scope { plan, names: &Names::default(), name: "x" };
    let rules = Rules::read(texts, 3, Dictionary(scope));
    assert_eq!(rules.errors(), Vec::<&str>::new(), "{texts:?}");
    rules
}

/// Buffers and frames for decisions.
struct Bench {
    arena: Arena,
    pool: PoolCache,
}

impl Bench {
    fn new() -> Bench {
        let arena = ArenaOptions { size: 4 << 20, huge: false, ..Default::default() };
        let arena = arena.create().expect("4 MiB");
        Bench { pool: arena.cache(256), arena }
    }

    /// Returns the outputs of packets, whose network header is behind 14 bytes, in frames of so
    /// many.
    fn decide(&mut self, rules: &Rules, packets: &[Vec<u8>], limit: usize) -> Vec<u32> {
        self.run(&mut matcher(rules, limit), packets, limit)
    }

    fn run(&mut self, matcher: &mut Matcher, packets: &[Vec<u8>], limit: usize) -> Vec<u32> {
        let mut answers = Vec::new();
        for packets in packets.chunks(limit) {
            let mut frame = Frame::new(limit);
            for bytes in packets {
                assert_eq!(self.pool.take(&mut frame, 1, bytes.len()), 1);
                let slot = frame.slots_mut().last_mut().expect("just taken");
                self.arena.packet_mut(slot).expect("not shared").copy_from_slice(bytes);
                let mut packet = self.arena.writable(slot).expect("not shared");
                packet.mark_headers(14, 14 + usize::from(bytes[14] & 15) * 4);
            }
            answers.extend_from_slice(matcher.run(
                &self.arena,
                &mut frame,
                &mut HeaderCache::new(256),
            ));
            self.pool.give(&mut frame);
        }
        answers
    }
}

fn matcher(rules: &Rules, limit: usize) -> Matcher {
    let formulas = rules.formulas();
    Matcher::new(program(&formulas), &formulas, Headers::Ip { marked: false, noted: false }, limit)
}

/// Vectors of bits for rules that are decided otherwise, since they are few.
#[test]
fn bits_decide_as_trees() {
    let (plan, mut bench) = (plan(), Bench::new());
    let mut found = 0;
    for seed in 0..1500 {
        let mut random = random::Random::new(seed);
        let texts = random.rules();
        let rules = rules(&plan, &texts);
        let Some(mut matcher) = matcher(&rules, 64).by_bits(&rules.formulas(), 64) else {
            continue;
        };
        found += 1;
        let packets: Vec<_> = (0..40).map(|_| random.packet(100)).collect();
        let answers = bench.run(&mut matcher, &packets, 64);
        for (answer, packet) in answers.into_iter().zip(&packets) {
            let expected = reference::output(&rules.rules, packet);
            assert_eq!(answer, expected, "seed {seed}: {texts:?}\n{packet:02x?}");
        }
    }
    assert!(found > 700, "{found} of 1500");
}

/// Short lists for rules of every kind, few and many, in frames of several lengths.
#[test]
fn lists_decide_as_trees() {
    let (plan, mut bench) = (plan(), Bench::new());
    let (mut few, mut many) = (0, 0);
    for seed in 0..600 {
        let mut random = random::Random::new(seed);
        let of_firewall = seed % 10 == 0;
        let texts: Vec<String> = if of_firewall {
            (0..5 + seed % 300).map(|_| random.firewall_rule()).collect()
        } else {
            random.rules()
        };
        let rules = rules(&plan, &texts);
        let limit = [4, 7, 64, 256][seed as usize % 4];
        let Some(mut matcher) = matcher(&rules, limit).by_buckets(&rules.formulas(), limit) else {
            continue;
        };
        *(if of_firewall { &mut many } else { &mut few }) += 1;
        let packets: Vec<_> = (0..100).map(|_| random.packet(100)).collect();
        let answers = bench.run(&mut matcher, &packets, limit);
        for (answer, packet) in answers.into_iter().zip(&packets) {
            let expected = reference::output(&rules.rules, packet);
            assert_eq!(answer, expected, "seed {seed}: {texts:?}\n{packet:02x?}");
        }
    }
    assert!(few > 50 && many > 50, "{few} and {many}");
}

#[test]
fn trees_decide_as_their_rules() {
    let (plan, mut bench) = (plan(), Bench::new());
    for seed in 0..1500 {
        let mut random = random::Random::new(seed);
        let texts = random.rules();
        let rules = rules(&plan, &texts);
        let packets: Vec<_> = (0..40).map(|_| random.packet(100)).collect();
        let limit = [1, 7, 64][seed as usize % 3];
        for (answer, packet) in bench.decide(&rules, &packets, limit).into_iter().zip(&packets) {
            let expected = reference::output(&rules.rules, packet);
            assert_eq!(answer, expected, "seed {seed}: {texts:?}\n{packet:02x?}");
        }
    }
}

/// Many rules are decided by tables, or by vectors of bits where they are too many for these.
#[test]
fn many_rules_decide_as_the_reference() {
    let (plan, mut bench) = (plan(), Bench::new());
    for (seed, count) in [(0, 50), (1, 200), (2, 700)] {
        let mut random = random::Random::new(seed);
        let texts: Vec<_> = (0..count).map(|_| random.firewall_rule()).collect();
        let rules = rules(&plan, &texts);
        let packets: Vec<_> = (0..500).map(|_| random.packet(60)).collect();
        let answers = bench.decide(&rules, &packets, 256);
        for (answer, packet) in answers.iter().zip(&packets) {
            assert_eq!(*answer, reference::output(&rules.rules, packet), "{packet:02x?}");
        }
        // Each of the packets that rules are about goes somewhere.
        let accepted = answers.iter().filter(|answer| **answer != u32::MAX).count();
        assert!(accepted > 20, "{accepted} of 500");
    }
}

/// Such expressions about frames with unmarked headers, with VLAN tags and without.
#[test]
fn an_expression_finds_headers_itself() {
    let (plan, names) = (plan(), Names::default());
    let scope = Scope { plan: &plan, names: &names, name: "x" };
    for seed in 0..1500 {
        let mut random = random::Random::new(seed);
        let text = &random.rules()[0];
        let (_, text) = text.split_once(' ').expect("an action and an expression");
        let rules = rules(&plan, &[format!("allow {text}")]);
        let expression = Expression::new(text, scope).expect("it is right");
        for _ in 0..20 {
            let mut packet = random.packet(100);
            let expected = reference::output(&rules.rules, &packet) == 0;
            assert_eq!(expression.holds(&packet), expected, "seed {seed}: {text}\n{packet:02x?}");
            for tag in [[0x81, 0, 0, 5], [0x88, 0xa8, 0, 7]] {
                packet.splice(12..12, tag);
                assert_eq!(expression.holds(&packet), expected, "seed {seed}: {text}, tagged");
            }
        }
    }
    let holds = |text: &str, packet: &[u8]| {
        Expression::new(text, scope).expect("it is right").holds(packet)
    };
    let mut packet = random::Random::new(0).packet(100);
    assert!(holds("ip vers 4", &packet) && !holds("ip vers 4", &packet[..33]));
    assert!(holds("true", &[]) && holds("all", &[]) && !holds("ip vers 4", &[]));
    assert!(!holds("ether host 0:1:2:3:4:5", &[]));
    packet[14] = 0x44;
    assert!(!holds("ip vers 4", &packet), "a header cannot be that short");
    packet[12..15].copy_from_slice(&[0x86, 0xdd, 0x45]);
    assert!(!holds("ip vers 4", &packet), "that is another protocol");
    let error = Expression::new("tcp and prt 5", scope).unwrap_err();
    assert_eq!(error, "empty term near 'prt'");
}

/// A tree is not built too deep, however an expression is nested.
#[test]
fn nesting_has_a_limit() {
    let (plan, names) = (plan(), Names::default());
    let scope = Scope { plan: &plan, names: &names, name: "x" };
    for (text, right) in [
        ("(".repeat(100) + "tcp" + &")".repeat(100), true),
        ("(".repeat(100_000) + "tcp", false),
        ("tcp ? ".repeat(100_000), false),
        ("! ".repeat(100_000) + "tcp", true),
        ("tcp or ".repeat(1000) + "udp", true),
    ] {
        let rules = Rules::read(&[format!("allow {text}")], 1, Dictionary(scope));
        assert_eq!(rules.errors().is_empty(), right);
        if right {
            drop(program(&rules.formulas()));
        }
    }
}
