//! Mappings that other elements look for, by a protocol and ends.

use linerate_packet::IpProtocol;
use linerate_tables::exact::Entry;

use super::{
    flow_set::FlowSet,
    mapping::Ends,
    rewriter_type::{ANY, RewriterKind, after},
};

impl RewriterKind {
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
