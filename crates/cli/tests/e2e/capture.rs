//! What `capture` writes, tshark, tcpdump and capinfos read; what tcpdump writes, `replay` sends
//! byte for byte.

use std::{fs, process::Command};

use linerate_testlab::{Lab, Namespace, require};

use crate::{
    support::{DRIVERS, Program, Scratch, drops, linerate, number},
    wire::{Listener, assert_same, frames, records, send},
};

/// Runs a peer program that must have nothing to complain about.
#[track_caller]
fn peer(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(require(program)).args(arguments).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {stderr}");
    let harmless = ["reading from file", "Running as user"];
    let complaint = stderr.lines().find(|line| !harmless.iter().any(|text| line.starts_with(text)));
    assert_eq!(complaint, None, "{program} {arguments:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The frames of a file as tshark reads them.
#[track_caller]
fn dissected(file: &str) -> Vec<Vec<u8>> {
    let hex = peer("tshark", &["-n", "-r", file, "-T", "json", "-x", "-j", ""]);
    let packets: serde_json::Value = serde_json::from_str(&hex).unwrap();
    let packets = packets.as_array().expect("a list of packets");
    packets
        .iter()
        .map(|packet| {
            let hex = packet["_source"]["layers"]["frame_raw"][0].as_str().expect("raw bytes");
            (0..hex.len()).step_by(2).map(|at| byte(&hex[at..at + 2])).collect()
        })
        .collect()
}

fn byte(hex: &str) -> u8 {
    u8::from_str_radix(hex, 16).unwrap()
}

/// Two joined namespaces with interfaces `a0` and `b0`.
fn pair() -> (Namespace, Namespace) {
    let lab = Lab::new();
    let (a, b) = (lab.namespace("a"), lab.namespace("b"));
    lab.veth(&a, "a0", &b, "b0");
    (a, b)
}

/// Captures our standard set of frames at `b0` and returns the scratch directory of the files.
#[track_caller]
fn captured(driver: &str, file: &str, options: &str) -> Scratch {
    let (a, b) = pair();
    let scratch = Scratch::new();
    let count = frames().len();
    let line = format!("capture {driver}:b0 {} --count {count} {options}", scratch.file(file));
    let capture = Program::ready(&b, &line);
    send(&a, "a0", &frames());
    let summary = capture.end().summary();
    let flow = &summary["flows"][0];
    assert_eq!(number(flow, "sent_packets"), count as u64, "{summary}");
    assert_eq!((drops(flow, "receive_drops"), drops(flow, "transmit_drops")), (0, 0), "{summary}");
    scratch
}

#[test]
#[ignore = "needs root"]
fn peers_read_every_frame_of_either_format() {
    for driver in DRIVERS {
        for (file, kind) in [("c.pcap", "pcap"), ("c.pcapng", "pcapng")] {
            let scratch = captured(driver, file, "");
            let file = scratch.file(file);
            assert_same(&dissected(&file), &frames());
            let info = peer("capinfos", &["-t", "-c", "-o", &file]);
            let named = info.lines().any(|line| line.ends_with(&format!(" {kind}")));
            assert!(named, "not of the type {kind}: {info}");
            assert!(info.contains("Strict time order:   True"), "{info}");
            // tcpdump reads both, and writes them again as classic files.
            let copy = scratch.file("copy.pcap");
            peer("tcpdump", &["-Z", "root", "-r", &file, "-w", &copy]);
            assert_same(&records(&fs::read(&copy).unwrap()), &frames());
        }
    }
}

#[test]
#[ignore = "needs root"]
fn a_snapshot_keeps_the_beginning_and_the_true_length() {
    for file in ["c.pcap", "c.pcapng"] {
        let scratch = captured("xdp", file, "--snaplen 96");
        let file = scratch.file(file);
        let cut: Vec<Vec<u8>> =
            frames().into_iter().map(|frame| frame[..frame.len().min(96)].to_vec()).collect();
        assert_same(&dissected(&file), &cut);
        let lengths = peer("tshark", &["-n", "-r", &file, "-T", "fields", "-e", "frame.len"]);
        let lengths: Vec<usize> = lengths.lines().map(|line| line.parse().unwrap()).collect();
        assert_eq!(lengths, frames().iter().map(Vec::len).collect::<Vec<_>>());
    }
}

#[test]
#[ignore = "needs root"]
fn rotated_files_are_whole_and_lose_nothing_between_them() {
    let scratch = captured("xdp", "c.pcapng", "--rotate-packets 30");
    let mut names: Vec<_> = fs::read_dir(scratch.path())
        .unwrap()
        .map(|entry| entry.unwrap().path().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    assert_eq!(names.len(), frames().len().div_ceil(30), "{names:?}");
    let files: Vec<_> = names.iter().map(|name| dissected(name)).collect();
    assert!(files.iter().all(|frames| !frames.is_empty() && frames.len() <= 30), "{names:?}");
    assert_same(&files.concat(), &frames());
}

/// tcpdump, at one end, writes a file; replayed to a link, tcpdump at its other end gets the same.
#[test]
#[ignore = "needs root"]
fn what_tcpdump_writes_is_replayed_byte_for_byte() {
    let scratch = Scratch::new();
    let recording = scratch.file("recording.pcap");
    {
        let (a, b) = pair();
        let listener = Listener::start(&b, "b0");
        send(&a, "a0", &frames());
        let got = listener.frames_and_file(frames().len(), &recording);
        assert_same(&got, &frames());
    }
    for driver in DRIVERS {
        for rate in ["max", "recorded", "2000pps"] {
            let (a, b) = pair();
            let listener = Listener::start(&b, "b0");
            let line = format!("replay {recording} {driver}:a0 --rate {rate}");
            let summary = Program::start(&a, &line).end().summary();
            let flow = &summary["flows"][0];
            assert_eq!(number(flow, "sent_packets"), frames().len() as u64, "{summary}");
            assert_same(&listener.frames(frames().len()), &frames());
            // Nothing but the file was sent.
            assert_eq!(a.counters("a0").tx_packets, frames().len() as u64);
        }
    }
}

/// Without any interface: from file to file, in both formats, nothing changes.
#[test]
fn a_file_survives_copying_from_format_to_format() {
    let scratch = Scratch::new();
    let [first, second, third] = ["a.pcap", "b.pcapng", "c.pcap"].map(|name| scratch.file(name));
    linerate(&format!("capture null:?size=128&count=1000 {first} --quiet --json")).summary();
    for (from, to) in [(&first, &second), (&second, &third)] {
        let line = format!("forward --wait pcap:{from} pcap:{to} --quiet --json");
        let summary = linerate(&line).summary();
        assert_eq!(number(&summary["flows"][0], "sent_packets"), 1000, "{summary}");
    }
    let [first, third] = [first, third].map(|name| fs::read(name).unwrap());
    assert_eq!(records(&first).len(), 1000);
    assert_same(&records(&third), &records(&first));
}
