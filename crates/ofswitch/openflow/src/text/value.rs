//! Values of fields, with masks.

use super::error::{Fail, Parsed};
use super::fields::{self, FieldName, Format};
use super::names::Names;
use super::number;
use crate::wire::Field;

/// The bits of a connection's state.
const CT_STATE: [&str; 8] = ["new", "est", "rel", "rpl", "inv", "trk", "snat", "dnat"];
/// The bits of the state that are known; a state that is named as a whole is these.
pub(super) const CT_STATES: u128 = 0xff;
/// The flags of TCP.
const TCP: [&str; 12] =
    ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr", "ns", "[200]", "[400]", "[800]"];
/// The flags of tunnels.
const TUNNEL: [&str; 1] = ["oam"];

/// Fragments: names, value and mask.
const FRAGMENTS: [(&str, u128, u128); 5] =
    [("no", 0, 3), ("yes", 1, 1), ("first", 1, 3), ("later", 3, 3), ("not_later", 0, 2)];

/// A field's value, and its mask.
pub(super) fn parse<'t>(
    known: &FieldName,
    text: &'t str,
    names: &Names,
) -> Parsed<'t, (u128, u128)> {
    let field = known.field;
    let all = field.all_bits();
    match known.format {
        Format::Decimal | Format::Hexadecimal => numeric(field, text),
        Format::Ethernet => {
            let wrong = |text| Fail::new(text, "not an Ethernet address").help("00:11:22:33:44:55");
            match text.split_once('/') {
                Some((address, mask)) => Ok((
                    number::mac(address).ok_or_else(|| wrong(address))?,
                    number::mac(mask).ok_or_else(|| wrong(mask))?,
                )),
                None => Ok((number::mac(text).ok_or_else(|| wrong(text))?, all)),
            }
        }
        Format::Address => network(text, field.bits()),
        Format::Port => Ok((port(field, text, names)?, all)),
        Format::CtState => {
            let (value, mask) = flags(field, text, &CT_STATE)?;
            Ok((value, if text.contains(['/', '+', '-']) { mask } else { CT_STATES }))
        }
        Format::TcpFlags => flags(field, text, &TCP),
        Format::TunnelFlags => flags(field, text, &TUNNEL),
        Format::Fragment => {
            let named = FRAGMENTS.iter().find(|(name, ..)| name.eq_ignore_ascii_case(text));
            match named {
                Some(&(_, value, mask)) => Ok((value, mask)),
                None if text.starts_with(|letter: char| letter.is_ascii_digit()) => {
                    numeric(field, text)
                }
                None => {
                    let names = FRAGMENTS.iter().map(|&(name, ..)| name);
                    let fail = Fail::unknown(text, "kind of fragment", names);
                    Err(fail.help("no, yes, first, later or not_later"))
                }
            }
        }
        Format::PacketType => {
            let wrong = || Fail::new(text, "not a packet type").help("(1,0x800)");
            let inside = text.strip_prefix('(').and_then(|text| text.strip_suffix(')'));
            let (space, kind) =
                inside.and_then(|inside| inside.split_once(',')).ok_or_else(wrong)?;
            let space = number::u16(space.trim(), "a name space")?;
            let kind = number::u16(kind.trim(), "a packet's type")?;
            Ok((u128::from(space) << 16 | u128::from(kind), all))
        }
    }
}

/// A value without a mask.
pub(super) fn parse_exact<'t>(known: &FieldName, text: &'t str, names: &Names) -> Parsed<'t, u128> {
    let (value, mask) = parse(known, text, names)?;
    let whole = mask == known.field.all_bits() || known.format == Format::CtState;
    if whole { Ok(value) } else { Err(Fail::new(text, "there can be no mask here")) }
}

fn port<'t>(field: Field, text: &'t str, names: &Names) -> Parsed<'t, u128> {
    let port = names.port(text)?;
    if field != Field::InPort16 {
        return Ok(port.0.into());
    }
    match port.0 {
        0..0xff00 | 0xffff_ff00.. => Ok(u128::from(port.0 & 0xffff)),
        _ => Err(Fail::new(text, "in_port has 16 bits here").help("in_port_oxm has 32")),
    }
}

fn numeric(field: Field, text: &str) -> Parsed<'_, (u128, u128)> {
    let bits = field.all_bits();
    let part = |text| {
        let value = number::number(text, fields::for_field(field).name(), u128::MAX)?;
        // Minus one is all bits, in a field of any width.
        let value = if text == "-1" { bits } else { value };
        if value & !bits != 0 {
            let (name, size) = (fields::for_field(field).name(), field.bits());
            return Err(Fail::new(text, format!("{name} has {size} bits, and this needs more")));
        }
        Ok(value)
    };
    let allowed = |text| match part(text)? {
        value if field.allows(value) => Ok(value),
        value => {
            Err(Fail::new(text, format!("{} cannot be {value}", fields::for_field(field).name())))
        }
    };
    match text.split_once('/') {
        Some((value, mask)) => Ok((allowed(value)?, part(mask)?)),
        None => Ok((allowed(text)?, bits)),
    }
}

/// An address, and a prefix's length or a mask.
fn network(text: &str, bits: u32) -> Parsed<'_, (u128, u128)> {
    let kind = if bits == 32 { "IPv4" } else { "IPv6" };
    let address = |text| {
        number::address(text, bits).ok_or_else(|| {
            let fail = Fail::new(text, format!("not an address of {kind}"));
            match number::address(text, 160 - bits) {
                Some(_) if bits == 32 => fail.help("ipv6_src and ipv6_dst are of IPv6"),
                Some(_) => fail.help("nw_src and nw_dst are of IPv4"),
                None => fail,
            }
        })
    };
    let all = number::prefix(bits, bits);
    let Some((value, mask)) = text.split_once('/') else { return Ok((address(text)?, all)) };
    let value = address(value)?;
    if mask.contains(['.', ':']) {
        return Ok((value, address(mask)?));
    }
    let length = number::number(mask, "the length of a prefix", bits.into())?;
    Ok((value, number::prefix(length as u32, bits)))
}

/// `+syn-ack` are two bits, `syn|ack` all bits, and there are numbers.
fn flags<'t>(field: Field, text: &'t str, names: &[&str]) -> Parsed<'t, (u128, u128)> {
    let all = field.all_bits();
    if text.starts_with(|letter: char| letter.is_ascii_digit()) {
        return numeric(field, text);
    }
    let bit = |name: &'t str| {
        let bit = names.iter().position(|known| known.eq_ignore_ascii_case(name));
        let bit = bit.map(|bit| 1_u128 << bit);
        bit.ok_or_else(|| Fail::unknown(name, "flag", names.iter().copied()))
    };
    if !text.starts_with(['+', '-']) {
        let mut bits = text.split('|').map(bit);
        return bits.try_fold(0, |value, bit| Ok(value | bit?)).map(|value| (value, all));
    }
    let (mut value, mut mask, mut rest) = (0, 0, text);
    while !rest.is_empty() {
        let set = rest.starts_with('+');
        let name = &rest[1..];
        let name = &name[..name.find(['+', '-', '|']).unwrap_or(name.len())];
        let bit = bit(name)?;
        if mask & bit != 0 {
            return Err(Fail::new(name, format!("\"{name}\" is said twice")));
        }
        mask |= bit;
        value |= if set { bit } else { 0 };
        rest = &rest[1 + name.len()..];
        if rest.starts_with('|') {
            return Err(Fail::new(rest, "\"|\" is between names without \"+\" or \"-\""));
        }
    }
    Ok((value, mask))
}

/// A value, and its mask where it is not all bits.
pub(super) fn print(known: &FieldName, value: u128, mask: u128, names: &Names) -> String {
    let field = known.field;
    let exact = mask == field.all_bits();
    match known.format {
        Format::Decimal if exact => value.to_string(),
        Format::Hexadecimal if exact => format!("{value:#x}"),
        Format::Decimal | Format::Hexadecimal => format!("{value:#x}/{mask:#x}"),
        Format::Ethernet if exact => number::print_mac(value),
        Format::Ethernet => format!("{}/{}", number::print_mac(value), number::print_mac(mask)),
        Format::Address => number::print_network(value, mask, field.bits()),
        Format::Port if exact && field == Field::InPort16 => {
            names.print_port(crate::wire::PortNumber::from_short(value as u16))
        }
        Format::Port if exact => names.print_port(crate::wire::PortNumber(value as u32)),
        Format::Port => format!("{value:#x}/{mask:#x}"),
        Format::CtState => print_flags(value, mask, CT_STATES, &CT_STATE),
        Format::TcpFlags => print_flags(value, mask, field.all_bits(), &TCP),
        Format::TunnelFlags => print_flags(value, mask, field.all_bits(), &TUNNEL),
        Format::Fragment => {
            let same = |&&(_, of, under): &&(&str, u128, u128)| (of, under) == (value, mask);
            let named = FRAGMENTS.iter().find(same);
            named.map_or_else(|| format!("{value}/{mask}"), |(name, ..)| (*name).to_owned())
        }
        Format::PacketType => format!("({},{:#x})", value >> 16, value & 0xffff),
    }
}

fn print_flags(value: u128, mask: u128, all: u128, names: &[&str]) -> String {
    if value >> names.len() != 0 || (mask != all && mask >> names.len() != 0) || mask == 0 {
        return format!("{value:#x}/{mask:#x}");
    }
    let set = |bits: u128, bit: usize| bits >> bit & 1 == 1;
    let named = names.iter().enumerate();
    if mask == all {
        if value == 0 {
            return "0".to_owned();
        }
        let names: Vec<_> =
            named.filter(|&(bit, _)| set(value, bit)).map(|(_, name)| *name).collect();
        return names.join("|");
    }
    let sign = |bit| if set(value, bit) { '+' } else { '-' };
    named
        .filter(|&(bit, _)| set(mask, bit))
        .map(|(bit, name)| format!("{}{name}", sign(bit)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_printed() {
        let names = Names::new();
        for (field, text) in [
            ("reg0", "0x5/0xff"),
            ("ct_state", "+new-est+trk"),
            ("ct_state", "new|trk"),
            ("ct_state", "0"),
            ("tcp_flags", "syn|ack"),
            ("tcp_flags", "+syn-ack-ns"),
            ("nw_frag", "not_later"),
            ("packet_type", "(1,0x800)"),
            ("nw_src", "10.0.0.0/255.0.255.0"),
            ("ipv6_dst", "fe80::/10"),
            ("eth_dst", "01:00:00:00:00:00/01:00:00:00:00:00"),
            ("in_port", "LOCAL"),
            ("nw_proto", "17"),
            ("metadata", "0xffffffffffffffff"),
        ] {
            let known = fields::by_name(field).unwrap();
            let (value, mask) = parse(known, text, &names).unwrap();
            assert_eq!(print(known, value, mask, &names), text, "{field}");
        }
        let parsed = |field, text| parse(fields::by_name(field).unwrap(), text, &names).unwrap();
        assert_eq!(parsed("metadata", "5/-1"), (5, u64::MAX.into()));
        assert_eq!(parsed("ct_state", "0x21"), (0x21, CT_STATES));
        assert_eq!(parsed("ct_state", "0x21/0xffffffff"), (0x21, u32::MAX.into()));
    }

    #[test]
    fn wrong_values_are_named() {
        let names = Names::new();
        for (field, text, at) in [
            ("vlan_pcp", "8", 0..1),
            ("nw_src", "10.0.0.0/33", 9..11),
            ("nw_src", "::1", 0..3),
            ("eth_dst", "00:11:22:33:44", 0..14),
            ("tcp_flags", "+syn-akc", 5..8),
            ("ct_state", "+new+new", 5..8),
            ("ct_state", "new|xyz", 4..7),
            ("reg0", "0x100000000", 0..11),
            ("reg0", "", 0..0),
            ("nw_frag", "maybe", 0..5),
            ("in_port", "eth7", 0..4),
        ] {
            let known = fields::by_name(field).unwrap();
            let error = parse(known, text, &names).unwrap_err().within(text);
            assert_eq!(error.at(), at, "{field} {text}: {error}");
        }
    }
}
