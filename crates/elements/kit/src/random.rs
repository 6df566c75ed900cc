//! Random numbers for elements.
//!
//! In simulated time, and where there is a `RandomSeed`, they are the same in
//! every run: an element's place in the graph is part of the seed.

use std::sync::OnceLock;

use linerate_graph::{Fixed, Make};

/// A probability as Click keeps and shows it.
pub type Probability = Fixed<28>;

/// The seed all generators of a graph begin with, once one is given.
#[derive(Default, Debug)]
pub struct Seed(OnceLock<u32>);

impl Seed {
    /// What it is.
    pub fn get(&self) -> Option<u32> {
        self.0.get().copied()
    }

    /// Sets it, unless it is set: of several the first one counts.
    pub fn set(&self, seed: u32) {
        let _ = self.0.set(seed);
    }
}

/// A generator of an element's own (wyrand).
#[derive(Debug)]
pub struct Random(fastrand::Rng);

impl Random {
    /// The element's own.
    pub fn new(make: &Make<'_>) -> Random {
        let given = make.world.common::<Seed>().get();
        let seed = given.or(make.world.simulated.then_some(0));
        Random(match seed {
            Some(seed) => {
                let (element, replica) = (make.element() as u64, make.replica().index as u64);
                let place = element << 32 | replica;
                fastrand::Rng::with_seed(place ^ u64::from(seed).rotate_right(16))
            }
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
