//! `GetIPAddress`, `SetIPAddress`: the destination annotation, from the packet
//! or given.

use std::net::Ipv4Addr;

use linerate_graph::{Arg, Class, Context, Element, Handler, HandlerError, Make, Text, unquoted};
use linerate_memory::Frame;

use super::FAMILY;
use linerate_kit::{
    annotation_byte::Word,
    ip::{DESTINATION, NO_BUFFER, SOURCE},
    written::address,
};

pub(super) const GET: Class = Class {
    name: "GetIPAddress",
    family: FAMILY,
    summary: "makes an address in the packet its destination annotation",
    description: "The four bytes at `OFFSET`, or the source or destination of the IP header, \
        which must then be known. Packets without them are left alone.",
    ports: "1/1",
    args: &[
        Arg::optional("OFFSET", "bytes", "", "where the address is"),
        Arg::optional("ANNO", "annotation", "DST_IP", "the annotation to set, of four bytes"),
        Arg::keyword("IP", "src or dst", "", "which address of the IP header to take instead"),
    ],
    annotates: true,
    drops: &["no buffer"],
    cost: "One pass: the line of the address and a line of annotations.",
    example: "FromIPSummaryDump(STOP true, FIELDS ip_dst, DATA \"1.0.0.1\") -> GetIPAddress(16) \
        -> Discard;",
    make: |make| Box::new(GetIpAddress::new(make)),
    ..Class::EMPTY
};

pub(super) const SET: Class = Class {
    name: "SetIPAddress",
    family: FAMILY,
    summary: "sets the destination annotation",
    description: "To the same address for every packet, such as that of a gateway.",
    ports: "1/1",
    args: &[
        Arg::required("IPADDR", "IP address", "the address"),
        Arg::keyword("ANNO", "annotation", "DST_IP", "the annotation to set, of four bytes"),
    ],
    handlers: &[Handler::value("addr", "the address")],
    annotates: true,
    drops: &["no buffer"],
    cost: "Writes a line of annotations per packet.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> SetIPAddress(1.0.0.1) -> Discard;",
    make: |make| {
        let address = make.get("IPADDR").unwrap_or(Ipv4Addr::UNSPECIFIED);
        Box::new(SetIpAddress { address, word: Word::from_args(make) })
    },
    ..Class::EMPTY
};

/// Where the address is taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// From the packet's start.
    Packet(usize),
    /// From the IP header's.
    Header(usize),
}

struct GetIpAddress {
    place: Place,
    word: Word,
}

impl GetIpAddress {
    fn new(make: &mut Make<'_>) -> GetIpAddress {
        let offset = make.get::<i32>("OFFSET").and_then(|offset| usize::try_from(offset).ok());
        let word = Word::from_args(make);
        let which = make.get::<Text>("IP").map(|Text(text)| unquoted(&text)).unwrap_or_default();
        let place = match (offset, which.as_str()) {
            (Some(offset), "") => Place::Packet(offset),
            (None, "src") => Place::Header(SOURCE),
            (None, "dst") => Place::Header(DESTINATION),
            (wrong, text) => {
                let both = wrong.is_some() || text.is_empty();
                make.error(if both { "set one of OFFSET, IP" } else { "bad IP" });
                Place::Packet(0)
            }
        };
        GetIpAddress { place, word }
    }
}

impl Element for GetIpAddress {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        cx.unshare(frame, NO_BUFFER);
        let GetIpAddress { place, word } = *self;
        cx.pool.arena().edit_packets(frame, |packet| {
            let (bytes, meta) = packet.parts();
            let at = match place {
                Place::Packet(at) => at,
                Place::Header(at) => usize::from(meta.network) + at,
            };
            if let Some(address) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
                word.set(meta, *address);
            }
        });
    }
}

struct SetIpAddress {
    address: Ipv4Addr,
    word: Word,
}

impl Element for SetIpAddress {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        cx.unshare(frame, NO_BUFFER);
        let address = self.address.octets();
        let arena = cx.pool.arena();
        for meta in frame.slots_mut().iter_mut().filter_map(|slot| arena.meta_mut(slot)) {
            self.word.set(meta, address);
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> Result<String, HandlerError> {
        match handler {
            "addr" => Ok(self.address.to_string()),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(
        &mut self,
        cx: &mut Context,
        handler: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        match handler {
            "addr" => self.address = address(cx, value)?,
            _ => return Err(HandlerError::missing(handler)),
        }
        Ok(String::new())
    }
}
