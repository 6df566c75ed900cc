//! Random sampling of packets with a fixed-point probability.

use linerate_graph::ElementBuilder;

use linerate_element_support::random::{Probability, Random};

/// Chooses packets with a probability.
pub(super) struct Sample {
    probability: Probability,
    random: Random,
}

impl Sample {
    /// Reads the argument `SAMPLE`; without it every packet is chosen.
    pub(super) fn from_args(make: &mut ElementBuilder<'_>) -> Sample {
        let given = make.or("SAMPLE", Probability::ONE);
        if given > Probability::ONE {
            make.warn("SAMPLE probability reduced to 1");
        } else if given.0 == 0 {
            make.warn("SAMPLE probability is 0; emitting no packets");
        }
        Sample { probability: given.min(Probability::ONE), random: Random::new(make) }
    }

    /// Returns true if the next packet is chosen.
    #[inline]
    pub(super) fn choose(&mut self) -> bool {
        self.probability >= Probability::ONE || self.random.bits28() < self.probability.0
    }

    /// The probability.
    pub(super) fn text(&self) -> String {
        self.probability.to_string()
    }
}
