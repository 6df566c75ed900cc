//! Tests of the tables against std's `HashMap` and against attackers that know the seed.

use std::collections::HashMap;

use linerate_packet::{FlowV4, IpProtocol};
use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Insert(u64, u32),
    Remove(u64),
    RemoveEntry(u64),
    Lookup(Vec<u64>),
}

/// Few keys, so that they meet again; many steps, so that buckets are split.
fn steps(keys: u64) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0..keys, any::<u32>()).prop_map(|(key, value)| Step::Insert(key, value)),
        2 => (0..keys).prop_map(Step::Remove),
        2 => (0..keys).prop_map(Step::RemoveEntry),
        1 => proptest::collection::vec(0..keys, 0..if cfg!(miri) { 20 } else { 200 })
            .prop_map(Step::Lookup),
    ];
    proptest::collection::vec(step, 0..if cfg!(miri) { 100 } else { 3000 })
}

fn same_as_a_hash_map<K: Key + std::hash::Hash + std::fmt::Debug>(
    steps: Vec<Step>,
    limit: usize,
    key: impl Fn(u64) -> K,
) -> Result<(), TestCaseError> {
    let mut table =
        Table::with_seed(limit, Backing::OnDemand, Seed::fixed(limit as u64)).expect("memory");
    let mut model = HashMap::new();
    for step in steps {
        match step {
            Step::Insert(number, value) => {
                let key = key(number);
                let full = model.len() == limit && !model.contains_key(&key);
                let expected = if full { Err(Refusal::Full) } else { Ok(model.insert(key, value)) };
                prop_assert_eq!(table.insert(key, value).map(|(_, old)| old), expected);
            }
            Step::Remove(number) => {
                prop_assert_eq!(table.remove(&key(number)), model.remove(&key(number)));
            }
            Step::RemoveEntry(number) => {
                let entry = table.lookup(&key(number));
                let removed = entry.and_then(|entry| table.remove_entry(entry));
                prop_assert_eq!(removed, model.remove_entry(&key(number)));
                prop_assert_eq!(entry.and_then(|entry| table.get(entry)), None);
            }
            Step::Lookup(numbers) => {
                let keys: Vec<_> = numbers.iter().map(|&number| key(number)).collect();
                let mut found = vec![None; keys.len()];
                table.lookup_many(&keys, &mut found);
                for (key, found) in keys.iter().zip(found) {
                    prop_assert_eq!(found, table.lookup(key));
                    prop_assert_eq!(found.and_then(|found| table.get(found)), model.get(key));
                    prop_assert_eq!(found.and_then(|found| table.key(found)), found.map(|_| key));
                }
            }
        }
        prop_assert_eq!(table.len(), model.len());
    }
    let all: HashMap<_, _> = table.iter().map(|(_, &key, &value)| (key, value)).collect();
    prop_assert_eq!(all, model);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 64 }))]

    #[test]
    fn one_word_keys_as_in_a_hash_map(steps in steps(2000)) {
        same_as_a_hash_map(steps, 10_000, |number| number)?;
    }

    #[test]
    fn five_word_keys_as_in_a_hash_map_at_its_limit(steps in steps(400)) {
        same_as_a_hash_map(steps, 150, |number| [number, 0, 0, 0, number >> 3])?;
    }

    #[test]
    fn flows_as_in_a_hash_map(steps in steps(1000)) {
        same_as_a_hash_map(steps, 10_000, |number| FlowV4 {
            src: (number as u32).into(),
            dst: 1.into(),
            src_port: number as u16,
            dst_port: 80,
            vlan: 0,
            protocol: IpProtocol(6),
        })?;
    }

    /// With virtual time, against a map that is searched as a whole.
    #[test]
    fn entries_expire_as_in_a_map_of_deadlines(
        steps in proptest::collection::vec(
            (0..300u64, 0..2000u64, 0..8u8),
            0..if cfg!(miri) { 100 } else { 2000 },
        ),
    ) {
        let mut table = Expiring::new(200, Backing::OnDemand, 50).expect("memory");
        let mut model = HashMap::<u64, u64>::new();
        let mut now = 50;
        for (key, span, what) in steps {
            let deadline = now + span;
            match what {
                0..3 => {
                    let full = model.len() == 200 && !model.contains_key(&key);
                    let inserted = table.insert(key, key, deadline);
                    prop_assert_eq!(inserted.err(), full.then_some(Refusal::Full));
                    if !full {
                        model.insert(key, deadline);
                    }
                }
                3 => {
                    prop_assert_eq!(table.remove(&key).is_some(), model.remove(&key).is_some());
                }
                4 => if let Some(entry) = table.lookup(&key) {
                    table.reschedule(entry, deadline);
                    model.insert(key, deadline);
                },
                5 | 6 => if let Some(entry) = table.lookup(&key) {
                    let later = model[&key].max(deadline);
                    table.touch(entry, later);
                    model.insert(key, later);
                    prop_assert_eq!(table.deadline(entry), Some(later));
                },
                _ => {
                    now += span / 8;
                    let mut expired = Vec::new();
                    table.expire(now, usize::MAX, |_, key, value| {
                        assert_eq!(key, value);
                        expired.push(key);
                    });
                    expired.sort_unstable();
                    let mut due: Vec<_> =
                        model.iter().filter(|(_, at)| **at <= now).map(|(&key, _)| key).collect();
                    due.sort_unstable();
                    prop_assert_eq!(expired, due);
                    model.retain(|_, at| *at > now);
                }
            }
            prop_assert_eq!(table.len(), model.len());
        }
    }
}

/// Keys that agree in the 13 low bits of the hash: all that chooses the first bucket in a table of up
/// to 8,192 buckets.
fn colliding(seed: &Seed, count: usize) -> Vec<u64> {
    let low = |key: u64| index::signature(key.hash(seed)) & 0x1fff;
    (0..).filter(|&key| low(key) == low(0)).take(count).collect()
}

#[test]
#[cfg_attr(miri, ignore = "thousands of keys take hours")]
fn keys_chosen_with_the_seed_share_a_bucket_and_are_still_found() {
    let seed = Seed::fixed(77);
    let mut table = Table::with_seed(32_768, Backing::OnDemand, seed.clone()).expect("memory");
    let keys = colliding(&seed, 600);
    let taken: Vec<_> = keys.iter().filter(|&&key| table.insert(key, key).is_ok()).collect();
    for key in &taken {
        let entry = table.lookup(key).expect("it was taken");
        assert_eq!(table.get(entry), Some(*key));
    }
    assert_eq!(table.len(), taken.len());
    // Their second buckets differ, so hundreds go in; the rest of the keys are not disturbed.
    let mut refused = 0;
    for key in 1_000_000..1_020_000u64 {
        refused += usize::from(table.insert(key, key).is_err());
    }
    assert!(refused < 20, "{refused} of 20,000 other keys refused");
}

#[test]
#[cfg_attr(miri, ignore = "thousands of keys take hours")]
fn keys_chosen_for_one_table_are_any_keys_in_another() {
    let keys = colliding(&Seed::fixed(77), 600);
    // Two tables never have the same seed; neither do two runs.
    for seed in [Seed::fixed(78), Seed::random(), Seed::random()] {
        let mut load = std::collections::HashMap::new();
        for key in &keys {
            *load.entry(index::signature(key.hash(&seed)) & 0x1fff).or_insert(0u32) += 1;
        }
        // 600 balls into 8,192 bins: seven in one has a probability of 1e-9.
        assert!(load.values().all(|keys| *keys < 7), "{:?}", load.values().max());
        let mut table = Table::with_seed(32_768, Backing::OnDemand, seed).expect("memory");
        assert!(keys.iter().all(|key| table.insert(*key, *key).is_ok()));
    }
}

/// A hash under an attacker's control altogether.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Chosen(u64);

impl Key for Chosen {
    fn hash(&self, _: &Seed) -> u64 {
        0x1234_5678_9abc_def0
    }
}

#[test]
fn keys_of_one_hash_are_refused_and_harm_no_other() {
    let mut table = Table::new(1 << 16, Backing::OnDemand).expect("memory");
    let results: Vec<_> = (0..1000).map(|key| table.insert(Chosen(key), key)).collect();
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 16);
    assert!(results[16..].iter().all(|result| result == &Err(Refusal::BucketsFull)));
    let keys: Vec<_> = (0..1000).map(Chosen).collect();
    let mut found = [None; 1000];
    table.lookup_many(&keys, &mut found);
    assert!(found[..16].iter().all(Option::is_some) && found[16..].iter().all(Option::is_none));
    assert_eq!(table.remove(&Chosen(3)), Some(3));
    assert!(table.insert(Chosen(500), 500).is_ok());
}

#[test]
#[cfg_attr(miri, ignore = "thousands of keys take hours")]
fn a_flood_of_new_keys_evicts_the_oldest() {
    let mut table = Expiring::new(1000, Backing::OnDemand, 1).expect("memory");
    let mut evicted = Vec::new();
    for key in 0..5000u64 {
        // Three keys are in use all the time.
        for busy in 0..3.min(key) {
            let entry = table.lookup(&busy).expect("a busy key stays");
            table.touch(entry, key + 300);
        }
        let inserted = table.insert_evicting(key, (), key + 300, |_, key, ()| evicted.push(key));
        assert!(inserted.is_ok());
    }
    assert_eq!((table.len(), evicted.len()), (1000, 4000));
    // Oldest first, to the width of a slot.
    assert!(evicted.iter().zip(3..).all(|(key, expected)| key.abs_diff(expected) < 128));
    assert_eq!(
        Expiring::new(0, Backing::OnDemand, 1).expect("memory").insert_evicting(
            1u64,
            (),
            5,
            |_, _, ()| ()
        ),
        Err(Refusal::Full),
    );
}

#[test]
#[cfg_attr(miri, ignore = "thousands of keys take hours")]
fn memory_follows_the_entries_and_is_used_again() {
    let mut table = Table::new(1 << 24, Backing::OnDemand).expect("addresses");
    assert!(table.memory() < 16 << 10, "{}", table.memory());
    for key in 0..100_000u64 {
        table.insert([key, 0], key).expect("room");
    }
    let memory = table.memory();
    assert!((100_000 * 32..100_000 * 60).contains(&memory), "{memory}");
    for round in 0..5u64 {
        for key in 0..100_000 {
            assert_eq!(table.remove(&[key, round]), Some(key));
            table.insert([key, round + 1], key).expect("room");
        }
    }
    assert!(table.memory() <= memory + (8 << 10));
}

#[test]
#[cfg_attr(miri, ignore = "thousands of keys take hours")]
fn no_random_key_is_refused_however_far_the_index_is_doubled() {
    // Several sizes of the last doubling, and a seed of its own each time.
    for limit in [10, 1000, 16_383, 70_000, 300_000] {
        let mut table = Table::new(limit, Backing::OnDemand).expect("memory");
        for key in 0..limit as u64 {
            assert!(table.insert(key, ()).is_ok(), "key {key} of {limit}");
        }
        assert_eq!(table.insert(u64::MAX, ()), Err(Refusal::Full));
    }
}

#[test]
fn entries_are_found_by_their_numbers_while_they_live() {
    let mut table = Table::new(10, Backing::OnDemand).expect("memory");
    let (entry, _) = table.insert(7u64, "seven").expect("room");
    assert_eq!(table.entry(entry.number()), Some(entry));
    assert_eq!(table.entry(1), None);
    table.remove(&7);
    assert_eq!(table.entry(entry.number()), None);
}
