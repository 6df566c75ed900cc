//! `IPEncap`: prepends an IP header.

use std::net::Ipv4Addr;

use linerate_graph::{
    Arg, Class, Context, DropReason, Element, ElementBuilder, Exit, Handler, HandlerError,
    HandlerResult, NoBuffer, Right, Text, Writes, unquoted,
};
use linerate_memory::Frame;

use super::FAMILY;
use linerate_element_support::{
    handler_values::record_argument,
    ip::{DESTINATION, DONT_FRAGMENT, FRAGMENT, LEAST, PROTOCOL, SOURCE, TTL, put16},
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
    name: "IPEncap",
    reconfigured: Some(Right::Write),
    family: FAMILY,
    summary: "puts an IP header in front of packets",
    description: "The destination is `DST`, which becomes the destination annotation, or that \
        annotation with `DST_ANNO`. Identifications count up. The header's place becomes known \
        to the elements behind.",
    ports: "1/1",
    args: &[
        Arg::required("PROTO", "protocol", "what the packets are, by name or number"),
        Arg::required("SRC", "IP address", "source address"),
        Arg::required("DST", "IP address or DST_ANNO", "destination address"),
        Arg::keyword("TOS", "number", "0", "type of service, 0 to 255"),
        Arg::keyword("TTL", "number", "250", "time to live"),
        Arg::keyword("DSCP", "number", "0", "differentiated services code point, 0 to 62"),
        Arg::keyword("ECT", "bool or 2", "false", "ECN-capable transport: ECT(1), or ECT(0) for 2"),
        Arg::keyword("CE", "bool", "false", "congestion experienced"),
        Arg::keyword("DF", "bool", "false", "do not fragment"),
    ],
    handlers: &[
        Handler::value("src", "source address").flags("."),
        Handler::value("dst", "destination address, or DST_ANNO").flags("."),
    ],
    annotates: true,
    drops: Reason::REASONS,
    cost: "One pass: the line in front of the packet and a line of annotations; the checksum takes \
        four additions.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> IPEncap(udp, 1.0.0.1, 2.0.0.1) -> Discard;",
    make: |make| Box::new(IpEncap::new(make)),
    ..Class::here()
};

pub(crate) struct IpEncap {
    header: Template,
}

impl IpEncap {
    fn new(make: &mut ElementBuilder<'_>) -> IpEncap {
        let ProtocolNumber(protocol) = make.need("PROTO");
        let source = make.get("SRC").unwrap_or(Ipv4Addr::UNSPECIFIED);
        let destination = make.get::<Text>("DST").map(|text| text.0);
        let tos = make.or::<i32>("TOS", -1);
        let ttl = make.or::<u8>("TTL", 250);
        let dscp = make.or::<i32>("DSCP", -1);
        let ect = make.get::<Text>("ECT").map(|text| unquoted(&text.0)).unwrap_or_default();
        let (ce, df) = (make.or("CE", false), make.or("DF", false));
        if !(0..=255).contains(&protocol) {
            make.error("bad IP protocol");
        }
        let destination = destination.unwrap_or_default();
        let annotated = unquoted(&destination) == "DST_ANNO";
        let mut to = Ipv4Addr::UNSPECIFIED;
        if !annotated {
            match make.parse(&destination) {
                Ok(address) => to = address,
                Err(_) => make.error("DST argument should be IP address or 'DST_ANNO'"),
            }
        }
        let service = service(make, tos, dscp, &ect, ce);
        let mut head = [0; LEAST];
        head[0] = 0x45;
        head[1] = service;
        put16(&mut head, FRAGMENT, if df { DONT_FRAGMENT } else { 0 });
        (head[TTL], head[PROTOCOL]) = (ttl, protocol as u8);
        head[SOURCE..DESTINATION].copy_from_slice(&source.octets());
        head[DESTINATION..].copy_from_slice(&to.octets());
        IpEncap { header: Template::new(make, head, annotated) }
    }
}

/// Returns the type of service byte, and reports the first error.
fn service(make: &mut ElementBuilder<'_>, tos: i32, dscp: i32, ect: &str, ce: bool) -> u8 {
    let ect = match (linerate_graph::parse_bool(ect), ect) {
        (_, "") | (Some(false), _) => 0,
        (Some(true), _) => 1,
        (None, "2") => 2,
        _ => {
            make.error(format!("bad ECT value '{ect}'"));
            return 0;
        }
    };
    let wrong = if tos >= 0 && dscp >= 0 {
        "cannot set both TOS and DSCP"
    } else if tos >= 0 && (ect != 0 || ce) {
        "cannot set both TOS and ECN bits"
    } else if !(-1..256).contains(&tos) {
        "TOS too large; max 255"
    } else if !(-1..63).contains(&dscp) {
        "DSCP too large; max 63"
    } else if ect != 0 && ce {
        "can set at most one ECN option"
    } else {
        let ecn = if ce { 3 } else { ect };
        return match (tos, dscp) {
            (0.., _) => tos as u8,
            (_, 0..) => (dscp as u8) << 2 | ecn,
            _ => ecn,
        };
    };
    make.error(wrong);
    0
}

impl Element for IpEncap {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        cx.retain::<Writes, Reason>(frame, |packet| match self.header.put(packet, 0) {
            Some(_) => Ok(()),
            None => Err(Exit::Drop(Reason::TooLong)),
        });
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<IpEncap>() {
            self.header.take_ident(&old.header);
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        let text = |address: Option<[u8; 4]>| {
            address.map_or("DST_ANNO".into(), |address| Ipv4Addr::from(address).to_string())
        };
        match handler {
            "src" => Ok(text(Some(self.header.source()))),
            "dst" => Ok(text(self.header.destination())),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        let address = linerate_element_support::handler_values::address(cx, value).ok();
        match (handler, address) {
            ("src", None) => return Err(HandlerError::refused("SRC: parse error")),
            ("src", Some(address)) => {
                self.header.set_source(address.octets());
                record_argument(cx, 1, "SRC", value);
            }
            ("dst", None) if value.trim() != "DST_ANNO" => {
                let text = "DST argument should be IP address or 'DST_ANNO'";
                return Err(HandlerError::refused(text));
            }
            ("dst", address) => {
                self.header.set_destination(address.map(|address| address.octets()));
                record_argument(cx, 2, "DST", value);
            }
            _ => return Err(HandlerError::missing(handler)),
        }
        Ok(String::new())
    }
}
