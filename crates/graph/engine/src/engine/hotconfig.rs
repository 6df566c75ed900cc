//! Replacement of the graph from within: the global handler `hotconfig`.
//!
//! A caller that waits for it has the text read and the new graph made on a thread of its own, so
//! that the worker whose element asked goes on. A caller that does not, as `Script`, is like
//! Click's: where there is one worker it does both at once, so that no time passes, simulated or
//! not, and no run ends before.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc::{Receiver, TryRecvError, sync_channel},
    },
    thread,
};

use crate::{
    element::{Context, Plan},
    error::HandlerError,
    handler::{GLOBAL, HOTCONFIG, check_write},
    lang::Diagnostics,
};

/// Replacements of one router that may be under way; they are carried out one
/// after the other.
const LIMIT: usize = 16;

/// Makes a checked graph, with its warnings, of the text of a configuration, or returns its errors
/// in Click's words.
#[derive(Clone)]
pub struct ConfigReader(Arc<Read>);

type Read = dyn Fn(&str) -> Result<(Plan, Diagnostics), String> + Send + Sync;

impl ConfigReader {
    /// One that reads as `read` does.
    pub fn new(
        read: impl Fn(&str) -> Result<(Plan, Diagnostics), String> + Send + Sync + 'static,
    ) -> ConfigReader {
        ConfigReader(Arc::new(read))
    }

    pub(crate) fn read(&self, text: &str) -> Result<(Plan, Diagnostics), String> {
        (self.0)(text)
    }
}

impl fmt::Debug for ConfigReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfigReader").finish_non_exhaustive()
    }
}

/// A replacement under way.
#[derive(Debug)]
pub struct Replacement(Receiver<Result<Diagnostics, String>>);

impl Replacement {
    /// Returns the result, once it is there: warnings, or the error.
    pub fn outcome(&self) -> Option<Result<Diagnostics, String>> {
        match self.0.try_recv() {
            Ok(outcome) => Some(outcome),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err("the replacement has failed".into())),
        }
    }
}

impl Context {
    pub(crate) fn may_be_replaced(&self) -> bool {
        self.router.as_ref().is_some_and(|router| router.may_reconfigure())
    }

    /// Has the graph replaced by the one `text` describes. When that is done,
    /// or has failed, every task of the graph that runs then and waits for
    /// something to be ready is run.
    ///
    /// # Errors
    ///
    /// When the router was not made to allow it, the caller may not, or too many
    /// replacements are under way.
    pub fn replace_graph(&self, text: &str) -> Result<Replacement, HandlerError> {
        let handler = GLOBAL.iter().find(|handler| handler.name == HOTCONFIG);
        check_write(handler, HOTCONFIG, self.right())?;
        let (done, outcome) = sync_channel(1);
        self.replace_and(text, move |result| {
            // The asking element may be gone.
            let _ = done.send(result);
        })?;
        Ok(Replacement(outcome))
    }

    /// As [`Context::replace_graph`], for a caller that does not wait. With one worker the new
    /// graph is ready, or refused, afterwards, and takes over when no element is at work. Else
    /// errors are reported on the console, as warnings are.
    pub(crate) fn replace_unattended(&self, text: &str) -> Result<(), HandlerError> {
        let console = self.console().clone();
        let router = self.router.as_ref();
        if let Some(result) = router.and_then(|router| router.reconfigure_here(text)) {
            let warnings = result.map_err(HandlerError::Refused)?;
            console.report_all(&warnings);
            return Ok(());
        }
        self.replace_and(text, move |result| match result {
            Ok(warnings) => console.report_all(&warnings),
            Err(wrong) => console.report(&format!("{wrong}\n")),
        })
    }

    fn replace_and(
        &self,
        text: &str,
        then: impl FnOnce(Result<Diagnostics, String>) + Send + 'static,
    ) -> Result<(), HandlerError> {
        let router = self.router.clone().filter(|router| router.may_reconfigure());
        let router = router.ok_or_else(|| HandlerError::missing(HOTCONFIG))?;
        let under_way = UnderWay::new(router.replacements())?;
        let text = text.to_owned();
        let replace = move || {
            let result = router.reconfigure(&text);
            drop(under_way);
            then(result);
            router.wake_waiting();
        };
        let started = thread::Builder::new().name("replacement".into()).spawn(replace);
        started.map(|_| ()).map_err(|error| HandlerError::refused(error.to_string()))
    }
}

/// Counts as one of the replacements under way.
struct UnderWay(Arc<AtomicUsize>);

impl UnderWay {
    fn new(count: &Arc<AtomicUsize>) -> Result<UnderWay, HandlerError> {
        let one = UnderWay(Arc::clone(count));
        if count.fetch_add(1, Ordering::Relaxed) >= LIMIT {
            return Err(HandlerError::refused("too many replacements are under way"));
        }
        Ok(one)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
