//! Idle strategy of a worker whose ports are empty.

use std::{
    fmt,
    str::FromStr,
    time::{Duration, Instant},
};

use linerate_port::{Wake, wait_any};

/// The idle strategy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Idle {
    /// Poll again at once: least latency, a whole core always.
    Poll,
    /// Poll for a moment, then sleep until a port wakes us.
    #[default]
    Adaptive,
    /// Sleep at once: least CPU time.
    Block,
}

impl Idle {
    /// All strategies.
    pub const ALL: [Idle; 3] = [Idle::Poll, Idle::Adaptive, Idle::Block];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Idle::Poll => "poll",
            Idle::Adaptive => "adaptive",
            Idle::Block => "block",
        }
    }
}

impl fmt::Display for Idle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Idle {
    type Err = String;

    fn from_str(text: &str) -> Result<Idle, String> {
        Idle::ALL
            .into_iter()
            .find(|idle| idle.name() == text)
            .ok_or_else(|| format!("idle strategy {text:?}: choose poll, adaptive or block"))
    }
}

/// Time for which `adaptive` goes on polling: about twice the time a sleeping thread takes to be
/// woken, so that sleeping never costs more than it saves.
const SPIN: Duration = Duration::from_micros(100);
/// Longest sleep: a worker checks its stop flag this often.
const NAP: Duration = Duration::from_millis(50);
/// Empty rounds between readings of the clock.
const CLOCK: u32 = 32;

/// Carries out an [`Idle`] strategy.
#[derive(Debug)]
pub struct Sleeper {
    idle: Idle,
    empty: u32,
    since: Option<Instant>,
}

impl Sleeper {
    /// For one worker.
    pub fn new(idle: Idle) -> Sleeper {
        Sleeper { idle, empty: 0, since: None }
    }

    /// There was something to do.
    #[inline]
    pub fn busy(&mut self) {
        self.empty = 0;
        self.since = None;
    }

    /// There was nothing to do. `true` when it is time to sleep.
    #[inline]
    pub fn should_sleep(&mut self) -> bool {
        std::hint::spin_loop();
        match self.idle {
            Idle::Poll => false,
            Idle::Block => true,
            Idle::Adaptive => {
                self.empty += 1;
                self.empty.is_multiple_of(CLOCK)
                    && self.since.get_or_insert_with(Instant::now).elapsed() >= SPIN
            }
        }
    }

    /// Sleeps until one of `wakes`, for a moment at most. Returns whether one
    /// came.
    pub fn sleep(&mut self, wakes: &[Wake<'_>]) -> bool {
        // Polling can only fail for want of kernel memory; a short nap then is
        // the way on.
        wait_any(wakes, NAP).unwrap_or_else(|_| {
            std::thread::sleep(Duration::from_millis(1));
            false
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_back() {
        for idle in Idle::ALL {
            assert_eq!(idle.name().parse(), Ok(idle));
        }
        assert!("sleep".parse::<Idle>().unwrap_err().contains("adaptive"));
    }

    #[test]
    fn poll_never_sleeps_and_block_always_does() {
        assert!((0..10_000).all(|_| !Sleeper::new(Idle::Poll).should_sleep()));
        assert!(Sleeper::new(Idle::Block).should_sleep());
    }

    #[test]
    fn adaptive_sleeps_after_a_while_and_starts_over_when_busy() {
        let mut sleeper = Sleeper::new(Idle::Adaptive);
        assert!(!sleeper.should_sleep());
        let start = Instant::now();
        while !sleeper.should_sleep() {
            assert!(start.elapsed() < Duration::from_secs(20), "never sleeps");
        }
        sleeper.busy();
        assert!(!sleeper.should_sleep());
    }
}
