//! A system without libpcap: there is nothing in its place, in a mount namespace of our own.

use std::process::{Command, Output};

use linerate_test_support::programs::require;

use crate::table::{library, system_library};

/// A capture of other programs' packets.
const CAPTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../elements/capture/data/zoo.pcap");

/// Runs tcpdump where there is only our library.
fn tcpdump_alone(words: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let ours = folder.path().join("libpcap.so.0.8");
    std::os::unix::fs::symlink(library(), &ours).unwrap();
    let script = format!("mount --bind /dev/null {} && exec \"$@\"", system_library());
    let mut command = Command::new(require("unshare"));
    command.args(["--mount", "sh", "-c", &script, "sh"]).arg(require("tcpdump")).args(words);
    command.env("LD_LIBRARY_PATH", folder.path()).env("LC_ALL", "C");
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
#[ignore = "needs root"]
fn filters_are_compiled_without_libpcap() {
    let version = tcpdump_alone(&["--version"]);
    assert!(text(&version.stdout).contains("without the system's"), "{version:?}");
    let port = format!("pcap:{CAPTURE}");
    for filter in [
        "",
        "udp",
        "tcp port 80 or icmp",
        "not ip6 and greater 60",
        "tcp[tcpflags] & (tcp-syn|tcp-fin) != 0",
        "port domain",
    ] {
        let system = ["-n", "-t", "-r", CAPTURE, filter];
        let expected = Command::new(require("tcpdump")).args(system).output().unwrap();
        assert!(expected.status.success(), "{expected:?}");
        let alone = tcpdump_alone(&["-n", "-t", "-i", &port, filter]);
        assert_eq!(text(&alone.stdout), text(&expected.stdout), "{filter}: {alone:?}");
    }
}

#[test]
#[ignore = "needs root"]
fn errors_of_a_filter_are_named_without_libpcap() {
    for (filter, words) in [
        ("tcp por 80", "can't parse filter expression: syntax error at 'por'"),
        ("host 1.2.3.256", "invalid IPv4 address '1.2.3.256'"),
        ("port no-such-port", "unknown port 'no-such-port'"),
    ] {
        let output = tcpdump_alone(&["-i", &format!("pcap:{CAPTURE}"), filter]);
        assert!(!output.status.success());
        assert!(text(&output.stderr).contains(words), "{output:?}");
    }
}
