//! `linerate lab ndr`: the rates a device forwards with no or little loss.

use std::time::Duration;

use anyhow::Result;
use linerate_graph::Library;
use linerate_lab::{
    procedures,
    search::{Ended, Goal, GoalResult, Settings},
};
use linerate_model::units::Seconds;
use serde_json::{Value, json};

use super::bench::TestBed;
use crate::{
    args::{Ndr, Preset},
    exit::UsageError,
    units::with_unit,
};

pub(super) fn run(args: &Ndr, library: &Library) -> Result<()> {
    let goals: Vec<Goal> = args.goal.iter().map(|preset| changed(preset.goal(), args)).collect();
    for goal in &goals {
        goal.check()
            .map_err(|error| UsageError(format!("the goal cannot be looked for: {error}")))?;
    }
    let mut bed = TestBed::open(&args.bench, library, "lab ndr", &goals)?;
    let settings = Settings { longest: args.longest.map(seconds), ..bed.settings(&goals) };
    let searched = goals.clone();
    let found = bed.run(|runner, trial_options, observe| {
        procedures::throughput(runner, searched, settings, trial_options, observe)
    })?;
    let Some(found) = found else { return Ok(()) };
    if found.interrupted {
        bed.show().broken_off()?;
    }
    let mut lines: Vec<String> = args
        .goal
        .iter()
        .zip(&found.goals)
        .map(|(preset, result)| describe(*preset, result))
        .collect();
    if found.generator_limited {
        lines.push("the generator could not send some of the loads that were tried".into());
    }
    let names = args.goal.iter().map(|preset| preset.name());
    let goals: Vec<Value> = names
        .zip(&found.goals)
        .map(|(name, result)| json!({ "name": name, "result": result }))
        .collect();
    bed.show().result(
        &lines,
        json!({
            "goals": goals,
            "generator_limited": found.generator_limited,
            "interrupted": found.interrupted,
            "platform": bed.platform,
            "highest_pps": bed.highest,
            "loads": found.loads,
        }),
    )
}

/// The goal with the options of the command line.
fn changed(goal: Goal, args: &Ndr) -> Goal {
    let final_trial = args.trial.map_or(goal.final_trial, seconds);
    Goal {
        final_trial,
        initial_trial: goal.initial_trial.min(final_trial),
        duration_sum: args.sum.map_or(goal.duration_sum, seconds).max(final_trial),
        loss_ratio: args.loss.unwrap_or(goal.loss_ratio),
        exceed_ratio: args.exceed.unwrap_or(goal.exceed_ratio),
        width: args.width.unwrap_or(goal.width),
    }
}

fn seconds(time: Duration) -> Seconds {
    Seconds::new(time.as_secs_f64())
}

fn describe(preset: Preset, result: &GoalResult) -> String {
    let rate = |rate: linerate_model::units::PacketsPerSecond| with_unit(rate.get(), "pps");
    let name = preset.name();
    let forwarded = result
        .conditional_throughput
        .map_or(String::new(), |forwarded| format!(", {} forwarded", rate(forwarded)));
    match (result.ended, result.lower, result.upper) {
        (Ended::Found, Some(lower), Some(upper)) => {
            format!("{name}: {} (not {}){forwarded}", rate(lower), rate(upper))
        }
        (Ended::AtHighest, Some(lower), _) => {
            format!("{name}: at least {}, the highest load tried{forwarded}", rate(lower))
        }
        (Ended::AtLowest, ..) => format!("{name}: not reached at any load"),
        (Ended::GeneratorLimit, lower, _) => {
            let at_least =
                lower.map_or("unknown".into(), |lower| format!("at least {}", rate(lower)));
            format!("{name}: {at_least}; beyond that the generator is the limit{forwarded}")
        }
        (ended, lower, upper) => {
            let bound = |bound: Option<_>| bound.map_or("unknown".into(), rate);
            let why = match ended {
                Ended::OutOfTime => "time ran out",
                _ => "the search did not end",
            };
            format!("{name}: between {} and {}: {why}", bound(lower), bound(upper))
        }
    }
}
