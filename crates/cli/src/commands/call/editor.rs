//! Typed lines: edited, remembered, and completed by the names the router has.

use std::{cell::RefCell, rc::Rc};

use anyhow::{Context as _, Result};
use rustyline::{
    CompletionType, Config, Context, Editor, Helper, completion::Completer, error::ReadlineError,
    highlight::Highlighter, hint::Hinter, history::DefaultHistory, validate::Validator,
};

use super::dialogue::Dialogue;

/// Carries out typed lines until the last.
pub(super) fn converse(dialogue: Dialogue, address: &str) -> Result<()> {
    let dialogue = Rc::new(RefCell::new(dialogue));
    let config =
        Config::builder().auto_add_history(true).completion_type(CompletionType::List).build();
    let editor = Editor::<Names, DefaultHistory>::with_config(config);
    let mut editor = editor.context("cannot use the terminal")?;
    editor.set_helper(Some(Names(Rc::clone(&dialogue))));
    let prompt = format!("{address}> ");
    loop {
        let line = match editor.readline(prompt.as_str()) {
            Ok(line) => line,
            // The line is given up.
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => return Ok(()),
            Err(error) => return Err(error).context("cannot read from the terminal"),
        };
        if !dialogue.borrow_mut().answer(&line)? {
            return Ok(());
        }
    }
}

/// The names of elements and handlers, asked for when they are needed: another configuration may
/// run by then.
struct Names(Rc<RefCell<Dialogue>>);

impl Completer for Names {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(self.0.borrow_mut().completions(&line[..at]))
    }
}

impl Hinter for Names {
    type Hint = String;
}

impl Highlighter for Names {}

impl Validator for Names {}

impl Helper for Names {}
