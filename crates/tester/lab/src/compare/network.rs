//! Two veth pairs in a network namespace of their own.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{self, Command},
    sync::atomic::{AtomicU32, Ordering},
};

use linerate_packet::MacAddr;

use super::TurnError;

/// The tester's ends: it sends by the first and receives by the second.
pub(super) const TESTER: [&str; 2] = ["tester0", "tester1"];
/// The forwarder's ends.
pub(super) const DEVICE: [&str; 2] = ["device0", "device1"];
/// Start of the names of namespaces; a process id and a number follow.
const PREFIX: &str = "linerate-compare-";
/// Directory of the handles of `ip netns`.
const HANDLES: &str = "/run/netns";

/// The network. Dropping it removes the namespace with all that runs in it.
#[derive(Debug)]
pub struct Network {
    name: String,
    router: MacAddr,
    /// The Ethernet address of the tester's receiving end.
    sink: MacAddr,
}

impl Network {
    /// Makes it, with all links up and no traffic of the kernel's own.
    ///
    /// # Errors
    ///
    /// With the output of `ip`.
    pub fn new() -> Result<Network, TurnError> {
        sweep();
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{number}", process::id());
        run("ip", &["netns", "add", &name])?;
        // From here on it is removed, also when the rest fails.
        let mut network = Network { name, router: MacAddr::ZERO, sink: MacAddr::ZERO };
        network.inside(&["sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1"])?;
        for (tester, device) in TESTER.into_iter().zip(DEVICE) {
            network.ip(&["link", "add", tester, "type", "veth", "peer", "name", device])?;
            for end in [tester, device] {
                network.inside(&["ethtool", "-K", end, "tx", "off", "rx", "off"])?;
                network.ip(&["link", "set", end, "up"])?;
            }
        }
        network.router = network.mac(DEVICE[0])?;
        network.sink = network.mac(TESTER[1])?;
        Ok(network)
    }

    /// Its handle in the file system.
    pub fn path(&self) -> PathBuf {
        Path::new(HANDLES).join(&self.name)
    }

    /// Its name for `ip netns`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The Ethernet address of the forwarder's first end.
    pub fn router(&self) -> MacAddr {
        self.router
    }

    /// The Ethernet address of the tester's receiving end.
    pub fn sink(&self) -> MacAddr {
        self.sink
    }

    /// Runs `ip` on it.
    pub(super) fn ip(&self, words: &[&str]) -> Result<String, TurnError> {
        run("ip", &[&["-n", &self.name], words].concat())
    }

    /// Runs a program inside to its end.
    pub(super) fn inside(&self, words: &[&str]) -> Result<String, TurnError> {
        run("ip", &[&["netns", "exec", &self.name], words].concat())
    }

    fn mac(&self, interface: &str) -> Result<MacAddr, TurnError> {
        let text = self.inside(&["cat", &format!("/sys/class/net/{interface}/address")])?;
        let unknown = || TurnError::Network(format!("{interface} has the address {text:?}"));
        text.trim().parse().map_err(|_| unknown())
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        remove(&self.name);
    }
}

/// Removes the namespaces that ended processes have left.
fn sweep() {
    for entry in fs::read_dir(HANDLES).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let maker = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once('-'));
        if maker.is_some_and(|(id, _)| !Path::new("/proc").join(id).exists()) {
            remove(&name);
        }
    }
}

/// Kills the processes of a namespace and removes it; its links go with it.
fn remove(name: &str) {
    if let Ok(output) = Command::new("ip").args(["netns", "pids", name]).output() {
        for id in String::from_utf8_lossy(&output.stdout).split_whitespace() {
            let id = id.parse().ok().and_then(rustix::process::Pid::from_raw);
            // The tester's own process is never inside; its threads were.
            if let Some(id) = id.filter(|id| *id != rustix::process::getpid()) {
                // It may have ended meanwhile.
                let _ = rustix::process::kill_process(id, rustix::process::Signal::KILL);
            }
        }
    }
    if let Err(error) = run("ip", &["netns", "delete", name]) {
        eprintln!("linerate: {error}");
    }
}

/// Runs a program to its end; its output is the error if it fails.
pub(super) fn run(program: &str, words: &[&str]) -> Result<String, TurnError> {
    let shown = || format!("{program} {}", words.join(" "));
    let output = Command::new(program)
        .args(words)
        .output()
        .map_err(|error| TurnError::Network(format!("cannot start `{}`: {error}", shown())))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(TurnError::Network(format!("`{}` failed: {}", shown(), said.trim())))
}
