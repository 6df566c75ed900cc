//! Estimate of a configuration: the sum of its elements' costs.

use std::collections::BTreeMap;

use linerate_model::{
    Calibration, Cost, Costs, Prediction, Scenario,
    units::{CyclesPerPacket, Packets},
};
use serde::Serialize;

use super::{
    PathRole, Visit,
    cache_pressure::coldness,
    monte_carlo::{Basis, CostTerm, draws},
};
use crate::{
    calibration::{COLD, Calibrated, ENGINE, ElementFit, ROUND},
    measure::depends_on_arguments,
};

/// The ports that packets come from and go to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ports {
    /// No ports, at no cost.
    Nothing,
    /// Sample packets from memory, discarded at the end.
    Samples,
    /// Ports of a driver.
    Driver(String),
}

/// Burst at which costs are compared.
const USUAL_BURST: Packets = Packets::new(32.0);

/// The elements that emit sample packets and discard them.
pub(super) const SAMPLES: (&str, &str) = ("FromPort:capture", "Discard");
/// Two measured cases of a class: its outputs stay apart, or join again at one element. The
/// difference is the cost of keeping packets in order.
pub(super) const JOIN_CASES: (&str, &str) = ("HashSwitch:apart", "HashSwitch:meet");
/// Name of the sum of all elements, in the calibration that an estimate makes.
const ALL: &str = "configuration";

/// Ports and scenario that an estimate is made for.
#[derive(Debug, Clone)]
pub struct EstimateInputs {
    /// The ports that packets come from and go to.
    pub ports: Ports,
    /// Clock, burst, frame, load, workers and limits.
    pub scenario: Scenario,
}

/// An element with its cost.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ElementCost {
    /// Its frames and packets.
    #[serde(flatten)]
    pub visit: Visit,
    /// Name of the charged cost in the calibration.
    pub charged: String,
    /// How that cost was found for the element.
    pub basis: Basis,
    /// False if the element was never measured, so that costs of other elements are charged.
    pub known: bool,
    /// Cycles for each packet that passes the element.
    pub cycles_per_visit: f64,
    /// Cycles for each packet that enters the configuration, on average.
    pub cycles_per_packet: f64,
}

/// Estimate of a configuration, as input of the model.
#[derive(Debug, Clone)]
pub struct ConfigEstimate {
    /// The best costs, and samples of their distribution.
    pub calibration: Calibration,
    /// A calibration with elements that were never measured, or not with these arguments, at their
    /// best cost in every sample: its interval lacks that uncertainty.
    pub if_known: Calibration,
    /// The scenario of the prediction.
    pub scenario: Scenario,
    /// The elements with their costs, in the order of the configuration.
    pub lines: Vec<ElementCost>,
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
#[error("{driver} ports were not measured{}", there_are(.measured))]
pub struct NoDriver {
    /// The driver.
    pub driver: String,
    /// The drivers that were measured.
    pub measured: Vec<String>,
}

fn there_are(measured: &[String]) -> String {
    if measured.is_empty() {
        return String::new();
    }
    format!(": there are {}", measured.join(", "))
}

/// The reason why there is no estimate.
#[derive(Debug, thiserror::Error)]
pub enum EstimateError {
    /// Elements have no measured cost.
    #[error(transparent)]
    Unmeasured(#[from] Unmeasured),
    /// The driver has no measured cost.
    #[error(transparent)]
    NoDriver(#[from] NoDriver),
}

/// Classes that cost packets nothing.
const FREE: &[&str] = &["AddressInfo", "AlignmentInfo", "PortInfo", "ScheduleInfo", "Idle"];

/// Returns the name of a class with these arguments in a calibration.
pub fn with_arguments(class: &str, config: &str) -> String {
    format!("{class}({config})")
}

/// The cost of an element, with its name and basis.
struct CostMatch<'a> {
    name: String,
    basis: Basis,
    fitted: &'a ElementFit,
}

/// Finds the most specific cost of an element, or of a port with samples: as measured alone, with
/// these arguments, by class, or as the first case of the class.
fn find_cost<'a>(calibrated: &'a Calibrated, visit: &Visit) -> Option<CostMatch<'a>> {
    let class = match visit.part {
        PathRole::Element => visit.class,
        PathRole::Receive => SAMPLES.0,
        PathRole::Transmit => SAMPLES.1,
    };
    let alone = visit.alone.as_ref().and_then(|key| calibrated.alone.get(key));
    if let Some(fitted) = alone {
        let plain = visit.part != PathRole::Element || visit.config.is_empty();
        let name = if plain { class.to_owned() } else { with_arguments(class, &visit.config) };
        return Some(CostMatch { name, basis: Basis::Alone, fitted });
    }
    let elements = &calibrated.elements;
    let exact = with_arguments(class, &visit.config);
    if let Some(fitted) = elements.get(&exact).filter(|_| visit.part == PathRole::Element) {
        return Some(CostMatch { name: exact, basis: Basis::Arguments, fitted });
    }
    let case = |name: &str| name.split_once(':').is_some_and(|(base, _)| base == class);
    let own = elements.get_key_value(class);
    let (name, fitted) = own.or_else(|| elements.iter().find(|(name, _)| case(name)))?;
    let basis = if depends_on_arguments(class) { Basis::OtherArguments } else { Basis::Class };
    Some(CostMatch { name: name.clone(), basis, fitted })
}

/// Finds the basis of an element's cost; `None` if it was never measured.
pub(super) fn find_basis(calibrated: &Calibrated, visit: &Visit) -> Option<Basis> {
    find_cost(calibrated, visit).map(|found| found.basis)
}

/// Returns the classes among visits, sample ports included, without a cost in
/// the calibration.
pub fn unmeasured(calibrated: &Calibrated, visits: &[Visit], ports: &Ports) -> Vec<String> {
    let mut classes: Vec<String> = visits
        .iter()
        .filter(|visit| !FREE.contains(&visit.class) && find_cost(calibrated, visit).is_none())
        .filter_map(|visit| match visit.part {
            PathRole::Element => Some(visit.class.to_owned()),
            PathRole::Receive => (*ports == Ports::Samples).then(|| SAMPLES.0.to_owned()),
            PathRole::Transmit => (*ports == Ports::Samples).then(|| SAMPLES.1.to_owned()),
        })
        .collect();
    classes.sort_unstable();
    classes.dedup();
    classes
}

/// Returns the elements among visits that were measured with other arguments only, on which their
/// cost depends: class and arguments.
pub fn measured_otherwise(
    calibrated: &Calibrated,
    visits: &[Visit],
) -> Vec<(&'static str, String)> {
    let mut found: Vec<_> = visits
        .iter()
        .filter(|visit| visit.part == PathRole::Element)
        .filter(|visit| find_basis(calibrated, visit) == Some(Basis::OtherArguments))
        .map(|visit| (visit.class, visit.config.clone()))
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// Returns the costs of all measured elements, the median first. They are charged for an element
/// without a cost. Empty when none was measured.
fn costs_of_measured(calibrated: &Calibrated) -> Vec<Cost> {
    let is_element = |name: &str| {
        let class = name.split([':', '(', ' ']).next().unwrap_or(name);
        ![ENGINE, ROUND, COLD, "FromPort", "ToPort", "InfiniteSource", "Discard"].contains(&class)
    };
    let all = calibrated.elements.iter().chain(&calibrated.alone);
    let known = all.filter(|(name, _)| is_element(name));
    let mut costs: Vec<Cost> = known.map(|(_, fitted)| fitted.cost).collect();
    let at = |cost: &Cost| cost.at(USUAL_BURST).get();
    costs.sort_by(|one, other| at(one).total_cmp(&at(other)));
    let median = costs.len() / 2;
    costs.get(median).copied().into_iter().chain(costs).collect()
}

/// Returns the cost of keeping packets in order where paths join that had parted.
fn ordering_cost(calibrated: &Calibrated) -> Option<Cost> {
    let [apart, joined] = [JOIN_CASES.0, JOIN_CASES.1].map(|name| calibrated.elements.get(name));
    let (apart, joined) = (apart?.cost, joined?.cost);
    let extra = |joined: f64, apart: f64| (joined - apart).max(0.0);
    Some(Cost::new(
        extra(joined.per_packet.get(), apart.per_packet.get()),
        extra(joined.per_burst.get(), apart.per_burst.get()),
    ))
}

/// Sums the costs of elements, each at the size of its own frames. An element that was never measured
/// is charged the cost of any other, drawn at random: the interval covers all of them.
///
/// # Errors
///
/// When no element has a measured cost, or the driver or sample packets have none.
pub fn estimate(
    calibrated: &Calibrated,
    inputs: &EstimateInputs,
    visits: &[Visit],
) -> Result<ConfigEstimate, EstimateError> {
    let classes = unmeasured(calibrated, visits, &inputs.ports);
    let others = costs_of_measured(calibrated);
    let is_sample = |class: &String| [SAMPLES.0, SAMPLES.1].contains(&class.as_str());
    let samples_missing = inputs.ports == Ports::Samples && classes.iter().any(is_sample);
    if samples_missing || !classes.is_empty() && others.is_empty() {
        return Err(Unmeasured { classes }.into());
    }
    let io = match &inputs.ports {
        Ports::Driver(driver) => Some(port_costs(calibrated, driver)?),
        Ports::Nothing | Ports::Samples => None,
    };
    let engine_costs = |name: &str| calibrated.elements.get(name).map(costs);
    let (round, call) = (engine_costs(ROUND), engine_costs(ENGINE));
    let ordering = ordering_cost(calibrated);
    let cold_costs = engine_costs(COLD);
    let mut charges = Vec::new();
    let mut lines = Vec::new();
    for (visit, cold) in visits.iter().zip(coldness(visits)) {
        let (times, vector) = (visit.times, Packets::new(visit.mean_vector.max(1.0)));
        let charge = |name: String, basis: Basis, costs: Vec<Cost>| CostTerm {
            name,
            basis,
            costs,
            times,
            vector,
        };
        let own = match (visit.part, &inputs.ports) {
            (PathRole::Element, _) if FREE.contains(&visit.class) => {
                charge("nothing".into(), Basis::Free, Vec::new())
            }
            (PathRole::Element, _) | (_, Ports::Samples) => match find_cost(calibrated, visit) {
                Some(found) => charge(found.name, found.basis, costs(found.fitted)),
                None => charge(visit.class.into(), Basis::Others, others.clone()),
            },
            (_, Ports::Nothing) => charge("nothing".into(), Basis::Free, Vec::new()),
            (part, Ports::Driver(driver)) => {
                let (action, costs) = match (part, &io) {
                    (_, None) => ("using", Vec::new()),
                    (PathRole::Receive, Some(io)) => ("receiving", io.receive.clone()),
                    (_, Some(io)) => ("sending", io.transmit.clone()),
                };
                charge(format!("{action}, {driver} ports"), Basis::Port, costs)
            }
        };
        let (charged, basis) = match own.basis {
            Basis::Others => ("what others cost".to_owned(), Basis::Others),
            basis => (own.name.clone(), basis),
        };
        let mut all = vec![own];
        if let Some(cost) = ordering.filter(|_| visit.ordered) {
            // A single packet is always in order.
            let cost = Cost::new(cost.at(vector).get() * (1.0 - 1.0 / vector.get()), 0.0);
            all.push(charge("putting in order".into(), Basis::Class, vec![cost]));
        }
        // The cost of a round includes the call of the element that starts it, and the cost of ports
        // includes both.
        let (name, costs) = if visit.starts { (ROUND, &round) } else { (ENGINE, &call) };
        let is_called = visit.part == PathRole::Element || inputs.ports == Ports::Samples;
        if let Some(costs) = costs.as_ref().filter(|_| is_called) {
            all.push(charge(name.into(), Basis::Port, costs.clone()));
        }
        if let Some(costs) = cold_costs.as_ref().filter(|_| is_called && cold > 0.0) {
            let scaled =
                |cost: &Cost| Cost::new(cold * cost.per_packet.get(), cold * cost.per_burst.get());
            all.push(charge(COLD.into(), Basis::Class, costs.iter().map(scaled).collect()));
        }
        let cycles: f64 = all.iter().map(CostTerm::best).sum();
        lines.push(ElementCost {
            visit: visit.clone(),
            charged,
            basis,
            known: basis != Basis::Others,
            cycles_per_visit: if times > 0.0 { cycles / times } else { 0.0 },
            cycles_per_packet: cycles,
        });
        charges.extend(all);
    }
    let [calibration, if_known] = [false, true].map(|if_known| sum(calibrated, &charges, if_known));
    let scenario = Scenario {
        receive: false,
        transmit: false,
        elements: vec![linerate_model::Visit { element: ALL.into(), times: 1.0 }],
        ..inputs.scenario.clone()
    };
    Ok(ConfigEstimate { calibration, if_known, scenario, lines })
}

impl ConfigEstimate {
    /// Returns the prediction of the best fit.
    pub fn prediction(&self) -> Prediction {
        self.calibration.costs.predict(&self.scenario)
    }

    /// Returns the cycles of a packet in all elements.
    pub fn cycles(&self) -> CyclesPerPacket {
        self.calibration.costs.overhead(&self.scenario)
    }
}

/// Returns the costs of a fit: the best first, then its samples.
fn costs(fitted: &ElementFit) -> Vec<Cost> {
    std::iter::once(fitted.cost).chain(fitted.samples.iter().copied()).collect()
}

/// The costs of ports, as elements of a graph.
struct Io {
    receive: Vec<Cost>,
    transmit: Vec<Cost>,
}

/// Returns the cost of a driver's ports: the elements `FromPort` and `ToPort`, plus the extra cost of
/// the driver over null ports.
fn port_costs(calibrated: &Calibrated, driver: &str) -> Result<Io, NoDriver> {
    let Some(own) = calibrated.drivers.get(driver) else {
        let measured = calibrated.drivers.keys().cloned().collect();
        return Err(NoDriver { driver: driver.into(), measured });
    };
    let nothing = Costs::default();
    let null = calibrated.costs("null").unwrap_or(&nothing);
    let all = |costs: fn(&Costs) -> Cost, class: &str| -> Vec<Cost> {
        let element = calibrated.elements.get(class).map(|one| one.cost).unwrap_or_default();
        // An element's cost was measured on null ports, which are in it; the default has none.
        let base = calibrated.elements.get(class).map_or(Cost::default(), |_| costs(null));
        let extra = |one: f64, base: f64| (one - base).max(0.0);
        let fits = std::iter::once(&own.calibration.costs).chain(&own.calibration.samples);
        fits.map(|fitted| {
            let cost = costs(fitted);
            Cost::new(
                element.per_packet.get() + extra(cost.per_packet.get(), base.per_packet.get()),
                element.per_burst.get() + extra(cost.per_burst.get(), base.per_burst.get()),
            )
        })
        .collect()
    };
    Ok(Io {
        receive: all(|costs| costs.receive, "FromPort"),
        transmit: all(|costs| costs.transmit, "ToPort"),
    })
}

/// Returns a calibration that has all charges as one element: their best sum, and samples of it.
fn sum(calibrated: &Calibrated, charges: &[CostTerm], if_known: bool) -> Calibration {
    let contention = calibrated.scaling.as_ref().map_or(0.0, |one| one.estimate.value);
    let with = |cycles: f64| Costs {
        elements: BTreeMap::from([(ALL.to_owned(), Cost::new(cycles, 0.0))]),
        memory: calibrated.memory.clone(),
        scaling: linerate_model::Scaling { contention, coherence: 0.0 },
        ..Costs::default()
    };
    let best = charges.iter().map(CostTerm::best).sum();
    let samples = draws(charges, if_known).into_iter().map(with).collect();
    Calibration { costs: with(best), samples }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use linerate_model::{Estimate, units::Hertz};

    use super::*;
    use crate::{
        calibration::calibrate,
        point::{Element, Forward, Outcome, Point, Record, Spec, Values, value},
    };

    /// Elements of 10 + 40/B and 0 + 20/B cycles, and 1 + 6/B for the engine; input
    /// and output of rings at 30 + 100/B, of null ports at 10 + 40/B.
    fn calibrated() -> Calibrated {
        let mut records = Vec::new();
        let mut add = |kind: Point, name: &str, value: f64| {
            let values = [(name.to_owned(), value), (value::COUNTER.to_owned(), 1e9)];
            let outcome = (Outcome::Measured, None, Values::from(values));
            records.push(Record::new(Spec::new(kind), "x", "m", outcome));
        };
        let parts = [("Counter", 10.0, 40.0), ("Paint", 0.0, 20.0), ("engine", 1.0, 6.0)];
        for vector in [1, 4, 16, 64, 256] {
            let over = |a: f64, b: f64| a + b / f64::from(vector);
            for (class, a, b) in parts {
                let element = Element { class: class.into(), vector, arguments: None };
                add(Point::Element(element), value::CYCLES, over(a, b));
            }
            for (driver, a, b) in [
                (crate::point::Driver::Ring, 30.0, 100.0),
                (crate::point::Driver::Null, 10.0, 40.0),
            ] {
                let forward = Forward { driver, burst: vector, ..Forward::default() };
                add(Point::Forward(forward), value::RATE, 1e9 / over(a, b));
            }
        }
        calibrate(&records, &BTreeMap::new()).unwrap()
    }

    fn visit(class: &'static str, part: PathRole, times: f64, mean_vector: f64) -> Visit {
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
            starts: false,
            meets: false,
            ordered: false,
            alone: None,
            scattered: false,
            trace: Arc::default(),
            at: 0,
        }
    }

    fn inputs(driver: Option<&str>) -> EstimateInputs {
        let ports = driver.map_or(Ports::Nothing, |driver| Ports::Driver(driver.into()));
        let scenario =
            Scenario { clock: Hertz::new(1e9), burst: Packets::new(32.0), ..Scenario::default() };
        EstimateInputs { ports, scenario }
    }

    #[test]
    fn each_element_is_charged_at_its_own_vector() {
        let visits = [
            visit("FromPort", PathRole::Receive, 1.0, 32.0),
            visit("Counter", PathRole::Element, 1.0, 32.0),
            visit("Paint", PathRole::Element, 0.25, 8.0),
        ];
        let found = estimate(&calibrated(), &inputs(None), &visits).unwrap();
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
    fn ports_cost_as_their_driver() {
        let visits = [visit("FromPort", PathRole::Receive, 1.0, 32.0)];
        let cycles =
            |driver| estimate(&calibrated(), &inputs(driver), &visits).unwrap().cycles().get();
        // Input and output were not measured apart: all of it is input.
        assert!((cycles(Some("ring")) - (30.0 + 100.0 / 32.0)).abs() < 0.1);
        assert_eq!(cycles(None), 0.0);
        let error = estimate(&calibrated(), &inputs(Some("xdp")), &visits).unwrap_err();
        assert_eq!(error.to_string(), "xdp ports were not measured: there are null, ring");
        let none = Calibrated { drivers: BTreeMap::new(), ..calibrated() };
        let error = estimate(&none, &inputs(Some("xdp")), &visits).unwrap_err();
        assert_eq!(error.to_string(), "xdp ports were not measured");
    }

    #[test]
    fn elements_without_a_cost_are_named() {
        let visits = [
            visit("Frobnicate", PathRole::Element, 1.0, 1.0),
            visit("Counter", PathRole::Element, 1.0, 1.0),
            visit("AddressInfo", PathRole::Element, 1.0, 1.0),
        ];
        let mut calibrated = calibrated();
        let found = estimate(&calibrated, &inputs(None), &visits).unwrap();
        let known: Vec<bool> = found.lines.iter().map(|line| line.known).collect();
        assert_eq!(known, [false, true, true]);
        assert_eq!(found.lines[0].charged, "what others cost");
        // The interval covers the cheapest and the dearest cost.
        let (prediction, interval) = found.calibration.predict(&found.scenario, 0.9);
        let with = |class: &'static str| {
            let mut visits = visits.clone();
            visits[0].class = class;
            estimate(&calibrated, &inputs(None), &visits).unwrap().prediction().throughput
        };
        let (one, other) = (with("Counter").get(), with("Paint").get());
        assert!(interval.low.get() <= 1.001 * one.min(other), "{interval:?} {one} {other}");
        assert!(interval.high.get() >= 0.999 * one.max(other), "{interval:?} {one} {other}");
        assert!(prediction.throughput.get() > 0.0);

        calibrated.elements.clear();
        let error = estimate(&calibrated, &inputs(None), &visits).unwrap_err();
        assert_eq!(error.to_string(), "no measured cost of Counter, Frobnicate");
    }

    fn fitted(cycles: f64) -> ElementFit {
        let none = Estimate { value: 0.0, low: 0.0, high: 0.0 };
        let per_packet = Estimate { value: cycles, low: cycles, high: cycles };
        let cost = Cost::new(cycles, 0.0);
        ElementFit { cost, per_packet, per_frame: none, samples: vec![cost], points: 1 }
    }

    /// A cost measured alone takes precedence over that of the class.
    #[test]
    fn a_cost_measured_alone_is_charged() {
        let mut calibrated = calibrated();
        let filter = Visit {
            config: "allow udp".into(),
            alone: Some("IPFilter(allow udp) #1".into()),
            ..visit("IPFilter", PathRole::Element, 1.0, 32.0)
        };
        let other = Visit { alone: Some("IPFilter(allow udp) #2".into()), ..filter.clone() };
        let visits = [filter, other];
        let charged = |calibrated: &Calibrated| {
            let found = estimate(calibrated, &inputs(None), &visits).unwrap();
            let lines = found.lines.into_iter().map(|line| (line.charged, line.basis));
            lines.collect::<Vec<_>>()
        };
        let with = "IPFilter(allow udp)".to_owned();
        calibrated.alone.insert("IPFilter(allow udp) #1".into(), fitted(70.0));
        let others = ("what others cost".to_owned(), Basis::Others);
        assert_eq!(charged(&calibrated), [(with.clone(), Basis::Alone), others]);
        calibrated.elements.insert("IPFilter".into(), fitted(30.0));
        let class = ("IPFilter".to_owned(), Basis::OtherArguments);
        assert_eq!(charged(&calibrated), [(with.clone(), Basis::Alone), class]);
        assert_eq!(
            measured_otherwise(&calibrated, &visits),
            [("IPFilter", "allow udp".to_owned())]
        );
        calibrated.elements.insert(with.clone(), fitted(40.0));
        let arguments = (with.clone(), Basis::Arguments);
        assert_eq!(charged(&calibrated), [(with, Basis::Alone), arguments]);
        assert!(measured_otherwise(&calibrated, &visits).is_empty());
    }

    /// Rounds are charged at elements that start packets, calls elsewhere, and ordering where paths
    /// join.
    #[test]
    fn rounds_and_order_are_charged() {
        let mut calibrated = calibrated();
        for (name, cycles) in
            [(ROUND, 5.0), ("HashSwitch:apart", 20.0), ("HashSwitch:meet", 84.0), ("Unqueue", 3.0)]
        {
            calibrated.elements.insert(name.into(), fitted(cycles));
        }
        let unqueue = Visit { starts: true, ..visit("Unqueue", PathRole::Element, 1.0, 32.0) };
        let met = Visit { ordered: true, ..visit("Unqueue", PathRole::Element, 1.0, 32.0) };
        let one = Visit { ordered: true, ..visit("Unqueue", PathRole::Element, 1.0, 1.0) };
        for (visit, cycles) in
            [(unqueue, 8.0), (met, 3.0 + 62.0 + 1.0 + 6.0 / 32.0), (one, 3.0 + 7.0)]
        {
            let found = estimate(&calibrated, &inputs(None), std::slice::from_ref(&visit));
            let found = found.unwrap().cycles().get();
            assert!((found - cycles).abs() < 0.05, "{visit:?}: {found}");
        }
    }

    /// Elements of uncertain cost widen the interval, but not the one as if they were known.
    #[test]
    fn the_interval_if_known_is_narrower() {
        let visits = [
            visit("Counter", PathRole::Element, 1.0, 32.0),
            visit("Frobnicate", PathRole::Element, 1.0, 32.0),
        ];
        let found = estimate(&calibrated(), &inputs(None), &visits).unwrap();
        let width = |calibration: &Calibration| {
            let (_, interval) = calibration.predict(&found.scenario, 0.9);
            interval.high.get() - interval.low.get()
        };
        assert!(width(&found.calibration) > 1.2 * width(&found.if_known));
        let rates = [&found.calibration, &found.if_known]
            .map(|one| one.predict(&found.scenario, 0.9).0.throughput.get());
        assert_eq!(rates[0], rates[1]);
    }
}
