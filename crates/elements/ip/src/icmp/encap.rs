//! `ICMPPingEncap`, `ICMPIPEncap`: prepend ICMP and IP headers.

use std::net::Ipv4Addr;

use linerate_graph::{
    Arg, Class, Context, DropReason, Element, ElementBuilder, Exit, Handler, HandlerError,
    HandlerResult, NoBuffer, Word, Writes,
};
use linerate_memory::Frame;
use linerate_packet::checksum;

use super::{FAMILY, MessageType};
use linerate_element_support::{
    handler_values, icmp_names,
    ip::{DESTINATION, IDENT, LEAST, PROTOCOL, SOURCE, TOTAL_LENGTH, TTL, fill_checksum, put16},
};

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    #[from(NoBuffer)]
    NoBuffer,
    /// longer than a buffer
    TooLong,
}

const ECHO: u8 = 8;

pub(super) const PING: Class = Class {
    name: "ICMPPingEncap",
    family: FAMILY,
    summary: "makes packets the data of ICMP echo requests",
    description: "Sequence number and IP identification are the same and count up from 1. The IP \
        header's place becomes known to the elements behind, and `DST` is the destination \
        annotation.",
    ports: "1/1",
    args: &[
        Arg::required("SRC", "IP address", "source address"),
        Arg::required("DST", "IP address", "destination address"),
        Arg::keyword("IDENTIFIER", "number", "0", "the identifier of the requests"),
    ],
    handlers: HANDLERS,
    annotates: true,
    drops: Reason::REASONS,
    cost: "Sums up every packet: some cycles for each 32 bytes.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> ICMPPingEncap(1.0.0.1, 2.0.0.1) -> Discard;",
    make: |make| Box::new(IcmpEncap::new(make, ECHO, 0)),
    ..Class::here()
};

pub(super) const ANY: Class = Class {
    name: "ICMPIPEncap",
    summary: "makes packets the data of ICMP messages",
    description: "`TYPE` and `CODE` are numbers or names (`echo`, `unreachable`, `host`). Messages \
        of types that have an identifier and a sequence number get them: the latter is the IP \
        identification, which counts up from 1. The IP header's place becomes known to the \
        elements behind, and `DST` is the destination annotation.",
    args: &[
        Arg::required("SRC", "IP address", "source address"),
        Arg::required("DST", "IP address", "destination address"),
        Arg::required("TYPE", "ICMP type", "type of the messages"),
        Arg::optional("CODE", "ICMP code", "0", "code of the messages"),
        Arg::keyword("IDENTIFIER", "number", "0", "the identifier of the messages"),
    ],
    example: "InfiniteSource(LIMIT 10, STOP true) \
        -> ICMPIPEncap(1.0.0.1, 2.0.0.1, echo-reply) -> Discard;",
    make: |make| {
        let kind = make.get::<MessageType>("TYPE").map(|MessageType(number)| number);
        let code = make.get::<Word>("CODE");
        let number = kind.and_then(|number| u8::try_from(number).ok());
        let code = code.map_or(Some(0), |Word(text)| {
            let named = number.and_then(|kind| icmp_names::number(Some(kind), &text));
            let number = named.or_else(|| make.parse::<u8>(&text).ok().map(u64::from));
            number.and_then(|number| u8::try_from(number).ok())
        });
        if kind.is_some() && number.is_none() {
            make.error("invalid TYPE");
        } else if code.is_none() {
            make.error("invalid CODE");
        }
        Box::new(IcmpEncap::new(make, number.unwrap_or(ECHO), code.unwrap_or(0)))
    },
    ..PING
};

const HANDLERS: &[Handler] = &[
    Handler::value("src", "source address").flags("."),
    Handler::value("dst", "destination address").flags("."),
];

struct IcmpEncap {
    addresses: [Ipv4Addr; 2],
    kind: u8,
    code: u8,
    ident: u16,
    /// The next sequence number, never zero.
    next: u16,
}

impl IcmpEncap {
    fn new(make: &mut ElementBuilder<'_>, kind: u8, code: u8) -> IcmpEncap {
        let addresses = ["SRC", "DST"].map(|name| make.get(name));
        IcmpEncap {
            addresses: addresses.map(|address| address.unwrap_or(Ipv4Addr::UNSPECIFIED)),
            kind,
            code,
            ident: make.or("IDENTIFIER", 0),
            next: 1,
        }
    }
}

/// Length of the header of a message: those about times have three.
fn length_of(kind: u8) -> usize {
    if matches!(kind, 13 | 14) { 20 } else { 8 }
}

impl Element for IcmpEncap {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let IcmpEncap { addresses: [source, destination], kind, code, ident, next } = self;
        let header = LEAST + length_of(*kind);
        cx.retain::<Writes, Reason>(frame, |packet| {
            if !packet.prepend(header) {
                return Err(Exit::Drop(Reason::TooLong));
            }
            let (bytes, meta) = packet.parts();
            let length = bytes.len() as u16;
            bytes[..header].fill(0);
            (bytes[0], bytes[TTL], bytes[PROTOCOL]) = (0x45, 255, 1);
            put16(bytes, TOTAL_LENGTH, length);
            put16(bytes, IDENT, *next);
            bytes[SOURCE..DESTINATION].copy_from_slice(&source.octets());
            bytes[DESTINATION..LEAST].copy_from_slice(&destination.octets());
            fill_checksum(bytes);
            let message = &mut bytes[LEAST..];
            (message[0], message[1]) = (*kind, *code);
            if matches!(*kind, 0 | 8 | 13..=16) {
                put16(message, 4, *ident);
                put16(message, 6, *next);
            }
            let sum = checksum::checksum(message);
            put16(message, 2, sum);
            meta.destination[..4].copy_from_slice(&destination.octets());
            packet.mark_headers(0, LEAST);
            *next = next.checked_add(1).unwrap_or(1);
            Ok(())
        });
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<IcmpEncap>() {
            self.next = old.next;
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "src" => Ok(self.addresses[0].to_string()),
            "dst" => Ok(self.addresses[1].to_string()),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        let address = || {
            let address = handler_values::address(cx, value);
            address.map_err(|_| HandlerError::refused("syntax error"))
        };
        match handler {
            "src" => self.addresses[0] = address()?,
            "dst" => self.addresses[1] = address()?,
            _ => return Err(HandlerError::missing(handler)),
        }
        Ok(String::new())
    }
}
