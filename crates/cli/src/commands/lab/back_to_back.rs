//! `linerate lab back-to-back`: the longest burst without loss.

use anyhow::Result;
use linerate_graph::Library;
use linerate_lab::procedures::{self, BurstsOptions};
use linerate_model::units::Seconds;
use serde_json::json;

use super::bench::TestBed;
use crate::{
    args::BackToBack,
    units::{grouped, with_unit},
};

pub(super) fn run(args: &BackToBack, library: &Library) -> Result<()> {
    let mut bed = TestBed::open(&args.bench, library, "lab back-to-back", &[])?;
    let Some(throughput) = bed.throughput(&args.known)? else { return Ok(()) };
    let options = BurstsOptions {
        line_rate: bed.highest,
        throughput,
        longest: Seconds::new(args.longest.as_secs_f64()),
        resolution: args.resolution,
        repetitions: args.repetitions,
    };
    let found = bed.run(|runner, trial_options, observe| {
        procedures::back_to_back(runner, &options, trial_options, observe)
    })?;
    let Some(found) = found else { return Ok(()) };
    if found.interrupted {
        bed.show().broken_off()?;
    }
    let mut lines = Vec::new();
    match &found.result {
        Some(result) => {
            let frames = |packets: linerate_model::units::Packets| grouped(packets.get() as u64);
            lines.push(format!(
                "bursts of {} frames at {} ({} to {}, deviation {})",
                frames(result.mean),
                with_unit(options.line_rate.get(), "pps"),
                frames(result.shortest),
                frames(result.longest),
                frames(result.deviation),
            ));
            lines.push(format!(
                "buffer: {} implied, {} corrected for what was forwarded meanwhile (RFC 9004): {} frames",
                result.implied,
                result.corrected,
                frames(result.corrected * options.line_rate),
            ));
        }
        None if found.bursts.is_empty() => {
            lines.push("no result: the generator did not send the bursts in full".into());
        }
        None => {
            lines.push("the device forwards the highest rate: no burst fills its buffer".into());
        }
    }
    if found.unbounded > 0 {
        let count = found.unbounded;
        lines.push(format!("{count} times even the longest burst lost nothing: a lower bound"));
    }
    if found.generator_limited > 0 {
        let count = found.generator_limited;
        let all = count as usize + found.bursts.len();
        lines.push(format!("{count} of {all} searches void: the generator did not send all"));
    }
    bed.show().result(
        &lines,
        json!({
            "line_rate_pps": options.line_rate,
            "throughput_pps": throughput,
            "bursts": found,
            "platform": bed.platform,
        }),
    )
}
