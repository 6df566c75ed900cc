//! `FastUDPSourceIP6`: generates UDP packets over IPv6.

use std::net::Ipv6Addr;

use linerate_graph::{Arg, Class, Context, Element, ElementBuilder, HandlerResult, UdpPort};
use linerate_memory::Frame;
use linerate_packet::{
    IpProtocol,
    checksum::{self, update16},
};

use super::{
    FAMILY,
    fast::{self, ACTIVE, DPORT, DSTETH, HOPS, INTERVAL, LENGTH, LIMIT, RATE, SPORT, SRCETH},
    quota::{HANDLERS, Quota},
};
use linerate_element_support::ip::{ETHERNET, put16};

/// Length of an IPv6 header.
const HEADER: usize = 40;
/// Offsets of the UDP header and of its checksum.
const UDP: usize = ETHERNET + HEADER;
const CHECKSUM: usize = UDP + 6;
/// Shortest packet: the headers alone.
const SHORTEST: usize = UDP + 8;

pub(super) const CLASS: Class = Class {
    name: "FastUDPSourceIP6",
    family: FAMILY,
    summary: "makes UDP packets over IPv6 of one flow",
    description: "At most `RATE` packets per second, as many as are pulled when that is zero, and \
        `LIMIT` in all, any number when that is below zero. Packets have `LENGTH` bytes with \
        their Ethernet header, at least the 62 of all headers and at most what a buffer holds. \
        After every `INTERVAL` packets both ports count up. The IPv6 header's place becomes \
        known to the elements behind.",
    ports: "0/1",
    processing: "l/l",
    args: &[
        RATE,
        LIMIT,
        LENGTH,
        SRCETH,
        Arg::required("SRCIP6", "IPv6 address", "source"),
        SPORT,
        DSTETH,
        Arg::required("DSTIP6", "IPv6 address", "destination"),
        DPORT,
        fast::CHECKSUM,
        INTERVAL,
        ACTIVE,
    ],
    handlers: HANDLERS,
    annotates: true,
    cost: "Copies a template into each packet: some ten cycles for 64 bytes.",
    example: "FastUDPSourceIP6(0, 100, 62, 2:0:0:0:0:1, fd00::1, 5, 2:0:0:0:0:2, fd00::2, 6) \
        -> Discard;",
    make: |make| Box::new(FastUdp6::new(make)),
    ..Class::here()
};

struct FastUdp6 {
    /// Template of the next packet.
    template: Vec<u8>,
    destination: Ipv6Addr,
    /// Source and destination port of the first packets.
    ports: [u16; 2],
    checksum: bool,
    /// UDP checksum of the template with ports of zero.
    sum: u16,
    quota: Quota,
    /// Packets after which ports change; never when zero.
    interval: u32,
    /// Number of port changes.
    changes: u16,
}

impl FastUdp6 {
    fn new(make: &mut ElementBuilder<'_>) -> FastUdp6 {
        let quota = Quota::new(make);
        let length = make.need::<u32>("LENGTH");
        let [source, destination] =
            ["SRCIP6", "DSTIP6"].map(|name| make.get(name).unwrap_or(Ipv6Addr::UNSPECIFIED));
        let ports = ["SPORT", "DPORT"].map(|name| make.need::<UdpPort>(name).0);
        let length = fast::length(make, length.into(), SHORTEST);
        let mut template = fast::ethernet(make, 0x86dd, length);
        let ip = &mut template[ETHERNET..];
        let bytes = (length - UDP) as u16;
        ip[0] = 0x60;
        put16(ip, 4, bytes);
        (ip[6], ip[7]) = (IpProtocol::UDP.0, HOPS);
        ip[8..24].copy_from_slice(&source.octets());
        ip[24..HEADER].copy_from_slice(&destination.octets());
        let datagram = &mut template[UDP..];
        put16(datagram, 4, bytes);
        let mut sum = checksum::pseudo_v6(source, destination, IpProtocol::UDP, bytes.into());
        sum.add_bytes(datagram);
        let mut element = FastUdp6 {
            template,
            destination,
            ports,
            checksum: make.or("CHECKSUM", true),
            sum: sum.finish(),
            quota,
            interval: make.or("INTERVAL", 0),
            changes: 0,
        };
        element.write_ports(ports);
        element
    }

    fn write_ports(&mut self, ports: [u16; 2]) {
        let sum = ports.iter().fold(self.sum, |sum, port| update16(sum, 0, *port));
        let sum = if self.checksum { checksum::udp_nonzero(sum) } else { 0 };
        put16(&mut self.template, UDP, ports[0]);
        put16(&mut self.template, UDP + 2, ports[1]);
        put16(&mut self.template, CHECKSUM, sum);
    }

    /// Changes the ports if packet number `packets` completes an interval.
    #[inline]
    fn count_up(&mut self, packets: i64) {
        if self.interval > 0 && packets % i64::from(self.interval) == 0 {
            self.changes = self.changes.wrapping_add(1);
            self.write_ports(self.ports.map(|port| port.wrapping_add(self.changes)));
        }
    }
}

impl Element for FastUdp6 {
    fn pull(&mut self, cx: &mut Context, _: usize, count: usize, frame: &mut Frame) {
        let now = cx.steady();
        let count = count.min(self.quota.due(now)).min(self.quota.left());
        let made = cx.pool.take(frame, count, self.template.len());
        let arena = cx.pool.arena();
        let destination = self.destination.octets();
        let before = self.quota.count();
        for (number, slot) in (before + 1..).zip(frame.slots_mut()) {
            if let Some(bytes) = arena.packet_mut(slot) {
                bytes.copy_from_slice(&self.template);
            }
            if let Some(mut packet) = arena.writable(slot) {
                packet.meta_mut().reset();
                packet.mark_headers(ETHERNET, UDP);
                packet.meta_mut().destination = destination;
            }
            self.count_up(number);
        }
        self.quota.made(made, now);
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<FastUdp6>() {
            self.quota.take_state(&old.quota);
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        self.quota.read(handler)
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        if self.quota.write(cx, handler, value)? {
            // The next packet keeps its ports; changes count from the first ports again.
            self.changes = 0;
        }
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;
    use etherparse::{SlicedPacket, TransportSlice};

    const ENDS: [&str; 2] = ["2:0:0:0:0:1, fd00::1", "2:0:0:0:0:2, fd00::2"];

    fn run(before: &str, more: &str, frame_limit: usize) -> Run {
        let [from, to] = ENDS;
        let mut run = Run::new(&format!(
            "f :: FastUDPSourceIP6({before}, {from}, 65534, {to}, 5{more}) -> Unqueue \
             -> c :: Collect; Script(wait 1s, stop)"
        ))
        .frame_limit(frame_limit);
        run.run();
        run
    }

    /// Ports and checksums of packets that are right otherwise.
    fn ports(run: &mut Run, length: usize, has_sum: bool) -> Vec<(u16, u16)> {
        let packets = run.read("c.packets");
        let ports = |line: &str| {
            assert!(line.starts_with("02000000000202000000000186dd60000000"), "{line}");
            let digit = |at: usize| u8::from_str_radix(&line[at..at + 2], 16).unwrap();
            let bytes: Vec<u8> = (0..line.len()).step_by(2).map(digit).collect();
            assert_eq!(bytes.len(), length);
            let packet = SlicedPacket::from_ethernet(&bytes).unwrap();
            let ip = packet.net.as_ref().and_then(|net| net.ipv6_ref()).unwrap().header();
            assert_eq!((ip.hop_limit(), usize::from(ip.payload_length())), (250, length - 54));
            let Some(TransportSlice::Udp(udp)) = packet.transport else { panic!("no UDP") };
            let header = udp.to_header();
            let expected = header.calc_checksum_ipv6(&ip.to_header(), udp.payload()).unwrap();
            assert_eq!(udp.checksum(), if has_sum { expected } else { 0 });
            (udp.source_port(), udp.destination_port())
        };
        packets.lines().map(ports).collect()
    }

    #[test]
    fn ports_count_up() {
        let (a, b, c) = ((65534, 5), (65535, 6), (0, 7));
        for frame_limit in [1, 2, 256] {
            let mut run = run("0, 7, 90", ", true, 3", frame_limit);
            assert_eq!(ports(&mut run, 90, true), [a, a, a, b, b, b, c]);
            assert_eq!(run.read("f.count"), "7");
        }
    }

    #[test]
    fn the_checksum_may_be_left_out() {
        let mut run = run("0, 2, 62", ", false", 256);
        assert_eq!(ports(&mut run, 62, false), [(65534, 5); 2]);
    }

    #[test]
    fn a_packet_has_all_its_headers() {
        let mut run = run("0, 1, 60", "", 256);
        assert_eq!(ports(&mut run, 62, true), [(65534, 5)]);
        assert!(run.output().contains("warning: packet length < 62, defaulting to 62"));
        let [from, to] = ENDS;
        let text = format!("FastUDPSourceIP6(0, 1, 70000, {from}, 5, {to}, 6) -> Discard");
        assert!(Run::errors(&text).contains("packets longer than a buffer"));
    }
}
