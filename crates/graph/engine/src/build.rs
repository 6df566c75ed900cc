//! Builder: makes the elements of a checked graph and places them on workers.

use std::{collections::HashMap, sync::Arc};

use linerate_memory::HeaderCache;

use crate::{
    element::{
        BuildContext, Class, Context, ElementBuilder, ElementStatements, Exits, Library,
        OffWorkers, Plan, SharedValues,
        config_diagnostic::{ConfigDiagnostic, report},
    },
    engine::wiring::{Wiring, place, wire},
    error::BuildError,
    lang::Diagnostics,
    names::Names,
    options::Options,
    right::Right,
    runtime::{
        Clock, Driver, Outputs, Replica, Role, WorkerStats, account::Account, hub::Hub,
        order::Order, pacing::Search, pending::Pending, placement::Placement, tasks::Tasks,
        timers::Timers, waiting::Lists,
    },
};

/// State that survives the replacement of a configuration by another.
#[derive(Debug, Clone)]
pub(crate) struct RouterState {
    pub(crate) library: Library,
    pub(crate) ports: linerate_port::Context,
    pub(crate) options: Options,
    pub(crate) hub: Hub<Context>,
    /// Driver of the first configuration.
    pub(crate) driver: Driver,
    pub(crate) clock: Clock,
}

/// The elements of a graph, initialized and not yet running.
pub(crate) struct BuiltGraph {
    pub(crate) plan: Arc<Plan>,
    pub(crate) placement: Arc<Placement>,
    pub(crate) world: Arc<BuildContext>,
    /// By worker.
    pub(crate) contexts: Vec<Context>,
    /// Warnings of a configuration that can be run all the same.
    pub(crate) warnings: Diagnostics,
}

impl BuiltGraph {
    /// Ends the elements.
    pub(crate) fn close(&mut self) {
        self.contexts.iter_mut().for_each(Context::close);
    }

    /// Itself, or the errors that were found.
    fn unless_wrong(mut self) -> Result<BuiltGraph, BuildError> {
        if self.warnings.has_errors() {
            self.close();
            return Err(BuildError::Configuration(self.warnings));
        }
        Ok(self)
    }
}

impl RouterState {
    /// Makes and initializes the elements of `plan`, which is to replace
    /// `predecessor` where there is one.
    pub(crate) fn build(
        &self,
        plan: Plan,
        predecessor: Option<Arc<Plan>>,
    ) -> Result<BuiltGraph, BuildError> {
        let mut built = self.make(plan, predecessor)?;
        for cx in &mut built.contexts {
            initialize(&built.plan, cx, &mut built.warnings);
        }
        built.unless_wrong()
    }

    /// Makes the elements, and initializes none: nothing is opened.
    pub(crate) fn make(
        &self,
        plan: Plan,
        predecessor: Option<Arc<Plan>>,
    ) -> Result<BuiltGraph, BuildError> {
        let mut errors = Diagnostics::default();
        let plan = Arc::new(plan);
        let types = plan.elements.iter().any(|element| element.class.needs_packet_type);
        if plan.elements.iter().any(|element| element.class.writes) {
            self.ports.arena.forget_template();
        }
        let workers = self.hub.workers();
        let mut world = BuildContext {
            library: self.library.clone(),
            ports: linerate_port::Context { types, ..self.ports.clone() },
            frame_limit: self.options.frame_limit,
            workers,
            simulated: self.options.simulated,
            annotated: types || plan.elements.iter().any(|element| element.class.annotates),
            types,
            threads: self.options.threads.max(workers),
            homes: Vec::new(),
            names: Arc::new(Names::default()),
            console: self.options.console.clone(),
            shared: SharedValues::default(),
            off_workers: OffWorkers::default(),
            version: self.options.version.clone(),
            insecure_control: self.options.insecure_control,
            writers: if self.options.reader.is_some() || self.options.grants_replace {
                Right::Replace
            } else {
                Right::Write
            },
            predecessor,
            failure: Arc::default(),
        };
        let preparation = prepare(&plan, &mut world, &mut errors);
        let mut assigned = vec![None; plan.elements.len()];
        for (element, worker) in preparation.workers {
            assigned[element] = Some(worker);
        }
        world.homes = assigned.clone();
        for worker in assigned.iter_mut().flatten() {
            *worker = (*worker).min(workers - 1);
        }
        let driver = match world.predecessor {
            Some(_) => self.driver.successor(),
            None => self.driver.clone(),
        };
        let world = Arc::new(world);
        let placement = Arc::new(place(&plan, workers, &assigned));
        let context = |worker| self.context(&plan, &placement, &world, &driver, worker);
        let mut contexts: Vec<Context> = (0..workers).map(context).collect();
        for (at, element) in plan.elements.iter().enumerate() {
            let tickets = preparation.schedule.tickets(&element.name);
            contexts.iter_mut().for_each(|cx| cx.tasks.set_tickets(at, tickets));
        }
        for (worker, cx) in contexts.iter_mut().enumerate() {
            for at in 0..plan.elements.len() {
                let Some(replica) = placement.replica(worker, at) else { continue };
                let mut make = ElementBuilder::new(&world, &plan, at, replica);
                let element = (plan.elements[at].class.make)(&mut make);
                if let Some(off_worker) = element.off_worker().filter(|_| replica.index == 0) {
                    world.off_workers.set(at, off_worker);
                }
                cx.runtimes[at].install(element);
                // Complaints of elements that inform others were reported then.
                if replica.index == 0 && !informs(plan.elements[at].class) {
                    let found = make.into_diagnostics();
                    report(&plan, &world.names, at, "configuring", found, &mut errors);
                }
            }
        }
        BuiltGraph { plan, placement, world, contexts, warnings: errors }.unless_wrong()
    }

    fn context(
        &self,
        plan: &Arc<Plan>,
        placement: &Arc<Placement>,
        world: &Arc<BuildContext>,
        driver: &Driver,
        worker: usize,
    ) -> Context {
        let frame_limit = self.options.frame_limit;
        let mut out = Outputs::new(frame_limit);
        let elements = plan.elements.iter();
        let stats = elements.map(|element| (element.class.role, element.class.drops.len()));
        let stats = Arc::new(WorkerStats::new(stats));
        let Wiring { runtimes, nodes, inputs, places } =
            wire(plan, placement, worker, world.arena().buffer_size(), &stats, &mut out);
        Context {
            pool: world.arena().cache(self.options.cache),
            out,
            clock: self.clock.clone(),
            driver: driver.clone(),
            plan: Arc::clone(plan),
            order: Order::new(
                runtimes.iter().any(|at| at.meets_again)
                    || places.iter().any(|at| at.joint)
                    || nodes.iter().any(|at| !at.companions.is_empty()),
                world.arena(),
            ),
            pending: Pending::new(frame_limit == 1, places),
            runtimes,
            nodes,
            inputs,
            tasks: Tasks::new(plan.elements.len()),
            party: Vec::new(),
            search: Search::default(),
            timers: Timers::default(),
            account: Account::new(stats, self.options.cycles),
            node: 0,
            deferred_writes: Vec::new(),
            right: Right::ALL,
            delivered: false,
            looks_again: false,
            on_the_way: false,
            woken: Vec::new(),
            task: usize::MAX,
            pulled: 0,
            taken: 0,
            round: 0,
            header_cache: if self.options.surveys {
                HeaderCache::new(frame_limit)
            } else {
                HeaderCache::off()
            },
            exits: Exits::new(frame_limit),
            limit: frame_limit,
            worker,
            hub: self.hub.clone(),
            world: Arc::clone(world),
            placement: Arc::clone(placement),
            manager: None,
            replicas: (0..plan.elements.len()).map(|at| placement.replica(worker, at)).collect(),
            idlers: Vec::new(),
            lists: Lists::default(),
            homes: HashMap::new(),
            configs: HashMap::new(),
            router: None,
        }
    }
}

/// Initializes elements until one cannot be.
fn initialize(plan: &Plan, cx: &mut Context, errors: &mut Diagnostics) {
    let mut order: Vec<usize> = (0..plan.elements.len()).collect();
    order.sort_by_key(|at| plan.elements[*at].class.late_init);
    for at in order {
        if errors.has_errors() {
            return;
        }
        // One before may have tried in vain something it can do without.
        *cx.world().failure.lock().expect("no panic while held") = None;
        if let Some(Err(error)) = cx.call(at, |element, cx| element.initialize(cx)) {
            let cause = cx.world().failure.lock().expect("no panic while held").take();
            let found = vec![ConfigDiagnostic { cause, ..ConfigDiagnostic::error(error) }];
            report(plan, &cx.world().names, at, "initializing", found, errors);
        }
    }
}

/// Returns true if elements of a class only make statements before any is made.
fn informs(class: &Class) -> bool {
    class.role == Role::Information && class.prepare.is_some()
}

/// Lets information elements speak before any element is made.
fn prepare(plan: &Plan, world: &mut BuildContext, errors: &mut Diagnostics) -> ElementStatements {
    let mut preparation = ElementStatements::default();
    let mut ask = |world: &BuildContext, preparation: &mut ElementStatements, informing: bool| {
        for (at, element) in plan.elements.iter().enumerate() {
            let prepare = element.class.prepare;
            let Some(say) = prepare.filter(|_| informs(element.class) == informing) else {
                continue;
            };
            let mut make = ElementBuilder::new(world, plan, at, Replica::ONLY);
            say(&mut make, preparation);
            // Others only look at their arguments, which are checked when they
            // are made.
            if informing {
                report(plan, &world.names, at, "configuring", make.into_diagnostics(), errors);
            }
        }
    };
    ask(world, &mut preparation, true);
    // Statements about other elements may use the names defined.
    world.names = Arc::new(std::mem::take(&mut preparation.names));
    ask(world, &mut preparation, false);
    preparation
}
