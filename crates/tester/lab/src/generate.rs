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
    generator_control::GeneratorControl,
    rate::Schedule,
    traffic::Frames,
    tx_queue::{ProgressReader, TxQueue},
};

/// Frames that came due longer ago than this are late.
const LATE: Duration = Duration::from_millis(2);
/// Late frames are made up for, as fast as the port takes them, as long as the generator is late by
/// less than this. Frames due before that are given up, and stay intended and not accepted.
const CATCH_UP: Duration = Duration::from_secs(1);
/// Gaps longer than this are slept through, where the idle strategy allows
/// sleeping at all: a sleep overshoots by about as much.
const NAP: Duration = Duration::from_micros(200);
/// Longest sleep: the stop flag is looked at this often.
const NAP_MAX: Duration = Duration::from_millis(20);

/// A worker that sends.
pub struct Generator {
    tx_queue: TxQueue,
    schedule: Schedule,
    idle: Idle,
    meter: Meter,
    /// Frames still to be sent; no end when `None`.
    left: Option<u64>,
    /// Frames that are due and not made.
    owed: u64,
    /// Most frames it was late with since it was last on time; 0 when it is.
    late: u64,
    /// Time of the schedule's begin, in nanoseconds.
    start: u64,
    /// The handle that changes it, and the last change made.
    control: GeneratorControl,
    changed: u64,
    /// Set while it sends.
    sends: bool,
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
            tx_queue: TxQueue::new(frames, transmit, pool, burst),
            schedule,
            idle,
            meter: Meter::new(),
            left: count,
            owed: 0,
            late: 0,
            start: 0,
            control: GeneratorControl::default(),
            changed: 0,
            sends: true,
        }
    }

    /// A handle to the progress, for other threads.
    pub fn progress(&self) -> ProgressReader {
        self.tx_queue.reader()
    }

    /// The worker's cycles, for other threads.
    pub fn usage(&self) -> UsageReader {
        self.meter.reader()
    }

    /// A handle by which other threads change its traffic.
    pub fn control(&self) -> GeneratorControl {
        self.control.clone()
    }

    /// Sends until told to stop or all is sent; then waits for the frames on the way and gives all
    /// buffers back.
    ///
    /// # Errors
    ///
    /// When the port fails.
    pub fn run(mut self, stop: &Stop) -> Result<(), PortError> {
        let outcome = self.send_all(stop);
        let closed = self.tx_queue.close();
        self.meter.finish();
        outcome.and(closed)
    }

    fn send_all(&mut self, stop: &Stop) -> Result<(), PortError> {
        self.start = now();
        let mut sleeper = Sleeper::new(self.idle);
        let mut refresh = Instant::now();
        while !stop.is_raised() && self.left != Some(0) {
            if self.control.has_changed(self.changed) {
                self.change();
            }
            let measured = self.meter.round();
            let time = now();
            if self.sends && self.tx_queue.is_empty() {
                self.fill(time, time - self.start);
            }
            if measured {
                self.meter.stage(Stage::Task);
            }
            let sent = self.offer()?;
            if measured {
                self.meter.stage(Stage::Transmit);
                if refresh.elapsed() > Duration::from_millis(500) {
                    refresh = Instant::now();
                    self.tx_queue.refresh();
                }
            }
            self.meter.done(usize::from(sent > 0), sent, measured);
            if sent > 0 {
                sleeper.busy();
            } else {
                self.rest(&mut sleeper)?;
            }
        }
        self.note_lateness(u64::MAX, 0);
        Ok(())
    }

    /// Does as it is told.
    #[cold]
    fn change(&mut self) {
        let (number, change) = self.control.take();
        self.changed = number;
        if let Some(frames) = change.frames {
            self.tx_queue.set_frames(frames);
        }
        if let Some(schedule) = change.schedule {
            self.schedule = schedule;
            (self.owed, self.late) = (0, 0);
            self.start = now();
        }
        self.sends = change.sends.unwrap_or(self.sends);
    }

    /// Makes the frames that are due.
    #[inline]
    fn fill(&mut self, time: u64, elapsed: u64) {
        let burst = self.tx_queue.burst();
        let limit = self.left.unwrap_or(u64::MAX).min(burst);
        let due = match self.schedule.due(elapsed) {
            Some(due) => {
                // Of a counted run no more come due than it has left.
                let left = self.left.unwrap_or(u64::MAX);
                let due = due.min(left.saturating_sub(self.owed));
                self.tx_queue.intend(due);
                self.owed += due;
                let together = burst.max(self.schedule.together());
                self.owed = self.owed.min(self.due_within(CATCH_UP).max(together));
                self.note_lateness(self.due_within(LATE) + together, burst);
                self.owed.min(limit)
            }
            None => limit,
        };
        let made = self.tx_queue.make(due, time);
        self.owed = self.owed.saturating_sub(made);
        if self.schedule.expected(0.0).is_none() {
            self.tx_queue.intend(made);
        }
        self.tx_queue.count_offered(made);
    }

    /// Frames that come due in a time, on average.
    #[inline]
    fn due_within(&self, time: Duration) -> u64 {
        self.schedule.expected(time.as_nanos() as f64).unwrap_or(0.0) as u64
    }

    /// Takes note of being late, with more than `on_time` frames owed, and of having caught up, with at
    /// most `burst` of them.
    #[inline]
    fn note_lateness(&mut self, on_time: u64, burst: u64) {
        if self.owed > on_time {
            self.late = self.late.max(self.owed);
        } else if self.late > 0 && self.owed <= burst {
            self.tx_queue.count_caught_up(self.late);
            self.late = 0;
        }
    }

    /// Offers the frames made; those that the port does not take stay.
    #[inline]
    fn offer(&mut self) -> Result<usize, PortError> {
        let sent = self.tx_queue.offer()?;
        if let Some(left) = &mut self.left {
            *left -= sent as u64;
        }
        Ok(sent)
    }

    /// Nothing was sent: either nothing is due or the port is full.
    fn rest(&mut self, sleeper: &mut Sleeper) -> Result<(), PortError> {
        let outstanding = self.tx_queue.flush()?;
        if !self.tx_queue.is_empty() {
            if sleeper.should_sleep() {
                sleeper.sleep(&[self.tx_queue.wake()]);
            }
            return Ok(());
        }
        let gap = if self.sends { self.schedule.wait(now() - self.start) } else { NAP_MAX };
        if self.idle == Idle::Poll || gap < NAP {
            std::hint::spin_loop();
        } else if outstanding > 0 {
            sleeper.sleep(&[Wake::At(Instant::now() + gap.min(Duration::from_millis(1)) - NAP)]);
        } else {
            // Awake again in time to be on time.
            thread::sleep(gap.min(NAP_MAX) - NAP);
            self.meter.slept();
        }
        Ok(())
    }
}

impl std::fmt::Debug for Generator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Generator")
            .field("progress", &self.tx_queue.progress())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use linerate_memory::{ArenaOptions, Frame};
    use linerate_port::{Context, open};

    use super::*;
    use crate::{Change, Pattern, Progress, Sizes, Traffic};

    fn frames(sizes: &str) -> Frames {
        let sizes: Sizes = sizes.parse().unwrap();
        Traffic::new(sizes, false).maker(1).unwrap().into()
    }

    fn schedule(rate: f64) -> Schedule {
        Schedule::new(Some(rate), Pattern::Constant, 1)
    }

    /// Raises the stop at the end, also after a panic.
    struct StopOnDrop<'a>(&'a Stop);

    impl Drop for StopOnDrop<'_> {
        fn drop(&mut self) {
            self.0.raise();
        }
    }

    /// Runs a generator while `steer` does; returns its progress, and the number of bytes sent.
    fn steered(steer: impl FnOnce(&GeneratorControl, &dyn Fn() -> Progress)) -> (Progress, u64) {
        let arena = ArenaOptions { size: 4 << 20, huge: false, ..Default::default() };
        let context = Context::new(arena.create().unwrap());
        let mut port = open(&"null:".parse().unwrap(), &context).unwrap();
        let transmit = port.queues[0].transmit.take().unwrap();
        let counters = std::sync::Arc::clone(transmit.counters());
        let pool = context.arena.cache(64);
        // One frame in eleven days.
        let (frames, never) = (frames("64"), schedule(1e-6));
        let generator = Generator::new(frames, never, transmit, pool, 32, Idle::Adaptive, None);
        let (control, progress, stop) = (generator.control(), generator.progress(), Stop::new());
        thread::scope(|scope| {
            let worker = scope.spawn(|| generator.run(&stop));
            let ends = StopOnDrop(&stop);
            steer(&control, &|| progress.read());
            drop(ends);
            worker.join().unwrap().unwrap();
        });
        assert_eq!(context.arena.accounting().held, 0);
        (progress.read(), counters.read().bytes)
    }

    /// Waits until it has sent so many frames.
    fn until(progress: &dyn Fn() -> Progress, frames: u64) {
        let began = Instant::now();
        while progress().accepted < frames {
            assert!(began.elapsed() < Duration::from_secs(60), "{:?}", progress());
            thread::yield_now();
        }
    }

    #[test]
    fn rate_and_frames_change_while_it_runs() {
        let (sent, bytes) = steered(|control, progress| {
            until(progress, 1);
            assert_eq!(progress().accepted, 1);
            let (frames, schedule) = (Some(frames("128")), Some(schedule(1e6)));
            control.change(Change { frames, schedule, sends: None });
            until(progress, 1000);
        });
        // The first had 60 bytes, without the FCS, and all others 124.
        assert_eq!(bytes, 60 + 124 * (sent.accepted - 1));
        assert!(sent.accepted >= 1000 && sent.offered == sent.accepted, "{sent:?}");
    }

    /// A port at which the worker does not run for a while, once.
    struct Descheduled(Box<dyn Transmit>, Duration);

    impl Transmit for Descheduled {
        fn transmit(
            &mut self,
            pool: &mut PoolCache,
            frame: &mut Frame,
        ) -> Result<usize, PortError> {
            thread::sleep(std::mem::take(&mut self.1));
            self.0.transmit(pool, frame)
        }

        fn counters(&self) -> &std::sync::Arc<linerate_port::Counters> {
            self.0.counters()
        }
    }

    #[test]
    fn frames_that_came_due_while_it_did_not_run_are_made_up_for_and_reported() {
        let arena = ArenaOptions { size: 4 << 20, huge: false, ..Default::default() };
        let context = Context::new(arena.create().unwrap());
        let mut port = open(&"null:".parse().unwrap(), &context).unwrap();
        let away = Duration::from_millis(50);
        let transmit = Descheduled(port.queues[0].transmit.take().unwrap(), away);
        let (frames, schedule) = (frames("64"), schedule(1e5));
        let pool = context.arena.cache(64);
        let transmit = Box::new(transmit);
        let generator =
            Generator::new(frames, schedule, transmit, pool, 32, Idle::Poll, Some(20_000));
        let progress = generator.progress();
        generator.run(&Stop::new()).unwrap();
        let sent = progress.read();
        // The schedule asks for no frame twice: late frames are not given up.
        assert_eq!((sent.intended, sent.accepted, sent.unsent()), (20_000, 20_000, 0));
        assert!(sent.longest_catch_up >= 4_900, "{sent:?}");
        assert!(sent.caught_up >= sent.longest_catch_up, "{sent:?}");
    }

    #[test]
    fn late_frames_made_up_for_are_bounded() {
        let arena = ArenaOptions { size: 4 << 20, huge: false, ..Default::default() };
        let context = Context::new(arena.create().unwrap());
        let mut port = open(&"null:".parse().unwrap(), &context).unwrap();
        let transmit = port.queues[0].transmit.take().unwrap();
        let pool = context.arena.cache(64);
        let (frames, schedule) = (frames("64"), schedule(1e4));
        let mut generator = Generator::new(frames, schedule, transmit, pool, 32, Idle::Poll, None);
        // A minute late: the frames of the last second are made up for.
        generator.fill(0, 60_000_000_000);
        let made = generator.tx_queue.progress().offered;
        assert_eq!((made, generator.owed + made, generator.late), (32, 10_000, 10_000));
        assert!(generator.tx_queue.progress().intended >= 600_000);
        generator.tx_queue.give_up();
    }

    #[test]
    fn a_pause_owes_nothing() {
        steered(|control, progress| {
            control.change(Change { schedule: Some(schedule(1e5)), ..Change::default() });
            until(progress, 100);
            control.change(Change { sends: Some(false), ..Change::default() });
            // Frames on their way at the change come out, and then nothing.
            let mut before = progress();
            loop {
                thread::sleep(2 * NAP_MAX);
                if progress() == before {
                    break;
                }
                before = progress();
            }
            let (schedule, sends) = (Some(schedule(1e-6)), Some(true));
            control.change(Change { schedule, sends, frames: None });
            until(progress, before.accepted + 1);
            let [due, sent] = [progress().intended, progress().accepted];
            assert_eq!([due, sent], [before.intended + 1, before.accepted + 1]);
        });
    }
}
