//! Measured throughput of a configuration, beside its estimate.

use std::time::Duration;

use linerate_graph::Usage;
use linerate_memory::clock::cycles_per_second;

use super::{SampleError, trial::Trial};
use crate::{
    measure::{
        Bench, Failure,
        graph::{End, drive, windows},
    },
    point::{Values, value},
};

/// Packets after which a rate is known that the clock sets, and how long they are waited for.
const PACKETS_NEEDED: f64 = 50.0;
const TIMEOUT: Duration = Duration::from_secs(10);
/// Longest wait for an undisturbed core.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);

/// The measured rate of a configuration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeasuredRate {
    /// Packets that all its sources brought, per second.
    pub rate: f64,
    /// Cycles that went by for each of them.
    pub cycles: f64,
}

impl Trial {
    /// Runs the configuration for some time on samples that come as fast as it takes them. Where the
    /// clock says how fast packets come (`most` per second), it runs for as long as that takes to be
    /// seen.
    ///
    /// # Errors
    ///
    /// When it cannot be run without its ports.
    pub fn measured_rate(
        &self,
        bench: &Bench,
        time: Duration,
        most: Option<f64>,
    ) -> Result<MeasuredRate, SampleError> {
        let time = time.max(most.map_or(Duration::ZERO, needed));
        let sources: Vec<usize> = self.sources().collect();
        let measure = || -> Result<Values, Failure> {
            let mut router = self.endless().map_err(Failure::void)?;
            let bring = sources.clone();
            let brought = move |usage: &Usage| -> u64 {
                bring.iter().map(|at| usage.elements[*at].packets).sum()
            };
            let ends = drive(&mut router, time, brought.clone())?;
            router.close();
            let packets =
                |before: &End, after: &End| (brought(&after.usage) - brought(&before.usage)) as f64;
            let (first, last) = (&ends[0], &ends[ends.len() - 1]);
            // Clocks go on while others have the core.
            let whole = packets(first, last) / (last.at - first.at).as_secs_f64();
            let rates = windows(&ends).into_iter().filter_map(|(before, after)| {
                let seconds = after.on_core.saturating_sub(before.on_core).as_secs_f64();
                (seconds > 0.0).then(|| packets(before, after) / seconds)
            });
            let rate = rate(whole, rates.collect(), most.is_some());
            Ok(Values::from([(value::RATE.into(), rate)]))
        };
        let values = bench.on_idle_core(IDLE_TIMEOUT, measure);
        let values = values.map_err(|failure| SampleError::Measure(failure.to_string()))?;
        let rate = values.get(value::RATE).copied().unwrap_or_default();
        Ok(MeasuredRate { rate, cycles: cycles_per_second() / rate })
    }
}

/// Time it takes to see that so many packets come per second.
fn needed(most: f64) -> Duration {
    if most <= 0.0 {
        return Duration::ZERO;
    }
    Duration::try_from_secs_f64(PACKETS_NEEDED / most).unwrap_or(TIMEOUT).min(TIMEOUT)
}

/// Packets per second: over all the time where they come by the clock, or in most windows none
/// does, else the rate that one window in ten exceeds. Load on the processor's shared caches and
/// units can only slow it down, often for many windows.
fn rate(whole: f64, mut windows: Vec<f64>, by_clock: bool) -> f64 {
    windows.sort_by(f64::total_cmp);
    let at = |share: f64| windows.get((windows.len() as f64 * share) as usize).copied();
    match (at(0.5), at(0.9)) {
        (Some(median), Some(fast)) if median > 0.0 && !by_clock => fast,
        _ => whole,
    }
}

#[cfg(test)]
mod tests {
    use super::{super::packet_counts::tests::trial, *};

    #[test]
    fn rates_are_of_undisturbed_windows_unless_packets_are_rare() {
        // Something else went on in some, and one is off.
        let windows = [[10.0; 5], [7.0; 5], [0.0; 5]].concat();
        assert_eq!(rate(7.5, [&windows[..], &[12.0]].concat(), false), 10.0);
        assert_eq!(rate(7.5, vec![10.0, 0.0, 11.0], true), 7.5);
        assert_eq!(rate(25.0, vec![0.0, 100.0, 0.0], false), 25.0);
        assert_eq!(rate(0.0, Vec::new(), false), 0.0);
    }

    #[test]
    fn the_time_is_as_long_as_the_rate_wants() {
        assert_eq!(needed(0.0), Duration::ZERO);
        assert_eq!(needed(100.0), Duration::from_millis(500));
        assert_eq!(needed(0.001), TIMEOUT);
    }

    #[test]
    fn ports_and_timers_bring_packets() {
        let bench = Bench::new(linerate_elements::library());
        let reached = |text: &str, most: Option<f64>| {
            let reached = trial(text, &[]).measured_rate(&bench, Duration::from_millis(20), most);
            reached.unwrap_or_else(|error| panic!("{text}: {error}")).rate
        };
        let two = "FromDevice(a) -> d :: Discard; FromDevice(b) -> d; Script(stop)";
        assert!(reached(two, None) > 0.0);
        assert!(reached("InfiniteSource(LIMIT 5, STOP true) -> Discard", None) > 0.0);
        assert!(reached("TimedSource(0.01s) -> Discard", Some(100.0)) > 0.0);
        assert_eq!(reached("Idle -> Discard", Some(0.0)), 0.0);
    }
}
