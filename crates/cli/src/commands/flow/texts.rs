//! Flows, groups and meters that are written on the command line and in files.

use std::{
    fs,
    io::{self, Read as _},
};

use anyhow::Result;
use linerate_openflow::text::{TextError, lines};

use crate::exit::{UsageError, cannot_read};

/// Something that was written, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Text {
    pub(super) text: String,
    /// Empty on the command line, `FILE:LINE` in a file.
    pub(super) place: String,
}

impl Text {
    /// Its name in errors.
    pub(super) fn name(&self) -> String {
        if self.place.is_empty() { format!("\"{}\"", self.text) } else { self.place.clone() }
    }
}

/// The texts of a file, or of standard input.
pub(super) fn read(file: &str) -> Result<Vec<Text>> {
    let (name, content) = if file == "-" {
        let mut content = String::new();
        let read = io::stdin().lock().read_to_string(&mut content);
        ("standard input", read.map(|_| content))
    } else {
        (file, fs::read_to_string(file))
    };
    let content = content.map_err(|error| cannot_read(name, error))?;
    let text = |line: linerate_openflow::text::TextLine<'_>| Text {
        text: line.text.to_owned(),
        place: format!("{name}:{}", line.number),
    };
    Ok(lines(&content).map(text).collect())
}

/// The texts of the command line and those of a file.
pub(super) fn all(words: &[String], file: Option<&str>) -> Result<Vec<Text>> {
    let word = |text: &String| Text { text: text.clone(), place: String::new() };
    let mut texts: Vec<Text> = words.iter().map(word).collect();
    if let Some(file) = file {
        texts.extend(read(file)?);
    }
    Ok(texts)
}

/// Reads all of them.
pub(super) fn parse<T>(
    texts: &[Text],
    parse: impl Fn(&str) -> Result<T, TextError>,
) -> Result<Vec<T>, UsageError> {
    let one =
        |text: &Text| parse(&text.text).map_err(|error| wrong(&text.place, &error, &text.text));
    texts.iter().map(one).collect()
}

/// The error of a text, with the place shown.
pub(super) fn wrong(place: &str, error: &TextError, text: &str) -> UsageError {
    let place = if place.is_empty() { String::new() } else { format!("{place}: ") };
    UsageError(format!("{place}{}\n{}", error.what(), error.shown(text)))
}
