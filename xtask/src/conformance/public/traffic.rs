//! Captures of packets for a configuration: to and from the addresses it names, in bursts, with
//! everything that routers, translators and filters must tell apart.
//!
//! A configuration always gets the same captures. Bytes are laid out here and not by our own
//! builders, which also stand behind some elements that are judged.

mod v6;

use std::fs;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

use fastrand::Rng;

/// Packets of one capture.
const PACKETS: usize = 400;

/// Most packets that come at once.
const BURST: usize = 40;

/// The first packet's time, in seconds since 1970.
const START: u32 = 1_000_000_000;

/// `LINKTYPE_ETHERNET`.
const ETHERNET: u32 = 1;

/// Addresses of the hosts that take part.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Addresses {
    v4: Vec<Ipv4Addr>,
    mac: Vec<[u8; 6]>,
    /// Those of `v4` that elements of the configuration have: no neighbour says they are its own.
    own: Vec<Ipv4Addr>,
    /// With some of these, every other packet is IPv6.
    v6: Vec<Ipv6Addr>,
    /// Ports, VLANs and networks of tunnels: where there are some, they are drawn, too.
    numbers: Vec<u16>,
}

impl Addresses {
    /// All that a configuration names, and those of its interfaces.
    pub(crate) fn parse(text: &str) -> Addresses {
        let mut all = Addresses::default();
        let is_part = |letter: char| letter.is_ascii_hexdigit() || matches!(letter, '.' | ':');
        for piece in text.split(|letter| !is_part(letter)) {
            if let Ok(address) = piece.parse::<Ipv4Addr>() {
                all.add(address);
            } else if let Some(mac) = parse_mac(piece)
                && !all.mac.contains(&mac)
            {
                all.mac.push(mac);
            }
        }
        all
    }

    /// Adds an address, and of a network a host.
    pub(crate) fn add(&mut self, address: Ipv4Addr) {
        let octets = address.octets();
        let host = if octets[3] == 0 { [octets[0], octets[1], octets[2], 77] } else { octets };
        let host = Ipv4Addr::from(host);
        if octets[0] != 0 && octets[0] < 224 && !self.v4.contains(&host) {
            self.v4.push(host);
        }
    }

    /// Says that an element of the configuration has this address.
    pub(crate) fn add_own(&mut self, address: Ipv4Addr) {
        self.own.push(address);
    }

    /// Adds the IPv6 addresses that a configuration names.
    pub(crate) fn add_v6_of(&mut self, text: &str) {
        let is_part = |letter: char| letter.is_ascii_hexdigit() || matches!(letter, '.' | ':');
        for piece in text.split(|letter| !is_part(letter)) {
            if let Ok(address) = piece.parse::<Ipv6Addr>()
                && !address.is_unspecified()
                && !self.v6.contains(&address)
            {
                self.v6.push(address);
            }
        }
    }

    /// Adds the numbers that a configuration's words are.
    pub(crate) fn add_numbers_of(&mut self, text: &str) {
        let is_part = |letter: char| letter.is_alphanumeric() || matches!(letter, '.' | ':' | '/');
        for piece in text.split(|letter| !is_part(letter)) {
            if let Ok(number) = piece.parse::<u16>()
                && number > 1
                && !self.numbers.contains(&number)
            {
                self.numbers.push(number);
            }
        }
    }

    /// Adds a hardware address.
    pub(crate) fn add_mac(&mut self, mac: [u8; 6]) {
        if !self.mac.contains(&mac) {
            self.mac.push(mac);
        }
    }
}

fn parse_mac(text: &str) -> Option<[u8; 6]> {
    let octets: Vec<u8> =
        text.split(':').map(|octet| u8::from_str_radix(octet, 16).ok()).collect::<Option<_>>()?;
    octets.try_into().ok()
}

/// Writes a capture whose packets are drawn from this seed.
pub(crate) fn write(path: &Path, addresses: &Addresses, seed: u64) -> io::Result<()> {
    let mut source = Source { addresses, random: Rng::with_seed(seed) };
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, ETHERNET] {
        file.extend(u32::to_le_bytes(word));
    }
    // All captures begin with one packet at the same time, from which the others' times count. After
    // it no two have packets at the same time: which came first would be up to the order of tasks.
    let mut time = 0;
    let mut left_in_burst = 1;
    for number in 0..PACKETS {
        let packet = match number {
            // Equal in all of them: the order of these then does not show.
            0 => [[2, 0, 0, 0, 0xdd, 1], [2, 0, 0, 0, 0xcc, 5], [0x88, 0xb5, 0, 0, 0, 0]].concat(),
            _ => source.packet(number),
        };
        let length = packet.len() as u32;
        let seconds = START + (time / 1_000_000) as u32;
        for word in [seconds, (time % 1_000_000) as u32, length, length] {
            file.extend(word.to_le_bytes());
        }
        file.extend(packet);
        left_in_burst -= 1;
        if left_in_burst == 0 {
            left_in_burst = source.random.usize(1..=BURST);
            let offset = if number == 0 { 7_000 * (1 + seed) } else { 0 };
            time += offset + 250_000 * source.random.u64(1..=2);
        }
    }
    fs::write(path, file)
}

struct Source<'a> {
    addresses: &'a Addresses,
    random: Rng,
}

impl Source<'_> {
    fn packet(&mut self, number: usize) -> Vec<u8> {
        if !self.addresses.v6.is_empty() && self.random.bool() {
            return self.v6_packet();
        }
        let kind = self.random.u8(0..100);
        match kind {
            0..10 => self.arp(1),
            10..20 => self.arp(2),
            20..95 => {
                let ip = self.ip(number);
                self.ethernet(0x0800, &ip)
            }
            95..97 => {
                let ip = self.ip(number);
                let vlan = (self.number().unwrap_or(7) & 0x0fff).to_be_bytes();
                self.ethernet(0x8100, &[&vlan[..], &[8, 0], &ip].concat())
            }
            97 => self.ethernet(0x86dd, &ipv6()),
            98 => self.ethernet(0x88b5, &[number as u8; 46]),
            _ => {
                // Nothing behind an Ethernet header, or next to nothing.
                let mut frame = self.ethernet(0x88b5, &[]);
                frame.truncate(14 + self.random.usize(..7));
                frame
            }
        }
    }

    /// An address that the configuration names, or sometimes another.
    fn address(&mut self) -> Ipv4Addr {
        let named = &self.addresses.v4;
        if named.is_empty() || self.random.u8(0..5) == 0 {
            return Ipv4Addr::new(198, 51, 100, self.random.u8(1..9));
        }
        let address = named[self.random.usize(..named.len())];
        // A neighbour in the same network.
        if self.random.u8(0..3) == 0 {
            let octets = address.octets();
            return Ipv4Addr::new(octets[0], octets[1], octets[2], self.random.u8(2..6));
        }
        address
    }

    /// A number that the configuration names, if there are any.
    fn number(&mut self) -> Option<u16> {
        let named = &self.addresses.numbers;
        (!named.is_empty()).then(|| named[self.random.usize(..named.len())])
    }

    fn hardware(&mut self) -> [u8; 6] {
        let named = &self.addresses.mac;
        match self.random.u8(0..10) {
            0 => [0xff; 6],
            1 => [1, 0, 0x5e, 0, 0, 5],
            2 => [2, 0, 0, 0, 0xee, self.random.u8(1..4)],
            _ if named.is_empty() => [2, 0, 0, 0, 0xdd, 1],
            _ => named[self.random.usize(..named.len())],
        }
    }

    fn ethernet(&mut self, kind: u16, payload: &[u8]) -> Vec<u8> {
        let to = self.hardware();
        let from = [2, 0, 0, 0, 0xcc, self.random.u8(1..5)];
        let mut frame = [&to[..], &from, &kind.to_be_bytes(), payload].concat();
        // Short frames are padded by the sender.
        frame.resize(frame.len().max(60), 0);
        frame
    }

    fn arp(&mut self, operation: u8) -> Vec<u8> {
        let (mut sender, target) = (self.address(), self.address());
        if operation == 2 && self.addresses.own.contains(&sender) {
            let octets = sender.octets();
            sender = Ipv4Addr::new(octets[0], octets[1], octets[2], 99);
        }
        let hardware = [2, 0, 0, 0, 0xaa, sender.octets()[3]];
        let asked = if operation == 1 { [0; 6] } else { self.hardware() };
        let body = [
            &[0, 1, 8, 0, 6, 4, 0, operation][..],
            &hardware,
            &sender.octets(),
            &asked,
            &target.octets(),
        ]
        .concat();
        let mut frame = self.ethernet(0x0806, &body);
        if operation == 1 {
            frame[..6].fill(0xff);
        }
        frame
    }

    fn ip(&mut self, number: usize) -> Vec<u8> {
        let (source, target) = (self.address(), self.address());
        let fault = self.random.u8(0..20);
        let target = match fault {
            0 => Ipv4Addr::BROADCAST,
            1 => Ipv4Addr::new(224, 0, 0, 9),
            _ => target,
        };
        let (protocol, mut segment) = self.transport();
        finish(protocol, &mut segment, source, target);
        let options: &[u8] = if fault == 2 { &[1, 1, 1, 0] } else { &[] };
        let fragment: u16 = match fault {
            3 => 0x2000,
            4 => 0x0003,
            5 => 0x4000,
            _ => 0,
        };
        let ttl = [64, 64, 64, 17, 2, 1][self.random.usize(..6)];
        let length = (20 + options.len() + segment.len()) as u16;
        let mut header = [
            &[0x45 + options.len() as u8 / 4, self.random.u8(0..3) * 8][..],
            &length.to_be_bytes(),
            &(number as u16).to_be_bytes(),
            &fragment.to_be_bytes(),
            &[ttl, protocol, 0, 0],
            &source.octets(),
            &target.octets(),
            options,
        ]
        .concat();
        let sum = !add(0, &header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        match fault {
            6 => header[10] ^= 0x55,
            7 => header[0] = 0x65,
            _ => {}
        }
        let mut packet = [header, segment].concat();
        if fault == 8 {
            packet.truncate(packet.len() - packet.len() / 4);
        }
        packet
    }

    /// A protocol, and its packet with the checksum still 0.
    fn transport(&mut self) -> (u8, Vec<u8>) {
        const PORTS: [u16; 8] = [53, 80, 443, 22, 21, 4321, 1024, 5000];
        let mut port = || {
            let usual = PORTS[self.random.usize(..PORTS.len())];
            let named = if usual == PORTS[0] { self.number() } else { None };
            named.unwrap_or(usual).to_be_bytes()
        };
        let ports = [port(), port()].concat();
        let payload = self.payload();
        match self.random.u8(0..10) {
            0 | 1 => {
                let kind = [8, 0, 11][self.random.usize(..3)];
                (1, [&[kind, 0, 0, 0, 0, 1, 0, self.random.u8(..)][..], &payload].concat())
            }
            2..=5 => {
                let length = (8 + payload.len() as u16).to_be_bytes();
                (17, [&ports[..], &length, &[0, 0], &payload].concat())
            }
            6 => (self.random.u8(200..250), payload),
            _ => {
                let flags = [2, 0x12, 0x10, 0x18, 0x11, 4][self.random.usize(..6)];
                let (sequence, answer) = (self.random.u32(..), self.random.u32(..));
                let header = [
                    &ports[..],
                    &sequence.to_be_bytes(),
                    &answer.to_be_bytes(),
                    &[0x50, flags, 0x20, 0, 0, 0, 0, 0],
                ];
                (6, [header.concat(), payload].concat())
            }
        }
    }

    fn payload(&mut self) -> Vec<u8> {
        match self.random.u8(0..8) {
            0 => b"GET /index.html HTTP/1.1\r\nHost: example.org\r\n\r\n".to_vec(),
            1 => b"PUT /a HTTP/1.1\r\n\r\ncat /etc/passwd".to_vec(),
            2 => Vec::new(),
            3 => self.bytes(1_400),
            4 if !self.addresses.numbers.is_empty() => self.tunnelled(),
            _ => self.bytes(200),
        }
    }

    /// A packet behind a VXLAN header (RFC 7348, section 5) with a number that is named.
    fn tunnelled(&mut self) -> Vec<u8> {
        let network = self.number().unwrap_or_default().to_be_bytes();
        let inner = self.bytes(60);
        let inner = self.ethernet(0x88b5, &inner);
        [&[8, 0, 0, 0, 0][..], &network, &[0], &inner].concat()
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        let length = self.random.usize(1..=most);
        (0..length).map(|_| self.random.u8(..)).collect()
    }
}

/// Writes the checksum of a transport header.
fn finish(protocol: u8, segment: &mut [u8], source: Ipv4Addr, target: Ipv4Addr) {
    let (at, pseudo) = match protocol {
        1 => (2, 0),
        6 | 17 => {
            let length = (segment.len() as u16).to_be_bytes();
            let ends = [source.octets(), target.octets()].concat();
            let rest = [&ends[..], &[0, protocol], &length].concat();
            (if protocol == 6 { 16 } else { 6 }, add(0, &rest))
        }
        _ => return,
    };
    let sum = !add(pseudo, segment);
    segment[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

/// The sum of RFC 1071 over these bytes, not yet inverted.
fn add(sum: u16, bytes: &[u8]) -> u16 {
    let mut sum = u32::from(sum);
    for pair in bytes.chunks(2) {
        sum += u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// A neighbour solicitation with a wrong checksum.
fn ipv6() -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, 24, 58, 255];
    packet.extend([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    packet.extend([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0, 0, 2]);
    packet.extend([135, 0, 0, 0, 0, 0, 0, 0]);
    packet.extend([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    packet
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_the_text() {
        let text = "AddressInfo(a 18.26.4.0/24 0:50:ba:85:84:A9, b 0.0.0.0/0); c :: \
                    ARPResponder(18.26.4.24 00:50:ba:85:84:a9);";
        let found = Addresses::parse(text);
        assert_eq!(found.v4, [Ipv4Addr::new(18, 26, 4, 77), Ipv4Addr::new(18, 26, 4, 24)]);
        assert_eq!(found.mac, [[0, 0x50, 0xba, 0x85, 0x84, 0xa9]]);
    }

    #[test]
    fn checksums_are_right_unless_meant_to_be_wrong() {
        // An IPv4 header of which the sum is known: RFC 1071's arithmetic, 0xb861.
        let mut header = [
            0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0, 0, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0,
            0xc7,
        ];
        assert_eq!(!add(0, &header), 0xb861);
        header[10..12].copy_from_slice(&[0xb8, 0x61]);
        assert_eq!(add(0, &header), 0xffff);
    }

    #[test]
    fn captures_are_repeatable() {
        let folder = tempfile::tempdir().unwrap();
        let addresses = Addresses::parse("1.2.3.4");
        let read = |seed| {
            let path = folder.path().join("x");
            write(&path, &addresses, seed).unwrap();
            fs::read(path).unwrap()
        };
        assert_eq!(read(1), read(1));
        assert_ne!(read(1), read(2));
    }
}
