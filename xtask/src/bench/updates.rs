//! Case `updates`: a worker forwards by a million routes while another thread changes 1,000 of them
//! a second, and then replaces them all.
//!
//! Nothing of it is a ratio to another program: the results are that no packet is lost or goes
//! wrong, and how much longer than without updates the worker ever stands still.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::ours::Ours;

/// Longest phases: a thousand updates at least.
const PHASE: Duration = Duration::from_secs(2);
/// Number of repetitions: gaps are rare.
const TIMES: u32 = 3;

pub(super) fn measure(ours: &Ours, window: Duration) -> Result<Vec<Value>> {
    let mut lines = Vec::new();
    for _ in 0..TIMES {
        let line = ours.updates(window.max(PHASE))?;
        let wrong = line["phases"].as_array().context("no phases")?.iter();
        let wrong: Option<u64> = wrong.map(|phase| phase["wrong"].as_u64()).sum();
        ensure!(
            (wrong, line["lost"].as_u64(), line["no_route"].as_u64())
                == (Some(0), Some(0), Some(0)),
            "packets were lost or went wrong while routes changed: {line}"
        );
        lines.push(line);
    }
    Ok(lines)
}

pub(super) fn print(line: &Value) {
    let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    let writer = &line["writer"];
    println!(
        "updates          {:.0} a second, {:.1} us each, longest {:.0} us; {:.2} s for all {} routes; \
         {} packets lost",
        number(&writer["updates_per_second"]),
        number(&writer["update_us_median"]),
        number(&writer["update_us_longest"]),
        number(&writer["reload_seconds"]),
        line["routes"],
        line["lost"],
    );
    for phase in line["phases"].as_array().into_iter().flatten() {
        println!(
            "{:>16} longest gap {:>8.1} us, {} over 1 ms, {} packets, {} wrong",
            phase["phase"].as_str().unwrap_or_default(),
            number(&phase["longest_gap_us"]),
            phase["gaps_over_1ms"],
            phase["packets"],
            phase["wrong"],
        );
    }
}
