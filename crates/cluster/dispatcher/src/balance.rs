//! Flow balancing: consistent hashing with failover.
//!
//! Hashes fall into buckets, each of which has a home: its consumer while all are present
//! ([`Indirection`], by weight). While that one is absent, each of its buckets is served by the
//! present consumer with the highest draw for it, as in rendezvous hashing (Thaler and Ravishankar,
//! 1998). So when one goes only its flows move, and exactly those come back with it.

use linerate_tables::indirection::Indirection;

/// Buckets of a balancer.
pub const BUCKETS: usize = 1024;

/// Owner of a bucket while no consumer is present.
const NO_OWNER: u8 = u8::MAX;

/// The table of a balancer of some consumers, named by their places in its list.
#[derive(Debug, Clone)]
pub struct Balance {
    weights: Vec<u32>,
    present: Vec<bool>,
    home: Indirection,
    /// By bucket.
    acting: Vec<u8>,
}

impl Balance {
    /// A balancer of consumers with these weights, at most 63, none of which is there yet.
    pub fn new(weights: &[u32]) -> Balance {
        debug_assert!(weights.len() < usize::from(NO_OWNER));
        let mut balance = Balance {
            weights: weights.to_vec(),
            present: vec![false; weights.len()],
            home: Indirection::new(BUCKETS),
            acting: vec![NO_OWNER; BUCKETS],
        };
        balance.home.share_out(weights);
        balance
    }

    /// The bucket of a hash.
    #[inline]
    pub fn bucket(&self, hash: u64) -> usize {
        self.home.bucket(hash)
    }

    /// Returns the present owner of a bucket; bucket numbers beyond the last wrap around.
    #[inline]
    pub fn owner(&self, bucket: usize) -> Option<usize> {
        match self.acting[bucket % BUCKETS] {
            NO_OWNER => None,
            place => Some(place.into()),
        }
    }

    /// Returns the owner of a bucket while all are present; the first when none has a weight.
    pub fn home(&self, bucket: usize) -> usize {
        self.home.owner(bucket % BUCKETS).unwrap_or(0)
    }

    /// The weights.
    pub fn weights(&self) -> &[u32] {
        &self.weights
    }

    /// Buckets that each consumer has now.
    pub fn shares(&self) -> Vec<usize> {
        let mut shares = vec![0; self.weights.len()];
        for &place in self.acting.iter().filter(|place| **place != NO_OWNER) {
            shares[usize::from(place)] += 1;
        }
        shares
    }

    /// Other weights, one for each consumer. Returns how many buckets have moved.
    pub fn weigh(&mut self, weights: &[u32]) -> usize {
        self.weights.copy_from_slice(weights);
        self.home.share_out(weights);
        self.reassign()
    }

    /// A consumer has come, or gone. Returns how many buckets have moved.
    pub fn set_present(&mut self, place: usize, present: bool) -> usize {
        self.present[place] = present;
        self.reassign()
    }

    fn reassign(&mut self) -> usize {
        let mut moved = 0;
        for bucket in 0..BUCKETS {
            let home = self.home.owner(bucket).filter(|&place| self.present[place]);
            let now = home
                .or_else(|| self.failover_consumer(bucket))
                .map_or(NO_OWNER, |place| place as u8);
            moved += usize::from(self.acting[bucket] != now);
            self.acting[bucket] = now;
        }
        moved
    }

    /// Returns the present consumer with the highest draw for a bucket. The draw of one with twice
    /// the weight is the highest twice as often: draws are exponentially distributed.
    fn failover_consumer(&self, bucket: usize) -> Option<usize> {
        let there = (0..self.weights.len()).filter(|&place| self.present[place]);
        there
            .filter(|&place| self.weights[place] > 0)
            .map(|place| (-f64::from(self.weights[place]) / draw(bucket, place).ln(), place))
            .max_by(|(a, _), (b, _)| a.total_cmp(b))
            .map(|(_, place)| place)
    }
}

/// A number above 0 and below 1, always the same for a bucket and a consumer (splitmix64).
fn draw(bucket: usize, place: usize) -> f64 {
    let seed = (bucket as u64) << 32 | place as u64;
    let mixed = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (((mixed ^ mixed >> 31) >> 12) as f64 + 0.5) / (1u64 << 52) as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all_there(weights: &[u32]) -> Balance {
        let mut balance = Balance::new(weights);
        for place in 0..weights.len() {
            balance.set_present(place, true);
        }
        balance
    }

    fn owners(balance: &Balance) -> Vec<Option<usize>> {
        (0..BUCKETS).map(|bucket| balance.owner(bucket)).collect()
    }

    #[test]
    fn buckets_without_a_present_consumer_have_no_owner() {
        let mut balance = Balance::new(&[1, 0]);
        assert_eq!(balance.owner(balance.bucket(7)), None);
        assert_eq!(balance.set_present(1, true), 0, "who has no weight gets nothing");
        assert_eq!(balance.set_present(0, true), BUCKETS);
        assert_eq!(balance.shares(), [BUCKETS, 0]);
        assert_eq!(balance.weigh(&[1, 1]), BUCKETS / 2);
        assert_eq!(balance.shares(), [BUCKETS / 2, BUCKETS / 2]);
    }

    /// The flows of one of four are shared out among the others in proportion to their weights.
    #[test]
    fn others_stand_in_by_weight() {
        let mut balance = all_there(&[4, 1, 1, 2]);
        assert_eq!(balance.shares(), [512, 128, 128, 256]);
        assert_eq!(balance.set_present(0, false), 512);
        let shares = balance.shares();
        // 512 in 1 : 1 : 2, with a standard deviation of 10 and 11.
        assert!((220..290).contains(&shares[1]) && (220..290).contains(&shares[2]), "{shares:?}");
        assert_eq!((shares[0], shares.iter().sum::<usize>()), (0, BUCKETS));
    }

    #[test]
    fn turns_go_round_by_weight() {
        let balance = all_there(&[1, 1, 2]);
        let mut turns = [0; 3];
        for turn in BUCKETS..2 * BUCKETS {
            turns[balance.owner(turn).unwrap()] += 1;
        }
        assert_eq!(turns, [256, 256, 512]);
        let first: Vec<usize> = (0..3).map(|turn| balance.owner(turn).unwrap()).collect();
        assert_eq!(first, [0, 1, 2]);
    }

    proptest! {
        /// A consumer that goes takes no flow of others with it, and has all of its own again on
        /// return.
        #[test]
        fn only_flows_of_the_absent_consumer_move_and_return(
            weights in prop::collection::vec(1u32..5, 2..9), gone in prop::collection::vec(any::<prop::sample::Index>(), 1..5),
        ) {
            let mut balance = all_there(&weights);
            let before = owners(&balance);
            let gone: Vec<usize> = gone.iter().map(|gone| gone.index(weights.len())).collect();
            for &place in &gone {
                balance.set_present(place, false);
                for (was, is) in before.iter().zip(owners(&balance)) {
                    let stays = was.is_some_and(|was| balance.present[was]);
                    prop_assert!(!stays || *was == is);
                    prop_assert!(is.is_none_or(|is| balance.present[is]));
                }
            }
            for &place in &gone {
                balance.set_present(place, true);
            }
            prop_assert_eq!(owners(&balance), before);
        }
    }
}
