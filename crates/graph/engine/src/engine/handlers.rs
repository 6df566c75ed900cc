//! Reading and writing of handlers by a worker: those of its own elements, and by questions to
//! other workers those of theirs.

use std::{
    fmt::Write as _,
    sync::Arc,
    time::{Duration, Instant},
};

use super::off_worker::OffWorkerHandler;
use crate::{
    element::{
        Context, LateWrite, Plan, PlanElement, Processing,
        value::{HandlerRef, parse_integer},
    },
    error::HandlerError,
    handler::{
        ANSWER, CONFIG, GLOBAL, HOME_THREAD, HOTCONFIG, Handler, TICKETS, TIMEWARP,
        WRITTEN_HOME_THREAD, WRITTEN_TICKETS, check_read, check_write, listing, merge,
    },
    runtime::{
        Role, TimeSpeed,
        hub::{Hub, Question},
    },
    schedule::TICKETS_LIMIT,
};

/// A pace of time as it was written.
fn parse_speed(value: &str) -> Result<TimeSpeed, HandlerError> {
    match value.trim() {
        "nowait" => Ok(TimeSpeed::NoWait),
        factor => match factor.parse::<f64>() {
            Ok(factor) if factor > 0.0 && factor.is_finite() => Ok(TimeSpeed::Times(factor)),
            Ok(_) => Err(HandlerError::refused("timefactor must be > 0")),
            Err(_) => Err(HandlerError::refused("expected double")),
        },
    }
}

/// Asks a worker about elements by their places in `plan`: a worker that has changed over to
/// another graph has others there.
///
/// # Errors
///
/// Answered with [`HandlerError::Replaced`] then.
pub(crate) fn ask_about<T: Send + 'static>(
    hub: &Hub<Context>,
    worker: usize,
    plan: &Arc<Plan>,
    job: impl FnOnce(&mut Context) -> Result<T, HandlerError> + Send + 'static,
) -> Question<Result<T, HandlerError>> {
    let plan = Arc::clone(plan);
    hub.question(worker, move |cx| {
        if Arc::ptr_eq(&plan, &cx.plan) { job(cx) } else { Err(HandlerError::Replaced) }
    })
}

impl Context {
    /// Reads a handler: of an element, wherever its replicas are, or a global
    /// one.
    ///
    /// # Errors
    ///
    /// When there is no such handler, or it cannot be read now.
    pub fn read_handler(
        &mut self,
        handler: &HandlerRef,
        parameter: &str,
    ) -> Result<String, HandlerError> {
        let Some(element) = handler.element else {
            return self.read_global(&handler.handler);
        };
        if let Some(found) = OffWorkerHandler::new(&self.plan, &self.world, handler) {
            return found.read(parameter, self.right());
        }
        let name = &handler.handler;
        let mut answers = Vec::new();
        for worker in self.workers_of(element) {
            answers.push(if worker == self.worker() {
                self.read_here(element, name, parameter)?
            } else {
                let (name, parameter) = (name.clone(), parameter.to_owned());
                self.ask(worker, element, move |cx| cx.read_here(element, &name, &parameter))?
            });
        }
        Ok(merge(self.plan.elements[element].class.handler(name), answers))
    }

    /// Writes a handler: of an element, on every worker that has a replica, or
    /// a global one.
    ///
    /// # Errors
    ///
    /// When there is no such handler, or the value is refused.
    pub fn write_handler(
        &mut self,
        handler: &HandlerRef,
        value: &str,
    ) -> Result<String, HandlerError> {
        let Some(element) = handler.element else {
            return self.write_global(&handler.handler, value);
        };
        if let Some(found) = OffWorkerHandler::new(&self.plan, &self.world, handler) {
            return found.write(value, self.right());
        }
        let name = &handler.handler;
        let mut answer = String::new();
        for worker in self.workers_of(element) {
            answer = if worker == self.worker() {
                self.write_here(element, name, value)?
            } else {
                let (name, value) = (name.clone(), value.to_owned());
                self.ask(worker, element, move |cx| cx.write_here(element, &name, &value))?
            };
        }
        Ok(answer)
    }

    fn workers_of(&self, element: usize) -> Vec<usize> {
        self.placement.workers_of(element).collect()
    }

    /// Has another worker run a job and waits, meanwhile running the jobs that other workers send
    /// to this one: two workers may ask each other.
    fn ask<T: Send + 'static>(
        &mut self,
        worker: usize,
        element: usize,
        job: impl FnOnce(&mut Context) -> Result<T, HandlerError> + Send + 'static,
    ) -> Result<T, HandlerError> {
        let right = self.right();
        let job = move |cx: &mut Context| cx.with_right(right, job);
        let question = ask_about(&self.hub, worker, &self.plan, job);
        let deadline = Instant::now() + ANSWER;
        loop {
            if let Some(answer) = question.wait(Duration::from_millis(1)) {
                return answer;
            }
            if self.hub.has_jobs(self.worker()) {
                self.run_jobs();
            }
            // A worker whose run is over answers no more.
            if self.driver.count() <= 0 && self.driver.is_over() {
                return Err(HandlerError::Unanswered(worker));
            }
            if Instant::now() >= deadline {
                return Err(HandlerError::Busy(self.plan.elements[element].name.clone()));
            }
        }
    }

    /// The global handlers there are.
    pub(crate) fn globals(&self) -> impl DoubleEndedIterator<Item = &'static Handler> + use<> {
        let replaces = self.may_be_replaced();
        GLOBAL.iter().filter(move |handler| replaces || handler.name != HOTCONFIG)
    }

    fn read_global(&mut self, name: &str) -> Result<String, HandlerError> {
        let lines = |items: &mut dyn Iterator<Item = String>| {
            items.fold(String::new(), |text, item| text + &item + "\n")
        };
        let elements = &self.plan.elements;
        match name {
            "version" => Ok(self.world.version.clone()),
            "list" => {
                let names = elements.iter().map(|element| element.name.clone());
                Ok(format!("{}\n{}", elements.len(), lines(&mut { names })))
            }
            "classes" => {
                let names = self.world.library.iter().map(|class| class.name.to_owned());
                Ok(lines(&mut { names }))
            }
            "config" => Ok(self.plan.source.clone()),
            "flatconfig" => {
                let config =
                    |at: usize| self.configs.get(&at).unwrap_or(&elements[at].config).clone();
                Ok(self.plan.flat.unparse_with(config))
            }
            "packages" => Ok(String::new()),
            "driver" => Ok("userlevel".into()),
            TIMEWARP => Ok(match self.clock.speed() {
                Some(TimeSpeed::Times(speed)) => speed.to_string(),
                Some(TimeSpeed::NoWait) => "nowait".into(),
                None => "simulation".into(),
            }),
            "requirements" => {
                let items = self.plan.flat.requirements.iter();
                let items = items.flat_map(|item| [item.kind.clone(), item.value.clone()]);
                Ok(lines(&mut { items }))
            }
            "handlers" => Ok(listing(self.globals().map(|handler| (handler.name, handler)))),
            "cycles" => {
                let usage = self.stats().read();
                let (io, task) = usage.io_and_task();
                Ok(format!("io {io:.0}\ntask {task:.0}\nidle {}", usage.wait))
            }
            _ if self.globals().any(|handler| handler.name == name) => {
                Err(HandlerError::NotReadable(name.into()))
            }
            _ => Err(HandlerError::missing(name)),
        }
    }

    fn write_global(&mut self, name: &str, value: &str) -> Result<String, HandlerError> {
        check_write(self.globals().find(|handler| handler.name == name), name, self.right())?;
        match name {
            "stop" => {
                // As Click has it, a text that is no number counts as one.
                let count = parse_integer(value).and_then(|count| i32::try_from(count).ok());
                self.driver.adjust(count.unwrap_or(1).saturating_neg());
                Ok(String::new())
            }
            TIMEWARP if !self.clock.is_simulated() => {
                self.clock.set_speed(parse_speed(value)?);
                Ok(String::new())
            }
            HOTCONFIG if self.may_be_replaced() => {
                self.replace_unattended(value).map(|()| String::new())
            }
            _ => Err(HandlerError::NotWritable(name.into())),
        }
    }

    /// Reads a handler of an element that is on this worker.
    ///
    /// # Errors
    ///
    /// When there is no such handler, or it cannot be read now.
    pub fn read_here(
        &mut self,
        element: usize,
        name: &str,
        parameter: &str,
    ) -> Result<String, HandlerError> {
        let (handler, own) = self.handler_of(element, name).unzip();
        let right = self.right();
        check_read(handler, &self.plan.elements[element].name, name, parameter, right)?;
        if own == Some(false) {
            return Ok(self.read_common(element, name));
        }
        let call = self.call(element, |found, cx| found.read(cx, name, parameter));
        call.unwrap_or_else(|| Err(HandlerError::Busy(self.plan.elements[element].name.clone())))
    }

    /// Writes a handler of an element that is on this worker. While the element is at work, as for
    /// packets that it pulls, the write is put off until it is done, and a refusal then goes to the
    /// console.
    ///
    /// # Errors
    ///
    /// When there is no such handler, or the element refuses.
    pub fn write_here(
        &mut self,
        element: usize,
        name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        let (handler, own) = self.handler_of(element, name).unzip();
        check_write(handler, name, self.right())?;
        // An element that shows its configuration as it is now is still made
        // anew when that is written.
        match (name, own) {
            (TICKETS, Some(false)) => return self.write_tickets(element, value),
            (HOME_THREAD, Some(false)) => return self.write_home_thread(element, value),
            (CONFIG, _) | (_, Some(false)) => {
                return self.reconfigure(element, value).map(|()| String::new());
            }
            _ => {}
        }
        match self.call(element, |found, cx| found.write(cx, name, value)) {
            Some(answer) => answer,
            None => {
                let (name, value) = (name.to_owned(), value.to_owned());
                self.deferred_writes.push(LateWrite { element, name, value, right: self.right() });
                Ok(String::new())
            }
        }
    }

    /// Sets the share of the task of an element, in Click's words where it cannot be had.
    fn write_tickets(&mut self, element: usize, value: &str) -> Result<String, HandlerError> {
        let wanted = parse_integer(value.trim());
        let wanted = wanted.ok_or_else(|| HandlerError::refused("syntax error"))?;
        let tickets = wanted.clamp(1, TICKETS_LIMIT.into()) as u32;
        if wanted != i128::from(tickets) {
            let name = &self.plan.elements[element].name;
            let said = format!("While calling '{name}.{TICKETS} {value}':\n");
            self.console().report(&format!("{said}  warning: tickets pinned at {tickets}\n"));
        }
        self.tasks.set_tickets(element, tickets);
        Ok(String::new())
    }

    /// Says which thread the task of an element is on. Where threads are real it cannot be
    /// another one than it is.
    fn write_home_thread(&mut self, element: usize, value: &str) -> Result<String, HandlerError> {
        let bad = || HandlerError::refused("bad thread");
        let thread = parse_integer(value.trim()).and_then(|thread| usize::try_from(thread).ok());
        let thread = thread.filter(|thread| *thread <= self.world.threads).ok_or_else(bad)?;
        if self.world.workers > 1 && thread != self.worker() {
            let name = &self.plan.elements[element].name;
            return Err(HandlerError::refused(format!(
                "'{name}' stays on worker {} while it runs; place it by StaticThreadSched and \
                 replace the configuration",
                self.worker()
            )));
        }
        self.homes.insert(element, thread);
        Ok(String::new())
    }

    /// Writes the handlers that were written while their elements were at work, by
    /// packets they pulled.
    #[cold]
    pub(crate) fn write_late(&mut self) {
        for LateWrite { element, name, value, right } in std::mem::take(&mut self.deferred_writes) {
            let write = |cx: &mut Context| cx.write_here(element, &name, &value);
            if let Err(error) = self.for_another(|cx| cx.with_right(right, write)) {
                let text = format!("{}.{name}: {error}\n", self.plan.elements[element].name);
                self.console().report(&text);
            }
        }
    }

    fn read_common(&self, element: usize, name: &str) -> String {
        let at = &self.plan.elements[element];
        match name {
            "name" => at.name.clone(),
            "class" => at.class.name.into(),
            "config" => self.configs.get(&element).unwrap_or(&at.config).clone(),
            "handlers" => self.handlers_text(element),
            "ports" => self.ports_text(at),
            "icounts" => self.icounts_text(element),
            "scheduled" => self.tasks.is_scheduled(element).to_string(),
            TICKETS => self.tasks.tickets(element).to_string(),
            HOME_THREAD => {
                let written = self.homes.get(&element).copied();
                let home = written.or_else(|| self.world.homes.get(element).copied().flatten());
                home.unwrap_or_else(|| self.worker()).to_string()
            }
            "ocounts" => self.ocounts_text(element),
            _ => self.figures_text(element, name),
        }
    }

    /// A handler of an element of this worker, and whether the element itself
    /// carries it out.
    pub(crate) fn handler_of(
        &self,
        element: usize,
        name: &str,
    ) -> Option<(&'static Handler, bool)> {
        let class = self.plan.elements[element].class;
        if let Some(own) = class.handlers.iter().find(|own| own.name == name) {
            return Some((own, true));
        }
        if let Some(handler) = self.common_of(element).find(|handler| handler.name == name) {
            return Some((handler, false));
        }
        let handler = self.runtimes.get(element)?.element.as_ref()?.handler(name)?;
        Some((handler, true))
    }

    /// The handlers that all elements have, for one of this graph.
    fn common_of(
        &self,
        element: usize,
    ) -> impl DoubleEndedIterator<Item = &'static Handler> + use<> {
        let PlanElement { class, inputs, outputs, .. } = &self.plan.elements[element];
        let has_task = class.role != Role::Information
            && !inputs.contains(&Processing::Push)
            && !outputs.contains(&Processing::Pull);
        class.common_handlers().map(move |handler| match handler.name {
            TICKETS if has_task => &WRITTEN_TICKETS,
            HOME_THREAD if has_task => &WRITTEN_HOME_THREAD,
            _ => handler,
        })
    }

    fn handlers_text(&self, element: usize) -> String {
        let class = self.plan.elements[element].class;
        let replaced = |common: &&Handler| class.handlers.iter().any(|own| own.name == common.name);
        let common = self.common_of(element);
        let fixed = common.filter(|common| !replaced(common)).chain(class.handlers);
        let mut all: Vec<(String, &Handler)> =
            fixed.map(|handler| (handler.name.to_owned(), handler)).collect();
        if let Some(found) = &self.runtimes[element].element {
            let more = found.handler_names().into_iter();
            all.extend(more.filter_map(|name| found.handler(&name).map(|about| (name, about))));
        }
        listing(all.into_iter())
    }

    /// Packets that have arrived at each input. An element's packets are
    /// counted, not those of its inputs: with several it is not known.
    fn icounts_text(&self, at: usize) -> String {
        match self.plan.elements[at].inputs.len() {
            1 => format!("{}\n", self.stats().read().elements[at].packets),
            inputs => "??\n".repeat(inputs),
        }
    }

    /// Packets that have left by each output, known where they all have
    /// arrived at an element that nothing else leads to.
    fn ocounts_text(&self, at: usize) -> String {
        let usage = self.stats().read();
        let mut text = String::new();
        for targets in &self.plan.elements[at].targets {
            let only = match targets[..] {
                [target] => Some(target.element),
                _ => None,
            };
            let single = |target: &usize| matches!(&self.plan.elements[*target].sources[..], [sources] if sources.len() == 1);
            let _ = match only.filter(single) {
                Some(target) => writeln!(text, "{}", usage.elements[target].packets),
                None => writeln!(text, "??"),
            };
        }
        text
    }

    fn figures_text(&self, element: usize, name: &str) -> String {
        let usage = &self.stats().read().elements[element];
        match name {
            "drops" => {
                let declared = self.plan.elements[element].class.drops;
                let mut text = String::new();
                for (reason, count) in usage.drops_by_reason(declared) {
                    let _ = writeln!(text, "{count}\t{reason}");
                }
                text
            }
            _ => {
                let per = usage.cycles_per_packet().unwrap_or(0.0);
                let calls = usage.frames;
                format!(
                    "packets {}\nframes {calls}\ncycles {:.0}\ncycles_per_packet {per:.2}",
                    usage.packets, usage.cycles
                )
            }
        }
    }

    /// Click's format: the count of each side, then a line per port, with a
    /// tilde for agnostic ones.
    fn ports_text(&self, at: &PlanElement) -> String {
        let mut text = String::new();
        let codes = at.class.processing.split_once('/');
        let (before, behind) = codes.unwrap_or((at.class.processing, at.class.processing));
        let sides = [
            ("input", &at.inputs, &at.sources, before),
            ("output", &at.outputs, &at.targets, behind),
        ];
        for (side, ports, peers, codes) in sides {
            let plural = if ports.len() == 1 { "" } else { "s" };
            let _ = writeln!(text, "{} {side}{plural}", ports.len());
            for (port, (processing, peers)) in ports.iter().zip(peers.iter()).enumerate() {
                let kind = match processing {
                    Processing::Push => "push",
                    Processing::Pull => "pull",
                };
                // The last code holds for all further ports.
                let code = codes.as_bytes().get(port).or(codes.as_bytes().last());
                let tilde = if code == Some(&b'a') { "~" } else { "" };
                let peers: Vec<String> = peers
                    .iter()
                    .map(|peer| {
                        let name = &self.plan.elements[peer.element].name;
                        match side {
                            "input" => format!("{name} [{}]", peer.port),
                            _ => format!("[{}] {name}", peer.port),
                        }
                    })
                    .collect();
                let _ = writeln!(text, "{kind}{tilde}\t-\t{}", peers.join(", "));
            }
        }
        text
    }
}
