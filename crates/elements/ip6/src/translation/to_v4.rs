//! Translation from IPv6 to IPv4 (RFC 7915 section 5).

use linerate_packet::{
    IpProtocol, checksum,
    ipv6_ext::{Extensions, Fragment},
};

use super::{
    FRAGMENT_HEADER, Head, ICMP, ICMP6, LEAST_MTU, MESSAGE, Outcome, Prefix, Reason, UDP, V4, V6,
    exchange, get16,
    icmp::{echo_v4, error_v4, quoted_v6},
    put16, readdress, v6_at,
};

const DONT_FRAGMENT: u16 = 0x4000;
const MORE: u16 = 0x2000;

/// The header for an IPv6 packet, which may be cut off where it is `quoted`. One
/// that may be fragmented on its way is identified by `ident`.
fn head(ip: &[u8], prefix: &Prefix, ident: u16, quoted: bool) -> Result<Head, Reason> {
    let first = ip.first_chunk::<V6>().ok_or(Reason::Malformed)?;
    let total = V6 + usize::from(get16(first, 4));
    if first[0] >> 4 != 6 || (!quoted && total > ip.len()) {
        return Err(Reason::Malformed);
    }
    let source = prefix.part(v6_at(first, 8).octets())?;
    let destination = prefix.part(v6_at(first, 24).octets())?;
    let (mut next, mut replaced, mut fragment) = (IpProtocol(first[6]), V6, None);
    let end = total.min(ip.len());
    for extension in Extensions::new(next, &ip[V6..end]) {
        let extension = extension.map_err(|_| Reason::Malformed)?;
        match extension.kind {
            IpProtocol::HOP_BY_HOP | IpProtocol::DESTINATION => {}
            // Its source route is completed.
            IpProtocol::ROUTING if extension.header.get(3) == Some(&0) => {}
            IpProtocol::FRAGMENT => fragment = Fragment::from_extension(&extension),
            _ => return Err(Reason::Untranslatable),
        }
        next = IpProtocol(extension.header[0]);
        replaced += extension.header.len();
    }
    let is_fragment = fragment.is_some_and(|fragment| !fragment.is_atomic());
    let is_later = fragment.is_some_and(|fragment| fragment.offset > 0);
    let protocol = match next.0 {
        ICMP6 if is_fragment => return Err(Reason::Untranslatable),
        ICMP6 => ICMP,
        // Protocols of IPv4 alone, and nothing at all.
        ICMP => return Err(Reason::Untranslatable),
        other => other,
    };
    let payload = total.checked_sub(replaced).ok_or(Reason::Malformed)?;
    let length = u16::try_from(V4 + payload).map_err(|_| Reason::Untranslatable)?;
    let (ident, flags) = match fragment {
        Some(Fragment { offset, more, ident }) => {
            (ident as u16, offset >> 3 | if more { MORE } else { 0 })
        }
        None if V4 + payload > LEAST_MTU - V4 => (0, DONT_FRAGMENT),
        None => (ident, 0),
    };
    let mut bytes = [0; V6 + FRAGMENT_HEADER];
    (bytes[0], bytes[1]) = (0x45, first[0] << 4 | first[1] >> 4);
    put16(&mut bytes, 2, length);
    put16(&mut bytes, 4, ident);
    put16(&mut bytes, 6, flags);
    (bytes[8], bytes[9]) = (first[7], protocol);
    bytes[12..16].copy_from_slice(&source);
    bytes[16..V4].copy_from_slice(&destination);
    let sum = checksum::checksum(&bytes[..V4]);
    put16(&mut bytes, 10, sum);
    Ok(Head { bytes, length: V4, replaced, payload, protocol, is_fragment, is_later })
}

/// Translates the bytes behind the headers of an IPv6 packet, and returns the new header. A message
/// that is made anew is put into `message`.
pub(super) fn translate(
    ip: &mut [u8],
    prefix: &Prefix,
    ident: u16,
    message: &mut Vec<u8>,
) -> Result<Outcome, Reason> {
    let head = head(ip, prefix, ident, false)?;
    let (old, payload) = ip.split_at_mut(head.replaced);
    let payload = &mut payload[..head.payload];
    match head.protocol {
        ICMP => {
            let &[kind, code, .., a, b, c, d] =
                payload.first_chunk::<MESSAGE>().ok_or(Reason::Malformed)?;
            if echo(payload, old, head.payload) {
                return Ok(Outcome::Header(head));
            }
            let mut sum = pseudo(old, head.payload);
            sum.add_bytes(payload);
            if !sum.is_valid() {
                return Err(Reason::Malformed);
            }
            let fields = (kind, code, u32::from_be_bytes([a, b, c, d]));
            error(fields, &payload[MESSAGE..], head, prefix, message)
        }
        // There are no datagrams without a checksum.
        UDP if !head.is_later && payload.get(6..8).is_none_or(|check| check == [0, 0]) => {
            Err(Reason::Malformed)
        }
        _ => {
            if !head.is_later {
                readdress(payload, head.protocol, &old[8..V6], &head.bytes[12..V4]);
            }
            Ok(Outcome::Header(head))
        }
    }
}

fn pseudo(ip: &[u8], length: usize) -> checksum::Sum {
    checksum::pseudo_v6(v6_at(ip, 8), v6_at(ip, 24), IpProtocol::ICMPV6, length as u32)
}

/// Makes an echo message behind the header `ip` that of the other version.
fn echo(message: &mut [u8], ip: &[u8], length: usize) -> bool {
    let Some(&[kind, code, a, b]) = message.first_chunk() else { return false };
    let Some(new) = echo_v4(kind) else { return false };
    let check = exchange(u16::from_be_bytes([a, b]), &[kind, code], &[new, code]);
    let check = checksum::update16(check, !pseudo(ip, length).finish(), 0);
    message[0] = new;
    put16(message, 2, check);
    true
}

/// An error, with the packet it quotes.
fn error(
    fields: super::icmp::Fields,
    quoted: &[u8],
    mut head: Head,
    prefix: &Prefix,
    message: &mut Vec<u8>,
) -> Result<Outcome, Reason> {
    let quoted = quoted_v6(fields).and_then(|told| quoted.get(..told)).unwrap_or(quoted);
    let next = *quoted.get(6).ok_or(Reason::Malformed)?;
    let has_fragment = IpProtocol(next) == IpProtocol::FRAGMENT;
    let shorter = V6 - V4 + if has_fragment { FRAGMENT_HEADER } else { 0 };
    let (kind, code, rest) = error_v4(fields, shorter as u32).ok_or(Reason::Untranslatable)?;
    message.clear();
    message.extend_from_slice(&[kind, code, 0, 0]);
    message.extend_from_slice(&rest.to_be_bytes());
    quote(quoted, prefix, message)?;
    let sum = checksum::checksum(message);
    put16(message, 2, sum);
    head.payload = message.len();
    let (old, length) = (get16(&head.bytes, 2), (V4 + head.payload) as u16);
    put16(&mut head.bytes, 2, length);
    let sum = checksum::update16(get16(&head.bytes, 10), old, length);
    put16(&mut head.bytes, 10, sum);
    Ok(Outcome::Message(head))
}

/// Adds a quoted packet to a message. It may be shorter than its length field.
fn quote(ip: &[u8], prefix: &Prefix, message: &mut Vec<u8>) -> Result<(), Reason> {
    let head = head(ip, prefix, 0, true)?;
    message.extend_from_slice(head.bytes());
    let start = message.len();
    let payload = ip.get(head.replaced..).unwrap_or_default();
    message.extend_from_slice(&payload[..payload.len().min(head.payload)]);
    let payload = &mut message[start..];
    if head.protocol == ICMP {
        // No error is about an error.
        return if echo(payload, ip, head.payload) { Ok(()) } else { Err(Reason::Untranslatable) };
    }
    if !head.is_later {
        readdress(payload, head.protocol, &ip[8..V6], &head.bytes[12..V4]);
    }
    Ok(())
}
