//! The rings and the pool with real threads. Bounded by counts, not by time.
#![cfg(not(loom))]
#![allow(missing_docs, reason = "a test program")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering, fence},
    },
    thread,
};

use linerate_memory::{
    ArenaOptions, Frame, Generation, Words,
    ring::{Mpmc, spsc},
};

const ELEMENTS: u64 = if cfg!(miri) { 300 } else { 200_000 };

/// Rounds of each worker.
const STEPS: u64 = if cfg!(miri) { 20 } else { 5_000 };

/// Bursts of changing sizes without a random number generator.
fn burst(step: u64, most: u64) -> u64 {
    (step.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % most + 1
}

#[test]
fn spsc_between_two_threads() {
    let (mut producer, mut consumer) = spsc(64);
    let sender = thread::spawn(move || {
        let mut sent = 0;
        while sent < ELEMENTS {
            let end = (sent + burst(sent, 40)).min(ELEMENTS);
            let elements: Vec<u64> = (sent..end).collect();
            let taken = producer.push_slice(&elements);
            if taken == 0 {
                thread::yield_now();
            }
            sent += taken as u64;
        }
    });
    let mut expected = 0;
    let mut to = [0; 48];
    while expected < ELEMENTS {
        let taken = consumer.pop_slice(&mut to[..burst(expected, 48) as usize]);
        for &got in &to[..taken] {
            assert_eq!(got, expected);
            expected += 1;
        }
        if taken == 0 {
            thread::yield_now();
        }
    }
    sender.join().unwrap();
    assert!(consumer.is_abandoned() && consumer.is_empty());
}

/// Pairs of equal words behind a link, whose memory the writer uses again and again.
#[test]
fn a_generation_has_lookups_retried_that_saw_reused_memory() {
    const PAIRS: u64 = 3;
    let (generation, table) = (Generation::new(), Words::<AtomicU64>::zeroed(16).unwrap());
    let pair = |number: u64| [0, 1].map(|word| &table[(2 + 2 * (number % PAIRS) + word) as usize]);
    let link = &table[0];
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 1..=ELEMENTS {
                // The pair was unlinked by one of the last stores to the link.
                generation.advance();
                pair(number).iter().for_each(|word| word.store(number, Ordering::Relaxed));
                fence(Ordering::Release);
                link.store(number, Ordering::Relaxed);
            }
        });
        let mut last = 0;
        while last < ELEMENTS {
            let [number, one, two] = generation.read(|| {
                let number = link.load(Ordering::Relaxed);
                fence(Ordering::Acquire);
                let [one, two] = pair(number).map(|word| word.load(Ordering::Relaxed));
                [number, one, two]
            });
            assert!(one == number && two == number, "{one} and {two} behind {number}");
            assert!(number >= last);
            last = number;
            thread::yield_now();
        }
    });
}

#[test]
fn mpmc_with_three_producers_and_three_consumers() {
    const PRODUCERS: u64 = 3;
    let ring = Arc::new(Mpmc::new(64));
    let left = Arc::new(AtomicUsize::new((PRODUCERS * ELEMENTS) as usize));
    let producers = (0..PRODUCERS).map(|producer| {
        let ring = Arc::clone(&ring);
        thread::spawn(move || {
            let mut sent = 0;
            while sent < ELEMENTS {
                let end = (sent + burst(sent, 20)).min(ELEMENTS);
                let elements: Vec<u64> = (sent..end).map(|n| producer << 32 | n).collect();
                let taken = ring.push_slice(&elements);
                if taken == 0 {
                    thread::yield_now();
                }
                sent += taken as u64;
            }
        })
    });
    let producers: Vec<_> = producers.collect();
    let consumers = (0..3).map(|_| {
        let (ring, left) = (Arc::clone(&ring), Arc::clone(&left));
        thread::spawn(move || {
            let mut got: Vec<u64> = Vec::new();
            let mut to = [0; 24];
            while left.load(Ordering::Relaxed) > 0 {
                let taken = ring.pop_slice(&mut to[..burst(got.len() as u64, 24) as usize]);
                left.fetch_sub(taken, Ordering::Relaxed);
                got.extend_from_slice(&to[..taken]);
                if taken == 0 {
                    thread::yield_now();
                }
            }
            got
        })
    });
    let seen: Vec<Vec<u64>> =
        consumers.collect::<Vec<_>>().into_iter().map(|thread| thread.join().unwrap()).collect();
    producers.into_iter().for_each(|thread| thread.join().unwrap());
    for got in &seen {
        for producer in 0..PRODUCERS {
            assert!(got.iter().filter(|n| **n >> 32 == producer).is_sorted(), "order lost");
        }
    }
    let mut all = seen.concat();
    all.sort_unstable();
    let sent = (0..PRODUCERS).flat_map(|producer| (0..ELEMENTS).map(move |n| producer << 32 | n));
    assert!(all.into_iter().eq(sent), "elements lost or doubled");
}

/// Four workers take, write, check, share, hand to each other and give back;
/// in debug builds the tracker watches every buffer.
#[test]
fn pool_with_four_workers() {
    pool_with_workers(false);
}

/// The workers need more than the first piece of a gradual arena.
#[test]
fn pool_that_grows_with_four_workers() {
    pool_with_workers(true);
}

fn pool_with_workers(gradual: bool) {
    let options = ArenaOptions { size: 1 << 20, huge: false, gradual, ..Default::default() };
    let arena = options.create().unwrap();
    let handed = Arc::new(Mpmc::new(64));
    let workers = (0..4u8).map(|mark| {
        // Made here: threads that make theirs at once contend for a lock that the thread sanitizer
        // cannot see.
        let mut pool = arena.cache(32);
        let (arena, handed) = (arena.clone(), Arc::clone(&handed));
        thread::spawn(move || {
            let mut frame = Frame::new(48);
            for step in 0..STEPS {
                pool.take(&mut frame, burst(step, 40) as usize, 64);
                arena.for_each_mut(&mut frame, |bytes| bytes.fill(mark));
                assert!(arena.packets(&frame).all(|bytes| bytes.iter().all(|b| *b == mark)));
                if step % 3 == 0
                    && let Some(mut slot) = frame.pop()
                {
                    let copy = pool.share(&mut slot).unwrap();
                    frame.push(slot).unwrap();
                    if let Err(copy) = handed.push(copy) {
                        pool.give_one(copy);
                    }
                }
                pool.give(&mut frame);
                if let Some(mut slot) = handed.pop() {
                    let owner = arena.packet(&slot)[0];
                    assert!(arena.packet(&slot).iter().all(|b| *b == owner), "reused while held");
                    if pool.unshare(&mut slot) {
                        arena.packet_mut(&mut slot).unwrap().fill(mark);
                    }
                    pool.give_one(slot);
                }
            }
        })
    });
    workers.collect::<Vec<_>>().into_iter().for_each(|worker| worker.join().unwrap());
    let mut pool = arena.cache(0);
    while let Some(slot) = handed.pop() {
        pool.give_one(slot);
    }
    drop(pool);
    assert_eq!((arena.accounting().free, arena.accounting().held), (arena.count(), 0));
}
