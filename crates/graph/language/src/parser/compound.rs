//! Compound elements `{ ... }` and element groups `( ... )`.

use super::super::ast::{Body, Compound, Formal, Group};
use super::super::lexer::{Token, TokenKind};
use super::super::source::Span;
use super::{Enclosing, ListEnd, NESTING_MAX, Parser};

impl Parser<'_> {
    /// Parses the compound behind the opening brace `open`.
    pub(super) fn compound(&mut self, open: Token) -> Compound {
        let mut compound = Compound { span: open.span, bodies: Vec::new(), extends: None };
        if self.too_deep(open, "compound element") {
            compound.bodies.push(Body {
                span: open.span,
                cursor: self.cursor(),
                end: self.cursor(),
                formals: Vec::new(),
                statements: Vec::new(),
            });
            return compound;
        }
        self.nesting += 1;
        let outer_output = std::mem::replace(&mut self.ends_in_output, true);
        loop {
            let token = self.next();
            if token.kind == TokenKind::Ellipsis {
                compound.extends = Some((token.span, self.cursor()));
                let after = self.next();
                let last = after.kind == TokenKind::Char('}');
                if compound.bodies.is_empty() || !last {
                    self.error(token.span, "'...' should occur last, after one or more compounds");
                }
                if last && !compound.bodies.is_empty() {
                    break;
                }
                self.push_back(after);
                continue;
            }
            let cursor = self.cursor();
            self.push_back(token);
            let formals = self.formals();
            let mut statements = Vec::new();
            self.ends_in_output = true;
            let ended = self.statements(Enclosing::Compound, &mut statements);
            compound.bodies.push(Body {
                span: token.span.to(self.here()),
                cursor,
                end: self.cursor(),
                formals,
                statements,
            });
            if ended == ListEnd::Closed {
                break;
            }
        }
        self.ends_in_output = outer_output;
        self.nesting -= 1;
        compound.span = open.span.to(self.here());
        compound
    }

    /// Parses the group behind the opening parenthesis `open`.
    pub(super) fn group(&mut self, open: Token) -> Group {
        let mut statements = Vec::new();
        if !self.too_deep(open, "element group") {
            self.nesting += 1;
            let outer_output = std::mem::replace(&mut self.ends_in_output, true);
            self.statements(Enclosing::Group, &mut statements);
            self.ends_in_output = outer_output;
            self.nesting -= 1;
        }
        Group { span: open.span.to(self.here()), statements, cursor: self.cursor() }
    }

    /// Returns true, after reporting an error, if nesting is too deep for another level. The rest of
    /// the text is skipped then, since errors in it would be mere consequences.
    fn too_deep(&mut self, open: Token, construct: &str) -> bool {
        if self.nesting + 1 < NESTING_MAX {
            return false;
        }
        self.error(open.span, format!("maximum {construct} nesting depth exceeded"));
        self.abandon();
        true
    }

    /// Returns an empty span behind the last token.
    fn here(&self) -> Span {
        let end = match self.pushed_back.last() {
            Some(token) => token.span.start,
            None => self.lexer.position,
        };
        self.lexer.span(end, end)
    }

    /// Parses the parameters at the start of a body.
    fn formals(&mut self) -> Vec<Formal> {
        let mut formals = Vec::new();
        loop {
            let token = self.next();
            let (keyword, variable) = match token.kind {
                TokenKind::Variable => (None, token),
                TokenKind::Ident => {
                    let second = self.next();
                    if second.kind != TokenKind::Variable {
                        self.push_back(second);
                        self.push_back(token);
                        self.check_trailing_comma(&formals, token);
                        return formals;
                    }
                    (Some(self.ident(token)), second)
                }
                TokenKind::Char('|') => return formals,
                _ => {
                    self.push_back(token);
                    self.check_trailing_comma(&formals, token);
                    return formals;
                }
            };
            formals.push(Formal { keyword, variable: self.ident(variable), cursor: self.cursor() });
            let token = self.next();
            match token.kind {
                TokenKind::Char('|') => return formals,
                TokenKind::Char(',') => {}
                _ => {
                    self.error(token.span, "expected ',' or '|'");
                    self.push_back(token);
                    return formals;
                }
            }
        }
    }

    /// Reports a missing parameter behind a comma. A body without any parameter is
    /// no error.
    fn check_trailing_comma(&mut self, formals: &[Formal], token: Token) {
        if !formals.is_empty() {
            self.error(token.span, "expected variable");
        }
    }
}
