//! A new configuration of one element while the graph runs.

use std::sync::Arc;

use crate::{
    element::{Context, ElementBuilder, config_diagnostic::ConfigDiagnostic},
    error::HandlerError,
    lang::Severity,
    runtime::Replica,
};

impl Context {
    /// Gives an element a new configuration string: a new one is made, which takes over the old
    /// one's state. Its warnings go to the console, as those of the call.
    pub(crate) fn reconfigure(&mut self, element: usize, config: &str) -> Result<(), HandlerError> {
        let (plan, world) = (Arc::clone(&self.plan), Arc::clone(&self.world));
        let class = plan.elements[element].class;
        let replica = self.replica(element);
        let now = self.configs.get(&element).unwrap_or(&plan.elements[element].config).clone();
        let mut make =
            ElementBuilder::with_config(&world, &plan, element, replica, config, Some(now));
        let mut made = (class.make)(&mut make);
        let (errors, warnings): (Vec<_>, Vec<_>) = make
            .into_diagnostics()
            .into_iter()
            .partition(|found| found.severity == Severity::Error);
        if !errors.is_empty() {
            let errors: Vec<String> = errors.into_iter().map(|error| error.message).collect();
            return Err(HandlerError::Refused(errors.join("\n")));
        }
        let busy = || HandlerError::Busy(plan.elements[element].name.clone());
        let mut old = self.runtimes[element].take().ok_or_else(busy)?;
        let node = std::mem::replace(&mut self.node, element);
        let outcome = made.initialize(self).map_err(HandlerError::Refused);
        match outcome {
            Ok(()) => {
                made.take_state(self, &mut *old);
                old.close(self);
                let off_worker = made.off_worker().filter(|_| replica.index == 0);
                let before =
                    off_worker.and_then(|off_worker| world.off_workers.set(element, off_worker));
                self.drop_off_worker(before);
                self.runtimes[element].install(made);
                self.configs.insert(element, config.into());
                let name = &plan.elements[element].name;
                let mut said = String::new();
                for ConfigDiagnostic { message, severity, .. } in warnings {
                    let warning = if severity == Severity::Warning { "warning: " } else { "" };
                    said += &format!("  {warning}{message}\n");
                }
                // The others would say the same.
                if !said.is_empty() && replica.index == 0 {
                    let text = format!("While calling '{name}.config {config}':\n{said}");
                    self.console().report(&text);
                }
            }
            Err(_) => {
                made.close(self);
                self.runtimes[element].put(old);
            }
        }
        self.node = node;
        outcome
    }

    /// Returns this worker's part of an element's work.
    fn replica(&self, element: usize) -> Replica {
        self.replicas[element].unwrap_or(Replica::ONLY)
    }
}
