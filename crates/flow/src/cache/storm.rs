//! Cache bypass under single-packet flows.
//!
//! When most evicted entries were hit by their first packet only, inserting every decision costs
//! more than it saves. The cache then inserts from one frame in [`KEPT`], to notice when traffic
//! changes. On ports whose hit rate is below [`FEW`] even the lookup is skipped, but in one frame
//! in [`SAMPLED`]: these packets cost one decision each. Ports with a hit rate of [`MOST`] or above
//! are exempt, so a new flow there is inserted at once.

/// Evicted entries per verdict on their use.
const JUDGED: u32 = 1024;
/// Under the bypass one frame of a port in so many is looked up and inserted, ...
const KEPT: u32 = 32;
/// ... and where hardly any packet finds an entry.
const SAMPLED: u32 = 256;
/// All packets found an entry.
const ALL: i32 = 1 << 16;
/// Hit rate below which lookups are taken to cost more than they save.
const FEW: i32 = ALL / 16;
/// Hit rate from which on decisions of all frames are inserted.
const MOST: i32 = ALL / 8 * 7;
/// Frames over which the hit rate is averaged.
const MEMORY: i32 = 8;

/// Whether entries are of use.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Storm {
    useless: u32,
    judged: u32,
    is_on: bool,
}

impl Storm {
    #[inline(always)]
    pub(super) fn is_on(self) -> bool {
        self.is_on
    }

    /// An entry was forgotten for another. It was of use if others had it than the packet it was
    /// made for.
    pub(super) fn forgotten(&mut self, was_useful: bool) {
        self.useless += u32::from(!was_useful);
        self.judged += 1;
        if self.judged == JUDGED {
            *self = Storm { is_on: self.useless > JUDGED / 8 * 7, ..Storm::default() };
        }
    }
}

/// Hit rate of a port.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fare {
    frames: u32,
    found: i32,
}

impl Fare {
    pub(super) const GOOD: Fare = Fare { frames: 0, found: ALL };

    /// A frame has come: whether it is one of those that are kept.
    pub(super) fn is_sample(&mut self) -> bool {
        if self.found >= MOST {
            return true;
        }
        self.frames += 1;
        let is_sample = self.frames >= if self.is_bad() { SAMPLED } else { KEPT };
        if is_sample {
            self.frames = 0;
        }
        is_sample
    }

    /// Updates the hit rate by a frame: `found` of its packets have found an entry.
    pub(super) fn note(&mut self, found: usize, packets: usize) {
        let part = (found * ALL as usize).checked_div(packets).unwrap_or(0) as i32;
        self.found += (part - self.found) / MEMORY;
    }

    /// Returns true if hardly any packet finds an entry.
    pub(super) fn is_bad(self) -> bool {
        self.found < FEW
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_entries_must_have_been_useless() {
        let mut storm = Storm::default();
        (0..JUDGED).for_each(|at| storm.forgotten(at % 8 == 0));
        assert!(!storm.is_on());
        (0..JUDGED).for_each(|at| storm.forgotten(at % 16 == 0));
        assert!(storm.is_on());
        (0..JUDGED).for_each(|_| storm.forgotten(true));
        assert!(!storm.is_on());
    }

    #[test]
    fn one_frame_that_is_found_ends_it_for_a_port() {
        let mut fare = Fare::GOOD;
        assert!((0..KEPT).all(|_| fare.is_sample()));
        (0..MEMORY).for_each(|_| fare.note(128, 256));
        assert!(!fare.is_bad());
        assert_eq!((0..10 * KEPT).filter(|_| fare.is_sample()).count(), 10);
        (0..4 * MEMORY).for_each(|_| fare.note(0, 256));
        assert!(fare.is_bad());
        assert_eq!((0..10 * SAMPLED).filter(|_| fare.is_sample()).count(), 10);
        fare.note(256, 256);
        assert!(!fare.is_bad());
    }
}
