//! `IP6Print`: prints IPv6 packets.

use std::{fmt::Write as _, net::Ipv6Addr};

use linerate_graph::{Arg, Class, Context, Element, ElementBuilder};
use linerate_memory::Frame;

use super::{
    FAMILY,
    header::{DESTINATION, HOPS, LENGTH, NEXT, SOURCE, address, get16, ip},
};
use linerate_element_support::address6;

pub(super) const CLASS: Class = Class {
    name: "IP6Print",
    family: FAMILY,
    summary: "prints what is in IPv6 headers",
    description: "A line per packet on the standard error stream: addresses, payload length, next \
        header and hop limit. With `CONTENTS` its bytes follow, 24 a line. The IPv6 header must \
        be known (`CheckIP6Header`); of a packet without one only the bytes are shown.",
    ports: "1/1",
    args: &[
        Arg::optional("LABEL", "text", "", "what is in front of each line"),
        Arg::keyword("CONTENTS", "bool", "false", "whether to show the bytes"),
        Arg::keyword("NBYTES", "bytes", "1500", "most bytes shown"),
    ],
    annotates: true,
    prints: true,
    cost: "Hundreds of cycles per packet, and a system call per frame: for people.",
    example: "InfiniteSource(LIMIT 2, STOP true) -> MarkIP6Header -> IP6Print(six) -> Discard;",
    make: |make| Box::new(Ip6Print::new(make)),
    ..Class::here()
};

struct Ip6Print {
    label: String,
    contents: bool,
    most: usize,
    text: String,
}

impl Ip6Print {
    fn new(make: &mut ElementBuilder<'_>) -> Ip6Print {
        let label = make.get::<String>("LABEL");
        Ip6Print {
            label: label.unwrap_or_default(),
            contents: make.or("CONTENTS", false),
            most: make.or::<u32>("NBYTES", 1500) as usize,
            text: String::new(),
        }
    }

    fn show(&mut self, packet: &[u8], ip: Option<&[u8]>) {
        let text = &mut self.text;
        if !self.label.is_empty() {
            *text += &self.label;
            *text += ": ";
        }
        match ip {
            Some(ip) => {
                let shown = |at| address6::text(Ipv6Addr::from(address(ip, at)));
                let (length, next, hops) = (get16(ip, LENGTH), ip[NEXT], ip[HOPS]);
                let (from, to) = (shown(SOURCE), shown(DESTINATION));
                let _ = writeln!(text, "{from} -> {to} plen {length}, next {next}, hlim {hops}");
            }
            None => *text += "(no IPv6 header)\n",
        }
        if self.contents {
            *text += "  ";
            for (at, byte) in packet.iter().take(self.most).enumerate() {
                let _ = write!(text, "{byte:02x}");
                match at % 24 {
                    23 => *text += "\n  ",
                    at if at % 4 == 3 => text.push(' '),
                    _ => {}
                }
            }
            text.push('\n');
        }
    }
}

impl Element for Ip6Print {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let arena = cx.pool.arena();
        for slot in frame.slots() {
            self.show(arena.packet(slot), ip(arena, slot));
        }
        cx.console().report(&self.text);
        self.text.clear();
    }
}
