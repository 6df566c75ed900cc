//! Frames of `generate`, judged by tshark and by the sink.

use std::{collections::BTreeMap, fs, process::Command};

use linerate_test_support::{Lab, require};
use serde_json::Value;

use crate::support::{DRIVERS, Program, Scratch, linerate, number};

/// Generates to a file.
#[track_caller]
fn generated(options: &str) -> (Scratch, Value) {
    let scratch = Scratch::new();
    let file = scratch.file("g.pcap");
    let line = format!("generate pcap:{file} {options} --json --quiet");
    let summary = linerate(&line).summary();
    (scratch, summary)
}

/// Fields of every frame of the file as tshark dissects them, with every checksum verified.
#[track_caller]
fn fields(scratch: &Scratch, names: &[&str]) -> Vec<Vec<String>> {
    let file = scratch.file("g.pcap");
    let mut command = Command::new(require("tshark"));
    command.args(["-n", "-r", &file, "-T", "fields", "-E", "separator=|"]);
    for protocol in ["ip", "udp", "tcp"] {
        command.args(["-o", &format!("{protocol}.check_checksum:TRUE")]);
    }
    for name in [names, &["_ws.expert.message"]].concat() {
        command.args(["-e", name]);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .map(|line| {
            let mut fields: Vec<String> = line.split('|').map(str::to_owned).collect();
            let complaint = fields.pop().unwrap();
            let malformed = ["hecksum", "alformed", "truncated"];
            assert!(!malformed.iter().any(|text| complaint.contains(text)), "{line}");
            fields
        })
        .collect()
}

#[track_caller]
fn tally(values: impl IntoIterator<Item = String>) -> BTreeMap<String, usize> {
    let mut tally = BTreeMap::new();
    values.into_iter().for_each(|value| *tally.entry(value).or_default() += 1);
    tally
}

fn text<const N: usize>(pairs: [(&str, usize); N]) -> BTreeMap<String, usize> {
    pairs.into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
}

/// 28 of 64, 16 of 570, 4 of 1,518 bytes, FCS included, which files do not hold.
#[test]
#[ignore = "needs root"]
fn imix_has_its_proportions() {
    let (scratch, summary) = generated("--size imix --count 480");
    assert_eq!(number(&summary, "accepted"), 480);
    let lengths = fields(&scratch, &["frame.len"]).into_iter().map(|fields| fields[0].clone());
    assert_eq!(tally(lengths), text([("60", 280), ("566", 160), ("1514", 40)]));
}

#[test]
#[ignore = "needs root"]
fn ranges_protocols_and_tags_are_as_asked_for() {
    let (scratch, _) = generated(
        "--count 40 --size 84 --protocol tcp --vlan 10-13 --outer-vlan 100 --dst 198.19.0.7 --sport 5000-5001",
    );
    let rows = fields(
        &scratch,
        &["ieee8021ad.id", "vlan.id", "ip.dst", "ip.proto", "tcp.srcport", "tcp.checksum.status"],
    );
    assert_eq!(rows.len(), 40);
    let column = |index: usize| tally(rows.iter().map(|row| row[index].clone()));
    assert_eq!(column(0), text([("100", 40)]));
    assert_eq!(column(1), text([("10", 10), ("11", 10), ("12", 10), ("13", 10)]));
    assert_eq!(column(2), text([("198.19.0.7", 40)]));
    assert_eq!(column(3), text([("6", 40)]));
    assert_eq!(column(4), text([("5000", 20), ("5001", 20)]));
    // 1: good.
    assert_eq!(column(5), text([("1", 40)]));
}

#[test]
#[ignore = "needs root"]
fn ipv6_is_well_formed() {
    let (scratch, _) = generated("--ipv6 --count 10 --size 84,1518");
    let rows = fields(&scratch, &["eth.type", "ipv6.nxt", "udp.checksum.status"]);
    assert_eq!(rows.len(), 10);
    for row in rows {
        assert_eq!(row, ["0x86dd", "17", "1"]);
    }
}

#[test]
fn equal_seeds_make_equal_traffic() {
    let frames = |seed: u32| {
        let options = format!("--unsigned --order random --sport 1-60000 --count 50 --seed {seed}");
        let (scratch, _) = generated(&options);
        crate::wire::records(&fs::read(scratch.file("g.pcap")).unwrap())
    };
    let first = frames(5);
    assert_eq!(first.len(), 50);
    assert!(first == frames(5), "not the same twice");
    assert!(first != frames(6), "the seed makes no difference");
}

/// Of a counted run at a rate, no more frames come due than were asked for.
#[test]
fn no_more_is_intended_than_the_count() {
    let summary = linerate("generate null: --count 1000 --rate 1Mpps --json --quiet").summary();
    let [intended, offered, accepted] =
        ["intended", "offered", "accepted"].map(|key| number(&summary, key));
    assert_eq!((offered, accepted), (1000, 1000), "{summary}");
    assert!(intended >= offered, "{summary}");
    assert_eq!(intended - accepted, number(&summary, "unsent"), "{summary}");
}

/// Signed frames that are taken out, doubled and swapped on the way are missed, counted twice and
/// found late: the sink is not blind.
#[test]
fn the_sink_tells_loss_duplication_and_reordering() {
    let (scratch, _) = generated("--count 100");
    let file = fs::read(scratch.file("g.pcap")).unwrap();
    let length = (file.len() - 24) / 100;
    let mut records: Vec<&[u8]> = file[24..].chunks(length).collect();
    records.remove(80);
    records.remove(60);
    records.insert(41, records[40]);
    records.swap(10, 11);
    let changed = scratch.file("changed.pcap");
    fs::write(&changed, [&[&file[..24]], &records[..]].concat().concat()).unwrap();
    let line = format!("sink pcap:{changed} --json --quiet");
    let summary = linerate(&line).summary();
    for (key, expected) in [("unique", 98), ("lost", 2), ("duplicates", 1), ("reordered", 1)] {
        assert_eq!(number(&summary, key), expected, "{key}: {summary}");
    }
}

/// The generator's count of frames that the kernel refused is right.
#[test]
#[ignore = "needs root"]
fn frames_that_the_kernel_refuses_are_counted() {
    let lab = Lab::new();
    let (a, b) = (lab.namespace("a"), lab.namespace("b"));
    lab.veth(&a, "a0", &b, "b0");
    for driver in DRIVERS {
        let before = (a.counters("a0").tx_packets, b.counters("b0").rx_packets);
        let line = format!("generate {driver}:a0 --rate max --duration 300ms");
        let summary = Program::start(&a, &line).end().summary();
        let sent = a.counters("a0").tx_packets - before.0;
        let arrived = b.counters("b0").rx_packets - before.1;
        let accepted = number(&summary, "accepted");
        assert!(accepted > 0, "{summary}");
        assert_eq!((sent, arrived), (accepted, accepted), "{driver}: {summary}");
    }
}
