//! `TCPRewriter`: TCP, sequence numbers included.

use linerate_graph::{Class, ElementBuilder, Handler};

use super::{
    arguments::{BASE, TCP_ARGS, handlers},
    rewriter::Rewriter,
    rewriter_type::{RewriterKind, RewriterType},
    times::{AllTimes, Times, last},
};

pub(super) const CLASS: Class = Class {
    name: "TCPRewriter",
    summary: "rewrites addresses and ports of TCP flows",
    description: "As `IPRewriter`, which see for inputs' specifications, for TCP alone. It also \
        changes sequence and acknowledgement numbers, selective ones included, where an element in \
        front of it (`FTPPortMapper`) has made a payload longer or shorter.",
    args: TCP_ARGS,
    handlers: handlers![
        Handler::read("table", "mappings, a line for each direction"),
        Handler::read("mappings", "mappings, an older name").flags("D"),
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

impl RewriterType for Tcp {
    const KIND: RewriterKind = RewriterKind::Tcp;
}

/// The times of TCP that arguments say.
pub(super) fn times(make: &mut ElementBuilder<'_>) -> Times {
    Times {
        idle: last(make, &["TCP_NODATA_TIMEOUT"], 300_000),
        busy: last(make, &["TIMEOUT", "TCP_TIMEOUT"], 86_400_000),
        done: last(make, &["TCP_DONE_TIMEOUT"], 240_000),
        guarantee: last(make, &["TCP_GUARANTEE", "GUARANTEE"], Times::GUARANTEE),
    }
}
