//! Annotations of one byte by the numbers Click gives their bytes.
//!
//! Elements that take an `ANNO` argument may use any byte of Click's 48. Those
//! that share bytes in Click share them here:
//!
//! | Click's bytes | what is there | [`Meta`] |
//! |---|---|---|
//! | 0-15 | destination address | `destination` |
//! | 16 | paint | `paint` |
//! | 20-23 | aggregate | `user[0..4]` |
//! | 24-27 | packets it stands for | `user[4..8]` |
//! | 28-31 | extra length | `user[8..12]` |
//! | 32-39 | first timestamp; packet number | `user[16..24]` |
//!
//! There is no room for the others. `user[14..16]` says where the Ethernet
//! header is where `MarkMACHeader` has said so, which in Click is no annotation but a
//! pointer of the packet. See also [`annotations`](crate::annotations).

use linerate_graph::{Annotation, Make};
use linerate_memory::Meta;

/// Click's byte of the paint annotation.
const PAINT: u8 = 16;

/// An annotation of one byte, by Click's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Byte(u8);

impl Byte {
    /// The argument `ANNO`, which is the paint when it is not given.
    pub(crate) fn from_args(make: &mut Make<'_>) -> Byte {
        let Annotation::<1> { offset } = make.or("ANNO", Annotation { offset: PAINT });
        if matches!(offset, 0..17 | 20..40) {
            return Byte(offset);
        }
        make.error(format!("ANNO: no room for byte {offset}"));
        Byte(PAINT)
    }

    #[inline]
    pub(crate) fn get(self, meta: &Meta) -> u8 {
        let at = usize::from(self.0);
        match self.0 {
            PAINT => meta.paint,
            20..32 => meta.user[at - 20],
            32..40 => meta.user[at - 16],
            _ => meta.destination[at & 15],
        }
    }

    #[inline]
    pub(crate) fn set(self, meta: &mut Meta, value: u8) {
        let at = usize::from(self.0);
        match self.0 {
            PAINT => meta.paint = value,
            20..32 => meta.user[at - 20] = value,
            32..40 => meta.user[at - 16] = value,
            _ => meta.destination[at & 15] = value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::annotations;

    #[test]
    fn every_byte_is_in_a_place_of_its_own() {
        let bytes: Vec<Byte> = (0..17).chain(20..40).map(Byte).collect();
        let mut meta = Meta::EMPTY;
        for byte in &bytes {
            byte.set(&mut meta, byte.0 + 1);
        }
        for byte in &bytes {
            assert_eq!(byte.get(&meta), byte.0 + 1);
        }
        assert_eq!(meta.paint, 17);
        assert_eq!(annotations::aggregate(&meta), u32::from_ne_bytes([21, 22, 23, 24]));
        assert_eq!(annotations::extra_length(&meta), u32::from_ne_bytes([29, 30, 31, 32]));
        let first = u64::from_ne_bytes([33, 34, 35, 36, 37, 38, 39, 40]);
        assert_eq!(annotations::first_time(&meta), first);
    }
}
