//! Connections: the ports that `->` and `=>` connect.

use super::super::ast::{Arrow, Cursor, Ports, Side};
use super::super::source::Span;
use super::body::{End, Link};
use super::{CONNECTIONS_MAX, Resolver};

/// An element of a connection, with the ports written beside it.
#[derive(Debug)]
pub(super) struct Operand {
    pub(super) node: usize,
    pub(super) inputs: Ports,
    pub(super) outputs: Ports,
}

/// One side of an arrow.
struct Half<'a> {
    operands: &'a [Operand],
    side: Side,
    /// Least number of ports asked for.
    least: usize,
    /// Number of lists that are open.
    open: usize,
}

impl<'a> Half<'a> {
    fn new(operands: &'a [Operand], side: Side) -> Half<'a> {
        let mut half = Half { operands, side, least: 0, open: 0 };
        for operand in operands {
            let ports = half.ports(operand);
            half.least += ports.list.len().max(1);
            half.open += usize::from(ports.open);
        }
        half
    }

    fn ports<'b>(&self, operand: &'b Operand) -> &'b Ports {
        match self.side {
            Side::Input => &operand.inputs,
            Side::Output => &operand.outputs,
        }
    }

    /// Returns true if it is one element without ports.
    fn is_plain(&self) -> bool {
        self.least == 1
            && self.operands.first().is_some_and(|operand| self.ports(operand).is_empty())
    }

    /// Its ports in order, with `more` added where a list is open.
    fn ends(&self, mut more: usize) -> Vec<End> {
        let mut ends = Vec::new();
        for operand in self.operands {
            let ports = self.ports(operand);
            if ports.is_empty() {
                ends.push((operand.node, 0));
            }
            ends.extend(ports.list.iter().map(|&port| (operand.node, port)));
            if ports.open || self.is_plain() {
                let last = ports.list.last().copied().unwrap_or(0);
                ends.extend((1..=more as u32).map(|port| (operand.node, last + port)));
                more = 0;
            }
        }
        ends
    }
}

impl Resolver<'_> {
    /// Connects the operands left of an arrow with those right of it.
    pub(super) fn connect(
        &mut self,
        left: &[Operand],
        right: &[Operand],
        arrow: Arrow,
        span: Span,
        cursor: Cursor,
    ) {
        if left.is_empty() || right.is_empty() {
            return;
        }
        let mut from = Half::new(left, Side::Output);
        let mut to = Half::new(right, Side::Input);
        if from.open + to.open > 1 {
            let message = "at most one expandable port allowed per connection";
            self.error(span, cursor, message);
            if to.least < from.least {
                from.open = 0;
            } else {
                to.open = 0;
            }
        }
        if arrow.double {
            // A single element without ports stands for as many as needed.
            if to.is_plain() && from.least > 1 {
                to.open = 1;
            }
            if from.is_plain() && to.least > 1 {
                from.open = 1;
            }
        }
        let many = |half: &Half<'_>| half.least > 1 || half.open > 0;
        let (many_from, many_to) = (many(&from), many(&to));
        if many_from && many_to {
            self.check_mismatch(&from, &to, arrow, span, cursor);
        }
        let more = |half: &Half<'_>, other: &Half<'_>| {
            if half.open > 0 { other.least.saturating_sub(half.least) } else { 0 }
        };
        let outputs = from.ends(more(&from, &to));
        let inputs = to.ends(more(&to, &from));
        let landmark = self.landmark(span, cursor);
        let pairs = if many_from && many_to {
            outputs.len().min(inputs.len())
        } else {
            outputs.len().max(inputs.len())
        };
        if self.connections + pairs > CONNECTIONS_MAX {
            self.limit(&landmark, format!("more than {CONNECTIONS_MAX} connections"));
            return;
        }
        self.connections += pairs;
        for pair in 0..pairs {
            let from = outputs[if many_from { pair } else { 0 }];
            let to = inputs[if many_to { pair } else { 0 }];
            self.current().link(Link { from, to, landmark: landmark.clone() });
        }
    }

    fn check_mismatch(
        &mut self,
        from: &Half<'_>,
        to: &Half<'_>,
        arrow: Arrow,
        span: Span,
        cursor: Cursor,
    ) {
        if !arrow.double {
            let message = "syntax error: many-to-many connections require '=>'";
            self.error(arrow.span, cursor, message);
        }
        let (outputs, inputs) = (from.least, to.least);
        let message = match (from.open > 0, to.open > 0) {
            (false, false) if outputs != inputs => {
                format!("connection mismatch: {outputs} outputs connected to {inputs} inputs")
            }
            (true, false) if inputs < outputs => format!(
                "connection mismatch: {outputs} or more outputs connected to {inputs} inputs"
            ),
            (false, true) if outputs < inputs => format!(
                "connection mismatch: {outputs} outputs connected to {inputs} or more inputs"
            ),
            _ => return,
        };
        self.error(span, cursor, message);
    }
}
