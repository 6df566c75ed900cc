//! Points of the instruments themselves.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use linerate_elements_measuring::Burner;
use linerate_memory::clock::cycles_per_second;

use super::Failure;
use crate::{
    instruments::{PointerChase, PointerChaseError, Stopwatch},
    point::{Load, Pages, Spec, Values, Walk, value},
};

/// Steps between two looks at the clock.
const STEPS: u64 = 2048;
/// Cycles that are burnt between two readings, at least.
const AT_ONCE: u64 = 20_000;
/// Repetitions of a burnt load: at least, and at most.
const RUNS: std::ops::RangeInclusive<u64> = 101..=20_001;

/// Nanoseconds and cycles of an access, `l(WS)`, and of a step of all chains.
pub(super) fn walk(point: &Walk, spec: &Spec) -> Result<Values, Failure> {
    let made = PointerChase::new(point.bytes, point.pages, point.chains, spec.seed);
    let mut chase = made.map_err(no_memory)?;
    let chains = f64::from(point.chains.max(1));
    let watch = Stopwatch::new();
    let time = Duration::from_millis(spec.duration_ms);
    // Once around brings all of it into the caches it fits in; a large set takes none of its lines
    // there, however long the walk.
    let around = (point.bytes / 64 / u64::from(point.chains.max(1))).min(1 << 20);
    black_box(chase.walk(around));
    let end = Instant::now() + time;
    let mut steps = Vec::new();
    while Instant::now() < end || steps.is_empty() {
        let took = watch.time(|| {
            black_box(chase.walk(STEPS));
        });
        steps.push(took as f64 / STEPS as f64);
    }
    steps.sort_by(f64::total_cmp);
    let at = |share: f64| steps[((steps.len() - 1) as f64 * share).round() as usize];
    let per_access = at(0.5) / chains;
    let mut values = Values::from([
        ("cycles_per_access".into(), per_access),
        ("cycles_per_access_low".into(), at(0.05) / chains),
        ("cycles_per_access_high".into(), at(0.9) / chains),
        (value::ACCESS.into(), per_access / cycles_per_second() * 1e9),
        ("accesses".into(), steps.len() as f64 * STEPS as f64 * chains),
    ]);
    if let Some(bytes) = chase.in_large_pages() {
        values.insert("bytes_in_large_pages".into(), bytes as f64);
    }
    Ok(values)
}

/// In few words: they are the same for every size.
pub(super) fn no_memory(error: PointerChaseError) -> Failure {
    match error {
        PointerChaseError::Memory { pages: Pages::Huge, .. } => Failure::unsupported(
            "not enough pages of 2 MiB are set aside: `sysctl vm.nr_hugepages=N` does that",
        ),
        error => Failure::unsupported(error),
    }
}

/// Cycles that burning so many takes.
pub(super) fn load(point: &Load, spec: &Spec) -> Result<Values, Failure> {
    let mut burner = Burner::new();
    let watch = Stopwatch::new();
    let budget = spec.duration_ms as f64 / 1e3 * cycles_per_second();
    // Several at once: where the counter advances in steps of tens of cycles, one
    // is too short to be measured.
    let calls = AT_ONCE / u64::from(point.cycles.max(10)) + 1;
    let runs = (budget / (calls * u64::from(point.cycles.max(10))) as f64) as u64;
    let times = watch.times(runs.clamp(*RUNS.start(), *RUNS.end()) as usize, || {
        (0..calls).for_each(|_| burner.burn(point.cycles.into()));
    });
    let at = |share: f64| {
        times[((times.len() - 1) as f64 * share).round() as usize] as f64 / calls as f64
    };
    Ok(Values::from([
        ("asked_cycles".into(), point.cycles.into()),
        (value::BURNT.into(), at(0.5)),
        ("burnt_cycles_low".into(), at(0.05)),
        ("burnt_cycles_high".into(), at(0.9)),
        ("overhead_cycles".into(), watch.overhead() as f64),
        ("runs".into(), times.len() as f64),
    ]))
}
