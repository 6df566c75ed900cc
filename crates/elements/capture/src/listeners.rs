//! Notification of elements about ended aggregates (Click's `AggregateListener`).

use std::sync::Arc;

use linerate_graph::{Context, Plan};

use super::aggregate_last::{self, AggregateLast};

/// The elements that name one element as their `NOTIFIER`.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    elements: Vec<usize>,
    /// Scratch vector, kept for its capacity.
    ended: Vec<u32>,
    /// Aggregates whose end other workers are notified of when the packets up to it are on their
    /// way.
    pending: Vec<u32>,
}

impl Listeners {
    /// The listeners of an element.
    pub(super) fn for_notifier(plan: &Plan, notifier: usize) -> Listeners {
        let listens = |at: &usize| {
            plan.elements[*at].class.name == aggregate_last::CLASS.name
                && plan.elements_named(*at, &["NOTIFIER"]).contains(&notifier)
        };
        let elements = (0..plan.elements.len()).filter(listens).collect();
        Listeners { elements, ..Listeners::default() }
    }

    /// The next packets have come, and those before have been sent on: other workers are notified
    /// of what ended with them.
    #[inline]
    pub(super) fn go_on(&mut self, cx: &Context) {
        if !self.pending.is_empty() {
            self.tell_elsewhere(cx);
        }
    }

    /// Takes over what other workers are still to be notified of.
    pub(super) fn take_state(&mut self, cx: &mut Context, old: &mut Listeners) {
        self.pending = std::mem::take(&mut old.pending);
        if !self.pending.is_empty() {
            cx.when_idle();
        }
    }

    /// An empty list for aggregates that end.
    #[inline]
    pub(super) fn take(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.ended)
    }

    /// Notifies the listeners of ended aggregates, in the order of `ended`: those of this worker at
    /// once, and those of others before the next packets or when there is nothing to do.
    #[inline]
    pub(super) fn tell(&mut self, cx: &mut Context, mut ended: Vec<u32>) {
        if !ended.is_empty() {
            self.tell_each(cx, &ended);
            ended.clear();
        }
        self.ended = ended;
    }

    #[cold]
    fn tell_each(&mut self, cx: &mut Context, ended: &[u32]) {
        let mut are_elsewhere = false;
        for element in &self.elements {
            if !cx.has_element(*element) {
                are_elsewhere = true;
                continue;
            }
            let told =
                cx.with_element(*element, |last: &mut AggregateLast, _| last.have_ended(ended));
            if told.is_some() {
                cx.schedule_other(*element);
            }
        }
        if are_elsewhere {
            if self.pending.is_empty() {
                cx.when_idle();
            }
            self.pending.extend_from_slice(ended);
        }
    }

    #[cold]
    fn tell_elsewhere(&mut self, cx: &Context) {
        let ended: Arc<[u32]> = self.pending.drain(..).collect();
        for element in self.elements.iter().filter(|element| !cx.has_element(**element)) {
            let ended = Arc::clone(&ended);
            cx.with_element_elsewhere(*element, move |last: &mut AggregateLast, cx| {
                last.have_ended_elsewhere(cx, &ended);
            });
        }
    }
}
