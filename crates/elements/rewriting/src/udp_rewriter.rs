//! `UDPRewriter`: UDP, and TCP without looking at connections.

use linerate_graph::{Arg, Class, ElementBuilder};

use super::{
    arguments::{
        BASE, CAPACITY, DST_ANNO, MAPPING_CAPACITY, PLAIN_HANDLERS, REAP_INTERVAL, REAP_TIME,
        REPLY_ANNO, SPECS, UDP_GUARANTEE, UDP_STREAMING_TIMEOUT, UDP_TIMEOUT,
    },
    rewriter::Rewriter,
    rewriter_type::{RewriterKind, RewriterType},
    times::{AllTimes, Times, last},
};

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
    handlers: PLAIN_HANDLERS,
    example: "rw :: UDPRewriter(pattern 1.0.0.1 1024-65535# - - 0 1); \
        FromIPSummaryDump(STOP true, FIELDS ip_src sport ip_dst dport ip_proto, \
        DATA \"10.0.0.2 5000 2.0.0.2 53 U\") -> rw -> Discard; rw [1] -> Discard;",
    make: |make| {
        let other = times(
            make,
            &["UDP_TIMEOUT", "TIMEOUT"],
            &["UDP_STREAMING_TIMEOUT", "STREAMING_TIMEOUT"],
            &["UDP_GUARANTEE", "GUARANTEE"],
        );
        Box::new(Rewriter::<Udp>::new(make, AllTimes { tcp: other, other }))
    },
    file: file!(),
    ..BASE
};

struct Udp;

impl RewriterType for Udp {
    const KIND: RewriterKind = RewriterKind::Udp;
}

/// The times of UDP, by the names that the class has for them.
pub(super) fn times(
    make: &mut ElementBuilder<'_>,
    idle: &[&str],
    streaming: &[&str],
    guarantee: &[&str],
) -> Times {
    let idle = last(make, idle, 300_000);
    let busy = last(make, streaming, idle);
    Times { busy, ..Times::plain(idle, last(make, guarantee, Times::GUARANTEE)) }
}
