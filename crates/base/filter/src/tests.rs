//! Filters beside tcpdump.

use std::{fs, path::Path, process::Command};

use linerate_port::pcap;

use super::*;

/// Expressions, and which of the [`packets`] tcpdump 4.99.3 with libpcap 1.10.3
/// accepts; its programs not improved, since an improved one no longer looks at
/// all that packets cut short do not have.
pub(super) const ANSWERS: &str = include_str!("answers.txt");

const SECOND: u64 = 1_000_000_000;

pub(super) fn names<'a>() -> Names<'a> {
    Names {
        port: &|name, _| {
            let known = [("ftp-data", 20), ("ftp", 21), ("domain", 53)];
            known.iter().find(|(known, _)| *known == name).map(|(_, port)| *port)
        },
        protocol: &|name| {
            let known = [("icmp", 1), ("tcp", 6), ("udp", 17)];
            known.iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
        },
        ..Names::NONE
    }
}

pub(super) fn ethernet(kind: u16, rest: &[u8]) -> Vec<u8> {
    let addresses = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]].concat();
    [&addresses, &kind.to_be_bytes()[..], rest].concat()
}

pub(super) fn ipv4(protocol: u8, fragment: u16, options: usize, rest: &[u8]) -> Vec<u8> {
    let mut header = vec![0; 20 + options];
    header[0] = 0x45 + (options / 4) as u8;
    header[3] = (20 + options + rest.len()) as u8;
    header[6..8].copy_from_slice(&fragment.to_be_bytes());
    header[8..10].copy_from_slice(&[64, protocol]);
    header[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 1, 2, 3]);
    [header, rest.to_vec()].concat()
}

pub(super) fn ipv6(next: u8, rest: &[u8]) -> Vec<u8> {
    let mut header = vec![0; 40];
    header[..8].copy_from_slice(&[0x60, 0, 0, 0, 0, rest.len() as u8, next, 64]);
    header[8..12].copy_from_slice(&[0x20, 1, 0xd, 0xb8]);
    header[23] = 1;
    header[24..26].copy_from_slice(&[0xff, 2]);
    header[39] = 1;
    [header, rest.to_vec()].concat()
}

/// Packets of all kinds that filters tell apart.
pub(super) fn packets() -> Vec<Vec<u8>> {
    let ports = |source: u16, destination: u16, rest: &[u8]| {
        [&source.to_be_bytes(), &destination.to_be_bytes(), rest].concat()
    };
    let tcp = |flags: u8| ports(1024, 80, &[0, 0, 0, 0, 0, 0, 0, 0, 0x50, flags, 0, 9, 0, 0, 0, 0]);
    let udp = |source, destination| ports(source, destination, &[0, 12, 0, 0, 1, 2, 3, 4]);
    let arp =
        [0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 2, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 9, 9, 9];
    let tagged = |vlan: u16, kind: u16, rest: &[u8]| {
        [&vlan.to_be_bytes(), &kind.to_be_bytes()[..], rest].concat()
    };
    let labels =
        |label: u32, last: bool| (label << 12 | u32::from(last) << 8 | 64).to_be_bytes().to_vec();
    let session = |number: u16, kind: u16, rest: &[u8]| {
        let length = (2 + rest.len()) as u16;
        let fields = [0x1100, number, length, kind].map(u16::to_be_bytes);
        [&fields.concat(), rest].concat()
    };
    let mut packets = vec![
        ethernet(0x800, &ipv4(6, 0, 0, &tcp(2))),
        ethernet(0x800, &ipv4(6, 0, 8, &tcp(0x12))),
        ethernet(0x800, &ipv4(6, 0x2000, 0, &tcp(1))),
        ethernet(0x800, &ipv4(6, 1, 0, &tcp(2))),
        ethernet(0x800, &ipv4(17, 0, 0, &udp(53, 4000))),
        ethernet(0x800, &ipv4(17, 0, 40, &udp(4000, 53))),
        ethernet(0x800, &ipv4(132, 0, 0, &udp(85, 86))),
        ethernet(0x800, &ipv4(1, 0, 0, &[8, 0, 1, 2, 3, 4, 5, 6])),
        ethernet(0x800, &ipv4(1, 0, 4, &[3, 3, 1, 2, 3, 4, 5, 6])),
        ethernet(0x800, &ipv4(2, 0, 0, &[0x16, 0, 0, 0])),
        ethernet(0x806, &arp),
        ethernet(0x8035, &arp),
        ethernet(0x86dd, &ipv6(6, &tcp(2))),
        ethernet(0x86dd, &ipv6(17, &udp(53, 80))),
        ethernet(0x86dd, &ipv6(58, &[128, 0, 0, 0, 0, 0, 0, 0])),
        ethernet(0x86dd, &ipv6(44, &[6, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 80])),
        ethernet(0x8100, &tagged(0x6005, 0x800, &ipv4(6, 0, 0, &tcp(2)))),
        ethernet(0x88a8, &tagged(7, 0x8100, &tagged(5, 0x800, &ipv4(17, 0, 0, &udp(53, 53))))),
        ethernet(0x88b5, &[0; 200]),
        ethernet(100, &[0xaa, 0xaa, 3, 0, 0, 0, 8, 0]),
        ethernet(38, &[0x42, 0x42, 3, 0, 0, 0, 0, 0]),
        ethernet(40, &[0xfe, 0xfe, 3, 0x81, 0, 0, 0, 0]),
        ethernet(40, &[0xfe, 0xfe, 3, 0x83, 0, 0, 0, 0x18]),
        ethernet(40, &[0xe0, 0xe0, 1, 5, 0, 0, 0, 0]),
        ethernet(40, &[0xff, 0xff, 0, 0, 0, 0, 0, 0]),
        ethernet(40, &[0xf0, 0xf0, 2, 0x63, 0, 0, 0, 0]),
        ethernet(40, &[0xaa, 0xaa, 3, 8, 0, 7, 0x80, 0x9b, 0]),
        ethernet(0x8137, &[0xff, 0xff, 0, 30, 0, 0]),
        ethernet(0x6003, &[0; 40]),
        ethernet(0x6004, &[1; 40]),
        ethernet(0x8847, &[labels(5, true), ipv4(6, 0, 0, &tcp(2))].concat()),
        ethernet(0x8847, &[labels(5, false), labels(6, true), ipv6(17, &udp(53, 80))].concat()),
        ethernet(0x8864, &session(7, 0x21, &ipv4(17, 0, 0, &udp(4000, 53)))),
        ethernet(0x8864, &session(8, 0x57, &ipv6(6, &tcp(2)))),
        ethernet(0x8864, &session(8, 0xc021, &[1, 1, 0, 4])),
        ethernet(0x8863, &[0x11, 9, 0, 0, 0, 4, 1, 1, 0, 0]),
        ethernet(0x8100, &tagged(9, 0x8847, &[labels(5, true), ipv4(1, 0, 0, &[8; 8])].concat())),
    ];
    for (destination, index) in [([0xff; 6], 10), ([1, 0, 0x5e, 0, 0, 1], 4)] {
        let mut packet = packets[index].clone();
        packet[..6].copy_from_slice(&destination);
        packets.push(packet);
    }
    let mut multicast = packets[4].clone();
    multicast[30] = 239;
    packets.push(multicast);
    // As far as something that is asked for, and short of it.
    for (index, lengths) in [
        (0, &[13, 14, 23, 24, 33, 34, 36, 37, 38, 47, 48][..]),
        (4, &[22, 24, 35, 36, 37, 38]),
        (7, &[34, 35]),
        (12, &[20, 21, 54, 55, 56, 57, 58]),
        (14, &[54, 55]),
        (16, &[14, 15, 16, 18, 30, 40]),
        (10, &[28, 32, 38, 41]),
    ] {
        let whole = packets[index].clone();
        packets.extend(lengths.iter().map(|length| whole[..*length].to_vec()));
    }
    packets
}

fn decided(expression: &str, packets: &[Vec<u8>]) -> String {
    let filter =
        Filter::new(expression, names()).unwrap_or_else(|error| panic!("{expression}: {error}"));
    packets.iter().map(|packet| if filter.accepts(packet) { '1' } else { '0' }).collect()
}

/// Runs a program as bpf(4) says, and goes backwards where it says so: how many bytes are wanted.
pub(super) fn run(program: &[Instruction], packet: &[u8]) -> u32 {
    let (mut a, mut x, mut memory, mut at) = (0u32, 0u32, [0u32; 16], 0);
    loop {
        let Instruction { code, jt, jf, k } = program[at];
        at += 1;
        let bytes = |place: Option<u32>, size: usize| {
            let bytes = packet.get(place? as usize..)?.get(..size)?;
            Some(bytes.iter().fold(0, |value, byte| value << 8 | u32::from(*byte)))
        };
        let size = [4, 2, 1][usize::from(code >> 3 & 3).min(2)];
        let operand = if code & 8 != 0 { x } else { k };
        let loaded = match code {
            0x20 | 0x28 | 0x30 => bytes(Some(k), size),
            0x40 | 0x48 | 0x50 => bytes(x.checked_add_signed(k as i32), size),
            0x80 => Some(packet.len() as u32),
            0x00 => Some(k),
            0x01 => Some({
                x = k;
                a
            }),
            0x60 => Some(memory[k as usize]),
            0x61 => Some({
                x = memory[k as usize];
                a
            }),
            0xb1 => bytes(Some(k), 1).map(|byte| {
                x = (byte & 15) * 4;
                a
            }),
            0x02 => Some({
                memory[k as usize] = a;
                a
            }),
            0x03 => Some({
                memory[k as usize] = x;
                a
            }),
            0x07 => Some({
                x = a;
                a
            }),
            0x87 => Some(x),
            0x06 => return k,
            0x05 => Some({
                at = at.wrapping_add_signed(k as i32 as isize);
                a
            }),
            _ if code & 7 == 5 => Some({
                let holds = match code & 0xf0 {
                    0x10 => a == operand,
                    0x20 => a > operand,
                    0x30 => a >= operand,
                    _ => panic!("jump {code:#x}"),
                };
                at += usize::from(if holds { jt } else { jf });
                a
            }),
            _ if code & 7 == 4 => match code & 0xf0 {
                0x00 => Some(a.wrapping_add(operand)),
                0x10 => Some(a.wrapping_sub(operand)),
                0x20 => Some(a.wrapping_mul(operand)),
                0x30 => a.checked_div(operand),
                0x40 => Some(a | operand),
                0x50 => Some(a & operand),
                0x60 => Some(a.checked_shl(operand).unwrap_or(0)),
                0x70 => Some(a.checked_shr(operand).unwrap_or(0)),
                0x90 => a.checked_rem(operand),
                0xa0 => Some(a ^ operand),
                _ => panic!("calculation {code:#x}"),
            },
            _ => panic!("instruction {code:#x}"),
        };
        let Some(loaded) = loaded else { return 0 };
        a = loaded;
    }
}

#[test]
fn programs_decide_as_the_filters_they_are_of() {
    let packets = packets();
    for case in ANSWERS.lines() {
        let (answer, expression) = case.split_once(' ').expect("an answer and an expression");
        let filter = Filter::new(expression, names()).unwrap();
        let program = filter.program().unwrap_or_else(|| panic!("no program of {expression}"));
        let wanted = |packet: &Vec<u8>| if run(&program, packet) > 0 { '1' } else { '0' };
        assert_eq!(packets.iter().map(wanted).collect::<String>(), answer, "{expression}");
        // They are the same where nothing is asked for that the kernel does not have.
        assert_eq!(filter.bytecode(u32::MAX), Some(program), "{expression}");
    }
}

#[test]
fn long_programs_jump_far_and_too_long_ones_are_none() {
    let hosts = |count: u32| {
        let host = |number: u32| format!("host 10.0.{}.{}", number >> 8, number & 255);
        let filter = (1..=count).map(host).collect::<Vec<_>>().join(" or ");
        Filter::new(&filter, names()).unwrap()
    };
    let packets = packets();
    for count in [1, 10, 11, 12, 13, 14, 15, 16, 20, 40, 100] {
        let filter = hosts(count);
        let program = filter.program().expect("a program");
        for packet in &packets {
            assert_eq!(run(&program, packet) > 0, filter.accepts(packet), "{count}");
        }
    }
    assert_eq!(hosts(600).program(), None);
    for packet in &packets {
        let (filter, bytes) = (hosts(600), 70);
        let expected = if filter.accepts(packet) { bytes } else { 0 };
        assert_eq!(run(&filter.bytecode(bytes).expect("a program"), packet), expected);
    }
    let calculates = |text: &str| Filter::new(text, names()).unwrap().calculates();
    assert!(calculates("tcp and less 100") && calculates("not (ip[2:2] > 100)"));
    assert!(!calculates("tcp port 80 and (host 10.0.0.1 or vlan)") && !calculates(""));
    // Behind a calculation that the kernel does otherwise.
    let shift = Filter::new("1 << ether[0] = 4", names()).unwrap();
    assert_eq!(shift.program(), None);
    let shifted = shift.bytecode(1).expect("a program");
    for packet in &packets {
        assert_eq!(run(&shifted, packet) > 0, shift.accepts(packet));
    }
    // Neither has more scratch memory.
    let deep = format!("{}1{} = 1", "ether[".repeat(20), "] + (1 * len)".repeat(20));
    let deep = Filter::new(&deep, names()).unwrap();
    assert_eq!((deep.program(), deep.bytecode(1)), (None, None));
}

/// On a link without a header the first bits of packets tell their version.
#[test]
fn packets_without_a_link_s_header_are_chosen_by_their_version() {
    let tcp = [&1024u16.to_be_bytes()[..], &80u16.to_be_bytes(), &[0; 8], &[0x50, 2]].concat();
    let packets = [ipv4(6, 0, 4, &tcp), ipv6(6, &tcp), vec![0x40; 12], Vec::new()];
    for (expression, expected) in [
        ("ip", "1010"),
        ("ip6", "0100"),
        ("not ip", "0100"),
        ("tcp port 80", "1100"),
        ("tcp[13] = 2", "1000"),
        ("host 10.0.0.1", "1000"),
        ("ip6 protochain 6", "0100"),
        ("ether[0] = 0x60", "0100"),
        ("arp or pppoes or stp or isis", "0000"),
        ("not arp", "1111"),
    ] {
        let filter = Filter::on(Link::Raw, expression, names()).expect(expression);
        let program = filter.bytecode(1).expect(expression);
        let decided = |wanted: &dyn Fn(&Vec<u8>) -> bool| -> String {
            packets.iter().map(|packet| if wanted(packet) { '1' } else { '0' }).collect()
        };
        assert_eq!(decided(&|packet| filter.accepts(packet)), expected, "{expression}");
        assert_eq!(decided(&|packet| run(&program, packet) > 0), expected, "{expression}");
    }
    for (expression, error) in [
        ("vlan", "no VLAN support for Raw IP"),
        ("mpls", "no MPLS support for Raw IP"),
        ("llc", "'llc' not supported for Raw IP"),
        ("ether broadcast", "not a broadcast link"),
        ("ether host 2:0:0:0:0:1", "ethernet addresses supported only on ethernet"),
        ("ether multicast", "link-layer multicast filters supported only on ethernet"),
    ] {
        let refused = Filter::on(Link::Raw, expression, names()).map(|_| ());
        assert_eq!(refused, Err(error.into()), "{expression}");
    }
}

#[test]
fn packets_are_chosen_as_tcpdump_chooses_them() {
    let packets = packets();
    let cases: Vec<_> = ANSWERS.lines().collect();
    assert!(cases.len() > 100);
    for case in cases {
        let (answer, expression) = case.split_once(' ').expect("an answer and an expression");
        assert_eq!(decided(expression, &packets), answer, "{expression}");
    }
}

#[test]
fn long_and_deep_expressions_are_refused() {
    let read = |text: &str| Filter::new(text, names()).map(|_| ());
    assert_eq!(read(&format!("{}tcp", "not ".repeat(100))), Ok(()));
    for text in [
        format!("{}tcp", "not ".repeat(101)),
        format!("{}tcp{}", "(".repeat(101), ")".repeat(101)),
        format!("{}1{} = 1", "(".repeat(101), ")".repeat(101)),
        format!("{}1 = 1", "- ".repeat(101)),
        format!("{}0{} = 1", "ip[".repeat(101), "]".repeat(101)),
    ] {
        assert_eq!(read(&text), Err("nested too deeply".into()), "{text}");
    }
    let terms = |count| vec!["host 10.0.0.1"; count].join(" or ");
    assert_eq!(read(&terms(667)), Ok(()));
    assert_eq!(read(&terms(668)), Err("more than 2000 words".into()));
}

/// `RECORD=1 cargo test -p linerate-filter the_answers -- --ignored` writes them.
#[test]
#[ignore = "needs tcpdump"]
fn the_answers_are_those_of_tcpdump() {
    let tcpdump = linerate_test_support::require("tcpdump");
    let folder = std::env::temp_dir().join(format!("linerate-filters-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let (from, to) = (folder.join("from.pcap"), folder.join("to.pcap"));
    let packets = packets();
    let options = pcap::Options::new(pcap::Format::Pcap);
    let mut writer = pcap::Writer::create(&from, &options).unwrap();
    for (at, packet) in packets.iter().enumerate() {
        writer.write(at as u64 * SECOND, packet.len() as u32, packet).unwrap();
    }
    writer.finish().unwrap();
    let mut answers = String::new();
    for case in ANSWERS.lines() {
        let (_, expression) = case.split_once(' ').expect("an answer and an expression");
        let mut command = Command::new(&tcpdump);
        command.arg("-O").arg("-r").arg(&from).arg("-w").arg(&to).arg("--").arg(expression);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{expression}: {output:?}");
        let mut accepted = vec!['0'; packets.len()];
        let mut reader = pcap::Reader::open(&to).unwrap();
        while let Some(record) = reader.next().unwrap() {
            accepted[(record.ts_ns / SECOND) as usize] = '1';
        }
        answers.extend(accepted);
        answers += &format!(" {expression}\n");
    }
    fs::remove_dir_all(folder).unwrap();
    if std::env::var_os("RECORD").is_some() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        fs::write(folder.join("answers.txt"), &answers).unwrap();
    }
    assert_eq!(answers, ANSWERS);
}

#[test]
fn wrong_expressions_are_refused() {
    for (expression, error) in [
        ("ip proto tcp", "syntax error at 'tcp'"),
        ("10.0.0.1", "syntax error at an address"),
        ("tcp 80", "syntax error at '80'"),
        ("tcp udp", "syntax error at 'udp'"),
        ("src 10.0.0.0/8", "Mask syntax for networks only"),
        ("net 10.0.0.1/8", "non-network bits set in a network"),
        ("net 10/8", "syntax error at '/'"),
        ("host 10.0.0.256", "invalid IPv4 address '10.0.0.256'"),
        ("host www.example.org", "unknown host 'www.example.org'"),
        ("net www.example.org", "unknown network 'www.example.org'"),
        ("ether host www.example.org", "unknown ether host 'www.example.org'"),
        ("port no-such", "unknown port 'no-such'"),
        ("port 70000", "illegal port number 70000 > 65535"),
        ("ip proto \\nothing", "unknown ip proto 'nothing'"),
        ("ether proto \\nothing", "unknown ether proto 'nothing'"),
        ("iso proto \\nothing", "unknown osi proto 'nothing'"),
        ("portrange 1-nothing", "unknown port in range '1-nothing'"),
        ("vlan 4096", "VLAN tag 4096 greater than maximum 4095"),
        ("host 2:0:0:0:0:1", "ethernet address used in non-ether expression"),
        ("ether host 10.0.0.1", "illegal link layer address"),
        ("arp port 80", "illegal qualifier of 'port'"),
        ("udp[4:3] = 1", "data size must be 1, 2, or 4"),
        ("10 / 0 = 1", "division by zero"),
        ("icmp[0] = 8 or 3", "syntax error at '3'"),
        ("geneve 16777216", "Geneve VNI 16777216 greater than maximum 16777215"),
        ("geneve and ip protochain 6", "'protochain' not supported with variable length headers"),
        ("tcp protochain 6", "bad protocol applied for 'protochain'"),
        ("byte 5 >= 6", "syntax error at '>='"),
        ("byte 5 & 6", "'byte' with '&' looks at nothing in libpcap: write ether[5] & NUMBER != 0"),
        ("decnet host foo", "decnet name support not included, 'foo' cannot be translated"),
        ("isis proto \\foo", "unknown isis proto 'foo'"),
        ("l1[0] = 1", "unsupported index operation"),
        ("mpls 1048576", "MPLS label 1048576 greater than maximum 1048575"),
        ("mpls and arp", "unsupported protocol over mpls"),
        ("mpls and vlan", "no VLAN match after MPLS"),
        ("pppoes 65536", "PPPoE session number 65536 greater than maximum 65535"),
        ("pppoes and vlan", "no VLAN support for PPP"),
        ("pppoes and ether src 2:0:0:0:0:1", "ethernet addresses supported only on ethernet"),
        ("pppoes and broadcast", "not a broadcast link"),
        ("llc what", "unknown LLC type name \"what\""),
        ("stp[0] = 1", "unsupported index operation"),
        (
            "tcp and inbound",
            "inbound/outbound not supported on Ethernet: a port has a direction, as with -Q in",
        ),
        ("gateway snup", "'gateway' not supported in this configuration"),
        ("vpi 3", "'vpi' supported only on raw ATM"),
        ("host msu", "'msu' supported only on MTP2"),
        ("ip broadcast", "netmask not known, so 'ip broadcast' not supported"),
        ("ip6 broadcast", "only link-layer/IP broadcast filters supported"),
        ("(tcp", "syntax error: something is missing at the end"),
        ("tcp)", "syntax error at ')'"),
        ("tcp $ 2", "illegal character '$'"),
        ("len", "syntax error: something is missing at the end"),
    ] {
        let found = Filter::new(expression, names()).map(|_| ());
        assert_eq!(found, Err(error.to_owned()), "{expression}");
    }
}

/// As the kernel's filter of a socket, which gets frames without their outer tag.
#[test]
fn tags_are_beside_frames_where_the_filter_has_them_there() {
    let frame = |tags: &[u16]| {
        let tags = tags.iter().flat_map(|tag| [0x81, 0, (tag >> 8) as u8, *tag as u8]);
        let udp = [&[8, 0, 0x45][..], &[0; 8], &[17], &[0; 34]].concat();
        [vec![2; 12], tags.collect(), udp].concat()
    };
    let sent = [frame(&[]), frame(&[100]), frame(&[200, 100])];
    for (text, wanted) in [
        ("udp", [true, true, false]),
        ("udp and vlan", [false, true, false]),
        ("vlan and udp", [false, true, false]),
        ("vlan 200 and vlan 100 and udp", [false, false, true]),
        ("vlan 100", [false, true, false]),
        ("not vlan", [true, false, false]),
        ("ether proto 0x8100", [false, false, true]),
        ("less 60", [true, true, false]),
    ] {
        let filter = Filter::on(Link::Untagged, text, Names::NONE).unwrap();
        let mut frames = sent.clone();
        let found = frames.each_mut().map(|frame| {
            let length = frame.len() as u32;
            filter.accepts_tagged(frame, length)
        });
        assert_eq!(found, wanted, "{text}");
        assert_eq!(frames, sent, "{text}: they are as they were");
    }
}
