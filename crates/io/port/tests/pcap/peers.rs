//! Against the programs people use: tshark, capinfos and tcpdump.

use std::path::Path;
use std::process::{Command, Stdio};

use linerate_port::pcap::{Counts, Format, Options, Precision, Reader, Writer};

use crate::{Directory, Packet, data_files, drain};

fn run(program: &str, arguments: &[&str]) -> (String, String) {
    let output = Command::new(program).args(arguments).output().unwrap_or_else(|error| {
        panic!("{program}: {error}; install it (Debian packages tshark, tcpdump)")
    });
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let (out, err) = (text(output.stdout), text(output.stderr));
    assert!(output.status.success(), "{program} {arguments:?}: {out}{err}");
    (out, err)
}

/// tshark's reading of a file: time, lengths and bytes of each packet.
fn tshark(path: &Path) -> Vec<(u64, u32, Vec<u8>)> {
    let path = path.to_str().unwrap();
    let (fields, _) =
        run("tshark", &["-r", path, "-T", "fields", "-e", "frame.time_epoch", "-e", "frame.len"]);
    let (dump, _) = run("tshark", &["-r", path, "-x"]);
    let mut bytes: Vec<Vec<u8>> = Vec::new();
    for line in dump.lines().filter(|line| !line.trim().is_empty()) {
        let (offset, rest) = line.split_once("  ").unwrap();
        if offset == "0000" {
            bytes.push(Vec::new());
        }
        let hex = rest.get(..47).unwrap_or(rest).split_whitespace();
        let values = hex.map(|byte| u8::from_str_radix(byte, 16).unwrap());
        bytes.last_mut().unwrap().extend(values);
    }
    let fields: Vec<_> = fields
        .lines()
        .map(|line| {
            let (time, length) = line.split_once('\t').unwrap();
            let (seconds, fraction) = time.split_once('.').unwrap();
            assert!(fraction.len() >= 9);
            let number = |text: &str| text.parse::<u64>().unwrap();
            (number(seconds) * 1_000_000_000 + number(fraction), number(length) as u32)
        })
        .collect();
    assert_eq!(fields.len(), bytes.len());
    fields.into_iter().zip(bytes).map(|((time, length), data)| (time, length, data)).collect()
}

fn ours(path: &Path) -> Vec<(u64, u32, Vec<u8>)> {
    let outcome = drain(Reader::open(path).unwrap());
    assert!(outcome.error.is_none() && outcome.tail.is_none(), "{outcome:?}");
    let plain = |packet: Packet| (packet.ts_ns, packet.orig_len, packet.data);
    outcome.packets.into_iter().map(plain).collect()
}

#[test]
#[ignore = "needs tshark"]
fn tshark_reads_the_same_from_every_file() {
    for path in data_files() {
        assert_eq!(ours(&path), tshark(&path), "{path:?}");
    }
}

/// Writes the packets of the first sample file, in every way we can.
fn write_all_kinds(directory: &Path) -> Vec<(std::path::PathBuf, Options)> {
    let sample = data_files().into_iter().find(|path| path.ends_with("scapy-nano-little.pcap"));
    let packets = ours(&sample.unwrap());
    let kinds = [
        ("nano.pcap", Options::new(Format::Pcap)),
        (
            "micro.pcap",
            Options { precision: Precision::Micro, snaplen: 40, ..Options::new(Format::Pcap) },
        ),
        ("plain.pcapng", Options::new(Format::Pcapng)),
        (
            "full.pcapng",
            Options {
                interface: Some("veth7".into()),
                snaplen: 50,
                ..Options::new(Format::Pcapng)
            },
        ),
    ];
    kinds
        .into_iter()
        .map(|(name, options)| {
            let path = directory.join(name);
            let mut writer = Writer::create(&path, &options).unwrap();
            for (ts_ns, length, data) in &packets {
                match name {
                    "full.pcapng" => writer.write_flagged(*ts_ns, *length, data, 1).unwrap(),
                    _ => writer.write(*ts_ns, *length, data).unwrap(),
                }
            }
            writer.set_counts(Counts { received: 11, dropped: 7 });
            writer.finish().unwrap();
            (path, options)
        })
        .collect()
}

#[test]
#[ignore = "needs tshark and tcpdump"]
fn other_programs_read_our_files_without_complaint() {
    let directory = Directory::new("peers-write");
    for (path, options) in write_all_kinds(&directory.0) {
        let name = path.to_str().unwrap();
        assert_eq!(ours(&path), tshark(&path), "{name}");
        let (_, complaints) = run("capinfos", &[name]);
        assert_eq!(complaints.replace("Running as user \"root\"", ""), complaints, "{name}");
        let (lines, complaints) = run("tcpdump", &["-nn", "-r", name]);
        assert_eq!(lines.lines().count(), 4, "{name}: {lines}");
        // It names only the files it opens.
        assert_eq!(complaints.lines().count(), 1, "{name}: {complaints}");
        assert!(complaints.contains("link-type EN10MB (Ethernet)"), "{name}: {complaints}");
        if options.interface.is_some() {
            let (names, _) =
                run("tshark", &["-r", name, "-T", "fields", "-e", "frame.interface_name"]);
            assert_eq!(names.trim(), ["veth7"; 4].join("\n"));
            let (report, _) = run("capinfos", &["-I", name]);
            assert!(report.contains("Capture length = 50"), "{report}");
            assert!(report.contains("Number of packets = 4"), "{report}");
            let (blocks, _) =
                run("tshark", &["-r", name, "-X", "read_format:MIME Files Format", "-V"]);
            assert!(blocks.contains("Number of Received Packets: 11"), "{blocks}");
            assert!(blocks.contains("Number of Dropped Packets: 7"), "{blocks}");
        }
    }
}

#[test]
#[ignore = "needs tcpdump"]
fn tcpdump_through_a_pipe_reads_as_from_a_file() {
    for path in data_files() {
        let mut child = Command::new("tcpdump")
            .args(["--time-stamp-precision=nano", "-U", "-w", "-", "-r", path.to_str().unwrap()])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let outcome = drain(Reader::new(child.stdout.take().unwrap(), "pipe").unwrap());
        if child.wait().unwrap().success() {
            assert!(outcome.tail.is_none() && outcome.error.is_none(), "{outcome:?}");
            let strip = |mut packet: Packet| {
                packet.interface = 0;
                packet
            };
            let file = drain(Reader::open(&path).unwrap()).packets;
            let file: Vec<Packet> = file.into_iter().map(strip).collect();
            assert_eq!(outcome.packets, file, "{path:?}");
        } else {
            // libpcap refuses a file whose interfaces have different snap lengths.
            let name = path.file_name().unwrap().to_str().unwrap();
            assert!(matches!(name, "mergecap-interfaces.pcapng"), "{name}");
        }
    }
}
