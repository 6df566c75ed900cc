//! `IPAddrPairRewriter`: pairs of addresses, whatever the protocol.

use linerate_graph::{Arg, Class, Handler};

use super::{
    FAMILY,
    kind::Kind,
    rewriter::{
        CAPACITY, DROPS, Flavour, MAPPING_CAPACITY, REAP_INTERVAL, REAP_TIME, REPLY_ANNO, Rewriter,
        SPECS, handlers,
    },
    times::{AllTimes, Times, milliseconds},
};

pub(super) const CLASS: Class = Class {
    name: "IPAddrPairRewriter",
    family: FAMILY,
    summary: "rewrites both addresses of IP packets",
    description: "As `IPRewriter`, which see for inputs' specifications, for packets of any protocol and \
        fragments, without ports: `pattern SADDR DADDR FOUTPUT ROUTPUT`, where `SADDR` may be a \
        range. A flow is a pair of addresses.",
    ports: "1-/1-",
    processing: "h/h",
    args: &[
        SPECS,
        REPLY_ANNO,
        CAPACITY,
        MAPPING_CAPACITY,
        Arg::keyword("TIMEOUT", "seconds", "7200", "life of flows"),
        Arg::keyword(
            "GUARANTEE",
            "seconds",
            "5",
            "for how long after a packet a flow is not given up for another",
        ),
        REAP_INTERVAL,
        REAP_TIME,
    ],
    handlers: handlers![
        Handler::read("table", "mappings, a line for each direction"),
        Handler::read("mappings", "mappings, an older name"),
    ],
    drops: DROPS,
    annotates: true,
    cost: "That of `IPRewriter`.",
    example: "rw :: IPAddrPairRewriter(pattern 1.0.0.1-1.0.0.9# 2.0.0.3 0 1); \
        FromIPSummaryDump(STOP true, FIELDS ip_src ip_dst ip_proto, \
        DATA \"10.0.0.2 2.0.0.2 50\") -> rw -> Discard; rw [1] -> Discard;",
    make: |make| {
        let idle = milliseconds(make, "TIMEOUT").unwrap_or(7_200_000);
        let guarantee = milliseconds(make, "GUARANTEE").unwrap_or(Times::GUARANTEE);
        let times = Times::plain(idle, guarantee);
        Box::new(Rewriter::<Flow>::new(make, AllTimes { tcp: times, other: times }))
    },
    ..Class::EMPTY
};

struct Flow;

impl Flavour for Flow {
    const KIND: Kind = Kind::Pair;
}
