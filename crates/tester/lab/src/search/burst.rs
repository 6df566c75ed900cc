//! Back-to-back frames: RFC 2544, section 26.4, with RFC 9004.

use linerate_model::units::{Packets, PacketsPerSecond, Seconds};
use serde::{Deserialize, Serialize};

/// Looks for the longest burst at line rate of which nothing is lost.
///
/// Halves the space between the longest burst without loss and the shortest
/// with loss until they are as close as wanted.
#[derive(Clone, Debug, PartialEq)]
pub struct BurstSearch {
    resolution: u64,
    longest: u64,
    /// The longest burst without loss so far; 0 before there is one.
    kept: u64,
    /// The shortest burst with loss so far.
    lost: Option<u64>,
}

impl BurstSearch {
    /// Up to `longest` frames, which RFC 2544 wants to be 2 s at least, and as
    /// fine as `resolution` frames.
    pub fn new(longest: u64, resolution: u64) -> Self {
        BurstSearch { resolution: resolution.max(1), longest: longest.max(1), kept: 0, lost: None }
    }

    /// Frames of the next burst, or `None` at the end.
    pub fn next_burst(&self) -> Option<u64> {
        match self.lost {
            None if self.kept == 0 => Some(self.longest),
            None => None,
            Some(lost) if lost - self.kept <= self.resolution => None,
            Some(lost) => Some(self.kept + (lost - self.kept) / 2),
        }
    }

    /// Tells how many frames of the next burst were lost; nothing at the end.
    pub fn record(&mut self, lost: u64) {
        match self.next_burst() {
            Some(burst) if lost > 0 => self.lost = Some(burst),
            Some(burst) => self.kept = burst,
            None => (),
        }
    }

    /// The longest burst without loss. The longest tried if none had any: then
    /// it is no more than a lower bound.
    pub fn result(&self) -> u64 {
        self.kept
    }

    /// Returns true if a burst was long enough to lose frames.
    pub fn is_bounded(&self) -> bool {
        self.lost.is_some()
    }
}

/// The benchmark from repeated searches, as RFC 9004 reports it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BackToBack {
    /// Mean length of the longest bursts without loss.
    pub mean: Packets,
    /// The shortest of them.
    pub shortest: Packets,
    /// The longest.
    pub longest: Packets,
    /// Their standard deviation; zero for one.
    pub deviation: Packets,
    /// The device's buffer as time at line rate if it forwarded nothing
    /// meanwhile: mean / line rate.
    pub implied: Seconds,
    /// The buffering time without the frames that it forwarded during the burst: implied * (1 -
    /// throughput / line rate). A queue of `Q` frames gives `Q / line rate`.
    pub corrected: Seconds,
}

impl BackToBack {
    /// From the results of (RFC 2544: 50) searches at one frame size.
    ///
    /// `None` without results, and where the device's throughput is the line
    /// rate: it then fills no buffer, and RFC 9004 leaves the size out.
    pub fn new(
        bursts: &[u64],
        line_rate: PacketsPerSecond,
        throughput: PacketsPerSecond,
    ) -> Option<Self> {
        if throughput >= line_rate {
            return None;
        }
        let count = bursts.len() as f64;
        let mean = bursts.iter().sum::<u64>() as f64 / count;
        let squares: f64 = bursts.iter().map(|&burst| (burst as f64 - mean).powi(2)).sum();
        let deviation = if bursts.len() > 1 { (squares / (count - 1.0)).sqrt() } else { 0.0 };
        let implied = Packets::new(mean) / line_rate;
        Some(BackToBack {
            mean: Packets::new(mean),
            shortest: Packets::new(*bursts.iter().min()? as f64),
            longest: Packets::new(*bursts.iter().max()? as f64),
            deviation: Packets::new(deviation),
            implied,
            corrected: implied * (1.0 - throughput / line_rate),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: f64 = 14_880_952.0;

    /// A device that forwards at `capacity` and queues `queue` frames.
    fn search(queue: u64, capacity: f64, resolution: u64) -> BurstSearch {
        let mut search = BurstSearch::new(2 * LINE as u64, resolution);
        let mut trials = 0;
        while let Some(burst) = search.next_burst() {
            let waiting = burst as f64 * (1.0 - capacity / LINE);
            search.record((waiting - queue as f64).max(0.0).ceil() as u64);
            trials += 1;
            assert!(trials < 40);
        }
        search
    }

    #[test]
    fn the_queue_is_found_again() {
        for (queue, capacity) in [(512, 5e6), (4096, 10e6), (100_000, 14e6), (1, 1e6)] {
            let found = search(queue, capacity, 1);
            assert!(found.is_bounded());
            let line = PacketsPerSecond::new(LINE);
            let result =
                BackToBack::new(&[found.result()], line, PacketsPerSecond::new(capacity)).unwrap();
            let frames = (result.corrected * line).get();
            assert!((frames - queue as f64).abs() <= 1.0, "{frames} of {queue}");
            assert!(result.implied > result.corrected);
        }
    }

    #[test]
    fn a_device_at_line_rate_fills_no_buffer() {
        let found = search(512, LINE, 1);
        assert!(!found.is_bounded());
        assert_eq!(found.result(), 2 * LINE as u64);
        let line = PacketsPerSecond::new(LINE);
        assert_eq!(BackToBack::new(&[found.result()], line, line), None);
    }

    #[test]
    fn a_device_without_a_buffer_keeps_nothing() {
        let mut search = BurstSearch::new(1000, 1);
        while search.next_burst().is_some() {
            search.record(1);
        }
        assert_eq!(search.result(), 0);
    }

    #[test]
    fn repeated_searches_are_summed_up() {
        let rate = PacketsPerSecond::new;
        let result = BackToBack::new(&[900, 1000, 1100], rate(2e6), rate(1e6)).unwrap();
        assert_eq!(result.mean, Packets::new(1000.0));
        assert_eq!(result.deviation, Packets::new(100.0));
        assert_eq!((result.shortest, result.longest), (Packets::new(900.0), Packets::new(1100.0)));
        assert!((result.implied.get() - 500e-6).abs() < 1e-12);
        assert!((result.corrected.get() - 250e-6).abs() < 1e-12);
        assert_eq!(BackToBack::new(&[], rate(2e6), rate(1e6)), None);
    }

    #[test]
    fn the_resolution_ends_the_search() {
        let fine = search(4096, 10e6, 1).result();
        let coarse = search(4096, 10e6, 1000).result();
        assert!(coarse <= fine && fine - coarse < 1000);
    }
}
