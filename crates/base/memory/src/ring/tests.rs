//! Both rings against a `VecDeque`, from positions that wrap too.

use std::{collections::VecDeque, sync::Arc};

use proptest::prelude::*;

use super::{Mpmc, mpmc, spsc};

/// One call and its burst.
#[derive(Debug, Clone, Copy)]
enum Call {
    Push,
    Pop,
    PushSlice(usize),
    PopSlice(usize),
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let burst = prop_oneof![0..4usize, 0..80usize];
    prop::collection::vec(
        prop_oneof![
            Just(Call::Push),
            Just(Call::Pop),
            burst.clone().prop_map(Call::PushSlice),
            burst.prop_map(Call::PopSlice),
        ],
        1..if cfg!(miri) { 30 } else { 200 },
    )
}

/// The operations both rings have.
trait Ring {
    fn capacity(&self) -> usize;
    fn len(&self) -> usize;
    fn push(&mut self, element: u64) -> Result<(), u64>;
    fn pop(&mut self) -> Option<u64>;
    fn push_slice(&mut self, elements: &[u64]) -> usize;
    fn pop_slice(&mut self, to: &mut [u64]) -> usize;
}

impl Ring for (spsc::Producer<u64>, spsc::Consumer<u64>) {
    fn capacity(&self) -> usize {
        assert_eq!(self.0.capacity(), self.1.capacity());
        self.0.capacity()
    }
    fn len(&self) -> usize {
        assert_eq!(self.0.len(), self.1.len());
        assert_eq!(self.0.is_empty(), self.1.is_empty());
        self.0.len()
    }
    fn push(&mut self, element: u64) -> Result<(), u64> {
        self.0.push(element)
    }
    fn pop(&mut self) -> Option<u64> {
        self.1.pop()
    }
    fn push_slice(&mut self, elements: &[u64]) -> usize {
        self.0.push_slice(elements)
    }
    fn pop_slice(&mut self, to: &mut [u64]) -> usize {
        self.1.pop_slice(to)
    }
}

impl Ring for Mpmc<u64> {
    fn capacity(&self) -> usize {
        Mpmc::capacity(self)
    }
    fn len(&self) -> usize {
        assert_eq!(self.is_empty(), Mpmc::len(self) == 0);
        Mpmc::len(self)
    }
    fn push(&mut self, element: u64) -> Result<(), u64> {
        Mpmc::push(self, element)
    }
    fn pop(&mut self) -> Option<u64> {
        Mpmc::pop(self)
    }
    fn push_slice(&mut self, elements: &[u64]) -> usize {
        Mpmc::push_slice(self, elements)
    }
    fn pop_slice(&mut self, to: &mut [u64]) -> usize {
        Mpmc::pop_slice(self, to)
    }
}

/// Makes the calls on the ring and on a queue and compares every answer.
fn compare(ring: &mut impl Ring, wanted: usize, calls: &[Call]) {
    let capacity = ring.capacity();
    assert!(capacity >= wanted && capacity < 2 * wanted.max(1) && capacity.is_power_of_two());
    let mut queue = VecDeque::new();
    let mut next = 0;
    for &call in calls {
        let free = capacity - queue.len();
        match call {
            Call::Push => {
                next += 1;
                let expected = if free > 0 { Ok(()) } else { Err(next) };
                assert_eq!(ring.push(next), expected);
                queue.extend(expected.is_ok().then_some(next));
            }
            Call::Pop => assert_eq!(ring.pop(), queue.pop_front()),
            Call::PushSlice(burst) => {
                let elements: Vec<u64> = (next + 1..).take(burst).collect();
                let taken = ring.push_slice(&elements);
                assert_eq!(taken, burst.min(free));
                queue.extend(&elements[..taken]);
                next += burst as u64;
            }
            Call::PopSlice(burst) => {
                let mut to = vec![u64::MAX; burst];
                let taken = ring.pop_slice(&mut to);
                assert_eq!(taken, burst.min(queue.len()));
                let expected: Vec<u64> = queue.drain(..taken).collect();
                assert_eq!(to[..taken], expected);
                assert!(to[taken..].iter().all(|&rest| rest == u64::MAX), "wrote too much");
            }
        }
        assert_eq!(ring.len(), queue.len());
    }
}

proptest! {
    #[test]
    fn spsc_is_a_bounded_queue(
        wanted in 1..70usize,
        before in prop_oneof![Just(0u32), 0..200u32, any::<u32>()],
        calls in calls(),
    ) {
        let mut ring = spsc::starting_at(wanted, before.wrapping_neg(), None);
        compare(&mut ring, wanted, &calls);
    }

    #[test]
    fn mpmc_is_a_bounded_queue(
        wanted in 1..70usize,
        start in prop_oneof![
            Just(0u64),
            (0..200u64).prop_map(u64::wrapping_neg),
            (0..200u64).prop_map(|before| (1 << 32) - before),
        ],
        calls in calls(),
    ) {
        compare(&mut Mpmc::starting_at(wanted, start), wanted, &calls);
    }
}

/// Elements left in a dropped ring are dropped once, and those handed out are
/// not dropped again.
#[test]
fn remaining_elements_are_dropped_with_the_ring() {
    let token = Arc::new(());
    let (mut producer, mut consumer) = spsc::starting_at(4, 2u32.wrapping_neg(), None);
    for _ in 0..4 {
        producer.push(Arc::clone(&token)).unwrap();
    }
    assert!(producer.push(Arc::clone(&token)).is_err());
    let kept = consumer.pop().unwrap();
    assert_eq!(Arc::strong_count(&token), 5);
    drop(producer);
    assert!(consumer.is_abandoned());
    drop(consumer);
    assert_eq!(Arc::strong_count(&token), 2);
    drop(kept);

    let ring = mpmc::Mpmc::starting_at(4, 2u64.wrapping_neg());
    for _ in 0..3 {
        ring.push(Arc::clone(&token)).unwrap();
    }
    drop(ring.pop());
    assert_eq!(Arc::strong_count(&token), 3);
    drop(ring);
    assert_eq!(Arc::strong_count(&token), 1);
}

#[test]
fn elements_without_size_are_counted() {
    let ring = Mpmc::new(2);
    assert_eq!((ring.push(()), ring.push(()), ring.push(())), (Ok(()), Ok(()), Err(())));
    assert_eq!((ring.pop(), ring.pop(), ring.pop()), (Some(()), Some(()), None));
}

#[test]
#[should_panic(expected = "ring of 0 elements")]
fn an_empty_ring_is_refused() {
    let _ = Mpmc::<u8>::new(0);
}

#[test]
#[should_panic(expected = "ring of 1073741825 elements")]
fn a_ring_beyond_the_limit_is_refused() {
    let _ = spsc::spsc::<u8>(super::RING_LIMIT + 1);
}
