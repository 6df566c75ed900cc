//! Pools: buffers that are taken come back, from any cache, and mistakes leave nothing with two
//! owners.
#![cfg(not(loom))]
#![allow(missing_docs, reason = "a test program")]

use std::panic::{AssertUnwindSafe, catch_unwind};

use linerate_memory::{Arena, ArenaOptions, Frame, PoolCache, Slot};
use proptest::prelude::*;

fn arena(size: usize, buffer_size: usize) -> Arena {
    let options =
        ArenaOptions { size, buffer_size, headroom: 32, huge: false, ..ArenaOptions::default() };
    options.create().unwrap()
}

fn held(arena: &Arena) -> usize {
    let accounting = arena.accounting();
    assert_eq!(
        (accounting.total, accounting.free + accounting.held),
        (arena.count(), arena.count())
    );
    accounting.held
}

/// One step, on one of three caches.
#[derive(Debug, Clone, Copy)]
enum Step {
    Take(usize),
    TakeOne,
    Give,
    GiveFront(usize),
    GiveOne(usize),
    Share(usize),
    Unshare(usize),
    Write(usize),
    Renew(usize),
}

fn steps() -> impl Strategy<Value = Vec<(usize, Step)>> {
    let step = prop_oneof![
        (0..40usize).prop_map(Step::Take),
        Just(Step::TakeOne),
        Just(Step::Give),
        (0..30usize).prop_map(Step::GiveFront),
        any::<usize>().prop_map(Step::GiveOne),
        any::<usize>().prop_map(Step::Share),
        any::<usize>().prop_map(Step::Unshare),
        any::<usize>().prop_map(Step::Write),
        (0..20usize).prop_map(Step::Renew),
    ];
    prop::collection::vec((0..3usize, step), 1..if cfg!(miri) { 30 } else { 120 })
}

/// Takes one packet out of the middle of a frame.
fn remove(frame: &mut Frame, at: usize) -> Option<Slot> {
    let last = frame.len().checked_sub(1)?;
    frame.slots_mut().swap(at % (last + 1), last);
    frame.pop()
}

/// Each packet holds the number written into it; `expected` mirrors the frame.
fn check(arena: &Arena, frame: &Frame, expected: &[u64]) {
    assert_eq!(frame.len(), expected.len());
    for (bytes, number) in arena.packets(frame).zip(expected) {
        assert_eq!(bytes, number.to_ne_bytes());
    }
    let mut buffers: Vec<_> = frame
        .slots()
        .iter()
        .filter(|slot| !slot.is_shared())
        .map(|slot| arena.position(slot))
        .collect();
    buffers.sort_unstable();
    let count = buffers.len();
    buffers.dedup();
    assert_eq!(buffers.len(), count, "a buffer with two owners");
    let mut all: Vec<_> = frame.slots().iter().map(|slot| arena.position(slot)).collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(held(arena), all.len());
}

proptest! {
    #[test]
    fn random_use_of_three_caches_balances(
        sizes in prop::array::uniform3(0..20usize),
        steps in steps(),
    ) {
        let arena = arena(64 << 10, 512);
        let mut caches = sizes.map(|size| arena.cache(size));
        let mut frame = Frame::new(200);
        let mut numbers: Vec<u64> = Vec::new();
        let mut next = 0u64;
        let mut stamp = |arena: &Arena, slot: &mut Slot, numbers: &mut Vec<u64>| {
            next += 1;
            arena.packet_mut(slot).unwrap().copy_from_slice(&next.to_ne_bytes());
            numbers.push(next);
        };
        for (cache, step) in steps {
            let pool = &mut caches[cache];
            let free = arena.accounting().free;
            match step {
                Step::Take(count) => {
                    let before = frame.len();
                    let taken = pool.take(&mut frame, count, 8);
                    prop_assert!(taken <= count.min(free));
                    for slot in &mut frame.slots_mut()[before..] {
                        stamp(&arena, slot, &mut numbers);
                    }
                }
                Step::TakeOne => {
                    if frame.room() > 0 && let Some(mut slot) = pool.take_one(8) {
                        stamp(&arena, &mut slot, &mut numbers);
                        frame.push(slot).unwrap();
                    }
                }
                Step::Give => {
                    pool.give(&mut frame);
                    numbers.clear();
                }
                Step::GiveFront(count) => {
                    let count = count.min(frame.len());
                    pool.give_front(&mut frame, count);
                    numbers.drain(..count);
                }
                Step::GiveOne(at) => {
                    if let Some(slot) = remove(&mut frame, at) {
                        numbers.swap_remove(at % numbers.len());
                        pool.give_one(slot);
                    }
                }
                Step::Share(at) => {
                    if frame.room() > 0 && let Some(mut slot) = remove(&mut frame, at) {
                        let number = numbers.swap_remove(at % numbers.len());
                        let second = pool.share(&mut slot).unwrap();
                        prop_assert!(slot.is_shared() && second.is_shared());
                        prop_assert!(arena.packet_mut(&mut slot).is_none());
                        prop_assert!(arena.meta_mut(&mut slot).is_none());
                        frame.push(slot).unwrap();
                        frame.push(second).unwrap();
                        numbers.extend([number, number]);
                    }
                }
                Step::Unshare(at) => {
                    if let Some(mut slot) = remove(&mut frame, at) {
                        let number = numbers.swap_remove(at % numbers.len());
                        let was = (slot.headroom(), slot.len());
                        let possible = pool.unshare(&mut slot);
                        prop_assert_eq!((slot.headroom(), slot.len()), was);
                        prop_assert_eq!(possible, !slot.is_shared());
                        prop_assert_eq!(arena.packet(&slot), number.to_ne_bytes());
                        frame.push(slot).unwrap();
                        numbers.push(number);
                    }
                }
                Step::Write(at) => {
                    if let Some(mut slot) = remove(&mut frame, at) {
                        let number = numbers.swap_remove(at % numbers.len());
                        if slot.is_shared() {
                            numbers.push(number);
                        } else {
                            stamp(&arena, &mut slot, &mut numbers);
                        }
                        frame.push(slot).unwrap();
                    }
                }
                Step::Renew(size) => *pool = arena.cache(size),
            }
            check(&arena, &frame, &numbers);
        }
        caches[0].give(&mut frame);
        drop(caches);
        prop_assert_eq!(arena.accounting().free, arena.count());
    }
}

#[test]
fn all_buffers_can_be_taken_and_none_more() {
    let arena = arena(64 << 10, 256);
    let mut pool = arena.cache(1000);
    let mut frame = Frame::new(2048);
    assert_eq!(pool.take(&mut frame, usize::MAX, 0), arena.count());
    assert_eq!(pool.take(&mut frame, 1, 0), 0);
    assert!(pool.take_one(0).is_none());
    assert_eq!(held(&arena), arena.count());
    let slot = frame.pop().unwrap();
    pool.give_one(slot);
    assert_eq!(pool.take(&mut frame, 2, 0), 1);
    pool.give(&mut frame);
    assert_eq!(held(&arena), 0);
}

#[test]
fn new_packets_have_the_headroom_and_length_asked_for() {
    let arena = arena(64 << 10, 256);
    let mut pool = arena.cache(8);
    let room = arena.room();
    for length in [0, 1, 60, room] {
        let slot = pool.take_one(length).unwrap();
        assert_eq!((slot.headroom(), slot.len()), (32, length));
        assert_eq!(arena.packet(&slot).len(), length);
        pool.give_one(slot);
    }
    assert!(catch_unwind(AssertUnwindSafe(|| pool.take_one(room + 1).is_some())).is_err());
    let mut frame = Frame::new(1);
    assert!(catch_unwind(AssertUnwindSafe(|| pool.take(&mut frame, 1, usize::MAX))).is_err());
    assert_eq!(held(&arena), 0);
}

/// A panic half way through a frame must not leave a buffer both free and in
/// the frame. The cache is small, so the frame is given back in many runs.
fn assert_single_owners(arena: &Arena, pool: &mut PoolCache, frame: &mut Frame) {
    let mut rest = Frame::new(2048);
    pool.take(&mut rest, usize::MAX, 0);
    let mut buffers: Vec<_> =
        rest.slots().iter().chain(frame.slots()).map(|slot| arena.position(slot)).collect();
    buffers.sort_unstable();
    let count = buffers.len();
    buffers.dedup();
    assert_eq!((buffers.len(), count), (arena.count(), arena.count()));
    pool.give(&mut rest);
    pool.give(frame);
    assert_eq!(held(arena), 0);
}

#[test]
fn giving_more_than_there_is_panics_and_gives_nothing() {
    let arena = arena(64 << 10, 256);
    let mut pool = arena.cache(4);
    let mut frame = Frame::new(64);
    pool.take(&mut frame, 11, 0);
    assert!(catch_unwind(AssertUnwindSafe(|| pool.give_front(&mut frame, 12))).is_err());
    assert_eq!(frame.len(), 11);
    assert_single_owners(&arena, &mut pool, &mut frame);
}

#[test]
fn a_foreign_packet_among_ours_stops_the_giving_where_it_stands() {
    let (arena, other) = (arena(64 << 10, 256), arena(64 << 10, 256));
    let (mut pool, mut strange) = (arena.cache(4), other.cache(4));
    for at in 0..11 {
        let mut frame = Frame::new(64);
        pool.take(&mut frame, at, 0);
        frame.push(strange.take_one(0).unwrap()).unwrap();
        pool.take(&mut frame, 10 - at, 0);
        assert!(catch_unwind(AssertUnwindSafe(|| pool.give(&mut frame))).is_err());
        let foreign = (0..frame.len()).find(|&at| {
            catch_unwind(AssertUnwindSafe(|| arena.position(&frame.slots()[at]))).is_err()
        });
        let foreign = remove(&mut frame, foreign.expect("still in the frame")).unwrap();
        strange.give_one(foreign);
        assert_single_owners(&arena, &mut pool, &mut frame);
    }
    assert_eq!(held(&other), 0);
}

#[test]
fn a_foreign_packet_is_refused_everywhere() {
    let (arena, other) = (arena(64 << 10, 256), arena(64 << 10, 256));
    let (mut pool, mut strange) = (arena.cache(4), other.cache(4));
    let mut slot = strange.take_one(10).unwrap();
    assert!(arena.packet_mut(&mut slot).is_none());
    assert!(arena.meta_mut(&mut slot).is_none());
    assert!(!arena.resize(&mut slot, 5));
    assert!(pool.share(&mut slot).is_none());
    assert!(!pool.unshare(&mut slot));
    let mut shared = strange.share(&mut slot).unwrap();
    assert!(!pool.unshare(&mut shared));
    assert_eq!(held(&arena), 0);
    let panics: [&dyn Fn(&Slot) -> bool; 3] =
        [&|slot| arena.packet(slot).is_empty(), &|slot| arena.meta(slot).paint == 0, &|slot| {
            arena.position(slot) == 0
        }];
    for call in panics {
        assert!(catch_unwind(AssertUnwindSafe(|| call(&slot))).is_err());
    }
    strange.give_one(shared);
    strange.give_one(slot);
    assert_eq!(held(&other), 0);
}

#[test]
fn the_last_holder_becomes_the_owner_without_a_copy() {
    let arena = arena(64 << 10, 256);
    let mut pool = arena.cache(4);
    let mut slot = pool.take_one(4).unwrap();
    arena.packet_mut(&mut slot).unwrap().copy_from_slice(b"abcd");
    arena.meta_mut(&mut slot).unwrap().paint = 7;
    let place = arena.position(&slot);
    let mut second = pool.share(&mut slot).unwrap();
    let mut third = pool.share(&mut second).unwrap();
    assert_eq!(held(&arena), 1);
    assert!(third.pull(1));

    assert!(pool.unshare(&mut third));
    assert_ne!(arena.position(&third), place + 1);
    assert_eq!((arena.packet(&third), arena.meta(&third).paint), (&b"bcd"[..], 7));
    assert!(third.push(1));
    assert_eq!(arena.packet(&third), b"abcd", "what was stripped is in the copy");
    assert!(third.pull(1));
    pool.give_one(slot);
    assert!(pool.unshare(&mut second));
    assert_eq!(arena.position(&second), place);
    arena.packet_mut(&mut second).unwrap()[0] = b'x';
    assert_eq!(arena.packet(&third), b"bcd");
    pool.give_one(second);
    pool.give_one(third);
    assert_eq!(held(&arena), 0);
}

#[test]
fn a_dropped_cache_gives_its_buffers_back() {
    let arena = arena(64 << 10, 256);
    let mut first = arena.cache(16);
    let slot = first.take_one(0).unwrap();
    drop(first);
    assert_eq!(held(&arena), 1);
    let mut second = arena.cache(16);
    second.give_one(slot);
    assert_eq!(held(&arena), 0);
}
