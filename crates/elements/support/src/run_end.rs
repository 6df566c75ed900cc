//! The end of a run that an element asks for, of which there may be replicas.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use linerate_graph::{Context, ElementBuilder};

/// An element's requests for the end of the run: each lowers the run count once, however many
/// replicas of the element come to it.
#[derive(Debug, Default)]
pub struct RunEnd {
    asked: Arc<Asked>,
    is_first: bool,
}

/// Whether one of the replicas has come to the end. A type of its own, by which they share it.
#[derive(Debug, Default)]
struct Asked(AtomicBool);

impl RunEnd {
    /// The replica's that is made.
    pub fn new(make: &ElementBuilder<'_>) -> RunEnd {
        RunEnd { asked: make.shared(Asked::default), is_first: make.replica().index == 0 }
    }

    /// Asks at an end to which each replica comes by itself, as a count: the first that does, asks.
    pub fn ask(&self, cx: &Context) {
        if !self.asked.0.swap(true, Ordering::AcqRel) {
            cx.driver.stop();
        }
    }

    /// There is another end to come to.
    pub fn rearm(&self) {
        self.asked.0.store(false, Ordering::Release);
    }

    /// Asks at a handler's value, which is written to each replica: one of them asks.
    pub fn ask_for_all(&self, cx: &Context) {
        if self.is_first {
            cx.driver.stop();
        }
    }
}
