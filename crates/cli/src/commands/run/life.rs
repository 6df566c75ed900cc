//! Whether the workers of a configuration live: when it is ready, and what a watchdog hears.

use std::time::{Duration, Instant};

use anyhow::Result;
use linerate_graph::{Control, RollCall};

use crate::service::Service;

/// How soon it is noticed that workers run.
pub(super) const SOON: Duration = Duration::from_millis(1);

/// Signs of life of the workers: the first of all of them means that packets are handled.
pub(super) struct Life {
    /// Those that are waited for.
    asked: Option<RollCall>,
    ready: bool,
}

impl Life {
    pub(super) fn new(control: &Control) -> Life {
        Life { asked: Some(control.roll_call()), ready: false }
    }

    /// Looks whether all workers live, and says so: the first time by `ready`, then to the
    /// service manager as often as it wants to know.
    pub(super) fn look(
        &mut self,
        control: &Control,
        service: &mut Service,
        now: Instant,
        ready: impl FnOnce(&str) -> Result<()>,
    ) -> Result<()> {
        if self.asked.as_ref().is_some_and(RollCall::is_complete) {
            self.asked = None;
            if self.ready {
                service.alive();
            } else {
                self.ready = true;
                let status = self.status(control);
                ready(&status)?;
                service.ready(&status);
            }
        }
        if self.ready && self.asked.is_none() && service.wants_life(now) {
            self.asked = Some(control.roll_call());
        }
        Ok(())
    }

    /// What runs, in a line.
    pub(super) fn status(&self, control: &Control) -> String {
        let (plan, workers) = control.usage();
        let count = |count: usize, what: &str| {
            format!("{count} {what}{}", if count == 1 { "" } else { "s" })
        };
        format!("{} on {}", count(plan.elements.len(), "element"), count(workers.len(), "worker"))
    }

    /// Whether packets are handled.
    pub(super) fn is_ready(&self) -> bool {
        self.ready
    }
}
