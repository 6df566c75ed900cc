//! `IPsecEncap`: the IP header of a tunnel's packets.

use linerate_graph::{Arg, Class, Context, Element, Make};
use linerate_memory::Frame;

use super::{FAMILY, NO_BUFFER, sift};
use linerate_kit::{
    annotations::set_fix_ip_source,
    ip::{LEAST, PROTOCOL, TTL},
    ip_encap::{ProtocolNumber, Template},
    room,
};

/// Drop reason.
const TOO_LONG: usize = 1;

pub(super) const CLASS: Class = Class {
    name: "IPsecEncap",
    family: FAMILY,
    summary: "puts an IP header to the other end of a tunnel in front of packets",
    description: "The destination is the annotation, which RadixIPsecLookup has set to the route's \
        gateway. The source is left to FixIPSrc behind it. Identifications count up; the time to \
        live is 250.",
    ports: "1/1",
    args: &[Arg::required("PROTO", "protocol", "what the packets are: 50 for ESP")],
    annotates: true,
    drops: &["no buffer", "longer than a buffer"],
    cost: "One pass: the line in front of the packet and a line of annotations.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> SetIPAddress(1.0.0.1) -> IPsecEncap(50) \
        -> FixIPSrc(2.0.0.1) -> Discard;",
    make: |make| Box::new(Encap::new(make)),
    ..Class::here()
};

struct Encap {
    header: Template,
}

impl Encap {
    fn new(make: &mut Make<'_>) -> Encap {
        let ProtocolNumber(protocol) = make.need("PROTO");
        if !(0..=255).contains(&protocol) {
            make.error("bad IP protocol");
        }
        let mut head = [0; LEAST];
        (head[0], head[TTL], head[PROTOCOL]) = (0x45, 250, protocol as u8);
        Encap { header: Template::new(make, head, true) }
    }
}

impl Element for Encap {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        cx.unshare(frame, NO_BUFFER);
        let arena = cx.pool.arena();
        let failed = sift(frame, |slot| {
            if !room::push(arena, slot, LEAST) {
                return Err(TOO_LONG);
            }
            let length = slot.len() as u16;
            let meta = arena.meta_mut(slot).ok_or(NO_BUFFER)?;
            let head = self.header.next(length, &mut meta.destination);
            (meta.network, meta.transport) = (0, LEAST as u16);
            set_fix_ip_source(meta, 1);
            if let Some(place) = arena.packet_mut(slot).and_then(|bytes| bytes.first_chunk_mut()) {
                *place = head;
            }
            Ok(())
        });
        failed.into_iter().for_each(|(slot, reason)| cx.drop_packet(slot, reason));
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Encap>() {
            self.header.take_ident(&old.header);
        }
    }
}
