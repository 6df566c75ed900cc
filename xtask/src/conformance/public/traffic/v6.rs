//! IPv6 packets: neighbour discovery, and packets among the hosts that a configuration names (RFC
//! 8200, RFC 4443, RFC 4861).

use std::net::Ipv6Addr;

use super::{Source, add};

/// The next header of an ICMP message, and types of them.
const ICMP: u8 = 58;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;

impl Source<'_> {
    pub(super) fn v6_packet(&mut self) -> Vec<u8> {
        let packet = match self.random.u8(0..8) {
            0 => self.neighbour(SOLICITATION),
            1 => self.neighbour(ADVERTISEMENT),
            _ => self.v6_datagram(),
        };
        self.ethernet(0x86dd, &packet)
    }

    /// An address that the configuration names, or a neighbour of it.
    fn v6_address(&mut self) -> Ipv6Addr {
        let named = &self.addresses.v6;
        let mut octets = named[self.random.usize(..named.len())].octets();
        match self.random.u8(0..6) {
            0 => octets = [0x20, 1, 0xd, 0xb8, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9],
            // Behind a prefix for translation there is an IPv4 address.
            1 if octets[12..] == [0; 4] => octets[12..].copy_from_slice(&[198, 51, 100, 7]),
            2 | 3 => octets[15] = self.random.u8(2..6),
            _ => {}
        }
        octets.into()
    }

    /// A neighbour solicitation or advertisement.
    fn neighbour(&mut self, kind: u8) -> Vec<u8> {
        let (source, target) = (self.v6_address(), self.v6_address());
        let asks = kind == SOLICITATION;
        // The group of all that have these last three octets (RFC 4291, section 2.7.1).
        let mut group = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0, 0, 0];
        group[13..].copy_from_slice(&target.octets()[13..]);
        let (to, about) = if asks { (group.into(), target) } else { (target, source) };
        let flags = if asks { 0 } else { 0x60 };
        let link = [2, 0, 0, 0, 0xaa, about.octets()[15]];
        let option = [&[if asks { 1 } else { 2 }, 1][..], &link].concat();
        let body = [&[kind, 0, 0, 0, flags, 0, 0, 0][..], &about.octets(), &option].concat();
        v6(ICMP, body, source, to, 255)
    }

    fn v6_datagram(&mut self) -> Vec<u8> {
        let (source, target) = (self.v6_address(), self.v6_address());
        let (protocol, segment) = match self.transport() {
            (1, mut echo) => {
                // A message of ICMP becomes one of ICMPv6.
                echo[0] = [128, 129, 3][self.random.usize(..3)];
                (ICMP, echo)
            }
            other => other,
        };
        let limit = [64, 64, 17, 2, 1][self.random.usize(..5)];
        let fault = self.random.u8(0..20);
        let target = match fault {
            0 => Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1),
            1 => Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2),
            _ => target,
        };
        let mut packet = v6(protocol, segment, source, target, limit);
        match fault {
            2 => packet[0] = 0x45,
            3 => packet[40] ^= 0x55,
            4 => packet.truncate(packet.len() - packet.len() / 4),
            _ => {}
        }
        packet
    }
}

/// A whole packet, with the checksum of its segment.
fn v6(
    protocol: u8,
    mut segment: Vec<u8>,
    source: Ipv6Addr,
    target: Ipv6Addr,
    limit: u8,
) -> Vec<u8> {
    let length = (segment.len() as u16).to_be_bytes();
    let ends = [source.octets(), target.octets()].concat();
    let at = match protocol {
        ICMP => Some(2),
        6 => Some(16),
        17 => Some(6),
        _ => None,
    };
    if let Some(at) = at {
        let pseudo = add(add(0, &ends), &[&length[..], &[0, protocol]].concat());
        let sum = !add(pseudo, &segment);
        segment[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }
    [&[0x60, 0, 0, 0][..], &length, &[protocol, limit], &ends, &segment].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_cover_the_pseudo_header() {
        // An echo request from ::1 to ::1: the words 1, 1, 8, 58, 0x8000, 1 and 1 add up to 0x8046.
        let one = Ipv6Addr::LOCALHOST;
        let packet = v6(ICMP, vec![128, 0, 0, 0, 0, 1, 0, 1], one, one, 64);
        assert_eq!(packet.len(), 48);
        let pseudo = add(add(0, &packet[8..40]), &[0, 8, 0, ICMP]);
        assert_eq!(add(pseudo, &packet[40..]), 0xffff);
        assert_eq!(packet[42..44], [0x7f, 0xb9]);
    }
}
