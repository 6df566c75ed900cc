//! Parsing of received segments, and writing of sent ones.

use std::net::Ipv4Addr;

use linerate_element_support::ip::{
    DESTINATION, IDENT, LEAST, PROTOCOL, SOURCE, TOTAL_LENGTH, TTL, fill_checksum, get_four, get16,
    is_first_fragment, protocol, put16,
};
use linerate_packet::{IpProtocol, checksum};

pub(super) const FIN: u8 = 1;
pub(super) const SYN: u8 = 2;
pub(super) const RST: u8 = 4;
pub(super) const PUSH: u8 = 8;
pub(super) const ACK: u8 = 16;

/// TTL of a packet.
const HOPS: u8 = 250;
const WINDOW: u16 = 60 * 1024;
/// Headers of IP and TCP.
const HEADERS: usize = 2 * LEAST;
/// The longest request: `GET /spec/A/A-B-C HTTP/1.0`, and an empty line.
const REQUEST: usize = 30;

/// An endpoint of a connection: address and port.
pub(super) type End = (Ipv4Addr, u16);

/// A received segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) from: End,
    pub(super) to: End,
    pub(super) sequence: u32,
    pub(super) acknowledged: u32,
    pub(super) flags: u8,
    /// Bytes of data.
    pub(super) data: u32,
}

impl Segment {
    /// Parses a packet that begins with its IP header; `None` unless that is well-formed TCP.
    pub(super) fn parse(packet: &[u8]) -> Option<Segment> {
        let ip = packet.get(..usize::from(get16(packet, TOTAL_LENGTH)))?;
        let start = usize::from(ip.first()? & 15) * 4;
        if ip[0] >> 4 != 4 || start < LEAST || ip.len() < start + LEAST {
            return None;
        }
        if protocol(ip) != IpProtocol::TCP || !is_first_fragment(ip) {
            return None;
        }
        let segment = &ip[start..];
        let data = segment.len().checked_sub(usize::from(segment[12] >> 4) * 4)?;
        let number = |at| u32::from_be_bytes(get_four(segment, at));
        Some(Segment {
            from: (get_four(ip, SOURCE).into(), get16(segment, 0)),
            to: (get_four(ip, DESTINATION).into(), get16(segment, 2)),
            sequence: number(4),
            acknowledged: number(8),
            flags: segment[13],
            data: data as u32,
        })
    }
}

/// A segment to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) from: End,
    pub(super) to: End,
    pub(super) sequence: u32,
    pub(super) acknowledged: u32,
    pub(super) flags: u8,
    /// The requested page, in a request.
    pub(super) page: Option<[u8; 3]>,
}

/// The request for a page.
pub(super) fn request([directory, middle, file]: [u8; 3]) -> [u8; REQUEST] {
    let mut text = *b"GET /spec/A/A-B-C HTTP/1.0\r\n\r\n";
    let digit = |number: u8| b'0' + number % 10;
    (text[10], text[12], text[14], text[16]) =
        (digit(directory), digit(directory), digit(middle), digit(file));
    text
}

/// Bytes of a request.
pub(super) const fn request_length() -> u32 {
    REQUEST as u32
}

impl Sent {
    /// Bytes of the packet.
    pub(super) fn length(&self) -> usize {
        HEADERS + if self.page.is_some() { REQUEST } else { 0 }
    }

    /// Writes the packet, which has that length.
    pub(super) fn write(&self, bytes: &mut [u8], ident: u16) {
        let length = bytes.len();
        bytes.fill(0);
        (bytes[0], bytes[TTL], bytes[PROTOCOL]) = (0x45, HOPS, IpProtocol::TCP.0);
        put16(bytes, TOTAL_LENGTH, length as u16);
        put16(bytes, IDENT, ident);
        bytes[SOURCE..DESTINATION].copy_from_slice(&self.from.0.octets());
        bytes[DESTINATION..LEAST].copy_from_slice(&self.to.0.octets());
        fill_checksum(bytes);
        let segment = &mut bytes[LEAST..];
        put16(segment, 0, self.from.1);
        put16(segment, 2, self.to.1);
        segment[4..8].copy_from_slice(&self.sequence.to_be_bytes());
        segment[8..12].copy_from_slice(&self.acknowledged.to_be_bytes());
        (segment[12], segment[13]) = (0x50, self.flags);
        put16(segment, 14, WINDOW);
        if let Some(page) = self.page {
            segment[LEAST..].copy_from_slice(&request(page));
        }
        let bytes = segment.len() as u16;
        let mut sum = checksum::pseudo_v4(self.from.0, self.to.0, IpProtocol::TCP, bytes);
        sum.add_bytes(segment);
        put16(segment, 16, sum.finish());
    }
}
