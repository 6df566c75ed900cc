//! Several workers.

use super::rate;
use crate::{
    point::{Driver, Forward, Kind as Point, Pipeline, Record, Touch, value},
    report::{
        Axis, Figure, Scale,
        build::{names::words, sweep::Sweep},
    },
};

pub(super) fn pipeline(records: &[Record]) -> Option<Figure> {
    let x = Axis::decimal("load (cycles/packet)", Scale::Linear);
    let title = "Run to completion and pipelines";
    let mut sweep = Sweep::new(records, "pipeline", title, x, rate()).with_single_points();
    let usual = Pipeline::default();
    sweep.plain(value::RATE, |point| match point {
        Point::Pipeline(this) if this.burst == usual.burst && this.touch == usual.touch => {
            let name = format!("{}, {} behind", words(&this.placement), this.workers);
            Some((name, this.work.into()))
        }
        _ => None,
    });
    let piped = !sweep.is_empty();
    sweep.plain(value::RATE, |point| match point {
        Point::Forward(this)
            if piped
                && this.driver == Driver::Ring
                && this.burst == usual.burst
                && this.accesses == 0
                && this.touch == Touch::None
                && this.frame == usual.frame
                && !this.bidirectional =>
        {
            Some((format!("run to completion, {} workers", this.workers), this.work.into()))
        }
        _ => None,
    });
    sweep.done("One thread receives and hands over, or all do everything.")
}

pub(super) fn workers(records: &[Record]) -> Option<Figure> {
    let x = Axis::decimal("workers", Scale::Linear);
    let mut sweep = Sweep::new(records, "workers", "Throughput against workers", x, rate());
    sweep.plain(value::RATE, |point| match point {
        Point::Forward(this)
            if this.driver == Driver::Ring && this.accesses == 0 && this.touch == Touch::None =>
        {
            let name = format!("burst {}, load {}", this.burst, this.work);
            let plain = Forward {
                driver: this.driver,
                burst: this.burst,
                work: this.work,
                workers: this.workers,
                ..Forward::default()
            };
            (plain == *this).then(|| (name, this.workers.into()))
        }
        _ => None,
    });
    sweep.done("Each worker has ports of its own.")
}
