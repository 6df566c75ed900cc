//! `UDPRewriter`: UDP, and TCP without looking at connections.

use linerate_graph::{Arg, Class, Handler, Make};

use super::{
    arguments::{
        BASE, CAPACITY, DST_ANNO, MAPPING_CAPACITY, REAP_INTERVAL, REAP_TIME, REPLY_ANNO, SPECS,
        handlers,
    },
    kind::Kind,
    rewriter::{Flavour, Rewriter},
    times::{AllTimes, Times, milliseconds},
};

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

pub(super) const CLASS: Class = Class {
    name: "UDPRewriter",
    summary: "rewrites addresses and ports of UDP and TCP flows",
    description: "As `IPRewriter`, which see for inputs' specifications, with one table for TCP, \
        UDP and DCCP: a mapping holds for all of them. TCP connections have the same times as the \
        others, whatever happens in them.",
    args: &[
        SPECS,
        DST_ANNO,
        REPLY_ANNO,
        UDP_TIMEOUT,
        Arg::keyword("TIMEOUT", "seconds", "300", "the same as `UDP_TIMEOUT`"),
        UDP_STREAMING_TIMEOUT,
        Arg::keyword("STREAMING_TIMEOUT", "seconds", "that of the others", "the same"),
        UDP_GUARANTEE,
        Arg::keyword("GUARANTEE", "seconds", "5", "the same as `UDP_GUARANTEE`"),
        CAPACITY,
        MAPPING_CAPACITY,
        REAP_INTERVAL,
        REAP_TIME,
    ],
    handlers: handlers![
        Handler::read("table", "mappings, a line for each direction"),
        Handler::read("mappings", "mappings, an older name"),
    ],
    example: "rw :: UDPRewriter(pattern 1.0.0.1 1024-65535# - - 0 1); \
        FromIPSummaryDump(STOP true, FIELDS ip_src sport ip_dst dport ip_proto, \
        DATA \"10.0.0.2 5000 2.0.0.2 53 U\") -> rw -> Discard; rw [1] -> Discard;",
    make: |make| {
        let other = times(make);
        Box::new(Rewriter::<Udp>::new(make, AllTimes { tcp: other, other }))
    },
    file: file!(),
    ..BASE
};

struct Udp;

impl Flavour for Udp {
    const KIND: Kind = Kind::Udp;
}

fn times(make: &mut Make<'_>) -> Times {
    let mut time = |names: &[&str], default| {
        names.iter().filter_map(|name| milliseconds(make, name)).last().unwrap_or(default)
    };
    let idle = time(&["UDP_TIMEOUT", "TIMEOUT"], 300_000);
    let busy = time(&["UDP_STREAMING_TIMEOUT", "STREAMING_TIMEOUT"], idle);
    let guarantee = time(&["UDP_GUARANTEE", "GUARANTEE"], Times::GUARANTEE);
    Times { busy, ..Times::plain(idle, guarantee) }
}
