//! Results of a trial.

use std::{collections::BTreeMap, fs, time::Duration};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Time limit of `linerate`'s end on SIGTERM: a bound for a broken program, not a measurement.
const END: Duration = Duration::from_secs(20);

/// Distribution of a latency, in microseconds.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Latency {
    /// Number of samples.
    pub count: u64,
    /// Median.
    pub median: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Maximum.
    pub max: f64,
}

impl From<&Histogram<u64>> for Latency {
    fn from(nanoseconds: &Histogram<u64>) -> Latency {
        let micros = |value: u64| value as f64 / 1e3;
        Latency {
            count: nanoseconds.len(),
            median: micros(nanoseconds.value_at_quantile(0.5)),
            p99: micros(nanoseconds.value_at_quantile(0.99)),
            max: micros(nanoseconds.max()),
        }
    }
}

/// Nanoseconds up to ten minutes, to three digits.
pub(super) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 600_000_000_000, 3).expect("bounds of a histogram")
}

/// Honest datagrams.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct TrafficFigures {
    /// Datagrams that the hosts' kernels took.
    pub sent: u64,
    /// Of these, those that came out at the other host.
    pub received: u64,
    /// Copies beyond the first.
    pub duplicates: u64,
    /// From the sender's call to the receiver's.
    pub latency: Latency,
}

impl TrafficFigures {
    /// Datagrams that did not arrive.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.sent - self.received
    }
}

/// An honest client of a listener.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ClientFigures {
    /// Its name.
    pub name: String,
    /// Requests.
    pub steps: u64,
    /// Failed requests.
    pub failures: u64,
    /// The first few reasons.
    pub reasons: Vec<String>,
    /// From the request to the answer.
    pub latency: Latency,
}

/// Resources of a process, or their growth.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Growth {
    /// Resident bytes, `VmRSS`.
    pub resident: u64,
    /// Mapped bytes, `VmSize`.
    pub mapped: u64,
    /// Open descriptors.
    pub descriptors: u64,
    /// Threads.
    pub threads: u64,
}

impl Growth {
    /// Bounds for a listener that has no reason for others: buffers and descriptors of some hundred connections,
    /// and no thread for any. Ten minutes of attacks take 3 MiB, 262 descriptors and no thread.
    pub const BOUNDS: Growth =
        Growth { resident: 32 << 20, mapped: 1 << 30, descriptors: 512, threads: 16 };

    /// Bounds for ports of shared memory: a peer maps up to 256 GiB, which is address space alone, and three times
    /// that is reserved for each port; sockets that linger are closed by threads. Ten minutes take 2 MiB, 768 GiB of
    /// addresses, 265 descriptors and 88 threads.
    #[must_use]
    pub fn shared_memory() -> Growth {
        Growth { mapped: 1 << 40, threads: 128, ..Growth::BOUNDS }
    }

    /// Bounds for a switch with controllers: each of two listeners has up to 96 connections, with a thread and an
    /// arena of the allocator's for each. Ten minutes take 25 MiB, 222 descriptors and 147 threads.
    #[must_use]
    pub fn controllers() -> Growth {
        Growth { resident: 128 << 20, mapped: 2 << 30, threads: 208, ..Growth::BOUNDS }
    }

    /// Bounds for a switch that every peer may control: its bundles have 128 MiB together and 1 MiB each, packet
    /// memory of 96 MiB becomes resident, and the allocator keeps 64 MiB. Ten minutes take 203 MiB and 160 threads.
    #[must_use]
    pub fn controllers_of_all() -> Growth {
        Growth { resident: 384 << 20, ..Growth::controllers() }
    }

    /// Resources of a process now; `None` when it has ended.
    #[must_use]
    pub fn of_process(process: u32) -> Option<Growth> {
        let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        };
        Some(Growth {
            // A process that has ended and is not waited for has no memory.
            resident: field("VmRSS:")? * 1024,
            mapped: field("VmSize:")? * 1024,
            descriptors: fs::read_dir(format!("/proc/{process}/fd")).ok()?.count() as u64,
            threads: field("Threads:")?,
        })
    }

    /// The larger of each.
    #[must_use]
    pub fn max(self, other: Growth) -> Growth {
        Growth {
            resident: self.resident.max(other.resident),
            mapped: self.mapped.max(other.mapped),
            descriptors: self.descriptors.max(other.descriptors),
            threads: self.threads.max(other.threads),
        }
    }

    /// Growth since an earlier measurement.
    #[must_use]
    pub fn since(self, before: Growth) -> Growth {
        Growth {
            resident: self.resident.saturating_sub(before.resident),
            mapped: self.mapped.saturating_sub(before.mapped),
            descriptors: self.descriptors.saturating_sub(before.descriptors),
            threads: self.threads.saturating_sub(before.threads),
        }
    }

    /// Resources beyond a bound.
    fn beyond(self, bounds: Growth) -> impl Iterator<Item = String> {
        [
            ("resident bytes", self.resident, bounds.resident),
            ("mapped bytes", self.mapped, bounds.mapped),
            ("descriptors", self.descriptors, bounds.descriptors),
            ("threads", self.threads, bounds.threads),
        ]
        .into_iter()
        .filter(|(_, grown, bound)| grown > bound)
        .map(|(what, grown, bound)| format!("{grown} more {what}, of {bound} allowed"))
    }
}

/// End of the program on SIGTERM.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Ending {
    /// Its exit code; `None` when it was killed by a signal, or had to be.
    pub code: Option<i32>,
    /// Milliseconds from the signal to the end.
    pub milliseconds: f64,
}

impl Ending {
    /// When it has to be killed.
    pub(super) const DEADLINE: Duration = END;

    pub(super) fn faults(self) -> Option<String> {
        match self.code {
            Some(0) => None,
            Some(code) => Some(format!("it ended with code {code} on SIGTERM")),
            None => Some(format!("it did not end by itself on SIGTERM within {END:?}")),
        }
    }
}

/// Result of a trial.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Outcome {
    /// Honest traffic, while the attacks went on.
    pub traffic: TrafficFigures,
    /// Honest clients, while the attacks went on.
    pub clients: Vec<ClientFigures>,
    /// Largest growth of the process.
    pub growth: Growth,
    /// Bounds on that growth.
    pub bounds: Growth,
    /// Actions of the hostile client, by attack.
    pub attacks: BTreeMap<String, u64>,
    /// Attacks that failed themselves, which is a fault of the test.
    pub broken: Vec<String>,
    /// Whether the process ran until SIGTERM.
    pub survived: bool,
    /// Its end.
    pub ending: Ending,
    /// The end of its standard error.
    pub stderr: String,
}

impl Outcome {
    /// Faults, none of which should occur.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let mut faults = self.broken.clone();
        let traffic = &self.traffic;
        if traffic.lost() > 0 || traffic.duplicates > 0 {
            let (lost, twice) = (traffic.lost(), traffic.duplicates);
            faults.push(format!(
                "of {} honest datagrams {lost} were lost, {twice} came twice",
                traffic.sent
            ));
        }
        for client in &self.clients {
            let ClientFigures { name, steps, failures, reasons, .. } = client;
            if *failures > 0 {
                faults.push(format!(
                    "{name} was refused {failures} times of {steps}: {}",
                    reasons.join("; ")
                ));
            }
            if *steps == 0 {
                faults.push(format!("{name} was never served"));
            }
        }
        let idle = self.attacks.iter().filter(|(_, count)| **count == 0);
        faults.extend(idle.map(|(name, _)| format!("the attack `{name}` did nothing")));
        faults.extend(self.growth.beyond(self.bounds));
        if !self.survived {
            faults.push("it ended under the attack".into());
        }
        faults.extend(self.ending.faults());
        if self.stderr.contains("panicked") {
            faults.push("it panicked".into());
        }
        faults
    }

    /// Asserts that there is no fault.
    ///
    /// # Panics
    ///
    /// When there is one.
    #[track_caller]
    pub fn assert_unharmed(&self) {
        let faults = self.faults();
        assert!(faults.is_empty(), "{}\n{self:#?}", faults.join("\n"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The largest growth measured over ten minutes at the listeners of each kind, in MiB, descriptors and threads.
    #[test]
    fn growth_beyond_what_was_measured_is_a_fault() {
        let mib = |number: u64| number << 20;
        for (bounds, resident, mapped, descriptors, threads) in [
            (Growth::BOUNDS, 3, 50, 262, 0),
            (Growth::shared_memory(), 2, 768 << 10, 265, 88),
            (Growth::controllers(), 25, 400, 222, 147),
            (Growth::controllers_of_all(), 203, 400, 222, 160),
        ] {
            let (resident, mapped) = (mib(resident), mib(mapped));
            let measured = Growth { resident, mapped, descriptors, threads };
            assert_eq!(measured.beyond(bounds).count(), 0, "{measured:?}");
            for fault in [
                // A leak of a few kilobytes a connection, a file of a peer's mapped without a limit, all descriptors of
                // a process, and a thread for each of some hundred connections.
                Growth { resident: mib(400), ..measured },
                Growth { mapped: 2 << 40, ..measured },
                Growth { descriptors: 1000, ..measured },
                Growth { threads: 250, ..measured },
            ] {
                assert_eq!(fault.beyond(bounds).count(), 1, "{fault:?}");
            }
        }
    }
}
