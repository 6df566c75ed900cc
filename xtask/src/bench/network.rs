//! The network forwarders are measured on: two veth pairs in a namespace of their own.
//!
//! ```text
//!   generator ---> from   [ forwarder ]   to ---> sink
//! ```
//!
//! Frames are put in at `generator` and counted at `sink`, which drops them in its driver. The
//! kernel delivers them to the forwarder on the generator's core, and to the sink on the
//! forwarder's, so every forwarder pays the same for its output.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Result;

use super::live_frames::Sink;
use crate::shell;

/// Where frames are put in.
pub(crate) const GENERATOR: &str = "generator";
/// The forwarder's two interfaces.
pub(crate) const FORWARDER: [&str; 2] = ["from", "to"];
/// Where frames are counted.
pub(crate) const SINK: &str = "sink";

/// The network. Dropping it removes the namespace and all in it.
#[derive(Debug)]
pub(crate) struct Network {
    namespace: String,
    /// Detached before the namespace goes.
    sink: Option<Sink>,
}

impl Network {
    /// Makes it, with all interfaces up and no traffic of the kernel's own.
    pub(crate) fn new() -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let namespace = format!("linerate-bench-{}-{number}", std::process::id());
        ip(&["netns", "add", &namespace])?;
        let mut network = Network { namespace, sink: None };
        let inside = ["netns", "exec", &network.namespace];
        let setting = "net.ipv6.conf.default.disable_ipv6=1";
        ip(&[&inside[..], &["sysctl", "--quiet", "--write", setting]].concat())?;
        for [one, other] in [[GENERATOR, FORWARDER[0]], [FORWARDER[1], SINK]] {
            network.link(&["add", one, "type", "veth", "peer", other])?;
            network.link(&["set", one, "up"])?;
            network.link(&["set", other, "up"])?;
        }
        network.sink = Some(Sink::attach(Some(&network.namespace), SINK)?);
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

    fn link(&self, arguments: &[&str]) -> Result<()> {
        ip(&[&["-n", &self.namespace, "link"], arguments].concat())
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.sink = None;
        if let Err(error) = ip(&["netns", "delete", &self.namespace]) {
            eprintln!("{error:#}");
        }
    }
}

fn ip(arguments: &[&str]) -> Result<()> {
    shell::output(Command::new("ip").args(arguments)).map(drop)
}
