//! Latency against load: the fixed part is fitted, the rest known from
//! throughput.

use std::collections::BTreeMap;

use linerate_model::{
    Costs, Loop,
    fit::{FitError, FixedLatency, Loss, Observation, Quality, fit, mape},
    units::{Packets, PacketsPerSecond, Seconds},
};
use serde::{Deserialize, Serialize};

use super::{drivers::Gate, points::LOOP};
use crate::{
    experiment::Role,
    point::{Idle, Key, Latency, Point, Record, value},
};

/// Loads above this share of the highest throughput are not judged.
const JUDGED: f64 = 0.9;

/// Latency of one loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencyFit {
    /// The loop with the fitted parameters.
    pub service: Loop,
    /// Offered packets per second, measured mean latency in seconds, and the model's latency.
    pub points: Vec<(f64, f64, f64)>,
}

/// Fits `L0` to polled latencies at half of the loads, and predicts the other half. `None` where
/// there are not enough loads. Means leave out times in which the threads were held up, since the
/// model has no such delay.
pub(super) fn latency(
    records: &[Record],
    roles: &BTreeMap<Key, Role>,
    known: &Costs,
    clock: f64,
) -> Option<Result<(LatencyFit, Gate), FitError>> {
    let mut points = Vec::new();
    let mut parameters: Option<Latency> = None;
    for record in records.iter().filter(|record| record.is_measured()) {
        let Point::Latency(latency) = &record.spec.kind else { continue };
        let same = Latency { load_percent: 0, ..latency.clone() };
        let polled = latency.idle == Idle::Poll
            && latency.slots == Latency::default().slots
            && *parameters.get_or_insert(same.clone()) == same;
        let (Some(offered), Some(mean)) =
            (record.value(value::OFFERED), record.value(value::LATENCY_TYPICAL))
        else {
            continue;
        };
        if polled && f64::from(latency.load_percent) <= JUDGED * 100.0 {
            let role = roles.get(&record.key).copied().unwrap_or_default();
            points.push((latency.load_percent, role, offered, mean * 1e-9));
        }
    }
    let parameters = parameters?;
    points.sort_by(|one, other| one.2.total_cmp(&other.2));
    let mut loads: Vec<u32> = points.iter().map(|&(load, ..)| load).collect();
    loads.sort_unstable();
    loads.dedup();
    if loads.len() < 4 {
        return None;
    }
    let cycles = |cost: linerate_model::Cost| (cost.per_packet.get(), cost.per_burst.get());
    let around = known.elements.get(LOOP).copied().unwrap_or_default();
    let sides = [known.receive, known.transmit, around].map(cycles);
    let sum = |of: fn(&(f64, f64)) -> f64| sides.iter().map(of).sum::<f64>();
    let service = Loop {
        per_packet: Seconds::new((sum(|cost| cost.0) + f64::from(parameters.work)) / clock)
            .per_packet(),
        per_burst: Seconds::new((sum(|cost| cost.1) + f64::from(parameters.burst_work)) / clock),
        burst: Packets::new(parameters.burst.into()),
        fixed: Seconds::ZERO,
        queue: Packets::new(parameters.slots.into()),
    };
    // Where experiments hold no load out, every second load is.
    let told = points.iter().any(|(_, role, ..)| *role == Role::HeldOut);
    let is_held = |load: u32, role: Role| {
        if told {
            role == Role::HeldOut
        } else {
            loads.iter().position(|known| *known == load).is_some_and(|at| at % 2 == 1)
        }
    };
    let observations = |held: bool| -> Vec<Observation<PacketsPerSecond>> {
        points
            .iter()
            .filter(|(load, role, ..)| is_held(*load, *role) == held)
            .map(|&(.., offered, mean)| Observation::new(PacketsPerSecond::new(offered), mean))
            .collect()
    };
    let (train, rest) = (observations(false), observations(true));
    let model = FixedLatency { service };
    Some(fit(&model, &train, Loss::Huber).map(|found| {
        let quality = Quality::evaluate(&model, &found, &rest);
        let service = Loop { fixed: Seconds::new(found.values[0]), ..service };
        // The plain model says nothing of latency: it is compared with their mean.
        let measured: Vec<f64> = rest.iter().map(|point| point.value).collect();
        let mean = train.iter().map(|point| point.value).sum::<f64>() / train.len() as f64;
        let gate = Gate {
            name: "mean latency up to 90 % load".into(),
            limit: 0.2,
            mape: quality.mape,
            worst: quality.worst,
            plain_mape: mape(&measured, &vec![mean; measured.len()]),
            coverage: None,
            fitted: train.len(),
            held_out: rest.len(),
        };
        let points = points
            .iter()
            .map(|&(.., offered, mean)| {
                let load = PacketsPerSecond::new(offered);
                (offered, mean, service.mean_latency(load).get())
            })
            .collect();
        (LatencyFit { service, points }, gate)
    }))
}
