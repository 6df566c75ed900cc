//! Network of a trial: two hosts, and the program under test between them.

use std::{
    ffi::OsStr,
    fs, io,
    net::{Ipv4Addr, SocketAddr},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{self, Command},
    sync::atomic::{AtomicU32, Ordering},
};

use super::connection::Address;
use crate::{Lab, Namespace};

/// Namespaces, links between them, and a folder. Everything is removed when it is dropped.
#[derive(Debug)]
pub struct Scene {
    linerate: PathBuf,
    folder: PathBuf,
    middle: Namespace,
    hosts: [Namespace; 2],
}

impl Scene {
    /// The ports of the program at the hosts' links, in its namespace.
    pub const PORTS: [&str; 2] = ["packet:pa", "packet:pb"];
    /// The hosts' addresses. They know each other's hardware addresses.
    pub const HOSTS: [Ipv4Addr; 2] = [Ipv4Addr::new(198, 18, 0, 1), Ipv4Addr::new(198, 18, 0, 2)];
    /// The UDP port of the hosts.
    pub const DATAGRAMS: u16 = 7000;

    /// A scene for this program.
    ///
    /// # Panics
    ///
    /// As [`Lab::new`].
    #[must_use]
    #[track_caller]
    pub fn new(linerate: &Path) -> Scene {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let lab = Lab::new();
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("linerate-hostile-{}-{number}", process::id());
        let folder = std::env::temp_dir().join(name);
        let made = fs::create_dir(&folder);
        // Other users can enter it; the sockets' modes decide about connecting.
        let mode = fs::Permissions::from_mode(0o755);
        made.and_then(|()| fs::set_permissions(&folder, mode)).expect("a folder");
        let middle = lab.namespace("middle");
        let hosts = ["a", "b"].map(|name| lab.namespace(name));
        for (at, host) in hosts.iter().enumerate() {
            lab.veth(host, "e0", &middle, ["pa", "pb"][at]);
            host.add_address("e0", &format!("{}/24", Scene::HOSTS[at]));
        }
        let scene = Scene { linerate: linerate.into(), folder, middle, hosts };
        for (at, host) in scene.hosts.iter().enumerate() {
            let other = 1 - at;
            let (address, mac) = (Scene::HOSTS[other].to_string(), scene.mac(other));
            host.ip([
                "neigh",
                "replace",
                &address,
                "lladdr",
                &mac,
                "dev",
                "e0",
                "nud",
                "permanent",
            ]);
        }
        scene
    }

    /// `linerate` with these words, to run in the namespace of the program.
    #[track_caller]
    pub fn linerate<S: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = S>) -> Command {
        let mut command = self.middle.command([&self.linerate]);
        command.args(words);
        command
    }

    /// The program `linerate` itself; programs built with it are in the same folder.
    #[must_use]
    pub fn program(&self) -> &Path {
        &self.linerate
    }

    /// A file's name in a folder of the trial's own, in which other users find it.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The path of a file of the scene, as text.
    ///
    /// # Panics
    ///
    /// When the system's folder for temporary files has a name that is not UTF-8.
    #[must_use]
    pub fn file(&self, name: &str) -> String {
        self.path(name).to_str().expect("a UTF-8 path").to_owned()
    }

    /// Writes a file that every user can read, and returns its name.
    ///
    /// # Panics
    ///
    /// When it cannot be written.
    #[must_use]
    pub fn write(&self, name: &str, text: &str) -> String {
        fs::write(self.path(name), text).expect("a file");
        self.file(name)
    }

    /// A TCP port on the loopback interface of the program's namespace, where every port is free.
    #[must_use]
    pub fn tcp(port: u16) -> Address {
        Address::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
    }

    /// The namespace of the program.
    #[must_use]
    pub fn middle(&self) -> &Namespace {
        &self.middle
    }

    /// The namespaces of the hosts; each has an interface `e0`.
    #[must_use]
    pub fn hosts(&self) -> &[Namespace; 2] {
        &self.hosts
    }

    /// The hardware address of a host, as text.
    ///
    /// # Panics
    ///
    /// When there is no such host.
    #[must_use]
    pub fn mac(&self, host: usize) -> String {
        let octets = self.hosts[host].mac("e0").map(|octet| format!("{octet:02x}"));
        octets.join(":")
    }

    /// The output of the program, `stdout` or `stderr`.
    pub(super) fn written(&self, stream: &str) -> String {
        fs::read(self.path(stream))
            .map_or_else(|_| String::new(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    pub(super) fn stream(&self, name: &str) -> io::Result<fs::File> {
        fs::File::create(self.path(name))
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        // A leftover is no reason to fail a test.
        let _ = fs::remove_dir_all(&self.folder);
    }
}
