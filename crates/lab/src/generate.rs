//! The generator: a worker that sends a description at a schedule.

use std::{
    thread,
    time::{Duration, Instant},
};

use linerate_memory::PoolCache;
use linerate_port::{PortError, Transmit, Wake};
use linerate_worker::{Idle, Meter, Sleeper, Stage, Stop, UsageReader};

use crate::{
    clock::now,
    outlet::{Outlet, ProgressReader},
    rate::Schedule,
    traffic::Frames,
};

/// Being late by less than this is made up for; what came due before is given
/// up and counted.
const LATE: Duration = Duration::from_millis(2);
/// Gaps longer than this are slept through, where the idle strategy allows
/// sleeping at all: a sleep overshoots by about as much.
const NAP: Duration = Duration::from_micros(200);
/// Longest sleep: the stop flag is looked at this often.
const NAP_MAX: Duration = Duration::from_millis(20);

/// A worker that sends.
pub struct Generator {
    outlet: Outlet,
    schedule: Schedule,
    idle: Idle,
    meter: Meter,
    /// Frames still to be sent; no end when `None`.
    left: Option<u64>,
    /// Frames that are due and not made.
    owed: u64,
}

impl Generator {
    /// A generator that sends at most `burst` frames at a time and ends after
    /// `count` of them.
    ///
    /// # Panics
    ///
    /// When `burst` is not in 1..=[`FRAME_LIMIT`](linerate_memory::FRAME_LIMIT).
    pub fn new(
        frames: impl Into<Frames>,
        schedule: Schedule,
        transmit: Box<dyn Transmit>,
        pool: PoolCache,
        burst: usize,
        idle: Idle,
        count: Option<u64>,
    ) -> Generator {
        Generator {
            outlet: Outlet::new(frames, transmit, pool, burst),
            schedule,
            idle,
            meter: Meter::new(),
            left: count,
            owed: 0,
        }
    }

    /// A handle to the progress, for other threads.
    pub fn progress(&self) -> ProgressReader {
        self.outlet.reader()
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
        let closed = self.outlet.close();
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
            if self.outlet.is_empty() {
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
                    self.outlet.refresh();
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
        let burst = self.outlet.burst();
        let limit = self.left.unwrap_or(u64::MAX).min(burst);
        let due = match self.schedule.due(elapsed) {
            Some(due) => {
                // Of a counted run no more come due than it has left.
                let left = self.left.unwrap_or(u64::MAX);
                let due = due.min(left.saturating_sub(self.owed));
                self.outlet.intend(due);
                self.owed += due;
                // Too late is given up, so that a hiccup does not become a
                // burst the schedule never meant.
                let late = self.schedule.expected(LATE.as_nanos() as f64).unwrap_or(0.0) as u64;
                self.owed = self.owed.min(late.max(burst));
                self.owed.min(limit)
            }
            None => limit,
        };
        let made = self.outlet.make(due, time);
        self.owed = self.owed.saturating_sub(made);
        if self.schedule.expected(0.0).is_none() {
            self.outlet.intend(made);
        }
        self.outlet.count_offered(made);
    }

    /// Offers what is made; what the port does not take stays.
    #[inline]
    fn offer(&mut self) -> Result<usize, PortError> {
        let sent = self.outlet.offer()?;
        if let Some(left) = &mut self.left {
            *left -= sent as u64;
        }
        Ok(sent)
    }

    /// Nothing was sent: either nothing is due or the port is full.
    fn rest(&mut self, sleeper: &mut Sleeper, start: u64) -> Result<(), PortError> {
        let outstanding = self.outlet.flush()?;
        if !self.outlet.is_empty() {
            if sleeper.should_sleep() {
                sleeper.sleep(&[self.outlet.wake()]);
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
}

impl std::fmt::Debug for Generator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Generator")
            .field("progress", &self.outlet.progress())
            .finish_non_exhaustive()
    }
}
