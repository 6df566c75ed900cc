//! From points to the parameters of the model, with intervals and with the
//! error on points that were held out.
//!
//! | parameter | points it is found from |
//! |---|---|
//! | `f` | throughput against load on rings: the slope of time per packet |
//! | `a`, `b` of receiving and sending | reception and transmission of a driver alone, by burst |
//! | `a`, `b` of the forwarder's loop | burst and load sweeps of a driver, less those |
//! | `l(WS)`, overlap | walks along a list, with one chain and with several |
//! | what an access costs a packet | forwarding with accesses, on top of the above |
//! | `g` | forwarding with touched bytes |
//! | `s` | one worker and several; `c` too where there were three counts |
//! | `h` | pipelines by placement |
//! | `a_k`, `b_k` | elements alone at several sizes of frames |
//! | `L0` | latency against load |
//!
//! `u`, time that no clock shortens, needs two clocks; on a machine whose clock
//! cannot be set it is part of the cycles.

mod drivers;
mod elements;
mod latency;
mod memory;
mod points;

use std::collections::BTreeMap;

use linerate_model::{
    Cost, Costs, Memory, Placement,
    fit::{Term, ThroughputModel},
    units::Hertz,
};
use serde::{Deserialize, Serialize};

pub use drivers::{ClockFit, DriverFit, Gate, LEVEL, Parameter, Residual, load_line};
pub use elements::{COLD, CostModel, ENGINE, ElementFit, PLAIN, ROUND, call, element};
pub use latency::LatencyFit;
pub use points::{Conditions, LOOP, Throughput, forwarder, split, throughputs};

use crate::{
    experiment::Role,
    noise_filter,
    point::{Driver, Key, Pages, Record, Touch, value},
};

/// Name of the file of a results directory.
pub const FILE: &str = "calibration.json";

/// Parameters of one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibrated {
    /// The `id` of the machine's description.
    pub machine: String,
    /// The version of Linerate that measured the points.
    pub version: String,
    /// The rate of the cycle counter, in which cycles are counted.
    pub counter: Hertz,
    /// The pace ([`Pace`](crate::instruments::Pace)) of its cores without other load.
    #[serde(default)]
    pub pace: Option<f64>,
    /// The clock that packets see.
    pub clock: Option<ClockFit>,
    /// Input and output by driver.
    pub drivers: BTreeMap<String, DriverFit>,
    /// Memory with 4 KiB pages.
    pub memory: Memory,
    /// Measured cost of an access to a packet over the cost that the list gives, by pages.
    pub memory_scale: BTreeMap<Pages, Parameter>,
    /// Time per byte by kind of touch.
    pub per_byte: BTreeMap<Touch, Parameter>,
    /// Workers that get into each other's way.
    pub scaling: Option<Parameter>,
    /// Hand-overs between threads.
    pub handover: BTreeMap<Placement, Cost>,
    /// Elements by class, with a case behind a colon where it has several.
    pub elements: BTreeMap<String, ElementFit>,
    /// Cost of elements of planned configurations, each measured alone with its arguments and its
    /// recorded packets.
    #[serde(default)]
    pub alone: BTreeMap<String, ElementFit>,
    /// Latency against load.
    pub latency: Option<LatencyFit>,
    /// Errors on points held out.
    pub gates: Vec<Gate>,
    /// Parameters that could not be found, each with the reason.
    pub missing: Vec<String>,
}

/// The driver other parameters are fitted on top of: in memory, where the
/// kernel hides nothing.
pub const REFERENCE: Driver = Driver::Ring;

/// The reason why there is no calibration.
#[derive(Debug, thiserror::Error)]
pub enum CalibrationError {
    /// There are no points.
    #[error("no point of these results was measured: run `linerate lab run all` first")]
    Empty,
}

/// Fits everything the records determine. `roles` says which of them are held out when the errors
/// of predictions are judged.
///
/// # Errors
///
/// When none of them has figures. Other parameters that cannot be found are named in
/// [`Calibrated::missing`].
pub fn calibrate(
    records: &[Record],
    roles: &BTreeMap<Key, Role>,
) -> Result<Calibrated, CalibrationError> {
    let first = records.iter().find(|record| record.is_measured());
    let first = first.ok_or(CalibrationError::Empty)?;
    let mut counters: Vec<f64> =
        records.iter().filter_map(|record| record.value(value::COUNTER)).collect();
    counters.sort_by(f64::total_cmp);
    let counter = linerate_model::quantile(&counters, 0.5).unwrap_or(1e9);
    let mut missing = Vec::new();
    let mut keep = |what: &str, problem: String| missing.push(format!("{what}: {problem}"));

    let clock = match load_line(records, REFERENCE.name()) {
        Some(Ok(clock)) => Some(clock),
        Some(Err(error)) => {
            keep("clock that packets see", error.to_string());
            None
        }
        None => {
            keep("clock that packets see", "no sweep of the load on rings".into());
            None
        }
    };
    let cycles = clock.map_or(Hertz::new(counter), |fitted| fitted.clock);
    let memory = memory::memory(records);
    if memory.latency.points().is_empty() {
        keep("latency of memory", "no walks along a list".into());
    }
    let all = throughputs(records, roles, cycles);
    let of = |driver: &str, wanted: fn(&Conditions) -> bool| -> Vec<Throughput> {
        let own = all.iter().filter(|one| one.input.driver == driver && wanted(&one.input));
        own.cloned().collect()
    };

    let mut gates = Vec::new();
    let mut drivers = BTreeMap::new();
    for driver in [Driver::Null, Driver::Ring, Driver::Packet, Driver::Xdp] {
        let name = driver.name();
        let plain = of(name, Conditions::is_plain);
        if plain.is_empty() {
            keep(&format!("input and output of {name} ports"), "not measured".into());
            continue;
        }
        match drivers::driver(&plain, &memory) {
            Ok(fitted) => drop(drivers.insert(name.to_owned(), fitted)),
            Err(error) => {
                keep(&format!("input and output of {name} ports"), error.to_string());
                continue;
            }
        }
        let model = ThroughputModel { base: Costs::default(), free: drivers::terms(&plain) };
        let title = format!("burst and load, {name} ports");
        let forwarding = |place: &Conditions| place.scenario.receive && place.scenario.transmit;
        match drivers::gate(title.clone(), 0.10, &model, &plain, forwarding) {
            Some(Ok(gate)) => gates.push(gate),
            Some(Err(error)) => keep(&title, error.to_string()),
            None => keep(&title, "no point is left to predict".into()),
        }
    }

    let mut calibrated = Calibrated {
        machine: first.machine.clone(),
        version: first.version.clone(),
        counter: Hertz::new(counter),
        pace: noise_filter::fastest(records),
        clock,
        drivers,
        memory,
        memory_scale: BTreeMap::new(),
        per_byte: BTreeMap::new(),
        scaling: None,
        handover: BTreeMap::new(),
        elements: BTreeMap::new(),
        alone: BTreeMap::new(),
        latency: None,
        gates,
        missing,
    };
    calibrated.on_top(records, roles, &all);
    Ok(calibrated)
}

impl Calibrated {
    /// The costs of a driver.
    pub fn costs(&self, driver: &str) -> Option<&Costs> {
        self.drivers.get(driver).map(|fitted| &fitted.calibration.costs)
    }

    /// The clock to reckon with.
    pub fn cycles(&self) -> Hertz {
        self.clock.map_or(self.counter, |fitted| fitted.clock)
    }

    /// Fits the parameters on top of input and output of rings.
    fn on_top(&mut self, records: &[Record], roles: &BTreeMap<Key, Role>, all: &[Throughput]) {
        let mut problems = Vec::new();
        let mut keep = |what: &str, problem: String| problems.push(format!("{what}: {problem}"));
        for (class, fitted) in elements::elements(records) {
            match fitted {
                Ok(fitted) => drop(self.elements.insert(class, fitted)),
                Err(error) => keep(&format!("element {class}"), error.to_string()),
            }
        }
        let Some(known) = self.costs(REFERENCE.name()).cloned() else {
            keep("memory, bytes, workers and latency", "nothing is known of rings".into());
            self.missing.append(&mut problems);
            return;
        };
        let rings = || all.iter().filter(|point| point.input.driver == REFERENCE.name()).cloned();

        for pages in [Pages::Small, Pages::Transparent, Pages::Huge] {
            let title = format!("accesses to memory, {pages:?} pages").to_lowercase();
            let points: Vec<Throughput> =
                rings().filter(|one| one.input.is_memory() && one.input.pages == pages).collect();
            let curve = memory::curve(records, pages);
            if points.is_empty() || curve.points().is_empty() {
                keep(&title, "not measured".into());
                continue;
            }
            let memory = Memory { latency: curve, ..self.memory.clone() };
            let base = Costs { memory, ..known.clone() };
            match memory::one_more(&base, Term::MemoryScale, "", &points) {
                Ok(scale) => drop(self.memory_scale.insert(pages, scale)),
                Err(error) => keep(&title, error.to_string()),
            }
            let model = ThroughputModel { base, free: vec![Term::MemoryScale] };
            match drivers::gate(title.clone(), 0.15, &model, &points, |_| true) {
                Some(Ok(gate)) => self.gates.push(gate),
                Some(Err(error)) => keep(&title, error.to_string()),
                None => keep(&title, "no point is left to predict".into()),
            }
        }
        if let Some(scale) = self.memory_scale.get(&Pages::Small) {
            self.memory.scale = scale.estimate.value;
        }

        let everything: Vec<Throughput> = rings().collect();
        for (touch, fitted) in memory::touches(&known, &everything) {
            match fitted {
                Ok(fitted) => drop(self.per_byte.insert(touch, fitted)),
                Err(error) => keep(&format!("bytes, {touch:?}"), error.to_string()),
            }
        }

        let several: Vec<Throughput> = rings()
            .filter(|point| {
                point.input.touch == Touch::None && point.input.scenario.accesses.is_empty()
            })
            .collect();
        if several.iter().any(|point| point.input.scenario.workers > 1) {
            match memory::one_more(&known, Term::Contention, "", &several) {
                Ok(fitted) => self.scaling = Some(fitted),
                Err(error) => keep("several workers", error.to_string()),
            }
            let model = ThroughputModel { base: known.clone(), free: vec![Term::Contention] };
            let title = "several workers";
            let judged = |place: &Conditions| place.scenario.workers > 1;
            match drivers::gate(title.into(), 0.15, &model, &several, judged) {
                Some(Ok(gate)) => self.gates.push(gate),
                Some(Err(error)) => keep(title, error.to_string()),
                None => keep(title, "no point is left to predict".into()),
            }
        } else {
            keep("several workers", "not measured".into());
        }

        for (placement, cost) in memory::handovers(records, known.transmit) {
            match cost {
                Ok(cost) => drop(self.handover.insert(placement, cost)),
                Err(error) => keep(&format!("hand-over, {placement:?}"), error.to_string()),
            }
        }
        match latency::latency(records, roles, &known, self.cycles().get()) {
            Some(Ok((fitted, gate))) => {
                self.latency = Some(fitted);
                self.gates.push(gate);
            }
            Some(Err(error)) => keep("latency against load", error.to_string()),
            None => keep("latency against load", "fewer than four loads were polled".into()),
        }
        let contention = self.scaling.as_ref().map_or(0.0, |one| one.estimate.value);
        for fitted in self.drivers.values_mut() {
            let all = std::iter::once(&mut fitted.calibration.costs)
                .chain(&mut fitted.calibration.samples);
            for costs in all {
                costs.memory = self.memory.clone();
                costs.scaling.contention = contention;
            }
        }
        self.missing.append(&mut problems);
    }
}
