//! The experiments that come with the program.

use super::{Experiment, ExperimentError};

/// Their texts, in the order of a run.
const TEXTS: &[&str] = &[
    include_str!("../../experiments/load.toml"),
    include_str!("../../experiments/io-cost.toml"),
    include_str!("../../experiments/burst.toml"),
    include_str!("../../experiments/burst-load.toml"),
    include_str!("../../experiments/frame-size.toml"),
    include_str!("../../experiments/direction.toml"),
    include_str!("../../experiments/poll-rate.toml"),
    include_str!("../../experiments/walk.toml"),
    include_str!("../../experiments/memory.toml"),
    include_str!("../../experiments/clock.toml"),
    include_str!("../../experiments/cores.toml"),
    include_str!("../../experiments/pipeline.toml"),
    include_str!("../../experiments/cluster.toml"),
    include_str!("../../experiments/ring-size.toml"),
    include_str!("../../experiments/vector.toml"),
    include_str!("../../experiments/elements.toml"),
    include_str!("../../experiments/latency.toml"),
    include_str!("../../experiments/inline.toml"),
    include_str!("../../experiments/batch-case.toml"),
];

/// The experiments that come with the program, with their texts.
pub fn builtin() -> Vec<(Experiment, &'static str)> {
    let parse = |text: &&'static str| {
        let experiment = Experiment::parse("built-in experiment", text);
        (experiment.expect("a test reads them all"), *text)
    };
    TEXTS.iter().map(parse).collect()
}

/// Returns the experiment of this name.
///
/// # Errors
///
/// When there is none; the error names those there are.
pub fn find(name: &str) -> Result<(Experiment, &'static str), ExperimentError> {
    let all = builtin();
    let known: Vec<String> = all.iter().map(|(experiment, _)| experiment.name.clone()).collect();
    all.into_iter().find(|(experiment, _)| experiment.name == name).ok_or_else(|| {
        let close =
            known.iter().find(|known| known.contains(name) || name.contains(known.as_str()));
        ExperimentError::Unknown {
            name: name.into(),
            hint: close.map(|close| format!("; did you mean {close}?")).unwrap_or_default(),
            known: known.join(", "),
        }
    })
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, time::Duration};

    use super::*;
    use crate::{
        experiment::{Role, roles},
        measure::element_classes,
        point::Point,
        runner::plan,
    };

    fn all() -> Vec<Experiment> {
        builtin().into_iter().map(|(experiment, _)| experiment).collect()
    }

    #[test]
    fn names_are_unique_and_found() {
        let names: BTreeSet<String> = all().into_iter().map(|one| one.name).collect();
        assert_eq!(names.len(), TEXTS.len());
        assert_eq!(find("burst").unwrap().0.name, "burst");
        let error = find("brst").unwrap_err().to_string();
        assert!(error.contains("there are load, io-cost"), "{error}");
        assert!(find("element").unwrap_err().to_string().contains("did you mean elements?"));
    }

    #[test]
    fn a_run_is_as_short_as_it_is_said_to_be() {
        // The time of a point besides its duration: threads, tables and memory are made, measured
        // as 25 ms on average.
        let besides = Duration::from_millis(50);
        for (quick, minutes) in [(false, 25), (true, 4)] {
            let plan = plan(&all(), quick).unwrap();
            let time: Duration =
                plan.iter().map(|one| Duration::from_millis(one.spec.duration_ms) + besides).sum();
            assert!(time < Duration::from_secs(minutes * 60), "{quick}: {time:?}, {}", plan.len());
        }
    }

    #[test]
    fn calibrating_experiments_hold_points_out() {
        let with: BTreeSet<String> = all()
            .into_iter()
            .filter(|experiment| {
                let has = |role| experiment.grid.iter().any(|grid| grid.role == role);
                assert_eq!(has(Role::Fit), has(Role::HeldOut), "{}", experiment.name);
                has(Role::HeldOut)
            })
            .map(|experiment| experiment.name)
            .collect();
        for name in [
            "load",
            "io-cost",
            "burst",
            "burst-load",
            "frame-size",
            "walk",
            "memory",
            "cores",
            "elements",
        ] {
            assert!(with.contains(name), "{name}");
        }
        let roles = roles(&all()).unwrap();
        assert!(roles.values().any(|role| *role == Role::HeldOut));
    }

    #[test]
    fn every_class_that_can_be_measured_is() {
        let measured: BTreeSet<String> = plan(&all(), false)
            .unwrap()
            .into_iter()
            .filter_map(|one| match one.spec.kind {
                Point::Element(element) => Some(element.class),
                _ => None,
            })
            .collect();
        let there: BTreeSet<String> = element_classes().map(str::to_owned).collect();
        assert_eq!(measured, there);
    }
}
