//! Liveness of the workers of a command: readiness, and signs for a watchdog.

use std::time::{Duration, Instant};

use anyhow::Result;
use linerate_graph::{Control, LivenessProbe};
use linerate_worker::UsageReader;
use serde_json::{Value, json};

use crate::service::Service;

/// Interval of looking for the first sign of workers.
const STARTUP_POLL_INTERVAL: Duration = Duration::from_millis(1);
/// Interval of looking for signals, and for signs of life of ready workers.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Workers that give signs of life.
pub(crate) trait Workers {
    /// The signs that were asked for.
    type Probe;

    /// Asks each for one. Waits for none.
    fn probe(&self) -> Self::Probe;

    /// Returns true if all have given theirs.
    fn is_answered(&self, probe: &Self::Probe) -> bool;

    /// The work, in a line.
    fn status(&self) -> String;
}

/// Workers of a graph answer between two rounds.
impl Workers for Control {
    type Probe = LivenessProbe;

    fn probe(&self) -> LivenessProbe {
        self.probe_liveness()
    }

    fn is_answered(&self, probe: &LivenessProbe) -> bool {
        probe.is_complete()
    }

    fn status(&self) -> String {
        let (plan, workers) = self.usage();
        format!("{} on {}", count(plan.elements.len(), "element"), count(workers.len(), "worker"))
    }
}

/// Workers that move packets between ports publish their counts.
pub(crate) struct MeteredWorkers {
    pub(crate) readers: Vec<UsageReader>,
    /// Their work: `forward packet:a > packet:b`.
    pub(crate) doing: String,
}

impl Workers for MeteredWorkers {
    type Probe = Vec<u64>;

    fn probe(&self) -> Vec<u64> {
        self.readers.iter().map(UsageReader::heard_of).collect()
    }

    fn is_answered(&self, probe: &Vec<u64>) -> bool {
        // One that has sent its share, or read its file, does not hang.
        let lives = |(reader, before): (&UsageReader, &u64)| {
            reader.has_ended() || reader.heard_of() != *before
        };
        self.readers.iter().zip(probe).all(lives)
    }

    fn status(&self) -> String {
        format!("{} on {}", self.doing, count(self.readers.len(), "worker"))
    }
}

/// The line and the object that announce readiness.
pub(crate) fn readiness(begun: Instant, status: &str) -> (String, Value) {
    let seconds = begun.elapsed().as_secs_f64();
    let object = json!({ "seconds": seconds, "status": status });
    (format!("ready after {seconds:.2} s: {status}"), object)
}

fn count(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Signs of life of the workers: the first of all of them means that packets are handled.
pub(crate) struct Liveness<W: Workers> {
    workers: W,
    /// The signs that are waited for.
    asked: Option<W::Probe>,
    ready: bool,
}

impl<W: Workers> Liveness<W> {
    /// Signs of workers that are about to start.
    pub(crate) fn new(workers: W) -> Liveness<W> {
        Liveness { asked: Some(workers.probe()), workers, ready: false }
    }

    /// Signs of workers that take the place of others that were ready.
    pub(crate) fn again(workers: W) -> Liveness<W> {
        Liveness { asked: None, workers, ready: true }
    }

    /// Looks whether all workers live, and says so: the first time by `ready`, then to the
    /// service manager as often as it wants to know.
    pub(crate) fn look(
        &mut self,
        service: &mut Service,
        now: Instant,
        ready: impl FnOnce(&str) -> Result<()>,
    ) -> Result<()> {
        if self.asked.as_ref().is_some_and(|probe| self.workers.is_answered(probe)) {
            self.asked = None;
            if self.ready {
                service.alive();
            } else {
                self.ready = true;
                let status = self.status();
                ready(&status)?;
                service.ready(&status);
            }
        }
        if self.ready && self.asked.is_none() && service.wants_life(now) {
            self.asked = Some(self.workers.probe());
        }
        Ok(())
    }

    /// The work, in a line.
    pub(crate) fn status(&self) -> String {
        self.workers.status()
    }

    /// Time until the next look.
    pub(crate) fn interval(&self) -> Duration {
        if self.ready { POLL_INTERVAL } else { STARTUP_POLL_INTERVAL }
    }

    /// Returns true if it waits for nothing that comes without a wake-up.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.ready && self.asked.is_none() && !Service::is_managed()
    }
}

#[cfg(test)]
mod tests {
    use linerate_worker::Meter;

    use super::*;

    #[test]
    fn an_ended_worker_owes_no_sign_of_life() {
        let (mut ends, mut goes_on) = (Meter::new(), Meter::new());
        let readers = vec![ends.reader(), goes_on.reader()];
        let workers = MeteredWorkers { readers, doing: "work".into() };
        let mut round = || {
            // So that it is a round that is published.
            goes_on.slept();
            let measured = goes_on.round();
            goes_on.done(0, 0, measured);
        };
        let first = workers.probe();
        round();
        assert!(!workers.is_answered(&first));
        ends.finish();
        assert!(workers.is_answered(&first));
        let later = workers.probe();
        assert!(!workers.is_answered(&later));
        round();
        assert!(workers.is_answered(&later));
        assert_eq!(workers.status(), "work on 2 workers");
    }
}
