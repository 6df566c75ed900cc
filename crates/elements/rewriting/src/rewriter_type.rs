//! Rewriter types: the packets they take, and the fields that make a flow.

use linerate_lookup::exact::Entry;
use linerate_packet::IpProtocol;

use super::{
    flow_set::FlowSet,
    mapping::{Ends, delta, deltas},
};

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

/// The map of rewriters that have one for all protocols.
const ANY: IpProtocol = IpProtocol(0);

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
fn after(identifier: u16) -> u16 {
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

    /// The mapping other elements mean by a protocol and ends. For pings, the source port of `ends`
    /// is the identifier, and `is_reply` says which direction is looked for.
    pub(super) fn find(
        self,
        set: &FlowSet,
        rewriter: u16,
        protocol: IpProtocol,
        ends: Ends,
        is_reply: bool,
    ) -> Option<Entry> {
        let nowhere = std::net::Ipv4Addr::UNSPECIFIED;
        let Ends { src, dst, src_port, .. } = ends;
        let of = |map, ends| set.find(rewriter, map, ends);
        let bare = Ends { src_port: 0, dst_port: 0, ..ends };
        match self {
            RewriterKind::Ip if matches!(protocol, IpProtocol::TCP | IpProtocol::UDP) => {
                of(protocol, ends)
            }
            RewriterKind::Ip => None,
            RewriterKind::Tcp => of(IpProtocol::TCP, ends).filter(|_| protocol == IpProtocol::TCP),
            RewriterKind::Udp => of(ANY, ends).filter(|entry| {
                let made_for = set.table.get(*entry).map_or(0, |mapping| mapping.protocol);
                made_for == protocol.0
            }),
            RewriterKind::Address => of(ANY, Ends { dst: nowhere, ..bare })
                .or_else(|| of(ANY, Ends { src: nowhere, ..bare })),
            RewriterKind::Pair => of(ANY, bare),
            RewriterKind::Ping if protocol == IpProtocol::ICMP => {
                let ends = if is_reply {
                    Ends { src, dst, src_port: after(src_port), dst_port: src_port }
                } else {
                    Ends { src, dst, src_port, dst_port: after(src_port) }
                };
                of(IpProtocol::ICMP, ends)
            }
            RewriterKind::Ping => None,
        }
    }

    /// As `find`, and makes a mapping by an input's specification where there is none.
    pub(super) fn find_or_make(
        self,
        set: &mut FlowSet,
        rewriter: u16,
        input: usize,
        protocol: IpProtocol,
        ends: Ends,
        now: u64,
    ) -> Option<Entry> {
        if let Some(found) = self.find(set, rewriter, protocol, ends, false) {
            if !set.has_ended(found, now) {
                return Some(found);
            }
            set.remove(found);
        }
        let bare = Ends { src_port: 0, dst_port: 0, ..ends };
        let (map, flow) = match self {
            RewriterKind::Ip if matches!(protocol, IpProtocol::TCP | IpProtocol::UDP) => {
                (protocol, ends)
            }
            RewriterKind::Tcp if protocol == IpProtocol::TCP => (protocol, ends),
            RewriterKind::Udp => (ANY, ends),
            RewriterKind::Address => (ANY, Ends { dst: std::net::Ipv4Addr::UNSPECIFIED, ..bare }),
            RewriterKind::Pair => (ANY, bare),
            RewriterKind::Ip | RewriterKind::Tcp | RewriterKind::Ping => return None,
        };
        set.establish(rewriter, input, map, protocol, flow, now).ok().map(|(entry, _)| entry)
    }
}
