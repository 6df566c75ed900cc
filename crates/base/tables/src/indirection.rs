//! Indirection table from flow hashes to outputs, as network cards have it for receive side
//! scaling.
//!
//! Hashes fall into buckets, and each bucket belongs to an output. When weights
//! change, only as many buckets change hands as must: flows in the others stay
//! where they are.

/// Most buckets.
pub const BUCKETS_LIMIT: usize = 1 << 16;

/// The output of a bucket when no output has a weight.
const UNASSIGNED: u16 = u16::MAX;

/// The table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Indirection {
    /// The output of each bucket.
    buckets: Vec<u16>,
}

impl Indirection {
    /// A table of `buckets` buckets, 1 to [`BUCKETS_LIMIT`], without outputs.
    pub fn new(buckets: usize) -> Indirection {
        Indirection { buckets: vec![UNASSIGNED; buckets.clamp(1, BUCKETS_LIMIT)] }
    }

    /// Buckets there are.
    #[expect(clippy::len_without_is_empty, reason = "there is always one")]
    pub fn len(&self) -> usize {
        self.buckets.len()
    }

    /// The bucket of a hash. Uses its upper half, scaled instead of divided.
    #[inline]
    pub fn bucket(&self, hash: u64) -> usize {
        (((hash >> 32) * self.buckets.len() as u64) >> 32) as usize
    }

    /// The output for a hash, if its bucket belongs to one.
    #[inline]
    pub fn output(&self, hash: u64) -> Option<usize> {
        self.owner(self.bucket(hash))
    }

    /// The output a bucket belongs to, if it does.
    ///
    /// # Panics
    ///
    /// When there is no such bucket.
    #[inline]
    pub fn owner(&self, bucket: usize) -> Option<usize> {
        match self.buckets[bucket] {
            UNASSIGNED => None,
            output => Some(output.into()),
        }
    }

    /// The outputs of all buckets, `-` for none.
    pub fn text(&self) -> String {
        let name = |output: &u16| match *output {
            UNASSIGNED => "-".into(),
            output => output.to_string(),
        };
        self.buckets.iter().map(name).collect::<Vec<_>>().join(" ")
    }

    /// Gives every output buckets in proportion to its weight, with as few
    /// changes as possible. Returns how many buckets changed hands.
    pub fn share_out(&mut self, weights: &[u32]) -> usize {
        let quotas = self.quotas(weights);
        let mut held = vec![0; weights.len()];
        let mut free = Vec::new();
        for (at, output) in self.buckets.iter_mut().enumerate() {
            let held = held.get_mut(usize::from(*output));
            match held.filter(|held| **held < quotas[usize::from(*output)]) {
                Some(held) => *held += 1,
                None => free.push(at),
            }
        }
        let moved = free.len();
        // In turn, so that neighbouring buckets go to different outputs.
        let mut free = free.into_iter();
        let wanting = |held: &[usize]| held.iter().zip(&quotas).any(|(held, quota)| held < quota);
        while wanting(&held) {
            for output in 0..weights.len() {
                if held[output] < quotas[output]
                    && let Some(at) = free.next()
                {
                    self.buckets[at] = output as u16;
                    held[output] += 1;
                }
            }
        }
        free.for_each(|at| self.buckets[at] = UNASSIGNED);
        moved
    }

    /// Buckets per output: the whole part of its share, and those left over to the largest
    /// remainders, among equal ones to the output that has one more than that already.
    fn quotas(&self, weights: &[u32]) -> Vec<usize> {
        let total: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
        if total == 0 {
            return vec![0; weights.len()];
        }
        let buckets = self.buckets.len() as u64;
        let share = |weight: &u32| buckets * u64::from(*weight);
        let mut quotas: Vec<usize> =
            weights.iter().map(|weight| (share(weight) / total) as usize).collect();
        let held = |output: usize| {
            self.buckets.iter().filter(|bucket| usize::from(**bucket) == output).count()
        };
        let mut order: Vec<(u64, bool, usize)> = (0..weights.len())
            .filter(|output| weights[*output] > 0)
            .map(|output| {
                let rest = share(&weights[output]) % total;
                (total - rest, held(output) <= quotas[output], output)
            })
            .collect();
        order.sort_unstable();
        let left = self.buckets.len() - quotas.iter().sum::<usize>();
        order.iter().take(left).for_each(|(_, _, output)| quotas[*output] += 1);
        quotas
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn counts(table: &Indirection, outputs: usize) -> Vec<usize> {
        (0..outputs as u16)
            .map(|output| table.buckets.iter().filter(|bucket| **bucket == output).count())
            .collect()
    }

    #[test]
    fn buckets_follow_weights() {
        let mut table = Indirection::new(8);
        assert_eq!(table.output(0), None);
        assert_eq!(table.share_out(&[1, 1, 2]), 8);
        assert_eq!(table.text(), "0 1 2 0 1 2 2 2");
        assert_eq!(table.share_out(&[1, 0, 2]), 2);
        assert_eq!(counts(&table, 3), [3, 0, 5]);
        assert_eq!(table.share_out(&[0, 0, 0]), 8);
        assert_eq!(table.text(), "- - - - - - - -");
    }

    #[test]
    fn a_hash_s_upper_half_chooses_the_bucket() {
        let mut table = Indirection::new(4);
        table.share_out(&[1, 1]);
        let outputs = [0, 1 << 62, 2 << 62, 3 << 62, u64::MAX].map(|hash| table.output(hash));
        assert_eq!(outputs, [Some(0), Some(1), Some(0), Some(1), Some(1)]);
    }

    proptest! {
        #[test]
        fn shares_are_exact_and_changes_are_the_fewest_possible(
            buckets in 1usize..300,
            first in prop::collection::vec(0u32..5, 1..9),
            change in prop::collection::vec(0u32..5, 9),
        ) {
            let outputs = first.len();
            let second = &change[..outputs];
            let mut table = Indirection::new(buckets);
            table.share_out(&first);
            let before = table.clone();
            let moved = table.share_out(second);
            let now = counts(&table, outputs);
            let total: u32 = second.iter().sum();
            for (weight, count) in second.iter().zip(&now) {
                let exact = f64::from(*weight) * buckets as f64 / f64::from(total.max(1));
                prop_assert!((*count as f64 - exact).abs() < 1.0, "{count} for {exact}");
            }
            let held = counts(&before, outputs);
            let nobody = buckets - held.iter().sum::<usize>();
            let surplus: usize =
                held.iter().zip(&now).map(|(held, now)| held.saturating_sub(*now)).sum();
            prop_assert_eq!(moved, if total == 0 { buckets } else { surplus + nobody });
            let changed = before.buckets.iter().zip(&table.buckets).filter(|(a, b)| a != b).count();
            prop_assert!(changed <= moved);
            prop_assert_eq!(table.share_out(second), if total == 0 { buckets } else { 0 });
        }
    }
}
