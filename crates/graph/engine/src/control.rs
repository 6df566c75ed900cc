//! Control: the handle on a running router, for any thread.

use std::{
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc::{Sender, channel},
    },
    thread,
    time::{Duration, Instant},
};

use crate::{
    build::{BuiltGraph, RouterState},
    element::{BuildContext, Context, Plan, RouterHandle, Task, value::HandlerRef},
    engine::{
        OffWorkerHandler,
        change::{Barrier, needs_barrier},
        handlers::ask_about,
    },
    error::{BuildError, HandlerError},
    handler::{ANSWER, HOTCONFIG, merge},
    lang::Diagnostics,
    right::Right,
    runtime::{Driver, Usage, WorkerStats, hub::Question, placement::Placement},
};

/// Longer than a round of a worker that runs, nearly always.
const ROUND: Duration = Duration::from_millis(100);

/// Handlers, figures, replacement and the end of the run. Clones are handles
/// on the same router. Its methods are for threads that are not workers: they
/// may wait for one.
#[derive(Clone)]
pub struct Control {
    base: Arc<RouterState>,
    live: Arc<Mutex<RunningGraph>>,
    /// Held while a configuration replaces another.
    replacing: Arc<Mutex<()>>,
    /// Replacements that workers have asked for and that are not done.
    replacements: Arc<AtomicUsize>,
    /// Thread for work that would hold up a worker.
    helper: Arc<Helper>,
}

/// The graph that runs now.
#[derive(Clone)]
struct RunningGraph {
    plan: Arc<Plan>,
    placement: Arc<Placement>,
    world: Arc<BuildContext>,
    stats: Vec<Arc<WorkerStats>>,
}

impl RunningGraph {
    fn from_built(built: &BuiltGraph) -> RunningGraph {
        RunningGraph {
            plan: Arc::clone(&built.plan),
            placement: Arc::clone(&built.placement),
            world: Arc::clone(&built.world),
            stats: built.contexts.iter().map(|cx| Arc::clone(cx.stats())).collect(),
        }
    }
}

impl Control {
    pub(crate) fn new(base: Arc<RouterState>, built: &mut BuiltGraph) -> Control {
        let live = Arc::new(Mutex::new(RunningGraph::from_built(built)));
        let control = Control {
            base,
            live,
            replacing: Arc::default(),
            replacements: Arc::default(),
            helper: Arc::default(),
        };
        control.introduce(built);
        control
    }

    /// Gives each worker a handle on the router, to ask for another graph.
    fn introduce(&self, built: &mut BuiltGraph) {
        for cx in &mut built.contexts {
            cx.router = Some(Arc::new(self.clone()));
        }
    }

    fn live(&self) -> RunningGraph {
        self.live.lock().expect("no panic while held").clone()
    }

    fn set_live(&self, live: RunningGraph) {
        *self.live.lock().expect("no panic while held") = live;
    }

    /// The graph that runs.
    pub fn plan(&self) -> Arc<Plan> {
        self.live().plan
    }

    /// Signals, why the run failed, and how that of the first graph ends.
    pub fn driver(&self) -> &Driver {
        &self.base.driver
    }

    /// Asks for the end of the run, whatever the run count is.
    pub fn stop(&self) {
        self.base.driver.abort();
        (0..self.base.hub.workers()).for_each(|worker| self.base.hub.ring(worker));
    }

    /// Asks all workers for a sign of life, which each gives between two rounds. Waits for none.
    pub fn probe_liveness(&self) -> LivenessProbe {
        let workers = self.base.hub.workers();
        let missing = Arc::new(AtomicUsize::new(workers));
        for worker in 0..workers {
            let missing = Arc::clone(&missing);
            let answer = move |_: &mut Context| {
                missing.fetch_sub(1, Ordering::Relaxed);
            };
            self.base.hub.post(worker, Box::new(answer));
        }
        LivenessProbe { missing }
    }

    /// The graph that runs and the figures of each worker, elements in the
    /// graph's order. Asks no worker.
    pub fn usage(&self) -> (Arc<Plan>, Vec<Usage>) {
        let RunningGraph { plan, stats, .. } = self.live();
        (plan, stats.iter().map(|stats| stats.read()).collect())
    }

    /// Reads the handler `element.handler` or, global, `handler` of the graph
    /// that runs; each worker that has a part of the element answers between
    /// two rounds, unless the handler needs none.
    ///
    /// # Errors
    ///
    /// When there is no such element, its handler cannot be read, a worker does
    /// not answer, or the graph is replaced meanwhile.
    pub fn read(&self, handler: &str, parameter: &str) -> Result<String, HandlerError> {
        let RunningGraph { plan, placement, world, .. } = self.live();
        let handler = HandlerRef::find(&plan, handler)?;
        if let Some(found) = OffWorkerHandler::new(&plan, &world, &handler) {
            return self.unless_replaced(&plan, found.read(parameter, Right::ALL));
        }
        let Some(element) = handler.element else {
            let parameter = parameter.to_owned();
            return self.ask(&plan, 0, move |cx| cx.read_handler(&handler, &parameter));
        };
        let mut answers = Vec::new();
        for worker in placement.workers_of(element) {
            let (name, parameter) = (handler.handler.clone(), parameter.to_owned());
            let job = move |cx: &mut Context| cx.read_here(element, &name, &parameter);
            answers.push(self.ask(&plan, worker, job)?);
        }
        Ok(merge(plan.elements[element].class.handler(&handler.handler), answers))
    }

    /// Writes the handler `element.handler` or, global, `handler` of the graph
    /// that runs, on each worker that has a part of the element. Writing the
    /// global handler `hotconfig` is [`Control::reconfigure`], whose warnings
    /// are then the answer.
    ///
    /// # Errors
    ///
    /// When there is no such element, it refuses, a worker does not answer, or
    /// the graph is replaced meanwhile.
    pub fn write(&self, handler: &str, value: &str) -> Result<String, HandlerError> {
        let RunningGraph { plan, placement, world, .. } = self.live();
        let handler = HandlerRef::find(&plan, handler)?;
        if let Some(found) = OffWorkerHandler::new(&plan, &world, &handler) {
            return self.unless_replaced(&plan, found.write(value, Right::ALL));
        }
        let Some(element) = handler.element else {
            if handler.handler == HOTCONFIG && self.base.options.reader.is_some() {
                let replaced = self.reconfigure(value).map_err(HandlerError::Refused);
                return replaced.map(|warnings| warnings.click());
            }
            let value = value.to_owned();
            return self.ask(&plan, 0, move |cx| cx.write_handler(&handler, &value));
        };
        let mut answer = String::new();
        for worker in placement.workers_of(element) {
            let (name, value) = (handler.handler.clone(), value.to_owned());
            let job = move |cx: &mut Context| cx.write_here(element, &name, &value);
            answer = self.ask(&plan, worker, job)?;
        }
        Ok(answer)
    }

    /// Has a worker do something, unless the graph has been replaced since.
    fn ask(
        &self,
        plan: &Arc<Plan>,
        worker: usize,
        job: impl FnOnce(&mut Context) -> Result<String, HandlerError> + Send + 'static,
    ) -> Result<String, HandlerError> {
        let answer = ask_about(&self.base.hub, worker, plan, job).wait(ANSWER);
        answer.unwrap_or(Err(HandlerError::Unanswered(worker)))
    }

    /// Replaces the graph by the one the text of a configuration describes, if the router was made
    /// to allow that ([`Options::reader`](crate::Options)). Returns the diagnostics of a success,
    /// warnings among them.
    ///
    /// # Errors
    ///
    /// The errors of the text, in Click's words; the old graph then goes on.
    pub fn reconfigure(&self, text: &str) -> Result<Diagnostics, String> {
        self.reconfigure_by(text, |plan| self.put(plan))
    }

    fn reconfigure_by(
        &self,
        text: &str,
        put: impl FnOnce(Plan) -> Result<Diagnostics, BuildError>,
    ) -> Result<Diagnostics, String> {
        let reader = self.base.options.reader.as_ref().ok_or(NOT_ALLOWED)?;
        let (plan, mut found) = reader.read(text)?;
        let warnings = put(plan).map_err(|error| match error {
            BuildError::Configuration(wrong) => {
                format!("{}{}Router could not be initialized!", found.click(), wrong.click())
            }
            error => error.to_string(),
        })?;
        found.merge(warnings);
        Ok(found)
    }

    /// Replaces the graph while it runs. Elements that keep their name and
    /// class keep their state: counters, tables, queued packets. Each worker
    /// changes over between two rounds; only where elements have moved from one
    /// worker to another do the workers wait for each other to end theirs.
    /// Warnings are reported on the console.
    ///
    /// # Errors
    ///
    /// When the new graph cannot be made, or the run ends meanwhile; the old
    /// one then goes on.
    pub fn replace(&self, plan: Plan) -> Result<(), BuildError> {
        self.put(plan).map(|warnings| self.base.options.console.report_all(&warnings))
    }

    /// Puts a graph in the place of the one that runs; returns its warnings.
    fn put(&self, plan: Plan) -> Result<Diagnostics, BuildError> {
        let _one = self.replacing.lock().expect("no panic while held");
        // Nothing is opened for a run that is over.
        if self.driver().is_aborted() {
            return Err(BuildError::Ended);
        }
        let before = self.live();
        let mut built = self.base.build(plan, Some(Arc::clone(&before.plan)))?;
        // Nor taken over by one that has ended meanwhile: opening ports takes its time.
        if self.driver().is_aborted() {
            built.close();
            return Err(BuildError::Ended);
        }
        let warnings = std::mem::take(&mut built.warnings);
        self.introduce(&mut built);
        let live = RunningGraph::from_built(&built);
        let together =
            needs_barrier((&before.plan, &before.placement), (&live.plan, &live.placement));
        let barrier = together.then(|| Barrier::new(self.base.hub.workers()));
        let changes: Vec<_> = built
            .contexts
            .into_iter()
            .enumerate()
            .map(|(worker, new)| {
                let barrier = barrier.clone();
                self.base.hub.change(worker, move |cx| match barrier {
                    Some(barrier) => barrier.change_over(cx, new),
                    None => {
                        cx.change_over(new);
                        true
                    }
                })
            })
            .collect();
        // A worker that does not answer is not running. It changes over before
        // anything else, unless it must not do so alone, or will not run any more.
        for change in changes {
            let changed = changed(&change, || self.driver().is_aborted(), ANSWER);
            let cancel = || barrier.as_ref().is_some_and(|barrier| barrier.cancel());
            let over = || cancel() || self.driver().is_aborted();
            if changed == Some(false) || changed.is_none() && over() {
                return Err(BuildError::Ended);
            }
        }
        self.set_live(live);
        Ok(warnings)
    }
}

impl RouterHandle for Control {
    fn may_reconfigure(&self) -> bool {
        self.base.options.reader.is_some()
    }

    fn reconfigure(&self, text: &str) -> Result<Diagnostics, String> {
        Control::reconfigure(self, text)
    }

    fn reconfigure_here(&self, text: &str) -> Option<Result<Diagnostics, String>> {
        if self.base.hub.workers() > 1 {
            return None;
        }
        let _one = self.replacing.try_lock().ok()?;
        Some(self.reconfigure_by(text, |plan| {
            let mut built = self.base.build(plan, Some(self.plan()))?;
            self.introduce(&mut built);
            let live = RunningGraph::from_built(&built);
            let control = self.clone();
            for new in built.contexts {
                let (control, live) = (control.clone(), live.clone());
                self.base.hub.change(0, move |cx| {
                    cx.change_over(new);
                    control.set_live(live);
                });
            }
            Ok(built.warnings)
        }))
    }

    fn replacements(&self) -> &Arc<AtomicUsize> {
        &self.replacements
    }

    fn unless_replaced(
        &self,
        plan: &Arc<Plan>,
        answer: Result<String, HandlerError>,
    ) -> Result<String, HandlerError> {
        if Arc::ptr_eq(plan, &self.plan()) { answer } else { Err(HandlerError::Replaced) }
    }

    fn post(&self, task: Task) -> Result<(), HandlerError> {
        self.helper.post(task)
    }

    fn wake_waiting(&self) {
        for worker in 0..self.base.hub.workers() {
            self.base.hub.post(worker, Box::new(|cx| cx.tasks.wake_waiting()));
        }
    }
}

/// A thread for work that would hold up a worker, in the order of the requests; started with the
/// first.
#[derive(Default)]
struct Helper(Mutex<Option<Sender<Task>>>);

impl Helper {
    fn post(&self, task: Task) -> Result<(), HandlerError> {
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

/// Returns whether a worker has changed over; `None` without an answer within `limit`. A worker
/// whose run has ended may have looked at its mailbox for the last time, so it is waited for no
/// longer than a round takes.
fn changed(change: &Question<bool>, is_ended: impl Fn() -> bool, limit: Duration) -> Option<bool> {
    let until = Instant::now() + limit;
    loop {
        let is_last = is_ended() || Instant::now() >= until;
        let changed = change.wait(ROUND);
        if changed.is_some() || is_last {
            return changed;
        }
    }
}

/// Signs of life that workers were asked for.
#[derive(Debug)]
pub struct LivenessProbe {
    missing: Arc<AtomicUsize>,
}

impl LivenessProbe {
    /// Returns true if all workers have given theirs.
    pub fn is_complete(&self) -> bool {
        self.missing.load(Ordering::Relaxed) == 0
    }
}

const NOT_ALLOWED: &str = "the configuration cannot be replaced";

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, sync::mpsc};

    use super::*;
    use crate::runtime::hub::Hub;

    #[test]
    fn a_change_does_not_wait_for_an_ended_worker() {
        let (tell, told) = mpsc::channel();
        thread::spawn(move || {
            let hub = Hub::<()>::new(1).unwrap();
            let change = hub.change(0, |_| true);
            // It goes on when it is first asked.
            let is_ended = Cell::new(false);
            let _ =
                tell.send(changed(&change, || is_ended.replace(true), Duration::from_secs(3600)));
        });
        assert_eq!(told.recv_timeout(Duration::from_secs(20)), Ok(None));
    }
}
