//! The memory term: how long an access takes in a working set of some size.

use serde::{Deserialize, Serialize};

use crate::units::{Bytes, Seconds, SecondsPerPacket};

/// Accesses that a task makes for each packet.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Access {
    /// How many for each packet (`S`).
    pub count: f64,
    /// The memory they are spread over at random (`WS`).
    pub working_set: Bytes,
    /// How many of them do not wait for each other; 1 for a chain.
    pub parallel: f64,
}

/// The latency of one access against the size of the working set, `l(WS)`.
///
/// Measured with a randomised circular list. Between two measured sizes it is
/// interpolated over the logarithm of the size; outside of them it keeps the
/// nearest value, which underestimates sets larger than the largest measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Vec<(Bytes, Seconds)>", into = "Vec<(Bytes, Seconds)>")]
pub struct LatencyCurve(Vec<(Bytes, Seconds)>);

impl LatencyCurve {
    /// The curve through these points, in any order. Of points of the same
    /// size the mean is taken; sizes of zero and what is not finite are left
    /// out.
    pub fn new(points: impl IntoIterator<Item = (Bytes, Seconds)>) -> Self {
        let mut points: Vec<_> = points
            .into_iter()
            .filter(|(size, time)| {
                size.get() > 0.0 && size.get().is_finite() && time.get().is_finite()
            })
            .collect();
        points.sort_by(|(one, _), (other, _)| one.get().total_cmp(&other.get()));
        let merged = points.chunk_by(|(one, _), (other, _)| one == other).map(|same| {
            let sum: Seconds = same.iter().map(|&(_, time)| time).sum();
            (same[0].0, sum / same.len() as f64)
        });
        LatencyCurve(merged.collect())
    }

    /// The points, by size.
    pub fn points(&self) -> &[(Bytes, Seconds)] {
        &self.0
    }

    /// The latency in a working set of this size; zero if nothing was
    /// measured.
    pub fn at(&self, size: Bytes) -> Seconds {
        let after = self.0.partition_point(|(measured, _)| *measured < size);
        let (Some(&(right, high)), Some(&(left, low))) =
            (self.0.get(after), after.checked_sub(1).and_then(|before| self.0.get(before)))
        else {
            let nearest = if after == 0 { self.0.first() } else { self.0.last() };
            return nearest.map_or(Seconds::ZERO, |&(_, time)| time);
        };
        let share = (size / left).ln() / (right / left).ln();
        low + (high - low) * share
    }

    /// Whether the size lies within those measured.
    pub fn covers(&self, size: Bytes) -> bool {
        match (self.0.first(), self.0.last()) {
            (Some(&(first, _)), Some(&(last, _))) => first <= size && size <= last,
            _ => false,
        }
    }
}

impl From<Vec<(Bytes, Seconds)>> for LatencyCurve {
    fn from(points: Vec<(Bytes, Seconds)>) -> Self {
        LatencyCurve::new(points)
    }
}

impl From<LatencyCurve> for Vec<(Bytes, Seconds)> {
    fn from(curve: LatencyCurve) -> Self {
        curve.0
    }
}

/// What memory costs on one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// The latency of one access.
    pub latency: LatencyCurve,
    /// The share of an access's time that does not overlap with other
    /// independent ones (`q`), from 0 to 1: `k` of them overlap by the factor
    /// `m = k / (1 + q (k-1))`. Measured with chains side by side.
    pub serial: f64,
    /// What an access costs in place of what the list says; 1 if packets see
    /// the same memory as the list.
    pub scale: f64,
}

impl Default for Memory {
    fn default() -> Self {
        Memory { latency: LatencyCurve::default(), serial: 1.0, scale: 1.0 }
    }
}

impl Memory {
    /// How many times faster so many independent accesses are than a chain
    /// (`m`).
    pub fn overlap(&self, parallel: f64) -> f64 {
        let parallel = parallel.max(1.0);
        parallel / (1.0 + self.serial * (parallel - 1.0))
    }

    /// `S * l(WS) / m`.
    pub fn time(&self, access: &Access) -> SecondsPerPacket {
        let time = self.latency.at(access.working_set) * self.scale;
        (time * access.count / self.overlap(access.parallel)).per_packet()
    }
}
