//! The memory term: time of an access in a working set of some size.

use serde::{Deserialize, Serialize};

use crate::units::{Bytes, Seconds, SecondsPerPacket};

/// Accesses that a task makes for each packet.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Access {
    /// Accesses for each packet (`S`).
    pub count: f64,
    /// The memory they are spread over at random (`WS`).
    pub working_set: Bytes,
    /// Accesses that do not wait for each other; 1 for a chain.
    pub parallel: f64,
}

/// The latency of one access against the size of the working set, `l(WS)`.
///
/// Measured by chasing pointers round a list in random order. Between two measured sizes it is
/// interpolated over the logarithm of the size; outside of them it keeps the
/// nearest value, which underestimates sets larger than the largest measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Vec<(Bytes, Seconds)>", into = "Vec<(Bytes, Seconds)>")]
pub struct LatencyCurve(Vec<(Bytes, Seconds)>);

impl LatencyCurve {
    /// The curve through these points, in any order. Of points of one size the mean is taken; sizes
    /// of zero and infinite values are left out.
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

    /// Returns true if the size lies within those measured.
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

/// Cost of memory on one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// The latency of one access.
    pub latency: LatencyCurve,
    /// The share of an access's time that does not overlap with other
    /// independent ones (`q`), from 0 to 1: `k` of them overlap by the factor
    /// `m = k / (1 + q (k-1))`. Measured with chains side by side.
    pub serial: f64,
    /// Cost of an access over that on the list; 1 if packets see the memory as the list does.
    pub scale: f64,
}

impl Default for Memory {
    fn default() -> Self {
        Memory { latency: LatencyCurve::default(), serial: 1.0, scale: 1.0 }
    }
}

impl Memory {
    /// Factor by which so many independent accesses are faster than a chain (`m`).
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

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(points: &[(f64, f64)]) -> LatencyCurve {
        LatencyCurve::new(points.iter().map(|&(size, time)| (Bytes::new(size), Seconds::new(time))))
    }

    #[test]
    fn latency_is_even_in_the_logarithm_of_the_size() {
        // From 1 KiB to 64 KiB is six doublings; 8 KiB lies half way.
        let curve = curve(&[(65536.0, 9e-9), (1024.0, 1e-9)]);
        let at = |size| curve.at(Bytes::new(size)).get();
        assert!((at(8192.0) - 5e-9).abs() < 1e-15, "{}", at(8192.0));
        assert_eq!((at(1.0), at(1e12)), (1e-9, 9e-9));
        assert!(curve.covers(Bytes::new(2000.0)) && !curve.covers(Bytes::new(1e6)));
    }

    #[test]
    fn points_of_one_size_are_averaged_and_bad_ones_left_out() {
        let curve = curve(&[(64.0, 2e-9), (64.0, 4e-9), (0.0, 1e-9), (f64::NAN, 1e-9)]);
        assert_eq!(curve.points().len(), 1);
        assert!((curve.at(Bytes::new(64.0)).get() - 3e-9).abs() < 1e-15);
        assert_eq!(LatencyCurve::default().at(Bytes::new(64.0)), Seconds::ZERO);
    }

    #[test]
    fn independent_accesses_overlap_up_to_a_limit() {
        let memory = Memory { latency: curve(&[(64.0, 80e-9)]), serial: 0.25, ..Memory::default() };
        assert_eq!(memory.overlap(1.0), 1.0);
        assert!((memory.overlap(5.0) - 2.5).abs() < 1e-12);
        assert!(memory.overlap(1e9) < 4.0 + 1e-6);
        let access = Access { count: 5.0, working_set: Bytes::new(64.0), parallel: 5.0 };
        assert!((memory.time(&access).get() - 160e-9).abs() < 1e-15);
    }
}
