//! Arrival times of packets where they wait.
//!
//! Tasks that fill one queue together, each out of another queue, must not do so faster than
//! packets came to them: packets that came in many turns were often sent in one run, and would now
//! be there at once. So a task has not taken its turns before the packets came that it took. Turns
//! are told by the passes of the stride schedule.

use std::collections::VecDeque;

/// Packets that wait in one place, by arrival.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    /// Oldest first.
    batches: VecDeque<Batch>,
    /// Packets in them that have not gone.
    known: usize,
}

/// Packets that came in one run.
#[derive(Debug)]
struct Batch {
    packets: usize,
    /// Packets of it that have gone.
    gone: usize,
    /// The passes of the run's first turn and of its last.
    first: u64,
    last: u64,
}

impl Batch {
    /// When the last of those came that have gone, if they came evenly.
    fn reached(&self) -> u64 {
        let span = u128::from(self.last - self.first);
        let (at, of) = (self.gone.saturating_sub(1), self.packets.saturating_sub(1).max(1));
        self.first + (span * at as u128 / of as u128) as u64
    }
}

impl Arrivals {
    /// A run with these passes has ended, and so many packets wait now.
    pub(crate) fn came(&mut self, waiting: usize, first: u64, last: u64) {
        let packets = waiting.saturating_sub(self.known);
        if packets > 0 {
            self.known = waiting;
            self.batches.push_back(Batch { packets, gone: 0, first, last });
        }
    }

    /// Only so many wait still: when the last of the others came.
    pub(crate) fn went(&mut self, waiting: usize) -> Option<u64> {
        let mut gone = self.known.saturating_sub(waiting);
        self.known -= gone;
        let mut reached = None;
        while gone > 0 {
            let batch = self.batches.front_mut()?;
            let here = gone.min(batch.packets - batch.gone);
            batch.gone += here;
            gone -= here;
            reached = Some(batch.reached());
            if batch.gone == batch.packets {
                self.batches.pop_front();
            }
        }
        reached
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_a_run_came_evenly() {
        let mut arrivals = Arrivals::default();
        arrivals.came(5, 100, 140);
        arrivals.came(7, 200, 200);
        assert_eq!(arrivals.went(6), Some(100));
        assert_eq!(arrivals.went(4), Some(120));
        assert_eq!(arrivals.went(4), None);
        assert_eq!(arrivals.went(1), Some(200));
        arrivals.came(1, 300, 300);
        assert_eq!(arrivals.went(0), Some(200));
        assert_eq!(arrivals.went(0), None);
    }
}
