//! Libraries of configurations that are compiled in.

use linerate_graph::lang::Library as FoundLibrary;

/// A library of a configuration, in the program.
#[derive(Debug)]
pub struct LibraryText {
    /// Its name, as it is required.
    pub wanted: &'static str,
    /// The text that requires it.
    pub asking: &'static str,
    /// The file it was in.
    pub path: &'static str,
    /// Its text.
    pub text: &'static str,
}

impl LibraryText {
    /// Returns true if it is the one that `asking` requires.
    pub(crate) fn is_wanted(&self, wanted: &str, asking: &str) -> bool {
        self.wanted == wanted && self.asking == asking
    }

    pub(crate) fn to_library(&self) -> FoundLibrary {
        FoundLibrary { path: self.path.into(), text: self.text.into() }
    }
}
