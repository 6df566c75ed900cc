//! Resolver: makes a flat graph from the syntax tree.
//!
//! Two passes. The first ([`define`], [`connect`]) goes through the statements
//! as Click's reader does, looks names up, and makes of every compound a
//! [`body::Body`]. The second ([`expand`], [`tunnel`]) puts a copy of the body
//! in the place of every element of such a class, and joins the connections at
//! its borders.
//!
//! The output of a text is limited: its elements, connections and the bytes of its names and
//! configurations.

mod body;
mod connect;
mod define;
mod expand;
mod overload;
mod scope;
mod spelling;
mod tunnel;

use std::collections::HashSet;

use super::ast::{Ast, Cursor};
use super::config::Budget;
use super::diagnostic::{Diagnostic, Diagnostics, Order};
use super::flat::{Flat, Requirement};
use super::source::{Landmark, SourceMap, Span};
use body::Body;
use scope::ClassNames;

/// The element classes there are.
pub trait Classes {
    /// Returns true if there is a class of this name.
    fn contains(&self, name: &str) -> bool;
    /// All names, for suggestions.
    fn names(&self) -> Vec<&str>;
    /// Returns true if a name that is no element's becomes a class where it is used as one, instead
    /// of being an error.
    fn is_open(&self) -> bool {
        false
    }
}

/// Input of a configuration besides its text.
#[derive(Clone, Debug, Default)]
pub struct Globals {
    /// Variables, as in `NAME=value` on the command line. They win over
    /// `define` at file scope.
    pub variables: Vec<(String, String)>,
}

/// A text named by `require(library NAME)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Library {
    /// Path of its file; a library is read once.
    pub path: String,
    /// The text.
    pub text: String,
}

/// Finds libraries. Gets the name as written and the path of the text that asks; returns the error,
/// or nothing if there is no such file.
pub type Loader<'a> = dyn FnMut(&str, &str) -> Result<Library, Option<String>> + 'a;

/// A configuration may not have more elements than this.
const ELEMENTS_MAX: usize = 1 << 18;
/// Nor more connections.
const CONNECTIONS_MAX: usize = 1 << 20;
/// Nor more bytes of names and configurations.
const BYTES_MAX: usize = 1 << 26;
/// Overloads of a class.
const OVERLOADS_MAX: usize = 256;
/// Ports of groups, which are written out for the connections beside them.
const GROUP_PORTS_MAX: usize = 1 << 20;
/// Compounds in compounds, and libraries that require libraries.
const DEPTH_MAX: usize = 100;

/// Flattens a configuration. The result is complete only if nothing is wrong.
pub fn flatten(
    sources: &mut SourceMap,
    ast: &Ast,
    classes: &dyn Classes,
    globals: &Globals,
    loader: &mut Loader<'_>,
) -> (Flat, Diagnostics) {
    let end = sources.text(ast.file).len();
    let start = Span { file: ast.file, start: 0, end: 0 };
    let root = Body::new(String::new(), sources.landmark(start, 0), 0);
    let mut resolver = Resolver {
        sources,
        diagnostics: Diagnostics::new(),
        classes: ClassNames::new(classes),
        loader,
        open_bodies: vec![root],
        bodies: Vec::new(),
        requirements: Vec::new(),
        libraries: HashSet::new(),
        requiring: 0,
        connections: 0,
        group_ports: GROUP_PORTS_MAX,
        budget: Budget::new(BYTES_MAX),
        full: false,
    };
    resolver.statements(&ast.statements);
    let end = resolver.sources.landmark(start, end);
    resolver.expand(globals, ast.file, end)
}

struct Resolver<'a> {
    sources: &'a mut SourceMap,
    diagnostics: Diagnostics,
    classes: ClassNames<'a>,
    loader: &'a mut Loader<'a>,
    /// The bodies that are being read: the file, and the compounds around the
    /// present statement.
    open_bodies: Vec<Body>,
    /// The bodies that have been read.
    bodies: Vec<std::rc::Rc<Body>>,
    requirements: Vec<Requirement>,
    /// Libraries that have been read.
    libraries: HashSet<String>,
    /// Number of libraries that are being read, one asked for by the other.
    requiring: usize,
    /// Connections so far.
    connections: usize,
    /// Ports that groups may still have.
    group_ports: usize,
    budget: Budget,
    /// A limit has been reached, and reported.
    full: bool,
}

impl Resolver<'_> {
    fn landmark(&self, span: Span, cursor: Cursor) -> Landmark {
        self.sources.landmark(span, cursor.at)
    }

    fn error(&mut self, span: Span, cursor: Cursor, message: impl Into<String>) {
        let landmark = self.landmark(span, cursor);
        self.push(Diagnostic::error(landmark, message), cursor);
    }

    /// Adds a diagnostic found when the reader was at `cursor`.
    fn push(&mut self, diagnostic: Diagnostic, cursor: Cursor) {
        self.diagnostics.push(diagnostic.at(Order::resolver(cursor.diagnostics)));
    }

    /// Reports a limit, once.
    fn limit(&mut self, landmark: &Landmark, message: String) {
        if !self.full {
            self.full = true;
            self.diagnostics.push(Diagnostic::error(landmark.clone(), message));
        }
    }

    /// The body that is being read.
    fn current(&mut self) -> &mut Body {
        let last = self.open_bodies.len() - 1;
        &mut self.open_bodies[last]
    }
}
