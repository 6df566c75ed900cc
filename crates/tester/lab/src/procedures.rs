//! The benchmarks of RFC 2544 and its successors, from the first trial to the result, on any runner
//! of trials.
//!
//! - [`platform()`]: the limits of generator and sink by themselves, first of all.
//! - [`throughput()`]: MLRsearch (RFC 9971) for one goal or several.
//! - [`loss()`]: the frame loss rate (RFC 2544, 26.3).
//! - [`back_to_back()`]: bursts (RFC 2544, 26.4, with RFC 9004).
//! - [`recovery()`]: after overload (RFC 2544, 26.5).
//! - [`latency()`]: against load (RFC 8219, 7.2 and 7.3.1).
//!
//! A trial that the generator could not send as meant is void: it is repeated, and then said to be
//! the generator's limit. It is never taken for a result of the device.

mod back_to_back;
mod latency;
mod loss;
mod platform;
mod recovery;
mod throughput;

use std::time::Duration;

use linerate_model::units::{PacketsPerSecond, Seconds};
use serde::Serialize;

pub use back_to_back::{Bursts, BurstsOptions, back_to_back};
pub use latency::{LatencyAt, latency};
pub use loss::{LossAt, loss};
pub use platform::{Platform, platform};
pub use recovery::{Recovered, RecoveryOptions, recovery};
pub use throughput::{Throughput, throughput};

use crate::{
    search::{Frames, Unsent},
    trials::{Order, Outcome, RunError, Runner},
};

/// Trial options of all procedures.
#[derive(Clone, Copy, Debug)]
pub struct TrialOptions {
    /// Time for which frames still on the way are waited for (RFC 2544: 2 s).
    pub residual: Duration,
    /// Treatment of unsent frames.
    pub unsent: Unsent,
    /// Most repetitions of a void trial.
    pub retries: u32,
}

/// A trial that was run, for observers.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Intended load; as fast as possible when `None`.
    #[serde(rename = "load_pps")]
    pub load: Option<PacketsPerSecond>,
    /// Intended duration.
    #[serde(rename = "duration_s")]
    pub duration: Option<Seconds>,
    /// Frames by where they were counted.
    #[serde(flatten)]
    pub frames: Frames,
    /// Share of frames meant to be sent that did not come back.
    pub loss_ratio: f64,
    /// The judgement on it.
    pub taken: TrialStatus,
}

/// Judgement on a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrialStatus {
    /// The trial counts.
    Counted,
    /// The generator did not send what it should; it is repeated.
    Void,
    /// Void once too often: the generator is the limit.
    GeneratorLimit,
}

/// Measurements in the order of their trials.
#[derive(Clone, Debug, Serialize)]
pub struct Points<T> {
    /// In their order.
    pub points: Vec<T>,
    /// Whether it was broken off: there would have been more.
    pub interrupted: bool,
}

/// The outcome of a trial; `None` of one that was broken off, when something was found before it.
fn unless_broken_off<T>(trial: Result<T, RunError>, found: bool) -> Result<Option<T>, RunError> {
    match trial {
        Err(RunError::Interrupted) if found => Ok(None),
        trial => trial.map(Some),
    }
}

/// An observer of trials.
pub type Observe<'a> = &'a mut dyn FnMut(&Report);

/// Runs a trial at one load until the generator has sent it, or cannot.
fn steady(
    runner: &mut dyn Runner,
    load: PacketsPerSecond,
    time: Seconds,
    trial_options: &TrialOptions,
    observe: Observe<'_>,
) -> Result<(Outcome, TrialStatus), RunError> {
    let order = Order::steady(load, time, trial_options.residual);
    repeated(runner, &order, Some(load), Some(time), trial_options, observe)
}

/// Runs a trial of any order until the generator has sent it, or cannot.
fn repeated(
    runner: &mut dyn Runner,
    order: &Order,
    load: Option<PacketsPerSecond>,
    duration: Option<Seconds>,
    trial_options: &TrialOptions,
    observe: Observe<'_>,
) -> Result<(Outcome, TrialStatus), RunError> {
    let mut tries = 0;
    loop {
        let outcome = runner.run(order)?;
        let taken = if !outcome.frames.is_void(trial_options.unsent) {
            TrialStatus::Counted
        } else if tries < trial_options.retries {
            TrialStatus::Void
        } else {
            TrialStatus::GeneratorLimit
        };
        let frames = outcome.frames;
        observe(&Report { load, duration, frames, loss_ratio: frames.loss_ratio(), taken });
        if taken != TrialStatus::Void {
            return Ok((outcome, taken));
        }
        tries += 1;
    }
}
