//! Cost of a chain: differences of runs, in which source, sink and start cancel.

use crate::bench::baseline::Figure;

/// Copies of the chain in the longer configuration; the shorter has one.
pub(super) const COPIES: u32 = 11;
/// By how many copies they differ.
const MORE: f64 = (COPIES - 1) as f64;

/// Cycles of whole runs, by repetition: of one copy, and of [`COPIES`].
#[derive(Debug, Default, Clone)]
pub(super) struct Runs {
    pub(super) one: Vec<f64>,
    pub(super) many: Vec<f64>,
}

impl Runs {
    /// Cycles per packet and chain. The best is of the best run of each, since a disturbance makes
    /// a run longer, and a difference with a disturbed run of one copy would be too small.
    pub(super) fn figure(&self, packets: u64) -> Option<Figure> {
        let each = |one: f64, many: f64| (many - one) / MORE / packets as f64;
        let (one, many) = (Figure::from_samples(&self.one)?, Figure::from_samples(&self.many)?);
        let differences: Vec<f64> =
            self.one.iter().zip(&self.many).map(|(one, many)| each(*one, *many)).collect();
        let median = Figure::from_samples(&differences)?.median;
        Some(Figure { best: each(one.best, many.best), median })
    }
}

/// Instructions per packet and chain, of four runs: one copy with few packets and with more, many copies
/// with few and with more. A run of some ten thousand packets is short enough for the making of ten more
/// copies to show, so that is taken off, too.
pub(super) fn instructions(one: [u64; 2], many: [u64; 2], more_packets: u64) -> f64 {
    let grown = |[few, more]: [u64; 2]| more as f64 - few as f64;
    (grown(many) - grown(one)) / MORE / more_packets as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_and_start_cancel() {
        // 5,000 cycles to start, 7 per packet for the source, 3 per packet and chain.
        let run = |copies: f64, noise: f64| 5_000.0 + 1_000.0 * (7.0 + 3.0 * copies) + noise;
        let one = vec![run(1.0, 0.0), run(1.0, 9_000.0), run(1.0, 0.0)];
        let many = vec![run(11.0, 30_000.0), run(11.0, 0.0), run(11.0, 10_000.0)];
        let figure = Runs { one, many }.figure(1_000).unwrap();
        assert_eq!(figure, Figure { best: 3.0, median: 4.0 });
        assert_eq!(Runs::default().figure(1_000), None);
    }

    #[test]
    fn making_copies_cancels_in_instructions() {
        // 10,000 to start, 700 to make a copy, 50 per packet for the source, 20 per packet and chain.
        let run = |copies: u64, packets: u64| 10_000 + 700 * copies + packets * (50 + 20 * copies);
        let [one, many] = [1, u64::from(COPIES)].map(|n| [run(n, 1_000), run(n, 3_000)]);
        assert_eq!(instructions(one, many, 2_000), 20.0);
    }
}
