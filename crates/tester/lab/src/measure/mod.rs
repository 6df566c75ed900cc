//! Measures each kind of point, in this process.
//!
//! Every point gets a thread of its own, bound to a core and, where it needs interfaces, inside a
//! network namespace made for the purpose. [`Guarded`] has that happen in another process, which
//! can be ended. A point that this machine cannot measure is [`Outcome::Unsupported`] with the
//! reason; a run that says nothing is [`Outcome::Void`].

mod application;
mod cluster;
mod element;
mod example;
mod forward;
pub(crate) mod graph;
mod guarded;
mod inline;
mod instrument;
mod latency;
mod network;
mod pipeline;
mod poll_rate;
mod port_pair;
mod probes;
mod side;
mod windows;
mod work;

use std::{
    any::Any,
    ffi::OsString,
    sync::{Mutex, OnceLock, PoisonError},
    thread,
    time::{Duration, Instant},
};

use linerate_graph::Library;
use linerate_linux::machine::{Cpu, worker_cores};
use linerate_memory::{Arena, ArenaOptions, clock::cycles_per_second};

use self::network::Network;
pub use self::{
    cluster::work,
    guarded::{ALLOWANCE, Guarded, serve},
    probes::{classes as element_classes, depends_on_arguments, has_probe},
};
use crate::{
    instruments::{Pace, waited},
    point::{Driver, Outcome, Point, Spec, Values, value},
};

/// Time that a point may wait for an undisturbed core and be measured again for the want of one;
/// the rest is left to the points after it.
const TIMEOUT: Duration = Duration::from_millis(250);
/// Most time that is saved up.
const TIMEOUT_MAX: Duration = Duration::from_secs(3);

/// The reason why a point has no figures.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// This machine cannot do it.
    #[error("{0}")]
    Unsupported(String),
    /// The point was tried, without a usable result.
    #[error("{0}")]
    Void(String),
}

impl Failure {
    pub(crate) fn unsupported(reason: impl ToString) -> Failure {
        Failure::Unsupported(reason.to_string())
    }

    pub(crate) fn void(reason: impl ToString) -> Failure {
        Failure::Void(reason.to_string())
    }
}

/// Result of a point: the outcome, the reason for the want of figures, and the figures.
pub type Measured = (Outcome, Option<String>, Values);

/// Measures points, and keeps the things that several of them need.
#[derive(Debug)]
pub struct Bench {
    /// The elements that configurations are made of.
    library: Library,
    cpu: Cpu,
    /// The words of a command that, with a task behind them, starts a process which [works](work()).
    worker: Vec<OsString>,
    noise_filter: Mutex<NoiseFilter>,
    /// Set when the pace of undisturbed cores is known from before.
    knows_pace: bool,
    /// The interfaces, made for the first point that needs them.
    network: OnceLock<Result<Network, String>>,
}

/// Known pace of the machine, and waiting time.
#[derive(Debug, Default)]
struct NoiseFilter {
    /// Once it was looked for.
    pace: Option<Pace>,
    /// Rest of the time to wait.
    wait_budget: Duration,
}

impl Bench {
    /// Looks at the machine's cores. Elements are those of `library`.
    pub fn new(library: Library) -> Bench {
        cycles_per_second();
        let (noise_filter, network) = (Mutex::default(), OnceLock::new());
        let (cpu, worker) = (Cpu::inspect(), Vec::new());
        Bench { library, cpu, worker, noise_filter, knows_pace: false, network }
    }

    /// Knows how to start processes that are handed packets: a program and its first arguments, to which
    /// one is added that is for [`work()`].
    pub fn with_worker(self, worker: Vec<OsString>) -> Bench {
        Bench { worker, ..self }
    }

    /// The elements that configurations are made of.
    pub(crate) fn library(&self) -> &Library {
        &self.library
    }

    /// Takes the pace of the machine's undisturbed cores.
    pub fn with_pace(self, fastest: Option<f64>) -> Bench {
        let noise_filter = NoiseFilter { pace: fastest.map(Pace::known), ..NoiseFilter::default() };
        Bench { noise_filter: Mutex::new(noise_filter), knows_pace: fastest.is_some(), ..self }
    }

    /// Measures a point: takes its duration and some tens of milliseconds.
    pub fn measure(&self, spec: &Spec) -> Measured {
        let measured = self.on_own_thread(driver_of(&spec.kind), || self.measure_once(spec));
        match measured.and_then(finite) {
            Ok(mut values) => {
                // Fractions of a hertz were not measured.
                values.insert(value::COUNTER.into(), cycles_per_second().round());
                (Outcome::Measured, None, values)
            }
            Err(Failure::Unsupported(reason)) => {
                (Outcome::Unsupported, Some(reason), Values::new())
            }
            Err(Failure::Void(reason)) => (Outcome::Void, Some(reason), Values::new()),
        }
    }

    /// Repeats a measurement while others disturb it, as far as patience lasts,
    /// on a thread of its own that is bound to a core; where the driver is one of
    /// the kernel's, in a network namespace.
    pub(crate) fn on_own_thread(
        &self,
        driver: Option<Driver>,
        measure: impl Fn() -> Result<Values, Failure> + Send,
    ) -> Result<Values, Failure> {
        let cores = self.cores(1)?;
        on_thread(|| {
            if driver.is_some_and(Driver::needs_interfaces) {
                self.network()?.enter()?;
            }
            self.undisturbed(&cores, TIMEOUT, measure)
        })
    }

    /// Measures on the least disturbed core. Where the cores' pace is known, the time to wait grows
    /// by `wait_budget`.
    pub(crate) fn on_idle_core(
        &self,
        wait_budget: Duration,
        measure: impl Fn() -> Result<Values, Failure> + Send,
    ) -> Result<Values, Failure> {
        let cores = self.cores(self.cpu.allowed.len())?;
        let wait_budget = if self.knows_pace { wait_budget } else { TIMEOUT };
        on_thread(|| self.undisturbed(&cores, wait_budget, measure))
    }

    fn undisturbed(
        &self,
        cores: &[u32],
        more: Duration,
        measure: impl Fn() -> Result<Values, Failure>,
    ) -> Result<Values, Failure> {
        let mut noise_filter = self.noise_filter.lock().unwrap_or_else(PoisonError::into_inner);
        let NoiseFilter { pace, wait_budget } = &mut *noise_filter;
        let pace = pace.get_or_insert_with(Pace::new);
        *wait_budget = (*wait_budget + more).min(TIMEOUT_MAX.max(more));
        let mut best: Option<(f64, Values)> = None;
        loop {
            *wait_budget = wait_budget.saturating_sub(pace.wait(cores, *wait_budget));
            let (start, before, waiting) = (Instant::now(), pace.sample(), waited());
            let mut values = measure()?;
            let waiting = waited().saturating_sub(waiting).as_secs_f64();
            let share = waiting / start.elapsed().as_secs_f64();
            let slower = before.max(pace.sample());
            values.insert(value::PACE.into(), slower);
            values.insert(value::WAITED.into(), share);
            let disturbance = pace.disturbance(slower, share);
            if best.as_ref().is_none_or(|(known, _)| disturbance < *known) {
                best = Some((disturbance, values));
            }
            *wait_budget = wait_budget.saturating_sub(start.elapsed());
            if let Some((_, values)) =
                best.take_if(|(found, _)| *found <= 1.0 || wait_budget.is_zero())
            {
                return Ok(values);
            }
        }
    }

    fn measure_once(&self, spec: &Spec) -> Result<Values, Failure> {
        match &spec.kind {
            Point::Forward(forward) => forward::measure(self, forward, spec),
            Point::Receive(side) => side::receive(side, spec),
            Point::Transmit(side) => side::transmit(side, spec),
            Point::Graph(graph) => graph::measure(&self.library, graph, spec),
            Point::Element(element) => element::measure(&self.library, element, spec),
            Point::Pipeline(pipeline) => pipeline::measure(self, pipeline, spec),
            Point::Cluster(point) => cluster::measure(self, point, spec),
            Point::Walk(walk) => instrument::walk(walk, spec),
            Point::Load(load) => instrument::load(load, spec),
            Point::PollRate(poll) => poll_rate::measure(poll, spec),
            Point::Latency(latency) => latency::measure(self, latency, spec),
            Point::Inline(inline) => inline::measure(inline, spec),
            Point::BatchCase(case) => application::measure(self, case, spec),
        }
    }

    /// Cores for so many workers, the best first.
    fn cores(&self, count: usize) -> Result<Vec<u32>, Failure> {
        let allowed = self.cpu.allowed.len();
        if count > allowed {
            let reason = format!("{count} threads need as many cores, and there are {allowed}");
            return Err(Failure::Unsupported(reason));
        }
        Ok(worker_cores(&self.cpu, None, count))
    }

    fn network(&self) -> Result<&Network, Failure> {
        let made = self.network.get_or_init(|| Network::new().map_err(|error| error.to_string()));
        made.as_ref().map_err(Failure::unsupported)
    }
}

fn on_thread(measure: impl FnOnce() -> Result<Values, Failure> + Send) -> Result<Values, Failure> {
    thread::scope(|scope| {
        let panicked = |cause: Box<dyn Any + Send>| Err(Failure::void(panic_text(&*cause)));
        scope.spawn(measure).join().unwrap_or_else(panicked)
    })
}

/// The driver whose ports a point opens on its own thread.
fn driver_of(kind: &Point) -> Option<Driver> {
    match kind {
        Point::Forward(forward) => Some(forward.driver),
        Point::Receive(side) | Point::Transmit(side) => Some(side.driver),
        Point::PollRate(poll) => Some(poll.driver),
        Point::Inline(inline) => Some(inline::driver(inline.path)),
        Point::BatchCase(case) => Some(case.driver),
        _ => None,
    }
}

fn panic_text(cause: &(dyn std::any::Any + Send)) -> String {
    let text = cause.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| cause.downcast_ref::<&str>().copied());
    format!("the measurement panicked: {}", text.unwrap_or("for no stated reason"))
}

/// Figures, each of which is one: JSON has no others, and no reader expects them.
fn finite(values: Values) -> Result<Values, Failure> {
    match values.iter().find(|(_, figure)| !figure.is_finite()) {
        Some((name, figure)) => Err(Failure::Void(format!("{name} came out as {figure}"))),
        None => Ok(values),
    }
}

/// Packet memory for `count` frames of `frame` bytes with FCS.
fn arena(count: usize, frame: u32) -> Result<Arena, Failure> {
    let defaults = ArenaOptions::default();
    let buffer_size = (frame as usize + 2 * defaults.headroom).max(defaults.buffer_size);
    // Metadata and rounding are within a quarter.
    let size = (count * buffer_size / 4 * 5).max(defaults.size);
    let options = ArenaOptions { size, buffer_size, ..defaults };
    options.create().map_err(Failure::unsupported)
}

/// A burst that a frame can hold.
fn burst(burst: u32) -> Result<usize, Failure> {
    let limit = linerate_memory::FRAME_LIMIT;
    let fits = (1..=limit).contains(&(burst as usize));
    let reason = || Failure::Unsupported(format!("a burst of {burst}: choose 1 to {limit}"));
    fits.then_some(burst as usize).ok_or_else(reason)
}

#[cfg(test)]
mod tests;
