//! Network namespace: its links, the programs in it, and threads that visit it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::counters::Counters;
use crate::process::{self, Running, wait_until};
use crate::{programs, stale};

/// Time in which a program must end, unless the test says otherwise.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// Offloads that change frames between the sender and the receiver, as `ethtool -K` names them.
/// Which of them an interface has differs between kernels: those it lacks are off.
const OFFLOADS: [&str; 8] = ["rx", "tx", "sg", "tso", "gso", "gro", "rxvlan", "txvlan"];

/// A handle of a network namespace. Clones name the same one, and the last to go removes it.
#[derive(Debug, Clone)]
pub struct Namespace {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    name: String,
}

impl Drop for Inner {
    fn drop(&mut self) {
        stale::remove(&self.name);
    }
}

impl Namespace {
    #[track_caller]
    pub(crate) fn create(name: String) -> Self {
        let mut command = programs::command("ip");
        command.args(["netns", "add", &name]);
        process::expect(command, DEADLINE);
        let namespace = Self { inner: Arc::new(Inner { name }) };
        namespace.link_up("lo");
        // Interfaces made from now on have no IPv6 until they are given an address, so that they
        // send no neighbour, router and multicast messages of their own between a test's frames.
        namespace.set("net/ipv6/conf/default/disable_ipv6", "1");
        namespace
    }

    /// Its name for `ip netns`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Its handle in the file system, for programs that take one.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        PathBuf::from("/run/netns").join(self.name())
    }

    /// A program set up to run inside, for tests that need more than the functions below: other
    /// streams, an environment, a directory. Its `/sys` shows this namespace's interfaces.
    ///
    /// # Panics
    ///
    /// When a program the lab knows (see [`programs::PROGRAMS`]) is not installed.
    #[track_caller]
    pub fn command<S: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = S>) -> Command {
        let mut words = words.into_iter();
        let program = words.next().expect("a command has a program");
        let program = program.as_ref();
        let known = program.to_str().filter(|name| programs::is_known(name));
        let path = known.map(|name| programs::require(name).into_os_string());
        let mut command = programs::command("ip");
        // ip replaces itself by the program: the process started is the program's own.
        command.args(["netns", "exec", self.name()]);
        command.arg(path.as_deref().unwrap_or(program)).args(words);
        command
    }

    /// Runs a program inside, and returns its status and output, for at most a minute.
    ///
    /// # Panics
    ///
    /// When it cannot be started, or does not end. Not when it fails: see [`Self::expect`].
    #[track_caller]
    pub fn run<S: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = S>) -> Output {
        process::collect(self.command(words), DEADLINE)
    }

    /// Runs a program inside that has to succeed, and returns its output.
    ///
    /// # Panics
    ///
    /// When it fails, with everything it printed.
    #[track_caller]
    pub fn expect<S: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = S>) -> String {
        process::expect(self.command(words), DEADLINE)
    }

    /// Starts a program inside that goes on while the test does. It is killed when dropped.
    ///
    /// # Panics
    ///
    /// When it cannot be started.
    #[must_use = "the program is killed when this is dropped"]
    #[track_caller]
    pub fn spawn<S: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = S>) -> Running {
        self.spawn_command(self.command(words))
    }

    /// Starts the command that [`Self::command`] set up.
    ///
    /// # Panics
    ///
    /// When it cannot be started.
    #[must_use = "the program is killed when this is dropped"]
    #[track_caller]
    pub fn spawn_command(&self, command: Command) -> Running {
        Running::start(command)
    }

    /// Calls a function in a thread of this process that is inside the namespace: the sockets it
    /// opens belong there for good, also when they are used elsewhere later.
    ///
    /// Only the network changes: `/sys` still shows the interfaces outside.
    ///
    /// # Panics
    ///
    /// When the namespace cannot be entered, or when the function panics.
    #[track_caller]
    pub fn enter<R: Send>(&self, function: impl FnOnce() -> R + Send) -> R {
        let path = self.path();
        let handle = File::open(&path)
            .unwrap_or_else(|error| panic!("cannot open {}: {error}", path.display()));
        let inside = || {
            move_into_link_name_space(handle.as_fd(), Some(LinkNameSpaceType::Network))
                .unwrap_or_else(|error| panic!("cannot enter {}: {error}", path.display()));
            function()
        };
        thread::scope(|scope| scope.spawn(inside).join())
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Runs `ip` inside, for settings without a function here.
    ///
    /// # Panics
    ///
    /// When it fails.
    #[track_caller]
    pub fn ip<const N: usize>(&self, words: [&str; N]) -> String {
        let mut command = programs::command("ip");
        command.args(["-netns", self.name()]).args(words);
        process::expect(command, DEADLINE)
    }

    /// Gives an interface an address, `198.18.0.1/24` or `2001:db8::1/64`, usable at once.
    ///
    /// # Panics
    ///
    /// When the kernel refuses.
    #[track_caller]
    pub fn add_address(&self, interface: &str, address: &str) {
        if address.contains(':') {
            self.set(&format!("net/ipv6/conf/{interface}/disable_ipv6"), "0");
            // Without this the address would be tentative for a second or two.
            self.ip(["address", "add", address, "dev", interface, "nodad"]);
        } else {
            self.ip(["address", "add", address, "dev", interface]);
        }
    }

    /// Sets an interface up.
    ///
    /// # Panics
    ///
    /// When there is no such interface.
    #[track_caller]
    pub fn link_up(&self, interface: &str) {
        self.ip(["link", "set", interface, "up"]);
    }

    /// Sets an interface down. Its peer loses the carrier.
    ///
    /// # Panics
    ///
    /// When there is no such interface.
    #[track_caller]
    pub fn link_down(&self, interface: &str) {
        self.ip(["link", "set", interface, "down"]);
    }

    /// Removes an interface, and with it the other end of its veth pair.
    ///
    /// # Panics
    ///
    /// When there is no such interface.
    #[track_caller]
    pub fn delete_link(&self, interface: &str) {
        self.ip(["link", "delete", interface]);
    }

    /// Sets the largest payload of a frame. Both ends of a veth pair need the same.
    ///
    /// # Panics
    ///
    /// When the kernel refuses.
    #[track_caller]
    pub fn set_mtu(&self, interface: &str, mtu: u32) {
        self.ip(["link", "set", interface, "mtu", &mtu.to_string()]);
    }

    /// The hardware address of an interface.
    ///
    /// # Panics
    ///
    /// When there is no such interface, or it has none.
    #[must_use]
    #[track_caller]
    pub fn mac(&self, interface: &str) -> [u8; 6] {
        let text = self.ip(["-brief", "link", "show", "dev", interface]);
        let field = text.split_whitespace().nth(2).unwrap_or_default();
        let bytes: Vec<u8> =
            field.split(':').filter_map(|byte| u8::from_str_radix(byte, 16).ok()).collect();
        bytes.try_into().unwrap_or_else(|_| panic!("`{interface}` has no Ethernet address: {text}"))
    }

    /// The kernel's counters of an interface.
    ///
    /// # Panics
    ///
    /// When there is no such interface.
    #[must_use]
    #[track_caller]
    pub fn counters(&self, interface: &str) -> Counters {
        let json = self.ip(["-json", "-statistics", "link", "show", "dev", interface]);
        Counters::parse(&json)
    }

    /// Writes a kernel setting of this namespace, for example `net/ipv4/ip_forward`.
    ///
    /// # Panics
    ///
    /// When the kernel refuses.
    #[track_caller]
    pub fn set(&self, setting: &str, value: &str) {
        let path = PathBuf::from("/proc/sys").join(setting);
        // These files show the settings of the namespace of the thread that opens them.
        let result = self.enter(|| fs::write(&path, value));
        result.unwrap_or_else(|error| {
            panic!("cannot write {value} to {} in {}: {error}", path.display(), self.name())
        });
    }

    /// Turns off everything that makes a received frame differ from the sent one.
    #[track_caller]
    pub(crate) fn offloads_off(&self, interface: &str) {
        for offload in OFFLOADS {
            // A failure means that it cannot be changed; whether it is off is checked below.
            self.run(["ethtool", "-K", interface, offload, "off"]);
        }
        let features = self.expect(["ethtool", "-k", interface]);
        let changing = [
            "rx-checksumming: on",
            "tx-checksumming: on",
            "tcp-segmentation-offload: on",
            "generic-segmentation-offload: on",
            "generic-receive-offload: on",
            "rx-vlan-offload: on",
            "tx-vlan-offload: on",
        ];
        for line in features.lines().map(str::trim) {
            assert!(
                !changing.iter().any(|feature| line.starts_with(feature)),
                "`{interface}` still has `{line}`, so frames would not cross it as sent"
            );
        }
    }

    /// Waits until an interface has a carrier, so that the first frame sent is not lost.
    #[track_caller]
    pub(crate) fn wait_for_carrier(&self, interface: &str) {
        let up = || self.ip(["link", "show", "dev", interface]).contains("LOWER_UP");
        assert!(wait_until(up, DEADLINE), "`{interface}` in {} got no carrier", self.name());
    }
}
