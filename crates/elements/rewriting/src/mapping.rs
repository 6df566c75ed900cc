//! Mapping: the state of one direction of a flow.

use std::{
    net::Ipv4Addr,
    sync::atomic::{AtomicU64, Ordering},
};

use linerate_packet::{FlowV4, IpProtocol};
use linerate_tables::exact::Entry;

/// Both ends of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) src: Ipv4Addr,
    pub(super) dst: Ipv4Addr,
    pub(super) src_port: u16,
    pub(super) dst_port: u16,
}

impl Ends {
    pub(super) fn from_key(key: &FlowV4) -> Ends {
        let FlowV4 { src, dst, src_port, dst_port, .. } = *key;
        Ends { src, dst, src_port, dst_port }
    }

    pub(super) fn reversed(self) -> Ends {
        let Ends { src, dst, src_port, dst_port } = self;
        Ends { src: dst, dst: src, src_port: dst_port, dst_port: src_port }
    }

    /// The key in the table of all rewriters that share it: `rewriter` is one of them, `map` one of
    /// its maps.
    pub(super) fn key(self, rewriter: u16, map: IpProtocol) -> FlowV4 {
        let Ends { src, dst, src_port, dst_port } = self;
        FlowV4 { src, dst, src_port, dst_port, vlan: rewriter, protocol: map }
    }
}

/// Flags of a direction.
pub(super) mod flags {
    /// It is the reply direction.
    pub(crate) const REPLY: u8 = 1;
    /// The connection was closed in this direction.
    pub(crate) const DONE: u8 = 2;
    /// Payload was seen in this direction.
    pub(crate) const DATA: u8 = 4;
    /// The flow is among those without a guarantee; kept at the forward direction.
    pub(crate) const UNGUARANTEED: u8 = 8;
    /// Its times are those of TCP.
    pub(crate) const TCP: u8 = 16;
    /// Both directions are one: the flow's first packet went forward, those behind it are answers.
    /// Flags of the first packet are kept as if they were this many bits higher.
    pub(crate) const BOTH: u8 = 128;
    pub(crate) const FIRST: u32 = 4;
}

/// When a packet last went one way, in milliseconds: the only thing that most packets change of
/// their flow, so workers which share the flows write it, too. Nothing else is published by it, and
/// the thread that checks when flows end has them alone.
#[derive(Debug)]
pub(super) struct LastUse(AtomicU64);

impl LastUse {
    pub(super) fn new(now: u64) -> LastUse {
        LastUse(AtomicU64::new(now))
    }

    #[inline(always)]
    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(super) fn set(&self, now: u64) {
        self.0.store(now, Ordering::Relaxed);
    }
}

/// One direction of a flow: with its key, a cache line.
#[derive(Debug)]
pub(super) struct Mapping {
    pub(super) last: LastUse,
    /// Ends that packets are rewritten to.
    pub(super) to: Ends,
    /// The other direction.
    pub(super) peer: Entry,
    /// The output packets leave by.
    pub(super) output: u32,
    /// Index of the changed sequence numbers, plus one; 0 when there are none.
    pub(super) shift: u32,
    /// Change of the IP header's checksum.
    pub(super) ip_delta: u16,
    /// Change of the transport's checksum.
    pub(super) transport_delta: u16,
    /// The input of the rewriter whose specification made it.
    pub(super) input: u16,
    pub(super) flags: u8,
    /// Packets seen this way, up to 3.
    pub(super) packets: u8,
    /// The annotation the first packet had.
    pub(super) reply_anno: u8,
    /// The protocol of the packet it was made for, 0 when it is for all.
    pub(super) protocol: u8,
}

const _: () = assert!(size_of::<Option<Mapping>>() == 48 && size_of::<FlowV4>() == 16);

impl Mapping {
    pub(super) fn is_reply(&self) -> bool {
        self.flags & flags::REPLY != 0
    }

    /// Returns true if both directions are one.
    pub(super) fn is_both(&self) -> bool {
        self.flags & flags::BOTH != 0
    }
}

/// Returns the change of a one's complement sum when `old` becomes `new`; 0 when it stays (RFC
/// 1624: the complement of the old value, and the new one).
pub(super) fn delta(old: &[u16], new: &[u16]) -> u16 {
    if old == new {
        return 0;
    }
    let sum: u32 = old.iter().zip(new).map(|(old, new)| u32::from(!old) + u32::from(*new)).sum();
    fold(sum)
}

fn fold(sum: u32) -> u16 {
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

/// A checksum after the bytes it covers have changed by a [`delta`].
#[inline(always)]
pub(super) fn updated(check: u16, delta: u16) -> u16 {
    let sum = u32::from(!check) + u32::from(delta);
    !((sum & 0xffff) + (sum >> 16)) as u16
}

fn halves(address: Ipv4Addr) -> [u16; 2] {
    let [a, b, c, d] = address.octets();
    [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])]
}

/// Changes of the sums over the addresses, and over addresses and ports.
pub(super) fn deltas(from: Ends, to: Ends) -> (u16, u16) {
    let words = |ends: Ends| {
        let ([a, b], [c, d]) = (halves(ends.src), halves(ends.dst));
        [a, b, c, d, ends.src_port, ends.dst_port]
    };
    let (from, to) = (words(from), words(to));
    (delta(&from[..4], &to[..4]), delta(&from, &to))
}

#[cfg(test)]
mod tests {
    use linerate_packet::checksum::checksum;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn updated_sums_are_those_of_the_changed_bytes(
            mut bytes in proptest::collection::vec(any::<u8>(), 20..60),
            new in any::<[u8; 12]>(),
        ) {
            bytes[0] |= 0x40;
            let word = |bytes: &[u8]| -> Vec<u16> {
                bytes.chunks(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect()
            };
            let before = checksum(&bytes);
            let delta = delta(&word(&bytes[4..16]), &word(&new));
            bytes[4..16].copy_from_slice(&new);
            prop_assert_eq!(updated(before, delta), checksum(&bytes));
            prop_assert_eq!(updated(before, 0), before);
        }
    }
}
