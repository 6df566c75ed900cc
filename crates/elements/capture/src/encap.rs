//! Link types: their names, and the place of the IP header behind each.
//!
//! The numbers are those of capture files (tcpdump.org's list of link types);
//! the names are Click's.

use std::fmt;

use linerate_graph::parse_integer;

/// A link type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Encap(pub(super) u32);

/// Number and names of each type, the name that is printed first.
const NAMES: &[(u32, &[&str])] = &[
    (0, &["NULL"]),
    (101, &["IP"]),
    (1, &["ETHER"]),
    (10, &["FDDI"]),
    (100, &["ATM", "RFC1483", "ATM_RFC1483"]),
    (105, &["802_11", "802.11"]),
    (127, &["802_11_RADIO", "802.11_RADIO"]),
    (113, &["SLL"]),
    (120, &["AIRONET"]),
    (104, &["HDLC"]),
    (50, &["PPP_HDLC"]),
    (9, &["PPP"]),
    (123, &["SUNATM"]),
    (119, &["PRISM"]),
];

const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];
const VLAN: [u8; 2] = [0x81, 0x00];

impl Encap {
    pub(super) const ETHER: Encap = Encap(1);
    const IP: Encap = Encap(101);

    /// The type of a capture file. BSD's number for raw IP is made the
    /// portable one.
    pub(super) fn of_file(link: u32) -> Encap {
        if link == 12 { Encap::IP } else { Encap(link) }
    }

    /// Reads a name, or `#` and a number.
    pub(super) fn parse(text: &str) -> Option<Encap> {
        let named = NAMES.iter().find(|(_, names)| names.contains(&text));
        if let Some((number, _)) = named {
            return Some(Encap(*number));
        }
        let number = parse_integer(text.strip_prefix('#')?)?;
        u32::try_from(number).ok().filter(|number| *number < 0x7fff_ffff).map(Encap)
    }

    /// Returns true if packets of this type begin with their IP header.
    pub(super) fn is_ip(self) -> bool {
        self == Encap::IP
    }

    /// Returns true if [`Encap::ip_header`] can find a header.
    pub(super) fn leads_to_ip(self) -> bool {
        matches!(self.0, 0 | 1 | 9 | 10 | 50 | 100 | 101 | 104 | 105 | 113 | 119 | 123 | 127)
    }

    /// Returns the begin and the end of a packet's IP header, if it has a whole one.
    #[inline]
    pub(super) fn ip_header(self, packet: &[u8]) -> Option<IpHeader> {
        let start = match self {
            Encap::ETHER => ethernet(packet, 0)?,
            Encap::IP => 0,
            other => other.behind(packet)?,
        };
        IpHeader::at(packet, start)
    }

    /// Returns the end of the link header of a type other than Ethernet.
    fn behind(self, packet: &[u8]) -> Option<usize> {
        match self.0 {
            10 => fddi(packet, 0),
            100 => llc(packet, 0),
            123 => llc(packet, 4),
            113 => is_ip(packet, 14).then_some(16),
            104 => is_ip(packet, 2).then_some(4),
            50 => match *packet.first_chunk()? {
                [0xff, _, 0, 0x21 | 0x57] => Some(4),
                [0x0f | 0x8f, _, _, _] => is_ip(packet, 2).then_some(4),
                _ => None,
            },
            9 => {
                let start = if packet.starts_with(&[0xff, 0x03]) { 2 } else { 0 };
                match *packet.get(start..)?.first_chunk()? {
                    [0x21 | 0x57, _] => Some(start + 1),
                    [0, 0x21 | 0x57] => Some(start + 2),
                    _ => None,
                }
            }
            105 => wifi(packet, 0),
            119 => wifi(packet, 144),
            127 => {
                let &[_, _, low, high] = packet.first_chunk()?;
                let length = usize::from(u16::from_le_bytes([low, high]));
                if length < 8 { None } else { wifi(packet, length) }
            }
            0 => {
                let &[first, second, third, fourth] = packet.first_chunk()?;
                // The number of the address family, in the order of the
                // machine that captured.
                let family = match u16::from_le_bytes([first, second]) {
                    0 => u16::from_be_bytes([third, fourth]),
                    family => family,
                };
                matches!(family, 2 | 24 | 28 | 30).then_some(4)
            }
            _ => None,
        }
    }
}

/// Returns true if the EtherType at `at` is that of IP.
fn is_ip(packet: &[u8], at: usize) -> bool {
    matches!(two(packet, at), Some(IPV4 | IPV6))
}

fn two(packet: &[u8], at: usize) -> Option<[u8; 2]> {
    packet.get(at..)?.first_chunk().copied()
}

/// Returns the end of an Ethernet header at `at`, with at most one tag.
#[inline]
fn ethernet(packet: &[u8], at: usize) -> Option<usize> {
    match two(packet, at + 12)? {
        IPV4 | IPV6 => Some(at + 14),
        VLAN if is_ip(packet, at + 16) => Some(at + 18),
        _ => None,
    }
}

fn fddi(packet: &[u8], at: usize) -> Option<usize> {
    // Frame control, two addresses, then LLC and SNAP; only asynchronous LLC
    // frames carry data.
    let &[control, ..] = packet.get(at..)?.first_chunk::<21>()?;
    if control & 0xf8 == 0x50 { llc(packet, at + 13) } else { None }
}

/// Returns the end of an LLC header at `at`, with SNAP or without, and of a bridged header in it.
fn llc(packet: &[u8], at: usize) -> Option<usize> {
    let rest = packet.get(at..)?;
    let snap: Option<&[u8; 8]> = rest.first_chunk();
    match snap {
        Some([0xaa, 0xaa, 0x03, 0, 0, 0, kind @ ..]) if matches!(*kind, IPV4 | IPV6) => {
            return Some(at + 8);
        }
        _ => {}
    }
    if rest.starts_with(&[0x06, 0x06]) && rest.len() >= 4 {
        return Some(at + 4);
    }
    match *snap? {
        // Ethernet in SNAP: the type is the SNAP header's own.
        [0xaa, 0xaa, _, 0, 0, 0 | 0xf8, ..] => ethernet(packet, (at + 6).checked_sub(12)?),
        [0xaa, 0xaa, _, 0, 0x80, 0xc2, 0, 0x01 | 0x07] => ethernet(packet, at + 8),
        [0xaa, 0xaa, _, 0, 0x80, 0xc2, 0, 0x04 | 0x0a] => fddi(packet, at + 9),
        _ => None,
    }
}

/// Returns the end of an 802.11 data header at `at`, which has a fourth address between two access
/// points.
fn wifi(packet: &[u8], at: usize) -> Option<usize> {
    let &[kind, direction, ..] = packet.get(at..)?.first_chunk::<24>()?;
    if kind & 0x0c != 0x08 {
        return None;
    }
    llc(packet, at + if direction & 3 == 3 { 30 } else { 24 })
}

/// Begin and end of an IP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct IpHeader {
    pub(super) start: u16,
    pub(super) end: u16,
    /// The destination address, of IPv4.
    pub(super) destination: Option<[u8; 4]>,
}

impl IpHeader {
    /// The header at `start`, when it is of IPv4 or IPv6 and whole.
    #[inline]
    fn at(packet: &[u8], start: usize) -> Option<IpHeader> {
        let rest = packet.get(start..)?;
        let first = *rest.first()?;
        let (length, destination) = match first >> 4 {
            4 => {
                let header: &[u8; 20] = rest.first_chunk()?;
                let [.., a, b, c, d] = *header;
                (usize::from(first & 15) * 4, Some([a, b, c, d]))
            }
            6 => (40, None),
            _ => return None,
        };
        let whole = length >= 20 && length <= rest.len() && start + length < usize::from(u16::MAX);
        whole.then_some(IpHeader { start: start as u16, end: (start + length) as u16, destination })
    }
}

impl fmt::Display for Encap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.iter().find(|(number, _)| *number == self.0) {
            Some((_, names)) => f.write_str(names[0]),
            None => write!(f, "#{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_there_and_back() {
        for (number, names) in NAMES {
            for name in *names {
                assert_eq!(Encap::parse(name), Some(Encap(*number)), "{name}");
            }
            assert_eq!(Encap(*number).to_string(), names[0]);
        }
        assert_eq!(Encap::parse("#276"), Some(Encap(276)));
        assert_eq!(Encap(276).to_string(), "#276");
        assert_eq!(Encap::parse("ethernet"), None);
        assert_eq!(Encap::parse("#-1"), None);
    }

    #[test]
    fn the_ip_header_behind_every_type() {
        let snap = [0xaa, 0xaa, 3, 0, 0, 0, 8, 0];
        let mut ip = [0; 20];
        ip[0] = 0x45;
        let cases: &[(u32, Vec<u8>)] = &[
            (101, vec![]),
            (1, [&[0; 12][..], &[8, 0]].concat()),
            (1, [&[0; 12][..], &[0x81, 0, 0, 1, 8, 0]].concat()),
            (10, [&[0x50][..], &[0; 12], &snap].concat()),
            (100, snap.to_vec()),
            (100, vec![6, 6, 3, 0]),
            (100, [&[0xaa, 0xaa, 3, 0, 0x80, 0xc2, 0, 7][..], &[0; 12], &[8, 0]].concat()),
            (123, [&[0; 4][..], &snap].concat()),
            (113, [&[0; 14][..], &[8, 0]].concat()),
            (104, vec![0x0f, 0, 8, 0]),
            (50, vec![0xff, 3, 0, 0x21]),
            (50, vec![0x8f, 0, 8, 0]),
            (9, vec![0x21]),
            (9, vec![0xff, 3, 0, 0x21]),
            (105, [&[8, 0][..], &[0; 22], &snap].concat()),
            (105, [&[8, 3][..], &[0; 28], &snap].concat()),
            (119, [&[0; 144][..], &[8, 0], &[0; 22], &snap].concat()),
            (127, [&[0, 0, 8, 0, 0, 0, 0, 0, 8, 0][..], &[0; 22], &snap].concat()),
            (0, vec![2, 0, 0, 0]),
            (0, vec![0, 0, 0, 2]),
        ];
        for (link, header) in cases {
            let packet = [&header[..], &ip].concat();
            let found = Encap(*link).ip_header(&packet).unwrap_or_else(|| panic!("{link}"));
            assert_eq!(usize::from(found.start), header.len(), "{link}");
            assert_eq!(usize::from(found.end), packet.len(), "{link}");
            assert!(Encap(*link).leads_to_ip());
            // However short a packet is cut, it is only not recognised.
            for length in 0..packet.len() {
                assert_eq!(Encap(*link).ip_header(&packet[..length]), None, "{link} {length}");
            }
        }
        assert_eq!(Encap::ETHER.ip_header(&[0; 60]), None);
        assert_eq!(Encap(120).ip_header(&ip), None);
    }
}
