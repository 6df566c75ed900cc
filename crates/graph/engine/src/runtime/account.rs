//! Accounting of a worker's cycles, element by element.
//!
//! Reading the cycle counter costs more than many elements do, so it is read
//! behind every round that had nothing to do, and inside a few rounds, in which every
//! element is then measured by itself: at most one round in
//! [`INTERVAL`], and so few that the readings take no more than one part in
//! [`PARTS`] of the work; with the branches that go the other way in it, a measured
//! round costs some three times its readings. The rounds are chosen at random:
//! tasks take turns, and a fixed interval could meet the same one every time. While
//! there is nothing to do, and behind a sleep, there is time to measure more rounds:
//! the first that do something after it, which are all there are where packets are
//! rare. So each measured round stands for as many as it was chosen out of. An element's cycles are
//! its part of those rounds', applied to all work; so the costs of the elements and the engine add
//! up to the cycles spent, and nothing is left over, in all and in every interval.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

#[cfg(not(test))]
use linerate_memory::clock::cycles;
use linerate_memory::clock::reading_cycles;
use linerate_worker::{CycleCounters, WorkerState};

#[cfg(test)]
use self::tests::cycles;

/// Least mean number of rounds from one that is measured to the next, and the
/// greatest, which short rounds have.
const INTERVAL: u64 = 64;
const INTERVAL_LIMIT: u64 = 1024;
/// As [`INTERVAL`], for rounds that did nothing.
const IDLE_INTERVAL: u32 = 16;
/// Behind a sleep so many rounds are measured at most, one for so many cycles of it.
const FRESH: u64 = 8;
const SLEEP: u64 = 1 << 18;
/// Readings may take one part in so many.
const PARTS: u64 = 512;
/// The account charged for work between elements.
pub(crate) const ENGINE: usize = usize::MAX;

/// The cost term that an element's cycles count towards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Role {
    /// Getting packets in or out: `C_IO`.
    Io,
    /// Doing something with them: `C_task`.
    #[default]
    Task,
    /// Nothing: it informs or controls.
    Information,
}

/// One worker's published figures. Written by the worker with plain loads and stores, read by any
/// thread.
#[derive(Debug)]
#[repr(align(128))]
pub struct WorkerStats {
    cycle_counters: CycleCounters,
    rounds: AtomicU64,
    engine: AtomicU64,
    elements: Box<[Arc<ElementStats>]>,
}

/// One element's figures on one worker.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct ElementStats {
    role: Role,
    frames: AtomicU64,
    packets: AtomicU64,
    /// Cycles in rounds for which measured ones stand.
    cycles: AtomicU64,
    /// Packets in these.
    measured: AtomicU64,
    /// By reason of its class, and last those for none of them.
    drops: Box<[AtomicU64]>,
    nowhere: AtomicU64,
}

/// A worker's figures at a moment.
#[derive(Debug, Clone, Default)]
pub struct Usage {
    /// Cycles of rounds that did something.
    pub work: u64,
    /// Cycles of looking for something to do, and asleep: `C_busy`.
    pub wait: u64,
    /// Rounds that did something.
    pub rounds: u64,
    /// Cycles of work that belong to no element: scheduling and dispatch.
    pub engine: f64,
    /// By element, in the order of the configuration.
    pub elements: Vec<ElementUsage>,
    /// Cycles of the engine in rounds for which measured ones stand.
    measured: u64,
}

/// An element's figures at a moment.
#[derive(Debug, Clone, Default)]
pub struct ElementUsage {
    /// The cost term that these cycles count towards.
    pub role: Role,
    /// Times it was given packets.
    pub frames: u64,
    /// Packets it was given; those it brought, of one without inputs, and those it took,
    /// of one that pulls.
    pub packets: u64,
    /// Cycles it has cost, estimated from measured rounds.
    pub cycles: f64,
    /// Packets dropped, in the order of its class's reasons.
    pub drops: Vec<u64>,
    /// Packets dropped for a reason that its class does not declare: a fault of the element.
    pub undeclared: u64,
    /// Packets sent to outputs that lead nowhere.
    pub nowhere: u64,
    /// In rounds for which measured ones stand.
    measured: Measured,
}

/// Figures of rounds for which measured ones stand.
#[derive(Debug, Clone, Copy, Default)]
struct Measured {
    cycles: u64,
    packets: u64,
}

impl ElementUsage {
    /// Cycles per packet; `None` where no packet of its has been measured.
    pub fn cycles_per_packet(&self) -> Option<f64> {
        let Measured { cycles, packets } = self.measured;
        (packets > 0).then(|| cycles as f64 / packets as f64)
    }

    /// Adds the figures of the same element on another worker.
    pub fn add(&mut self, other: &ElementUsage) {
        self.frames += other.frames;
        self.packets += other.packets;
        self.cycles += other.cycles;
        self.undeclared += other.undeclared;
        self.nowhere += other.nowhere;
        self.measured.cycles += other.measured.cycles;
        self.measured.packets += other.measured.packets;
        self.drops.iter_mut().zip(&other.drops).for_each(|(sum, drops)| *sum += drops);
    }

    /// Packets dropped, for whichever reason.
    pub fn dropped(&self) -> u64 {
        self.drops.iter().sum::<u64>() + self.undeclared
    }

    /// Packets that it got and that went no further, by reason: each that its class has `declared`,
    /// then undeclared reasons and unconnected outputs where there were any.
    pub fn drops_by_reason(
        &self,
        declared: &'static [&'static str],
    ) -> impl Iterator<Item = (&'static str, u64)> {
        let others = [("undeclared reason", self.undeclared), ("unconnected output", self.nowhere)];
        let declared = declared.iter().copied().zip(self.drops.iter().copied());
        declared.chain(others.into_iter().filter(|(_, packets)| *packets > 0))
    }

    /// Packets per call.
    pub fn mean_frame(&self) -> f64 {
        if self.frames == 0 { 0.0 } else { self.packets as f64 / self.frames as f64 }
    }
}

impl Usage {
    /// `C_IO` and `C_task` in cycles, the engine's own part in the latter.
    pub fn io_and_task(&self) -> (f64, f64) {
        let of = |role| {
            let elements = self.elements.iter().filter(|element| element.role == role);
            elements.fold(0.0, |sum, element| sum + element.cycles)
        };
        (of(Role::Io), of(Role::Task) + of(Role::Information) + self.engine)
    }

    /// Subtracts `before`. Where nothing was measured since then, the cycles are divided as before.
    pub fn since(&self, before: &Usage) -> Usage {
        let less = |now: u64, before: u64| now.saturating_sub(before);
        let (work, wait) =
            CycleCounters::between((before.work, before.wait), (self.work, self.wait));
        let element = |(now, before): (&ElementUsage, &ElementUsage)| ElementUsage {
            role: now.role,
            frames: less(now.frames, before.frames),
            packets: less(now.packets, before.packets),
            cycles: 0.0,
            drops: now.drops.iter().zip(&before.drops).map(|(a, b)| less(*a, *b)).collect(),
            undeclared: less(now.undeclared, before.undeclared),
            nowhere: less(now.nowhere, before.nowhere),
            measured: Measured {
                cycles: less(now.measured.cycles, before.measured.cycles),
                packets: less(now.measured.packets, before.measured.packets),
            },
        };
        let mut since = Usage {
            work,
            wait,
            rounds: less(self.rounds, before.rounds),
            engine: 0.0,
            elements: self.elements.iter().zip(&before.elements).map(element).collect(),
            measured: less(self.measured, before.measured),
        };
        let parts = since.parts().or_else(|| self.parts());
        since.spread(parts);
        for (element, now) in since.elements.iter_mut().zip(&self.elements) {
            if element.measured.packets == 0 {
                element.measured = now.measured;
            }
        }
        since
    }

    /// The parts of work that are the engine's and each element's; `None` where none
    /// has been measured.
    fn parts(&self) -> Option<(f64, Vec<f64>)> {
        let measured = || self.elements.iter().map(|element| element.measured.cycles);
        let all = self.measured + measured().sum::<u64>();
        let part = |part: u64| part as f64 / all as f64;
        (all > 0).then(|| (part(self.measured), measured().map(part).collect()))
    }

    /// Divides all work by its parts; work that was not measured is the engine's.
    fn spread(&mut self, parts: Option<(f64, Vec<f64>)>) {
        let work = self.work as f64;
        let (engine, elements) = parts.unwrap_or((1.0, Vec::new()));
        self.engine = work * engine;
        let elements = self.elements.iter_mut().zip(elements);
        elements.for_each(|(element, part)| element.cycles = work * part);
    }
}

impl WorkerStats {
    pub(crate) fn new(elements: impl Iterator<Item = (Role, usize)>) -> WorkerStats {
        let element = |(role, reasons)| {
            Arc::new(ElementStats {
                role,
                frames: AtomicU64::new(0),
                packets: AtomicU64::new(0),
                cycles: AtomicU64::new(0),
                measured: AtomicU64::new(0),
                drops: (0..=reasons).map(|_| AtomicU64::new(0)).collect(),
                nowhere: AtomicU64::new(0),
            })
        };
        WorkerStats {
            cycle_counters: CycleCounters::default(),
            rounds: AtomicU64::new(0),
            engine: AtomicU64::new(0),
            elements: elements.map(element).collect(),
        }
    }

    /// One element's figures.
    pub(crate) fn element(&self, element: usize) -> &Arc<ElementStats> {
        &self.elements[element]
    }

    /// The figures now. Of a running worker those of single elements are at most some
    /// thousand rounds old; that it works, or waits, is known up to now.
    pub fn read(&self) -> Usage {
        let (work, wait) = self.cycle_counters.up_to(cycles);
        let element = |element: &Arc<ElementStats>| {
            let mut drops: Vec<u64> =
                element.drops.iter().map(|drops| drops.load(Relaxed)).collect();
            let undeclared = drops.pop().unwrap_or_default();
            ElementUsage {
                role: element.role,
                frames: element.frames.load(Relaxed),
                packets: element.packets.load(Relaxed),
                cycles: 0.0,
                drops,
                undeclared,
                nowhere: element.nowhere.load(Relaxed),
                measured: Measured {
                    cycles: element.cycles.load(Relaxed),
                    packets: element.measured.load(Relaxed),
                },
            }
        };
        let mut usage = Usage {
            work,
            wait,
            rounds: self.rounds.load(Relaxed),
            engine: 0.0,
            elements: self.elements.iter().map(element).collect(),
            measured: self.engine.load(Relaxed),
        };
        usage.spread(usage.parts());
        usage
    }
}

impl ElementStats {
    /// The element has been called with packets.
    #[inline(always)]
    pub(crate) fn called(&self, packets: usize) {
        add(&self.frames, 1);
        add(&self.packets, packets as u64);
    }

    /// Packets were sent to an output that leads nowhere.
    pub(crate) fn nowhere(&self, packets: usize) {
        add(&self.nowhere, packets as u64);
    }
}

/// Adds as the only writer.
#[inline(always)]
fn add(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Relaxed) + by, Relaxed);
}

/// The writing side.
#[derive(Debug)]
pub(crate) struct Account {
    stats: Arc<WorkerStats>,
    since: u64,
    working: bool,
    rounds: u64,
    /// Whether rounds are measured at all.
    measured: bool,
    until_measured: u32,
    /// Out of how many rounds that one is chosen.
    chosen_of: u32,
    /// Mean rounds from one that is measured to the next while there is work.
    interval: u32,
    /// Rounds that are measured because the worker has slept.
    fresh: u64,
    random: u32,
    measuring: bool,
    /// For how many rounds the measured one stands, and when it began.
    stands_for: u32,
    began: u64,
    /// The element at work in it, and the time since when.
    at_work: usize,
    mark: u64,
    /// Cycles that reading the counter itself takes.
    overhead: u64,
    /// Cycles of the measured round so far, by the account charged. Charged for good only when the
    /// round turns out to have done something.
    charges: Vec<(usize, u64)>,
    /// By element: how many packets it had been given before.
    packets: Vec<u64>,
}

impl Account {
    pub(crate) fn new(stats: Arc<WorkerStats>, measured: bool) -> Account {
        let packets = vec![0; stats.elements.len()];
        Account {
            stats,
            since: cycles(),
            working: false,
            rounds: 0,
            measured,
            until_measured: if measured { 1 } else { u32::MAX },
            chosen_of: 1,
            interval: INTERVAL as u32,
            fresh: 1,
            random: 0x9e37_79b9,
            measuring: false,
            stands_for: 1,
            began: 0,
            at_work: ENGINE,
            mark: 0,
            overhead: reading_cycles(),
            charges: Vec::with_capacity(64),
            packets,
        }
    }

    pub(crate) fn stats(&self) -> &Arc<WorkerStats> {
        &self.stats
    }

    /// Starts the worker's account: cycles before are not charged.
    pub(crate) fn start(&mut self) {
        self.since = cycles();
        self.stats.cycle_counters.charge(0, 0, self.since, WorkerState::running(self.working));
    }

    /// A round begins.
    #[inline(always)]
    pub(crate) fn begin(&mut self) {
        self.until_measured -= 1;
        if self.until_measured == 0 {
            self.begin_measured();
        }
    }

    #[cold]
    #[inline(never)]
    fn begin_measured(&mut self) {
        if !self.measured {
            self.until_measured = u32::MAX;
            return;
        }
        self.stands_for = self.chosen_of;
        self.choose(if self.fresh > 0 { 1 } else { self.interval });
        for (packets, element) in self.packets.iter_mut().zip(&self.stats.elements) {
            *packets = element.packets.load(Relaxed);
        }
        self.measuring = true;
        self.at_work = ENGINE;
        self.began = cycles();
        self.mark = self.began;
    }

    /// Chooses the round to be measured next, each of those to come with the same chance, one out
    /// of `of`, independent of the last choice.
    fn choose(&mut self, of: u32) {
        // Marsaglia's xorshift.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        self.chosen_of = of;
        let uniform = (f64::from(self.random) + 0.5) / 2f64.powi(32);
        let passed_over = uniform.ln() / (-1.0 / f64::from(of)).ln_1p();
        self.until_measured = 1 + passed_over as u32;
    }

    /// Accounts for sleep: the rounds right behind it are measured.
    pub(crate) fn slept(&mut self) {
        let now = cycles();
        let slept = now.wrapping_sub(self.since);
        self.since = now;
        self.stats.cycle_counters.charge(0, slept, now, WorkerState::running(false));
        let rounds = slept / SLEEP;
        if self.measured && rounds > 0 {
            self.fresh = rounds.min(FRESH);
            self.choose(1);
        }
    }

    /// Charges `element` from now on; returns the account charged before.
    #[inline(always)]
    pub(crate) fn switch(&mut self, element: usize) -> usize {
        if self.measuring { self.charge(element) } else { ENGINE }
    }

    #[cold]
    #[inline(never)]
    fn charge(&mut self, element: usize) -> usize {
        let now = cycles();
        let taken = now.wrapping_sub(self.mark).saturating_sub(self.overhead);
        self.charges.push((self.at_work, taken));
        self.mark = now;
        std::mem::replace(&mut self.at_work, element)
    }

    /// Packets were dropped for the reason of that number of the element's class. Every packet is
    /// counted: those of a number that the class does not have as undeclared.
    pub(crate) fn dropped(&self, element: usize, reason: usize, packets: usize) {
        let drops = &self.stats.elements[element].drops;
        if let Some(drops) = drops.get(reason).or(drops.last()) {
            add(drops, packets as u64);
        }
    }

    /// The round is over.
    #[inline(always)]
    pub(crate) fn end(&mut self, worked: bool) {
        self.rounds += u64::from(worked);
        // A round that works behind one that worked costs no reading.
        if self.measuring || !(self.working && worked) {
            self.charge_elapsed(worked);
        }
    }

    /// Charges the time since the last call to work or to waiting, and publishes.
    #[cold]
    #[inline(never)]
    fn charge_elapsed(&mut self, worked: bool) {
        // A round that is the first to work began at the last reading. That one is the first to
        // do nothing is known only at its end: unless it was measured, and so is known to have
        // begun later, its cycles are charged to work.
        let mut changed = None;
        if self.measuring {
            self.charge(ENGINE);
            self.measuring = false;
            changed = Some(self.began).filter(|_| self.working != worked);
            if worked {
                self.publish_round();
                self.fresh = self.fresh.saturating_sub(1);
            } else if self.fresh == 0 {
                self.choose(IDLE_INTERVAL.min(self.interval));
            }
            self.charges.clear();
        }
        let now = cycles();
        let until = changed.unwrap_or(now);
        let before = self.working || worked && changed.is_none();
        // Of waiting, and of work.
        let mut elapsed = [0; 2];
        elapsed[usize::from(before)] += until.wrapping_sub(self.since);
        elapsed[usize::from(worked)] += now.wrapping_sub(until);
        self.working = worked;
        self.since = now;
        self.stats.rounds.store(self.rounds, Relaxed);
        let [wait, work] = elapsed;
        self.stats.cycle_counters.charge(work, wait, now, WorkerState::running(worked));
    }

    /// A round that did something has been measured.
    fn publish_round(&mut self) {
        // The reading at the start, those in between, and the one that is to come.
        let measuring = (self.charges.len() as u64 + 2) * self.overhead;
        let round = self.charges.iter().map(|(_, taken)| taken).sum::<u64>().max(1);
        let wanted = measuring.saturating_mul(PARTS) / round;
        self.interval = wanted.clamp(INTERVAL, INTERVAL_LIMIT) as u32;
        let stands_for = u64::from(self.stands_for);
        for &(who, taken) in &self.charges {
            let Some(element) = self.stats.elements.get(who) else {
                add(&self.stats.engine, taken * stands_for);
                continue;
            };
            add(&element.cycles, taken * stands_for);
            // Once for each, however often it was at work.
            let packets = element.packets.load(Relaxed);
            let came = packets - std::mem::replace(&mut self.packets[who], packets);
            add(&element.measured, came * stands_for);
        }
    }

    /// Publishes the cycles not published yet: the worker is about to end.
    pub(crate) fn publish(&mut self) {
        self.charge_elapsed(self.working);
        self.stats.cycle_counters.charge(0, 0, self.since, WorkerState::Stopped);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        /// The clock of a test that has one of its own.
        static NOW: Cell<Option<u64>> = const { Cell::new(None) };
    }

    pub(super) fn cycles() -> u64 {
        NOW.get().unwrap_or_else(linerate_memory::clock::cycles)
    }

    /// A worker with a simulated cycle counter.
    struct Worker {
        account: Account,
        stats: Arc<WorkerStats>,
        now: u64,
    }

    impl Worker {
        const START: u64 = 1_000;

        fn new(measured: bool) -> Worker {
            NOW.set(Some(Worker::START));
            let stats = Arc::new(WorkerStats::new(std::iter::empty()));
            let mut account = Account::new(Arc::clone(&stats), measured);
            account.overhead = 0;
            account.start();
            Worker { account, stats, now: Worker::START }
        }

        fn pass(&mut self, cycles: u64) {
            self.now += cycles;
            NOW.set(Some(self.now));
        }

        fn round(&mut self, cycles: u64, worked: bool) {
            self.account.begin();
            self.pass(cycles);
            self.account.end(worked);
        }

        fn assert_adds_up(&self) -> Usage {
            let usage = self.stats.read();
            assert_eq!(usage.work + usage.wait, self.now - Worker::START, "{usage:?}");
            usage
        }
    }

    #[test]
    fn drops_for_an_undeclared_reason_are_counted() {
        const DROPS: &[&str] = &["first", "second"];
        let stats = Arc::new(WorkerStats::new(std::iter::once((Role::Task, DROPS.len()))));
        let account = Account::new(Arc::clone(&stats), false);
        account.dropped(0, 1, 3);
        let declared = stats.read();
        let drops = |usage: &Usage| usage.elements[0].drops_by_reason(DROPS).collect::<Vec<_>>();
        assert_eq!(drops(&declared), [("first", 0), ("second", 3)]);
        account.dropped(0, 2, 1);
        account.dropped(0, usize::MAX, 4);
        let usage = stats.read();
        assert_eq!(drops(&usage), [("first", 0), ("second", 3), ("undeclared reason", 5)]);
        let mut both = usage.since(&declared).elements.remove(0);
        both.add(&usage.elements[0]);
        let both: Vec<_> = both.drops_by_reason(DROPS).collect();
        assert_eq!(both, [("first", 0), ("second", 3), ("undeclared reason", 10)]);
    }

    #[test]
    fn rare_rounds_that_work_are_told_from_those_that_wait() {
        const TIMES: u64 = 100;
        for (measured, sleeps) in [(false, false), (true, false), (false, true), (true, true)] {
            let mut worker = Worker::new(measured);
            for _ in 0..TIMES {
                (0..20).for_each(|_| worker.round(50, false));
                if sleeps {
                    worker.pass(4 * SLEEP);
                    worker.account.slept();
                }
                worker.round(5_000, true);
            }
            worker.account.publish();
            let usage = worker.assert_adds_up();
            // The first round that waits behind one that works may be charged to work.
            let work = TIMES * 5_000..=TIMES * 5_050;
            assert!(work.contains(&usage.work), "measured {measured}, {}", usage.work);
        }
    }

    /// Also where a reading comes in the middle of a round, which then counts like the round
    /// before.
    #[test]
    fn work_and_waiting_between_readings_add_up() {
        for measured in [false, true] {
            let mut worker = Worker::new(measured);
            let mut before = (worker.now, worker.stats.read());
            let mut read = |worker: &Worker| {
                let usage = worker.assert_adds_up();
                let since = usage.since(&before.1);
                assert_eq!(since.work + since.wait, worker.now - before.0, "{since:?}");
                before = (worker.now, usage);
            };
            for round in 0..10_000u64 {
                let worked = round % 7 < 2;
                worker.account.begin();
                worker.pass(1 + round * 31 % 1_000);
                read(&worker);
                worker.pass(round % 3);
                worker.account.end(worked);
                if round % 5 == 0 {
                    read(&worker);
                }
                if round % 11 == 0 && !worked {
                    worker.pass(SLEEP);
                    read(&worker);
                    worker.account.slept();
                }
            }
        }
    }

    #[test]
    fn a_worker_that_has_ended_has_accounted_all_its_time() {
        let mut worker = Worker::new(true);
        (0..1_000).for_each(|round| worker.round(100, round % 2 == 0));
        worker.pass(77);
        worker.account.publish();
        worker.assert_adds_up();
        let ended = worker.stats.read();
        worker.now += 1_000;
        NOW.set(Some(worker.now));
        let later = worker.stats.read();
        assert_eq!((ended.work, ended.wait), (later.work, later.wait));
    }
}
