//! The Click language: from text to a flat graph.
//!
//! [`load`] does everything: it [parses](parse) a text to a [syntax tree](ast), [flattens](flatten)
//! the tree to a [`Flat`] and collects the errors as [`Diagnostics`]. No file is opened and no
//! element is made here.
//!
//! ```
//! use linerate_language::{Classes, Globals, SourceMap};
//!
//! struct Known;
//! impl Classes for Known {
//!     fn contains(&self, name: &str) -> bool {
//!         self.names().contains(&name)
//!     }
//!     fn names(&self) -> Vec<&str> {
//!         vec!["Idle", "Queue", "Discard"]
//!     }
//! }
//!
//! let mut sources = SourceMap::new();
//! let file = sources.add("config", "elementclass Q { -> Queue -> } Idle -> q :: Q -> Discard");
//! let mut no_libraries = |_: &str, _: &str| Err(None);
//! let (flat, found) =
//!     linerate_language::load(&mut sources, file, &Known, &Globals::default(), &mut no_libraries);
//! assert!(found.is_empty());
//! assert_eq!(flat.elements[2].name, "q/Queue@1");
//!
//! let file = sources.add("config", "Idle -> Discrad");
//! let (_, found) =
//!     linerate_language::load(&mut sources, file, &Known, &Globals::default(), &mut no_libraries);
//! assert_eq!(found.click(), "config:1: undeclared element 'Discrad'\n");
//! assert!(found.rich(&sources, false).contains("did you mean 'Discard'?"));
//! ```
#![forbid(unsafe_code)]

pub mod ast;
mod cause;
pub mod config;
pub mod diagnostic;
pub mod flat;
pub mod lexer;
mod parser;
mod resolve;
pub mod source;
#[cfg(test)]
mod tests;

pub use ast::Ast;
pub use cause::Cause;
pub use diagnostic::{Diagnostic, Diagnostics, Severity};
pub use flat::{Flat, FlatConnection, FlatElement, PortRef, Requirement};
pub use parser::parse;
pub use resolve::{Classes, Globals, Library, Loader, flatten};
pub use source::{FileId, Landmark, SourceMap, Span};

/// Parses and flattens the text `file`.
pub fn load(
    sources: &mut SourceMap,
    file: FileId,
    classes: &dyn Classes,
    globals: &Globals,
    loader: &mut Loader<'_>,
) -> (Flat, Diagnostics) {
    let (ast, mut found) = parse(sources, file);
    let (flat, more) = flatten(sources, &ast, classes, globals, loader);
    found.merge(more);
    (flat, found)
}
