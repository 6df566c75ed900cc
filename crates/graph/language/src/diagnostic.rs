//! Diagnostics of a configuration, and their two renderings.
//!
//! [`Diagnostics::click`] writes Click's form: `FILE:LINE: message`, one prefix per line.
//! [`Diagnostics::rich`] shows the marked source, the expected word and the correction that was
//! probably meant. Both are made from one list, so neither knows of an error the other does not.

use std::fmt::Write as _;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use super::{
    cause::Cause,
    source::{Landmark, SourceMap, Span},
};

/// More than these are counted, not kept.
const KEPT_MAX: usize = 1000;

/// More than these are no help to people.
const SHOWN_MAX: usize = 20;

/// Bytes of source shown on either side of a place.
const CONTEXT_BYTES: usize = 4000;

/// Characters that end a line.
const LINE_ENDS: [char; 2] = ['\n', '\r'];

/// Whether the configuration can be used all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The configuration cannot be used.
    Error,
    /// It can, but probably does something else than was meant.
    Warning,
    /// It can; there is something to be told.
    Note,
}

/// Order of diagnostics. The parser counts its own; the resolver, which comes second, knows of each
/// node how many the parser had found before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Order(usize, bool);

impl Order {
    /// After the whole text has been read.
    pub(super) const LAST: Order = Order(usize::MAX, false);

    /// The parser's finding number `number`.
    pub(super) fn parser(number: usize) -> Order {
        Order(number, true)
    }

    /// After that many findings of the parser.
    pub(super) fn resolver(found: usize) -> Order {
        Order(found, false)
    }
}

/// A further place that belongs to a diagnostic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Its place.
    pub landmark: Landmark,
    /// The text about that place. Leading spaces are kept in Click's form.
    pub message: String,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Error, warning or note.
    pub severity: Severity,
    /// Its place.
    pub landmark: Landmark,
    /// The error, in Click's words where Click has them. May have several lines.
    pub message: String,
    /// Text under the marked source; only in the rich form.
    pub label: Option<String>,
    /// Further places.
    pub notes: Vec<Note>,
    /// The correction; only in the rich form.
    pub help: Option<String>,
    /// The activity that failed, a line of its own before the messages of one element.
    pub context: Option<String>,
    /// Whether Click names no line for it; the rich form does.
    pub unplaced: bool,
    /// Whether it only follows from another finding: not in the rich form.
    pub follows: bool,
    /// The error it comes from. In the rich form it is said in the place of the message, once
    /// for all that have it in common.
    pub cause: Option<Cause>,
    /// When it was found; findings of parser and resolver are merged by it.
    pub(super) order: Order,
}

impl Diagnostic {
    /// An error.
    pub fn error(landmark: Landmark, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            severity: Severity::Error,
            landmark,
            message: message.into(),
            label: None,
            notes: Vec::new(),
            help: None,
            context: None,
            unplaced: false,
            follows: false,
            cause: None,
            order: Order::LAST,
        }
    }

    /// A warning.
    pub fn warning(landmark: Landmark, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(landmark, message) }
    }

    /// Adds text under the marked source.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Diagnostic {
        self.label = Some(label.into());
        self
    }

    /// Adds a suggestion.
    #[must_use]
    pub fn help(mut self, help: Option<String>) -> Diagnostic {
        self.help = help;
        self
    }

    /// Adds a further place.
    #[must_use]
    pub fn note(mut self, landmark: Landmark, message: impl Into<String>) -> Diagnostic {
        self.notes.push(Note { landmark, message: message.into() });
        self
    }

    /// Adds the activity during which it was found: written once for all diagnostics in a row that
    /// have it in common.
    #[must_use]
    pub fn context(mut self, context: impl Into<String>) -> Diagnostic {
        self.context = Some(context.into());
        self
    }

    /// Leaves out the line number in Click's form.
    #[must_use]
    pub fn unplaced(mut self) -> Diagnostic {
        self.unplaced = true;
        self
    }

    /// Returns true if it is about a place in a text, and not about text added by a program.
    pub fn is_placed(&self) -> bool {
        self.landmark.line > 0
    }

    #[must_use]
    pub(super) fn at(mut self, order: Order) -> Diagnostic {
        self.order = order;
        self
    }

    /// The lines Click writes, each with its line end.
    pub fn click(&self) -> String {
        self.click_after(None)
    }

    /// Renders it behind another diagnostic, whose context need not be repeated.
    fn click_after(&self, before: Option<&Diagnostic>) -> String {
        let severity = match self.severity {
            Severity::Error | Severity::Note => "",
            Severity::Warning => "warning: ",
        };
        let mut out = String::new();
        let place = |found: &Diagnostic| (found.context.clone(), found.landmark.line);
        let known = before.is_some_and(|before| place(before) == place(self));
        if let Some(context) = self.context.as_ref().filter(|_| !known) {
            let _ = writeln!(out, "{}: {context}", self.landmark);
        }
        for line in self.message.split('\n') {
            let _ = match (&self.context, self.unplaced) {
                (Some(_), _) => writeln!(out, "  {severity}{line}"),
                (None, true) => writeln!(out, "{severity}{line}"),
                (None, false) => writeln!(out, "{}: {severity}{line}", self.landmark),
            };
        }
        for note in &self.notes {
            let _ = writeln!(out, "{}: {}", note.landmark, note.message);
        }
        out
    }

    /// The finding with its source, as rustc would show it; with colours if
    /// `styled`.
    pub fn rich(&self, sources: &SourceMap, styled: bool) -> String {
        self.rich_with(0, sources, styled)
    }

    /// Renders it, where `others` more have its cause.
    fn rich_with(&self, others: usize, sources: &SourceMap, styled: bool) -> String {
        let cause = self.cause.as_ref().map(Cause::to_string);
        let elsewhere = (others > 0).then(|| {
            let plural = if others == 1 { "" } else { "s" };
            format!("The same is wrong at {others} other place{plural}")
        });
        let level = match self.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
            Severity::Note => Level::NOTE,
        };
        let title = cause.as_deref().unwrap_or(&self.message);
        if !self.is_placed() {
            // It is about no text: there is nothing to show.
            let report = [Group::with_title(level.primary_title(title))];
            return renderer(styled).render(&report) + "\n";
        }
        let mut main = level.primary_title(title).element(snippet(
            sources,
            &self.landmark,
            self.label.as_deref(),
        ));
        if let Some(context) = &self.context {
            main = main.element(Level::NOTE.message(context.trim_end_matches(':')));
        }
        if let Some(elsewhere) = &elsewhere {
            main = main.element(Level::NOTE.message(elsewhere.as_str()));
        }
        if let Some(help) = &self.help {
            main = main.element(Level::HELP.message(help.as_str()));
        }
        let mut report = vec![main];
        for note in &self.notes {
            report.push(
                Group::with_title(Level::NOTE.secondary_title(note.message.trim()))
                    .element(snippet(sources, &note.landmark, None)),
            );
        }
        let mut out = renderer(styled).render(&report);
        out.push('\n');
        out
    }
}

fn renderer(styled: bool) -> Renderer {
    if styled { Renderer::styled() } else { Renderer::plain() }
}

/// The lines around a landmark's span, and the span marked in them.
fn snippet<'a>(
    sources: &'a SourceMap,
    landmark: &Landmark,
    label: Option<&'a str>,
) -> Snippet<'a, annotate_snippets::Annotation<'a>> {
    let Span { file, start, end } = landmark.span;
    let text = sources.text(file);
    let (start, end) = (floor(text, start), floor(text, end.max(start)));
    // Only the lines concerned, and of an endless line only the part nearby: a text of many
    // megabytes is not gone through for every finding.
    let before = floor(text, start.saturating_sub(CONTEXT_BYTES));
    let from = before + text[before..start].rfind(LINE_ENDS).map_or(0, |at| at + 1);
    let mark_end = floor(text, end.min(start + CONTEXT_BYTES));
    let after = floor(text, mark_end + CONTEXT_BYTES);
    let to = text[mark_end..after].find(LINE_ENDS).map_or(after, |at| mark_end + at);
    let first = sources.landmark(landmark.span, from);
    let mut mark = AnnotationKind::Primary.span(start - from..mark_end - from);
    if let Some(label) = label {
        mark = mark.label(label);
    }
    Snippet::source(&text[from..to])
        .line_start(first.line)
        .path(first.file.to_string())
        .annotation(mark)
}

/// The last boundary between characters at or before `at`.
fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Everything found.
#[derive(Clone, Debug, Default)]
pub struct Diagnostics {
    list: Vec<Diagnostic>,
    errors: usize,
    left_out: usize,
}

impl Diagnostics {
    /// Nothing found yet.
    pub fn new() -> Diagnostics {
        Diagnostics::default()
    }

    /// Adds a finding.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        if diagnostic.severity == Severity::Error {
            self.errors += 1;
        }
        if self.list.len() < KEPT_MAX {
            self.list.push(diagnostic);
        } else {
            self.left_out += 1;
        }
    }

    /// Takes over another list. Findings come in the order in which one reader
    /// going through the text once would have made them.
    pub fn merge(&mut self, other: Diagnostics) {
        self.errors += other.errors;
        self.left_out += other.left_out;
        self.list.extend(other.list);
        self.list.sort_by_key(|diagnostic| diagnostic.order);
        let left_out = self.list.len().saturating_sub(KEPT_MAX);
        self.list.truncate(KEPT_MAX);
        self.left_out += left_out;
    }

    /// The findings, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.list.iter()
    }

    /// Number of diagnostics.
    pub fn len(&self) -> usize {
        self.list.len() + self.left_out
    }

    /// Returns true if nothing was found.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns true if the configuration cannot be used.
    pub fn has_errors(&self) -> bool {
        self.errors > 0
    }

    /// Number of errors.
    pub fn errors(&self) -> usize {
        self.errors
    }

    /// All findings as Click writes them.
    pub fn click(&self) -> String {
        let before = std::iter::once(None).chain(self.list.iter().map(Some));
        let mut out: String =
            self.list.iter().zip(before).map(|(found, before)| found.click_after(before)).collect();
        if self.left_out > 0 {
            let _ = writeln!(out, "{} further messages left out", self.left_out);
        }
        out
    }

    /// The findings for people, one for each cause, and how many others have it.
    fn told(&self) -> Vec<(&Diagnostic, usize)> {
        let mut told: Vec<(&Diagnostic, usize)> = Vec::new();
        for found in self.list.iter().filter(|found| !found.follows) {
            let same = |(other, _): &&mut (&Diagnostic, usize)| {
                found.cause.is_some() && found.cause == other.cause
            };
            match told.iter_mut().find(same) {
                Some((_, others)) => *others += 1,
                None => told.push((found, 0)),
            }
        }
        told
    }

    /// Number of errors for people: one for each cause.
    pub fn errors_told(&self) -> usize {
        let is_error = |(found, _): &&(&Diagnostic, usize)| found.severity == Severity::Error;
        self.told().iter().filter(is_error).count() + self.left_out
    }

    /// The first cause, where all errors have one.
    pub fn cause(&self) -> Option<&Cause> {
        let mut errors = self.list.iter().filter(|found| found.severity == Severity::Error);
        let all = errors.clone().all(|found| found.cause.is_some());
        errors.next()?.cause.as_ref().filter(|_| all)
    }

    /// The findings for people with their source, the first of many; with colours if `styled`.
    pub fn rich(&self, sources: &SourceMap, styled: bool) -> String {
        let mut out = String::new();
        let told = self.told();
        for (diagnostic, others) in told.iter().take(SHOWN_MAX) {
            out.push_str(&diagnostic.rich_with(*others, sources, styled));
            out.push('\n');
        }
        let left_out = told.len().saturating_sub(SHOWN_MAX) + self.left_out;
        if left_out > 0 {
            let _ = writeln!(out, "{left_out} further messages left out");
        }
        out
    }
}

impl<'a> IntoIterator for &'a Diagnostics {
    type Item = &'a Diagnostic;
    type IntoIter = std::slice::Iter<'a, Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
