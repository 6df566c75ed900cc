//! Peer programs that tests are checked against, and the Debian packages that hold them.
//!
//! One table for both users: `cargo xtask peers` installs missing packages, [`require`] fails a
//! test with the name of the package when a program is absent. Nothing is installed from here.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program some test needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Program {
    /// Name of the executable.
    pub name: &'static str,
    /// Debian package that holds it.
    pub package: &'static str,
    /// The tests' use of it.
    pub purpose: &'static str,
}

/// Every program the tests need, in the order `cargo xtask peers` lists them.
pub const PROGRAMS: &[Program] = &[
    Program { name: "ip", package: "iproute2", purpose: "namespaces, links, addresses" },
    Program { name: "ethtool", package: "ethtool", purpose: "offloads off on test links" },
    Program { name: "ping", package: "iputils-ping", purpose: "reachability" },
    Program { name: "tcpdump", package: "tcpdump", purpose: "independent capture" },
    Program { name: "tshark", package: "tshark", purpose: "independent dissection" },
    Program { name: "capinfos", package: "wireshark-common", purpose: "capture file facts" },
    Program { name: "bpftool", package: "bpftool", purpose: "programs left attached" },
    Program { name: "setpriv", package: "util-linux", purpose: "running without privileges" },
    Program { name: "unshare", package: "util-linux", purpose: "interfaces nobody else sees" },
    Program { name: "strace", package: "strace", purpose: "system calls counted" },
    Program { name: "iperf3", package: "iperf3", purpose: "TCP and UDP through a forwarder" },
    Program { name: "traceroute", package: "traceroute", purpose: "the routers on the way" },
    Program { name: "chromium", package: "chromium", purpose: "a browser that shows reports" },
    Program { name: "nft", package: "nftables", purpose: "the kernel's firewall and NAT" },
    Program { name: "dpdk-testpmd", package: "dpdk-dev", purpose: "a forwarder beside ours" },
    Program {
        name: "ovs-vswitchd",
        package: "openvswitch-switch",
        purpose: "a switch beside ours",
    },
    Program {
        name: "ovs-ofctl",
        package: "openvswitch-common",
        purpose: "OpenFlow's messages read by others",
    },
    Program { name: "nfcapd", package: "nfdump", purpose: "a collector of flow records" },
    Program { name: "sfcapd", package: "nfdump-sflow", purpose: "a collector of samples" },
    Program {
        name: "qemu-system-x86_64",
        package: "qemu-system-x86",
        purpose: "a guest on a switch of ours",
    },
    Program { name: "busybox", package: "busybox-static", purpose: "what runs in the guest" },
    Program { name: "gcc", package: "gcc", purpose: "forwarders compiled for this machine" },
    Program {
        name: "pkg-config",
        package: "pkg-config",
        purpose: "a library as its user finds it",
    },
    Program { name: "pcap-config", package: "libpcap-dev", purpose: "a forwarder on libpcap" },
    Program { name: "dumpcap", package: "wireshark-common", purpose: "a program on libpcap" },
    Program { name: "ngrep", package: "ngrep", purpose: "a program on libpcap" },
    Program { name: "nmap", package: "nmap", purpose: "a program on libpcap" },
    Program { name: "tcpreplay", package: "tcpreplay", purpose: "a program on libpcap" },
    Program { name: "arping", package: "arping", purpose: "a program on libpcap" },
    Program { name: "arp-scan", package: "arp-scan", purpose: "a program on libpcap" },
    Program { name: "p0f", package: "p0f", purpose: "a program on libpcap" },
    Program { name: "libdaq.so.2", package: "libdaq2", purpose: "Snort's library on libpcap" },
    Program { name: "openssl", package: "openssl", purpose: "certificates" },
    Program { name: "readelf", package: "binutils", purpose: "what a library exports" },
    Program { name: "dask-worker", package: "python3-distributed", purpose: "sweeps on a cluster" },
    Program { name: "python3", package: "python3-scapy", purpose: "scapy: independent packets" },
    Program { name: "python3", package: "python3-numpy", purpose: "arrays over our packets" },
    Program { name: "python3", package: "python3-venv", purpose: "a place to install a wheel in" },
];

/// Directories searched after `PATH`: a plain user's `PATH` often lacks them.
const SYSTEM_DIRS: [&str; 4] = ["/usr/sbin", "/sbin", "/usr/local/sbin", "/usr/bin"];

impl Program {
    /// The path of the program, if it is installed. For `python3` that is the interpreter that has
    /// the package's module, since tests call it for that.
    #[must_use]
    pub fn path(&self) -> Option<PathBuf> {
        match self.package {
            "python3-scapy" => python(&["scapy"]),
            "python3-numpy" => python(&["numpy"]),
            "python3-venv" => python(PYTHON_WITH_NUMPY),
            "libdaq2" => library(self.name),
            _ => find(self.name),
        }
    }
}

/// A library, where Debian has them.
fn library(name: &str) -> Option<PathBuf> {
    let folder = format!("/usr/lib/{}-linux-gnu", env::consts::ARCH);
    Some(Path::new(&folder).join(name)).filter(|path| path.exists())
}

/// Modules of a Python that has NumPy and makes environments.
const PYTHON_WITH_NUMPY: &[&str] = &["numpy", "ensurepip"];

/// The Python that has these modules: of all on `PATH` and in the system directories the first. Which one
/// a package manager, `pip` or a version manager has put them into is not looked at, nor whether a program
/// that comes with them is on `PATH`.
fn python(modules: &[&str]) -> Option<PathBuf> {
    python_among(all("python3"), modules)
}

fn python_among(candidates: impl Iterator<Item = PathBuf>, modules: &[&str]) -> Option<PathBuf> {
    let mut candidates = candidates;
    candidates.find(|python| has_modules(python, modules))
}

/// Demands a Python that has these modules, which a Debian package has, too.
///
/// # Panics
///
/// When there is none, as [`require`].
#[track_caller]
#[must_use]
pub fn require_python(modules: &[&str], package: &str) -> PathBuf {
    python(modules).unwrap_or_else(|| {
        let modules = modules.join(", ");
        panic!(
            "this test needs a `python3` that has {modules}: run `cargo xtask peers` or `apt-get \
             install {package}`"
        )
    })
}

/// Demands a Python that has NumPy and makes environments with pip.
///
/// # Panics
///
/// When there is none, as [`require`].
#[track_caller]
#[must_use]
pub fn require_python_with_numpy() -> PathBuf {
    require_python(PYTHON_WITH_NUMPY, "python3-numpy python3-venv")
}

/// The path of an executable, searched on `PATH` and in the system directories.
#[must_use]
pub fn find(name: &str) -> Option<PathBuf> {
    all(name).next()
}

/// All executables of that name, in the order in which they are searched.
fn all(name: &str) -> impl Iterator<Item = PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = env::split_paths(&path).collect();
    folders.extend(SYSTEM_DIRS.iter().map(PathBuf::from));
    folders.into_iter().map(move |folder| folder.join(name)).filter(|path| is_executable(path))
}

/// The programs of [`PROGRAMS`] that are not installed.
#[must_use]
pub fn missing() -> Vec<Program> {
    PROGRAMS.iter().copied().filter(|program| program.path().is_none()).collect()
}

/// Demands a program, and returns its path.
///
/// # Panics
///
/// When it is not installed, with the package to install: a test that needs a peer fails without
/// it, it is not skipped.
#[track_caller]
pub fn require(name: &str) -> PathBuf {
    match PROGRAMS.iter().find(|program| program.name == name) {
        Some(program) => program.path().unwrap_or_else(|| {
            panic!(
                "this test needs `{name}` ({}): run `cargo xtask peers` or `apt-get install {}`",
                program.purpose, program.package
            )
        }),
        None => {
            find(name).unwrap_or_else(|| panic!("this test needs `{name}`, which is not installed"))
        }
    }
}

/// Returns true if the program is in the table.
pub(crate) fn is_known(name: &str) -> bool {
    PROGRAMS.iter().any(|program| program.name == name)
}

/// A program of the table, ready to be given arguments.
#[track_caller]
pub(crate) fn command(name: &str) -> Command {
    Command::new(require(name))
}

/// Returns true if this Python has the modules, found out without the second that importing one may
/// take.
fn has_modules(python: &Path, modules: &[&str]) -> bool {
    // A folder of that name where the test runs is no module, and has no origin.
    let probe = "import sys; from importlib.util import find_spec; \
                 sys.exit(not all(getattr(find_spec(name), 'origin', None) for name in sys.argv[1:]))";
    let output = Command::new(python).args(["-c", probe]).args(modules).output();
    output.is_ok_and(|output| output.status.success())
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_a_program_every_unix_has() {
        assert!(find("sh").is_some());
        assert!(require("sh").is_absolute());
    }

    /// The first Python on `PATH` is not Debian's on machines where a version manager put one there.
    #[test]
    fn the_python_that_has_the_module_counts() {
        let folder = env::temp_dir().join(format!("linerate-pythons-{}", std::process::id()));
        let python = |name: &str, code: i32| {
            let path = folder.join(name).join("python3");
            std::fs::create_dir_all(folder.join(name)).unwrap();
            // As an interpreter answers the question for modules.
            std::fs::write(&path, format!("#!/bin/sh\nexit {code}\n")).unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(&path, mode).unwrap();
            path
        };
        let (without, with) = (python("without", 1), python("with", 0));
        for order in [[&without, &with], [&with, &without]] {
            let found = python_among(order.into_iter().cloned(), &["scapy"]);
            assert_eq!(found.as_ref(), Some(&with));
        }
        assert_eq!(python_among([without].into_iter(), &["scapy"]), None);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn modules_are_not_folders() {
        let python = find("python3").expect("every machine that builds this has python3");
        assert!(has_modules(&python, &["json", "os"]));
        assert!(!has_modules(&python, &["json", "no_such_module_here"]));
        // This crate's sources are no package, though `src` is a folder where the test runs.
        assert!(!has_modules(&python, &["src"]));
    }

    #[test]
    fn does_not_find_directories_or_nonsense() {
        assert_eq!(find("no-such-program-here"), None);
        assert!(!is_executable(Path::new("/")));
        assert!(!is_executable(Path::new("/etc/passwd")));
    }

    #[test]
    #[should_panic(expected = "no-such-program-here")]
    fn require_names_the_missing_program() {
        require("no-such-program-here");
    }
}
