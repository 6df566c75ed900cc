//! `linerate generate --profile` from end to end, into a capture file.

use std::{fs, path::Path, process::Command};

use linerate_port::pcap::Reader;
use serde_json::Value;

const PROFILE: &str = r#"
[[stream]]
name = "voice"
size = 200
dport = "5060-5061"
weight = 3
payload = "ahoy"

[[stream]]
name = "rest"
size = [68, 1518]
src = "198.18.0.0/28"
vlan = 7
"#;

fn generate(folder: &Path, arguments: &[&str]) -> (Value, Vec<Vec<u8>>) {
    let profile = folder.join("streams.toml");
    fs::write(&profile, PROFILE).unwrap();
    let capture = folder.join("out.pcap");
    let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
    command.arg("generate").arg(format!("pcap:{}", capture.display())).arg("--profile");
    let output = command.arg(&profile).args(["--json", "-q"]).args(arguments).output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    // Standard output is for people's programs; the capture is a file here.
    let text = String::from_utf8(output.stdout).unwrap();
    let summary = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let mut reader = Reader::open(&capture).unwrap();
    let mut frames = Vec::new();
    while let Some(record) = reader.next().unwrap() {
        frames.push(record.data.to_vec());
    }
    (summary, frames)
}

fn be16(frame: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([frame[at], frame[at + 1]])
}

#[test]
fn streams_share_the_frames_by_their_weights() {
    let folder = tempfile::tempdir().unwrap();
    let (summary, frames) = generate(folder.path(), &["--count", "400"]);
    assert_eq!(frames.len(), 400);
    let (rest, voice): (Vec<_>, Vec<_>) =
        frames.iter().partition(|frame| be16(frame, 12) == 0x8100);
    assert_eq!((voice.len(), rest.len()), (300, 100));
    for (at, frame) in voice.iter().enumerate() {
        assert_eq!((frame.len(), be16(frame, 36)), (196, 5060 + at as u16 % 2));
        // Behind 42 bytes of headers and 18 of the signature.
        assert!(frame[60..].chunks(4).all(|chunk| chunk == b"ahoy"), "{frame:?}");
    }
    for (at, frame) in rest.iter().enumerate() {
        assert_eq!((frame.len(), frame[33]), ([64, 1514][at % 2], at as u8 % 16));
    }
    // Each stream is numbered by itself: a sink sees no gaps.
    for (stream, offset) in [(&voice, 42), (&rest, 46)] {
        let numbers: Vec<u16> = stream.iter().map(|frame| be16(frame, offset + 10)).collect();
        assert_eq!(numbers, (0..stream.len() as u16).collect::<Vec<_>>());
    }
    let made: Vec<_> = summary["streams"].as_array().unwrap().iter().collect();
    assert_eq!((made[0]["name"].as_str(), made[0]["made"].as_u64()), (Some("voice"), Some(300)));
    assert_eq!((made[1]["name"].as_str(), made[1]["made"].as_u64()), (Some("rest"), Some(100)));
}

#[test]
fn a_wrong_profile_is_a_wrong_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let profile = folder.path().join("wrong.toml");
    for (text, part) in [
        ("a profile", "TOML parse error at line 1"),
        ("rate = 3", "rate: a profile has nothing but"),
        ("[[stream]]\nweight = 0", "stream 1: its weight is not a number above zero"),
    ] {
        fs::write(&profile, text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
        let output =
            command.args(["generate", "null:", "--profile"]).arg(&profile).output().unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{complaint}");
        assert!(complaint.contains(&format!("wrong.toml: {part}")), "{complaint}");
    }
}
