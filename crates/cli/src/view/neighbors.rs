//! `ICMPv6` neighbour discovery (RFC 4861): solicitations, advertisements, redirects and their
//! options.

use std::{fmt::Write as _, net::Ipv6Addr};

use super::{dhcp::colons, dump, number};

/// `ICMPv6` message types.
pub(super) const ROUTER_SOLICITATION: u32 = 133;
pub(super) const ROUTER_ADVERTISEMENT: u32 = 134;
pub(super) const SOLICITATION: u32 = 135;
pub(super) const ADVERTISEMENT: u32 = 136;
pub(super) const REDIRECT: u32 = 137;

/// Lengths of the messages in front of their options.
const SOLICITED: usize = 8;
const ROUTER: usize = 16;
const TARGET: usize = 24;
const TWO_ADDRESSES: usize = 40;
/// Unit of an option's length field, in bytes.
const UNIT: usize = 8;

/// Writes the body of a message of type `kind`; returns `false` if the message is truncated.
pub(super) fn write(kind: u32, bytes: &[u8], verbose: u8, to: &mut String) -> bool {
    let is_whole = message(kind, bytes, verbose, to).is_some();
    if !is_whole {
        to.push_str(" [|icmp6]");
    }
    is_whole
}

fn message(kind: u32, bytes: &[u8], verbose: u8, to: &mut String) -> Option<()> {
    let behind = match kind {
        ROUTER_SOLICITATION => SOLICITED,
        ROUTER_ADVERTISEMENT => {
            if verbose > 0 {
                router(bytes, to)?;
            }
            ROUTER
        }
        SOLICITATION => {
            let _ = write!(to, ", who has {}", address(bytes, 8)?);
            TARGET
        }
        ADVERTISEMENT => {
            let _ = write!(to, ", tgt is {}", address(bytes, 8)?);
            if verbose > 0 {
                let flags = number::<4>(bytes, 4)? >> 24;
                let names = [(0x80, "router"), (0x40, "solicited"), (0x20, "override")];
                let _ = write!(to, ", Flags [{}]", flag_names(flags, &names));
            }
            TARGET
        }
        _ => {
            let (target, destination) = (address(bytes, 8)?, address(bytes, 24)?);
            let _ = write!(to, ", {destination} to {target}");
            TWO_ADDRESSES
        }
    };
    if verbose > 0 {
        options(bytes.get(behind..).unwrap_or_default(), verbose, to)?;
    }
    Some(())
}

/// The address at a place.
pub(super) fn address(bytes: &[u8], at: usize) -> Option<Ipv6Addr> {
    Some(Ipv6Addr::from(*bytes.get(at..)?.first_chunk::<16>()?))
}

fn flag_names(flags: u32, names: &[(u32, &str)]) -> String {
    let set: Vec<&str> =
        names.iter().filter(|(bit, _)| flags & bit != 0).map(|(_, name)| *name).collect();
    if set.is_empty() { "none".into() } else { set.join(", ") }
}

/// Default router preference (RFC 4191).
fn preference(flags: u32) -> &'static str {
    ["medium", "high", "rsv", "low"][(flags >> 3 & 3) as usize]
}

fn router(bytes: &[u8], to: &mut String) -> Option<()> {
    let flags = number::<1>(bytes, 5)?;
    let names =
        [(0x80, "managed"), (0x40, "other stateful"), (0x20, "home agent"), (0x02, "ipv6 only")];
    let (lifetime, reachable) = (number::<2>(bytes, 6)?, number::<4>(bytes, 8)?);
    let retransmitted = number::<4>(bytes, 12)?;
    let _ = write!(
        to,
        "\n\thop limit {}, Flags [{}], pref {}, router lifetime {lifetime}s, reachable time \
         {reachable}ms, retrans timer {retransmitted}ms",
        number::<1>(bytes, 4)?,
        flag_names(flags, &names),
        preference(flags),
    );
    Some(())
}

/// Writes a line per option; returns `None` if the last option is truncated.
fn options(mut bytes: &[u8], verbose: u8, to: &mut String) -> Option<()> {
    while let Some(kind) = bytes.first() {
        let units = usize::from(*bytes.get(1)?);
        let (option, rest) =
            bytes.split_at_checked(units * UNIT).filter(|(option, _)| !option.is_empty())?;
        let name = match kind {
            1 => "source link-address",
            2 => "destination link-address",
            3 => "prefix info",
            4 => "redirected header",
            5 => "mtu",
            7 => "advertisement interval",
            8 => "homeagent information",
            24 => "route info",
            25 => "rdnss",
            31 => "dnssl",
            _ => "unknown",
        };
        let _ = write!(to, "\n\t  {name} option ({kind}), length {} ({units}): ", option.len());
        value(*kind, option, verbose, to)?;
        if verbose > 1 {
            dump(&option[2..], "\n\t    ", to);
        }
        bytes = rest;
    }
    Some(())
}

/// Formats a lifetime in seconds; all ones is infinity.
fn time(seconds: u32) -> String {
    if seconds == u32::MAX { "infinity".into() } else { format!("{seconds}s") }
}

fn value(kind: u8, option: &[u8], verbose: u8, to: &mut String) -> Option<()> {
    let _ = match kind {
        1 | 2 => write!(to, "{}", colons(&option[2..])),
        3 => {
            let flags = number::<1>(option, 3)?;
            let names = [(0x80, "onlink"), (0x40, "auto"), (0x20, "router")];
            let (valid, preferred) = (number::<4>(option, 4)?, number::<4>(option, 8)?);
            write!(
                to,
                "{}/{}, Flags [{}], valid time {}, pref. time {}",
                address(option, 16)?,
                number::<1>(option, 2)?,
                flag_names(flags, &names),
                time(valid),
                time(preferred),
            )
        }
        4 => {
            dump(option, "\n\t    ", to);
            Ok(())
        }
        5 => {
            let wrong = if option.len() == UNIT { "" } else { "bad option length" };
            write!(to, " {}{wrong}", number::<4>(option, 4)?)
        }
        7 => write!(to, " {}ms", number::<4>(option, 4)?),
        8 => {
            let (preference, lifetime) = (number::<2>(option, 4)?, number::<2>(option, 6)?);
            write!(to, " preference {preference}, lifetime {lifetime}")
        }
        24 => {
            let mut prefix = [0; 16];
            let given = option.get(8..).unwrap_or_default();
            let given = &given[..given.len().min(prefix.len())];
            prefix[..given.len()].copy_from_slice(given);
            let (length, flags) = (number::<1>(option, 2)?, number::<1>(option, 3)?);
            let lifetime = time(number::<4>(option, 4)?);
            let prefix = Ipv6Addr::from(prefix);
            write!(to, " {prefix}/{length}, pref={}, lifetime={lifetime}", preference(flags))
        }
        25 => {
            let _ = write!(to, " lifetime {}s,", number::<4>(option, 4)?);
            for server in option[8..].as_chunks::<16>().0 {
                let _ = write!(to, " addr: {}", Ipv6Addr::from(*server));
            }
            Ok(())
        }
        31 => {
            let _ = write!(to, " lifetime {}s, domain(s):", number::<4>(option, 4)?);
            let mut rest = &option[8..];
            while rest.first().is_some_and(|length| *length > 0) {
                to.push(' ');
                rest = domain(rest, to)?;
            }
            Ok(())
        }
        _ => {
            if verbose == 1 {
                dump(&option[2..], "\n\t  ", to);
            }
            Ok(())
        }
    };
    Some(())
}

/// Writes a DNS name in dotted form; returns the bytes behind it.
fn domain<'a>(mut bytes: &'a [u8], to: &mut String) -> Option<&'a [u8]> {
    loop {
        let (length, rest) = bytes.split_first()?;
        if *length == 0 {
            return Some(rest);
        }
        let (label, rest) = rest.split_at_checked(usize::from(*length))?;
        let shown = |byte: &u8| if byte.is_ascii_graphic() { char::from(*byte) } else { '.' };
        to.extend(label.iter().map(shown));
        to.push('.');
        bytes = rest;
    }
}
