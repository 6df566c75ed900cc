//! Vectors: number of packets at a time, and its effect.

use std::collections::BTreeMap;

use linerate_model::units::PacketsPerSecond;

use crate::point::{Destinations, Idle, Latency, Point, value};

use super::{Criterion, Evidence, Judgement, cannot_show, percent};

pub(super) fn mean_vector(evidence: &Evidence<'_>) -> Criterion {
    let text = "The mean vector grows with the load as the loop predicts and is at its limit \
                under overload, while cycles per packet fall";
    let usual = Latency::default();
    let by_load = |name: &str| {
        evidence.medians(name, |kind| match kind {
            Point::Latency(this) if this.idle == Idle::Poll && this.slots == usual.slots => {
                Some(this.load_percent)
            }
            _ => None,
        })
    };
    let (vectors, offered) = (by_load(value::VECTOR), by_load(value::OFFERED));
    let limit = evidence.records.iter().find_map(|record| match &record.spec.kind {
        Point::Latency(this) if record.is_measured() => Some(f64::from(this.burst)),
        _ => None,
    });
    let (Some(limit), true) = (limit, vectors.len() >= 3) else {
        let reason = evidence.reason(|kind| matches!(kind, Point::Latency(_)));
        return cannot_show(5, text, format!("vectors against load: {reason}"));
    };
    let mut judgement = Judgement::new();
    let values: Vec<(u32, f64)> = vectors.iter().map(|(&load, &size)| (load, size)).collect();
    let (low, high) = (values[0], values[values.len() - 1]);
    let rising = values.windows(2).filter(|pair| pair[1].1 < 0.95 * pair[0].1).count() == 0;
    judgement.must(
        rising && high.1 > 1.2 * low.1,
        format!("{:.2} packets at {} % load, {:.1} at {} %", low.1, low.0, high.1, high.0),
    );
    if let Some(fitted) = &evidence.calibrated.latency {
        let errors: Vec<f64> = values
            .iter()
            .filter(|(load, _)| *load <= 80)
            .filter_map(|(load, size)| {
                let rate = PacketsPerSecond::new(*offered.get(load)?);
                // The measured vector is the mean of rounds that had packets.
                let mean = fitted.service.mean_vector(rate).get();
                let busy = mean / (1.0 - (-mean).exp());
                Some((busy / size - 1.0).abs())
            })
            .collect();
        if !errors.is_empty() {
            let mean = errors.iter().sum::<f64>() / errors.len() as f64;
            judgement.must(
                mean < 0.35,
                format!("{} from the loop's prediction up to 80 %", percent(mean)),
            );
        }
    }
    match values.iter().rfind(|(load, _)| *load > 100) {
        Some((load, size)) => judgement.must(
            *size > 0.9 * limit,
            format!("at {load} % it is {} of the limit", percent(size / limit)),
        ),
        None => judgement.note("overload was not measured".into()),
    }
    judgement.criterion(5, text, "vector-load")
}

pub(super) fn limits(evidence: &Evidence<'_>) -> Criterion {
    let text = "Of vector limits from 4 to 2048 the best is reached by 64 to 256 and nothing is \
                better after; round robin and uniform destinations are no faster than one";
    let rates = evidence.medians(value::RATE, |kind| match kind {
        Point::Graph(graph) => {
            Some((graph.configuration.clone(), graph.destinations, graph.vector))
        }
        _ => None,
    });
    let mut groups: BTreeMap<(String, Destinations), Vec<(u32, f64)>> = BTreeMap::new();
    for ((configuration, destinations, vector), rate) in rates {
        groups.entry((configuration, destinations)).or_default().push((vector, rate));
    }
    groups.retain(|_, sweep| sweep.len() >= 4);
    if groups.is_empty() {
        let reason = evidence.reason(|kind| matches!(kind, Point::Graph(_)));
        return cannot_show(6, text, format!("vector limits of graphs: {reason}"));
    }
    let mut judgement = Judgement::new();
    let (mut early, mut late, mut gain) = (f64::INFINITY, 0.0f64, 0.0f64);
    for sweep in groups.values() {
        let best = |range: std::ops::RangeInclusive<u32>| {
            let inside = sweep.iter().filter(|(vector, _)| range.contains(vector));
            inside.map(|(_, rate)| *rate).fold(0.0, f64::max)
        };
        let all = best(1..=u32::MAX);
        early = early.min(best(64..=256) / all);
        late = late.max(best(257..=u32::MAX) / best(1..=256));
        gain = gain.max(all / sweep[0].1);
    }
    judgement.must(
        early > 0.9,
        format!("limits of 64 to 256 reach at least {} of the best", percent(early)),
    );
    judgement
        .must(late < 1.05, format!("larger ones at most {} of those up to 256", percent(late)));
    judgement.note(format!("the best is up to {gain:.1} times the smallest limit"));
    let mut worst: Option<f64> = None;
    for ((configuration, destinations), sweep) in &groups {
        let fixed = groups.get(&(configuration.clone(), Destinations::Static));
        let Some(fixed) = fixed.filter(|_| *destinations != Destinations::Static) else { continue };
        let top = |sweep: &[(u32, f64)]| sweep.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
        worst = Some(worst.unwrap_or(0.0).max(top(sweep) / top(fixed)));
    }
    match worst {
        Some(worst) => judgement.must(
            worst < 1.05,
            format!("varied destinations reach at most {} of one", percent(worst)),
        ),
        None => judgement.note("varied destinations were not measured".into()),
    }
    judgement.criterion(6, text, "vector-limit")
}
