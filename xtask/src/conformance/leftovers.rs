//! Processes that a case leaves behind, however they have left its process group or session.
//!
//! `clicktest` sends a hang-up to the process group of a script that took too long. A `click` that
//! handles this signal goes on, and one in a group of its own is not even told. So the processes of
//! a case carry a mark in their environment, which others inherit, and every process that has the
//! mark when the case is over is killed.

use std::{
    fs,
    process::{self, Command},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// The variable with the mark.
const VARIABLE: &str = "LINERATE_CONFORMANCE_CASE";
/// Number of passes over all processes: a process killed may have started another one just then.
const PASSES: usize = 8;
/// Time for which a process that runs a program, but has no environment, is taken to be about to
/// get it: it is empty while one program replaces another, and stays so with few.
const NEW_PROGRAM: Duration = Duration::from_millis(20);

/// The mark of a command's processes.
pub(super) struct Mark(String);

impl Mark {
    /// Has a command, and all that it starts, carry a mark of its own.
    pub(super) fn set(command: &mut Command) -> Mark {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let value = format!("{}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        command.env(VARIABLE, &value);
        Mark(format!("{VARIABLE}={value}"))
    }

    /// Kills the processes that carry it; how many there were.
    pub(super) fn kill_all(&self) -> usize {
        let mut killed = 0;
        for _ in 0..PASSES {
            match self.kill_those_there_are() {
                0 => break,
                some => killed += some,
            }
        }
        killed
    }

    fn kill_those_there_are(&self) -> usize {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(|pid| self.kill(*pid).is_some()).count()
    }

    /// Kills a process if it carries the mark.
    fn kill(&self, pid: i32) -> Option<()> {
        // Held while its environment is read, the descriptor names the same process when the signal
        // is sent, even if another has the number then.
        let process = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
        let environment = environment(pid)?;
        environment.split(|byte| *byte == 0).find(|variable| *variable == self.0.as_bytes())?;
        pidfd_send_signal(process, Signal::KILL).ok()
    }
}

/// The environment of a process; none if it is gone, a zombie, another user's, or the kernel's own.
fn environment(pid: i32) -> Option<Vec<u8>> {
    let start = Instant::now();
    loop {
        let bytes = fs::read(format!("/proc/{pid}/environ")).ok()?;
        // Neither a zombie nor a thread of the kernel runs a program.
        let runs_a_program = fs::read_link(format!("/proc/{pid}/exe")).is_ok();
        if !bytes.is_empty() || !runs_a_program || start.elapsed() > NEW_PROGRAM {
            return (!bytes.is_empty()).then_some(bytes);
        }
        thread::sleep(Duration::from_millis(1));
    }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    #[test]
    fn what_left_its_group_and_ignores_hang_ups_is_killed() {
        // Its shell prints the number of the process it leaves behind.
        let script = "trap '' HUP; setsid sleep 1000 </dev/null >/dev/null 2>&1 & echo $!";
        let mut command = Command::new("sh");
        command.args(["-c", script]).stderr(Stdio::null());
        let mark = Mark::set(&mut command);
        let output = command.output().expect("a shell");
        let pid = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        let pid = pid.parse().expect("a number");
        // Until it runs the program, it has the environment of the shell that forked it, which has
        // the mark as well.
        assert!(environment(pid).is_some(), "{pid}");
        assert!(mark.kill_all() >= 1);
        while environment(pid).is_some() {
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(mark.kill_all(), 0);
    }

    #[test]
    fn others_are_left_alone() {
        let mut command = Command::new("sleep");
        command.arg("1000");
        let _its = Mark::set(&mut command);
        let mut child = command.spawn().expect("sleep");
        let other = Mark::set(&mut Command::new("sleep"));
        assert_eq!(other.kill_all(), 0);
        assert!(child.try_wait().expect("its state").is_none());
        child.kill().expect("it runs");
        child.wait().expect("its end");
    }
}
