//! The time of a loop, in blocks.
//!
//! On a machine that others use too, a mean over all time says how often the
//! loop was interrupted. So its time is taken in short blocks: most of them are
//! whole, and their median is what a packet costs.

use std::time::{Duration, Instant};

use linerate_memory::clock::{cycles, cycles_per_second};

use crate::point::{Values, value};

/// About how long a block is.
const BLOCK: Duration = Duration::from_micros(100);
/// Most rounds of a block.
const ROUNDS_LIMIT: u64 = 1 << 24;

/// Cycles per packet of each block.
#[derive(Debug, Clone, Default)]
pub struct Blocks {
    costs: Vec<f64>,
    packets: u64,
    bursts: u64,
}

/// Distribution of the blocks' times, in cycles per packet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// The middle one.
    pub median: f64,
    /// Fifth percentile: the cost without interruption.
    pub low: f64,
    /// 90th percentile.
    pub high: f64,
}

impl Blocks {
    /// None yet.
    pub fn new() -> Blocks {
        Blocks::default()
    }

    /// Adds a block of `packets` in `bursts` that took `cycles`; one without
    /// packets says nothing.
    pub fn add(&mut self, cycles: u64, packets: u64, bursts: u64) {
        if packets > 0 {
            self.costs.push(cycles as f64 / packets as f64);
            self.packets += packets;
            self.bursts += bursts;
        }
    }

    /// Repeats `round`, which returns the packets it moved in a burst, for `time`. As many
    /// rounds make a block as take about a tenth of a millisecond.
    ///
    /// # Errors
    ///
    /// The first of a round.
    pub fn run<E>(
        &mut self,
        time: Duration,
        mut round: impl FnMut() -> Result<usize, E>,
    ) -> Result<(), E> {
        let length = BLOCK.as_secs_f64() * cycles_per_second();
        let mut block = |rounds: u64| {
            let before = cycles();
            let mut packets = 0;
            for _ in 0..rounds {
                packets += round()? as u64;
            }
            Ok((cycles().saturating_sub(before), packets))
        };
        let mut rounds = 1;
        // These rounds also warm the caches up.
        while (block(rounds)?.0 as f64) < length && rounds < ROUNDS_LIMIT {
            rounds *= 2;
        }
        let end = Instant::now() + time;
        while Instant::now() < end || self.costs.is_empty() {
            let (cycles, packets) = block(rounds)?;
            self.add(cycles, packets, rounds);
            if packets == 0 && Instant::now() >= end {
                break;
            }
        }
        Ok(())
    }

    /// Packets of all blocks.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Percentiles of the blocks; `None` without any.
    pub fn summary(&self) -> Option<Summary> {
        let mut costs = self.costs.clone();
        costs.sort_by(f64::total_cmp);
        let at = |share: f64| costs.get(((costs.len() as f64 - 1.0) * share).round() as usize);
        Some(Summary { median: *at(0.5)?, low: *at(0.05)?, high: *at(0.9)? })
    }

    /// The figures of a loop on one core: rate, cycles per packet (the median of
    /// the blocks) with `_low` and `_high`, packets of a burst, `blocks` and
    /// `packets`. `None` when no packet moved.
    pub fn values(&self) -> Option<Values> {
        let summary = self.summary()?;
        Some(Values::from([
            (value::RATE.into(), cycles_per_second() / summary.median),
            (value::CYCLES.into(), summary.median),
            (value::VECTOR.into(), self.packets as f64 / self.bursts.max(1) as f64),
            ("cycles_per_packet_low".into(), summary.low),
            ("cycles_per_packet_high".into(), summary.high),
            ("blocks".into(), self.costs.len() as f64),
            ("packets".into(), self.packets as f64),
        ]))
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    #[test]
    fn quantiles_are_those_of_the_blocks() {
        let mut blocks = Blocks::new();
        for cost in (1..=101).rev() {
            blocks.add(cost * 10, 10, 2);
        }
        blocks.add(5, 0, 1);
        let summary = blocks.summary().unwrap();
        assert_eq!(summary, Summary { median: 51.0, low: 6.0, high: 91.0 });
        assert_eq!((blocks.packets(), blocks.values().unwrap()[value::VECTOR]), (1010, 5.0));
    }

    #[test]
    fn nothing_moved_is_no_figure() {
        let mut blocks = Blocks::new();
        blocks.run(Duration::ZERO, || Ok::<_, Infallible>(0)).unwrap();
        assert_eq!(blocks.values(), None);
    }

    #[test]
    fn a_loop_is_measured_at_least_once_and_an_error_ends_it() {
        let mut blocks = Blocks::new();
        blocks.run(Duration::ZERO, || Ok::<_, Infallible>(3)).unwrap();
        assert!(blocks.values().unwrap()["cycles_per_packet"] >= 0.0);
        assert_eq!(blocks.run(Duration::ZERO, || Err("broken")), Err("broken"));
    }
}
