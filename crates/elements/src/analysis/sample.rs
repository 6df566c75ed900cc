//! Choosing packets at random with a fixed-point probability.

use fastrand::Rng;
use linerate_graph::Make;

/// Bits of the fraction.
const SHIFT: u32 = 28;
const ALL: u32 = 1 << SHIFT;

/// Chooses packets with a probability.
#[derive(Debug)]
pub(super) struct Sample {
    probability: u32,
    random: Rng,
}

impl Sample {
    /// From the argument `SAMPLE`; without it every packet is chosen.
    pub(super) fn from_args(make: &mut Make<'_>) -> Sample {
        let given: f64 = make.or("SAMPLE", 1.0);
        if given < 0.0 {
            make.error("SAMPLE: must be >= 0");
        }
        // Simulated runs are the same every time.
        let random = if make.world.simulated { Rng::with_seed(1) } else { Rng::new() };
        Sample { probability: (given.clamp(0.0, 1.0) * f64::from(ALL)).round() as u32, random }
    }

    /// Whether the next packet is chosen.
    #[inline]
    pub(super) fn choose(&mut self) -> bool {
        self.probability >= ALL || self.random.u32(..ALL) < self.probability
    }

    /// The probability in as few digits as name it.
    pub(super) fn text(&self) -> String {
        let value = f64::from(self.probability) / f64::from(ALL);
        let same = |text: &String| {
            let parsed = text.parse::<f64>().unwrap_or(2.0);
            (parsed * f64::from(ALL)).round() == f64::from(self.probability)
        };
        let texts = (0..10).map(|digits| format!("{value:.digits$}"));
        texts.into_iter().find(same).unwrap_or_else(|| value.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probability_is_printed_as_it_was_written() {
        for (text, probability) in [("0.3", 0.3), ("1", 1.0), ("0", 0.0), ("0.125", 0.125)] {
            let probability = (probability * f64::from(ALL)).round() as u32;
            assert_eq!(Sample { probability, random: Rng::with_seed(0) }.text(), text);
        }
    }
}
