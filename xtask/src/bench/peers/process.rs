//! Process of a forwarder: started where it belongs, gone and swept up after when dropped.

use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{env, fs};

use anyhow::{Context, Result};

use crate::bench::restore::{RestoreOnDrop, leftovers};
use crate::shell;

/// The folder where DPDK keeps the files of its processes: its own rule, `eal_create_runtime_dir`.
fn runtime_folder() -> PathBuf {
    if shell::is_root() {
        return PathBuf::from("/var/run/dpdk");
    }
    env::var_os("XDG_RUNTIME_DIR").map_or_else(|| "/tmp".into(), PathBuf::from).join("dpdk")
}

/// A running forwarder. Dropping it kills it and removes the files it would leave.
#[derive(Debug)]
pub(crate) struct Process {
    id: u32,
    child: Arc<Mutex<Child>>,
    _undo: RestoreOnDrop,
}

impl Process {
    /// Starts `command`; `prefix` names the DPDK files it makes, if it is a DPDK program.
    pub(crate) fn spawn(command: &mut Command, prefix: Option<&str>) -> Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        let child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        let id = child.id();
        let child = Arc::new(Mutex::new(child));
        let files = prefix.map(|prefix| runtime_folder().join(prefix));
        let undo = {
            let child = child.clone();
            RestoreOnDrop::by(move || end(&mut lock(&child), files.as_deref()))
        };
        Ok(Process { id, child, _undo: undo })
    }

    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// Its standard output, once.
    pub(crate) fn output(&self) -> Result<ChildStdout> {
        lock(&self.child).stdout.take().context("a program without standard output")
    }

    /// Its standard input, once.
    pub(crate) fn input(&self) -> Result<ChildStdin> {
        lock(&self.child).stdin.take().context("a program without standard input")
    }

    /// Waits for its end.
    pub(crate) fn wait(&self) -> Result<ExitStatus> {
        lock(&self.child).wait().context("cannot wait for a program")
    }

    /// Whether it has not ended by itself.
    pub(crate) fn is_running(&self) -> Result<bool> {
        Ok(lock(&self.child).try_wait().context("cannot ask for a program's end")?.is_none())
    }

    /// Processor time of one of its threads, or of the whole process, as the scheduler counts it.
    pub(crate) fn cpu_time(&self, thread: Option<u32>) -> Result<Duration> {
        let path = match thread {
            Some(thread) => format!("/proc/{}/task/{thread}/schedstat", self.id()),
            None => format!("/proc/{}/schedstat", self.id()),
        };
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        let nanoseconds = text.split_whitespace().next().and_then(|field| field.parse().ok());
        nanoseconds.map(Duration::from_nanos).with_context(|| format!("cannot parse {path}"))
    }

    /// The thread with this name.
    pub(crate) fn thread_named(&self, name: &str) -> Result<u32> {
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
    pub(crate) fn status_bytes(&self, field: &str) -> Result<u64> {
        let path = format!("/proc/{}/status", self.id());
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        let kilobytes: u64 = text
            .lines()
            .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))
            .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
            .with_context(|| format!("{path} has no {field}"))?;
        Ok(kilobytes * 1024)
    }

    /// Number of shared libraries it has loaded.
    pub(crate) fn libraries(&self) -> Result<usize> {
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

fn lock(child: &Mutex<Child>) -> MutexGuard<'_, Child> {
    child.lock().unwrap_or_else(PoisonError::into_inner)
}

fn end(child: &mut Child, files: Option<&Path>) {
    // Both fail only when the process has already ended, which is their purpose.
    let _ = child.kill();
    let _ = child.wait();
    if let Some(files) = files {
        // Nothing there when it kept all its bookkeeping in memory.
        let _ = fs::remove_dir_all(files);
        let folder = runtime_folder();
        for files in leftovers(&folder) {
            let _ = fs::remove_dir_all(files);
        }
        // Shared with other DPDK processes: this succeeds only when none has files there.
        let _ = fs::remove_dir(folder);
    }
}

/// `program`, in a network namespace made by the caller or in ours.
pub(crate) fn command_in(namespace: Option<&str>, program: impl AsRef<Path>) -> Command {
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
