//! Flow records and samples, as collectors that others wrote receive them.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::time::Duration;

use linerate_ofswitch::export::{
    ExportOptions, Exporter, Interface, IpfixOptions, PortPair, SflowOptions,
};
use linerate_ofswitch::key::{Key, extract};
use linerate_openflow::wire::{self, Field, PortNumber};
use linerate_test_support::{Running, wait_until};
use rustix::process::Signal;
use rustix::time::{ClockId, clock_gettime};

use crate::generate::{Random, packet};
use crate::pcap;

const PATIENCE: Duration = Duration::from_secs(20);

fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A collector of nfdump's, and the folder of its files.
struct Collector {
    program: Running,
    folder: tempfile::TempDir,
    address: SocketAddr,
}

impl Collector {
    fn start(name: &str) -> Collector {
        let program = linerate_test_support::require(name);
        let folder = tempfile::tempdir().expect("a temporary directory");
        // A free one, unless it is taken in between.
        let free = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let address = free.local_addr().expect("it has an address");
        drop(free);
        let mut command = Command::new(program);
        command.args(["-b", "127.0.0.1", "-t", "3600", "-p", &address.port().to_string(), "-w"]);
        command.arg(folder.path()).stdout(Stdio::null()).stderr(Stdio::null());
        let program = Running::start(command);
        let listens = format!("0100007F:{:04X} ", address.port());
        let there =
            || std::fs::read_to_string("/proc/net/udp").is_ok_and(|all| all.contains(&listens));
        assert!(wait_until(there, PATIENCE), "{name} does not listen");
        Collector { program, folder, address }
    }

    /// Ends it, and returns the received flows, a line for each.
    fn end(mut self) -> String {
        // Data in its socket is read before it ends. The datagram that was taken last is stored
        // before a signal is looked at.
        let port = format!("0100007F:{:04X}", self.address.port());
        let is_read = || {
            let sockets = std::fs::read_to_string("/proc/net/udp").expect("the sockets");
            let line = sockets.lines().find(|line| line.contains(&port)).expect("it listens");
            // tx_queue:rx_queue, in hexadecimal digits.
            line.split_whitespace().nth(4).is_some_and(|queues| queues.ends_with(":00000000"))
        };
        assert!(wait_until(is_read, PATIENCE), "the collector does not read");
        self.program.signal(Signal::TERM);
        let _ = self.program.wait(PATIENCE);
        let output = Command::new(linerate_test_support::require("nfdump"))
            .args(["-q", "-N", "-o", "csv", "-R"])
            .arg(self.folder.path())
            .output()
            .expect("nfdump runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

/// Flow key as in a collector: addresses, ports, protocol.
type Flow = (IpAddr, IpAddr, u16, u16, &'static str);

/// A packet of IP, its flow, and bytes of IP in it.
struct Given {
    packet: Vec<u8>,
    flow: Flow,
    bytes: u64,
    /// Whether it is whole, and TCP or UDP are next to IP.
    plain: bool,
}

fn given(count: usize) -> Vec<Given> {
    let mut random = Random::new(7);
    let mut packets: BTreeMap<Flow, Given> = BTreeMap::new();
    while packets.len() < count {
        let packet = packet(&mut random);
        let mut key = Key::default();
        extract(&packet, &mut key);
        let at = if key.get(Field::VlanTci) == 0 { 14 } else { 18 };
        let word = |at: usize| u64::from(u16::from_be_bytes([packet[at], packet[at + 1]]));
        let (source, destination, icmp, bytes): (IpAddr, IpAddr, _, _) = match word(at - 2) {
            0x0800 => {
                let address = |field| Ipv4Addr::from_bits(key.get(field) as u32).into();
                (address(Field::Ipv4Src), address(Field::Ipv4Dst), 1, word(at + 2))
            }
            0x86dd => {
                let address = |field| Ipv6Addr::from_bits(key.get(field)).into();
                (address(Field::Ipv6Src), address(Field::Ipv6Dst), 58, 40 + word(at + 4))
            }
            _ => continue,
        };
        let field = |field| key.get(field) as u16;
        let protocol = key.get(Field::IpProto) as u8;
        let ports = match protocol {
            6 | 17 | 132 => [field(Field::TcpSrc), field(Field::TcpDst)],
            // Where a collector has a port of the destination, it has the type and code.
            1 | 58 if protocol == icmp => {
                [0, field(Field::Icmpv4Type) << 8 | field(Field::Icmpv4Code)]
            }
            1 | 58 => continue,
            _ => [0; 2],
        };
        let flow = (source, destination, ports[0], ports[1], name(protocol));
        let odd = [Field::IpFrag, Field::Ipv6Extensions].iter().any(|field| key.get(*field) != 0);
        let plain = matches!(protocol, 6 | 17) && !odd;
        packets.insert(flow, Given { packet, flow, bytes, plain });
    }
    packets.into_values().collect()
}

/// Returns nfdump's name of a protocol; others with a name do not occur.
fn name(protocol: u8) -> &'static str {
    match protocol {
        6 => "TCP",
        17 => "UDP",
        132 => "SCTP",
        1 => "ICMP",
        58 => "ICMP6",
        _ => "other",
    }
}

/// Packets and bytes of each flow, as nfdump prints them.
fn collected(text: &str) -> BTreeMap<Flow, (u64, u64)> {
    let mut flows: BTreeMap<Flow, (u64, u64)> = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with("20")) {
        let columns: Vec<&str> = line.split(',').map(str::trim).collect();
        let number = |nth: usize| columns[nth].parse::<u64>().expect("a number");
        let address = |nth: usize| columns[nth].parse().expect("an address");
        let known = (0..=u8::MAX).map(name).find(|name| *name == columns[7]).unwrap_or("other");
        let flow = (address(3), address(4), number(5) as u16, number(6) as u16, known);
        let sum = flows.entry(flow).or_default();
        *sum = (sum.0 + number(11), sum.1 + number(12));
        assert_eq!((number(15), number(16)), (1, 2), "ports: {line}");
    }
    flows
}

fn nothing() -> Vec<Interface> {
    Vec::new()
}

const PORTS: PortPair = PortPair { in_port: 1, out_port: 2, copies: 1 };

/// Ends an exporter, which is to have lost nothing.
fn end(exporter: Exporter) {
    let counts = exporter.counts();
    drop(exporter);
    assert_eq!((counts.lost_records, counts.lost_samples, counts.errors), (0, 0, 0));
}

#[test]
#[ignore = "needs nfcapd"]
fn a_collector_of_records_counts_the_same() {
    let collector = Collector::start("nfcapd");
    let options = IpfixOptions { collectors: vec![collector.address], ..Default::default() };
    let options = ExportOptions { ipfix: Some(options), ..Default::default() };
    let exporter = Exporter::start(options, nothing).expect("sockets");
    let packets = given(300);
    let mut random = Random::new(8);
    let mut wanted: BTreeMap<Flow, (u64, u64)> = BTreeMap::new();
    // Two workers see some of each flow.
    let mut observers = [exporter.observer(), exporter.observer()];
    for _ in 0..20_000 {
        let given = &packets[random.below(packets.len())];
        observers[random.below(2)].see(&given.packet, PORTS, now());
        let sum = wanted.entry(given.flow).or_default();
        *sum = (sum.0 + 1, sum.1 + given.bytes);
    }
    drop(observers);
    end(exporter);
    assert_eq!(collected(&collector.end()), wanted);
}

#[test]
#[ignore = "needs nfcapd"]
fn a_collector_of_records_counts_one_packet_of_ten() {
    let collector = Collector::start("nfcapd");
    let options =
        IpfixOptions { collectors: vec![collector.address], sampling: 10, ..Default::default() };
    let options = ExportOptions { ipfix: Some(options), ..Default::default() };
    let exporter = Exporter::start(options, nothing).expect("sockets");
    let packets = given(50);
    let mut observer = exporter.observer();
    for nth in 0..5_000 {
        observer.see(&packets[nth / 100].packet, PORTS, now());
    }
    drop(observer);
    end(exporter);
    let flows = collected(&collector.end());
    // This one does not multiply where the option has the sampling as it should.
    let wanted = packets.iter().map(|given| (given.flow, (10, 10 * given.bytes)));
    assert_eq!(flows, wanted.collect());
}

/// Records of sampled packets go to the collectors of their set alone.
#[test]
#[ignore = "needs nfcapd"]
fn a_flow_has_its_packets_sampled() {
    let collectors = [Collector::start("nfcapd"), Collector::start("nfcapd")];
    let options = IpfixOptions {
        sets: vec![(3, vec![collectors[0].address]), (4, vec![collectors[1].address])],
        ..Default::default()
    };
    let options = ExportOptions { ipfix: Some(options), ..Default::default() };
    let exporter = Exporter::start(options, nothing).expect("sockets");
    let given = &given(1)[0];
    let sample = |collector_set| wire::Sample {
        probability: u16::MAX,
        collector_set,
        domain: 9,
        point: 8,
        port: PortNumber::ANY,
        direction: 0,
    };
    let mut observer = exporter.observer();
    for _ in 0..7 {
        observer.see(&given.packet, PORTS, now());
        observer.sample(&sample(3), &given.packet, PORTS, now());
    }
    drop(observer);
    end(exporter);
    let [some, none] = collectors.map(Collector::end);
    assert_eq!(collected(&some), BTreeMap::from([(given.flow, (7, 7 * given.bytes))]));
    assert_eq!(collected(&none), BTreeMap::new());
}

#[test]
#[ignore = "needs sfcapd"]
fn a_collector_of_samples_counts_the_same() {
    let collector = Collector::start("sfcapd");
    let options =
        SflowOptions { collectors: vec![collector.address], rate: 1, ..Default::default() };
    let options = ExportOptions { sflow: Some(options), ..Default::default() };
    let exporter = Exporter::start(options, nothing).expect("sockets");
    let mut packets = given(600);
    // It does not look behind extension headers.
    packets.retain(|given| given.plain);
    let mut wanted: BTreeMap<Flow, (u64, u64)> = BTreeMap::new();
    let mut observer = exporter.observer();
    for given in packets.iter().cycle().take(400) {
        observer.see(&given.packet, PORTS, now());
        let sum = wanted.entry(given.flow).or_default();
        // With the frame's check.
        *sum = (sum.0 + 1, sum.1 + given.packet.len() as u64 + 4);
    }
    drop(observer);
    end(exporter);
    assert!(wanted.len() > 100);
    assert_eq!(collected(&collector.end()), wanted);
}

/// Returns the datagrams at a socket, with headers again so that others can read them.
fn datagrams(socket: &UdpSocket, port: u16) -> Vec<Vec<u8>> {
    socket.set_nonblocking(true).expect("a socket");
    let mut datagrams = Vec::new();
    let mut buffer = [0; 65_536];
    while let Ok(length) = socket.recv(&mut buffer) {
        let mut packet = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0];
        packet.extend((28 + length as u16).to_be_bytes());
        packet.extend([0, 0, 0, 0, 64, 17, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1]);
        packet.extend(50_000u16.to_be_bytes());
        packet.extend(port.to_be_bytes());
        packet.extend((8 + length as u16).to_be_bytes());
        packet.extend([0, 0]);
        packet.extend(&buffer[..length]);
        datagrams.push(packet);
    }
    datagrams
}

/// Returns tshark's output for datagrams.
fn dissected(packets: &[Vec<u8>], arguments: &[&str]) -> String {
    let program = linerate_test_support::require("tshark");
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = folder.path().join("told.pcap");
    pcap::write(&file, packets);
    let output = Command::new(program).args(["-n", "-r"]).arg(&file).args(arguments).output();
    let output = output.expect("tshark runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
#[ignore = "needs tshark"]
fn tshark_understands_all_that_is_told() {
    let sockets = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").expect("a socket"));
    let [records, samples] = sockets.each_ref().map(|socket| socket.local_addr().expect("bound"));
    let ipfix =
        IpfixOptions { collectors: vec![records], sampling: 2, domain: 77, ..Default::default() };
    let sflow = SflowOptions { collectors: vec![samples], rate: 3, ..Default::default() };
    let options = ExportOptions { ipfix: Some(ipfix), sflow: Some(sflow), clock_offset: 0 };
    let interface = || {
        let interface = Interface {
            number: 5,
            speed: 10_000_000_000,
            enabled: true,
            up: true,
            received: 11,
            received_bytes: 1 << 33,
            received_dropped: 12,
            received_errors: 13,
            sent: 14,
            sent_bytes: 15,
            sent_dropped: 16,
        };
        vec![interface]
    };
    let exporter = Exporter::start(options, interface).expect("sockets");
    let mut random = Random::new(9);
    let mut observer = exporter.observer();
    let mut bytes = 0;
    for nth in 0..400 {
        let packet = packet(&mut random);
        observer.see(&packet, PortPair { copies: nth % 3, ..PORTS }, now());
        bytes += if nth % 2 == 1 { packet.len() as u64 } else { 0 };
    }
    drop(observer);
    end(exporter);

    let text = dissected(&datagrams(&sockets[0], 4739), &["-V"]);
    let numbers = |what: &str| -> Vec<u64> {
        let lines = text.lines().filter_map(|line| line.trim().strip_prefix(what));
        lines.map(|number| number.parse().expect("a number")).collect()
    };
    assert_eq!(numbers("Packets: ").iter().sum::<u64>(), 200);
    assert_eq!(numbers("Layer2 Octet Delta Count: ").iter().sum::<u64>(), bytes);
    // Every record is understood, and the sequence number of each message is right.
    let mut records = 0;
    for message in text.split("Cisco NetFlow/IPFIX").skip(1) {
        assert!(message.contains(&format!("FlowSequence: {records}\n")), "{message}");
        assert!(message.contains("Observation Domain Id: 77\n"), "{message}");
        let flow = |line: &str| line.trim().strip_prefix("Flow ").map(str::parse::<u32>);
        records += message.lines().filter_map(flow).filter(Result::is_ok).count();
    }
    assert!(records > 150, "{records}");
    for said in [
        "Selector Algorithm: Systematic count-based Sampling (1)",
        "Sampling Packet Interval: 1",
        "Sampling Packet Space: 1",
        "(Options Template): 261",
        "(Data Template): 256,257,258,259,260",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    assert!(!text.contains("Malformed") && !text.contains("no template found"), "{text}");

    let text = dissected(&datagrams(&sockets[1], 6343), &["-V"]);
    let samples = text.matches("Flow sample, seq").count();
    assert!((80..200).contains(&samples), "{samples}");
    for said in [
        "Sampling rate: 1 out of 3 packets",
        "Counters sample, seq 1",
        "Interface index: 5",
        "Interface Speed: 10000000000",
        "Interface Direction: Full-Duplex (1)",
        "IfAdminStatus: Up",
        "IfOperStatus: Up",
        "Input Octets: 8589934592",
        "Input Packets: 11",
        "Input Discarded Packets: 12",
        "Input Errors: 13",
        "Output Octets: 15",
        "Output Packets: 14",
        "Output Discarded Packets: 16",
        "Output interface: 0x00000002",
        "Output interface: 0x80000002",
        "Output interface: 0x40000100",
        "Payload stripped: 4",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
}
