//! Text and binary forms of fields.

use std::{io::Write, net::Ipv4Addr};

use linerate_graph::{
    lang::config::{quote, string},
    parse_integer,
};

use super::{Datum, Draft, Width, ip_options, md5, proto, tcp_options};
use crate::{cursor::Cursor, stamp::Stamp};
use linerate_element_support::icmp_names;

pub(super) use super::tcp_options::Mask;
use super::view::View;

/// Text form of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Number,
    /// Seconds with a fraction.
    Time,
    /// An IPv4 address.
    Address,
    /// `F`, `f`, `!` or `.`.
    Fragment,
    /// A fragment's offset in bytes, with `+` and `!`.
    Offset,
    /// `T`, `U`, `I` or a number.
    Protocol,
    /// `no`, `ect1`, `ect2` or `ce`.
    Ecn,
    IpOptions,
    /// The letters of the flags that are set.
    Flags,
    TcpOptions(Mask),
    /// A number, also read as [`Form::Direction`].
    Link,
    /// `>`, `<` or a number.
    Direction,
    Ethernet,
    /// Four hexadecimal digits.
    EtherType,
    IcmpType {
        named: bool,
    },
    IcmpCode {
        named: bool,
    },
    /// A quoted string.
    Payload,
    /// The MD5 digest of bytes.
    Digest {
        hex: bool,
    },
}

const ECN: [&str; 4] = ["no", "ect1", "ect2", "ce"];
const ECN_OTHERWISE: [&str; 4] = ["-", "ECT(1)", "ECT(0)", "CE"];
const FLAGS: &[u8; 9] = b"FSRPAUECN";

impl Form {
    /// Writes a value.
    pub(crate) fn print(self, datum: Datum<'_>, view: &View<'_>, out: &mut Vec<u8>) {
        let number = datum.number();
        // Writing to a vector does not fail.
        let _ = match self {
            Form::Number | Form::Link => write!(out, "{number}"),
            Form::Time => write!(out, "{}", Stamp(number)),
            Form::Address => write!(out, "{}", Ipv4Addr::from(number as u32)),
            Form::Fragment => out.write_all(&[number as u8]),
            Form::Offset => {
                let more = if number & 0x2000 != 0 { "+" } else { "" };
                let whole = if number & 0x4000 != 0 { "!" } else { "" };
                write!(out, "{}{more}{whole}", (number & 0x1fff) << 3)
            }
            Form::Protocol => match number as u8 {
                proto::TCP => write!(out, "T"),
                proto::UDP => write!(out, "U"),
                proto::ICMP => write!(out, "I"),
                number => write!(out, "{number}"),
            },
            Form::Ecn => write!(out, "{}", ECN[number as usize & 3]),
            Form::IpOptions => {
                ip_options::print(datum.bytes(), out);
                Ok(())
            }
            Form::Flags if number == 0 => write!(out, "."),
            Form::Flags => {
                let set = FLAGS.iter().enumerate().filter(|(bit, _)| number >> bit & 1 == 1);
                out.extend(set.map(|(_, letter)| letter));
                Ok(())
            }
            Form::TcpOptions(mask) => {
                tcp_options::print(datum.bytes(), mask, out);
                Ok(())
            }
            Form::Direction => match number {
                0 => write!(out, ">"),
                1 => write!(out, "<"),
                number => write!(out, "{number}"),
            },
            Form::Ethernet => {
                let marks = std::iter::once("").chain(std::iter::repeat("-"));
                marks
                    .zip(datum.bytes())
                    .try_for_each(|(mark, byte)| write!(out, "{mark}{byte:02X}"))
            }
            Form::EtherType => write!(out, "{number:04X}"),
            Form::IcmpType { named } => print_named(None, number, named, out),
            Form::IcmpCode { named } => {
                let kind = view.icmp.and_then(|icmp| icmp.first()).copied();
                print_named(kind.or(Some(0)), number, named, out)
            }
            Form::Payload => out.write_all(quote(datum.bytes()).as_bytes()),
            Form::Digest { hex: false } => {
                out.extend(md5::text(md5::digest(datum.bytes())));
                Ok(())
            }
            Form::Digest { hex: true } => {
                let digest = md5::digest(datum.bytes());
                digest.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
            }
        };
    }

    /// Reads a value; `scratch` holds its bytes when it has some.
    pub(crate) fn parse<'a>(
        self,
        text: &str,
        width: Width,
        draft: &Draft,
        scratch: &'a mut Vec<u8>,
    ) -> Option<Datum<'a>> {
        let number = match self {
            Form::Number => integer(text, width)?,
            Form::Time => Stamp::parse(text)?.0,
            Form::Address => u64::from(u32::from(text.parse::<Ipv4Addr>().ok()?)),
            Form::Fragment | Form::Offset => parse_offset(text, draft.minor)?,
            Form::Protocol => match text {
                "T" => u64::from(proto::TCP),
                "U" => u64::from(proto::UDP),
                "I" => u64::from(proto::ICMP),
                text => integer(text, Width::Bytes(1))?,
            },
            Form::Ecn => parse_ecn(text)?,
            Form::Flags => parse_flags(text)?,
            Form::Link | Form::Direction => match text {
                ">" => 0,
                "<" => 1,
                text => integer(text, Width::Bytes(4))?,
            },
            Form::EtherType => {
                let digits = text.strip_prefix("0x").unwrap_or(text);
                u64::from(u16::from_str_radix(digits, 16).ok()?)
            }
            Form::IcmpType { .. } => {
                icmp_names::number(None, text).or_else(|| integer(text, Width::Bytes(1)))?
            }
            Form::IcmpCode { .. } => {
                let kind = draft.has_icmp_type.then(|| draft.transport().first().copied());
                let named = kind.flatten().and_then(|kind| icmp_names::number(Some(kind), text));
                named.or_else(|| integer(text, Width::Bytes(1)))?
            }
            Form::Digest { .. } => return None,
            Form::IpOptions => {
                ip_options::parse(text, scratch)?;
                return Some(Datum::Bytes(scratch));
            }
            Form::TcpOptions(mask) => {
                tcp_options::parse(text, mask, scratch)?;
                return Some(Datum::Bytes(scratch));
            }
            Form::Ethernet => {
                scratch.clear();
                for part in text.split(['-', ':']) {
                    let byte = u8::from_str_radix(part, 16).ok().filter(|_| part.len() <= 2)?;
                    scratch.push(byte);
                }
                return (scratch.len() == 6).then_some(Datum::Bytes(scratch));
            }
            Form::Payload => {
                *scratch = string(text)?;
                return Some(Datum::Bytes(scratch));
            }
        };
        Some(Datum::Number(number))
    }

    /// Packs a value; one that is missing is zero.
    pub(crate) fn pack(self, width: Width, datum: Option<Datum<'_>>, out: &mut Vec<u8>) {
        let number = datum.map_or(0, Datum::number);
        let datum = datum.unwrap_or(Datum::Bytes(&[]));
        let (seconds, rest) = (number / 1_000_000_000, number % 1_000_000_000);
        match width {
            Width::Micro => out.extend(((seconds << 32) | (rest / 1000)).to_be_bytes()),
            Width::Nano => out.extend(((rest << 32) | (seconds & 0xffff_ffff)).to_be_bytes()),
            Width::Counted => {
                let at = out.len();
                out.push(0);
                match self {
                    Form::TcpOptions(mask) => tcp_options::pack(datum.bytes(), mask, out),
                    _ => out.extend_from_slice(datum.bytes()),
                }
                // Options have at most 40 bytes.
                out[at] = (out.len() - at - 1) as u8;
            }
            Width::Bytes(_) if matches!(self, Form::Digest { .. }) => {
                out.extend(md5::digest(datum.bytes()));
            }
            Width::Bytes(6) => {
                let at = out.len();
                out.extend_from_slice(datum.bytes());
                out.resize(at + 6, 0);
            }
            Width::Bytes(count) => out.extend_from_slice(&number.to_be_bytes()[8 - count.min(8)..]),
            Width::Text => {}
        }
    }

    /// Unpacks a value from the front of `rest`; `None` when it is not all
    /// there.
    pub(crate) fn unpack<'a>(self, width: Width, rest: &mut &'a [u8]) -> Option<Datum<'a>> {
        let count = match width {
            Width::Bytes(count) => count,
            Width::Micro | Width::Nano => 8,
            Width::Counted => {
                let (first, behind) = rest.split_first()?;
                *rest = behind;
                usize::from(*first)
            }
            Width::Text => return None,
        };
        let (bytes, behind) = rest.split_at_checked(count)?;
        *rest = behind;
        let number = bytes.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
        Some(match width {
            Width::Micro => time(number >> 32, (number & 0xffff_ffff) * 1000),
            Width::Nano => time(number & 0xffff_ffff, number >> 32),
            Width::Counted | Width::Bytes(6 | 16) => Datum::Bytes(bytes),
            _ if self == Form::Fragment => {
                let letter = [number as u8];
                Datum::Number(parse_offset(std::str::from_utf8(&letter).ok()?, 0)?)
            }
            _ => Datum::Number(number),
        })
    }
}

fn time(seconds: u64, rest: u64) -> Datum<'static> {
    Datum::Number(seconds * 1_000_000_000 + rest)
}

fn print_named(of: Option<u8>, number: u64, named: bool, out: &mut Vec<u8>) -> std::io::Result<()> {
    match icmp_names::name(of, number).filter(|_| named) {
        Some(name) => write!(out, "{name}"),
        None => write!(out, "{number}"),
    }
}

fn integer(text: &str, width: Width) -> Option<u64> {
    let limit = match width {
        Width::Bytes(count @ 1..=4) => u64::MAX >> (64 - 8 * count),
        _ => u64::MAX,
    };
    let number = u64::try_from(parse_integer(text)?).ok()?;
    (number <= limit).then_some(number)
}

/// The flags and offset word of an IP header. Dumps of minor version 0 have
/// offsets in units of eight bytes.
fn parse_offset(text: &str, minor: u32) -> Option<u64> {
    match text {
        "." => return Some(0),
        "!" => return Some(0x4000),
        "F" => return Some(0x2000),
        // Some offset that is not zero.
        "f" => return Some(100),
        _ => {}
    }
    let mut cursor = Cursor(text);
    let number = cursor.number()?;
    let mut word = u64::from(if minor > 0 { number >> 3 } else { number }) & 0x1fff;
    for mark in cursor.0.chars() {
        match mark {
            '!' => word |= 0x4000,
            '+' => word |= 0x2000,
            _ => return None,
        }
    }
    Some(word)
}

fn parse_ecn(text: &str) -> Option<u64> {
    let named = |names: [&str; 4]| names.iter().position(|name| *name == text);
    let number = named(ECN).or_else(|| named(ECN_OTHERWISE)).map(|number| number as u64);
    number.or_else(|| text.parse().ok().filter(|number| *number < 4 && text.len() == 1))
}

fn parse_flags(text: &str) -> Option<u64> {
    if text == "." {
        return Some(0);
    }
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        return integer(text, Width::Bytes(2)).filter(|flags| *flags < 0x1000);
    }
    let mut flags = 0;
    for letter in text.bytes() {
        // Letters of older dumps.
        let letter = match letter {
            b'X' => b'E',
            b'W' | b'Y' => b'C',
            letter => letter,
        };
        flags |= 1 << FLAGS.iter().position(|flag| *flag == letter)?;
    }
    (!text.is_empty()).then_some(flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(form: Form, width: Width, text: &str) -> Option<u64> {
        let (mut draft, mut scratch) = (Draft::default(), Vec::new());
        draft.begin(6, None, 3);
        form.parse(text, width, &draft, &mut scratch).map(Datum::number)
    }

    #[test]
    fn numbers_are_held_to_their_width() {
        let number = |count, text| parsed(Form::Number, Width::Bytes(count), text);
        assert_eq!(number(1, "255"), Some(255));
        assert_eq!(number(1, "256"), None);
        assert_eq!(number(2, "0xffff"), Some(65535));
        assert_eq!(number(4, "4294967296"), None);
        assert_eq!(number(8, "18446744073709551615"), Some(u64::MAX));
        assert_eq!(number(4, "-1"), None);
        assert_eq!(number(4, "x"), None);
    }

    #[test]
    fn flags_offsets_and_ecn() {
        let two = Width::Bytes(2);
        for (form, text, value) in [
            (Form::Flags, ".", 0),
            (Form::Flags, "SA", 0x12),
            (Form::Flags, "XW", 0xc0),
            (Form::Flags, "18", 18),
            (Form::Offset, "1480+", 0x2000 | 185),
            (Form::Offset, "0!", 0x4000),
            (Form::Fragment, "f", 100),
            (Form::Ecn, "ce", 3),
            (Form::Ecn, "ECT(0)", 2),
            (Form::Ecn, "1", 1),
            (Form::EtherType, "86DD", 0x86dd),
            (Form::Direction, "<", 1),
            (Form::Protocol, "U", 17),
            (Form::Address, "1.2.3.4", 0x0102_0304),
        ] {
            assert_eq!(parsed(form, two, text), Some(value), "{text}");
        }
        for (form, text) in [
            (Form::Flags, "Z"),
            (Form::Flags, ""),
            (Form::Offset, "8x"),
            (Form::Ecn, "4"),
            (Form::Address, "1.2.3"),
            (Form::Ethernet, "1:2:3:4:5"),
        ] {
            assert_eq!(parsed(form, two, text), None, "{text}");
        }
    }
}
