//! Annotations that [`Meta`] has no field of its own for, in its room for
//! elements' use.
//!
//! | bytes | annotation |
//! |---|---|
//! | 0-3 | aggregate: the group a packet is counted in |
//! | 4-7 | packets it stands for besides itself |
//! | 8-11 | bytes it had on the wire beyond those captured: [`Meta::missing`] |
//! | 12 | whether the source address is still to be set (Click's FIX_IP_SRC) |
//! | 13 | offset of the byte an ICMP parameter problem is about |
//! | 14-15 | where the link header begins: [`mac_header`](crate::mac_header) |
//! | 16-23 | time of the first of the packets it stands for; or a cycle count; or the
//! security parameters index and the security association of a tunnel |

use linerate_memory::Meta;
use linerate_packet::MacAddr;

macro_rules! annotation {
    ($get:ident, $set:ident, $type:ty, $at:literal, $what:literal) => {
        #[doc = concat!("Reads ", $what, ".")]
        #[inline]
        #[allow(dead_code, reason = "one macro for all")]
        pub fn $get(meta: &Meta) -> $type {
            meta.user[$at..].first_chunk().map_or(0, |bytes| <$type>::from_ne_bytes(*bytes))
        }

        #[doc = concat!("Sets ", $what, ".")]
        #[inline]
        #[allow(dead_code, reason = "one macro for all")]
        pub fn $set(meta: &mut Meta, value: $type) {
            const END: usize = $at + size_of::<$type>();
            meta.user[$at..END].copy_from_slice(&value.to_ne_bytes());
        }
    };
}

annotation!(aggregate, set_aggregate, u32, 0, "the aggregate");
annotation!(extra_packets, set_extra_packets, u32, 4, "the packets it stands for besides itself");
annotation!(extra_length, set_extra_length, u32, 8, "the bytes it had beyond those captured");
annotation!(fix_ip_source, set_fix_ip_source, u8, 12, "whether its source address is to be set");
annotation!(problem_offset, set_problem_offset, u8, 13, "what a parameter problem is about");
annotation!(first_time, set_first_time, u64, 16, "the time of the first packet it stands for");
// Elements that count cycles do not use the counts of packets.
annotation!(cycle_count, set_cycle_count, u64, 16, "the cycle count");
// Nor are packets in tunnels those of captures.
annotation!(parameters_index, set_parameters_index, u32, 16, "the security parameters index");
annotation!(association, set_association, u32, 20, "the number of the security association");

/// The packet type of a packet to `destination`, seen by the station `own`; where that is not
/// known, packets to one station are to this one.
#[inline]
pub fn packet_type(destination: MacAddr, own: Option<MacAddr>) -> u8 {
    if !destination.is_multicast() {
        let others = own.is_some_and(|own| own != destination);
        return if others { Meta::OTHER_HOST } else { Meta::TO_HOST };
    }
    if destination.is_broadcast() { Meta::BROADCAST } else { Meta::MULTICAST }
}

/// Returns true if the link carried a packet to more than one host.
#[inline]
pub fn is_link_broadcast(meta: &Meta) -> bool {
    matches!(meta.packet_type, Meta::BROADCAST | Meta::MULTICAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_do_not_overlap() {
        let mut meta = Meta::EMPTY;
        set_aggregate(&mut meta, 1);
        set_extra_packets(&mut meta, u32::MAX);
        set_extra_length(&mut meta, 3);
        set_first_time(&mut meta, u64::MAX);
        set_fix_ip_source(&mut meta, 1);
        set_problem_offset(&mut meta, 22);
        assert_eq!(aggregate(&meta), 1);
        assert_eq!(extra_packets(&meta), u32::MAX);
        assert_eq!((extra_length(&meta), meta.missing()), (3, 3));
        assert_eq!(first_time(&meta), u64::MAX);
        assert_eq!((fix_ip_source(&meta), problem_offset(&meta)), (1, 22));
    }
}
