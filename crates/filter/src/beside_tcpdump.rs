//! What tcpdump accepts and refuses, and what it chooses from captures of real programs.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use linerate_port::pcap;
use linerate_testlab::require;

use super::{
    Filter,
    tests::{ANSWERS, names},
};

/// Expressions that neither takes.
const REFUSED: &[&str] = &[
    "10.0.0.1",
    "action pass",
    "and tcp",
    "arp port 80",
    "ether host 10.0.0.1",
    "ether port 80",
    "ether[0:3] = 1",
    "ether[0",
    "gateway 10.0.0.1",
    "greater",
    "host",
    "host 1.2.3.4.5",
    "host 10.0.0.256",
    "host 2:0:0:0:0:1",
    "icmp host 10.0.0.1",
    "icmp port 80",
    "ifname eth0",
    "inbound",
    "ip host ::1",
    "ip proto",
    "ip proto \\nothing",
    "ip6 host 10.0.0.1",
    "ipx host 1.2.3.4",
    "iso[0] = 1",
    "len",
    "llc what",
    "mpls 1048576",
    "mpls and arp",
    "mpls and decnet",
    "mpls and pppoed",
    "mpls and stp",
    "mpls and vlan",
    "net 10.0.0.1/8",
    "net 10.0.0.0/33",
    "net 2001:db8::1/32",
    "not",
    "on eth0",
    "outbound",
    "port 70000",
    "port no-such-port",
    "port tcp",
    "portrange 80-",
    "pppoes 65536",
    "pppoes and broadcast",
    "pppoes and ether host 2:0:0:0:0:1",
    "pppoes and llc",
    "pppoes and multicast",
    "pppoes and vlan",
    "proto \\nothing",
    "reason match",
    "rulenum 1",
    "src 10.0.0.0/8",
    "src and dst",
    "src src 10.0.0.1",
    "stp host 1",
    "stp[0] = 1",
    "tcp 80",
    "tcp ^ 2",
    "tcp host 10.0.0.1",
    "tcp udp",
    "tcp)",
    "tcp[tcpflags",
    "type mgt",
    "udp[4:3] = 1",
    "vlan 4096",
    "wlan addr1 2:0:0:0:0:1",
    "(tcp",
    "1 / 0 = 1",
    "= 1",
];

/// What tcpdump takes, and is not here.
const NOT_HERE: &[&str] = &[
    "byte 5 = 6",
    "decnet src 1.1",
    "geneve",
    "host localhost",
    "ip broadcast",
    "ip protochain 6",
    "ip6 protochain 6",
    "l1",
    "wlan host 2:0:0:0:0:1",
];

/// The packets of all captures of Ethernet frames in the repository, each once, in a file where
/// their times are their numbers.
fn captured(file: &Path) -> Vec<Vec<u8>> {
    let folders = ["../elements/capture/data", "../port/tests/data", "../../fuzz/seeds/capture"];
    let mut packets = BTreeSet::new();
    for folder in folders {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        let files = fs::read_dir(&folder).expect("a folder of captures");
        let files: Vec<PathBuf> = files.map(|entry| entry.expect("an entry").path()).collect();
        for file in files.iter().filter(|file| file.extension().is_some()) {
            let Ok(mut reader) = pcap::Reader::open(file) else { continue };
            while let Ok(Some(record)) = reader.next() {
                packets.insert(record.data.to_vec());
            }
        }
    }
    let packets: Vec<Vec<u8>> = packets.into_iter().collect();
    let options = pcap::Options::new(pcap::Format::Pcap);
    let mut writer = pcap::Writer::create(file, &options).expect("a file");
    for (at, packet) in packets.iter().enumerate() {
        writer.write(at as u64 * 1_000_000_000, packet.len() as u32, packet).expect("room");
    }
    writer.finish().expect("room");
    packets
}

/// What tcpdump makes of an expression, writing the packets it chooses to a file.
fn tcpdump(expression: &str, from: &Path, to: &Path) -> Output {
    let mut command = Command::new(require("tcpdump"));
    command.args(["-Z", "root", "-O", "-r"]).arg(from).arg("-w").arg(to).arg("--").arg(expression);
    command.output().expect("tcpdump runs")
}

#[test]
#[ignore = "needs tcpdump"]
fn captured_packets_are_chosen_as_tcpdump_chooses_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let (from, to) = (folder.path().join("from.pcap"), folder.path().join("to.pcap"));
    let packets = captured(&from);
    assert!(packets.len() > 50, "{}", packets.len());
    let mut chosen = 0;
    for case in ANSWERS.lines() {
        let (_, expression) = case.split_once(' ').expect("an answer and an expression");
        let output = tcpdump(expression, &from, &to);
        assert!(output.status.success(), "{expression}: {output:?}");
        let mut theirs = vec![false; packets.len()];
        let mut reader = pcap::Reader::open(&to).expect("a capture");
        while let Some(record) = reader.next().expect("a whole capture") {
            theirs[(record.ts_ns / 1_000_000_000) as usize] = true;
        }
        let filter = Filter::new(expression, names()).expect(expression);
        for (packet, theirs) in packets.iter().zip(theirs) {
            assert_eq!(filter.accepts(packet), theirs, "{expression}: {packet:02x?}");
            chosen += usize::from(theirs);
        }
    }
    assert!(chosen > 1000, "{chosen}");
}

#[test]
#[ignore = "needs tcpdump"]
fn what_tcpdump_refuses_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let (from, to) = (folder.path().join("from.pcap"), folder.path().join("to.pcap"));
    captured(&from);
    let theirs = |expression: &str| tcpdump(expression, &from, &to).status.success();
    let ours = |expression: &str| Filter::new(expression, names()).is_ok();
    let cases = REFUSED.iter().map(|expression| (*expression, (false, false)));
    let cases = cases.chain(NOT_HERE.iter().map(|expression| (*expression, (true, false))));
    let different: Vec<_> = cases
        .map(|(expression, expected)| {
            (expression, expected, (theirs(expression), ours(expression)))
        })
        .filter(|(_, expected, found)| expected != found)
        .collect();
    assert!(different.is_empty(), "expected, and found, of tcpdump and here: {different:#?}");
}
