//! Carrying out experiments: point after point, into a results directory.
//!
//! Points are in the order of their repetitions, so that what drifts while a run
//! goes on is in all of an experiment's points alike, and an interrupted run has
//! something of everything. What is in the directory already is not measured
//! again.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use crate::{
    experiment::{Experiment, ExperimentError, Planned},
    measure::Bench,
    point::Record,
    store::{Store, StoreError},
};

/// The points of experiments in the order they are measured in, each once.
///
/// # Errors
///
/// When an experiment has something that is no point.
pub fn plan(experiments: &[Experiment], quick: bool) -> Result<Vec<Planned>, ExperimentError> {
    let mut all = Vec::new();
    for experiment in experiments {
        all.extend(experiment.points(quick)?);
    }
    // Stable: within a repetition the experiments' order stays.
    all.sort_by_key(|planned| planned.spec.repetition);
    let mut seen = BTreeSet::new();
    all.retain(|planned| seen.insert(planned.spec.key()));
    Ok(all)
}

/// How far a run has come.
#[derive(Debug)]
pub struct Step<'a> {
    /// The point just measured.
    pub record: &'a Record,
    /// Points of the plan that are in the directory.
    pub done: usize,
    /// Points of the plan.
    pub total: usize,
    /// Time the rest is expected to take, by what this run's points took.
    pub left: Duration,
}

/// What came of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ran {
    /// Points measured now.
    pub measured: usize,
    /// Points that were there before.
    pub skipped: usize,
    /// Points left, because it was stopped.
    pub left: usize,
}

/// Measures what of `plan` is not in `store` yet. `step` is told of every point;
/// when `stop` says so the run ends before the next one.
///
/// # Errors
///
/// When a point cannot be kept.
pub fn run(
    plan: &[Planned],
    store: &mut Store,
    machine: &str,
    stop: impl Fn() -> bool,
    mut step: impl FnMut(&Step<'_>),
) -> Result<Ran, StoreError> {
    let to_do: Vec<&Planned> = plan.iter().filter(|one| !store.has(&one.spec.key())).collect();
    let skipped = plan.len() - to_do.len();
    let bench = Bench::new();
    let start = Instant::now();
    // By their durations, which the points are measured for at least.
    let asked = |points: &[&Planned]| points.iter().map(|one| one.spec.duration_ms).sum::<u64>();
    for (measured, planned) in to_do.iter().enumerate() {
        if stop() {
            return Ok(Ran { measured, skipped, left: to_do.len() - measured });
        }
        let outcome = bench.measure(&planned.spec);
        let record = Record::new(planned.spec.clone(), &planned.experiment, machine, outcome);
        store.append(&record)?;
        let (before, after) = to_do.split_at(measured + 1);
        let pace = start.elapsed().as_secs_f64() / asked(before).max(1) as f64;
        step(&Step {
            record: &record,
            done: skipped + measured + 1,
            total: plan.len(),
            left: Duration::from_secs_f64(pace * asked(after) as f64),
        });
    }
    Ok(Ran { measured: to_do.len(), skipped, left: 0 })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::{point::Key, store::read};

    fn experiment(name: &str, bursts: &str) -> Experiment {
        let text = format!(
            "name = '{name}'\ntitle = ''\nabout = ''\nexpect = ''\nrepetitions = 2\n\
             duration_ms = 1\n[[grid]]\npoint = {{ kind = 'load' }}\nvary = {{ cycles = {bursts} }}\n"
        );
        Experiment::parse(name, &text).unwrap()
    }

    fn keys(dir: &std::path::Path) -> BTreeSet<Key> {
        read(dir).unwrap().into_iter().map(|record| record.key).collect()
    }

    #[test]
    fn experiments_take_turns_and_share_points() {
        let plan = plan(&[experiment("a", "[1, 2]"), experiment("b", "[2, 3]")], false).unwrap();
        let order: Vec<(&str, u32)> =
            plan.iter().map(|one| (one.experiment.as_str(), one.spec.repetition)).collect();
        assert_eq!(order, [("a", 0), ("a", 0), ("b", 0), ("a", 1), ("a", 1), ("b", 1)]);
    }

    #[test]
    fn an_interrupted_run_goes_on_to_the_same_points() {
        let plan = plan(&[experiment("a", "[1, 2, 3]")], false).unwrap();
        let whole = tempfile::tempdir().unwrap();
        let mut store = Store::open(whole.path()).unwrap();
        let mut steps = Vec::new();
        let ran = run(&plan, &mut store, "m", || false, |step| steps.push((step.done, step.total)));
        assert_eq!(ran.unwrap(), Ran { measured: 6, skipped: 0, left: 0 });
        assert_eq!((steps.len(), steps[0], steps[5]), (6, (1, 6), (6, 6)));

        let broken = tempfile::tempdir().unwrap();
        let calls = Cell::new(0);
        let stop = || calls.replace(calls.get() + 1) == 4;
        let mut store = Store::open(broken.path()).unwrap();
        let ran = run(&plan, &mut store, "m", stop, |_| ()).unwrap();
        assert_eq!(ran, Ran { measured: 4, skipped: 0, left: 2 });
        drop(store);
        assert_eq!(keys(broken.path()).len(), 4);
        let mut store = Store::open(broken.path()).unwrap();
        let ran = run(&plan, &mut store, "m", || false, |_| ()).unwrap();
        assert_eq!(ran, Ran { measured: 2, skipped: 4, left: 0 });
        assert_eq!(keys(broken.path()), keys(whole.path()));
        assert_eq!(read(broken.path()).unwrap().len(), 6);
    }
}
