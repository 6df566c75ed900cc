//! Quality of a model's predictions.

use serde::{Deserialize, Serialize};

use super::{Fit, FitError, Loss, Model, Observation, solve::fit};

/// Mean absolute percentage error of predictions, as a share (0.1 for 10 %).
/// NaN without points.
pub fn mape(measured: &[f64], predicted: &[f64]) -> f64 {
    let errors = measured.iter().zip(predicted).map(|(one, other)| ((other - one) / one).abs());
    errors.sum::<f64>() / measured.len() as f64
}

/// Coefficient of determination: the share of the values' variance that the
/// predictions explain. 1 if the values are all alike and met.
pub(super) fn r_squared(measured: &[f64], predicted: &[f64]) -> f64 {
    let mean = measured.iter().sum::<f64>() / measured.len() as f64;
    let total: f64 = measured.iter().map(|value| (value - mean).powi(2)).sum();
    let left: f64 = measured.iter().zip(predicted).map(|(one, other)| (one - other).powi(2)).sum();
    if total > 0.0 { 1.0 - left / total } else { 1.0 - left }
}

/// Errors of a fit on some points.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quality {
    /// Mean absolute percentage error, as a share.
    pub mape: f64,
    /// The largest error, as a share.
    pub worst: f64,
    /// Coefficient of determination.
    pub r_squared: f64,
    /// Number of points.
    pub points: usize,
}

impl Quality {
    /// Errors of these parameters on the points, which should not be those they were found from.
    pub fn evaluate<M: Model>(model: &M, fit: &Fit, points: &[Observation<M::Input>]) -> Self {
        let fitted = model.with(&fit.values);
        let measured: Vec<f64> = points.iter().map(|point| point.value).collect();
        let predicted: Vec<f64> =
            points.iter().map(|point| M::predict(&fitted, &point.input)).collect();
        let worst = measured
            .iter()
            .zip(&predicted)
            .map(|(one, other)| ((other - one) / one).abs())
            .fold(0.0, f64::max);
        Quality {
            mape: mape(&measured, &predicted),
            worst,
            r_squared: r_squared(&measured, &predicted),
            points: points.len(),
        }
    }
}

/// Two models on the same points.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The first model's parameters.
    pub fit: Fit,
    /// Errors of the first model on the points held out.
    pub held_out: Quality,
    /// The second model's parameters.
    pub other: Fit,
    /// Errors of the other model on them.
    pub other_held_out: Quality,
}

impl Comparison {
    /// Returns true if the first model is the better one.
    pub fn is_better(&self) -> bool {
        self.held_out.mape < self.other_held_out.mape
    }
}

/// Fits two models to the same points and lets both predict others.
///
/// The other model is fitted by plain squares: a robust fit would take the
/// points it does not explain for outliers.
pub fn compare<M: Model, O: Model<Input = M::Input>>(
    model: &M,
    other: &O,
    train: &[Observation<M::Input>],
    held_out: &[Observation<M::Input>],
    loss: Loss,
) -> Result<Comparison, FitError> {
    let fitted = fit(model, train, loss)?;
    let other_fitted = fit(other, train, Loss::Square)?;
    Ok(Comparison {
        held_out: Quality::evaluate(model, &fitted, held_out),
        fit: fitted,
        other_held_out: Quality::evaluate(other, &other_fitted, held_out),
        other: other_fitted,
    })
}
