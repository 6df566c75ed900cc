//! A peer's process: started where it belongs, gone and swept up after when dropped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use anyhow::{Context, Result};

/// Where DPDK keeps a process's files, for root.
const RUNTIME: &str = "/var/run/dpdk";

/// A running peer. Dropping it kills it and removes the files it would leave.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) child: Child,
    files: Option<PathBuf>,
}

impl Process {
    /// Starts `command`; `prefix` names the DPDK files it makes, if it is a DPDK program.
    pub(super) fn spawn(command: &mut Command, prefix: Option<&str>) -> Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        let child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        Ok(Process { child, files: prefix.map(|prefix| Path::new(RUNTIME).join(prefix)) })
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Processor time of one of its threads, or of the whole process, as the scheduler counts it.
    pub(super) fn cpu_time(&self, thread: Option<u32>) -> Result<Duration> {
        let path = match thread {
            Some(thread) => format!("/proc/{}/task/{thread}/schedstat", self.id()),
            None => format!("/proc/{}/schedstat", self.id()),
        };
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        let nanoseconds = text.split_whitespace().next().and_then(|field| field.parse().ok());
        nanoseconds.map(Duration::from_nanos).with_context(|| format!("cannot parse {path}"))
    }

    /// The thread with this name.
    pub(super) fn thread_named(&self, name: &str) -> Result<u32> {
        let tasks = format!("/proc/{}/task", self.id());
        for entry in fs::read_dir(&tasks).with_context(|| format!("cannot list {tasks}"))? {
            let path = entry?.path();
            // A thread may end between being listed and being read.
            let found = fs::read_to_string(path.join("comm")).unwrap_or_default();
            if found.trim_end() == name {
                let id = path.file_name().and_then(|name| name.to_str()?.parse().ok());
                return id.with_context(|| format!("{} is not a thread", path.display()));
            }
        }
        anyhow::bail!("no thread in {tasks} is named {name}")
    }

    /// A field of `/proc/PID/status` counted in kB, in bytes.
    pub(super) fn status_bytes(&self, field: &str) -> Result<u64> {
        let path = format!("/proc/{}/status", self.id());
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        let kilobytes: u64 = text
            .lines()
            .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))
            .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
            .with_context(|| format!("{path} has no {field}"))?;
        Ok(kilobytes * 1024)
    }

    /// How many shared libraries it has loaded.
    pub(super) fn libraries(&self) -> Result<usize> {
        let path = format!("/proc/{}/maps", self.id());
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        let mut files: Vec<_> = text
            .lines()
            .filter_map(|line| line.split_whitespace().nth(5))
            .filter(|file| file.contains(".so"))
            .collect();
        files.sort_unstable();
        files.dedup();
        Ok(files.len())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only when the process has already ended, which is what they are for.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(files) = &self.files {
            let _ = fs::remove_dir_all(files);
            // Shared with other DPDK processes, so only when nobody else has files there.
            let _ = fs::remove_dir(RUNTIME);
        }
    }
}

/// `program`, in a network namespace made by the caller or in ours.
pub(super) fn command_in(namespace: Option<&str>, program: impl AsRef<Path>) -> Command {
    let program = program.as_ref();
    match namespace {
        None => Command::new(program),
        Some(namespace) => {
            // `ip netns exec` replaces itself with the program, so the process id is the peer's.
            let mut command = Command::new("ip");
            command.args(["netns", "exec", namespace]).arg(program);
            command
        }
    }
}
