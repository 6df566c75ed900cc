//! Where a worker's cycles go, element by element.
//!
//! Reading the cycle counter costs more than many elements do, so it is read
//! when the worker changes between work and waiting, and inside a few rounds, in
//! which every element is then measured by itself: at most one round in
//! [`INTERVAL`], and so few that the readings take no more than one part in
//! [`PARTS`] of the work; with the branches that go the other way in it, a measured
//! round costs some three times its readings. The rounds are chosen at random:
//! tasks take turns, and a fixed interval could meet the same one every time. An
//! element's cycles are its part of the measured rounds, applied to all work; so
//! what the elements and the engine are said to cost is what was spent, and
//! nothing is left over.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use linerate_memory::clock::{cycles, reading_cycles};

use crate::class::Role;

/// Least mean number of rounds from one that is measured to the next, and the
/// greatest, which short rounds have.
const INTERVAL: u64 = 64;
const INTERVAL_LIMIT: u64 = 1024;
/// Readings may take one part in so many.
const PARTS: u64 = 512;
/// Who is charged for what happens between elements.
pub(crate) const ENGINE: usize = usize::MAX;

/// One worker's published figures. Written by the worker with plain loads and
/// stores, read by anybody.
#[derive(Debug)]
#[repr(align(128))]
pub struct WorkerStats {
    work: AtomicU64,
    wait: AtomicU64,
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
    /// Cycles in measured rounds.
    cycles: AtomicU64,
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
}

/// An element's figures at a moment.
#[derive(Debug, Clone, Default)]
pub struct ElementUsage {
    /// Whose cycles these are.
    pub role: Role,
    /// Times it was called with packets.
    pub frames: u64,
    /// Packets it was called with.
    pub packets: u64,
    /// Cycles it has cost, estimated from measured rounds.
    pub cycles: f64,
    /// Packets dropped, in the order of its class's reasons.
    pub drops: Vec<u64>,
    /// Packets sent to outputs that lead nowhere.
    pub nowhere: u64,
}

impl ElementUsage {
    /// Cycles per packet; `None` before the first.
    pub fn cycles_per_packet(&self) -> Option<f64> {
        (self.packets > 0).then(|| self.cycles / self.packets as f64)
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
}

impl WorkerStats {
    pub(crate) fn new(elements: impl Iterator<Item = (Role, usize)>) -> WorkerStats {
        let element = |(role, reasons)| {
            Arc::new(ElementStats {
                role,
                frames: AtomicU64::new(0),
                packets: AtomicU64::new(0),
                cycles: AtomicU64::new(0),
                drops: (0..reasons).map(|_| AtomicU64::new(0)).collect(),
                nowhere: AtomicU64::new(0),
            })
        };
        WorkerStats {
            work: AtomicU64::new(0),
            wait: AtomicU64::new(0),
            rounds: AtomicU64::new(0),
            engine: AtomicU64::new(0),
            elements: elements.map(element).collect(),
        }
    }

    /// One element's figures.
    pub(crate) fn element(&self, element: usize) -> &Arc<ElementStats> {
        &self.elements[element]
    }

    /// The figures now: of a running worker at most some thousand rounds old.
    pub fn read(&self) -> Usage {
        let measured: Vec<u64> = self.elements.iter().map(|e| e.cycles.load(Relaxed)).collect();
        let engine = self.engine.load(Relaxed);
        let work = self.work.load(Relaxed);
        let all = engine + measured.iter().sum::<u64>();
        let share = |part: u64| if all == 0 { 0.0 } else { work as f64 * part as f64 / all as f64 };
        let elements = self.elements.iter().zip(measured).map(|(element, measured)| ElementUsage {
            role: element.role,
            frames: element.frames.load(Relaxed),
            packets: element.packets.load(Relaxed),
            cycles: share(measured),
            drops: element.drops.iter().map(|drops| drops.load(Relaxed)).collect(),
            nowhere: element.nowhere.load(Relaxed),
        });
        Usage {
            work,
            wait: self.wait.load(Relaxed),
            rounds: self.rounds.load(Relaxed),
            engine: if all == 0 { work as f64 } else { share(engine) },
            elements: elements.collect(),
        }
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
    /// Mean rounds from one that is measured to the next.
    interval: u32,
    random: u32,
    measuring: bool,
    /// Who is at work in a measured round, and since when.
    at_work: usize,
    mark: u64,
    /// Cycles that reading the counter itself takes.
    overhead: u64,
    /// What the measured round has cost whom so far. Charged for good only
    /// when the round turns out to have done something.
    charges: Vec<(usize, u64)>,
}

impl Account {
    pub(crate) fn new(stats: Arc<WorkerStats>, measured: bool) -> Account {
        Account {
            stats,
            since: cycles(),
            working: false,
            rounds: 0,
            measured,
            until_measured: if measured { 1 } else { u32::MAX },
            interval: INTERVAL as u32,
            random: 0x9e37_79b9,
            measuring: false,
            at_work: ENGINE,
            mark: 0,
            overhead: reading_cycles(),
            charges: Vec::with_capacity(64),
        }
    }

    pub(crate) fn stats(&self) -> &Arc<WorkerStats> {
        &self.stats
    }

    /// The worker starts: what was before is nobody's.
    pub(crate) fn start(&mut self) {
        self.since = cycles();
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
        // Marsaglia's xorshift.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        self.until_measured = 1 + self.random % (2 * self.interval);
        self.measuring = true;
        self.at_work = ENGINE;
        self.mark = cycles();
    }

    /// `element` is at work from now on; returns who was before.
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

    pub(crate) fn dropped(&self, element: usize, reason: usize, packets: usize) {
        if let Some(drops) = self.stats.elements[element].drops.get(reason) {
            add(drops, packets as u64);
        }
    }

    /// The round is over.
    #[inline(always)]
    pub(crate) fn end(&mut self, worked: bool) {
        self.rounds += u64::from(worked);
        if self.measuring || self.working != worked {
            self.charge_elapsed(worked);
        }
    }

    /// Charges the time since the last call to work or to waiting, and publishes.
    #[cold]
    #[inline(never)]
    fn charge_elapsed(&mut self, worked: bool) {
        if self.measuring {
            self.charge(ENGINE);
            self.measuring = false;
            if worked {
                // The reading at the start, those in between, and the one below.
                let measuring = (self.charges.len() as u64 + 2) * self.overhead;
                let round = self.charges.iter().map(|(_, taken)| taken).sum::<u64>().max(1);
                let wanted = measuring.saturating_mul(PARTS) / round;
                self.interval = wanted.clamp(INTERVAL, INTERVAL_LIMIT) as u32;
            }
            for (who, taken) in self.charges.drain(..) {
                match self.stats.elements.get(who) {
                    _ if !worked => {}
                    Some(element) => add(&element.cycles, taken),
                    None => add(&self.stats.engine, taken),
                }
            }
        }
        let now = cycles();
        let elapsed = now.wrapping_sub(self.since);
        self.since = now;
        // All of it counts as what the worker did until now. That a round was
        // the first to do something, or the first to do nothing, is known only
        // at its end, so its cycles are charged to the state before it.
        add(if self.working { &self.stats.work } else { &self.stats.wait }, elapsed);
        self.working = worked;
        self.stats.rounds.store(self.rounds, Relaxed);
    }

    /// Publishes what is not published yet.
    pub(crate) fn publish(&mut self) {
        self.charge_elapsed(self.working);
    }
}
