//! Graph change while packets flow.
//!
//! Where every element that stays has its parts on the same workers, each
//! worker changes over by itself between two rounds. Where one has moved to
//! another worker, or is on several and another configuration may need other
//! rings between them, the workers change over at a barrier: each stands still
//! from the moment all have arrived, which is when the slowest has ended its
//! round, until all elements have taken over their state. Unlike VPP's, the barrier is not taken by
//! a main thread, and can be cancelled: while workers wait they answer each other's handler calls,
//! so no two can wait for one another, and a run that ends or a worker that panics sets all free.
//!
//! A queue between workers keeps its very ring, so it does not matter that two workers change over
//! at different moments. Each graph has a run count of its own, so an element that ends or manages
//! the run of one does not touch that of the next. Wake-ups that were under way name a task of the
//! old graph; they wake everything instead. The old graph's tables are freed by the thread that
//! replaced it.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard},
    time::Duration,
};

use crate::{
    element::{Context, Element, Plan},
    runtime::placement::Placement,
};

/// Interval at which a worker that waits at the barrier checks its mailbox.
const CHECK: Duration = Duration::from_millis(1);

impl Context {
    /// Runs the jobs that change the graph as a whole.
    pub(crate) fn change(&mut self) {
        let hub = self.hub.clone();
        for job in hub.take_changes(self.worker) {
            job(self);
            self.drain();
        }
    }

    /// Gives way to a new graph's part on this worker: elements that are in
    /// both keep their state.
    pub(crate) fn change_over(&mut self, new: Context) {
        // Of several workers another one may have left already.
        if self.hub.workers() > 1 && self.driver.count() <= 0 && self.driver.is_over() {
            new.driver.abandon();
        }
        let mut old = std::mem::replace(self, new);
        for at in 0..self.runtimes.len() {
            let before = same_element(&self.plan, at, &old.plan);
            if let Some(before) = before.and_then(|before| old.runtimes[before].take()) {
                self.take_over(at, before);
            }
        }
        old.close();
        self.drain();
    }

    /// Element `at` takes over the state of the one before it.
    fn take_over(&mut self, at: usize, mut before: Box<dyn Element>) {
        self.call(at, |element, cx| element.take_state(cx, &mut *before));
        self.call(at, |_, cx| before.close(cx));
    }
}

/// The element of `old` that element `at` of `new` is: the one of the same name
/// and class.
fn same_element(new: &Plan, at: usize, old: &Plan) -> Option<usize> {
    let element = &new.elements[at];
    let before = old.find(&element.name)?;
    (old.elements[before].class.name == element.class.name).then_some(before)
}

/// Returns true if it takes a barrier to change from one graph to the other.
pub(crate) fn needs_barrier(
    (old, old_placement): (&Plan, &Placement),
    (new, new_placement): (&Plan, &Placement),
) -> bool {
    (0..new.elements.len()).any(|at| {
        let Some(before) = same_element(new, at, old) else { return false };
        let parts = new_placement.parts(at);
        let alone = parts.len() == 1;
        parts != old_placement.parts(before)
            || !alone && new.elements[at].config != old.elements[before].config
    })
}

/// Barrier at which workers wait for each other to change over together.
pub(crate) struct Barrier {
    workers: usize,
    state: Mutex<BarrierState>,
    changed: Condvar,
}

#[derive(Default)]
struct BarrierState {
    arrived: usize,
    /// A worker will not come: all go on as they were.
    cancelled: bool,
    /// Workers that have taken over their state.
    done: usize,
    /// The old context of each worker.
    old: Vec<Option<Context>>,
}

impl Barrier {
    pub(crate) fn new(workers: usize) -> Arc<Barrier> {
        let old = (0..workers).map(|_| None).collect();
        let state = Mutex::new(BarrierState { old, ..BarrierState::default() });
        Arc::new(Barrier { workers, state, changed: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, BarrierState> {
        self.state.lock().expect("no panic while held")
    }

    /// Cancels it, unless all have arrived already.
    pub(crate) fn cancel(&self) -> bool {
        let mut state = self.lock();
        state.cancelled |= state.arrived < self.workers;
        self.changed.notify_all();
        state.cancelled
    }

    /// Changes a worker over to its part of a new graph together with the
    /// others. `false` when they do not all arrive: nothing has changed then.
    pub(crate) fn change_over(&self, cx: &mut Context, mut new: Context) -> bool {
        if !self.arrive(cx) {
            new.close();
            return false;
        }
        let worker = cx.worker;
        let old = std::mem::replace(cx, new);
        let mut state = self.lock();
        state.old[worker] = Some(old);
        self.changed.notify_all();
        let mut state = self.wait(state, |state| state.old.iter().any(Option::is_none));
        take_over_from(cx, &mut state.old);
        state.done += 1;
        self.changed.notify_all();
        let mut state = self.wait(state, |state| state.done < self.workers);
        let old = state.old[worker].take();
        drop(state);
        if let Some(mut old) = old {
            old.close();
        }
        true
    }

    fn wait<'s>(
        &self,
        state: MutexGuard<'s, BarrierState>,
        waits: impl Fn(&BarrierState) -> bool,
    ) -> MutexGuard<'s, BarrierState> {
        self.changed.wait_while(state, |state| waits(state)).expect("no panic while held")
    }

    /// Waits for all to arrive, still answering handler calls: one of the others may not arrive
    /// before it has an answer. No worker waits for a run that ends.
    fn arrive(&self, cx: &mut Context) -> bool {
        let mut state = self.lock();
        state.arrived += usize::from(!state.cancelled);
        self.changed.notify_all();
        loop {
            if state.cancelled || state.arrived == self.workers {
                return !state.cancelled;
            }
            if cx.driver.count() <= 0 {
                state.cancelled = true;
                self.changed.notify_all();
                return false;
            }
            if cx.hub.has_jobs(cx.worker) {
                drop(state);
                cx.run_jobs();
                state = self.lock();
                continue;
            }
            let waited = self.changed.wait_timeout(state, CHECK);
            state = waited.expect("no panic while held").0;
        }
    }
}

/// The elements of a worker take over from those before them that were on it,
/// and from those that were on workers they are no longer on.
fn take_over_from(cx: &mut Context, old: &mut [Option<Context>]) {
    let placement = Arc::clone(&cx.placement);
    let own = cx.worker;
    for at in 0..cx.runtimes.len() {
        let first = placement.workers_of(at).next();
        for (worker, old) in old.iter_mut().enumerate() {
            let Some(old) = old else { continue };
            let heir = if placement.replica(worker, at).is_some() { Some(worker) } else { first };
            if heir != Some(own) {
                continue;
            }
            let before = same_element(&cx.plan, at, &old.plan);
            if let Some(before) = before.and_then(|before| old.runtimes[before].take()) {
                cx.take_over(at, before);
            }
        }
    }
}
