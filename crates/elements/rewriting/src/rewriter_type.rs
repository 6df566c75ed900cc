//! Rewriter types: the packets they take, and the fields that make a flow.

use linerate_packet::IpProtocol;

use super::mapping::{Ends, delta, deltas};

/// The rewriters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RewriterKind {
    /// TCP and UDP, each in a map of its own.
    Ip,
    /// TCP.
    Tcp,
    /// TCP, UDP and DCCP without telling them apart.
    Udp,
    /// Source addresses of any protocol.
    Address,
    /// Pairs of addresses of any protocol.
    Pair,
    /// ICMP echo requests and replies.
    Ping,
}

/// Type of a class of rewriters.
pub(super) trait RewriterType: Send + 'static {
    const KIND: RewriterKind;
}

/// The map of rewriters that have one for all protocols.
pub(super) const ANY: IpProtocol = IpProtocol(0);

/// Flow of a packet, for the lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PacketFlow {
    /// A flow of the rewriter.
    Flow(Ends, IpProtocol),
    /// A reply to a ping: there must be a mapping.
    Answer(Ends),
    /// Nothing it rewrites.
    Other,
}

/// Returns the number in place of a port for the other direction of a ping: Click's, one more than
/// the identifier as a machine of the other byte order reads it.
pub(super) fn after(identifier: u16) -> u16 {
    identifier.swap_bytes().wrapping_add(1).swap_bytes()
}

impl RewriterKind {
    /// The flow of a packet, which begins with its IP header of `header` bytes.
    #[inline(always)]
    pub(super) fn flow(self, ip: &[u8; 20], transport: &[u8]) -> PacketFlow {
        let address =
            |at: usize| std::net::Ipv4Addr::new(ip[at], ip[at + 1], ip[at + 2], ip[at + 3]);
        let (src, dst, protocol) = (address(12), address(16), ip[9]);
        let first = u16::from_be_bytes([ip[6], ip[7]]) & 0x1fff == 0;
        let taken = match self {
            RewriterKind::Ip => matches!(protocol, 6 | 17) && first,
            RewriterKind::Tcp => protocol == 6 && first,
            RewriterKind::Udp => matches!(protocol, 6 | 17 | 33) && first,
            RewriterKind::Address | RewriterKind::Pair => true,
            RewriterKind::Ping => protocol == 1 && first,
        };
        if !taken {
            return PacketFlow::Other;
        }
        match self {
            RewriterKind::Address => {
                let dst = std::net::Ipv4Addr::UNSPECIFIED;
                PacketFlow::Flow(Ends { src, dst, src_port: 0, dst_port: 0 }, ANY)
            }
            RewriterKind::Pair => {
                PacketFlow::Flow(Ends { src, dst, src_port: 0, dst_port: 0 }, ANY)
            }
            RewriterKind::Ping => match *transport {
                [kind @ (0 | 8), _, _, _, a, b, ..] => {
                    let identifier = u16::from_be_bytes([a, b]);
                    let (one, other) = (identifier, after(identifier));
                    match kind {
                        8 => PacketFlow::Flow(
                            Ends { src, dst, src_port: one, dst_port: other },
                            IpProtocol(1),
                        ),
                        _ => PacketFlow::Answer(Ends { src, dst, src_port: other, dst_port: one }),
                    }
                }
                _ => PacketFlow::Other,
            },
            RewriterKind::Ip | RewriterKind::Tcp | RewriterKind::Udp => match *transport {
                [a, b, c, d, _, _, _, _, ..] => {
                    let src_port = u16::from_be_bytes([a, b]);
                    let dst_port = u16::from_be_bytes([c, d]);
                    let map = if self == RewriterKind::Udp { ANY } else { IpProtocol(protocol) };
                    PacketFlow::Flow(Ends { src, dst, src_port, dst_port }, map)
                }
                _ => PacketFlow::Other,
            },
        }
    }

    /// Completes a rewritten flow with the field that follows from a chosen one.
    pub(super) fn completed(self, to: Ends) -> Ends {
        match self {
            RewriterKind::Ping => Ends { dst_port: after(to.src_port), ..to },
            _ => to,
        }
    }

    /// Returns a flow rewritten by a mapping, which for rewriters of addresses lacks some fields.
    pub(super) fn whole(self, flow: Ends, to: Ends, is_reply: bool) -> Ends {
        match self {
            RewriterKind::Address if is_reply => Ends { dst: to.dst, ..flow },
            RewriterKind::Address => Ends { src: to.src, ..flow },
            RewriterKind::Pair => Ends { src: to.src, dst: to.dst, ..flow },
            _ => to,
        }
    }

    /// Returns true if flows can be rewritten to that: rewriters of addresses change no ports, and
    /// that of source addresses no destinations.
    pub(super) fn allows(self, to: Ends) -> bool {
        let no_ports = to.src_port == 0 && to.dst_port == 0;
        match self {
            RewriterKind::Address => no_ports && to.dst.is_unspecified(),
            RewriterKind::Pair => no_ports,
            _ => true,
        }
    }

    /// Returns true if the times of a flow are those of TCP.
    pub(super) fn is_tcp(self, map: IpProtocol) -> bool {
        self == RewriterKind::Tcp || self == RewriterKind::Ip && map == IpProtocol::TCP
    }

    /// The protocol a mapping is for; 0 for all.
    pub(super) fn remembered(self, map: IpProtocol, protocol: IpProtocol) -> u8 {
        if self == RewriterKind::Udp { protocol.0 } else { map.0 }
    }

    /// Changes of the checksums of an IP header and of its payload.
    pub(super) fn deltas(self, from: Ends, to: Ends, reply: bool) -> (u16, u16) {
        let (ip, transport) = deltas(from, to);
        match self {
            // ICMP's checksum covers the identifier and no address.
            RewriterKind::Ping if reply => (ip, delta(&[from.dst_port], &[to.dst_port])),
            RewriterKind::Ping => (ip, delta(&[from.src_port], &[to.src_port])),
            _ => (ip, transport),
        }
    }
}
