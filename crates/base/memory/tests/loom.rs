//! Models of the rings and the pool: loom runs each body under every
//! interleaving, and every result the memory model allows a load, within the
//! bound on preemptions.
//!
//! `LOOM_MAX_PREEMPTIONS` sets the bound. Without it the models of two threads
//! on one ring have none; the others, of three threads or many steps, have 3.
//! Run by `cargo xtask loom`, or
//! `RUSTFLAGS="--cfg loom" cargo test -p linerate-memory --release --target-dir target/loom`.
#![cfg(loom)]
#![allow(missing_docs, reason = "a test program")]

use linerate_memory::{
    ArenaOptions, Frame,
    ring::{Bell, Consumer, Event, Mpmc, NeedWakeup, Producer, spsc, spsc_with, wrapping},
};
use loom::{
    alloc::Track,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    thread,
};

/// Runs a model, bounded by `preemptions` unless the environment says how.
fn model(preemptions: Option<usize>, body: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(preemptions);
    builder.check(body);
}

/// Pushes 1, 2, 3... in the given bursts; returns how many were taken. There is no spinning: the
/// moment of each push is among the outcomes explored.
fn push_bursts(producer: &mut Producer<u32>, bursts: &[u32]) -> u32 {
    let mut sent = 0;
    for &burst in bursts {
        let elements: Vec<u32> = (sent + 1..=sent + burst).collect();
        sent += producer.push_slice(&elements) as u32;
    }
    sent
}

fn pop_bursts(consumer: &mut Consumer<u32>, bursts: &[usize]) -> Vec<u32> {
    let mut got = Vec::new();
    for &burst in bursts {
        let mut burst = vec![0; burst];
        let taken = consumer.pop_slice(&mut burst);
        got.extend_from_slice(&burst[..taken]);
    }
    got
}

fn spsc_model(capacity: usize, before: u32, sends: &'static [u32], takes: &'static [usize]) {
    model(None, move || {
        let (mut producer, mut consumer) = wrapping::spsc(capacity, before);
        let sender = thread::spawn(move || push_bursts(&mut producer, sends));
        let mut got = pop_bursts(&mut consumer, takes);
        let sent = sender.join().unwrap();
        got.extend(pop_bursts(&mut consumer, &[capacity]));
        assert_eq!(got, (1..=sent).collect::<Vec<_>>());
    });
}

#[test]
fn spsc_keeps_order_over_bursts_and_the_wrap_of_positions() {
    spsc_model(2, 3, &[2, 1, 2], &[1, 2, 2]);
}

#[test]
fn spsc_of_four_with_bursts_across_the_end() {
    spsc_model(4, 2, &[3, 3, 2], &[2, 3, 3]);
}

#[test]
fn spsc_of_one_element() {
    spsc_model(1, 1, &[1, 1, 1], &[1, 1, 1]);
}

/// `Track` makes loom report elements that are never dropped or dropped twice.
#[test]
fn spsc_drops_remaining_elements_once() {
    model(None, || {
        let (mut producer, mut consumer) = spsc(2);
        let sender = thread::spawn(move || {
            let _ = producer.push(Track::new(1));
            let _ = producer.push(Track::new(2));
            producer.push(Track::new(3)).err().map(Track::into_inner)
        });
        let first = consumer.pop().map(Track::into_inner);
        drop(consumer);
        assert!(matches!(first, None | Some(1)));
        assert!(matches!(sender.join().unwrap(), None | Some(3)));
    });
}

#[test]
fn spsc_abandoned_and_empty_is_the_end() {
    model(None, || {
        let (mut producer, mut consumer) = spsc(4);
        let sender = thread::spawn(move || {
            producer.push(1).unwrap();
            producer.push(2).unwrap();
        });
        let mut got = 0;
        while !(consumer.is_abandoned() && consumer.is_empty()) {
            match consumer.pop() {
                Some(_) => got += 1,
                None => thread::yield_now(),
            }
        }
        assert_eq!(got, 2);
        sender.join().unwrap();
    });
}

/// Pushes bursts until all is taken.
fn produce(ring: &Mpmc<u32>, mut elements: &[u32]) {
    while !elements.is_empty() {
        match ring.push_slice(elements) {
            0 => thread::yield_now(),
            taken => elements = &elements[taken..],
        }
    }
}

/// Takes bursts of two, `tries` times at most.
fn consume(ring: &Mpmc<u32>, tries: usize) -> Vec<u32> {
    consume_bursts(ring, tries, 2)
}

fn consume_bursts(ring: &Mpmc<u32>, tries: usize, burst: usize) -> Vec<u32> {
    let mut got = Vec::new();
    for _ in 0..tries {
        let mut burst = vec![0; burst];
        let taken = ring.pop_slice(&mut burst);
        got.extend_from_slice(&burst[..taken]);
    }
    got
}

/// Each producer's elements come in its order; all come once.
fn check(seen: &[&[u32]], mut all: Vec<u32>) {
    for got in seen {
        for producer in 0..2 {
            let of_one: Vec<_> = got.iter().filter(|n| **n / 10 == producer).collect();
            assert!(of_one.is_sorted(), "{got:?}");
        }
    }
    let mut sum = seen.concat();
    sum.sort_unstable();
    all.sort_unstable();
    assert_eq!(sum, all);
}

/// Room for both bursts, so that both are claimed and not yet published at
/// once, and the second has to wait for the first. The consumer has a thread of
/// its own: on the first one its looks would all come before the first push.
#[test]
fn mpmc_with_two_producers_and_one_consumer() {
    model(Some(3), || {
        let ring = Arc::new(wrapping::mpmc(4, 3));
        let other = Arc::clone(&ring);
        let consumer = thread::spawn(move || consume_bursts(&other, 2, 4));
        let other = Arc::clone(&ring);
        let producer = thread::spawn(move || produce(&other, &[1, 2]));
        produce(&ring, &[11, 12]);
        producer.join().unwrap();
        let mut got = consumer.join().unwrap();
        got.extend(consume(&ring, 2));
        check(&[&got], vec![1, 2, 11, 12]);
    });
}

#[test]
fn mpmc_with_one_producer_and_two_consumers() {
    model(Some(3), || {
        let ring = Arc::new(wrapping::mpmc(2, 1));
        let consumers = [1, 2].map(|tries| {
            let ring = Arc::clone(&ring);
            thread::spawn(move || consume(&ring, tries))
        });
        // Four elements may not fit: the consumers may have finished early.
        let taken = ring.push_slice(&[1, 2, 3]);
        let more = ring.push_slice(&[4]);
        let [first, second] = consumers.map(|consumer| consumer.join().unwrap());
        let rest = consume(&ring, 2);
        let mut all: Vec<u32> = (1..=taken as u32).collect();
        all.extend([4].iter().take(more));
        check(&[&first, &second, &rest], all);
    });
}

/// A consumer that reads the producers' position caches it for the other, which relies on it.
#[test]
fn mpmc_with_consumers_that_take_one_of_many() {
    model(Some(3), || {
        let ring = Arc::new(wrapping::mpmc(4, 1));
        let consumers = [1, 2].map(|tries| {
            let ring = Arc::clone(&ring);
            thread::spawn(move || consume_bursts(&ring, tries, 1))
        });
        assert_eq!(ring.push_slice(&[1, 2, 3]), 3);
        let [first, second] = consumers.map(|consumer| consumer.join().unwrap());
        let rest = consume(&ring, 2);
        check(&[&first, &second, &rest], vec![1, 2, 3]);
    });
}

/// As above the other way round: the note is of the room there is.
#[test]
fn mpmc_with_producers_that_fill_emptied_cells() {
    model(Some(3), || {
        let ring = Arc::new(wrapping::mpmc(2, 1));
        assert_eq!(ring.push_slice(&[1, 2]), 2);
        let producers = [11, 21].map(|element| {
            let ring = Arc::clone(&ring);
            thread::spawn(move || ring.push(element).is_ok())
        });
        let first = consume(&ring, 1);
        let [eleven, twenty_one] = producers.map(|producer| producer.join().unwrap());
        let rest = consume(&ring, 2);
        let mut all = vec![1, 2];
        all.extend([11].iter().take(eleven.into()));
        all.extend([21].iter().take(twenty_one.into()));
        check(&[&first, &rest], all);
    });
}

#[test]
fn mpmc_with_two_producers_and_two_consumers() {
    model(Some(3), || {
        let ring = Arc::new(wrapping::mpmc(2, 1));
        let other = Arc::clone(&ring);
        let sender = thread::spawn(move || other.push_slice(&[1, 2]));
        let other = Arc::clone(&ring);
        let receiver = thread::spawn(move || consume(&other, 1));
        let mine = ring.push_slice(&[11, 12]);
        let got = consume(&ring, 1);
        let theirs = sender.join().unwrap();
        let other = receiver.join().unwrap();
        let rest = consume(&ring, 2);
        let mut all = vec![1, 2][..theirs].to_vec();
        all.extend_from_slice(&[11, 12][..mine]);
        check(&[&got, &other, &rest], all);
    });
}

#[test]
fn mpmc_drops_remaining_elements_once() {
    model(Some(3), || {
        let ring = Arc::new(Mpmc::new(2));
        let other = Arc::clone(&ring);
        let sender = thread::spawn(move || {
            let _ = other.push(Track::new(1));
            let _ = other.push(Track::new(2));
        });
        drop(ring.pop());
        drop(ring);
        sender.join().unwrap();
    });
}

/// Two workers' caches of two buffers in front of the shared ring of three:
/// every path of taking, spilling and refilling, nothing lost or doubled. The
/// debug tracker, where built in, watches too.
#[test]
fn pool_hands_every_buffer_to_one_worker() {
    model(Some(3), || {
        let options = ArenaOptions {
            size: 64 << 10,
            buffer_size: 20_000,
            huge: false,
            ..ArenaOptions::default()
        };
        let arena = options.create().unwrap();
        let total = arena.count();
        assert_eq!(total, 3);
        let work = {
            let arena = arena.clone();
            move |mark: u8| {
                let mut pool = arena.cache(2);
                let mut frame = Frame::new(4);
                for wanted in [2, 1] {
                    let taken = pool.take(&mut frame, wanted, 1);
                    assert!(taken <= wanted);
                    arena.for_each_mut(&mut frame, |bytes| {
                        bytes[0] = mark;
                    });
                    assert!(arena.packets(&frame).all(|bytes| bytes == [mark]));
                    pool.give(&mut frame);
                }
            }
        };
        let other = thread::spawn({
            let work = work.clone();
            move || work(1)
        });
        work(2);
        other.join().unwrap();
        assert_eq!(arena.accounting().free, total);
        let mut pool = arena.cache(2);
        let mut frame = Frame::new(4);
        assert_eq!(pool.take(&mut frame, 4, 1), total);
        let mut buffers: Vec<_> = frame.slots().iter().map(|slot| arena.position(slot)).collect();
        buffers.sort_unstable();
        buffers.dedup();
        assert_eq!(buffers.len(), total);
        pool.give(&mut frame);
    });
}

/// A consumer that sleeps on an empty ring is woken by the producer that fills it.
#[test]
fn a_sleeper_is_woken_that_found_the_ring_empty() {
    model(None, || {
        let (mut producer, mut consumer) = spsc(1);
        let bell = Arc::new(NeedWakeup::new());
        let theirs = Arc::clone(&bell);
        let sender = thread::spawn(move || {
            producer.push(1).unwrap();
            theirs.take()
        });
        bell.arm();
        let sleeps = consumer.pop().is_none();
        let rang = sender.join().unwrap();
        assert!(rang || !sleeps, "the consumer sleeps beside an element");
    });
}

/// A producer that sleeps on a full ring is woken by the consumer that empties it.
#[test]
fn a_sleeper_is_woken_that_found_the_ring_full() {
    model(None, || {
        let (mut producer, mut consumer) = spsc(1);
        producer.push(1).unwrap();
        let bell = Arc::new(NeedWakeup::new());
        let theirs = Arc::clone(&bell);
        let sender = thread::spawn(move || {
            theirs.arm();
            producer.push(2).is_err()
        });
        assert_eq!(consumer.pop(), Some(1));
        let rang = bell.take();
        let sleeps = sender.join().unwrap();
        assert!(rang || !sleeps, "the producer sleeps and there is room");
    });
}

/// An eventfd(2), as far as a sleeper is concerned.
struct Flag(AtomicU32);

impl Flag {
    /// Returns true if a sleeper on it wakes.
    fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst) != 0
    }
}

impl Event for Flag {
    fn set(&self) {
        self.0.store(1, Ordering::SeqCst);
    }

    fn clear(&self) {
        self.0.store(0, Ordering::SeqCst);
    }
}

/// One round of a receiver that sleeps when it finds nothing: takes the elements there are, and
/// says whether it sleeps until the bell rings.
fn receive_round(bell: &Bell<Flag>, consumer: &mut Consumer<u32>, got: &mut u32) -> bool {
    bell.disarm();
    while consumer.pop().is_some() {
        *got += 1;
    }
    let armed = bell.arm();
    armed && consumer.is_empty()
}

/// A receiver on a bell is woken by each sending behind which it finds nothing, whether it was
/// asleep, going to sleep, or woken by another.
#[test]
fn a_bell_wakes_its_receiver_every_time() {
    model(None, || {
        let (mut producer, mut consumer) = spsc(2);
        let bell = Arc::new(Bell::new(Flag(AtomicU32::new(0))));
        let theirs = Arc::clone(&bell);
        let sender = thread::spawn(move || {
            for element in [1, 2] {
                producer.push(element).unwrap();
                theirs.ring();
            }
        });
        let mut got = 0;
        let mut asleep = receive_round(&bell, &mut consumer, &mut got);
        if !asleep || bell.event().is_set() {
            asleep = receive_round(&bell, &mut consumer, &mut got);
        }
        sender.join().unwrap();
        // There are no more rings: it must come by itself as far as it has to.
        for _ in 0..2 {
            if !asleep || bell.event().is_set() {
                asleep = receive_round(&bell, &mut consumer, &mut got);
            }
        }
        assert_eq!(got, 2, "the receiver sleeps beside an element");
    });
}

/// Neither end knows whether it is the last: the remaining elements are handed on once, though the
/// consumer empties the ring before it goes.
#[test]
fn spsc_hands_on_remaining_elements_at_the_last_owner() {
    model(None, || {
        let seen = Arc::new(AtomicU32::new(0));
        let left = Arc::clone(&seen);
        let (mut producer, mut consumer) = spsc_with(2, move |elements: Vec<u32>| {
            left.fetch_add(elements.len() as u32, Ordering::Relaxed);
        });
        let sender = thread::spawn(move || {
            producer.push(1).unwrap();
            producer.push(2).unwrap();
        });
        let taken = u32::from(consumer.pop().is_some());
        drop(consumer);
        sender.join().unwrap();
        assert_eq!(taken + seen.load(Ordering::Relaxed), 2);
    });
}

#[test]
fn generation_hides_parts_that_are_reused() {
    use linerate_memory::Generation;
    use loom::sync::atomic::fence;
    model(None, || {
        // A link to one of two parts, as a table's first array has them.
        let table = Arc::new((Generation::new(), AtomicU32::new(0), [10, 0].map(AtomicU32::new)));
        let writer = {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                let (generation, link, parts) = &*table;
                parts[1].store(20, Ordering::Relaxed);
                fence(Ordering::Release);
                link.store(1, Ordering::Relaxed);
                generation.advance();
                // Begun, and never linked: invisible to readers.
                parts[0].store(99, Ordering::Relaxed);
            })
        };
        let (generation, link, parts) = &*table;
        let look = || {
            generation.read(|| {
                let part = link.load(Ordering::Relaxed);
                fence(Ordering::Acquire);
                parts[part as usize].load(Ordering::Relaxed)
            })
        };
        let (first, second) = (look(), look());
        assert!([(10, 10), (10, 20), (20, 20)].contains(&(first, second)), "{first} {second}");
        writer.join().unwrap();
        assert_eq!(look(), 20);
    });
}

#[test]
fn generation_flips_from_one_table_to_another() {
    use linerate_memory::Generation;
    model(None, || {
        // Two tables of two words each; a table's words belong together.
        let table = Arc::new((
            Generation::new(),
            [[10, 11], [0, 0]].map(|words| words.map(AtomicU32::new)),
        ));
        let writer = {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                let (generation, sides) = &*table;
                for (words, tens) in [(&sides[1], 20), (&sides[0], 30)] {
                    words[0].store(tens, Ordering::Relaxed);
                    words[1].store(tens + 1, Ordering::Relaxed);
                    generation.flip();
                }
                assert_eq!(generation.side(), 0);
            })
        };
        let (generation, sides) = &*table;
        let look = || {
            generation
                .read_side(|side| [0, 1].map(|word| sides[side][word].load(Ordering::Relaxed)))
        };
        let (first, second) = (look(), look());
        for seen in [first, second] {
            assert!([[10, 11], [20, 21], [30, 31]].contains(&seen), "{seen:?}");
        }
        assert!(first <= second, "{first:?} before {second:?}");
        writer.join().unwrap();
        assert_eq!(look(), [30, 31]);
    });
}
