//! `IP6Fragmenter`: fragments packets that are too long.
//!
//! RFC 8200 section 4.5.

use linerate_element_support::{ip::fragments, mac_header, random::Random};
use linerate_graph::{Arguments, Class, Context, DropReason, Element, HandlerResult, NoBuffer};
use linerate_memory::{Frame, HeaderStart, Slot};
use linerate_packet::{IpProtocol, ipv6_ext::Extensions};

use super::{
    FAMILY,
    header::{LEAST, LENGTH, NEXT, NoHeader, ip, mark, put16},
};

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    #[from(NoBuffer)]
    NoBuffer,
    #[from(NoHeader)]
    NoHeader,
    /// too long and not to be divided
    Undivided,
}

/// Bytes of a fragment header.
const FRAGMENT: usize = 8;
/// Headers that every fragment has again.
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT_HEADER: u8 = 44;

pub(super) const CLASS: Class = Class {
    name: "IP6Fragmenter",
    family: FAMILY,
    summary: "divides IPv6 packets that are too long, or sends them elsewhere",
    description: "Packets of at most `MTU` bytes pass. Longer ones leave by output 1 when it is \
        used: a router may not divide them, and `ICMP6Error(.., 2, 0, MTU ..)` there tells the \
        sender. Without an output 1 they are divided, as the source of packets may do it, such \
        as the end of a tunnel; `MTU` should then be 1280 or more. Fragments are not divided \
        again but dropped, and so are packets whose headers leave no room. Click's element loses \
        all packets that are too long.\n\n\
        Packets begin with their IPv6 header, which must be known (`CheckIP6Header`).",
    ports: "1/1-2",
    processing: "h/h",
    annotates: true,
    multiplies: |plan, at, longest| match plan.elements[at].targets.len() {
        1 => fragments(plan, at, longest, LEAST + FRAGMENT),
        _ => 1,
    },
    drops: Reason::REASONS,
    cost: "A test per packet; a copy per fragment.",
    example: "InfiniteSource(LENGTH 100, LIMIT 10, STOP true) -> IP6Encap(udp, 2001:db8::1, \
        2001:db8::2) -> IP6Fragmenter(80) -> Discard;",
    ..Class::for_element::<Ip6Fragmenter>()
};

#[derive(Arguments)]
struct Ip6Fragmenter {
    /// the longest packet that passes
    #[arg(kind = "bytes")]
    mtu: u32,
    #[init(Random::new(make).below(1 << 32) as u32)]
    ident: u32,
    /// packets that were too long
    #[handler(count, name = "drops")]
    too_long: u64,
    /// fragments made
    #[handler(count)]
    fragments: u64,
}

/// Division of a packet into fragments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Division {
    /// Bytes in front of the fragment header.
    head: usize,
    /// Offset of the next-header field in front of the fragment header.
    next: usize,
    /// Bytes of a fragment behind its header.
    piece: usize,
}

impl Division {
    /// `None` when it cannot be divided for this length.
    fn for_mtu(ip: &[u8], mtu: usize) -> Option<Division> {
        let (mut head, mut next) = (LEAST, NEXT);
        for extension in Extensions::new(IpProtocol(ip[NEXT]), ip.get(LEAST..)?) {
            let extension = extension.ok()?;
            match extension.kind.0 {
                HOP_BY_HOP | ROUTING => {
                    next = head;
                    head += extension.header.len();
                }
                FRAGMENT_HEADER => return None,
                _ => break,
            }
        }
        let piece = mtu.checked_sub(head + FRAGMENT)? & !7;
        (piece > 0 && head <= ip.len()).then_some(Division { head, next, piece })
    }
}

impl Ip6Fragmenter {
    fn fits(&self, slot: &Slot) -> bool {
        slot.len() <= self.mtu as usize
    }

    fn send(&mut self, cx: &mut Context, slot: Slot) {
        if self.fits(&slot) {
            return cx.out.emit(0, slot);
        }
        self.too_long += 1;
        if cx.out.count() > 1 {
            return cx.out.emit(1, slot);
        }
        let Some(packet) = ip(cx.pool.arena(), &slot) else {
            return cx.drop_packet(slot, Reason::NoHeader);
        };
        let Some(division) = Division::for_mtu(packet, self.mtu as usize) else {
            return cx.drop_packet(slot, Reason::Undivided);
        };
        let rest = packet.len() - division.head;
        self.ident = self.ident.wrapping_add(1);
        let rank = cx.rank_of(&slot);
        let mut at = 0;
        while at < rest {
            let Some(fragment) = self.fragment(cx, &slot, division, at) else {
                return cx.drop_packet(slot, Reason::NoBuffer);
            };
            cx.take_part(&fragment, rank, at / division.piece);
            cx.out.emit(0, fragment);
            self.fragments += 1;
            at += division.piece;
        }
        cx.pool.give_one(slot);
    }

    /// Makes the fragment that begins `at` bytes behind the unfragmentable part.
    fn fragment(
        &self,
        cx: &mut Context,
        slot: &Slot,
        division: Division,
        at: usize,
    ) -> Option<Slot> {
        let Division { head, next, piece } = division;
        let start = head + FRAGMENT;
        let rest = ip(cx.pool.arena(), slot)?.len() - head - at;
        let length = rest.min(piece);
        let mut fragment = cx.pool.take_one(start + length)?;
        let arena = cx.pool.arena();
        let whole = ip(arena, slot).unwrap_or_default();
        if let Some(bytes) = arena.packet_mut(&mut fragment) {
            bytes[..head].copy_from_slice(&whole[..head]);
            bytes[next] = FRAGMENT_HEADER;
            put16(bytes, LENGTH, (start + length - LEAST) as u16);
            let more = u16::from(rest > piece);
            bytes[head..start].fill(0);
            bytes[head] = whole[next];
            put16(bytes, head + 2, at as u16 & !7 | more);
            bytes[head + 4..start].copy_from_slice(&self.ident.to_be_bytes());
            bytes[start..].copy_from_slice(&whole[head + at..head + at + length]);
        }
        let mut about = *arena.meta(slot);
        // It begins with the IPv6 header.
        mac_header::mark(&mut about, HeaderStart::UNKNOWN);
        if let Some(mut packet) = arena.writable(&mut fragment) {
            *packet.meta_mut() = about;
            mark(&mut packet, 0);
        }
        Some(fragment)
    }
}

impl Element for Ip6Fragmenter {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        if frame.slots().iter().all(|slot| self.fits(slot)) {
            return;
        }
        // One after the other, so that they stay in order.
        frame.drain_front(frame.len(), |slot| self.send(cx, slot));
    }

    fn read(&mut self, cx: &mut Context, handler: &str, _: &str) -> HandlerResult {
        self.read_field(&cx.scope(), handler)
    }
}
