//! Scopes: names of classes.
//!
//! A class is visible from the end of its definition to the end of the
//! compound it is defined in. A compound that uses its own name means the
//! class that had the name before.

use std::collections::HashMap;
use std::rc::Rc;

use super::Classes;
use super::spelling::closest_word;

/// Names a class of [`ClassNames`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ClassId(usize);

/// Kind of a class.
#[derive(Clone, Debug)]
pub(super) enum Class {
    /// A class of elements, known or not.
    Element(Rc<str>),
    /// A compound, by its place in the list of bodies.
    Compound(usize),
}

pub(super) struct ClassNames<'a> {
    known: &'a dyn Classes,
    classes: Vec<Class>,
    /// Innermost last.
    scopes: Vec<HashMap<String, ClassId>>,
}

impl<'a> ClassNames<'a> {
    pub(super) fn new(known: &'a dyn Classes) -> ClassNames<'a> {
        ClassNames { known, classes: Vec::new(), scopes: vec![HashMap::new()] }
    }

    pub(super) fn get(&self, id: ClassId) -> &Class {
        &self.classes[id.0]
    }

    /// A class without a name.
    pub(super) fn add(&mut self, class: Class) -> ClassId {
        self.classes.push(class);
        ClassId(self.classes.len() - 1)
    }

    /// Gives a class a name in the innermost scope.
    pub(super) fn define(&mut self, name: &str, id: ClassId) {
        if !name.is_empty()
            && let Some(scope) = self.scopes.last_mut()
        {
            scope.insert(name.to_owned(), id);
        }
    }

    /// A class of this name that is not known; only the first use of it is an
    /// error.
    pub(super) fn define_unknown(&mut self, name: &str) -> ClassId {
        let id = self.add(Class::Element(name.into()));
        self.define(name, id);
        id
    }

    pub(super) fn find(&mut self, name: &str) -> Option<ClassId> {
        for scope in self.scopes.iter().rev() {
            if let Some(&id) = scope.get(name) {
                return Some(id);
            }
        }
        if !self.known.contains(name) {
            return None;
        }
        let id = self.add(Class::Element(name.into()));
        self.scopes[0].insert(name.to_owned(), id);
        Some(id)
    }

    /// Returns true if names become classes where they are used as such.
    pub(super) fn is_open(&self) -> bool {
        self.known.is_open()
    }

    /// A class of elements that is known from here on, in all compounds.
    pub(super) fn define_used(&mut self, name: &str) -> ClassId {
        let id = self.add(Class::Element(name.into()));
        self.scopes[0].insert(name.to_owned(), id);
        id
    }

    /// Returns true if it is the class of elements with this name.
    pub(super) fn is_named(&self, id: ClassId, name: &str) -> bool {
        matches!(self.get(id), Class::Element(class) if **class == *name)
    }

    pub(super) fn enter(&mut self) {
        self.scopes.push(HashMap::new());
    }

    pub(super) fn leave(&mut self) {
        self.scopes.pop();
    }

    /// A class that `name` may be a slip for.
    pub(super) fn suggestion(&self, name: &str) -> Option<String> {
        let defined = self.scopes.iter().flat_map(|scope| scope.keys());
        let known = self.known.names();
        let all = known.into_iter().chain(defined.map(String::as_str));
        closest_word(name, all).map(str::to_owned)
    }
}
