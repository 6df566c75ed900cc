//! Open vSwitch with its datapath in user space, in a namespace or with dummy ports.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{env, fs};

use crate::{Namespace, Running, process, programs, wait_until};

/// The table of contents of its database.
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";

/// Time that its programs may take to answer.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A database and a daemon of their own. Both are killed when this is dropped.
#[derive(Debug)]
pub struct OpenVswitch {
    // They end in this order.
    _daemon: Running,
    _database: Running,
    namespace: Option<Namespace>,
    folder: Folder,
}

/// A folder that goes with its owner.
#[derive(Debug)]
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl OpenVswitch {
    /// Starts one with interfaces of a namespace as its ports.
    ///
    /// # Panics
    ///
    /// When it does not come up.
    #[must_use]
    #[track_caller]
    pub fn start(namespace: &Namespace) -> OpenVswitch {
        Self::with(Some(namespace.clone()), &["--disable-system"])
    }

    /// Starts one whose ports are of type `dummy`: they receive the frames of
    /// `netdev-dummy/receive`, and send into files. It needs no privileges.
    ///
    /// # Panics
    ///
    /// When it does not come up.
    #[must_use]
    #[track_caller]
    pub fn dummy() -> OpenVswitch {
        Self::with(None, &["--enable-dummy", "--disable-system"])
    }

    #[track_caller]
    fn with(namespace: Option<Namespace>, words: &[&str]) -> OpenVswitch {
        let folder = Folder(env::temp_dir().join(unique()));
        fs::create_dir(&folder.0).expect("a folder for Open vSwitch");
        let start = |mut command: Command| {
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            Running::start(command)
        };
        let path = folder.0.clone();
        let name = |file: &str| path.join(file).to_string_lossy().into_owned();
        let socket = format!("unix:{}", name("db.sock"));
        let prepare = |words: &[&str]| command(&path, namespace.as_ref(), words);
        process::expect(prepare(&["ovsdb-tool", "create", &name("conf.db"), SCHEMA]), TIMEOUT);
        let database = start(prepare(&[
            "ovsdb-server",
            &name("conf.db"),
            &format!("--remote=p{socket}"),
            &format!("--unixctl={}", name("db.ctl")),
        ]));
        let database_option = format!("--db={socket}");
        let init = ["ovs-vsctl", &database_option, "--retry", "--timeout=20", "--no-wait", "init"];
        process::expect(prepare(&init), TIMEOUT);
        let control = format!("--unixctl={}", name("switch.ctl"));
        let log = format!("--log-file={}", name("switch.log"));
        let daemon = start(prepare(&[&["ovs-vswitchd", &socket, &control, &log], words].concat()));
        let switch = OpenVswitch { _daemon: daemon, _database: database, namespace, folder };
        assert!(
            wait_until(|| switch.control_socket().exists(), TIMEOUT),
            "ovs-vswitchd does not come up: {}",
            fs::read_to_string(name("switch.log")).unwrap_or_default()
        );
        switch
    }

    /// The folder of its files: sockets, logs and the frames that its ports of type `dummy` send.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder.0
    }

    /// The socket that `ovs-appctl` speaks to.
    #[must_use]
    pub fn control_socket(&self) -> PathBuf {
        self.folder.0.join("switch.ctl")
    }

    /// The socket at which a bridge answers OpenFlow.
    #[must_use]
    pub fn bridge_socket(&self, bridge: &str) -> PathBuf {
        self.folder.0.join(format!("{bridge}.mgmt"))
    }

    /// A program set up to run where this does, and to find it.
    #[must_use]
    #[track_caller]
    pub fn command(&self, words: &[&str]) -> Command {
        command(&self.folder.0, self.namespace.as_ref(), words)
    }

    /// Runs `ovs-vsctl`, and returns its output.
    ///
    /// # Panics
    ///
    /// When it fails.
    #[track_caller]
    pub fn configure(&self, words: &[&str]) -> String {
        let database = format!("--db=unix:{}", self.folder.0.join("db.sock").display());
        let words = [&["ovs-vsctl", &database, "--timeout=20"], words].concat();
        process::expect(self.command(&words), TIMEOUT)
    }

    /// Runs `ovs-ofctl` with a command for a bridge, and returns its output.
    ///
    /// # Panics
    ///
    /// When it fails.
    #[track_caller]
    pub fn openflow(&self, command: &str, bridge: &str, words: &[&str]) -> String {
        let bridge = format!("unix:{}", self.bridge_socket(bridge).display());
        let words = [&["ovs-ofctl", "-OOpenFlow13", command, &bridge], words].concat();
        process::expect(self.command(&words), TIMEOUT)
    }

    /// Runs `ovs-appctl`, and returns its output.
    ///
    /// # Panics
    ///
    /// When it fails.
    #[track_caller]
    pub fn control(&self, words: &[&str]) -> String {
        let socket = self.control_socket().to_string_lossy().into_owned();
        process::expect(self.command(&[&["ovs-appctl", "-t", &socket], words].concat()), TIMEOUT)
    }
}

#[track_caller]
fn command(folder: &Path, namespace: Option<&Namespace>, words: &[&str]) -> Command {
    let mut command = match namespace {
        Some(namespace) => namespace.command(words),
        None => {
            let mut command = Command::new(programs::require(words[0]));
            command.args(&words[1..]);
            command
        }
    };
    for variable in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR"] {
        command.env(variable, folder);
    }
    command
}

/// Tells the folders of all processes apart.
fn unique() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!("linerate-ovs-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}
