//! Adding and taking away network service headers.

use super::Bytes;
use super::headers::Link;
use crate::key::extract::{IPV4, IPV6, NSH};

/// Length of an Ethernet header.
const ETHERNET_BYTES: usize = 14;
/// Length of its addresses.
const ADDRESSES: usize = 12;
/// Next protocols of a network service header (RFC 8300, section 11.2.5).
const NEXT_IPV4: u8 = 1;
const NEXT_IPV6: u8 = 2;
const NEXT_ETHERNET: u8 = 3;
const NEXT_NSH: u8 = 4;

/// Adds a header: in front of a frame, behind a new Ethernet header with addresses of zero, or
/// behind the packet's Ethernet header. Returns false without room for it.
pub(crate) fn encap(packet: &mut impl Bytes, header: &[u8], frame: bool) -> bool {
    let kind_at = if frame {
        ADDRESSES
    } else {
        let link = Link::behind_tags(packet.bytes(), 0);
        let Some(Link { kind_at, .. }) = link else { return true };
        kind_at
    };
    let added = header.len() + if frame { ETHERNET_BYTES } else { 0 };
    if packet.bytes().len() < ETHERNET_BYTES {
        return true;
    }
    if !packet.prepend(added) {
        return false;
    }
    let bytes = packet.bytes_mut();
    if frame {
        bytes[..ADDRESSES].fill(0);
    } else {
        bytes.copy_within(added..added + kind_at, 0);
    }
    let (kind, behind) = bytes[kind_at..].split_at_mut(2);
    kind.copy_from_slice(&NSH.to_be_bytes());
    behind[..header.len()].copy_from_slice(header);
    true
}

/// Removes the header behind the Ethernet header, with the Ethernet header if a frame follows.
pub(crate) fn decap(packet: &mut impl Bytes) {
    let bytes = packet.bytes_mut();
    let Some(link) = Link::parse(bytes) else { return };
    let Some((at, header)) = link.service(bytes) else { return };
    let kind = match bytes[at + 3] {
        NEXT_ETHERNET => {
            let _ = packet.pull(at + header.length);
            return;
        }
        NEXT_IPV4 => IPV4,
        NEXT_IPV6 => IPV6,
        NEXT_NSH => NSH,
        _ => return,
    };
    bytes.copy_within(..link.kind_at, header.length);
    let kind_at = link.kind_at + header.length;
    bytes[kind_at..kind_at + 2].copy_from_slice(&kind.to_be_bytes());
    let _ = packet.pull(header.length);
}
