//! A forwarder's processes: started in the network's namespace, and gone when
//! dropped.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use super::network::Network;

/// A running program with a file of its output. Dropping it kills it.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a program inside of the network. It dies with this process,
    /// however that ends.
    pub(super) fn start(
        network: &Network,
        folder: &Path,
        words: &[&str],
        variables: &[(&str, &str)],
    ) -> io::Result<Process> {
        let label = words[0].rsplit('/').next().unwrap_or("program");
        let log = folder.join(format!("{label}.log"));
        let file = File::create(&log)?;
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "ip", "netns", "exec", network.name()])
            .args(words)
            .envs(variables.iter().copied())
            // Kept open: some programs end at the end of their input.
            .stdin(Stdio::piped())
            .stdout(file.try_clone()?)
            .stderr(file);
        Ok(Process { child: command.spawn()?, log })
    }

    /// Its output, if it has ended.
    pub(super) fn ended(&mut self) -> Option<String> {
        match self.child.try_wait() {
            Ok(None) => None,
            Ok(Some(status)) => Some(format!("{status}: {}", self.output())),
            Err(error) => Some(error.to_string()),
        }
    }

    /// The last lines of its output, joined in one.
    pub(super) fn output(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> =
            text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        lines[lines.len().saturating_sub(4)..].join("; ")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only after its end, which is their purpose.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
