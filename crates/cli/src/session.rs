//! Common parts of all commands that run ports: signals, workers on their cores, and the clock that
//! drives the table.

use std::{
    panic,
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use linerate_linux::machine::pin_current_thread;
use linerate_port::{Port, Receive, Transmit};
use linerate_worker::Stop;

use crate::{args::Running, resources::usable_cores};

/// Buffers a worker keeps at hand.
pub(crate) const CACHE: usize = 512;
/// Interval of looking for signals.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The opened port, in a line.
pub(crate) fn describe_port(port: &Port) -> String {
    line_of_port(&port.info.uri.to_string(), port.queues.len(), &port.info.mode)
}

/// A name may end in a colon, and a mode may have the number of queues.
fn line_of_port(uri: &str, queues: usize, mode: &str) -> String {
    let plural = if queues == 1 { "" } else { "s" };
    let count =
        if mode.contains(" queue") { String::new() } else { format!("{queues} queue{plural}, ") };
    format!("{uri} is open: {count}{mode}")
}

/// The queues of a port, by side.
pub(crate) type Sides = (Vec<Box<dyn Receive>>, Vec<Box<dyn Transmit>>);

/// Takes a port apart into its receiving and transmitting sides.
pub(crate) fn split(port: Port) -> Sides {
    let (mut receives, mut transmits) = (Vec::new(), Vec::new());
    for queue in port.queues {
        receives.extend(queue.receive);
        transmits.extend(queue.transmit);
    }
    (receives, transmits)
}

/// Raises the flag on SIGINT, SIGTERM and SIGHUP; a second signal ends the
/// process at once.
pub(crate) fn stop_on_signals() -> Result<Stop> {
    use signal_hook::{consts, flag};
    let stop = Stop::new();
    for signal in [consts::SIGINT, consts::SIGTERM, consts::SIGHUP] {
        // Registered first, so that it sees the flag of an earlier signal.
        flag::register_conditional_shutdown(signal, 128 + signal, stop.as_flag())
            .and_then(|_| flag::register(signal, stop.as_flag()))
            .context("cannot watch for signals")?;
    }
    Ok(stop)
}

/// The cores asked for; one worker that is not bound when none were: bound by
/// default, several commands on one machine would all get the same core.
pub(crate) fn cores(running: &Running) -> Result<Vec<Option<u32>>> {
    let Some(text) = &running.cores else { return Ok(vec![None]) };
    Ok(usable_cores(text)?.into_iter().map(Some).collect())
}

/// A worker's work: told when to stop, it returns its result.
pub(crate) type Job<T> = Box<dyn FnOnce(&Stop) -> Result<T> + Send>;

/// Runs one worker per job, each on its core, until all have ended, calling
/// `tick` with the time since the start after every interval and once at the
/// end, and `look` as soon again as it says, and once when all have ended well.
/// Workers are told to stop when the user says so, when the time is over, or when
/// one of them has failed.
pub(crate) fn drive<T: Send + 'static>(
    jobs: Vec<(Option<u32>, Job<T>)>,
    interval: Duration,
    until: Option<Instant>,
    user: &Stop,
    mut look: impl FnMut(Instant) -> Result<Duration>,
    mut tick: impl FnMut(Duration) -> Result<()>,
) -> Result<Vec<Result<T>>> {
    let start = Instant::now();
    let halt = Stop::new();
    let (report, reports) = mpsc::channel();
    let threads: Vec<_> = jobs
        .into_iter()
        .enumerate()
        .map(|(index, (core, job))| {
            let (report, halt) = (report.clone(), halt.clone());
            let run = move || {
                let outcome = core.map_or(Ok(()), pin_current_thread).map_err(Into::into);
                let outcome = outcome.and_then(|()| job(&halt));
                // The receiver is gone only after a failure.
                let _ = report.send(outcome.is_err());
                outcome
            };
            thread::Builder::new().name(format!("worker-{index}")).spawn(run)
        })
        .collect::<Result<_, _>>()
        .inspect_err(|_| halt.raise())
        .context("cannot start a worker thread")?;
    drop(report);

    let mut next = start + interval;
    let mut told = Ok(());
    loop {
        let now = Instant::now();
        let mut patience = POLL_INTERVAL;
        if told.is_ok() {
            told = look(now).map(|soon| patience = soon.min(POLL_INTERVAL));
        }
        if user.is_raised() || until.is_some_and(|until| now >= until) {
            halt.raise();
        }
        if now >= next {
            told = told.and_then(|()| tick(now - start));
            next += interval * (1 + ((now - next).as_nanos() / interval.as_nanos().max(1)) as u32);
        }
        if told.is_err() {
            halt.raise();
        }
        let left = until.map_or(POLL_INTERVAL, |until| until.saturating_duration_since(now));
        match reports.recv_timeout(patience.min(left).min(next.saturating_duration_since(now))) {
            Ok(failed) if failed => halt.raise(),
            Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            // All workers have ended.
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let outcomes: Vec<Result<T>> = threads
        .into_iter()
        .map(|thread| thread.join().unwrap_or_else(|cause| panic::resume_unwind(cause)))
        .collect();
    told?;
    if outcomes.iter().all(Result::is_ok) {
        look(Instant::now())?;
    }
    tick(start.elapsed())?;
    Ok(outcomes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_described_without_repetition() {
        assert_eq!(line_of_port("null:", 1, "copied"), "null: is open: 1 queue, copied");
        let xdp = line_of_port("xdp:eth1", 2, "XDP generic, 2 of 4 queues, copy mode");
        assert_eq!(xdp, "xdp:eth1 is open: XDP generic, 2 of 4 queues, copy mode");
    }

    /// A look that needs no other.
    fn calm(_: Instant) -> Result<Duration> {
        Ok(Duration::MAX)
    }

    #[test]
    fn a_failing_worker_stops_the_others() {
        let fail: Job<()> = Box::new(|_| Err(anyhow::anyhow!("broken")));
        let wait: Job<()> = Box::new(|stop| {
            while !stop.is_raised() {
                thread::sleep(Duration::from_millis(1));
            }
            Ok(())
        });
        let jobs = vec![(None, wait), (None, fail)];
        let second = Duration::from_secs(1);
        let outcomes = drive(jobs, second, None, &Stop::new(), calm, |_| Ok(())).unwrap();
        assert!(outcomes[0].is_ok() && outcomes[1].is_err());
    }

    #[test]
    fn time_is_up() {
        let wait: Job<()> = Box::new(|stop| {
            while !stop.is_raised() {
                thread::sleep(Duration::from_millis(1));
            }
            Ok(())
        });
        let mut ticks = 0;
        let until = Some(Instant::now() + Duration::from_millis(50));
        let tick = |_| {
            ticks += 1;
            Ok(())
        };
        let jobs = vec![(None, wait)];
        drive(jobs, Duration::from_millis(10), until, &Stop::new(), calm, tick).unwrap();
        assert!(ticks > 1);
    }
}
