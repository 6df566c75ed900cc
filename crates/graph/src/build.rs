//! From a checked graph to elements on workers.

use std::{collections::HashMap, sync::Arc};

use crate::{
    class::{Library, Preparation},
    console::Console,
    engine::{
        Clock, Context, Driver, Outputs, WorkerStats,
        account::Account,
        hub::Hub,
        pending::{Order, Pending},
        tasks::Tasks,
        timers::Timers,
        wiring::{Placement, wire},
    },
    error::BuildError,
    lang::{Diagnostic, Diagnostics},
    make::{Make, Replica, Shared, World},
    names::Names,
    plan::Plan,
    router::Options,
};

/// What stays when a configuration is replaced by another.
#[derive(Debug, Clone)]
pub(crate) struct Base {
    pub(crate) library: Library,
    pub(crate) ports: linerate_port::Context,
    pub(crate) options: Options,
    pub(crate) hub: Hub,
    pub(crate) driver: Driver,
    pub(crate) clock: Clock,
}

/// The elements of a graph, initialized and not yet running.
pub(crate) struct Built {
    pub(crate) plan: Arc<Plan>,
    pub(crate) placement: Arc<Placement>,
    /// By worker.
    pub(crate) contexts: Vec<Context>,
}

impl Base {
    /// Makes and initializes the elements of `plan`, which is to replace
    /// `predecessor` where there is one.
    pub(crate) fn build(
        &self,
        plan: Plan,
        predecessor: Option<Arc<Plan>>,
    ) -> Result<Built, BuildError> {
        let mut errors = Diagnostics::default();
        let plan = Arc::new(plan);
        let workers = self.hub.workers();
        let mut world = World {
            library: self.library.clone(),
            ports: self.ports.clone(),
            frame_limit: self.options.frame_limit,
            workers,
            simulated: self.options.simulated,
            annotated: plan.elements.iter().any(|element| element.class.annotates),
            names: Arc::new(Names::default()),
            console: self.options.console.clone(),
            shared: Shared::default(),
            predecessor,
        };
        let preparation = prepare(&plan, &world, &mut errors);
        let mut assigned = vec![None; plan.elements.len()];
        for (element, worker) in preparation.workers {
            assigned[element] = Some(worker);
        }
        world.names = Arc::new(preparation.names);
        let world = Arc::new(world);
        let placement = Arc::new(Placement::new(&plan, workers, &assigned));
        let context = |worker| self.context(&plan, &placement, &world, worker);
        let mut contexts: Vec<Context> = (0..workers).map(context).collect();
        for (element, tickets) in preparation.tickets {
            contexts.iter_mut().for_each(|cx| cx.tasks.set_tickets(element, tickets));
        }
        for (worker, cx) in contexts.iter_mut().enumerate() {
            for at in 0..plan.elements.len() {
                let Some(replica) = placement.replica(worker, at) else { continue };
                let mut make = Make::new(&world, &plan, at, replica);
                cx.elements[at] = Some((plan.elements[at].class.make)(&mut make));
                if replica.index == 0 {
                    warn(&plan, at, &make.take_warnings(), &world.console);
                    report(&plan, at, "configuring", make.into_errors(), &mut errors);
                }
            }
        }
        if errors.is_empty() {
            for cx in &mut contexts {
                initialize(&plan, cx, &mut errors);
            }
        }
        if !errors.is_empty() {
            contexts.iter_mut().for_each(Context::close);
            return Err(BuildError::Configuration(errors));
        }
        Ok(Built { plan, placement, contexts })
    }

    fn context(
        &self,
        plan: &Arc<Plan>,
        placement: &Arc<Placement>,
        world: &Arc<World>,
        worker: usize,
    ) -> Context {
        let frame_limit = self.options.frame_limit;
        let mut out = Outputs::new(frame_limit);
        let (nodes, inputs) = wire(plan, placement, worker, frame_limit, &mut out);
        let elements = plan.elements.iter();
        let stats = elements.map(|element| (element.class.role, element.class.drops.len()));
        Context {
            pool: world.arena().cache(self.options.cache),
            out,
            clock: self.clock.clone(),
            driver: self.driver.clone(),
            plan: Arc::clone(plan),
            elements: plan.elements.iter().map(|_| None).collect(),
            pending: Pending::new(frame_limit == 1, inputs.len()),
            order: Order::new(nodes.iter().any(|node| node.meets_again), world.arena()),
            nodes,
            inputs,
            tasks: Tasks::new(plan.elements.len()),
            timers: Timers::default(),
            account: Account::new(Arc::new(WorkerStats::new(stats))),
            node: 0,
            limit: frame_limit,
            worker,
            hub: self.hub.clone(),
            world: Arc::clone(world),
            placement: Arc::clone(placement),
            manager: None,
            replicas: (0..plan.elements.len()).map(|at| placement.replica(worker, at)).collect(),
            idlers: Vec::new(),
            configs: HashMap::new(),
        }
    }
}

fn initialize(plan: &Plan, cx: &mut Context, errors: &mut Diagnostics) {
    for at in 0..plan.elements.len() {
        if let Some(Err(error)) = cx.call(at, |element, cx| element.initialize(cx)) {
            report(plan, at, "initializing", vec![error], errors);
        }
    }
}

/// Lets information elements speak before any element is made.
fn prepare(plan: &Plan, world: &World, errors: &mut Diagnostics) -> Preparation {
    let mut preparation = Preparation::default();
    for at in 0..plan.elements.len() {
        let Some(say) = plan.elements[at].class.prepare else { continue };
        // What was said before can be used in what is said next.
        let world = World { names: Arc::new(preparation.names.clone()), ..world.clone() };
        let mut make = Make::new(&world, plan, at, Replica::ONLY);
        say(&mut make, &mut preparation);
        report(plan, at, "configuring", make.into_errors(), errors);
    }
    preparation
}

/// Shows what an element warns of, as Click does.
fn warn(plan: &Plan, at: usize, warnings: &[String], console: &Console) {
    if warnings.is_empty() {
        return;
    }
    let element = &plan.elements[at];
    let landmark = &plan.flat.elements[at].landmark;
    let (name, class) = (&element.name, element.class.name);
    let mut text = format!("{landmark}: While configuring '{name} :: {class}':\n");
    for warning in warnings {
        text.push_str("  ");
        text.push_str(warning);
        text.push('\n');
    }
    console.report(&text);
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
