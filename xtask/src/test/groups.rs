//! Process groups of programs that run, which an interruption ends.
//!
//! A program leads a group of its own, so that it is ended with all that it has started. A terminal
//! sends its Ctrl-C to the group in the foreground, which is this program's: it is passed on.

use std::os::unix::process::CommandExt;
use std::process::{self, Child, Command};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Time an interrupted program has to end before it is killed.
const GRACE: Duration = Duration::from_secs(5);

/// Process groups of running programs.
#[derive(Debug, Default)]
pub(super) struct Groups {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Leaders, none of which has been waited for: their numbers are theirs.
    leaders: Vec<(Pid, String)>,
    interrupted: bool,
}

impl Groups {
    /// Creates process groups that SIGINT and SIGTERM end from now on, and this program after them.
    pub(super) fn with_signal_handler() -> Result<Arc<Self>> {
        let groups = Arc::new(Self::default());
        let mut signals = Signals::new([SIGINT, SIGTERM]).context("cannot watch signals")?;
        let theirs = Arc::clone(&groups);
        thread::spawn(move || {
            if let Some(number) = signals.forever().next() {
                let signal = if number == SIGINT { Signal::INT } else { Signal::TERM };
                theirs.interrupt(signal, GRACE);
                process::exit(128 + number);
            }
        });
        Ok(groups)
    }

    /// Starts a program in a group of its own; none after an interruption.
    pub(super) fn start(&self, title: &str, command: &mut Command) -> io::Result<Option<Child>> {
        // Locked until it is entered: an interruption meets it or prevents it.
        let mut state = self.state();
        if state.interrupted {
            return Ok(None);
        }
        let child = command.process_group(0).spawn()?;
        state.leaders.push((Pid::from_child(&child), title.to_owned()));
        Ok(Some(child))
    }

    /// Forgets the group of a program that has ended; before it is waited for, when its number may
    /// become another's.
    pub(super) fn forget(&self, child: &Child) {
        let leader = Pid::from_child(child);
        self.state().leaders.retain(|(pid, _)| *pid != leader);
    }

    /// Ends all groups by a signal, and by SIGKILL what is left of them after `grace`.
    fn interrupt(&self, signal: Signal, grace: Duration) {
        let mut state = self.state();
        state.interrupted = true;
        let leaders = state.leaders.clone();
        for (leader, title) in &leaders {
            eprintln!("interrupted: {title}");
            let _ = kill_process_group(*leader, signal);
        }
        // Those who wait for a leader forget it meanwhile.
        drop(state);
        let deadline = Instant::now() + grace;
        let is_there = |(leader, _): &&(Pid, String)| {
            test_kill_process_group(*leader) != Err(rustix::io::Errno::SRCH)
        };
        while leaders.iter().any(|group| is_there(&group)) && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(10));
        }
        for (leader, _) in leaders.iter().filter(is_there) {
            let _ = kill_process_group(*leader, Signal::KILL);
        }
    }

    /// After an interruption, waits for the end of this program: what runs then is no failure.
    pub(super) fn stop_if_interrupted(&self) {
        if self.state().interrupted {
            loop {
                thread::park();
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::path::Path;

    use linerate_test_support::wait_until;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    /// Waits for a program in the name of the groups.
    fn wait(groups: &Groups, mut child: Child) -> process::ExitStatus {
        let pid = Pid::from_child(&child);
        let ended = rustix::process::waitid(
            rustix::process::WaitId::Pid(pid),
            rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT,
        );
        ended.expect("a child");
        groups.forget(&child);
        child.wait().expect("a child")
    }

    #[test]
    fn an_interruption_ends_programs_with_their_children() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("child");
        let groups = Groups::default();
        // A child in the background would ignore SIGINT.
        let child = format!("echo $$ >{0}.new; mv {0}.new {0}; exec sleep 600", file.display());
        let script = format!("sh -c '{child}'; true");
        let child = groups.start("a shell", &mut sh(&script)).unwrap().expect("no interruption");
        assert!(wait_until(|| file.exists(), LONG));
        let grandchild = std::fs::read_to_string(&file).unwrap();
        let entry = format!("/proc/{}/stat", grandchild.trim());
        assert!(Path::new(&entry).exists());
        let status = thread::scope(|scope| {
            let waiting = scope.spawn(|| wait(&groups, child));
            groups.interrupt(Signal::INT, GRACE);
            waiting.join().unwrap()
        });
        assert_eq!(status.signal(), Some(2));
        // Its new parent waits for it, when there is one that does.
        let is_gone = || std::fs::read_to_string(&entry).map_or(true, |stat| stat.contains(") Z "));
        assert!(wait_until(is_gone, LONG), "{entry}");
        assert!(groups.start("late", &mut sh("true")).unwrap().is_none());
    }

    #[test]
    fn a_program_that_ignores_it_is_killed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ready");
        let groups = Groups::default();
        let script =
            format!("trap '' INT TERM; touch {}; while :; do sleep 600; done", file.display());
        let child = groups.start("deaf", &mut sh(&script)).unwrap().expect("no interruption");
        assert!(wait_until(|| file.exists(), LONG));
        let status = thread::scope(|scope| {
            let waiting = scope.spawn(|| wait(&groups, child));
            groups.interrupt(Signal::TERM, Duration::from_millis(10));
            waiting.join().unwrap()
        });
        assert_eq!(status.signal(), Some(9));
    }

    /// Ctrl-C: this test starts itself, and interrupts what it started.
    #[test]
    fn a_signal_to_this_program_ends_all() {
        const FILE: &str = "LINERATE_XTASK_INTERRUPTED";
        if let Some(file) = std::env::var_os(FILE) {
            let groups = Groups::with_signal_handler().unwrap();
            let script =
                "trap 'echo $0 >>\"$1\"; exit' INT; touch \"$1.$0\"; while :; do sleep 0.01; done";
            let children = ["one", "two"].map(|name| {
                let mut command = sh(script);
                command.arg(name).arg(&file);
                groups.start(name, &mut command).unwrap().expect("no interruption")
            });
            for child in children {
                wait(&groups, child);
            }
            groups.stop_if_interrupted();
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ended");
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "test::groups::tests::a_signal_to_this_program_ends_all"]);
        command.env(FILE, &file).stdout(process::Stdio::null()).stderr(process::Stdio::null());
        let mut child = command.process_group(0).spawn().unwrap();
        let ready = |name: &str| file.with_extension(name).exists();
        assert!(wait_until(|| ready("one") && ready("two"), LONG));
        kill_process_group(Pid::from_child(&child), Signal::INT).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130));
        let ended = std::fs::read_to_string(&file).unwrap();
        let mut ended: Vec<_> = ended.lines().collect();
        ended.sort_unstable();
        assert_eq!(ended, ["one", "two"]);
    }
}
