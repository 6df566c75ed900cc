//! Parameters from measurements.
//!
//! A [`Model`] predicts a value from an input; [`fit`] finds the parameters with the smallest
//! (weighted, robust) squared residuals by the Levenberg-Marquardt method within the parameters'
//! bounds, [`bootstrap()`] their intervals. [`Quality`] is the error of a fit on points it has not
//! seen, [`compare`] the comparison with that of the plain model.

mod bootstrap;
mod models;
mod quality;
mod solve;

pub use bootstrap::{Bootstrap, Sampled, bootstrap};
pub use models::{
    FixedLatency, LinearModel, PlainModel, PowerModel, TableModel, Term, ThroughputModel,
    effective_clock,
};
pub use quality::{Comparison, Quality, compare, mape};
pub use solve::fit;

use serde::{Deserialize, Serialize};

/// Something with parameters that predicts a value from an input.
pub trait Model {
    /// The input of a prediction.
    type Input;
    /// The parameters in the form the prediction wants them.
    type Fitted;

    /// The parameters, in the order of the slices below.
    fn parameters(&self) -> Vec<Parameter>;

    /// The model with these values.
    fn with(&self, values: &[f64]) -> Self::Fitted;

    /// The value at an input.
    fn predict(fitted: &Self::Fitted, input: &Self::Input) -> f64;

    /// The difference that the fit makes small.
    fn residual(&self) -> Residual {
        Residual::Ratio
    }
}

/// A parameter to be found.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Its name in results and errors.
    pub name: String,
    /// Begin of the search; of the order of magnitude expected, and not zero.
    pub start: f64,
    /// The smallest value allowed.
    pub low: f64,
    /// The largest value allowed.
    pub high: f64,
}

impl Parameter {
    /// A parameter that is zero or more.
    pub fn positive(name: impl Into<String>, start: f64) -> Self {
        Parameter { name: name.into(), start, low: 0.0, high: f64::INFINITY }
    }

    /// A parameter of any value.
    pub fn free(name: impl Into<String>, start: f64) -> Self {
        Parameter { name: name.into(), start, low: f64::NEG_INFINITY, high: f64::INFINITY }
    }

    /// Limits it to values up to `high`.
    #[must_use]
    pub fn up_to(self, high: f64) -> Self {
        Parameter { high, ..self }
    }
}

/// A measured value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Observation<I> {
    /// The input at which it was measured.
    pub input: I,
    /// The value.
    pub value: f64,
    /// Its weight beside the others: the inverse of its variance, in units of the residuals. 1 if
    /// all are alike.
    pub weight: f64,
}

impl<I> Observation<I> {
    /// A value that counts as much as the others.
    pub fn new(input: I, value: f64) -> Self {
        Observation { input, value, weight: 1.0 }
    }
}

/// Difference between a prediction and a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Residual {
    /// By the logarithm of their ratio: errors grow with the value, as those
    /// of rates and times do. Values must be positive.
    Ratio,
    /// The relative difference of their inverses. For rates of models whose time is linear in the
    /// parameters: so is this, and the search cannot step over the solution to a region where a
    /// limit hides the parameters.
    Rate,
    /// By their difference.
    Difference,
}

impl Residual {
    pub(crate) fn between(self, measured: f64, predicted: f64) -> f64 {
        match self {
            Residual::Ratio => (measured / predicted).ln(),
            Residual::Rate => measured / predicted - 1.0,
            Residual::Difference => measured - predicted,
        }
    }

    /// The value that differs from the prediction by this residual.
    pub(crate) fn apply(self, predicted: f64, residual: f64) -> f64 {
        match self {
            Residual::Ratio => predicted * residual.exp(),
            Residual::Rate => predicted * (1.0 + residual),
            Residual::Difference => predicted + residual,
        }
    }
}

/// Weight of outliers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loss {
    /// Like all others.
    Square,
    /// Residuals beyond 1.345 standard deviations count linearly (Huber):
    /// 95 % as efficient as squares on normal noise.
    #[default]
    Huber,
}

/// Parameters found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    /// Names of the parameters.
    pub names: Vec<String>,
    /// Their values.
    pub values: Vec<f64>,
    /// The difference of each observation, in their order.
    pub residuals: Vec<f64>,
    /// The factor by which the robust loss reduced each observation.
    pub weights: Vec<f64>,
    /// Coefficient of determination (R²) of the values, unweighted.
    pub r_squared: f64,
}

impl Fit {
    /// The value of a parameter.
    pub fn get(&self, name: &str) -> Option<f64> {
        let at = self.names.iter().position(|known| known == name)?;
        Some(self.values[at])
    }
}

/// Parameters could not be found.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FitError {
    /// Fewer observations than parameters.
    #[error("{observations} observations cannot determine {parameters} parameters")]
    TooFew {
        /// Observations given.
        observations: usize,
        /// Parameters wanted.
        parameters: usize,
    },
    /// The observations say nothing of a parameter that the others do not say
    /// already.
    #[error("the observations do not determine {0} apart from the other parameters")]
    Undetermined(String),
    /// A value, a weight or a prediction is not finite, or not positive where
    /// it must be.
    #[error("observation {0} or its prediction is out of range")]
    Range(usize),
    /// The search ended without a result.
    #[error("the fit did not converge")]
    Diverged,
}
