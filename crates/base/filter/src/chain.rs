//! `protochain`: a header somewhere in the chain of those behind an IP header.
//!
//! It walks as libpcap's program for a capture file does, also where that loses its way. The
//! kernel has no loops in its filters: it is decided outside of it, here or by a program
//! for an interpreter.

/// Headers that are looked at. A walk that comes to more goes in circles: libpcap's would not end.
const HEADERS_MAX: usize = 1000;

pub(super) const HOP_BY_HOP: u32 = 0;
pub(super) const ROUTING: u32 = 43;
pub(super) const FRAGMENT: u32 = 44;
pub(super) const AUTHENTICATION: u32 = 51;
pub(super) const NOTHING: u32 = 59;
pub(super) const DESTINATION: u32 = 60;

pub(super) const IPV6_HEADER: u32 = 40;

/// Chain of headers in which one of a protocol is looked for. The packet is known to be one of IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chain {
    /// Whether the packet is one of IPv6.
    pub(super) six: bool,
    /// Offset of its network header.
    pub(super) network: u32,
    /// The protocol of the header that is looked for.
    pub(super) protocol: u32,
}

impl Chain {
    /// Returns true if the header is there; `None` when the packet is too short to say.
    pub(super) fn holds(self, packet: &[u8]) -> Option<bool> {
        let byte = |at: u32| {
            let at = self.network.checked_add(at)? as usize;
            packet.get(at).map(|byte| u32::from(*byte))
        };
        let (mut protocol, mut at) =
            if self.six { (byte(6)?, IPV6_HEADER) } else { (byte(9)?, (byte(0)? & 15) * 4) };
        for _ in 0..HEADERS_MAX {
            if protocol == self.protocol || protocol == NOTHING {
                break;
            }
            let (next, length) = match protocol {
                HOP_BY_HOP | DESTINATION | ROUTING | FRAGMENT if self.six => {
                    let next = byte(at)?;
                    (next, at + (byte(at + 1)? + 1) * 8)
                }
                // Counted from the network header instead of from this one.
                AUTHENTICATION => {
                    let next = byte(at)?;
                    (next, (byte(at + 1)? + 2) * 4)
                }
                _ => break,
            };
            (protocol, at) = (next, length);
        }
        Some(protocol == self.protocol)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A chain that leads back to where it was ends.
    #[test]
    fn a_chain_in_a_circle_ends() {
        let mut packet = [0; 100];
        // An authentication header behind 40 bytes which says that the next is behind 40 bytes.
        (packet[6], packet[40], packet[41]) = (51, 51, 8);
        let chain = Chain { six: true, network: 0, protocol: 6 };
        assert_eq!(chain.holds(&packet), Some(false));
        assert_eq!(Chain { protocol: 51, ..chain }.holds(&packet), Some(true));
        assert_eq!(chain.holds(&packet[..41]), None);
    }
}
