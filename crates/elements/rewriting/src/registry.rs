//! Registry of a configuration's rewriters: the flow sets they share, the named patterns, and the
//! mappers.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use linerate_graph::{
    Plan, PlanElement, Scope,
    lang::config::{shift_word, split, words},
};

use super::{
    flow_set::FlowSet,
    ip_rewriter_patterns,
    mapper::Mapper,
    pattern::{NamedPatterns, Pattern},
};

/// A lock's contents, also after a thread panicked with it: nothing is left half done that others
/// would stumble over.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// As [`locked`], for a value that others read meanwhile.
pub(super) fn shared<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

/// As [`locked`], for a value that no other thread has meanwhile.
pub(super) fn alone<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

/// A table and the number of a rewriter in it.
#[derive(Debug, Clone)]
pub(super) struct RewriterHandle {
    pub(super) set: Arc<RwLock<FlowSet>>,
    pub(super) rewriter: u16,
}

/// One for all elements of a graph.
#[derive(Debug, Default)]
pub(super) struct Registry(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// Rewriters, by element: their capacities.
    rewriters: HashMap<usize, CapacitySpec>,
    /// Tables, by the element whose capacity holds.
    sets: HashMap<usize, Arc<RwLock<FlowSet>>>,
    mappers: HashMap<usize, Arc<Mutex<Mapper>>>,
    /// By the element that defines them, and name.
    patterns: Option<Vec<(String, String, Arc<Pattern>)>>,
}

/// Capacity of a rewriter, in flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CapacitySpec {
    Flows(usize),
    /// As many as another, together with it.
    SharedWith(usize),
}

impl Registry {
    /// Declares the capacity of a rewriter; the first declaration holds.
    pub(super) fn declare(&self, element: usize, wanted: CapacitySpec) {
        locked(&self.0).rewriters.entry(element).or_insert(wanted);
    }

    /// The table of a rewriter and its number there. Asked when all have been declared.
    ///
    /// # Errors
    ///
    /// When the machine has not the memory.
    pub(super) fn place(
        &self,
        plan: &Plan,
        element: usize,
        now: u64,
    ) -> Result<RewriterHandle, String> {
        let inner = &mut *locked(&self.0);
        let root = inner.root(element);
        let mut names: Vec<&str> = inner
            .rewriters
            .keys()
            .filter(|at| inner.root(**at) == root)
            .map(|at| plan.elements[*at].name.as_str())
            .collect();
        names.sort_unstable();
        let name = plan.elements[element].name.as_str();
        let rewriter = names.iter().position(|known| *known == name).unwrap_or(0);
        let rewriter =
            u16::try_from(rewriter).map_err(|_| "too many rewriters share a capacity")?;
        let set = match inner.sets.get(&root) {
            Some(set) => Arc::clone(set),
            None => {
                let capacity = match inner.rewriters.get(&root) {
                    Some(CapacitySpec::Flows(flows)) => *flows,
                    _ => FlowSet::DEFAULT_CAPACITY,
                };
                let names = names.into_iter().map(str::to_owned).collect();
                let set = FlowSet::new(names, capacity, now).map_err(|error| error.to_string())?;
                let set = Arc::new(RwLock::new(set));
                inner.sets.insert(root, Arc::clone(&set));
                set
            }
        };
        Ok(RewriterHandle { set, rewriter })
    }

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
        if element.class.name != ip_rewriter_patterns::CLASS.name {
            continue;
        }
        let here = Scope { name: &element.name, ..*scope };
        let known = |name: &str| {
            all.iter().any(|(other, known, _)| known == name && sees(&element.name, other))
        };
        let (found, _) = Registry::define(&split(&element.config), &here, known);
        all.extend(found.into_iter().map(|(name, it)| (element.name.clone(), name, it)));
    }
    all
}

/// The elements with state that decides on a new flow of a rewriter, besides its own: patterns in
/// which rewriters take turns, mappers, and rewriters it shares a capacity with.
pub(super) fn looked_at(plan: &Plan, rewriter: usize) -> Vec<usize> {
    let PlanElement { name, config, .. } = &plan.elements[rewriter];
    let mut found = plan.elements_named(rewriter, &["CAPACITY", "MAPPING_CAPACITY"]);
    for argument in split(config) {
        match shift_word(&argument) {
            ("pattern" | "xpattern", rest) => {
                let pattern = shift_word(rest).0;
                let all = 0..plan.elements.len();
                found.extend(all.filter(|at| gives_turns(&plan.elements[*at], pattern)));
            }
            (mapper, "") => {
                let mapper = plan.resolve(mapper, name);
                found.extend(mapper.filter(|at| Mapper::is_one(plan.elements[*at].class)));
            }
            _ => {}
        }
    }
    found
}

/// Returns true if an element defines a pattern of that name, or may, whose range is used in turn.
fn gives_turns(element: &PlanElement, name: &str) -> bool {
    let defines = |argument: &String| {
        let (defined, pattern) = shift_word(argument);
        defined == name && pattern.contains('#')
    };
    element.class.name == ip_rewriter_patterns::CLASS.name
        && split(&element.config).iter().any(defines)
}

/// Returns true if the definitions of `definer` are known to `element`: it is in the same compound
/// or one around.
fn sees(element: &str, definer: &str) -> bool {
    definer.rfind('/').is_none_or(|slash| element.starts_with(&definer[..=slash]))
}

impl NamedPatterns for Registry {
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

impl Inner {
    /// The rewriter whose capacity holds for another.
    fn root(&self, element: usize) -> usize {
        let mut at = element;
        for _ in 0..self.rewriters.len() {
            match self.rewriters.get(&at) {
                Some(CapacitySpec::SharedWith(other)) => at = *other,
                _ => return at,
            }
        }
        // They share with each other in a circle.
        let mut least = at;
        let mut next = at;
        for _ in 0..self.rewriters.len() {
            if let Some(CapacitySpec::SharedWith(other)) = self.rewriters.get(&next) {
                next = *other;
                least = least.min(next);
            }
        }
        least
    }
}
