//! Predictions with intervals, and the needs of a wanted rate.

use serde::{Deserialize, Serialize};

use crate::{
    costs::{Costs, Prediction, Scenario},
    estimate::Estimate,
    fit::{Model, Sampled, ThroughputModel},
    limits::Limit,
    units::{CyclesPerPacket, Hertz, PacketsPerSecond, SecondsPerPacket},
};

/// Costs of one machine, with the uncertainty they were measured with.
///
/// Intervals come from the noise of the points that were fitted. They do not contain errors of
/// known terms, such as a latency curve with few points near the size of a cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// The best fit.
    pub costs: Costs,
    /// Costs as likely as those, from the bootstrap.
    #[serde(default)]
    pub samples: Vec<Costs>,
}

/// A rate cannot be reached by changing this quantity.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("out of reach: the {limit} allows {at_most}")]
pub struct Unreachable {
    /// The limit in the way.
    pub limit: Limit,
    /// The highest rate it allows, with everything else as it is. For a
    /// clock this is the bound that an ever faster one approaches.
    pub at_most: PacketsPerSecond,
}

/// The needs of a rate, and its limit then.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Requirement<T> {
    /// The needed value. Where part of the likely costs cannot reach the rate at all, the interval
    /// reaches to infinity, and that of a budget to zero.
    pub needed: Estimate<T>,
    /// The limit of the rate at that point.
    pub limit: Limit,
}

impl Calibration {
    /// Costs without uncertainty.
    pub fn exact(costs: Costs) -> Self {
        Calibration { costs, samples: Vec::new() }
    }

    /// The outcome of a fit with bootstrap.
    pub fn from_fit(model: &ThroughputModel, sampled: &Sampled) -> Self {
        Calibration {
            costs: model.with(&sampled.fit.values),
            samples: sampled.samples.iter().map(|values| model.with(values)).collect(),
        }
    }

    /// The throughput of a scenario, and the interval its mean lies in with
    /// the confidence `level` (0.9 for 90 %).
    pub fn predict(
        &self,
        scenario: &Scenario,
        level: f64,
    ) -> (Prediction, Estimate<PacketsPerSecond>) {
        let prediction = self.costs.predict(scenario);
        let samples = self.samples.iter();
        let samples =
            samples.map(|costs| costs.predict(scenario).throughput.get()).collect::<Vec<_>>();
        let estimate = Estimate::from_samples(prediction.throughput.get(), samples, level);
        (prediction, estimate.map(PacketsPerSecond::new))
    }

    /// The slowest clock at which a scenario reaches `rate`; the scenario's
    /// own clock is not looked at.
    pub fn clock_for(
        &self,
        scenario: &Scenario,
        rate: PacketsPerSecond,
        level: f64,
    ) -> Result<Requirement<Hertz>, Unreachable> {
        let solve = |costs: &Costs| clock(costs, scenario, rate).map(Hertz::get);
        let needed = self.invert(level, f64::INFINITY, solve)?;
        let found = Scenario { clock: Hertz::new(needed.value), ..scenario.clone() };
        Ok(self.answer(&found, needed.map(Hertz::new)))
    }

    /// The dearest task, in cycles per packet, with which a scenario reaches
    /// `rate`; the scenario's own work is not looked at.
    pub fn budget_for(
        &self,
        scenario: &Scenario,
        rate: PacketsPerSecond,
        level: f64,
    ) -> Result<Requirement<CyclesPerPacket>, Unreachable> {
        let solve = |costs: &Costs| budget(costs, scenario, rate).map(CyclesPerPacket::get);
        let needed = self.invert(level, 0.0, solve)?;
        let found = Scenario { work: CyclesPerPacket::new(needed.value), ..scenario.clone() };
        Ok(self.answer(&found, needed.map(CyclesPerPacket::new)))
    }

    /// The fewest workers with which a scenario reaches `rate`.
    pub fn workers_for(
        &self,
        scenario: &Scenario,
        rate: PacketsPerSecond,
        level: f64,
    ) -> Result<Requirement<f64>, Unreachable> {
        let solve = |costs: &Costs| workers(costs, scenario, rate).map(f64::from);
        let needed = self.invert(level, f64::INFINITY, solve)?;
        let found = Scenario { workers: needed.value as u32, ..scenario.clone() };
        Ok(self.answer(&found, needed))
    }

    /// `hopeless` stands for samples of the costs that cannot reach the rate.
    fn invert(
        &self,
        level: f64,
        hopeless: f64,
        solve: impl Fn(&Costs) -> Result<f64, Unreachable>,
    ) -> Result<Estimate<f64>, Unreachable> {
        let value = solve(&self.costs)?;
        let samples = self.samples.iter().map(|costs| solve(costs).unwrap_or(hopeless)).collect();
        Ok(Estimate::from_samples(value, samples, level))
    }

    fn answer<T>(&self, found: &Scenario, needed: Estimate<T>) -> Requirement<T> {
        Requirement { needed, limit: self.costs.predict(found).limit }
    }
}

/// The time a worker has for each packet at this rate, or the limit outside of the workers that is
/// in the way.
fn allowance(
    costs: &Costs,
    scenario: &Scenario,
    rate: PacketsPerSecond,
) -> Result<SecondsPerPacket, Unreachable> {
    if let Some((at_most, limit)) = scenario.limits.tightest(scenario.frame)
        && at_most < rate
    {
        return Err(Unreachable { limit, at_most });
    }
    Ok(rate.period() * costs.scaling.speedup(f64::from(scenario.workers)))
}

fn clock(costs: &Costs, scenario: &Scenario, rate: PacketsPerSecond) -> Result<Hertz, Unreachable> {
    let allowed = allowance(costs, scenario, rate)?;
    let fixed = costs.per_packet(scenario).fixed();
    if allowed <= fixed {
        let speedup = costs.scaling.speedup(f64::from(scenario.workers));
        return Err(Unreachable { limit: Limit::Memory, at_most: fixed.rate() * speedup });
    }
    Ok((costs.overhead(scenario) + scenario.work) / (allowed - fixed))
}

fn budget(
    costs: &Costs,
    scenario: &Scenario,
    rate: PacketsPerSecond,
) -> Result<CyclesPerPacket, Unreachable> {
    let allowed = allowance(costs, scenario, rate)?;
    let idle = Scenario { work: CyclesPerPacket::ZERO, ..scenario.clone() };
    let left = allowed - costs.per_packet(&idle).fixed();
    let budget = left * scenario.clock - costs.overhead(&idle);
    if budget < CyclesPerPacket::ZERO {
        let prediction = costs.predict(&idle);
        return Err(Unreachable { limit: prediction.limit, at_most: prediction.throughput });
    }
    Ok(budget)
}

fn workers(costs: &Costs, scenario: &Scenario, rate: PacketsPerSecond) -> Result<u32, Unreachable> {
    let with = |workers| costs.predict(&Scenario { workers, ..scenario.clone() });
    // Up to the best number throughput rises with every worker.
    let best = costs.scaling.best().unwrap_or(1 << 16);
    let most = with(best);
    if most.throughput < rate {
        return Err(Unreachable { limit: most.limit, at_most: most.throughput });
    }
    let (mut short, mut enough) = (0, best);
    while enough - short > 1 {
        let middle = short + (enough - short) / 2;
        if with(middle).throughput < rate { short = middle } else { enough = middle }
    }
    Ok(enough)
}
