//! `FastUDPSource`, `FastUDPFlows`: generate UDP packets as fast as they are pulled.

use std::net::Ipv4Addr;

use linerate_graph::{
    Class, Context, Element, ElementBuilder, Handler, HandlerError, HandlerResult, UdpPort,
};
use linerate_memory::Frame;
use linerate_packet::{
    IpProtocol,
    checksum::{self, update16},
};

use super::{
    FAMILY,
    fast::{
        self, ACTIVE, DPORT, DSTETH, DSTIP, FLOWSIZE, INTERVAL, LENGTH, LIMIT, RATE, SPORT, SRCETH,
        SRCIP, too_long,
    },
    quota::{HANDLERS, Quota},
};
use linerate_element_support::{
    handler_values::integer_or,
    ip::{ETHERNET, LEAST, TOTAL_LENGTH, fill_checksum, put16},
    random::Random,
};

/// Shortest packet.
const SHORTEST: usize = 60;
/// Offsets of the UDP header and its fields.
const UDP: usize = ETHERNET + LEAST;
const CHECKSUM: usize = UDP + 6;

pub(super) const SOURCE: Class = Class {
    name: "FastUDPSource",
    family: FAMILY,
    summary: "makes UDP packets of one flow",
    description: "At most `RATE` packets per second, as many as are pulled when that is zero, and \
        `LIMIT` in all, any number when that is below zero. Packets have `LENGTH` bytes with \
        their Ethernet header, at least 60 and at most what a buffer holds. After every `INTERVAL` packets both ports count up. \
        The IP header's place becomes known to the elements behind.",
    ports: "0/1",
    processing: "l/l",
    args: &[
        RATE,
        LIMIT,
        LENGTH,
        SRCETH,
        SRCIP,
        SPORT,
        DSTETH,
        DSTIP,
        DPORT,
        fast::CHECKSUM,
        INTERVAL,
        ACTIVE,
    ],
    handlers: HANDLERS,
    annotates: true,
    cost: "Copies a template into each packet: some ten cycles for 64 bytes.",
    example: "FastUDPSource(0, 100, 60, 2:0:0:0:0:1, 1.0.0.1, 5, 2:0:0:0:0:2, 2.0.0.1, 6) \
        -> Discard;",
    make: |make| Box::new(FastUdp::source(make)),
    ..Class::here()
};

pub(super) const FLOWS: Class = Class {
    name: "FastUDPFlows",
    summary: "makes UDP packets of many flows",
    description: "Each packet is of one of `FLOWS` flows, chosen at random; a flow gets other \
        random ports after `FLOWSIZE` packets. At most `RATE` packets per second, as many as are \
        pulled when that is zero, and `LIMIT` in all, any number when that is below zero. \
        Packets have `LENGTH` bytes with their Ethernet header, at least 60 and at most what a \
        buffer holds. The IP header's \
        place becomes known to the elements behind. There are at most 1,048,576 flows.",
    args: &[
        RATE,
        LIMIT,
        LENGTH,
        SRCETH,
        SRCIP,
        DSTETH,
        DSTIP,
        fast::FLOWS,
        FLOWSIZE,
        fast::CHECKSUM,
        ACTIVE,
    ],
    handlers: FLOW_HANDLERS,
    example: "FastUDPFlows(0, 100, 60, 2:0:0:0:0:1, 1.0.0.1, 2:0:0:0:0:2, 2.0.0.1, 10, 5) \
        -> Discard;",
    make: |make| Box::new(FastUdp::flows(make)),
    ..SOURCE
};

const FLOW_HANDLERS: &[Handler] = &[
    HANDLERS[0],
    HANDLERS[1],
    HANDLERS[2],
    HANDLERS[3],
    HANDLERS[4],
    Handler::value("length", "length of the packets"),
];

/// Ports and checksum of a flow, and how many packets it has had.
#[derive(Debug, Clone, Copy, Default)]
struct Flow {
    ports: [u16; 2],
    sum: u16,
    packets: u32,
}

struct FastUdp {
    /// A packet with ports of zero.
    template: Vec<u8>,
    addresses: [Ipv4Addr; 2],
    checksum: bool,
    /// The checksum with ports of zero.
    sum: u16,
    quota: Quota,
    flows: Vec<Flow>,
    /// Packets of a flow; any number when zero.
    size: u32,
    /// Set for one flow with counting ports; else they are random.
    counts_up: bool,
    random: Random,
    /// The longest packet a buffer holds.
    room: usize,
}

impl FastUdp {
    fn source(make: &mut ElementBuilder<'_>) -> FastUdp {
        let UdpPort(from) = make.need("SPORT");
        let UdpPort(to) = make.need("DPORT");
        let mut element = FastUdp::new(make);
        element.size = make.or("INTERVAL", 0);
        element.counts_up = true;
        element.flows = vec![Flow::default()];
        element.set_ports(0, [from, to]);
        element
    }

    fn flows(make: &mut ElementBuilder<'_>) -> FastUdp {
        let flows = fast::flows(make);
        let mut element = FastUdp::new(make);
        element.size = make.need("FLOWSIZE");
        element.flows = vec![Flow::default(); flows];
        (0..element.flows.len()).for_each(|flow| element.draw_ports(flow));
        element
    }

    fn new(make: &mut ElementBuilder<'_>) -> FastUdp {
        let quota = Quota::new(make);
        let length = make.need::<i32>("LENGTH");
        let length = fast::length(make, length.into(), SHORTEST);
        let (template, addresses) = fast::ipv4(make, IpProtocol::UDP, UDP + 8);
        let mut element = FastUdp {
            template,
            addresses,
            checksum: make.or("CHECKSUM", true),
            sum: 0,
            quota,
            flows: Vec::new(),
            size: 0,
            counts_up: false,
            random: Random::new(make),
            room: fast::room(make),
        };
        element.set_length(length);
        element
    }

    fn set_length(&mut self, length: usize) {
        self.template.resize(length, 0);
        let ip = &mut self.template[ETHERNET..];
        put16(ip, TOTAL_LENGTH, (length - ETHERNET) as u16);
        fill_checksum(ip);
        let datagram = &mut self.template[UDP..];
        let bytes = (length - UDP) as u16;
        put16(datagram, 4, bytes);
        let [from, to] = self.addresses;
        let mut sum = checksum::pseudo_v4(from, to, IpProtocol::UDP, bytes);
        sum.add_bytes(datagram);
        self.sum = sum.finish();
    }

    fn set_ports(&mut self, flow: usize, ports: [u16; 2]) {
        let sum = ports.iter().fold(self.sum, |sum, port| update16(sum, 0, *port));
        let sum = if self.checksum { checksum::udp_nonzero(sum) } else { 0 };
        self.flows[flow] = Flow { ports, sum, packets: 0 };
    }

    fn draw_ports(&mut self, flow: usize) {
        let ports = [self.random.below(0xffff), self.random.below(0xffff)];
        self.set_ports(flow, ports.map(|port| port as u16));
    }

    /// The flow of the next packet.
    #[inline]
    fn next_flow(&mut self) -> Flow {
        if self.counts_up {
            let flow = self.flows[0];
            self.flows[0].packets += 1;
            if self.size > 0 && self.flows[0].packets == self.size {
                self.set_ports(0, flow.ports.map(|port| port.wrapping_add(1)));
            }
            self.flows[0].packets %= self.size.max(1);
            return flow;
        }
        let at = self.random.below(self.flows.len());
        if self.flows[at].packets == self.size {
            self.draw_ports(at);
        }
        self.flows[at].packets = self.flows[at].packets.wrapping_add(1);
        self.flows[at]
    }
}

impl Element for FastUdp {
    fn pull(&mut self, cx: &mut Context, _: usize, count: usize, frame: &mut Frame) {
        let now = cx.steady();
        let count = count.min(self.quota.due(now)).min(self.quota.left());
        let made = cx.pool.take(frame, count, self.template.len());
        let arena = cx.pool.arena();
        let destination = self.addresses[1].octets();
        for slot in frame.slots_mut() {
            let Flow { ports, sum, .. } = self.next_flow();
            if let Some(bytes) = arena.packet_mut(slot) {
                bytes.copy_from_slice(&self.template);
                put16(bytes, UDP, ports[0]);
                put16(bytes, UDP + 2, ports[1]);
                put16(bytes, CHECKSUM, sum);
            }
            if let Some(mut packet) = arena.writable(slot) {
                packet.meta_mut().reset();
                packet.mark_headers(ETHERNET, UDP);
                packet.meta_mut().destination[..4].copy_from_slice(&destination);
            }
        }
        self.quota.made(made, now);
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<FastUdp>() {
            self.quota.take_state(&old.quota);
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "length" => Ok(self.template.len().to_string()),
            _ => self.quota.read(handler),
        }
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        match handler {
            "length" => {
                let length: u32 = integer_or(value, "length parameter must be integer")?;
                let length = usize::try_from(length).ok().filter(|length| *length <= self.room);
                let length = length.ok_or_else(|| HandlerError::refused(too_long(self.room)))?;
                self.set_length(length.max(SHORTEST));
                (0..self.flows.len()).for_each(|flow| self.draw_ports(flow));
                self.quota.reset();
            }
            _ => {
                self.quota.write(cx, handler, value)?;
            }
        }
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use etherparse::{SlicedPacket, TransportSlice};

    use crate::testing::Run;

    fn packets(text: &str) -> Vec<Vec<u8>> {
        let mut run = Run::new(&format!(
            "{text} -> Unqueue(LIMIT 50) -> c :: Collect; Script(wait 1s, stop)"
        ));
        run.run();
        let digits = |line: &str| {
            let digit = |at: usize| u8::from_str_radix(&line[at..at + 2], 16).unwrap();
            (0..line.len()).step_by(2).map(digit).collect()
        };
        run.read("c.packets").lines().map(digits).collect()
    }

    /// Returns the ports of packets, with valid checksums.
    fn ports(packets: &[Vec<u8>]) -> Vec<(u16, u16)> {
        let ports = |bytes: &Vec<u8>| {
            let packet = SlicedPacket::from_ethernet(bytes).unwrap();
            let ip = packet.net.as_ref().and_then(|net| net.ipv4_ref()).unwrap().header();
            assert_eq!(ip.header_checksum(), ip.to_header().calc_header_checksum());
            let Some(TransportSlice::Udp(udp)) = packet.transport else { panic!("no UDP") };
            let expected = udp.to_header().calc_checksum_ipv4_raw(
                ip.source(),
                ip.destination(),
                udp.payload(),
            );
            assert_eq!(udp.checksum(), expected.unwrap());
            (udp.source_port(), udp.destination_port())
        };
        packets.iter().map(ports).collect()
    }

    const ENDS: &str = "2:0:0:0:0:1, 10.0.0.1, 2:0:0:0:0:2, 10.0.0.2";

    #[test]
    fn ports_of_a_source_count_up() {
        let text = "FastUDPSource(0, 7, 70, 2:0:0:0:0:1, 10.0.0.1, 65534, 2:0:0:0:0:2, 10.0.0.2, \
            5, true, 3)";
        let found = packets(text);
        assert!(found.iter().all(|packet| packet.len() == 70));
        let (a, b, c) = ((65534, 5), (65535, 6), (0, 7));
        assert_eq!(ports(&found), [a, a, a, b, b, b, c]);
    }

    #[test]
    fn flows_change_their_ports() {
        let found = packets(&format!("FastUDPFlows(0, 40, 60, {ENDS}, 3, 2)"));
        let ports = ports(&found);
        assert_eq!(ports.len(), 40);
        let different: std::collections::HashSet<_> = ports.iter().collect();
        assert!((18..=24).contains(&different.len()), "{}", different.len());
    }
}
