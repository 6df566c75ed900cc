//! `IP6Encap`: prepends an IPv6 header.

use std::net::Ipv6Addr;

use linerate_graph::{
    Arg, Class, Context, DropReason, Element, ElementBuilder, Exit, Handler, HandlerError,
    HandlerResult, NoBuffer, Right, Scope, Text, Value, Writes, unquoted,
};
use linerate_memory::Frame;

use super::{
    FAMILY,
    header::{DESTINATION, HOPS, LEAST, LENGTH, NEXT, SOURCE, address, mark, put16},
};
use linerate_element_support::{
    address6, handler_values::record_argument, ip_encap::ProtocolNumber,
};

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    #[from(NoBuffer)]
    NoBuffer,
    /// longer than a buffer
    TooLong,
}

/// Word for the destination annotation.
const ANNOTATION: &str = "DST_ANNO";

pub(super) const CLASS: Class = Class {
    name: "IP6Encap",
    reconfigured: Some(Right::Write),
    family: FAMILY,
    summary: "puts an IPv6 header in front of packets",
    description: "The destination is `DST`, which becomes the destination annotation, or that \
        annotation with `DST_ANNO`. The header's place becomes known to the elements behind.",
    ports: "1/1",
    args: &[
        Arg::required("PROTO", "protocol", "what the packets are, by name or number"),
        Arg::required("SRC", "IPv6 address", "source address"),
        Arg::required("DST", "IPv6 address or DST_ANNO", "destination address"),
        Arg::keyword("HLIM", "number", "250", "hop limit"),
        Arg::keyword("CLASS", "number", "0", "traffic class, 0 to 255"),
    ],
    handlers: &[
        Handler::value("src", "source address").flags("."),
        Handler::value("dst", "destination address, or DST_ANNO").flags("."),
    ],
    annotates: true,
    drops: Reason::REASONS,
    cost: "One pass: the line in front of the packet and a line of annotations.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> IP6Encap(udp, 2001:db8::1, 2001:db8::2) \
        -> Discard;",
    make: |make| Box::new(Ip6Encap::new(make)),
    ..Class::here()
};

struct Ip6Encap {
    header: [u8; LEAST],
    /// Whether the destination is the annotation.
    annotated: bool,
}

/// A destination: `None` for the annotation.
fn destination(text: &str, scope: &Scope<'_>) -> Result<Option<Ipv6Addr>, String> {
    let text = unquoted(text.trim());
    if text == ANNOTATION {
        return Ok(None);
    }
    let wrong = |_| "DST argument should be IP address or 'DST_ANNO'".to_owned();
    Ipv6Addr::parse(&text, scope).map(Some).map_err(wrong)
}

impl Ip6Encap {
    fn new(make: &mut ElementBuilder<'_>) -> Ip6Encap {
        let ProtocolNumber(protocol) = make.need("PROTO");
        let source = make.get("SRC").unwrap_or(Ipv6Addr::UNSPECIFIED);
        let to = make.get::<Text>("DST").map(|Text(text)| text);
        let (hops, class) = (make.or::<u8>("HLIM", 250), make.or::<u8>("CLASS", 0));
        let protocol = u8::try_from(protocol).unwrap_or_else(|_| {
            make.error("bad IP protocol");
            0
        });
        let scope = Scope { plan: make.plan(), names: &make.world.names, name: make.name() };
        let to = destination(&to.unwrap_or_default(), &scope).unwrap_or_else(|error| {
            make.error(error);
            None
        });
        let mut header = [0; LEAST];
        (header[0], header[1]) = (0x60 | class >> 4, class << 4);
        (header[NEXT], header[HOPS]) = (protocol, hops);
        header[SOURCE..DESTINATION].copy_from_slice(&source.octets());
        header[DESTINATION..].copy_from_slice(&to.unwrap_or(Ipv6Addr::UNSPECIFIED).octets());
        Ip6Encap { header, annotated: to.is_none() }
    }
}

impl Element for Ip6Encap {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let Ip6Encap { header, annotated } = self;
        cx.retain::<Writes, Reason>(frame, |packet| {
            let length = packet.len() as u16;
            if !packet.prepend(LEAST) {
                return Err(Exit::Drop(Reason::TooLong));
            }
            let mut head = *header;
            put16(&mut head, LENGTH, length);
            mark(packet, 0);
            let (bytes, meta) = packet.parts();
            if *annotated {
                head[DESTINATION..].copy_from_slice(&meta.destination);
            } else {
                meta.destination = address(&head, DESTINATION);
            }
            if let Some(to) = bytes.first_chunk_mut() {
                *to = head;
            }
            Ok(())
        });
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        let text = |at| address6::text(Ipv6Addr::from(address(&self.header, at)));
        match handler {
            "src" => Ok(text(SOURCE)),
            "dst" if self.annotated => Ok(ANNOTATION.into()),
            "dst" => Ok(text(DESTINATION)),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        let scope = Scope { plan: cx.plan(), names: &cx.world().names, name: cx.name() };
        let value = value.trim();
        match handler {
            "src" => {
                let wrong = |error| HandlerError::refused(format!("SRC: {error}"));
                let source = Ipv6Addr::parse(value, &scope).map_err(wrong)?;
                self.header[SOURCE..DESTINATION].copy_from_slice(&source.octets());
                record_argument(cx, 1, "SRC", value);
            }
            "dst" => {
                let to = destination(value, &scope).map_err(HandlerError::refused)?;
                self.annotated = to.is_none();
                let to = to.unwrap_or(Ipv6Addr::UNSPECIFIED);
                self.header[DESTINATION..].copy_from_slice(&to.octets());
                record_argument(cx, 2, "DST", value);
            }
            _ => return Err(HandlerError::missing(handler)),
        }
        Ok(String::new())
    }
}
