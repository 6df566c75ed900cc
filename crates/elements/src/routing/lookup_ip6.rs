//! `LookupIP6Route`: routes for IPv6.

use std::{net::Ipv6Addr, sync::Arc};

use linerate_graph::{
    Arg, Class, Context, Element, Handler, HandlerError, Inert, Ipv6OrPrefix, Make, Scope, Value,
    parse_integer,
};
use linerate_lookup::prefix::Address;
use linerate_memory::Frame;

use super::{
    FAMILY,
    element::shared_table,
    family::Family,
    list::Order,
    sending::Sending,
    table::{Route, Table},
};
use crate::address6;

pub(super) const CLASS: Class = Class {
    name: "LookupIP6Route",
    family: FAMILY,
    summary: "routes IPv6 packets",
    description: "Looks up the destination annotation (GetIP6Address sets it) and \
        sends the packet by the output of the route that matches its longest part. A route with \
        a gateway other than `::` makes that the destination annotation. Packets no route is for \
        are dropped.\n\nOf routes for the same prefix the last counts. Handlers change the routes \
        while packets pass; replicas on several workers share one table. `lookup` and `flush` are \
        not in Click.",
    ports: "1/-",
    processing: "h/h",
    args: &[Arg::rest("ROUTE", "ADDR/MASK [GW] OUT", "a route: where packets to these go")],
    handlers: &[
        Handler::write("add", "adds a route, ADDR/MASK [GW] OUT, or changes where it leads"),
        Handler::write("remove", "removes a route, ADDR/MASK, if there is one"),
        Handler::write("ctrl", "`add ROUTE` or `remove ROUTE`"),
        Handler::read("table", "the routes, a line each"),
        Handler::read("lookup", "the output and gateway for an address, -1 without a route")
            .with_parameter(),
        Handler::button("flush", "removes all routes"),
    ],
    annotates: true,
    drops: &["no route", "no buffer"],
    cost: "Addresses of a frame go down a poptrie together, level by level. 64 MiB for the first 24 bits and \
        what the routes need, taken as it is touched; one table for all workers.",
    example: "InfiniteSource(LIMIT 10, STOP true)\n  \
        -> r :: LookupIP6Route(2001:db8::/32 0, ::/0 fe80::1 1) -> Discard; r [1] -> Discard;",
    make: |make| LookupIp6::make(make),
    ..Class::EMPTY
};

struct LookupIp6 {
    outputs: usize,
    table: Arc<Table<u128>>,
    sending: Sending<u128>,
    /// Whether it is the replica that carries out what is written to all.
    writes: bool,
    /// Whether there ever was a route.
    used: bool,
}

impl LookupIp6 {
    fn make(make: &mut Make<'_>) -> Box<dyn Element> {
        let new = || Table::new(Order::LowestFree, false).ok();
        let Some(table) = shared_table::<u128>(make, new) else { return Box::new(Inert) };
        let first = make.replica().index == 0;
        let used = !make.rest().is_empty();
        if first {
            configure(make, &table);
        }
        let (outputs, sending) = (make.outputs(), Sending::new(make.world.frame_limit));
        Box::new(LookupIp6 { outputs, table, sending, writes: first, used })
    }

    fn add(&mut self, cx: &Context, text: &str) -> Result<(), HandlerError> {
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let scope = Scope { plan: cx.plan(), names: &cx.world().names, name: cx.name() };
        let mut wrong = Vec::new();
        let (gateway, output) = match words[..] {
            [_, output] => (None, Some(output)),
            _ => (words.get(1).copied(), words.get(2).copied()),
        };
        let prefix = field::<Ipv6OrPrefix>("PREFIX", words.first().copied(), &scope, &mut wrong);
        let has_gateway = words.len() != 2;
        let via = match has_gateway {
            true => field::<Ipv6Addr>("GATEWAY", gateway, &scope, &mut wrong),
            false => Some(Ipv6Addr::UNSPECIFIED),
        };
        let output = field::<i32>("PORT", output, &scope, &mut wrong);
        if words.len() > 3 {
            wrong.push("too many arguments".into());
        }
        let (Some(prefix), Some(via), Some(output), true) = (prefix, via, output, wrong.is_empty())
        else {
            return Err(HandlerError::refused(wrong.join("\n")));
        };
        if output < 0 || output >= self.outputs as i32 {
            return Err(HandlerError::refused("output port out of range"));
        }
        self.used = true;
        let route = route(prefix, via, output);
        let full = |_| HandlerError::refused("no memory to store the route");
        self.table.add(route, true).map(drop).map_err(full)
    }

    fn remove(&self, cx: &Context, text: &str) -> Result<(), HandlerError> {
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let scope = Scope { plan: cx.plan(), names: &cx.world().names, name: cx.name() };
        let mut wrong = Vec::new();
        let prefix = field::<Ipv6OrPrefix>("PREFIX", words.first().copied(), &scope, &mut wrong);
        if words.len() > 1 {
            wrong.push("too many arguments".into());
        }
        match prefix.filter(|_| wrong.is_empty()) {
            None => Err(HandlerError::refused(wrong.join("\n"))),
            Some(prefix) => {
                // Click does not mind a route that is not there.
                let _ = self.table.remove(route(prefix, Ipv6Addr::UNSPECIFIED, -1));
                Ok(())
            }
        }
    }
}

/// One word of a route.
fn field<T: Value>(
    name: &str,
    word: Option<&str>,
    scope: &Scope<'_>,
    wrong: &mut Vec<String>,
) -> Option<T> {
    let missing = || format!("{name}: required argument missing");
    let value = word
        .ok_or_else(missing)
        .and_then(|word| T::parse(word, scope).map_err(|error| format!("{name}: {error}")));
    value.map_err(|error| wrong.push(error)).ok()
}

fn route(prefix: Ipv6OrPrefix, gateway: Ipv6Addr, output: i32) -> Route<u128> {
    let Ipv6OrPrefix(prefix) = prefix;
    let mask = u128::mask(prefix.length.into());
    let address = prefix.address.to_bits() & mask;
    Route { address, mask, gateway: gateway.to_bits(), output }
}

fn parse(text: &str, scope: &Scope<'_>) -> Option<Route<u128>> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let (prefix, gateway, output) = match words[..] {
        [prefix, output] => (prefix, Ipv6Addr::UNSPECIFIED, output),
        [prefix, gateway, output] => (prefix, Ipv6Addr::parse(gateway, scope).ok()?, output),
        _ => return None,
    };
    let output = i32::try_from(parse_integer(output)?).ok()?;
    let prefix = Ipv6OrPrefix::parse(prefix, scope).ok()?;
    (output >= 0).then(|| route(prefix, gateway, output))
}

/// Puts the routes of the configuration into the table.
fn configure(make: &mut Make<'_>, table: &Table<u128>) {
    let (mut routes, mut failed) = (Vec::new(), false);
    for (at, text) in (1..).zip(make.rest()) {
        let scope = Scope { plan: make.plan(), names: &make.world.names, name: make.name() };
        match parse(&text, &scope) {
            Some(route) => routes.push(route),
            None => {
                make.error(format!("argument {at} should be DADDR/MASK [GW] OUTPUT"));
                failed = true;
            }
        }
    }
    if failed {
        return;
    }
    let most = routes.iter().map(|route| route.output).max();
    match most {
        None => make.warn("no routes"),
        Some(most) if most >= make.outputs() as i32 => {
            make.error(format!("need {} or more output ports", i64::from(most) + 1));
            return;
        }
        Some(_) => {}
    }
    if table.load(&routes, true).is_err() {
        make.error("no memory to store the routes");
    }
}

impl Element for LookupIp6 {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        self.sending.look_up(cx, frame, &self.table);
        self.sending.send(cx, frame);
    }

    fn read(
        &mut self,
        cx: &mut Context,
        handler: &str,
        parameter: &str,
    ) -> Result<String, HandlerError> {
        match handler {
            "table" => {
                let mut text = String::new();
                if self.used {
                    text += "# Active routes\n";
                }
                self.table.for_each(|route| {
                    let (prefix, length) = (route.address.text(), route.mask.mask_text());
                    let (gateway, output) = (route.gateway.text(), route.output);
                    text += &format!("{prefix}/{length}\t{gateway}\t{output}\n");
                });
                Ok(text)
            }
            "lookup" => {
                let scope = Scope { plan: cx.plan(), names: &cx.world().names, name: cx.name() };
                let address = Ipv6Addr::parse(parameter.trim(), &scope);
                let wrong = |_| HandlerError::refused("expected IPv6 address");
                let (gateway, output) = self.table.lookup(address.map_err(wrong)?.to_bits());
                let output = output.cast_signed();
                Ok(match gateway {
                    0 => output.to_string(),
                    _ => format!("{output} {}", address6::text(Ipv6Addr::from(gateway))),
                })
            }
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(
        &mut self,
        cx: &mut Context,
        handler: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        if !self.writes {
            return Ok(String::new());
        }
        let value = value.trim();
        match handler {
            "add" => self.add(cx, value)?,
            "remove" => self.remove(cx, value)?,
            "ctrl" => match value.split_once(char::is_whitespace).unwrap_or((value, "")) {
                ("add", rest) => self.add(cx, rest)?,
                ("remove", rest) => self.remove(cx, rest)?,
                _ => {
                    let text = "bad command, should be `add' or `remove'";
                    return Err(HandlerError::refused(text));
                }
            },
            "flush" => {
                let full = |_| HandlerError::refused("no memory to change the table");
                self.table.flush().map_err(full)?;
            }
            _ => return Err(HandlerError::missing(handler)),
        }
        Ok(String::new())
    }
}
