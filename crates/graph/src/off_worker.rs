//! Handlers that are carried out off the workers (thread-safe ones; VPP calls API
//! messages and commands of this kind mp-safe).
//!
//! State that the replicas of an element share and change by handlers, a table of routes for
//! example, is behind a lock or a protocol of its own anyway. So such a handler needs no element
//! and no worker: the caller's thread carries it out, and packets go on meanwhile. Elements that
//! must not be held up leave it to the router's thread for that ([`Context::read_off_worker`]):
//! `ControlSocket` and `FollowKernel` go on meanwhile and answer when it is done. Only a `Script`,
//! which needs its answer before the next step, has its own worker do it.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, Sender, TryRecvError, channel, sync_channel},
    },
    thread,
};

use crate::{
    Context,
    error::HandlerError,
    handler::{check_read, check_write, find},
    make::{BuildContext, Scope},
    plan::Plan,
    right::Right,
    value::HandlerRef,
};

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

    fn get(&self, element: usize) -> Option<Arc<dyn OffWorker>> {
        self.0.lock().expect("no panic while held").get(&element).cloned()
    }
}

impl fmt::Debug for OffWorkers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OffWorkers").finish_non_exhaustive()
    }
}

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
        let about = find(plan.elements[element].class, &handler.handler)?;
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
        check_read(find(class, &self.handler), scope.name, &self.handler, parameter, right)?;
        self.off_worker.read(&scope, &self.handler, parameter)
    }

    pub(crate) fn write(&self, value: &str, right: Right) -> Result<String, HandlerError> {
        let class = self.plan.elements[self.element].class;
        check_write(find(class, &self.handler), &self.handler, right)?;
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

type Task = Box<dyn FnOnce() + Send>;

/// A thread for work that would hold up a worker, in the order of the requests; started with the
/// first.
#[derive(Default)]
pub(crate) struct Helper(Mutex<Option<Sender<Task>>>);

impl Helper {
    pub(crate) fn post(&self, task: Task) -> Result<(), HandlerError> {
        let mut thread = self.0.lock().expect("no panic while held");
        if thread.is_none() {
            let (sender, tasks) = channel::<Task>();
            let work = move || tasks.into_iter().for_each(|task| task());
            let started = thread::Builder::new().name("handlers".into()).spawn(work);
            started.map_err(|error| HandlerError::refused(error.to_string()))?;
            *thread = Some(sender);
        }
        let sent = thread.as_ref().map(|thread| thread.send(task));
        match sent {
            Some(Ok(())) => Ok(()),
            // A handler has panicked.
            _ => Err(HandlerError::refused("the thread for handlers has ended")),
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
        let Some(control) = self.control.clone().filter(|_| !self.world.simulated) else {
            let _ = done.send(call(&found));
            return Some(answer);
        };
        let refused = done.clone();
        let helper = Arc::clone(control.helper());
        let posted = helper.post(Box::new(move || {
            let _ = done.send(control.unless_replaced(&found.plan, call(&found)));
            control.wake_waiting();
        }));
        if let Err(error) = posted {
            let _ = refused.send(Err(error));
        }
        Some(answer)
    }

    /// Drops a value that may take long to drop, on another thread where there is one.
    pub(crate) fn drop_off_worker(&self, old: impl Send + 'static) {
        if let Some(control) = &self.control {
            // Dropped here where the thread cannot be had.
            let _ = control.helper().post(Box::new(move || drop(old)));
        }
    }
}
