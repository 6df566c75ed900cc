//! Source texts, positions in them, and landmarks.
//!
//! A [`Span`] is a range of the text as it was read. A [`Landmark`] is the place for people: the
//! file's name and the line, after line directives (`# 12 "file"`) have been applied, in the form
//! `FILE:LINE`. Click reports the line its reader had reached, which is not always the line of the
//! construct; a landmark therefore carries both.
//!
//! No file is opened here: the caller reads it and adds its text.

use std::fmt;
use std::sync::Arc;

/// Names a text of a [`SourceMap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(u32);

/// A range of bytes of one text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    /// The text.
    pub file: FileId,
    /// The first byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

impl Span {
    /// The span from the start of this one to the end of `last`.
    #[must_use]
    pub fn to(self, last: Span) -> Span {
        Span { end: last.end.max(self.start), ..self }
    }
}

/// Place in a text, for people and for tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Landmark {
    /// The bytes of the construct.
    pub span: Span,
    /// The name the text goes by at this place.
    pub file: Arc<str>,
    /// The line, from 1; 0 for something that is in no text.
    pub line: usize,
}

impl fmt::Display for Landmark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 {
            return f.write_str(&self.file);
        }
        // A name such as `line ` brings its own separator.
        match self.file.chars().next_back() {
            Some(last) if last == ':' || last.is_ascii_whitespace() => {
                write!(f, "{}{}", self.file, self.line)
            }
            _ => write!(f, "{}:{}", self.file, self.line),
        }
    }
}

/// A line directive: the name of the text, and the numbering of its lines, from `from` on.
#[derive(Debug)]
struct Directive {
    from: usize,
    name: Arc<str>,
    /// Added to the number of the physical line.
    shift: i64,
}

/// One text.
#[derive(Debug)]
struct File {
    name: Arc<str>,
    text: Arc<str>,
    /// The first byte of each line.
    lines: Vec<usize>,
    directives: Vec<Directive>,
}

/// All texts of one configuration.
#[derive(Debug, Default)]
pub struct SourceMap {
    files: Vec<File>,
}

impl SourceMap {
    /// A map without texts.
    pub fn new() -> SourceMap {
        SourceMap::default()
    }

    /// Adds a text. Click calls the text of `-e` `config` and standard input
    /// `<stdin>`.
    pub fn add(&mut self, name: &str, text: &str) -> FileId {
        let bytes = text.as_bytes();
        let mut lines = vec![0];
        for (at, &byte) in bytes.iter().enumerate() {
            if byte == b'\n' || (byte == b'\r' && bytes.get(at + 1) != Some(&b'\n')) {
                lines.push(at + 1);
            }
        }
        self.files.push(File {
            name: name.into(),
            text: text.into(),
            lines,
            directives: Vec::new(),
        });
        FileId((self.files.len() - 1) as u32)
    }

    /// The text.
    pub fn text(&self, file: FileId) -> &Arc<str> {
        &self.files[file.0 as usize].text
    }

    /// All texts: the configuration and the libraries it requires.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|file| &*file.text)
    }

    /// The name the text was added under.
    pub fn name(&self, file: FileId) -> &Arc<str> {
        &self.files[file.0 as usize].name
    }

    /// Returns the text at `span`.
    pub fn slice(&self, span: Span) -> &str {
        self.text(span.file).get(span.start..span.end).unwrap_or_default()
    }

    /// From `from` on, the text is called `name` (as before if there is none,
    /// as at the beginning if it is empty), and the line `from` is in is
    /// number `line`. Directives come in the order of the text; one that was
    /// seen before is ignored.
    pub(super) fn direct(&mut self, file: FileId, from: usize, name: Option<&str>, line: usize) {
        let physical = self.physical_line(file, from);
        let file = &mut self.files[file.0 as usize];
        let last = file.directives.last();
        if last.is_some_and(|last| last.from >= from) {
            return;
        }
        let name = match name {
            Some("") => file.name.clone(),
            Some(name) => name.into(),
            None => last.map_or(&file.name, |last| &last.name).clone(),
        };
        file.directives.push(Directive { from, name, shift: line as i64 - physical as i64 });
    }

    /// The landmark of `span`, at the line of byte `at`.
    pub fn landmark(&self, span: Span, at: usize) -> Landmark {
        let physical = self.physical_line(span.file, at);
        let file = &self.files[span.file.0 as usize];
        let directive = file.directives.partition_point(|known| known.from <= at);
        let (name, shift) = match directive.checked_sub(1) {
            Some(index) => (&file.directives[index].name, file.directives[index].shift),
            None => (&file.name, 0),
        };
        Landmark {
            span,
            file: name.clone(),
            line: (physical as i64).saturating_add(shift).max(0) as usize,
        }
    }

    /// The line of byte `at`, from 1, without directives.
    pub fn physical_line(&self, file: FileId, at: usize) -> usize {
        self.files[file.0 as usize].lines.partition_point(|&start| start <= at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(map: &SourceMap, file: FileId, at: usize) -> String {
        let span = Span { file, start: at, end: at };
        map.landmark(span, at).to_string()
    }

    #[test]
    fn all_line_ends_count_once() {
        let mut map = SourceMap::new();
        let file = map.add("f", "a\nb\r\nc\rd\n");
        let lines: Vec<_> = (0..9).map(|byte| map.physical_line(file, byte)).collect();
        assert_eq!(lines, [1, 1, 2, 2, 2, 3, 3, 4, 4]);
        assert_eq!(at(&map, file, 9), "f:5");
    }

    #[test]
    fn directives_rename_and_renumber() {
        let mut map = SourceMap::new();
        let file = map.add("f", "1\n2\n3\n4\n5\n6\n7\n");
        map.direct(file, 3, Some("g"), 99);
        map.direct(file, 7, None, 4);
        map.direct(file, 11, Some(""), 6);
        map.direct(file, 3, Some("ignored"), 1);
        let seen: Vec<_> = [0, 4, 6, 8, 10, 12].map(|byte| at(&map, file, byte)).into();
        assert_eq!(seen, ["f:1", "g:100", "g:101", "g:5", "g:6", "f:7"]);
    }

    #[test]
    fn a_name_may_bring_its_separator() {
        let mut map = SourceMap::new();
        for (name, expected) in [("line ", "line 1"), ("x:", "x:1"), ("x", "x:1"), ("", ":1")] {
            let file = map.add(name, "");
            assert_eq!(at(&map, file, 0), expected);
        }
    }
}
