//! Linux's cooked captures, version 2 (`LINKTYPE_LINUX_SLL2`): packets of several interfaces, in place of
//! whose link-layer header there is by which interface a packet came, and how it was addressed.
//!
//! Source: <https://www.tcpdump.org/linktypes/LINKTYPE_LINUX_SLL2.html>. Where a frame has a length in place
//! of a type, `linux/if_ether.h` has numbers for what is behind it.

use linerate_memory::{Meta, Origin};

/// Bytes of the header.
pub(super) const HEADER: usize = 20;
/// Bytes of an Ethernet header, and of its addresses.
pub(super) const ETHERNET_HEADER: usize = 14;
const ADDRESS: usize = 6;
/// Numbers below are lengths, not types.
const LEAST_TYPE: u16 = 0x600;
/// `ETH_P_802_3`, which begins with ones, and `ETH_P_802_2`.
const RAW_802_3: u16 = 1;
const LLC: u16 = 4;
/// An Ethernet interface (`ARPHRD_ETHER`).
const ETHER: u16 = 1;

/// A header in the place of a frame's Ethernet header.
pub(super) fn header(meta: &Meta, frame: &[u8]) -> [u8; HEADER] {
    let origin = meta.origin();
    let origin =
        origin.unwrap_or(Origin { index: 0, hardware: ETHER, address_length: ADDRESS as u8 });
    let field = |at: usize| frame.get(at..).and_then(|rest| rest.first_chunk::<2>());
    let protocol = match field(12).map_or(0, |bytes| u16::from_be_bytes(*bytes)) {
        kind if kind >= LEAST_TYPE => kind,
        _ if field(ETHERNET_HEADER) == Some(&[0xff; 2]) => RAW_802_3,
        _ => LLC,
    };
    let mut header = [0; HEADER];
    header[..2].copy_from_slice(&protocol.to_be_bytes());
    header[4..8].copy_from_slice(&origin.index.to_be_bytes());
    header[8..10].copy_from_slice(&origin.hardware.to_be_bytes());
    (header[10], header[11]) = (meta.packet_type, origin.address_length);
    if let Some(source) = frame.get(ADDRESS..2 * ADDRESS) {
        header[12..12 + ADDRESS].copy_from_slice(source);
    }
    header
}

/// The header of a record, as far as there is place for it in a frame and its metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cooked {
    /// An Ethernet header without a destination.
    pub(super) ethernet: [u8; ETHERNET_HEADER],
    pub(super) origin: Origin,
    pub(super) kind: u8,
}

/// Takes a record apart: its header, and what is behind it. `None` when it is too short.
pub(super) fn split(record: &[u8]) -> Option<(Cooked, &[u8])> {
    let (header, payload) = record.split_first_chunk::<HEADER>()?;
    let half = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let index = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
    let kind = match half(0) {
        RAW_802_3 | LLC => payload.len().min(usize::from(LEAST_TYPE) - 1) as u16,
        kind => kind,
    };
    let mut ethernet = [0; ETHERNET_HEADER];
    ethernet[ADDRESS..2 * ADDRESS].copy_from_slice(&header[12..12 + ADDRESS]);
    ethernet[2 * ADDRESS..].copy_from_slice(&kind.to_be_bytes());
    let origin = Origin { index, hardware: half(8), address_length: header[11] };
    Some((Cooked { ethernet, origin, kind: header[10] }, payload))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_as_libpcap_writes_them() {
        let origin = Origin { index: 7, hardware: 772, address_length: 6 };
        let mut meta = Meta { packet_type: Meta::OUTGOING, ..Meta::EMPTY };
        meta.set_origin(origin);
        for (kind, payload, protocol) in [
            ([8, 0], &[0x45, 0][..], [8, 0]),
            ([0x81, 0], &[0, 7, 8, 0], [0x81, 0]),
            ([0, 3], &[0x42, 0x42, 3], [0, 4]),
            ([0, 3], &[0xff, 0xff, 3], [0, 1]),
        ] {
            let frame = [&[1; 6][..], &[2; 6], &kind, payload].concat();
            let written = header(&meta, &frame);
            let expected = [&protocol[..], &[0, 0, 0, 0, 0, 7, 3, 4, 4, 6, 2, 2, 2, 2, 2, 2, 0, 0]];
            assert_eq!(written[..], expected.concat());
            let record = [&written[..], payload].concat();
            let (cooked, rest) = split(&record).unwrap();
            assert_eq!((cooked.origin, cooked.kind, rest), (origin, Meta::OUTGOING, payload));
            assert_eq!(cooked.ethernet, [&[0; 6][..], &[2; 6], &kind].concat()[..]);
        }
        assert_eq!(split(&[0; HEADER - 1]), None);
        // Of a packet whose origin was not noted.
        assert_eq!(header(&Meta::EMPTY, &[])[..12], [0, 4, 0, 0, 0, 0, 0, 0, 0, 1, 0, 6]);
    }
}
