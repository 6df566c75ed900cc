//! The generator: a worker that sends a description at a schedule.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use linerate_memory::{Frame, PoolCache};
use linerate_port::{PortError, Transmit, Wake};
use linerate_worker::{Idle, Meter, Sleeper, Stage, Stop, UsageReader};

use crate::{clock::now, rate::Schedule, traffic::FrameMaker};

/// Being late by less than this is made up for; what came due before is given
/// up and counted.
const LATE: Duration = Duration::from_millis(2);
/// Gaps longer than this are slept through, where the idle strategy allows
/// sleeping at all: a sleep overshoots by about as much.
const NAP: Duration = Duration::from_micros(200);
/// Longest sleep: the stop flag is looked at this often.
const NAP_MAX: Duration = Duration::from_millis(20);
/// How long frames on their way out are waited for at the end.
const DRAIN: Duration = Duration::from_millis(500);

/// What a generator was to send and what came of it.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Frames that came due; those sent when there is no schedule.
    pub intended: u64,
    /// Frames offered to the port.
    pub offered: u64,
    /// Frames the port took.
    pub accepted: u64,
}

impl Progress {
    /// Frames that came due and were not sent.
    pub fn unsent(&self) -> u64 {
        self.intended.saturating_sub(self.accepted)
    }
}

#[derive(Debug, Default)]
struct Shared {
    intended: AtomicU64,
    offered: AtomicU64,
    accepted: AtomicU64,
}

/// Reads a generator's progress from another thread.
#[derive(Debug, Clone)]
pub struct ProgressReader {
    shared: Arc<Shared>,
}

impl ProgressReader {
    /// The progress now.
    pub fn read(&self) -> Progress {
        let shared = &*self.shared;
        // In the order that keeps accepted <= offered <= intended.
        let accepted = shared.accepted.load(Ordering::Acquire);
        let offered = shared.offered.load(Ordering::Acquire);
        Progress { intended: shared.intended.load(Ordering::Acquire), offered, accepted }
    }
}

/// A worker that sends.
pub struct Generator {
    maker: FrameMaker,
    schedule: Schedule,
    transmit: Box<dyn Transmit>,
    pool: PoolCache,
    frame: Frame,
    idle: Idle,
    meter: Meter,
    /// Frames still to be sent; no end when `None`.
    left: Option<u64>,
    /// Frames that are due and not made.
    owed: u64,
    progress: Progress,
    shared: Arc<Shared>,
}

impl Generator {
    /// A generator that sends at most `burst` frames at a time and ends after
    /// `count` of them.
    ///
    /// # Panics
    ///
    /// When `burst` is not in 1..=[`FRAME_LIMIT`](linerate_memory::FRAME_LIMIT).
    pub fn new(
        maker: FrameMaker,
        schedule: Schedule,
        transmit: Box<dyn Transmit>,
        pool: PoolCache,
        burst: usize,
        idle: Idle,
        count: Option<u64>,
    ) -> Generator {
        Generator {
            maker,
            schedule,
            transmit,
            pool,
            frame: Frame::new(burst),
            idle,
            meter: Meter::new(),
            left: count,
            owed: 0,
            progress: Progress::default(),
            shared: Arc::default(),
        }
    }

    /// A handle to the progress, for other threads.
    pub fn progress(&self) -> ProgressReader {
        ProgressReader { shared: Arc::clone(&self.shared) }
    }

    /// The worker's cycles, for other threads.
    pub fn usage(&self) -> UsageReader {
        self.meter.reader()
    }

    /// Sends until told to stop or all is sent; then waits for what is on the
    /// way and gives all buffers back.
    ///
    /// # Errors
    ///
    /// When the port fails.
    pub fn run(mut self, stop: &Stop) -> Result<(), PortError> {
        let outcome = self.send_all(stop);
        let closed = self.close();
        self.meter.finish();
        outcome.and(closed)
    }

    fn send_all(&mut self, stop: &Stop) -> Result<(), PortError> {
        let start = now();
        let mut sleeper = Sleeper::new(self.idle);
        let mut refresh = Instant::now();
        while !stop.is_raised() && self.left != Some(0) {
            let measured = self.meter.round();
            let time = now();
            if self.frame.is_empty() {
                self.fill(time, time - start);
            }
            if measured {
                self.meter.stage(Stage::Task);
            }
            let sent = self.offer()?;
            if measured {
                self.meter.stage(Stage::Transmit);
                if refresh.elapsed() > Duration::from_millis(500) {
                    refresh = Instant::now();
                    self.transmit.refresh();
                }
            }
            self.meter.done(usize::from(sent > 0), sent, measured);
            if sent > 0 {
                sleeper.busy();
            } else {
                self.rest(&mut sleeper, start)?;
            }
        }
        Ok(())
    }

    /// Makes the frames that are due.
    #[inline]
    fn fill(&mut self, time: u64, elapsed: u64) {
        let limit = self.left.unwrap_or(u64::MAX).min(self.frame.limit() as u64);
        let due = match self.schedule.due(elapsed) {
            Some(due) => {
                // Of a counted run no more come due than it has left.
                let left = self.left.unwrap_or(u64::MAX);
                let due = due.min(left.saturating_sub(self.owed));
                self.count_intended(due);
                self.owed += due;
                // Too late is given up, so that a hiccup does not become a
                // burst the schedule never meant.
                let late = self.schedule.expected(LATE.as_nanos() as f64).unwrap_or(0.0) as u64;
                self.owed = self.owed.min(late.max(self.frame.limit() as u64));
                self.owed.min(limit)
            }
            None => limit,
        };
        for _ in 0..due {
            let Some(mut slot) = self.pool.take_one(self.maker.next_len()) else { break };
            if let Some(bytes) = self.pool.arena().packet_mut(&mut slot) {
                self.maker.make(bytes, time);
            }
            // The frame's limit bounds `due`.
            if let Err(slot) = self.frame.push(slot) {
                self.pool.give_one(slot);
            }
        }
        let made = self.frame.len() as u64;
        self.owed = self.owed.saturating_sub(made);
        if self.schedule.expected(0.0).is_none() {
            self.count_intended(made);
        }
        self.progress.offered += made;
        self.shared.offered.store(self.progress.offered, Ordering::Release);
    }

    #[inline]
    fn count_intended(&mut self, frames: u64) {
        self.progress.intended += frames;
        self.shared.intended.store(self.progress.intended, Ordering::Release);
    }

    /// Offers what is made; what the port does not take stays.
    #[inline]
    fn offer(&mut self) -> Result<usize, PortError> {
        if self.frame.is_empty() {
            return Ok(0);
        }
        let sent = self.transmit.transmit(&mut self.pool, &mut self.frame)?;
        self.progress.accepted += sent as u64;
        self.shared.accepted.store(self.progress.accepted, Ordering::Release);
        if let Some(left) = &mut self.left {
            *left -= sent as u64;
        }
        Ok(sent)
    }

    /// Nothing was sent: either nothing is due or the port is full.
    fn rest(&mut self, sleeper: &mut Sleeper, start: u64) -> Result<(), PortError> {
        let outstanding = self.transmit.flush(&mut self.pool)?;
        if !self.frame.is_empty() {
            if sleeper.should_sleep() {
                sleeper.sleep(&[self.transmit.wake()]);
            }
            return Ok(());
        }
        let gap = self.schedule.wait(now() - start);
        if self.idle == Idle::Poll || gap < NAP {
            std::hint::spin_loop();
        } else if outstanding > 0 {
            sleeper.sleep(&[Wake::At(Instant::now() + gap.min(Duration::from_millis(1)) - NAP)]);
        } else {
            // Awake again in time to be on time.
            thread::sleep(gap.min(NAP_MAX) - NAP);
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), PortError> {
        let deadline = Instant::now() + DRAIN;
        while !self.frame.is_empty() && self.left != Some(0) && Instant::now() < deadline {
            if self.offer()? == 0 {
                thread::sleep(Duration::from_micros(50));
            }
        }
        self.pool.give(&mut self.frame);
        while self.transmit.flush(&mut self.pool)? > 0 && Instant::now() < deadline {
            thread::sleep(Duration::from_micros(50));
        }
        self.transmit.refresh();
        self.transmit.close(&mut self.pool);
        Ok(())
    }
}

impl std::fmt::Debug for Generator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Generator").field("progress", &self.progress).finish_non_exhaustive()
    }
}
