//! `ARPResponder`: answers ARP queries.

use std::net::Ipv4Addr;

use linerate_graph::{
    Arg, Class, Context, DropReason, Element, ElementBuilder, Exit, Handler, HandlerError,
    HandlerResult, Ipv4OrPrefix, Ipv4Prefix, NoBuffer, Right, Writes, lang::config::words,
};
use linerate_memory::{Frame, Meta};
use linerate_packet::{MacAddr, arp::Operation};

use super::{LENGTH, Message};
use crate::FAMILY;
use linerate_element_support::{
    ether::{HEADER, mac_text},
    handler_values::value_of,
    ip::get_four,
};

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    /// no query for one of its addresses
    Other,
    #[from(NoBuffer)]
    NoBuffer,
}

/// Prefixes it can have.
const LIMIT: usize = 65_536;

pub(crate) const CLASS: Class = Class {
    name: "ARPResponder",
    reconfigured: Some(Right::Write),
    family: FAMILY,
    summary: "answers ARP queries for some addresses",
    description: "Each argument is `IP/MASK [IP/MASK...] ETH`: who asks for an address in one of \
        these prefixes is told ETH. Of several prefixes the longest counts, of the same given \
        twice the later. A name that AddressInfo gives both kinds of address is enough by itself. \
        A query becomes its answer, with the query's VLAN annotation. Everything else, queries for \
        other addresses included, leaves by output 1, or is dropped where it is not used.",
    ports: "1/1-2",
    processing: "a/ah",
    args: &[Arg::rest("ADDRESSES", "IP/MASK [IP/MASK...] ETH", "addresses and where they are")],
    handlers: &[
        Handler::read("table", "the prefixes and their addresses, a line each"),
        Handler::read("lookup", "where the address given is").with_parameter(),
        Handler::write("add", "adds addresses: `IP/MASK [IP/MASK...] ETH`"),
        Handler::write("remove", "removes a prefix"),
    ],
    drops: Reason::REASONS,
    cost: "Prefixes are tried one after the other, longer ones first; the packet is changed in \
        place.",
    example: "Idle -> ARPResponder(10.0.0.1 10.0.1.0/24 2:0:0:0:0:1) -> Discard;",
    make: |make| Box::new(ArpResponder::new(make)),
    ..Class::here()
};

#[derive(Debug, Clone, Copy)]
struct Route {
    address: u32,
    mask: u32,
    mac: MacAddr,
}

impl Route {
    fn same(&self, other: &Route) -> bool {
        (self.address, self.mask) == (other.address, other.mask)
    }

    /// Returns true if all of another's addresses are also its.
    fn covers(&self, other: &Route) -> bool {
        other.mask & self.mask == self.mask && other.address & self.mask == self.address
    }

    fn prefix(&self) -> String {
        let mask = Ipv4Addr::from_bits(self.mask);
        let address = Ipv4Addr::from_bits(self.address);
        match (Ipv4Prefix { address, mask }).length() {
            Some(length) => format!("{address}/{length}"),
            None => format!("{address}/{mask}"),
        }
    }
}

struct ArpResponder {
    /// Longer ones before those that cover them.
    routes: Vec<Route>,
}

impl ArpResponder {
    fn new(make: &mut ElementBuilder<'_>) -> ArpResponder {
        let mut responder = ArpResponder { routes: Vec::new() };
        for (at, text) in make.rest().iter().enumerate() {
            let parsed = parse(
                text,
                |word| make.parse::<Ipv4OrPrefix>(word).ok().map(|prefix| prefix.0),
                |word| make.parse::<MacAddr>(word).ok(),
            );
            match parsed {
                Ok(routes) => responder.add(routes, |route| {
                    make.warn(format!("multiple entries for {}", route.prefix()));
                }),
                Err(error) => make.error(format!("argument {at}: {error}")),
            }
        }
        if responder.routes.len() > LIMIT {
            make.error("too many addresses");
        }
        responder
    }

    fn add(&mut self, routes: Vec<Route>, mut twice: impl FnMut(&Route)) {
        for route in routes {
            if let Some(known) = self.routes.iter_mut().find(|known| known.same(&route)) {
                *known = route;
                twice(&route);
                continue;
            }
            let covering = self.routes.iter().position(|known| known.covers(&route));
            self.routes.insert(covering.unwrap_or(self.routes.len()), route);
        }
    }

    fn lookup(&self, ip: Ipv4Addr) -> Option<MacAddr> {
        let ip = ip.to_bits();
        let found = self.routes.iter().find(|route| ip & route.mask == route.address);
        found.map(|route| route.mac)
    }

    /// Makes the answer of a query for one of the addresses, in its place. `None`, changing nothing,
    /// when it is none.
    #[inline]
    fn answer(&self, bytes: &mut [u8]) -> Option<()> {
        let query = Message::parse(bytes).filter(|query| query.operation == Operation::REQUEST)?;
        turn(bytes.first_chunk_mut()?, self.lookup(query.target.1)?);
        Some(())
    }
}

/// Makes a query its answer: the sender becomes the target, and the address asked for the sender.
#[inline]
fn turn(packet: &mut [u8; LENGTH], mac: MacAddr) {
    let (ethernet, arp) = packet.split_at_mut(HEADER);
    let [operation, sender, target] = [6..8, 8..18, 18..28];
    let asked = get_four(arp, target.start + 6);
    arp[operation].copy_from_slice(&Operation::REPLY.0.to_be_bytes());
    arp.copy_within(sender.clone(), target.start);
    ethernet[..6].copy_from_slice(&arp[target][..6]);
    ethernet[6..12].copy_from_slice(&mac.0);
    arp[sender.clone()][..6].copy_from_slice(&mac.0);
    arp[sender][6..].copy_from_slice(&asked);
}

/// Reads `IP/MASK [IP/MASK...] ETH`.
fn parse(
    text: &str,
    prefix: impl Fn(&str) -> Option<Ipv4Prefix>,
    ethernet: impl Fn(&str) -> Option<MacAddr>,
) -> Result<Vec<Route>, &'static str> {
    let (mut prefixes, mut mac) = (Vec::new(), None);
    let words = words(text);
    for word in &words {
        if let Some(prefix) = prefix(word) {
            prefixes.push(prefix);
        } else if let Some(address) = ethernet(word) {
            if mac.replace(address).is_some() {
                return Err("more than one ETH");
            }
        } else {
            return Err("expected IP/MASK ETH");
        }
    }
    // A name can be both.
    let mac = mac.or_else(|| words.iter().find_map(|word| ethernet(word)));
    if prefixes.is_empty() {
        return Err("missing IP/MASK");
    }
    let mac = mac.ok_or("missing ETH")?;
    let route = |prefix: Ipv4Prefix| {
        let mask = prefix.mask.to_bits();
        Route { address: prefix.address.to_bits() & mask, mask, mac }
    };
    Ok(prefixes.into_iter().map(route).collect())
}

impl Element for ArpResponder {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let annotated = cx.world().annotated;
        cx.retain::<Writes, Reason>(frame, |packet| {
            self.answer(packet.bytes_mut()).ok_or(Exit::ErrorOutput(Reason::Other))?;
            packet.truncate(LENGTH);
            if annotated {
                let meta = packet.meta_mut();
                let Meta { vlan, port, queue, .. } = *meta;
                *meta = Meta { vlan, port, queue, ..Meta::EMPTY };
                packet.mark_network(HEADER);
            }
            Ok(())
        });
    }

    fn read(&mut self, cx: &mut Context, handler: &str, parameter: &str) -> HandlerResult {
        if handler == "table" {
            let line = |route: &Route| format!("{} {}\n", route.prefix(), mac_text(route.mac));
            return Ok(self.routes.iter().map(line).collect());
        }
        let ip = value_of(cx, parameter);
        let ip = ip.map_err(|_| HandlerError::refused("expected IP address"))?;
        Ok(self.lookup(ip).map(mac_text).unwrap_or_default())
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        let prefix = |word: &str| value_of::<Ipv4OrPrefix>(cx, word).ok().map(|prefix| prefix.0);
        if handler == "add" {
            let routes = parse(value, prefix, |word| value_of(cx, word).ok());
            let routes = routes.map_err(HandlerError::refused)?;
            if self.routes.len() + routes.len() > LIMIT {
                return Err(HandlerError::refused("too many addresses"));
            }
            self.add(routes, |_| {});
        } else {
            let Some(Ipv4Prefix { address, mask }) = prefix(value.trim()) else {
                return Err(HandlerError::refused("expected IP/MASK"));
            };
            let mask = mask.to_bits();
            let wanted = Route { address: address.to_bits() & mask, mask, mac: MacAddr::ZERO };
            let Some(at) = self.routes.iter().position(|route| route.same(&wanted)) else {
                return Err(HandlerError::refused(format!("{} not found", wanted.prefix())));
            };
            self.routes.remove(at);
        }
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    /// An ARP request of 10.0.0.9 at 2:0:0:0:0:9 for 10.0.0.`last`.
    fn query(last: u8) -> String {
        format!(
            "ffffffffffff020000000009080600010800060400010200000000090a000009000000000000\
            0a0000{last:02x}"
        )
    }

    fn reply(mac: &str, last: u8) -> String {
        format!("020000000009{mac}08060001080006040002{mac}0a0000{last:02x}0200000000090a000009")
    }

    #[test]
    fn queries_for_its_addresses_are_answered() {
        let others = [
            query(9),
            query(1)[..82].to_owned(),
            query(1).replacen("0806", "0800", 1),
            query(1).replacen("06040001", "06040002", 1),
            String::from("-"),
        ];
        let packets = [vec![query(1) + "0000", query(2)], others.to_vec()].concat().join(" ");
        for frame_limit in [1, 256] {
            let mut run = Run::new(&format!(
                "Packets({packets}) -> t :: Tee -> r :: ARPResponder(10.0.0.0/29 1:1:1:1:1:1,
                    10.0.0.2 2:2:2:2:2:2) -> c :: Collect; r [1] -> d :: Collect;
                 t [1] -> e :: Collect"
            ))
            .frame_limit(frame_limit);
            run.run();
            let replies = [reply("010101010101", 1), reply("020202020202", 2)];
            assert_eq!(run.read("c.packets"), replies.join("\n"));
            assert_eq!(run.read("d.lengths").lines().count(), others.len());
            assert!(run.read("e.packets").starts_with(&query(1)), "others' copies stay");
        }
    }

    #[test]
    fn the_longest_prefix_counts() {
        let mut run = Run::new(
            "Idle -> r :: ARPResponder(1.0.0.0/24 2.0.0.0/8 1:1:1:1:1:1, 1.0.0.5 2:2:2:2:2:2,
                0/0 3:3:3:3:3:3, 1.0.0.0/28 4:4:4:4:4:4) -> Discard",
        );
        let prefixes = "1.0.0.5/32 02-02-02-02-02-02\n1.0.0.0/28 04-04-04-04-04-04\n\
            1.0.0.0/24 01-01-01-01-01-01\n2.0.0.0/8 01-01-01-01-01-01\n0.0.0.0/0 03-03-03-03-03-03\n";
        assert_eq!(run.read("r.table"), prefixes);
        run.write("r.remove", "1.0.0.7/28").unwrap();
        run.write("r.add", "1.0.0.0/23 5:5:5:5:5:5").unwrap();
        assert!(run.read("r.table").contains("2.0.0.0/8 01-01-01-01-01-01\n1.0.0.0/23 05"));
    }
}
