//! Models of the exchange between processes: hand-over, holders, and a member that dies anywhere.
#![cfg(loom)]
#![allow(missing_docs, reason = "a test program")]

use linerate_memory::shared::{Ledger, Receiver, RingMemory, Sender};
use loom::{
    cell::UnsafeCell,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

/// Words that both sides map.
#[derive(Clone)]
struct Mapped(Arc<Vec<AtomicU64>>);

impl RingMemory for Mapped {
    fn words(&self, at: usize, count: usize) -> &[AtomicU64] {
        &self.0[at..at + count]
    }
}

const CELLS: u32 = 2;
/// Offsets of the ring to the server and of the ledger.
const BACK: usize = 32;
const LEDGER: usize = 64;
const MEMBER: usize = 1;
const BUFFERS: usize = 2;

fn mapped() -> Mapped {
    Mapped(Arc::new((0..LEDGER + BUFFERS).map(|_| AtomicU64::new(0)).collect()))
}

fn model(preemptions: usize, body: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    builder.check(body);
}

/// Bytes of the buffers: loom finds concurrent accesses to them.
type Bytes = Arc<Vec<UnsafeCell<u32>>>;

/// Takes the lent buffers, writes to them and returns them; dies after so many steps.
fn member(place: Mapped, bytes: &Bytes, mut steps: usize) -> Option<()> {
    let mut step = || {
        steps = steps.checked_sub(1)?;
        Some(())
    };
    let ledger = Ledger::new(place.clone(), LEDGER, BUFFERS as u32);
    let mut lent = Receiver::new(place.clone(), 0, CELLS);
    let mut back = Sender::new(place, BACK, CELLS);
    for _ in 0..2 {
        step()?;
        lent.ready().unwrap();
        while let Some(index) = lent.take() {
            assert!(ledger.holds(MEMBER, index as u32));
            step()?;
            // SAFETY: the ledger says that the buffer is this member's; loom fails where it is not.
            bytes[index as usize].with_mut(|byte| unsafe { *byte += 1 });
            step()?;
            lent.release();
            step()?;
            assert!(back.room(1).unwrap() > 0);
            back.put(index);
            step()?;
            back.publish();
        }
    }
    Some(())
}

/// Takes the words on a ring, and calls back with the buffer that each names.
type Take = fn(&mut Receiver<Mapped>, &Ledger<Mapped>, &mut dyn FnMut(usize));

/// Buffers are lent, and come back each once, wherever in its steps the member dies: by its ring,
/// or because the ledger says that it held them. `lend` lends all; `take` takes those that have
/// come back, and calls back with each.
fn dies_anywhere(
    (steps, preemptions): (usize, usize),
    member: fn(Mapped, &Bytes, usize) -> Option<()>,
    lend: fn(&mut Sender<Mapped>, &Ledger<Mapped>),
    take: Take,
) {
    model(preemptions, move || {
        let place = mapped();
        let bytes: Bytes = Arc::new((0..BUFFERS).map(|_| UnsafeCell::new(0)).collect());
        let ledger = Ledger::new(place.clone(), LEDGER, BUFFERS as u32);
        let mut lent = Sender::new(place.clone(), 0, CELLS);
        let mut back = Receiver::new(place.clone(), BACK, CELLS);
        let other = thread::spawn({
            let bytes = Arc::clone(&bytes);
            move || member(place, &bytes, steps)
        });
        lend(&mut lent, &ledger);
        let mut returned = [0; BUFFERS];
        let mut receive = |back: &mut Receiver<Mapped>| {
            take(back, &ledger, &mut |index| {
                // SAFETY: the buffer has come back, and has no other holder.
                bytes[index].with(|byte| assert_eq!(unsafe { *byte }, 1));
                returned[index] += 1;
            });
            back.release();
        };
        receive(&mut back);
        let _ = other.join().unwrap();
        receive(&mut back);
        let held = BUFFERS as u32 - returned.iter().sum::<u32>();
        ledger.sweep(MEMBER, held, |index| {
            // SAFETY: as above; the member is gone.
            bytes[index as usize].with_mut(|byte| unsafe { *byte += 1 });
            returned[index as usize] += 1;
        });
        assert_eq!(returned, [1; BUFFERS], "a buffer is lost or there twice");
    });
}

#[test]
fn a_member_may_die_anywhere() {
    let lend = |lent: &mut Sender<Mapped>, ledger: &Ledger<Mapped>| {
        for index in 0..BUFFERS {
            ledger.set(index as u32, 1 << MEMBER);
            lent.put(index as u64);
            lent.publish();
        }
    };
    let take =
        |back: &mut Receiver<Mapped>, ledger: &Ledger<Mapped>, each: &mut dyn FnMut(usize)| {
            back.ready().unwrap();
            while let Some(index) = back.take() {
                assert!(ledger.holds(MEMBER, index as u32));
                assert_eq!(ledger.release(MEMBER, index as u32), 0);
                each(index as usize);
            }
        };
    for steps in 0..=12 {
        dies_anywhere((steps, 2), member, lend, take);
    }
}

/// As one by one, where both sides handle all words at once: holders, then cells, then one
/// position. A member that is told of a word is a holder of its buffer, also where it does not
/// look.
#[test]
fn bursts_are_lent_and_returned_whole_wherever_a_member_dies() {
    let lend = |lent: &mut Sender<Mapped>, ledger: &Ledger<Mapped>| {
        let mut cells = lent.cells();
        for (index, holder) in ledger.words().iter().enumerate() {
            holder.store(1 << MEMBER, Ordering::Relaxed);
            cells.put(index as u64);
        }
        lent.advance(BUFFERS);
        lent.publish();
    };
    let take =
        |back: &mut Receiver<Mapped>, ledger: &Ledger<Mapped>, each: &mut dyn FnMut(usize)| {
            let count = back.ready().unwrap();
            let mut cells = back.cells();
            for _ in 0..count {
                let index = cells.take() as usize;
                let holder = &ledger.words()[index];
                assert_eq!(holder.load(Ordering::Relaxed), 1 << MEMBER);
                holder.store(0, Ordering::Relaxed);
                each(index);
            }
            back.advance(count);
        };
    for steps in 0..=6 {
        dies_anywhere((steps, 3), burst_member, lend, take);
    }
}

/// Takes the lent buffers at once, writes to all and returns them at once; dies after so many
/// steps.
fn burst_member(place: Mapped, bytes: &Bytes, mut steps: usize) -> Option<()> {
    let mut step = || {
        steps = steps.checked_sub(1)?;
        Some(())
    };
    let ledger = Ledger::new(place.clone(), LEDGER, BUFFERS as u32);
    let mut lent = Receiver::new(place.clone(), 0, CELLS);
    let mut back = Sender::new(place, BACK, CELLS);
    for _ in 0..2 {
        step()?;
        let count = lent.ready().unwrap();
        let mut cells = lent.cells();
        let taken: Vec<u64> = (0..count).map(|_| cells.take()).collect();
        lent.advance(count);
        lent.release();
        for &index in &taken {
            assert!(ledger.holds(MEMBER, index as u32));
            step()?;
            // SAFETY: the ledger says that the buffer is this member's; loom fails where it is not.
            bytes[index as usize].with_mut(|byte| unsafe { *byte += 1 });
        }
        assert!(back.room(count).unwrap() >= count);
        let mut cells = back.cells();
        taken.iter().for_each(|&index| cells.put(index));
        back.advance(count);
        step()?;
        back.publish();
    }
    Some(())
}

/// Both ends of the ring reuse its cells.
#[test]
fn words_arrive_in_order_over_the_wrap() {
    model(3, || {
        let place = mapped();
        let mut sender = Sender::new(place.clone(), 0, CELLS);
        let mut receiver = Receiver::new(place, 0, CELLS);
        let other = thread::spawn(move || {
            let mut sent = 0;
            for _ in 0..4 {
                if sender.room(1).unwrap() > 0 {
                    sent += 1;
                    sender.put(sent);
                    sender.publish();
                }
            }
            sent
        });
        let mut got = Vec::new();
        let mut receive = |receiver: &mut Receiver<Mapped>| {
            receiver.ready().unwrap();
            got.extend(std::iter::from_fn(|| receiver.take()));
            receiver.release();
        };
        receive(&mut receiver);
        receive(&mut receiver);
        let sent = other.join().unwrap();
        receive(&mut receiver);
        assert_eq!(got, (1..=sent).collect::<Vec<_>>());
    });
}

/// A sleeper that found nothing is woken by the sender.
#[test]
fn a_sleeper_in_another_process_is_woken() {
    model(4, || {
        let place = mapped();
        let mut sender = Sender::new(place.clone(), 0, CELLS);
        let mut receiver = Receiver::new(place, 0, CELLS);
        let other = thread::spawn(move || {
            sender.put(1);
            sender.publish()
        });
        receiver.arm();
        let sleeps = receiver.ready() == Ok(0);
        let woken = other.join().unwrap();
        assert!(woken || !sleeps, "the receiver sleeps beside a word");
    });
}
