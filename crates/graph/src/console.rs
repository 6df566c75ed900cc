//! Where elements write text for people: the standard streams, or a buffer.

use std::{
    fmt,
    io::{self, Write},
    sync::{Arc, Mutex},
};

use crate::lang::Diagnostics;

/// The two streams elements write to. Clones write to the same place.
#[derive(Clone)]
pub struct Console {
    out: Arc<Mutex<dyn Write + Send>>,
    err: Arc<Mutex<dyn Write + Send>>,
}

impl Default for Console {
    fn default() -> Console {
        Console::new(io::stdout(), io::stderr())
    }
}

impl Console {
    /// Streams of the caller's own.
    pub fn new(out: impl Write + Send + 'static, err: impl Write + Send + 'static) -> Console {
        Console { out: Arc::new(Mutex::new(out)), err: Arc::new(Mutex::new(err)) }
    }

    /// Both streams into one buffer, for tests.
    pub fn buffered() -> (Console, Arc<Mutex<Vec<u8>>>) {
        let buffer = Arc::new(Mutex::new(Vec::new()));
        let console = Console { out: buffer.clone(), err: buffer.clone() };
        (console, buffer)
    }

    /// Writes to the standard output: what a configuration was asked to print.
    pub fn print(&self, text: &str) {
        write(&self.out, text);
    }

    /// Writes to the standard error stream: packets shown, warnings.
    pub fn report(&self, text: &str) {
        write(&self.err, text);
    }

    /// Reports what was found, if anything was, in Click's form.
    pub(crate) fn report_all(&self, found: &Diagnostics) {
        if !found.is_empty() {
            self.report(&found.click());
        }
    }
}

/// Nobody may be reading: that is no reason to stop.
fn write(stream: &Mutex<dyn Write + Send>, text: &str) {
    let mut stream = stream.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let _ = stream.write_all(text.as_bytes()).and_then(|()| stream.flush());
}

impl fmt::Debug for Console {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Console").finish_non_exhaustive()
    }
}
