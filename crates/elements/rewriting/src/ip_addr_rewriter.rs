//! `IPAddrRewriter`: source addresses, for any protocol.

use linerate_graph::Class;

use super::{
    arguments::{ADDRESS_ARGS, BASE, PLAIN_HANDLERS, plain_times},
    rewriter::Rewriter,
    rewriter_type::{RewriterKind, RewriterType},
};

pub(super) const CLASS: Class = Class {
    name: "IPAddrRewriter",
    summary: "rewrites source addresses of IP packets",
    description: "As `IPRewriter`, which see for inputs' specifications, for packets of any protocol and \
        fragments, without ports: `pattern SADDR - FOUTPUT ROUTPUT`, where `SADDR` may be a range. \
        Packets from an address with a mapping get another source; packets to the other get the \
        destination changed back.",
    args: ADDRESS_ARGS,
    handlers: PLAIN_HANDLERS,
    example: "rw :: IPAddrRewriter(pattern 1.0.0.1-1.0.0.9# - 0 1); \
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
    const KIND: RewriterKind = RewriterKind::Address;
}
