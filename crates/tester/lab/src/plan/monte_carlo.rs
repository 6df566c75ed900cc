//! Error of a sum of costs: costs as likely as the best, drawn (Monte Carlo).
//!
//! The spread of a cost is as wide as the knowledge of it is narrow. A class that was measured with
//! other arguments may cost twice as much or half; one that was never measured costs as much as
//! some measured element. Over all of it lies an error that no sum of costs has: the effect of
//! elements on one another in a processor's caches and predictors.

use std::collections::BTreeMap;

use fastrand::Rng;
use linerate_model::{Cost, units::Packets};
use serde::Serialize;

/// Number of likely sums that stand for all.
const DRAWS: usize = 400;
/// Standard deviation of the logarithm of the measured cost over the sum of the parts: 0.12 over
/// the 40 of 60 configurations of others that bring packets as fast as they can (`cargo xtask bench
/// plan --public`), without one whose `RED` cannot be measured alone.
const MODEL: f64 = 0.12;

/// Source of a cost, from the surest on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// It costs nothing.
    Free,
    /// The element was measured alone, with its arguments and on the packets that came to it.
    Alone,
    /// The cost of the driver, or of the engine.
    Port,
    /// The class was measured with these arguments, on other packets.
    Arguments,
    /// The class was measured, on other packets.
    Class,
    /// The class was measured with arguments that cost something else.
    OtherArguments,
    /// Never measured: it costs as much as some other does.
    Others,
}

impl Basis {
    /// Standard deviation of the logarithm of the cost.
    fn spread(self) -> f64 {
        match self {
            Basis::Free => 0.0,
            Basis::Alone => 0.05,
            Basis::Port => 0.1,
            Basis::Arguments => 0.15,
            Basis::Class | Basis::Others => 0.25,
            Basis::OtherArguments => 0.6,
        }
    }

    /// Returns true if a measurement would narrow it.
    pub fn is_weak(self) -> bool {
        self >= Basis::OtherArguments
    }
}

/// A cost that packets meet.
#[derive(Debug, Clone)]
pub(super) struct CostTerm {
    /// Name of its owner. A draw for one of a name holds for all of them.
    pub(super) name: String,
    pub(super) basis: Basis,
    /// The best, and others as likely; empty for nothing.
    pub(super) costs: Vec<Cost>,
    /// Visits of a packet on average, and size of the frames.
    pub(super) times: f64,
    pub(super) vector: Packets,
}

impl CostTerm {
    /// Cycles for each packet brought, by the best cost.
    pub(super) fn best(&self) -> f64 {
        self.at(0)
    }

    fn at(&self, place: usize) -> f64 {
        self.costs.get(place).map_or(0.0, |cost| cost.at(self.vector).get() * self.times)
    }

    /// The charge by a cost that `place`, from 0 to 1, chooses and that is off by `normal` times
    /// the usual error of costs of its basis.
    fn drawn(&self, place: f64, normal: f64) -> f64 {
        let last = self.costs.len().saturating_sub(1);
        let place = ((place * self.costs.len() as f64) as usize).min(last);
        self.at(place) * (self.basis.spread() * normal).exp()
    }
}

/// Draws sums of charges. With `if_known` costs of weak basis are at their best in every draw.
pub(super) fn draws(charges: &[CostTerm], if_known: bool) -> Vec<f64> {
    // One seed for both, so that they can be compared.
    let mut random = Rng::with_seed(1);
    (0..DRAWS).map(|_| draw(charges, if_known, &mut random)).collect()
}

fn draw(charges: &[CostTerm], if_known: bool, random: &mut Rng) -> f64 {
    let model = (MODEL * normal(random)).exp();
    let mut by_name: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    let mut sum = 0.0;
    for charge in charges {
        let drawn = by_name.entry(&charge.name).or_insert_with(|| (random.f64(), normal(random)));
        let (place, off) = *drawn;
        let as_best = if_known && charge.basis.is_weak();
        sum += if as_best { charge.best() } else { charge.drawn(place, off) };
    }
    sum * model
}

/// A number of the standard normal distribution (Box and Muller).
fn normal(random: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.f64()).cos()
}

#[cfg(test)]
mod tests {
    use linerate_model::Estimate;

    use super::*;

    fn charge(name: &str, basis: Basis, cycles: &[f64]) -> CostTerm {
        let costs = cycles.iter().map(|one| Cost::new(*one, 0.0)).collect();
        CostTerm { name: name.into(), basis, costs, times: 1.0, vector: Packets::new(32.0) }
    }

    /// The interval of 90 %, and its width over its middle.
    fn width(charges: &[CostTerm], if_known: bool) -> (Estimate<f64>, f64) {
        let best = charges.iter().map(CostTerm::best).sum();
        let found = Estimate::from_samples(best, draws(charges, if_known), 0.9);
        (found, (found.high - found.low) / best)
    }

    #[test]
    fn normal_numbers_are() {
        let mut random = Rng::with_seed(7);
        let all: Vec<f64> = (0..20_000).map(|_| normal(&mut random)).collect();
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        let variance = all.iter().map(|one| one * one).sum::<f64>() / all.len() as f64;
        assert!(mean.abs() < 0.03 && (variance - 1.0).abs() < 0.05, "{mean} {variance}");
    }

    #[test]
    fn the_less_is_known_the_wider_the_interval() {
        let mut before = 0.0;
        for basis in [Basis::Alone, Basis::Arguments, Basis::Class, Basis::OtherArguments] {
            let (interval, width) = width(&[charge("a", basis, &[100.0])], false);
            assert!(interval.contains(&100.0), "{basis:?}: {interval}");
            assert!(width > 1.1 * before, "{basis:?}: {width}, not more than {before}");
            before = width;
        }
        // Any of these may be its cost.
        let (interval, _) = width(&[charge("a", Basis::Others, &[50.0, 10.0, 50.0, 400.0])], false);
        assert!(interval.low < 15.0 && interval.high > 300.0, "{interval}");
    }

    #[test]
    fn unknown_costs_can_be_left_out() {
        let others = charge("b", Basis::Others, &[50.0, 10.0, 400.0]);
        let charges = [charge("a", Basis::Alone, &[100.0]), others];
        let (all, _) = width(&charges, false);
        let (if_known, share) = width(&charges, true);
        assert!(share < 0.4 && if_known.contains(&150.0), "{if_known}");
        assert!(all.low < if_known.low && if_known.high < all.high, "{all} {if_known}");
    }

    #[test]
    fn errors_of_one_thing_add_up_and_of_several_less() {
        let same = [charge("a", Basis::Class, &[50.0]), charge("a", Basis::Class, &[50.0])];
        let different = [charge("a", Basis::Class, &[50.0]), charge("b", Basis::Class, &[50.0])];
        assert!(width(&same, false).1 > 1.1 * width(&different, false).1);
        assert_eq!(width(&[charge("a", Basis::Free, &[])], false).0.high, 0.0);
    }
}
