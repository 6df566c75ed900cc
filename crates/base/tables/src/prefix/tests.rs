//! Tests of the prefix table against a naive one.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
};

use proptest::prelude::*;

use super::{Address, NextHop, Prefix, PrefixError, PrefixReader, PrefixTable};

fn hop(number: u32) -> NextHop {
    NextHop::new(number).unwrap()
}

/// Every route is tried, or every length, the longest first, whichever are fewer: an interpreter
/// that looks for undefined behaviour takes minutes for the lengths of IPv6.
fn naive<A: Address>(routes: &BTreeMap<Prefix<A>, NextHop>, address: A) -> NextHop {
    if routes.len() < A::BITS as usize {
        let covering = routes.iter().filter(|(route, _)| route.contains(address));
        let longest = covering.max_by_key(|(route, _)| route.length());
        return longest.map_or(NextHop::NONE, |(_, hop)| *hop);
    }
    let longest =
        (0..=A::BITS).rev().find_map(|length| routes.get(&Prefix::from_parts(address, length)));
    longest.copied().unwrap_or(NextHop::NONE)
}

/// Addresses where answers may change: both ends of every route, and the
/// addresses beyond them.
fn edges<A: Address>(routes: impl Iterator<Item = Prefix<A>>) -> Vec<A> {
    let last = Prefix::<A>::ALL.last();
    let mut edges = vec![A::ZERO, last];
    for route in routes {
        edges.extend([route.first(), route.last()]);
        if route.last() != last {
            edges.push(route.last().next());
        }
    }
    edges
}

/// By all paths there are: addresses one by one, few and all at once.
fn compare<A: Address>(
    reader: &PrefixReader<A>,
    routes: &BTreeMap<Prefix<A>, NextHop>,
    addresses: &[A],
) {
    let mut hops = vec![NextHop::NONE; addresses.len()];
    reader.lookup_many(addresses, &mut hops);
    for (&address, &hop) in addresses.iter().zip(&hops) {
        assert_eq!(hop, naive(routes, address), "{}", Prefix::from_parts(address, A::BITS));
        assert_eq!(hop, reader.lookup(address), "{}", Prefix::from_parts(address, A::BITS));
    }
    let mut few = [NextHop::NONE; 11];
    for (addresses, hops) in addresses.chunks(few.len()).zip(hops.chunks(few.len())) {
        let few = &mut few[..addresses.len()];
        reader.lookup_many(addresses, few);
        assert_eq!(few, hops);
    }
}

#[derive(Debug, Clone)]
enum Change<A: Address> {
    Add(Prefix<A>, NextHop),
    Set(Prefix<A>, NextHop),
    Remove(Prefix<A>),
    Load(Vec<(Prefix<A>, NextHop)>),
    Apply(Vec<(Prefix<A>, Option<NextHop>)>),
}

/// Prefixes that often contain each other: few different bits, all lengths.
fn prefixes<A: Address + From<u32>>(spread: fn(u32) -> A) -> BoxedStrategy<Prefix<A>> {
    let addresses = prop_oneof![
        any::<u32>(),
        (0..4_u32, 0..4_u32).prop_map(|(high, low)| 0x0a00_0000 | high << 14 | low << 6),
    ];
    (addresses, 0..=A::BITS)
        .prop_map(move |(address, length)| Prefix::from_parts(spread(address), length))
        .boxed()
}

fn changes<A: Address + From<u32>>(spread: fn(u32) -> A) -> impl Strategy<Value = Vec<Change<A>>> {
    let prefix = prefixes(spread);
    let hops = prop_oneof![(1..4_u32), Just(16_384), Just(NextHop::MAX)].prop_map(hop);
    let route = (prefix.clone(), hops);
    let load = prop::collection::vec(route.clone(), 0..if cfg!(miri) { 4 } else { 40 });
    let either = (prefix.clone(), prop::option::of(route.clone().prop_map(|(_, hop)| hop)));
    let apply = prop::collection::vec(either, 0..if cfg!(miri) { 4 } else { 12 });
    prop::collection::vec(
        prop_oneof![
            6 => route.clone().prop_map(|(prefix, hop)| Change::Add(prefix, hop)),
            3 => route.prop_map(|(prefix, hop)| Change::Set(prefix, hop)),
            3 => prefix.prop_map(Change::Remove),
            1 => load.prop_map(Change::Load),
            1 => apply.prop_map(Change::Apply),
        ],
        1..if cfg!(miri) { 4 } else { 60 },
    )
}

fn follow<A: Address>(changes: Vec<Change<A>>) {
    let mut table = PrefixTable::with_memory(if cfg!(miri) { 1 << 15 } else { 64 << 20 }).unwrap();
    let mut model = BTreeMap::new();
    let mut places = Vec::new();
    for change in changes {
        match change {
            Change::Add(prefix, hop) => {
                let added = table.add(prefix, hop);
                let known = model.contains_key(&prefix);
                if known {
                    assert!(matches!(added, Err(PrefixError::Exists(of)) if of == prefix));
                } else {
                    assert!(model.insert(prefix, hop).is_none() && added.is_ok());
                }
            }
            Change::Set(prefix, hop) => {
                assert_eq!(table.set(prefix, hop).unwrap(), model.insert(prefix, hop));
            }
            Change::Remove(prefix) => {
                // Half of the requested prefixes are there.
                let there = model.keys().next().copied().filter(|_| prefix.length() % 2 == 0);
                let prefix = there.unwrap_or(prefix);
                match (table.remove(prefix), model.remove(&prefix)) {
                    (Ok(hop), Some(was)) => assert_eq!(hop, was),
                    (Err(PrefixError::Absent(of)), None) => assert_eq!(of, prefix),
                    differ => panic!("{differ:?}"),
                }
            }
            Change::Apply(changes) => {
                table.apply(changes.iter().copied()).unwrap();
                for (prefix, to) in changes {
                    match to {
                        Some(hop) => drop(model.insert(prefix, hop)),
                        None => drop(model.remove(&prefix)),
                    }
                }
            }
            Change::Load(routes) => {
                let new: BTreeMap<_, _> = routes.iter().copied().collect();
                match (table.load(routes.iter().copied()), new.len() == routes.len()) {
                    (Ok(()), true) => model = new,
                    (Err(PrefixError::Exists(_)), false) => {}
                    differ => panic!("{differ:?}"),
                }
            }
        }
        places.extend(edges(model.keys().rev().take(4).copied()));
        compare(&table.reader(), &model, &edges(model.keys().copied()));
    }
    compare(&table.reader(), &model, &places);
    assert!(table.routes().eq(model.iter().map(|(prefix, hop)| (*prefix, *hop))));
    for &address in places.iter().take(100) {
        assert_eq!(
            table.longest(address).map_or(NextHop::NONE, |(_, hop)| hop),
            naive(&model, address)
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 24 }))]

    #[test]
    #[cfg_attr(miri, ignore = "a tbl24 has 2^24 words")]
    fn ipv4_answers_as_a_naive_table_does(changes in changes::<u32>(|address| address)) {
        follow(changes);
    }

    #[test]
    fn ipv6_answers_as_a_naive_table_does(
        changes in changes::<u128>(|address| u128::from(address) << 90 | u128::from(address) << 5)
    ) {
        follow(changes);
    }
}

/// Below one word of the first array, in IPv6: prefixes part at every bit, and end at any.
fn deep(random: &mut fastrand::Rng) -> Prefix<u128> {
    let base = 0x2001_0db8_u128 << 96;
    let mut address = base | random.u128(0..4) << 90;
    // Few bits differ from the base, so that most prefixes share long ways.
    for _ in 0..random.usize(0..4) {
        address ^= 1 << random.u32(0..104);
    }
    let lengths = [25, 30, 31, 47, 58, 59, 60, 63, 64, 65, 66, 70, 123, 127, 128];
    let any = random.u32(20..=128);
    let chosen = lengths[random.usize(..lengths.len())];
    Prefix::from_parts(address, if random.bool() { any } else { chosen })
}

#[test]
fn skips_are_split_and_joined_as_routes_come_and_go() {
    for seed in 0..if cfg!(miri) { 1 } else { 60 } {
        let mut random = fastrand::Rng::with_seed(seed);
        let memory = if cfg!(miri) { 1 << 15 } else { 16 << 20 };
        let mut table = PrefixTable::<u128>::with_memory(memory).unwrap();
        let mut model = BTreeMap::new();
        let most = [3, 10, 60][seed as usize % 3];
        for _ in 0..if cfg!(miri) { 6 } else { 200 } {
            if model.len() < most && random.u32(..3) > 0 {
                let (prefix, to) = (deep(&mut random), hop(random.u32(1..4)));
                assert_eq!(table.set(prefix, to).unwrap(), model.insert(prefix, to));
            } else if let Some(&prefix) = model.keys().nth(random.usize(..=most)) {
                assert_eq!(table.remove(prefix).ok(), model.remove(&prefix));
            }
            let mut places = edges(model.keys().copied());
            places.extend((0..20).map(|_| deep(&mut random).last()));
            compare(&table.reader(), &model, &places);
        }
        for prefix in model.keys() {
            table.remove(*prefix).unwrap();
        }
        compare(&table.reader(), &BTreeMap::new(), &edges(model.keys().copied()));
    }
}

#[test]
fn addresses_beside_a_skip_get_the_answer_around_it() {
    let at = |bits: u128, length| Prefix::from_parts(0x2001_0db8_u128 << 96 | bits, length);
    let steps = [
        // A host alone; the answer around it; one that parts within the skipped bits, and one that
        // ends there; both sides of the middle of the address.
        (at(1, 128), Some(1)),
        (at(0, 24), Some(2)),
        (at(1 << 80, 48), Some(3)),
        (at(0, 40), Some(4)),
        (at(0, 64), Some(5)),
        (at(0, 65), Some(1)),
        (Prefix::ALL, Some(9)),
        (at(1 << 80, 48), None),
        (at(0, 64), None),
        (at(0, 24), None),
        (at(0, 40), None),
        (at(1, 128), None),
    ];
    let mut table = PrefixTable::<u128>::with_memory(1 << 15).unwrap();
    let mut model = BTreeMap::new();
    let places = edges(steps.iter().map(|(prefix, _)| *prefix));
    for (prefix, to) in steps {
        match to {
            Some(to) => {
                table.add(prefix, hop(to)).unwrap();
                model.insert(prefix, hop(to));
            }
            None => assert_eq!(table.remove(prefix).ok(), model.remove(&prefix)),
        }
        compare(&table.reader(), &model, &places);
    }
}

#[test]
#[cfg_attr(miri, ignore = "two readers beside a writer take more than ten minutes")]
fn ipv6_readers_see_old_or_new_next_hops_while_skips_are_split_and_joined() {
    let mut random = fastrand::Rng::with_seed(5);
    under_updates(&(0..300).map(|n| (deep(&mut random), hop(n % 90 + 1))).collect());
}

/// Lengths of prefixes, in shares of a thousand, shaped like the Internet's
/// tables: more than half are of 24 bits. Round numbers, not a measured table.
const LENGTHS_4: [(u32, u32); 10] = [
    (8, 1),
    (12, 2),
    (16, 14),
    (18, 14),
    (19, 25),
    (20, 45),
    (21, 55),
    (22, 115),
    (23, 105),
    (24, 624),
];
const LENGTHS_6: [(u32, u32); 7] =
    [(29, 20), (32, 130), (36, 50), (40, 90), (44, 100), (48, 500), (64, 110)];

fn shaped<A: Address>(
    count: usize,
    lengths: &[(u32, u32)],
    address: impl Fn(&mut fastrand::Rng) -> A,
) -> BTreeMap<Prefix<A>, NextHop> {
    let mut random = fastrand::Rng::with_seed(count as u64);
    let mut routes = BTreeMap::new();
    while routes.len() < count {
        let mut share = random.u32(..1000);
        let length = lengths.iter().find(|(_, of)| {
            let found = share < *of;
            share = share.saturating_sub(*of);
            found
        });
        let prefix =
            Prefix::from_parts(address(&mut random), length.map_or(A::BITS, |(length, _)| *length));
        routes.insert(prefix, hop(random.u32(1..=1000)));
    }
    routes
}

fn churn<A: Address>(mut model: BTreeMap<Prefix<A>, NextHop>, random_address: impl Fn() -> A) {
    let mut table = PrefixTable::new().unwrap();
    table.load(model.iter().map(|(prefix, hop)| (*prefix, *hop))).unwrap();
    let all: Vec<_> = model.keys().copied().collect();
    let mut places = edges(all.iter().step_by(7).copied());
    places.extend((0..20_000).map(|_| random_address()));
    compare(&table.reader(), &model, &places);
    let before = table.bytes();
    for round in 0..3 {
        for &prefix in all.iter().skip(round).step_by(3) {
            assert_eq!(table.remove(prefix).ok(), model.remove(&prefix));
        }
        compare(&table.reader(), &model, &places);
        for &prefix in all.iter().skip(round).step_by(3) {
            let to = hop(2000 + round as u32);
            model.insert(prefix, to);
            table.add(prefix, to).unwrap();
        }
        compare(&table.reader(), &model, &places);
    }
    assert!(table.bytes() < before * 2, "{before} bytes became {}", table.bytes());
    for &prefix in &all {
        table.remove(prefix).unwrap();
    }
    assert!(table.is_empty());
    compare(&table.reader(), &BTreeMap::new(), &places);
}

#[test]
#[cfg_attr(miri, ignore = "a tbl24 has 2^24 words")]
fn ipv4_routes_of_the_shape_of_the_internets_come_and_go() {
    let mut routes = shaped(30_000, &LENGTHS_4, |random| random.u32(..));
    routes
        .extend(shaped(3_000, &[(27, 300), (30, 300)], |random| 0xc000_0000 | random.u32(..) >> 8));
    churn(routes, || fastrand::u32(..));
}

#[test]
#[cfg_attr(miri, ignore = "thousands of routes take hours")]
fn ipv6_routes_of_the_shape_of_the_internets_come_and_go() {
    let address = |random: &mut fastrand::Rng| {
        let first = [0x2001_u128, 0x2400, 0x2600, 0x2a00][random.usize(..4)];
        first << 112 | random.u128(..) >> 16
    };
    let routes = shaped(20_000, &LENGTHS_6, address);
    churn(routes, || address(&mut fastrand::Rng::new()));
}

/// Least work of the readers and of the writer, while the other is at work.
const LOOKUPS: usize = if cfg!(miri) { 2 } else { 200 };
const ROUNDS: usize = if cfg!(miri) { 2 } else { 20 };
/// Routes of tables that change while they are read.
const ROUTES: usize = 5_000;

/// A writer flips routes between two states while readers look; every answer
/// is one the address has in either.
fn only_old_or_new<A: Address>(
    table: &mut PrefixTable<A>,
    states: [&BTreeMap<Prefix<A>, NextHop>; 2],
    addresses: &[A],
    flip: impl Fn(&mut PrefixTable<A>, usize),
) {
    let allowed: Vec<[NextHop; 2]> =
        addresses.iter().map(|&address| states.map(|state| naive(state, address))).collect();
    let (stop, looked) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        for skip in 0..2 {
            let reader = table.reader();
            let (stop, looked, allowed) = (&stop, &looked, &allowed);
            scope.spawn(move || {
                let mut hops = vec![NextHop::NONE; addresses.len()];
                while !stop.load(Ordering::Relaxed) {
                    reader.lookup_many(&addresses[skip..], &mut hops[skip..]);
                    let answers = hops.iter().zip(allowed).zip(addresses).skip(skip);
                    for ((hop, allowed), address) in answers {
                        if !allowed.contains(hop) {
                            stop.store(true, Ordering::Relaxed);
                            panic!("{address:?}: {hop:?} instead of one of {allowed:?}");
                        }
                    }
                    looked.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let mut round = 0;
        while (looked.load(Ordering::Relaxed) < LOOKUPS || round < ROUNDS)
            && !stop.load(Ordering::Relaxed)
        {
            round += 1;
            flip(table, round % 2);
        }
        stop.store(true, Ordering::Relaxed);
    });
}

/// Each prefix of one state differs from the other's in one route only, so that changes made one by
/// one are either old or new for every address.
fn two_states<A: Address>(
    base: &BTreeMap<Prefix<A>, NextHop>,
) -> [BTreeMap<Prefix<A>, NextHop>; 2] {
    let mut other = base.clone();
    let mut last = None;
    for prefix in base.keys() {
        // Siblings, never one inside the other.
        if last.is_none_or(|last: Prefix<A>| last.last() < prefix.first()) {
            last = Some(*prefix);
            match prefix.first().hash() % 2 {
                0 => drop(other.remove(prefix)),
                _ => drop(other.insert(*prefix, hop(7777))),
            }
        }
    }
    [base.clone(), other]
}

fn under_updates<A: Address>(base: &BTreeMap<Prefix<A>, NextHop>) {
    let states = two_states(base);
    let addresses: Vec<A> = edges(base.keys().copied()).into_iter().step_by(3).collect();
    let mut table = PrefixTable::new().unwrap();
    table.load(base.iter().map(|(prefix, hop)| (*prefix, *hop))).unwrap();
    only_old_or_new(&mut table, [&states[0], &states[1]], &addresses, |table, to| {
        let [from, to] = [&states[1 - to], &states[to]];
        for prefix in from.keys().chain(to.keys()) {
            match (from.get(prefix), to.get(prefix)) {
                (Some(old), Some(new)) if old == new => {}
                (_, Some(new)) => drop(table.set(*prefix, *new).unwrap()),
                // The first round starts where it ends.
                (_, None) => drop(table.remove(*prefix)),
            }
        }
    });
}

#[test]
#[cfg_attr(miri, ignore = "a tbl24 has 2^24 words")]
fn ipv4_readers_see_old_or_new_next_hops_while_routes_change() {
    let mut routes = shaped(2_000, &LENGTHS_4, |random| random.u32(..));
    routes.extend(shaped(2_000, &[(27, 300), (30, 300)], |random| random.u32(..)));
    under_updates(&routes);
}

#[test]
#[cfg_attr(miri, ignore = "two readers beside a writer take more than ten minutes")]
fn ipv6_readers_see_old_or_new_next_hops_while_routes_change() {
    under_updates(&shaped(3_000, &LENGTHS_6, |random| 0x2001 << 112 | random.u128(..) >> 16));
}

/// Reloads need no relation between old and new routes.
fn under_reloads<A: Address>(one: BTreeMap<Prefix<A>, NextHop>, two: BTreeMap<Prefix<A>, NextHop>) {
    let addresses: Vec<A> =
        edges(one.keys().chain(two.keys()).copied()).into_iter().step_by(5).collect();
    let mut table = PrefixTable::new().unwrap();
    table.load(one.clone()).unwrap();
    only_old_or_new(&mut table, [&one, &two], &addresses, |table, to| {
        table.load([&one, &two][to].clone()).unwrap();
    });
}

#[test]
#[cfg_attr(miri, ignore = "a tbl24 has 2^24 words")]
fn ipv4_readers_see_old_or_new_next_hops_while_all_routes_are_replaced() {
    let random = |random: &mut fastrand::Rng| random.u32(..);
    // All lengths, so that nothing of one table resembles the other.
    let lengths: Vec<_> = (1..=32).map(|length| (length, 31)).collect();
    under_reloads(shaped(5_000, &lengths, random), shaped(4_999, &lengths, random));
}

#[test]
#[cfg_attr(miri, ignore = "two readers beside a writer take more than ten minutes")]
fn ipv6_readers_see_old_or_new_next_hops_while_all_routes_are_replaced() {
    let random = |random: &mut fastrand::Rng| 0x2001 << 112 | random.u128(..) >> 16;
    let lengths: Vec<_> = (16..=128).map(|length| (length, 8)).collect();
    under_reloads(shaped(ROUTES, &lengths, random), shaped(ROUTES - 1, &lengths, random));
}

/// Looks the same burst up while `change` is done again and again.
fn bursts_meanwhile<A: Address>(
    table: &mut PrefixTable<A>,
    burst: &[A],
    right: impl Fn(&[NextHop]) -> bool + Sync,
    mut change: impl FnMut(&mut PrefixTable<A>, u32),
) {
    let (stop, looked) = (AtomicBool::new(false), AtomicUsize::new(0));
    let reader = table.reader();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut hops = vec![NextHop::NONE; burst.len()];
            while !stop.load(Ordering::Relaxed) {
                reader.lookup_many(burst, &mut hops);
                if !right(&hops) {
                    stop.store(true, Ordering::Relaxed);
                    panic!("{hops:?}");
                }
                looked.fetch_add(1, Ordering::Relaxed);
            }
        });
        let mut round = 0;
        while (looked.load(Ordering::Relaxed) < 5 * LOOKUPS || (round as usize) < ROUNDS)
            && !stop.load(Ordering::Relaxed)
        {
            round += 1;
            change(table, round);
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
#[cfg_attr(miri, ignore = "a tbl24 has 2^24 words")]
fn a_reload_is_seen_in_one_step_by_all_addresses_of_a_burst() {
    let routes = |of: u32| {
        let routes =
            (0..2_000_u32).map(move |n| (Prefix::from_parts(n << 20, 12 + n % 20), hop(of)));
        routes.chain([(Prefix::ALL, hop(of))]).collect::<BTreeMap<_, _>>()
    };
    let mut table = PrefixTable::<u32>::new().unwrap();
    table.load(routes(1)).unwrap();
    let burst: Vec<u32> = (0..256).map(|n| n << 23 | n << 3).collect();
    let one_table = |hops: &[NextHop]| hops.iter().all(|hop| *hop == hops[0]) && hops[0].0 != 0;
    bursts_meanwhile(&mut table, &burst, one_table, |table, round| {
        table.load(routes(round % 7 + 1)).unwrap();
    });
}

#[test]
fn changes_applied_together_leave_no_moment_without_a_route() {
    let (wide, narrow) =
        (Prefix::from_parts(0x0a00_0000_u128 << 96, 8), Prefix::from_parts(0x0a01_u128 << 112, 40));
    let mut table = PrefixTable::<u128>::new().unwrap();
    table
        .apply([(wide, Some(hop(1))), (narrow, Some(hop(2))), (Prefix::ALL, Some(hop(9)))])
        .unwrap();
    let burst = [narrow.first(), wide.first(), 7];
    let known = |hops: &[NextHop]| {
        [1, 3].map(hop).contains(&hops[1])
            && [2, 3].map(hop).contains(&hops[0])
            && hops[2] == hop(9)
    };
    bursts_meanwhile(&mut table, &burst, known, |table, round| {
        let [one, two] = if round % 2 == 0 { [1, 2] } else { [3, 3] };
        let gone = [wide, narrow, Prefix::ALL].map(|prefix| (prefix, None));
        let back = [(narrow, hop(two)), (Prefix::ALL, hop(9)), (wide, hop(one))];
        table.apply(gone.into_iter().chain(back.map(|(at, to)| (at, Some(to))))).unwrap();
    });
}

#[test]
#[cfg_attr(miri, ignore = "a tbl24 has 2^24 words")]
fn many_changes_at_once_are_all_or_none_also_where_there_is_no_room() {
    let mut table = PrefixTable::<u32>::with_memory(8 << 10).unwrap();
    let host = |number: u32| Prefix::from_parts(number << 8, 30);
    let six: Vec<_> = (0..6).map(|n| (host(n), Some(hop(n + 1)))).collect();
    table.apply(six.clone()).unwrap();
    let model: BTreeMap<_, _> = six.into_iter().filter_map(|(at, to)| Some((at, to?))).collect();
    let places = edges((0..20).map(host));
    for more in [4_u32, 20_000] {
        let changes = (0..6 + more).map(|n| (host(n), (n > 0).then(|| hop(77))));
        assert!(matches!(table.apply(changes), Err(PrefixError::Full)));
        compare(&table.reader(), &model, &places);
        assert!(table.routes().eq(model.iter().map(|(prefix, hop)| (*prefix, *hop))));
    }
    let wrong = [(host(0), None), (host(9), Some(NextHop::of_set(3)))];
    assert!(matches!(table.apply(wrong), Err(PrefixError::NoSuchSet)));
    compare(&table.reader(), &model, &places);
    // A whole table at once is written anew.
    let mut table = PrefixTable::<u32>::new().unwrap();
    let all: BTreeMap<_, _> =
        (0..20_000).map(|n| (Prefix::from_parts(n << 12, 24), hop(n % 9 + 1))).collect();
    table.apply(all.iter().map(|(prefix, hop)| (*prefix, Some(*hop)))).unwrap();
    compare(&table.reader(), &all, &edges(all.keys().step_by(7).copied()));
    let set = table.add_set(&[(hop(4), 1)]).unwrap();
    table.apply(all.keys().map(|prefix| (*prefix, Some(set)))).unwrap();
    assert!(matches!(table.remove_set(set), Err(PrefixError::InUse { routes: 20_000 })));
    assert_eq!(table.reader().lookup(5 << 12), hop(4));
    table.apply(all.keys().map(|prefix| (*prefix, None))).unwrap();
    table.remove_set(set).unwrap();
    assert!(table.is_empty());
}

#[test]
#[cfg_attr(miri, ignore = "a tbl24 has 2^24 words")]
fn a_full_table_stays_as_it_was() {
    let mut table = PrefixTable::<u32>::with_memory(8 << 10).unwrap();
    let mut model = BTreeMap::new();
    for number in 0..20 {
        let prefix = Prefix::from_parts(number << 8, 30);
        match table.add(prefix, hop(number + 1)) {
            Ok(()) => drop(model.insert(prefix, hop(number + 1))),
            Err(error) => assert!(matches!(error, PrefixError::Full)),
        }
        compare(&table.reader(), &model, &edges((0..20).map(|n| Prefix::from_parts(n << 8, 30))));
    }
    assert_eq!(model.len(), 8);
    // Deleted routes make room again.
    table.remove(Prefix::from_parts(0, 30)).unwrap();
    table.add(Prefix::from_parts(19 << 8, 30), hop(1)).unwrap();

    let mut table = PrefixTable::<u128>::with_memory(16 << 10).unwrap();
    let mut model = BTreeMap::new();
    for number in 0..2000_u128 {
        let prefix = Prefix::from_parts(number << 90, 64);
        match table.add(prefix, hop(number as u32 + 1)) {
            Ok(()) => drop(model.insert(prefix, hop(number as u32 + 1))),
            Err(error) => assert!(matches!(error, PrefixError::Full)),
        }
    }
    assert!((10..1000).contains(&model.len()), "{}", model.len());
    compare(
        &table.reader(),
        &model,
        &edges((0..2000).map(|n: u128| Prefix::from_parts(n << 90, 64))),
    );
    assert!(matches!(
        table.load((0..2000).map(|n| (Prefix::from_parts(n << 90, 64), hop(1 + n as u32)))),
        Err(PrefixError::Full)
    ));
    compare(&table.reader(), &model, &edges(model.keys().copied()));
}

/// Nothing is lost of a small memory, whether routes found room in it or not.
#[test]
#[cfg_attr(miri, ignore = "tables are filled")]
fn memory_of_removed_ipv6_routes_comes_back() {
    let mut table = PrefixTable::<u128>::with_memory(32 << 10).unwrap();
    let mut fill = |seed| {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut kept = Vec::new();
        for _ in 0..600 {
            // Close to one another and far apart, of all lengths.
            let address = 0x2001_0db8 << 96 | random.u128(..) >> random.u32(32..120);
            let prefix = Prefix::from_parts(address, random.u32(33..=128));
            match table.add(prefix, hop(random.u32(1..50))) {
                Ok(()) => kept.push(prefix),
                Err(error) => assert!(!matches!(error, PrefixError::NoSuchSet), "{error}"),
            }
        }
        random.shuffle(&mut kept);
        let count = kept.len();
        // To take one away may need room, which there is when others have gone.
        for _ in 0..20 {
            kept.retain(|prefix| table.remove(*prefix).is_err());
        }
        assert!(table.is_empty(), "{kept:?} of {count}");
        count
    };
    // Which blocks are free is another every time, and so whether the last routes fit.
    let [first, .., last] = [0; 5].map(|_| (0..30).map(&mut fill).sum::<usize>());
    assert!(last > first - first / 50, "{first} routes found room, then {last}");
}

#[test]
#[cfg_attr(miri, ignore = "a tbl24 has 2^24 words")]
fn more_next_hops_and_groups_than_words_of_16_bits_can_name() {
    let mut table = PrefixTable::<u32>::new().unwrap();
    let routes: BTreeMap<_, _> =
        (0..40_000).map(|n| (Prefix::from_parts(n << 8 | 64, 26), hop(1 + n % 100))).collect();
    table.load(routes.clone()).unwrap();
    compare(&table.reader(), &routes, &edges(routes.keys().step_by(11).copied()));
    let mut routes = BTreeMap::from([(Prefix::ALL, hop(3))]);
    let mut table = PrefixTable::<u32>::new().unwrap();
    table.load(routes.clone()).unwrap();
    let reader = table.reader();
    assert_eq!(reader.lookup(77), hop(3));
    routes.insert(Prefix::from_parts(1 << 24, 8), hop(16_384));
    table.add(Prefix::from_parts(1 << 24, 8), hop(16_384)).unwrap();
    compare(&reader, &routes, &edges(routes.keys().copied()));
}

#[test]
#[cfg_attr(miri, ignore = "a tbl24 has 2^24 words")]
fn shares_of_a_set_follow_its_weights_and_flows_stay() {
    let mut table = PrefixTable::<u32>::new().unwrap();
    let set = table.add_set(&[(hop(1), 3), (hop(2), 1)]).unwrap();
    table.add(Prefix::ALL, set).unwrap();
    let reader = table.reader();
    let addresses: Vec<u32> = (0..40_000).collect();
    let choices = |reader: &PrefixReader<u32>| {
        let mut hops = vec![NextHop::NONE; addresses.len()];
        reader.lookup_flows(&addresses, &mut hops, |i| i as u32);
        hops
    };
    let share = |hops: &[NextHop], of| hops.iter().filter(|hop| **hop == of).count();
    let before = choices(&reader);
    assert_eq!(share(&before, hop(1)) + share(&before, hop(2)), 40_000);
    assert!((29_000..31_000).contains(&share(&before, hop(1))));

    table.change_set(set, &[(hop(1), 1), (hop(3), 1)]).unwrap();
    let after = choices(&reader);
    assert!((19_000..21_000).contains(&share(&after, hop(3))));
    let moved = before.iter().zip(&after).filter(|(old, new)| old != new).count();
    // A quarter had to leave the member that is gone, a quarter the one that
    // shrank.
    assert!((19_000..21_000).contains(&moved), "{moved}");

    let mut by_address = vec![NextHop::NONE; addresses.len()];
    reader.lookup_many(&addresses, &mut by_address);
    assert!((19_000..21_000).contains(&share(&by_address, hop(1))));

    assert!(matches!(table.remove_set(set), Err(PrefixError::InUse { routes: 1 })));
    table.set(Prefix::ALL, hop(9)).unwrap();
    table.remove_set(set).unwrap();
    assert!(matches!(table.remove_set(set), Err(PrefixError::NoSuchSet)));
    assert!(matches!(table.add(Prefix::from_parts(0, 9), set), Err(PrefixError::NoSuchSet)));
    assert!(matches!(table.add_set(&[]), Err(PrefixError::Members)));
    assert!(matches!(table.add_set(&[(hop(1), 0)]), Err(PrefixError::Members)));
    let again = table.add_set(&[(hop(5), 1)]).unwrap();
    table.load([(Prefix::ALL, again)]).unwrap();
    assert_eq!(reader.lookup(1), hop(5));
    assert!(matches!(table.remove_set(again), Err(PrefixError::InUse { routes: 1 })));
    table.load([]).unwrap();
    table.remove_set(again).unwrap();
}

#[test]
fn prefixes_are_written_as_people_do() {
    let four = Prefix::new(0x0a01_02ff_u32, 24).unwrap();
    assert_eq!(four.to_string(), "10.1.2.0/24");
    assert_eq!((four.first(), four.last(), four.length()), (0x0a01_0200, 0x0a01_02ff, 24));
    let six = Prefix::new(0x2001_0db8_u128 << 96 | 1, 32).unwrap();
    assert_eq!(six.to_string(), "2001:db8::/32");
    let error = Prefix::new(0_u32, 33).unwrap_err();
    assert_eq!(error.to_string(), "a prefix of 33 bits: addresses have 32");
    assert_eq!(PrefixError::Absent(four).to_string(), "10.1.2.0/24 has no route");
}
