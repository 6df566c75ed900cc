//! `LookupIP6Route`: routes for IPv6.

use std::{
    net::Ipv6Addr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use linerate_graph::{
    Arg, Class, Context, DropReason, Element, ElementBuilder, Handler, HandlerError, HandlerResult,
    Inert, Ipv6OrPrefix, OffWorker, Right, Scope, Value, parse_integer,
};
use linerate_memory::Frame;
use linerate_tables::prefix::Address;

use super::{
    FAMILY,
    element::shared_table,
    family::Family,
    handlers::{full, lines},
    list::Order,
    route::{Route, parse_several, several_text},
    sending::{Reason, Sending},
    table::Table,
};
use linerate_element_support::address6;

pub(super) const CLASS: Class = Class {
    name: "LookupIP6Route",
    reconfigured: Some(Right::Write),
    family: FAMILY,
    summary: "routes IPv6 packets",
    description: "Looks up the destination annotation (GetIP6Address sets it) and \
        sends the packet by the output of the route that matches its longest part. A route with \
        a gateway other than `::` makes that the destination annotation. Packets no route is for \
        are dropped.\n\nOf routes for the same prefix the last counts. Handlers change the routes \
        while packets pass; replicas on several workers share one table. `lookup`, `flush` and \
        `reload` are not in Click, nor are routes with several next hops, \
        `2001:db8::/32 fe80::1 0*3 | fe80::2 1`, among which the flows are shared by weight.",
    ports: "1/-",
    processing: "h/h",
    args: &[Arg::rest("ROUTE", "ADDR/MASK [GW] OUT", "a route: where packets to these go")],
    handlers: &[
        Handler::write("add", "adds a route, ADDR/MASK [GW] OUT, or changes where it leads")
            .off_worker(),
        Handler::write("remove", "removes a route, ADDR/MASK, if there is one").off_worker(),
        Handler::write("ctrl", "`add ROUTE` or `remove ROUTE`").off_worker(),
        Handler::read("table", "the routes, a line each").off_worker(),
        Handler::read("lookup", "the output and gateway for an address, -1 without a route")
            .with_parameter()
            .off_worker(),
        Handler::button("flush", "removes all routes").off_worker(),
        Handler::write("reload", "replaces all routes by these, one a line: all or none")
            .off_worker(),
    ],
    annotates: true,
    drops: Reason::REASONS,
    cost: "Addresses of a frame go down a poptrie together, level by level. 64 MiB for the first 24 bits and \
        what the routes need, taken as it is touched; one table for all workers.",
    example: "InfiniteSource(LIMIT 10, STOP true)\n  \
        -> r :: LookupIP6Route(2001:db8::/32 0, ::/0 fe80::1 1) -> Discard; r [1] -> Discard;",
    make: |make| LookupIp6::make(make),
    ..Class::here()
};

struct LookupIp6 {
    outputs: usize,
    table: Arc<Table<u128>>,
    sending: Sending<u128>,
    /// Whether there ever was a route.
    used: bool,
}

impl LookupIp6 {
    fn make(make: &mut ElementBuilder<'_>) -> Box<dyn Element> {
        let new = || Table::new(Order::LowestFree, false).ok();
        let Some(table) = shared_table::<Table<u128>>(make, new) else { return Box::new(Inert) };
        let used = !make.rest().is_empty();
        if make.replica().index == 0 {
            configure(make, &table);
        }
        let (outputs, sending) = (make.outputs(), Sending::new(make.world.frame_limit));
        Box::new(LookupIp6 { outputs, table, sending, used })
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
    Route::new(address, mask, gateway.to_bits(), output)
}

fn parse(text: &str, scope: &Scope<'_>) -> Option<Route<u128>> {
    let text = text.trim();
    let (prefix, rest) = text.split_once(|c: char| c.is_ascii_whitespace())?;
    let prefix = Ipv6OrPrefix::parse(prefix, scope).ok()?;
    if rest.contains('|') {
        let key = route(prefix, Ipv6Addr::UNSPECIFIED, -1);
        let shares = parse_several(rest, |to| hop(to, scope))?;
        return Some(Route::several(key.address, key.mask, &shares));
    }
    let (gateway, output) = hop(rest, scope)?;
    (output >= 0).then(|| route(prefix, Ipv6Addr::from(gateway), output))
}

/// Reads `[GW] OUT`.
fn hop(text: &str, scope: &Scope<'_>) -> Option<(u128, i32)> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let (gateway, output) = match words[..] {
        [output] => (Ipv6Addr::UNSPECIFIED, output),
        [gateway, output] => (Ipv6Addr::parse(gateway, scope).ok()?, output),
        _ => return None,
    };
    Some((gateway.to_bits(), i32::try_from(parse_integer(output)?).ok()?))
}

/// Puts the routes of the configuration into the table.
fn configure(make: &mut ElementBuilder<'_>, table: &Table<u128>) {
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
    let most = routes.iter().map(|route| route.outputs().0).max();
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

    fn off_worker(&self) -> Option<Arc<dyn OffWorker>> {
        let (table, outputs) = (Arc::clone(&self.table), self.outputs);
        Some(Arc::new(Routes6 { table, outputs, used: AtomicBool::new(self.used) }))
    }
}

/// The table, as its handlers see it.
struct Routes6 {
    table: Arc<Table<u128>>,
    outputs: usize,
    /// Whether there ever was a route.
    used: AtomicBool,
}

impl Routes6 {
    fn add(&self, scope: &Scope<'_>, text: &str) -> Result<(), HandlerError> {
        let route = self.route(scope, text)?;
        self.used.store(true, Relaxed);
        let full = |_| HandlerError::refused("no memory to store the route");
        self.table.add(&route, true).map(drop).map_err(full)
    }

    fn route(&self, scope: &Scope<'_>, text: &str) -> Result<Route<u128>, HandlerError> {
        let (first, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let mut wrong = Vec::new();
        let route = if rest.contains('|') {
            let prefix = field::<Ipv6OrPrefix>("PREFIX", Some(first), scope, &mut wrong);
            let shares = parse_several(rest, |to| hop(to, scope));
            if shares.is_none() {
                wrong.push("expected [GATEWAY] OUTPUT[*WEIGHT], several with bars between".into());
            }
            prefix.zip(shares).map(|(prefix, shares)| {
                let key = route(prefix, Ipv6Addr::UNSPECIFIED, -1);
                Route::several(key.address, key.mask, &shares)
            })
        } else {
            one_hop(scope, text, &mut wrong)
        };
        let Some(route) = route.filter(|_| wrong.is_empty()) else {
            return Err(HandlerError::refused(wrong.join("\n")));
        };
        let (most, least) = route.outputs();
        if least < 0 || most >= self.outputs as i32 {
            return Err(HandlerError::refused("output port out of range"));
        }
        Ok(route)
    }

    fn remove(&self, scope: &Scope<'_>, text: &str) -> Result<(), HandlerError> {
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let mut wrong = Vec::new();
        let prefix = field::<Ipv6OrPrefix>("PREFIX", words.first().copied(), scope, &mut wrong);
        if words.len() > 1 {
            wrong.push("too many arguments".into());
        }
        match prefix.filter(|_| wrong.is_empty()) {
            None => Err(HandlerError::refused(wrong.join("\n"))),
            Some(prefix) => {
                // Click does not mind a route that is not there.
                let _ = self.table.remove(&route(prefix, Ipv6Addr::UNSPECIFIED, -1));
                Ok(())
            }
        }
    }

    fn reload(&self, scope: &Scope<'_>, text: &str) -> Result<(), HandlerError> {
        let routes: Result<Vec<_>, _> = lines(text).map(|line| self.route(scope, line)).collect();
        self.used.store(true, Relaxed);
        self.table.load(&routes?, true).map(drop).map_err(full)
    }
}

/// A route with one next hop, `ADDR/MASK [GW] OUT`.
fn one_hop(scope: &Scope<'_>, text: &str, wrong: &mut Vec<String>) -> Option<Route<u128>> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let (gateway, output) = match words[..] {
        [_, output] => (None, Some(output)),
        _ => (words.get(1).copied(), words.get(2).copied()),
    };
    let prefix = field::<Ipv6OrPrefix>("PREFIX", words.first().copied(), scope, wrong);
    let via = match words.len() {
        2 => Some(Ipv6Addr::UNSPECIFIED),
        _ => field::<Ipv6Addr>("GATEWAY", gateway, scope, wrong),
    };
    let output = field::<i32>("PORT", output, scope, wrong);
    if words.len() > 3 {
        wrong.push("too many arguments".into());
    }
    Some(route(prefix?, via?, output?))
}

impl OffWorker for Routes6 {
    fn read(&self, scope: &Scope<'_>, handler: &str, parameter: &str) -> HandlerResult {
        match handler {
            "table" => {
                let mut text = String::new();
                if self.used.load(Relaxed) {
                    text += "# Active routes\n";
                }
                self.table.for_each(|route| {
                    let (prefix, length) = (route.address.text(), route.mask.mask_text());
                    let to = match &route.several {
                        Some(shares) => several_text(shares, "::"),
                        None => format!("{}\t{}", route.gateway.text(), route.output),
                    };
                    text += &format!("{prefix}/{length}\t{to}\n");
                });
                Ok(text)
            }
            "lookup" => {
                let address = Ipv6Addr::parse(parameter.trim(), scope);
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

    fn write(&self, scope: &Scope<'_>, handler: &str, value: &str) -> HandlerResult {
        let value = value.trim();
        match handler {
            "add" => self.add(scope, value)?,
            "remove" => self.remove(scope, value)?,
            "ctrl" => match value.split_once(char::is_whitespace).unwrap_or((value, "")) {
                ("add", rest) => self.add(scope, rest.trim_start())?,
                ("remove", rest) => self.remove(scope, rest)?,
                _ => {
                    let text = "bad command, should be `add' or `remove'";
                    return Err(HandlerError::refused(text));
                }
            },
            "reload" => self.reload(scope, value)?,
            "flush" => self.table.load(&[], true).map(drop).map_err(full)?,
            _ => return Err(HandlerError::missing(handler)),
        }
        Ok(String::new())
    }
}
