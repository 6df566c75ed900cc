//! IPv4 and IPv6.

use std::{
    fmt::Write as _,
    net::{IpAddr, Ipv4Addr},
};

use linerate_packet::{
    IpProtocol,
    checksum::Sum,
    ipv6_ext::{UpperLayer, upper_layer},
};

use super::{View, extensions, number, transport};

const LEAST: usize = 20;
const IPV6_HEADER: usize = 40;

/// One end of a packet, and the other.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ends {
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
}

impl Ends {
    /// `10.0.0.1 > 10.0.0.2: `
    pub(super) fn write(&self, to: &mut String) {
        let _ = write!(to, "{} > {}: ", self.source, self.destination);
    }

    /// `10.0.0.1.1024 > 10.0.0.2.80: `
    pub(super) fn write_with(&self, ports: (u32, u32), to: &mut String) {
        let _ = write!(to, "{}.{} > {}.{}: ", self.source, ports.0, self.destination, ports.1);
    }
}

/// Writes a packet that had so many bytes more when it was captured.
pub(super) fn four(packet: &[u8], missing: usize, view: &mut View, to: &mut String) {
    let header = |at: usize| packet.get(at..).and_then(<[u8]>::first_chunk::<4>).copied();
    let (Some(source), Some(destination)) = (header(12), header(16)) else {
        to.push_str("[|ip]");
        return;
    };
    let length = usize::from(packet[0] & 15) * 4;
    if length < LEAST {
        let _ = write!(to, "bad-hlen {length}");
        return;
    }
    let total = number::<2>(packet, 2).unwrap_or(0) as usize;
    // A packet that an interface is to cut into segments has no length yet.
    let had = packet.len() + missing;
    let total = if total == 0 { had } else { total };
    if total < length {
        let _ = write!(to, "bad-len {total}");
        return;
    }
    if had < total {
        let _ = write!(to, "truncated-ip - {} bytes missing! ", total - had);
    }
    let ends = Ends { source: source.into(), destination: destination.into() };
    let fragment = number::<2>(packet, 6).unwrap_or(0);
    let protocol = packet[9];
    let end = total.min(packet.len());
    if view.style.verbose > 0 {
        four_header(packet, length, total, to);
    }
    if fragment & 0x1fff != 0 {
        ends.write(to);
        let _ = write!(to, "ip-proto-{protocol}");
        return;
    }
    let carried = transport::IpPayload {
        ends,
        introduced: false,
        bytes: packet.get(length..end).unwrap_or_default(),
        length: total - length,
        fragmented: fragment & 0x3fff != 0,
        last: packet.get(LEAST..length).and_then(source_route).map_or(ends.destination, IpAddr::V4),
    };
    transport::write(&carried, IpProtocol(protocol), view, to);
}

/// Writes the fields of the header but the addresses: `length` bytes of a packet of `total`.
fn four_header(packet: &[u8], length: usize, total: usize, to: &mut String) {
    let (service, hops, protocol) = (packet[1], packet[8], packet[9]);
    let _ = write!(to, "(tos {service:#x}");
    to.push_str(["", ",ECT(1)", ",ECT(0)", ",CE"][usize::from(service & 3)]);
    if hops > 0 {
        let _ = write!(to, ", ttl {hops}");
    }
    let fragment = number::<2>(packet, 6).unwrap_or(0);
    let flags = [(0x2000, "+"), (0x4000, "DF"), (0x8000, "rsvd")];
    let flags: Vec<_> =
        flags.into_iter().filter(|(bit, _)| fragment & bit != 0).map(|(_, name)| name).collect();
    let _ = write!(
        to,
        ", id {}, offset {}, flags [{}], proto {} ({protocol}), length {total}",
        number::<2>(packet, 4).unwrap_or(0),
        (fragment & 0x1fff) * 8,
        if flags.is_empty() { "none".into() } else { flags.join(", ") },
        protocol_name(protocol),
    );
    if let Some(options) = packet.get(LEAST..length).filter(|options| !options.is_empty()) {
        let _ = write!(to, ", options ({})", options_text(options));
    }
    if let Some(header) = packet.get(..length) {
        let (said, computed) = transport::sums(header, 10, Sum::default());
        if said != computed {
            let _ = write!(to, ", bad cksum {said:x} (->{computed:x})!");
        }
    }
    to.push_str(")\n    ");
}

/// Options one after the other: the kind and all bytes of each.
fn each_option(mut options: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let (kind, rest) = options.split_first()?;
        let length = match (kind, rest) {
            (0, _) => options.len(),
            (1, _) => 1,
            (_, [length, ..]) if *length >= 2 => usize::from(*length).min(options.len()),
            _ => options.len(),
        };
        let (option, rest) = options.split_at(length);
        options = rest;
        Some((*kind, option))
    })
}

/// Last destination of a packet with a source route.
fn source_route(options: &[u8]) -> Option<Ipv4Addr> {
    let (_, route) = each_option(options).find(|(kind, _)| matches!(kind, 131 | 137))?;
    Some(Ipv4Addr::from(*route.get(3..)?.last_chunk::<4>()?))
}

fn options_text(options: &[u8]) -> String {
    let texts = each_option(options).map(|(kind, option)| match kind {
        0 => "EOL".into(),
        1 => "NOP".into(),
        7 => format!("RR{}", route_text(option)),
        68 => format!("timestamp {}", times_text(option)),
        130 => "security".into(),
        131 => format!("LSRR{}", route_text(option)),
        137 => format!("SSRR{}", route_text(option)),
        148 => "RA".into(),
        other => format!("unknown {other}"),
    });
    texts.collect::<Vec<_>>().join(",")
}

/// The addresses of a route; behind those that were passed there is a comma.
fn route_text(option: &[u8]) -> String {
    let pointer = option.get(2).map_or(0, |pointer| usize::from(*pointer).saturating_sub(1));
    let addresses = option.get(3..).unwrap_or_default().as_chunks::<4>().0;
    let texts = (3..).step_by(4).zip(addresses).map(|(at, address)| {
        format!(" {}{}", Ipv4Addr::from(*address), if pointer > at { "," } else { "" })
    });
    texts.collect()
}

/// The times at which routers passed a packet on, in milliseconds since midnight, and the addresses
/// of those routers (RFC 791). The next entry is behind `^`.
fn times_text(option: &[u8]) -> String {
    let [_, length, pointer, flags, times @ ..] = option else {
        return format!("TS{{[bad length {}]}}", option.len());
    };
    let mut text = String::from("TS{");
    // Beside a time there is an address, but where there are only times.
    let size = if flags & 15 == 0 { 4 } else { 8 };
    let (length, next) = (usize::from(*length), usize::from(*pointer).wrapping_sub(1));
    if !length.wrapping_sub(4).is_multiple_of(size) {
        let _ = write!(text, "[bad length {length}]");
    }
    if next < 4 || !(next - 4).is_multiple_of(size) || next > length + 1 {
        let _ = write!(text, "[bad ptr {pointer}]");
    }
    match flags & 15 {
        0 => text.push_str("TSONLY"),
        1 => text.push_str("TS+ADDR"),
        3 => text.push_str("PRESPEC"),
        other => {
            let _ = write!(text, "[bad ts type {other}]}}");
            return text;
        }
    }
    let mark = |at: usize| if at == next { " ^ " } else { " " };
    for (at, entry) in (4..).step_by(size).zip(times.chunks_exact(size)) {
        let time = number::<4>(entry, size - 4).unwrap_or(0);
        let _ = write!(text, "{}{time}@", mark(at));
        if size == 8 {
            let _ = write!(text, "{}", Ipv4Addr::from(number::<4>(entry, 0).unwrap_or(0)));
        }
    }
    if next == length {
        text.push_str(" ^ ");
    }
    match flags >> 4 {
        0 => text.push('}'),
        missed => {
            let _ = write!(text, " [{missed} hops not recorded]}} ");
        }
    }
    text
}

fn protocol_name(protocol: u8) -> &'static str {
    match protocol {
        0 => "Options",
        1 => "ICMP",
        2 => "IGMP",
        4 => "IPIP",
        6 => "TCP",
        8 => "EGP",
        9 => "IGRP",
        17 => "UDP",
        33 => "DCCP",
        41 => "IPv6",
        43 => "Routing",
        44 => "Fragment",
        46 => "RSVP",
        47 => "GRE",
        50 => "ESP",
        51 => "AH",
        55 => "Mobile IP",
        58 => "ICMPv6",
        88 => "EIGRP",
        89 => "OSPF",
        103 => "PIM",
        108 => "Compressed IP",
        112 => "VRRP",
        113 => "PGM",
        132 => "SCTP",
        _ => "unknown",
    }
}

/// Writes a packet that had so many bytes more when it was captured.
pub(super) fn six(packet: &[u8], missing: usize, view: &mut View, to: &mut String) {
    let Some(length) = number::<2>(packet, 4) else {
        to.push_str("[|ip6]");
        return;
    };
    let length = length as usize;
    let end = IPV6_HEADER + length;
    let is_whole = packet[0] >> 4 == 6 && end <= packet.len() + missing;
    let address = |at: usize| packet.get(at..).and_then(<[u8]>::first_chunk::<16>).copied();
    let (Some(source), Some(destination), true) = (address(8), address(24), is_whole) else {
        let _ = write!(to, "[|ip6], length {length}");
        return;
    };
    let ends = Ends { source: source.into(), destination: destination.into() };
    if view.style.verbose > 0 {
        six_header(packet, length, to);
    }
    let (next, payload) = (IpProtocol(packet[6]), &packet[IPV6_HEADER..end.min(packet.len())]);
    let Some(introduced) = extensions::write(next, payload, length, ends, view.style.verbose, to)
    else {
        return;
    };
    let Ok(UpperLayer { protocol, offset, fragment }) = upper_layer(next, payload) else {
        if !introduced {
            ends.write(to);
        }
        let _ = write!(to, "ip-proto-{} {length}", next.0);
        return;
    };
    let carried = transport::IpPayload {
        ends,
        introduced,
        bytes: payload.get(offset..).unwrap_or_default(),
        length: length.saturating_sub(offset),
        fragmented: fragment.is_some(),
        last: ends.destination,
    };
    transport::write(&carried, protocol, view, to);
}

/// Writes the fields of the fixed header but the addresses.
fn six_header(packet: &[u8], length: usize, to: &mut String) {
    let words = number::<4>(packet, 0).unwrap_or(0);
    let (class, label) = (words >> 20 & 0xff, words & 0xf_ffff);
    to.push('(');
    if class > 0 {
        let _ = write!(to, "class 0x{class:02x}, ");
    }
    if label > 0 {
        let _ = write!(to, "flowlabel 0x{label:05x}, ");
    }
    let (next, hops) = (packet[6], packet[7]);
    let name = protocol_name(next);
    let _ = write!(to, "hlim {hops}, next-header {name} ({next}) payload length: {length}) ");
}
