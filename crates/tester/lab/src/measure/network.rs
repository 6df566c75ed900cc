//! A network namespace with veth pairs, to measure ports of the kernel's in.
//!
//! It is that of a child process which ends when its standard input closes, and
//! so however this process ends: nothing is left behind. Threads visit it; what
//! they open belongs there for good.

use std::{
    fs::{self, File},
    io,
    os::fd::AsFd,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::Failure;

/// Interfaces our ports receive from and send to, and the other ends of those.
pub(super) const IN: &str = "in0";
pub(super) const IN_FAR: &str = "in1";
pub(super) const OUT: &str = "out0";
const OUT_FAR: &str = "out1";
/// Longest frame that crosses, with FCS.
pub(super) const LONGEST: u32 = 1518;

/// Longest time until the child has its namespace.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The reason why there is no network to measure in.
#[derive(Debug, thiserror::Error)]
pub(super) enum NetworkError {
    /// Only root may make interfaces.
    #[error("interfaces to measure with need root")]
    Privilege,
    /// A program is missing or fails.
    #[error("no network to measure in: `{command}`: {reason}")]
    Program {
        /// The command.
        command: String,
        /// Its output or error.
        reason: String,
    },
    /// The namespace cannot be had.
    #[error("no network namespace to measure in: {0}")]
    Namespace(io::Error),
}

#[derive(Debug)]
pub(super) struct Network {
    _holder: NamespaceHolder,
    handle: File,
}

/// The child process whose namespace it is. Dropping this ends it.
#[derive(Debug)]
struct NamespaceHolder(Child);

impl Network {
    /// Makes the namespace and two pairs of interfaces in it: some 100 ms.
    pub(super) fn new() -> Result<Network, NetworkError> {
        if !rustix::process::geteuid().is_root() {
            return Err(NetworkError::Privilege);
        }
        let holder = Command::new("unshare")
            .args(["--net", "cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| NetworkError::Program {
                command: "unshare --net cat".into(),
                reason: error.to_string(),
            })?;
        // From now on it ends with us.
        let holder = NamespaceHolder(holder);
        let path = format!("/proc/{}/ns/net", holder.0.id());
        let ours = fs::read_link("/proc/self/ns/net").map_err(NetworkError::Namespace)?;
        let deadline = Instant::now() + TIMEOUT;
        while fs::read_link(&path).map_err(NetworkError::Namespace)? == ours {
            if Instant::now() > deadline {
                return Err(NetworkError::Namespace(io::ErrorKind::TimedOut.into()));
            }
            thread::sleep(Duration::from_millis(1));
        }
        let handle = File::open(&path).map_err(NetworkError::Namespace)?;
        let network = Network { _holder: holder, handle };
        thread::scope(|scope| {
            let made = scope.spawn(|| {
                network.move_thread().map_err(NetworkError::Namespace)?;
                interfaces()
            });
            made.join().expect("it does not panic")
        })?;
        Ok(network)
    }

    /// Takes the calling thread inside, for the rest of its life.
    pub(super) fn enter(&self) -> Result<(), Failure> {
        self.move_thread().map_err(Failure::unsupported)
    }

    fn move_thread(&self) -> io::Result<()> {
        move_into_link_name_space(self.handle.as_fd(), Some(LinkNameSpaceType::Network))?;
        Ok(())
    }
}

impl Drop for NamespaceHolder {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Makes the interfaces of the namespace the calling thread is in.
fn interfaces() -> Result<(), NetworkError> {
    // No messages of the kernel's own between the frames.
    for scope in ["all", "default"] {
        let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{scope}/disable_ipv6"), "1");
    }
    for (near, far) in [(IN, IN_FAR), (OUT, OUT_FAR)] {
        ip(&["link", "add", near, "type", "veth", "peer", "name", far])?;
        for name in [near, far] {
            ip(&["link", "set", name, "arp", "off", "up"])?;
        }
    }
    Ok(())
}

fn ip(words: &[&str]) -> Result<(), NetworkError> {
    let failed =
        |reason| NetworkError::Program { command: format!("ip {}", words.join(" ")), reason };
    let output = Command::new("ip").args(words).output();
    let output = output.map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}
