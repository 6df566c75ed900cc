//! `IPPrint`: prints IP packets as tcpdump did.

use linerate_graph::{Arguments, Class, Context, Element, HandlerResult, Word};
use linerate_memory::{Arena, Frame, Slot};

use super::{
    FAMILY,
    print_lines::{PacketLine, PrintOptions},
};
use linerate_element_support::{ether::HEADER, mac_header::marked, output::Lines};

pub(super) const CLASS: Class = Class {
    name: "IPPrint",
    family: FAMILY,
    summary: "shows IP packets",
    description: "Writes a line per packet to the standard error stream, or to `OUTFILE`: the \
        label, what else was asked for, addresses, ports and what TCP, UDP and ICMP headers say, \
        like tcpdump. With `CONTENTS` the bytes of the packet follow, with `PAYLOAD` those behind \
        its headers. Packets whose IP header is not known (`CheckIPHeader`) pass without a \
        line.",
    ports: "1/1",
    annotates: true,
    prints: true,
    cost: "Formats every packet, some microseconds; the text of a frame is one write.",
    example: "FromIPSummaryDump(STOP true, FIELDS ip_src sport ip_proto, DATA \"1.0.0.1 5 U\") \
        -> CheckIPHeader -> IPPrint(ok) -> Discard;",
    ..Class::for_element::<IpPrint>()
};

#[derive(Arguments)]
struct IpPrint {
    #[group]
    shown: PrintOptions,
    // Not in Click, in `FastClick`.
    /// shows the Ethernet addresses in front of IP
    #[arg(keyword, default = false)]
    ether: bool,
    /// whether anything is shown
    #[arg(keyword, default = true)]
    #[handler(value, flags = ".c")]
    active: bool,
    #[group]
    lines: Lines,
    /// a channel of Click's; there is one here
    #[arg(name = "CHANNEL", keyword, kind = "string", shown = "")]
    _channel: Option<Word>,
}

/// The Ethernet header, where the packet still has it in front of its IP header.
fn ethernet_header<'a>(arena: &'a Arena, slot: &'a Slot) -> Option<&'a [u8; HEADER]> {
    let at = marked(slot, arena.meta(slot)).map_or(Some(0), |at| usize::try_from(at).ok())?;
    let network = arena.meta(slot).network.offset(slot.headroom())?;
    let header = arena.packet(slot).get(at..)?.first_chunk()?;
    (at.cast_signed() + HEADER.cast_signed() <= network).then_some(header)
}

impl Element for IpPrint {
    fn initialize(&mut self, _: &mut Context) -> Result<(), String> {
        self.lines.open()
    }

    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        if !self.active {
            return;
        }
        let arena = cx.pool.arena();
        for slot in frame.slots() {
            if arena.meta(slot).network.is_known() {
                let line = PacketLine::new(&self.shown, arena, slot);
                let ethernet = self.ether.then(|| ethernet_header(arena, slot)).flatten();
                line.with_ethernet(ethernet).write(&mut self.lines.text);
            }
        }
        self.lines.write(cx);
    }

    fn read(&mut self, cx: &mut Context, handler: &str, _: &str) -> HandlerResult {
        self.read_field(&cx.scope(), handler)
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        self.write_field(&cx.scope(), handler, value)
    }
}
#[cfg(test)]
mod tests {
    use crate::testing::Run;

    #[test]
    fn ethernet_addresses_are_shown_where_they_are_there() {
        for limit in [1, 7, 256] {
            let packet = "020000000001 020000000002 0800 45000014 00000000 40110000 01000001 \
                02000002";
            let mut run = Run::new(&format!(
                "InfiniteSource(\\<{packet}>, LIMIT 1, STOP true) -> MarkIPHeader(14) \
                    -> IPPrint(a, ETHER true, TIMESTAMP false) -> Strip(14) \
                    -> IPPrint(b, ETHER true, TIMESTAMP false) -> Discard"
            ))
            .frame_limit(limit);
            run.run();
            let (said, addresses) = (run.output(), "02-00-00-00-00-02 > 02-00-00-00-00-01: ");
            assert!(said.contains(&format!("a: {addresses}1.0.0.1 > 2.0.0.2: ")), "{said}");
            assert!(said.contains("b: 1.0.0.1 > 2.0.0.2: "), "{said}");
        }
    }
}
