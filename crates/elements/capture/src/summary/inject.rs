//! Injection of a line's fields into a packet.

use super::{Datum, Draft, proto, view::u16_at};

/// ICMP types whose messages carry an identifier and a sequence number.
pub(super) fn is_sequenced(kind: u8) -> bool {
    matches!(kind, 0 | 8 | 13 | 14 | 15 | 16)
}

pub(super) fn time(d: &mut Draft, value: Datum<'_>) {
    d.time = value.number();
}

pub(super) fn first_time(d: &mut Draft, value: Datum<'_>) {
    d.first_time = value.number();
}

pub(super) fn paint(d: &mut Draft, value: Datum<'_>) {
    d.paint = value.number() as u8;
}

/// Makes sure of an Ethernet header, with the type of IP by default.
fn make_ethernet(d: &mut Draft) {
    if !d.ethernet {
        d.insert(0, 14);
        d.set(12, &[0x08, 0x00]);
        d.network = Some(14);
        d.ethernet = true;
    }
}

pub(super) fn ethernet(d: &mut Draft, at: usize, address: &[u8]) {
    make_ethernet(d);
    d.set(at, address);
}

pub(super) fn ethertype(d: &mut Draft, value: Datum<'_>) {
    make_ethernet(d);
    let kind = value.number() as u16;
    d.set(12, &kind.to_be_bytes());
    d.is_ip &= matches!(kind, 0x0800 | 0x86dd);
}

fn ip(d: &mut Draft, at: usize, bytes: &[u8]) {
    if d.make_ip(0) {
        d.set(d.network.unwrap_or(0) + at, bytes);
    }
}

pub(super) fn ip32(d: &mut Draft, at: usize, value: Datum<'_>) {
    ip(d, at, &(value.number() as u32).to_be_bytes());
}

pub(super) fn ip16(d: &mut Draft, at: usize, value: Datum<'_>) {
    ip(d, at, &(value.number() as u16).to_be_bytes());
}

/// Sets the bits of `mask` of a byte of the IP header.
pub(super) fn ip_bits(d: &mut Draft, at: usize, mask: u8, value: u64) {
    if d.make_ip(0) {
        let byte = d.ip_byte(at) & !mask | value as u8 & mask;
        ip(d, at, &[byte]);
    }
}

pub(super) fn ip_length(d: &mut Draft, value: Datum<'_>) {
    if d.make_ip(0) {
        d.want = d.network.unwrap_or(0) + value.number() as usize;
    }
}

/// Makes the IP header at least `length` bytes long, with padding.
fn extend_ip(d: &mut Draft, length: usize) {
    if length > d.header {
        d.insert(d.transport_start(), length - d.header);
        d.header = length;
        ip_bits(d, 0, 15, (length / 4) as u64);
    }
}

pub(super) fn ip_header_length(d: &mut Draft, value: Datum<'_>) {
    if d.make_ip(0) {
        d.has_ip_length = true;
        let length = (value.number() as usize).next_multiple_of(4).min(60);
        extend_ip(d, length);
        ip_bits(d, 0, 15, (length / 4) as u64);
    }
}

pub(super) fn ip_options(d: &mut Draft, value: Datum<'_>) {
    if !d.make_ip(0) {
        return;
    }
    d.has_ip_length = true;
    let options = value.bytes();
    if !options.is_empty() && options.len() <= 40 {
        extend_ip(d, (20 + options.len()).next_multiple_of(4));
        ip(d, 20, options);
    }
}

pub(super) fn port(d: &mut Draft, at: usize, value: Datum<'_>) {
    let fits = |protocol| protocol == 0 || proto::has_ports(protocol);
    if d.make_ip(0) && d.make_transport() && fits(d.ip_byte(9)) {
        d.set(d.transport_start() + at, &(value.number() as u16).to_be_bytes());
    }
}

pub(super) fn tcp(d: &mut Draft, at: usize, bytes: &[u8]) {
    if d.make_ip(proto::TCP) && d.make_transport() {
        d.set(d.transport_start() + at, bytes);
    }
}

pub(super) fn tcp_flags(d: &mut Draft, value: Datum<'_>) {
    if d.make_ip(proto::TCP) && d.make_transport() {
        let flags = value.number() as u16 & 0x0fff;
        let word = u16_at(d.transport(), 12) & 0xf000 | flags;
        d.set(d.transport_start() + 12, &word.to_be_bytes());
    }
}

/// Makes the TCP header at least `length` bytes long, with padding.
fn extend_tcp(d: &mut Draft, length: usize) {
    let now = usize::from(d.transport().get(12).map_or(5, |byte| byte >> 4)) * 4;
    if length > now {
        d.insert(d.transport_start() + now, length - now);
        set_tcp_offset(d, length);
    }
}

fn set_tcp_offset(d: &mut Draft, length: usize) {
    let byte = d.transport().get(12).map_or(0, |byte| byte & 15);
    d.set(d.transport_start() + 12, &[byte | (length as u8) << 2]);
}

pub(super) fn tcp_offset(d: &mut Draft, value: Datum<'_>) {
    if d.make_ip(proto::TCP) && d.make_transport() {
        let length = (value.number() as usize).next_multiple_of(4).min(60);
        extend_tcp(d, length);
        set_tcp_offset(d, length);
    }
}

pub(super) fn tcp_options(d: &mut Draft, value: Datum<'_>) {
    if !d.make_ip(proto::TCP) || !d.make_transport() {
        return;
    }
    d.has_tcp_length = true;
    let options = value.bytes();
    if !options.is_empty() && options.len() <= 40 {
        extend_tcp(d, (20 + options.len()).next_multiple_of(4));
        d.set(d.transport_start() + 20, options);
    }
}

/// Extends the bytes behind the IP header to at least `length`.
fn extend_transport(d: &mut Draft, length: usize) {
    d.grow(length.saturating_sub(d.transport().len()));
}

pub(super) fn udp_length(d: &mut Draft, value: Datum<'_>) {
    let fits = |protocol| matches!(protocol, 0 | proto::UDP | proto::UDP_LITE);
    if d.make_ip(0) && d.make_transport() && fits(d.ip_byte(9)) {
        extend_transport(d, 8);
        d.set(d.transport_start() + 4, &(value.number() as u16).to_be_bytes());
    }
}

/// Makes sure of an ICMP header.
fn make_icmp(d: &mut Draft) -> bool {
    let made = d.make_ip(proto::ICMP) && d.make_transport();
    if made {
        extend_transport(d, 8);
    }
    made
}

pub(super) fn icmp_type(d: &mut Draft, value: Datum<'_>) {
    if make_icmp(d) {
        let kind = value.number() as u8;
        d.set(d.transport_start(), &[kind]);
        d.has_icmp_type = true;
        if matches!(kind, 13 | 14) {
            extend_transport(d, 20);
        }
    }
}

pub(super) fn icmp_code(d: &mut Draft, value: Datum<'_>) {
    if make_icmp(d) {
        d.set(d.transport_start() + 1, &[value.number() as u8]);
        d.has_icmp_code = true;
    }
}

pub(super) fn icmp_sequenced(d: &mut Draft, at: usize, value: Datum<'_>) {
    if make_icmp(d) && (!d.has_icmp_type || is_sequenced(d.transport()[0])) {
        d.set(d.transport_start() + at, &(value.number() as u16).to_be_bytes());
    }
}

pub(super) fn icmp_next_mtu(d: &mut Draft, value: Datum<'_>) {
    if !make_icmp(d) {
        return;
    }
    let fits =
        (!d.has_icmp_type || d.transport()[0] == 3) && (!d.has_icmp_code || d.transport()[1] == 4);
    if fits {
        d.set(d.transport_start() + 6, &(value.number() as u16).to_be_bytes());
    }
}

/// Returns the offset of the payload.
fn payload_start(d: &Draft) -> usize {
    if !d.is_ip {
        return 0;
    }
    let start = d.transport_start();
    match d.ip_byte(9) {
        _ if !d.is_first_fragment() => start,
        proto::TCP => start + extent_of_tcp(d),
        proto::UDP | proto::UDP_LITE => start + 8,
        _ => start,
    }
}

fn extent_of_tcp(d: &Draft) -> usize {
    match d.transport().get(12) {
        Some(offset) if offset >> 4 >= 5 => usize::from(offset >> 4) * 4,
        _ => 20,
    }
}

/// Makes sure of the headers a payload is behind.
fn make_headers(d: &mut Draft) {
    if d.make_ip(0) {
        d.make_transport();
    }
}

/// A payload of `length` bytes: settles how long the packet is, or, where that
/// is known, makes the headers longer to account for the difference.
pub(super) fn payload_length(d: &mut Draft, length: usize) {
    make_headers(d);
    // Click writes negative lengths of payloads, modulo 2^32, for packets whose IP length is too
    // small.
    let end = (payload_start(d) as u32).wrapping_add(length as u32) as usize;
    let said = usize::from(u16_at(d.ip(), 2));
    if !d.is_ip || said == 0 && d.want == 0 {
        d.want = end;
        return;
    }
    let whole = if said == 0 { d.want } else { said + d.network.unwrap_or(0) };
    let mut missing = whole.saturating_sub(end);
    let is_tcp = d.ip_byte(9) == proto::TCP && d.is_first_fragment();
    if is_tcp && !d.has_tcp_length && extent_of_tcp(d) == 20 {
        let more = (missing & !3).min(40);
        extend_tcp(d, 20 + more);
        missing -= more;
    }
    if !d.has_ip_length && d.header == 20 {
        extend_ip(d, 20 + (missing & !3).min(40));
    }
}

pub(super) fn payload(d: &mut Draft, payload: &[u8]) {
    if payload.is_empty() {
        return;
    }
    payload_length(d, payload.len());
    let start = payload_start(d);
    d.grow((start + payload.len()).saturating_sub(d.bytes.len()));
    d.set(start, payload);
}
