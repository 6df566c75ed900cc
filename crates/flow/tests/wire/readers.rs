//! Our messages, and what Open vSwitch's own decoder reads in them.

use std::fmt::Write;
use std::process::Command;

use linerate_flow::wire::Message;

use crate::samples::{self, XID};

#[test]
fn what_is_written_is_read_as_the_same() {
    for given in samples::all() {
        let (name, version) = (given.name, given.version);
        let bytes = given.message.encode(version, XID).unwrap_or_else(|error| {
            panic!("{name} in {version}: {error}");
        });
        assert_eq!(
            Message::decode(&bytes),
            Ok((version, XID, given.message)),
            "{name} in {version}"
        );
    }
}

#[test]
fn adhoc_print() {
    let mut text = String::new();
    for given in samples::all() {
        let bytes = given.message.encode(given.version, XID).unwrap();
        let hex = bytes.iter().fold(String::new(), |mut hex, byte| {
            write!(hex, "{byte:02x}").unwrap();
            hex
        });
        let out = Command::new("ovs-ofctl").args(["ofp-print", &hex, "2"]).output().unwrap();
        writeln!(text, "# {} in {}\n> {hex}", given.name, given.version).unwrap();
        text.push_str(&String::from_utf8_lossy(&out.stdout));
    }
    std::fs::write("/tmp/cap/printed.txt", text).unwrap();
}
