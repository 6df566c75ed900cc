//! Frames and slot arithmetic against plain models.
#![cfg(not(loom))]
#![allow(missing_docs, reason = "a test program")]

use std::collections::VecDeque;

use linerate_memory::{
    ArenaOptions, FRAME_LIMIT, Frame, Slot,
    ring::{Mpmc, spsc},
};
use proptest::prelude::*;

#[derive(Debug, Clone, Copy)]
enum Step {
    Take(usize),
    Pop,
    Append(usize),
    AppendBack(usize),
    ToSpsc,
    FromSpsc(usize),
    ToMpmc,
    FromMpmc(usize),
    GiveFront(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let count = prop_oneof![0..5usize, 0..60usize, Just(usize::MAX)];
    let step = prop_oneof![
        count.clone().prop_map(Step::Take),
        Just(Step::Pop),
        count.clone().prop_map(Step::Append),
        count.clone().prop_map(Step::AppendBack),
        Just(Step::ToSpsc),
        count.clone().prop_map(Step::FromSpsc),
        Just(Step::ToMpmc),
        count.clone().prop_map(Step::FromMpmc),
        count.prop_map(Step::GiveFront),
    ];
    prop::collection::vec(step, 1..100)
}

/// Moves up to `count` from the front of one queue to the end of another.
fn shift(from: &mut VecDeque<u16>, to: &mut VecDeque<u16>, count: usize) -> usize {
    let count = count.min(from.len());
    to.extend(from.drain(..count));
    count
}

proptest! {
    /// Two frames, two rings and a pool against five queues. Packets are told
    /// apart by their lengths.
    #[test]
    fn frames_are_bounded_queues(
        limits in prop::array::uniform2(1..50usize),
        wanted in prop::array::uniform2(1..40usize),
        steps in steps(),
    ) {
        let options = ArenaOptions { size: 64 << 10, buffer_size: 320, huge: false, ..Default::default() };
        let arena = options.create().unwrap();
        let mut pool = arena.cache(9);
        let [mut a, mut b] = limits.map(Frame::new);
        let (mut producer, mut consumer) = spsc::<Slot>(wanted[0]);
        let mpmc = Mpmc::<Slot>::new(wanted[1]);
        let [mut qa, mut qb, mut qs, mut qm] = [const { VecDeque::<u16>::new() }; 4];
        let mut next = 0u16;
        for step in steps {
            let room = limits[0] - qa.len();
            match step {
                Step::Take(count) => {
                    // One by one, for lengths of their own.
                    for _ in 0..count.min(room) {
                        if pool.take(&mut a, 1, usize::from(next % 160)) == 1 {
                            qa.push_back(next % 160);
                            next += 1;
                        }
                    }
                }
                Step::Pop => {
                    let popped = a.pop();
                    prop_assert_eq!(popped.as_ref().map(Slot::len), qa.pop_back().map(usize::from));
                    popped.into_iter().for_each(|slot| pool.give_one(slot));
                }
                Step::Append(count) => {
                    let expected = shift(&mut qb, &mut qa, count.min(room));
                    prop_assert_eq!(a.append(&mut b, count), expected);
                }
                Step::AppendBack(count) => {
                    let room = limits[1] - qb.len();
                    let expected = shift(&mut qa, &mut qb, count.min(room));
                    prop_assert_eq!(b.append(&mut a, count), expected);
                }
                Step::ToSpsc => {
                    let room = producer.capacity() - qs.len();
                    prop_assert_eq!(producer.push_frame(&mut a), shift(&mut qa, &mut qs, room));
                }
                Step::FromSpsc(count) => {
                    let expected = shift(&mut qs, &mut qa, count.min(room));
                    prop_assert_eq!(consumer.pop_frame(&mut a, count), expected);
                }
                Step::ToMpmc => {
                    let room = mpmc.capacity() - qm.len();
                    prop_assert_eq!(mpmc.push_frame(&mut a), shift(&mut qa, &mut qm, room));
                }
                Step::FromMpmc(count) => {
                    let expected = shift(&mut qm, &mut qa, count.min(room));
                    prop_assert_eq!(mpmc.pop_frame(&mut a, count), expected);
                }
                Step::GiveFront(count) => {
                    let count = count.min(qa.len());
                    pool.give_front(&mut a, count);
                    qa.drain(..count);
                }
            }
            for (frame, queue, limit) in [(&a, &qa, limits[0]), (&b, &qb, limits[1])] {
                prop_assert!(frame.slots().iter().map(Slot::len).eq(queue.iter().map(|n| usize::from(*n))));
                prop_assert_eq!(frame.bytes(), queue.iter().map(|n| u64::from(*n)).sum::<u64>());
                prop_assert_eq!((frame.len(), frame.is_empty()), (queue.len(), queue.is_empty()));
                prop_assert_eq!((frame.limit(), frame.room()), (limit, limit - queue.len()));
            }
            let held = qa.len() + qb.len() + qs.len() + qm.len();
            prop_assert_eq!(arena.accounting().held, held);
        }
    }

    /// Headers pushed and pulled, packets cut and grown, against offset and
    /// length in plain integers; the bytes stay inside the buffer throughout.
    #[test]
    fn slot_arithmetic_stays_in_the_buffer(
        buffer_size in prop_oneof![64..3000usize, Just(65_472usize)],
        headroom in 0..64usize,
        steps in prop::collection::vec((0..5u8, prop_oneof![0..100usize, any::<usize>(), 0..70_000usize]), 1..60),
    ) {
        let size = 256 << 10;
        let options =
            ArenaOptions { size, buffer_size, headroom, huge: false, ..ArenaOptions::default() };
        let arena = options.create().unwrap();
        let size = arena.buffer_size();
        let mut pool = arena.cache(1);
        let mut slot = pool.take_one(0).unwrap();
        let base = arena.position(&slot) - headroom;
        let (mut offset, mut length) = (headroom, 0);
        for (step, value) in steps {
            match step {
                0 => {
                    let can = value <= length;
                    prop_assert_eq!(slot.pull(value), can);
                    if can { offset += value; length -= value; }
                }
                1 => {
                    let can = value <= offset;
                    prop_assert_eq!(slot.push(value), can);
                    if can { offset -= value; length += value; }
                }
                2 => {
                    slot.truncate(value);
                    length = length.min(value);
                }
                3 => {
                    let can = value <= size - offset;
                    prop_assert_eq!(arena.resize(&mut slot, value), can);
                    if can { length = value; }
                }
                _ => {
                    let can = length == 0 && value <= size;
                    prop_assert_eq!(arena.reserve(&mut slot, value), can);
                    if can { offset = value; }
                }
            }
            prop_assert!(offset + length <= size);
            prop_assert_eq!((slot.headroom(), slot.len(), slot.is_empty()), (offset, length, length == 0));
            prop_assert_eq!(arena.position(&slot), base + offset);
            let bytes = arena.packet_mut(&mut slot).unwrap();
            prop_assert_eq!(bytes.len(), length);
            bytes.fill(0xa5);
        }
        pool.give_one(slot);
    }
}

#[test]
fn limits_of_a_frame() {
    assert_eq!(Frame::new(FRAME_LIMIT).limit(), FRAME_LIMIT);
    assert!(std::panic::catch_unwind(|| Frame::new(FRAME_LIMIT + 1)).is_err());
}
