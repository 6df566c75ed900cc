//! Clock of elements: the machine's time, perhaps scaled, or a simulated time.

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

/// End of scaled and simulated time, in the year 2262: 63 bits of nanoseconds, so that adding an
/// interval to a time does not overflow.
pub(crate) const END: u64 = i64::MAX as u64;

/// A clock; times are nanoseconds since the epoch.
#[derive(Debug, Clone)]
pub enum Clock {
    /// The machine's clock.
    Real {
        /// The start of the clock.
        start: Instant,
        /// The kernel's monotonic clock at the start.
        monotonic: u64,
        /// The time of day at the start.
        epoch: u64,
        /// Scale of the time, shared by all workers.
        warp: Arc<TimeScale>,
    },
    /// A clock that stands still until it is advanced.
    Simulated {
        /// The time.
        now: u64,
    },
}

/// Scale of time against the machine's clock: Click's time warp.
#[derive(Debug, Default)]
pub struct TimeScale {
    /// Whether a scale was ever set. Usually none is, and reading the clock takes no lock.
    is_set: AtomicBool,
    base: Mutex<Option<TimeBase>>,
}

/// Times at the last change of the scale, and the speed since then.
#[derive(Debug, Clone, Copy)]
struct TimeBase {
    since: Instant,
    /// The time of day at `since`.
    day: u64,
    /// The steady time at `since`.
    steady: u64,
    speed: TimeSpeed,
}

/// Speed of time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TimeSpeed {
    /// Seconds per second of the machine.
    Times(f64),
    /// As the machine's, but timers do not wait: time jumps to the next one.
    NoWait,
}

impl TimeBase {
    fn passed(&self) -> u64 {
        let passed = self.since.elapsed().as_nanos();
        match self.speed {
            TimeSpeed::Times(speed) => (passed as f64 * speed) as u64,
            TimeSpeed::NoWait => passed as u64,
        }
    }
}

impl TimeScale {
    fn lock(&self) -> MutexGuard<'_, Option<TimeBase>> {
        self.base.lock().expect("no panic while held")
    }

    #[inline]
    fn base(&self) -> Option<TimeBase> {
        if self.is_set.load(Ordering::Acquire) { *self.lock() } else { None }
    }
}

/// Reads a clock of the kernel, in nanoseconds. `SystemTime` and `Instant` take three times as many
/// instructions, since their subtractions are calls into the standard library.
#[inline]
fn read(clock: ClockId) -> u64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(clock);
    tv_sec.max(0) as u64 * 1_000_000_000 + tv_nsec as u64
}

impl Clock {
    /// Returns the machine's clock.
    pub fn real() -> Clock {
        Clock::Real {
            start: Instant::now(),
            monotonic: read(ClockId::Monotonic),
            epoch: read(ClockId::Realtime),
            warp: Arc::default(),
        }
    }

    /// Returns the speed of time; `None` if it is simulated.
    pub fn speed(&self) -> Option<TimeSpeed> {
        match self {
            Clock::Real { warp, .. } => {
                Some(warp.base().map_or(TimeSpeed::Times(1.0), |base| base.speed))
            }
            Clock::Simulated { .. } => None,
        }
    }

    /// Sets the speed of time on all workers. Without effect on simulated time.
    pub fn set_speed(&self, speed: TimeSpeed) {
        let (day, steady) = (self.now(), self.steady());
        if let Clock::Real { warp, .. } = self {
            *warp.lock() = Some(TimeBase { since: Instant::now(), day, steady, speed });
            warp.is_set.store(true, Ordering::Release);
        }
    }

    /// Returns a simulated clock that begins at `now`, in the year 2262 at the latest.
    pub fn simulated(now: u64) -> Clock {
        Clock::Simulated { now: now.min(END) }
    }

    /// Returns the time of day, for stamps on packets.
    pub fn now(&self) -> u64 {
        match self {
            Clock::Real { warp, .. } => match warp.base() {
                None => read(ClockId::Realtime),
                Some(base) => base.day.saturating_add(base.passed()).min(END),
            },
            Clock::Simulated { now } => *now,
        }
    }

    /// Returns a time that never goes back, for timers and rates.
    pub fn steady(&self) -> u64 {
        match self {
            Clock::Real { monotonic, epoch, warp, .. } => match warp.base() {
                None => epoch + (read(ClockId::Monotonic) - monotonic),
                Some(base) => base.steady.saturating_add(base.passed()).min(END),
            },
            Clock::Simulated { now } => *now,
        }
    }

    /// Returns the moment of a steady time on the machine's clock, to sleep until; `None` if time is
    /// simulated.
    pub(crate) fn instant(&self, steady: u64) -> Option<Instant> {
        match self {
            Clock::Real { start, epoch, warp, .. } => {
                let (since, steady_then, speed) = match warp.base() {
                    None => (*start, *epoch, 1.0),
                    Some(TimeBase { since, steady, speed: TimeSpeed::NoWait, .. }) => {
                        (since, steady, 1.0)
                    }
                    Some(TimeBase { since, steady, speed: TimeSpeed::Times(speed), .. }) => {
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

    /// Returns true if time is simulated.
    pub fn is_simulated(&self) -> bool {
        matches!(self, Clock::Simulated { .. })
    }

    /// Returns true if timers do not wait: time jumps to the next one by [`Clock::advance`].
    pub(crate) fn skips(&self) -> bool {
        self.speed().is_none_or(|speed| speed == TimeSpeed::NoWait)
    }

    /// Moves a clock whose timers do not wait forward to `time`, at most to the end of time.
    pub(crate) fn advance(&mut self, time: u64) {
        let time = time.min(END);
        let skipped = time.saturating_sub(self.steady());
        match self {
            Clock::Simulated { now } => *now = time.max(*now),
            Clock::Real { warp, .. } => {
                if let Some(base) =
                    warp.lock().as_mut().filter(|base| base.speed == TimeSpeed::NoWait)
                {
                    base.day += skipped;
                    base.steady += skipped;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_passes_at_the_speed_that_is_set() {
        let mut clock = Clock::real();
        let before = clock.steady();
        clock.set_speed(TimeSpeed::Times(1e6));
        std::thread::sleep(Duration::from_millis(1));
        let after = clock.steady();
        assert!(after - before >= 1_000_000_000_000, "{}", after - before);
        // The rest of an hour is a few milliseconds.
        let wait = clock.instant(after + 3_600_000_000_000).unwrap();
        assert!(wait.saturating_duration_since(Instant::now()) <= Duration::from_millis(4));
        clock.set_speed(TimeSpeed::NoWait);
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
        clock.set_speed(TimeSpeed::Times(f64::MAX));
        assert!(clock.now() <= END && clock.steady() <= END);
        clock.set_speed(TimeSpeed::NoWait);
        clock.advance(u64::MAX);
        assert!(clock.now() <= END && clock.steady() <= END);
    }
}
