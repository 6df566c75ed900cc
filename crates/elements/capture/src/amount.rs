//! The amount by which a packet increases a count: packets or bytes.

use linerate_element_support::annotations;
use linerate_graph::{Arg, ElementBuilder};
use linerate_memory::{Meta, Slot};

pub(super) const BYTES: Arg = Arg::keyword("BYTES", "bool", "false", "whether bytes are counted");
pub(super) const IP_BYTES: Arg =
    Arg::keyword("IP_BYTES", "bool", "false", "whether bytes in front of IP are left out");
pub(super) const MULTIPACKET: Arg =
    Arg::keyword("MULTIPACKET", "bool", "true", "whether a packet counts as all it stands for");
pub(super) const EXTRA_LENGTH: Arg =
    Arg::keyword("EXTRA_LENGTH", "bool", "true", "whether bytes not captured are counted");

/// The values of these arguments.
#[derive(Debug, Clone, Copy)]
pub(super) struct Amount {
    bytes: bool,
    ip_bytes: bool,
    multipacket: bool,
    extra_length: bool,
}

impl Amount {
    pub(super) fn from_args(make: &mut ElementBuilder<'_>) -> Amount {
        Amount {
            bytes: make.or("BYTES", false),
            ip_bytes: make.or("IP_BYTES", false),
            multipacket: make.or("MULTIPACKET", true),
            extra_length: make.or("EXTRA_LENGTH", true),
        }
    }

    #[inline]
    pub(super) fn of(self, slot: &Slot, meta: &Meta) -> u32 {
        if !self.bytes {
            let others = if self.multipacket { annotations::extra_packets(meta) } else { 0 };
            return others.wrapping_add(1);
        }
        let extra = if self.extra_length { annotations::extra_length(meta) } else { 0 };
        let front = meta.network.offset(slot.headroom()).filter(|_| self.ip_bytes).unwrap_or(0);
        (slot.len() as u32).wrapping_add(extra).wrapping_sub(front as u32)
    }
}
