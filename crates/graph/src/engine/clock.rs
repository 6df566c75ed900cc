//! The time elements live in: the machine's, or a simulated one.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Where simulated time begins, as in Click: 10^9 s after the epoch.
pub(crate) const SIMULATED_START: u64 = 1_000_000_000_000_000_000;

/// A clock; times are nanoseconds since the epoch.
#[derive(Debug, Clone)]
pub enum Clock {
    /// The machine's.
    Real {
        /// When it was made.
        start: Instant,
        /// What time it was then.
        epoch: u64,
    },
    /// One that stands still until it is advanced.
    Simulated {
        /// The time.
        now: u64,
    },
}

impl Clock {
    /// The machine's clock.
    pub fn real() -> Clock {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Clock::Real { start: Instant::now(), epoch: since.as_nanos() as u64 }
    }

    /// A simulated clock that begins at `now`.
    pub fn simulated(now: u64) -> Clock {
        Clock::Simulated { now }
    }

    /// The time of day, for stamps on packets.
    pub fn now(&self) -> u64 {
        match self {
            Clock::Real { .. } => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
                since.as_nanos() as u64
            }
            Clock::Simulated { now } => *now,
        }
    }

    /// A time that never goes back, for timers and rates.
    pub fn steady(&self) -> u64 {
        match self {
            Clock::Real { start, epoch } => epoch + start.elapsed().as_nanos() as u64,
            Clock::Simulated { now } => *now,
        }
    }

    /// The moment of a steady time, for sleeping until it.
    pub(crate) fn instant(&self, steady: u64) -> Option<Instant> {
        match self {
            Clock::Real { start, epoch } => {
                Some(*start + Duration::from_nanos(steady.saturating_sub(*epoch)))
            }
            Clock::Simulated { .. } => None,
        }
    }

    /// Whether it is simulated.
    pub fn is_simulated(&self) -> bool {
        matches!(self, Clock::Simulated { .. })
    }

    /// Lets simulated time pass until `time`.
    pub(crate) fn advance(&mut self, time: u64) {
        if let Clock::Simulated { now } = self {
            *now = time.max(*now);
        }
    }
}
