//! What elements cost: cycles per packet and per frame, each class by itself.

use std::collections::BTreeMap;

use linerate_model::{
    Cost, Estimate,
    fit::{Bootstrap, FitError, Loss, Model, Observation, Parameter, Residual, bootstrap},
};
use serde::{Deserialize, Serialize};

use super::drivers::LEVEL;
use crate::point::{Kind, Record, value};

/// What the engine takes to call one more element, among the elements.
pub const ENGINE: &str = "engine";
/// What the engine takes for each round in which it calls a source, among the elements.
pub const ROUND: &str = "round";
/// What an element takes more for each call in a graph of many, where others have had the first-level
/// caches since the last one, among the elements.
pub const COLD: &str = "cold";
/// The class in whose point the engine calls nothing but a source and the element.
pub const PLAIN: &str = "Discard";

/// `a + b / B`, in cycles per packet against packets at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CostModel;

impl Model for CostModel {
    type Input = f64;
    type Fitted = Cost;

    fn parameters(&self) -> Vec<Parameter> {
        vec![Parameter::positive("per packet", 10.0), Parameter::positive("per burst", 50.0)]
    }

    fn with(&self, values: &[f64]) -> Cost {
        Cost::new(values[0], values[1])
    }

    fn predict(fitted: &Cost, vector: &f64) -> f64 {
        fitted.at(linerate_model::units::Packets::new(*vector)).get()
    }

    fn residual(&self) -> Residual {
        // What an element takes is a difference of two measurements, and may
        // come out below zero.
        Residual::Difference
    }
}

/// What an element costs.
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
        let Kind::Element(element) = &record.spec.kind else { continue };
        let Some(cycles) = record.value(value::CYCLES) else { continue };
        let vector = record.value(value::VECTOR).unwrap_or(element.vector.into());
        // Errors grow with what is measured, which is largest in small frames.
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
    for (name, points_of) in [(ENGINE, engine), (ROUND, round)] {
        if !points_of.is_empty() {
            points.insert(name, points_of);
        }
    }
    points.into_iter().map(|(class, points)| (class.to_owned(), element(&points))).collect()
}

/// Fits one element.
pub fn element(points: &[Observation<f64>]) -> Result<ElementFit, FitError> {
    let draws = Bootstrap { samples: 100, seed: 1 };
    let sampled = bootstrap(&CostModel, points, Loss::Huber, draws)?;
    let estimate = |name| sampled.parameter(name, LEVEL).expect("a parameter of the model");
    Ok(ElementFit {
        cost: CostModel.with(&sampled.fit.values),
        per_packet: estimate("per packet"),
        per_frame: estimate("per burst"),
        samples: sampled.samples.iter().map(|values| CostModel.with(values)).collect(),
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
