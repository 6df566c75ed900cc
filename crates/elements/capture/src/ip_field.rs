//! Fields of IP packets, by name or by offset: `ip dst/24`, `tcp flags`,
//! `ip[8:2] & 0x3F0`.

use std::fmt;

use super::cursor::Cursor;

/// Base of offsets, which also determines the packets that have the field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Header {
    Ip,
    /// The transport header of any protocol.
    Transport,
    /// The transport header of TCP or UDP.
    TcpOrUdp,
    /// The transport header of this IP protocol.
    Protocol(u8),
    /// The bytes behind the transport header.
    Payload,
}

/// A field: a range of bits of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct IpField {
    pub(super) header: Header,
    /// First bit, counted from the start of the header.
    pub(super) offset: u32,
    /// Number of bits.
    pub(super) length: u32,
}

const TCP: Header = Header::Protocol(6);
const UDP: Header = Header::Protocol(17);
const ICMP: Header = Header::Protocol(1);

/// Named fields: the header that precedes the name, the name, the header that has
/// the field, its first bit and its number of bits.
const FIELDS: &[(Header, &str, Header, u32, u32)] = &[
    (Header::Ip, "df", Header::Ip, 49, 1),
    (Header::Ip, "dport", Header::TcpOrUdp, 16, 16),
    (Header::Ip, "dscp", Header::Ip, 8, 6),
    (Header::Ip, "dst", Header::Ip, 128, 32),
    (Header::Ip, "ecn", Header::Ip, 14, 2),
    (Header::Ip, "fragoff", Header::Ip, 51, 13),
    (Header::Ip, "hl", Header::Ip, 4, 4),
    (Header::Ip, "id", Header::Ip, 32, 16),
    (Header::Ip, "len", Header::Ip, 16, 16),
    (Header::Ip, "mf", Header::Ip, 50, 1),
    (Header::Ip, "off", Header::Ip, 48, 16),
    (Header::Ip, "proto", Header::Ip, 72, 8),
    (Header::Ip, "rf", Header::Ip, 48, 1),
    (Header::Ip, "sport", Header::TcpOrUdp, 0, 16),
    (Header::Ip, "src", Header::Ip, 96, 32),
    (Header::Ip, "sum", Header::Ip, 80, 16),
    (Header::Ip, "tos", Header::Ip, 8, 8),
    (Header::Ip, "ttl", Header::Ip, 64, 8),
    (Header::Ip, "vers", Header::Ip, 0, 4),
    (UDP, "dport", UDP, 16, 16),
    (UDP, "len", UDP, 32, 16),
    (UDP, "sport", UDP, 0, 16),
    (UDP, "sum", UDP, 48, 16),
    (TCP, "ack", TCP, 107, 1),
    (TCP, "ackno", TCP, 64, 32),
    (TCP, "dport", TCP, 16, 16),
    (TCP, "fin", TCP, 111, 1),
    (TCP, "flags", TCP, 104, 8),
    (TCP, "hl", TCP, 96, 4),
    (TCP, "psh", TCP, 108, 1),
    (TCP, "push", TCP, 108, 1),
    (TCP, "rst", TCP, 109, 1),
    (TCP, "seq", TCP, 32, 32),
    (TCP, "seqno", TCP, 32, 32),
    (TCP, "sport", TCP, 0, 16),
    (TCP, "sum", TCP, 128, 16),
    (TCP, "syn", TCP, 110, 1),
    (TCP, "urg", TCP, 106, 1),
    (TCP, "urp", TCP, 144, 16),
    (TCP, "win", TCP, 112, 16),
    (ICMP, "code", ICMP, 8, 8),
    (ICMP, "sum", ICMP, 16, 16),
    (ICMP, "type", ICMP, 0, 8),
    (Header::TcpOrUdp, "dport", Header::TcpOrUdp, 16, 16),
    (Header::TcpOrUdp, "sport", Header::TcpOrUdp, 0, 16),
];

/// Names of headers. Of several names for a header the first is printed.
const HEADERS: &[(&str, Header)] = &[
    ("ip", Header::Ip),
    ("tcp", TCP),
    ("udp", UDP),
    ("icmp", ICMP),
    ("igmp", Header::Protocol(2)),
    ("ipip", Header::Protocol(4)),
    ("dccp", Header::Protocol(33)),
    ("gre", Header::Protocol(47)),
    ("sctp", Header::Protocol(132)),
    ("transp", Header::Transport),
    ("tcpudp", Header::TcpOrUdp),
    ("payload", Header::Payload),
    ("data", Header::Payload),
];

const BAD_SYNTAX: &str = "expected 'HEADER [NAME] [{OFFSET:LENGTH}] [/PREFIX] [& MASK]'";
const BAD_RANGE: &str = "bad offset or length in TCP/IP field";
const BAD_MASK: &str = "bad prefix or mask in TCP/IP field";

impl IpField {
    /// Parses a field.
    pub(super) fn parse(text: &str) -> Result<IpField, &'static str> {
        let mut cursor = Cursor(text.trim());
        let header = parse_header(&mut cursor).ok_or(BAD_SYNTAX)?;
        let mut field = parse_name(header, &mut cursor);
        if let Some((offset, length)) = parse_range(&mut cursor)? {
            let within = field.map_or(u32::MAX, |field| field.length);
            let end = offset.checked_add(length).filter(|end| *end <= within && length > 0);
            let end = end.ok_or(BAD_RANGE)?;
            let start = field.map_or(0, |field| field.offset);
            let header = field.map_or(header, |field| field.header);
            field = Some(IpField { header, offset: start + end - length, length });
        }
        let mut field = field.ok_or(BAD_SYNTAX)?;
        if eat(&mut cursor, "/") {
            skip_space(&mut cursor);
            let length = cursor.number().filter(|length| (1..=field.length).contains(length));
            field.length = length.ok_or(BAD_MASK)?;
        }
        if eat(&mut cursor, "&") {
            skip_space(&mut cursor);
            let mask = cursor.number().filter(|mask| *mask != 0).ok_or(BAD_MASK)?;
            let low = mask.trailing_zeros();
            let high = 32 - mask.leading_zeros();
            if mask.count_ones() != high - low || high > field.length {
                return Err(BAD_MASK);
            }
            field.offset += field.length - high;
            field.length = high - low;
        }
        skip_space(&mut cursor);
        if cursor.0.is_empty() { Ok(field) } else { Err("garbage after field specification") }
    }

    /// Returns the name of the field's header; empty for the IP header.
    pub(super) fn header_name(self) -> String {
        match self.header {
            Header::Ip => String::new(),
            header => header.to_string(),
        }
    }
}

fn skip_space(cursor: &mut Cursor<'_>) {
    cursor.0 = cursor.0.trim_start();
}

/// Skips white space and `mark` if they come next, and returns true then.
fn eat(cursor: &mut Cursor<'_>, mark: &str) -> bool {
    let mut ahead = *cursor;
    skip_space(&mut ahead);
    let found = ahead.eat(mark);
    if found {
        *cursor = ahead;
    }
    found
}

/// Returns the next word, empty if there is none, and the cursor behind it.
fn next_word<'a>(cursor: Cursor<'a>) -> (&'a str, Cursor<'a>) {
    let text = cursor.0.trim_start();
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(text.len());
    (&text[..end], Cursor(&text[end..]))
}

fn parse_header(cursor: &mut Cursor<'_>) -> Option<Header> {
    let (first, behind) = next_word(*cursor);
    let (second, numbered) = next_word(behind);
    let mut numbered = Cursor(numbered.0.trim_start());
    if first == "ip"
        && second == "proto"
        && let Some(protocol) = numbered.number().and_then(|number| u8::try_from(number).ok())
    {
        *cursor = numbered;
        return Some(if protocol == 0 { Header::Ip } else { Header::Protocol(protocol) });
    }
    let (_, header) = HEADERS.iter().find(|(name, _)| *name == first)?;
    *cursor = behind;
    Some(*header)
}

fn parse_name(header: Header, cursor: &mut Cursor<'_>) -> Option<IpField> {
    let (name, behind) = next_word(*cursor);
    let found = FIELDS.iter().find(|field| field.0 == header && field.1 == name)?;
    *cursor = behind;
    let &(_, _, header, offset, length) = found;
    Some(IpField { header, offset, length })
}

/// Parses `[OFFSET:LENGTH]` in bytes or `{OFFSET:LENGTH}` in bits, if given: first bit and number of
/// bits.
fn parse_range(cursor: &mut Cursor<'_>) -> Result<Option<(u32, u32)>, &'static str> {
    let (unit, close) = if eat(cursor, "[") {
        (8, "]")
    } else if eat(cursor, "{") {
        (1, "}")
    } else {
        return Ok(None);
    };
    skip_space(cursor);
    let offset = cursor.number().ok_or(BAD_SYNTAX)?;
    let length = if eat(cursor, ":") || eat(cursor, ",") {
        skip_space(cursor);
        cursor.number().ok_or(BAD_SYNTAX)?
    } else if eat(cursor, "-") {
        skip_space(cursor);
        let last = cursor.number().ok_or(BAD_SYNTAX)?;
        last.checked_sub(offset).and_then(|length| length.checked_add(1)).ok_or(BAD_RANGE)?
    } else {
        1
    };
    if !eat(cursor, close) {
        return Err(BAD_SYNTAX);
    }
    let in_bits =
        |number: u32| number.checked_mul(unit).filter(|bits| *bits < 1 << 20).ok_or(BAD_RANGE);
    Ok(Some((in_bits(offset)?, in_bits(length)?)))
}

impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (HEADERS.iter().find(|(_, header)| header == self), self) {
            (Some((name, _)), _) => f.write_str(name),
            (None, Header::Protocol(number)) => write!(f, "ip proto {number}"),
            (None, _) => Ok(()),
        }
    }
}

impl fmt::Display for IpField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let IpField { header, offset, length } = *self;
        write!(f, "{header}")?;
        let named = |offset, length| {
            let same = |field: &&(_, _, Header, u32, u32)| {
                field.2 == header && field.3 == offset && field.4 == length
            };
            FIELDS.iter().find(same).map(|field| field.1)
        };
        if let Some(name) = named(offset, length) {
            return write!(f, " {name}");
        }
        // A prefix or a part of a named field.
        let prefix = [8, 16, 32].into_iter().find_map(|unit| {
            let within = offset / unit == (offset + length - 1) / unit;
            named(offset / unit * unit, unit).filter(|_| within).map(|name| (name, offset % unit))
        });
        let offset = match prefix {
            Some((name, 0)) => return write!(f, " {name}/{length}"),
            Some((name, offset)) => {
                write!(f, " {name}")?;
                offset
            }
            None => offset,
        };
        match (offset % 8, length % 8, length) {
            (0, 0, 8) => write!(f, "[{}]", offset / 8),
            (0, 0, _) => write!(f, "[{}:{}]", offset / 8, length / 8),
            (_, _, 1) => write!(f, "{{{offset}}}"),
            _ => write!(f, "{{{offset}:{length}}}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_parsed_and_printed() {
        for (text, header, offset, length, printed) in [
            ("ip src", Header::Ip, 96, 32, "ip src"),
            ("ip dst/24", Header::Ip, 128, 24, "ip dst/24"),
            ("ip src & 0xFF000000", Header::Ip, 96, 8, "ip src/8"),
            ("ip[12]", Header::Ip, 96, 8, "ip src/8"),
            ("ip{96-103}", Header::Ip, 96, 8, "ip src/8"),
            ("ip[8:2] & 0x3F0", Header::Ip, 70, 6, "ip{70:6}"),
            ("tcp flags", TCP, 104, 8, "tcp flags"),
            ("udp[0:2]", UDP, 0, 16, "udp sport"),
            ("ip proto 17 [0:2]", UDP, 0, 16, "udp sport"),
            ("payload [0:4]", Header::Payload, 0, 32, "payload[0:4]"),
            ("ip sport", Header::TcpOrUdp, 0, 16, "tcpudp sport"),
            ("transp[3]", Header::Transport, 24, 8, "transp[3]"),
            ("ip ecn", Header::Ip, 14, 2, "ip ecn"),
        ] {
            let field = IpField::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(field, IpField { header, offset, length }, "{text}");
            assert_eq!(field.to_string(), printed, "{text}");
        }
    }

    #[test]
    fn wrong_fields_are_refused() {
        for (text, error) in [
            ("sport", BAD_SYNTAX),
            ("ip foo", BAD_SYNTAX),
            ("ip", BAD_SYNTAX),
            ("ip[", BAD_SYNTAX),
            ("ip[4-2]", BAD_RANGE),
            ("ip src[4]", BAD_RANGE),
            ("ip[4294967295:4294967295]", BAD_RANGE),
            ("tcp sport/20", BAD_MASK),
            ("ip src & 5", BAD_MASK),
            ("ip src & 0", BAD_MASK),
            ("ip src x", "garbage after field specification"),
        ] {
            assert_eq!(IpField::parse(text), Err(error), "{text}");
        }
    }
}
