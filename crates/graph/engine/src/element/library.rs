//! The classes a configuration can use.

use thiserror::Error;

use super::Class;
use crate::lang::Classes;

/// The classes a configuration can use.
#[derive(Debug, Clone, Default)]
pub struct Library {
    /// Sorted by name.
    classes: Vec<&'static Class>,
}

/// Two classes have the same name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "two element classes are called {name}, in {} and in {}: one of them needs another name",
    paths[0], paths[1]
)]
pub struct DuplicateClass {
    /// The name.
    pub name: &'static str,
    /// The files they are declared in.
    pub paths: [&'static str; 2],
}

impl Library {
    /// A library of `classes`.
    ///
    /// # Panics
    ///
    /// When two have the same name.
    pub fn new(classes: impl IntoIterator<Item = &'static Class>) -> Library {
        let library = Library::default().with(classes);
        library.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Adds more classes.
    ///
    /// # Errors
    ///
    /// When two have the same name.
    pub fn with(
        mut self,
        classes: impl IntoIterator<Item = &'static Class>,
    ) -> Result<Library, DuplicateClass> {
        self.classes.extend(classes);
        self.classes.sort_by_key(|class| class.name);
        match self.classes.windows(2).find(|pair| pair[0].name == pair[1].name) {
            None => Ok(self),
            Some(pair) => {
                Err(DuplicateClass { name: pair[0].name, paths: [pair[0].path(), pair[1].path()] })
            }
        }
    }

    /// The class of that name.
    pub fn find(&self, name: &str) -> Option<&'static Class> {
        let at = self.classes.binary_search_by_key(&name, |class| class.name).ok()?;
        Some(self.classes[at])
    }

    /// All classes, by name.
    pub fn iter(&self) -> impl Iterator<Item = &'static Class> + '_ {
        self.classes.iter().copied()
    }
}

impl Classes for Library {
    fn contains(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    fn names(&self) -> Vec<&str> {
        self.classes.iter().map(|class| class.name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        const A: Class = Class { name: "A", ..Class::here() };
        const B: Class = Class { name: "B", ..Class::here() };
        let library = Library::new([&B]).with([&A]).unwrap();
        assert_eq!(library.names(), ["A", "B"]);
        assert_eq!(library.find("B").map(|class| class.name), Some("B"));
        const OTHER: Class = Class { file: "src/b.rs", ..B };
        let error = library.with([&OTHER]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "two element classes are called B, in crates/graph/engine/src/element/library.rs and \
             in src/b.rs: one of them needs another name"
        );
    }
}
