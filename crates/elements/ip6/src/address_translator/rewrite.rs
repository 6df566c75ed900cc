//! Rewriting of the mapped end in an IPv6 packet.

use linerate_graph::{DropReason, NoBuffer};
use linerate_packet::{
    IpProtocol,
    checksum::{checksum, update16},
    ipv6_ext::upper_layer,
};

use super::mappings::{Direction, Endpoint, Flow, Mappings};
use crate::header::{DESTINATION, LEAST, LENGTH, NEXT, SOURCE, address, get16, put16};

const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP6: u8 = 58;
/// Length of an `ICMPv6` header.
const MESSAGE: usize = 8;

/// Reasons for which packets are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, DropReason)]
pub(super) enum Reason {
    #[from(NoBuffer)]
    NoBuffer,
    /// no sound packet
    Malformed,
    /// no TCP, UDP or ICMPv6
    Protocol,
    /// no mapping
    NoMapping,
}

/// Offsets of fields in a packet.
#[derive(Debug, Clone, Copy)]
struct Layout {
    protocol: u8,
    /// The transport header, and whether it is there.
    transport: usize,
    has_header: bool,
    /// Offset of the mapped port or identifier, and that of the other one.
    port: Option<usize>,
    peer_port: Option<usize>,
}

impl Layout {
    /// Reads the layout of a packet that goes `way`.
    fn parse(ip: &[u8], way: Direction) -> Result<Layout, Reason> {
        if ip.len() < LEAST || ip[0] >> 4 != 6 {
            return Err(Reason::Malformed);
        }
        let upper = upper_layer(IpProtocol(ip[NEXT]), &ip[LEAST..]);
        let upper = upper.map_err(|_| Reason::Malformed)?;
        let transport = LEAST + upper.offset;
        let has_header = upper.has_header();
        let (port, peer_port) = match (upper.protocol.0, way) {
            _ if !has_header => (None, None),
            (TCP | UDP, Direction::Out) => (Some(transport), Some(transport + 2)),
            (TCP | UDP, Direction::In) => (Some(transport + 2), Some(transport)),
            (ICMP6, _) if matches!(ip.get(transport), Some(128 | 129)) => {
                (Some(transport + 4), None)
            }
            _ => (None, None),
        };
        Ok(Layout { protocol: upper.protocol.0, transport, has_header, port, peer_port })
    }

    /// Returns the offset of the checksum.
    fn checksum(&self) -> Option<usize> {
        let at = match self.protocol {
            TCP => 16,
            UDP => 6,
            ICMP6 => 2,
            _ => return None,
        };
        self.has_header.then_some(self.transport + at)
    }

    fn flow(&self, ip: &[u8], way: Direction) -> Flow {
        let port = |at: Option<usize>| at.map_or(0, |at| get16(ip, at));
        let (mapped, peer) = match way {
            Direction::Out => (SOURCE, DESTINATION),
            Direction::In => (DESTINATION, SOURCE),
        };
        let end = |at, port| Endpoint { address: u128::from_be_bytes(address(ip, at)), port };
        Flow {
            mapped: end(mapped, port(self.port)),
            peer: end(peer, port(self.peer_port)),
            protocol: self.protocol,
        }
    }
}

/// Maps the end of a packet that is mapped on its `way`.
pub(super) fn rewrite(
    ip: &mut [u8],
    way: Direction,
    mappings: &mut Mappings,
    now: u64,
) -> Result<(), Reason> {
    let layout = Layout::parse(ip, way)?;
    let end = LEAST + usize::from(get16(ip, LENGTH));
    let ip = ip.get_mut(..end).ok_or(Reason::Malformed)?;
    match layout.protocol {
        _ if !layout.has_header && !mappings.is_by_address() => return Err(Reason::NoMapping),
        TCP | UDP if layout.has_header && end < layout.transport + 8 => {
            return Err(Reason::Malformed);
        }
        ICMP6 if layout.has_header => {
            let kind = *ip.get(layout.transport).ok_or(Reason::Malformed)?;
            if end < layout.transport + MESSAGE {
                return Err(Reason::Malformed);
            }
            return match kind {
                1..=4 => error(ip, &layout, way, mappings, now),
                // Only for the link.
                130..=137 => Err(Reason::Protocol),
                _ => one(ip, &layout, way, mappings, now),
            };
        }
        TCP | UDP | ICMP6 => {}
        _ => return Err(Reason::Protocol),
    }
    one(ip, &layout, way, mappings, now)
}

fn one(
    ip: &mut [u8],
    layout: &Layout,
    way: Direction,
    mappings: &mut Mappings,
    now: u64,
) -> Result<(), Reason> {
    let flow = layout.flow(ip, way);
    let to = mappings.map(way, &flow, now).ok_or(Reason::NoMapping)?;
    put(ip, layout, way, to);
    Ok(())
}

/// Writes the new end.
fn put(ip: &mut [u8], layout: &Layout, way: Direction, to: Endpoint) {
    let at = if way == Direction::Out { SOURCE } else { DESTINATION };
    let (old, new) = (address(ip, at), to.address.to_be_bytes());
    ip[at..at + 16].copy_from_slice(&new);
    let mut ports = (0, 0);
    if let Some(at) = layout.port.filter(|at| ip.len() >= at + 2) {
        ports = (get16(ip, at), to.port);
        put16(ip, at, to.port);
    }
    let Some(at) = layout.checksum().filter(|at| ip.len() >= at + 2) else { return };
    let check = get16(ip, at);
    if layout.protocol == UDP && check == 0 {
        return;
    }
    let check = update16(check, !checksum(&old), !checksum(&new));
    let check = update16(check, ports.0, ports.1);
    put16(ip, at, if check == 0 && layout.protocol == UDP { 0xffff } else { check });
}

/// An error about a packet that went the other way.
fn error(
    ip: &mut [u8],
    layout: &Layout,
    way: Direction,
    mappings: &mut Mappings,
    now: u64,
) -> Result<(), Reason> {
    let start = layout.transport + MESSAGE;
    let back = if way == Direction::Out { Direction::In } else { Direction::Out };
    // The quoted packet has the end the error is to, or from, as its own.
    let quoted = ip.get(start..).ok_or(Reason::Malformed)?;
    let inner = Layout::parse(quoted, back)?;
    let flow = inner.flow(quoted, back);
    let turned = Flow { protocol: inner.protocol, ..flow };
    let to = mappings.map(way, &turned, now).ok_or(Reason::NoMapping)?;
    let old = !checksum(&ip[start..]);
    put(&mut ip[start..], &inner, back, to);
    let new = !checksum(&ip[start..]);
    let at = layout.transport + 2;
    let check = update16(get16(ip, at), old, new);
    put16(ip, at, check);
    // The sender of the error is mapped, too: out, only if it is the destination of the packet.
    let mapped = layout.flow(ip, way).mapped;
    let outer = Layout { port: None, ..*layout };
    if mapped.address == flow.mapped.address {
        put(ip, &outer, way, to);
        return Ok(());
    }
    one(ip, &outer, way, mappings, now)
}
