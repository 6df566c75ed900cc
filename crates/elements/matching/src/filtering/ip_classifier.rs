//! `IPClassifier`: selects the output by expressions.

use linerate_graph::{
    Arg, Class, Context, DropReason, Element, ElementBuilder, Handler, HandlerError, HandlerResult,
    Plan, Right, Scope,
};
use linerate_memory::Frame;

use super::{
    FAMILY, headers,
    rules::{Rules, program},
    words::Dictionary,
};
use crate::decision::{Matcher, To};

pub(super) const CLASS: Class = Class {
    name: "IPClassifier",
    reconfigured: Some(Right::Write),
    family: FAMILY,
    summary: "sends IP packets to the output of the first expression that holds for them",
    description: super::LANGUAGE,
    ports: "1/-",
    processing: "h/h",
    args: &[Arg::rest(
        "EXPRESSION",
        "expression",
        "what packets for the output are; one per output",
    )],
    handlers: &[super::PROGRAM],
    drops: Reason::REASONS,
    annotates: true,
    cost: super::COST,
    example: "InfiniteSource(LIMIT 10, STOP true) -> MarkIPHeader(14)\n  \
        -> c :: IPClassifier(src net 10.0.0.0/8 and syn, tcp or udp, -);\n\
        c [0] -> Discard; c [1] -> Discard; c [2] -> Discard;",
    make: |make| Box::new(IpClassifier::new(make)),
    ..Class::here()
};

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    /// no expression holds
    Unmatched,
}

/// The expression of an output.
const PATTERN: Handler = Handler::value("pattern", "the expression of an output");

struct IpClassifier {
    patterns: Vec<String>,
    matcher: Matcher,
}

/// Returns equivalent rules of `IPFilter`.
fn as_rules(patterns: &[String]) -> Vec<String> {
    patterns.iter().enumerate().map(|(output, pattern)| format!("{output} {pattern}")).collect()
}

impl IpClassifier {
    fn new(make: &mut ElementBuilder<'_>) -> IpClassifier {
        let scope = Scope { plan: make.plan(), names: &make.world.names, name: make.name() };
        let mut patterns = make.rest();
        let outputs = make.outputs();
        if patterns.len() != outputs {
            make.error(format!("need {outputs} arguments, one per output port"));
            patterns.clear();
        }
        let rules = Rules::read(&as_rules(&patterns), outputs, Dictionary(scope));
        rules.tell(make, &patterns);
        let matcher = matcher(&rules, make.plan(), make.world.frame_limit);
        if rules.errors().is_empty() && patterns.len() == outputs {
            let reached = |output: &usize| matcher.program().reaches(To::Output(*output));
            for output in (0..outputs).filter(|output| !reached(output)) {
                make.warn(format!("output {output} matches no packets"));
            }
        }
        IpClassifier { patterns, matcher }
    }

    /// Returns the output whose expression is read by a handler.
    fn output_of(&self, handler: &str) -> Option<usize> {
        let output = handler.strip_prefix(PATTERN.name)?.parse().ok()?;
        let exact = output < self.patterns.len() && handler == format!("pattern{output}");
        exact.then_some(output)
    }
}

fn matcher(rules: &Rules, plan: &Plan, frame_limit: usize) -> Matcher {
    let formulas = rules.formulas();
    Matcher::new(program(&formulas), &formulas, headers(plan), frame_limit)
}

impl Element for IpClassifier {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        self.matcher.send(cx, frame, Reason::Unmatched);
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match self.output_of(handler) {
            Some(output) => Ok(self.patterns[output].clone()),
            None if handler == super::PROGRAM.name => Ok(self.matcher.program().to_string()),
            None => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        let output = self.output_of(handler).ok_or_else(|| HandlerError::missing(handler))?;
        let mut patterns = self.patterns.clone();
        patterns[output] = value.to_owned();
        let world = cx.world();
        let scope = Scope { plan: cx.plan(), names: &world.names, name: cx.name() };
        let rules = Rules::read(&as_rules(&patterns), patterns.len(), Dictionary(scope));
        let errors = rules.errors();
        if !errors.is_empty() {
            return Err(HandlerError::Refused(errors.join("\n")));
        }
        self.matcher = matcher(&rules, cx.plan(), world.frame_limit);
        self.patterns = patterns;
        cx.set_config(self.patterns.join(", "));
        Ok(String::new())
    }

    fn handler(&self, name: &str) -> Option<&'static Handler> {
        self.output_of(name).map(|_| &PATTERN)
    }

    fn handler_names(&self) -> Vec<String> {
        (0..self.patterns.len()).map(|output| format!("pattern{output}")).collect()
    }
}
