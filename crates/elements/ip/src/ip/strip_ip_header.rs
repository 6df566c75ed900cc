//! `StripIPHeader`, `StripTransportHeader` and the like: remove headers in front of the payload,
//! and put them back.

use linerate_graph::{Class, Context, DropReason, Element, Exit, Writes};
use linerate_memory::{Frame, Meta, PacketMut};
use linerate_packet::IpProtocol;

use super::FAMILY;
use linerate_element_support::ip::{HeaderReason, PROTOCOL};

pub(super) const STRIP: Class = Class {
    name: "StripIPHeader",
    family: FAMILY,
    summary: "takes off the IP header and all in front of it",
    description: "The header must be known (`CheckIPHeader`). It stays in the buffer, and known: \
        `UnstripIPHeader` puts it back.",
    ports: "1/1",
    annotates: true,
    drops: HeaderReason::REASONS,
    cost: "Reads and writes a line of annotations per packet.",
    example: "FromIPSummaryDump(STOP true, FIELDS ip_src, DATA \"1.0.0.1\") -> CheckIPHeader \
        -> StripIPHeader -> Discard;",
    make: |_| StripHeader::boxed(Start::Transport),
    ..Class::here()
};

pub(super) const UNSTRIP: Class = Class {
    name: "UnstripIPHeader",
    summary: "puts the IP header back in front",
    description: "Packets then begin with their network header, when it had been taken off; \
        others are left alone.",
    example: "FromIPSummaryDump(STOP true, FIELDS ip_src, DATA \"1.0.0.1\") -> CheckIPHeader \
        -> StripIPHeader -> UnstripIPHeader -> Discard;",
    make: |_| StripHeader::boxed(Start::Network),
    ..STRIP
};

pub(super) const STRIP_TRANSPORT: Class = Class {
    name: "StripTransportHeader",
    summary: "takes off the TCP, UDP or ICMP header and all in front of it",
    description: "The IP header must be known (`CheckIPHeader`). Both headers stay in the buffer, and \
        known: `UnstripTransportHeader` and `UnstripIPHeader` put them back. Of packets of other \
        protocols the IP header is taken off, with a message each. Not in Click; in FastClick.",
    cost: "Reads a line of the packet, and reads and writes a line of annotations.",
    example: "FromIPSummaryDump(STOP true, FIELDS ip_src ip_proto, DATA \"1.0.0.1 U\") \
        -> CheckIPHeader -> StripTransportHeader -> UnstripIPHeader -> Discard;",
    make: |_| StripHeader::boxed(Start::Payload),
    ..STRIP
};

pub(super) const STRIP_TCP: Class = Class {
    name: "StripTCPHeader",
    description: "StripTransportHeader by another name.",
    example: "FromIPSummaryDump(STOP true, FIELDS ip_src ip_proto, DATA \"1.0.0.1 T\") \
        -> CheckIPHeader -> StripTCPHeader -> UnstripIPHeader -> Discard;",
    ..STRIP_TRANSPORT
};

pub(super) const STRIP_UDP: Class = Class {
    name: "StripUDPHeader",
    example: "FromIPSummaryDump(STOP true, FIELDS ip_src ip_proto, DATA \"1.0.0.1 U\") \
        -> CheckIPHeader -> StripUDPHeader -> UnstripIPHeader -> Discard;",
    ..STRIP_TCP
};

pub(super) const UNSTRIP_TRANSPORT: Class = Class {
    name: "UnstripTransportHeader",
    summary: "puts the transport header back in front",
    description: "Packets then begin with their transport header, when it had been taken off; \
        others are left alone. Not in Click; in FastClick.",
    example: "FromIPSummaryDump(STOP true, FIELDS ip_src ip_proto, DATA \"1.0.0.1 U\") \
        -> CheckIPHeader -> StripTransportHeader -> UnstripTransportHeader -> Discard;",
    make: |_| StripHeader::boxed(Start::Back),
    ..STRIP
};

pub(super) const UNSTRIP_TCP: Class = Class {
    name: "UnstripTCPHeader",
    example: "FromIPSummaryDump(STOP true, FIELDS ip_src ip_proto, DATA \"1.0.0.1 T\") \
        -> CheckIPHeader -> StripTCPHeader -> UnstripTCPHeader -> Discard;",
    ..UNSTRIP_TRANSPORT
};

/// Place that packets are to begin at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    /// Their network header, if it is not inside.
    Network,
    /// Their transport header.
    Transport,
    /// The bytes behind that.
    Payload,
    /// Their transport header, if it is not inside.
    Back,
}

struct StripHeader {
    start: Start,
}

impl StripHeader {
    fn boxed(start: Start) -> Box<dyn Element> {
        Box::new(StripHeader { start })
    }
}

/// Bytes of the transport header; which protocol it is when that is none known.
fn transport_length(packet: &mut PacketMut<'_>) -> Result<usize, u8> {
    let (headroom, Meta { network, transport, .. }) = (packet.headroom(), packet.meta());
    let [network, transport] =
        [network, transport].map(|start| start.offset(headroom).unwrap_or(0));
    // A header that has been stripped is still in the buffer.
    let before = network.min(transport).min(0).unsigned_abs();
    if !packet.push(before) {
        return Ok(0);
    }
    let bytes = packet.bytes();
    let byte = |offset: isize, at: usize| {
        let start = before.wrapping_add_signed(offset);
        bytes.get(start + at).copied().unwrap_or_default()
    };
    let length = match IpProtocol(byte(network, PROTOCOL)) {
        IpProtocol::TCP => Ok(usize::from(byte(transport, 12) >> 4) * 4),
        IpProtocol::UDP | IpProtocol::ICMP => Ok(8),
        IpProtocol(other) => Err(other),
    };
    packet.pull(before);
    length
}

impl Element for StripHeader {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let start = self.start;
        let mut unknown = Vec::new();
        cx.retain::<Writes, HeaderReason>(frame, |packet| {
            let Meta { network, transport, .. } = packet.meta();
            let header = if start == Start::Network { network } else { transport };
            let by = header.offset(packet.headroom()).ok_or(Exit::Drop(HeaderReason::NoHeader))?;
            let more = match start {
                Start::Payload => transport_length(packet).unwrap_or_else(|protocol| {
                    unknown.push(protocol);
                    0
                }),
                _ => 0,
            };
            // A header in front of the packet has an offset below zero.
            let by = by.saturating_add_unsigned(more);
            let back = matches!(start, Start::Network | Start::Back);
            let moved = match usize::try_from(by) {
                Ok(by) => back || packet.pull(by.min(packet.len())),
                Err(_) => packet.prepend(by.unsigned_abs()),
            };
            if moved { Ok(()) } else { Err(Exit::Drop(HeaderReason::NoHeader)) }
        });
        for protocol in unknown {
            let class = cx.plan().elements[cx.element()].class.name;
            let text = format!("{} :: {class}: Unsupported protocol {protocol}\n", cx.name());
            cx.console().report(&text);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    /// TCP packets with and without options, and a UDP packet, each with 3 bytes
    /// of payload.
    const PACKETS: &str = "4500002f00000000400677c7010000010200000200010002000000000000000060020000\
        0000000002040005616263 \
        4500001f00000000401177cc010000010200000200010002000b0000646566 \
        4500002b00000000400677cb0100000102000002000100020000000000000000500200000000\
        00006a6b6c";

    #[test]
    fn packets_begin_with_their_transport_payload() {
        for class in ["StripTransportHeader", "StripIPHeader -> StripTCPHeader", "StripUDPHeader"] {
            for frame_limit in [1, 7, 256] {
                let mut run = Run::new(&format!(
                    "Packets({PACKETS}) -> CheckIPHeader -> t :: Tee -> {class} -> u :: Tee -> a :: Collect;
                     t [1] -> b :: Collect; t [2] -> StripIPHeader -> d :: Collect;
                     u [1] -> UnstripIPHeader -> c :: Collect;
                     u [2] -> UnstripTCPHeader -> UnstripTransportHeader -> e :: Collect;"
                ))
                .frame_limit(frame_limit);
                run.run();
                assert_eq!(run.read("a.packets"), "616263\n646566\n6a6b6c", "{class}");
                assert_eq!(run.read("b.packets"), run.read("c.packets"));
                assert_eq!(run.read("d.packets"), run.read("e.packets"));
            }
        }
    }

    #[test]
    fn of_other_protocols_the_ip_header_is_taken_off() {
        let mut run = Run::new(
            "Packets(4500001800000000402f77b5010000010200000200000000)
                -> CheckIPHeader -> s :: StripTransportHeader -> a :: Collect;",
        );
        run.run();
        assert_eq!(run.read("a.lengths"), "4");
        assert_eq!(run.output(), "s :: StripTransportHeader: Unsupported protocol 47\n");
    }
}
