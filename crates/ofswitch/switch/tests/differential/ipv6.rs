//! Packets of IPv6 in the place of packets of IPv4, with the same ports and data.

use std::net::Ipv6Addr;

use crate::stateful::{checksum, sum_of};

const ICMP: u8 = 1;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;

/// The address in the place of one of IPv4.
pub(crate) fn address(v4: [u8; 4]) -> Ipv6Addr {
    Ipv6Addr::from(0x2001_0db8_u128 << 96 | u128::from(u32::from_be_bytes(v4)))
}

/// The packet in the place of one of IPv4, which may have a tag.
pub(crate) fn packet(v4: &[u8]) -> Vec<u8> {
    let kind = if v4[12..14] == [0x81, 0] { 16 } else { 12 };
    let mut packet = v4[..kind].to_vec();
    packet.extend([0x86, 0xdd]);
    packet.extend(ip(&v4[kind + 2..], false));
    packet.resize(packet.len().max(60), 0);
    packet
}

/// The packet from the header of IP on. What an error quotes is cut.
fn ip(v4: &[u8], is_quoted: bool) -> Vec<u8> {
    let length = usize::from(u16::from_be_bytes([v4[2], v4[3]]));
    let carried = &v4[20..length.min(v4.len())];
    let (protocol, at, mut carried) = match v4[9] {
        ICMP => (ICMPV6, 2, message(carried)),
        UDP => (UDP, 6, carried.to_vec()),
        protocol => (protocol, 16, carried.to_vec()),
    };
    let mut ip = vec![0x60, 0, 0, 0, 0, 0, protocol, 64];
    for from in [12, 16] {
        let v4 = v4[from..from + 4].first_chunk().expect("an address");
        ip.extend(address(*v4).octets());
    }
    let length = if is_quoted { length - 20 } else { carried.len() };
    ip[4..6].copy_from_slice(&(length as u16).to_be_bytes());
    // That of what is quoted is of data that is not there.
    if !is_quoted {
        carried[at..at + 2].fill(0);
        let head = u32::from(protocol) + carried.len() as u32 + sum_of(&ip[8..40]);
        let sum = match checksum(head + sum_of(&carried)) {
            [0, 0] if protocol == UDP => [0xff, 0xff],
            sum => sum,
        };
        carried[at..at + 2].copy_from_slice(&sum);
    }
    ip.extend(carried);
    ip
}

/// The message of `ICMPv6` in the place of an echo, its reply or an error.
fn message(v4: &[u8]) -> Vec<u8> {
    let kind = match v4[0] {
        8 => [128, 0],
        0 => [129, 0],
        // The address cannot be reached.
        _ => [1, 3],
    };
    let mut message = kind.to_vec();
    message.extend(&v4[2..8]);
    if kind[0] == 1 {
        message.extend(ip(&v4[8..], true));
    } else {
        message.extend(&v4[8..]);
    }
    message
}
