//! Slots as they are on rings between processes.

/// In a ring to a member: there are other holders, and none writes. In a ring to the server: the
/// member keeps on holding the buffer, and none writes.
pub(super) const KEPT: u64 = 1 << 31;
/// Only the buffer changes hands, there is no packet in it.
const EMPTY: u64 = 1 << 30;
/// In a ring to the server: the decision on the packet holds for the packet's flow.
const FLOW: u64 = 1 << 29;
/// All of these.
#[cfg_attr(any(loom, miri), allow(dead_code, reason = "of those who look at many words"))]
const FLAGS: u64 = KEPT | EMPTY | FLOW;
/// The bits in front of them: the index of the buffer.
const INDEX: u64 = FLOW - 1;

/// One packet or buffer, named the same in every process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Word {
    /// Index of the arena's buffer, from 0.
    pub index: u32,
    /// Bytes in front of the packet.
    pub offset: u16,
    /// Bytes of the packet.
    pub length: u16,
    /// Whether the buffer has another holder too, see [the format](super).
    pub kept: bool,
    /// Whether there is no packet in the buffer.
    pub empty: bool,
    /// Whether the decision of a member by it, to send the packet or not to, holds for all of the
    /// packet's flow. Without meaning for members that are asked for no decision.
    pub flow: bool,
}

impl Word {
    /// As it is on a ring.
    #[inline]
    pub fn pack(self) -> u64 {
        u64::from(self.index)
            | if self.kept { KEPT } else { 0 }
            | if self.empty { EMPTY } else { 0 }
            | if self.flow { FLOW } else { 0 }
            | u64::from(self.offset) << 32
            | u64::from(self.length) << 48
    }

    /// The buffer of a word that has none of the other flags than [empty](Word::empty) and `with`,
    /// which it has, and whose packet is inside of the stride; and whether it is empty. For loops
    /// over many words, nearly all of them such, that check the index by themselves.
    #[cfg_attr(any(loom, miri), allow(dead_code, reason = "as above"))]
    #[inline(always)]
    pub(super) fn plain(word: u64, with: u64, stride: u32) -> Option<(usize, bool)> {
        let inside = (word >> 32 & 0xffff) + (word >> 48) <= u64::from(stride);
        let is_plain = word & (FLAGS & !EMPTY) == with && inside;
        is_plain.then_some(((word & INDEX) as usize, word & EMPTY != 0))
    }

    /// Parses a word that the other side wrote on a ring; `None` when there is no such buffer, the
    /// packet is not inside of it, or the flags contradict each other.
    #[inline]
    pub fn unpack(word: u64, count: u32, stride: u32) -> Option<Word> {
        let (kept, empty) = (word & KEPT != 0, word & EMPTY != 0);
        let flow = word & FLOW != 0;
        let index = (word & INDEX) as u32;
        let (offset, length) = ((word >> 32) as u16, (word >> 48) as u16);
        let inside = u32::from(offset) + u32::from(length) <= stride;
        (index < count && inside && !(kept && empty)).then_some(Word {
            index,
            offset,
            length,
            kept,
            empty,
            flow,
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn whatever_is_unpacked_is_inside_and_packs_to_the_same(
            word in any::<u64>(), count in 1..1u32 << 28, stride in 64..65472u32,
        ) {
            if let Some(read) = Word::unpack(word, count, stride) {
                prop_assert!(read.index < count);
                prop_assert!(u32::from(read.offset) + u32::from(read.length) <= stride);
                prop_assert_eq!(read.pack(), word);
                let plain = Some((read.index as usize, read.empty));
                prop_assert_eq!(Word::plain(word, word & (KEPT | FLOW), stride), plain);
                prop_assert_eq!(Word::plain(word, !word & (KEPT | FLOW), stride), None);
            }
        }
    }
}
