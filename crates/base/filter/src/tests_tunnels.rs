//! Tunnels, chains of headers, and other rare headers: by packets made for it.

use std::net::IpAddr;

use super::{
    Filter, Names,
    tests::{ethernet, ipv4, ipv6, names, run},
};

const BRIDGED: u16 = 0x6558;

fn udp(port: u16, rest: &[u8]) -> Vec<u8> {
    let length = 8 + rest.len() as u16;
    let fields = [4000, port, length, 0].map(u16::to_be_bytes);
    [&fields.concat(), rest].concat()
}

fn tcp(port: u16) -> Vec<u8> {
    [&[4, 0][..], &port.to_be_bytes(), &[0; 8], &[0x50, 2, 0, 9, 0, 0, 0, 0]].concat()
}

/// With so many bytes of options.
fn geneve(options: usize, kind: u16, network: u8, inside: &[u8]) -> Vec<u8> {
    let [high, low] = kind.to_be_bytes();
    let header = [(options / 4) as u8, 0, high, low, 0, 0, network, 0];
    udp(6081, &[&header[..], &vec![0; options], inside].concat())
}

/// Frames with tunnels in them, and some that only look so.
pub(super) fn tunnels() -> Vec<Vec<u8>> {
    let four = |rest: &[u8]| ethernet(0x800, &ipv4(17, 0, 0, rest));
    let frame = ethernet(0x800, &ipv4(6, 0, 0, &tcp(80)));
    let plain = four(&geneve(0, BRIDGED, 5, &frame));
    let tagged = [&[0, 9, 0x86, 0xdd][..], &ipv6(6, &tcp(80))].concat();
    let mut other_version = plain.clone();
    other_version[42] = 0x40;
    let mut fragment = plain.clone();
    fragment[21] = 1;
    let arp = ethernet(0x806, &[0, 1, 8, 0, 6, 4, 0, 1]);
    vec![
        plain.clone(),
        ethernet(0x800, &ipv4(17, 0, 8, &geneve(8, 0x800, 11, &ipv4(17, 0, 0, &udp(53, &[]))))),
        ethernet(0x86dd, &ipv6(17, &geneve(4, BRIDGED, 5, &ethernet(0x8100, &tagged)))),
        other_version,
        four(&udp(6082, &[0; 60])),
        frame,
        fragment,
        four(&geneve(0, BRIDGED, 7, &four(&geneve(0, BRIDGED, 1, &arp)))),
        plain[..45].to_vec(),
        plain[..48].to_vec(),
    ]
}

pub(super) const IN_TUNNELS: &[(&str, &[usize])] = &[
    ("geneve", &[0, 1, 2, 7, 9]),
    ("geneve 5", &[0, 2]),
    ("geneve 0xb && ip", &[1]),
    ("geneve and ip", &[0, 1, 7]),
    ("udp and geneve", &[0, 1, 2, 7, 9]),
    ("geneve and udp port 53", &[1]),
    ("geneve and tcp", &[0]),
    ("geneve and tcp port 80", &[0]),
    ("geneve and tcp[2:2] = 80", &[0]),
    ("geneve and tcp[tcp[12] >> 7] = 4", &[0]),
    ("geneve and ip[9] = 6", &[0]),
    ("geneve and ip[ip[0] >> 3] = 64", &[0, 1, 7]),
    ("geneve and vlan 9 and ip6 and tcp", &[2]),
    ("geneve and ether host 2:0:0:0:0:1", &[0, 2, 7]),
    ("geneve and not ether broadcast", &[0, 1, 2, 7]),
    ("geneve and broadcast", &[]),
    ("geneve and geneve", &[7]),
    ("geneve 7 and geneve 1 and arp", &[7]),
    ("not geneve", &[3, 4, 5, 6]),
];

/// Chains of headers behind those of IP.
pub(super) fn chains() -> Vec<Vec<u8>> {
    let six = |next: u8, rest: &[&[u8]]| ethernet(0x86dd, &ipv6(next, &rest.concat()));
    let header = |next: u8, words: u8| {
        let mut header = vec![0; 8 + 8 * usize::from(words)];
        (header[0], header[1]) = (next, words);
        header
    };
    let authentication = |next: u8| {
        let mut header = vec![0; 24];
        (header[0], header[1]) = (next, 4);
        header
    };
    let behind_options = six(0, &[&header(60, 0), &header(6, 0), &tcp(80)]);
    vec![
        ethernet(0x800, &ipv4(6, 0, 0, &tcp(80))),
        ethernet(0x800, &ipv4(51, 0, 0, &[authentication(6), tcp(80)].concat())),
        behind_options.clone(),
        six(43, &[&header(44, 1), &header(17, 0), &udp(53, &[])]),
        six(59, &[]),
        six(51, &[&authentication(6), &tcp(80)]),
        behind_options[..63].to_vec(),
        // Here libpcap loses its way.
        six(51, &[&authentication(60), &header(6, 0), &tcp(80)]),
    ]
}

pub(super) const IN_CHAINS: &[(&str, &[usize])] = &[
    ("protochain 6", &[0, 1, 2, 5]),
    ("protochain \\tcp", &[0, 1, 2, 5]),
    ("ip protochain 6", &[0, 1]),
    ("ip6 protochain 6", &[2, 5]),
    ("ip6 protochain 6 or 17", &[2, 3, 5]),
    ("ip6 protochain 44", &[3]),
    ("protochain 51", &[1, 5, 7]),
    ("ip6 protochain 59", &[4]),
    ("ip6 and not protochain 6", &[3, 4, 7]),
];

/// Frames of old and rare protocols.
pub(super) fn rare() -> Vec<Vec<u8>> {
    let decnet = |flags: &[u8], at: usize| {
        let mut packet = vec![0; 30];
        packet[2..2 + flags.len()].copy_from_slice(flags);
        // To 1.1, from 1.2.
        packet[at..at + 2].copy_from_slice(&[1, 4]);
        let source = at + if at < 6 { 2 } else { 8 };
        packet[source..source + 2].copy_from_slice(&[2, 4]);
        ethernet(0x6003, &packet)
    };
    let is_is = |kind: u8| ethernet(40, &[0xfe, 0xfe, 3, 0x83, 0, 0, 0, kind]);
    vec![
        decnet(&[0x02], 3),
        decnet(&[0x81, 0x02], 4),
        decnet(&[0x06], 9),
        decnet(&[0x81, 0x06], 10),
        is_is(15),
        is_is(17),
        is_is(20),
        is_is(24),
        is_is(27),
        ethernet(40, &[0xfe, 0xfe, 3, 0x82, 0, 0, 0, 24]),
    ]
}

pub(super) const AMONG_RARE: &[(&str, &[usize])] = &[
    ("decnet dst 1.1", &[0, 1, 2, 3]),
    ("decnet src 1.2", &[0, 1, 2, 3]),
    ("decnet host 1.2", &[0, 1, 2, 3]),
    ("decnet src or dst host 1.1", &[0, 1, 2, 3]),
    ("decnet src 1.1 or decnet host 1.3", &[]),
    ("decnet src and dst 1.1", &[]),
    ("l1", &[4, 5, 7]),
    ("l2", &[5, 6, 8]),
    ("iih", &[4, 5]),
    ("lsp", &[6]),
    ("snp", &[7, 8]),
    ("csnp or psnp", &[7, 8]),
    ("isis proto 24", &[7]),
    ("isis and not l1", &[6, 8]),
    ("byte 12 = 0x60", &[0, 1, 2, 3]),
    ("byte 13 > 39 and byte 13 < 41", &[4, 5, 6, 7, 8, 9]),
    ("ether[13] ^ 43 = 3", &[4, 5, 6, 7, 8, 9]),
    ("2 + 1 ^ 3 = 4 and l1", &[4, 5, 7]),
    ("6 ^ 2 & 4 = 6 and iih", &[4, 5]),
];

/// Packets wanted, by a filter and by its program, if there is one.
fn chosen(expression: &str, names: Names<'_>, packets: &[Vec<u8>]) -> Vec<usize> {
    let filter = Filter::new(expression, names).unwrap_or_else(|e| panic!("{expression}: {e}"));
    let wanted = |by: &dyn Fn(&Vec<u8>) -> bool| -> Vec<usize> {
        (0..packets.len()).filter(|at| by(&packets[*at])).collect()
    };
    let chosen = wanted(&|packet| filter.accepts(packet));
    for program in [filter.program(), filter.bytecode(1)].into_iter().flatten() {
        assert_eq!(wanted(&|packet| run(&program, packet) > 0), chosen, "{expression}");
    }
    chosen
}

#[test]
fn rare_headers_are_found() {
    for (packets, cases) in [(tunnels(), IN_TUNNELS), (chains(), IN_CHAINS), (rare(), AMONG_RARE)] {
        for (expression, expected) in cases {
            assert_eq!(chosen(expression, names(), &packets), *expected, "{expression}");
        }
    }
    let program = |text: &str| Filter::new(text, names()).unwrap().program();
    assert!(program("geneve and geneve and geneve and ip").is_some());
    assert_eq!(program("ip6 protochain 6"), None, "the kernel has no loops");
    assert!(Filter::new("ip6 protochain 6", names()).unwrap().bytecode(1).is_some());
}

/// There is no tunnel to look into, where none was found.
#[test]
fn conditions_beside_a_tunnel_are_of_the_outer_headers() {
    let packets = tunnels();
    assert_eq!(chosen("geneve or arp", names(), &packets), [0, 1, 2, 7, 9]);
    assert_eq!(chosen("not geneve and not ip", names(), &packets), [3, 4, 5, 6]);
}

#[test]
fn tunnels_in_tunnels_have_an_end() {
    let nested = |depth| Filter::new(&vec!["geneve"; depth].join(" and "), names()).map(|_| ());
    assert_eq!(nested(5), Ok(()));
    assert_eq!(nested(6), Err("too many registers needed to evaluate expression".into()));
}

#[test]
fn networks_have_broadcasts_by_their_mask() {
    let to = |address: [u8; 4]| {
        let mut packet = ethernet(0x800, &ipv4(17, 0, 0, &udp(53, &[])));
        packet[30..34].copy_from_slice(&address);
        packet
    };
    let packets = [[10, 1, 2, 3], [10, 1, 2, 255], [10, 1, 2, 0], [10, 1, 255, 255], [255; 4]];
    let packets = packets.map(to);
    let broadcasts =
        |mask: u32| chosen("ip broadcast", Names { netmask: Some(mask), ..Names::NONE }, &packets);
    assert_eq!(broadcasts(0xffff_ff00), [1, 2, 3, 4]);
    assert_eq!(broadcasts(0xffff_0000), [3, 4]);
    assert_eq!(broadcasts(0), [4]);
}

#[test]
fn names_stand_for_their_numbers() {
    let frames = [
        ethernet(0x800, &ipv4(6, 0, 0, &tcp(22))),
        ethernet(0x800, &ipv4(17, 0, 0, &udp(22, &[]))),
        ethernet(0x86dd, &ipv6(6, &tcp(22))),
    ];
    let known = Names {
        port: &|name, protocol| match (name, protocol) {
            ("ssh", 6) | ("same", 6 | 17) => Some(22),
            ("two", 6) => Some(23),
            ("two", 17) => Some(22),
            ("syslog", 17) => Some(514),
            _ => None,
        },
        host: &|name| match name {
            "both" => vec![IpAddr::from([10, 1, 2, 3]), "2001:db8::1".parse().expect("valid")],
            "four" => vec![IpAddr::from([10, 0, 0, 1])],
            _ => Vec::new(),
        },
        network: &|name| (name == "ten").then_some(10),
        station: &|name| (name == "printer").then_some([2, 0, 0, 0, 0, 1]),
        ..names()
    };
    for (expression, expected) in [
        ("host both", &[0, 1, 2][..]),
        ("ip host both", &[0, 1]),
        ("ip6 host both", &[2]),
        ("src host four and not dst both", &[]),
        ("host four or both", &[0, 1, 2]),
        ("net ten", &[0, 1]),
        ("ether host printer and ip6", &[2]),
        ("port ssh", &[0, 2]),
        ("port same", &[0, 1, 2]),
        ("udp port same", &[1]),
        // Of two ports of one name that of TCP goes first.
        ("port two", &[]),
        ("portrange ssh-ssh", &[0, 2]),
        ("portrange 20-ssh", &[0, 1, 2]),
        ("portrange ssh-syslog", &[0, 1, 2]),
        ("tcp portrange ssh-ssh", &[0, 2]),
    ] {
        assert_eq!(chosen(expression, known, &frames), *expected, "{expression}");
    }
    for (expression, error) in [
        ("udp port ssh", "port 'ssh' is tcp"),
        ("sctp port syslog", "port 'syslog' is udp"),
        ("ip6 host four", "unknown host 'four' for specified address family"),
        ("host six", "unknown host 'six'"),
        ("tcp portrange ssh", "unknown port in range 'ssh'"),
        ("ether host both", "unknown ether host 'both'"),
        ("net both", "unknown network 'both'"),
    ] {
        assert_eq!(Filter::new(expression, known).map(|_| ()), Err(error.into()), "{expression}");
    }
}

/// `len` is the length a packet had.
#[test]
fn packets_that_were_cut_have_their_length() {
    let filter = Filter::new("greater 100 or len = 70", Names::NONE).unwrap();
    let packet = [0; 60];
    assert!(!filter.accepts(&packet) && !filter.accepts_cut(&packet, 99));
    assert!(filter.accepts_cut(&packet, 1500) && filter.accepts_cut(&packet, 70));
}
