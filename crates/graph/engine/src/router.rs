//! Router: a checked graph made into elements on workers.

use std::{fmt, sync::Arc, thread};

use linerate_linux::machine::pin_current_thread;
use linerate_worker::Idle;

use crate::{
    build::RouterState,
    control::Control,
    element::{Context, Library, Plan, value::HandlerRef},
    engine::OffWorkerHandler,
    error::{BuildError, HandlerError},
    handler::{Handler, merge},
    lang::Diagnostics,
    options::Options,
    right::Right,
    runtime::{Clock, Driver, hub::Hub},
};

/// A graph ready to run.
pub struct Router {
    contexts: Vec<Context>,
    control: Control,
    idle: Idle,
    cores: Vec<u32>,
}

/// Makes the state that exists before the first configuration.
fn base(
    library: &Library,
    ports: linerate_port::Context,
    options: &Options,
) -> Result<RouterState, BuildError> {
    Ok(RouterState {
        library: library.clone(),
        ports,
        options: options.clone(),
        hub: Hub::new(options.workers.max(1)).map_err(BuildError::Eventfd)?,
        driver: Driver::default(),
        clock: if options.simulated {
            Clock::simulated(options.simulated_start)
        } else {
            Clock::real()
        },
    })
}

impl Router {
    /// Makes the elements of a graph.
    ///
    /// # Errors
    ///
    /// All errors of their configurations, or the failures of their initialization.
    pub fn new(
        plan: Plan,
        library: &Library,
        ports: linerate_port::Context,
        options: &Options,
    ) -> Result<Router, BuildError> {
        let base = base(library, ports, options)?;
        let mut built = base.build(plan, None)?;
        options.console.report_all(&built.warnings);
        let control = Control::new(Arc::new(base), &mut built);
        Ok(Router {
            control,
            contexts: built.contexts,
            idle: options.idle,
            cores: options.cores.clone(),
        })
    }

    /// Makes the elements of a graph and initializes none, so that their arguments are checked and
    /// nothing is opened: a graph for another machine, too, can be checked. Warnings are returned.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with their configurations.
    pub fn check(
        plan: Plan,
        library: &Library,
        ports: linerate_port::Context,
        options: &Options,
    ) -> Result<Diagnostics, BuildError> {
        let mut made = base(library, ports, options)?.make(plan, None)?;
        made.close();
        Ok(made.warnings)
    }

    /// The handle on this router.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// Runs until the run count is used up: the first worker on this thread.
    /// Afterwards handlers can still be read, through [`Router::read`].
    ///
    /// # Panics
    ///
    /// When an element panics: the run then ends on all workers.
    pub fn run(&mut self) {
        let idle = self.idle;
        let cores = &self.cores;
        let control = &self.control;
        let (first, others) = self.contexts.split_at_mut(1);
        thread::scope(|scope| {
            for cx in others {
                scope.spawn(move || run_on(cx, control, cores, idle));
            }
            run_on(&mut first[0], control, cores, idle);
        });
        self.settle();
    }

    /// Runs the jobs that workers were sent too late.
    fn settle(&mut self) {
        for cx in &mut self.contexts {
            cx.change();
            cx.run_jobs();
        }
    }

    /// The first worker, between runs: for handlers.
    pub fn first(&mut self) -> &mut Context {
        &mut self.contexts[0]
    }

    /// The graph as it is between runs.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.contexts[0].plan
    }

    /// The workers that have a part of an element, by its place in the plan.
    pub fn workers_of(&self, element: usize) -> Vec<usize> {
        self.contexts[0].placement.workers_of(element).collect()
    }

    /// Returns the handler `element.handler` or, global, `handler`; `None` when there is none.
    pub fn handler(&self, handler: &str) -> Option<&'static Handler> {
        let handler = HandlerRef::find(self.plan(), handler).ok()?;
        self.contexts.iter().find_map(|cx| cx.handler(&handler))
    }

    /// Reads a handler while no worker runs.
    ///
    /// # Errors
    ///
    /// When there is none of that name, or it cannot be read.
    pub fn read(&mut self, handler: &str, parameter: &str) -> Result<String, HandlerError> {
        self.settle();
        let plan = Arc::clone(self.plan());
        let handler = HandlerRef::find(&plan, handler)?;
        let Some(element) = handler.element else {
            return self.contexts[0].read_handler(&handler, parameter);
        };
        if let Some(found) = OffWorkerHandler::new(&plan, &self.contexts[0].world, &handler) {
            return found.read(parameter, Right::ALL);
        }
        let name = &handler.handler;
        let answers = self
            .workers_of(element)
            .into_iter()
            .map(|worker| self.context_of(worker, &plan)?.read_here(element, name, parameter))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(merge(plan.elements[element].class.handler(name), answers))
    }

    /// Writes a handler while no worker runs.
    ///
    /// # Errors
    ///
    /// When there is none of that name, or it cannot be written.
    pub fn write(&mut self, handler: &str, value: &str) -> Result<String, HandlerError> {
        self.settle();
        let plan = Arc::clone(self.plan());
        let handler = HandlerRef::find(&plan, handler)?;
        let Some(element) = handler.element else {
            return self.contexts[0].write_handler(&handler, value);
        };
        if let Some(found) = OffWorkerHandler::new(&plan, &self.contexts[0].world, &handler) {
            return found.write(value, Right::ALL);
        }
        let mut answer = Ok(String::new());
        for worker in self.workers_of(element) {
            let cx = self.context_of(worker, &plan)?;
            answer = cx.write_here(element, &handler.handler, value);
            // Packets it has sent go all their way.
            cx.drain();
            if answer.is_err() {
                break;
            }
        }
        answer
    }

    /// Returns a worker's half of `plan`; another thread may be replacing the graph by another this
    /// moment.
    fn context_of(
        &mut self,
        worker: usize,
        plan: &Arc<Plan>,
    ) -> Result<&mut Context, HandlerError> {
        let cx = &mut self.contexts[worker];
        if Arc::ptr_eq(&cx.plan, plan) { Ok(cx) } else { Err(HandlerError::Replaced) }
    }

    /// Closes all elements; every buffer goes back.
    pub fn close(&mut self) {
        self.settle();
        self.contexts.iter_mut().for_each(Context::close);
    }
}

/// Runs a worker, on its core if it has one. One that is not to be had does
/// not keep the graph from running.
fn run_on(cx: &mut Context, control: &Control, cores: &[u32], idle: Idle) {
    let _all_or_none = EndOnPanic(control);
    let bound = cores.get(cx.worker()).map(|core| pin_current_thread(*core));
    if let Some(Err(error)) = bound {
        cx.console().report(&format!("worker {}: {error}\n", cx.worker()));
    }
    cx.run(idle);
}

/// Ends the run when its worker panics: the others would wait for it for ever.
struct EndOnPanic<'c>(&'c Control);

impl Drop for EndOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.stop();
        }
    }
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router").field("workers", &self.contexts.len()).finish_non_exhaustive()
    }
}
