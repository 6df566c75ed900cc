//! Port lists: `[1]`, `[0, 2-4]`, `[]`, `[3-]`.

use super::super::ast::Ports;
use super::super::lexer::{Token, TokenKind};
use super::Parser;

/// The highest port number. An element gets all ports up to the highest one
/// used, so a typing error must not allocate gigabytes.
const PORT_MAX: u32 = 65_535;

/// Most port numbers in all lists of a text, with ranges expanded.
pub(super) const NUMBERS_MAX: usize = 1 << 20;

impl Parser<'_> {
    /// Parses a list of ports in brackets, if a bracket is next.
    pub(super) fn ports(&mut self) -> Ports {
        let mut ports = Ports::default();
        let Some(open) = self.accept(TokenKind::Char('[')) else {
            return ports;
        };
        let mut last = None;
        let mut range = false;
        let mut end = open.span;
        loop {
            let token = self.next();
            match token.kind {
                TokenKind::Ident => {
                    end = token.span;
                    let port = self.port(token);
                    let first = match last {
                        Some(before) if range => before + 1,
                        _ => port,
                    };
                    if self.take_numbers(first, port, token) {
                        ports.list.extend(first..=port);
                    }
                    last = Some(port);
                }
                TokenKind::Char(']') => {
                    end = token.span;
                    if ports.list.is_empty() {
                        ports.list.push(0);
                    }
                    ports.open = true;
                    break;
                }
                _ => {
                    self.error(token.span, "syntax error: expected port number");
                    self.push_back(token);
                    break;
                }
            }
            let token = self.next();
            match token.kind {
                TokenKind::Char(']') => {
                    end = token.span;
                    break;
                }
                TokenKind::Char('-') if !range => range = true,
                TokenKind::Char(',') => range = false,
                _ => {
                    self.error(token.span, "syntax error: expected ','");
                    self.push_back(token);
                }
            }
        }
        ports.span = Some(open.span.to(end));
        ports
    }

    /// Takes the numbers from `first` to `last` from the budget of the text; false if it is exhausted.
    fn take_numbers(&mut self, first: u32, last: u32, token: Token) -> bool {
        let count = (last + 1).saturating_sub(first) as usize;
        match self.numbers.checked_sub(count) {
            Some(left) => {
                self.numbers = left;
                true
            }
            None => {
                self.error(token.span, format!("more than {NUMBERS_MAX} ports in all lists"));
                false
            }
        }
    }

    fn port(&mut self, token: Token) -> u32 {
        let word = self.lexer.word(token);
        let digits = match word.strip_prefix("0x").or(word.strip_prefix("0X")) {
            Some(digits) => u64::from_str_radix(digits, 16),
            None if word.len() > 1 && word.starts_with('0') => u64::from_str_radix(word, 8),
            None => word.parse(),
        };
        match digits {
            Ok(port) if port <= u64::from(PORT_MAX) => port as u32,
            Ok(port) => {
                self.error(
                    token.span,
                    format!("port number {port} too large (the highest is {PORT_MAX})"),
                );
                0
            }
            Err(_) => {
                self.error(token.span, "syntax error: port number should be integer");
                0
            }
        }
    }
}
