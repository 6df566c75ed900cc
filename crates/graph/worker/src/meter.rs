//! Accounting of a worker's cycles, while it runs.
//!
//! Time is split into working and waiting: reading the cycle counter costs more than forwarding a
//! packet, so it is read only when the worker changes between the two, behind rounds without
//! packets, and for a sample: the stages of one round in [`SAMPLE`] are measured and stand for the
//! others. So are those of the first round behind a sleep, the only ones where packets are rare; it
//! stands for itself.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use linerate_memory::clock::{cycles, reading_cycles};

use crate::cycle_counters::{CycleCounters, WorkerState};

/// The stages of one round in so many are measured.
const SAMPLE: u32 = 64;

/// Stage of a burst's way through a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Stage {
    /// Taking it from a port: the receive part of `C_IO`.
    Receive,
    /// Changing its packets: `C_task`.
    Task,
    /// Giving it to a port: the transmit part of `C_IO`.
    Transmit,
}

const STAGES: usize = 3;

/// A worker's figures as it publishes them, on cache lines that no other thread writes.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Published {
    cycle_counters: CycleCounters,
    bursts: AtomicU64,
    packets: AtomicU64,
    sampled_packets: AtomicU64,
    stages: [AtomicU64; STAGES],
}

/// One worker's cycle accounting. [`Meter::reader`] is for other threads.
#[derive(Debug)]
pub struct Meter {
    published: Arc<Published>,
    /// When the time began that is not charged yet.
    since: u64,
    working: bool,
    bursts: u64,
    packets: u64,
    until_sample: u32,
    /// Number of rounds for which the measured one stands, and the time when it began.
    stands_for: u64,
    began: u64,
    mark: u64,
    sample: [u64; STAGES],
    /// Cycles that reading the counter itself takes.
    overhead: u64,
}

/// Reads a worker's figures from another thread.
#[derive(Debug, Clone)]
pub struct UsageReader {
    published: Arc<Published>,
}

/// A worker's figures at a moment. All but the packet counts are cycles of
/// [`linerate_memory::clock`].
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Cycles spent on bursts that held packets.
    pub work: u64,
    /// Cycles spent looking at empty ports or asleep: `C_busy` when polling.
    pub wait: u64,
    /// Bursts that held packets.
    pub bursts: u64,
    /// Packets of those.
    pub packets: u64,
    /// Packets in the bursts represented by those whose stages were measured.
    pub sampled_packets: u64,
    /// Their cycles, by [`Stage`].
    pub stages: [u64; STAGES],
}

impl Default for Meter {
    fn default() -> Meter {
        Meter::new()
    }
}

impl Meter {
    /// A meter that starts now, waiting.
    pub fn new() -> Meter {
        Meter {
            published: Arc::default(),
            since: cycles(),
            working: false,
            bursts: 0,
            packets: 0,
            until_sample: 1,
            stands_for: 1,
            began: 0,
            mark: 0,
            sample: [0; STAGES],
            overhead: reading_cycles(),
        }
    }

    /// A handle for readers.
    pub fn reader(&self) -> UsageReader {
        UsageReader { published: Arc::clone(&self.published) }
    }

    /// A round of the loop begins. Returns whether its stages are measured.
    #[inline]
    pub fn round(&mut self) -> bool {
        self.until_sample -= 1;
        if self.until_sample > 0 {
            return false;
        }
        self.until_sample = SAMPLE;
        self.sample = [0; STAGES];
        self.began = cycles();
        self.mark = self.began;
        true
    }

    /// The worker has been asleep: the round that comes is measured.
    pub fn slept(&mut self) {
        let now = cycles();
        self.published.cycle_counters.charge(
            0,
            now.wrapping_sub(self.since),
            now,
            WorkerState::running(false),
        );
        self.since = now;
        (self.until_sample, self.stands_for) = (1, 1);
    }

    /// A stage of a measured round is over.
    #[inline]
    pub fn stage(&mut self, stage: Stage) {
        let now = cycles();
        let taken = now.wrapping_sub(self.mark);
        self.sample[stage as usize] += taken.saturating_sub(self.overhead);
        self.mark = now;
    }

    /// The round is over; it moved `packets` in `bursts` bursts.
    #[inline]
    pub fn done(&mut self, bursts: usize, packets: usize, measured: bool) {
        if packets > 0 {
            self.bursts += bursts as u64;
            self.packets += packets as u64;
        }
        // A round with packets behind another one costs no reading.
        if measured || !(self.working && packets > 0) {
            self.publish(packets, measured);
        }
    }

    /// Charges the time since the last call to work or to waiting, and publishes.
    #[cold]
    #[inline(never)]
    fn publish(&mut self, packets: usize, measured: bool) {
        let now = cycles();
        let published = &*self.published;
        // A round that is the first with packets began at the last reading. That one
        // is the first without is known only at its end: unless it was measured, and
        // so is known to have begun later, its cycles are charged to work.
        let worked = packets > 0;
        let is_known = measured && worked != self.working;
        let until = if is_known { self.began } else { now };
        let before = self.working || worked && !is_known;
        // Of waiting, and of work.
        let mut elapsed = [0; 2];
        elapsed[usize::from(before)] += until.wrapping_sub(self.since);
        elapsed[usize::from(worked)] += now.wrapping_sub(until);
        self.since = now;
        self.working = worked;
        published.bursts.store(self.bursts, Ordering::Relaxed);
        published.packets.store(self.packets, Ordering::Relaxed);
        if measured {
            let stands_for = std::mem::replace(&mut self.stands_for, SAMPLE.into());
            if worked {
                add(&published.sampled_packets, packets as u64 * stands_for);
                for (sum, cycles) in published.stages.iter().zip(self.sample) {
                    add(sum, cycles * stands_for);
                }
            }
        }
        let [wait, work] = elapsed;
        published.cycle_counters.charge(work, wait, now, WorkerState::running(worked));
    }

    /// Publishes the figures not published yet, at the end.
    pub fn finish(&mut self) {
        self.publish(0, false);
        self.published.cycle_counters.charge(0, 0, self.since, WorkerState::Stopped);
    }
}

/// Adds as the only writer: a load and a store, no atomic instruction.
#[inline]
fn add(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed) + by, Ordering::Relaxed);
}

impl UsageReader {
    /// When the worker last published something: 0 before its first round, and going on while it
    /// lives.
    pub fn heard_of(&self) -> u64 {
        self.published.cycle_counters.until()
    }

    /// Returns true if the worker has ended: nothing more is heard of it.
    pub fn has_ended(&self) -> bool {
        self.published.cycle_counters.has_ended()
    }

    /// Returns the figures now: bursts at most [`SAMPLE`] old, work and waiting of the worker up to
    /// now.
    pub fn read(&self) -> Usage {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let published = &*self.published;
        let (work, wait) = published.cycle_counters.work_and_wait();
        Usage {
            work,
            wait,
            bursts: load(&published.bursts),
            packets: load(&published.packets),
            sampled_packets: load(&published.sampled_packets),
            stages: published.stages.each_ref().map(load),
        }
    }
}

impl Usage {
    /// Cycles of work per packet; `None` before the first.
    pub fn cycles_per_packet(&self) -> Option<f64> {
        (self.packets > 0).then(|| self.work as f64 / self.packets as f64)
    }

    /// Cycles per packet of one stage, from the measured bursts.
    pub fn stage_cycles(&self, stage: Stage) -> Option<f64> {
        let packets = self.sampled_packets;
        (packets > 0).then(|| self.stages[stage as usize] as f64 / packets as f64)
    }

    /// Part of the time spent waiting, 0 to 1.
    pub fn waiting(&self) -> f64 {
        let all = self.work + self.wait;
        if all == 0 { 0.0 } else { self.wait as f64 / all as f64 }
    }

    /// Mean packets in a burst.
    pub fn mean_burst(&self) -> f64 {
        if self.bursts == 0 { 0.0 } else { self.packets as f64 / self.bursts as f64 }
    }
}

impl std::ops::Sub for Usage {
    type Output = Usage;

    fn sub(self, earlier: Usage) -> Usage {
        let mut stages = self.stages;
        stages.iter_mut().zip(earlier.stages).for_each(|(now, then)| *now -= then);
        let (work, wait) =
            CycleCounters::between((earlier.work, earlier.wait), (self.work, self.wait));
        Usage {
            work,
            wait,
            bursts: self.bursts - earlier.bursts,
            packets: self.packets - earlier.packets,
            sampled_packets: self.sampled_packets - earlier.sampled_packets,
            stages,
        }
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Usage) {
        self.work += other.work;
        self.wait += other.wait;
        self.bursts += other.bursts;
        self.packets += other.packets;
        self.sampled_packets += other.sampled_packets;
        self.stages.iter_mut().zip(other.stages).for_each(|(sum, cycles)| *sum += cycles);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_and_waiting_add_up_to_the_time_between() {
        let mut meter = Meter::new();
        let start = meter.since;
        for round in 0..1000 {
            let measured = meter.round();
            meter.done(1, if round % 3 == 0 { 32 } else { 0 }, measured);
        }
        meter.finish();
        let usage = meter.reader().read();
        assert_eq!(usage.work + usage.wait, meter.since - start);
        assert_eq!((usage.bursts, usage.packets), (334, 334 * 32));
    }

    /// Also where every round with packets stands alone between others without.
    #[test]
    fn work_and_waiting_are_told_apart() {
        const WORK: u64 = 20_000;
        const TIMES: u64 = 1_000;
        let mut meter = Meter::new();
        for _ in 0..TIMES {
            let measured = meter.round();
            let start = cycles();
            while cycles() - start < WORK {}
            meter.done(1, 1, measured);
            let measured = meter.round();
            meter.done(0, 0, measured);
        }
        let usage = meter.reader().read();
        assert!(usage.work >= TIMES * WORK, "{} of work, {} of waiting", usage.work, usage.wait);
    }

    /// The first round stands for itself, each measured one behind it for 64. There is no bound on
    /// how much less than all the time that is: a measured round that is preempted counts 64 times.
    #[test]
    fn stages_are_charged_to_the_packets_of_the_measured_bursts() {
        const TASK: u64 = 20_000;
        let mut meter = Meter::new();
        let mut rounds = |many: u32| {
            for _ in 0..many {
                let measured = meter.round();
                if measured {
                    meter.stage(Stage::Receive);
                    let start = cycles();
                    while cycles() - start < TASK {}
                    meter.stage(Stage::Task);
                    meter.stage(Stage::Transmit);
                }
                meter.done(1, 8, measured);
            }
            (meter.reader().read(), meter.overhead)
        };
        let (first, overhead) = rounds(1);
        assert_eq!((first.packets, first.sampled_packets), (8, 8));
        assert!(first.stages.iter().sum::<u64>() <= first.work + first.wait, "{first:?}");
        let task = Stage::Task as usize;
        assert!(first.stages[task] >= TASK - overhead, "{first:?}");

        let (all, _) = rounds(640);
        assert_eq!((all.packets, all.sampled_packets), (641 * 8, 641 * 8));
        assert!(all.stages[task] >= (1 + 640) * (TASK - overhead), "{all:?}");
    }

    /// One packet now and then is not taken for waiting, nor the waiting for it.
    #[test]
    fn a_rare_packet_costs_its_round() {
        let mut meter = Meter::new();
        let reader = meter.reader();
        let spin = |least: u64| {
            let start = cycles();
            while cycles() - start < least {}
            cycles() - start
        };
        let (mut work, mut wait) = (0, 0);
        for _ in 0..10 {
            wait += spin(100_000);
            meter.slept();
            assert!(meter.round());
            work += spin(10_000);
            meter.stage(Stage::Receive);
            meter.done(1, 1, true);
            assert!(!meter.round());
            meter.done(0, 0, false);
        }
        let usage = reader.read();
        assert!(usage.work >= work && usage.wait >= wait, "{usage:?} {work} {wait}");
        assert_eq!((usage.packets, usage.sampled_packets), (10, 10));
        assert!(usage.stages[Stage::Receive as usize] >= work - 10 * meter.overhead);
    }

    /// A worker that sleeps says nothing, and is known to wait.
    #[test]
    fn the_state_of_a_worker_is_known_up_to_now() {
        let mut meter = Meter::new();
        let measured = meter.round();
        meter.done(0, 0, measured);
        let (reader, start) = (meter.reader(), cycles());
        assert!((1..=start).contains(&reader.heard_of()));
        let before = reader.read();
        while cycles() - start < 100_000 {}
        let usage = reader.read() - before;
        assert!(usage.wait > 90_000 && usage.work == 0, "{usage:?}");
        meter.finish();
        assert_eq!(reader.read(), reader.read());
    }

    #[test]
    fn no_packets_is_no_ratio() {
        let usage = Usage::default();
        assert_eq!(usage.cycles_per_packet(), None);
        assert_eq!((usage.waiting(), usage.mean_burst()), (0.0, 0.0));
    }
}
