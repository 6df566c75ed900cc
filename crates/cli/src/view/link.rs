//! Ethernet frames, VLAN tags, ARP.

use std::fmt::Write as _;

use linerate_packet::{Arp, EtherType, MacAddr, arp::Operation};

use super::{View, network, number};

/// Bytes of an Ethernet header.
pub(super) const HEADER: usize = 14;
const TAG: usize = 4;
/// Numbers below are lengths, not types.
pub(super) const LEAST_TYPE: u16 = 0x600;

/// Writes a frame that had so many bytes more.
pub(super) fn write(frame: &[u8], missing: usize, view: &mut View, to: &mut String) {
    let with_link = view.style.link;
    let length = frame.len() + missing;
    let Some(kind) = number::<2>(frame, 12) else {
        to.push_str("[|ether]");
        return;
    };
    let kind = EtherType(kind as u16);
    if with_link {
        addresses(frame, to);
        let _ = write!(to, ", {}, length {length}: ", type_of(kind));
    }
    if let Some(kind) = payload(kind, &frame[HEADER..], missing, false, view, to) {
        addresses(frame, to);
        let _ = write!(to, ", {}, length {length}", type_of(kind));
    }
}

/// Writes what is behind a link's header, with its tags, behind each of which there is a type at least where
/// the header was `cooked`. Returns the type of a payload that there is no text for, where the header is
/// still to be shown.
pub(super) fn payload(
    mut kind: EtherType,
    mut rest: &[u8],
    missing: usize,
    cooked: bool,
    view: &mut View,
    to: &mut String,
) -> Option<EtherType> {
    let with_link = view.style.link;
    while kind.is_vlan() {
        let (Some(tag), Some(next)) = (number::<2>(rest, 0), number::<2>(rest, 2)) else {
            to.push_str("[|vlan]");
            return None;
        };
        (kind, rest) = (EtherType(next as u16), &rest[TAG..]);
        if with_link {
            let _ = write!(to, "vlan {}, p {}", tag & 0xfff, tag >> 13);
            to.push_str(if tag & 0x1000 == 0 { ", " } else { ", DEI, " });
        }
        if cooked {
            let _ = write!(to, "ethertype {}, ", name(kind));
        } else if with_link {
            let _ = write!(to, "{}, ", type_of(kind));
        }
    }
    match kind {
        EtherType::IPV4 => {
            to.push_str(if with_link { "" } else { "IP " });
            network::four(rest, missing, view, to);
        }
        EtherType::IPV6 => {
            to.push_str(if with_link { "" } else { "IP6 " });
            network::six(rest, missing, view, to);
        }
        EtherType::ARP => {
            to.push_str(if with_link { "" } else { "ARP, " });
            arp(rest, view.style.verbose > 0, to);
        }
        _ if with_link => {
            let _ = write!(to, "{} bytes", rest.len() + missing);
        }
        kind => return Some(kind),
    }
    None
}

fn addresses(frame: &[u8], to: &mut String) {
    if let Some((destination, rest)) = frame.split_first_chunk::<6>()
        && let Some(source) = rest.first_chunk::<6>()
    {
        let _ = write!(to, "{} > {}", MacAddr(*source), MacAddr(*destination));
    }
}

/// `ethertype IPv4 (0x0800)`, or `802.3`.
pub(super) fn type_of(kind: EtherType) -> String {
    if kind.0 < LEAST_TYPE {
        return "802.3".into();
    }
    format!("ethertype {} (0x{:04x})", name(kind), kind.0)
}

fn name(kind: EtherType) -> &'static str {
    match kind {
        EtherType::IPV4 => "IPv4",
        EtherType::IPV6 => "IPv6",
        EtherType::ARP => "ARP",
        EtherType(0x8035) => "Reverse ARP",
        EtherType::VLAN => "802.1Q",
        EtherType::QINQ => "802.1Q-QinQ",
        EtherType::QINQ_LEGACY => "802.1Q-9100",
        EtherType::MPLS => "MPLS unicast",
        EtherType::LLDP => "LLDP",
        EtherType(0x8863) => "PPPoE D",
        EtherType(0x8864) => "PPPoE S",
        EtherType(0x888e) => "EAPOL",
        _ => "Unknown",
    }
}

fn arp(message: &[u8], verbose: bool, to: &mut String) {
    let length = message.len();
    let Ok(arp) = Arp::new_checked(message) else {
        let _ = write!(to, "[|arp], length {length}");
        return;
    };
    if verbose {
        to.push_str("Ethernet (len 6), IPv4 (len 4), ");
    }
    let (sender, target) = (arp.sender_ip(), arp.target_ip());
    let _ = match arp.operation() {
        Operation::REQUEST => {
            // A request to a known host has its address.
            let asked = match arp.target_mac() {
                MacAddr([0, 0, 0, 0, 0, 0]) => String::new(),
                mac => format!(" ({mac})"),
            };
            write!(to, "Request who-has {target}{asked} tell {sender}")
        }
        Operation::REPLY => {
            write!(to, "Reply {sender} is-at {}", arp.sender_mac())
        }
        Operation(other) => write!(to, "operation {other}"),
    };
    let _ = write!(to, ", length {length}");
}
