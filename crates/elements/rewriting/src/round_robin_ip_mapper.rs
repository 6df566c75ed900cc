//! `RoundRobinIPMapper`: patterns in turn.

use std::sync::Arc;

use linerate_graph::{Arg, Class, Context, Element, ElementBuilder, Role, Scope};

use super::{
    FAMILY,
    locks::locked,
    mapper::{Choice, Mapper, Rule},
    names::Names,
    pattern::with_outputs,
};

pub(super) const CLASS: Class = Class {
    name: "RoundRobinIPMapper",
    family: FAMILY,
    summary: "chooses among patterns for rewriters, in turn",
    description: "Its name is a specification for inputs of rewriters. Each argument is a pattern \
        with outputs, `SADDR SPORT DADDR DPORT FOUTPUT ROUTPUT`, as in rewriters' specifications. \
        Each new flow is rewritten by the next of them, or the first behind it that has something \
        free: connections are spread over servers.",
    args: &[Arg::rest("PATTERN", "pattern", "a pattern and its outputs")],
    role: Role::Information,
    cost: "For new flows only: a lock.",
    example: "m :: RoundRobinIPMapper(- - 10.0.0.1 - 0 1, - - 10.0.0.2 - 0 1); \
        rw :: IPRewriter(m); FromIPSummaryDump(STOP true, FIELDS ip_src sport ip_dst dport \
        ip_proto, DATA \"2.0.0.2 5000 1.0.0.1 80 T\") -> rw -> Discard; rw [1] -> Discard;",
    make: |make| Box::new(MapperElement::new(make, choices)),
    ..Class::here()
};

fn choices(make: &mut ElementBuilder<'_>) -> Option<Mapper> {
    let texts = make.rest();
    match texts.len() {
        0 => {
            make.error("no patterns given");
            return None;
        }
        1 => make.warn("only one pattern given"),
        _ => {}
    }
    let choices = texts.iter().filter_map(|text| choice(make, text)).collect();
    Some(Mapper { choices, rule: Rule::Turn(0), ..Mapper::default() })
}

/// Reads a pattern and its outputs; errors of it are reported.
pub(super) fn choice(make: &mut ElementBuilder<'_>, text: &str) -> Option<Choice> {
    let names = make.world.common::<Names>();
    let scope = Scope { plan: make.plan(), names: &make.world.names, name: make.name() };
    match with_outputs(text, &scope, &*names) {
        Ok((pattern, forward, reply)) => Some(Choice { pattern, forward, reply }),
        Err(error) => {
            make.error(error);
            None
        }
    }
}

/// The element of a mapper. Its work is done by rewriters.
pub(super) struct MapperElement {
    names: Arc<Names>,
    new: Option<Mapper>,
}

impl MapperElement {
    pub(super) fn new(
        make: &mut ElementBuilder<'_>,
        read: impl FnOnce(&mut ElementBuilder<'_>) -> Option<Mapper>,
    ) -> MapperElement {
        let names = make.world.common::<Names>();
        let class = make.plan().elements[make.element()].class.name;
        let declaration = format!("{} :: {class}", make.name());
        let new = read(make).map(|mapper| Mapper { declaration, ..mapper });
        // For rewriters that are initialized before it. An existing mapper stays until this is
        // known to be run.
        let shared = names.mapper(make.element());
        let mut shared = locked(&shared);
        match new {
            Some(mapper) if shared.choices.is_empty() => {
                *shared = mapper;
                drop(shared);
                MapperElement { names, new: None }
            }
            new => {
                drop(shared);
                MapperElement { names, new }
            }
        }
    }
}

impl Element for MapperElement {
    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        if let Some(new) = self.new.take() {
            *locked(&self.names.mapper(cx.element())) = new;
        }
        Ok(())
    }
}
