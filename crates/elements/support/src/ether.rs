//! Ethernet headers and addresses.

use std::fmt;

use linerate_graph::{Scope, Value};
use linerate_packet::MacAddr;

/// Bytes of an Ethernet header.
pub const HEADER: usize = 14;

/// An address as Click's elements write it: `00-00-C0-AE-67-EF`.
pub fn mac_text(mac: MacAddr) -> String {
    mac.0.map(|byte| format!("{byte:02X}")).join("-")
}

/// An address that a handler shows in that form.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mac(pub MacAddr);

impl Value for Mac {
    const KIND: &'static str = MacAddr::KIND;
    const EXPECTED: &'static str = MacAddr::EXPECTED;

    fn parse(text: &str, scope: &Scope<'_>) -> Result<Mac, String> {
        Value::parse(text, scope).map(Mac)
    }

    fn unparse(&self, _: &Scope<'_>) -> String {
        self.to_string()
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&mac_text(self.0))
    }
}

/// The bytes of an Ethernet header.
#[inline]
pub fn bytes(destination: MacAddr, source: MacAddr, ethertype: u16) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    bytes[..6].copy_from_slice(&destination.0);
    bytes[6..12].copy_from_slice(&source.0);
    bytes[12..].copy_from_slice(&ethertype.to_be_bytes());
    bytes
}
