//! Commands with a count move exactly so many packets.

use std::process::{Command, Stdio};

use linerate_port::pcap::{Format, Options, Reader, Writer};
use linerate_test_support::tunnels::{self, Head, IPV4, Transport};
use serde_json::Value;

/// The last object that a command prints.
fn summary(arguments: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
    let output = command.args(arguments).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    let lines = String::from_utf8(output.stdout).unwrap();
    serde_json::from_str(lines.lines().next_back().unwrap()).unwrap()
}

fn packets(file: &str) -> u64 {
    let mut reader = Reader::open(file).unwrap();
    let mut count = 0;
    while reader.next().unwrap().is_some() {
        count += 1;
    }
    count
}

#[test]
fn a_sink_takes_as_many_as_it_is_to() {
    for (port, count) in [("null:", "10"), ("null:?queues=3", "10"), ("null:?queues=3", "100")] {
        let summary = summary(&["sink", port, "--count", count, "--json"]);
        assert_eq!(summary["received_packets"].to_string(), count, "{port}");
    }
}

#[test]
fn forwarded_packets_are_counted_over_all_queues() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("n.pcap").to_str().unwrap().to_owned();
    let to_file = format!("pcap:{file}");
    let capture =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../io/port/tests/data/scapy-nano-little.pcap");
    for (count, arguments) in [
        (10, vec!["forward", "null:", "null:", "--count", "10"]),
        (11, vec!["forward", "null:?queues=2", "null:?queues=2", "--count", "11"]),
        // Only the first of two queues has packets.
        (1, vec!["forward", "null:?queues=2&count=1", "null:?queues=2", "--count", "1"]),
        (10, vec!["forward", "null:", &to_file, "--count", "10"]),
        (10, vec!["capture", "null:", "-w", &file, "-c", "10"]),
        (2, vec!["replay", capture, "null:", "--rate", "max", "--count", "2"]),
    ] {
        let summary = summary(&[arguments.as_slice(), &["--json"]].concat());
        let flow = &summary["flows"][0];
        let counts = [&flow["received_packets"], &flow["sent_packets"]];
        assert_eq!(counts.map(|count| count.as_u64()), [Some(count); 2], "{arguments:?}");
        if arguments.contains(&file.as_str()) || arguments.contains(&to_file.as_str()) {
            assert_eq!(packets(&file), count, "{arguments:?}");
        }
    }
}

#[test]
fn a_generator_sends_as_many_as_it_is_to() {
    for port in ["null:", "null:?queues=2"] {
        let summary = summary(&["generate", port, "--count", "33", "--json"]);
        assert_eq!(summary["sent_packets"], 33, "{port}");
    }
}

/// A record longer than a packet buffer is not sent, and that is no success; with larger buffers it is.
#[test]
fn a_replay_with_packets_that_cannot_be_sent_fails() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("long.pcap").to_str().unwrap().to_owned();
    let mut writer = Writer::create(&file, &Options::new(Format::Pcap)).unwrap();
    for length in [60, 9000, 61] {
        writer.write(1, length, &vec![2; length as usize]).unwrap();
    }
    writer.finish().unwrap();
    let replay = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
        command.args(["replay", &file, "null:", "--rate", "max", "--json"]).args(more);
        command.stdin(Stdio::null()).output().unwrap()
    };
    let output = replay(&[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("longer than a packet buffer: 1, not sent"), "{said}");
    let lines = String::from_utf8(output.stdout).unwrap();
    let last: Value = serde_json::from_str(lines.lines().next_back().unwrap()).unwrap();
    assert_eq!(last["flows"][0]["sent_packets"], 2, "all others are sent");
    let output = replay(&["--buffer-size", "16384"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Merged segments of TCP, as a host's capture has them, are sent as an interface would have cut them.
#[test]
fn a_replay_cuts_merged_segments() {
    let folder = tempfile::tempdir().unwrap();
    let name = |file: &str| folder.path().join(file).to_str().unwrap().to_owned();
    let (from, to) = (name("merged.pcap"), name("segments.pcap"));
    let heads = [Head::Ethernet, IPV4];
    let payload: Vec<u8> = (0..60_000).map(|at| (at * 7) as u8).collect();
    let merged = tunnels::merged(&heads, Transport::Tcp, &payload);
    let mut writer = Writer::create(&from, &Options::new(Format::Pcap)).unwrap();
    for frame in [&[2; 60][..], &merged, &[2; 61]] {
        writer.write(1, frame.len() as u32, frame).unwrap();
    }
    writer.finish().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
    command.args(["replay", &from, &format!("pcap:{to}"), "--rate", "max", "--quiet"]);
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut reader = Reader::open(&to).unwrap();
    let mut sent = Vec::new();
    while let Some(record) = reader.next().unwrap() {
        assert_eq!(record.orig_len as usize, record.data.len());
        sent.push(record.data.to_vec());
    }
    assert_eq!((sent.remove(0).len(), sent.pop().unwrap().len()), (60, 61));
    // As long as buffers hold: Ethernet, IP, and TCP with a time stamp.
    let size = sent[0].len() - (14 + 20 + 32);
    assert!(size > 1448, "{size}");
    assert!(sent == tunnels::pieces(&heads, Transport::Tcp, &payload, size));
}
