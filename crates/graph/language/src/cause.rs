//! Cause: the error behind a diagnostic. Diagnostics are text for people, causes are for programs.

use std::{error::Error, fmt, sync::Arc};

/// Cause of a diagnostic that comes from the error of something else: of an interface, a port, a
/// file. Diagnostics with the same cause are one to people.
#[derive(Clone)]
pub struct Cause(Arc<dyn Error + Send + Sync>);

impl Cause {
    /// An error as a cause.
    pub fn new(error: impl Error + Send + Sync + 'static) -> Cause {
        Cause(Arc::new(error))
    }

    /// The error.
    pub fn error(&self) -> &(dyn Error + 'static) {
        &*self.0
    }
}

impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Causes with one text are equal.
impl PartialEq for Cause {
    fn eq(&self, other: &Cause) -> bool {
        self.to_string() == other.to_string()
    }
}

impl Eq for Cause {}
