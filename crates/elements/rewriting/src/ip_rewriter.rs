//! `IPRewriter`: TCP and UDP.

use linerate_graph::{Class, ElementBuilder, Handler};

use super::{
    arguments::{BASE, IP_ARGS, handlers},
    rewriter::Rewriter,
    rewriter_type::{RewriterKind, RewriterType},
    tcp_rewriter,
    times::AllTimes,
    udp_rewriter,
};

pub(super) const CLASS: Class = Class {
    name: "IPRewriter",
    summary: "rewrites addresses and ports of TCP and UDP flows",
    description: "Takes IP packets whose network header is known (`CheckIPHeader`, \
        `MarkIPHeader`). Packets of a known flow are rewritten, with their checksums, and leave by \
        the output of their direction. Each input has a specification of what becomes of new \
        flows:\n\n\
        - `pattern SADDR SPORT DADDR DPORT FOUTPUT ROUTPUT`: a mapping is made. Its packets get \
        these addresses and ports, each of which may be `-` for the one it has, and leave by \
        `FOUTPUT`; replies get back what was there before and leave by `ROUTPUT`. `SPORT` may be a \
        range, `1024-65535`, of which a port is chosen that no other flow to the same end has: the \
        one the flow has if it can be, else one at random; with `?` behind the range always at \
        random, with `#` in turn. Without ports, `SADDR DADDR`, the source may be a range \
        `L-H` or a prefix.\n\
        - `pattern NAME FOUTPUT ROUTPUT`: the same with a pattern of `IPRewriterPatterns`.\n\
        - `keep FOUTPUT ROUTPUT`: a mapping that changes nothing is made.\n\
        - `pass OUTPUT` (`nochange`): packets leave as they are.\n\
        - `drop` (`discard`).\n\
        - an element: `RoundRobinIPMapper` or `SourceIPHashMapper` chooses among patterns.\n\n\
        Packets that are neither TCP nor UDP, and later fragments, pass at inputs with `pass` and \
        are dropped at others.\n\n\
        A mapping ends some time after its last packet: TCP after `TCP_TIMEOUT` when both sides \
        have sent payload, after `TCP_DONE_TIMEOUT` when both have closed, else after \
        `TCP_NODATA_TIMEOUT`; UDP after `UDP_TIMEOUT`, or `UDP_STREAMING_TIMEOUT` when there were \
        three packets and both directions; never within its guarantee. From then on it counts for \
        nothing: its packets are those of a new flow, and its port is free. Click has packets \
        revive it until it is removed. Ended mappings are removed every `REAP_INTERVAL`, or when \
        their place is needed; until then, `table_size`, `size` and the tables have them, as in \
        Click. At `MAPPING_CAPACITY` the mapping that would end next makes room for a new one, unless it has \
        had a packet within its guarantee; when all have, the new flow gets none and its packets \
        are dropped and counted.\n\n\
        Mappings stay when the configuration is replaced by one with a rewriter of the same name, \
        except those of inputs whose specification has changed; new times hold for them, too. \
        `MAPPING_CAPACITY` is at most \
        16,777,216; written while it runs, at most what it was made for or 1,048,576.",
    args: IP_ARGS,
    handlers: handlers![
        Handler::read("tcp_table", "TCP mappings, a line for each direction"),
        Handler::read("udp_table", "UDP mappings"),
        Handler::read("tcp_mappings", "TCP mappings, an older name").flags("D"),
        Handler::read("udp_mappings", "UDP mappings, an older name").flags("D"),
        Handler::read("tcp_lookup", "what a TCP flow `SADDR SPORT DADDR DPORT` is rewritten to")
            .with_parameter(),
    ],
    cost: "Packets of known flows: a lookup in bursts of a frame and a cache line of the flow, \
        which has everything that is written. New flows: some hundred nanoseconds, nearly all ports \
        taken or not. 256 bytes for each flow.",
    example: "rw :: IPRewriter(pattern 1.0.0.1 1024-65535# - - 0 1, drop); \
        FromIPSummaryDump(STOP true, FIELDS ip_src sport ip_dst dport ip_proto, \
        DATA \"10.0.0.2 5000 2.0.0.2 80 T\") -> rw -> Discard; rw [1] -> Discard; \
        Idle -> [1] rw;",
    make: |make| {
        let times = times(make);
        Box::new(Rewriter::<Flow>::new(make, times))
    },
    file: file!(),
    ..BASE
};

struct Flow;

impl RewriterType for Flow {
    const KIND: RewriterKind = RewriterKind::Ip;
}

fn times(make: &mut ElementBuilder<'_>) -> AllTimes {
    let udp = [&["UDP_TIMEOUT"], &["UDP_STREAMING_TIMEOUT"], &["UDP_GUARANTEE"]];
    let other = udp_rewriter::times(make, udp[0], udp[1], udp[2]);
    AllTimes { tcp: tcp_rewriter::times(make), other }
}
