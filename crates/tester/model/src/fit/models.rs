//! The models that are fitted.

use super::{Fit, FitError, Loss, Model, Observation, Parameter, Residual, solve::fit};
use crate::{
    costs::{Cost, Costs, Scenario},
    growth::TableGrowth,
    latency::Loop,
    limits::Limit,
    plain::Plain,
    power::Power,
    units::{
        Cycles, CyclesPerPacket, Hertz, PacketsPerSecond, Seconds, SecondsPerByte,
        SecondsPerPacket, Watts,
    },
};

/// Begin of the search for cycles: dear enough that no limit of link or card hides the effect of a
/// change.
const DEAR: f64 = 1000.0;

/// `value = intercept + slope * input`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LinearModel;

impl Model for LinearModel {
    type Input = f64;
    type Fitted = (f64, f64);

    fn parameters(&self) -> Vec<Parameter> {
        vec![Parameter::free("intercept", 1.0), Parameter::free("slope", 1.0)]
    }

    fn with(&self, values: &[f64]) -> (f64, f64) {
        (values[0], values[1])
    }

    fn predict(&(intercept, slope): &(f64, f64), input: &f64) -> f64 {
        intercept + slope * input
    }

    fn residual(&self) -> Residual {
        Residual::Difference
    }
}

/// The clock that packets see and the cycles of input and output, from the throughput against burnt
/// cycles past the knee: `1/T = C_IO/f + W/f`, whose slope is `1/f`. The fit is in nanoseconds
/// against cycles; its `r_squared` shows how straight the line of points is.
pub fn effective_clock(
    points: &[(CyclesPerPacket, PacketsPerSecond)],
) -> Result<(Hertz, Plain, Fit), FitError> {
    let observations: Vec<_> = points
        .iter()
        .map(|(work, rate)| Observation::new(work.get(), rate.period().get() * 1e9))
        .collect();
    let line = fit(&LinearModel, &observations, Loss::Huber)?;
    let (intercept, slope) = (line.values[0], line.values[1]);
    if slope <= 0.0 {
        return Err(FitError::Diverged);
    }
    let io = Plain { io: CyclesPerPacket::new(intercept / slope) };
    Ok((Hertz::new(1e9 / slope), io, line))
}

/// The published model as a fit: one number of cycles per packet for all bursts and working sets.
/// The extended model is compared with it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PlainModel;

impl Model for PlainModel {
    type Input = Scenario;
    type Fitted = Plain;

    fn parameters(&self) -> Vec<Parameter> {
        vec![Parameter::positive("io", DEAR)]
    }

    fn with(&self, values: &[f64]) -> Plain {
        Plain { io: CyclesPerPacket::new(values[0]) }
    }

    fn predict(fitted: &Plain, input: &Scenario) -> f64 {
        let rate = input.clock / (fitted.io + input.work) * f64::from(input.workers);
        input.limits.bound(rate, Limit::Cycles, input.frame).0.get()
    }

    fn residual(&self) -> Residual {
        Residual::Rate
    }
}

/// A parameter of [`Costs`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Term {
    /// `a_rx`.
    ReceivePerPacket,
    /// `b_rx`.
    ReceivePerBurst,
    /// `a_tx`.
    TransmitPerPacket,
    /// `b_tx`.
    TransmitPerBurst,
    /// `a_k` of an element.
    ElementPerPacket(String),
    /// `b_k` of an element.
    ElementPerBurst(String),
    /// `u`.
    Stall,
    /// The factor on the measured latency of memory.
    MemoryScale,
    /// The share of independent accesses that does not overlap.
    Serial,
    /// `g`.
    PerByte,
    /// `s`.
    Contention,
    /// `c`.
    Coherence,
}

impl Term {
    fn parameter(&self) -> Parameter {
        match self {
            Term::ReceivePerPacket => Parameter::positive("receive per packet", DEAR),
            Term::ReceivePerBurst => Parameter::positive("receive per burst", DEAR),
            Term::TransmitPerPacket => Parameter::positive("transmit per packet", DEAR),
            Term::TransmitPerBurst => Parameter::positive("transmit per burst", DEAR),
            Term::ElementPerPacket(name) => Parameter::positive(format!("{name} per packet"), DEAR),
            Term::ElementPerBurst(name) => Parameter::positive(format!("{name} per burst"), DEAR),
            Term::Stall => Parameter::positive("stall", 1e-8),
            Term::MemoryScale => Parameter::positive("memory scale", 1.0),
            Term::Serial => Parameter::positive("serial accesses", 0.5).up_to(1.0),
            Term::PerByte => Parameter::positive("per byte", 1e-10),
            Term::Contention => Parameter::positive("contention", 0.05).up_to(1.0),
            Term::Coherence => Parameter::positive("coherence", 0.005).up_to(1.0),
        }
    }

    fn set(&self, costs: &mut Costs, value: f64) {
        let cycles = CyclesPerPacket::new(value);
        match self {
            Term::ReceivePerPacket => costs.receive.per_packet = cycles,
            Term::ReceivePerBurst => costs.receive.per_burst = Cycles::new(value),
            Term::TransmitPerPacket => costs.transmit.per_packet = cycles,
            Term::TransmitPerBurst => costs.transmit.per_burst = Cycles::new(value),
            Term::ElementPerPacket(name) => element(costs, name).per_packet = cycles,
            Term::ElementPerBurst(name) => element(costs, name).per_burst = Cycles::new(value),
            Term::Stall => costs.stall = SecondsPerPacket::new(value),
            Term::MemoryScale => costs.memory.scale = value,
            Term::Serial => costs.memory.serial = value,
            Term::PerByte => costs.per_byte = SecondsPerByte::new(value),
            Term::Contention => costs.scaling.contention = value,
            Term::Coherence => costs.scaling.coherence = value,
        }
    }
}

fn element<'a>(costs: &'a mut Costs, name: &str) -> &'a mut Cost {
    costs.elements.entry(name.to_string()).or_default()
}

/// The extended model: throughput of scenarios, in packets per second.
///
/// The terms that a set of points determines depend on its variation: `u` and per-packet cycles
/// need two clocks, per-burst cycles two burst sizes, receive and transmit scenarios that do only
/// one of them. Terms that are not free keep the values of `base`, where the measured latency curve
/// of memory belongs.
#[derive(Clone, Debug, PartialEq)]
pub struct ThroughputModel {
    /// The known costs.
    pub base: Costs,
    /// The terms to be found.
    pub free: Vec<Term>,
}

impl Model for ThroughputModel {
    type Input = Scenario;
    type Fitted = Costs;

    fn parameters(&self) -> Vec<Parameter> {
        self.free.iter().map(Term::parameter).collect()
    }

    fn with(&self, values: &[f64]) -> Costs {
        let mut costs = self.base.clone();
        self.free.iter().zip(values).for_each(|(term, &value)| term.set(&mut costs, value));
        costs
    }

    fn predict(fitted: &Costs, input: &Scenario) -> f64 {
        fitted.predict(input).throughput.get()
    }

    fn residual(&self) -> Residual {
        Residual::Rate
    }
}

/// Time per packet in seconds against the entries of a table in use.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TableModel;

impl Model for TableModel {
    type Input = f64;
    type Fitted = TableGrowth;

    fn parameters(&self) -> Vec<Parameter> {
        vec![
            Parameter::positive("base", 1e-7),
            Parameter::positive("step", 1e-8),
            // Its logarithm, since the time is even in that.
            Parameter::positive("log2 saturation", 10.0).up_to(40.0),
        ]
    }

    fn with(&self, values: &[f64]) -> TableGrowth {
        TableGrowth {
            base: SecondsPerPacket::new(values[0]),
            step: SecondsPerPacket::new(values[1]),
            saturation: values[2].exp2(),
        }
    }

    fn predict(fitted: &TableGrowth, input: &f64) -> f64 {
        fitted.time(*input).get()
    }
}

/// Mean latency in seconds against load: only `L0` is found, since `a` and `b`
/// are known better from throughput.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FixedLatency {
    /// The loop, its `fixed` aside.
    pub service: Loop,
}

impl Model for FixedLatency {
    type Input = PacketsPerSecond;
    type Fitted = Loop;

    fn parameters(&self) -> Vec<Parameter> {
        vec![Parameter::positive("fixed latency", 1e-6)]
    }

    fn with(&self, values: &[f64]) -> Loop {
        Loop { fixed: Seconds::new(values[0]), ..self.service }
    }

    fn predict(fitted: &Loop, input: &PacketsPerSecond) -> f64 {
        fitted.mean_latency(*input).get()
    }
}

/// Power in watts against utilisation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PowerModel;

impl Model for PowerModel {
    type Input = f64;
    type Fitted = Power;

    fn parameters(&self) -> Vec<Parameter> {
        vec![
            Parameter::positive("idle", 20.0),
            Parameter::positive("busy", 40.0),
            Parameter { low: 0.1, ..Parameter::positive("exponent", 1.0) }.up_to(5.0),
        ]
    }

    fn with(&self, values: &[f64]) -> Power {
        Power { idle: Watts::new(values[0]), busy: Watts::new(values[1]), exponent: values[2] }
    }

    fn predict(fitted: &Power, input: &f64) -> f64 {
        fitted.at(*input).get()
    }
}
