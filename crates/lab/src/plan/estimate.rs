//! The costs of a configuration's elements, summed.

use std::collections::BTreeMap;

use linerate_model::{
    Calibration, Cost, Costs, Prediction, Scenario,
    units::{CyclesPerPacket, Packets},
};
use serde::Serialize;

use super::{Part, Visit};
use crate::{
    calibration::{Calibrated, ENGINE, ElementFit},
    measure::depends_on_arguments,
    point::Arguments,
};

/// What packets come from and go to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ports {
    /// Nothing, at no cost.
    Nothing,
    /// Sample packets in memory, and nothing they are sent to.
    Samples,
    /// Ports of a driver.
    Driver(String),
}

/// Packets at a time at which costs are compared.
const USUAL_VECTOR: Packets = Packets::new(32.0);

/// The element that brings sample packets, and the one that takes them.
const SAMPLES: (&str, &str) = ("FromPort:capture", "Discard");

/// What of a calibration is used.
#[derive(Debug, Clone)]
pub struct Question {
    /// What packets come from and go to.
    pub ports: Ports,
    /// Clock, burst, frame, load, workers and limits.
    pub scenario: Scenario,
}

/// An element with what it costs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// Where packets come through it.
    #[serde(flatten)]
    pub visit: Visit,
    /// What of the calibration is charged.
    pub charged: String,
    /// Whether that is its own cost; else nobody has measured it.
    pub known: bool,
    /// Cycles for each packet that comes through.
    pub cycles_per_visit: f64,
    /// Cycles for each packet brought, on average.
    pub cycles_per_packet: f64,
}

/// A configuration as the model takes it.
#[derive(Debug, Clone)]
pub struct Estimated {
    /// Costs, and costs as likely as those.
    pub calibration: Calibration,
    /// What is asked of them.
    pub scenario: Scenario,
    /// The elements with their costs, in the order of the configuration.
    pub lines: Vec<Line>,
}

/// Elements have no measured cost.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no measured cost of {}", .classes.join(", "))]
pub struct Unmeasured {
    /// Their classes.
    pub classes: Vec<String>,
}

/// The calibration has no such driver.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{driver} ports were not measured: there are {}", .measured.join(", "))]
pub struct NoDriver {
    /// The driver.
    pub driver: String,
    /// Those that were.
    pub measured: Vec<String>,
}

/// Why there is no estimate.
#[derive(Debug, thiserror::Error)]
pub enum EstimateError {
    /// Elements have no measured cost.
    #[error(transparent)]
    Unmeasured(#[from] Unmeasured),
    /// The driver has none.
    #[error(transparent)]
    NoDriver(#[from] NoDriver),
}

/// Classes that pass packets on and do nothing besides, or nothing that packets
/// pay for.
const FREE: &[&str] = &["AddressInfo", "AlignmentInfo", "PortInfo", "ScheduleInfo", "Idle"];

/// The name in a calibration of a class with these arguments.
pub fn with_arguments(class: &str, config: &str) -> String {
    format!("{class}({config})")
}

/// Finds the cost of an element: with its arguments, by its class, or the first
/// case of that.
fn find<'a>(calibrated: &'a Calibrated, visit: &Visit) -> Option<(&'a str, &'a ElementFit)> {
    let class = visit.class;
    let exact = calibrated.elements.get_key_value(&with_arguments(class, &visit.config));
    let own = exact.or_else(|| calibrated.elements.get_key_value(class)).or_else(|| {
        let case = |name: &str| name.split_once(':').is_some_and(|(of, _)| of == class);
        calibrated.elements.iter().find(|(name, _)| case(name))
    });
    own.map(|(name, fitted)| (name.as_str(), fitted))
}

/// The classes among visits, and of sample packets, that a calibration has no
/// cost of.
pub fn unmeasured(calibrated: &Calibrated, visits: &[Visit], ports: &Ports) -> Vec<String> {
    let mut classes: Vec<String> = visits
        .iter()
        .filter(|visit| visit.part == Part::Element)
        .filter(|visit| !FREE.contains(&visit.class) && find(calibrated, visit).is_none())
        .map(|visit| visit.class.to_owned())
        .collect();
    if *ports == Ports::Samples {
        let missing = |class: &&str| !calibrated.elements.contains_key(*class);
        classes.extend([SAMPLES.0, SAMPLES.1].into_iter().filter(missing).map(str::to_owned));
    }
    classes.sort_unstable();
    classes.dedup();
    classes
}

/// The elements among visits whose cost depends on their arguments, and that
/// were not measured with these.
pub fn unlike(calibrated: &Calibrated, visits: &[Visit]) -> Vec<(&'static str, Arguments)> {
    let mut found: Vec<_> = visits
        .iter()
        .filter(|visit| visit.part == Part::Element && depends_on_arguments(visit.class))
        .filter(|visit| {
            !calibrated.elements.contains_key(&with_arguments(visit.class, &visit.config))
        })
        .map(|visit| {
            (visit.class, Arguments { config: visit.config.clone(), outputs: visit.outputs })
        })
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// What the elements cost that were measured, that in the middle first: all that is known
/// of one that was not. Empty when none was.
fn of_others(calibrated: &Calibrated) -> Vec<Cost> {
    let is_element = |name: &str| {
        let class = name.split([':', '(']).next().unwrap_or(name);
        ![ENGINE, "FromPort", "ToPort", "InfiniteSource", "Discard"].contains(&class)
    };
    let known = calibrated.elements.iter().filter(|(name, _)| is_element(name));
    let mut costs: Vec<Cost> = known.map(|(_, fitted)| fitted.cost).collect();
    let at = |cost: &Cost| cost.at(USUAL_VECTOR).get();
    costs.sort_by(|one, other| at(one).total_cmp(&at(other)));
    let middle = costs.len() / 2;
    costs.get(middle).copied().into_iter().chain(costs).collect()
}

/// Sums what elements cost, each at the size of its own frames. One that nobody has measured
/// costs what some other does: nobody knows which, so the interval has all of them.
///
/// # Errors
///
/// When no element has a measured cost, or the driver or sample packets have none.
pub fn estimate(
    calibrated: &Calibrated,
    question: &Question,
    visits: &[Visit],
) -> Result<Estimated, EstimateError> {
    let classes = unmeasured(calibrated, visits, &question.ports);
    let others = of_others(calibrated);
    let is_sample = |class: &String| [SAMPLES.0, SAMPLES.1].contains(&class.as_str());
    let samples_missing = question.ports == Ports::Samples && classes.iter().any(is_sample);
    if samples_missing || !classes.is_empty() && others.is_empty() {
        return Err(Unmeasured { classes }.into());
    }
    let io = match &question.ports {
        Ports::Nothing => None,
        Ports::Samples => samples(calibrated),
        Ports::Driver(driver) => Some(ports(calibrated, driver)?),
    };
    let engine = calibrated.elements.get(ENGINE);
    let mut charges = Vec::new();
    let mut lines = Vec::new();
    for (index, visit) in visits.iter().enumerate() {
        let samples: Vec<Vec<Cost>> = match visit.part {
            Part::Element => match find(calibrated, visit) {
                Some((_, one)) => vec![costs(one)],
                None if FREE.contains(&visit.class) => Vec::new(),
                None => vec![others.clone()],
            },
            Part::Receive => io.iter().map(|io| io.receive.clone()).collect(),
            Part::Transmit => io.iter().map(|io| io.transmit.clone()).collect(),
        };
        let charged = match (visit.part, find(calibrated, visit)) {
            (Part::Element, Some((name, _))) => name.to_owned(),
            (Part::Element, None) if FREE.contains(&visit.class) => "nothing".into(),
            (Part::Element, None) => "what others cost".into(),
            (part, _) => match (&question.ports, part) {
                (Ports::Nothing, _) => "nothing".into(),
                (Ports::Samples, Part::Receive) => SAMPLES.0.into(),
                (Ports::Samples, _) => SAMPLES.1.into(),
                (Ports::Driver(driver), Part::Receive) => format!("receiving, {driver} ports"),
                (Ports::Driver(driver), _) => format!("sending, {driver} ports"),
            },
        };
        // The source's own call is in what receiving was measured with.
        let called = engine.filter(|_| visit.part != Part::Receive).map(costs);
        let parts: Vec<Vec<Cost>> = samples.into_iter().chain(called).collect();
        let at = |sample: usize| -> Cost {
            let of = |costs: &Vec<Cost>| costs[sample % costs.len()];
            parts.iter().map(of).fold(Cost::default(), |sum, one| Cost {
                per_packet: sum.per_packet + one.per_packet,
                per_burst: sum.per_burst + one.per_burst,
            })
        };
        let vector = Packets::new(visit.mean_vector.max(1.0));
        let cycles = at(0).at(vector);
        lines.push(Line {
            visit: visit.clone(),
            known: visit.part != Part::Element || !classes.iter().any(|one| one == visit.class),
            charged,
            cycles_per_visit: cycles.get(),
            cycles_per_packet: cycles.get() * visit.times,
        });
        let most = parts.iter().map(Vec::len).max().unwrap_or(1);
        charges.push((format!("{index}"), visit, (0..most).map(at).collect::<Vec<Cost>>()));
    }
    Ok(Estimated {
        calibration: sum(calibrated, &charges, question.scenario.burst),
        scenario: Scenario {
            receive: false,
            transmit: false,
            elements: charges
                .iter()
                .map(|(name, visit, _)| linerate_model::Visit {
                    element: name.clone(),
                    times: visit.times,
                })
                .collect(),
            ..question.scenario.clone()
        },
        lines,
    })
}

impl Estimated {
    /// What the best fit says.
    pub fn prediction(&self) -> Prediction {
        self.calibration.costs.predict(&self.scenario)
    }

    /// Cycles of a packet in all elements.
    pub fn cycles(&self) -> CyclesPerPacket {
        self.calibration.costs.overhead(&self.scenario)
    }
}

/// The best fit first, then its samples.
fn costs(fitted: &ElementFit) -> Vec<Cost> {
    std::iter::once(fitted.cost).chain(fitted.samples.iter().copied()).collect()
}

/// What ports cost, as elements of a graph.
struct Io {
    receive: Vec<Cost>,
    transmit: Vec<Cost>,
}

/// The cost of sample packets in memory.
fn samples(calibrated: &Calibrated) -> Option<Io> {
    let of = |class: &str| calibrated.elements.get(class).map(costs);
    Some(Io { receive: of(SAMPLES.0)?, transmit: of(SAMPLES.1)? })
}

/// The cost of a driver's ports: what the elements in front of them take, and
/// what the driver takes more than ports that do nothing.
fn ports(calibrated: &Calibrated, driver: &str) -> Result<Io, NoDriver> {
    let Some(own) = calibrated.drivers.get(driver) else {
        let measured = calibrated.drivers.keys().cloned().collect();
        return Err(NoDriver { driver: driver.into(), measured });
    };
    let nothing = Costs::default();
    let null = calibrated.costs("null").unwrap_or(&nothing);
    let all = |costs: fn(&Costs) -> Cost, class: &str| -> Vec<Cost> {
        let element = calibrated.elements.get(class).map(|one| one.cost).unwrap_or_default();
        // Without the element's own point the null port is not in it either.
        let base = calibrated.elements.get(class).map_or(Cost::default(), |_| costs(null));
        let more = |one: f64, other: f64| (one - other).max(0.0);
        let fits = std::iter::once(&own.calibration.costs).chain(&own.calibration.samples);
        fits.map(|fitted| {
            let cost = costs(fitted);
            Cost::new(
                element.per_packet.get() + more(cost.per_packet.get(), base.per_packet.get()),
                element.per_burst.get() + more(cost.per_burst.get(), base.per_burst.get()),
            )
        })
        .collect()
    };
    Ok(Io {
        receive: all(|costs| costs.receive, "FromPort"),
        transmit: all(|costs| costs.transmit, "ToPort"),
    })
}

/// A calibration with an element for each visit, whose cost per burst is that
/// of its own frames: the model knows one size of bursts for all.
fn sum(
    calibrated: &Calibrated,
    charges: &[(String, &Visit, Vec<Cost>)],
    burst: Packets,
) -> Calibration {
    let base = |scaling: f64| Costs {
        memory: calibrated.memory.clone(),
        scaling: linerate_model::Scaling { contention: scaling, coherence: 0.0 },
        ..Costs::default()
    };
    let contention = calibrated.scaling.as_ref().map_or(0.0, |one| one.estimate.value);
    let at = |sample: usize| {
        let elements: BTreeMap<String, Cost> = charges
            .iter()
            .map(|(name, visit, costs)| {
                let cost = costs[sample % costs.len()];
                let frames = burst.get() / visit.mean_vector.max(1.0);
                let own = Cost::new(cost.per_packet.get(), cost.per_burst.get() * frames);
                (name.clone(), own)
            })
            .collect();
        Costs { elements, ..base(contention) }
    };
    let samples = charges.iter().map(|(_, _, costs)| costs.len()).max().unwrap_or(1);
    // The first of each is the best fit.
    Calibration { costs: at(0), samples: (1..samples).map(at).collect() }
}

#[cfg(test)]
mod tests {
    use linerate_model::units::Hertz;

    use super::*;
    use crate::{
        calibration::calibrate,
        point::{Element, Forward, Kind, Outcome, Record, Spec, Values, value},
    };

    /// Elements of 10 + 40/B, 0 + 20/B and, of the engine, 1 + 6/B cycles; input
    /// and output of rings at 30 + 100/B, of null ports at 10 + 40/B.
    fn calibrated() -> Calibrated {
        let mut records = Vec::new();
        let mut add = |kind: Kind, name: &str, value: f64| {
            let values = [(name.to_owned(), value), (value::COUNTER.to_owned(), 1e9)];
            let outcome = (Outcome::Measured, None, Values::from(values));
            records.push(Record::new(Spec::new(kind), "x", "m", outcome));
        };
        let parts = [("Counter", 10.0, 40.0), ("Paint", 0.0, 20.0), ("engine", 1.0, 6.0)];
        for vector in [1, 4, 16, 64, 256] {
            let over = |a: f64, b: f64| a + b / f64::from(vector);
            for (class, a, b) in parts {
                let element = Element { class: class.into(), vector, arguments: None };
                add(Kind::Element(element), value::CYCLES, over(a, b));
            }
            for (driver, a, b) in [
                (crate::point::Driver::Ring, 30.0, 100.0),
                (crate::point::Driver::Null, 10.0, 40.0),
            ] {
                let forward = Forward { driver, burst: vector, ..Forward::default() };
                add(Kind::Forward(forward), value::RATE, 1e9 / over(a, b));
            }
        }
        calibrate(&records, &BTreeMap::new()).unwrap()
    }

    fn visit(class: &'static str, part: Part, times: f64, mean_vector: f64) -> Visit {
        let name = class.to_lowercase();
        Visit {
            name,
            class,
            config: String::new(),
            outputs: 1,
            part,
            times,
            mean_vector,
            dropped: 0.0,
        }
    }

    fn question(driver: Option<&str>) -> Question {
        let ports = driver.map_or(Ports::Nothing, |driver| Ports::Driver(driver.into()));
        let scenario =
            Scenario { clock: Hertz::new(1e9), burst: Packets::new(32.0), ..Scenario::default() };
        Question { ports, scenario }
    }

    #[test]
    fn each_element_is_charged_at_its_own_vector() {
        let visits = [
            visit("FromPort", Part::Receive, 1.0, 32.0),
            visit("Counter", Part::Element, 1.0, 32.0),
            visit("Paint", Part::Element, 0.25, 8.0),
        ];
        let found = estimate(&calibrated(), &question(None), &visits).unwrap();
        let counter = 10.0 + 40.0 / 32.0 + 1.0 + 6.0 / 32.0;
        let paint = 20.0 / 8.0 + 1.0 + 6.0 / 8.0;
        let all = counter + 0.25 * paint;
        assert!((found.lines[1].cycles_per_packet - counter).abs() < 0.05, "{:?}", found.lines);
        assert!((found.lines[2].cycles_per_visit - paint).abs() < 0.05, "{:?}", found.lines);
        assert!((found.cycles().get() - all).abs() < 0.1, "{}", found.cycles());
        let rate = found.prediction().throughput.get();
        assert!((rate * all / 1e9 - 1.0).abs() < 0.01, "{rate}");
        let (_, interval) = found.calibration.predict(&found.scenario, 0.9);
        assert!(interval.low.get() <= rate * 1.001 && rate * 0.999 <= interval.high.get());
    }

    #[test]
    fn ports_cost_what_their_driver_does() {
        let visits = [visit("FromPort", Part::Receive, 1.0, 32.0)];
        let cycles =
            |driver| estimate(&calibrated(), &question(driver), &visits).unwrap().cycles().get();
        // Input and output were not measured apart: all of it is input.
        assert!((cycles(Some("ring")) - (30.0 + 100.0 / 32.0)).abs() < 0.1);
        assert_eq!(cycles(None), 0.0);
        let error = estimate(&calibrated(), &question(Some("xdp")), &visits).unwrap_err();
        assert_eq!(error.to_string(), "xdp ports were not measured: there are null, ring");
    }

    #[test]
    fn what_has_no_cost_is_named() {
        let visits = [
            visit("Frobnicate", Part::Element, 1.0, 1.0),
            visit("Counter", Part::Element, 1.0, 1.0),
            visit("AddressInfo", Part::Element, 1.0, 1.0),
        ];
        let mut calibrated = calibrated();
        let found = estimate(&calibrated, &question(None), &visits).unwrap();
        let known: Vec<bool> = found.lines.iter().map(|line| line.known).collect();
        assert_eq!(known, [false, true, true]);
        assert_eq!(found.lines[0].charged, "what others cost");
        // Whatever it costs, as the cheapest or the dearest, is in the interval.
        let (prediction, interval) = found.calibration.predict(&found.scenario, 0.9);
        let with = |class: &'static str| {
            let mut visits = visits.clone();
            visits[0].class = class;
            estimate(&calibrated, &question(None), &visits).unwrap().prediction().throughput
        };
        let (one, other) = (with("Counter").get(), with("Paint").get());
        assert!(interval.low.get() <= 1.001 * one.min(other), "{interval:?} {one} {other}");
        assert!(interval.high.get() >= 0.999 * one.max(other), "{interval:?} {one} {other}");
        assert!(prediction.throughput.get() > 0.0);

        calibrated.elements.clear();
        let error = estimate(&calibrated, &question(None), &visits).unwrap_err();
        assert_eq!(error.to_string(), "no measured cost of Counter, Frobnicate");
    }
}
