//! Memory: the latency of an access against the working set.

use crate::{
    notation::Unit,
    point::{Destinations, Pages, Point, value},
};

use super::{Criterion, Evidence, Judgement, cannot_show};

/// A rise by this factor within a doubling or two is a step.
const STEP: f64 = 1.3;

pub(super) fn steps(evidence: &Evidence<'_>) -> Criterion {
    let text = "The latency of memory rises in steps at the sizes of the caches; the cost of a \
                flow table grows with the logarithm of the flows, then flattens";
    let walk = |pages: Pages| {
        evidence.medians(value::ACCESS, move |kind| match kind {
            Point::Walk(walk) if walk.chains == 1 && walk.pages == pages => Some(walk.bytes),
            _ => None,
        })
    };
    let small = walk(Pages::Small);
    let (Some((&first, &fast)), Some((&last, &slow)), true) =
        (small.first_key_value(), small.last_key_value(), small.len() >= 6)
    else {
        let reason = evidence.reason(|kind| matches!(kind, Point::Walk(_)));
        return cannot_show(4, text, format!("walks along a list: {reason}"));
    };
    let mut judgement = Judgement::new();
    let points: Vec<(u64, f64)> = small.iter().map(|(&bytes, &time)| (bytes, time)).collect();
    let falls = points.windows(2).filter(|pair| pair[1].1 < 0.9 * pair[0].1).count();
    judgement.must(
        falls <= 1,
        format!("of {} sizes {falls} are faster than a smaller one", points.len()),
    );
    let mut steps = Vec::new();
    let mut level = fast;
    for pair in points.windows(2) {
        if pair[1].1 > STEP * level && pair[1].1 > 1.1 * pair[0].1 {
            steps.push(Unit::Bytes.write(pair[0].0 as f64));
            level = pair[1].1;
        }
    }
    let size = |bytes: u64| Unit::Bytes.write(bytes as f64);
    judgement.must(
        slow > 5.0 * fast && steps.len() >= 2,
        format!(
            "from {fast:.1} ns at {} to {slow:.1} ns at {}, rising past {}",
            size(first),
            size(last),
            steps.join(", ")
        ),
    );
    match walk(Pages::Huge).get(&last) {
        Some(huge) => judgement.must(*huge < slow, format!("{huge:.1} ns there with 2 MiB pages")),
        None => judgement.note(format!(
            "2 MiB pages: {}",
            evidence.reason(|kind| matches!(kind, Point::Walk(walk) if walk.pages == Pages::Huge))
        )),
    }
    flows(evidence, &mut judgement);
    judgement.criterion(4, text, "memory")
}

/// Cycles of routing against the addresses in use, where they were varied.
fn flows(evidence: &Evidence<'_>, judgement: &mut Judgement) {
    let cycles = evidence.medians(value::CYCLES, |kind| match kind {
        Point::Graph(graph) if graph.destinations != Destinations::Static => {
            Some((graph.configuration.clone(), graph.vector, graph.destinations, graph.addresses))
        }
        _ => None,
    });
    let mut best: Vec<(u32, f64)> = Vec::new();
    let same = |one: &(String, u32, Destinations, u32),
                other: &(String, u32, Destinations, u32)| {
        one.0 == other.0 && one.1 == other.1 && one.2 == other.2
    };
    let points: Vec<_> = cycles.into_iter().collect();
    for group in points.chunk_by(|(one, _), (other, _)| same(one, other)) {
        if group.len() > best.len() {
            best = group.iter().map(|(key, cycles)| (key.3, *cycles)).collect();
        }
    }
    if best.len() < 3 {
        judgement.note("a table by the number of flows in use was not measured".into());
        return;
    }
    let (few, many) = (best[0], best[best.len() - 1]);
    judgement.must(
        many.1 >= 0.95 * few.1,
        format!("{:.0} cycles with {} addresses, {:.0} with {}", few.1, few.0, many.1, many.0),
    );
}
