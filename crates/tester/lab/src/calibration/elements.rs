//! Cost of elements: cycles per packet and per frame, each class by itself.

use std::collections::BTreeMap;

use linerate_model::{
    Cost, Estimate,
    fit::{Bootstrap, FitError, Loss, Model, Observation, Parameter, Residual, bootstrap},
};
use serde::{Deserialize, Serialize};

use super::drivers::LEVEL;
use crate::point::{Point, Record, value};

/// Name among the elements for the engine's cost of calling one more element.
pub const ENGINE: &str = "engine";
/// Name among the elements for the engine's cost of a round in which it calls a source.
pub const ROUND: &str = "round";
/// Name among the elements for the extra cost of a call whose code and data other elements have
/// evicted from the first-level caches.
pub const COLD: &str = "cold";
const PER_PACKET: &str = "per packet";
const PER_BURST: &str = "per burst";
/// Class of the point in which the engine calls a source and the element alone.
pub const PLAIN: &str = "Discard";

/// `a + b / B`, in cycles per packet against packets at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CostModel;

impl Model for CostModel {
    type Input = f64;
    type Fitted = Cost;

    fn parameters(&self) -> Vec<Parameter> {
        vec![Parameter::positive(PER_PACKET, 10.0), Parameter::positive(PER_BURST, 50.0)]
    }

    fn with(&self, values: &[f64]) -> Cost {
        Cost::new(values[0], values[1])
    }

    fn predict(fitted: &Cost, vector: &f64) -> f64 {
        fitted.at(linerate_model::units::Packets::new(*vector)).get()
    }

    fn residual(&self) -> Residual {
        // The cost of an element is a difference of two measurements, and may come out below zero.
        Residual::Difference
    }
}

/// `b / B`: the cost of a frame, whatever its content.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct CallModel;

impl Model for CallModel {
    type Input = f64;
    type Fitted = Cost;

    fn parameters(&self) -> Vec<Parameter> {
        vec![Parameter::positive(PER_BURST, 10.0)]
    }

    fn with(&self, values: &[f64]) -> Cost {
        Cost::new(0.0, values[0])
    }

    fn predict(fitted: &Cost, vector: &f64) -> f64 {
        CostModel::predict(fitted, vector)
    }

    fn residual(&self) -> Residual {
        CostModel.residual()
    }
}

/// The fitted cost of an element.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ElementFit {
    /// The best fit.
    pub cost: Cost,
    /// Cycles per packet.
    pub per_packet: Estimate<f64>,
    /// Cycles per frame.
    pub per_frame: Estimate<f64>,
    /// Costs as likely.
    pub samples: Vec<Cost>,
    /// Points it was fitted to.
    pub points: usize,
}

/// Fits all classes, and cases of classes, there are points of.
pub(super) fn elements(records: &[Record]) -> BTreeMap<String, Result<ElementFit, FitError>> {
    let mut points: BTreeMap<&str, Vec<Observation<f64>>> = BTreeMap::new();
    let (mut engine, mut round) = (Vec::new(), Vec::new());
    for record in records.iter().filter(|record| record.is_measured()) {
        let Point::Element(element) = &record.spec.kind else { continue };
        let Some(cycles) = record.value(value::CYCLES) else { continue };
        let vector = record.value(value::VECTOR).unwrap_or(element.vector.into());
        // Errors grow with the measured cycles, which are most in small frames.
        let weight = vector.sqrt();
        let point = Observation { input: vector, value: cycles, weight };
        points.entry(&element.class).or_default().push(point);
        if element.class != PLAIN {
            continue;
        }
        let observed = |value: f64| Observation { input: vector, value, weight };
        round.extend(record.value(value::ROUND).map(observed));
        engine.extend(record.value(value::ENGINE).map(observed));
    }
    let of_engine = [(ENGINE, engine), (ROUND, round)].into_iter();
    let of_engine = of_engine.filter(|(_, points)| !points.is_empty());
    let of_engine = of_engine.map(|(name, points)| (name.to_owned(), call(&points)));
    let classes = points.into_iter().map(|(class, points)| (class.to_owned(), element(&points)));
    classes.chain(of_engine).collect()
}

/// Fits one element.
pub fn element(points: &[Observation<f64>]) -> Result<ElementFit, FitError> {
    fitted(&CostModel, points)
}

/// Fits the engine's cost per frame.
pub fn call(points: &[Observation<f64>]) -> Result<ElementFit, FitError> {
    fitted(&CallModel, points)
}

fn fitted<M: Model<Input = f64, Fitted = Cost>>(
    model: &M,
    points: &[Observation<f64>],
) -> Result<ElementFit, FitError> {
    let draws = Bootstrap { samples: 100, seed: 1 };
    let sampled = bootstrap(model, points, Loss::Huber, draws)?;
    let nothing = Estimate { value: 0.0, low: 0.0, high: 0.0 };
    let estimate = |name| sampled.parameter(name, LEVEL).unwrap_or(nothing);
    Ok(ElementFit {
        cost: model.with(&sampled.fit.values),
        per_packet: estimate(PER_PACKET),
        per_frame: estimate(PER_BURST),
        samples: sampled.samples.iter().map(|values| model.with(values)).collect(),
        points: points.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_parts_are_found_with_their_intervals() {
        let mut random = fastrand::Rng::with_seed(3);
        let mut points = Vec::new();
        for vector in [1.0, 4.0, 16.0, 64.0, 256.0] {
            for _ in 0..4 {
                let noise = 1.0 + 0.02 * (random.f64() - 0.5);
                points.push(Observation::new(vector, (12.0 + 40.0 / vector) * noise));
            }
        }
        let found = element(&points).unwrap();
        assert!((found.cost.per_packet.get() - 12.0).abs() < 0.3, "{found:?}");
        assert!((found.cost.per_burst.get() - 40.0).abs() < 1.0, "{found:?}");
        assert!(found.per_packet.low <= 12.05 && 11.95 <= found.per_packet.high, "{found:?}");
        let error = element(&points[..4]).unwrap_err();
        assert!(matches!(error, FitError::Undetermined(_)), "{error}");
    }
}
