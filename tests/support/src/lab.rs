//! Lab: a set of namespaces and the links between them.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::namespace::Namespace;
use crate::{process, programs, stale};

/// Numbers the namespaces of this process, whichever lab they belong to.
static NUMBER: AtomicU32 = AtomicU32::new(1);

/// Makes namespaces and joins them.
///
/// A namespace is removed, with its links and with the programs still running in it, when its last
/// handle is dropped; the lab itself holds none.
#[derive(Debug)]
pub struct Lab {
    _private: (),
}

impl Lab {
    /// Prepares for making namespaces; removes those that killed tests left behind.
    ///
    /// # Panics
    ///
    /// When this is not root, or `ip` or `ethtool` is missing.
    #[must_use]
    #[track_caller]
    #[expect(clippy::new_without_default, reason = "it sweeps, which a default should not")]
    pub fn new() -> Self {
        assert!(
            rustix::process::geteuid().is_root(),
            "network namespaces need root: run `cargo xtask test` as root"
        );
        programs::require("ip");
        programs::require("ethtool");
        stale::sweep();
        Self { _private: () }
    }

    /// Makes a namespace with only its loopback up. The label, letters and digits, shows in
    /// `ip netns list` while the test runs.
    ///
    /// # Panics
    ///
    /// When the kernel refuses.
    #[must_use]
    #[track_caller]
    pub fn namespace(&self, label: &str) -> Namespace {
        Namespace::create(stale::name(NUMBER.fetch_add(1, Ordering::Relaxed), label))
    }

    /// Joins two namespaces by a veth pair with one queue each: see [`Self::veth_queues`].
    ///
    /// # Panics
    ///
    /// When the kernel refuses.
    #[track_caller]
    pub fn veth(&self, a: &Namespace, name_a: &str, b: &Namespace, name_b: &str) {
        self.veth_queues(a, name_a, b, name_b, 1);
    }

    /// Joins two namespaces by a veth pair, up at both ends, with `queues` receive and transmit
    /// queues at each. Frames cross it as they were sent: checksum, segmentation, receive merging
    /// and VLAN offloads are off, and neither end sends anything of its own until it is given an
    /// address.
    ///
    /// # Panics
    ///
    /// When the kernel refuses.
    #[track_caller]
    pub fn veth_queues(
        &self,
        a: &Namespace,
        name_a: &str,
        b: &Namespace,
        name_b: &str,
        queues: u32,
    ) {
        let queues = queues.to_string();
        let queues = ["numrxqueues", &queues, "numtxqueues", &queues];
        let mut command = programs::command("ip");
        command.args(["link", "add", name_a, "netns", a.name()]).args(queues);
        command.args(["type", "veth", "peer", "name", name_b, "netns", b.name()]).args(queues);
        process::expect(command, crate::namespace::DEADLINE);
        for (namespace, name) in [(a, name_a), (b, name_b)] {
            namespace.offloads_off(name);
            namespace.link_up(name);
        }
        for (namespace, name) in [(a, name_a), (b, name_b)] {
            namespace.wait_for_carrier(name);
        }
    }
}
