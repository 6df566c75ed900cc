//! Input specifications: treatment of packets of flows that are not in the table.

use std::sync::{Arc, Mutex};

use linerate_graph::{ElementRef, Scope, Value, lang::config::shift_word, parse_integer};

use super::{
    locks::locked,
    mapper::Mapper,
    mapping::Ends,
    names::Names,
    pattern::{self, Pattern, PortAllocator},
};

/// One input's specification, and its counts.
#[derive(Debug)]
pub(super) struct Spec {
    /// As it was written.
    text: String,
    pub(super) action: Action,
    /// Flows there are.
    pub(super) count: u32,
    /// Flows no mapping could be made for.
    pub(super) failures: u32,
}

/// Treatment of a new flow.
#[derive(Debug)]
pub(super) enum Action {
    Drop,
    /// Its packets leave by an output as they are.
    NoChange(u32),
    /// A mapping that changes nothing, and the outputs, forward and reply.
    Keep(u32, u32),
    Pattern(Arc<Pattern>, u32, u32),
    Mapper(Arc<Mutex<Mapper>>),
}

/// Decision on a new flow.
pub(super) enum Decision {
    /// It leaves by an output as it is.
    Pass(u32),
    Drop,
    /// Nothing in the range is free.
    Exhausted,
    Map {
        to: Ends,
        forward: u32,
        reply: u32,
    },
}

impl Spec {
    /// Reads the specification of input `number` of an element with so many outputs.
    ///
    /// # Errors
    ///
    /// In Click's words.
    pub(super) fn parse(
        text: &str,
        number: usize,
        outputs: usize,
        scope: &Scope<'_>,
        names: &Names,
    ) -> Result<Spec, String> {
        let action = Action::parse(text, outputs, scope, names)
            .map_err(|error| format!("input spec {number}: {error}"))?;
        Ok(Spec { text: text.into(), action, count: 0, failures: 0 })
    }

    /// One that drops, in place of one that is wrong.
    pub(super) fn stand_in() -> Spec {
        Spec { text: String::new(), action: Action::Drop, count: 0, failures: 0 }
    }

    /// Returns true if flows made by the other could have been made by this.
    pub(super) fn is_like(&self, other: &Spec) -> bool {
        self.text == other.text
            && match (&self.action, &other.action) {
                // A name may stand for another pattern now.
                (Action::Pattern(one, ..), Action::Pattern(other, ..)) => one == other,
                _ => true,
            }
    }

    /// As Click shows it, with a newline.
    pub(super) fn line(&self) -> String {
        let mut line = match &self.action {
            Action::Drop => "<drop>".into(),
            Action::NoChange(_) => "<nochange>".into(),
            Action::Keep(..) => "<keep>".into(),
            Action::Pattern(pattern, ..) => pattern.to_string(),
            Action::Mapper(_) => "<mapper>".into(),
        };
        if self.count > 0 {
            line += &format!(" [{}]", self.count);
        }
        line + "\n"
    }
}

impl Action {
    fn parse(
        text: &str,
        outputs: usize,
        scope: &Scope<'_>,
        names: &Names,
    ) -> Result<Action, String> {
        let (word, rest) = shift_word(text);
        let in_range = |(forward, reply): (u32, u32)| match forward.max(reply) as usize {
            largest if largest < outputs => Ok((forward, reply)),
            _ => Err("output port out of range".to_owned()),
        };
        match word {
            "" => Err("empty argument".into()),
            "pass" | "passthrough" | "nochange" => {
                let number = if rest.is_empty() { Some(0) } else { parse_integer(rest) };
                let number = number.ok_or("syntax error, expected 'nochange [OUTPUT]'")?;
                let output = u32::try_from(number).unwrap_or(u32::MAX);
                in_range((output, output)).map(|(output, _)| Action::NoChange(output))
            }
            "keep" => {
                let words = linerate_graph::lang::config::words(rest);
                let (forward, reply) = in_range(pattern::outputs(&words)?)?;
                Ok(Action::Keep(forward, reply))
            }
            "drop" | "discard" if rest.is_empty() => Ok(Action::Drop),
            "drop" | "discard" => Err(format!("syntax error, expected '{word}'")),
            "pattern" | "xpattern" => {
                let (pattern, forward, reply) = pattern::with_outputs(rest, scope, names)?;
                let (forward, reply) = in_range((forward, reply))?;
                Ok(Action::Pattern(pattern, forward, reply))
            }
            _ => match ElementRef::parse(word, scope) {
                Ok(_) if !rest.is_empty() => Err("syntax error, expected element name".into()),
                Ok(ElementRef(at)) if Mapper::is_one(scope.plan.elements[at].class) => {
                    Ok(Action::Mapper(names.mapper(at)))
                }
                Ok(_) => Err("element is not an IPMapper".into()),
                Err(_) => Err("unknown specification".into()),
            },
        }
    }

    /// The output of the flows it makes, where all have one.
    pub(super) fn forward(&self) -> Option<u32> {
        match self {
            Action::Keep(forward, _) | Action::Pattern(_, forward, _) => Some(*forward),
            Action::Drop | Action::NoChange(_) | Action::Mapper(_) => None,
        }
    }

    /// Decides on a new flow.
    pub(super) fn decide(&self, flow: Ends, taken: &mut impl PortAllocator) -> Decision {
        let map = |to: Option<Ends>, forward, reply| match to {
            Some(to) => Decision::Map { to, forward, reply },
            None => Decision::Exhausted,
        };
        match self {
            Action::Drop => Decision::Drop,
            Action::NoChange(output) => Decision::Pass(*output),
            Action::Keep(forward, reply) => map(Some(flow), *forward, *reply),
            Action::Pattern(pattern, forward, reply) => {
                map(pattern.apply(flow, taken), *forward, *reply)
            }
            Action::Mapper(mapper) => match locked(mapper).choose(flow, taken) {
                Some((to, forward, reply)) => map(Some(to), forward, reply),
                None => Decision::Exhausted,
            },
        }
    }
}
