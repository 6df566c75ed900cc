//! `IP6NDAdvertiser`: answers neighbour solicitations.

use std::net::Ipv6Addr;

use linerate_graph::{
    Arg, Class, Context, DropReason, Element, ElementBuilder, Handler, HandlerError, HandlerResult,
    Ipv6OrPrefix, Ipv6Prefix, NoBuffer, lang::config::words,
};
use linerate_memory::{Frame, Slot};
use linerate_packet::MacAddr;

use super::{ALL_NODES, Message, MessageType, OVERRIDE, ROUTER, SOLICITED, group};
use crate::FAMILY;
use linerate_element_support::{address6, ether::mac_text, handler_values::value_of};

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    /// no solicitation for one of its addresses
    Other,
    #[from(NoBuffer)]
    NoBuffer,
}

/// Prefixes it can have.
const LIMIT: usize = 65_536;

pub(super) const CLASS: Class = Class {
    name: "IP6NDAdvertiser",
    family: FAMILY,
    summary: "answers neighbour solicitations for some IPv6 addresses",
    description: "Each argument is `IP6/LENGTH [IP6/LENGTH...] ETH`: who asks for an address in \
        one of these prefixes is told ETH. Of several prefixes the longest counts, of the same \
        given twice the first. The answer goes to where the one who asks says it is, and to all \
        hosts of the link when the question is whether an address is still free (RFC 4862), which \
        tells the asker that it is not.\n\n\
        Packets are Ethernet packets. All that are no solicitations for one of the addresses are \
        dropped, and so are solicitations that RFC 4861 section 7.1.1 forbids to look at: with a \
        hop limit other than 255, a wrong checksum, a code, an option without length. Answers say \
        that they are from a router and, but for prefixes, whose addresses others may have too, \
        that they override what was known before; Click's never do, and it tells all hosts nothing \
        when somebody asks without an address.",
    ports: "1/1",
    args: &[
        Arg::rest("ADDRESSES", "IP6/LENGTH [IP6/LENGTH...] ETH", "addresses and where they are"),
        Arg::keyword("ROUTER", "bool", "true", "whether answers say they are from a router"),
    ],
    handlers: &[
        Handler::read("table", "the prefixes and their addresses, a line each"),
        Handler::read("lookup", "where the address given is").with_parameter(),
    ],
    drops: Reason::REASONS,
    cost: "Prefixes are tried one after the other; checksums of 32 bytes are read and written.",
    example: "Idle -> IP6NDAdvertiser(2001:db8::1 2:0:0:0:0:1, 2001:db8:1::/64 2:0:0:0:0:1) \
        -> Discard;",
    make: |make| Box::new(Advertiser::new(make)),
    ..Class::here()
};

#[derive(Debug, Clone, Copy)]
struct Route {
    prefix: Ipv6Prefix,
    mac: MacAddr,
}

impl Route {
    fn has(&self, ip: Ipv6Addr) -> bool {
        let Ipv6Prefix { address, length } = self.prefix;
        let rest = 128 - u32::from(length.min(128));
        let differs = ip.to_bits() ^ address.to_bits();
        differs.checked_shr(rest).unwrap_or(0) == 0
    }

    fn is_single(&self) -> bool {
        self.prefix.length == 128
    }
}

struct Advertiser {
    routes: Vec<Route>,
    router: bool,
    /// Packets of a frame that are no questions for it.
    gone: Vec<Slot>,
}

impl Advertiser {
    fn new(make: &mut ElementBuilder<'_>) -> Advertiser {
        let mut routes = Vec::new();
        for (at, text) in make.rest().iter().enumerate() {
            let before = routes.len();
            let mut mac = None;
            for word in words(text) {
                if let Ok(Ipv6OrPrefix(prefix)) = make.parse(word) {
                    routes.push(Route { prefix, mac: MacAddr::ZERO });
                } else if let Ok(found) = make.parse::<MacAddr>(word) {
                    if mac.is_some() {
                        make.error(format!("argument {at} has more than one Ethernet address"));
                    }
                    mac = Some(found);
                } else {
                    make.error(format!("argument {at} should be `IP6/MASK ETHADDR'"));
                    break;
                }
            }
            if routes.len() == before {
                make.error(format!("argument {at} had no IP6 address and masks"));
            } else if mac.is_none() {
                make.error(format!("argument {at} had no Ethernet address"));
            }
            for route in &mut routes[before..] {
                route.mac = mac.unwrap_or(MacAddr::ZERO);
            }
        }
        if routes.len() > LIMIT {
            make.error("too many addresses");
        }
        Advertiser { routes, router: make.or("ROUTER", true), gone: Vec::new() }
    }

    fn lookup(&self, ip: Ipv6Addr) -> Option<&Route> {
        let fitting = self.routes.iter().filter(|route| route.has(ip));
        fitting.reduce(
            |best, route| if route.prefix.length > best.prefix.length { route } else { best },
        )
    }

    /// The answer to a packet, and where it goes.
    fn answer(&self, bytes: &[u8]) -> Option<(Message, MacAddr)> {
        let query = Message::parse(bytes).filter(|it| it.what == MessageType::Solicitation)?;
        let route = self.lookup(query.target)?;
        let to = query.mac.unwrap_or(query.sender);
        // One's own question, come back.
        if query.sender == route.mac || to.is_multicast() || query.source == query.target {
            return None;
        }
        let mut flags = if self.router { ROUTER } else { 0 };
        flags |= if route.is_single() { OVERRIDE } else { 0 };
        let (destination, to) = if query.source.is_unspecified() {
            (ALL_NODES, group(ALL_NODES))
        } else {
            flags |= SOLICITED;
            (query.source, to)
        };
        let answer = Message {
            what: MessageType::Advertisement { flags },
            source: query.target,
            destination,
            target: query.target,
            mac: Some(route.mac),
            sender: route.mac,
        };
        Some((answer, to))
    }
}

impl Element for Advertiser {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let (mut gone, mut lost) = (std::mem::take(&mut self.gone), [0; Reason::REASONS.len()]);
        let mut answered = |slot: &mut Slot| {
            let arena = cx.pool.arena();
            let Some((answer, to)) = self.answer(arena.packet(slot)) else {
                lost[Reason::Other.index()] += 1;
                return false;
            };
            let like = *arena.meta(slot);
            let Some(answer) = answer.packet(cx, to, &like) else {
                lost[Reason::NoBuffer.index()] += 1;
                return false;
            };
            cx.replace(slot, answer);
            true
        };
        frame.retain(&mut answered, |slot| gone.push(slot));
        gone.drain(..).for_each(|slot| cx.pool.give_one(slot));
        self.gone = gone;
        cx.count_drops_by_reason::<Reason>(&lost);
    }

    fn read(&mut self, cx: &mut Context, handler: &str, parameter: &str) -> HandlerResult {
        match handler {
            "table" => {
                let line = |Route { prefix: Ipv6Prefix { address, length }, mac }: &Route| {
                    format!("{}/{length} {}\n", address6::text(*address), mac_text(*mac))
                };
                Ok(self.routes.iter().map(line).collect())
            }
            "lookup" => {
                let ip = value_of(cx, parameter);
                let ip = ip.map_err(|_| HandlerError::refused("expected IP6 address"))?;
                Ok(self.lookup(ip).map(|route| mac_text(route.mac)).unwrap_or_default())
            }
            _ => Err(HandlerError::missing(handler)),
        }
    }
}
