//! Readiness and liveness of a command between ports: tells people, machines, and the service
//! manager that started it.

use std::{
    sync::{Arc, Condvar, Mutex},
    time::{Duration, Instant},
};

use anyhow::Result;
use linerate_worker::{Stop, UsageReader};

use crate::{
    args::{Readiness, Showing},
    exit::UsageError,
    output::Output,
    service::Service,
    watchdog::{Liveness, MeteredWorkers, readiness},
};

/// How soon a worker that waits for its start notices that it is to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Holds workers back until readiness has been reported, so that what they print comes behind that.
#[derive(Debug, Clone, Default)]
pub(crate) struct StartSignal {
    given: Arc<(Mutex<bool>, Condvar)>,
}

impl StartSignal {
    /// Waits for the signal, or until the worker is told to stop.
    pub(crate) fn wait(&self, stop: &Stop) {
        let (given, change) = &*self.given;
        let mut given = given.lock().expect("no panic while held");
        while !*given && !stop.is_raised() {
            given = change.wait_timeout(given, POLL_INTERVAL).expect("no panic while held").0;
        }
    }

    fn give(&self) {
        let (given, change) = &*self.given;
        *given.lock().expect("no panic while held") = true;
        change.notify_all();
    }
}

/// Tells them.
pub(crate) struct ReadinessReporter {
    service: Service,
    output: Output,
    quiet: bool,
    begun: Instant,
    /// Liveness of the workers there are.
    liveness: Option<Liveness<MeteredWorkers>>,
    ready: bool,
    start: StartSignal,
}

impl ReadinessReporter {
    /// Reports on a command that begins: nothing is open yet.
    ///
    /// # Errors
    ///
    /// When the descriptor of the ready line cannot be written.
    pub(crate) fn new(
        readiness: &Readiness,
        output: Output,
        showing: &Showing,
    ) -> Result<ReadinessReporter, UsageError> {
        let mut service = Service::new(readiness.ready_fd)?;
        service.status("taking memory and opening ports");
        let (quiet, begun) = (showing.quiet, Instant::now());
        let start = StartSignal::default();
        Ok(ReadinessReporter { service, output, quiet, begun, liveness: None, ready: false, start })
    }

    /// The signal that is given once readiness has been reported. Workers that wait for it must have
    /// published a sign of life before.
    pub(crate) fn start_signal(&self) -> StartSignal {
        self.start.clone()
    }

    /// The addresses of control sockets, which the line about readiness names.
    pub(crate) fn listens_at(&mut self, addresses: Vec<String>) {
        self.service.listens_at(addresses);
    }

    /// Workers are about to start, `doing` something: the first, or others in the place of those
    /// before.
    pub(crate) fn workers(&mut self, readers: Vec<UsageReader>, doing: String) {
        let workers = MeteredWorkers { readers, doing };
        self.liveness =
            Some(if self.ready { Liveness::again(workers) } else { Liveness::new(workers) });
    }

    /// Looks whether they live, and tells of it; returns how soon to look again.
    ///
    /// # Errors
    ///
    /// When it cannot be printed.
    pub(crate) fn look(&mut self, now: Instant) -> Result<Duration> {
        let ReadinessReporter {
            service,
            output,
            quiet,
            begun,
            liveness: Some(liveness),
            ready,
            start,
        } = self
        else {
            return Ok(Duration::MAX);
        };
        liveness.look(service, now, |status| {
            *ready = true;
            let (text, mut object) = readiness(*begun, status);
            if output.json {
                object["event"] = "ready".into();
                output.object(&object)?;
            } else if !*quiet {
                output.line(&format!("linerate: {text}"));
            }
            start.give();
            Ok(())
        })?;
        Ok(liveness.interval())
    }

    /// There are no workers, and a port is waited for: that is life, too.
    pub(crate) fn waits(&mut self) {
        if self.service.wants_life(Instant::now()) {
            self.service.alive();
        }
    }

    /// The end has begun.
    pub(crate) fn ends(&mut self) {
        self.service.stopping();
    }
}
