//! Cycles a thread has spent at work and waiting: it charges them now and then, others read them up
//! to now.
//!
//! The charged cycles, the time of the charge, and the thread's state since then belong together: a
//! reader that took the first from before a charge and the second from behind it would leave a
//! stretch out or count it twice. So there are two of them, and a [`Generation`] says which is
//! read.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use linerate_memory::{Generation, clock::cycles};

/// State of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum WorkerState {
    /// It does not run: time goes to nothing.
    Stopped,
    /// It looks for something to do, or sleeps.
    Waiting,
    /// It does something.
    Working,
}

impl WorkerState {
    /// Returns the state of a thread that runs.
    pub fn running(works: bool) -> WorkerState {
        if works { WorkerState::Working } else { WorkerState::Waiting }
    }
}

/// Cycles of one thread, which is the only one to charge them, in sum.
#[derive(Debug, Default)]
pub struct CycleCounters {
    /// Index of the one of the two that is read.
    generation: Generation,
    charged: [Charged; 2],
}

#[derive(Debug, Default)]
struct Charged {
    work: AtomicU64,
    wait: AtomicU64,
    /// Time of the charge: the two sums are up to then.
    until: AtomicU64,
    /// State of the thread since then, a [`WorkerState`].
    state: AtomicU64,
}

impl CycleCounters {
    /// Called by the one thread: so much work and waiting more have been up to `until`, and since
    /// then it does `state`.
    #[inline]
    pub fn charge(&self, work: u64, wait: u64, until: u64, state: WorkerState) {
        let side = self.generation.side();
        let (before, next) = (&self.charged[side], &self.charged[1 - side]);
        next.work.store(before.work.load(Relaxed) + work, Relaxed);
        next.wait.store(before.wait.load(Relaxed) + wait, Relaxed);
        next.until.store(until, Relaxed);
        next.state.store(state as u64, Relaxed);
        self.generation.flip();
    }

    /// Time of the thread's last charge: 0 before it ran, and increasing while it lives.
    pub fn until(&self) -> u64 {
        self.generation.read_side(|side| self.charged[side].until.load(Relaxed))
    }

    /// Returns true if the thread has run, and does not any more.
    pub fn has_ended(&self) -> bool {
        self.generation.read_side(|side| {
            let Charged { until, state, .. } = &self.charged[side];
            until.load(Relaxed) > 0 && state.load(Relaxed) == WorkerState::Stopped as u64
        })
    }

    /// Cycles of work and of waiting up to now.
    pub fn work_and_wait(&self) -> (u64, u64) {
        self.up_to(cycles)
    }

    /// Cycles of work and of waiting up to the time of `clock`, which is read while the charge
    /// before it is the last one: a reader that is preempted between the two reads both again.
    pub fn up_to(&self, mut clock: impl FnMut() -> u64) -> (u64, u64) {
        let ([mut work, mut wait, until, state], now) = self.generation.read_side(|side| {
            let Charged { work, wait, until, state } = &self.charged[side];
            ([work, wait, until, state].map(|word| word.load(Relaxed)), clock())
        });
        // The counters of two cores may differ a little.
        let elapsed = i64::max(now.wrapping_sub(until) as i64, 0) as u64;
        if state == WorkerState::Working as u64 {
            work += elapsed;
        } else if state == WorkerState::Waiting as u64 {
            wait += elapsed;
        }
        (work, wait)
    }

    /// Work and waiting between two readings. Their sum is the time between the readings, also where
    /// time that the first reading took for the one has been charged to the other.
    pub fn between(before: (u64, u64), now: (u64, u64)) -> (u64, u64) {
        let elapsed = (now.0 + now.1).saturating_sub(before.0 + before.1);
        let work = now.0.saturating_sub(before.0).min(elapsed);
        (work, elapsed - work)
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, hint, sync::atomic::Ordering, thread};

    use super::*;

    #[test]
    fn time_is_charged_to_the_state() {
        let counters = CycleCounters::default();
        assert_eq!((counters.until(), counters.up_to(|| 100)), (0, (0, 0)));
        assert!(!counters.has_ended());
        counters.charge(0, 0, 100, WorkerState::Waiting);
        assert_eq!((counters.until(), counters.up_to(|| 110)), (100, (0, 10)));
        counters.charge(0, 20, 120, WorkerState::Working);
        assert_eq!(counters.up_to(|| 125), (5, 20));
        // A time of a core whose counter is behind.
        assert_eq!(counters.up_to(|| 119), (0, 20));
        assert!(!counters.has_ended());
        counters.charge(10, 0, 130, WorkerState::Stopped);
        assert_eq!(counters.up_to(|| 1000), (10, 20));
        assert!(counters.has_ended());
    }

    #[test]
    fn corrected_cycles_are_in_no_interval_twice() {
        assert_eq!(CycleCounters::between((10, 20), (15, 27)), (5, 7));
        // 40 cycles of the 60 that were waiting at the first reading turned out to be work.
        assert_eq!(CycleCounters::between((10, 60), (55, 20)), (5, 0));
        assert_eq!(CycleCounters::between((60, 10), (20, 55)), (0, 5));
        assert_eq!(CycleCounters::between((10, 20), (10, 20)), (0, 0));
    }

    /// A reading is of one moment: cycles charged while the reader is kept waiting are in it.
    #[test]
    fn a_reader_that_is_kept_waiting_reads_again() {
        let counters = CycleCounters::default();
        counters.charge(0, 0, 100, WorkerState::Working);
        let mut readings = 0;
        let read = counters.up_to(|| {
            readings += 1;
            if readings == 1 {
                counters.charge(10, 0, 110, WorkerState::Waiting);
            }
            1000
        });
        assert_eq!((read, readings), ((10, 890), 2));
    }

    /// Whenever it is read, all time up to then has gone to something, and none twice.
    #[test]
    fn readings_between_charges_add_up() {
        let (counters, clock) = (CycleCounters::default(), AtomicU64::new(0));
        counters.charge(0, 0, 0, WorkerState::Waiting);
        thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for time in 1..300_000 {
                    clock.store(time, Ordering::Release);
                    let worked = u64::from(time % 3 == 0);
                    counters.charge(worked, 1 - worked, time, WorkerState::running(time % 2 == 0));
                    (0..time % 64).for_each(|_| hint::spin_loop());
                }
            });
            while !writer.is_finished() {
                let now = Cell::new(0);
                let (work, wait) = counters.up_to(|| {
                    now.set(clock.load(Ordering::Acquire));
                    now.get()
                });
                assert_eq!(work + wait, now.get());
            }
        });
    }
}
