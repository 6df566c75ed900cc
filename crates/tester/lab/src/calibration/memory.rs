//! Memory, bytes, workers and hand-overs: parameters fitted on top of input and output.

use std::collections::BTreeMap;

use linerate_model::{
    Cost, Costs, LatencyCurve, Memory, Placement,
    fit::{Bootstrap, FitError, Loss, Observation, Term, ThroughputModel, bootstrap, fit},
    units::{Bytes, Seconds},
};

use super::{
    drivers::{LEVEL, Parameter},
    elements::CostModel,
    points::{Throughput, scenarios},
};
use crate::point::{self, Pages, Point, Record, Touch, value};

const DRAWS: Bootstrap = Bootstrap { samples: 100, seed: 1 };

/// The latency of one access at a time, by working set.
pub(super) fn curve(records: &[Record], pages: Pages) -> LatencyCurve {
    LatencyCurve::new(
        walks(records, pages, |chains| chains == 1)
            .map(|(bytes, _, time)| (Bytes::new(bytes), Seconds::new(time * 1e-9))),
    )
}

/// Working set, chains and nanoseconds per access of walks.
fn walks<'a>(
    records: &'a [Record],
    pages: Pages,
    wanted: impl Fn(u32) -> bool + 'a,
) -> impl Iterator<Item = (f64, u32, f64)> + 'a {
    records.iter().filter_map(move |record| match &record.spec.kind {
        Point::Walk(walk) if walk.pages == pages && wanted(walk.chains) && record.is_measured() => {
            Some((walk.bytes as f64, walk.chains, record.value(value::ACCESS)?))
        }
        _ => None,
    })
}

/// The share of an access's time that does not overlap with others (`q`): the
/// median over all walks of several chains. `None` without such walks.
pub(super) fn serial(records: &[Record]) -> Option<f64> {
    let alone = curve(records, Pages::Small);
    let mut shares: Vec<f64> = walks(records, Pages::Small, |chains| chains > 1)
        .filter_map(|(bytes, chains, time)| {
            let alone = alone.at(Bytes::new(bytes)).get() * 1e9;
            let chains = f64::from(chains);
            // m = alone / time = k / (1 + q (k-1))
            (alone > 0.0 && alone > time)
                .then(|| ((chains * time / alone - 1.0) / (chains - 1.0)).clamp(0.0, 1.0))
        })
        .collect();
    shares.sort_by(f64::total_cmp);
    linerate_model::quantile(&shares, 0.5)
}

/// Fits one parameter on top of known costs, with its interval.
pub(super) fn one_more(
    known: &Costs,
    term: Term,
    unit: &str,
    points: &[Throughput],
) -> Result<Parameter, FitError> {
    let model = ThroughputModel { base: known.clone(), free: vec![term] };
    let sampled = bootstrap(&model, &scenarios(points), Loss::Huber, DRAWS)?;
    let name = sampled.fit.names[0].clone();
    let estimate = sampled.parameter(&name, LEVEL).expect("it is the one there is");
    Ok(Parameter { name, estimate, unit: unit.into() })
}

/// Fits the time per byte of each kind of touch.
pub(super) fn touches(
    known: &Costs,
    points: &[Throughput],
) -> BTreeMap<Touch, Result<Parameter, FitError>> {
    let kinds = [Touch::Read, Touch::Copy, Touch::Checksum];
    let of = |touch| {
        let own: Vec<Throughput> = points
            .iter()
            .filter(|point| {
                let place = &point.input;
                place.touch == touch
                    && place.scenario.workers == 1
                    && place.scenario.accesses.is_empty()
            })
            .cloned()
            .collect();
        (!own.is_empty()).then(|| (touch, one_more(known, Term::PerByte, "s/B", &own)))
    };
    kinds.into_iter().filter_map(of).collect()
}

/// Fits the cost of a hand-over to the worker that takes the packet, by placement: the cycles of a
/// pipeline's stage against the burst, less those of sending.
pub(super) fn handovers(
    records: &[Record],
    transmit: Cost,
) -> BTreeMap<Placement, Result<Cost, FitError>> {
    let mut points: BTreeMap<Placement, Vec<Observation<f64>>> = BTreeMap::new();
    for record in records.iter().filter(|record| record.is_measured()) {
        let Point::Pipeline(pipeline) = &record.spec.kind else { continue };
        let (Some(rate), Some(counter)) = (record.value(value::RATE), record.value(value::COUNTER))
        else {
            continue;
        };
        let usual = pipeline.work == 0
            && pipeline.touch == Touch::None
            && pipeline.workers == 1
            && pipeline.slots == point::Pipeline::default().slots;
        if usual && rate > 0.0 {
            let cycles = counter / rate;
            let burst = f64::from(pipeline.burst);
            points
                .entry(placement(pipeline.placement))
                .or_default()
                .push(Observation::new(burst, cycles));
        }
    }
    let cost = |points: Vec<Observation<f64>>| {
        let found = fit(&CostModel, &points, Loss::Huber)?;
        let [per_packet, per_burst] = [found.values[0], found.values[1]];
        Ok(Cost::new(
            (per_packet - transmit.per_packet.get()).max(0.0),
            (per_burst - transmit.per_burst.get()).max(0.0),
        ))
    };
    points.into_iter().map(|(placement, points)| (placement, cost(points))).collect()
}

fn placement(placement: point::Placement) -> Placement {
    match placement {
        point::Placement::SameCore => Placement::SameCore,
        point::Placement::Sibling => Placement::Sibling,
        point::Placement::OtherCore => Placement::SameNode,
        point::Placement::OtherNode => Placement::OtherNode,
    }
}

/// Memory as packets see it, before its scale is known.
pub(super) fn memory(records: &[Record]) -> Memory {
    Memory {
        latency: curve(records, Pages::Small),
        serial: serial(records).unwrap_or(1.0),
        scale: 1.0,
    }
}
