//! Storms: packets hardly two of which are of one flow.
//!
//! An entry that nobody meets again costs its making and its forgetting, and a lookup that finds
//! nothing costs beside the decision it ends in. So while most entries that are forgotten for others
//! were of no use, one frame in [`KEPT`] is looked up and kept as ever, and shows when that changes. Of the
//! others decisions are not kept, and where hardly any packet of its port finds an entry, packets are not even
//! looked up, but in one frame of [`SAMPLED`]: they cost what deciding each costs. A port most of whose packets
//! find an entry has no part in the storm, and a new flow there is kept at once.

/// Entries that are forgotten one after the other before it is asked what they were good for.
const JUDGED: u32 = 1024;
/// Of a port's frames in a storm, every so many are looked up and kept, ...
const KEPT: u32 = 32;
/// ... and where hardly any packet finds an entry.
const SAMPLED: u32 = 256;
/// All packets found an entry.
const ALL: i32 = 1 << 16;
/// Where fewer do, looking for one is taken to cost more than it saves.
const FEW: i32 = ALL / 16;
/// Where as many do, all frames are kept.
const MOST: i32 = ALL / 8 * 7;
/// How many frames the part that finds an entry is measured over.
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

    /// An entry was forgotten for another. It was of use if others had it than the packet it was made for.
    pub(super) fn forgotten(&mut self, was_useful: bool) {
        self.useless += u32::from(!was_useful);
        self.judged += 1;
        if self.judged == JUDGED {
            *self = Storm { is_on: self.useless > JUDGED / 8 * 7, ..Storm::default() };
        }
    }
}

/// How packets of a port fare in it.
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

    /// Of so many packets some have found an entry.
    pub(super) fn note(&mut self, found: usize, packets: usize) {
        let part = (found * ALL as usize).checked_div(packets).unwrap_or(0) as i32;
        self.found += (part - self.found) / MEMORY;
    }

    /// Whether hardly any finds one.
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
