//! `linerate lab recovery`: time of losses after an overload.

use anyhow::Result;
use linerate_graph::Library;
use linerate_lab::procedures::{self, RecoveryOptions};
use linerate_model::units::Seconds;
use serde_json::json;

use super::{bench::TestBed, show::table};
use crate::{args::Recovery, units::with_unit};

pub(super) fn run(args: &Recovery, library: &Library) -> Result<()> {
    let mut bed = TestBed::open(&args.bench, library, "lab recovery", &[])?;
    let Some(throughput) = bed.throughput(&args.known)? else { return Ok(()) };
    let options = RecoveryOptions {
        throughput,
        line_rate: bed.highest,
        overload: Seconds::new(args.overload.as_secs_f64()),
        after: Seconds::new(args.after.as_secs_f64()),
        repetitions: args.repetitions,
    };
    let found = bed.run(|runner, trial_options, observe| {
        procedures::recovery(runner, &options, trial_options, observe)
    })?;
    let Some(found) = found else { return Ok(()) };
    if found.interrupted {
        bed.show().broken_off()?;
    }
    let recoveries = &found.points;
    let rows: Vec<Vec<String>> = recoveries
        .iter()
        .map(|one| {
            let remark = match (one.generator_limited, one.overloaded) {
                (true, _) => "void: the generator did not send all",
                (false, false) => "nothing was lost: no overload",
                (false, true) => "",
            };
            let time = one.time.map_or("-".into(), |time| time.to_string());
            vec![with_unit(one.overload.get(), "pps"), time, remark.into()]
        })
        .collect();
    let lines = table(&["overload", "recovery", "remark"], &rows);
    bed.show().result(
        &lines,
        json!({
            "throughput_pps": throughput,
            "recoveries": recoveries,
            "interrupted": found.interrupted,
            "platform": bed.platform,
        }),
    )
}
