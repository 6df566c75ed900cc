//! Debian packages of the peers.
//!
//! They are fetched from the Debian archive the machine is set up for, saying so first. Where that
//! cannot be done the peer is reported as not available, with the reason; a measurement shows that
//! in the peer's row and goes on with the others.

use std::collections::BTreeMap;
use std::fmt;
use std::process::{Command, Stdio};
use std::sync::Mutex;

use crate::shell;

/// A framework and the packages to run and compile it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Peer {
    /// testpmd, and programs compiled with DPDK's libraries.
    Dpdk,
    /// Programs compiled with libpcap.
    Libpcap,
}

impl Peer {
    fn packages(self) -> &'static [&'static str] {
        match self {
            Peer::Dpdk => &["dpdk-dev", "libdpdk-dev", "pkg-config", "gcc", "libc6-dev"],
            Peer::Libpcap => &["libpcap-dev", "gcc", "libc6-dev"],
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Peer::Dpdk => "DPDK",
            Peer::Libpcap => "libpcap",
        })
    }
}

/// Reason why a peer cannot be measured here, and the remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NotAvailable {
    peer: Peer,
    reason: String,
}

impl fmt::Display for NotAvailable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} is not available: {}", self.peer, self.reason)
    }
}

impl std::error::Error for NotAvailable {}

/// Answers of [`ensure`]: installing is tried once per run, not once per row.
static ANSWERS: Mutex<BTreeMap<Peer, Result<(), NotAvailable>>> = Mutex::new(BTreeMap::new());

/// Sees to it that a peer's packages are installed.
pub(crate) fn ensure(peer: Peer) -> Result<(), NotAvailable> {
    let mut answers = ANSWERS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    answers
        .entry(peer)
        .or_insert_with(|| provide(peer).map_err(|reason| NotAvailable { peer, reason }))
        .clone()
}

fn provide(peer: Peer) -> Result<(), String> {
    if !runs(Command::new("dpkg-query").arg("--version")) {
        return Err(format!(
            "this is not a Debian system; measurements use Debian's packages {}",
            peer.packages().join(", ")
        ));
    }
    let missing: Vec<_> =
        peer.packages().iter().copied().filter(|name| !is_installed(name)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.join(" ");
    if !shell::is_root() {
        return Err(format!("run as root: apt-get install {names}"));
    }
    crate::peers::install(&missing)
        .map_err(|error| format!("cannot install {names}: {error:#}; its message is above"))
}

fn is_installed(package: &str) -> bool {
    let answer = Command::new("dpkg-query")
        .args(["--show", "--showformat=${db:Status-Status}\n", package])
        .stderr(Stdio::null())
        .output();
    answer.is_ok_and(|answer| status_says_installed(&answer.stdout))
}

/// One line per architecture the package is known for.
fn status_says_installed(output: &[u8]) -> bool {
    output.split(|byte| *byte == b'\n').any(|line| line == b"installed")
}

fn runs(command: &mut Command) -> bool {
    command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_packages_are_not_installed() {
        assert!(status_says_installed(b"installed\n"));
        assert!(status_says_installed(b"not-installed\ninstalled\n"));
        assert!(!status_says_installed(b"config-files\n"));
        assert!(!status_says_installed(b"not-installed\n"));
        assert!(!status_says_installed(b""));
    }

    #[test]
    fn refusal_names_the_peer_and_the_reason() {
        let refusal = NotAvailable {
            peer: Peer::Dpdk,
            reason: "run as root: apt-get install dpdk-dev".into(),
        };
        assert_eq!(
            refusal.to_string(),
            "DPDK is not available: run as root: apt-get install dpdk-dev"
        );
    }
}
