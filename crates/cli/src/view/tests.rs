//! Lines beside tcpdump's.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use linerate_port::pcap::{Format, Options, Reader, Writer};
use linerate_test_support::require;

use super::*;

mod samples;

/// The line of a packet that nothing came before.
fn line(packet: &[u8], missing: usize, style: Style, to: &mut String) {
    View::new(style).line(packet, missing, None, to);
}

/// Captures of the repository.
fn captures() -> Vec<PathBuf> {
    let folders = ["../elements/capture/data", "../io/port/tests/data"];
    let mut files: Vec<PathBuf> = folders
        .iter()
        .flat_map(|folder| std::fs::read_dir(folder).expect(folder))
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|kind| kind == "pcap" || kind == "pcapng"))
        .collect();
    files.sort();
    files
}

/// The lines of a capture's packets, empty for those that were cut; nothing where they are no
/// Ethernet frames.
fn lines_of(file: &Path, style: Style) -> Option<Vec<String>> {
    let mut reader = Reader::open(file).ok()?;
    let (mut lines, mut view) = (Vec::new(), View::new(style));
    while let Ok(Some(record)) = reader.next() {
        let mut text = String::new();
        view.line(record.data, record.orig_len as usize - record.data.len(), None, &mut text);
        let is_cut = record.orig_len as usize > record.data.len();
        lines.push(if is_cut { String::new() } else { text });
    }
    Some(lines)
}

/// Returns true unless tcpdump's line is about protocols that have no text here.
fn is_known_to_both(theirs: &str) -> bool {
    // These are in lines of messages that have a text.
    let theirs = theirs.replace("unknown-version", "").replace("next-header unknown", "");
    let unknown = ["GRE", "igmp", "802.3", "LLC", "Unknown", "unknown", "[len "];
    !unknown.iter().any(|word| theirs.contains(word))
}

/// Ways to show packets, and tcpdump's options for each.
fn styles() -> [(Style, &'static [&'static str]); 5] {
    let (plain, verbose) = (Style::default(), Style { verbose: 1, ..Style::default() });
    [
        (plain, &[]),
        (Style { link: true, ..plain }, &["-e"]),
        (Style { absolute: true, ..plain }, &["-S"]),
        (verbose, &["-v"]),
        (Style { verbose: 2, link: true, ..verbose }, &["-vv", "-e"]),
    ]
}

/// tcpdump's texts of a capture's packets. Lines that go on begin with white space.
fn texts_of_tcpdump(file: &Path, options: &[&str]) -> Vec<String> {
    let mut command = Command::new(require("tcpdump"));
    command.args(["-n", "-t"]).args(options).arg("-r").arg(file);
    let output = command.output().expect("tcpdump runs");
    let mut texts: Vec<String> = Vec::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        match texts.last_mut() {
            Some(text) if line.starts_with(['\t', ' ']) && !line.starts_with(" [|") => {
                *text += &format!("\n{line}");
            }
            _ => texts.push(line.into()),
        }
    }
    texts
}

/// Number of lines compared with tcpdump's for a capture, and those that differ.
fn differences(file: &Path) -> (usize, Vec<String>) {
    let (mut compared, mut different) = (0, Vec::new());
    for (style, options) in styles() {
        let Some(ours) = lines_of(file, style) else { continue };
        let theirs = texts_of_tcpdump(file, options);
        for (ours, theirs) in ours.iter().zip(theirs) {
            if !ours.is_empty() && is_known_to_both(&theirs) {
                compared += 1;
                if *ours != theirs {
                    different.push(format!("{options:?}\nours   {ours}\ntheirs {theirs}"));
                }
            }
        }
    }
    (compared, different)
}

#[test]
#[ignore = "needs tcpdump"]
fn lines_are_those_of_tcpdump() {
    let (mut compared, mut different) = (0, Vec::new());
    for file in captures() {
        let found = differences(&file);
        compared += found.0;
        different.extend(found.1);
    }
    assert!(different.is_empty(), "{} of {compared}:\n{}", different.len(), different.join("\n"));
    assert!(compared > 400, "{compared}");
}

/// Requests and answers, and connections whose numbers are far from zero.
#[test]
#[ignore = "needs tcpdump"]
fn conversations_are_those_of_tcpdump() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("conversations.pcap");
    let mut writer = Writer::create(&file, &Options::new(Format::Pcap)).expect("a file");
    for packet in samples::packets() {
        writer.write(1, packet.len() as u32, &packet).expect("room");
    }
    writer.finish().expect("room");
    let (compared, different) = differences(&file);
    assert!(different.is_empty(), "{} of {compared}:\n{}", different.len(), different.join("\n"));
    assert_eq!(compared, styles().len() * samples::packets().len());
}

/// The lines of a report, with its groups from `-v` on and its sources from `-vv` on.
#[test]
fn a_report_of_multicast_listeners_has_its_groups() {
    let report = samples::report();
    for (verbose, expected) in [
        (
            0,
            "2001:db8::1 > 2001:db8::2: HBH ICMP6, multicast listener report v2, \
             2 group record(s), length 64",
        ),
        (
            1,
            "2001:db8::1 > 2001:db8::2: HBH (rtalert: 0x0000) (padn) [icmp6 sum ok] ICMP6, \
             multicast listener report v2, 2 group record(s) \
             [gaddr ff02::1:ff00:1 to_ex, 0 source(s)] [gaddr ff05::2 allow, 1 source(s)]",
        ),
        (2, "[gaddr ff02::1:ff00:1 to_ex { }] [gaddr ff05::2 allow { 2001:db8::2 }]"),
    ] {
        let mut text = String::new();
        line(&report, 0, Style { verbose, ..Style::default() }, &mut text);
        assert!(text.ends_with(expected), "{text}");
    }
}

#[test]
fn any_bytes_have_a_line() {
    let mut random = bytes_from(7);
    for length in 0..200 {
        for kind in [0x0800u16, 0x86dd, 0x0806, 0x8100, 0x0010] {
            let mut packet: Vec<u8> = (0..length).map(|_| random()).collect();
            if let Some(at) = packet.get_mut(12..14) {
                at.copy_from_slice(&kind.to_be_bytes());
            }
            if let Some(version) = packet.get_mut(14) {
                *version = if kind == 0x86dd { 0x60 } else { 0x45 };
            }
            for protocol in [1, 6, 17, 58] {
                for at in [20, 23] {
                    if let Some(next) = packet.get_mut(at) {
                        *next = protocol;
                    }
                }
                let (mut plain, mut full) = (String::new(), String::new());
                line(&packet, 0, Style::default(), &mut plain);
                line(
                    &packet,
                    0,
                    Style { link: true, bytes: Bytes::HexAndText, ..Style::default() },
                    &mut full,
                );
                assert!(!plain.is_empty() && !plain.contains('\n'), "{packet:02x?}");
            }
        }
    }
}

/// Bytes that look random, the same in every run.
fn bytes_from(seed: u32) -> impl FnMut() -> u8 {
    let mut state = seed;
    move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    }
}

#[test]
fn bytes_as_tcpdump_shows_them() {
    let mut text = String::new();
    let packet: Vec<u8> = (0..14).chain(*b"ABCDEFGHIJKLMNOPQ").collect();
    line(&packet, 0, Style { bytes: Bytes::HexAndText, ..Style::default() }, &mut text);
    let (_, rows) = text.split_once('\n').expect("a line and bytes");
    assert_eq!(
        rows,
        "\t0x0000:  4142 4344 4546 4748 494a 4b4c 4d4e 4f50  ABCDEFGHIJKLMNOP\n\
         \t0x0010:  51                                       Q"
    );
}

#[test]
fn text_as_tcpdump_shows_it() {
    let mut text = String::new();
    let packet = [&[0; 14][..], b"GET /\t\x00\r\nA\rB \xe4\r"].concat();
    line(&packet, 0, Style { bytes: Bytes::Text, ..Style::default() }, &mut text);
    let (_, shown) = text.split_once('\n').expect("a line and text");
    assert_eq!(shown, "GET /\t.\nA.B .");
}

/// A packet under a snap length has the whole packet's line, where the headers are there.
#[test]
fn cut_packets_are_shown_with_the_length_they_had() {
    let header = [4_u8, 0, 0, 80, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x18, 4, 0, 0, 0, 0, 0];
    let tcp = [&header[..], &[7; 100]].concat();
    let mut four = vec![0x45, 0, 0, 140, 0, 0, 0, 0, 64, 6, 0, 0];
    four.extend([10, 0, 0, 1, 10, 0, 0, 2]);
    let mut six = vec![0x60, 0, 0, 0, 0, 120, 6, 64];
    six.extend([0x20; 32]);
    for (kind, header) in [([8, 0], four), ([0x86, 0xdd], six)] {
        let packet = [&[2; 12][..], &kind, &header, &tcp].concat();
        let headers = 14 + header.len() + 20;
        for link in [false, true] {
            let style = Style { link, ..Style::default() };
            let (mut whole, mut cut, mut less) = (String::new(), String::new(), String::new());
            line(&packet, 0, style, &mut whole);
            line(&packet[..headers], packet.len() - headers, style, &mut cut);
            assert!(whole.contains("seq 1:101") && cut == whole, "{whole}\n{cut}");
            line(&packet[..headers - 8], packet.len() - headers + 8, style, &mut less);
            assert!(less.ends_with("[|tcp]"), "{less}");
        }
    }
}
