//! `ICMPPingRewriter`: ICMP echo requests and their replies.

use linerate_graph::{Arg, Class, Handler};

use super::{
    FAMILY,
    kind::Kind,
    rewriter::{
        CAPACITY, DROPS, DST_ANNO, Flavour, MAPPING_CAPACITY, REAP_INTERVAL, REAP_TIME, REPLY_ANNO,
        Rewriter, SPECS, handlers,
    },
    times::{AllTimes, Times, milliseconds},
};

pub(super) const CLASS: Class = Class {
    name: "ICMPPingRewriter",
    family: FAMILY,
    summary: "rewrites addresses and identifiers of pings",
    description: "As `IPRewriter`, which see for inputs' specifications, for ICMP echo requests. Source ports \
        of patterns stand for identifiers. Replies get back what their request had before. Other \
        packets, replies nobody waits for among them, pass at inputs with `pass` and are dropped \
        at others.",
    ports: "1-/1-",
    processing: "h/h",
    args: &[
        SPECS,
        DST_ANNO,
        REPLY_ANNO,
        CAPACITY,
        MAPPING_CAPACITY,
        Arg::keyword("TIMEOUT", "seconds", "300", "life of flows"),
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
    example: "rw :: ICMPPingRewriter(pattern 1.0.0.1 1024-65535# - - 0 1); \
        FromIPSummaryDump(STOP true, FIELDS ip_src ip_dst ip_proto icmp_type, \
        DATA \"10.0.0.2 2.0.0.2 I echo\") -> rw -> Discard; rw [1] -> Discard;",
    make: |make| {
        let idle = milliseconds(make, "TIMEOUT").unwrap_or(300_000);
        let guarantee = milliseconds(make, "GUARANTEE").unwrap_or(Times::GUARANTEE);
        let times = Times::plain(idle, guarantee);
        Box::new(Rewriter::<Flow>::new(make, AllTimes { tcp: times, other: times }))
    },
    ..Class::EMPTY
};

struct Flow;

impl Flavour for Flow {
    const KIND: Kind = Kind::Ping;
}
