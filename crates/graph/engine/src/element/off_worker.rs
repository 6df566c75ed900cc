//! Handlers that need no worker: those of state that the replicas of an element share.
//!
//! Such state, a table of routes for example, is behind a lock or a protocol of its own anyway. So
//! its handlers need no element: the caller's thread carries them out, and packets go on meanwhile.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex},
};

use super::Scope;
use crate::error::HandlerError;

/// State that an element's replicas share and its handlers read and change without any of them:
/// those of its class that say so ([`Handler::off_worker`](crate::Handler::off_worker)). Called
/// from any thread.
pub trait OffWorker: Send + Sync {
    /// As [`Element::read`](crate::Element::read).
    ///
    /// # Errors
    ///
    /// When it cannot be read now or the parameter is wrong.
    fn read(
        &self,
        scope: &Scope<'_>,
        handler: &str,
        parameter: &str,
    ) -> Result<String, HandlerError>;

    /// As [`Element::write`](crate::Element::write).
    ///
    /// # Errors
    ///
    /// When the value is wrong. Nothing has then changed.
    fn write(&self, scope: &Scope<'_>, handler: &str, value: &str) -> Result<String, HandlerError>;
}

/// Those of a graph, by the places of their elements.
#[derive(Clone, Default)]
pub(crate) struct OffWorkers(Arc<Mutex<HashMap<usize, Arc<dyn OffWorker>>>>);

impl OffWorkers {
    /// Registers the handlers of an element made or made anew; returns those before.
    pub(crate) fn set(
        &self,
        element: usize,
        off_worker: Arc<dyn OffWorker>,
    ) -> Option<Arc<dyn OffWorker>> {
        self.0.lock().expect("no panic while held").insert(element, off_worker)
    }

    pub(crate) fn get(&self, element: usize) -> Option<Arc<dyn OffWorker>> {
        self.0.lock().expect("no panic while held").get(&element).cloned()
    }
}

impl fmt::Debug for OffWorkers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OffWorkers").finish_non_exhaustive()
    }
}
