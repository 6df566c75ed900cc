//! Pace of the core at the moment.
//!
//! On a machine with other load, too, a core is slower whenever its other hardware thread is busy
//! (simultaneous multithreading) or its clock is lower. Then work of many execution units at once
//! takes half as long again, while a chain of dependent instructions takes no longer. Such times
//! come and go within tenths of a second. Work of known throughput before and behind a measurement
//! shows them; and the kernel says how long a thread was runnable and had to wait for its core.

use std::{
    fs,
    hint::black_box,
    path::Path,
    time::{Duration, Instant},
};

use linerate_linux::machine::pin_current_thread;
use linerate_memory::clock::cycles;
use rustix::process::Pid;

/// Steps of a run: a few microseconds.
const STEPS: u64 = 2048;
/// Runs in a sample, of which the median counts.
const RUNS: usize = 31;
/// Time for which the fastest pace is sampled at first.
const FIRST: Duration = Duration::from_millis(60);
/// Share by which an undisturbed core may be slower than at its fastest.
const TOLERANCE: f64 = 0.15;
/// The share of its time that a thread may wait for a core that is its own.
pub(crate) const WAITING: f64 = 0.02;
/// Time between two samples while waiting.
const PAUSE: Duration = Duration::from_millis(2);

/// Tells whether the core that the thread runs on is disturbed.
#[derive(Debug, Clone)]
pub struct Pace {
    fastest: f64,
}

impl Pace {
    /// Finds out how fast the core can be: a sixteenth of a second.
    pub fn new() -> Pace {
        let mut pace = Pace { fastest: f64::INFINITY };
        let start = Instant::now();
        while start.elapsed() < FIRST {
            pace.sample();
        }
        pace
    }

    /// A pace whose fastest value is known from an undisturbed core of the machine.
    pub fn known(fastest: f64) -> Pace {
        Pace { fastest }
    }

    /// Cycles that a step takes now: a tenth of a millisecond.
    pub fn sample(&mut self) -> f64 {
        let mut runs: [u64; RUNS] = std::array::from_fn(|_| {
            let before = cycles();
            black_box(chains(black_box(1)));
            cycles().saturating_sub(before)
        });
        runs.sort_unstable();
        let now = runs[RUNS / 2] as f64 / STEPS as f64;
        self.fastest = self.fastest.min(now);
        now
    }

    /// Disturbance of a core at this pace, on which a thread waited for this share of its time:
    /// above 1 other load has spoilt the measurement.
    pub fn disturbance(&self, pace: f64, waited: f64) -> f64 {
        disturbance(pace, self.fastest, waited)
    }

    /// Binds the thread to the first of some cores that is undisturbed, and waits until one is,
    /// but no longer than `timeout`: then it is the one that was disturbed least. Says how long
    /// that took. Without cores the thread stays where it is.
    pub fn wait(&mut self, cores: &[u32], timeout: Duration) -> Duration {
        let start = Instant::now();
        let mut places: Vec<Option<u32>> = cores.iter().copied().map(Some).collect();
        if places.is_empty() {
            places.push(None);
        }
        // Not being bound, in a container that forbids it, only adds noise.
        let bind = |core: Option<u32>| core.map(pin_current_thread);
        loop {
            let mut least = (f64::INFINITY, None);
            for &core in &places {
                bind(core);
                let now = self.sample();
                let disturbance = self.disturbance(now, 0.0);
                if disturbance <= 1.0 {
                    return start.elapsed();
                }
                if disturbance < least.0 {
                    least = (disturbance, core);
                }
            }
            if start.elapsed() >= timeout {
                bind(least.1);
                return start.elapsed();
            }
            std::thread::sleep(PAUSE);
        }
    }
}

impl Default for Pace {
    fn default() -> Pace {
        Pace::new()
    }
}

/// Disturbance of a core with this fastest pace ([`Pace::disturbance`]).
pub(crate) fn disturbance(pace: f64, fastest: f64, waited: f64) -> f64 {
    ((pace / fastest - 1.0) / TOLERANCE).max(waited / WAITING)
}

/// Time for which the threads of this process have waited for their cores so far, those still
/// running counted; zero where the kernel does not say.
pub fn waited() -> Duration {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    tasks.filter_map(|task| wait_in(&task.path())).sum()
}

/// Time for which one thread of this process has waited for a core.
pub(crate) fn waited_of(thread: Pid) -> Duration {
    wait_in(&Path::new("/proc/self/task").join(thread.to_string())).unwrap_or_default()
}

/// Time for which the thread of this folder in `/proc` has waited for a core.
fn wait_in(task: &Path) -> Option<Duration> {
    // Time on a core and time of waiting for one, in nanoseconds.
    let text = fs::read_to_string(task.join("schedstat")).ok()?;
    text.split_whitespace().nth(1)?.parse().map(Duration::from_nanos).ok()
}

/// Six independent chains of dependent instructions, in registers: as much as a core
/// can execute in parallel.
#[inline(never)]
fn chains(start: u64) -> [u64; 6] {
    let mut chains = [start; 6];
    for step in 0..STEPS {
        // Each by another distance, so that they are not vectorised.
        chains[0] = chains[0].rotate_left(3).wrapping_add(step);
        chains[1] = chains[1].rotate_left(5).wrapping_add(step);
        chains[2] = chains[2].rotate_left(7).wrapping_add(step);
        chains[3] = chains[3].rotate_left(11).wrapping_add(step);
        chains[4] = chains[4].rotate_left(13).wrapping_add(step);
        chains[5] = chains[5].rotate_left(17).wrapping_add(step);
    }
    chains
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slower_core_is_disturbed() {
        let pace = Pace { fastest: 2.0 };
        assert!(pace.disturbance(2.0, 0.0) <= 1.0 && pace.disturbance(2.2, 0.01) <= 1.0);
        assert!(pace.disturbance(2.4, 0.0) > 1.0 && pace.disturbance(2.0, 0.03) > 1.0);
    }

    #[test]
    fn the_fastest_sample_is_kept_and_waiting_ends() {
        let mut pace = Pace { fastest: f64::INFINITY };
        let first = pace.sample();
        assert!(first > 0.0 && pace.fastest == first);
        pace.fastest = 0.0;
        let timeout = Duration::from_millis(5);
        assert!(pace.wait(&[], timeout) >= timeout);
    }
}
