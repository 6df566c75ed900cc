//! `ICMPPingRewriter`: ICMP echo requests and their replies.

use linerate_graph::Class;

use super::{
    arguments::{BASE, PING_ARGS, PLAIN_HANDLERS, plain_times},
    rewriter::Rewriter,
    rewriter_type::{RewriterKind, RewriterType},
};

pub(super) const CLASS: Class = Class {
    name: "ICMPPingRewriter",
    summary: "rewrites addresses and identifiers of pings",
    description: "As `IPRewriter`, which see for inputs' specifications, for ICMP echo requests. Source ports \
        of patterns stand for identifiers. Replies get back what their request had before. Other \
        packets, replies nobody waits for among them, pass at inputs with `pass` and are dropped \
        at others.",
    args: PING_ARGS,
    handlers: PLAIN_HANDLERS,
    example: "rw :: ICMPPingRewriter(pattern 1.0.0.1 1024-65535# - - 0 1); \
        FromIPSummaryDump(STOP true, FIELDS ip_src ip_dst ip_proto icmp_type, \
        DATA \"10.0.0.2 2.0.0.2 I echo\") -> rw -> Discard; rw [1] -> Discard;",
    make: |make| {
        let times = plain_times(make, 300_000);
        Box::new(Rewriter::<Flow>::new(make, times))
    },
    file: file!(),
    ..BASE
};

struct Flow;

impl RewriterType for Flow {
    const KIND: RewriterKind = RewriterKind::Ping;
}
