//! A worker that looks at its ports only so often.

use linerate_memory::clock::{cycles, cycles_per_second};

/// Waits between polls.
#[derive(Debug)]
pub struct PollLimit {
    gap: u64,
    next: u64,
    waited: u64,
}

impl PollLimit {
    /// At most so many polls per second; without limit when 0.
    pub fn new(polls_per_s: u32) -> PollLimit {
        let gap = match polls_per_s {
            0 => 0,
            rate => (cycles_per_second() / f64::from(rate)) as u64,
        };
        PollLimit { gap, next: cycles(), waited: 0 }
    }

    /// Waits until the next poll is due. One that came late does not bring the
    /// ones behind it forward.
    #[inline]
    pub fn wait(&mut self) {
        if self.gap == 0 {
            return;
        }
        let began = cycles();
        let mut now = began;
        while now < self.next {
            std::hint::spin_loop();
            now = cycles();
        }
        self.waited += now - began;
        self.next = now.max(self.next) + self.gap;
    }

    /// Cycles spent waiting so far.
    pub fn waited(&self) -> u64 {
        self.waited
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polls_are_not_closer_than_asked() {
        let mut limit = PollLimit::new(10_000);
        limit.wait();
        let before = cycles();
        (0..20).for_each(|_| limit.wait());
        let seconds = (cycles() - before) as f64 / cycles_per_second();
        assert!(seconds > 19.0 / 10_000.0, "{seconds}");
        assert!(limit.waited() > 0);
    }

    #[test]
    fn no_limit_does_not_wait() {
        let mut limit = PollLimit::new(0);
        let before = limit.next;
        limit.wait();
        assert_eq!(limit.next, before);
    }
}
