//! Syntax tree: a configuration as it is written.
//!
//! Every node has its [`Span`]. Nodes that can be wrong also have a [`Cursor`]: the parser's
//! position when the node was complete. Click reports the line it has reached, which after a
//! construct without a closing mark is the line of the next word.

use super::source::{FileId, Span};

/// One text.
#[derive(Clone, Debug)]
pub struct Ast {
    /// The text.
    pub file: FileId,
    /// Its statements.
    pub statements: Vec<Statement>,
}

/// Progress of the parser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The next byte.
    pub at: usize,
    /// Number of its findings so far.
    pub diagnostics: usize,
}

/// A name as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ident {
    /// The name; of a variable, without its `$`.
    pub name: String,
    /// Its place.
    pub span: Span,
}

/// A statement.
#[derive(Clone, Debug)]
pub enum Statement {
    /// Elements, declared or connected.
    Connection(Connection),
    /// `elementclass NAME ...`
    ElementClass(ElementClass),
    /// `require(...)`
    Require(Config),
    /// `define(...)`
    Define(Config),
}

/// `a -> b, c => d`.
#[derive(Clone, Debug)]
pub struct Connection {
    /// The lists of elements, in order.
    pub lists: Vec<ElementList>,
    /// The arrows between them: `arrows[i]` is after `lists[i]`.
    pub arrows: Vec<Arrow>,
    /// Progress of the parser at the end.
    pub cursor: Cursor,
}

/// `->` or `=>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrow {
    /// Whether it is `=>`.
    pub double: bool,
    /// Its place.
    pub span: Span,
}

/// `a, b, c`.
#[derive(Clone, Debug)]
pub struct ElementList {
    /// The elements.
    pub elements: Vec<Element>,
    /// The class and configuration of the last element are meant for all.
    pub spread: bool,
    /// Progress of the parser at the end.
    pub cursor: Cursor,
}

impl ElementList {
    /// From the first element to the last.
    pub fn span(&self) -> Option<Span> {
        let first = self.elements.first()?;
        let last = self.elements.last()?;
        Some(first.span.to(last.span))
    }
}

/// `[ports] element :: Class(config) [ports]`.
#[derive(Clone, Debug)]
pub struct Element {
    /// All of it.
    pub span: Span,
    /// Progress of the parser at the name.
    pub cursor: Cursor,
    /// Ports before it.
    pub inputs: Ports,
    /// The element it refers to or declares.
    pub what: ElementRef,
    /// The class it is declared with.
    pub class: Option<Class>,
    /// Its configuration.
    pub config: Option<Config>,
    /// Ports after it.
    pub outputs: Ports,
}

/// Reference to an element, or its definition.
#[derive(Clone, Debug)]
pub enum ElementRef {
    /// The name of an element or of a class.
    Name(Ident),
    /// Nothing: `input` before the first arrow or `output` after the last.
    Implicit(Side),
    /// `{ ... }`
    Compound(Compound),
    /// `( ... )`
    Group(Group),
}

/// One of the two sides of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The side where packets enter.
    Input,
    /// The side where packets leave.
    Output,
}

impl Side {
    /// `input` or `output`.
    pub fn name(self) -> &'static str {
        match self {
            Side::Input => "input",
            Side::Output => "output",
        }
    }

    /// The other one.
    #[must_use]
    pub fn opposite(self) -> Side {
        match self {
            Side::Input => Side::Output,
            Side::Output => Side::Input,
        }
    }
}

/// `[0, 2-4, 7-]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ports {
    /// The numbers, ranges written out.
    pub list: Vec<u32>,
    /// Further ports follow the last as needed.
    pub open: bool,
    /// Place of the brackets, if there are any.
    pub span: Option<Span>,
}

impl Ports {
    /// Returns true if no port is given.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

/// The class after `::`.
#[derive(Clone, Debug)]
pub enum Class {
    /// A name, and how far had been read.
    Name(Ident, Cursor),
    /// `{ ... }`
    Compound(Compound),
    /// It is missing; how far had been read.
    Missing(Cursor),
}

/// The text between parentheses.
#[derive(Clone, Debug)]
pub struct Config {
    /// The text, without line directives.
    pub text: String,
    /// Its place, without the parentheses.
    pub span: Span,
    /// Progress of the parser before it.
    pub opened: Cursor,
    /// Progress of the parser after it.
    pub cursor: Cursor,
}

/// `{ body || body || ... }`.
#[derive(Clone, Debug)]
pub struct Compound {
    /// From the opening brace to the closing one.
    pub span: Span,
    /// The overloads, at least one.
    pub bodies: Vec<Body>,
    /// `...`, which adds the overloads known so far, and how far had been
    /// read.
    pub extends: Option<(Span, Cursor)>,
}

/// `$formals | statements`.
#[derive(Clone, Debug)]
pub struct Body {
    /// All of it.
    pub span: Span,
    /// Progress of the parser at its start.
    pub cursor: Cursor,
    /// Progress of the parser at its end.
    pub end: Cursor,
    /// The parameters.
    pub formals: Vec<Formal>,
    /// The statements.
    pub statements: Vec<Statement>,
}

/// `$name`, `KEYWORD $name` or `__REST__ $name`.
#[derive(Clone, Debug)]
pub struct Formal {
    /// The keyword.
    pub keyword: Option<Ident>,
    /// The variable, without `$`.
    pub variable: Ident,
    /// Progress of the parser.
    pub cursor: Cursor,
}

/// `( statements )`.
#[derive(Clone, Debug)]
pub struct Group {
    /// From the opening parenthesis to the closing one.
    pub span: Span,
    /// The statements.
    pub statements: Vec<Statement>,
    /// Progress of the parser at the end.
    pub cursor: Cursor,
}

/// `elementclass NAME definition`.
#[derive(Clone, Debug)]
pub struct ElementClass {
    /// The name, if there is one.
    pub name: Option<Ident>,
    /// The definition it stands for.
    pub definition: Definition,
    /// Progress of the parser at the end.
    pub cursor: Cursor,
}

/// Definition of an `elementclass` statement.
#[derive(Clone, Debug)]
pub enum Definition {
    /// A compound.
    Compound(Compound),
    /// Another name for a class.
    Synonym(Ident),
    /// It is missing.
    Missing,
}
