//! The classes for IPv4.

use linerate_graph::{Arg, Class, DropReason, Handler, Right};

use super::{
    FAMILY,
    element::{IpLookup, NoRoute, Style},
    list::Order,
    sending::Reason,
};

const ARGS: &[Arg] = &[Arg::rest(
    "ROUTE",
    "ADDR/MASK [GW] OUT",
    "a route: where packets to these addresses go; several with `|` between, each with a weight `*N`",
)];

const TABLE: Handler = Handler::read("table", "the routes, a line each").flags("$").off_worker();
pub(super) const LOOKUP: Handler =
    Handler::read("lookup", "the output and gateway for an address, -1 without a route")
        .with_parameter()
        .off_worker();
const ADD: Handler =
    Handler::write("add", "adds a route, ADDR/MASK [GW] OUT, unless there is one").off_worker();
const SET: Handler = Handler::write("set", "adds a route or changes where it leads").off_worker();
const REMOVE: Handler =
    Handler::write("remove", "removes a route, ADDR/MASK [[GW] OUT]").off_worker();
const CTRL: Handler = Handler::write(
    "ctrl",
    "several of `add ROUTE`, `set ROUTE`, `remove ROUTE`, one a line: all or none",
)
.off_worker();
const FLUSH: Handler = Handler::button("flush", "removes all routes").off_worker();
const RELOAD: Handler =
    Handler::write("reload", "replaces all routes by these, one a line: all or none").off_worker();

/// In the order Click declares them.
const CHANGES: &[Handler] = &[RELOAD, ADD, SET, REMOVE, CTRL, TABLE, LOOKUP];
const CHANGES_AND_FLUSH: &[Handler] = &[RELOAD, ADD, SET, REMOVE, CTRL, TABLE, LOOKUP, FLUSH];

pub(super) const COST: &str = "Addresses of a frame are looked up together in a DIR-24-8 structure, one \
    memory access each, two for routes longer than 24 bits, all asked for ahead. Memory: 32 MiB and what long routes need, taken as it \
    is touched; one table for all workers. While routes are \
    reloaded there are two such. A change costs a few microseconds for a default route and for one \
    longer than 16 bits, and a word for each 256 addresses a shorter one covers (4 million for one \
    of 2 bits). Packets do not wait for it: handlers are carried out by the thread of the \
    ControlSocket or whoever else calls them, a worker only where a Script on it does.";

/// Base of all classes.
pub(super) const BASE: Class = Class {
    family: FAMILY,
    reconfigured: Some(Right::Write),
    ports: "1/-",
    processing: "h/h",
    args: ARGS,
    annotates: true,
    drops: Reason::REASONS,
    cost: COST,
    ..Class::here()
};

macro_rules! description {
    ($more:literal) => {
        concat!(
            "Looks up the destination annotation (GetIPAddress, CheckIPHeader set it) and sends \
             the packet by the output of the route that matches its longest part. A route with a \
             gateway makes that the destination annotation. Packets no route is for are dropped.\
             \n\nOf routes for the same prefix in the configuration the first counts, with a \
             warning. Handlers change the routes while packets pass: each packet goes by the old \
             or the new table, and none is lost; what `ctrl` changes about a prefix is seen at once, \
             and so is a whole table given to `reload`. Replicas on several workers share one table.\
             \n\nNot in Click: `reload`, and routes with several next hops, \
             `10.0.0.0/8 10.1.0.1 1*3 | 10.2.0.1 2`, among which the flows (addresses, protocol and \
             ports) are shared by weight; a hop that changes moves only its own.\n\n",
            $more
        )
    };
}

pub(super) const RADIX: Class = Class {
    name: "RadixIPLookup",
    summary: "routes IPv4 packets: routes can be changed, and all removed at once",
    description: description!(
        "The table to take when nothing speaks for another. Routes are listed in the order they \
         were added in; a new one takes the place of the last removed."
    ),
    handlers: CHANGES_AND_FLUSH,
    example: "InfiniteSource(DATA \\<0a000001>, LIMIT 10, STOP true) -> GetIPAddress(0)\n  \
        -> r :: RadixIPLookup(10.0.0.0/8 0, 0/0 10.0.0.1 1) -> Discard; r [1] -> Discard;",
    make: |make| IpLookup::make(make, Style { order: Order::LastFreed, ..Style::PLAIN }),
    ..BASE
};

pub(super) const DIRECT: Class = Class {
    name: "DirectIPLookup",
    summary: "routes IPv4 packets by a table indexed with their addresses",
    description: description!(
        "Routes are listed by address. In Click this class has the quickest lookups; here all \
         classes do as it does."
    ),
    handlers: CHANGES_AND_FLUSH,
    example: "InfiniteSource(DATA \\<0a000001>, LIMIT 10, STOP true) -> GetIPAddress(0)\n  \
        -> r :: DirectIPLookup(10.0.0.0/8 0, 0/0 10.0.0.1 1) -> Discard; r [1] -> Discard;",
    make: |make| IpLookup::make(make, Style { no_route: NoRoute::Nothing, ..Style::PLAIN }),
    ..BASE
};

pub(super) const RANGE: Class = Class {
    name: "RangeIPLookup",
    summary: "routes IPv4 packets by a small table of ranges",
    description: description!(
        "Routes are listed by address. In Click this class has the smallest table, made anew with \
         every change; here it is DirectIPLookup under another name."
    ),
    handlers: CHANGES_AND_FLUSH,
    example: "InfiniteSource(DATA \\<0a000001>, LIMIT 10, STOP true) -> GetIPAddress(0)\n  \
        -> r :: RangeIPLookup(10.0.0.0/8 0, 0/0 10.0.0.1 1) -> Discard; r [1] -> Discard;",
    make: |make| IpLookup::make(make, Style { no_route: NoRoute::Nothing, ..Style::PLAIN }),
    ..BASE
};

pub(super) const LINEAR_STYLE: Style = Style {
    order: Order::FirstFree,
    noncontiguous_masks: true,
    no_route: NoRoute::Few("LinearIPLookup"),
};

pub(super) const LINEAR: Class = Class {
    name: "LinearIPLookup",
    summary: "routes IPv4 packets, also by masks that are not those of prefixes",
    description: description!(
        "Routes are listed in the order they were added in; a new one takes the first place that \
         is free. A mask need not be that of a prefix (`0.0.0.1/0.0.0.255`); of several routes \
         that match the first counts then, or a later one whose mask has all bits of the one \
         before and more. A table with such routes is searched from the start for every packet, \
         as Click does it for all."
    ),
    handlers: CHANGES,
    example: "InfiniteSource(DATA \\<0a000001>, LIMIT 10, STOP true) -> GetIPAddress(0)\n  \
        -> r :: LinearIPLookup(10.0.0.0/8 0, 0/0 10.0.0.1 1) -> Discard; r [1] -> Discard;",
    make: |make| IpLookup::make(make, LINEAR_STYLE),
    ..BASE
};

pub(super) const STATIC: Class = Class {
    name: "StaticIPLookup",
    summary: "routes IPv4 packets by routes that cannot be changed",
    description: description!("As LinearIPLookup, without the handlers that change routes."),
    handlers: &[TABLE, LOOKUP],
    example: "InfiniteSource(DATA \\<0a000001>, LIMIT 10, STOP true) -> GetIPAddress(0)\n  \
        -> r :: StaticIPLookup(10.0.0.0/8 0, 0/0 10.0.0.1 1) -> Discard; r [1] -> Discard;",
    make: |make| IpLookup::make(make, LINEAR_STYLE),
    ..BASE
};

pub(super) const SORTED: Class = Class {
    name: "SortedIPLookup",
    summary: "routes IPv4 packets by a sorted list (deprecated)",
    description: description!(
        "As LinearIPLookup, which Click recommends instead. Routes are listed behind those inside \
         them."
    ),
    handlers: CHANGES,
    example: "InfiniteSource(DATA \\<0a000001>, LIMIT 10, STOP true) -> GetIPAddress(0)\n  \
        -> r :: SortedIPLookup(10.0.0.0/8 0, 0/0 10.0.0.1 1) -> Discard; r [1] -> Discard;",
    make: |make| {
        make.warn("SortedIPLookup is deprecated; use LinearIPLookup or RadixIPLookup instead");
        IpLookup::make(make, Style { order: Order::Nested, ..LINEAR_STYLE })
    },
    ..BASE
};

pub(super) const LOOKUP_ROUTE: Class = Class {
    name: "LookupIPRoute",
    summary: "routes IPv4 packets: the name older configurations use",
    description: description!("RadixIPLookup by the name the first versions of Click had."),
    example: "InfiniteSource(DATA \\<0a000001>, LIMIT 10, STOP true) -> GetIPAddress(0)\n  \
        -> r :: LookupIPRoute(10.0.0.0/8 0, 0/0 10.0.0.1 1) -> Discard; r [1] -> Discard;",
    ..RADIX
};
