//! Ethernet headers and addresses.

use linerate_packet::MacAddr;

/// Bytes of an Ethernet header.
pub const HEADER: usize = 14;

/// An address as Click's elements write it: `00-00-C0-AE-67-EF`.
pub fn mac_text(mac: MacAddr) -> String {
    mac.0.map(|byte| format!("{byte:02X}")).join("-")
}

/// The bytes of an Ethernet header.
pub fn bytes(destination: MacAddr, source: MacAddr, ethertype: u16) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    bytes[..6].copy_from_slice(&destination.0);
    bytes[6..12].copy_from_slice(&source.0);
    bytes[12..].copy_from_slice(&ethertype.to_be_bytes());
    bytes
}
