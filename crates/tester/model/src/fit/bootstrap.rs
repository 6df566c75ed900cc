//! Intervals by refitting to data made from the fit and its own residuals
//! (Efron's bootstrap of residuals).
//!
//! Whole points are not drawn, because a measured grid has few of them and a
//! draw often has too few different ones to determine the parameters.

use serde::{Deserialize, Serialize};

use super::{Fit, FitError, Loss, Model, Observation, Residual, solve::Problem, solve::fit};
use crate::estimate::Estimate;

/// Options of a bootstrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bootstrap {
    /// Refits; 200 are enough for 90 % intervals.
    pub samples: usize,
    /// Seed of the draws: the same gives the same intervals.
    pub seed: u64,
}

impl Default for Bootstrap {
    fn default() -> Self {
        Bootstrap { samples: 200, seed: 1 }
    }
}

/// A fit and the parameters of its refits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sampled {
    /// The fit to the measurements.
    pub fit: Fit,
    /// The parameters of each refit.
    pub samples: Vec<Vec<f64>>,
    /// The residuals that were drawn from: centred, and widened by `sqrt(n / (n - p))` for the part
    /// that the fit took out of them.
    pub noise: Vec<f64>,
    /// Kind of the residuals.
    pub residual: Residual,
}

/// Fits a model, and again to `bootstrap.samples` sets of values drawn from
/// the fit.
///
/// The noise is taken to be alike at all points in units of the residual and
/// the weights. With as many parameters as points there is none to draw from,
/// and all intervals are empty.
pub fn bootstrap<M: Model>(
    model: &M,
    observations: &[Observation<M::Input>],
    loss: Loss,
    bootstrap: Bootstrap,
) -> Result<Sampled, FitError> {
    let fitted = fit(model, observations, loss)?;
    let problem = Problem { model, observations, loss, parameters: model.parameters() };
    let residual = model.residual();
    let noise = noise(&fitted, observations);
    let predictions = problem.predictions(&fitted.values);
    let mut random = fastrand::Rng::with_seed(bootstrap.seed);
    let mut draw = || -> Vec<f64> {
        let drawn = predictions.iter().zip(observations).map(|(&predicted, observation)| {
            let drawn = noise[random.usize(..noise.len())] / observation.weight.sqrt();
            residual.apply(predicted, drawn)
        });
        drawn.collect()
    };
    let mut samples = Vec::with_capacity(bootstrap.samples);
    // A draw may leave a model without a solution; many that do so are a
    // finding.
    let mut failures = 0;
    while samples.len() < bootstrap.samples {
        match problem.solve(&draw(), &fitted.values, false) {
            Ok(sample) => samples.push(sample.values),
            Err(error) => {
                failures += 1;
                if failures * 4 > bootstrap.samples {
                    return Err(error);
                }
            }
        }
    }
    Ok(Sampled { fit: fitted, samples, noise, residual })
}

fn noise<I>(fit: &Fit, observations: &[Observation<I>]) -> Vec<f64> {
    let weighted: Vec<f64> = fit
        .residuals
        .iter()
        .zip(observations)
        .filter(|(_, observation)| observation.weight > 0.0)
        .map(|(residual, observation)| residual * observation.weight.sqrt())
        .collect();
    let count = weighted.len() as f64;
    let mean = weighted.iter().sum::<f64>() / count;
    let free = count - fit.values.len() as f64;
    let widen = if free > 0.0 { (count / free).sqrt() } else { 0.0 };
    weighted.iter().map(|residual| (residual - mean) * widen).collect()
}

impl Sampled {
    /// The interval of a parameter.
    pub fn parameter(&self, name: &str, level: f64) -> Option<Estimate<f64>> {
        let at = self.fit.names.iter().position(|known| known == name)?;
        let samples = self.samples.iter().map(|sample| sample[at]).collect();
        Some(Estimate::from_samples(self.fit.values[at], samples, level))
    }

    /// The interval of the mean at an input.
    pub fn mean<M: Model>(&self, model: &M, input: &M::Input, level: f64) -> Estimate<f64> {
        let predict = |values: &[f64]| M::predict(&model.with(values), input);
        let samples = self.samples.iter().map(|sample| predict(sample)).collect();
        Estimate::from_samples(predict(&self.fit.values), samples, level)
    }

    /// The interval a new measurement of weight 1 lies in: that of the mean,
    /// widened by the noise of the measurements.
    pub fn measurement<M: Model>(&self, model: &M, input: &M::Input, level: f64) -> Estimate<f64> {
        let predict = |values: &[f64]| M::predict(&model.with(values), input);
        let means = self.samples.iter().map(|sample| predict(sample));
        let samples = means
            .flat_map(|mean| self.noise.iter().map(move |&noise| self.residual.apply(mean, noise)))
            .collect();
        Estimate::from_samples(predict(&self.fit.values), samples, level)
    }
}
