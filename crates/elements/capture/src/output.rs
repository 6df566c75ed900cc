//! Files that elements write, which may be taken over by the element that
//! replaces them.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Write},
};

/// A file opened for writing.
pub(super) enum Output {
    /// It is empty and ours.
    Ready(Box<dyn Write + Send>),
    /// An element, most likely the one this one replaces, is writing it:
    /// nothing may be changed until it is known whether its state is taken
    /// over.
    Busy(File),
}

impl Output {
    /// Opens `path`, `-` for the standard output. An existing file is emptied,
    /// unless somebody is writing it.
    pub(super) fn open(path: &str) -> io::Result<Output> {
        if path == "-" {
            return Ok(Output::Ready(Box::new(io::stdout())));
        }
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => Ok(Output::Busy(file)),
            // A file that cannot be locked has nobody else's lock either.
            Ok(()) | Err(TryLockError::Error(_)) => empty(file).map(Output::Ready),
        }
    }

    /// The file, emptied: nothing was taken over.
    pub(super) fn claim(self) -> io::Result<Box<dyn Write + Send>> {
        match self {
            Output::Ready(sink) => Ok(sink),
            Output::Busy(file) => empty(file),
        }
    }
}

fn empty(file: File) -> io::Result<Box<dyn Write + Send>> {
    // Pipes and devices have no length.
    if file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    Ok(Box::new(file))
}

/// What the system says of an error, as Click prints it: without the number.
pub(super) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}
