//! Carrying out experiments: point after point, into a results directory.
//!
//! Points are in the order of their repetitions, so that drift during a run is in all of an
//! experiment's points alike, and an interrupted run has something of everything. A point with
//! figures in the directory is not measured again. One without is: a machine may be quieter now, or
//! its user another one.

use std::{
    collections::{BTreeSet, VecDeque},
    io,
    time::{Duration, Instant},
};

use crate::{
    experiment::{Experiment, ExperimentError, Planned},
    measure::Measured,
    point::{Outcome, Record},
    store::{Store, StoreError},
};

/// Times a point that stays void is measured in a run, the second time after all
/// others.
const TRIES: u32 = 2;

/// The reason why a run cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum RunnerError {
    /// A point cannot be kept.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Points cannot be measured at all.
    #[error("cannot start what measures")]
    Measure(#[from] io::Error),
}

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

/// Progress of a run.
#[derive(Debug)]
pub struct Step<'a> {
    /// The point just measured.
    pub record: &'a Record,
    /// Points of the plan that are done with.
    pub done: usize,
    /// Points of the plan.
    pub total: usize,
    /// Expected time of the rest, by the points of this run.
    pub left: Duration,
}

/// Counts of a run's points by outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunSummary {
    /// Points of which something new is known.
    pub measured: usize,
    /// Points of which everything was known.
    pub skipped: usize,
    /// Points left, because it was stopped.
    pub left: usize,
}

/// Measures the points of `plan` without figures in `store`; a point that is void twice, the second
/// time at the end, is left so. `measure` returns the result of a point, or nothing when the user
/// wants no more. `step` is told of every point.
///
/// # Errors
///
/// When points cannot be measured or kept.
pub fn run(
    plan: &[Planned],
    store: &mut Store,
    machine: &str,
    mut measure: impl FnMut(&Planned) -> io::Result<Option<Measured>>,
    mut step: impl FnMut(&Step<'_>),
) -> Result<RunSummary, RunnerError> {
    let has_figures = |one: &&Planned| store.outcome(&one.spec.key()) == Some(Outcome::Measured);
    let mut to_do: VecDeque<(&Planned, u32)> =
        plan.iter().filter(|one| !has_figures(one)).map(|one| (one, 1)).collect();
    let mut new = BTreeSet::new();
    let ran = |new: &BTreeSet<_>, left| RunSummary {
        measured: new.len(),
        skipped: plan.len() - new.len() - left,
        left,
    };
    // By their durations, which the points are measured for at least.
    let (start, mut asked) = (Instant::now(), 0);
    let mut ahead: u64 = to_do.iter().map(|(one, _)| one.spec.duration_ms).sum();
    while let Some((planned, tries)) = to_do.pop_front() {
        let Some(measured) = measure(planned)? else {
            to_do.push_front((planned, tries));
            // Some of these were void once.
            for (one, _) in &to_do {
                new.remove(&one.spec.key());
            }
            return Ok(ran(&new, to_do.len()));
        };
        let record = Record::new(planned.spec.clone(), &planned.experiment, machine, measured);
        if store.append(&record)? {
            new.insert(record.key.clone());
        }
        let duration = planned.spec.duration_ms;
        asked += duration;
        if record.outcome == Outcome::Void && tries < TRIES {
            to_do.push_back((planned, tries + 1));
            continue;
        }
        ahead -= duration;
        let pace = start.elapsed().as_secs_f64() / asked.max(1) as f64;
        step(&Step {
            record: &record,
            done: plan.len() - to_do.len(),
            total: plan.len(),
            left: Duration::from_secs_f64(pace * ahead as f64),
        });
    }
    Ok(ran(&new, 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        point::{Key, Point, Values},
        store::read,
    };

    /// Result of an experiment's point by the cycles it burns.
    fn measured(planned: &Planned) -> Measured {
        match &planned.spec.kind {
            Point::Load(load) if load.cycles == 9 => {
                (Outcome::Unsupported, Some("no".into()), Values::new())
            }
            _ => (Outcome::Measured, None, Values::from([("x".into(), 1.0)])),
        }
    }

    fn void() -> Measured {
        (Outcome::Void, Some("busy".into()), Values::new())
    }

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
        let measure = |planned: &Planned| Ok(Some(measured(planned)));
        let ran = run(&plan, &mut store, "m", measure, |step| steps.push((step.done, step.total)));
        assert_eq!(ran.unwrap(), RunSummary { measured: 6, skipped: 0, left: 0 });
        assert_eq!((steps.len(), steps[0], steps[5]), (6, (1, 6), (6, 6)));

        let broken = tempfile::tempdir().unwrap();
        let mut calls = 0;
        let stopped = |planned: &Planned| {
            calls += 1;
            Ok((calls <= 4).then(|| measured(planned)))
        };
        let mut store = Store::open(broken.path()).unwrap();
        let ran = run(&plan, &mut store, "m", stopped, |_| ()).unwrap();
        assert_eq!(ran, RunSummary { measured: 4, skipped: 0, left: 2 });
        drop(store);
        assert_eq!(keys(broken.path()).len(), 4);
        let mut store = Store::open(broken.path()).unwrap();
        let ran = run(&plan, &mut store, "m", measure, |_| ()).unwrap();
        assert_eq!(ran, RunSummary { measured: 2, skipped: 4, left: 0 });
        assert_eq!(keys(broken.path()), keys(whole.path()));
        assert_eq!(read(broken.path()).unwrap().len(), 6);
    }

    #[test]
    fn a_void_point_is_measured_once_more_at_the_end_and_by_the_next_run() {
        let plan = plan(&[experiment("a", "[1, 2]")], false).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open(dir.path()).unwrap();
        let mut order = Vec::new();
        let mut steps = Vec::new();
        // The first point of the plan is never measured, the second at the second
        // try.
        let measure = |planned: &Planned| {
            let at = plan.iter().position(|one| one == planned).unwrap();
            order.push(at);
            let busy = at == 0 || at == 1 && order.len() < 4;
            Ok(Some(if busy { void() } else { measured(planned) }))
        };
        let ran = run(&plan, &mut store, "m", measure, |step| {
            steps.push((step.record.outcome, step.done));
        });
        assert_eq!(ran.unwrap(), RunSummary { measured: 4, skipped: 0, left: 0 });
        assert_eq!(order, [0, 1, 2, 3, 0, 1]);
        let figures = |done| (Outcome::Measured, done);
        assert_eq!(steps, [figures(1), figures(2), (Outcome::Void, 3), figures(4)]);
        assert_eq!(store.outcome(&plan[0].spec.key()), Some(Outcome::Void));

        let again = |planned: &Planned| Ok(Some(measured(planned)));
        let ran = run(&plan, &mut store, "m", again, |_| ()).unwrap();
        assert_eq!(ran, RunSummary { measured: 1, skipped: 3, left: 0 });
        assert!(read(dir.path()).unwrap().iter().all(Record::is_measured));
    }

    #[test]
    fn void_points_of_a_stopped_run_are_left() {
        let plan = plan(&[experiment("a", "[1, 2]")], false).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open(dir.path()).unwrap();
        let mut calls = 0;
        let measure = |_: &Planned| {
            calls += 1;
            Ok((calls < 4).then(void))
        };
        let ran = run(&plan, &mut store, "m", measure, |_| ()).unwrap();
        assert_eq!(ran, RunSummary { measured: 0, skipped: 0, left: 4 });
    }

    #[test]
    fn unsupported_points_are_tried_again_and_noted_once() {
        let plan = plan(&[experiment("a", "[9, 1]")], false).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open(dir.path()).unwrap();
        for expected in [(4, 0), (0, 4)] {
            let mut told = 0;
            let measure = |planned: &Planned| Ok(Some(measured(planned)));
            let ran = run(&plan, &mut store, "m", measure, |step| {
                told += usize::from(step.record.outcome == Outcome::Unsupported);
            });
            assert_eq!(
                (ran.unwrap(), told),
                (RunSummary { measured: expected.0, skipped: expected.1, left: 0 }, 2)
            );
        }
        let text = std::fs::read_to_string(dir.path().join(crate::store::POINTS)).unwrap();
        assert_eq!(text.lines().count(), 4);
    }

    #[test]
    fn a_measurement_that_cannot_start_ends_the_run() {
        let plan = plan(&[experiment("a", "[1]")], false).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open(dir.path()).unwrap();
        let gone = |_: &Planned| Err(io::ErrorKind::NotFound.into());
        let error = run(&plan, &mut store, "m", gone, |_| ()).unwrap_err();
        assert!(error.to_string().starts_with("cannot start what measures"), "{error}");
    }
}
