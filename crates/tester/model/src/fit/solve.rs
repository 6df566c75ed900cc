//! Least squares: rmpfit's Levenberg-Marquardt inside a loop that lowers the
//! weight of outliers.

use rmpfit::{MPConfig, MPError, MPFitter, MPPar, MPResult, MPSuccess};

use super::{Fit, FitError, Loss, Model, Observation, Parameter, quality};

/// Distance at which Huber's loss leaves the square, in standard deviations.
const HUBER: f64 = 1.345;
/// The share of points that are taken to be no outliers. Their spread is the measure of noise, and
/// not the median's: half of a sweep may lie on a limit of link or card, where residuals are small
/// with any parameters.
const SOUND: f64 = 0.75;
/// Quantile at `SOUND` of the absolute value of a standard normal variable.
const SOUND_NORMAL: f64 = 1.1503;
/// A column of the Jacobian matrix that is this much shorter after the others
/// were taken out of it says nothing of its own. Derivatives by differences
/// are exact to about 1e-8.
const DEPENDENT: f64 = 1e-5;

/// Finds the parameters of a model.
///
/// A parameter may end on one of its bounds. Cost: some tens of predictions
/// for each observation and parameter, times some rounds for outliers.
pub fn fit<M: Model>(
    model: &M,
    observations: &[Observation<M::Input>],
    loss: Loss,
) -> Result<Fit, FitError> {
    let parameters = model.parameters();
    let start: Vec<f64> = parameters.iter().map(|parameter| parameter.start).collect();
    let values: Vec<f64> = observations.iter().map(|observation| observation.value).collect();
    let problem = Problem { model, observations, loss, parameters };
    problem.solve(&values, &start, true)
}

/// A model with the observations of its fit; the values themselves vary in a bootstrap.
pub(super) struct Problem<'a, M: Model> {
    pub(super) model: &'a M,
    pub(super) observations: &'a [Observation<M::Input>],
    pub(super) loss: Loss,
    pub(super) parameters: Vec<Parameter>,
}

impl<M: Model> Problem<'_, M> {
    /// Fits to `values`, beginning at `start`.
    pub(super) fn solve(
        &self,
        values: &[f64],
        start: &[f64],
        check: bool,
    ) -> Result<Fit, FitError> {
        if values.len() < self.parameters.len() {
            return Err(FitError::TooFew {
                observations: values.len(),
                parameters: self.parameters.len(),
            });
        }
        let mut weights = vec![1.0; values.len()];
        let mut found = self.minimise(values, start, &weights)?;
        if self.loss == Loss::Huber {
            for _ in 0..30 {
                let residuals = self.residuals(values, &found)?;
                let Some(next) = self.huber(&residuals) else { break };
                let moved = next.iter().zip(&weights).any(|(new, old)| (new - old).abs() > 1e-4);
                if !moved {
                    break;
                }
                weights = next;
                found = self.minimise(values, &found, &weights)?;
            }
        }
        if check {
            self.check_determined(values, &found)?;
        }
        let residuals = self.residuals(values, &found)?;
        let predictions = self.predictions(&found);
        Ok(Fit {
            names: self.parameters.iter().map(|parameter| parameter.name.clone()).collect(),
            r_squared: quality::r_squared(values, &predictions),
            values: found,
            residuals,
            weights,
        })
    }

    pub(super) fn predictions(&self, parameters: &[f64]) -> Vec<f64> {
        let fitted = self.model.with(parameters);
        self.observations
            .iter()
            .map(|observation| M::predict(&fitted, &observation.input))
            .collect()
    }

    fn residuals(&self, values: &[f64], parameters: &[f64]) -> Result<Vec<f64>, FitError> {
        let residuals: Vec<f64> = values
            .iter()
            .zip(self.predictions(parameters))
            .map(|(&value, predicted)| self.model.residual().between(value, predicted))
            .collect();
        let weight = |at: usize| self.observations[at].weight;
        let bad =
            |&at: &usize| !residuals[at].is_finite() || !weight(at).is_finite() || weight(at) < 0.0;
        match (0..residuals.len()).find(bad) {
            Some(at) => Err(FitError::Range(at)),
            None => Ok(residuals),
        }
    }

    /// Weights for residuals, or `None` if most of them are zero.
    fn huber(&self, residuals: &[f64]) -> Option<Vec<f64>> {
        let sizes: Vec<f64> = residuals
            .iter()
            .zip(self.observations)
            .map(|(residual, observation)| residual.abs() * observation.weight.sqrt())
            .collect();
        let mut sorted = sizes.clone();
        sorted.sort_by(f64::total_cmp);
        let deviation = crate::quantile(&sorted, SOUND)? / SOUND_NORMAL;
        let bend = HUBER * deviation;
        (deviation > 1e-12).then(|| {
            sizes.iter().map(|&size| if size > bend { bend / size } else { 1.0 }).collect()
        })
    }

    fn minimise(
        &self,
        values: &[f64],
        start: &[f64],
        weights: &[f64],
    ) -> Result<Vec<f64>, FitError> {
        // Checked here, because the solver only says that something was wrong.
        self.residuals(values, start)?;
        let scales: Vec<f64> = self.parameters.iter().map(scale).collect();
        let mut solver = Solver { problem: self, values, weights, scales: &scales, bounds: vec![] };
        solver.bounds = self.parameters.iter().zip(&scales).map(bounds).collect();
        let mut found: Vec<f64> =
            start.iter().zip(&scales).map(|(value, scale)| value / scale).collect();
        let status = solver.mpfit(&mut found).map_err(|_| FitError::Diverged)?;
        if status.success == MPSuccess::NotDone || found.iter().any(|value| !value.is_finite()) {
            return Err(FitError::Diverged);
        }
        Ok(found.iter().zip(&scales).map(|(value, scale)| value * scale).collect())
    }

    /// Checks that each parameter changes the predictions in a way of its own, by orthogonalising
    /// the columns of the Jacobian matrix (Gram-Schmidt).
    fn check_determined(&self, values: &[f64], found: &[f64]) -> Result<(), FitError> {
        let residual = self.model.residual();
        let at = |parameters: &[f64]| -> Vec<f64> {
            let predictions = self.predictions(parameters).into_iter().zip(values);
            predictions.map(|(predicted, &value)| residual.between(value, predicted)).collect()
        };
        let centre = at(found);
        let mut columns: Vec<Vec<f64>> = Vec::new();
        for (index, parameter) in self.parameters.iter().enumerate() {
            let step = 1e-6 * scale(parameter).max(found[index].abs());
            let step = if found[index] + step > parameter.high { -step } else { step };
            let mut moved = found.to_vec();
            moved[index] += step;
            let mut column: Vec<f64> =
                at(&moved).iter().zip(&centre).map(|(new, old)| (new - old) / step).collect();
            let whole = length(&column);
            for known in &columns {
                let share: f64 = known.iter().zip(&column).map(|(one, other)| one * other).sum();
                column.iter_mut().zip(known).for_each(|(value, known)| *value -= share * known);
            }
            let rest = length(&column);
            if whole == 0.0 || rest < DEPENDENT * whole {
                return Err(FitError::Undetermined(parameter.name.clone()));
            }
            column.iter_mut().for_each(|value| *value /= rest);
            columns.push(column);
        }
        Ok(())
    }
}

fn length(column: &[f64]) -> f64 {
    column.iter().map(|value| value * value).sum::<f64>().sqrt()
}

/// The solver sees all parameters near 1, so that its steps suit cycles and
/// nanoseconds alike.
fn scale(parameter: &Parameter) -> f64 {
    match parameter.start.abs() {
        size if size > 0.0 && size.is_finite() => size,
        _ => 1.0,
    }
}

fn bounds((parameter, scale): (&Parameter, &f64)) -> MPPar {
    MPPar {
        limited_low: parameter.low.is_finite(),
        limit_low: if parameter.low.is_finite() { parameter.low / scale } else { 0.0 },
        limited_up: parameter.high.is_finite(),
        limit_up: if parameter.high.is_finite() { parameter.high / scale } else { 0.0 },
        ..MPPar::new()
    }
}

static CONFIG: MPConfig = MPConfig { max_iter: 500, ..MPConfig::new() };

struct Solver<'a, M: Model> {
    problem: &'a Problem<'a, M>,
    values: &'a [f64],
    weights: &'a [f64],
    scales: &'a [f64],
    bounds: Vec<MPPar>,
}

impl<M: Model> MPFitter for Solver<'_, M> {
    fn eval(&mut self, scaled: &[f64], deviates: &mut [f64]) -> MPResult<()> {
        let parameters: Vec<f64> =
            scaled.iter().zip(self.scales).map(|(value, scale)| value * scale).collect();
        let residuals =
            self.problem.residuals(self.values, &parameters).map_err(|_| MPError::Nan)?;
        for (index, deviate) in deviates.iter_mut().enumerate() {
            let weight = self.problem.observations[index].weight * self.weights[index];
            *deviate = residuals[index] * weight.sqrt();
        }
        Ok(())
    }

    fn number_of_points(&self) -> usize {
        self.values.len()
    }

    fn config(&self) -> &MPConfig {
        &CONFIG
    }

    fn parameters(&self) -> &[MPPar] {
        &self.bounds
    }
}
