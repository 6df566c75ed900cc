//! A router: a checked graph made into elements on workers, and the handle
//! everybody else has on it.

use std::{collections::HashMap, fmt, sync::Arc, thread};

use linerate_memory::{Arena, FRAME_DEFAULT};
use linerate_port::machine::pin_current_thread;
use linerate_worker::Idle;

use crate::{
    class::{Library, Preparation},
    console::Console,
    engine::{
        Clock, Context, Driver, Outputs, Usage, WorkerStats,
        account::Account,
        hub::Hub,
        pending::Pending,
        tasks::Tasks,
        timers::Timers,
        wiring::{Placement, wire},
    },
    error::{BuildError, HandlerError},
    handler::{ANSWER, merge},
    lang::{Diagnostic, Diagnostics},
    make::{Make, Shared, World},
    names::Names,
    plan::Plan,
};

/// How a graph is to be run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Workers.
    pub workers: usize,
    /// Most packets in a frame.
    pub frame_limit: usize,
    /// What a worker does when there is nothing to do.
    pub idle: Idle,
    /// Whether time is simulated.
    pub simulated: bool,
    /// Buffers each worker keeps at hand.
    pub cache: usize,
    /// Cores to run on, by worker; a worker without one is not bound.
    pub cores: Vec<u32>,
    /// Where elements write text for people.
    pub console: Console,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            workers: 1,
            frame_limit: FRAME_DEFAULT,
            idle: Idle::default(),
            simulated: false,
            cache: 1024,
            cores: Vec::new(),
            console: Console::default(),
        }
    }
}

/// A graph ready to run.
pub struct Router {
    contexts: Vec<Context>,
    control: Control,
    idle: Idle,
    cores: Vec<u32>,
}

/// The handle on a router that runs: handlers, figures, the end of the run.
/// Clones are handles on the same router.
#[derive(Debug, Clone)]
pub struct Control {
    plan: Arc<Plan>,
    placement: Arc<Placement>,
    hub: Hub,
    driver: Driver,
    stats: Arc<[Arc<WorkerStats>]>,
}

impl Router {
    /// Makes the elements of a graph.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with their configurations, or what could not
    /// be initialized.
    pub fn new(
        plan: Plan,
        library: &Library,
        ports: linerate_port::Context,
        options: &Options,
    ) -> Result<Router, BuildError> {
        let mut errors = Diagnostics::default();
        let plan = Arc::new(plan);
        let workers = options.workers.max(1);
        let mut world = World {
            library: library.clone(),
            ports,
            frame_limit: options.frame_limit,
            workers,
            simulated: options.simulated,
            annotated: plan.elements.iter().any(|element| element.class.annotates),
            names: Arc::new(Names::default()),
            console: options.console.clone(),
            shared: Shared::default(),
        };
        let preparation = prepare(&plan, &world, &mut errors);
        let mut assigned = vec![None; plan.elements.len()];
        for (element, worker) in preparation.workers {
            assigned[element] = Some(worker);
        }
        world.names = Arc::new(preparation.names);
        let world = Arc::new(world);
        let placement = Arc::new(Placement::new(&plan, workers, &assigned));
        let hub = Hub::new(workers).map_err(BuildError::Eventfd)?;
        let driver = Driver::default();
        let clock = if options.simulated { Clock::simulated() } else { Clock::real() };
        let mut contexts: Vec<Context> = (0..workers)
            .map(|worker| {
                context(&plan, &placement, &world, worker, options, &hub, &driver, &clock)
            })
            .collect();
        for (element, tickets) in preparation.tickets {
            contexts.iter_mut().for_each(|cx| cx.tasks.set_tickets(element, tickets));
        }
        for (worker, cx) in contexts.iter_mut().enumerate() {
            for at in 0..plan.elements.len() {
                let Some(replica) = placement.replica(worker, at) else { continue };
                let mut make = Make::new(&world, &plan, at, replica);
                cx.elements[at] = Some((plan.elements[at].class.make)(&mut make));
                if replica.index == 0 {
                    report(&plan, at, "configuring", make.into_errors(), &mut errors);
                }
            }
        }
        let mut router = Router {
            control: Control {
                stats: contexts.iter().map(|cx| Arc::clone(cx.stats())).collect(),
                plan: Arc::clone(&plan),
                placement,
                hub,
                driver,
            },
            contexts,
            idle: options.idle,
            cores: options.cores.clone(),
        };
        if errors.is_empty() {
            router.initialize(&mut errors);
        }
        if errors.is_empty() {
            return Ok(router);
        }
        router.close();
        Err(BuildError::Configuration(errors))
    }

    fn initialize(&mut self, errors: &mut Diagnostics) {
        let plan = Arc::clone(&self.control.plan);
        for cx in &mut self.contexts {
            for at in 0..plan.elements.len() {
                if let Some(Err(error)) = cx.call(at, |element, cx| element.initialize(cx)) {
                    report(&plan, at, "initializing", vec![error], errors);
                }
            }
        }
    }

    /// The handle on this router.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// Runs until the run count is used up: the first worker on this thread.
    /// Afterwards handlers can still be read, through [`Router::finish`].
    pub fn run(&mut self) {
        let idle = self.idle;
        let cores = &self.cores;
        let (first, others) = self.contexts.split_at_mut(1);
        thread::scope(|scope| {
            for cx in others {
                scope.spawn(move || run_on(cx, cores, idle));
            }
            run_on(&mut first[0], cores, idle);
        });
    }

    /// The first worker, between runs: for handlers.
    pub fn first(&mut self) -> &mut Context {
        &mut self.contexts[0]
    }

    /// Reads a handler while no worker runs.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn read(
        &mut self,
        element: usize,
        name: &str,
        parameter: &str,
    ) -> Result<String, HandlerError> {
        let workers: Vec<usize> = self.control.placement.workers_of(element).collect();
        let answers = workers
            .into_iter()
            .map(|worker| self.contexts[worker].read_here(element, name, parameter))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(merge(self.control.plan.elements[element].class, name, answers))
    }

    /// Closes all elements; every buffer goes back.
    pub fn close(&mut self) {
        self.contexts.iter_mut().for_each(Context::close);
    }
}

impl Control {
    /// The graph.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// How the run ends.
    pub fn driver(&self) -> &Driver {
        &self.driver
    }

    /// Asks for the end of the run, whatever the run count is.
    pub fn stop(&self) {
        self.driver.abort();
        (0..self.hub.workers()).for_each(|worker| self.hub.ring(worker));
    }

    /// The figures of each worker. Asks nobody.
    pub fn usage(&self) -> Vec<Usage> {
        self.stats.iter().map(|stats| stats.read()).collect()
    }

    /// Reads a handler of an element; each worker that has a part of it
    /// answers between two rounds.
    ///
    /// # Errors
    ///
    /// When it cannot be read, or a worker does not answer.
    pub fn read(
        &self,
        element: usize,
        name: &str,
        parameter: &str,
    ) -> Result<String, HandlerError> {
        let (handler, text): (Arc<str>, Arc<str>) = (name.into(), parameter.into());
        let mut answers = Vec::new();
        for worker in self.placement.workers_of(element) {
            let (handler, text) = (Arc::clone(&handler), Arc::clone(&text));
            let job = move |cx: &mut Context| cx.read_here(element, &handler, &text);
            answers.push(self.answer(worker, element, job)??);
        }
        Ok(merge(self.plan.elements[element].class, name, answers))
    }

    /// Writes a handler of an element, on each worker that has a part of it.
    ///
    /// # Errors
    ///
    /// When an element refuses, or a worker does not answer.
    pub fn write(&self, element: usize, name: &str, value: &str) -> Result<String, HandlerError> {
        let (handler, text): (Arc<str>, Arc<str>) = (name.into(), value.into());
        let mut answer = String::new();
        for worker in self.placement.workers_of(element) {
            let (handler, text) = (Arc::clone(&handler), Arc::clone(&text));
            let job = move |cx: &mut Context| cx.write_here(element, &handler, &text);
            answer = self.answer(worker, element, job)??;
        }
        Ok(answer)
    }

    fn answer<T: Send + 'static>(
        &self,
        worker: usize,
        element: usize,
        job: impl FnOnce(&mut Context) -> T + Send + 'static,
    ) -> Result<T, HandlerError> {
        let name = || self.plan.elements[element].name.clone();
        self.hub.question(worker, job).wait(ANSWER).ok_or_else(|| HandlerError::Busy(name()))
    }
}

/// Runs a worker, on its core if it has one. One that is not to be had does
/// not keep the graph from running.
fn run_on(cx: &mut Context, cores: &[u32], idle: Idle) {
    let bound = cores.get(cx.worker()).map(|core| pin_current_thread(*core));
    if let Some(Err(error)) = bound {
        cx.console().report(&format!("worker {}: {error}\n", cx.worker()));
    }
    cx.run(idle);
}

/// Lets information elements speak before any element is made.
fn prepare(plan: &Plan, world: &World, errors: &mut Diagnostics) -> Preparation {
    let mut preparation = Preparation::default();
    for at in 0..plan.elements.len() {
        let Some(say) = plan.elements[at].class.prepare else { continue };
        // What was said before can be used in what is said next.
        let world = World { names: Arc::new(preparation.names.clone()), ..world.clone() };
        let mut make = Make::new(&world, plan, at, crate::make::Replica::ONLY);
        say(&mut make, &mut preparation);
        report(plan, at, "configuring", make.into_errors(), errors);
    }
    preparation
}

/// Reports what an element found wrong, in Click's words.
fn report(plan: &Plan, at: usize, doing: &str, found: Vec<String>, errors: &mut Diagnostics) {
    if found.is_empty() {
        return;
    }
    let element = &plan.elements[at];
    let mut message = format!("While {doing} '{} :: {}':", element.name, element.class.name);
    for line in found.iter().flat_map(|text| text.lines()) {
        message.push_str("\n  ");
        message.push_str(line);
    }
    let landmark = plan.flat.elements[at].landmark.clone();
    errors.push(Diagnostic::error(landmark, message));
}

#[expect(clippy::too_many_arguments, reason = "called once; a struct would only rename them")]
fn context(
    plan: &Arc<Plan>,
    placement: &Arc<Placement>,
    world: &Arc<World>,
    worker: usize,
    options: &Options,
    hub: &Hub,
    driver: &Driver,
    clock: &Clock,
) -> Context {
    let mut out = Outputs::new(options.frame_limit);
    let (nodes, inputs) = wire(plan, placement, worker, &mut out);
    let elements = plan.elements.iter();
    let stats = elements.map(|element| (element.class.role, element.class.drops.len()));
    let arena: &Arena = world.arena();
    Context {
        pool: arena.cache(options.cache),
        out,
        clock: clock.clone(),
        driver: driver.clone(),
        plan: Arc::clone(plan),
        elements: plan.elements.iter().map(|_| None).collect(),
        nodes,
        pending: Pending::new(options.frame_limit == 1, inputs.len()),
        inputs,
        tasks: Tasks::new(plan.elements.len()),
        timers: Timers::default(),
        account: Account::new(Arc::new(WorkerStats::new(stats))),
        node: 0,
        limit: options.frame_limit,
        worker,
        hub: hub.clone(),
        world: Arc::clone(world),
        placement: Arc::clone(placement),
        manager: None,
        replicas: (0..plan.elements.len()).map(|at| placement.replica(worker, at)).collect(),
        configs: HashMap::new(),
    }
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router").field("workers", &self.contexts.len()).finish_non_exhaustive()
    }
}
