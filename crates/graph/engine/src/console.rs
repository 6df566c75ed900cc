//! Console for text of elements: the standard streams, or a buffer.

use std::{
    fmt,
    io::{self, Write},
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use crate::lang::Diagnostics;

/// The two streams elements write to. Clones write to the same place.
#[derive(Clone)]
pub struct Console {
    out: Arc<Mutex<dyn Write + Send>>,
    err: Arc<Mutex<dyn Write + Send>>,
    listeners: Arc<Listeners>,
}

/// Receiver of reported text.
pub type Listener = dyn Fn(&str) + Send + Sync;

#[derive(Default)]
struct Listeners {
    /// Whether there are any.
    any: AtomicBool,
    all: Mutex<Vec<Weak<Listener>>>,
}

impl Default for Console {
    fn default() -> Console {
        Console::new(io::stdout(), io::stderr())
    }
}

impl Console {
    /// Streams of the caller's own.
    pub fn new(out: impl Write + Send + 'static, err: impl Write + Send + 'static) -> Console {
        Console {
            out: Arc::new(Mutex::new(out)),
            err: Arc::new(Mutex::new(err)),
            listeners: Arc::default(),
        }
    }

    /// Both streams into one buffer, for tests.
    pub fn buffered() -> (Console, Arc<Mutex<Vec<u8>>>) {
        let buffer = Arc::new(Mutex::new(Vec::new()));
        let (out, err) = (buffer.clone(), buffer.clone());
        let console = Console { out, err, listeners: Arc::default() };
        (console, buffer)
    }

    /// Writes text that a configuration was asked to print to the standard output.
    pub fn print(&self, text: &str) {
        write(&self.out, text);
    }

    /// Writes to the standard error stream: packets shown, warnings.
    pub fn report(&self, text: &str) {
        write(&self.err, text);
        if self.listeners.any.load(Ordering::Acquire) {
            self.listeners.tell(text);
        }
    }

    /// Adds a listener that gets reports from now on, as long as it lives. It is called on the
    /// reporting thread, and must not report itself.
    pub fn listen(&self, listener: &Arc<Listener>) {
        let mut all = self.listeners.all.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        all.push(Arc::downgrade(listener));
        self.listeners.any.store(true, Ordering::Release);
    }

    /// Reports diagnostics, if there are any, in Click's form.
    pub(crate) fn report_all(&self, found: &Diagnostics) {
        if !found.is_empty() {
            self.report(&found.click());
        }
    }
}

impl Listeners {
    #[cold]
    fn tell(&self, text: &str) {
        let mut all = self.all.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        all.retain(|listener| listener.strong_count() > 0);
        self.any.store(!all.is_empty(), Ordering::Release);
        all.iter().filter_map(Weak::upgrade).for_each(|listener| listener(text));
    }
}

/// Writes and flushes. A closed reader is no reason to stop.
fn write(stream: &Mutex<dyn Write + Send>, text: &str) {
    let mut stream = stream.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let _ = stream.write_all(text.as_bytes()).and_then(|()| stream.flush());
}

impl fmt::Debug for Console {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Console").finish_non_exhaustive()
    }
}
