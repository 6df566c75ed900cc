//! Notification of elements about ended aggregates (Click's `AggregateListener`).

use linerate_graph::{Context, Plan};

use super::aggregate_last::{self, AggregateLast};

/// The elements that name one element as their `NOTIFIER`.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    elements: Vec<usize>,
    /// Scratch vector, kept for its capacity.
    ended: Vec<u32>,
}

impl Listeners {
    /// The listeners of an element.
    pub(super) fn of(plan: &Plan, notifier: usize) -> Listeners {
        let listens = |at: &usize| {
            plan.elements[*at].class.name == aggregate_last::CLASS.name
                && plan.elements_named(*at, &["NOTIFIER"]).contains(&notifier)
        };
        let elements = (0..plan.elements.len()).filter(listens).collect();
        Listeners { elements, ended: Vec::new() }
    }

    /// An empty list for aggregates that end.
    #[inline]
    pub(super) fn take(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.ended)
    }

    /// Notifies the listeners of ended aggregates, in the order of `ended`.
    #[inline]
    pub(super) fn tell(&mut self, cx: &mut Context, mut ended: Vec<u32>) {
        if !ended.is_empty() {
            self.tell_each(cx, &ended);
            ended.clear();
        }
        self.ended = ended;
    }

    #[cold]
    fn tell_each(&self, cx: &mut Context, ended: &[u32]) {
        for element in &self.elements {
            let told =
                cx.with_element(*element, |last: &mut AggregateLast, _| last.have_ended(ended));
            if told.is_some() {
                cx.schedule_other(*element);
            }
        }
    }
}
