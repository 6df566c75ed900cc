//! `UDPIP6Encap`: prepends UDP and IPv6 headers.

use std::net::Ipv6Addr;

use linerate_graph::{
    Arg, Class, Context, DropReason, Element, ElementBuilder, Exit, HandlerError, HandlerResult,
    NoBuffer, Right, Writes,
};
use linerate_memory::Frame;
use linerate_packet::{IpProtocol, checksum};

use super::{
    FAMILY,
    header::{DESTINATION, HOPS, LEAST, LENGTH, NEXT, SOURCE, mark, put16},
};
use linerate_element_support::{
    address6,
    handler_values::{record_argument, value_of},
    udp_encap::{self, DESTINATION_PORT, HANDLERS, SOURCE_PORT, parse_destination, write_port},
};

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    #[from(NoBuffer)]
    NoBuffer,
    /// longer than a buffer
    TooLong,
}

/// Length of a UDP header.
const UDP: usize = 8;

pub(super) const CLASS: Class = Class {
    name: "UDPIP6Encap",
    reconfigured: Some(Right::Write),
    family: FAMILY,
    summary: "puts UDP and IPv6 headers in front of packets",
    description: "The destination is `DST`, which becomes the destination annotation, or that \
        annotation with `DST_ANNO`. The hop limit is 255. There always is a UDP checksum, as IPv6 \
        demands. The IPv6 header's place becomes known to the elements behind.",
    ports: "1/1",
    args: &[
        Arg::required("SRC", "IPv6 address", "source address"),
        SOURCE_PORT,
        Arg::required("DST", "IPv6 address or DST_ANNO", "destination address"),
        DESTINATION_PORT,
    ],
    handlers: HANDLERS,
    annotates: true,
    drops: Reason::REASONS,
    cost: "One pass: the line in front of the packet and a line of annotations, and the packet for \
        its checksum.",
    example: "InfiniteSource(LIMIT 10, STOP true) \
        -> UDPIP6Encap(2001:db8::1, 1234, 2001:db8::2, 1234) -> Discard;",
    make: |make| Box::new(UdpIp6Encap::new(make)),
    ..Class::here()
};

struct UdpIp6Encap {
    source: Ipv6Addr,
    /// Destination address; `None` for the annotation.
    destination: Option<Ipv6Addr>,
    ports: [u16; 2],
}

impl UdpIp6Encap {
    fn new(make: &mut ElementBuilder<'_>) -> UdpIp6Encap {
        let source = make.get("SRC").unwrap_or(Ipv6Addr::UNSPECIFIED);
        let ports = udp_encap::ports(make);
        UdpIp6Encap { source, destination: udp_encap::destination(make), ports }
    }

    /// The headers of a datagram of `length` bytes, without the UDP checksum.
    #[inline]
    fn headers(&self, destination: Ipv6Addr, length: u16) -> [u8; LEAST + UDP] {
        let mut headers = [0; LEAST + UDP];
        (headers[0], headers[NEXT], headers[HOPS]) = (0x60, IpProtocol::UDP.0, 255);
        headers[SOURCE..DESTINATION].copy_from_slice(&self.source.octets());
        headers[DESTINATION..LEAST].copy_from_slice(&destination.octets());
        put16(&mut headers, LENGTH, length);
        for (at, value) in self.ports.into_iter().chain([length]).enumerate() {
            put16(&mut headers, LEAST + 2 * at, value);
        }
        headers
    }
}

impl Element for UdpIp6Encap {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        cx.retain::<Writes, Reason>(frame, |packet| {
            let Ok(length) = u16::try_from(packet.len() + UDP) else {
                return Err(Exit::Drop(Reason::TooLong));
            };
            if !packet.prepend(LEAST + UDP) {
                return Err(Exit::Drop(Reason::TooLong));
            }
            mark(packet, 0);
            let (bytes, meta) = packet.parts();
            let to = self.destination.unwrap_or_else(|| meta.destination.into());
            meta.destination = to.octets();
            let headers = self.headers(to, length);
            if let Some(place) = bytes.first_chunk_mut() {
                *place = headers;
            }
            let datagram = &mut bytes[LEAST..];
            let protocol = IpProtocol::UDP;
            let mut sum = checksum::pseudo_v6(self.source, to, protocol, u32::from(length));
            sum.add_bytes(datagram);
            put16(datagram, 6, checksum::udp_nonzero(sum.finish()));
            Ok(())
        });
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "src" => Ok(address6::text(self.source)),
            "dst" => Ok(address6::text(self.destination.unwrap_or(Ipv6Addr::UNSPECIFIED))),
            "sport" => Ok(self.ports[0].to_string()),
            "dport" => Ok(self.ports[1].to_string()),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        let value = value.trim();
        match handler {
            "src" => {
                self.source = value_of(cx, value)
                    .map_err(|error| HandlerError::refused(format!("SRC: {error}")))?;
                record_argument(cx, 0, "SRC", value);
            }
            "dst" => {
                let destination = parse_destination(value, &cx.scope());
                self.destination = destination.map_err(HandlerError::refused)?;
                record_argument(cx, 2, "DST", value);
            }
            "sport" | "dport" => write_port(cx, handler, value, &mut self.ports)?,
            _ => return Err(HandlerError::missing(handler)),
        }
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    /// Asserts that the words of datagrams and pseudo-headers sum up to all ones.
    fn assert_sums(packets: &str) {
        for packet in packets.lines() {
            let (head, datagram) = packet.split_at(80);
            let words = |text: &str| -> u32 {
                let text = format!("{text}{}", "0".repeat((4 - text.len() % 4) % 4));
                (0..text.len())
                    .step_by(4)
                    .map(|at| u32::from_str_radix(&text[at..at + 4], 16).unwrap())
                    .sum()
            };
            let length = datagram.len() as u32 / 2;
            assert_eq!((words(&head[16..]) + words(datagram) + 17 + length) % 0xffff, 0);
            assert_ne!(&datagram[12..16], "0000", "a checksum there must be");
            assert_eq!(head[8..12], format!("{length:04x}"));
        }
    }

    #[test]
    fn packets_get_headers_and_a_checksum() {
        for frame_limit in [1, 7, 256] {
            let mut run = Run::new(
                "Packets(6162636465 - 61) -> UDPIP6Encap(2001:db8::1, 1234, 2001:db8::2, 80)
                    -> CheckIP6Header -> c :: Collect",
            )
            .frame_limit(frame_limit);
            run.run();
            let packets = run.read("c.packets");
            let first = packets.lines().next().unwrap();
            assert_eq!(packets.lines().count(), 3);
            assert_eq!(&first[..8], "60000000", "version, class and label");
            assert_eq!(&first[12..16], "11ff", "next header and hop limit");
            assert_eq!(
                &first[16..80],
                "20010db800000000000000000000000120010db8000000000000000000000002"
            );
            assert_eq!(&first[80..92], "04d20050000d");
            assert_eq!(&first[96..], "6162636465");
            assert_sums(&packets);
        }
    }

    /// A UDP checksum that would be zero is written as all ones.
    #[test]
    fn a_checksum_of_zero_is_none() {
        // 17 for UDP, the length twice, and the data are 0xffff.
        let mut run = Run::new("Packets(ffda) -> UDPIP6Encap(::, 0, ::, 0) -> c :: Collect");
        run.run();
        assert_eq!(&run.read("c.packets")[80..], "00000000000affffffda");
    }

    #[test]
    fn the_destination_may_be_the_annotation() {
        let mut run = Run::new(
            "Packets(61) -> SetIP6Address(2001:db8::9) -> u :: UDPIP6Encap(::1, 5, DST_ANNO, 6)
                -> c :: Collect",
        );
        run.run();
        let packet = run.read("c.packets");
        assert_eq!(&packet[48..80], "20010db8000000000000000000000009");
        assert_sums(&packet);
        assert_eq!(run.read("u.dst"), "::");
    }

    #[test]
    fn handlers_change_the_header() {
        let mut run = Run::new(
            "Packets(61) -> u :: UDPIP6Encap(2001:db8::1, 5, 2001:db8::2, 6) -> c :: Collect",
        );
        let names = ["src", "sport", "dst", "dport"].map(|name| format!("u.{name}"));
        let values = |run: &mut Run| names.each_ref().map(|name| run.read(name));
        assert_eq!(values(&mut run), ["2001:db8::1", "5", "2001:db8::2", "6"]);
        for (handler, value) in
            [("src", "2001:db8::3"), ("sport", "7"), ("dst", "2001:db8::4"), ("dport", "8")]
        {
            run.write(&format!("u.{handler}"), value).unwrap();
        }
        assert_eq!(run.read("u.config"), "2001:db8::3, 7, 2001:db8::4, 8");
        assert_eq!(run.write("u.dst", "x").unwrap_err().to_string(), "bad DST");
        assert!(run.write("u.src", "x").is_err() && run.write("u.sport", "x").is_err());
        assert_eq!(values(&mut run), ["2001:db8::3", "7", "2001:db8::4", "8"]);
        run.run();
        let packet = run.read("c.packets");
        assert_eq!(
            &packet[16..88],
            "20010db800000000000000000000000320010db800000000000000000000000400070008"
        );
        assert_sums(&packet);
    }

    /// The error messages are those of Click.
    #[test]
    fn errors_are_those_of_click() {
        for (arguments, error) in [
            ("::1, 1, x, 2", "bad DST"),
            ("x, 1, ::1, 2", "SRC: parse error"),
            ("::1, 1, ::2", "DPORT: required argument missing"),
        ] {
            let errors = Run::errors(&format!("Idle -> UDPIP6Encap({arguments}) -> Discard"));
            assert!(errors.ends_with(&format!("\n  {error}\n")), "{errors}");
        }
    }
}
