//! Sequence numbers of TCP counted from the beginning of their connection, as tcpdump does.
//!
//! The first packet of a connection with an acknowledgement is shown with the numbers it has, and so is
//! each that opens one; those behind it are shown relative to it.

use std::{collections::HashMap, net::IpAddr};

use super::network::Ends;

/// Connections known at a time. A capture with more begins anew, and numbers are shown as they are.
const KNOWN: usize = 1 << 18;

/// First sequence numbers of both directions: of the end with the lower port, or the lower address,
/// first.
#[derive(Debug, Clone, Copy, Default)]
struct InitialSequences {
    lower: u32,
    higher: u32,
}

/// The initial sequence numbers to subtract from those of a packet: from its own, and from its
/// acknowledgement, whose base is that of selective acknowledgements, too.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SequenceBase {
    pub(super) sequence: u32,
    pub(super) acknowledged: u32,
    /// Base of selective acknowledgements, which have it from the first packet on.
    pub(super) selective: u32,
}

/// Connections of which a packet was seen.
#[derive(Debug, Default)]
pub(super) struct Conversations(HashMap<(IpAddr, IpAddr, u32, u32), InitialSequences>);

impl Conversations {
    /// Returns the base of the numbers of a packet with an acknowledgement.
    pub(super) fn base(
        &mut self,
        ends: Ends,
        ports: (u32, u32),
        (sequence, acknowledged): (u32, u32),
        opens: bool,
    ) -> SequenceBase {
        let Ends { source, destination } = ends;
        let reversed = (ports.0, source) > (ports.1, destination);
        let key = if reversed {
            (destination, source, ports.1, ports.0)
        } else {
            (source, destination, ports.0, ports.1)
        };
        let own = |start: InitialSequences| {
            if reversed { (start.higher, start.lower) } else { (start.lower, start.higher) }
        };
        match self.0.get(&key) {
            Some(start) if !opens => {
                let (sequence, acknowledged) = own(*start);
                SequenceBase { sequence, acknowledged, selective: acknowledged }
            }
            _ => {
                if self.0.len() == KNOWN {
                    self.0.clear();
                }
                let others = acknowledged.wrapping_sub(1);
                let start = if reversed {
                    InitialSequences { lower: others, higher: sequence }
                } else {
                    InitialSequences { lower: sequence, higher: others }
                };
                self.0.insert(key, start);
                SequenceBase { selective: others, ..SequenceBase::default() }
            }
        }
    }
}
