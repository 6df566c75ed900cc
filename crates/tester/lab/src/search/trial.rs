//! One trial: its load and duration, and its result.

use linerate_model::units::{PacketsPerSecond, Seconds};
use serde::{Deserialize, Serialize};

/// A trial that a search asks for: sending at a load for some time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Input {
    /// Intended load of one interface.
    pub load: PacketsPerSecond,
    /// Time of sending.
    pub duration: Seconds,
}

impl Input {
    /// Frames that the trial is meant to send; a part of a frame is none.
    pub fn frames(&self) -> u64 {
        // A product that should be a whole number may be a hair below it.
        ((self.load * self.duration).get() * (1.0 + 1e-12)).floor() as u64
    }
}

/// Frames of a trial, counted in four places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frames {
    /// Meant to be sent.
    pub intended: u64,
    /// Offered to the port in time.
    pub offered: u64,
    /// Taken by the port.
    pub accepted: u64,
    /// Come back from the device, each counted once.
    pub received: u64,
}

/// Treatment of frames that the generator was meant to send and did not.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unsent {
    /// As lost: the device and the generator are measured as one.
    Loss,
    /// More than this share of them makes the trial void, for it says nothing
    /// of the device; fewer are taken as lost.
    Void(f64),
}

impl Frames {
    /// The share of intended frames that did not come back. 0 if none were
    /// intended.
    pub fn loss_ratio(&self) -> f64 {
        if self.intended == 0 {
            return 0.0;
        }
        1.0 - self.received.min(self.intended) as f64 / self.intended as f64
    }

    /// The share of intended frames that were not sent.
    pub fn unsent_ratio(&self) -> f64 {
        if self.intended == 0 {
            return 0.0;
        }
        1.0 - self.accepted.min(self.intended) as f64 / self.intended as f64
    }

    /// Returns true if the generator, and not the device, was the limit.
    pub fn is_void(&self, unsent: Unsent) -> bool {
        match unsent {
            Unsent::Loss => false,
            Unsent::Void(tolerance) => self.unsent_ratio() > tolerance,
        }
    }
}

/// A trial that counts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Intended duration, which decides whether it is a short one.
    pub duration: Seconds,
    /// For how long it counts (RFC 9971's effective duration): usually its
    /// duration, or with all waiting around it.
    pub effective: Seconds,
    /// The share of frames lost.
    pub loss_ratio: f64,
}

impl Trial {
    /// A trial that counts for its duration.
    pub const fn new(duration: Seconds, loss_ratio: f64) -> Self {
        Trial { duration, effective: duration, loss_ratio }
    }
}
