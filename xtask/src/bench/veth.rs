//! Network of the measured forwarders: two veth pairs in a namespace of their own.
//!
//! ```text
//!   generator ---> from   [ forwarder ]   to ---> sink
//! ```
//!
//! Frames are put in at `generator` and counted at `sink`. The kernel delivers them to the
//! forwarder on the generator's core, and to the sink on the forwarder's, so every forwarder pays
//! the same for its output. That price is kept low: no socket at the sink asks for these frames, so
//! the kernel's stack drops them. Dropping them by an XDP program there costs more, because the
//! driver must first make each socket buffer into an XDP frame: 600 cycles per packet of testpmd's
//! 3,000 on an EPYC of family 26.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::restore::{RestoreOnDrop, leftovers, unique_name};
use crate::shell;

/// The interface where frames are put in.
pub(crate) const GENERATOR: &str = "generator";
/// The forwarder's two interfaces.
pub(crate) const FORWARDER: [&str; 2] = ["from", "to"];
/// The interface where frames are counted.
pub(crate) const SINK: &str = "sink";

/// The network. Dropping it removes the namespace and all in it.
#[derive(Debug)]
pub(crate) struct Network {
    namespace: String,
    _undo: RestoreOnDrop,
}

impl Network {
    /// Makes it, with all interfaces up and no traffic of the kernel's own.
    pub(crate) fn new() -> Result<Self> {
        for left in leftovers(Path::new("/run/netns")) {
            remove(&left.file_name().unwrap_or_default().to_string_lossy());
        }
        let namespace = unique_name();
        ip(&["netns", "add", &namespace])?;
        let undo = {
            let namespace = namespace.clone();
            RestoreOnDrop::by(move || remove(&namespace))
        };
        let network = Network { namespace, _undo: undo };
        let inside = ["netns", "exec", &network.namespace];
        let setting = "net.ipv6.conf.default.disable_ipv6=1";
        ip(&[&inside[..], &["sysctl", "--quiet", "--write", setting]].concat())?;
        for [one, other] in [[GENERATOR, FORWARDER[0]], [FORWARDER[1], SINK]] {
            network.link(&["add", one, "type", "veth", "peer", other])?;
            network.link(&["set", one, "up"])?;
            network.link(&["set", other, "up"])?;
        }
        Ok(network)
    }

    /// The namespace, as `ip netns` knows it.
    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Makes `from` take live frames without an XDP program, for forwarders that attach none.
    pub(crate) fn receive_by_polling(&self, on: bool) -> Result<()> {
        let state = if on { "on" } else { "off" };
        let inside = ["netns", "exec", &self.namespace];
        ip(&[&inside[..], &["ethtool", "-K", FORWARDER[0], "gro", state]].concat())
    }

    /// Runs `ip` in it.
    pub(crate) fn ip(&self, arguments: &[&str]) -> Result<()> {
        ip(&[&["-n", &self.namespace], arguments].concat())
    }

    /// Writes a setting of its own: a file in `/proc/sys` or `/sys`.
    pub(crate) fn write(&self, path: &str, value: &str) -> Result<()> {
        let write = "printf %s \"$1\" > \"$2\"";
        ip(&["netns", "exec", &self.namespace, "sh", "-c", write, "sh", value, path])
    }

    fn link(&self, arguments: &[&str]) -> Result<()> {
        self.ip(&[&["link"], arguments].concat())
    }
}

fn remove(namespace: &str) {
    if let Err(error) = ip(&["netns", "delete", namespace]) {
        eprintln!("{error:#}");
    }
}

fn ip(arguments: &[&str]) -> Result<()> {
    shell::output(Command::new("ip").args(arguments)).map(drop)
}
