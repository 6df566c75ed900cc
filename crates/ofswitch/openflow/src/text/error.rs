//! Errors in texts, with their place.

use std::fmt;
use std::ops::Range;

/// Error in a text, with its place and perhaps a suggestion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextError {
    at: Range<usize>,
    what: String,
    help: Option<String>,
}

impl TextError {
    /// The part of the text that is wrong, in bytes.
    #[must_use]
    pub fn at(&self) -> Range<usize> {
        self.at.clone()
    }

    /// Returns the description of the error.
    #[must_use]
    pub fn what(&self) -> &str {
        &self.what
    }

    /// Returns the suggestion.
    #[must_use]
    pub fn help(&self) -> Option<&str> {
        self.help.as_deref()
    }

    /// The text with a mark under the part that is wrong, and the help.
    ///
    /// `source` is the text that was parsed. Of a long one, the part around the mark is shown.
    #[must_use]
    pub fn shown(&self, source: &str) -> String {
        const BEFORE: usize = 60;
        const BEHIND: usize = 40;
        let at = |byte: usize| source.get(..byte).map_or(byte, |before| before.chars().count());
        let (start, end) = (at(self.at.start), at(self.at.end.min(source.len())));
        let first = if end > BEFORE + BEHIND { start.saturating_sub(BEFORE) } else { 0 };
        let shown: String = source
            .chars()
            .skip(first)
            .take((end - first + BEHIND).max(BEFORE + BEHIND))
            .map(|letter| if letter.is_control() { ' ' } else { letter })
            .collect();
        let before = if first > 0 { "…" } else { "" };
        let room = start - first + before.chars().count();
        let marks = "^".repeat((end - start).max(1));
        let help = self.help.as_ref().map(|help| format!("\n  = {help}")).unwrap_or_default();
        format!("  | {before}{shown}\n  | {:room$}{marks}{help}", "")
    }
}

impl fmt::Display for TextError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}, at character {}", self.what, self.at.start + 1)?;
        match &self.help {
            Some(help) => write!(formatter, " ({help})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for TextError {}

/// Error in a part of the text that is being parsed.
#[derive(Debug)]
pub(super) struct Fail<'t> {
    at: &'t str,
    what: String,
    help: Option<String>,
}

/// Value of a part of a text.
pub(super) type Parsed<'t, T> = Result<T, Fail<'t>>;

impl<'t> Fail<'t> {
    pub(super) fn new(at: &'t str, what: impl Into<String>) -> Fail<'t> {
        Fail { at, what: what.into(), help: None }
    }

    pub(super) fn help(mut self, help: impl Into<String>) -> Fail<'t> {
        self.help = Some(help.into());
        self
    }

    /// A word that is not one of `known`, with the nearest of them.
    pub(super) fn unknown<'k>(
        at: &'t str,
        kind: &str,
        known: impl IntoIterator<Item = &'k str>,
    ) -> Fail<'t> {
        let fail = Fail::new(at, format!("unknown {kind} \"{at}\""));
        match nearest(at, known) {
            Some(word) => fail.help(format!("did you mean \"{word}\"?")),
            None => fail,
        }
    }

    /// The error of the whole text, which has the part.
    pub(super) fn within(self, text: &str) -> TextError {
        let start = (self.at.as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
        let start = start.min(text.len());
        let end = (start + self.at.len()).min(text.len());
        TextError { at: start..end, what: self.what, help: self.help }
    }
}

/// The word nearest to one that is not there, where one is near.
fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let word = word.to_ascii_lowercase();
    let room = word.len().div_ceil(3).min(3);
    known
        .into_iter()
        .map(|other| (strsim::osa_distance(&word, &other.to_ascii_lowercase()), other))
        .filter(|&(distance, _)| distance <= room)
        .min()
        .map(|(_, other)| other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_found() {
        let known = ["tcp_dst", "tcp_src", "tun_id"];
        assert_eq!(nearest("tpc_dst", known), Some("tcp_dst"));
        assert_eq!(nearest("TCP_SRC", known), Some("tcp_src"));
        assert_eq!(nearest("banana", known), None);
    }

    #[test]
    fn the_place_is_shown() {
        let text = "ip,nw_srk=10.0.0.1,actions=drop";
        let fail = Fail::unknown(&text[3..9], "field", ["nw_src"]);
        let error = fail.within(text);
        assert_eq!(error.at(), 3..9);
        let shown =
            "  | ip,nw_srk=10.0.0.1,actions=drop\n  |    ^^^^^^\n  = did you mean \"nw_src\"?";
        assert_eq!(error.shown(text), shown);
        let said = "unknown field \"nw_srk\", at character 4 (did you mean \"nw_src\"?)";
        assert_eq!(error.to_string(), said);
    }
}
