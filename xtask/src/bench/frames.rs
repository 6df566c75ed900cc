//! Capture files of frames of 64 bytes, as the network cases read them.

use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

use anyhow::Result;

/// Length of a frame.
const LENGTH: usize = 64;
/// The Ethernet addresses of frames between routers, the destination first.
pub(super) const ROUTERS: [u8; 12] = [2, 0, 0, 0, 0, 8, 2, 0, 0, 0, 0, 9];

/// An address as it is in a file of tables: a number in the machine's order.
pub(super) fn v4(address: &[u8]) -> Result<Ipv4Addr> {
    Ok(Ipv4Addr::from(u32::from_ne_bytes(address.try_into()?)))
}

/// Parses an IPv6 address: its bytes in the order of the network.
pub(super) fn v6(address: &[u8]) -> Result<Ipv6Addr> {
    Ok(Ipv6Addr::from(<[u8; 16]>::try_from(address)?))
}

/// A capture being made.
pub(super) struct Capture(Vec<u8>);

impl Capture {
    pub(super) fn new() -> Capture {
        let words = [0xa1b2_c3d4_u32, 4 << 16 | 2, 0, 0, 65535, 1];
        Capture(words.iter().flat_map(|word| word.to_le_bytes()).collect())
    }

    fn record(&mut self, frame: &[u8; LENGTH]) {
        let words = [0, 0, LENGTH as u32, LENGTH as u32];
        self.0.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        self.0.extend(frame);
    }

    /// Writes it into a folder; returns where it is.
    pub(super) fn write(self, folder: &Path, name: &str) -> Result<PathBuf> {
        let path = folder.join(format!("{name}.pcap"));
        fs::write(&path, self.0)?;
        Ok(path)
    }

    /// A UDP datagram without a checksum of its own.
    pub(super) fn udp(&mut self, from: Ipv4Addr, port: u16, to: Ipv4Addr, to_port: u16) {
        self.record(&udp(from, port, to, to_port));
    }

    /// A TCP segment with these flags and no checksum of its own.
    pub(super) fn tcp(&mut self, from: Ipv4Addr, port: u16, to: Ipv4Addr, to_port: u16, flags: u8) {
        let mut frame = ipv4(from, to, 64, 6);
        frame[34..36].copy_from_slice(&port.to_be_bytes());
        frame[36..38].copy_from_slice(&to_port.to_be_bytes());
        (frame[46], frame[47]) = (5 << 4, flags);
        self.record(&frame);
    }

    /// A datagram with a time to live that ends at the next router.
    pub(super) fn expiring(&mut self, from: Ipv4Addr, port: u16, to: Ipv4Addr, to_port: u16) {
        self.record(&datagram(from, port, to, to_port, 1));
    }

    /// An IPv6 packet without a next header.
    pub(super) fn ipv6(&mut self, to: Ipv6Addr) {
        self.record(&ipv6(to));
    }

    /// A frame from one of many hosts to another.
    pub(super) fn between(&mut self, to: u32, from: u32) {
        let mut frame = [0; LENGTH];
        let host = |host: u32| [[2, 0], [host >> 24, host >> 16], [host >> 8, host]];
        for (at, byte) in host(to).iter().chain(&host(from)).flatten().enumerate() {
            frame[at] = *byte as u8;
        }
        frame[12] = 8;
        self.record(&frame);
    }
}

/// A UDP datagram without a checksum of its own.
pub(super) fn udp(from: Ipv4Addr, port: u16, to: Ipv4Addr, to_port: u16) -> [u8; LENGTH] {
    datagram(from, port, to, to_port, 64)
}

fn datagram(from: Ipv4Addr, port: u16, to: Ipv4Addr, to_port: u16, ttl: u8) -> [u8; LENGTH] {
    let mut frame = ipv4(from, to, ttl, 17);
    frame[34..36].copy_from_slice(&port.to_be_bytes());
    frame[36..38].copy_from_slice(&to_port.to_be_bytes());
    frame[39] = (LENGTH - 14 - 20) as u8;
    frame
}

/// An IPv4 header with nothing behind it.
fn ipv4(from: Ipv4Addr, to: Ipv4Addr, ttl: u8, protocol: u8) -> [u8; LENGTH] {
    let mut frame = [0; LENGTH];
    frame[..12].copy_from_slice(&ROUTERS);
    let length = (LENGTH - 14) as u8;
    frame[12..18].copy_from_slice(&[8, 0, 0x45, 0, 0, length]);
    (frame[22], frame[23]) = (ttl, protocol);
    frame[26..30].copy_from_slice(&from.octets());
    frame[30..34].copy_from_slice(&to.octets());
    let words = frame[14..34].chunks_exact(2).map(|two| u32::from(two[0]) << 8 | u32::from(two[1]));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    frame[24..26].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
    frame
}

fn ipv6(to: Ipv6Addr) -> [u8; LENGTH] {
    let mut frame = [0; LENGTH];
    frame[..12].copy_from_slice(&ROUTERS);
    frame[12..16].copy_from_slice(&[0x86, 0xdd, 0x60, 0]);
    let length = (LENGTH - 14 - 40) as u8;
    frame[19..22].copy_from_slice(&[length, 59, 64]);
    let from = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
    frame[22..38].copy_from_slice(&from.octets());
    frame[38..54].copy_from_slice(&to.octets());
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_sound() {
        let four = udp([10, 0, 0, 1].into(), 7, v4(&0x01020304_u32.to_ne_bytes()).unwrap(), 53);
        let words =
            four[14..34].chunks_exact(2).map(|two| u32::from(two[0]) << 8 | u32::from(two[1]));
        let sum: u32 = words.sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
        assert_eq!(
            (four[22], datagram([10, 0, 0, 1].into(), 7, [1, 2, 3, 4].into(), 53, 1)[22]),
            (64, 1)
        );
        assert_eq!(four[30..42], [1, 2, 3, 4, 0, 7, 0, 53, 0, 30, 0, 0]);
        let six = ipv6(v6(&[7; 16]).unwrap());
        assert_eq!((six[14] >> 4, six[18], six[19]), (6, 0, 10));
        assert_eq!(six[38..54], [7; 16]);
        let mut capture = Capture::new();
        capture.between(0x0102_0304, 5);
        assert_eq!(capture.0.len(), 24 + 16 + LENGTH);
        assert_eq!(capture.0[40..54], [2, 0, 1, 2, 3, 4, 2, 0, 0, 0, 0, 5, 8, 0]);
    }
}
