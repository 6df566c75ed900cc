//! `IPAddrPairRewriter`: pairs of addresses, for any protocol.

use linerate_graph::Class;

use super::{
    arguments::{ADDRESS_ARGS, BASE, PLAIN_HANDLERS, plain_times},
    rewriter::Rewriter,
    rewriter_type::{RewriterKind, RewriterType},
};

pub(super) const CLASS: Class = Class {
    name: "IPAddrPairRewriter",
    summary: "rewrites both addresses of IP packets",
    description: "As `IPRewriter`, which see for inputs' specifications, for packets of any protocol and \
        fragments, without ports: `pattern SADDR DADDR FOUTPUT ROUTPUT`, where `SADDR` may be a \
        range. A flow is a pair of addresses.",
    args: ADDRESS_ARGS,
    handlers: PLAIN_HANDLERS,
    example: "rw :: IPAddrPairRewriter(pattern 1.0.0.1-1.0.0.9# 2.0.0.3 0 1); \
        FromIPSummaryDump(STOP true, FIELDS ip_src ip_dst ip_proto, \
        DATA \"10.0.0.2 2.0.0.2 50\") -> rw -> Discard; rw [1] -> Discard;",
    make: |make| {
        let times = plain_times(make, 7_200_000);
        Box::new(Rewriter::<Flow>::new(make, times))
    },
    file: file!(),
    ..BASE
};

struct Flow;

impl RewriterType for Flow {
    const KIND: RewriterKind = RewriterKind::Pair;
}
