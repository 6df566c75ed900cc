//! Messages that an element logs once, or a few times, in all its replicas together.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use linerate_graph::ElementBuilder;

/// Number of times something has been logged. An element has one, for one message.
#[derive(Debug, Clone, Default)]
pub struct LogOnce(Arc<Times>);

#[derive(Debug, Default)]
struct Times(AtomicUsize);

impl LogOnce {
    /// Returns the counter of the element being made, which all its replicas share.
    pub fn for_element(make: &ElementBuilder<'_>) -> LogOnce {
        LogOnce(make.shared(Times::default))
    }

    /// Returns true if it is to be logged now: the first time it is asked for.
    pub fn first(&self) -> bool {
        self.among(1)
    }

    /// Returns true if it is to be logged now: the first `times` that it is asked for.
    pub fn among(&self, times: usize) -> bool {
        // Packets that are all wrong find out by a load.
        self.0.0.load(Relaxed) < times && self.0.0.fetch_add(1, Relaxed) < times
    }

    /// Forgets that it has been logged.
    pub fn forget(&self) {
        self.0.0.store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_say_it_together() {
        let (one, other) = {
            let said = LogOnce::default();
            (said.clone(), said)
        };
        let said = [one.among(3), other.among(3), one.among(3), other.among(3)];
        assert_eq!(said, [true, true, true, false]);
        let said = LogOnce::default();
        assert!(said.first() && !said.clone().first());
        said.forget();
        assert!(said.first());
    }
}
