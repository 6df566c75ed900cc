//! One packet of a receive ring (`TPACKET_V2`), read out of the bytes of its slot.
//!
//! Pure: the kernel wrote the bytes, but an offset or a length in them is
//! checked all the same before anything is read there. Source:
//! `struct tpacket2_hdr` and `struct sockaddr_ll` of `linux/if_packet.h`, and
//! packet(7).

use linerate_memory::Meta;

use crate::offload::{Offload, VNET_HEADER};

/// Offset of the frame's address: behind the header, aligned to 16 bytes.
const ADDRESS: usize = 32;
/// Least offset of a frame: behind header and address.
const HEADERS: usize = ADDRESS + 20;

/// Distance from the start of a slot to the frame, as the kernel places it
/// when a virtio header precedes: the network header, aligned, comes after the
/// headers and at least 16 bytes for the link-layer header, then makes room
/// for the virtio header.
pub(super) const FRAME_AT: usize = (HEADERS + 16).next_multiple_of(16) + VNET_HEADER - 14;

/// A received frame, where it lies in its slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Received<'a> {
    /// As much of the frame as is in the slot, without the stripped tag.
    pub(super) bytes: &'a [u8],
    /// Length of the frame without the stripped tag.
    pub(super) length: usize,
    /// The virtio header's offloads; `None` when it makes no sense.
    pub(super) offload: Option<Offload>,
    /// The VLAN tag the kernel took out: protocol and control information.
    pub(super) tag: Option<[u8; 4]>,
    /// Whether the whole frame waits in the socket's queue.
    pub(super) queued: bool,
    /// Packet type by destination: the kernel numbers the types as [`Meta`] does.
    pub(super) kind: u8,
    /// The index of the interface it came by.
    pub(super) index: u32,
    /// The hardware type of that interface (`ARPHRD_*`).
    pub(super) hardware: u16,
    /// Bytes of the sender's link-layer address.
    pub(super) address_length: u8,
    /// When it was received, in nanoseconds since the epoch.
    pub(super) time: u64,
}

impl Received<'_> {
    /// Returns true if this host sent it, on this interface.
    #[inline]
    pub(super) fn is_outgoing(&self) -> bool {
        self.kind == Meta::OUTGOING
    }

    /// Returns true if it has an Ethernet header.
    pub(super) fn is_ethernet(&self) -> bool {
        self.hardware == libc::ARPHRD_ETHER || self.is_looped()
    }

    /// Returns true if it came by a loopback interface, which has each packet twice.
    pub(super) fn is_looped(&self) -> bool {
        self.hardware == libc::ARPHRD_LOOPBACK
    }
}

/// Reads a slot; `None` when its numbers point outside of it.
#[inline]
pub(super) fn parse(slot: &[u8]) -> Option<Received<'_>> {
    let (header, _) = slot.split_first_chunk::<HEADERS>()?;
    let word = |at: usize| u32::from_ne_bytes([0, 1, 2, 3].map(|byte| header[at + byte]));
    let half = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
    let status = word(0);
    let (length, captured) = (word(4) as usize, word(8) as usize);
    let start = usize::from(half(12));
    if captured > length || start < HEADERS + VNET_HEADER {
        return None;
    }
    let bytes = slot.get(start..)?.get(..captured)?;
    let (_, virtio) = slot[..start].split_last_chunk::<VNET_HEADER>()?;
    let tag = (status & libc::TP_STATUS_VLAN_VALID != 0).then(|| {
        let known = status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
        let [a, b] = if known { half(26) } else { 0x8100 }.to_be_bytes();
        let [c, d] = half(24).to_be_bytes();
        [a, b, c, d]
    });
    Some(Received {
        bytes,
        length,
        offload: Offload::parse(virtio).ok(),
        tag,
        queued: status & libc::TP_STATUS_COPY != 0,
        kind: header[ADDRESS + 10],
        index: word(ADDRESS + 4),
        hardware: half(ADDRESS + 8),
        address_length: header[ADDRESS + 11],
        time: u64::from(word(16)) * 1_000_000_000 + u64::from(word(20)),
    })
}

/// Copies a frame, putting its tag back behind the addresses. `to` is as long
/// as both together.
///
/// # Panics
///
/// When it is not, or a tagged frame is shorter than two addresses.
#[inline]
pub(super) fn copy_tagged(to: &mut [u8], bytes: &[u8], tag: Option<[u8; 4]>) {
    match tag {
        None => to.copy_from_slice(bytes),
        Some(tag) => {
            to[..12].copy_from_slice(&bytes[..12]);
            to[12..16].copy_from_slice(&tag);
            to[16..].copy_from_slice(&bytes[12..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A slot of 512 bytes as the kernel fills it.
    fn slot(status: u32, length: u32, captured: u32, start: u16) -> Vec<u8> {
        let mut slot = vec![0; 512];
        slot[0..4].copy_from_slice(&(status | libc::TP_STATUS_USER).to_ne_bytes());
        slot[4..8].copy_from_slice(&length.to_ne_bytes());
        slot[8..12].copy_from_slice(&captured.to_ne_bytes());
        slot[12..14].copy_from_slice(&start.to_ne_bytes());
        slot[16..20].copy_from_slice(&3u32.to_ne_bytes());
        slot[20..24].copy_from_slice(&5u32.to_ne_bytes());
        slot[24..26].copy_from_slice(&0x6007u16.to_ne_bytes());
        slot[26..28].copy_from_slice(&0x88a8u16.to_ne_bytes());
        slot
    }

    #[test]
    fn the_kernels_layout_is_as_expected() {
        assert_eq!(size_of::<libc::tpacket2_hdr>(), ADDRESS);
        assert_eq!(size_of::<libc::sockaddr_ll>(), 20);
        assert_eq!(std::mem::offset_of!(libc::tpacket2_hdr, tp_mac), 12);
        assert_eq!(std::mem::offset_of!(libc::tpacket2_hdr, tp_sec), 16);
        assert_eq!(std::mem::offset_of!(libc::tpacket2_hdr, tp_vlan_tci), 24);
        assert_eq!(std::mem::offset_of!(libc::sockaddr_ll, sll_ifindex), 4);
        assert_eq!(std::mem::offset_of!(libc::sockaddr_ll, sll_pkttype), 10);
        assert_eq!(std::mem::offset_of!(libc::sockaddr_ll, sll_halen), 11);
        let kinds = [
            (Meta::TO_HOST, libc::PACKET_HOST),
            (Meta::BROADCAST, libc::PACKET_BROADCAST),
            (Meta::MULTICAST, libc::PACKET_MULTICAST),
            (Meta::OTHER_HOST, libc::PACKET_OTHERHOST),
            (Meta::OUTGOING, libc::PACKET_OUTGOING),
            (Meta::LOOPBACK, libc::PACKET_LOOPBACK),
        ];
        assert!(kinds.iter().all(|(ours, kernels)| ours == kernels));
    }

    #[test]
    fn reads_a_frame() {
        let mut bytes = slot(0, 60, 60, FRAME_AT as u16);
        bytes[FRAME_AT] = 0xab;
        let received = parse(&bytes).unwrap();
        assert_eq!((received.bytes.len(), received.bytes[0]), (60, 0xab));
        assert_eq!((received.length, received.tag, received.queued), (60, None, false));
        assert_eq!(received.time, 3_000_000_005);
        assert_eq!(received.offload, Some(Offload::default()));
    }

    #[test]
    fn reads_status_and_address() {
        let both = libc::TP_STATUS_VLAN_VALID | libc::TP_STATUS_VLAN_TPID_VALID;
        let tagged = slot(both, 60, 60, 80);
        assert_eq!(parse(&tagged).unwrap().tag, Some([0x88, 0xa8, 0x60, 0x07]));
        let old = slot(libc::TP_STATUS_VLAN_VALID, 60, 60, 80);
        assert_eq!(parse(&old).unwrap().tag, Some([0x81, 0x00, 0x60, 0x07]));
        let mut ours = slot(libc::TP_STATUS_COPY, 9000, 400, 80);
        ours[ADDRESS + 10] = libc::PACKET_OUTGOING;
        ours[ADDRESS + 4..ADDRESS + 8].copy_from_slice(&7u32.to_ne_bytes());
        ours[ADDRESS + 11] = 6;
        let received = parse(&ours).unwrap();
        assert_eq!((received.index, received.address_length), (7, 6));
        assert!(received.queued && received.is_outgoing());
        assert_eq!((received.length, received.bytes.len()), (9000, 400));
    }

    #[test]
    fn numbers_that_point_outside_are_refused() {
        for (length, captured, start) in [
            (60, 61, 80),
            (600, 433, 80),
            (60, 60, 453),
            (60, 60, 61),
            (60, 60, 0),
            (u32::MAX, u32::MAX, 80),
            (60, 60, u16::MAX),
        ] {
            let slot = slot(0, length, captured, start);
            assert_eq!(parse(&slot), None, "{length} {captured} {start}");
        }
        assert_eq!(parse(&[0; HEADERS - 1]), None);
    }

    #[test]
    fn a_tag_goes_behind_the_addresses() {
        let frame: Vec<u8> = (0..20).collect();
        let mut whole = [0; 24];
        copy_tagged(&mut whole, &frame, Some([0x81, 0, 0, 7]));
        assert_eq!(whole[..12], frame[..12]);
        assert_eq!(whole[12..16], [0x81, 0, 0, 7]);
        assert_eq!(whole[16..], frame[12..]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_inside_or_refused(
            slot in proptest::collection::vec(any::<u8>(), 0..300),
            start in 0..400u16,
            captured in 0..400u32,
        ) {
            let mut slot = slot;
            let inside = slot.len();
            if inside >= 14 {
                slot[8..12].copy_from_slice(&captured.to_ne_bytes());
                slot[12..14].copy_from_slice(&start.to_ne_bytes());
            }
            if let Some(received) = parse(&slot) {
                let range = slot.as_ptr_range();
                let bytes = received.bytes.as_ptr_range();
                prop_assert!(range.start <= bytes.start && bytes.end <= range.end);
                prop_assert!(received.bytes.len() <= received.length);
                prop_assert_eq!(received.bytes.len(), captured as usize);
                prop_assert!(usize::from(start) + captured as usize <= inside);
            }
        }
    }
}
