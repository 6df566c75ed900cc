//! The line that is kept of a point.

use std::{collections::BTreeMap, time::SystemTime};

use serde::{Deserialize, Serialize};

use super::{Key, Spec};

/// Figures by name. A name ends in its unit where it is not obvious.
pub type Values = BTreeMap<String, f64>;

/// Outcome of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// There are figures.
    Measured,
    /// A run without a usable result: the generator was the limit, or it failed.
    Void,
    /// This machine cannot do it.
    Unsupported,
}

/// A line of a results directory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The key of the spec.
    pub key: Key,
    /// The experiment it was first asked for by; empty for a point alone.
    pub experiment: String,
    /// The measured point.
    pub spec: Spec,
    /// The `id` of the machine's description.
    pub machine: String,
    /// The version of Linerate.
    pub version: String,
    /// Time of the measurement, UTC, RFC 3339.
    pub time: String,
    /// The command that measures it again.
    pub command: String,
    /// The outcome.
    pub outcome: Outcome,
    /// The reason why there are no figures.
    pub reason: Option<String>,
    /// The figures: none unless measured.
    pub values: Values,
}

impl Record {
    /// A record of now, with the result of a measurement.
    pub fn new(
        spec: Spec,
        experiment: &str,
        machine: &str,
        (outcome, reason, values): (Outcome, Option<String>, Values),
    ) -> Record {
        Record {
            key: spec.key(),
            experiment: experiment.into(),
            command: spec.command(),
            spec,
            machine: machine.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            time: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            outcome,
            reason,
            values,
        }
    }

    /// A figure.
    pub fn value(&self, name: &str) -> Option<f64> {
        self.values.get(name).copied()
    }

    /// Returns true if there are figures.
    pub fn is_measured(&self) -> bool {
        self.outcome == Outcome::Measured
    }
}
