//! Tables against a search through all flows.

use std::sync::Arc;

use proptest::prelude::*;

use super::{Flow, Table};
use crate::key::{Key, Mask};
use crate::wire::{Action, Entry, Field, FlowMod, Instruction, Match, PortNumber};

fn address() -> impl Strategy<Value = u128> {
    prop_oneof![
        (0..8u128).prop_map(|low| 0x0a00_0000 | low),
        (0..4u128, 0..4u128).prop_map(|(high, low)| 0x0a00_0000 | high << 16 | low << 6),
        any::<u32>().prop_map(u128::from),
    ]
}

fn prefix(bits: u32) -> impl Strategy<Value = u128> {
    let lengths = prop_oneof![Just(bits), Just(bits / 2), Just(bits - 3), 1..=bits];
    lengths.prop_map(move |length| u128::MAX >> (128 - bits) & u128::MAX << (bits - length))
}

fn entry() -> impl Strategy<Value = Entry> {
    let exact = |field: Field, values: &'static [u128]| {
        proptest::sample::select(values).prop_map(move |value| Entry::exact(field, value))
    };
    let masked = |field: Field| {
        (0..4u128, proptest::sample::select(&[1u128, 2, 3, 0xff][..]))
            .prop_map(move |(value, mask)| Entry::masked(field, value, mask))
    };
    let net = |field: Field| {
        (address(), prefix(32)).prop_map(move |(value, mask)| Entry::masked(field, value, mask))
    };
    prop_oneof![
        2 => exact(Field::InPort, &[1, 2, 3]),
        2 => exact(Field::EthType, &[0x0800, 0x0806, 0x86dd]),
        1 => exact(Field::EthDst, &[1, 2, 0xffff_ffff_ffff]),
        1 => exact(Field::IpProto, &[6, 17]),
        1 => masked(Field::Metadata),
        1 => masked(Field::Reg0),
        1 => masked(Field::VlanTci),
        1 => masked(Field::Ipv4Src),
        3 => net(Field::Ipv4Src),
        3 => net(Field::Ipv4Dst),
        1 => (address(), prefix(128)).prop_map(|(value, mask)| {
            Entry::masked(Field::Ipv6Dst, value << 96 | value, mask)
        }),
        2 => (0..4u128, prefix(16)).prop_map(|(value, mask)| Entry::masked(Field::TcpDst, value * 80, mask)),
        1 => masked(Field::TcpSrc),
        1 => exact(Field::ConjunctionId, &[1, 2]),
    ]
}

fn matching() -> impl Strategy<Value = Match> {
    proptest::collection::vec(entry(), 0..4).prop_map(|entries| entries.into_iter().collect())
}

/// A flow: seldom a part of a match in several dimensions.
fn change() -> impl Strategy<Value = FlowMod> {
    let send = Just(Action::Output { port: PortNumber(1), max_len: 0 });
    let part =
        (1..3u32, 0..2u8).prop_map(|(id, clause)| Action::Conjunction { id, clause, clauses: 2 });
    let action = prop_oneof![4 => send, 1 => part];
    (0..6u16, matching(), action).prop_map(|(priority, matching, action)| {
        FlowMod::add(0, priority, matching, vec![Instruction::ApplyActions(vec![action])])
    })
}

fn key() -> impl Strategy<Value = Key> {
    proptest::collection::vec(entry(), 0..10).prop_map(|entries| {
        let mut key = Key::default();
        entries.iter().for_each(|entry| key.set_entry(entry));
        key.set(Field::ConjunctionId, 0);
        key
    })
}

/// The first key where the mask has bits, else the second.
fn blend(one: &Key, other: &Key, mask: &Mask) -> Key {
    let mut key = *other;
    let words = key.words_mut().iter_mut().zip(one.words()).zip(mask.words());
    words.for_each(|((word, one), mask)| *word = *word & !mask | one & mask);
    key.set(Field::ConjunctionId, 0);
    key
}

fn best<'a>(flows: &'a [Arc<Flow>], key: &Key, parts: bool) -> impl Iterator<Item = &'a Arc<Flow>> {
    let mut matching: Vec<_> = flows
        .iter()
        .filter(|flow| {
            flow.conjunctive == parts && flow.pattern.key().agrees(key, &flow.pattern.mask())
        })
        .collect();
    matching.sort_by_key(|flow| std::cmp::Reverse(flow.priority));
    matching.into_iter()
}

/// Returns the priority of the flow that a key should match.
fn expected(flows: &[Arc<Flow>], key: &Key) -> Option<u16> {
    let found = best(flows, key, false).next().map(|flow| flow.priority);
    for priority in (0..6u16).rev().filter(|priority| found.is_none_or(|found| *priority > found)) {
        for id in 1..3 {
            let has = |wanted: u8| {
                best(flows, key, true).filter(|flow| flow.priority == priority).any(|flow| {
                    flow.actions().any(|action| {
                        *action == Action::Conjunction { id, clause: wanted, clauses: 2 }
                    })
                })
            };
            if has(0) && has(1) {
                let mut key = *key;
                key.set(Field::ConjunctionId, id.into());
                if let Some(flow) = best(flows, &key, false).next() {
                    return Some(flow.priority);
                }
            }
        }
    }
    found
}

#[derive(Debug, Default)]
struct Model {
    table: Table,
    flows: Vec<Arc<Flow>>,
}

impl Model {
    fn add(&mut self, change: &FlowMod) {
        let flow = Arc::new(Flow::new(self.flows.len() as u64, change, 0));
        let same =
            |other: &Arc<Flow>| other.priority == flow.priority && other.pattern == flow.pattern;
        let before = self.flows.iter().position(same).map(|at| self.flows.swap_remove(at));
        let replaced = self.table.insert(Arc::clone(&flow));
        assert_eq!(replaced.map(|flow| flow.number), before.map(|flow| flow.number));
        self.flows.push(flow);
    }

    fn remove(&mut self, at: usize) {
        let flow = self.flows.swap_remove(at % self.flows.len());
        let removed = self.table.remove(flow.priority, &flow.pattern.key(), &flow.pattern.mask());
        assert!(removed.is_some_and(|removed| Arc::ptr_eq(&removed, &flow)));
        assert!(
            self.table.remove(flow.priority, &flow.pattern.key(), &flow.pattern.mask()).is_none()
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn lookups_are_searches_and_hold_under_their_masks(
        changes in proptest::collection::vec((change(), proptest::option::weighted(0.3, any::<usize>())), 0..50),
        keys in proptest::collection::vec(key(), 1..12),
    ) {
        let mut model = Model::default();
        for (change, remove) in &changes {
            model.add(change);
            if let Some(at) = remove {
                model.remove(*at);
            }
        }
        let (table, flows) = (&model.table, &model.flows);
        prop_assert_eq!(table.len(), flows.len());
        prop_assert_eq!(table.iter().count(), flows.len());
        // Keys near to flows, too.
        let near = keys.iter().zip(flows).map(|(key, flow)| blend(&flow.pattern.key(), key, &flow.pattern.mask()));
        let keys: Vec<Key> = keys.iter().copied().chain(near).collect();
        for key in &keys {
            let mut mask = Mask::default();
            let found = table.lookup(key, &mut mask);
            prop_assert_eq!(found.map(|flow| flow.priority), expected(flows, key));
            for other in &keys {
                let like = blend(key, other, &mask);
                let same = table.lookup(&like, &mut Mask::default());
                prop_assert_eq!(same.map(|flow| flow.number), found.map(|flow| flow.number));
            }
        }
        for flow in flows {
            let strict = table.get(flow.priority, &flow.pattern.key(), &flow.pattern.mask());
            prop_assert!(strict.is_some_and(|found| Arc::ptr_eq(found, flow)));
        }
    }

    #[test]
    fn flows_that_a_match_covers_or_overlaps_are_found(
        changes in proptest::collection::vec(change(), 0..40),
        matching in matching(),
        priority in 0..6u16,
    ) {
        let mut model = Model::default();
        changes.iter().for_each(|change| model.add(change));
        let (key, mask) = crate::key::of_match(&matching);
        let mut covered = Vec::new();
        model.table.covered(&key, &mask, &mut |flow| covered.push(flow.number));
        covered.sort_unstable();
        let covers = |flow: &&Arc<Flow>| flow.pattern.mask().covers(&mask) && flow.pattern.key().agrees(&key, &mask);
        let mut expected: Vec<u64> = model.flows.iter().filter(covers).map(|flow| flow.number).collect();
        expected.sort_unstable();
        prop_assert_eq!(covered, expected);

        let overlaps = |flow: &Arc<Flow>| {
            let (own, of_own) = (flow.pattern.key(), flow.pattern.mask());
            let mut words = own.words().iter().zip(of_own.words()).zip(key.words()).zip(mask.words());
            let same = own == key && of_own == mask;
            flow.priority == priority && !same
                && words.all(|(((one, of_one), other), of_other)| (one ^ other) & of_one & of_other == 0)
        };
        let expected = model.flows.iter().any(overlaps);
        prop_assert_eq!(model.table.overlaps(priority, &key, &mask), expected);
    }
}

#[test]
fn as_few_bits_as_can_be_are_looked_at() {
    let mut model = Model::default();
    let web = Match::new()
        .with(Field::EthType, 0x0800)
        .with(Field::IpProto, 6)
        .with_masked(Field::Ipv4Dst, 0x0a01_0200, 0xffff_ff00)
        .with(Field::TcpDst, 80);
    model.add(&FlowMod::add(0, 5, web, Vec::new()));
    let mut key = Key::default();
    key.set(Field::EthType, 0x0806);
    let looked_at = |key: &Key| {
        let mut mask = Mask::default();
        let _ = model.table.lookup(key, &mut mask);
        [Field::EthType, Field::IpProto, Field::Ipv4Dst, Field::TcpDst].map(|field| mask.get(field))
    };
    assert_eq!(looked_at(&key), [0xffff, 0, 0, 0], "no IPv4");
    key.set(Field::EthType, 0x0800);
    key.set(Field::IpProto, 6);
    key.set(Field::Ipv4Dst, 0x0b00_0000);
    assert_eq!(looked_at(&key), [0xffff, 0, 0xff00_0000, 0], "the eighth bit is another one");
    key.set(Field::Ipv4Dst, 0x0a01_0201);
    key.set(Field::TcpDst, 0x8050);
    assert_eq!(looked_at(&key), [0xffff, 0xff, 0xffff_ff00, 0x8000], "the port's first bit");
    key.set(Field::TcpDst, 80);
    assert_eq!(looked_at(&key), [0xffff, 0xff, 0xffff_ff00, 0xffff]);
}
