//! Run to completion against pipelines, and inspection inline.

use crate::{
    notation::words,
    point::{Driver, Forward, InlinePath, Pipeline, Placement, Point, Touch, value},
};

use super::{Criterion, Evidence, Judgement, cannot_show, percent};

pub(super) fn handover(evidence: &Evidence<'_>) -> Criterion {
    let text = "Run to completion wins unless the combined working set exceeds the private cache; \
                the farthest hand-over is the worst";
    let usual = Pipeline::default();
    let piped = evidence.medians(value::RATE, |kind| match kind {
        Point::Pipeline(this) => {
            let same = Pipeline {
                placement: this.placement,
                work: this.work,
                ..Pipeline { workers: this.workers, burst: this.burst, ..usual.clone() }
            };
            (same == *this).then_some((this.placement, this.workers, this.burst, this.work))
        }
        _ => None,
    });
    let whole = evidence.medians(value::RATE, |kind| match kind {
        Point::Forward(this) if this.driver == Driver::Ring && this.touch == Touch::None => {
            let same = Forward {
                burst: this.burst,
                work: this.work,
                workers: this.workers,
                ..Forward::default()
            };
            (same == *this).then_some((this.workers, this.burst, this.work))
        }
        _ => None,
    });
    if piped.is_empty() {
        let reason = evidence.reason(|kind| matches!(kind, Point::Pipeline(_)));
        return cannot_show(10, text, format!("pipelines: {reason}"));
    }
    let mut judgement = Judgement::new();
    let mut ratios: Vec<f64> = piped
        .iter()
        .filter(|((placement, ..), _)| *placement != Placement::SameCore)
        .filter_map(|((_, workers, burst, work), rate)| {
            // The receiver is a worker too.
            let alone = whole.get(&(1, *burst, *work)).map(|rate| rate * f64::from(workers + 1));
            let together = whole.get(&(workers + 1, *burst, *work)).copied().or(alone);
            Some(together? / rate)
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    match linerate_model::quantile(&ratios, 0.5) {
        Some(median) => judgement.must(
            median > 1.0,
            format!("as many workers run to completion reach {median:.2} times a pipeline"),
        ),
        None => judgement.note("no forwarding with the load of a pipeline was measured".into()),
    }
    let mut means: Vec<(Placement, f64)> = Vec::new();
    for placement in
        [Placement::SameCore, Placement::Sibling, Placement::OtherCore, Placement::OtherNode]
    {
        let mut rates: Vec<f64> = piped
            .iter()
            .filter(|((at, _, _, work), _)| *at == placement && *work == usual.work)
            .map(|(_, rate)| *rate)
            .collect();
        rates.sort_by(f64::total_cmp);
        match linerate_model::quantile(&rates, 0.5) {
            Some(rate) => means.push((placement, rate)),
            None => judgement.note(format!("{}: {}", words(&placement), {
                evidence.reason(
                    |kind| matches!(kind, Point::Pipeline(this) if this.placement == placement),
                )
            })),
        }
    }
    // On one core two threads take turns: not a distance.
    let apart: Vec<_> =
        means.iter().filter(|(placement, _)| *placement != Placement::SameCore).collect();
    if let (Some((near, fast)), Some((far, slow))) =
        (apart.first(), apart.last().filter(|_| apart.len() > 1))
    {
        judgement.must(
            slow < fast,
            format!("{} reaches {} of {}", words(far), percent(slow / fast), words(near)),
        );
    } else {
        judgement.note("there is one distance here".into());
    }
    judgement.criterion(10, text, "pipeline")
}

pub(super) fn inspection(evidence: &Evidence<'_>) -> Criterion {
    let text = "Inline inspection: the share received rises with the frame size, and fast input \
                and output gain most at 64 bytes";
    let lost = evidence.medians(value::LOST, |kind| match kind {
        Point::Inline(this) => Some((this.path, this.frame)),
        _ => None,
    });
    let path = |wanted: InlinePath| -> Vec<(u32, f64)> {
        let own = lost.iter().filter(|((path, _), _)| *path == wanted);
        own.map(|((_, frame), lost)| (*frame, 1.0 - lost)).collect()
    };
    let (kernel, ours) = (path(InlinePath::Kernel), path(InlinePath::Ours));
    if kernel.len() < 3 || ours.len() < 3 {
        let reason = evidence.reason(|kind| matches!(kind, Point::Inline(_)));
        return cannot_show(11, text, format!("inspection inline: {reason}"));
    }
    let mut judgement = Judgement::new();
    for (name, shares) in [("the kernel's path", &kernel), ("ours", &ours)] {
        let (first, last) = (shares[0], shares[shares.len() - 1]);
        let falls = shares.windows(2).filter(|pair| pair[1].1 < pair[0].1 - 0.05).count();
        judgement.must(
            last.1 >= first.1 && falls <= 1,
            format!(
                "{name} received {} at {} bytes and {} at {}",
                percent(first.1),
                first.0,
                percent(last.1),
                last.0
            ),
        );
    }
    let gains: Vec<(u32, f64)> = ours
        .iter()
        .filter_map(|(frame, share)| {
            let (_, other) = kernel.iter().find(|(size, _)| size == frame)?;
            (*other > 0.0).then(|| (*frame, share / other))
        })
        .collect();
    if let Some((first, gain)) = gains.first() {
        let largest = gains.iter().map(|(_, gain)| *gain).fold(0.0, f64::max);
        judgement.must(
            *gain >= 0.95 * largest,
            format!("{gain:.1} times as much at {first} bytes, the most"),
        );
    }
    judgement.criterion(11, text, "inline")
}
