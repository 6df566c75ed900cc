//! Handlers that are carried out off the workers (thread-safe ones; VPP calls API
//! messages and commands of this kind mp-safe).
//!
//! The caller's thread carries them out. Elements that must not be held up leave it to the router's
//! thread for that ([`Context::read_off_worker`]): `ControlSocket` and `FollowKernel` go on
//! meanwhile and answer when it is done. Only a `Script`, which needs its answer before the next
//! step, has its own worker do it.

use std::sync::{
    Arc,
    mpsc::{Receiver, TryRecvError, sync_channel},
};

use crate::{
    element::{BuildContext, Context, OffWorker, Plan, Scope, value::HandlerRef},
    error::HandlerError,
    handler::{check_read, check_write},
    right::Right,
};

/// A handler that is carried out off the workers, found by name.
pub(crate) struct OffWorkerHandler {
    off_worker: Arc<dyn OffWorker>,
    plan: Arc<Plan>,
    world: Arc<BuildContext>,
    element: usize,
    handler: String,
}

impl OffWorkerHandler {
    /// `None` where it needs the element, and so its workers.
    pub(crate) fn new(
        plan: &Arc<Plan>,
        world: &Arc<BuildContext>,
        handler: &HandlerRef,
    ) -> Option<OffWorkerHandler> {
        let element = handler.element?;
        let about = plan.elements[element].class.handler(&handler.handler)?;
        let off_worker =
            if about.off_worker { world.off_workers.get(element)? } else { return None };
        let (plan, world) = (Arc::clone(plan), Arc::clone(world));
        Some(OffWorkerHandler {
            off_worker,
            plan,
            world,
            element,
            handler: handler.handler.clone(),
        })
    }

    fn scope(&self) -> Scope<'_> {
        let name = &self.plan.elements[self.element].name;
        Scope { plan: &self.plan, names: &self.world.names, name }
    }

    pub(crate) fn read(&self, parameter: &str, right: Right) -> Result<String, HandlerError> {
        let scope = self.scope();
        let class = self.plan.elements[self.element].class;
        check_read(class.handler(&self.handler), scope.name, &self.handler, parameter, right)?;
        self.off_worker.read(&scope, &self.handler, parameter)
    }

    pub(crate) fn write(&self, value: &str, right: Right) -> Result<String, HandlerError> {
        let class = self.plan.elements[self.element].class;
        check_write(class.handler(&self.handler), &self.handler, right)?;
        self.off_worker.write(&self.scope(), &self.handler, value)
    }
}

/// The answer of a handler that is carried out off the workers.
#[derive(Debug)]
pub struct Answer(Receiver<Result<String, HandlerError>>);

impl Answer {
    /// Returns the answer of the handler, once it is done.
    pub fn outcome(&self) -> Option<Result<String, HandlerError>> {
        match self.0.try_recv() {
            Ok(outcome) => Some(outcome),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => {
                Some(Err(HandlerError::refused("the handler has failed")))
            }
        }
    }
}

impl Context {
    /// Reads a handler without holding up this worker, if it is carried out off the workers; `None`
    /// if not. When the answer is there, every task that waits for something to be ready is run.
    /// Requests are carried out in order; in simulated time, and before the graph runs, at once.
    pub fn read_off_worker(&self, handler: &HandlerRef, parameter: &str) -> Option<Answer> {
        let (parameter, right) = (parameter.to_owned(), self.right());
        self.off_worker(handler, move |found| found.read(&parameter, right))
    }

    /// As [`Context::read_off_worker`], to write it.
    pub fn write_off_worker(&self, handler: &HandlerRef, value: &str) -> Option<Answer> {
        let (value, right) = (value.to_owned(), self.right());
        self.off_worker(handler, move |found| found.write(&value, right))
    }

    fn off_worker(
        &self,
        handler: &HandlerRef,
        call: impl FnOnce(&OffWorkerHandler) -> Result<String, HandlerError> + Send + 'static,
    ) -> Option<Answer> {
        let found = OffWorkerHandler::new(&self.plan, &self.world, handler)?;
        let (done, outcome) = sync_channel(1);
        let answer = Answer(outcome);
        // The asking element may be gone when it is done, here and below.
        let Some(router) = self.router.clone().filter(|_| !self.world.simulated) else {
            let _ = done.send(call(&found));
            return Some(answer);
        };
        let refused = done.clone();
        let posted = Arc::clone(&router).post(Box::new(move || {
            let _ = done.send(router.unless_replaced(&found.plan, call(&found)));
            router.wake_waiting();
        }));
        if let Err(error) = posted {
            let _ = refused.send(Err(error));
        }
        Some(answer)
    }

    /// Drops a value that may take long to drop, on another thread where there is one.
    pub(crate) fn drop_off_worker(&self, old: impl Send + 'static) {
        if let Some(router) = &self.router {
            // Dropped here where the thread cannot be had.
            let _ = router.post(Box::new(move || drop(old)));
        }
    }
}
