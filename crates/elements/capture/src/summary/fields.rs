//! Table of the fields of IP summary dumps.

use super::{
    Datum, Draft, Field, Form, Width,
    form::Mask,
    inject as put, proto,
    view::{Header, View, u16_at, u32_at},
};
use linerate_element_support::annotations;

/// Fields of a line are put into a packet in the order of these.
mod order {
    pub(super) const ANNOTATION: u16 = 100;
    pub(super) use super::LINK;
    pub(super) const NETWORK: u16 = 300;
    pub(super) const TRANSPORT: u16 = 400;
    pub(super) const PAYLOAD: u16 = 500;
}

/// The order of the fields of the link's header.
pub(super) const LINK: u16 = 200;

type Extract = for<'a> fn(&mut View<'a>) -> Option<Datum<'a>>;
type Inject = fn(&mut Draft, Datum<'_>);

const fn field(
    name: &'static str,
    form: Form,
    width: Width,
    order: u16,
    extract: Extract,
    inject: Inject,
) -> Field {
    Field { name, form, width, order, extract, inject: Some(inject) }
}

/// A field that is only written.
const fn written(name: &'static str, form: Form, width: Width, extract: Extract) -> Field {
    Field { name, form, width, order: order::PAYLOAD, extract, inject: None }
}

fn number(value: impl Into<u64>) -> Option<Datum<'static>> {
    Some(Datum::Number(value.into()))
}

/// A field that no packet has.
pub(crate) const NONE: Field =
    Field { order: order::ANNOTATION, ..written("none", Form::Number, B0, |_| None) };

const B0: Width = Width::Bytes(0);
const B1: Width = Width::Bytes(1);
const B2: Width = Width::Bytes(2);
const B4: Width = Width::Bytes(4);
const B6: Width = Width::Bytes(6);
const B8: Width = Width::Bytes(8);
const B16: Width = Width::Bytes(16);

/// All fields.
pub(crate) const FIELDS: &[Field] = &[
    // Annotations of the packet.
    field("timestamp", Form::Time, Width::Micro, order::ANNOTATION, |v| number(v.time), put::time),
    field("ntimestamp", Form::Time, Width::Nano, order::ANNOTATION, |v| number(v.time), put::time),
    field(
        "ts_sec",
        Form::Number,
        B4,
        order::ANNOTATION,
        |v| number(v.time / 1_000_000_000),
        |d, value| d.time = value.number() * 1_000_000_000 + d.time % 1_000_000_000,
    ),
    field(
        "ts_usec",
        Form::Number,
        B4,
        order::ANNOTATION,
        |v| number(v.time % 1_000_000_000 / 1000),
        |d, value| d.time = d.time - d.time % 1_000_000_000 + value.number() % 1_000_000 * 1000,
    ),
    field(
        "ts_usec1",
        Form::Number,
        B8,
        order::ANNOTATION,
        |v| number(v.time / 1000),
        |d, value| d.time = value.number().saturating_mul(1000),
    ),
    field(
        "first_timestamp",
        Form::Time,
        Width::Micro,
        order::ANNOTATION,
        |v| number(annotations::first_time(v.meta)),
        put::first_time,
    ),
    field(
        "first_ntimestamp",
        Form::Time,
        Width::Nano,
        order::ANNOTATION,
        |v| number(annotations::first_time(v.meta)),
        put::first_time,
    ),
    field(
        "count",
        Form::Number,
        B4,
        order::ANNOTATION,
        |v| number(v.count),
        |d, value| d.extra_packets = (value.number() as u32).saturating_sub(1),
    ),
    field("link", Form::Link, B1, order::ANNOTATION, |v| number(v.meta.paint), put::paint),
    field("paint", Form::Link, B1, order::ANNOTATION, |v| number(v.meta.paint), put::paint),
    field(
        "direction",
        Form::Direction,
        B1,
        order::ANNOTATION,
        |v| number(v.meta.paint),
        put::paint,
    ),
    field(
        "aggregate",
        Form::Number,
        B4,
        order::ANNOTATION,
        |v| number(annotations::aggregate(v.meta)),
        |d, value| d.aggregate = value.number() as u32,
    ),
    field(
        "wire_len",
        Form::Number,
        B4,
        order::ANNOTATION,
        |v| number(v.bytes.len() as u64),
        |d, value| d.want = value.number() as usize,
    ),
    // Ethernet.
    field(
        "eth_src",
        Form::Ethernet,
        B6,
        order::LINK,
        |v| v.ethernet().map(|header| Datum::Bytes(&header[6..12])),
        |d, value| put::ethernet(d, 6, value.bytes()),
    ),
    field(
        "eth_dst",
        Form::Ethernet,
        B6,
        order::LINK,
        |v| v.ethernet().map(|header| Datum::Bytes(&header[..6])),
        |d, value| put::ethernet(d, 0, value.bytes()),
    ),
    field(
        "eth_type",
        Form::EtherType,
        B2,
        order::LINK,
        |v| v.ethernet().and_then(|header| number(u16_at(header, 12))),
        put::ethertype,
    ),
    // IP.
    field(
        "ip_src",
        Form::Address,
        B4,
        order::NETWORK,
        |v| v.ip(16).and_then(|ip| number(u32_at(ip, 12))),
        |d, value| put::ip32(d, 12, value),
    ),
    field(
        "ip_dst",
        Form::Address,
        B4,
        order::NETWORK,
        |v| v.ip(20).and_then(|ip| number(u32_at(ip, 16))),
        |d, value| put::ip32(d, 16, value),
    ),
    field(
        "ip_tos",
        Form::Number,
        B1,
        order::NETWORK,
        |v| v.ip(2).and_then(|ip| number(ip[1])),
        |d, value| put::ip_bits(d, 1, 0xff, value.number()),
    ),
    field(
        "ip_dscp",
        Form::Number,
        B1,
        order::NETWORK,
        |v| v.ip(2).and_then(|ip| number(ip[1] >> 2)),
        |d, value| put::ip_bits(d, 1, 0xfc, value.number() << 2),
    ),
    field(
        "ip_ecn",
        Form::Ecn,
        B1,
        order::NETWORK,
        |v| v.ip(2).and_then(|ip| number(ip[1] & 3)),
        |d, value| put::ip_bits(d, 1, 3, value.number()),
    ),
    field(
        "ip_ttl",
        Form::Number,
        B1,
        order::NETWORK,
        |v| v.ip(9).and_then(|ip| number(ip[8])),
        |d, value| put::ip_bits(d, 8, 0xff, value.number()),
    ),
    field(
        "ip_frag",
        Form::Fragment,
        B1,
        order::NETWORK - 2,
        |v| {
            let offset = u16_at(v.ip(8)?, 6);
            let kind = match offset {
                _ if offset & 0x1fff != 0 => b'f',
                _ if offset & 0x2000 != 0 => b'F',
                _ if offset & 0x4000 != 0 => b'!',
                _ => b'.',
            };
            number(kind)
        },
        |d, value| put::ip16(d, 6, value),
    ),
    field(
        "ip_fragoff",
        Form::Offset,
        B2,
        order::NETWORK - 1,
        |v| v.ip(8).and_then(|ip| number(u16_at(ip, 6))),
        |d, value| put::ip16(d, 6, value),
    ),
    field(
        "ip_id",
        Form::Number,
        B2,
        order::NETWORK,
        |v| v.ip(6).and_then(|ip| number(u16_at(ip, 4))),
        |d, value| put::ip16(d, 4, value),
    ),
    field(
        "ip_sum",
        Form::Number,
        B2,
        order::NETWORK + 2,
        |v| v.ip(12).and_then(|ip| number(u16_at(ip, 10))),
        |d, value| put::ip16(d, 10, value),
    ),
    field(
        "ip_proto",
        Form::Protocol,
        B1,
        order::NETWORK,
        |v| v.ip(10).and_then(|ip| number(ip[9])),
        |d, value| put::ip_bits(d, 9, 0xff, value.number()),
    ),
    field(
        "ip_hl",
        Form::Number,
        B1,
        order::NETWORK - 1,
        |v| v.ip(1).and_then(|ip| number((ip[0] & 15) * 4)),
        put::ip_header_length,
    ),
    field(
        "ip_len",
        Form::Number,
        B4,
        order::NETWORK + 1,
        |v| {
            let length = v.ip.map_or(v.len() as u64, |ip| u64::from(u16_at(ip, 2)));
            number(length + if v.with_extra { u64::from(v.extra) } else { 0 })
        },
        put::ip_length,
    ),
    field(
        "ip_capture_len",
        Form::Number,
        B4,
        order::PAYLOAD + 2,
        |v| {
            let length = v.ip.map_or(v.len(), |ip| ip.len().min(usize::from(u16_at(ip, 2))));
            number(length as u64)
        },
        // The captured length follows from the bytes there.
        |d, _| {
            d.make_ip(0);
        },
    ),
    field("ip_opt", Form::IpOptions, Width::Counted, order::NETWORK, ip_options, put::ip_options),
    // Ports.
    field(
        "sport",
        Form::Number,
        B2,
        order::TRANSPORT,
        |v| port(v, 0),
        |d, value| put::port(d, 0, value),
    ),
    field(
        "dport",
        Form::Number,
        B2,
        order::TRANSPORT,
        |v| port(v, 2),
        |d, value| put::port(d, 2, value),
    ),
    // TCP.
    field(
        "tcp_seq",
        Form::Number,
        B4,
        order::TRANSPORT,
        |v| v.tcp(8).and_then(|tcp| number(u32_at(tcp, 4))),
        |d, value| put::tcp(d, 4, &(value.number() as u32).to_be_bytes()),
    ),
    field(
        "tcp_ack",
        Form::Number,
        B4,
        order::TRANSPORT,
        |v| v.tcp(12).and_then(|tcp| number(u32_at(tcp, 8))),
        |d, value| put::tcp(d, 8, &(value.number() as u32).to_be_bytes()),
    ),
    field(
        "tcp_off",
        Form::Number,
        B1,
        order::TRANSPORT - 1,
        |v| v.tcp(13).and_then(|tcp| number(tcp[12] >> 4 << 2)),
        put::tcp_offset,
    ),
    field(
        "tcp_flags",
        Form::Flags,
        B1,
        order::TRANSPORT,
        |v| v.tcp(14).and_then(|tcp| number(u16_at(tcp, 12) & 0x0fff)),
        put::tcp_flags,
    ),
    field(
        "tcp_window",
        Form::Number,
        B2,
        order::TRANSPORT,
        |v| v.tcp(16).and_then(|tcp| number(u16_at(tcp, 14))),
        |d, value| put::tcp(d, 14, &(value.number() as u16).to_be_bytes()),
    ),
    field(
        "tcp_urp",
        Form::Number,
        B2,
        order::TRANSPORT,
        |v| v.tcp(20).and_then(|tcp| number(u16_at(tcp, 18))),
        |d, value| put::tcp(d, 18, &(value.number() as u16).to_be_bytes()),
    ),
    field(
        "tcp_opt",
        Form::TcpOptions(Mask::All),
        Width::Counted,
        order::TRANSPORT + 3,
        |v| tcp_options(v, false),
        put::tcp_options,
    ),
    field(
        "tcp_ntopt",
        Form::TcpOptions(Mask::NotTime),
        Width::Counted,
        order::TRANSPORT + 2,
        |v| tcp_options(v, true),
        put::tcp_options,
    ),
    field(
        "tcp_sack",
        Form::TcpOptions(Mask::Sack),
        Width::Counted,
        order::TRANSPORT + 1,
        |v| tcp_options(v, true),
        put::tcp_options,
    ),
    // UDP.
    field(
        "udp_len",
        Form::Number,
        B4,
        order::TRANSPORT,
        |v| v.udp(6).and_then(|udp| number(u16_at(udp, 4))),
        put::udp_length,
    ),
    // ICMP.
    field(
        "icmp_type",
        Form::IcmpType { named: false },
        B1,
        order::TRANSPORT,
        |v| v.icmp(1).and_then(|icmp| number(icmp[0])),
        put::icmp_type,
    ),
    field(
        "icmp_code",
        Form::IcmpCode { named: false },
        B1,
        order::TRANSPORT + 1,
        |v| v.icmp(2).and_then(|icmp| number(icmp[1])),
        put::icmp_code,
    ),
    field(
        "icmp_type_name",
        Form::IcmpType { named: true },
        B1,
        order::TRANSPORT,
        |v| v.icmp(1).and_then(|icmp| number(icmp[0])),
        put::icmp_type,
    ),
    field(
        "icmp_code_name",
        Form::IcmpCode { named: true },
        B1,
        order::TRANSPORT + 1,
        |v| v.icmp(2).and_then(|icmp| number(icmp[1])),
        put::icmp_code,
    ),
    field(
        "icmp_flowid",
        Form::Number,
        B2,
        order::TRANSPORT + 2,
        |v| icmp_sequenced(v, 4),
        |d, value| put::icmp_sequenced(d, 4, value),
    ),
    field(
        "icmp_seq",
        Form::Number,
        B2,
        order::TRANSPORT + 2,
        |v| icmp_sequenced(v, 6),
        |d, value| put::icmp_sequenced(d, 6, value),
    ),
    field(
        "icmp_nextmtu",
        Form::Number,
        B2,
        order::TRANSPORT + 2,
        |v| {
            if v.icmp(2)?[..2] != [3, 4] {
                return None;
            }
            v.icmp(8).and_then(|icmp| number(u16_at(icmp, 6)))
        },
        put::icmp_next_mtu,
    ),
    // Bytes behind the headers.
    field(
        "payload_len",
        Form::Number,
        B4,
        order::PAYLOAD + 1,
        |v| {
            let (_, length) = v.payload();
            let counted = v.ip.is_none() || v.with_extra;
            number(length.wrapping_add(if counted { v.extra } else { 0 }))
        },
        |d, value| put::payload_length(d, value.number() as usize),
    ),
    field(
        "payload",
        Form::Payload,
        Width::Text,
        order::PAYLOAD,
        |v| v.payload_bytes().map(Datum::Bytes),
        |d, value| put::payload(d, value.bytes()),
    ),
    written("payload_md5", Form::Digest { hex: false }, B16, |v| {
        v.payload_bytes().map(Datum::Bytes)
    }),
    written("payload_md5_hex", Form::Digest { hex: true }, B16, |v| {
        v.payload_bytes().map(Datum::Bytes)
    }),
];

fn ip_options<'a>(v: &mut View<'a>) -> Option<Datum<'a>> {
    let header = v.ip.map_or(20, |ip| usize::from(ip[0] & 15) * 4);
    let ip = v.ip.filter(|ip| header <= 20 || ip.len() >= header);
    match ip {
        Some(ip) => Some(Datum::Bytes(ip.get(20..header).unwrap_or_default())),
        None => v.missing(Header::Ip, header),
    }
}

fn port(v: &mut View<'_>, at: usize) -> Option<Datum<'static>> {
    let here = v.ip.is_some_and(|ip| {
        ip.len() > usize::from(ip[0] & 15) * 4
            && ip.get(9).is_some_and(|protocol| proto::has_ports(*protocol))
    });
    if here && v.is_first_fragment() && v.transport.len() >= at + 2 {
        return number(u16_at(v.transport, at));
    }
    v.missing(Header::Ports, at + 2)
}

/// The options of a TCP header. Where times are of no interest, options that
/// are nothing but a time need not be there in full.
fn tcp_options<'a>(v: &mut View<'a>, timeless: bool) -> Option<Datum<'a>> {
    let need = v.transport.len() + 1;
    let Some(tcp) = v.tcp.filter(|tcp| tcp.len() >= 13) else {
        return v.missing(Header::Tcp, need);
    };
    let header = usize::from(tcp[12] >> 4) * 4;
    if header <= 20 || timeless && header == 32 && u32_at(tcp, 20) == 0x0101_080a {
        return Some(Datum::Bytes(&[]));
    }
    match tcp.get(20..header) {
        Some(options) => Some(Datum::Bytes(options)),
        None => v.missing(Header::Tcp, need),
    }
}

fn icmp_sequenced(v: &mut View<'_>, at: usize) -> Option<Datum<'static>> {
    if !put::is_sequenced(v.icmp(1)?[0]) {
        return None;
    }
    v.icmp(at + 2).and_then(|icmp| number(u16_at(icmp, at)))
}
