//! Loss, duplication and reordering from sequence numbers.
//!
//! A window of bits behind the highest number seen remembers which arrived
//! (as in the replay window of RFC 4303, 3.4.3). A frame is *late* when a
//! higher number arrived before it (RFC 4737, 3.3), a *duplicate* when its
//! number has been seen, *lost* when it never came.

/// Numbers behind the highest that are remembered.
const WINDOW: u64 = 1 << 16;
const WORDS: usize = (WINDOW / 64) as usize;

/// Loss, duplication and reordering of one stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SequenceCounts {
    /// Frames that arrived for the first time.
    pub received: u64,
    /// Numbers up to the highest seen that have not arrived.
    pub lost: u64,
    /// Frames that had arrived before.
    pub duplicates: u64,
    /// Frames that arrived after a higher number.
    pub reordered: u64,
    /// Frames so far behind that it cannot be told whether they are
    /// duplicates; counted neither as received nor as duplicates.
    pub stale: u64,
    /// Largest distance a late frame was behind, in numbers.
    pub reorder_extent: u64,
}

/// Follows one stream.
#[derive(Debug, Clone)]
pub struct Sequence {
    /// First number seen.
    first: Option<u64>,
    /// One more than the highest number seen.
    next: u64,
    /// Bit `n % WINDOW` tells whether number `n` has arrived.
    seen: Box<[u64; WORDS]>,
    counts: SequenceCounts,
}

impl Default for Sequence {
    fn default() -> Sequence {
        Sequence {
            first: None,
            next: 0,
            seen: vec![0; WORDS].try_into().expect("as many as made"),
            counts: SequenceCounts::default(),
        }
    }
}

impl Sequence {
    /// Takes note of an arrival; returns whether numbers are missing right
    /// before it.
    #[inline]
    pub fn arrived(&mut self, number: u64) -> bool {
        if number == self.next && self.first.is_some() {
            // In order: the case to be fast in.
            self.set(number);
            self.next += 1;
            self.counts.received += 1;
            return false;
        }
        self.out_of_order(number)
    }

    #[cold]
    fn out_of_order(&mut self, number: u64) -> bool {
        let Some(first) = self.first else {
            self.first = Some(number);
            self.next = number + 1;
            self.set(number);
            self.counts.received = 1;
            return false;
        };
        if number >= self.next {
            let gap = number - self.next;
            if gap >= WINDOW {
                self.seen.fill(0);
            } else {
                (self.next..=number).for_each(|skipped| self.clear(skipped));
            }
            self.set(number);
            self.next = number + 1;
            self.counts.received += 1;
            return gap > 0;
        }
        let behind = self.next - 1 - number;
        if behind >= WINDOW {
            self.counts.stale += 1;
            return false;
        }
        if self.is_set(number) {
            self.counts.duplicates += 1;
            return false;
        }
        self.set(number);
        // The stream began before the first frame we saw.
        self.first = Some(first.min(number));
        self.counts.received += 1;
        self.counts.reordered += 1;
        self.counts.reorder_extent = self.counts.reorder_extent.max(behind);
        false
    }

    /// The counts so far.
    pub fn counts(&self) -> SequenceCounts {
        let expected = self.first.map_or(0, |first| self.next - first);
        SequenceCounts { lost: expected - self.counts.received, ..self.counts }
    }

    #[inline]
    fn set(&mut self, number: u64) {
        self.seen[(number % WINDOW / 64) as usize] |= 1 << (number % 64);
    }

    #[inline]
    fn clear(&mut self, number: u64) {
        self.seen[(number % WINDOW / 64) as usize] &= !(1 << (number % 64));
    }

    fn is_set(&self, number: u64) -> bool {
        self.seen[(number % WINDOW / 64) as usize] & (1 << (number % 64)) != 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn counts(numbers: &[u64]) -> SequenceCounts {
        let mut sequence = Sequence::default();
        for &number in numbers {
            sequence.arrived(number);
        }
        sequence.counts()
    }

    #[test]
    fn in_order_from_anywhere() {
        let c = counts(&[5, 6, 7, 8]);
        assert_eq!((c.received, c.lost, c.duplicates, c.reordered), (4, 0, 0, 0));
    }

    #[test]
    fn loss_reordering_and_duplication() {
        let c = counts(&[0, 1, 4, 3, 3, 4, 9]);
        assert_eq!((c.received, c.lost, c.duplicates), (5, 5, 2));
        assert_eq!((c.reordered, c.reorder_extent), (1, 1));
    }

    #[test]
    fn a_frame_before_the_first_counts_as_late() {
        let c = counts(&[3, 1, 2, 4]);
        assert_eq!((c.received, c.lost, c.reordered), (4, 0, 2));
    }

    #[test]
    fn too_late_to_tell() {
        let c = counts(&[0, WINDOW + 10, 5]);
        assert_eq!((c.received, c.stale, c.lost), (2, 1, WINDOW + 9));
    }

    proptest! {
        #[test]
        fn agrees_with_a_set(
            mut numbers in proptest::collection::vec(0u64..2000, 1..500),
            jumps in proptest::collection::vec(1u64..30_000, 0..3),
        ) {
            for jump in jumps {
                let top = numbers.iter().max().unwrap() + jump;
                numbers.push(top);
            }
            let mut set = std::collections::BTreeSet::new();
            let (mut duplicates, mut late) = (0, 0);
            for &number in &numbers {
                let highest = set.last().copied();
                if !set.insert(number) {
                    duplicates += 1;
                } else if highest.is_some_and(|highest| highest > number) {
                    late += 1;
                }
            }
            let expected = set.last().unwrap() - set.first().unwrap() + 1;
            let c = counts(&numbers);
            prop_assert_eq!(c.received, set.len() as u64);
            prop_assert_eq!(c.lost, expected - set.len() as u64);
            prop_assert_eq!((c.duplicates, c.reordered, c.stale), (duplicates, late, 0));
        }
    }
}
