//! Overload resolution: chooses one of several overloads for an element.

use std::rc::Rc;

use super::super::config::{Parameter, assign};
use super::super::diagnostic::Diagnostic;
use super::super::source::Landmark;
use super::Resolver;
use super::body::Body;
use super::scope::{Class, ClassId};

/// Result of the choice.
pub(super) enum Resolution {
    /// A body, and the values of its parameters.
    Body(Rc<Body>, Vec<String>),
    /// A class of elements: all bodies were passed over.
    Element(ClassId),
    /// Nothing fits; that has been reported.
    None,
}

impl Resolver<'_> {
    /// The first overload of `class` with these numbers of inputs and outputs whose parameters the
    /// arguments fit. If there is only one, it is taken with any ports, since the ports' own
    /// messages say more.
    pub(super) fn choose(
        &mut self,
        class: ClassId,
        ports: [u32; 2],
        arguments: &[String],
        landmark: &Landmark,
    ) -> Resolution {
        let mut candidates = Vec::new();
        let mut close = None;
        let mut next = Some(class);
        while let Some(class) = next {
            let Class::Compound(body) = self.classes.get(class) else {
                return Resolution::Element(class);
            };
            let body = self.bodies[*body].clone();
            next = body.overload;
            if let Some(values) = assign(arguments, &body.formals) {
                if body.ports == ports {
                    return Resolution::Body(body, values);
                }
                close = Some((body.clone(), values));
            }
            candidates.push(body);
        }
        if candidates.len() != 1 || close.is_none() {
            self.no_match(&candidates, ports, arguments.len(), landmark);
        }
        match close {
            Some((body, values)) => Resolution::Body(body, values),
            None => Resolution::None,
        }
    }

    fn no_match(
        &mut self,
        candidates: &[Rc<Body>],
        ports: [u32; 2],
        arguments: usize,
        landmark: &Landmark,
    ) {
        let Some(first) = candidates.first() else {
            return;
        };
        let wanted = match arguments {
            0 => String::new(),
            1 => "1 argument, ".to_owned(),
            count => format!("{count} arguments, "),
        };
        let message =
            format!("no match for '{}[{wanted}{}]'", first.printable_name(), port_counts(ports));
        let mut diagnostic = Diagnostic::error(landmark.clone(), message)
            .note(first.landmark.clone(), "candidates are:");
        for body in candidates {
            diagnostic = diagnostic.note(body.landmark.clone(), format!("  {}", signature(body)));
        }
        self.diagnostics.push(diagnostic);
    }
}

/// `Name(<arg>, KEYWORD, ...)[1 input, 2 outputs]`.
fn signature(body: &Body) -> String {
    let mut out = body.printable_name().to_owned();
    if !body.formals.is_empty() {
        let formals: Vec<_> = body
            .formals
            .iter()
            .map(|formal| match formal {
                Parameter::Positional => "<arg>",
                Parameter::Keyword(keyword) => keyword,
                Parameter::Rest => "...",
            })
            .collect();
        out.push_str(&format!("({})", formals.join(", ")));
    }
    out.push_str(&format!("[{}]", port_counts(body.ports)));
    out
}

fn port_counts([inputs, outputs]: [u32; 2]) -> String {
    let plural = |count: u32| if count == 1 { "" } else { "s" };
    format!("{inputs} input{}, {outputs} output{}", plural(inputs), plural(outputs))
}
