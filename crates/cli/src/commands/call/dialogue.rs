//! `linerate call` without a handler: a command on each line, typed or from a script.

use std::io::BufRead;

use anyhow::{Context as _, Result};

use super::{
    client::{Client, Refusal},
    show, tell,
};
use crate::{exit::cannot_read, output};

/// Help for the commands that can be typed.
const HELP: &str = "\
HANDLER              read it; one that can only be written is written without a value
HANDLER VALUE        write it
read HANDLER [TEXT]  read it, with a parameter
write HANDLER [TEXT] write it
list                 the elements; ELEMENT.handlers: the handlers of one; handlers: the global ones
help, quit
";

/// Words with a meaning of their own.
const WORDS: [&str; 5] = ["exit", "help", "quit", "read", "write"];

/// A conversation with a router.
pub(super) struct Dialogue {
    client: Client,
}

/// The command of a line.
#[derive(Debug, PartialEq, Eq)]
enum Command<'a> {
    Nothing,
    Help,
    Quit,
    Read { handler: &'a str, parameter: Option<&'a str> },
    Write { handler: &'a str, value: &'a str },
    // Read or, where that cannot be, written without a value.
    Call { handler: &'a str },
}

impl Command<'_> {
    fn parse(line: &str) -> Command<'_> {
        let (word, rest) = first_word(line);
        match (word, rest) {
            ("", _) => Command::Nothing,
            (comment, _) if comment.starts_with('#') => Command::Nothing,
            ("help" | "?", "") => Command::Help,
            ("quit" | "exit", "") => Command::Quit,
            ("read", rest) if !rest.is_empty() => {
                let (handler, parameter) = first_word(rest);
                let parameter = Some(parameter).filter(|text| !text.is_empty());
                Command::Read { handler, parameter }
            }
            ("write", rest) if !rest.is_empty() => {
                let (handler, value) = first_word(rest);
                Command::Write { handler, value }
            }
            (handler, "") => Command::Call { handler },
            (handler, value) => Command::Write { handler, value },
        }
    }
}

/// The first word of a text, and the rest.
fn first_word(text: &str) -> (&str, &str) {
    let text = text.trim();
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    (word, rest.trim_start())
}

/// The last word of the beginning of a line and where it begins, if a handler's name goes there.
fn handler_word(line: &str) -> Option<(usize, &str)> {
    let word = line.rsplit(char::is_whitespace).next().unwrap_or_default();
    let start = line.len() - word.len();
    matches!(line[..start].trim(), "" | "read" | "write").then_some((start, word))
}

impl Dialogue {
    pub(super) fn new(client: Client) -> Dialogue {
        Dialogue { client }
    }

    /// Carries out the lines of a script until one fails.
    pub(super) fn with_script(&mut self, script: impl BufRead) -> Result<()> {
        for (number, line) in (1..).zip(script.lines()) {
            let line = line.map_err(|error| cannot_read("standard input", error))?;
            if !self.carry_out(&line).with_context(|| format!("line {number}"))? {
                break;
            }
        }
        Ok(())
    }

    /// Carries out a typed line; returns whether there may be more. A refusal by the router is
    /// printed, and the conversation goes on.
    pub(super) fn answer(&mut self, line: &str) -> Result<bool> {
        match self.carry_out(line) {
            Err(error) if error.is::<Refusal>() => {
                eprintln!("{error}");
                Ok(true)
            }
            other => other,
        }
    }

    /// Carries out a line; returns whether there may be more.
    fn carry_out(&mut self, line: &str) -> Result<bool> {
        match Command::parse(line) {
            Command::Nothing => {}
            Command::Help => output::data(HELP)?,
            Command::Quit => return Ok(false),
            Command::Read { handler, parameter } => show(self.client.read(handler, parameter)?)?,
            Command::Write { handler, value } => {
                tell(&self.client.write(handler, value.as_bytes())?);
            }
            Command::Call { handler } => match self.client.read(handler, None) {
                Ok(data) => show(data)?,
                Err(error) if error.is::<Refusal>() && self.is_button(handler) => {
                    tell(&self.client.write(handler, b"")?);
                }
                Err(error) => return Err(error),
            },
        }
        Ok(true)
    }

    /// Returns true if a handler can be written and not read.
    fn is_button(&mut self, handler: &str) -> bool {
        let (element, name) = match handler.rsplit_once('.') {
            Some((element, name)) => (Some(element), name),
            None => (None, handler),
        };
        let found = self.handlers(element).into_iter().find(|(known, _)| known == name);
        found.is_some_and(|(_, access)| access.contains('w') && !access.contains('r'))
    }

    /// Completions of the last word of a line's beginning, and where that word begins.
    pub(super) fn completions(&mut self, line: &str) -> (usize, Vec<String>) {
        let Some((start, word)) = handler_word(line) else { return (line.len(), Vec::new()) };
        let mut names: Vec<String> = match word.rsplit_once('.') {
            Some((element, _)) => {
                let handlers = self.handlers(Some(element)).into_iter();
                handlers.map(|(name, _)| format!("{element}.{name}")).collect()
            }
            None => {
                let commands = WORDS.iter().map(|word| (*word).to_owned());
                let global = self.handlers(None).into_iter().map(|(name, _)| name);
                let elements = self.elements().into_iter().map(|name| name + ".");
                commands.chain(global).chain(elements).collect()
            }
        };
        names.retain(|name| name.starts_with(word));
        names.sort_unstable();
        names.dedup();
        (start, names)
    }

    /// The names of the elements. None where the router does not say.
    fn elements(&mut self) -> Vec<String> {
        let text = self.client.read("list", None).unwrap_or_default();
        // The first line says how many there are.
        String::from_utf8_lossy(&text).lines().skip(1).map(str::to_owned).collect()
    }

    /// The handlers of an element, or the global ones, and the access to each. None where the
    /// router does not say.
    fn handlers(&mut self, element: Option<&str>) -> Vec<(String, String)> {
        let handler = element.map_or("handlers".into(), |element| format!("{element}.handlers"));
        let text = self.client.read(&handler, None).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let entry = |line: &str| {
            let (name, access) = line.split_once('\t')?;
            Some((name.to_owned(), access.to_owned()))
        };
        text.lines().filter_map(entry).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_commands() {
        for (line, command) in [
            ("", Command::Nothing),
            ("  # c.count", Command::Nothing),
            ("?", Command::Help),
            ("quit", Command::Quit),
            (" c.count ", Command::Call { handler: "c.count" }),
            ("q.capacity  20 ", Command::Write { handler: "q.capacity", value: "20" }),
            ("r.add 10.0.0.0/8 1", Command::Write { handler: "r.add", value: "10.0.0.0/8 1" }),
            ("read c.count", Command::Read { handler: "c.count", parameter: None }),
            (
                "read r.lookup 1.2.3.4",
                Command::Read { handler: "r.lookup", parameter: Some("1.2.3.4") },
            ),
            ("write stop", Command::Write { handler: "stop", value: "" }),
            ("read", Command::Call { handler: "read" }),
            ("help me", Command::Write { handler: "help", value: "me" }),
        ] {
            assert_eq!(Command::parse(line), command, "{line:?}");
        }
    }

    #[test]
    fn the_word_that_names_a_handler_is_completed() {
        for (line, word) in [
            ("", Some((0, ""))),
            ("c.co", Some((0, "c.co"))),
            ("write q.", Some((6, "q."))),
            (" read  ", Some((7, ""))),
            // Blanks that are longer than a byte.
            ("read\u{a0}c", Some((6, "c"))),
            ("\u{3000}", Some((3, ""))),
            ("q.capacity 2", None),
            ("write q.capacity 2", None),
        ] {
            assert_eq!(handler_word(line), word, "{line:?}");
        }
    }
}
