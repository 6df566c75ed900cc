//! Lexer: words and symbols of the language, and configuration strings.
//!
//! A configuration string is not made of tokens: after `(` the parser asks for
//! the raw text up to the parenthesis that closes it. The lexer steps over
//! comments and applies line directives; nothing else is interpreted here.
//!
//! Source: the "Lexical issues" of click(5), and Click's behaviour.

use std::sync::Arc;

use super::config;
use super::source::{FileId, SourceMap, Span};

/// Kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// A name: letters, digits, `_`, `@`, parts joined by single slashes.
    /// Port numbers are names too.
    Ident,
    /// `$name`.
    Variable,
    /// `->`, or the `~>`, `~name>` and `~/name>` of `FastClick`.
    Arrow,
    /// `=>`
    DoubleArrow,
    /// `::`
    DoubleColon,
    /// `||`
    DoubleBar,
    /// `...`
    Ellipsis,
    /// `elementclass`
    ElementClass,
    /// `require`
    Require,
    /// `provide`
    Provide,
    /// `define`
    Define,
    /// Any other single character.
    Char(char),
    /// The end of the text.
    End,
}

impl TokenKind {
    /// Returns Click's name for it in messages.
    pub fn describe(self) -> String {
        match self {
            TokenKind::Ident => "identifier".into(),
            TokenKind::Variable => "variable".into(),
            TokenKind::Arrow => "'->'".into(),
            TokenKind::DoubleArrow => "'=>'".into(),
            TokenKind::DoubleColon => "'::'".into(),
            TokenKind::DoubleBar => "'||'".into(),
            TokenKind::Ellipsis => "'...'".into(),
            TokenKind::ElementClass => "'elementclass'".into(),
            TokenKind::Require => "'require'".into(),
            TokenKind::Provide => "'provide'".into(),
            TokenKind::Define => "'define'".into(),
            TokenKind::Char(c) => format!("'{c}'"),
            TokenKind::End => "end of file".into(),
        }
    }

    /// Returns true if the token is more than a single character.
    pub(super) fn is_word(self) -> bool {
        !matches!(self, TokenKind::Char(_) | TokenKind::End)
    }
}

/// A token and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// Its kind.
    pub kind: TokenKind,
    /// Its place.
    pub span: Span,
}

/// Reads one text.
#[derive(Debug)]
pub(super) struct Lexer<'a> {
    sources: &'a mut SourceMap,
    file: FileId,
    text: Arc<str>,
    /// The next byte to read.
    pub(super) position: usize,
    /// Lines that start with `#` and are no directives.
    bad_directives: Vec<Span>,
    /// Directives before this byte have been dealt with.
    directed: usize,
}

/// Returns true if `byte` can be part of a name.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'@'
}

impl<'a> Lexer<'a> {
    pub(super) fn new(sources: &'a mut SourceMap, file: FileId) -> Lexer<'a> {
        let text = sources.text(file).clone();
        Lexer { sources, file, text, position: 0, bad_directives: Vec::new(), directed: 0 }
    }

    /// The text's map.
    pub(super) fn sources(&self) -> &SourceMap {
        self.sources
    }

    /// Returns the text of `token`.
    pub(super) fn word(&self, token: Token) -> &str {
        self.text.get(token.span.start..token.span.end).unwrap_or_default()
    }

    /// `#` lines that are no line directives, found since the last call.
    pub(super) fn take_bad_directives(&mut self) -> Vec<Span> {
        std::mem::take(&mut self.bad_directives)
    }

    /// The span from `start` to `end`.
    pub(super) fn span(&self, start: usize, end: usize) -> Span {
        Span { file: self.file, start, end }
    }

    /// Goes to the end of the text.
    pub(super) fn finish(&mut self) {
        self.position = self.text.len();
    }

    /// The next token.
    pub(super) fn next(&mut self) -> Token {
        let text = self.text.clone();
        let bytes = text.as_bytes();
        self.skip_blank(bytes);
        let start = self.position;
        let Some(&first) = bytes.get(start) else {
            return Token { kind: TokenKind::End, span: self.span(start, start) };
        };
        let rest = &bytes[start..];
        let (kind, length) = if is_word(first) {
            let length = word_length(rest);
            let kind = match &rest[..length] {
                b"elementclass" => TokenKind::ElementClass,
                b"require" => TokenKind::Require,
                b"provide" => TokenKind::Provide,
                b"define" => TokenKind::Define,
                _ => TokenKind::Ident,
            };
            (kind, length)
        } else if first == b'$' {
            let name = rest[1..]
                .iter()
                .take_while(|&&byte| byte.is_ascii_alphanumeric() || byte == b'_')
                .count();
            (TokenKind::Variable, 1 + name)
        } else if rest.starts_with(b"->") {
            (TokenKind::Arrow, 2)
        } else if let Some(length) = context_arrow(rest) {
            (TokenKind::Arrow, length)
        } else if rest.starts_with(b"=>") {
            (TokenKind::DoubleArrow, 2)
        } else if rest.starts_with(b"::") {
            (TokenKind::DoubleColon, 2)
        } else if rest.starts_with(b"||") {
            (TokenKind::DoubleBar, 2)
        } else if rest.starts_with(b"...") {
            (TokenKind::Ellipsis, 3)
        } else {
            let c = text[start..].chars().next().unwrap_or('\0');
            (TokenKind::Char(c), c.len_utf8())
        };
        self.position = start + length;
        Token { kind, span: self.span(start, self.position) }
    }

    /// The configuration string that starts here, without the parenthesis that
    /// closes it, and without line directives. Goes to the end of the text if
    /// nothing closes it.
    pub(super) fn config(&mut self) -> (String, Span) {
        let text = self.text.clone();
        let bytes = text.as_bytes();
        let start = self.position;
        let mut out = String::new();
        let mut kept = start;
        let mut depth = 1usize;
        let mut at = start;
        while at < bytes.len() {
            match bytes[at] {
                b'(' => depth += 1,
                b')' => {
                    depth -= 1;
                    if depth == 0 {
                        break;
                    }
                }
                b'#' if at_line_start(bytes, at) => {
                    out.push_str(&text[kept..at]);
                    at = self.directive(&text, at);
                    kept = at;
                    continue;
                }
                _ => {
                    let opaque = config::opaque(&bytes[at..]);
                    if opaque > 0 {
                        at += opaque;
                        continue;
                    }
                }
            }
            at += 1;
        }
        out.push_str(&text[kept..at]);
        self.position = at;
        (out, self.span(start, at))
    }

    /// Steps over space, comments and line directives.
    fn skip_blank(&mut self, bytes: &[u8]) {
        while let Some(&byte) = bytes.get(self.position) {
            if config::is_space(byte) {
                self.position += 1;
            } else if config::comment(&bytes[self.position..]) > 0 {
                self.position += config::comment(&bytes[self.position..]);
            } else if byte == b'#' && at_line_start(bytes, self.position) {
                let text = self.text.clone();
                self.position = self.directive(&text, self.position);
            } else {
                break;
            }
        }
    }

    /// Applies the line directive at `start`; returns where its line ends.
    fn directive(&mut self, text: &str, start: usize) -> usize {
        let bytes = text.as_bytes();
        let line_end = bytes[start..]
            .iter()
            .position(|&byte| byte == b'\n' || byte == b'\r')
            .map_or(bytes.len(), |length| start + length);
        let seen = start < self.directed;
        self.directed = self.directed.max(start + 1);
        let line = text[start + 1..line_end].trim_start_matches([' ', '\t']);
        let line = match line.strip_prefix("line") {
            Some(rest) if rest.starts_with([' ', '\t']) => rest.trim_start_matches([' ', '\t']),
            _ => line,
        };
        let digits = line.bytes().take_while(u8::is_ascii_digit).count();
        if seen {
            return line_end;
        }
        if digits == 0 {
            let span = self.span(start, line_end);
            self.bad_directives.push(span);
            return line_end;
        }
        // The number is the next line's. One too large to be a line is as
        // good as any other.
        let number = line[..digits].parse::<u32>().unwrap_or(u32::MAX) as usize;
        let rest = line[digits..].trim_start_matches([' ', '\t']);
        let name = rest.starts_with('"').then(|| {
            let quoted = &rest[..config::quoted(rest.as_bytes()).max(1)];
            String::from_utf8_lossy(&config::unquote(quoted)).into_owned()
        });
        self.sources.direct(self.file, start, name.as_deref(), number.saturating_sub(1));
        line_end
    }
}

/// The length of the name at the start of `bytes`: a slash belongs to it if
/// more of the name follows, so that `a//b` is a name and a comment.
fn word_length(bytes: &[u8]) -> usize {
    let mut length = 0;
    loop {
        length += bytes[length..].iter().take_while(|&&b| is_word(b)).count();
        match bytes.get(length..) {
            Some([b'/', next, ..]) if is_word(*next) => length += 1,
            _ => return length,
        }
    }
}

/// Returns true if the byte at `at` is the first of its line.
fn at_line_start(bytes: &[u8], at: usize) -> bool {
    at == 0 || matches!(bytes[at - 1], b'\n' | b'\r')
}

/// The length of a context arrow of `FastClick`, if there is one.
fn context_arrow(bytes: &[u8]) -> Option<usize> {
    let name = bytes.strip_prefix(b"~")?;
    let length = name.iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'/').count();
    (name.get(length) == Some(&b'>')).then_some(length + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let mut sources = SourceMap::new();
        let file = sources.add("f", text);
        let mut lexer = Lexer::new(&mut sources, file);
        let mut out = Vec::new();
        loop {
            let token = lexer.next();
            if token.kind == TokenKind::End {
                return out;
            }
            out.push(lexer.word(token).to_owned());
        }
    }

    #[test]
    fn tokens() {
        for (text, expected) in [
            ("a->b", &["a", "->", "b"][..]),
            ("a::B=>c", &["a", "::", "B", "=>", "c"]),
            ("a/b/c @x_1 5", &["a/b/c", "@x_1", "5"]),
            ("a//b\nc", &["a", "c"]),
            ("a/*b*/c", &["a", "c"]),
            ("a/ b", &["a", "/", "b"]),
            ("/* open", &[]),
            ("$a $ $b-", &["$a", "$", "$b", "-"]),
            ("|| | ... ..", &["||", "|", "...", ".", "."]),
            ("[0-]", &["[", "0", "-", "]"]),
            ("é", &["é"]),
            ("# 3 \"x\"\na", &["a"]),
        ] {
            assert_eq!(words(text), expected, "{text}");
        }
    }

    #[test]
    fn configuration_strings() {
        for (text, config, rest) in [
            ("a)b", "a", ")b"),
            ("a(b)c)d", "a(b)c", ")d"),
            ("')',\")\\\")\" \\<29)> )", "')',\")\\\")\" \\<29)> ", ")"),
            ("a // )\n b)", "a // )\n b", ")"),
            ("a /* ) */ b)", "a /* ) */ b", ")"),
            ("a\n# 7 \"g\"\nb)", "a\n\nb", ")"),
            ("open", "open", ""),
            ("'open)", "'open)", ""),
        ] {
            let mut sources = SourceMap::new();
            let file = sources.add("f", text);
            let mut lexer = Lexer::new(&mut sources, file);
            assert_eq!(lexer.config().0, config, "{text}");
            assert_eq!(&text[lexer.position..], rest, "{text}");
        }
    }
}
