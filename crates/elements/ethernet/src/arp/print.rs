//! `ARPPrint`: shows ARP packets in words.

use std::{fmt::Write as _, net::Ipv4Addr};

use linerate_graph::{Arguments, Class, Context, Element, HandlerResult, SignedTime};
use linerate_memory::{Frame, Meta, Slot};
use linerate_packet::MacAddr;

use crate::{FAMILY, ether_encap::address};
use linerate_element_support::{
    ether::{HEADER, mac_text},
    mac_header::marked,
    output::Lines,
};

/// Bytes of the fixed part of an ARP packet, and of one for Ethernet and IPv4.
const FIXED: usize = 8;
const WHOLE: usize = 28;

pub(crate) const CLASS: Class = Class {
    name: "ARPPrint",
    family: FAMILY,
    summary: "shows ARP packets in words",
    description: "Writes a line per packet, as tcpdump does. The ARP packet is where the network \
        header is said to be; packets without one, and those of other protocols than ARP for IPv4, \
        show nothing.",
    ports: "1/1",
    annotates: true,
    prints: true,
    cost: "Formats every packet, some microseconds; the text of a frame is one write.",
    example: "ARPFaker(10.0.0.1, 2:0:0:0:0:1, 10.0.0.2, 2:0:0:0:0:2) -> ARPPrint -> Discard; \
        DriverManager(wait 0.1s, stop);",
    ..Class::for_element::<ArpPrint>()
};

#[derive(Arguments)]
struct ArpPrint {
    /// begins each line
    #[arg(optional, kind = "string", default = String::new(), shown = "")]
    label: String,
    /// shows the time stamp
    #[arg(keyword, default = true)]
    timestamp: bool,
    /// shows the Ethernet addresses
    #[arg(keyword, default = false)]
    ether: bool,
    /// whether anything is shown
    #[arg(keyword, default = true)]
    #[handler(value)]
    active: bool,
    #[group]
    lines: Lines,
}

impl ArpPrint {
    /// The line of a packet with an ARP packet at `network`.
    fn line(&self, slot: &Slot, bytes: &[u8], meta: &Meta, network: usize) -> Option<String> {
        let mut line = String::new();
        if !self.label.is_empty() {
            line += &format!("{}: ", self.label);
        }
        if self.timestamp {
            line += &format!("{}: ", SignedTime::from_nanos(meta.timestamp));
        }
        if self.ether {
            let at = marked(slot, meta).map_or(Some(0), |at| usize::try_from(at).ok())?;
            if let Some(header) = bytes.get(at..at + HEADER).filter(|_| at + HEADER <= network) {
                let [to, from] = [0, 6].map(|at| mac_text(address(header, at)));
                line += &format!("{from} > {to}: ");
            }
        }
        let arp = bytes.get(network..).unwrap_or_default();
        if arp.len() < FIXED {
            return Some(line + &format!("truncated-arp ({})", arp.len()));
        }
        let number = |at: usize| u16::from_be_bytes([arp[at], arp[at + 1]]);
        let (hardware, protocol, operation) = (number(0), number(2), number(6));
        let (hardware_length, protocol_length) = (arp[4], arp[5]);
        if !matches!(protocol, 0x0800 | 0x1000) || protocol_length != 4 || hardware_length == 0 {
            return None;
        }
        if arp.len() < WHOLE {
            return Some(line + &format!("truncated-arp ({})", arp.len()));
        }
        if protocol == 0x1000 {
            line += "trailer-";
        }
        line += &words(arp, operation, hardware_length);
        if hardware != 1 {
            line += &format!("hardware #{hardware}");
        }
        Some(line)
    }
}

/// Describes an ARP packet in words.
fn words(arp: &[u8], operation: u16, hardware_length: u8) -> String {
    let mac = |at: usize| mac_text(address(arp, at));
    let ip = |at: usize| Ipv4Addr::from(arp[at..].first_chunk().copied().unwrap_or([0; 4]));
    let (sender, sender_ip, target, target_ip) = (mac(8), ip(14), mac(18), ip(24));
    match operation {
        1 => {
            let MacAddr(bytes) = address(arp, 18);
            let length = usize::from(hardware_length).min(bytes.len());
            let known = bytes[..length].iter().any(|byte| *byte != 0);
            let target = if known { format!(" ({target})") } else { String::new() };
            format!("arp who-has {target_ip}{target} tell {sender_ip}")
        }
        2 => format!("arp reply {sender_ip} is-at {sender}"),
        3 => format!("rarp who-is {target} tell {sender}"),
        4 => format!("rarp reply {target} at {target_ip}"),
        8 => format!("invarp who-is {target} tell {sender}"),
        9 => format!("invarp reply {target} at {target_ip}"),
        other => format!("arp-#{other}"),
    }
}

impl Element for ArpPrint {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        if !self.active {
            return;
        }
        let arena = cx.pool.arena();
        let mut text = std::mem::take(&mut self.lines.text);
        for slot in frame.slots() {
            let (bytes, meta) = (arena.packet(slot), arena.meta(slot));
            let network = arena.network(slot);
            if !meta.network.is_known() || network > bytes.len() {
                continue;
            }
            if let Some(line) = self.line(slot, bytes, meta, network) {
                let _ = writeln!(text, "{line}");
            }
        }
        self.lines.text = text;
        self.lines.write(cx);
    }

    fn initialize(&mut self, _: &mut Context) -> Result<(), String> {
        self.lines.open()
    }

    fn read(&mut self, cx: &mut Context, handler: &str, _: &str) -> HandlerResult {
        self.read_field(&cx.scope(), handler)
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        self.write_field(&cx.scope(), handler, value)
    }
}
