//! The router as its workers see it.

use std::sync::{Arc, atomic::AtomicUsize};

use super::Plan;
use crate::{error::HandlerError, lang::Diagnostics};

/// Work for another thread than a worker's.
pub(crate) type Task = Box<dyn FnOnce() + Send>;

/// The router as its workers see it: another graph in the place of the one that runs, and threads
/// for work that would hold up a worker.
pub(crate) trait RouterHandle: Send + Sync {
    /// Returns true if the global handler `hotconfig` is there.
    fn may_reconfigure(&self) -> bool;

    /// As [`Control::reconfigure`](crate::Control::reconfigure).
    fn reconfigure(&self, text: &str) -> Result<Diagnostics, String>;

    /// As `reconfigure`, for the only worker there is, which changes over when none of its elements
    /// is at work. `None` when there are others, or another thread is replacing the graph and waits
    /// for this worker.
    fn reconfigure_here(&self, text: &str) -> Option<Result<Diagnostics, String>>;

    /// Replacements that workers have asked for and that are not done.
    fn replacements(&self) -> &Arc<AtomicUsize>;

    /// Returns the answer of a handler of `plan`, or an error if that plan has been replaced.
    fn unless_replaced(
        &self,
        plan: &Arc<Plan>,
        answer: Result<String, HandlerError>,
    ) -> Result<String, HandlerError>;

    /// Has a thread carry out a task, behind those before.
    ///
    /// # Errors
    ///
    /// When the thread cannot be had.
    fn post(&self, task: Task) -> Result<(), HandlerError>;

    /// Runs every task of an element that waits for something to be ready.
    fn wake_waiting(&self);
}
