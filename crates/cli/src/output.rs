//! Destinations of output: data on standard output, text for people on standard error, and JSON
//! (`--json`) on standard output unless data goes there.

use std::io::{self, Write};

use linerate_port::PortUri;
use serde_json::Value;

/// Columns of an explanation.
const WIDTH: usize = 100;

/// Destination of a running command's reports.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    /// Set for JSON.
    pub(crate) json: bool,
    /// Set when standard output has data on it.
    taken: bool,
}

impl Output {
    /// For people, or as JSON.
    pub(crate) fn new(json: bool) -> Output {
        Output { json, taken: false }
    }

    /// The output, where packets may go to standard output through one of the ports.
    pub(crate) fn beside(self, port: &PortUri) -> Output {
        let taken = self.taken || (port.driver() == "pcap" && port.name() == "-");
        Output { taken, ..self }
    }

    /// The output, where standard output has other data on it.
    pub(crate) fn beside_data(self) -> Output {
        Output { taken: true, ..self }
    }

    /// Prints a line for people. An unread line ends nothing.
    pub(crate) fn line(self, text: &str) {
        let _ = writeln!(io::stderr(), "{text}");
    }

    /// Prints a line for machines.
    ///
    /// # Errors
    ///
    /// When it cannot be written: the reader may have gone.
    pub(crate) fn object(self, object: &Value) -> io::Result<()> {
        if self.taken {
            return writeln!(io::stderr(), "{object}");
        }
        data(&format!("{object}\n"))
    }
}

/// Prints the data that were asked for.
///
/// # Errors
///
/// When they cannot be written: the reader may have gone.
pub(crate) fn data(text: &str) -> io::Result<()> {
    bytes(text.as_bytes())
}

/// Prints data that may be no text.
///
/// # Errors
///
/// As [`data`].
pub(crate) fn bytes(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(|error| {
        io::Error::new(error.kind(), format!("cannot write to standard output: {error}"))
    })
}

/// Meanings of columns, as one sentence in lines that fit below a table.
pub(crate) fn sentence<'a>(meanings: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<String> {
    let parts: Vec<String> =
        meanings.into_iter().map(|(title, meaning)| format!("{title}: {meaning}")).collect();
    let text = parts.join("; ") + ".";
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is one from the start");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= WIDTH {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.into());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_explanation_is_one_sentence_in_lines_that_fit() {
        let lines = sentence([("a", "one"), ("b", &"word ".repeat(30))]);
        assert!(lines.len() > 1 && lines.iter().all(|line| line.chars().count() <= WIDTH));
        assert!(lines[0].starts_with("a: one; b: word word"));
        assert!(lines.last().unwrap().ends_with('.'));
    }
}
