//! Random numbers for elements.
//!
//! In simulated time, and where there is a `RandomSeed`, they are the same in
//! every run: an element's place in the graph is part of the seed.

use std::{
    hash::{BuildHasher, RandomState},
    sync::OnceLock,
};

use linerate_graph::{ElementBuilder, Fixed};

/// A probability as Click keeps and shows it.
pub type Probability = Fixed<28>;

/// The seed all generators of a graph begin with, once one is given.
#[derive(Default, Debug)]
pub struct Seed(OnceLock<u32>);

impl Seed {
    /// Returns its value.
    pub fn get(&self) -> Option<u32> {
        self.0.get().copied()
    }

    /// Sets it, unless it is set: of several the first one counts.
    pub fn set(&self, seed: u32) {
        let _ = self.0.set(seed);
    }
}

/// Seed of an element's generators; `None` unless runs are reproducible.
fn seed(make: &ElementBuilder<'_>) -> Option<u64> {
    let given = make.world.common::<Seed>().get();
    let seed = given.or(make.world.simulated.then_some(0))?;
    let (element, replica) = (make.element() as u64, make.replica().index as u64);
    Some((element << 32 | replica) ^ u64::from(seed).rotate_right(16))
}

/// A key that cannot be guessed, which all replicas of the element share; the same in every run where
/// random numbers are.
pub fn key(make: &ElementBuilder<'_>) -> [u64; 2] {
    let key = match seed(make) {
        Some(seed) => {
            let mut numbers = fastrand::Rng::with_seed(seed);
            [numbers.u64(..), numbers.u64(..)]
        }
        // Keyed by the system's random bytes, and no two of them are alike.
        None => [RandomState::new(), RandomState::new()].map(|state| state.hash_one(0)),
    };
    *make.shared(|| key)
}

/// A generator of an element's own (wyrand).
#[derive(Debug)]
pub struct Random(fastrand::Rng);

impl Random {
    /// The element's own.
    pub fn new(make: &ElementBuilder<'_>) -> Random {
        Random(match seed(make) {
            Some(seed) => fastrand::Rng::with_seed(seed),
            None => fastrand::Rng::new(),
        })
    }

    /// A number below `end`, which is not zero.
    #[inline]
    pub fn below(&mut self, end: usize) -> usize {
        self.0.usize(..end)
    }

    /// 28 random bits: below a [`Probability`] with that probability.
    #[inline]
    pub fn bits28(&mut self) -> u32 {
        self.0.u32(..) >> 4
    }

    /// Fills bytes with random ones.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill(bytes);
    }

    /// A number in 0..1.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        self.0.f64()
    }
}
