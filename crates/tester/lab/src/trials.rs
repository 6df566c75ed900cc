//! Trials: their orders, their results, and their runners.
//!
//! A [`Runner`] carries out one [`Order`] at a time. [`Tester`] is the one that sends and receives
//! frames; the [`procedures`](crate::procedures) do not know the difference to a simulated one.

mod device;
mod tester;
mod wire;

use std::time::Duration;

use linerate_model::units::{PacketsPerSecond, Seconds};
use linerate_port::PortError;
use serde::Serialize;

pub use device::{Device, DeviceUsage};
pub use tester::{Tester, TesterOptions};
pub use wire::Wire;

use crate::{rx_queues::Latency, search::Frames};

/// Frames in a row at one rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Phase {
    /// Rate; as fast as possible when `None`.
    pub load: Option<PacketsPerSecond>,
    /// Number of frames.
    pub frames: u64,
}

impl Phase {
    /// At a rate for a time; a part of a frame is none.
    pub fn lasting(load: PacketsPerSecond, time: Seconds) -> Self {
        let input = crate::search::Input { load, duration: time };
        Phase { load: Some(load), frames: input.frames() }
    }
}

/// The frames that a trial is to send.
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    /// One after the other, without a break.
    pub phases: Vec<Phase>,
    /// Time for which frames still on the way are waited for. The wait ends when all have come.
    pub residual: Duration,
}

impl Order {
    /// A trial at one load.
    pub fn steady(load: PacketsPerSecond, time: Seconds, residual: Duration) -> Self {
        Order { phases: vec![Phase::lasting(load, time)], residual }
    }

    /// Frames of all phases.
    pub fn frames(&self) -> u64 {
        self.phases.iter().map(|phase| phase.frames).sum()
    }
}

/// Result of a trial.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Frames by where they were counted.
    pub frames: Frames,
    /// Time of sending.
    pub sending: Seconds,
    /// Begin of each phase, since the start of the trial.
    pub begun: Vec<Seconds>,
    /// Frames that came more than once.
    pub duplicates: u64,
    /// Frames that came after a later one.
    pub reordered: u64,
    /// Frames of others, and of earlier trials.
    pub foreign: u64,
    /// Time for which frames were on the way, counted from when they were made.
    pub latency: Latency,
    /// Sending time of the last missing frame, since the start of the trial. A loss at the very end
    /// of a trial is not seen here.
    pub last_loss: Option<Seconds>,
    /// Frames taken by the port in successive windows of 10 ms of sending, as
    /// rates; the last, shorter one is left out.
    pub windows: Vec<f64>,
}

impl Outcome {
    /// The rate at which the port took frames.
    pub fn sent_rate(&self) -> PacketsPerSecond {
        let seconds = self.sending.get();
        let rate = if seconds > 0.0 { self.frames.accepted as f64 / seconds } else { 0.0 };
        PacketsPerSecond::new(rate)
    }
}

/// The reason why a trial has no result.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A port has failed.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The user wants no more.
    #[error("interrupted")]
    Interrupted,
    /// The device has stopped.
    #[error("the device under test has stopped: {0}")]
    Device(String),
    /// The goals of a search make no sense.
    #[error(transparent)]
    Search(#[from] crate::search::SearchError),
    /// The traffic cannot be made.
    #[error(transparent)]
    Traffic(#[from] crate::TrafficError),
}

/// A runner of trials.
pub trait Runner {
    /// Runs a trial to its end.
    ///
    /// # Errors
    ///
    /// When it cannot be run, or was interrupted.
    fn run(&mut self, order: &Order) -> Result<Outcome, RunError>;
}

/// Latency in figures, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LatencyFigures {
    /// Frames measured.
    pub frames: u64,
    /// The smallest.
    pub min_ns: u64,
    /// The mean.
    pub mean_ns: f64,
    /// The median: RFC 8219's typical latency.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile: RFC 8219's worst case.
    pub p999_ns: u64,
    /// The largest.
    pub max_ns: u64,
    /// Delay variation: 99.9th percentile less the smallest (RFC 8219, 7.3.1).
    pub variation_ns: u64,
}

impl LatencyFigures {
    /// Figures of the recorded latencies; `None` if there are none.
    pub fn from_latency(latency: &Latency) -> Option<Self> {
        let at = |percent| latency.percentile(percent);
        (latency.count() > 0).then(|| LatencyFigures {
            frames: latency.count(),
            min_ns: latency.min(),
            mean_ns: latency.mean(),
            p50_ns: at(50.0),
            p90_ns: at(90.0),
            p99_ns: at(99.0),
            p999_ns: at(99.9),
            max_ns: latency.max(),
            variation_ns: at(99.9).saturating_sub(latency.min()),
        })
    }
}
