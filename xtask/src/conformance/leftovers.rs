//! Processes that a case leaves behind, however they have left its process group or session.
//!
//! `clicktest` sends a hang-up to the process group of a script that took too long. A `click` that
//! handles this signal goes on, and one in a group of its own is not even told. So what a case starts
//! carries a mark in its environment, which processes inherit, and who has the mark when the case is
//! over is killed.

use std::{fs, process, process::Command, sync::atomic::AtomicU32, sync::atomic::Ordering};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// The variable with the mark.
const VARIABLE: &str = "LINERATE_CONFORMANCE_CASE";
/// How often all processes are gone through: what is killed may have started another one just then.
const PASSES: usize = 8;

/// The mark of what a command starts.
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
        // is sent, whoever has the number then.
        let process = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
        // Gone, another user's, or the kernel's own and without one. A zombie's is empty.
        let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
        environment.split(|byte| *byte == 0).find(|variable| *variable == self.0.as_bytes())?;
        pidfd_send_signal(process, Signal::KILL).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::{path::Path, process::Stdio, thread, time::Duration};

    use super::*;

    #[test]
    fn what_left_its_group_and_ignores_hang_ups_is_killed() {
        // Its shell prints the number of what it leaves behind.
        let script = "trap '' HUP; setsid sleep 1000 </dev/null >/dev/null 2>&1 & echo $!";
        let mut command = Command::new("sh");
        command.args(["-c", script]).stderr(Stdio::null());
        let mark = Mark::set(&mut command);
        let output = command.output().expect("a shell");
        let pid = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        let environ = Path::new("/proc").join(&pid).join("environ");
        // Until it runs the program, it has the environment of the shell that forked it, which has
        // the mark as well.
        assert!(fs::read(&environ).is_ok_and(|bytes| !bytes.is_empty()), "{pid}");
        assert!(mark.kill_all() >= 1);
        while fs::read(&environ).is_ok_and(|bytes| !bytes.is_empty()) {
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
