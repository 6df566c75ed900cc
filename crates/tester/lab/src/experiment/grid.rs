//! From grids to points.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Experiment, ExperimentError, Grid, Role};
use crate::point::{Key, Spec};

/// Longest a point of a quick run is measured.
const QUICK_MS: u64 = 40;

/// A point to be measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    /// The experiment it is for.
    pub experiment: String,
    /// The point.
    pub spec: Spec,
    /// Its part in fits.
    pub role: Role,
}

impl Experiment {
    /// Its points, one repetition after the other, each key once.
    ///
    /// # Errors
    ///
    /// When a combination of parameters is no point, or a point is both fitted
    /// to and held out.
    pub fn points(&self, quick: bool) -> Result<Vec<Planned>, ExperimentError> {
        let mut planned: Vec<Planned> = Vec::new();
        let mut seen: BTreeMap<Key, Role> = BTreeMap::new();
        for (index, grid) in self.grid.iter().enumerate() {
            let wrong = |reason: String| ExperimentError::Point {
                experiment: self.name.clone(),
                grid: index + 1,
                reason,
            };
            if quick && !grid.in_quick {
                continue;
            }
            for spec in self.grid_points(grid, quick).map_err(wrong)? {
                match seen.insert(spec.key(), grid.role) {
                    None => planned.push(Planned {
                        experiment: self.name.clone(),
                        spec,
                        role: grid.role,
                    }),
                    Some(role) if role == grid.role => {}
                    Some(role) => {
                        let reason = format!(
                            "{} is in two grids, as {role:?} and {:?}",
                            spec.canonical(),
                            grid.role
                        );
                        return Err(wrong(reason));
                    }
                }
            }
        }
        planned.sort_by_key(|point| point.spec.repetition);
        Ok(planned)
    }

    fn grid_points(&self, grid: &Grid, quick: bool) -> Result<Vec<Spec>, String> {
        let unknown = grid.quick.keys().find(|name| !grid.vary.contains_key(*name));
        if let Some(name) = unknown {
            return Err(format!("`quick` has {name}, which `vary` has not"));
        }
        let repetitions = match (quick, grid.repetitions.unwrap_or(self.repetitions)) {
            (_, 0) => return Err("0 repetitions measure nothing".into()),
            (true, _) => 1,
            (false, repetitions) => repetitions,
        };
        let duration_ms = if quick { self.duration_ms.min(QUICK_MS) } else { self.duration_ms };
        let mut specs = Vec::new();
        for repetition in 0..repetitions {
            for mut parameters in combinations(grid, quick) {
                let mut default = |name: &str, value: Value| {
                    parameters.entry(name).or_insert(value);
                };
                default("repetition", repetition.into());
                default("seed", (self.seed + u64::from(repetition)).into());
                default("duration_ms", duration_ms.into());
                let spec = Spec::deserialize(Value::Object(parameters));
                specs.push(spec.map_err(|error| error.to_string())?);
            }
        }
        Ok(specs)
    }
}

/// Every case with every combination of varied values.
fn combinations(grid: &Grid, quick: bool) -> Vec<Map<String, Value>> {
    let common: Map<String, Value> = grid.point.clone().into_iter().collect();
    let mut all: Vec<Map<String, Value>> = match grid.cases.as_slice() {
        [] => vec![common],
        cases => cases
            .iter()
            .map(|case| common.clone().into_iter().chain(case.clone()).collect())
            .collect(),
    };
    for (name, values) in &grid.vary {
        let values = grid.quick.get(name).filter(|_| quick).unwrap_or(values);
        all = all
            .iter()
            .flat_map(|parameters| {
                values.iter().map(|value| {
                    let mut parameters = parameters.clone();
                    parameters.insert(name.clone(), value.clone());
                    parameters
                })
            })
            .collect();
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str =
        "name = 'x'\ntitle = 'X'\nabout = ''\nexpect = ''\nrepetitions = 2\nduration_ms = 100\n";

    fn parse(grids: &str) -> Result<Experiment, String> {
        Experiment::parse("x.toml", &format!("{HEAD}{grids}")).map_err(|error| error.to_string())
    }

    #[test]
    fn a_grid_has_all_combinations_in_order_of_repetition() {
        let experiment = parse(
            "[[grid]]\npoint = { kind = 'forward' }\ncases = [{driver = 'null'}, {driver = 'ring'}]\n\
             vary = { burst = [1, 2, 4], work = [0, 5] }\nquick = { burst = [4] }\n\
             [[grid]]\nrole = 'held-out'\nin_quick = false\nrepetitions = 1\n\
             point = { kind = 'receive', burst = 3 }\n",
        )
        .unwrap();
        let points = experiment.points(false).unwrap();
        assert_eq!(points.len(), 2 * 12 + 1);
        assert!(points.is_sorted_by_key(|point| point.spec.repetition));
        assert!(points.iter().all(|point| point.spec.duration_ms == 100));
        let seeds: Vec<u64> = points.iter().map(|point| point.spec.seed).collect();
        assert_eq!((seeds[0], seeds[24]), (1, 2));
        let quick = experiment.points(true).unwrap();
        assert_eq!(quick.len(), 4);
        assert!(quick.iter().all(|point| point.spec.duration_ms == QUICK_MS));
    }

    #[test]
    fn errors_of_a_grid_are_named() {
        for (grids, part) in [
            ("[[grid]]\npoint = { kind = 'forward', brust = 1 }", "grid 1: unknown field `brust`"),
            ("[[grid]]\npoint = { kind = 'forward' }\nvary = { burst = ['a'] }", "invalid type"),
            ("[[grid]]\npoint = { kind = 'forward' }\nvarry = {}", "unknown field `varry`"),
            ("[[grid]]\npoint = { kind = 'walk' }", "missing field `bytes`"),
            (
                "[[grid]]\npoint = { kind = 'forward' }\nquick = { burst = [1] }",
                "which `vary` has not",
            ),
            ("[[grid]]\npoint = { kind = 'forward' }\nrepetitions = 0", "0 repetitions"),
            ("grid = 3", "invalid type"),
        ] {
            let error = parse(grids).unwrap_err();
            assert!(error.contains(part), "{grids}: {error}");
        }
        let named = HEAD.replace("'x'", "'x/y'") + "grid = []";
        assert!(Experiment::parse("f", &named).unwrap_err().to_string().contains("is no name"));
    }

    #[test]
    fn a_point_is_not_both_fitted_to_and_held_out() {
        let error = parse(
            "[[grid]]\nrole = 'fit'\npoint = { kind = 'forward' }\nvary = { burst = [1, 2] }\n\
             [[grid]]\nrole = 'held-out'\npoint = { kind = 'forward' }\nvary = { burst = [2, 3] }\n",
        )
        .unwrap_err();
        assert!(error.contains("grid 2") && error.contains("is in two grids"), "{error}");
    }
}
