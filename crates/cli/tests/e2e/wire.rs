//! Frames on the wire, by independent means: Python's packet sockets send them and tcpdump
//! receives them.

use std::{fs, io::Write as _, process::Stdio, time::Duration};

use linerate_test_support::{Namespace, Running, wait_until};

use crate::support::{Scratch, TIMEOUT};

/// Sends the frames it reads, one per line in hexadecimal, with a pause now and then: tests of
/// contents are not tests of speed.
const SENDER: &str = "\
import socket, sys, time
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
wire.bind((sys.argv[1], 0))
for number, line in enumerate(sys.stdin):
    wire.send(bytes.fromhex(line))
    if number % 32 == 31:
        time.sleep(0.005)
";

/// Puts frames on an interface exactly as they are.
#[track_caller]
pub(crate) fn send(namespace: &Namespace, interface: &str, frames: &[Vec<u8>]) {
    let mut command = namespace.command(["python3", "-c", SENDER, interface]);
    let scratch = Scratch::new();
    let path = scratch.file("frames");
    let mut file = fs::File::create(&path).unwrap();
    for frame in frames {
        let line: String = frame.iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(file, "{line}").unwrap();
    }
    command.stdin(fs::File::open(&path).unwrap()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = namespace.spawn_command(command).output(TIMEOUT);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// tcpdump on an interface, for the arriving frames.
#[derive(Debug)]
pub(crate) struct Listener {
    tcpdump: Running,
    scratch: Scratch,
}

impl Listener {
    #[track_caller]
    pub(crate) fn start(namespace: &Namespace, interface: &str) -> Listener {
        let scratch = Scratch::new();
        let file = scratch.file("capture.pcap");
        let mut command = namespace.command([
            // Its own user could not write to the directory.
            "tcpdump",
            "-Z",
            "root",
            "--immediate-mode",
            "-U",
            "-n",
            "-s",
            "0",
            "-Q",
            "in",
            "-i",
            interface,
            "-w",
            &file,
        ]);
        let log = scratch.file("log");
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(fs::File::create(&log).unwrap());
        let tcpdump = namespace.spawn_command(command);
        let listening = || fs::read_to_string(&log).unwrap().contains("listening on");
        assert!(wait_until(listening, TIMEOUT), "{}", fs::read_to_string(&log).unwrap());
        Listener { tcpdump, scratch }
    }

    /// Waits until `count` frames have come and a moment longer for any that should not have, and
    /// returns them all.
    #[track_caller]
    pub(crate) fn frames(self, count: usize) -> Vec<Vec<u8>> {
        let copy = self.scratch.file("copy.pcap");
        self.frames_and_file(count, &copy)
    }

    /// Returns `count` frames, leaving the file tcpdump wrote at `copy`.
    #[track_caller]
    pub(crate) fn frames_and_file(self, count: usize, copy: &str) -> Vec<Vec<u8>> {
        self.until(|frames| frames.len() >= count, copy)
    }

    /// Returns the frames when `all` is true of them.
    #[track_caller]
    pub(crate) fn frames_until(self, all: impl Fn(&[Vec<u8>]) -> bool) -> Vec<Vec<u8>> {
        let copy = self.scratch.file("copy.pcap");
        self.until(all, &copy)
    }

    #[track_caller]
    fn until(mut self, all: impl Fn(&[Vec<u8>]) -> bool, copy: &str) -> Vec<Vec<u8>> {
        let file = self.scratch.file("capture.pcap");
        let seen = || fs::read(&file).is_ok_and(|bytes| all(&records(&bytes)));
        let _ = wait_until(seen, Duration::from_secs(20));
        // The scenario: time for frames that should not come.
        std::thread::sleep(Duration::from_millis(50));
        self.tcpdump.signal(rustix::process::Signal::INT);
        self.tcpdump.wait(TIMEOUT);
        let log = fs::read_to_string(self.scratch.file("log")).unwrap();
        assert!(log.contains("0 packets dropped by kernel"), "tcpdump itself lost some: {log}");
        fs::copy(&file, copy).unwrap();
        records(&fs::read(copy).unwrap())
    }
}

/// The packets of a classic capture file written on this machine, as far as they are complete.
pub(crate) fn records(file: &[u8]) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    let mut rest = file.get(24..).unwrap_or_default();
    while let Some(header) = rest.get(..16) {
        let length = u32::from_ne_bytes(header[8..12].try_into().unwrap()) as usize;
        let Some(packet) = rest.get(16..16 + length) else { break };
        packets.push(packet.to_vec());
        rest = &rest[16 + length..];
    }
    packets
}

/// Fails with a readable account when frames differ.
#[track_caller]
pub(crate) fn assert_same(got: &[Vec<u8>], expected: &[Vec<u8>]) {
    for (number, (got, expected)) in got.iter().zip(expected).enumerate() {
        assert!(
            got == expected,
            "frame {number} differs\n got      {} bytes {:02x?}\n expected {} bytes {:02x?}",
            got.len(),
            &got[..got.len().min(40)],
            expected.len(),
            &expected[..expected.len().min(40)],
        );
    }
    assert_eq!(got.len(), expected.len(), "so many frames came");
}

/// Frames of all kinds a cable carries: every interesting length from 60 to 1,514 bytes (64 to
/// 1,518 with the FCS), plain, with an 802.1Q tag, and with two tags of either outer type. Each is
/// different, and none is of a protocol some kernel on the way might answer.
pub(crate) fn frames() -> Vec<Vec<u8>> {
    let tags: [&[u8]; 5] = [
        &[],
        &[0x81, 0x00, 0x60, 0x05],
        &[0x88, 0xa8, 0x00, 0x64, 0x81, 0x00, 0x00, 0x07],
        &[0x81, 0x00, 0x0f, 0xfe, 0x81, 0x00, 0xe0, 0x01],
        // Priority only: VLAN 0.
        &[0x81, 0x00, 0xa0, 0x00],
    ];
    let lengths = [60, 61, 63, 64, 65, 127, 128, 129, 255, 256, 511, 513, 1024, 1279, 1500, 1513];
    let mut frames = Vec::new();
    for (number, &length) in lengths.iter().chain(&[1514]).enumerate() {
        for (kind, tag) in tags.iter().enumerate() {
            let mut frame: Vec<u8> = (0..length).map(|at| (at * 7 + number * 13) as u8).collect();
            frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, kind as u8]);
            frame[12..12 + tag.len()].copy_from_slice(tag);
            frame[12 + tag.len()..14 + tag.len()].copy_from_slice(&[0x88, 0xb5]);
            frames.push(frame);
        }
    }
    frames
}
