//! `AddressTranslator`: translates addresses, and ports, of IPv6 packets.

use std::{
    net::Ipv6Addr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use linerate_graph::{
    Arg, Class, Context, DropReason, Element, ElementBuilder, Handler, HandlerError, HandlerResult,
    Inert, Seconds, Value, Writes, lang::config::words,
};
use linerate_memory::Frame;

use self::{
    mappings::{Direction, Endpoint, LIMIT, Mappings, Places, Plan},
    rewrite::Reason,
};
use super::{FAMILY, header};
use linerate_elements_neighbours::shared::milliseconds;

mod mappings;
mod rewrite;

pub(super) const CLASS: Class = Class {
    name: "AddressTranslator",
    family: FAMILY,
    summary: "maps the addresses and ports of IPv6 packets",
    description: "Packets begin with their IPv6 header. Those at input 0 go out: their source is \
        mapped, and they leave by output 0. Those at input 1 come in: their destination is mapped \
        back, and they leave by output 1. Packets there is no mapping for are dropped, and so are \
        those that are not TCP, UDP or ICMPv6. Checksums are updated, and ICMPv6 errors say who the \
        packet they quote was from before. In Click, an ICMPv6 packet is mapped only with its \
        address.\n\n\
        The arguments are, one after the other:\n\n\
        - how many mappings are configured. If any: whether with ports, and for each `INSIDE \
        OUTSIDE`, or `INSIDE PORT OUTSIDE PORT`;\n\
        - whether other mappings are made when packets come. If so: whether with ports, and \
        whether packets that come in make them, and not those that go out; then addresses that are \
        given to hosts, or `ADDRESS FIRST LAST`, an address whose ports are given to flows. The \
        identifier of a ping is its port.\n\n\
        There is a mapping per address or port, and no more; who has not used one for `TIMEOUT` \
        loses it to the next who needs one, where Click keeps it for ever. All workers have the \
        same mappings.",
    ports: "2/2",
    processing: "h/h",
    flow: "#/#",
    args: &[
        Arg::rest("MAPPINGS", "see above", "what is mapped"),
        Arg::keyword("TIMEOUT", "time", "300s", "how long an unused mapping is kept"),
    ],
    handlers: &[
        Handler::read("count", "mappings made when packets came"),
        Handler::read("refused", "packets there was no address or port for"),
    ],
    annotates: true,
    drops: Reason::REASONS,
    cost: "A lock per frame; per packet one or two lookups in hash tables, and an update of the \
        checksum.",
    example: "a :: AddressTranslator(0, true, true, false, ::ffff:10.0.0.1 1024 65535);\n\
        Idle -> a -> ProtocolTranslator64 -> Discard;\n\
        Idle -> ProtocolTranslator46 -> [1] a [1] -> Discard;",
    make: |make| match Translator::new(make) {
        Some(translator) => Box::new(translator),
        None => Box::new(Inert),
    },
    ..Class::here()
};

struct Translator {
    mappings: Arc<Mutex<Mappings>>,
}

/// The arguments, read one after the other.
struct Reader<'m, 'a> {
    make: &'m mut ElementBuilder<'a>,
    arguments: Vec<String>,
    at: usize,
}

impl Reader<'_, '_> {
    fn next<T: Value>(&mut self, what: &str) -> Option<T> {
        let at = self.at;
        self.at += 1;
        let value = self.arguments.get(at).and_then(|text| self.make.parse(text).ok());
        if value.is_none() {
            self.make.error(format!("argument {at} should be : {what}"));
        }
        value
    }

    /// The words of the next argument.
    fn next_words(&mut self) -> Vec<String> {
        self.at += 1;
        let text = self.arguments.get(self.at - 1).map_or("", String::as_str);
        words(text).into_iter().map(str::to_owned).collect()
    }

    fn address(&self, word: &str) -> Option<u128> {
        self.make.parse(word).ok().map(Ipv6Addr::to_bits)
    }

    fn port(&self, word: &str) -> Option<u16> {
        self.make.parse(word).ok()
    }

    fn plan(&mut self, timeout: u64) -> Option<Plan> {
        let mut plan = Plan::default();
        let count: u32 = self.next("integer")?;
        if count as usize > LIMIT {
            self.make.error(format!("too many mappings, at most {LIMIT}"));
            return None;
        }
        if count > 0 {
            plan.fixed_ports = self.next("bool").unwrap_or(false);
        }
        for _ in 0..count {
            let at = self.at;
            let words = self.next_words();
            match self.fixed(&words, plan.fixed_ports) {
                Some(ends) => plan.fixed.push(ends),
                None => {
                    let what = if plan.fixed_ports {
                        "<IP6Address> <port> <IP6Address> <port>"
                    } else {
                        "<IP6Address> <IP6Address>"
                    };
                    self.make.error(format!("argument {at} should be : {what}"));
                }
            }
        }
        if !self.next("bool")? {
            return Some(plan);
        }
        let ports = self.next("bool")?;
        let way = if self.next("bool")? { Direction::In } else { Direction::Out };
        let ends = if ports { self.ports() } else { self.addresses() };
        plan.places = Some(Places { way, ends, ports, timeout });
        Some(plan)
    }

    fn fixed(&self, words: &[String], ports: bool) -> Option<(Endpoint, Endpoint)> {
        let end = |address: &str, port| Some(Endpoint { address: self.address(address)?, port });
        match (words, ports) {
            ([inside, outside], false) => Some((end(inside, 0)?, end(outside, 0)?)),
            ([inside, port, outside, mapped], true) => {
                Some((end(inside, self.port(port)?)?, end(outside, self.port(mapped)?)?))
            }
            _ => None,
        }
    }

    fn addresses(&mut self) -> Vec<Endpoint> {
        let mut ends = Vec::new();
        // As Click counts them: from the bool that says whether there are any.
        let before = self.at - 3;
        while self.at < self.arguments.len() && ends.len() < LIMIT {
            let word = self.next_words().concat();
            match self.address(&word) {
                Some(address) => ends.push(Endpoint { address, port: 0 }),
                None => {
                    let at = self.at - 1 - before;
                    self.make.error(format!("argument {at} should be : <IP6Address>"));
                }
            }
        }
        ends
    }

    fn ports(&mut self) -> Vec<Endpoint> {
        let words = self.next_words();
        let range = match &words[..] {
            [address, first, last] => {
                self.address(address).zip(self.port(first).zip(self.port(last)))
            }
            _ => None,
        };
        let Some((address, (first, last))) = range.filter(|(_, (first, last))| first <= last)
        else {
            self.make.error("argument 3 should be : <IP6Address> <unsigned char> <unsigned char>");
            return Vec::new();
        };
        (first..=last).map(|port| Endpoint { address, port }).collect()
    }
}

impl Translator {
    fn new(make: &mut ElementBuilder<'_>) -> Option<Translator> {
        let Seconds::<3>(timeout) = make.or("TIMEOUT", Seconds(300_000));
        let arguments = make.rest();
        let plan = Reader { make, arguments, at: 0 }.plan(timeout.into())?;
        // Made here, as making shared state cannot fail.
        let mappings = match Mappings::new(plan) {
            Ok(mappings) => mappings,
            Err(error) => {
                make.error(format!("no memory for mappings: {error}"));
                return None;
            }
        };
        Some(Translator { mappings: make.shared(|| Mutex::new(mappings)) })
    }

    fn mappings(&self) -> MutexGuard<'_, Mappings> {
        // Nothing panics while it is held.
        self.mappings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Element for Translator {
    fn push(&mut self, cx: &mut Context, port: usize, frame: &mut Frame) {
        let way = if port == 0 { Direction::Out } else { Direction::In };
        let now = milliseconds(cx);
        let mut mappings = self.mappings();
        cx.retain::<Writes, Reason>(frame, |packet| {
            let (bytes, meta) = packet.parts();
            rewrite::rewrite(bytes, way, &mut mappings, now)?;
            meta.destination = header::address(bytes, header::DESTINATION);
            header::mark(packet, 0);
            Ok(())
        });
        drop(mappings);
        if way == Direction::In {
            cx.out.emit_frame(1, frame);
        }
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        let Some(old) = old.downcast_mut::<Translator>() else { return };
        if !Arc::ptr_eq(&self.mappings, &old.mappings) {
            self.mappings().take_from(&mut old.mappings());
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "count" => Ok(self.mappings().count().to_string()),
            "refused" => Ok(self.mappings().refused.to_string()),
            _ => Err(HandlerError::missing(handler)),
        }
    }
}

#[cfg(test)]
mod tests;
