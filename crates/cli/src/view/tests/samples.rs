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
    four_with(&[], ends, protocol, payload)
}

/// With options in the header.
fn four_with(options: &[u8], ends: [Ipv4Addr; 2], protocol: u8, payload: &[u8]) -> Vec<u8> {
    let length = (20 + options.len() + payload.len()) as u16;
    let mut header =
        vec![0x45, 0, 0, 0, 0x12, 0x34, 0x40, 0, 64, protocol, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    header[0] += (options.len() / 4) as u8;
    header[2..4].copy_from_slice(&length.to_be_bytes());
    header[12..16].copy_from_slice(&ends[0].octets());
    header[16..20].copy_from_slice(&ends[1].octets());
    header.extend(options);
    let sum = checksum::checksum(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    ethernet(0x0800, &[&header[..], payload].concat())
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
    tcp_of(80, to_server, flags, numbers, options, data)
}

/// A segment to or from `port` of the server.
fn tcp_of(
    port: u16,
    to_server: bool,
    flags: u8,
    numbers: [u32; 2],
    options: &[u8],
    data: &[u8],
) -> Vec<u8> {
    let (ends, ports) = if to_server {
        ([CLIENT, SERVER], [40_000_u16, port])
    } else {
        ([SERVER, CLIENT], [port, 40_000])
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

/// A header of DNS, and its sections.
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
    packets.extend(dhcp());
    packets.extend(discovery());
    packets.extend(listeners());
    packets.extend(extended());
    packets.extend(time_stamps());
    packets.extend(dns_in_streams());
    packets
}

/// An option of DHCP.
fn option(kind: u8, data: &[u8]) -> Vec<u8> {
    [&[kind, data.len() as u8][..], data].concat()
}

/// Messages of DHCP with options of every form, whole and not.
fn dhcp() -> Vec<Vec<u8>> {
    let message = |operation: u8, names: [&[u8]; 2], vendor: &[u8]| {
        let mut bytes = vec![0; 236];
        bytes[..12].copy_from_slice(&[operation, 1, 6, 0, 0xde, 0xad, 0xbe, 0xef, 0, 3, 0, 0]);
        bytes[28..34].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
        bytes[44..44 + names[0].len()].copy_from_slice(names[0]);
        bytes[108..108 + names[1].len()].copy_from_slice(names[1]);
        bytes.extend(vendor);
        bytes
    };
    let cookie = [0x63_u8, 0x82, 0x53, 0x63];
    let with = |options: &[Vec<u8>]| [&cookie[..], &options.concat(), &[255, 0, 0]].concat();
    let discover = with(&[
        option(53, &[1]),
        option(61, &[1, 2, 0, 0, 0, 0, 1]),
        vec![0, 0],
        option(50, &[192, 0, 2, 7]),
        option(12, b"host"),
        option(55, &[1, 3, 6, 12, 15, 28, 42, 51, 54, 58, 59, 121, 26, 33, 44, 47, 43, 66, 67]),
        option(57, &[5, 0xdc]),
        option(60, b"MSFT 5.0"),
    ]);
    let routes =
        [&[24_u8, 10, 1, 2, 192, 0, 2, 3][..], &[0, 192, 0, 2, 1], &[25, 9, 8, 7, 6]].concat();
    let offer = with(&[
        option(53, &[2]),
        option(54, &[192, 0, 2, 1]),
        option(51, &86_400_u32.to_be_bytes()),
        option(1, &[255, 255, 255, 0]),
        option(6, &[192, 0, 2, 53, 192, 0, 2, 54]),
        option(2, &(-3600_i32).to_be_bytes()),
        option(19, &[1]),
        option(20, &[0]),
        option(34, &[2]),
        option(33, &[10, 0, 0, 0, 10, 0, 0, 1]),
        option(46, &[8]),
        option(46, &[3]),
        option(46, &[1, 2, 3]),
        option(52, &[3]),
        option(77, b"\x03abc\x02de"),
        option(77, b"class"),
        option(77, b"\0a"),
        option(81, b"\x05\x01\x02host"),
        option(81, b"\x00\x00\x00host"),
        option(82, b"\x01\x04eth0\x02\x03abc\x06\x02xy"),
        option(93, &[0, 7]),
        option(97, &[0, 1, 2, 3]),
        option(121, &routes),
        option(249, &[33, 1, 2, 3, 4, 5]),
        option(12, b"a\x01\xe4\x7f"),
    ]);
    let odd = with(&[
        option(53, &[]),
        option(53, &[1, 2]),
        option(53, &[10]),
        option(50, &[1, 2]),
        option(51, &[0, 0, 0, 1, 9]),
        option(26, &[1, 2, 3]),
        option(12, b""),
        option(61, b""),
        option(61, b"\0abc"),
        option(61, &[6, 1, 2]),
        option(61, &[255, 1, 2]),
        option(77, b"a"),
        option(82, &[1]),
        option(82, &[1, 9, 1]),
        option(46, b""),
        option(121, &[1]),
        option(33, &[1, 2, 3, 4]),
    ]);
    let messages = [
        message(1, [b"", b""], &discover),
        message(2, [b"server", b"pxelinux.0"], &offer),
        message(2, [b"", b""], &odd),
        message(1, [b"", b""], &[&cookie[..], &[12, 9, 1, 2, 3]].concat()),
        message(1, [b"", b""], &[&cookie[..], &[12]].concat()),
        message(1, [b"", b""], &[1, 2, 3, 4]),
        message(1, [b"", b""], b""),
        message(1, [b"", b""], b"")[..100].to_vec(),
    ];
    let send = |data: &Vec<u8>| udp([Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST], [68, 67], data);
    messages.iter().map(send).collect()
}

/// Messages of neighbour discovery with their options, whole and not.
fn discovery() -> Vec<Vec<u8>> {
    let message = |kind: u8, body: &[u8]| {
        let bytes = [&[kind, 0, 0, 0][..], body].concat();
        let pseudo = checksum::pseudo_v6(SIX[0], SIX[1], IpProtocol::ICMPV6, bytes.len() as u32);
        six(58, &summed(bytes, 2, pseudo))
    };
    let (one, other) = (SIX[0].octets(), SIX[1].octets());
    let station = [2_u8, 0, 0, 0, 0, 9];
    let own = [&[1_u8, 1][..], &station].concat();
    let prefix = |flags: u8, times: [u32; 2]| {
        let times = times.map(u32::to_be_bytes).concat();
        [&[3, 4, 64, flags][..], &times, &[0; 4], &one].concat()
    };
    let week = 604_800_u32.to_be_bytes();
    let options = [
        own.clone(),
        vec![5, 1, 0, 0, 0, 0, 5, 0xdc],
        vec![5, 2, 0, 0, 0, 0, 5, 0xdc, 0, 0, 0, 0, 0, 0, 0, 0],
        vec![7, 1, 0, 0, 0, 0, 3, 0xe8],
        vec![8, 1, 0, 0, 0, 5, 7, 8],
        prefix(0xc0, [86_400, u32::MAX]),
        prefix(0x20, [0, 0]),
        [&[24, 1, 0, 0][..], &u32::MAX.to_be_bytes()].concat(),
        [&[24, 2, 48, 8][..], &week, &one[..8]].concat(),
        [&[24, 3, 128, 0x18][..], &week, &one].concat(),
        [&[25, 5, 0, 0][..], &week, &one, &other].concat(),
        [&[31, 4, 0, 0][..], &week, b"\x07example\x03com\0\x01b\0", &[0; 8]].concat(),
    ]
    .concat();
    let router = |flags: u8| [64, flags, 7, 8, 0, 0, 0x75, 0x30, 0, 0, 3, 0xe8];
    let solicited = |flags: u8, target: &[u8], options: &[u8]| {
        [&[flags, 0, 0, 0][..], target, options].concat()
    };
    let theirs = [&[2_u8, 1][..], &station].concat();
    vec![
        message(133, &[&[0_u8; 4][..], &own].concat()),
        message(133, &[0; 4]),
        message(134, &[&router(0xc0)[..], &options].concat()),
        message(134, &router(0x2a)),
        message(134, &router(0x18)),
        message(134, &router(0x10)[..6]),
        message(134, &[&router(0)[..], &[1, 9, 2, 3]].concat()),
        message(134, &[&router(0)[..], &[1]].concat()),
        message(135, &solicited(0, &one, &own)),
        message(135, &solicited(0, &one[..9], &[])),
        message(135, &solicited(0, &one, &[1, 0, 1, 2, 3, 4, 5, 6])),
        message(136, &solicited(0xe0, &one, &theirs)),
        message(136, &solicited(0, &one, &[])),
        message(137, &solicited(0, &one, &[&other[..], &theirs].concat())),
        message(137, &solicited(0, &one, &[&other[..], &[4, 1, 0, 0, 0, 0, 0, 0]].concat())),
    ]
}

const GROUPS: [Ipv6Addr; 2] =
    [Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 1), Ipv6Addr::new(0xff05, 0, 0, 0, 0, 0, 0, 2)];

/// A message behind an option that alerts routers, as all of multicast listener discovery are.
fn alerting(bytes: Vec<u8>) -> Vec<u8> {
    let pseudo = checksum::pseudo_v6(SIX[0], SIX[1], IpProtocol::ICMPV6, bytes.len() as u32);
    six(0, &[&[58, 0, 5, 2, 0, 0, 1, 0][..], &summed(bytes, 2, pseudo)].concat())
}

/// A record of a report that says `count` sources.
fn record(kind: u8, group: Ipv6Addr, count: u8, sources: &[Ipv6Addr]) -> Vec<u8> {
    let mut bytes = vec![kind, 0, 0, count];
    [group].iter().chain(sources).for_each(|address| bytes.extend(address.octets()));
    bytes
}

fn report_of(count: u8, records: &[Vec<u8>]) -> Vec<u8> {
    [vec![143, 0, 0, 0, 0, 0, 0, count], records.concat()].concat()
}

/// A report of two groups.
pub(super) fn report() -> Vec<u8> {
    let records = [record(4, GROUPS[0], 0, &[]), record(5, GROUPS[1], 1, &SIX[1..])];
    alerting(report_of(2, &records))
}

/// Messages of multicast listener discovery, whole and not.
fn listeners() -> Vec<Vec<u8>> {
    let first = |kind: u8, delay: [u8; 2]| {
        [&[kind, 0, 0, 0, delay[0], delay[1], 0, 0][..], &GROUPS[0].octets()].concat()
    };
    let query = |delay: [u8; 2], flags: u8, interval: u8, count: u8, sources: &[Ipv6Addr]| {
        let sources: Vec<u8> = sources.iter().flat_map(Ipv6Addr::octets).collect();
        [first(130, delay), vec![flags, interval, 0, count], sources].concat()
    };
    let mut bytes = vec![
        first(130, [0x27, 0x10]),
        first(131, [0, 0]),
        first(132, [0, 0]),
        first(131, [0, 0])[..14].to_vec(),
        first(132, [0, 0])[..8].to_vec(),
        first(130, [0, 0])[..12].to_vec(),
        query([3, 0xe8], 2, 125, 0, &[])[..26].to_vec(),
        query([3, 0xe8], 0x0a, 125, 2, &SIX),
        query([3, 0xe8], 0, 125, 3, &SIX),
        report_of(0, &[]),
        report_of(1, &[]),
        report_of(2, &[record(1, GROUPS[0], 1, &SIX[..1])]),
        report_of(1, &[record(1, GROUPS[0], 3, &SIX)]),
        report_of(0, &[])[..6].to_vec(),
    ];
    for (delay, interval) in
        [([0x7f, 0xff], 0x7f), ([0x80, 0], 0x80), ([0x81, 0x23], 0x93), ([0xff, 0xff], 0xff)]
    {
        bytes.push(query(delay, 7, interval, 0, &[]));
    }
    bytes.extend((0..8).map(|kind| report_of(1, &[record(kind, GROUPS[1], 2, &SIX)])));
    bytes.into_iter().map(alerting).chain([report()]).collect()
}

/// Pings and datagrams behind extension headers, whole and not.
fn extended() -> Vec<Vec<u8>> {
    let pseudo = |protocol| checksum::pseudo_v6(SIX[0], SIX[1], protocol, 12);
    let ping = summed([128, 0, 0, 0, 0, 7, 0, 1, 1, 2, 3, 4].into(), 2, pseudo(IpProtocol::ICMPV6));
    let datagram = summed(udp_bytes([1000, 9], b"wxyz"), 6, pseudo(IpProtocol::UDP));
    let options: [&[u8]; 12] = [
        &[58, 0, 5, 2, 0, 7, 0, 0],
        &[58, 0, 1, 4, 0, 0, 0, 0],
        &[58, 0, 0, 0, 0, 0, 0, 0],
        &[58, 0, 0x1e, 4, 1, 2, 3, 4],
        &[58, 0, 0x3e, 0, 1, 2, 0, 0],
        &[58, 0, 0xc2, 4, 0, 1, 2, 3],
        &[58, 0, 0xc2, 3, 0, 1, 2, 0],
        &[58, 0, 5, 3, 0, 0, 1, 0],
        &[58, 0, 5, 9, 0, 0, 1, 0],
        &[58, 0, 1, 3, 0, 0, 0, 5],
        &[58, 2, 0xc9, 16, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 1, 2, 0, 0],
        &[58, 0, 4, 1, 1, 0, 0, 0],
    ];
    let both = options.iter().flat_map(|options| [(0, *options), (60, *options)]);
    let mut packets: Vec<Vec<u8>> =
        both.map(|(next, options)| six(next, &[options, &ping].concat())).collect();
    let alert = |next: u8| [next, 0, 5, 2, 0, 0, 1, 0];
    let fragment = |next: u8, offset: u8| [next, 0, 0, offset, 0, 0, 0, 9];
    for (next, bytes) in [
        (0, [&alert(60)[..], &alert(58), &ping].concat()),
        (0, [&alert(17)[..], &datagram].concat()),
        (44, [&fragment(58, 1)[..], &ping].concat()),
        (44, [&fragment(58, 0)[..], &ping].concat()),
        (44, [&fragment(58, 9)[..], &ping].concat()),
        (0, [&alert(44)[..], &fragment(17, 1), &datagram].concat()),
        (0, alert(59).to_vec()),
        (0, [&alert(99)[..], b"abc"].concat()),
        (0, alert(58).to_vec()),
        (0, alert(58)[..4].to_vec()),
        (58, Vec::new()),
        (59, Vec::new()),
    ] {
        packets.push(six(next, &bytes));
    }
    packets
}

/// The option of IPv4 with times, also with mistakes.
fn time_stamps() -> Vec<Vec<u8>> {
    let host = [10_u8, 0, 0, 1];
    let (early, late) = (1000_u32.to_be_bytes(), 86_399_999_u32.to_be_bytes());
    let ends = [CLIENT, SERVER];
    let with = |pointer: u8, flags: u8, times: &[[u8; 4]]| {
        let times = times.concat();
        let option = [&[68, 4 + times.len() as u8, pointer, flags][..], &times].concat();
        let bytes = udp_bytes([1, 2], b"hi");
        let pseudo = checksum::pseudo_v4(ends[0], ends[1], IpProtocol::UDP, bytes.len() as u16);
        four_with(&option, ends, 17, &summed(bytes, 6, pseudo))
    };
    vec![
        with(9, 0, &[early, late]),
        with(13, 0, &[early, late]),
        with(13, 1, &[host, early, host, late]),
        with(5, 3, &[host, late]),
        with(9, 3, &[host, late]),
        with(5, 2, &[early]),
        with(13, 0x30, &[early, late]),
        with(1, 0, &[early]),
    ]
}

/// Segments to and from a server of DNS: a message each, or other data.
fn dns_in_streams() -> Vec<Vec<u8>> {
    let question = dns(0x0100, [1, 0, 0, 0], &[QUESTION]);
    let answer = dns(0x8180, [1, 1, 0, 0], &[QUESTION, ADDRESS]);
    let behind = |length: usize, data: &[u8]| [&(length as u16).to_be_bytes()[..], data].concat();
    let send =
        |to_server: bool, data: &[u8]| tcp_of(53, to_server, 0x18, [70_000, 90_000], &[], data);
    vec![
        send(true, &behind(question.len(), &question)),
        send(false, &behind(answer.len(), &answer)),
        send(false, &behind(answer.len() * 2, &answer)),
        send(false, &behind(answer.len(), &[])),
        send(false, &[0]),
        send(false, &[]),
    ]
}
