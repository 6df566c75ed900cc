//! The classes of the values of one half of a word.

use super::{
    halves::Half,
    words::{LANES, Words},
};

/// One half, and the class of each of its values. Not in pages of which equal ones are kept once:
/// of rules with addresses all over few are equal, and the second load costs more than the room.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) half: Half,
    /// Place of the words.
    row: usize,
    /// By the value as this machine reads it, like the words.
    classes: Box<[u16; 1 << 16]>,
}

impl Column {
    pub(super) fn new(half: Half, of_values: &[u16]) -> Option<Column> {
        let mut classes: Box<[u16; 1 << 16]> =
            of_values.to_vec().into_boxed_slice().try_into().ok()?;
        for (value, class) in (0..=u16::MAX).zip(of_values) {
            classes[usize::from(value.to_be())] = *class;
        }
        Some(Column { half, row: 0, classes })
    }

    /// Sets the place of the words.
    pub(super) fn look_in(&mut self, words: &Words) {
        self.row = words.row(self.half.offset);
    }

    /// The class of each packet's half.
    #[inline(always)]
    pub(super) fn find(&self, rows: &[[u32; LANES]], mut each: impl FnMut(usize, usize)) {
        let mut halves = [0; LANES];
        self.half.take(&rows[self.row], &mut halves);
        for (lane, half) in halves.into_iter().enumerate() {
            each(lane, usize::from(self.classes[usize::from(half)]));
        }
    }
}
