//! Programs side by side, each with its output kept apart and handed over whole when it has ended.
//!
//! Lines of several programs would mix. A program that hangs, or floods its output, is ended with all that
//! it has started; one that leaves a process behind is not waited for beyond its own end.

use std::io::{self, PipeReader, Read};
use std::num::NonZero;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use super::groups::Groups;

/// Name of a program in the report.
#[derive(Debug, Clone)]
pub(super) struct Label {
    pub(super) title: String,
    /// The step of the command that it belongs to.
    pub(super) step: &'static str,
    /// Command that reruns it alone.
    pub(super) rerun: String,
    /// Whether it is a cargo, which runs programs itself.
    pub(super) is_cargo: bool,
}

/// Program to run.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) label: Label,
    pub(super) command: Command,
    /// How long it may take.
    pub(super) time: Option<Duration>,
    /// How many bytes it may print.
    pub(super) output: usize,
}

/// A job that has ended.
#[derive(Debug)]
pub(super) struct FinishedJob {
    pub(super) label: Label,
    /// Both its outputs, in the order they were written in.
    pub(super) output: String,
    pub(super) time: Duration,
    pub(super) end: End,
}

/// End of a program.
#[derive(Debug)]
pub(super) enum End {
    /// By itself, or by a signal.
    Status(ExitStatus),
    /// It took longer than it may, and was killed.
    TooLong(Duration),
    /// It printed more than it may, and was killed.
    TooMuch(usize),
    /// It could not be run, for this reason.
    NotRun(String),
}

impl End {
    /// Returns true if the program says that all is well.
    pub(super) fn is_success(&self) -> bool {
        matches!(self, Self::Status(status) if status.success())
    }
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Status(status) => write!(f, "{status}"),
            Self::TooLong(limit) => write!(f, "killed after {} s", limit.as_secs_f64()),
            Self::TooMuch(limit) => write!(f, "killed after more than {limit} bytes of output"),
            Self::NotRun(reason) => write!(f, "{reason}"),
        }
    }
}

/// Runs programs in their order, so many at a time, and hands over each when it has ended; beside
/// them, one after the other, those that keep all processors busy. After an interruption no other
/// is started.
pub(super) fn run(
    busy: Vec<Job>,
    jobs: Vec<Job>,
    at_a_time: NonZero<usize>,
    groups: &Groups,
    mut on_end: impl FnMut(FinishedJob),
) {
    let count = at_a_time.get().min(jobs.len() + usize::from(!busy.is_empty()));
    let mut busy = busy.into_iter();
    let jobs = Mutex::new(jobs.into_iter());
    let next = || -> Option<Job> { jobs.lock().unwrap_or_else(PoisonError::into_inner).next() };
    thread::scope(|scope| {
        let (sender, ended) = mpsc::channel();
        for _ in 0..count {
            let (sender, next) = (sender.clone(), &next);
            // All for the first thread.
            let mut busy = std::mem::take(&mut busy);
            scope.spawn(move || {
                while let Some(job) = busy.next().or_else(next)
                    && let Some(ended) = job.run(groups)
                    && sender.send(ended).is_ok()
                {}
            });
        }
        drop(sender);
        ended.into_iter().for_each(&mut on_end);
    });
}

impl Job {
    /// Runs it to its end; None after an interruption.
    fn run(mut self, groups: &Groups) -> Option<FinishedJob> {
        let start = Instant::now();
        let mut output = Vec::new();
        let end = match self.watch(groups, &mut output) {
            Ok(end) => end?,
            Err(error) => End::NotRun(format!("{error:#}")),
        };
        let output = String::from_utf8_lossy(&output).into_owned();
        Some(FinishedJob { label: self.label, output, time: start.elapsed(), end })
    }

    fn watch(&mut self, groups: &Groups, output: &mut Vec<u8>) -> Result<Option<End>> {
        let (reader, writer) = io::pipe().context("cannot create a pipe")?;
        rustix::io::ioctl_fionbio(&reader, true).context("cannot set up a pipe")?;
        self.command.stdin(Stdio::null());
        self.command.stdout(writer.try_clone().context("cannot duplicate a pipe")?).stderr(writer);
        let child = groups.start(&self.label.title, &mut self.command);
        // The command still holds the write ends.
        self.command.stdout(Stdio::null()).stderr(Stdio::null());
        let Some(mut child) = child.context("cannot start it")? else { return Ok(None) };
        let early = self.wait(&child, &reader, output);
        if !matches!(early, Ok(None)) {
            // With all that it has started. Not waited for yet, so the number is still its own.
            let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
        }
        groups.forget(&child);
        let status = child.wait().context("cannot wait for it")?;
        Ok(Some(early.context("cannot watch it")?.unwrap_or(End::Status(status))))
    }

    /// Reads the output of a program until it has ended, and is a zombie; or until it did what it
    /// may not.
    fn wait(
        &self,
        child: &Child,
        mut reader: &PipeReader,
        output: &mut Vec<u8>,
    ) -> io::Result<Option<End>> {
        let process = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
        let deadline = self.time.map(|time| (time, Instant::now() + time));
        let mut is_open = true;
        let mut chunk = vec![0; 1 << 16];
        loop {
            let mut timeout = None;
            if let Some((limit, deadline)) = deadline {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Ok(Some(End::TooLong(limit)));
                }
                timeout = Some(Timespec::try_from(left).map_err(io::Error::other)?);
            }
            let mut polled =
                [PollFd::new(&process, PollFlags::IN), PollFd::new(reader, PollFlags::IN)];
            let count = if is_open { 2 } else { 1 };
            match poll(&mut polled[..count], timeout.as_ref()) {
                Err(Errno::INTR) => continue,
                other => other?,
            };
            let has_ended = !polled[0].revents().is_empty();
            // To the end of what is there: all that it has written before it ended.
            while is_open {
                match reader.read(&mut chunk) {
                    Ok(0) => is_open = false,
                    Ok(length) => output.extend_from_slice(&chunk[..length]),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
                if output.len() > self.output {
                    return Ok(Some(End::TooMuch(self.output)));
                }
            }
            if has_ended {
                return Ok(None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use linerate_test_support::wait_until;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn job(title: &str, script: &str) -> Job {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let (title, rerun) = (title.to_owned(), String::new());
        let label = Label { title, step: "a step", rerun, is_cargo: false };
        Job { label, command, time: Some(LONG), output: 1 << 20 }
    }

    fn run_all(jobs: Vec<Job>, at_a_time: usize) -> Vec<FinishedJob> {
        let mut all = Vec::new();
        let at_a_time = NonZero::new(at_a_time).unwrap();
        run(Vec::new(), jobs, at_a_time, &Groups::default(), |ended| all.push(ended));
        all
    }

    fn run_one(job: Job) -> FinishedJob {
        run_all(vec![job], 1).pop().expect("it has ended")
    }

    #[test]
    fn all_are_run_and_those_at_a_time_in_their_order() {
        let jobs = (0..40)
            .map(|number| job(&number.to_string(), &format!("echo {number}; exit {}", number % 2)));
        let one_at_a_time = run_all(jobs.collect(), 1);
        for (number, ended) in one_at_a_time.iter().enumerate() {
            assert_eq!(
                (ended.label.title.as_str(), ended.output.as_str()),
                (&*number.to_string(), &*format!("{number}\n"))
            );
            assert_eq!(ended.end.is_success(), number % 2 == 0);
        }
        assert_eq!(one_at_a_time.len(), 40);
    }

    /// Each of two waits for a file of the other: one after the other they would wait for ever.
    #[test]
    fn programs_run_side_by_side_and_their_outputs_are_apart() {
        let folder = tempfile::tempdir().unwrap();
        let script = |own: &str, other: &str| {
            let folder = folder.path().display();
            format!(
                "for line in 1 2 3; do echo {own} $line; echo {own} >&2; touch {folder}/{own}$line; \
                 until test -e {folder}/{other}$line; do sleep 0.01; done; done"
            )
        };
        let jobs = vec![job("a", &script("a", "b")), job("b", &script("b", "a"))];
        let ended: BTreeMap<_, _> = run_all(jobs, 2)
            .into_iter()
            .map(|ended| (ended.label.title, (ended.output, ended.end.to_string())))
            .collect();
        for name in ["a", "b"] {
            let lines = format!("{name} 1\n{name}\n{name} 2\n{name}\n{name} 3\n{name}\n");
            assert_eq!(ended[name], (lines, "exit status: 0".to_owned()));
        }
    }

    /// The busy ones wait for each other's turn, and the others meanwhile have theirs: each waits for
    /// a file of the other side.
    #[test]
    fn busy_programs_run_beside_the_others() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().display();
        let script = |own: &str, other: &str| {
            format!("touch {folder}/{own}; until test -e {folder}/{other}; do sleep 0.01; done")
        };
        let busy = vec![job("a1", &script("a1", "b1")), job("a2", &script("a2", "b2"))];
        let jobs = vec![job("b1", &script("b1", "a1")), job("b2", &script("b2", "a2"))];
        let mut ended = Vec::new();
        let two = NonZero::new(2).unwrap();
        run(busy, jobs, two, &Groups::default(), |one| ended.push(one));
        assert!(ended.len() == 4 && ended.iter().all(|one| one.end.is_success()), "{ended:?}");
    }

    /// Where only one runs at a time, they are first.
    #[test]
    fn busy_programs_run_first_where_there_is_one_thread() {
        let mut order = Vec::new();
        let (busy, jobs) = (vec![job("busy", "")], vec![job("one", ""), job("two", "")]);
        run(busy, jobs, NonZero::<usize>::MIN, &Groups::default(), |ended| {
            order.push(ended.label.title);
        });
        assert_eq!(order, ["busy", "one", "two"]);
    }

    /// No more at a time than were asked for.
    #[test]
    fn others_wait_for_their_turn() {
        let folder = tempfile::tempdir().unwrap();
        let lock = folder.path().join("lock");
        let script = format!("mkdir {0} && sleep 0.02 && rmdir {0}", lock.display());
        let ended = run_all((0..8).map(|_| job("one", &script)).collect(), 1);
        assert!(ended.iter().all(|ended| ended.end.is_success()), "{ended:?}");
    }

    #[test]
    fn a_program_that_dies_is_told_by_its_signal() {
        let ended = run_one(job("dies", "echo before; kill -SEGV $$"));
        assert_eq!(ended.output, "before\n");
        assert!(ended.end.to_string().contains("signal: 11"), "{}", ended.end);
        assert!(!ended.end.is_success());
    }

    #[test]
    fn a_program_that_hangs_is_killed_with_its_children() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("child");
        let mut hangs = job("hangs", "");
        let script =
            format!("trap '' TERM INT; sleep 600 & echo $! >{}; echo waits; wait", file.display());
        hangs.command = Command::new("sh");
        hangs.command.args(["-c", &script]);
        // It has to get this far within the time: as long as a loaded machine may need.
        hangs.time = Some(Duration::from_secs(3));
        let ended = run_one(hangs);
        assert_eq!(ended.end.to_string(), "killed after 3 s");
        assert_eq!(ended.output, "waits\n");
        let child = std::fs::read_to_string(&file).unwrap();
        let entry = format!("/proc/{}/stat", child.trim());
        let is_gone = || std::fs::read_to_string(&entry).map_or(true, |stat| stat.contains(") Z "));
        assert!(wait_until(is_gone, LONG), "{entry}");
    }

    #[test]
    fn a_program_that_floods_its_output_is_killed_and_what_it_printed_is_shown() {
        let ended = run_one(job("floods", "exec yes"));
        assert_eq!(ended.end.to_string(), "killed after more than 1048576 bytes of output");
        assert!(ended.output.starts_with("y\ny\n") && ended.output.len() > 1 << 20);
        assert!(ended.output.len() <= (1 << 20) + (1 << 16));
    }

    #[test]
    fn more_than_a_pipe_holds_is_no_flood() {
        let ended = run_one(job("much", "head -c 1000000 /dev/zero; echo >&2; exit 3"));
        assert_eq!(
            (ended.output.len(), ended.end.to_string()),
            (1_000_001, "exit status: 3".to_owned())
        );
    }

    /// It would hold the pipe open for ten minutes.
    #[test]
    fn a_process_left_behind_is_not_waited_for() {
        let ended = run_one(job("leaves", "sleep 600 & echo $!"));
        assert!(ended.end.is_success(), "{}", ended.end);
        assert!(ended.time < Duration::from_secs(600));
        let left = ended.output.trim().parse().ok().and_then(Pid::from_raw).expect("a number");
        assert!(Path::new(&format!("/proc/{}", left.as_raw_nonzero())).exists());
        rustix::process::kill_process(left, Signal::KILL).unwrap();
    }

    #[test]
    fn a_program_that_is_not_there_is_a_failure_with_its_reason() {
        let mut missing = job("missing", "");
        missing.command = Command::new("/nonexistent/program");
        let ended = run_one(missing);
        assert!(ended.end.to_string().starts_with("cannot start it: "), "{}", ended.end);
        assert!(!ended.end.is_success());
    }
}
