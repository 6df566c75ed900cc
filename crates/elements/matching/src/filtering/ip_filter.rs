//! `IPFilter`: forwards or drops packets by the first rule that holds.

use linerate_graph::{
    Arg, Class, Context, DropReason, Element, ElementBuilder, HandlerError, HandlerResult, Right,
    Scope,
};
use linerate_memory::Frame;

use super::{
    FAMILY, headers,
    rules::{Rules, program},
    words::Dictionary,
};
use crate::decision::Matcher;

pub(super) const CLASS: Class = Class {
    name: "IPFilter",
    reconfigured: Some(Right::Write),
    family: FAMILY,
    summary: "sends IP packets where the first rule that holds for them says",
    description: "A rule is an action and an expression. The action is `allow`, which is output \
        0, `deny` or `drop`, or the number of an output. The first rule whose expression holds for \
        a packet decides; a packet for which none holds is dropped. The expressions are those of \
        [IPClassifier](IPClassifier.md); without one a rule holds for all packets.\n\n\
        Where a packet's network and transport header are must be known: CheckIPHeader or \
        MarkIPHeader find out. No expression about headers holds for a packet of which it is not.",
    ports: "1/-",
    processing: "h/h",
    args: &[Arg::rest("RULE", "action and expression", "`allow src net 10.0.0.0/8 and tcp`")],
    handlers: &[super::PROGRAM],
    drops: Reason::REASONS,
    annotates: true,
    cost: super::COST,
    example: "InfiniteSource(LIMIT 10, STOP true) -> MarkIPHeader(14)\n  \
        -> f :: IPFilter(deny src net 10.0.0.0/8, allow tcp dst port www or ssh, 1 icmp)\n  \
        -> Discard; f [1] -> Discard;",
    make: |make| Box::new(IpFilter::new(make)),
    ..Class::here()
};

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    /// denied
    Denied,
}

struct IpFilter {
    matcher: Matcher,
}

impl IpFilter {
    fn new(make: &mut ElementBuilder<'_>) -> IpFilter {
        let scope = Scope { plan: make.plan(), names: &make.world.names, name: make.name() };
        let patterns = make.rest();
        let rules = Rules::read(&patterns, make.outputs(), Dictionary(scope));
        rules.tell(make, &patterns);
        let formulas = rules.formulas();
        let program = program(&formulas);
        let frame_limit = make.world.frame_limit;
        let headers = headers(make.plan());
        IpFilter { matcher: Matcher::new(program, &formulas, headers, frame_limit) }
    }
}

impl Element for IpFilter {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        self.matcher.send(cx, frame, Reason::Denied);
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "program" => Ok(self.matcher.program().to_string()),
            _ => Err(HandlerError::missing(handler)),
        }
    }
}
