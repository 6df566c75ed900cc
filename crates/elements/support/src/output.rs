//! Output of elements for people.

use std::{
    fs::File,
    io::{self, Write as _},
};

use linerate_graph::{Arguments, Context, ElementBuilder, Filename, parse_bool};
use linerate_linux::files;

/// Returns the system's text of an error, as Click prints it: without the number.
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// Form in which bytes are shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Contents {
    /// Not at all.
    #[default]
    None,
    /// As hexadecimal numbers.
    Hex,
    /// As characters.
    Ascii,
}

impl Contents {
    /// Reads a word of the argument `CONTENTS`; a wrong one is reported.
    pub fn parse(make: &mut ElementBuilder<'_>, word: &str) -> Option<Contents> {
        let upper = word.to_ascii_uppercase();
        match (parse_bool(word), upper.as_str()) {
            (Some(true), _) | (None, "HEX") => Some(Contents::Hex),
            (Some(false), _) | (None, "NONE") => Some(Contents::None),
            (None, "ASCII") => Some(Contents::Ascii),
            (None, upper) => {
                make.error(format!(
                    "bad contents value '{upper}'; should be 'NONE', 'HEX', or 'ASCII'"
                ));
                None
            }
        }
    }
}

/// Lines about packets, and where they are written to.
#[derive(Debug, Arguments)]
pub struct Lines {
    /// file to write to
    #[arg(name = "OUTFILE", keyword, kind = "path", shown = "standard error")]
    path: Option<Filename>,
    file: Option<File>,
    /// Those of a frame.
    pub text: String,
}

impl Lines {
    /// Makes the file.
    ///
    /// # Errors
    ///
    /// When that cannot be done.
    pub fn open(&mut self) -> Result<(), String> {
        if let Some(Filename(path)) = &self.path {
            let said = |error| format!("{}: {}", path.display(), reason(&error));
            self.file = Some(files::create(path).map_err(said)?);
        }
        Ok(())
    }

    /// Writes those of a frame.
    pub fn write(&mut self, cx: &Context) {
        match &mut self.file {
            // A full disk cannot be reported per packet; Click is silent, too.
            Some(file) => drop(file.write_all(self.text.as_bytes())),
            None => cx.console().report(&self.text),
        }
        self.text.clear();
    }
}
