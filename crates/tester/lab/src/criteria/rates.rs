//! Throughput against burst, load, clock, frame size and workers.

use crate::{
    calibration::load_line,
    point::{Driver, Forward, Point, Touch, value},
};

use super::{Criterion, Evidence, Judgement, cannot_show, percent};

/// A forwarding point that differs from the usual one in nothing but this.
fn only<T>(
    kind: &Point,
    driver: Driver,
    differ: impl Fn(&mut Forward, &Forward),
    key: impl Fn(&Forward) -> T,
) -> Option<T> {
    let Point::Forward(forward) = kind else { return None };
    let mut usual = Forward { driver, ..Forward::default() };
    differ(&mut usual, forward);
    (usual == *forward).then(|| key(forward))
}

pub(super) fn bursts(evidence: &Evidence<'_>) -> Criterion {
    let text = "Throughput rises with the burst and is within 10 % of its best by 32 to 64 on \
                rings in user space";
    // A forwarder writes addresses. Where packets are not even looked at, nearly
    // all of the cost is that of bursts.
    let sweep = |touch: Touch| {
        evidence.medians(value::RATE, |kind| {
            let differ = |usual: &mut Forward, this: &Forward| {
                (usual.burst, usual.touch) = (this.burst, touch);
            };
            only(kind, Driver::Ring, differ, |this| this.burst)
        })
    };
    let (rates, bare) = (sweep(Touch::Mac), sweep(Touch::None));
    let best = rates.values().copied().fold(0.0, f64::max);
    let (Some((&first, &alone)), true) = (rates.first_key_value(), rates.len() >= 4) else {
        let reason = evidence.reason(|kind| matches!(kind, Point::Forward(_)));
        return cannot_show(1, text, format!("bursts on rings: {reason}"));
    };
    let mut judgement = Judgement::new();
    let good = rates.range(32..=64).map(|(_, rate)| rate / best).fold(0.0, f64::max);
    judgement.must(
        alone < 0.9 * best,
        format!("a burst of {first} reaches {} of the best", percent(alone / best)),
    );
    judgement.must(good >= 0.9, format!("bursts of 32 to 64 reach {}", percent(good)));
    let at = rates.iter().max_by(|one, other| one.1.total_cmp(other.1)).map_or(0, |(at, _)| *at);
    judgement.note(format!("the best is at {at}"));
    let most = bare.values().copied().fold(0.0, f64::max);
    if let Some(rate) = bare.range(32..=64).map(|(_, rate)| *rate).reduce(f64::max) {
        judgement.note(format!("{} where packets are not touched", percent(rate / most)));
    }
    judgement.criterion(1, text, "burst")
}

pub(super) fn load(evidence: &Evidence<'_>) -> Criterion {
    let text = "Past the knee the time per packet is linear in the load (R² > 0.99), and the \
                drivers' ratios tend to 1 as the load grows";
    let mut judgement = Judgement::new();
    for driver in [Driver::Null, Driver::Ring, Driver::Packet, Driver::Xdp] {
        if let Some(Ok(line)) = load_line(evidence.records, driver.name()) {
            let line = (line.r_squared, line.points);
            let (r_squared, points) = line;
            let finding = format!("{driver}: R² = {r_squared:.4} over {points} points");
            // Interfaces add the kernel's noise, which is not the load's.
            if driver.needs_interfaces() {
                judgement.note(finding);
            } else {
                judgement.must(r_squared > 0.99, finding);
            }
        }
    }
    if judgement.lines.is_empty() {
        let reason = evidence.reason(|kind| matches!(kind, Point::Forward(_)));
        return cannot_show(2, text, format!("throughput against load: {reason}"));
    }
    let rates = |driver| {
        evidence.medians(value::RATE, |kind| {
            only(kind, driver, |usual, this| usual.work = this.work, |this| this.work)
        })
    };
    let (null, ring) = (rates(Driver::Null), rates(Driver::Ring));
    let ratios: Vec<(u32, f64)> =
        ring.iter().filter_map(|(work, rate)| Some((*work, null.get(work)? / rate))).collect();
    if let (Some(&(few, first)), Some(&(many, last))) = (ratios.first(), ratios.last())
        && many > few
    {
        judgement.must(
            (last - 1.0).abs() < (first - 1.0).abs() && (last - 1.0).abs() < 0.2,
            format!("null over ring is {first:.2} at {few} cycles and {last:.2} at {many}"),
        );
    }
    judgement.criterion(2, text, "load")
}

pub(super) fn clock(evidence: &Evidence<'_>) -> Criterion {
    let text = "Throughput rises less than the clock does, where the clock can be changed";
    let rates = evidence.medians(value::RATE, |kind| match kind {
        Point::Forward(this) if this.clock_khz > 0 => Some((this.driver, this.clock_khz)),
        _ => None,
    });
    let clocks: Vec<(f64, f64)> = rates
        .iter()
        .filter(|((driver, _), _)| *driver == Driver::Ring)
        .map(|((_, khz), rate)| (f64::from(*khz), *rate))
        .collect();
    let (Some(slow), Some(fast)) = (clocks.first(), clocks.last().filter(|_| clocks.len() > 1))
    else {
        let reason =
            evidence.reason(|kind| matches!(kind, Point::Forward(this) if this.clock_khz > 0));
        let reason = format!("{reason}; the emulated load stands in for the clock (criterion 2)");
        return cannot_show(3, text, reason);
    };
    let mut judgement = Judgement::new();
    let (clock, rate) = (fast.0 / slow.0, fast.1 / slow.1);
    judgement.must(rate < clock, format!("{clock:.2} times the clock, {rate:.2} times the rate"));
    judgement.criterion(3, text, "clock")
}

pub(super) fn frames(evidence: &Evidence<'_>) -> Criterion {
    let text = "The packet rate is flat against the frame size until it meets the bandwidth";
    let rates = evidence.medians(value::RATE, |kind| {
        only(kind, Driver::Ring, |usual, this| usual.frame = this.frame, |this| this.frame)
    });
    if rates.len() < 3 {
        let reason = evidence.reason(|kind| matches!(kind, Point::Forward(_)));
        return cannot_show(8, text, format!("frame sizes on rings: {reason}"));
    }
    let sizes: Vec<(u32, f64)> = rates.into_iter().filter(|(size, _)| *size <= 1518).collect();
    let lowest = sizes.iter().map(|(_, rate)| *rate).fold(f64::INFINITY, f64::min);
    let highest = sizes.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
    let mut judgement = Judgement::new();
    let spread = highest / lowest - 1.0;
    judgement.must(
        spread < 0.15,
        format!("on rings rates of {} sizes differ by at most {}", sizes.len(), percent(spread)),
    );
    judgement.note("memory has no bandwidth limit of a link to meet".into());
    judgement.criterion(8, text, "frame")
}

pub(super) fn workers(evidence: &Evidence<'_>) -> Criterion {
    let text = "Throughput rises nearly with the cores until a cap; rings too large for the cache \
                hurt";
    let rates = evidence.medians(value::RATE, |kind| match kind {
        Point::Forward(this) if this.touch == Touch::None && this.accesses == 0 => {
            let usual = |this: &Forward| Forward { workers: 1, ..this.clone() };
            (this.driver == Driver::Ring).then(|| (format!("{:?}", usual(this)), this.workers))
        }
        _ => None,
    });
    let mut speedups: Vec<(u32, f64)> = Vec::new();
    for ((group, workers), rate) in rates.iter().filter(|((_, workers), _)| *workers > 1) {
        if let Some(alone) = rates.get(&(group.clone(), 1)) {
            speedups.push((*workers, rate / alone));
        }
    }
    let slots = evidence.medians(value::RATE, |kind| {
        let rewritten = |usual: &mut Forward, this: &Forward| {
            usual.slots = this.slots;
            usual.touch = Touch::Mac;
        };
        only(kind, Driver::Ring, rewritten, |this| this.slots)
    });
    if speedups.is_empty() && slots.len() < 3 {
        let reason =
            evidence.reason(|kind| matches!(kind, Point::Forward(this) if this.workers > 1));
        return cannot_show(9, text, format!("several workers: {reason}"));
    }
    let mut judgement = Judgement::new();
    let most = speedups.iter().map(|(workers, _)| *workers).max().unwrap_or(1);
    let mut at_most: Vec<f64> =
        speedups.iter().filter(|(workers, _)| *workers == most).map(|(_, by)| *by).collect();
    at_most.sort_by(f64::total_cmp);
    match linerate_model::quantile(&at_most, 0.5) {
        Some(median) => judgement.must(
            median > 0.75 * f64::from(most),
            format!("{most} workers reach {median:.2} times what one does"),
        ),
        None => judgement.note("several workers were not measured".into()),
    }
    let best = slots.iter().max_by(|one, other| one.1.total_cmp(other.1));
    match (best, slots.last_key_value()) {
        (Some((best, rate)), Some((largest, last))) if slots.len() >= 3 => judgement.must(
            last < rate && largest > best,
            format!(
                "rings of {largest} places reach {} of those of {best}, the best",
                percent(last / rate)
            ),
        ),
        _ => judgement.note("sizes of rings were not measured".into()),
    }
    judgement.criterion(9, text, "workers")
}
