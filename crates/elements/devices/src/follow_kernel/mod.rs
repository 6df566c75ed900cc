//! `FollowKernel`: copies the host's routes and neighbours to the graph's tables.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

use linerate_graph::{
    Answer, Arg, Class, Context, Element, ElementBuilder, ElementRef, Handler, HandlerError,
    HandlerRef, HandlerResult, Next, Role,
};
use linerate_linux::interface::{MAIN_TABLE, Prefix};
use linerate_memory::Frame;
use linerate_port::{Interest, Wake};

use self::follower::{Device, Follower, Hop, Notice, RouteTarget};
use super::FAMILY;

mod follower;

/// Changes passed on in one run of the task: packets wait for them.
const BURST: usize = 32;
/// Changes that may be under way.
const WAITING: usize = 4096;

pub(super) const CLASS: Class = Class {
    name: "FollowKernel",
    family: FAMILY,
    summary: "programs tables with the host's routes and neighbours",
    description: "What `ip route`, routing daemons and the kernel itself decide, the elements \
        `ROUTES` (IPv4) and `ROUTES6` (IPv6), any of the elements that look routes up, do: as \
        soon as a route changes, theirs does. Each `DEVICE` names an interface, the output that \
        packets to it take, and possibly the element that knows its neighbours, as \
        `eth1 0 arp1`: an ARPTable, or an ARPQuerier, which then needs not ask for those the \
        kernel knows.\n\n\
        Routes through interfaces that are not named are not taken over, so that packets for them \
        go by a less specific route or none; give them an output with `OTHERS`, for instance one \
        that leads to the host. `REFUSED` is the output for routes that are `unreachable`, \
        `blackhole` or `prohibit`; without it, `OTHERS`. Of a route with several hops those \
        through named interfaces are taken, with their weights. Routes that the configuration or somebody else has \
        put into the tables stay, but for those to a prefix that the kernel has a route to. One of \
        these, the default route, is put back when the kernel's goes: `DEFAULT` says where it led.\n\n\
        It follows the network namespace it is started in. When the configuration is replaced, \
        routes that have gone meanwhile are removed.",
    args: &[
        Arg::required("ROUTES", "element", "where IPv4 routes go; `-` for nowhere"),
        Arg::rest("DEVICE", "INTERFACE OUTPUT [NEIGHBORS]", "an interface"),
        Arg::keyword("ROUTES6", "element", "nowhere", "where IPv6 routes go"),
        Arg::keyword("TABLE", "number", "254: main", "the kernel's table"),
        Arg::keyword("OTHERS", "output", "none", "the output for routes through other interfaces"),
        Arg::keyword(
            "DEFAULT",
            "output",
            "none",
            "the output for what the kernel has no route for",
        ),
        Arg::keyword("REFUSED", "output", "OTHERS", "the output for routes that refuse packets"),
    ],
    handlers: &[
        Handler::count("routes", "routes taken over"),
        Handler::count("neighbors", "neighbours taken over"),
        Handler::count("skipped", "routes not taken over for want of an output"),
        Handler::count("refused", "changes that a table has refused"),
        Handler::read("complete", "whether all there was at the start has been taken over"),
        Handler::read("table", "the routes taken over, a line each"),
    ],
    role: Role::Information,
    cost: "Nothing per packet. The kernel is listened to on a thread of its own, and routes are \
        written on another; 32 changes at a time are passed on between packets.",
    example: "rt :: LinearIPLookup(0/0 0); FollowKernel(rt, lo 1, OTHERS 0);\n  \
        InfiniteSource(DATA \\<7f000001>, LIMIT 10, STOP true) -> GetIPAddress(0) -> rt -> Discard;\n  \
        rt [1] -> Discard;",
    make: |make| Box::new(FollowKernel::new(make)),
    ..Class::here()
};

/// A table of routes.
struct Table {
    /// Writes a route, whether there is one or not.
    set: HandlerRef,
    remove: HandlerRef,
}

/// An interface packets can be sent to.
struct Named {
    device: String,
    output: u32,
    neighbours: Option<usize>,
}

struct FollowKernel {
    tables: [Option<Table>; 2],
    named: Vec<Named>,
    table: u32,
    others: Option<u32>,
    refused: Option<u32>,
    /// Output of the default route that is put back.
    default: Option<u32>,
    follower: Option<Follower>,
    /// Notices taken and not yet acted upon.
    notices: Vec<Notice>,
    /// Routes taken over, as they were written behind the prefix.
    routes: BTreeMap<Prefix, String>,
    /// Routes the element before this one had taken over, until the present ones are known.
    inherited: BTreeSet<Prefix>,
    /// Neighbours taken over, by interface and address, and the element that has them.
    neighbours: BTreeMap<(u32, IpAddr), usize>,
    skipped: BTreeSet<Prefix>,
    /// Answers to writes that are outstanding.
    answers: VecDeque<Answer>,
    failures: u64,
    complete: bool,
}

impl FollowKernel {
    fn new(make: &mut ElementBuilder<'_>) -> FollowKernel {
        let routes = match make.get::<String>("ROUTES") {
            Some(name) if name == "-" => None,
            Some(name) => table(make, "ROUTES", &name),
            None => None,
        };
        let routes6 = make.get::<String>("ROUTES6");
        let routes6 = routes6.and_then(|name| table(make, "ROUTES6", &name));
        let mut named: Vec<Named> = Vec::new();
        for argument in make.rest() {
            match device(make, &argument) {
                Ok(one) if named.iter().any(|other| other.device == one.device) => {
                    make.error(format!("DEVICE: '{}' is named twice", one.device));
                }
                Ok(one) => named.push(one),
                Err(error) => make.error(format!("DEVICE: {error}")),
            }
        }
        let others = make.get("OTHERS");
        FollowKernel {
            tables: [routes, routes6],
            named,
            table: make.or("TABLE", MAIN_TABLE),
            others,
            refused: make.get("REFUSED").or(others),
            default: make.get("DEFAULT"),
            follower: None,
            notices: Vec::new(),
            routes: BTreeMap::new(),
            inherited: BTreeSet::new(),
            neighbours: BTreeMap::new(),
            skipped: BTreeSet::new(),
            answers: VecDeque::new(),
            failures: 0,
            complete: false,
        }
    }

    fn act(&mut self, cx: &mut Context, notice: Notice) {
        match notice {
            Notice::Route(prefix, way) => self.set_route(cx, prefix, way),
            Notice::Neighbour { device, address, mac } => {
                self.set_neighbour(cx, device, address, mac);
            }
            Notice::DumpComplete => {
                self.complete = true;
                let gone = std::mem::take(&mut self.inherited);
                gone.into_iter().for_each(|prefix| self.remove_route(cx, prefix));
            }
            Notice::Failed(reason) => {
                let text = format!("{}: {reason}; routes are no longer followed\n", cx.name());
                cx.console().report(&text);
                self.follower = None;
            }
        }
    }

    fn set_route(&mut self, cx: &mut Context, prefix: Prefix, way: RouteTarget) {
        let route = match &way {
            RouteTarget::None => None,
            RouteTarget::Refused => self.refused.map(|output| output.to_string()),
            RouteTarget::Through(hops) => self.choose(hops),
        };
        let Some(table) = &self.tables[usize::from(prefix.0.is_ipv6())] else { return };
        let inherited = self.inherited.remove(&prefix);
        self.skipped.remove(&prefix);
        if let Some(route) = route {
            let (text, set) = (format!("{}/{} {route}", prefix.0, prefix.1), table.set.clone());
            self.write(cx, &set, &text);
            self.routes.insert(prefix, route);
            return;
        }
        if !matches!(way, RouteTarget::None) {
            self.skipped.insert(prefix);
        }
        if self.routes.remove(&prefix).is_some() || inherited {
            self.remove_route(cx, prefix);
        }
    }

    fn remove_route(&mut self, cx: &mut Context, (address, length): Prefix) {
        let Some(table) = &self.tables[usize::from(address.is_ipv6())] else { return };
        match self.default.filter(|_| length == 0) {
            Some(output) => {
                let set = table.set.clone();
                self.write(cx, &set, &format!("{address}/0 {output}"));
            }
            None => {
                let remove = table.remove.clone();
                self.write(cx, &remove, &format!("{address}/{length}"));
            }
        }
    }

    /// Gateways, outputs and, if there are several, weights of the hops there is
    /// an output for.
    fn choose(&self, hops: &[Hop]) -> Option<String> {
        let hop = |(gateway, (_, name), weight): &Hop| {
            let named = self.named.iter().find(|named| Some(&named.device) == name.as_ref())?;
            let gateway = gateway.map_or(String::new(), |gateway| format!("{gateway} "));
            Some((format!("{gateway}{}", named.output), *weight))
        };
        let mut through: Vec<_> = hops.iter().filter_map(hop).collect();
        match &through[..] {
            [] => Some(self.others?.to_string()),
            [_] => through.pop().map(|(to, _)| to),
            _ => {
                let all = through.iter().map(|(to, weight)| format!("{to}*{weight}"));
                Some(all.collect::<Vec<_>>().join(" | "))
            }
        }
    }

    /// Writes a handler off the worker, in order.
    fn write(&mut self, cx: &mut Context, handler: &HandlerRef, text: &str) {
        match cx.write_off_worker(handler, text) {
            Some(answer) => self.answers.push_back(answer),
            None => self.failures += u64::from(cx.write_handler(handler, text).is_err()),
        }
    }

    /// Collects the answers to writes.
    fn settle(&mut self) {
        while let Some(done) = self.answers.front().and_then(Answer::outcome) {
            self.failures += u64::from(done.is_err());
            self.answers.pop_front();
        }
    }

    fn set_neighbour(
        &mut self,
        cx: &mut Context,
        (number, name): Device,
        address: IpAddr,
        mac: Option<[u8; 6]>,
    ) {
        let key = (number, address);
        let before = self.neighbours.remove(&key);
        let named = self.named.iter().find(|named| Some(&named.device) == name.as_ref());
        let element = named.and_then(|named| named.neighbours).or(before);
        let Some(element) = element else { return };
        let of = |handler: &str| HandlerRef { element: Some(element), handler: handler.into() };
        let done = match mac {
            Some([a, b, c, d, e, f]) => {
                self.neighbours.insert(key, element);
                let text = format!("{address} {a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}");
                cx.write_handler(&of("insert"), &text)
            }
            None if before.is_some() => cx.write_handler(&of("delete"), &address.to_string()),
            None => return,
        };
        self.failures += u64::from(done.is_err());
    }

    fn list(&self) -> String {
        let line =
            |(prefix, route): (&Prefix, &String)| format!("{}/{} {route}\n", prefix.0, prefix.1);
        self.routes.iter().map(line).collect()
    }
}

/// The element an argument names and the handlers of it that change routes.
fn table(make: &mut ElementBuilder<'_>, argument: &str, name: &str) -> Option<Table> {
    let found = make.parse::<ElementRef>(name).map_err(|error| format!("{argument}: {error}"));
    let ElementRef(element) = found.map_err(|error| make.error(error)).ok()?;
    let class = make.plan().elements[element].class;
    let has = |handler: &str| class.handler(handler).is_some_and(|found| found.access.writes());
    let of = |handler: &str| HandlerRef { element: Some(element), handler: handler.into() };
    // Where there is no `set`, `add` changes a route as well.
    match (["set", "add"].into_iter().find(|handler| has(handler)), has("remove")) {
        (Some(set), true) => Some(Table { set: of(set), remove: of("remove") }),
        _ => {
            make.error(format!("{argument}: '{name}' has no routes that can be changed"));
            None
        }
    }
}

fn device(make: &ElementBuilder<'_>, text: &str) -> Result<Named, String> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let (device, output, element) = match words[..] {
        [device, output] => (device, output, None),
        [device, output, element] => (device, output, Some(element)),
        _ => return Err(format!("'{text}' is not INTERFACE OUTPUT [NEIGHBORS]")),
    };
    let output = make.parse(output).map_err(|error| format!("OUTPUT: {error}"))?;
    let neighbours = match element {
        None => None,
        Some(name) => {
            let ElementRef(element) = make.parse(name)?;
            let class = make.plan().elements[element].class;
            if ["insert", "delete"].iter().any(|handler| class.handler(handler).is_none()) {
                return Err(format!("'{name}' has no neighbours that can be changed"));
            }
            Some(element)
        }
    };
    Ok(Named { device: device.into(), output, neighbours })
}

impl Element for FollowKernel {
    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        self.follower = Some(Follower::start(self.table)?);
        cx.schedule();
        Ok(())
    }

    fn run(&mut self, cx: &mut Context, _: &mut Frame) -> Next {
        self.settle();
        let Some(follower) = &self.follower else { return Next::Sleep };
        if self.answers.len() > WAITING {
            // The task is run when one is done.
            return Next::Wait;
        }
        let mut notices = std::mem::take(&mut self.notices);
        let more = follower.take(BURST, &mut notices);
        notices.drain(..).for_each(|notice| self.act(cx, notice));
        self.notices = notices;
        if more { Next::Again } else { Next::Wait }
    }

    fn wakes<'a>(&'a mut self, add: &mut dyn FnMut(Wake<'a>)) {
        if let Some(follower) = &self.follower {
            add(Wake::Fd(follower.bell(), Interest::Read));
        }
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<FollowKernel>() {
            self.inherited = old.routes.keys().chain(&old.inherited).copied().collect();
        }
    }

    fn close(&mut self, _: &mut Context) {
        self.follower = None;
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        self.settle();
        Ok(match handler {
            "routes" => self.routes.len().to_string(),
            "neighbors" => self.neighbours.len().to_string(),
            "skipped" => self.skipped.len().to_string(),
            "refused" => self.failures.to_string(),
            "complete" => (self.complete && self.answers.is_empty()).to_string(),
            "table" => self.list(),
            _ => return Err(HandlerError::missing(handler)),
        })
    }
}
