//! Names of namespaces, and removal of those of killed processes.
//!
//! A name is `lrlab-PID-START-NUMBER-LABEL`. Process number and start time together name one
//! process for as long as the machine runs, so a namespace without a living maker is known from its
//! name alone, and no two labs share one.

use std::fs;
use std::process::{self, Command};

/// The beginning of every name, which marks a namespace as a lab's.
const PREFIX: &str = "lrlab-";

/// The folder where `ip netns` keeps its handles.
const HANDLES: &str = "/run/netns";

/// The name of this process's `number`th namespace.
#[track_caller]
pub(crate) fn name(number: u32, label: &str) -> String {
    assert!(
        !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric()),
        "the label `{label}` of a namespace must be letters and digits"
    );
    let pid = process::id();
    let start = start_time(pid).expect("/proc shows this process");
    format!("{PREFIX}{pid}-{start}-{number}-{label}")
}

/// Removes namespaces of makers that have ended without removing them.
pub(crate) fn sweep() {
    // No such directory: no namespaces.
    let Ok(entries) = fs::read_dir(HANDLES) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if maker(&name).is_some_and(|(pid, start)| start_time(pid) != Some(start)) {
            remove(&name);
        }
    }
}

/// Kills the processes in a namespace and removes it. Links die with it.
///
/// Called from destructors and for other processes' remains, so failures are only shown: another
/// lab may be sweeping the same name at the same time.
pub(crate) fn remove(name: &str) {
    if let Ok(output) = Command::new("ip").args(["netns", "pids", name]).output() {
        for pid in String::from_utf8_lossy(&output.stdout).split_whitespace() {
            let pid = pid.parse().ok().and_then(rustix::process::Pid::from_raw);
            // This process itself is listed while one of its threads is inside.
            let others = pid.filter(|pid| *pid != rustix::process::getpid());
            if let Some(pid) = others {
                // It may have ended by itself meanwhile.
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
    }
    match Command::new("ip").args(["netns", "delete", name]).output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            eprintln!("removing {name}: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Err(error) => eprintln!("removing {name}: cannot start ip: {error}"),
    }
}

/// Process number and start time of the maker of a namespace, if a lab made it.
fn maker(name: &str) -> Option<(u32, u64)> {
    let mut fields = name.strip_prefix(PREFIX)?.split('-');
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// When a process started, in clock ticks since boot: field 22 of `/proc/PID/stat`, proc(5).
fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field, the program's name, is in parentheses and may hold spaces and more.
    let (_, after_name) = stat.rsplit_once(") ")?;
    after_name.split(' ').nth(22 - 3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_its_maker() {
        let name = name(7, "left");
        let (pid, start) = maker(&name).expect("the name is a lab's");
        assert_eq!(pid, process::id());
        assert_eq!(start_time(pid), Some(start));
        assert!(name.ends_with("-7-left"));
    }

    #[test]
    fn other_names_are_nobodys() {
        for name in ["left", "lrlab-", "lrlab-x-1-1-a", "lrlab-12", "xlrlab-1-1-1-a"] {
            assert_eq!(maker(name), None, "{name}");
        }
    }

    #[test]
    #[should_panic(expected = "letters and digits")]
    fn labels_cannot_break_names() {
        let _ = name(1, "a-b");
    }
}
