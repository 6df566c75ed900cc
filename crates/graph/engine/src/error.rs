//! Errors of graphs and of handler calls.

use std::io;

use thiserror::Error;

use crate::{lang::Diagnostics, right::Right};

/// A configuration that cannot be run.
#[derive(Debug, Error)]
pub enum BuildError {
    /// It is wrong, or an element could not get a resource it needs.
    #[error("the configuration has {} errors", .0.errors())]
    Configuration(Diagnostics),
    /// The process has no file descriptor left to wake workers with.
    #[error("cannot make an eventfd: {0}; raise the limit of open files (ulimit -n)")]
    Eventfd(io::Error),
    /// The run is over, so that there is nothing to replace.
    #[error("the run has ended")]
    Ended,
}

impl From<Diagnostics> for BuildError {
    fn from(diagnostics: Diagnostics) -> BuildError {
        BuildError::Configuration(diagnostics)
    }
}

/// Answer of a handler.
pub type HandlerResult = Result<String, HandlerError>;

/// A handler call that failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HandlerError {
    /// No element has this name.
    #[error("no element named '{0}'")]
    NoElement(String),
    /// The element has no such handler.
    #[error("no '{0}' handler")]
    NoHandler(String),
    /// It exists and cannot be read.
    #[error("handler '{0}' not readable")]
    NotReadable(String),
    /// It exists and cannot be written.
    #[error("handler '{0}' not writable")]
    NotWritable(String),
    /// The call lacks the right that the handler needs.
    #[error("permission denied for '{handler}': {}", advice_for_right(*.needs))]
    Denied {
        /// Its name.
        handler: String,
        /// The right it needs.
        needs: Right,
    },
    /// The element refused the value or the parameter.
    #[error("{0}")]
    Refused(String),
    /// The configuration has been replaced meanwhile.
    #[error("the configuration has been replaced; try again")]
    Replaced,
    /// A worker did not answer in time.
    #[error("worker {0} does not answer")]
    Unanswered(usize),
    /// The element is at work, calling itself through others.
    #[error("'{0}' is busy")]
    Busy(String),
}

/// The way for a client to get a right.
fn advice_for_right(needs: Right) -> &'static str {
    match needs {
        Right::Read | Right::Write => "say AUTH and the token first",
        Right::Replace => {
            "it opens files, ports or scripts; start the program with --allow-reconfigure (-R) and \
             say AUTH and the token first"
        }
    }
}

impl HandlerError {
    /// For an element that declares a handler and does not carry it out.
    pub fn missing(handler: &str) -> HandlerError {
        HandlerError::NoHandler(handler.into())
    }

    /// For a call that lacks the right that a handler needs.
    pub fn denied(handler: &str, needs: Right) -> HandlerError {
        HandlerError::Denied { handler: handler.into(), needs }
    }

    /// The element refuses, for this reason.
    pub fn refused(reason: impl Into<String>) -> HandlerError {
        HandlerError::Refused(reason.into())
    }

    /// Returns Click's text for a call of the handler of this full name that failed.
    pub fn of_call(&self, name: &str, write: bool) -> String {
        match self {
            HandlerError::NoHandler(_)
            | HandlerError::NotReadable(_)
            | HandlerError::NotWritable(_) => {
                format!("no '{name}' {} handler", if write { "write" } else { "read" })
            }
            other => other.to_string(),
        }
    }
}
