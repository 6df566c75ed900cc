//! `TCPRewriter`: TCP, sequence numbers included.

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

pub(super) const TCP_TIMEOUT: Arg =
    Arg::keyword("TCP_TIMEOUT", "seconds", "86400", "life of connections with payload both ways");
pub(super) const TCP_DONE_TIMEOUT: Arg = Arg::keyword(
    "TCP_DONE_TIMEOUT",
    "seconds",
    "240",
    "life of connections both sides have closed",
);
pub(super) const TCP_NODATA_TIMEOUT: Arg =
    Arg::keyword("TCP_NODATA_TIMEOUT", "seconds", "300", "life of other connections");
pub(super) const TCP_GUARANTEE: Arg = Arg::keyword(
    "TCP_GUARANTEE",
    "seconds",
    "5",
    "for how long after a packet a connection is not given up for another",
);

pub(super) const CLASS: Class = Class {
    name: "TCPRewriter",
    summary: "rewrites addresses and ports of TCP flows",
    description: "As `IPRewriter`, which see for inputs' specifications, for TCP alone. It also \
        changes sequence and acknowledgement numbers, selective ones included, where an element in \
        front of it (`FTPPortMapper`) has made a payload longer or shorter.",
    args: &[
        SPECS,
        TCP_NODATA_TIMEOUT,
        TCP_GUARANTEE,
        Arg::keyword("TIMEOUT", "seconds", "86400", "the same as `TCP_TIMEOUT`"),
        TCP_TIMEOUT,
        TCP_DONE_TIMEOUT,
        Arg::keyword("GUARANTEE", "seconds", "5", "the same as `TCP_GUARANTEE`"),
        DST_ANNO,
        REPLY_ANNO,
        CAPACITY,
        MAPPING_CAPACITY,
        REAP_INTERVAL,
        REAP_TIME,
    ],
    handlers: handlers![
        Handler::read("table", "mappings, a line for each direction"),
        Handler::read("mappings", "mappings, an older name"),
        Handler::read("lookup", "what a flow `SADDR SPORT DADDR DPORT` is rewritten to")
            .with_parameter(),
    ],
    example: "rw :: TCPRewriter(pattern - - 10.0.0.2 8080 0 1); \
        FromIPSummaryDump(STOP true, FIELDS ip_src sport ip_dst dport ip_proto, \
        DATA \"2.0.0.2 5000 1.0.0.1 80 T\") -> rw -> Discard; rw [1] -> Discard;",
    make: |make| {
        let tcp = times(make);
        Box::new(Rewriter::<Tcp>::new(make, AllTimes { tcp, other: tcp }))
    },
    file: file!(),
    ..BASE
};

struct Tcp;

impl Flavour for Tcp {
    const KIND: Kind = Kind::Tcp;
}

/// The times of TCP that arguments say.
pub(super) fn times(make: &mut Make<'_>) -> Times {
    // Where both names of one thing are given, Click takes the last of these.
    let mut time = |names: &[&str], default| {
        names.iter().filter_map(|name| milliseconds(make, name)).last().unwrap_or(default)
    };
    Times {
        idle: time(&["TCP_NODATA_TIMEOUT"], 300_000),
        busy: time(&["TIMEOUT", "TCP_TIMEOUT"], 86_400_000),
        done: time(&["TCP_DONE_TIMEOUT"], 240_000),
        guarantee: time(&["TCP_GUARANTEE", "GUARANTEE"], Times::GUARANTEE),
    }
}
