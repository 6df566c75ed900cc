//! Measuring in another process, which is ended when it takes too long.
//!
//! A thread that waits for a port that never answers cannot be ended; a process can. One process
//! measures point after point, so that things several of them need are made once; another takes its
//! place when it was ended or has died.

use std::{
    ffi::OsString,
    io::{self, BufRead as _, BufReader, Write as _},
    os::unix::process::CommandExt as _,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

use linerate_graph::Library;
use rustix::process::{Signal, set_parent_process_death_signal};

use super::{Bench, Measured};
use crate::point::{Outcome, Spec, Values};

/// Time of a point besides its duration: tables and gigabytes of memory are made in some seconds,
/// on a machine with other load.
pub const ALLOWANCE: Duration = Duration::from_secs(30);
/// Interval of asking whether the user wants to stop.
const STOP_POLL: Duration = Duration::from_millis(20);
/// Longest time a process may take from closing its output to its end.
const EXIT_LIMIT: Duration = Duration::from_secs(2);

/// Answers specs on standard input, one a line, with their results, elements being those of
/// `library` and processes that work started by the words of `worker` ([`Bench::with_worker`]): the
/// other end of [`Guarded`]. Ends with its standard input, and with the process that started it.
///
/// # Errors
///
/// When a line is no spec, or standard input or output fail.
pub fn serve(library: Library, worker: Vec<OsString>) -> io::Result<()> {
    // In the middle of a point, too.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let bench = Bench::new(library).with_worker(worker);
    for line in io::stdin().lock().lines() {
        let spec = Spec::parse(&line?).map_err(io::Error::other)?;
        let mut answer = serde_json::to_vec(&bench.measure(&spec))?;
        answer.push(b'\n');
        io::stdout().lock().write_all(&answer)?;
    }
    Ok(())
}

/// Measures points in another process.
#[derive(Debug)]
pub struct Guarded {
    command: Command,
    allowance: Duration,
    server: Option<Server>,
}

impl Guarded {
    /// `command` starts a program that calls [`serve`]; a point may take
    /// `allowance` besides its duration.
    pub fn new(mut command: Command, allowance: Duration) -> Guarded {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C at a terminal is for this process, which ends the other.
            .process_group(0);
        Guarded { command, allowance, server: None }
    }

    /// Measures a point; `None` when `stop` said so before there was a result. A point that takes
    /// too long, or that ends its process, is void.
    ///
    /// # Errors
    ///
    /// When the process cannot be started.
    pub fn measure(
        &mut self,
        spec: &Spec,
        stop: impl Fn() -> bool,
    ) -> io::Result<Option<Measured>> {
        let mut server = match self.server.take() {
            Some(server) => server,
            None => Server::start(&mut self.command)?,
        };
        let time = Duration::from_millis(spec.duration_ms) + self.allowance;
        let failure = match server.ask(spec, Instant::now() + time, stop) {
            WorkerReply::Measured(measured) => {
                self.server = Some(server);
                return Ok(Some(measured));
            }
            WorkerReply::Stopped => return Ok(None),
            WorkerReply::TimedOut => {
                format!("it did not end within {} s", time.as_secs_f64().ceil())
            }
            WorkerReply::Malformed(line) => format!("the process that measured it said {line:?}"),
            WorkerReply::Ended => {
                format!("the process that measured it ended: {}", server.ending()?)
            }
        };
        Ok(Some((Outcome::Void, Some(failure), Values::new())))
    }
}

/// A running process. Dropping it ends it.
#[derive(Debug)]
struct Server {
    child: Child,
    specs: ChildStdin,
    answers: Receiver<String>,
}

/// Result of asking the process.
enum WorkerReply {
    Measured(Measured),
    /// The user wants no more.
    Stopped,
    /// The process took too long.
    TimedOut,
    /// The line is no answer.
    Malformed(String),
    /// The process has closed its input or output.
    Ended,
}

impl Server {
    fn start(command: &mut Command) -> io::Result<Server> {
        let mut child = command.spawn()?;
        let (Some(specs), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("a process without standard input and output"));
        };
        let (sender, answers) = channel();
        // Ends with the process, or with the receiver of its lines.
        thread::spawn(move || {
            let lines = BufReader::new(output).lines();
            lines.map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Ok(Server { child, specs, answers })
    }

    fn ask(&mut self, spec: &Spec, end: Instant, stop: impl Fn() -> bool) -> WorkerReply {
        if writeln!(self.specs, "{}", spec.canonical()).is_err() {
            return WorkerReply::Ended;
        }
        loop {
            match self.answers.recv_timeout(STOP_POLL) {
                Ok(line) => match serde_json::from_str(&line) {
                    Ok(measured) => return WorkerReply::Measured(measured),
                    Err(_) => return WorkerReply::Malformed(line),
                },
                Err(RecvTimeoutError::Disconnected) => return WorkerReply::Ended,
                Err(RecvTimeoutError::Timeout) if stop() => return WorkerReply::Stopped,
                Err(RecvTimeoutError::Timeout) if Instant::now() >= end => {
                    return WorkerReply::TimedOut;
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// The status with which it has ended.
    fn ending(&mut self) -> io::Result<String> {
        let end = Instant::now() + EXIT_LIMIT;
        while Instant::now() < end {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status.to_string());
            }
            thread::sleep(STOP_POLL);
        }
        Ok("it closed its output and went on".into())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only after its end, which is their purpose.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::point::{Load, Point};

    /// A process that answers one spec and does something with the next.
    fn guarded(then: &str, allowance: Duration) -> Guarded {
        let mut command = Command::new("sh");
        let script = format!(r#"read a; echo '["measured",null,{{"x":1}}]'; read b; {then}"#);
        command.args(["-c", &script]);
        Guarded::new(command, allowance)
    }

    fn spec(cycles: u32) -> Spec {
        Spec { duration_ms: 0, ..Spec::new(Point::Load(Load { cycles })) }
    }

    const LONG: Duration = Duration::from_secs(100);

    #[test]
    fn a_point_that_never_answers_is_void_and_the_next_is_measured() {
        let mut guarded = guarded("exec sleep 1000", Duration::from_millis(200));
        for round in 0..2 {
            // The first of a process waits for it to start, too.
            let (outcome, ..) = loop {
                let measured = guarded.measure(&spec(1), || false).unwrap().unwrap();
                if measured.0 == Outcome::Measured {
                    break measured;
                }
            };
            assert_eq!(outcome, Outcome::Measured, "{round}");
            let (outcome, reason, values) = guarded.measure(&spec(2), || false).unwrap().unwrap();
            assert_eq!((outcome, values.len()), (Outcome::Void, 0));
            assert_eq!(reason.unwrap(), "it did not end within 1 s");
        }
    }

    #[test]
    fn a_process_that_dies_is_void_and_replaced() {
        for (then, part) in [
            ("kill -9 $$", "signal: 9"),
            ("exit 3", "exit status: 3"),
            ("echo nonsense", "said \"nonsense\""),
        ] {
            let mut guarded = guarded(then, LONG);
            for _ in 0..2 {
                let first = guarded.measure(&spec(1), || false).unwrap().unwrap();
                assert_eq!((first.0, first.2["x"]), (Outcome::Measured, 1.0));
                let (outcome, reason, _) = guarded.measure(&spec(2), || false).unwrap().unwrap();
                assert_eq!(outcome, Outcome::Void);
                assert!(reason.as_ref().unwrap().contains(part), "{reason:?}");
            }
        }
    }

    #[test]
    fn a_hanging_point_can_be_stopped() {
        let mut guarded = guarded("exec sleep 1000", LONG);
        assert!(guarded.measure(&spec(1), || false).unwrap().is_some());
        assert!(guarded.measure(&spec(2), || true).unwrap().is_none());
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error() {
        let mut guarded = Guarded::new(Command::new("/no/such/program"), LONG);
        assert!(guarded.measure(&spec(1), || false).is_err());
    }
}
