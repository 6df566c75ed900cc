//! Several descriptions as one: each has its share of the frames.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use super::maker::FrameMaker;

/// Makes the frames of several descriptions, each as often as its weight says.
#[derive(Debug, Clone)]
pub struct Mix {
    parts: Vec<WeightedMaker>,
    /// Weights of all.
    total: f64,
    /// Index of the description whose frame is next.
    next: usize,
    /// Chooses the description where frames come at random times: each one's are then independent
    /// arrivals, too.
    random: Option<fastrand::Rng>,
}

#[derive(Debug, Clone)]
struct WeightedMaker {
    maker: FrameMaker,
    weight: f64,
    /// Its lack to its share, in frames of the total.
    credit: f64,
    made: Arc<AtomicU64>,
}

impl Mix {
    /// Mixes descriptions with their weights, which are above zero. In turns as even as can be, or
    /// at random.
    ///
    /// # Panics
    ///
    /// When there are none.
    pub fn new(parts: Vec<(FrameMaker, f64)>, random: Option<u64>) -> Mix {
        assert!(!parts.is_empty(), "there is a description");
        let total = parts.iter().map(|(_, weight)| weight).sum();
        let part =
            |(maker, weight)| WeightedMaker { maker, weight, credit: 0.0, made: Arc::default() };
        let parts = parts.into_iter().map(part).collect();
        let random = random.map(fastrand::Rng::with_seed);
        let mut mix = Mix { parts, total, next: 0, random };
        mix.choose();
        mix
    }

    /// Number of frames made of each, for other threads.
    pub fn made(&self) -> Vec<Arc<AtomicU64>> {
        self.parts.iter().map(|part| Arc::clone(&part.made)).collect()
    }

    /// Mean length in bytes of frames that are made over a long time.
    fn mean_len(&self) -> f64 {
        let sum: f64 = self.parts.iter().map(|part| part.weight * part.maker.mean_len()).sum();
        sum / self.total
    }

    fn longest(&self) -> usize {
        self.parts.iter().map(|part| part.maker.longest()).max().unwrap_or(0)
    }

    #[inline]
    fn next_len(&self) -> usize {
        self.parts[self.next].maker.next_len()
    }

    #[inline]
    fn make(&mut self, frame: &mut [u8], time: u64) {
        let part = &mut self.parts[self.next];
        part.maker.make(frame, time);
        let made = part.made.load(Ordering::Relaxed) + 1;
        part.made.store(made, Ordering::Relaxed);
        self.choose();
    }

    /// Chooses the description of the next frame: of those in turns the one that lacks most (smooth
    /// weighted round robin, as in nginx's balancer).
    #[inline]
    fn choose(&mut self) {
        if let Some(random) = &mut self.random {
            let mut left = random.f64() * self.total;
            let last = self.parts.len() - 1;
            let at = self.parts.iter().position(|part| {
                left -= part.weight;
                left < 0.0
            });
            self.next = at.unwrap_or(last);
            return;
        }
        let mut best = 0;
        for at in 0..self.parts.len() {
            self.parts[at].credit += self.parts[at].weight;
            if self.parts[at].credit > self.parts[best].credit {
                best = at;
            }
        }
        self.parts[best].credit -= self.total;
        self.next = best;
    }
}

/// Frames of a generator.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "there is one for each worker")]
pub enum Frames {
    /// The frames of one description.
    One(FrameMaker),
    /// Frames of several descriptions.
    Mix(Mix),
}

impl From<FrameMaker> for Frames {
    fn from(maker: FrameMaker) -> Frames {
        Frames::One(maker)
    }
}

impl Frames {
    /// Length of the next frame, in bytes without FCS.
    #[inline]
    pub fn next_len(&self) -> usize {
        match self {
            Frames::One(maker) => maker.next_len(),
            Frames::Mix(mix) => mix.next_len(),
        }
    }

    /// Length of the longest frame, in bytes without FCS.
    pub fn longest(&self) -> usize {
        match self {
            Frames::One(maker) => maker.longest(),
            Frames::Mix(mix) => mix.longest(),
        }
    }

    /// Mean length of the frames, in bytes without FCS.
    pub fn mean_len(&self) -> f64 {
        match self {
            Frames::One(maker) => maker.mean_len(),
            Frames::Mix(mix) => mix.mean_len(),
        }
    }

    /// Writes the next frame ([`FrameMaker::make`]).
    #[inline]
    pub(crate) fn make(&mut self, frame: &mut [u8], time: u64) {
        match self {
            Frames::One(maker) => maker.make(frame, time),
            Frames::Mix(mix) => mix.make(frame, time),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn maker(length: usize) -> FrameMaker {
        FrameMaker::of_frames(vec![vec![0; length]]).unwrap()
    }

    fn lengths(mix: Mix, count: usize) -> Vec<usize> {
        let mut frames = Frames::Mix(mix);
        let next = |_| {
            let length = frames.next_len();
            frames.make(&mut vec![0; length], 0);
            length
        };
        (0..count).map(next).collect()
    }

    #[test]
    fn turns_are_even() {
        let mix = Mix::new(vec![(maker(60), 2.0), (maker(100), 1.0), (maker(70), 1.0)], None);
        assert_eq!((mix.longest(), mix.mean_len()), (100, 72.5));
        let made = mix.made();
        assert_eq!(lengths(mix, 8), [60, 100, 70, 60, 60, 100, 70, 60]);
        let made: Vec<u64> = made.iter().map(|made| made.load(Ordering::Relaxed)).collect();
        assert_eq!(made, [4, 2, 2]);
    }

    #[test]
    fn at_random_each_has_its_share() {
        let mix = Mix::new(vec![(maker(60), 0.3), (maker(100), 0.1)], Some(7));
        let short = lengths(mix, 40_000).iter().filter(|length| **length == 60).count();
        // Four standard deviations of the binomial distribution.
        assert!(short.abs_diff(30_000) < 350, "{short}");
    }
}
