//! Extension headers of IPv6 (RFC 8200) in the format of tcpdump: options and fragments. Other
//! headers have no text.

use std::{fmt::Write as _, net::Ipv6Addr};

use linerate_packet::{
    IpProtocol,
    ipv6_ext::{Extensions, Fragment},
};

use super::{network::Ends, number};

/// Option types.
const PAD_1: u8 = 0;
const PAD_N: u8 = 1;
const ROUTER_ALERT: u8 = 5;
const JUMBO: u8 = 0xc2;
const HOME_ADDRESS: u8 = 0xc9;

/// The mark of a header of this type that is truncated; `None` for one without text.
fn truncation(kind: IpProtocol) -> Option<&'static str> {
    match kind {
        IpProtocol::HOP_BY_HOP => Some(" [|hbhopt]"),
        IpProtocol::DESTINATION => Some(" [|dstopt]"),
        IpProtocol::FRAGMENT => Some(" [|frag6]"),
        _ => None,
    }
}

/// Writes the extension headers of a payload of `length` bytes, of which the first is `next`, behind
/// the addresses of the packet. Returns true if there were any, and the addresses are written; `None`
/// if nothing follows.
pub(super) fn write(
    next: IpProtocol,
    payload: &[u8],
    length: usize,
    ends: Ends,
    verbose: u8,
    to: &mut String,
) -> Option<bool> {
    let (mut kind, mut left, mut introduced) = (next, length, false);
    for extension in Extensions::new(next, payload) {
        let mark = truncation(kind);
        if mark.is_some() && !introduced {
            ends.write(to);
            introduced = true;
        }
        let extension = match (extension, mark) {
            (Ok(extension), _) => extension,
            (Err(_), Some(mark)) => {
                to.push_str(mark);
                return None;
            }
            (Err(_), None) => break,
        };
        left = left.saturating_sub(extension.header.len());
        if let Some(mark) = mark {
            let is_whole = match Fragment::from_extension(&extension) {
                Some(found) => {
                    fragment(found, left, verbose, to);
                    if found.offset > 0 {
                        return None;
                    }
                    to.push(' ');
                    true
                }
                None => options(kind, extension.header, verbose > 0, to),
            };
            if !is_whole {
                to.push_str(mark);
                return None;
            }
        }
        kind = IpProtocol(extension.header[0]);
    }
    Some(introduced)
}

/// A fragment header that `left` bytes follow.
fn fragment(fragment: Fragment, left: usize, verbose: u8, to: &mut String) {
    to.push_str("frag (");
    if verbose > 0 {
        let _ = write!(to, "0x{:08x}:", fragment.ident);
    }
    let _ = write!(to, "{}|{left})", fragment.offset);
}

/// The options of a header; returns false if the last is truncated. tcpdump reads those of other
/// headers than the first kind only if it writes them.
fn options(kind: IpProtocol, header: &[u8], verbose: bool, to: &mut String) -> bool {
    let is_hop_by_hop = kind == IpProtocol::HOP_BY_HOP;
    to.push_str(if is_hop_by_hop { "HBH " } else { "DSTOPT " });
    if !is_hop_by_hop && !verbose {
        return true;
    }
    let mut rest = header.get(2..).unwrap_or_default();
    while let Some((option, behind)) = rest.split_first() {
        if *option == PAD_1 {
            to.push_str(if verbose { "(pad1)" } else { "" });
            rest = behind;
            continue;
        }
        let Some((length, behind)) = behind.split_first() else { return false };
        let Some((value, behind)) = behind.split_at_checked(usize::from(*length)) else {
            return false;
        };
        let (name, is_valid) = match *option {
            ROUTER_ALERT => ("rtalert", value.len() == 2),
            JUMBO => ("jumbo", value.len() == 4),
            HOME_ADDRESS => ("homeaddr", value.len() >= 16),
            _ => ("", true),
        };
        if !is_valid {
            let _ = write!(to, "({name}: invalid len {length})");
            return false;
        }
        if verbose {
            to.push_str(&text(*option, value, is_hop_by_hop));
        }
        rest = behind;
    }
    to.push_str(if verbose { " " } else { "" });
    true
}

/// An option of valid length.
fn text(option: u8, value: &[u8], is_hop_by_hop: bool) -> String {
    match option {
        PAD_N => "(padn)".into(),
        ROUTER_ALERT => format!("(rtalert: 0x{:04x}) ", number::<2>(value, 0).unwrap_or(0)),
        JUMBO => {
            // A packet with a payload length is none.
            let fault = if is_hop_by_hop { "payload len != 0" } else { "not a hop-by-hop option" };
            format!("(jumbo: {} - {fault}) ", number::<4>(value, 0).unwrap_or(0))
        }
        HOME_ADDRESS => {
            let address = value.first_chunk::<16>().copied().map(Ipv6Addr::from);
            format!("(homeaddr: {})", address.unwrap_or(Ipv6Addr::UNSPECIFIED))
        }
        _ => format!("(opt_type 0x{option:02x}: len={})", value.len()),
    }
}
