//! Random expressions of the filters' language: acceptance and programs of our compiler, beside the
//! system's.

use fastrand::Rng;

use super::{
    both,
    corpus::{self, SNAP_LENGTH},
    system::System,
};
use crate::{
    abi::{DLT_EN10MB, DLT_RAW},
    bpf::{Invalid, Program},
    compile::{Frames, compile},
};

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;
const EXPRESSIONS: u64 = 20_000;
/// Packets that each is tried on.
const PACKETS: usize = 40;

/// An expression, mostly one that is taken.
fn expression(random: &mut Rng, depth: u32) -> String {
    match random.u8(..10) {
        0..=4 if depth > 0 => {
            let joint = *random.choice(&["and", "or", "&&", "||"]).unwrap();
            format!("{} {joint} {}", expression(random, depth - 1), expression(random, depth - 1))
        }
        5 if depth > 0 => format!("({})", expression(random, depth - 1)),
        6 if depth > 0 => {
            format!("{} {}", random.choice(&["not", "!"]).unwrap(), expression(random, depth - 1))
        }
        _ => primitive(random),
    }
}

fn pick<'a>(random: &mut Rng, from: &[&'a str]) -> &'a str {
    from[random.usize(..from.len())]
}

const PROTOCOLS: &[&str] = &[
    "ether", "link", "ip", "ip6", "arp", "rarp", "tcp", "udp", "sctp", "icmp", "icmp6", "igmp",
    "pim", "ah", "esp", "vrrp", "carp", "igrp", "atalk", "aarp", "decnet", "ipx", "iso", "stp",
    "netbeui", "lat", "moprc", "mopdl", "clnp", "esis", "isis", "l1", "l2", "iih", "csnp", "psnp",
    "snp", "lsp", "sca",
];

fn primitive(random: &mut Rng) -> String {
    match random.u8(..20) {
        0..=2 => pick(random, PROTOCOLS).into(),
        3..=9 => qualified(random),
        10..=12 => relation(random),
        13 => {
            let name = pick(random, &["vlan", "mpls", "pppoes", "geneve", "vlan", "mpls"]);
            if random.bool() { name.into() } else { format!("{name} {}", random.u32(..9)) }
        }
        14 => format!("{} {}", pick(random, &["less", "greater"]), random.u32(..200)),
        15 => pick(
            random,
            &[
                "broadcast",
                "multicast",
                "ether broadcast",
                "ether multicast",
                "ip multicast",
                "ip6 multicast",
                "ip broadcast",
                "ip6 broadcast",
                "arp multicast",
                "llc",
                "llc u",
                "llc rr",
                "llc i",
                "llc xid",
                "llc dm",
                "llc s",
            ],
        )
        .into(),
        16 => format!(
            "byte {} {} {}",
            random.u32(..60),
            pick(random, &["=", "<", ">"]),
            random.u32(..256)
        ),
        _ => value(random),
    }
}

fn sides(random: &mut Rng) -> &'static str {
    pick(
        random,
        &["", "", "src ", "dst ", "src or dst ", "src and dst ", "dst or src ", "dst and src "],
    )
}

/// A primitive with a value: mostly of those that go together.
fn qualified(random: &mut Rng) -> String {
    let (protocols, kind, value): (&[&str], _, _) = match random.u8(..10) {
        0 => (&["ether ", "link "], "host ", pick(random, STATIONS).into()),
        1 | 2 => (&["", "ip ", "arp ", "rarp "], "host ", pick(random, HOSTS).into()),
        3 => (&["", "ip6 "], "host ", pick(random, HOSTS_OF_IPV6).into()),
        4 => (&["", "ip ", "ip6 ", "decnet "], "net ", pick(random, NETS).into()),
        5 | 6 => (&["", "tcp ", "udp ", "sctp "], "port ", pick(random, NAMED_PORTS).into()),
        7 => {
            let range = format!("{}-{}", random.u16(..100), random.u16(..1000));
            (&["", "tcp ", "udp "], "portrange ", range)
        }
        8 => {
            let kind = pick(random, &["proto ", "proto ", "protochain "]);
            return format!(
                "{}{kind}{}",
                pick(random, &["", "ip ", "ip6 ", "ether ", "iso ", "isis "]),
                pick(random, NUMBERS_OF_PROTOCOLS)
            );
        }
        _ => (&[""], "", value(random)),
    };
    let protocol = match random.u8(..12) {
        0 => format!("{} ", pick(random, PROTOCOLS)),
        _ => pick(random, protocols).into(),
    };
    let value = match random.u8(..12) {
        0 => format!("({value} or {})", self::value(random)),
        1 => format!("not {value}"),
        _ => value,
    };
    format!("{protocol}{}{kind}{value}", sides(random))
}

/// A value of any kind.
fn value(random: &mut Rng) -> String {
    let of = random.choice(&[STATIONS, HOSTS, HOSTS_OF_IPV6, NETS, PORTS]).unwrap();
    pick(random, of).into()
}

const STATIONS: &[&str] =
    &["2:0:0:0:0:1", "ff:ff:ff:ff:ff:ff", "02-00-00-00-00-01", "1:0:5e:0:0:1"];
const HOSTS: &[&str] = &[
    "10.0.0.1",
    "192.168.0.1",
    "10.1.2.3",
    "10",
    "10.1",
    "10.1.2",
    "224.0.0.5",
    "0.0.0.0",
    "256.1.1.1",
    "1.2",
];
const HOSTS_OF_IPV6: &[&str] = &["2001:db8::1", "ff02::1", "::", "::1", "fe80::1"];
const NETS: &[&str] = &[
    "10.0.0.0/8",
    "192.168.0.0/16",
    "10",
    "10.1",
    "2001:db8::/32",
    "10.0.0.1/8",
    "10.1.2.0 mask 255.255.255.0",
    "10.0.0.0/33",
    "0.0.0.0/0",
    "::/0",
    "2001:db8::1",
    "10.0.0.1",
    "fe80::/10",
    "192.168.1",
    "224.0.0.0/4",
    "2001:db8::1/64",
    "10.0/16",
    "::/129",
];
const PORTS: &[&str] = &["80", "53", "22", "0", "65535", "65536", "443", "0x50", "7", "0123"];
/// Ports, also with names. A name of no port is left out: it could be a host, for which a name
/// server would be asked.
const NAMED_PORTS: &[&str] = &["80", "53", "65535", "domain", "ssh", "ntp", "snmp-trap"];
const NUMBERS_OF_PROTOCOLS: &[&str] = &[
    "6", "17", "1", "0x800", "0x86dd", "\\tcp", "\\udp", "\\ip", "\\arp", "41", "0", "255", "256",
    "0x42", "1500", "1501", "\\icmp", "89", "0xfe", "0xf0", "0xe0", "\\stp", "\\isis", "2048",
    "\\esis", "24",
];

fn relation(random: &mut Rng) -> String {
    let relation = pick(random, &["=", "==", "!=", ">", "<", ">=", "<="]);
    format!("{} {relation} {}", sum(random, 2), sum(random, 1))
}

fn sum(random: &mut Rng, depth: u32) -> String {
    match random.u8(..10) {
        0..=3 if depth > 0 => {
            let operator =
                pick(random, &["+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>", "&", "&"]);
            let (left, right) = (sum(random, depth - 1), sum(random, depth - 1));
            if random.bool() {
                format!("{left} {operator} {right}")
            } else {
                format!("({left} {operator} {right})")
            }
        }
        4..=6 => {
            let protocol = match random.u8(..4) {
                0 => pick(random, PROTOCOLS),
                _ => pick(random, &["ether", "ip", "tcp", "udp", "icmp", "ip6", "icmp6"]),
            };
            let index = match random.u8(..4) {
                0 if depth > 0 => sum(random, depth - 1),
                1 => pick(random, &["tcpflags", "icmptype", "icmp6type", "icmpcode"]).into(),
                _ => random.u32(..40).to_string(),
            };
            let size = pick(random, &["", "", ":1", ":2", ":4", ":3"]);
            format!("{protocol}[{index}{size}]")
        }
        7 => "len".into(),
        8 => pick(random, &["tcp-syn", "tcp-ack", "icmp-echo", "icmp6-echo", "tcp-fin"]).into(),
        _ => pick(random, &["0", "1", "2", "5", "0x0f", "8", "255", "40", "0x1fff", "-1", "32"])
            .into(),
    }
}

#[test]
#[ignore = "needs libpcap"]
fn random_expressions_are_compiled_as_by_the_system() {
    let frames: Vec<_> = corpus::packets().into_iter().collect();
    let packets = frames
        .iter()
        .filter(|frame| frame.len() > ETHERNET)
        .map(|frame| frame[ETHERNET..].to_vec());
    let packets: Vec<_> = packets.collect();
    for (link, packets) in [(DLT_EN10MB, &frames), (DLT_RAW, &packets)] {
        let [taken, by_chance, refused, wanted] = compare(link, packets);
        assert!(taken > EXPRESSIONS / 5 && refused > EXPRESSIONS / 4, "{taken}, {refused}");
        println!(
            "link {link}: {taken} expressions taken, {by_chance} of them not compared, \
             {refused} refused, {wanted} packets wanted"
        );
    }
}

/// Compiles expressions for a link, and runs the programs: how many were taken, how many of those
/// were not compared, how many refused, and how many packets were wanted.
fn compare(link: i32, packets: &[Vec<u8>]) -> [u64; 4] {
    let system = System::on(link);
    let mut different = Vec::new();
    let [mut taken, mut by_chance, mut refused, mut wanted] = [0; 4];
    for seed in 0..EXPRESSIONS {
        let random = &mut Rng::with_seed(seed);
        let text = expression(random, 3);
        let theirs = system.compile(&text, false);
        let ours = compile((link, Frames::Whole), SNAP_LENGTH, &text, None);
        match (ours, theirs) {
            (Ok(ours), Ok(theirs)) => {
                taken += 1;
                let program = both(&ours);
                // libpcap's programs that read unwritten scratch memory decide by chance.
                if matches!(Program::new(&theirs), Err(Invalid::Unwritten { .. })) {
                    assert!(text.contains("geneve"), "{text}");
                    by_chance += 1;
                    continue;
                }
                for _ in 0..PACKETS {
                    let packet = changed(random, packets);
                    let length = packet.len() as u32;
                    let decided = program.accepts(&packet, length);
                    wanted += u64::from(decided > 0);
                    if decided != system.accepts(&theirs, &packet, length) {
                        different.push(format!("{text}, on {packet:02x?}"));
                        break;
                    }
                }
            }
            (Err(_), Err(_)) => refused += 1,
            (Err(error), Ok(_)) => different.push(format!("{text}: {error}")),
            (Ok(_), Err(error)) => different.push(format!("{text}: {error}, in libpcap")),
        }
    }
    different.sort_by_key(String::len);
    let shortest = &different[..different.len().min(20)];
    assert!(different.is_empty(), "link {link}: {}: {shortest:#?}", different.len());
    [taken, by_chance, refused, wanted]
}

/// A packet of a network, or one that has become something else.
pub(super) fn changed(random: &mut Rng, packets: &[Vec<u8>]) -> Vec<u8> {
    let mut packet = random.choice(packets).unwrap().clone();
    for _ in 0..random.u8(..3) {
        if !packet.is_empty() {
            let at = random.usize(..packet.len().min(60));
            packet[at] = random.u8(..);
        }
    }
    if random.u8(..4) == 0 {
        packet.truncate(random.usize(..=packet.len()));
    }
    packet
}
