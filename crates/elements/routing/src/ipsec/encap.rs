//! `IPsecEncap`: the IP header of a tunnel's packets.

use linerate_graph::{
    Arg, Class, Context, DropReason, Element, ElementBuilder, Exit, NoBuffer, Right, Writes,
};
use linerate_memory::Frame;

use super::FAMILY;
use linerate_element_support::{
    annotations::set_fix_ip_source,
    ip::{LEAST, PROTOCOL, TTL},
    ip_encap::{ProtocolNumber, Template},
};

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    #[from(NoBuffer)]
    NoBuffer,
    /// longer than a buffer
    TooLong,
}

pub(super) const CLASS: Class = Class {
    name: "IPsecEncap",
    reconfigured: Some(Right::Write),
    family: FAMILY,
    summary: "puts an IP header to the other end of a tunnel in front of packets",
    description: "The destination is the annotation, which RadixIPsecLookup has set to the route's \
        gateway. The source is left to FixIPSrc behind it. Identifications count up; the time to \
        live is 250.",
    ports: "1/1",
    args: &[Arg::required("PROTO", "protocol", "what the packets are: 50 for ESP")],
    annotates: true,
    drops: Reason::REASONS,
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
    fn new(make: &mut ElementBuilder<'_>) -> Encap {
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
        cx.retain::<Writes, Reason>(frame, |packet| {
            self.header.put(packet, 0).ok_or(Exit::Drop(Reason::TooLong))?;
            set_fix_ip_source(packet.meta_mut(), 1);
            Ok(())
        });
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Encap>() {
            self.header.take_ident(&old.header);
        }
    }
}
