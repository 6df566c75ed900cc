//! Parser: makes the syntax tree from the lexer's words.
//!
//! Recursive descent. After an error the parser goes on, with the same idea of
//! where the next statement starts as Click's reader has, so that both report
//! the same list. Nothing is looked up here: whether a name is an element or a
//! class is the resolver's business.

mod compound;
mod ports;

use super::ast::{
    Arrow, Ast, Class, Config, Connection, Cursor, Definition, Element, ElementClass, ElementList,
    ElementRef, Ident, Ports, Side, Statement,
};
use super::diagnostic::{Diagnostic, Diagnostics, Order};
use super::lexer::{Lexer, Token, TokenKind};
use super::source::{FileId, SourceMap, Span};

/// Compounds and groups may be nested this deep.
const NESTING_MAX: usize = 50;

/// Parses a text. The tree covers all that could be understood.
pub fn parse(sources: &mut SourceMap, file: FileId) -> (Ast, Diagnostics) {
    let mut parser = Parser {
        lexer: Lexer::new(sources, file),
        pushed_back: Vec::new(),
        diagnostics: Diagnostics::new(),
        nesting: 0,
        abandoned: false,
        numbers: ports::NUMBERS_MAX,
        ends_in_output: true,
    };
    let mut statements = Vec::new();
    parser.statements(Enclosing::File, &mut statements);
    (Ast { file, statements }, parser.diagnostics)
}

/// The construct that statements are part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Enclosing {
    File,
    Compound,
    Group,
}

/// The end of a list of statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListEnd {
    /// The closing mark, or a token that stands for it.
    Closed,
    /// `||`
    Overload,
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    /// Tokens that were read too early; the last is the next.
    pushed_back: Vec<Token>,
    diagnostics: Diagnostics,
    nesting: usize,
    /// The rest of the text is not read.
    abandoned: bool,
    /// Number of port numbers that may still be written out.
    numbers: usize,
    /// The last connection at this level ended in the single element `output`.
    ends_in_output: bool,
}

impl Parser<'_> {
    // Tokens.

    fn next(&mut self) -> Token {
        if let Some(token) = self.pushed_back.pop() {
            return token;
        }
        let token = self.lexer.next();
        self.directives();
        token
    }

    fn push_back(&mut self, token: Token) {
        self.pushed_back.push(token);
    }

    /// Takes the next token if it is a `kind`. A token that is not taken has not been read either:
    /// it does not count for landmarks.
    fn accept(&mut self, kind: TokenKind) -> Option<Token> {
        if let Some(&token) = self.pushed_back.last() {
            return if token.kind == kind { self.pushed_back.pop() } else { None };
        }
        let before = self.lexer.position;
        let token = self.lexer.next();
        self.directives();
        if token.kind == kind {
            return Some(token);
        }
        self.lexer.position = before;
        None
    }

    /// As [`Parser::accept`], with an error if it is something else.
    fn expect(&mut self, kind: TokenKind) -> Option<Token> {
        let token = self.accept(kind);
        if token.is_none() {
            let here = self.lexer.span(self.lexer.position, self.lexer.position);
            self.error(here, format!("expected {}", kind.describe()));
        }
        token
    }

    fn directives(&mut self) {
        for span in self.lexer.take_bad_directives() {
            // Known as soon as it is read, unlike an error of a statement.
            let landmark = self.lexer.sources().landmark(span, span.start);
            let order = Order::parser(self.cursor().diagnostics);
            let message = "unknown preprocessor directive";
            self.diagnostics.push(Diagnostic::error(landmark, message).at(order));
        }
    }

    fn ident(&self, token: Token) -> Ident {
        let word = self.lexer.word(token);
        Ident { name: word.strip_prefix('$').unwrap_or(word).to_owned(), span: token.span }
    }

    /// Returns the progress of the parser.
    fn cursor(&self) -> Cursor {
        Cursor { at: self.lexer.position, diagnostics: self.diagnostics.len() }
    }

    /// Goes to the end of the text.
    fn abandon(&mut self) {
        self.abandoned = true;
        self.pushed_back.clear();
        self.lexer.finish();
    }

    // Errors.

    fn error(&mut self, span: Span, message: impl Into<String>) {
        self.report(Diagnostic::error, span, message.into(), None);
    }

    fn report(
        &mut self,
        severity: fn(super::source::Landmark, String) -> Diagnostic,
        span: Span,
        message: String,
        label: Option<&str>,
    ) {
        let cursor = self.cursor();
        let landmark = self.lexer.sources().landmark(span, cursor.at);
        let mut diagnostic = severity(landmark, message).at(Order::parser(cursor.diagnostics));
        if let Some(label) = label {
            diagnostic = diagnostic.label(label);
        }
        self.diagnostics.push(diagnostic);
    }

    fn syntax_error(&mut self, token: Token, expected: &str) {
        let word = self.lexer.word(token);
        // Click names variables without their mark, and the end not at all.
        let word = match token.kind {
            TokenKind::Variable => &word[1..],
            _ => word,
        };
        let message = format!("syntax error near '{word}'");
        self.report(Diagnostic::error, token.span, message, Some(&format!("expected {expected}")));
    }

    // Statements.

    fn statements(&mut self, enclosing: Enclosing, out: &mut Vec<Statement>) -> ListEnd {
        loop {
            let token = self.next();
            match token.kind {
                TokenKind::Ident
                | TokenKind::Char('[' | '{' | '(')
                | TokenKind::Arrow
                | TokenKind::DoubleArrow => {
                    self.push_back(token);
                    let connection = self.connection(enclosing);
                    self.ends_in_output = ends_in_output(&connection);
                    out.push(Statement::Connection(connection));
                }
                TokenKind::ElementClass => {
                    let class = self.element_class();
                    out.push(Statement::ElementClass(class));
                }
                TokenKind::Require => {
                    if let Some(mut config) = self.parenthesized() {
                        self.accept(TokenKind::Char(';'));
                        config.cursor = self.cursor();
                        out.push(Statement::Require(config));
                    }
                }
                TokenKind::Define => {
                    if let Some(config) = self.parenthesized() {
                        out.push(Statement::Define(config));
                    }
                }
                TokenKind::Char(';') => {}
                TokenKind::Char('}') if enclosing == Enclosing::Compound => return ListEnd::Closed,
                TokenKind::DoubleBar if enclosing == Enclosing::Compound => {
                    return ListEnd::Overload;
                }
                TokenKind::Char(')') if enclosing == Enclosing::Group => return ListEnd::Closed,
                TokenKind::Char('}') | TokenKind::DoubleBar => {
                    self.syntax_error(token, "a statement");
                    if enclosing == Enclosing::Group {
                        // The parenthesis is missing: the construct around the group goes on with
                        // this token.
                        self.push_back(token);
                        return ListEnd::Closed;
                    }
                }
                TokenKind::End => {
                    match enclosing {
                        _ if self.abandoned => {}
                        Enclosing::File => {}
                        Enclosing::Group => self.error(token.span, "expected ')'"),
                        Enclosing::Compound => self.error(token.span, "expected '}'"),
                    }
                    return ListEnd::Closed;
                }
                _ => self.syntax_error(token, "a statement"),
            }
        }
    }

    fn element_class(&mut self) -> ElementClass {
        let token = self.next();
        let name = if token.kind == TokenKind::Ident {
            Some(self.ident(token))
        } else {
            self.push_back(token);
            self.error(token.span, "expected element type name");
            None
        };
        let token = self.next();
        let definition = match token.kind {
            TokenKind::Char('{') => Definition::Compound(self.compound(token)),
            TokenKind::Ident => Definition::Synonym(self.ident(token)),
            _ => {
                self.syntax_error(token, "'{' or the name of a class");
                Definition::Missing
            }
        };
        ElementClass { name, definition, cursor: self.cursor() }
    }

    /// `( CONFIG )`.
    fn parenthesized(&mut self) -> Option<Config> {
        self.expect(TokenKind::Char('('))?;
        Some(self.config())
    }

    /// The configuration after an opening parenthesis, and the closing one.
    fn config(&mut self) -> Config {
        let opened = self.cursor();
        let (text, span) = self.lexer.config();
        self.directives();
        self.expect(TokenKind::Char(')'));
        Config { text, span, opened, cursor: self.cursor() }
    }

    // Connections.

    fn connection(&mut self, enclosing: Enclosing) -> Connection {
        let mut connection =
            Connection { lists: Vec::new(), arrows: Vec::new(), cursor: self.cursor() };
        while let Some(list) = self.list(enclosing, connection.lists.is_empty()) {
            connection.lists.push(list);
            let Some(arrow) = self.arrow() else { break };
            connection.arrows.push(arrow);
            if let Some(context) = self.context(arrow) {
                connection.lists.push(context);
                connection.arrows.push(arrow);
            }
        }
        connection.cursor = self.cursor();
        connection
    }

    /// The arrow that continues a connection, if it goes on.
    fn arrow(&mut self) -> Option<Arrow> {
        loop {
            let token = self.next();
            match token.kind {
                TokenKind::Arrow | TokenKind::DoubleArrow => {
                    return Some(Arrow {
                        double: token.kind == TokenKind::DoubleArrow,
                        span: token.span,
                    });
                }
                TokenKind::Char(',') | TokenKind::DoubleColon => {
                    self.syntax_error(token, "'->' or ';'");
                }
                TokenKind::Char(';') | TokenKind::End => return None,
                TokenKind::Ident
                | TokenKind::Char('{' | '}' | '[' | ')')
                | TokenKind::DoubleBar
                | TokenKind::ElementClass
                | TokenKind::Require
                | TokenKind::Provide
                | TokenKind::Define => {
                    self.push_back(token);
                    return None;
                }
                _ => {
                    self.syntax_error(token, "'->' or ';'");
                    if token.kind.is_word() {
                        self.push_back(token);
                    }
                    return None;
                }
            }
        }
    }

    /// The element that a context arrow of `FastClick` stands for: `IPIn` for `~IP>`, `IPOut` for
    /// `~/IP>`.
    fn context(&self, arrow: Arrow) -> Option<ElementList> {
        let token = Token { kind: TokenKind::Arrow, span: arrow.span };
        let context = self.lexer.word(token).strip_prefix('~')?.strip_suffix('>')?;
        let class = match context.strip_prefix('/') {
            Some(left) => format!("{}Out", left.to_ascii_uppercase()),
            None => format!("{}In", context.to_ascii_uppercase()),
        };
        let span = arrow.span;
        let element = Element {
            span,
            cursor: self.cursor(),
            inputs: Ports::default(),
            what: ElementRef::Name(Ident { name: class, span }),
            class: None,
            config: None,
            outputs: Ports::default(),
        };
        let named = !matches!(context, "" | "/");
        named.then(|| ElementList { elements: vec![element], spread: false, cursor: self.cursor() })
    }

    /// Elements with commas between them; nothing if there is none.
    fn list(&mut self, enclosing: Enclosing, first: bool) -> Option<ElementList> {
        let mut elements: Vec<Element> = Vec::new();
        let token = loop {
            match self.element(enclosing, first, elements.is_empty()) {
                Some(element) => elements.push(element),
                None if elements.is_empty() => return None,
                // A comma too many is forgiven.
                None => {}
            }
            let token = self.next();
            if token.kind != TokenKind::Char(',') {
                self.push_back(token);
                break token;
            }
        };
        let arrow = matches!(token.kind, TokenKind::Arrow | TokenKind::DoubleArrow);
        let implicit =
            elements.iter().any(|element| matches!(element.what, ElementRef::Implicit(_)));
        if implicit && !first && arrow {
            self.error(token.span, "implicit ports used in the middle of a chain");
        }
        let ports = elements
            .iter()
            .any(|element| !element.inputs.is_empty() || !element.outputs.is_empty());
        let spread = first && !arrow && !ports && !implicit && only_last_declared(&elements);
        Some(ElementList { elements, spread, cursor: self.cursor() })
    }

    /// One element. `first`: it stands before the first arrow. `alone`: no
    /// element of its list is before it.
    fn element(&mut self, enclosing: Enclosing, first: bool, alone: bool) -> Option<Element> {
        let mut inputs = self.ports();
        let token = self.next();
        let mut span = inputs.span.unwrap_or(token.span).to(token.span);
        let what = match token.kind {
            TokenKind::Ident => ElementRef::Name(self.ident(token)),
            TokenKind::Char('{') => {
                let compound = self.compound(token);
                span = span.to(compound.span);
                ElementRef::Compound(compound)
            }
            TokenKind::Char('(') => {
                let group = self.group(token);
                span = span.to(group.span);
                ElementRef::Group(group)
            }
            _ => match self.implicit(enclosing, first, alone, &inputs, token) {
                Some(side) => {
                    self.push_back(token);
                    let mut outputs = Ports::default();
                    if side == Side::Input {
                        // `[1] -> a` means `input [1] -> a`.
                        outputs = std::mem::take(&mut inputs);
                    }
                    let end = outputs.span.or(inputs.span);
                    return Some(Element {
                        span: end.unwrap_or(self.lexer.span(token.span.start, token.span.start)),
                        cursor: self.cursor(),
                        inputs,
                        what: ElementRef::Implicit(side),
                        class: None,
                        config: None,
                        outputs,
                    });
                }
                None => {
                    self.no_element(enclosing, first, alone, &inputs, token);
                    return None;
                }
            },
        };
        let cursor = self.cursor();
        let class = self.class();
        match &class {
            Some(Class::Name(name, _)) => span = span.to(name.span),
            Some(Class::Compound(compound)) => span = span.to(compound.span),
            Some(Class::Missing(_)) | None => {}
        }
        let token = self.next();
        let config = if token.kind == TokenKind::Char('(') {
            let config = self.config();
            span.end = config.cursor.at;
            let after = self.next();
            self.push_back(after);
            Some(config)
        } else {
            self.push_back(token);
            None
        };
        let outputs = self.ports();
        if let Some(ports) = outputs.span {
            span = span.to(ports);
        }
        Some(Element { span, cursor, inputs, what, class, config, outputs })
    }

    /// Whether `input` or `output` is meant where there is no name but `token`.
    fn implicit(
        &mut self,
        enclosing: Enclosing,
        first: bool,
        alone: bool,
        ports: &Ports,
        token: Token,
    ) -> Option<Side> {
        if enclosing == Enclosing::File {
            return None;
        }
        let possible = !ports.is_empty() || alone;
        match token.kind {
            TokenKind::Arrow | TokenKind::DoubleArrow => {
                if !(first && possible) {
                    return None;
                }
                if ports.is_empty() && !self.ends_in_output {
                    let arrow = self.lexer.word(token);
                    let message =
                        format!("suggest 'input {arrow}' or '[0] {arrow}' to start connection");
                    self.report(Diagnostic::warning, token.span, message, None);
                }
                Some(Side::Input)
            }
            TokenKind::Char(',') if ports.is_empty() => None,
            TokenKind::Char(',') if first => Some(Side::Input),
            TokenKind::Char(',') => Some(Side::Output),
            TokenKind::DoubleColon => None,
            _ => (!first && possible).then_some(Side::Output),
        }
    }

    /// Reports that `token` is no element.
    fn no_element(
        &mut self,
        enclosing: Enclosing,
        first: bool,
        alone: bool,
        ports: &Ports,
        token: Token,
    ) {
        if let (false, Some(span)) = (ports.is_empty(), ports.span) {
            self.error(span, "stranded port ignored");
        }
        if !alone {
            return;
        }
        if enclosing != Enclosing::File && first {
            self.push_back(token);
        } else {
            self.syntax_error(token, "an element");
        }
    }

    /// `:: Class`.
    fn class(&mut self) -> Option<Class> {
        let token = self.next();
        if token.kind != TokenKind::DoubleColon {
            self.push_back(token);
            return None;
        }
        let token = self.next();
        Some(match token.kind {
            TokenKind::Ident => Class::Name(self.ident(token), self.cursor()),
            TokenKind::Char('{') => Class::Compound(self.compound(token)),
            _ => {
                self.error(token.span, "missing element type in declaration");
                self.push_back(token);
                Class::Missing(self.cursor())
            }
        })
    }
}

/// Returns true if the connection's end is the element `output` and nothing else.
fn ends_in_output(connection: &Connection) -> bool {
    let Some(ElementList { elements, .. }) = connection.lists.last() else {
        return false;
    };
    match elements.as_slice() {
        [element] => match &element.what {
            ElementRef::Implicit(side) => *side == Side::Output,
            ElementRef::Name(name) => name.name == "output",
            ElementRef::Compound(_) | ElementRef::Group(_) => false,
        },
        _ => false,
    }
}

/// Returns true if there are several elements and all but the last are mere names.
fn only_last_declared(elements: &[Element]) -> bool {
    let bare = |element: &Element| {
        matches!(element.what, ElementRef::Name(_))
            && element.class.is_none()
            && element.config.is_none()
    };
    match elements.split_last() {
        Some((last, rest)) => !rest.is_empty() && rest.iter().all(bare) && !bare(last),
        None => false,
    }
}
