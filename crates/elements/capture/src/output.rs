//! Files that elements write, which may be taken over by the element that
//! replaces them.

use std::{
    fs::{File, TryLockError},
    io::{self, Write},
    path::Path,
    sync::{Arc, Mutex, MutexGuard},
};

use linerate_graph::ElementBuilder;
use linerate_linux::files;

/// File shared by all replicas of an element, so that packets of several workers do not write over
/// each other: `W` is the writer of its format.
pub(super) struct Dump<W> {
    file: Arc<Mutex<Target<W>>>,
    replicas: usize,
}

/// A file, and how far it has come.
pub(super) struct Target<W> {
    path: String,
    pub(super) state: State<W>,
}

pub(super) enum State<W> {
    /// Not opened, or a write has failed.
    Closed,
    Opened(Output),
    Writing(W),
}

impl<W> Default for Target<W> {
    fn default() -> Target<W> {
        Target { path: String::new(), state: State::Closed }
    }
}

impl<W: Send + 'static> Dump<W> {
    pub(super) fn new(make: &mut ElementBuilder<'_>) -> Dump<W> {
        let replicas = make.replica().count;
        let file = if replicas == 1 { Arc::default() } else { make.shared(Mutex::default) };
        Dump { file, replicas }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Target<W>> {
        self.file.lock().expect("no panic while held")
    }

    /// Lets go of the file, which is closed with its last reference.
    pub(super) fn let_go(&mut self) {
        self.file = Arc::default();
    }

    /// Returns true if both are the same: only the configuration has been written to.
    pub(super) fn is(&self, other: &Dump<W>) -> bool {
        Arc::ptr_eq(&self.file, &other.file)
    }

    /// Continues the file of the element that this one replaces.
    pub(super) fn take_over(&mut self, old: &mut Dump<W>) {
        if self.replicas == old.replicas {
            // The others' workers may change over later, and write until then.
            self.file = std::mem::take(&mut old.file);
        } else {
            let writing = std::mem::take(&mut *old.lock());
            *self.lock() = writing;
        }
    }
}

impl<W> Target<W> {
    /// Opens the file, unless another replica has. Returns true if it can be written to at once.
    pub(super) fn open(&mut self, path: &str) -> io::Result<bool> {
        if self.path == path && !self.is_closed() {
            return Ok(false);
        }
        let output = Output::open(path)?;
        let ours = matches!(output, Output::Ready(_));
        *self = Target { path: path.into(), state: State::Opened(output) };
        Ok(ours)
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed)
    }

    /// Returns the writer of the file, which is made on first use. `None` when it cannot be
    /// written.
    pub(super) fn writer<E>(
        &mut self,
        begin: impl FnOnce(Output) -> Result<W, E>,
    ) -> Result<Option<&mut W>, E> {
        if let State::Opened(_) = self.state
            && let State::Opened(output) = self.close()
        {
            self.state = State::Writing(begin(output)?);
        }
        match &mut self.state {
            State::Writing(writer) => Ok(Some(writer)),
            _ => Ok(None),
        }
    }

    /// Writes no more.
    pub(super) fn close(&mut self) -> State<W> {
        std::mem::replace(&mut self.state, State::Closed)
    }
}

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
    /// unless another program is writing it; one that this program reads is refused.
    pub(super) fn open(path: &str) -> io::Result<Output> {
        if path == "-" {
            files::check_open_unread(io::stdout())?;
            return Ok(Output::Ready(Box::new(io::stdout())));
        }
        let file = files::open_to_write(Path::new(path))?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => Ok(Output::Busy(file)),
            // A file that cannot be locked has no lock of another process either.
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
