//! Rewriters: rewritten packets have right checksums by etherparse's reckoning, and mappings
//! outlive the configuration.

mod common;

use std::{
    thread,
    time::{Duration, Instant},
};

use common::{
    bed::{Bed, FLOOD_ARGS, Flood, Packet, SAME_CLASS, Udp},
    load_text,
};
use etherparse::{
    IcmpEchoHeader, Icmpv4Type, IpHeaders, Ipv4Header, Ipv4HeaderSlice, PacketBuilder, TcpHeader,
    TransportSlice,
};
use linerate_graph::{
    Class, Context, Control, Element, Handler, HandlerResult, Library, Options, Router,
};
use linerate_memory::{ArenaOptions, Frame};

const FLOOD: Class = Class {
    name: "Flood",
    ports: "0/1",
    processing: "h/h",
    args: FLOOD_ARGS,
    make: |make| Box::new(Flood::new(make, kind)),
    ..Class::here()
};

/// Checks packets by an independent library.
const SOUND: Class = Class {
    name: "Sound",
    ports: "1/0",
    handlers: &[
        Handler::read("seen", "packets"),
        Handler::read("rewritten", "packets that are not as they were sent"),
        Handler::read("wrong", "packets with a wrong checksum, and the first of them"),
    ],
    make: |_| Box::new(Sound::default()),
    ..Class::here()
};

#[derive(Default)]
struct Sound {
    seen: u64,
    rewritten: u64,
    wrong: Vec<String>,
}

impl Element for Sound {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        for bytes in cx.pool.arena().packets(frame) {
            self.seen += 1;
            self.rewritten += u64::from(bytes[12..20] != random(number(bytes))[12..20]);
            self.wrong.extend(wrong(bytes).map(|why| format!("{why}: {bytes:02x?}")));
        }
        cx.discard(frame);
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        Ok(match handler {
            "seen" => self.seen.to_string(),
            "rewritten" => self.rewritten.to_string(),
            _ => format!("{}{}", self.wrong.len(), self.wrong.first().map_or("", String::as_str)),
        })
    }
}

/// Returns the wrong checksum of a packet.
fn wrong(bytes: &[u8]) -> Option<&'static str> {
    let ip = Ipv4HeaderSlice::from_slice(bytes).expect("IPv4").to_header();
    if ip.header_checksum != ip.calc_header_checksum() {
        return Some("IP");
    }
    let sliced = etherparse::SlicedPacket::from_ip(bytes).expect("IP");
    match sliced.transport.expect("a transport header") {
        TransportSlice::Udp(udp) => {
            let header = udp.to_header();
            let sum = header.calc_checksum_ipv4(&ip, udp.payload()).expect("short");
            (header.checksum != 0 && header.checksum != sum).then_some("UDP")
        }
        TransportSlice::Tcp(tcp) => {
            let header: TcpHeader = tcp.to_header();
            let sum = header.calc_checksum_ipv4(&ip, tcp.payload()).expect("short");
            (header.checksum != sum).then_some("TCP")
        }
        TransportSlice::Icmpv4(icmp) => {
            let sum = icmp.icmp_type().calc_checksum(icmp.payload());
            (icmp.checksum() != sum).then_some("ICMP")
        }
        _ => Some("not of this family"),
    }
}

/// The number a packet ends with.
fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(*bytes.last_chunk().expect("at the end"))
}

/// A random packet of UDP, TCP or a ping, whose last bytes are its number.
fn random(number: u64) -> Vec<u8> {
    let mut state = number.wrapping_add(99).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut any = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut header = Ipv4Header {
        identification: any() as u16,
        time_to_live: any() as u8 | 1,
        source: [10, 0, any() as u8, any() as u8],
        destination: (any() as u32 | 0x8000_0000).to_be_bytes(),
        ..Default::default()
    };
    header.dscp = ((any() & 63) as u8).try_into().expect("six bits");
    let builder = PacketBuilder::ip(IpHeaders::Ipv4(header, Default::default()));
    let length = any() % 100;
    let mut payload: Vec<u8> = (0..length).map(|_| any() as u8).collect();
    payload.extend(number.to_be_bytes());
    let (source, destination) = (any() as u16 | 1, any() as u16 | 1);
    let mut bytes = Vec::new();
    match any() % 3 {
        0 => builder.udp(source, destination).write(&mut bytes, &payload),
        1 => {
            let tcp = builder.tcp(source, destination, any() as u32, any() as u16);
            let tcp = if any() % 4 == 0 { tcp.syn() } else { tcp.ack(any() as u32) };
            tcp.write(&mut bytes, &payload)
        }
        _ => {
            let echo = IcmpEchoHeader { id: source, seq: destination };
            let icmp = builder.icmpv4(Icmpv4Type::EchoRequest(echo));
            icmp.write(&mut bytes, &payload)
        }
    }
    .expect("a vector takes all");
    bytes
}

fn kind(name: &str) -> Packet {
    match name {
        "random" => random,
        "flows" => |n| {
            let flow = (n % 50) as u32;
            Udp { from: (0x0a00_0001 + flow, 999), to: (0x0200_0002, 53), mark: flow }.packet()
        },
        other => panic!("no packets are called {other}"),
    }
}

#[test]
fn every_rewriter_writes_the_checksums_of_an_independent_calculation() {
    let all = 20_000;
    let ports = "pattern 1.2.3.4 1024-65535 - - 0 0";
    for (rewriter, protocols) in [
        (format!("IPRewriter({ports})"), "udp || tcp"),
        (format!("UDPRewriter({ports})"), "udp || tcp"),
        (format!("TCPRewriter({ports})"), "tcp"),
        ("IPRewriter(pattern 1.2.3.4 5 6.7.8.9 - 0 0)".into(), "udp || tcp"),
        (format!("ICMPPingRewriter({ports})"), "icmp"),
        ("IPAddrRewriter(pattern 1.2.0.0-1.2.255.255# - 0 0)".into(), "all"),
        ("IPAddrPairRewriter(pattern 1.2.0.0-1.2.255.255# 9.9.9.9 0 0)".into(), "all"),
        ("IPRewriter(keep 0 0)".into(), "udp || tcp"),
        ("StoreIPAddress(7.7.7.7, src)".into(), "all"),
    ] {
        let text = format!(
            "Flood(random, {all}) -> CheckIPHeader -> c :: IPClassifier({protocols}, -);
             c -> before :: Counter -> rw :: {rewriter} -> sound :: Sound; c [1] -> Discard;
             DriverManager(wait 1s, stop);"
        );
        let mut bed = Bed::new(&text, &[&FLOOD, &SOUND]).run();
        assert_eq!(bed.text("sound.wrong"), "0", "{rewriter}");
        let (before, seen) = (bed.number("before.count"), bed.number("sound.seen"));
        // A flow with a port that another has gets no mapping.
        assert!(seen > before / 2 && before > all / 5 || rewriter.contains(" 5 "), "{rewriter}");
        assert!(seen > 0);
        let expected = if rewriter.contains("keep") { 0 } else { seen };
        assert_eq!(bed.number("sound.rewritten"), expected, "{rewriter}");
    }
}

/// Ends the run, also when an assertion fails.
struct StopAtEnd(Control);

impl Drop for StopAtEnd {
    fn drop(&mut self) {
        self.0.stop();
    }
}

#[test]
fn mappings_survive_a_new_configuration_while_packets_pass() {
    for (class, pattern) in [
        ("IPRewriter", "pattern 1.0.0.1 1024-65535? - - 0 1"),
        ("UDPRewriter", "pattern 1.0.0.1 1024-65535? - - 0 1"),
        ("IPAddrRewriter", "pattern 1.0.0.0-1.0.255.255? - 0 1"),
        ("IPAddrPairRewriter", "pattern 1.0.0.0-1.0.255.255? - 0 1"),
    ] {
        let text = |more: &str| {
            format!(
                "Flood(flows, 1000000000, BURST 32) -> CheckIPHeader -> {more} rw :: {class}({pattern}, drop)
                 -> same :: Same; Idle -> [1] rw; rw [1] -> Discard;"
            )
        };
        let library = linerate_elements::library();
        let library = Library::new(library.iter().chain([&FLOOD, SAME_CLASS]));
        let plan =
            |text: &str| load_text(text, &library).unwrap_or_else(|errors| panic!("{errors}"));
        let arena = ArenaOptions { size: 16 << 20, huge: false, ..Default::default() };
        let ports = linerate_port::Context::new(arena.create().unwrap());
        let options = Options::default();
        let mut router = Router::new(plan(&text("")), &library, ports, &options).unwrap();
        let control = router.control();
        thread::scope(|scope| {
            scope.spawn(|| {
                let _stop = StopAtEnd(control.clone());
                let seen = || -> u64 { control.read("same.seen", "").unwrap().parse().unwrap() };
                let wait_for = |packets: u64| {
                    let patience = Instant::now() + Duration::from_secs(30);
                    while seen() < packets {
                        assert!(Instant::now() < patience, "no packets pass");
                        thread::sleep(Duration::from_millis(1));
                    }
                };
                wait_for(1000);
                for round in 0..6 {
                    let before = seen();
                    control
                        .replace(plan(&text(["Null ->", "Counter -> Null ->", ""][round % 3])))
                        .unwrap();
                    wait_for(before + 1000);
                    let read = |handler: &str| control.read(handler, "").unwrap();
                    assert_eq!(read("rw.table_size"), "50", "{class}");
                    assert_eq!(
                        (read("same.flows"), read("same.changed")),
                        ("50".into(), "0".into())
                    );
                }
                // Another pattern begins anew: the flows of the old one end.
                let other = text("").replace("1.0.0", "5.0.0").replace("1.0.255", "5.0.255");
                let before = seen();
                control.replace(plan(&other)).unwrap();
                wait_for(before + 1000);
                assert_ne!(control.read("same.changed", "").unwrap(), "0", "{class}");
            });
            router.run();
        });
        router.close();
    }
}
