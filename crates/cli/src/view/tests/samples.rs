//! Packets of conversations, with the checksums they should have.

use std::net::{Ipv4Addr, Ipv6Addr};

use linerate_packet::{IpProtocol, checksum};

const CLIENT: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 10);
const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 53);
const SIX: [Ipv6Addr; 2] = [
    Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1),
    Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2),
];

fn ethernet(kind: u16, packet: &[u8]) -> Vec<u8> {
    [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2][..], &kind.to_be_bytes(), packet].concat()
}

fn four(ends: [Ipv4Addr; 2], protocol: u8, payload: &[u8]) -> Vec<u8> {
    let length = (20 + payload.len()) as u16;
    let mut header =
        [0x45, 0, 0, 0, 0x12, 0x34, 0x40, 0, 64, protocol, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    header[2..4].copy_from_slice(&length.to_be_bytes());
    header[12..16].copy_from_slice(&ends[0].octets());
    header[16..20].copy_from_slice(&ends[1].octets());
    let sum = checksum::checksum(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    ethernet(0x0800, &[&header, payload].concat())
}

fn six(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u16).to_be_bytes();
    let header = [&[0x60, 0x12, 0x34, 0x56][..], &length, &[protocol, 64]].concat();
    let addresses = [SIX[0].octets(), SIX[1].octets()].concat();
    ethernet(0x86dd, &[&header[..], &addresses, payload].concat())
}

fn summed(mut payload: Vec<u8>, at: usize, mut pseudo: checksum::Sum) -> Vec<u8> {
    pseudo.add_bytes(&payload);
    payload[at..at + 2].copy_from_slice(&pseudo.finish().to_be_bytes());
    payload
}

fn udp_bytes(ports: [u16; 2], data: &[u8]) -> Vec<u8> {
    let length = 8 + data.len() as u16;
    let header = [ports[0].to_be_bytes(), ports[1].to_be_bytes(), length.to_be_bytes(), [0, 0]];
    [&header.concat(), data].concat()
}

fn udp(ends: [Ipv4Addr; 2], ports: [u16; 2], data: &[u8]) -> Vec<u8> {
    let bytes = udp_bytes(ports, data);
    let pseudo = checksum::pseudo_v4(ends[0], ends[1], IpProtocol::UDP, bytes.len() as u16);
    four(ends, 17, &summed(bytes, 6, pseudo))
}

/// A segment to or from port 80 of the server.
fn tcp(to_server: bool, flags: u8, numbers: [u32; 2], options: &[u8], data: &[u8]) -> Vec<u8> {
    let (ends, ports) = if to_server {
        ([CLIENT, SERVER], [40_000_u16, 80])
    } else {
        ([SERVER, CLIENT], [80, 40_000])
    };
    let words = (5 + options.len() / 4) as u8;
    let bytes = [
        &ports.map(u16::to_be_bytes).concat()[..],
        &numbers.map(u32::to_be_bytes).concat(),
        &[words << 4, flags, 0x20, 0, 0, 0, 0, 0],
        options,
        data,
    ]
    .concat();
    let pseudo = checksum::pseudo_v4(ends[0], ends[1], IpProtocol::TCP, bytes.len() as u16);
    four(ends, 6, &summed(bytes, 16, pseudo))
}

/// A header of DNS, and what follows.
fn dns(flags: u16, counts: [u16; 4], sections: &[&[u8]]) -> Vec<u8> {
    let header = [[0x30, 0x39], flags.to_be_bytes()].concat();
    [&header[..], &counts.map(u16::to_be_bytes).concat(), &sections.concat()].concat()
}

const QUESTION: &[u8] = b"\x07example\x03com\0\0\x01\0\x01";
const QUESTION_SIX: &[u8] = b"\x07example\x03com\0\0\x1c\0\x01";
const ADDRESS: &[u8] = b"\xc0\x0c\0\x01\0\x01\0\0\x0e\x10\0\x04\xc6\x33\x64\x07";
const ALIAS: &[u8] = b"\xc0\x0c\0\x05\0\x01\0\0\x01\x2c\0\x06\x03www\xc0\x0c";
const MAIL: &[u8] = b"\xc0\x0c\0\x0f\0\x01\0\x01\x51\x80\0\x09\0\x0a\x04mail\xc0\x0c";
const TEXT: &[u8] = b"\xc0\x0c\0\x10\0\x01\0\0\0\x3c\0\x06\x05v=one";
const EDNS: &[u8] = b"\0\0\x29\x04\xd0\0\0\x80\0\0\0";

pub(super) fn packets() -> Vec<Vec<u8>> {
    let (question, answer) = ([CLIENT, SERVER], [SERVER, CLIENT]);
    let ask = |data: &[u8]| udp(question, [5000, 53], data);
    let say = |data: &[u8]| udp(answer, [53, 5000], data);
    let discover = [
        &[1, 1, 6, 0, 0xde, 0xad, 0xbe, 0xef, 0, 3, 0x80, 0][..],
        &[0; 16],
        &[2, 0, 0, 0, 0, 1],
        &[0; 266],
    ]
    .concat();
    let unreachable = {
        let quoted = &udp(question, [1, 2], &[0; 8])[14..];
        let bytes = [&[3, 3, 0, 0, 0, 0, 0, 0][..], quoted].concat();
        four(answer, 1, &summed(bytes, 2, checksum::Sum::default()))
    };
    let echo = |kind| [kind, 0, 0, 0, 0, 7, 0, 1, 1, 2, 3, 4].to_vec();
    let echo_six = |kind| {
        let pseudo = checksum::pseudo_v6(SIX[0], SIX[1], IpProtocol::ICMPV6, 12);
        six(58, &summed(echo(kind), 2, pseudo))
    };
    let mut broken = tcp(true, 0x10, [5, 6], &[], b"");
    broken[14 + 20 + 16] ^= 1;
    let mut packets = vec![
        ask(&dns(0x0100, [1, 0, 0, 0], &[QUESTION])),
        ask(&dns(0x0100, [1, 0, 0, 1], &[QUESTION_SIX, EDNS])),
        say(&dns(0x8180, [1, 2, 0, 0], &[QUESTION, ALIAS, ADDRESS])),
        say(&dns(0x8583, [1, 0, 0, 0], &[QUESTION])),
        say(&dns(0x8100, [1, 2, 0, 0], &[QUESTION, MAIL, TEXT])),
        ask(&dns(0x0100, [1, 0, 0, 0], &[b"\0\0\x02\0\x01"])),
        udp(
            [CLIENT, Ipv4Addr::new(224, 0, 0, 251)],
            [5353, 5353],
            &dns(0, [1, 0, 0, 0], &[QUESTION]),
        ),
        udp([Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST], [68, 67], &discover),
        unreachable,
        four(question, 1, &summed(echo(8), 2, checksum::Sum::default())),
        four(question, 1, &echo(8)),
        echo_six(128),
        echo_six(129),
        broken,
    ];
    let (mine, theirs) = (4_000_000_000_u32, 1_000_000_u32);
    let request = b"GET /index.html HTTP/1.1\r\nHost: example.com\r\n\r\n";
    let reply = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
    let stamps = [1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2];
    let sack =
        [&[1, 1, 5, 10][..], &(mine + 10).to_be_bytes(), &(mine + 20).to_be_bytes()].concat();
    packets.extend([
        tcp(true, 0x02, [mine, 0], &[2, 4, 5, 0xb4], b""),
        tcp(false, 0x12, [theirs, mine + 1], &[2, 4, 5, 0xb4], b""),
        tcp(true, 0x10, [mine + 1, theirs + 1], &[], b""),
        tcp(true, 0x18, [mine + 1, theirs + 1], &stamps, request),
        tcp(false, 0x10, [theirs + 1, mine + 1 + request.len() as u32], &sack, b""),
        tcp(false, 0x18, [theirs + 1, mine + 1 + request.len() as u32], &[], reply),
        tcp(true, 0x11, [mine + 1 + request.len() as u32, theirs + 1], &[], b""),
        tcp(true, 0x04, [mine + 1, 0], &[], b""),
    ]);
    packets
}
