//! Tests of four bytes, and implications between them.

/// Four bytes at `offset`, as one number in network order, have `value` where
/// `mask` has ones.
///
/// The base of an offset is the matcher's affair ([`Headers`]).
///
/// [`Headers`]: super::Headers
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Test {
    pub(crate) offset: usize,
    pub(crate) mask: u32,
    pub(crate) value: u32,
    /// The answer for packets that end before the last byte of the mask.
    pub(crate) short: bool,
}

impl Test {
    /// The test that packets too short for it fail.
    pub(crate) fn new(offset: usize, mask: u32, value: u32) -> Test {
        Test { offset, mask, value: value & mask, short: false }
    }

    /// The test all packets pass.
    pub(crate) const ALWAYS: Test = Test { offset: 0, mask: 0, value: 0, short: false };

    /// Bytes from the offset on that are looked at.
    pub(crate) fn reach(&self) -> usize {
        4 - (self.mask.trailing_zeros() as usize / 8).min(4)
    }

    /// Returns the end of the bytes looked at.
    pub(crate) fn required(&self) -> usize {
        if self.mask == 0 { 0 } else { self.offset.saturating_add(self.reach()) }
    }

    /// The answer when the four bytes are `word` and `available` bytes of the
    /// packet are left from the offset on.
    #[inline]
    pub(crate) fn answer(&self, word: u32, available: usize) -> bool {
        if available < self.reach() { self.short } else { word & self.mask == self.value }
    }

    /// Returns true if only one bit is looked at, so that each answer determines it.
    fn is_of_one_bit(&self) -> bool {
        self.mask.is_power_of_two()
    }

    /// The bits both look at are the same.
    fn agrees(&self, other: &Test) -> bool {
        (self.value ^ other.value) & self.mask & other.mask == 0
    }

    /// Returns the answer to `then`, if it follows from this test's answer and a length of at least
    /// `known` bytes here.
    pub(super) fn tells(&self, answer: bool, then: &Test, known: usize) -> Option<bool> {
        if then.mask == 0 {
            return Some(true);
        }
        let told = if answer {
            let covered = self.mask & then.mask == then.mask;
            (self.offset == then.offset && covered).then(|| self.agrees(then))
        } else if self.offset != then.offset {
            None
        } else if self.is_of_one_bit() && self.mask == then.mask {
            Some(self.value != then.value)
        } else if self.mask & then.mask == self.mask && self.agrees(then) {
            Some(false)
        } else {
            None
        };
        told.filter(|then_answer| self.holds_for_short(answer, then, *then_answer, known))
    }

    /// Returns true if the conclusion holds for packets that are too short as well.
    fn holds_for_short(&self, answer: bool, then: &Test, then_answer: bool, known: usize) -> bool {
        self.short != answer
            || self.required() <= known
            || (self.required() <= then.required() && then_answer == then.short)
    }

    /// Returns true if packets that pass this test may pass `other`, and for packets too short, if
    /// `exact`, both answer alike.
    fn is_compatible(&self, other: &Test, exact: bool) -> bool {
        if self.mask == 0 || other.mask == 0 {
            return true;
        }
        let unlike = exact && self.short != other.short && self.required() < other.required();
        self.offset == other.offset && !unlike && self.agrees(other)
    }

    /// The test for "this or that", where it is one.
    pub(super) fn either(&self, other: &Test) -> Option<Test> {
        let bit = self.value ^ other.value;
        let merged = Test { mask: self.mask & !bit, value: self.value & !bit, ..*self };
        // At offset 0 Click leaves both.
        let fits = self.offset != 0
            && self.offset == other.offset
            && self.mask != 0
            && self.mask == other.mask
            && (self.short || !other.short)
            && bit & bit.wrapping_sub(1) == 0
            && merged.required() == self.required();
        fits.then_some(merged)
    }

    /// The test for "this and then that", where it is one.
    pub(super) fn both(&self, then: &Test) -> Option<Test> {
        let merged = Test {
            offset: if self.mask == 0 { then.offset } else { self.offset },
            mask: self.mask | then.mask,
            value: self.value | then.value,
            ..*self
        };
        then.is_compatible(self, true).then_some(merged)
    }

    /// Returns true if [`Test::negated`] may stand before `self`, and be merged.
    pub(super) fn may_follow(&self, before: &Test) -> bool {
        self.is_compatible(before, false)
    }

    /// The test that answers the other way round, where it is one.
    pub(super) fn negated(&self) -> Option<Test> {
        let negated = Test { value: self.value ^ self.mask, short: !self.short, ..*self };
        self.is_of_one_bit().then_some(negated)
    }
}
