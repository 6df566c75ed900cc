//! `StoreIPAddress`: writes an address into the packet.

use std::net::Ipv4Addr;

use linerate_graph::{
    Arg, Class, Context, DropReason, Element, ElementBuilder, Exit, NoBuffer, Text, Word, Writes,
    parse_integer,
};
use linerate_memory::Frame;
use linerate_packet::{IpProtocol, checksum};

use super::FAMILY;
use linerate_element_support::ip::{
    CHECKSUM, DESTINATION, NoHeader, SOURCE, get16, header_length, is_first_fragment, known,
    protocol, put16,
};

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    #[from(NoBuffer)]
    NoBuffer,
    #[from(NoHeader)]
    NoHeader,
    /// no address or no room for it
    Unwritable,
}

pub(super) const CLASS: Class = Class {
    name: "StoreIPAddress",
    family: FAMILY,
    summary: "writes an address into packets",
    description: "`ADDR`, or the destination annotation when that is left out. At an `OFFSET` in \
        bytes it replaces four bytes and nothing else; packets that end before that, or have no \
        destination annotation, leave by output 1, or are dropped where there is none. With \
        `src` or `dst` it replaces an address of the IP header, which must be known, and the \
        checksums of IP, TCP and UDP are updated.",
    ports: "1/1-2",
    processing: "a/ah",
    args: &[
        Arg::rest("ADDR, OFFSET", "IP address and place", "the two below by their place"),
        Arg::keyword("ADDR", "IP address", "the destination annotation", "the address"),
        Arg::keyword("OFFSET", "bytes, src or dst", "", "where to write it: must be given"),
    ],
    annotates: true,
    drops: Reason::REASONS,
    cost: "One pass over the packets' headers; checksums are updated, not computed.",
    example: "FromIPSummaryDump(STOP true, FIELDS ip_src, DATA \"1.0.0.1\") -> CheckIPHeader \
        -> StoreIPAddress(2.0.0.1, src) -> Discard;",
    make: |make| Box::new(StoreIpAddress::new(make)),
    ..Class::here()
};

/// Place of the address.
#[derive(Debug, Clone, Copy)]
enum AddressPlace {
    Packet(usize),
    Header(usize),
}

struct StoreIpAddress {
    address: Option<Ipv4Addr>,
    place: AddressPlace,
}

impl StoreIpAddress {
    fn new(make: &mut ElementBuilder<'_>) -> StoreIpAddress {
        let mut by_place = make.rest().into_iter();
        let by_keyword =
            |make: &mut ElementBuilder<'_>, name| make.get::<Text>(name).map(|text| text.0);
        let (mut address, mut offset) = (by_keyword(make, "ADDR"), by_keyword(make, "OFFSET"));
        let given = by_place.len() + usize::from(address.is_some()) + usize::from(offset.is_some());
        if given > 1 {
            address = address.or_else(|| by_place.next());
        }
        offset = offset.or_else(|| by_place.next());
        let mut parsed = None;
        if given > 1 {
            match make.parse(&address.unwrap_or_default()) {
                Ok(address) => parsed = Some(address),
                Err(error) => make.error(format!("ADDR: {error}")),
            }
        }
        let place = match offset.map(|text| make.parse::<Word>(&text)) {
            None => {
                make.error("OFFSET: required argument missing");
                AddressPlace::Packet(0)
            }
            Some(Err(error)) => {
                make.error(format!("OFFSET: {error}"));
                AddressPlace::Packet(0)
            }
            Some(Ok(Word(word))) => place(&word).unwrap_or_else(|| {
                make.error("type mismatch: OFFSET requires integer");
                AddressPlace::Packet(0)
            }),
        };
        if by_place.next().is_some() {
            make.error("too many arguments");
        }
        StoreIpAddress { address: parsed, place }
    }
}

fn place(word: &str) -> Option<AddressPlace> {
    match word.to_ascii_lowercase().as_str() {
        "src" => Some(AddressPlace::Header(SOURCE)),
        "dst" => Some(AddressPlace::Header(DESTINATION)),
        number => {
            let number = i32::try_from(parse_integer(number)?).ok()?;
            usize::try_from(number).ok().map(AddressPlace::Packet)
        }
    }
}

impl Element for StoreIpAddress {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let given = self.address.map(|address| address.octets());
        match self.place {
            AddressPlace::Header(at) => cx.retain::<Writes, Reason>(frame, |packet| {
                let (ip, meta) = known(packet)?;
                let [a, b, c, d, ..] = meta.destination;
                replace(ip, at, given.unwrap_or([a, b, c, d]));
                Ok(())
            }),
            AddressPlace::Packet(at) => cx.retain::<Writes, Reason>(frame, |packet| {
                let (bytes, meta) = packet.parts();
                let [a, b, c, d, ..] = meta.destination;
                let address = given.unwrap_or([a, b, c, d]);
                match bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
                    Some(place) if given.is_some() || address != [0; 4] => {
                        *place = address;
                        Ok(())
                    }
                    _ => Err(Exit::ErrorOutput(Reason::Unwritable)),
                }
            }),
        };
    }
}

/// Replaces an address of the IP header and updates the checksums over it.
pub(super) fn replace(ip: &mut [u8], at: usize, address: [u8; 4]) {
    let Some(field) = ip.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<4>()) else { return };
    let old = std::mem::replace(field, address);
    let sum = checksum::update_bytes(get16(ip, CHECKSUM), &old, &address);
    put16(ip, CHECKSUM, sum);
    if !is_first_fragment(ip) {
        return;
    }
    let start = header_length(ip);
    let (sum_at, least) = match protocol(ip) {
        IpProtocol::TCP => (start + 16, 20),
        IpProtocol::UDP => (start + 6, 8),
        _ => return,
    };
    let udp = least == 8;
    let sum = get16(ip, sum_at);
    if ip.len() < start + least || (udp && sum == 0) {
        return;
    }
    let sum = checksum::update_bytes(sum, &old, &address);
    put16(ip, sum_at, if udp { checksum::udp_nonzero(sum) } else { sum });
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Updated sums are those etherparse computes.
        #[test]
        fn checksums_stay_right(
            payload in prop::collection::vec(any::<u8>(), 0..64),
            addresses in any::<[[u8; 4]; 3]>(),
            ports: (u16, u16),
            tcp: bool,
            at in prop_oneof![Just(SOURCE), Just(DESTINATION)],
        ) {
            let [source, destination, new] = addresses;
            let build = |source, destination| {
                let builder = etherparse::PacketBuilder::ipv4(source, destination, 64);
                let mut bytes = Vec::new();
                if tcp {
                    builder.tcp(ports.0, ports.1, 7, 8).write(&mut bytes, &payload).unwrap();
                } else {
                    builder.udp(ports.0, ports.1).write(&mut bytes, &payload).unwrap();
                }
                bytes
            };
            let mut bytes = build(source, destination);
            replace(&mut bytes, at, new);
            let expected = match at {
                SOURCE => build(new, destination),
                _ => build(source, new),
            };
            prop_assert_eq!(bytes, expected);
        }
    }
}
