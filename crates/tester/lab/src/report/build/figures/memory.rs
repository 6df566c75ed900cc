//! Memory, by itself and while forwarding.

use super::rate;
use crate::{
    calibration::Calibrated,
    point::{Forward, Pages, Point, Record, value},
    report::{
        Axis, Figure, Scale,
        build::{names::pages_name, sweep::Sweep},
    },
};

pub(super) fn walk(records: &[Record]) -> Option<Figure> {
    let y = Axis::decimal("time per access (ns)", Scale::Log10);
    let x = Axis::bytes("working set");
    let mut sweep = Sweep::new(records, "memory", "Latency of memory", x, y);
    sweep.plain(value::ACCESS, |point| match point {
        Point::Walk(walk) if walk.chains == 1 => {
            Some((pages_name(walk.pages).into(), walk.bytes as f64))
        }
        _ => None,
    });
    sweep.done("A walk along a list in random order, each element a cache line of its own.")
}

pub(super) fn chains(records: &[Record]) -> Option<Figure> {
    let y = Axis::decimal("time per access (ns)", Scale::Log10);
    let x = Axis::bytes("working set");
    let mut sweep = Sweep::new(records, "chains", "Accesses that do not wait for each other", x, y);
    sweep.plain(value::ACCESS, |point| match point {
        Point::Walk(walk) if walk.pages == Pages::Small => {
            let plural = if walk.chains == 1 { "" } else { "s" };
            Some((format!("{} chain{plural}", walk.chains), walk.bytes as f64))
        }
        _ => None,
    });
    sweep.done("Several lists walked at once: the processor has several accesses under way.")
}

pub(super) fn accesses(records: &[Record], calibrated: &Calibrated) -> Option<Figure> {
    let title = "Forwarding with accesses to memory";
    let x = Axis::bytes("working set");
    let mut sweep = Sweep::new(records, "access", title, x, rate());
    let usual = Forward::default();
    sweep.plain(value::RATE, |point| match point {
        Point::Forward(this)
            if this.accesses > 0 && this.workers == 1 && this.burst == usual.burst =>
        {
            let plural = if this.accesses == 1 { "" } else { "es" };
            let load = if this.work > 0 { format!(", load {}", this.work) } else { String::new() };
            let name = format!(
                "{}, {} access{plural}, {}{load}",
                this.driver,
                this.accesses,
                pages_name(this.pages)
            );
            Some((name, this.working_set as f64))
        }
        _ => None,
    });
    let scale = |pages| {
        let scale = calibrated.memory_scale.get(&pages)?;
        Some(format!("{:.2} with {}", scale.estimate.value, pages_name(pages)))
    };
    let scales: Vec<String> =
        [Pages::Small, Pages::Transparent, Pages::Huge].into_iter().filter_map(scale).collect();
    let known = if scales.is_empty() {
        String::new()
    } else {
        format!(
            " An access costs a packet so many times what the list says: {}.",
            scales.join(", ")
        )
    };
    sweep.done(&format!("Each packet makes random accesses to memory of this size.{known}"))
}
