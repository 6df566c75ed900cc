//! Base class of rewriters, and their arguments.

use linerate_graph::{Arg, Class, DropReason, ElementBuilder, ElementRef, Handler, parse_integer};

use super::{
    FAMILY,
    batch_state::Reason,
    flow_set::FlowSet,
    registry::{CapacitySpec, looked_at},
    times::{AllTimes, Times, milliseconds},
};

/// The arguments all rewriters have.
pub(super) const SPECS: Arg =
    Arg::rest("INPUTSPEC", "specification", "what becomes of new flows, one per input");
pub(super) const REAP_INTERVAL: Arg =
    Arg::keyword("REAP_INTERVAL", "seconds", "900", "how often flows that have ended are removed");
pub(super) const REAP_TIME: Arg =
    Arg::keyword("REAP_TIME", "seconds", "900", "older name of `REAP_INTERVAL`");
pub(super) const MAPPING_CAPACITY: Arg = Arg::keyword(
    "MAPPING_CAPACITY",
    "flows or element",
    "1048576",
    "most flows, or the rewriter to share a number of flows with",
);
pub(super) const CAPACITY: Arg =
    Arg::keyword("CAPACITY", "flows or element", "1048576", "the same");
pub(super) const DST_ANNO: Arg =
    Arg::keyword("DST_ANNO", "bool", "true", "sets the destination annotation too");
pub(super) const REPLY_ANNO: Arg = Arg::keyword(
    "REPLY_ANNO",
    "annotation",
    "none",
    "byte that replies get from the first packet of the flow",
);

pub(super) const UDP_TIMEOUT: Arg = Arg::keyword("UDP_TIMEOUT", "seconds", "300", "life of flows");
pub(super) const UDP_STREAMING_TIMEOUT: Arg = Arg::keyword(
    "UDP_STREAMING_TIMEOUT",
    "seconds",
    "that of the others",
    "life of flows of three packets and both directions",
);
pub(super) const UDP_GUARANTEE: Arg = Arg::keyword(
    "UDP_GUARANTEE",
    "seconds",
    "5",
    "for how long after a packet a flow is not given up for another",
);

/// The arguments of those that know TCP connections, behind others.
macro_rules! tcp_args {
    ($($more:expr),* $(,)?) => {
        &[
            $($more,)*
            Arg::keyword("TCP_NODATA_TIMEOUT", "seconds", "300", "life of other connections"),
            Arg::keyword(
                "TCP_GUARANTEE",
                "seconds",
                "5",
                "for how long after a packet a connection is not given up for another",
            ),
            Arg::keyword("TIMEOUT", "seconds", "86400", "the same as `TCP_TIMEOUT`"),
            Arg::keyword(
                "TCP_TIMEOUT",
                "seconds",
                "86400",
                "life of connections with payload both ways",
            ),
            Arg::keyword(
                "TCP_DONE_TIMEOUT",
                "seconds",
                "240",
                "life of connections both sides have closed",
            ),
            Arg::keyword("GUARANTEE", "seconds", "5", "the same as `TCP_GUARANTEE`"),
            DST_ANNO,
            REPLY_ANNO,
            CAPACITY,
            MAPPING_CAPACITY,
            REAP_INTERVAL,
            REAP_TIME,
        ]
    };
}

/// The arguments of `TCPRewriter`, and of `IPRewriter`.
pub(super) const TCP_ARGS: &[Arg] = tcp_args![SPECS];
pub(super) const IP_ARGS: &[Arg] =
    tcp_args![SPECS, UDP_TIMEOUT, UDP_STREAMING_TIMEOUT, UDP_GUARANTEE];

/// The handlers all rewriters have.
macro_rules! handlers {
    ($($more:expr),* $(,)?) => {
        &[
            $($more,)*
            linerate_graph::Handler::read("table_size", "flows"),
            linerate_graph::Handler::read("nmappings", "flows, an older name"),
            linerate_graph::Handler::read(
                "mapping_failures",
                "flows there was no room or nothing left of a range for",
            ),
            linerate_graph::Handler::read(
                "patterns",
                "the specification of each input, and its flows in brackets",
            ),
            linerate_graph::Handler::read("size", "flows of all rewriters it shares a capacity with"),
            linerate_graph::Handler::value("capacity", "most flows"),
            linerate_graph::Handler::write("clear", "removes all flows"),
        ]
    };
}
pub(super) use handlers;

/// Base of the classes of rewriters.
pub(super) const BASE: Class = Class {
    family: FAMILY,
    ports: "1-/1-",
    processing: "h/h",
    drops: Reason::REASONS,
    annotates: true,
    observes_state_of: looked_at,
    cost: "That of `IPRewriter`.",
    ..Class::here()
};

/// The handlers of those with one table.
pub(super) const PLAIN_HANDLERS: &[Handler] = handlers![
    Handler::read("table", "mappings, a line for each direction"),
    Handler::read("mappings", "mappings, an older name").flags("D"),
];

/// Life of a flow, where that does not depend on its kind.
const GUARANTEE: Arg = Arg::keyword(
    "GUARANTEE",
    "seconds",
    "5",
    "for how long after a packet a flow is not given up for another",
);

/// Arguments of those for which all flows are alike, addresses or pairs of them.
pub(super) const ADDRESS_ARGS: &[Arg] = &[
    SPECS,
    REPLY_ANNO,
    CAPACITY,
    MAPPING_CAPACITY,
    Arg::keyword("TIMEOUT", "seconds", "7200", "life of flows"),
    GUARANTEE,
    REAP_INTERVAL,
    REAP_TIME,
];

/// Arguments of the one for pings.
pub(super) const PING_ARGS: &[Arg] = &[
    SPECS,
    DST_ANNO,
    REPLY_ANNO,
    CAPACITY,
    MAPPING_CAPACITY,
    Arg::keyword("TIMEOUT", "seconds", "300", "life of flows"),
    GUARANTEE,
    REAP_INTERVAL,
    REAP_TIME,
];

/// The times of those, of which flows live for `idle` milliseconds unless the
/// arguments say otherwise.
pub(super) fn plain_times(make: &mut ElementBuilder<'_>, idle: u64) -> AllTimes {
    let idle = milliseconds(make, "TIMEOUT").unwrap_or(idle);
    let guarantee = milliseconds(make, "GUARANTEE").unwrap_or(Times::GUARANTEE);
    let times = Times::plain(idle, guarantee);
    AllTimes { tcp: times, other: times }
}

/// Reads `MAPPING_CAPACITY`; `None` when it is wrong, which is reported.
pub(super) fn wanted(make: &mut ElementBuilder<'_>) -> Option<CapacitySpec> {
    let name = if make.is_given("MAPPING_CAPACITY") { "MAPPING_CAPACITY" } else { "CAPACITY" };
    let Some(text) = make.get::<String>(name) else {
        return Some(CapacitySpec::Flows(FlowSet::DEFAULT_CAPACITY));
    };
    if let Some(number) = parse_integer(&text) {
        let flows = usize::try_from(number.max(0)).unwrap_or(usize::MAX);
        return Some(CapacitySpec::Flows(flows.min(FlowSet::LIMIT)));
    }
    if let Ok(ElementRef(at)) = make.parse(&text)
        && super::is_rewriter(make.plan().elements[at].class)
    {
        return Some(CapacitySpec::SharedWith(at));
    }
    make.error("bad MAPPING_CAPACITY");
    None
}
