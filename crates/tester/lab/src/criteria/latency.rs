//! Latency against load.

use crate::point::{Idle, Latency, Point, value};

use super::{Criterion, Evidence, Judgement, cannot_show};

pub(super) fn knee(evidence: &Evidence<'_>) -> Criterion {
    let text = "Latency is flat, has a knee above 0.8 of the saturation, then a plateau in \
                proportion to the ring; polling beats blocking at a low rate";
    let usual = Latency::default();
    let latencies = evidence.medians(value::LATENCY_TYPICAL, |kind| match kind {
        Point::Latency(this) => Some((this.idle, this.slots, this.load_percent)),
        _ => None,
    });
    let polled: Vec<(u32, f64)> = latencies
        .iter()
        .filter(|((idle, slots, _), _)| *idle == Idle::Poll && *slots == usual.slots)
        .map(|((_, _, load), time)| (*load, *time))
        .collect();
    if polled.len() < 4 {
        let reason = evidence.reason(|kind| matches!(kind, Point::Latency(_)));
        return cannot_show(7, text, format!("latency against load: {reason}"));
    }
    let mut judgement = Judgement::new();
    let micro = |nanoseconds: f64| format!("{:.1} µs", nanoseconds / 1000.0);
    let (low, lowest) = polled[0];
    let flat = polled.iter().rfind(|(load, _)| *load <= 80);
    if let Some((load, time)) = flat {
        judgement.must(
            *time < 5.0 * lowest,
            format!("{} at {low} % load, {} at {load} %", micro(lowest), micro(*time)),
        );
    }
    let over: Vec<(u32, f64)> = polled.iter().copied().filter(|(load, _)| *load > 100).collect();
    match over.last() {
        Some((load, time)) => judgement
            .must(*time > 5.0 * lowest, format!("{} under an overload of {load} %", micro(*time))),
        None => judgement.note("overload was not measured".into()),
    }
    let plateaus: Vec<(u32, f64)> = latencies
        .iter()
        .filter(|((idle, _, load), _)| *idle == Idle::Poll && *load > 100)
        .map(|((_, slots, _), time)| (*slots, *time))
        .collect();
    if let (Some(small), Some(large)) = (plateaus.first(), plateaus.last())
        && small.0 < large.0
    {
        let (size, time) = (f64::from(large.0) / f64::from(small.0), large.1 / small.1);
        judgement.must(
            (time / size - 1.0).abs() < 0.35,
            format!("a ring {size:.0} times as long holds packets {time:.1} times as long"),
        );
    } else {
        judgement.note("rings of another size were not overloaded".into());
    }
    match latencies.get(&(Idle::Block, usual.slots, low)) {
        Some(blocked) => judgement.must(
            lowest < *blocked,
            format!("at {low} % {} polled and {} blocking", micro(lowest), micro(*blocked)),
        ),
        None => judgement.note("blocking was not measured at that load".into()),
    }
    judgement.criterion(7, text, "latency")
}
