//! Names in specifications: patterns, and elements that choose among patterns.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use linerate_graph::{
    PlanElement, Scope,
    lang::config::{shift_word, split, words},
};

use super::{
    locks::locked,
    mapper::Mapper,
    pattern::{NamedPatterns, Pattern},
};

/// The class whose elements define patterns.
pub(super) const PATTERNS: &str = "IPRewriterPatterns";

/// One for all elements of a graph.
#[derive(Debug, Default)]
pub(super) struct Names(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    mappers: HashMap<usize, Arc<Mutex<Mapper>>>,
    /// By the element that defines them, and name.
    patterns: Option<Vec<(String, String, Arc<Pattern>)>>,
}

impl Names {
    /// The mapper of an element, empty until that is made.
    pub(super) fn mapper(&self, element: usize) -> Arc<Mutex<Mapper>> {
        Arc::clone(locked(&self.0).mappers.entry(element).or_default())
    }

    /// The patterns that arguments of the element at `scope` define, and the errors of others.
    /// `known` says which names are taken.
    pub(super) fn define(
        arguments: &[String],
        scope: &Scope<'_>,
        mut known: impl FnMut(&str) -> bool,
    ) -> (Vec<(String, Arc<Pattern>)>, Vec<String>) {
        let (mut found, mut errors) = (Vec::<(String, Arc<Pattern>)>::new(), Vec::new());
        for argument in arguments {
            let (name, rest) = shift_word(argument);
            if name.is_empty() {
                continue;
            }
            if known(name) || found.iter().any(|(other, _)| other == name) {
                errors.push(format!("pattern '{name}' already defined"));
                continue;
            }
            let known: &[(String, Arc<Pattern>)] = &found;
            match Pattern::parse(&words(rest), scope, &known) {
                Ok(pattern) => found.push((name.to_owned(), pattern)),
                Err(error) => errors.push(error),
            }
        }
        (found, errors)
    }

    /// Returns true if an element before this one defines a pattern of that name where this one
    /// sees it.
    pub(super) fn is_defined_before(&self, name: &str, scope: &Scope<'_>) -> bool {
        let patterns = self.patterns(scope);
        let own = scope.plan.elements.iter().position(|element| element.name == scope.name);
        patterns.iter().any(|(element, known, _)| {
            let at = scope.plan.elements.iter().position(|other| other.name == *element);
            known == name && at < own && sees(scope.name, element)
        })
    }

    /// All named patterns of a graph.
    fn patterns(&self, scope: &Scope<'_>) -> Vec<(String, String, Arc<Pattern>)> {
        let mut inner = locked(&self.0);
        inner.patterns.get_or_insert_with(|| all_patterns(scope)).clone()
    }
}

fn all_patterns(scope: &Scope<'_>) -> Vec<(String, String, Arc<Pattern>)> {
    let mut all = Vec::<(String, String, Arc<Pattern>)>::new();
    for element in &scope.plan.elements {
        if element.class.name != PATTERNS {
            continue;
        }
        let here = Scope { name: &element.name, ..*scope };
        let known = |name: &str| {
            all.iter().any(|(other, known, _)| known == name && sees(&element.name, other))
        };
        let (found, _) = Names::define(&split(&element.config), &here, known);
        all.extend(found.into_iter().map(|(name, it)| (element.name.clone(), name, it)));
    }
    all
}

/// Returns true if an element defines a pattern of that name, or may, whose range is used in turn.
pub(super) fn gives_turns(element: &PlanElement, name: &str) -> bool {
    let defines = |argument: &String| {
        let (defined, pattern) = shift_word(argument);
        defined == name && pattern.contains('#')
    };
    element.class.name == PATTERNS && split(&element.config).iter().any(defines)
}

/// Returns true if the definitions of `definer` are known to `element`: it is in the same compound
/// or one around.
fn sees(element: &str, definer: &str) -> bool {
    definer.rfind('/').is_none_or(|slash| element.starts_with(&definer[..=slash]))
}

impl NamedPatterns for Names {
    fn find(&self, name: &str, scope: &Scope<'_>) -> Option<Arc<Pattern>> {
        let all = self.patterns(scope);
        let visible = all
            .into_iter()
            .filter(|(definer, known, _)| known == name && sees(scope.name, definer));
        // The innermost.
        visible.max_by_key(|(definer, ..)| definer.matches('/').count()).map(|(.., it)| it)
    }
}

impl NamedPatterns for &[(String, Arc<Pattern>)] {
    fn find(&self, name: &str, _: &Scope<'_>) -> Option<Arc<Pattern>> {
        self.iter().find(|(known, _)| known == name).map(|(_, it)| Arc::clone(it))
    }
}
