//! Timers of elements.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
};

/// The timers of one worker.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    /// Time, order of setting, element and timer.
    heap: BinaryHeap<Reverse<(u64, u64, u32, u32)>>,
    /// The setting that holds of each timer that is set.
    set: HashMap<(u32, u32), (u64, u64)>,
    settings: u64,
    /// When timers were last due, and how far time was moved on then.
    fired: (u64, u64),
    /// Number of steps in a row since time last moved by itself.
    standing: u32,
}

impl Timers {
    /// Returns the step by which simulated time moves on because timers that were due at `now` are
    /// due again: a nanosecond, and more the longer it stands, since a timer without an interval
    /// would take for ever to get anywhere. The task that sets a timer again may run later, so time
    /// that stands for many rounds moves as well.
    pub(crate) fn step(&mut self, now: u64) -> u64 {
        /// Rounds until the step doubles.
        const PATIENCE: u32 = 64;
        /// A millisecond at most.
        const LARGEST: u32 = 20;
        let (fired, step) = self.fired;
        self.standing = if now > fired + step { 0 } else { self.standing.saturating_add(1) };
        let again = self.next().is_some_and(|at| at <= now);
        let stands = again || self.standing >= PATIENCE;
        let step = if stands { 1 << (self.standing / PATIENCE).min(LARGEST) } else { 0 };
        self.fired = (now, step);
        step
    }

    /// Sets an element's timer, instead of its setting before.
    pub(crate) fn set(&mut self, element: u32, timer: u32, at: u64) {
        self.settings += 1;
        self.set.insert((element, timer), (at, self.settings));
        self.heap.push(Reverse((at, self.settings, element, timer)));
    }

    pub(crate) fn clear(&mut self, element: u32, timer: u32) {
        self.set.remove(&(element, timer));
    }

    /// When a timer is set to.
    pub(crate) fn when(&self, element: u32, timer: u32) -> Option<u64> {
        self.set.get(&(element, timer)).map(|(at, _)| *at)
    }

    /// No timer is due before this: the earliest setting, which may no longer
    /// hold.
    #[inline]
    pub(crate) fn not_before(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    /// When the next one is due.
    pub(crate) fn next(&mut self) -> Option<u64> {
        loop {
            let Reverse((at, setting, element, timer)) = *self.heap.peek()?;
            if self.set.get(&(element, timer)) == Some(&(at, setting)) {
                return Some(at);
            }
            self.heap.pop();
        }
    }

    /// Times a timer has been set so far.
    pub(crate) fn settings(&self) -> u64 {
        self.settings
    }

    /// Takes the next timer due at `now`, unless it is not among the first `set_until` settings:
    /// its element and timer.
    pub(crate) fn due(&mut self, now: u64, set_until: u64) -> Option<(u32, u32)> {
        if self.next()? > now {
            return None;
        }
        let Reverse((_, setting, ..)) = self.heap.peek()?;
        if *setting > set_until {
            return None;
        }
        let Reverse((_, _, element, timer)) = self.heap.pop()?;
        self.set.remove(&(element, timer));
        Some((element, timer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_that_stands_moves_faster_and_faster() {
        let mut timers = Timers::default();
        let (mut now, mut rounds) = (1000, 0);
        while now < 50_000_000 {
            timers.set(0, 0, now);
            assert!(timers.due(now, timers.settings()).is_some());
            now += timers.step(now);
            rounds += 1;
            assert!(rounds < 5000, "stands at {now}");
        }
        // Timers with an interval move it by themselves.
        for _ in 0..1000 {
            now += 5_000_000;
            timers.set(0, 0, now);
            timers.due(now, timers.settings());
            assert_eq!(timers.step(now), 0);
        }
    }

    #[test]
    fn in_order_of_time_and_then_of_setting() {
        let mut timers = Timers::default();
        timers.set(1, 0, 30);
        timers.set(2, 0, 10);
        timers.set(3, 0, 10);
        timers.set(4, 0, 20);
        timers.clear(4, 0);
        timers.set(1, 0, 15);
        assert_eq!(timers.next(), Some(10));
        let fired: Vec<_> =
            std::iter::from_fn(|| timers.due(29, u64::MAX)).map(|(of, _)| of).collect();
        assert_eq!(fired, [2, 3, 1]);
        assert_eq!(timers.next(), None);
    }

    #[test]
    fn one_that_is_set_again_at_once_waits_for_the_next_round() {
        let mut timers = Timers::default();
        timers.set(1, 0, 10);
        let until = timers.settings();
        assert_eq!(timers.due(10, until), Some((1, 0)));
        timers.set(1, 0, 10);
        assert_eq!(timers.due(10, until), None);
        assert_eq!(timers.due(10, timers.settings()), Some((1, 0)));
    }
}
