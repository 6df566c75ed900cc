//! `RIPSend`: advertises a route by RIP version 2 (RFC 2453).
//!
//! The element is no RIP router: it receives no messages, and advertises one route.

use std::net::Ipv4Addr;

use linerate_graph::{Arg, Class, Context, Element, ElementBuilder, Ipv4Prefix};
use linerate_memory::Frame;
use linerate_packet::{IpProtocol, checksum};

use super::FAMILY;
use linerate_element_support::ip::{
    DESTINATION, LEAST, PROTOCOL, SOURCE, TOTAL_LENGTH, TTL, fill_checksum, put16,
};

const TIMER: u32 = 0;
const SECOND: u64 = 1_000_000_000;
/// Delay of the first message.
const FIRST: u64 = 3 * SECOND;
/// Time between messages.
const INTERVAL: u64 = 30 * SECOND;
/// TTL of a message.
const HOPS: u8 = 200;
/// The port of RIP.
const PORT: u16 = 520;
/// Length of a packet: headers of IP, UDP and RIP, and one route entry.
const LENGTH: usize = LEAST + 8 + 4 + 20;

pub(super) const CLASS: Class = Class {
    name: "RIPSend",
    family: FAMILY,
    summary: "advertises a route by RIP",
    description: "Makes a response of RIP version 2 with one route, to `PREFIX` by way of `SRC` at \
        a distance of `METRIC`, 3 s after the start and every 30 s from then on. It is sent in a \
        UDP packet from port 520 of `SRC` to port 520 of `DST`, whose IP header is known.",
    ports: "0/1",
    processing: "h/h",
    args: &[
        Arg::required("SRC", "IP address", "source of the packets, and next hop of the route"),
        Arg::required("DST", "IP address", "destination of the packets"),
        Arg::required("PREFIX", "IP prefix", "destination of the route"),
        Arg::required("METRIC", "number", "distance of the route, 16 for none"),
    ],
    annotates: true,
    cost: "A timer every 30 s.",
    example: "RIPSend(18.26.4.24, 18.26.4.255, 10.0.0.0/8, 10) \
        -> Counter(COUNT_CALL 1 stop) -> Discard;",
    make: |make| Box::new(RipSend(message(make))),
    ..Class::here()
};

struct RipSend([u8; LENGTH]);

fn message(make: &mut ElementBuilder<'_>) -> [u8; LENGTH] {
    let [source, destination] =
        ["SRC", "DST"].map(|name| make.get(name).unwrap_or(Ipv4Addr::UNSPECIFIED));
    let Ipv4Prefix { address, mask } = make.need("PREFIX");
    let metric: i32 = make.need("METRIC");
    let mut packet = [0; LENGTH];
    (packet[0], packet[TTL], packet[PROTOCOL]) = (0x45, HOPS, IpProtocol::UDP.0);
    put16(&mut packet, TOTAL_LENGTH, LENGTH as u16);
    packet[SOURCE..DESTINATION].copy_from_slice(&source.octets());
    packet[DESTINATION..LEAST].copy_from_slice(&destination.octets());
    fill_checksum(&mut packet);
    let length = (LENGTH - LEAST) as u16;
    let datagram = &mut packet[LEAST..];
    put16(datagram, 0, PORT);
    put16(datagram, 2, PORT);
    put16(datagram, 4, length);
    // A response, of version 2.
    datagram[8..10].copy_from_slice(&[2, 2]);
    // Address family: IP.
    put16(datagram, 12, 2);
    datagram[16..20].copy_from_slice(&address.octets());
    datagram[20..24].copy_from_slice(&mask.octets());
    datagram[24..28].copy_from_slice(&source.octets());
    datagram[28..32].copy_from_slice(&metric.to_be_bytes());
    let mut sum = checksum::pseudo_v4(source, destination, IpProtocol::UDP, length);
    sum.add_bytes(datagram);
    put16(datagram, 6, checksum::udp_nonzero(sum.finish()));
    packet
}

impl Element for RipSend {
    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        cx.set_timer(TIMER, cx.steady() + FIRST);
        Ok(())
    }

    fn timer(&mut self, cx: &mut Context, _: u32, frame: &mut Frame) {
        cx.pool.take(frame, 1, LENGTH);
        cx.begin_packets(frame);
        let arena = cx.pool.arena();
        for slot in frame.slots_mut() {
            if let Some(mut packet) = arena.writable(slot) {
                packet.parts().0.copy_from_slice(&self.0);
                packet.mark_headers(0, LEAST);
            }
        }
        cx.set_timer(TIMER, cx.steady() + INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;
    use etherparse::{SlicedPacket, TransportSlice};

    /// Bytes and times are those of Click's `RIPSend`.
    #[test]
    fn a_message_every_thirty_seconds() {
        let mut run = Run::new(
            "RIPSend(18.26.4.24, 18.26.4.255, 10.1.0.0/8, 10) -> c :: Collect; \
             Script(wait 64s, stop)",
        );
        run.run();
        assert_eq!(run.read("c.times"), "3000000000\n33000000000\n63000000000");
        let packets = run.read("c.packets");
        let lines: Vec<&str> = packets.lines().collect();
        let ip = "4500003400000000c811";
        let route = "02020000000200000a010000ff000000121a04180000000a";
        assert!(lines[0].starts_with(ip), "{packets}");
        assert_eq!(&lines[0][24..52], "121a0418121a04ff020802080020");
        assert_eq!(&lines[0][56..], route);
        assert!(lines.iter().all(|line| *line == lines[0]));
        let bytes: Vec<u8> = (0..lines[0].len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&lines[0][at..at + 2], 16).unwrap())
            .collect();
        let packet = SlicedPacket::from_ip(&bytes).unwrap();
        let ip = packet.net.as_ref().and_then(|net| net.ipv4_ref()).unwrap().header();
        assert_eq!(ip.header_checksum(), ip.to_header().calc_header_checksum());
        let Some(TransportSlice::Udp(udp)) = packet.transport else { panic!("no UDP") };
        let expected =
            udp.to_header().calc_checksum_ipv4_raw(ip.source(), ip.destination(), udp.payload());
        assert_eq!(udp.checksum(), expected.unwrap());
    }

    #[test]
    fn a_prefix_has_a_length() {
        let errors = Run::errors("RIPSend(1.0.0.1, 1.0.0.2, 10.0.0.0, 10) -> Discard");
        assert!(errors.contains("PREFIX: "), "{errors}");
    }
}
