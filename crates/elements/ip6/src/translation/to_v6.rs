//! Translation from IPv4 to IPv6 (RFC 7915 section 4).

use linerate_packet::{IpProtocol, checksum};

use super::{
    FRAGMENT_HEADER, Head, ICMP, ICMP6, IGMP, LEAST_MTU, MESSAGE, Outcome, Prefix, Reason, UDP, V4,
    V6, exchange, get16,
    icmp::{echo_v6, error_v6, quoted_v4},
    put16, readdress, v6_at,
};

const MORE: u16 = 0x2000;
const OFFSET: u16 = 0x1fff;
/// Options for source routes.
const SOURCE_ROUTES: [u8; 2] = [131, 137];

/// The header for an IPv4 packet, which may be cut off where it is `quoted`.
fn head(ip: &[u8], prefix: &Prefix, quoted: bool) -> Result<Head, Reason> {
    let first = ip.first_chunk::<V4>().ok_or(Reason::Malformed)?;
    let (header, total) = (usize::from(first[0] & 15) * 4, usize::from(get16(first, 2)));
    let sound = first[0] >> 4 == 4
        && header >= V4
        && total >= header
        && ip.len() >= header
        && (quoted || total <= ip.len());
    if !sound {
        return Err(Reason::Malformed);
    }
    let [source, destination] =
        [12, 16].map(|at| first[at..].first_chunk::<4>().copied().unwrap_or_default());
    let is_host = |[a, ..]: [u8; 4]| a != 0 && a != 127 && a < 224;
    if !is_host(source) || !is_host(destination) {
        return Err(Reason::Address);
    }
    if is_routed(&ip[V4..header]) {
        return Err(Reason::Untranslatable);
    }
    let flags = get16(first, 6);
    let is_fragment = flags & (MORE | OFFSET) != 0;
    let protocol = match first[9] {
        // The checksum of fragments cannot be verified.
        ICMP if is_fragment => return Err(Reason::Untranslatable),
        IGMP => return Err(Reason::Untranslatable),
        ICMP => ICMP6,
        other => other,
    };
    let mut bytes = [0; V6 + FRAGMENT_HEADER];
    let length = if is_fragment { V6 + FRAGMENT_HEADER } else { V6 };
    let payload = total - header;
    (bytes[0], bytes[1]) = (0x60 | first[1] >> 4, first[1] << 4);
    // At most 65,535 - 20 + 8.
    put16(&mut bytes, 4, (payload + length - V6) as u16);
    (bytes[6], bytes[7]) = (protocol, first[8]);
    bytes[8..24].copy_from_slice(&prefix.join(source));
    bytes[24..V6].copy_from_slice(&prefix.join(destination));
    if is_fragment {
        bytes[6] = IpProtocol::FRAGMENT.0;
        bytes[V6] = protocol;
        put16(&mut bytes, V6 + 2, (flags & OFFSET) << 3 | u16::from(flags & MORE != 0));
        bytes[V6 + 6..].copy_from_slice(&first[4..6]);
    }
    let is_later = flags & OFFSET != 0;
    Ok(Head { bytes, length, replaced: header, payload, protocol, is_fragment, is_later })
}

/// Returns true if options have a source route with hops left.
fn is_routed(mut options: &[u8]) -> bool {
    while let [kind, rest @ ..] = options {
        options = match (kind, rest) {
            (0, _) => return false,
            (1, _) => rest,
            (kind, [length, pointer, ..]) if SOURCE_ROUTES.contains(kind) && pointer <= length => {
                return true;
            }
            (_, [length, ..]) => options.get(usize::from(*length).max(2)..).unwrap_or_default(),
            _ => return false,
        };
    }
    false
}

/// Translates the bytes behind the header of an IPv4 packet, and returns the new header. A message
/// that is made anew is put into `message`.
pub(super) fn translate(
    ip: &mut [u8],
    prefix: &Prefix,
    message: &mut Vec<u8>,
) -> Result<Outcome, Reason> {
    let head = head(ip, prefix, false)?;
    let (old, payload) = ip.split_at_mut(head.replaced);
    let payload = &mut payload[..head.payload];
    match head.protocol {
        ICMP6 => {
            let &[kind, code, .., a, b, c, d] =
                payload.first_chunk::<MESSAGE>().ok_or(Reason::Malformed)?;
            if echo(payload, &head) {
                return Ok(Outcome::Header(head));
            }
            if !checksum::verify(payload) {
                return Err(Reason::Malformed);
            }
            let fields = (kind, code, u32::from_be_bytes([a, b, c, d]));
            error(fields, &payload[MESSAGE..], head, prefix, message)
        }
        UDP if !head.is_later => {
            let check = payload.get(6..8).ok_or(Reason::Malformed)?;
            if check == [0, 0] {
                // IPv6 has no datagrams without one; that of a piece is unknown.
                if head.is_fragment {
                    return Err(Reason::Untranslatable);
                }
                let (source, destination) = (v6_at(&head.bytes, 8), v6_at(&head.bytes, 24));
                let mut sum =
                    checksum::pseudo_v6(source, destination, IpProtocol::UDP, head.payload as u32);
                sum.add_bytes(payload);
                put16(payload, 6, checksum::udp_nonzero(sum.finish()));
            } else {
                readdress(payload, UDP, &old[12..V4], &head.bytes[8..V6]);
            }
            Ok(Outcome::Header(head))
        }
        _ => {
            if !head.is_later {
                readdress(payload, head.protocol, &old[12..V4], &head.bytes[8..V6]);
            }
            Ok(Outcome::Header(head))
        }
    }
}

/// Makes an echo message that of the other version.
fn echo(message: &mut [u8], head: &Head) -> bool {
    let Some(&[kind, code, a, b]) = message.first_chunk() else { return false };
    let Some(new) = echo_v6(kind) else { return false };
    let (source, destination) = (v6_at(&head.bytes, 8), v6_at(&head.bytes, 24));
    let pseudo = checksum::pseudo_v6(source, destination, IpProtocol::ICMPV6, head.payload as u32);
    let check = exchange(u16::from_be_bytes([a, b]), &[kind, code], &[new, code]);
    let check = checksum::update16(check, 0, !pseudo.finish());
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
    let length = quoted.get(..V4).map_or(0, |header| get16(header, 2));
    let (kind, code, rest) = error_v6(fields, length).ok_or(Reason::Untranslatable)?;
    let quoted = quoted_v4(fields).and_then(|told| quoted.get(..told)).unwrap_or(quoted);
    message.clear();
    message.extend_from_slice(&[kind, code, 0, 0]);
    message.extend_from_slice(&rest.to_be_bytes());
    quote(quoted, prefix, message)?;
    message.truncate(LEAST_MTU - V6);
    head.payload = message.len();
    put16(&mut head.bytes, 4, head.payload as u16);
    let header = head.bytes;
    super::super::header::fill_checksum(&header, ICMP6, message, 2);
    Ok(Outcome::Message(head))
}

/// Adds a quoted packet to a message. It may be shorter than its length field.
fn quote(ip: &[u8], prefix: &Prefix, message: &mut Vec<u8>) -> Result<(), Reason> {
    let head = head(ip, prefix, true)?;
    message.extend_from_slice(head.bytes());
    let start = message.len();
    let payload = &ip[head.replaced..];
    message.extend_from_slice(&payload[..payload.len().min(head.payload)]);
    let payload = &mut message[start..];
    if head.protocol == ICMP6 {
        // No error is about an error.
        return if echo(payload, &head) { Ok(()) } else { Err(Reason::Untranslatable) };
    }
    if !head.is_later {
        readdress(payload, head.protocol, &ip[12..V4], &head.bytes[8..V6]);
    }
    Ok(())
}
