//! Loop of one worker.

use std::time::{Duration, Instant};

use linerate_memory::Frame;
use linerate_worker::{Idle, Sleeper};

use crate::{element::Context, runtime::clock::END};

/// Task runs in an iteration of the loop: between checks of timers and mailbox.
const RUNS: usize = 32;
/// Iterations between polls of file descriptors while there is other work.
const ITERATIONS: u32 = 16;
/// Iterations after which those are called that wait for nothing to do, when there
/// always is something.
const IDLE_ITERATIONS: u32 = 64;
/// Longest sleep.
const NAP: Duration = Duration::from_millis(50);

impl Context {
    /// Runs until the run count is used up.
    pub(crate) fn run(&mut self, idle: Idle) {
        let mut sleeper = Sleeper::new(idle);
        let mut iterations = 0u32;
        let mut frame = self.new_frame();
        self.account.start();
        loop {
            if self.hub.has_jobs(self.worker) {
                self.run_jobs();
                self.change();
            }
            if self.driver.count() <= 0 && self.is_over() {
                self.account.publish();
                return;
            }
            let mut busy = false;
            for _ in 0..RUNS {
                let Some(worked) = self.run_task(&mut frame) else { break };
                busy |= worked;
                if self.tasks.all_idle(worked) || self.driver.count() <= 0 {
                    break;
                }
            }
            busy |= self.run_due_timers(&mut frame);
            iterations = iterations.wrapping_add(1);
            if self.tasks.has_waiting() && (!busy || iterations.is_multiple_of(ITERATIONS)) {
                busy |= self.poll_descriptors(Duration::ZERO);
            }
            if !self.idlers.is_empty() && (!busy || iterations.is_multiple_of(IDLE_ITERATIONS)) {
                self.call_idlers();
            }
            if busy {
                sleeper.busy();
            } else {
                self.idle(&mut sleeper);
            }
        }
    }

    /// Runs the jobs of others, except changes of the graph as a whole.
    pub(crate) fn run_jobs(&mut self) {
        let hub = self.hub.clone();
        for job in hub.take(self.worker) {
            self.for_another(|cx| {
                job(cx);
                cx.drain();
            });
        }
    }

    /// Calls the elements that asked for it when there is nothing to do.
    fn call_idlers(&mut self) {
        let mut idlers = std::mem::take(&mut self.idlers);
        for element in idlers.drain(..) {
            self.call(element, |element, cx| element.idle(cx));
        }
        // Those that have asked again.
        idlers.append(&mut self.idlers);
        self.idlers = idlers;
        self.drain();
    }

    fn run_due_timers(&mut self, frame: &mut Frame) -> bool {
        let Some(earliest) = self.timers.not_before() else { return false };
        let now = self.clock.steady();
        if earliest > now {
            return false;
        }
        let any = self.run_timers(now, frame);
        // Timers that are set to now again and again do not stop time.
        if any && self.clock.is_simulated() {
            let step = self.timers.step(now);
            self.advance(now + step);
        }
        any
    }

    /// Lets time that is not waited for pass. The run ends where time does.
    fn advance(&mut self, time: u64) {
        self.clock.advance(time);
        if time > END {
            self.driver.fail("simulated time has reached its end, in the year 2262");
        }
    }

    /// There was nothing to do.
    fn idle(&mut self, sleeper: &mut Sleeper) {
        if self.clock.skips() {
            match self.timers.next() {
                Some(next) => self.advance(next),
                // Nothing will ever happen by itself.
                None => {
                    self.poll_descriptors(NAP);
                }
            }
            return;
        }
        self.account.begin();
        self.account.end(false);
        if sleeper.should_sleep() {
            let next = self.timers.next().and_then(|at| self.clock.instant(at));
            let nap = next.map_or(NAP, |at| at.saturating_duration_since(Instant::now()));
            self.poll_descriptors(nap.min(NAP));
            self.account.slept();
        }
    }

    /// The run count is used up: whether the run is over. The element that
    /// manages the run, if there is one, is asked first; workers it is not on
    /// go on until it has answered.
    fn is_over(&mut self) -> bool {
        let Some(manager) = self.manager else { return self.driver.is_over() };
        self.call(manager, |element, cx| element.run_ended(cx));
        self.drain();
        // It may have put another graph in the place of this one.
        if self.driver.count() > 0 || self.hub.has_changes(self.worker) {
            return false;
        }
        self.driver.end();
        (0..self.hub.workers()).for_each(|worker| self.hub.ring(worker));
        true
    }

    /// Closes every element and gives the buffers back.
    pub(crate) fn close(&mut self) {
        // Packets that a handler has sent since the run ended go all their way.
        self.drain();
        for at in 0..self.runtimes.len() {
            self.call(at, |element, cx| element.close(cx));
        }
        self.drain();
        self.account.publish();
        self.runtimes.iter_mut().for_each(|runtime| runtime.element = None);
    }
}
