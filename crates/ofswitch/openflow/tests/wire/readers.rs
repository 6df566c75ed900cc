//! Our messages, as other programs read them.
//!
//! Their output was looked through once, message by message, and is kept beside this in `golden/`:
//! `printed.txt` is that of Open vSwitch's `ovs-ofctl ofp-parse`, `c65of.txt` the messages that the
//! Python package c65of reads in OpenFlow 1.3 and writes again (made by `beside_c65of.py`).

use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

use linerate_openflow::wire::{Message, Version};

use crate::samples::{self, Given, XID};

/// Messages that Open vSwitch lacks.
const UNKNOWN_TO_OPEN_VSWITCH: [&str; 6] = [
    "rare actions",
    "rare fields",
    "request counters",
    "reply counters",
    "request full flow monitor",
    "reply longer meter features",
];

fn encoded(given: &Given) -> Vec<u8> {
    given.message.encode(given.version, XID).unwrap_or_else(|error| {
        panic!("{} in {}: {error}", given.name, given.version);
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").expect("a string takes it");
        hex
    })
}

#[test]
fn an_encoded_message_is_decoded() {
    let samples = samples::all();
    assert!(samples.len() > 200);
    for given in samples {
        let bytes = encoded(&given);
        let (name, version) = (given.name, given.version);
        assert_eq!(
            Message::decode(&bytes),
            Ok((version, XID, given.message)),
            "{name} in {version}"
        );
    }
}

/// The ONF's extension for flow monitors.
const UNKNOWN_TO_C65OF: [&str; 5] =
    ["cancel", "paused", "resumed", "request flow monitor", "reply flow monitor"];

/// `LINERATE_GOLDEN=write` writes the output anew, to be looked through.
#[test]
#[ignore = "needs ovs-ofctl"]
fn open_vswitch_reads_our_messages() {
    let program = linerate_test_support::require("ovs-ofctl");
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = folder.path().join("messages");
    let mut text = String::new();
    for version in Version::ALL {
        let samples = samples::all().into_iter().filter(|given| given.version == version);
        let known = samples.filter(|given| !UNKNOWN_TO_OPEN_VSWITCH.contains(&given.name));
        let (mut bytes, mut names) = (Vec::new(), String::new());
        for given in known {
            bytes.extend(encoded(&given));
            writeln!(names, "# {}", given.name).expect("a string takes it");
        }
        fs::write(&file, bytes).expect("a file");
        let output = Command::new(&program).arg("ofp-parse").arg(&file).output();
        let output = output.expect("ovs-ofctl runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{version}: {errors}");
        writeln!(text, "# OpenFlow {version}\n{names}").expect("a string takes it");
        text.push_str(&String::from_utf8_lossy(&output.stdout));
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/printed.txt");
    if env::var("LINERATE_GOLDEN").is_ok_and(|value| value == "write") {
        fs::write(&path, &text).expect("the file is ours");
    }
    let kept = fs::read_to_string(&path).expect("a file of the repository");
    for (kept, found) in kept.lines().zip(text.lines()) {
        assert_eq!(found, kept);
    }
    assert_eq!(text.lines().count(), kept.lines().count());
    assert!(!text.contains("decode error"), "{text}");
}

/// c65of writes the messages that it reads as they were written here, or cannot write them.
///
/// `LINERATE_C65OF=FILE` puts the messages there, for `beside_c65of.py`.
#[test]
fn c65of_writes_the_same() {
    let samples = samples::all().into_iter().filter(|given| given.version == Version::V13);
    let samples = samples.filter(|given| !UNKNOWN_TO_C65OF.contains(&given.name));
    let ours = samples.map(|given| format!("{}> {}", given.name, hex(&encoded(&given))));
    let ours: Vec<String> = ours.collect();
    if let Some(path) = env::var_os("LINERATE_C65OF") {
        fs::write(path, ours.join("\n") + "\n").expect("a file");
    }
    let golden = include_str!("../golden/c65of.txt");
    let theirs: Vec<&str> = golden.lines().filter(|line| line.contains("> ")).collect();
    assert_eq!(theirs, ours);
}
