//! Header rewrites of forwarders: change the Ethernet addresses, push and pop VLAN tags.
//!
//! Each function makes one length comparison and then touches the frame with whole-word loads and
//! stores. A frame that is too short is left alone and reported, for the caller to count and drop.

use crate::vlan::Tci;
use crate::{EtherType, MacAddr};

/// Destination and source as they stand in a frame, for writing both at once: kept as the two words
/// that are stored, which the compiler would otherwise take apart into bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MacPair {
    head: u64,
    tail: u32,
}

/// Joins destination and source.
#[inline]
#[must_use]
pub const fn mac_pair(dst: MacAddr, src: MacAddr) -> MacPair {
    let ([a, b, c, d, e, f], [g, h, i, j, k, l]) = (dst.0, src.0);
    MacPair {
        head: u64::from_le_bytes([a, b, c, d, e, f, g, h]),
        tail: u32::from_le_bytes([i, j, k, l]),
    }
}

/// Exchanges destination and source. False if the frame is too short to have them.
///
/// ```
/// let mut frame = *b"dstdstsrcsrc--";
/// assert!(linerate_packet::rewrite::swap_macs(&mut frame));
/// assert_eq!(&frame, b"srcsrcdstdst--");
/// ```
#[inline]
#[must_use = "a frame that is too short was not changed"]
pub fn swap_macs(frame: &mut [u8]) -> bool {
    let Some(macs) = frame.first_chunk_mut::<12>() else {
        return false;
    };
    // The twelve bytes rotated by six, as an 8-byte and a 4-byte word.
    let (Some(head), Some(tail)) = (macs.first_chunk(), macs.last_chunk()) else {
        return false;
    };
    let (head, tail) = (u64::from_le_bytes(*head), u32::from_le_bytes(*tail));
    let new_head = head >> 48 | u64::from(tail) << 16 | head << 48;
    let new_tail = (head >> 16) as u32;
    macs[..8].copy_from_slice(&new_head.to_le_bytes());
    macs[8..].copy_from_slice(&new_tail.to_le_bytes());
    true
}

/// Writes destination and source, as made by [`mac_pair`]. False if the frame is too short.
#[inline]
#[must_use = "a frame that is too short was not changed"]
pub fn set_macs(frame: &mut [u8], pair: MacPair) -> bool {
    match frame.first_chunk_mut::<12>() {
        Some(macs) => {
            macs[..8].copy_from_slice(&pair.head.to_le_bytes());
            macs[8..].copy_from_slice(&pair.tail.to_le_bytes());
            true
        }
        None => false,
    }
}

/// Writes the destination. False if the frame is too short.
#[inline]
#[must_use = "a frame that is too short was not changed"]
pub fn set_dst_mac(frame: &mut [u8], dst: MacAddr) -> bool {
    match frame.first_chunk_mut() {
        Some(octets) => {
            *octets = dst.0;
            true
        }
        None => false,
    }
}

/// Writes the source. False if the frame is too short.
#[inline]
#[must_use = "a frame that is too short was not changed"]
pub fn set_src_mac(frame: &mut [u8], src: MacAddr) -> bool {
    match frame.first_chunk_mut::<12>() {
        Some(macs) => {
            macs[6..].copy_from_slice(&src.0);
            true
        }
        None => false,
    }
}

/// Pushes a tag. `buffer` is the frame with four bytes of headroom in front of it; the new frame
/// begins where `buffer` does. False if there are no addresses behind the headroom.
#[inline]
#[must_use = "a frame that is too short was not changed"]
pub fn push_vlan(buffer: &mut [u8], tpid: EtherType, tci: Tci) -> bool {
    let Some(head) = buffer.first_chunk_mut::<18>() else {
        return false;
    };
    head.copy_within(4..16, 0);
    head[12..14].copy_from_slice(&tpid.0.to_be_bytes());
    head[14..16].copy_from_slice(&tci.0.to_be_bytes());
    true
}

/// Pops the outermost tag. The new frame begins four bytes behind the start of the old one. Nothing
/// if the frame is not tagged or too short.
#[inline]
#[must_use = "the frame begins four bytes later only if it was tagged"]
pub fn pop_vlan(frame: &mut [u8]) -> Option<Tci> {
    let head = frame.first_chunk_mut::<18>()?;
    if !EtherType(u16::from_be_bytes([head[12], head[13]])).is_vlan() {
        return None;
    }
    let tci = Tci(u16::from_be_bytes([head[14], head[15]]));
    head.copy_within(0..12, 4);
    Some(tci)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DST: MacAddr = MacAddr([1, 2, 3, 4, 5, 6]);
    const SRC: MacAddr = MacAddr([7, 8, 9, 10, 11, 12]);

    #[test]
    fn addresses_are_swapped_and_set() {
        let mut frame = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0xaa, 0xbb];
        assert!(swap_macs(&mut frame));
        assert_eq!(frame, [7, 8, 9, 10, 11, 12, 1, 2, 3, 4, 5, 6, 0xaa, 0xbb]);
        assert!(set_macs(&mut frame, mac_pair(DST, SRC)));
        assert_eq!(frame, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0xaa, 0xbb]);
        assert!(set_dst_mac(&mut frame, SRC));
        assert!(set_src_mac(&mut frame, DST));
        assert_eq!(frame, [7, 8, 9, 10, 11, 12, 1, 2, 3, 4, 5, 6, 0xaa, 0xbb]);
    }

    #[test]
    fn short_frames_are_left_alone() {
        let mut frame = [5; 11];
        assert!(!swap_macs(&mut frame));
        assert!(!set_macs(&mut frame, mac_pair(DST, SRC)));
        assert!(!set_src_mac(&mut frame, DST));
        assert!(!set_dst_mac(&mut frame[..5], DST));
        assert_eq!(frame, [5; 11]);
        assert!(!push_vlan(&mut [5; 17], EtherType::VLAN, Tci(1)));
        assert_eq!(pop_vlan(&mut [0x81; 17]), None);
    }

    #[test]
    fn a_pushed_tag_pops_again() {
        let mut buffer =
            [0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0x08, 0x00, 0x45, 0x00];
        assert!(push_vlan(&mut buffer, EtherType::VLAN, Tci::new(3, false, 100)));
        assert_eq!(
            buffer,
            [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0x81, 0, 0x60, 0x64, 0x08, 0x00, 0x45, 0x00]
        );
        assert_eq!(pop_vlan(&mut buffer), Some(Tci::new(3, false, 100)));
        assert_eq!(buffer[4..], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0x08, 0x00, 0x45, 0x00]);
        assert_eq!(pop_vlan(&mut buffer[4..]), None, "too short for another tag");
        let mut untagged = [0; 64];
        assert_eq!(pop_vlan(&mut untagged), None);
    }
}
