//! `UDPIPEncap` and `DynamicUDPIPEncap`: prepend UDP and IP headers.

use std::net::Ipv4Addr;

use linerate_graph::{
    Arg, Class, Context, DropReason, Element, ElementBuilder, Exit, HandlerError, HandlerResult,
    NoBuffer, Right, Writes,
};
use linerate_memory::Frame;
use linerate_packet::{
    IpProtocol,
    checksum::{self, Sum},
};

use super::FAMILY;
use linerate_element_support::{
    handler_values::{self, record_argument},
    ip::{DESTINATION, LEAST, PROTOCOL, SOURCE, TTL},
    ip_encap::{Put, Template},
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
    name: "UDPIPEncap",
    reconfigured: Some(Right::Write),
    family: FAMILY,
    summary: "puts UDP and IP headers in front of packets",
    description: "The destination is `DST`, which becomes the destination annotation, or that \
        annotation with `DST_ANNO`. Identifications count up; the time to live is 250. The IP \
        header's place becomes known to the elements behind.",
    ports: "1/1",
    args: &[
        Arg::required("SRC", "IP address", "source address"),
        SOURCE_PORT,
        Arg::required("DST", "IP address or DST_ANNO", "destination address"),
        DESTINATION_PORT,
        Arg::optional("CHECKSUM", "bool", "true", "whether there is a UDP checksum"),
    ],
    handlers: HANDLERS,
    annotates: true,
    drops: Reason::REASONS,
    cost: "One pass: the line in front of the packet and a line of annotations, and the packet for \
        its checksum.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> UDPIPEncap(1.0.0.1, 5, 2.0.0.1, 6) -> Discard;",
    make: |make| Box::new(UdpIpEncap::new(make)),
    ..Class::here()
};

pub(super) const DYNAMIC: Class = Class {
    name: "DynamicUDPIPEncap",
    reconfigured: None,
    summary: "puts UDP and IP headers with changing ports in front of packets",
    description: "As UDPIPEncap; after every `INTERVAL` packets both ports are one higher. The \
        destination is an address, and there are no handlers.",
    args: &[
        Arg::required("SRC", "IP address", "source address"),
        Arg::required("SPORT", "port number", "first source port"),
        Arg::required("DST", "IP address", "destination address"),
        Arg::required("DPORT", "port number", "first destination port"),
        Arg::optional("CHECKSUM", "bool", "true", "whether there is a UDP checksum"),
        Arg::optional("INTERVAL", "packets", "0: never", "packets between changes of the ports"),
    ],
    handlers: &[],
    example: "InfiniteSource(LIMIT 10, STOP true) -> DynamicUDPIPEncap(1.0.0.1, 5, 2.0.0.1, 6, 1, 4) \
        -> Discard;",
    make: |make| Box::new(UdpIpEncap::dynamic(make)),
    ..CLASS
};

struct UdpIpEncap {
    header: Template,
    ports: Ports,
    checksum: bool,
}

/// The ports of the next packet.
struct Ports {
    now: [u16; 2],
    /// The ports as they lie in a packet.
    bytes: [u8; 4],
    /// After how many packets both grow; 0 for never.
    interval: u32,
    /// Packets that have had these.
    count: u32,
}

impl Ports {
    fn new(ports: [u16; 2], interval: u32) -> Ports {
        let mut new = Ports { now: ports, bytes: [0; 4], interval, count: 0 };
        new.set(ports);
        new
    }

    fn set(&mut self, ports: [u16; 2]) {
        self.now = ports;
        let [[a, b], [c, d]] = ports.map(u16::to_be_bytes);
        self.bytes = [a, b, c, d];
    }

    #[inline(always)]
    fn next(&mut self) -> [u8; 4] {
        let bytes = self.bytes;
        if self.interval > 0 {
            self.count += 1;
            if self.count == self.interval {
                self.set(self.now.map(|port| port.wrapping_add(1)));
                self.count = 0;
            }
        }
        bytes
    }
}

impl UdpIpEncap {
    fn new(make: &mut ElementBuilder<'_>) -> UdpIpEncap {
        let destination = udp_encap::destination::<Ipv4Addr>(make);
        let address = destination.unwrap_or(Ipv4Addr::UNSPECIFIED);
        UdpIpEncap::to(make, address, destination.is_none(), 0)
    }

    fn dynamic(make: &mut ElementBuilder<'_>) -> UdpIpEncap {
        let address = make.get("DST").unwrap_or(Ipv4Addr::UNSPECIFIED);
        let interval = make.or("INTERVAL", 0);
        UdpIpEncap::to(make, address, false, interval)
    }

    /// Makes an element from the arguments that both classes share.
    fn to(
        make: &mut ElementBuilder<'_>,
        address: Ipv4Addr,
        annotated: bool,
        interval: u32,
    ) -> UdpIpEncap {
        let source = make.get("SRC").unwrap_or(Ipv4Addr::UNSPECIFIED);
        let ports = udp_encap::ports(make);
        let mut head = [0; LEAST];
        (head[0], head[TTL], head[PROTOCOL]) = (0x45, 250, IpProtocol::UDP.0);
        head[SOURCE..DESTINATION].copy_from_slice(&source.octets());
        head[DESTINATION..].copy_from_slice(&address.octets());
        UdpIpEncap {
            header: Template::new(make, head, annotated),
            ports: Ports::new(ports, interval),
            checksum: make.or("CHECKSUM", true),
        }
    }
}

impl Element for UdpIpEncap {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let UdpIpEncap { header, ports, checksum } = self;
        cx.retain::<Writes, Reason>(frame, |packet| {
            let Put { addresses, rest } =
                header.put(packet, UDP).ok_or(Exit::Drop(Reason::TooLong))?;
            let length = (rest.len() as u16).to_be_bytes();
            let ports = ports.next();
            let Some((head, payload)) = rest.split_first_chunk_mut::<UDP>() else {
                return Err(Exit::Drop(Reason::TooLong));
            };
            let mut check = 0;
            if *checksum {
                let mut sum = Sum::default();
                sum.add_u16(u16::from(IpProtocol::UDP.0));
                for piece in [addresses[0], addresses[1], ports] {
                    sum.add_u32(u32::from_be_bytes(piece));
                }
                // In the pseudo header, and in the header.
                [length, length].iter().for_each(|length| sum.add_u16(u16::from_be_bytes(*length)));
                sum.add_bytes(payload);
                check = checksum::udp_nonzero(sum.finish());
            }
            // The header is written at once, and not read again for its sum.
            let [length, check] = [length, check.to_be_bytes()].map(u16::from_le_bytes);
            let ports = u64::from(u32::from_le_bytes(ports));
            *head = (ports | u64::from(length) << 32 | u64::from(check) << 48).to_le_bytes();
            Ok(())
        });
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<UdpIpEncap>() {
            self.header.take_ident(&old.header);
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "src" => Ok(Ipv4Addr::from(self.header.source()).to_string()),
            "dst" => {
                let given = self.header.destination().unwrap_or_default();
                Ok(Ipv4Addr::from(given).to_string())
            }
            "sport" => Ok(self.ports.now[0].to_string()),
            "dport" => Ok(self.ports.now[1].to_string()),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        let value = value.trim();
        match handler {
            "src" => {
                let address = handler_values::address(cx, value)
                    .map_err(|_| HandlerError::refused("SRC: parse error"))?;
                self.header.set_source(address.octets());
                record_argument(cx, 0, "SRC", value);
            }
            "dst" => {
                let address = parse_destination::<Ipv4Addr>(value, &cx.scope());
                let address = address.map_err(HandlerError::refused)?;
                self.header.set_destination(address.map(|address| address.octets()));
                record_argument(cx, 2, "DST", value);
            }
            "sport" | "dport" => {
                let mut ports = self.ports.now;
                write_port(cx, handler, value, &mut ports)?;
                self.ports.set(ports);
            }
            _ => return Err(HandlerError::missing(handler)),
        }
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    /// Source and destination port of each packet, as in Click.
    #[test]
    fn ports_grow_after_every_interval() {
        for frame_limit in [1, 7, 256] {
            for (more, last) in [("", [5, 6]), (", 1, 0", [5, 6]), (", true, 3", [8, 9])] {
                let mut run = Run::new(&format!(
                    "InfiniteSource(DATA abc, LIMIT 10, STOP true)
                        -> DynamicUDPIPEncap(1.0.0.1, 5, 2.0.0.2, 6{more}) -> c :: Collect"
                ))
                .frame_limit(frame_limit);
                run.run();
                let packets = run.read("c.packets");
                for (at, packet) in packets.lines().enumerate() {
                    let by = if last[0] == 5 { 0 } else { at / 3 };
                    let ports = format!("{:04x}{:04x}000b", 5 + by, 6 + by);
                    assert_eq!(packet[40..52], ports, "{at}");
                    assert_eq!(packet[8..12], format!("{at:04x}"));
                }
                let ports = format!("{:04x}{:04x}", last[0], last[1]);
                assert_eq!(packets.lines().last().unwrap()[40..48], ports);
            }
        }
    }
}
