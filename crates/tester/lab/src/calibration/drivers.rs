//! Input and output: fits the cost of receiving and sending, per driver.

use linerate_model::{
    Calibration, Costs, Estimate, Memory,
    fit::{
        Bootstrap, FitError, Loss, Observation, PlainModel, Quality, Sampled, Term,
        ThroughputModel, bootstrap, effective_clock, fit,
    },
    units::{CyclesPerPacket, Hertz, PacketsPerSecond},
};
use serde::{Deserialize, Serialize};

use super::points::{Conditions, LOOP, Throughput, scenarios, split};
use crate::point::{Point, Record, value};

/// Confidence of all intervals.
pub const LEVEL: f64 = 0.9;
/// Bootstrap of the parameters' intervals.
const DRAWS: Bootstrap = Bootstrap { samples: 100, seed: 1 };

/// A parameter with its interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Its value.
    pub estimate: Estimate<f64>,
    /// The unit of the value.
    pub unit: String,
}

/// A point with its prediction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Residual {
    /// The parameters.
    pub at: String,
    /// Packets per second.
    pub measured: f64,
    /// Packets per second.
    pub predicted: f64,
}

/// Parameters of the model for one driver, from its own points.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DriverFit {
    /// Costs, and costs as likely as those.
    pub calibration: Calibration,
    /// All fitted parameters, with units, for people.
    pub parameters: Vec<Parameter>,
    /// Share of the throughputs' variance that is explained.
    pub r_squared: f64,
    /// All points of the fit.
    pub residuals: Vec<Residual>,
}

/// The clock that packets see: the slope of the time per packet against the
/// load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClockFit {
    /// Cycles of the counter per second that do a packet's work.
    pub clock: Hertz,
    /// Input and output at that slope.
    pub io: CyclesPerPacket,
    /// Coefficient of determination of the line.
    pub r_squared: f64,
    /// Number of points.
    pub points: usize,
}

/// Error of the model on points that were held out of the fit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gate {
    /// The predicted quantity.
    pub name: String,
    /// The largest mean absolute percentage error that passes, as a share.
    pub limit: f64,
    /// The error.
    pub mape: f64,
    /// The largest error of a point.
    pub worst: f64,
    /// The error of the plain model on the same points.
    pub plain_mape: f64,
    /// The share of points within their 90 % intervals, where there are such.
    pub coverage: Option<f64>,
    /// Points that were fitted.
    pub fitted: usize,
    /// Points that were predicted.
    pub held_out: usize,
}

impl Gate {
    /// Returns true if the error is within the limit and below the plain model's.
    pub fn passes(&self) -> bool {
        self.mape <= self.limit && self.mape < self.plain_mape
    }
}

/// The line of time per packet against load of one driver, at the burst size
/// that most of its points have. `None` with fewer than three loads.
pub fn load_line(records: &[Record], driver: &str) -> Option<Result<ClockFit, FitError>> {
    let loaded = |record: &Record| match &record.spec.kind {
        Point::Forward(forward)
            if forward.driver.name() == driver
                && record.is_measured()
                && *forward
                    == crate::point::Forward {
                        driver: forward.driver,
                        work: forward.work,
                        burst: forward.burst,
                        ..Default::default()
                    } =>
        {
            let rate = record.value(value::RATE).filter(|rate| *rate > 0.0)?;
            Some((forward.burst, forward.work, rate))
        }
        _ => None,
    };
    let points: Vec<(u32, u32, f64)> = records.iter().filter_map(loaded).collect();
    let bursts = || points.iter().map(|&(burst, ..)| burst);
    let loads = |wanted: u32| {
        let mut loads: Vec<u32> = points
            .iter()
            .filter(|(burst, ..)| *burst == wanted)
            .map(|&(_, work, _)| work)
            .collect();
        loads.sort_unstable();
        loads.dedup();
        loads.len()
    };
    let burst = bursts().max_by_key(|&burst| loads(burst))?;
    if loads(burst) < 3 {
        return None;
    }
    let line: Vec<_> = points
        .iter()
        .filter(|(at, ..)| *at == burst)
        .map(|&(_, work, rate)| (CyclesPerPacket::new(work.into()), PacketsPerSecond::new(rate)))
        .collect();
    Some(effective_clock(&line).map(|(clock, plain, fitted)| ClockFit {
        clock,
        io: plain.io,
        r_squared: fitted.r_squared,
        points: line.len(),
    }))
}

/// Parameters that the points of a driver can tell apart.
pub(super) fn terms(points: &[Throughput]) -> Vec<Term> {
    let has = |receive, transmit| {
        let sides = points.iter().map(|point| &point.input.scenario);
        let mut bursts: Vec<f64> = sides
            .filter(|one| one.receive == receive && one.transmit == transmit)
            .map(|one| one.burst.get())
            .collect();
        bursts.sort_by(f64::total_cmp);
        bursts.dedup();
        bursts.len() >= 2
    };
    let receive = [Term::ReceivePerPacket, Term::ReceivePerBurst];
    let transmit = [Term::TransmitPerPacket, Term::TransmitPerBurst];
    let apart = [has(true, false), has(false, true), has(true, true)];
    let around = [Term::ElementPerPacket(LOOP.into()), Term::ElementPerBurst(LOOP.into())];
    match apart.into_iter().filter(|has| *has).count() {
        3 => receive.into_iter().chain(transmit).chain(around).collect(),
        // Two of: one side, the other, both.
        2 => receive.into_iter().chain(transmit).collect(),
        _ => receive.into(),
    }
}

/// Fits input and output of one driver to its plain points.
pub(super) fn driver(points: &[Throughput], memory: &Memory) -> Result<DriverFit, FitError> {
    let model = ThroughputModel {
        base: Costs { memory: memory.clone(), ..Costs::default() },
        free: terms(points),
    };
    let sampled = bootstrap(&model, &scenarios(points), Loss::Huber, DRAWS)?;
    Ok(described(&model, &sampled, points))
}

/// A fit with its parameters and residuals.
pub(super) fn described(
    model: &ThroughputModel,
    sampled: &Sampled,
    points: &[Throughput],
) -> DriverFit {
    let calibration = Calibration::from_fit(model, sampled);
    let parameters = sampled.fit.names.iter().filter_map(|name| {
        let unit = match name {
            _ if name.ends_with("per packet") => "cycles/packet",
            _ if name.ends_with("per burst") => "cycles/burst",
            _ if name.ends_with("per byte") => "s/B",
            _ => "",
        };
        let estimate = sampled.parameter(name, LEVEL)?;
        Some(Parameter { name: name.clone(), estimate, unit: unit.into() })
    });
    let residual = |point: &Throughput| Residual {
        at: point.input.label.clone(),
        measured: point.value,
        predicted: calibration.costs.predict(&point.input.scenario).throughput.get(),
    };
    DriverFit {
        parameters: parameters.collect(),
        r_squared: sampled.fit.r_squared,
        residuals: points.iter().map(residual).collect(),
        calibration,
    }
}

/// Fits to one part of the points and predicts the rest; `None` where nothing
/// is left to predict.
pub(super) fn gate(
    name: String,
    limit: f64,
    model: &ThroughputModel,
    points: &[Throughput],
    judged: impl Fn(&Conditions) -> bool,
) -> Option<Result<Gate, FitError>> {
    let (train, rest) = split(points);
    let rest: Vec<Throughput> = rest.into_iter().filter(|point| judged(&point.input)).collect();
    if rest.is_empty() {
        return None;
    }
    let (train, rest) = (scenarios(&train), scenarios(&rest));
    Some(judge(name, limit, model, &train, &rest))
}

fn judge(
    name: String,
    limit: f64,
    model: &ThroughputModel,
    train: &[Observation<linerate_model::Scenario>],
    rest: &[Observation<linerate_model::Scenario>],
) -> Result<Gate, FitError> {
    let sampled = bootstrap(model, train, Loss::Huber, DRAWS)?;
    let quality = Quality::evaluate(model, &sampled.fit, rest);
    let plain = fit(&PlainModel, train, Loss::Square)?;
    let covered = rest
        .iter()
        .filter(|point| sampled.measurement(model, &point.input, LEVEL).contains(&point.value))
        .count();
    Ok(Gate {
        name,
        limit,
        mape: quality.mape,
        worst: quality.worst,
        plain_mape: Quality::evaluate(&PlainModel, &plain, rest).mape,
        coverage: Some(covered as f64 / rest.len() as f64),
        fitted: train.len(),
        held_out: rest.len(),
    })
}
