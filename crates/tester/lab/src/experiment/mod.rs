//! Experiments: which points to measure, how often, and what is expected of
//! them.
//!
//! ```toml
//! name = "burst"
//! title = "Throughput against burst size"
//! about = "What is spent per burst is shared by more packets in a larger one."
//! expect = "Rises, and is within 10 % of its best by 32 to 64."
//! criteria = [1]
//! repetitions = 3
//! duration_ms = 60
//!
//! [[grid]]
//! role = "fit"                        # what the model is fitted to
//! point = { kind = "forward", driver = "ring" }
//! vary = { burst = [1, 4, 16, 64], work = [0, 100] }
//! quick = { burst = [1, 64] }         # with --quick, in place of the above
//!
//! [[grid]]
//! role = "held-out"                   # what it must predict
//! point = { kind = "forward", driver = "ring" }
//! vary = { burst = [2, 8, 32], work = [50] }
//! in_quick = false
//! ```
//!
//! A grid has a point for every combination of its `cases`, which are sets of
//! parameters, and of the values in `vary`.

mod builtin;
mod grid;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use builtin::{builtin, find};
pub use grid::Planned;

use crate::{
    point::Key,
    store::{EXPERIMENTS, Store, StoreError},
};

/// The part of points in fits.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// They are shown.
    #[default]
    Show,
    /// The model is fitted to them.
    Fit,
    /// The model must predict them, and has not seen them.
    HeldOut,
}

/// An experiment as it is written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Its name: letters, digits and hyphens.
    pub name: String,
    /// Its title.
    pub title: String,
    /// Its subject, in a sentence.
    pub about: String,
    /// The expected outcome.
    pub expect: String,
    /// Shape criteria it serves, by number.
    #[serde(default)]
    pub criteria: Vec<u32>,
    /// Times each point is measured.
    pub repetitions: u32,
    /// Milliseconds for which a point is measured.
    pub duration_ms: u64,
    /// Seed of everything random; each repetition has another one.
    #[serde(default = "one")]
    pub seed: u64,
    /// The points.
    pub grid: Vec<Grid>,
}

const fn one() -> u64 {
    1
}

/// Points of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grid {
    /// Their part in fits.
    #[serde(default)]
    pub role: Role,
    /// Parameters all of them have, their kind among them.
    pub point: BTreeMap<String, Value>,
    /// Sets of parameters, each of which is combined with all of `vary`.
    #[serde(default)]
    pub cases: Vec<BTreeMap<String, Value>>,
    /// Values of parameters, all combinations of which are measured.
    #[serde(default)]
    pub vary: BTreeMap<String, Vec<Value>>,
    /// Values in place of those of `vary` when a run is to be quick.
    #[serde(default)]
    pub quick: BTreeMap<String, Vec<Value>>,
    /// Set when a quick run has these points.
    #[serde(default = "yes")]
    pub in_quick: bool,
    /// Another number of repetitions.
    #[serde(default)]
    pub repetitions: Option<u32>,
}

const fn yes() -> bool {
    true
}

/// An experiment that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExperimentError {
    /// The file cannot be read.
    #[error("cannot read {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The text is wrong.
    #[error("{name}: {reason}")]
    Text {
        /// The file or experiment.
        name: String,
        /// The mistake.
        reason: String,
    },
    /// A point of it is wrong.
    #[error("experiment {experiment}, grid {grid}: {reason}")]
    Point {
        /// The experiment.
        experiment: String,
        /// Number of the grid, from 1 on.
        grid: usize,
        /// The mistake.
        reason: String,
    },
    /// There is none of that name.
    #[error("no experiment is called {name}{hint}: there are {known}")]
    Unknown {
        /// The name.
        name: String,
        /// `; did you mean ...?`, or nothing.
        hint: String,
        /// The experiments there are.
        known: String,
    },
}

impl Experiment {
    /// Reads an experiment. `name` is the file, for messages.
    ///
    /// # Errors
    ///
    /// When the text is not TOML, has unknown fields, lacks some, or has points
    /// that are none.
    pub fn parse(name: &str, text: &str) -> Result<Experiment, ExperimentError> {
        let wrong = |reason: String| ExperimentError::Text { name: name.into(), reason };
        let experiment: Experiment =
            toml::from_str(text).map_err(|error| wrong(error.to_string().trim_end().into()))?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if experiment.name.is_empty() || !experiment.name.bytes().all(plain) {
            return Err(wrong(format!(
                "{:?} is no name: letters, digits and hyphens",
                experiment.name
            )));
        }
        for quick in [false, true] {
            experiment.points(quick)?;
        }
        Ok(experiment)
    }

    /// Reads an experiment from a file.
    ///
    /// # Errors
    ///
    /// As [`Experiment::parse`], and when the file cannot be read.
    pub fn open(path: &Path) -> Result<(Experiment, String), ExperimentError> {
        let text = fs::read_to_string(path)
            .map_err(|source| ExperimentError::File { path: path.into(), source })?;
        let experiment = Experiment::parse(&path.display().to_string(), &text)?;
        Ok((experiment, text))
    }

    /// Keeps a copy of its text beside results.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn keep(&self, text: &str, store: &Store) -> Result<(), StoreError> {
        store.write(&format!("{EXPERIMENTS}/{}.toml", self.name), text.as_bytes())
    }
}

/// The experiments a results directory was made by.
///
/// # Errors
///
/// When they cannot be read.
pub fn kept(dir: &Path) -> Result<Vec<Experiment>, ExperimentError> {
    let folder = dir.join(EXPERIMENTS);
    let failed = |source| ExperimentError::File { path: folder.clone(), source };
    let mut experiments = Vec::new();
    for entry in fs::read_dir(&folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            experiments.push(Experiment::open(&path)?.0);
        }
    }
    experiments.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(experiments)
}

/// The part in fits of the experiments' points, in quick and in full runs. A point that any of them
/// holds out is held out.
///
/// # Errors
///
/// When the parameters of one make no point.
pub fn roles(experiments: &[Experiment]) -> Result<BTreeMap<Key, Role>, ExperimentError> {
    let mut roles = BTreeMap::new();
    for experiment in experiments {
        for quick in [false, true] {
            for Planned { spec, role, .. } in experiment.points(quick)? {
                let known = roles.entry(spec.key()).or_insert(role);
                *known = role.max(*known);
            }
        }
    }
    Ok(roles)
}
