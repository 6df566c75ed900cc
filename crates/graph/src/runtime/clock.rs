//! Clock of elements: the machine's time, faster or slower where that is asked for, or a simulated
//! one.

use std::{
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Start of simulated time, as in Click: 10^9 s after the epoch.
pub(crate) const SIMULATED_START: u64 = 1_000_000_000_000_000_000;

/// End of time that is not the machine's, in the year 2262: nanoseconds that 63 bits hold, so that
/// any interval a configuration may have can be added to a time.
pub(crate) const END: u64 = i64::MAX as u64;

/// A clock; times are nanoseconds since the epoch.
#[derive(Debug, Clone)]
pub enum Clock {
    /// The machine's.
    Real {
        /// When it was made.
        start: Instant,
        /// The kernel's monotonic clock then.
        monotonic: u64,
        /// The time of day then.
        epoch: u64,
        /// Its scale, for all workers.
        warp: Arc<TimeScale>,
    },
    /// One that stands still until it is advanced.
    Simulated {
        /// The time.
        now: u64,
    },
}

/// Time that does not pass as the machine's does: Click's time warp.
#[derive(Debug, Default)]
pub struct TimeScale {
    /// Whether it ever was asked for: nearly never, and then no lock is taken.
    bent: AtomicBool,
    line: Mutex<Option<TimeBase>>,
}

/// Passage of time since it was last changed.
#[derive(Debug, Clone, Copy)]
struct TimeBase {
    since: Instant,
    /// The time of day then, and the steady time.
    day: u64,
    steady: u64,
    pace: TimeSpeed,
}

/// Speed of time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TimeSpeed {
    /// So many seconds in a second.
    Times(f64),
    /// As the machine's, but nothing waits: an awaited time comes at once.
    NoWait,
}

impl TimeBase {
    fn passed(&self) -> u64 {
        let passed = self.since.elapsed().as_nanos();
        match self.pace {
            TimeSpeed::Times(speed) => (passed as f64 * speed) as u64,
            TimeSpeed::NoWait => passed as u64,
        }
    }
}

impl TimeScale {
    fn lock(&self) -> MutexGuard<'_, Option<TimeBase>> {
        self.line.lock().expect("no panic while held")
    }

    #[inline]
    fn line(&self) -> Option<TimeBase> {
        if self.bent.load(Ordering::Acquire) { *self.lock() } else { None }
    }
}

/// Reads a clock of the kernel, in nanoseconds. By `SystemTime` and `Instant`, whose subtractions
/// are calls into the standard library, it takes three times as many instructions.
#[inline]
fn read(clock: ClockId) -> u64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(clock);
    tv_sec.max(0) as u64 * 1_000_000_000 + tv_nsec as u64
}

impl Clock {
    /// The machine's clock.
    pub fn real() -> Clock {
        Clock::Real {
            start: Instant::now(),
            monotonic: read(ClockId::Monotonic),
            epoch: read(ClockId::Realtime),
            warp: Arc::default(),
        }
    }

    /// The speed of time; `None` when it is simulated.
    pub fn pace(&self) -> Option<TimeSpeed> {
        match self {
            Clock::Real { warp, .. } => {
                Some(warp.line().map_or(TimeSpeed::Times(1.0), |line| line.pace))
            }
            Clock::Simulated { .. } => None,
        }
    }

    /// From now on time passes at another pace, on all workers. Simulated time does not.
    pub fn set_pace(&self, pace: TimeSpeed) {
        let (day, steady) = (self.now(), self.steady());
        if let Clock::Real { warp, .. } = self {
            *warp.lock() = Some(TimeBase { since: Instant::now(), day, steady, pace });
            warp.bent.store(true, Ordering::Release);
        }
    }

    /// A simulated clock that begins at `now`, in the year 2262 at the latest.
    pub fn simulated(now: u64) -> Clock {
        Clock::Simulated { now: now.min(END) }
    }

    /// The time of day, for stamps on packets.
    pub fn now(&self) -> u64 {
        match self {
            Clock::Real { warp, .. } => match warp.line() {
                None => read(ClockId::Realtime),
                Some(line) => line.day.saturating_add(line.passed()).min(END),
            },
            Clock::Simulated { now } => *now,
        }
    }

    /// A time that never goes back, for timers and rates.
    pub fn steady(&self) -> u64 {
        match self {
            Clock::Real { monotonic, epoch, warp, .. } => match warp.line() {
                None => epoch + (read(ClockId::Monotonic) - monotonic),
                Some(line) => line.steady.saturating_add(line.passed()).min(END),
            },
            Clock::Simulated { now } => *now,
        }
    }

    /// The moment of a steady time, for sleeping until it.
    pub(crate) fn instant(&self, steady: u64) -> Option<Instant> {
        match self {
            Clock::Real { start, epoch, warp, .. } => {
                let (since, steady_then, speed) = match warp.line() {
                    None => (*start, *epoch, 1.0),
                    Some(TimeBase { since, steady, pace: TimeSpeed::NoWait, .. }) => {
                        (since, steady, 1.0)
                    }
                    Some(TimeBase { since, steady, pace: TimeSpeed::Times(speed), .. }) => {
                        (since, steady, speed)
                    }
                };
                let left = steady.saturating_sub(steady_then);
                let left = if speed == 1.0 { left } else { (left as f64 / speed) as u64 };
                since.checked_add(Duration::from_nanos(left))
            }
            Clock::Simulated { .. } => None,
        }
    }

    /// Returns true if it is simulated.
    pub fn is_simulated(&self) -> bool {
        matches!(self, Clock::Simulated { .. })
    }

    /// Returns true if no time is waited for: it has come.
    pub(crate) fn skips(&self) -> bool {
        self.pace().is_none_or(|pace| pace == TimeSpeed::NoWait)
    }

    /// Lets time that is not waited for pass until `time`, or to its end.
    pub(crate) fn advance(&mut self, time: u64) {
        let time = time.min(END);
        let skipped = time.saturating_sub(self.steady());
        match self {
            Clock::Simulated { now } => *now = time.max(*now),
            Clock::Real { warp, .. } => {
                if let Some(line) =
                    warp.lock().as_mut().filter(|line| line.pace == TimeSpeed::NoWait)
                {
                    line.day += skipped;
                    line.steady += skipped;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_passes_as_fast_as_it_is_told() {
        let mut clock = Clock::real();
        let before = clock.steady();
        clock.set_pace(TimeSpeed::Times(1e6));
        std::thread::sleep(Duration::from_millis(1));
        let after = clock.steady();
        assert!(after - before >= 1_000_000_000_000, "{}", after - before);
        // The rest of an hour is a few milliseconds.
        let wait = clock.instant(after + 3_600_000_000_000).unwrap();
        assert!(wait.saturating_duration_since(Instant::now()) <= Duration::from_millis(4));
        clock.set_pace(TimeSpeed::NoWait);
        assert!(clock.skips() && clock.steady() >= after);
        let later = clock.steady() + 3_600_000_000_000;
        clock.advance(later);
        assert!(clock.steady() >= later);
    }

    #[test]
    fn time_has_an_end() {
        let mut clock = Clock::simulated(u64::MAX);
        assert_eq!(clock.steady(), END);
        clock.advance(u64::MAX);
        assert_eq!(clock.steady(), END);
        let mut clock = Clock::real();
        clock.set_pace(TimeSpeed::Times(f64::MAX));
        assert!(clock.now() <= END && clock.steady() <= END);
        clock.set_pace(TimeSpeed::NoWait);
        clock.advance(u64::MAX);
        assert!(clock.now() <= END && clock.steady() <= END);
    }
}
