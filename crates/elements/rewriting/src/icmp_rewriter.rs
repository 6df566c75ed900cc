//! `ICMPRewriter`: ICMP errors about rewritten packets.

use std::sync::Arc;

use linerate_graph::{
    Annotation, Arg, Class, Context, DropReason, Element, ElementBuilder, ElementRef, NoBuffer,
    Text, lang::config::words, parse_integer, unquoted,
};
use linerate_memory::{Frame, PacketMut};
use linerate_packet::{
    IpProtocol,
    checksum::{udp_nonzero, update_bytes, update16},
};
use linerate_tables::exact::Entry;

use super::{
    FAMILY,
    arguments::{DST_ANNO, REPLY_ANNO},
    flow_set::FlowSet,
    is_rewriter,
    locks::shared,
    mapping::Ends,
    registry::{Registry, RewriterHandle},
};
use linerate_element_support::annotation_byte::Byte;

pub(super) const CLASS: Class = Class {
    name: "ICMPRewriter",
    family: FAMILY,
    summary: "rewrites ICMP errors about packets that rewriters have rewritten",
    description: "Takes ICMP packets whose network header is known. `MAPS` are rewriters, \
        separated by spaces. An ICMP error (destination unreachable, time exceeded, parameter \
        problem, source quench, redirect) has the beginning of the packet it is about. Where that \
        is one a rewriter has sent, it becomes the packet the rewriter got, with addresses, ports \
        or identifier, and checksums; and when the error goes to who seemed to have sent it, it \
        goes to who did.\n\n\
        Rewritten errors leave by output 0, or for a rewriter written as `NAME:OFFSET` by the output \
        of the flow's direction and `OFFSET`. Other packets are dropped.",
    ports: "1/1-",
    processing: "h/h",
    args: &[
        Arg::required("MAPS", "elements", "rewriters, each perhaps with an offset of outputs"),
        DST_ANNO,
        REPLY_ANNO,
    ],
    drops: Reason::REASONS,
    annotates: true,
    cost: "A lookup in the table of each rewriter until one knows the flow, and the checksums of \
        what is written.",
    example: "rw :: IPRewriter(pattern 1.0.0.1 1024-65535# - - 0 1); Idle -> rw -> Discard; \
        rw [1] -> Discard; FromIPSummaryDump(STOP true, FIELDS ip_src ip_dst ip_proto icmp_type, \
        DATA \"3.0.0.3 1.0.0.1 I 11\") -> ICMPRewriter(rw) -> Discard;",
    observes_state_of: |plan, at| plan.elements_named(at, &["MAPS"]),
    make: |make| Box::new(IcmpRewriter::new(make)),
    ..Class::here()
};

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    /// no buffer for a copy
    #[from(NoBuffer)]
    NoBuffer,
    /// no error about a rewritten packet
    Unmapped,
}

/// Types of errors.
const ERRORS: [u8; 5] = [3, 4, 5, 11, 12];

struct IcmpRewriter {
    registry: Arc<Registry>,
    /// Elements, and the offset of their outputs where there is one.
    elements: Vec<(usize, Option<u32>)>,
    maps: Vec<(RewriterHandle, Option<u32>)>,
    annotate: bool,
    reply_anno: Option<Byte>,
}

impl IcmpRewriter {
    fn new(make: &mut ElementBuilder<'_>) -> IcmpRewriter {
        let texts = make.get::<Text>("MAPS").map(|text| unquoted(&text.0));
        let outputs = make.outputs();
        let mut elements = Vec::new();
        for text in texts.iter().flat_map(|text| words(text)) {
            let (name, offset) = match text.split_once(':') {
                Some((name, offset)) => (name, parse_integer(offset)),
                None => (text, Some(-1)),
            };
            let found = offset.zip(make.parse::<ElementRef>(name).ok());
            let Some((offset, ElementRef(at))) = found else {
                // Click names the whole of it, or the element when that is wrong.
                let what = if offset.is_some() { name } else { text };
                make.error(format!("{what} not an IP rewriter"));
                continue;
            };
            let element = &make.plan().elements[at];
            let offset = u32::try_from(offset).ok();
            let needed = offset.map_or(0, |offset| offset as usize + element.outputs.len());
            if needed > outputs {
                let plural = if outputs == 1 { "output" } else { "outputs" };
                make.error(format!("{text} port offset requires more than {outputs} {plural}"));
            } else if is_rewriter(element.class) {
                elements.push((at, offset));
            } else {
                make.error(format!("{name} not an IP rewriter"));
            }
        }
        if elements.is_empty() && texts.is_some() {
            make.error("no IP rewriters supplied");
        }
        let annotate = make.or("DST_ANNO", true);
        let reply_anno = make.get::<Annotation<1>>("REPLY_ANNO").map(|anno| {
            Byte::from_annotation(anno).unwrap_or_else(|| {
                make.error(format!("REPLY_ANNO: no room for byte {}", anno.offset));
                Byte::PAINT
            })
        });
        let registry = make.world.common::<Registry>();
        IcmpRewriter { registry, elements, maps: Vec::new(), annotate, reply_anno }
    }

    /// Rewrites an error; returns its output, and nothing when it is none about a known flow.
    fn one(&self, packet: &mut PacketMut<'_>, now: u64) -> Option<usize> {
        let network = packet.network();
        let (bytes, meta) = packet.parts();
        let bytes = bytes.get_mut(network..)?;
        let header = usize::from(bytes.first()? & 15) * 4;
        if bytes.len() < header || header < 20 || bytes[0] >> 4 != 4 || bytes[9] != 1 {
            return None;
        }
        let (ip, icmp) = bytes.split_at_mut(header);
        let about = QuotedPacket::read(icmp)?;
        for (place, offset) in &self.maps {
            let set = shared(&place.set);
            let found = about.find(&set, place.rewriter);
            let Some(entry) = found.filter(|it| !set.has_ended(*it, now)) else { continue };
            let mapping = set.table.get(entry)?;
            let kind = set.rewriters.get(usize::from(place.rewriter))?.kind;
            let to = kind.whole(about.ends, mapping.to, mapping.is_reply());
            let (output, reply, anno) = (mapping.output, mapping.is_reply(), mapping.reply_anno);
            drop(set);
            if ip[16..20] == about.ends.dst.octets() {
                let (old, new) = ([ip[16], ip[17], ip[18], ip[19]], to.dst.octets());
                let check = update_bytes(u16::from_be_bytes([ip[10], ip[11]]), &old, &new);
                ip[10..12].copy_from_slice(&check.to_be_bytes());
                ip[16..20].copy_from_slice(&new);
                if self.annotate {
                    meta.destination[..4].copy_from_slice(&new);
                }
            }
            if let Some(byte) = self.reply_anno.filter(|_| reply) {
                byte.set(meta, anno);
            }
            about.rewrite(icmp, to);
            return Some(offset.map_or(0, |offset| (offset + output) as usize));
        }
        None
    }
}

/// The flow that an ICMP error is about.
struct QuotedPacket {
    /// The reply to the packet in it.
    ends: Ends,
    protocol: IpProtocol,
    /// Offset of the packet's transport header in the ICMP message.
    transport: usize,
    /// Whether that is there, with ports or an identifier.
    has_transport: bool,
}

impl QuotedPacket {
    fn read(icmp: &[u8]) -> Option<QuotedPacket> {
        let inner = icmp.get(8..).filter(|inner| inner.len() >= 20)?;
        let header = usize::from(inner[0] & 15) * 4;
        if !ERRORS.contains(&icmp[0]) || inner[0] >> 4 != 4 || header < 20 {
            return None;
        }
        let address = |at: usize| [inner[at], inner[at + 1], inner[at + 2], inner[at + 3]].into();
        let (src, dst) = (address(16), address(12));
        let mut ends = Ends { src, dst, src_port: 0, dst_port: 0 };
        let first = u16::from_be_bytes([inner[6], inner[7]]) & 0x1fff == 0;
        let protocol = inner[9];
        let has_transport = match *inner.get(header..).filter(|_| first).unwrap_or(&[]) {
            [a, b, c, d, _, _, _, _, ..] if matches!(protocol, 6 | 17 | 33) => {
                ends.src_port = u16::from_be_bytes([c, d]);
                ends.dst_port = u16::from_be_bytes([a, b]);
                true
            }
            [8, _, _, _, a, b, ..] if protocol == 1 => {
                ends.src_port = u16::from_be_bytes([a, b]);
                true
            }
            _ => false,
        };
        let transport = 8 + header;
        Some(QuotedPacket { ends, protocol: IpProtocol(protocol), transport, has_transport })
    }

    fn find(&self, set: &FlowSet, rewriter: u16) -> Option<Entry> {
        let kind = set.rewriters.get(usize::from(rewriter))?.kind;
        kind.find(set, rewriter, self.protocol, self.ends, true)
    }

    /// Restores the packet in the message to its form before it was rewritten: the other way round
    /// than replies to it are rewritten to.
    fn rewrite(&self, icmp: &mut [u8], to: Ends) {
        let mut outer = u16::from_be_bytes([icmp[2], icmp[3]]);
        let inner = Words { base: 8 };
        let header = [
            inner.word(icmp, 12),
            inner.word(icmp, 14),
            inner.word(icmp, 16),
            inner.word(icmp, 18),
        ];
        let halves = |address: std::net::Ipv4Addr| {
            let [a, b, c, d] = address.octets();
            [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])]
        };
        let ([a, b], [c, d]) = (halves(to.dst), halves(to.src));
        let mut changes = Vec::with_capacity(7);
        for ((at, old), new) in [12, 14, 16, 18].into_iter().zip(header).zip([a, b, c, d]) {
            inner.set(icmp, at, new);
            changes.push((old, new));
        }
        inner.change(icmp, 10, &changes, &mut outer);
        for (old, new) in &changes {
            outer = update16(outer, *old, *new);
        }
        let transport = Words { base: self.transport };
        let rest = icmp.len() - self.transport.min(icmp.len());
        let ports: &[(usize, u16)] = match self.protocol.0 {
            _ if !self.has_transport => &[],
            1 => &[(4, to.dst_port)],
            _ => &[(0, to.dst_port), (2, to.src_port)],
        };
        for (at, new) in ports {
            let old = transport.word(icmp, *at);
            transport.set(icmp, *at, *new);
            outer = update16(outer, old, *new);
            changes.push((old, *new));
        }
        if self.has_transport {
            match self.protocol.0 {
                6 if rest >= 18 => transport.change(icmp, 16, &changes, &mut outer),
                17 if transport.word(icmp, 6) != 0 => {
                    let before = transport.word(icmp, 6);
                    let mut ignored = 0;
                    transport.change(icmp, 6, &changes, &mut ignored);
                    let after = udp_nonzero(transport.word(icmp, 6));
                    transport.set(icmp, 6, after);
                    outer = update16(outer, before, after);
                }
                // ICMP's checksum covers no address.
                1 => transport.change(icmp, 2, &changes[4..], &mut outer),
                _ => {}
            }
        }
        icmp[2..4].copy_from_slice(&outer.to_be_bytes());
    }
}

/// Fields of 16 bits of a header.
struct Words {
    base: usize,
}

impl Words {
    fn word(&self, bytes: &[u8], at: usize) -> u16 {
        let place = bytes.get(self.base + at..).and_then(|rest| rest.first_chunk::<2>());
        place.map_or(0, |place| u16::from_be_bytes(*place))
    }

    fn set(&self, bytes: &mut [u8], at: usize, new: u16) {
        if let Some(place) = bytes.get_mut(self.base + at..).and_then(|it| it.first_chunk_mut()) {
            *place = new.to_be_bytes();
        }
    }

    /// Brings a checksum up to date, and the one outside that covers it.
    fn change(&self, bytes: &mut [u8], at: usize, changes: &[(u16, u16)], outer: &mut u16) {
        let before = self.word(bytes, at);
        let after = changes.iter().fold(before, |check, (old, new)| update16(check, *old, *new));
        self.set(bytes, at, after);
        *outer = update16(*outer, before, after);
    }
}

impl Element for IcmpRewriter {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        cx.unshare::<Reason>(frame);
        let now = cx.steady() / 1_000_000;
        let Context { pool, out, .. } = cx;
        let mut unmapped = 0;
        frame.drain_front(frame.len(), |mut slot| {
            let arena = pool.arena();
            let packet = arena.writable(&mut slot);
            let Some(output) = packet.and_then(|mut packet| self.one(&mut packet, now)) else {
                unmapped += 1;
                return pool.give_one(slot);
            };
            out.emit(output, slot);
        });
        cx.count_drops(Reason::Unmapped, unmapped);
    }

    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        let now = cx.steady() / 1_000_000;
        let plan = Arc::clone(cx.plan());
        for (element, offset) in &self.elements {
            self.maps.push((self.registry.place(&plan, *element, now)?, *offset));
        }
        Ok(())
    }
}
