//! Cache bypass under single-packet flows.
//!
//! When most evicted entries were hit by their first packet only, inserting every decision costs
//! more than it saves. The cache then inserts from one frame in [`INSERT_ONE_IN`], to notice when
//! traffic changes. On ports whose hit rate is below [`MIN_HIT`] even the lookup is skipped, but in
//! one frame in [`LOOKUP_ONE_IN`]: these packets cost one decision each. Ports with a hit rate of
//! [`GOOD_HIT`] or above are exempt, so a new flow there is inserted at once.

/// Evicted entries per verdict on their use.
const WINDOW: u32 = 1024;
/// Under the bypass one frame of a port in so many is looked up and inserted, ...
const INSERT_ONE_IN: u32 = 32;
/// ... and where hardly any packet finds an entry.
const LOOKUP_ONE_IN: u32 = 256;
/// All packets found an entry.
const ALL: i32 = 1 << 16;
/// Hit rate below which lookups are taken to cost more than they save.
const MIN_HIT: i32 = ALL / 16;
/// Hit rate from which on decisions of all frames are inserted.
const GOOD_HIT: i32 = ALL / 8 * 7;
/// Frames over which the hit rate is averaged.
const EWMA_FRAMES: i32 = 8;

/// Whether entries are of use.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MissStormDetector {
    useless: u32,
    evicted: u32,
    is_on: bool,
}

impl MissStormDetector {
    #[inline(always)]
    pub(super) fn is_on(self) -> bool {
        self.is_on
    }

    /// An entry was forgotten for another. It was of use if others had it than the packet it was
    /// made for.
    pub(super) fn note_eviction(&mut self, was_useful: bool) {
        self.useless += u32::from(!was_useful);
        self.evicted += 1;
        if self.evicted == WINDOW {
            *self = MissStormDetector {
                is_on: self.useless > WINDOW / 8 * 7,
                ..MissStormDetector::default()
            };
        }
    }
}

/// Hit rate of a port.
#[derive(Debug, Clone, Copy)]
pub(super) struct PortHitRate {
    frames: u32,
    found: i32,
}

impl PortHitRate {
    pub(super) const GOOD: PortHitRate = PortHitRate { frames: 0, found: ALL };

    /// A frame has come: whether it is one of those that are kept.
    pub(super) fn is_sample(&mut self) -> bool {
        if self.found >= GOOD_HIT {
            return true;
        }
        self.frames += 1;
        let is_sample = self.frames >= if self.is_bad() { LOOKUP_ONE_IN } else { INSERT_ONE_IN };
        if is_sample {
            self.frames = 0;
        }
        is_sample
    }

    /// Updates the hit rate by a frame: `found` of its packets have found an entry.
    pub(super) fn note_frame(&mut self, found: usize, packets: usize) {
        let part = (found * ALL as usize).checked_div(packets).unwrap_or(0) as i32;
        self.found += (part - self.found) / EWMA_FRAMES;
    }

    /// Returns true if hardly any packet finds an entry.
    pub(super) fn is_bad(self) -> bool {
        self.found < MIN_HIT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_entries_must_have_been_useless() {
        let mut storm = MissStormDetector::default();
        (0..WINDOW).for_each(|at| storm.note_eviction(at % 8 == 0));
        assert!(!storm.is_on());
        (0..WINDOW).for_each(|at| storm.note_eviction(at % 16 == 0));
        assert!(storm.is_on());
        (0..WINDOW).for_each(|_| storm.note_eviction(true));
        assert!(!storm.is_on());
    }

    #[test]
    fn one_frame_that_is_found_ends_it_for_a_port() {
        let mut hit_rate = PortHitRate::GOOD;
        assert!((0..INSERT_ONE_IN).all(|_| hit_rate.is_sample()));
        (0..EWMA_FRAMES).for_each(|_| hit_rate.note_frame(128, 256));
        assert!(!hit_rate.is_bad());
        assert_eq!((0..10 * INSERT_ONE_IN).filter(|_| hit_rate.is_sample()).count(), 10);
        (0..4 * EWMA_FRAMES).for_each(|_| hit_rate.note_frame(0, 256));
        assert!(hit_rate.is_bad());
        assert_eq!((0..10 * LOOKUP_ONE_IN).filter(|_| hit_rate.is_sample()).count(), 10);
        hit_rate.note_frame(256, 256);
        assert!(!hit_rate.is_bad());
    }
}
