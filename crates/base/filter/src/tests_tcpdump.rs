//! Comparison with tcpdump: accepted and refused expressions, and packets chosen from captures.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use linerate_port::pcap;
use linerate_test_support::require;

use super::{
    Filter,
    examples::{self, EXAMPLES},
    links::{self, CHOSEN, names_of_files},
    tests::{ANSWERS, names, packets},
    tests_tunnels::{AMONG_RARE, IN_CHAINS, IN_TUNNELS, chains, rare, tunnels},
};

/// Expressions that neither takes.
const REFUSED: &[&str] = &[
    "10.0.0.1",
    "action pass",
    "ah[0] = 6",
    "and tcp",
    "arp broadcast",
    "arp port 80",
    "byte 5 >= 6",
    "decnet host foo",
    "dir tods",
    "esp[4:4] = 1",
    "ether host 10.0.0.1",
    "ether port 80",
    "ether[0:3] = 1",
    "ether[0",
    "fisu",
    "gateway 10.0.0.1",
    "geneve 16777216",
    "geneve and ip protochain 6",
    "geneve and geneve and geneve and geneve and geneve and geneve",
    "greater",
    "host",
    "host 1.2.3.4.5",
    "host 10.0.0.256",
    "host 2:0:0:0:0:1",
    "host no-such-host.invalid",
    "host sc",
    "icmp host 10.0.0.1",
    "icmp port 80",
    "ifindex 1",
    "ifname eth0",
    "inbound",
    "ip host ::1",
    "ip proto",
    "ip proto \\nothing",
    "ip6 broadcast",
    "ip6 host 10.0.0.1",
    "ipx host 1.2.3.4",
    "isis proto \\foo",
    "iso[0] = 1",
    "l1[0] = 1",
    "len",
    "llc what",
    "metac",
    "mpls 1048576",
    "mpls and arp",
    "mpls and decnet",
    "mpls and pppoed",
    "mpls and stp",
    "mpls and vlan",
    "net 10.0.0.1/8",
    "net 10.0.0.0/33",
    "net 2001:db8::1/32",
    "net no-such-net",
    "not",
    "oamf4",
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
    "radio[0] = 1",
    "reason match",
    "rulenum 1",
    "src 10.0.0.0/8",
    "src and dst",
    "sio 1",
    "src src 10.0.0.1",
    "stp host 1",
    "stp[0] = 1",
    "tcp 80",
    "tcp ^ 2",
    "tcp host 10.0.0.1",
    "tcp protochain 6",
    "tcp udp",
    "tcp)",
    "tcp[tcpflags",
    "type mgt",
    "udp[4:3] = 1",
    "vlan 4096",
    "vpi 1",
    "wlan addr1 2:0:0:0:0:1",
    "(tcp",
    "1 / 0 = 1",
    "= 1",
];

/// Expressions that tcpdump takes and this crate does not.
const NOT_HERE: &[&str] = &["byte 5 & 6", "byte 5 | 6"];

/// The packets of all captures of Ethernet frames in the repository, each once, in a file where
/// their times are their numbers.
fn captured(file: &Path) -> Vec<Vec<u8>> {
    let folders =
        ["../../elements/capture/data", "../../io/port/tests/data", "../../../fuzz/seeds/capture"];
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
    write(file, &packets);
    packets
}

/// Writes a capture in which the times of packets are their numbers.
fn write(file: &Path, packets: &[Vec<u8>]) {
    let options = pcap::Options::new(pcap::Format::Pcap);
    let mut writer = pcap::Writer::create(file, &options).expect("a file");
    for (at, packet) in packets.iter().enumerate() {
        writer.write(at as u64 * 1_000_000_000, packet.len() as u32, packet).expect("room");
    }
    writer.finish().expect("room");
}

/// Packets that tcpdump chose, of so many, in such a capture.
fn chosen_by_tcpdump(file: &Path, count: usize) -> Vec<bool> {
    let mut chosen = vec![false; count];
    let mut reader = pcap::Reader::open(file).expect("a capture");
    while let Some(record) = reader.next().expect("a whole capture") {
        chosen[(record.ts_ns / 1_000_000_000) as usize] = true;
    }
    chosen
}

/// Runs tcpdump on an expression, which writes the packets it chooses to a file.
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
    for case in ANSWERS.lines().chain(CHOSEN.lines()) {
        let (_, expression) = case.split_once(' ').expect("an answer and an expression");
        let output = tcpdump(expression, &from, &to);
        assert!(output.status.success(), "{expression}: {output:?}");
        let theirs = chosen_by_tcpdump(&to, packets.len());
        let filter = Filter::new(expression, names_of_files()).expect(expression);
        for (packet, theirs) in packets.iter().zip(theirs) {
            assert_eq!(filter.accepts(packet), theirs, "{expression}: {packet:02x?}");
            chosen += usize::from(theirs);
        }
    }
    assert!(chosen > 1000, "{chosen}");
}

#[test]
#[ignore = "needs tcpdump"]
fn expressions_that_tcpdump_refuses_are_refused() {
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

fn expressions(cases: &'static [(&'static str, &'static [usize])]) -> Vec<&'static str> {
    cases.iter().map(|(expression, _)| *expression).collect()
}

/// Headers that are rare in captures, and the examples of the manual pages, by packets made for
/// them.
#[test]
#[ignore = "needs tcpdump"]
fn rare_headers_are_chosen_as_by_tcpdump() {
    let folder = tempfile::tempdir().expect("a folder");
    let (from, to) = (folder.path().join("from.pcap"), folder.path().join("to.pcap"));
    let more = vec![
        "byte 0 = 2",
        "ether host 02-00-00-00-00-01",
        "ether host 0200.0000.0001",
        "ether src 020000000002",
        "icmp6[icmp6type] < icmp6-multicastrouterterm",
        "ip broadcast",
        "tcp[-1] = 3",
        "udp[0 - 4] = 10",
        "tr src 2:0:0:0:0:2",
        "wlan[0] = 2",
    ];
    let examples = EXAMPLES.iter().map(|(_, in_numbers)| *in_numbers).collect();
    let sets: [(Vec<Vec<u8>>, Vec<&str>); 5] = [
        (tunnels(), expressions(IN_TUNNELS)),
        (chains(), expressions(IN_CHAINS)),
        (rare(), expressions(AMONG_RARE)),
        (packets(), examples),
        (packets(), more),
    ];
    for (packets, expressions) in sets {
        write(&from, &packets);
        for expression in expressions {
            let output = tcpdump(expression, &from, &to);
            assert!(output.status.success(), "{expression}: {output:?}");
            let filter = Filter::new(expression, names_of_files()).expect(expression);
            let ours: Vec<bool> = packets.iter().map(|packet| filter.accepts(packet)).collect();
            assert_eq!(ours, chosen_by_tcpdump(&to, packets.len()), "{expression}");
        }
    }
    for expression in examples::REFUSED {
        assert!(!tcpdump(expression, &from, &to).status.success(), "{expression}");
    }
}

/// `RECORD=1 cargo test -p linerate-filter packets_of_links -- --ignored` writes the answers.
#[test]
#[ignore = "needs tcpdump"]
fn packets_of_links_are_chosen_as_recorded() {
    let folder = tempfile::tempdir().expect("a folder");
    let (from, to) = (folder.path().join("from.pcap"), folder.path().join("to.pcap"));
    let packets = links::packets();
    write(&from, &packets);
    let mut answers = String::new();
    for case in CHOSEN.lines() {
        let (_, expression) = case.split_once(' ').expect("an answer and an expression");
        let output = tcpdump(expression, &from, &to);
        assert!(output.status.success(), "{expression}: {output:?}");
        let chosen = chosen_by_tcpdump(&to, packets.len());
        answers.extend(chosen.into_iter().map(|chosen| if chosen { '1' } else { '0' }));
        answers += &format!(" {expression}\n");
    }
    if std::env::var_os("RECORD").is_some() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        fs::write(folder.join("chosen.txt"), &answers).expect("room");
    }
    assert_eq!(answers, CHOSEN);
}
