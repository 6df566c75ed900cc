//! Measures the cost of elements of a configuration that a calibration lacks.

use std::collections::BTreeMap;

use linerate_model::fit::Observation;

use super::{
    PathRole, Ports, Sampled, Trial, Visit, cache_pressure,
    estimate::{JOIN_CASES, SAMPLES, unmeasured, with_arguments},
    microbench::fit,
};
use crate::{
    calibration::{self, COLD, Calibrated, ENGINE, ElementFit, PLAIN, ROUND},
    measure::{Bench, element_classes},
    point::{Element, Outcome, Point, Spec, Values, value},
};

/// Sizes of frames at which a class is measured.
const VECTORS: [u32; 4] = [1, 8, 64, 256];
/// With a smaller share of the packets, the class's cost is enough.
const RARE: f64 = 0.002;
/// Repetitions, and duration of each.
const REPETITIONS: u32 = 3;
const DURATION_MS: u64 = 75;

impl Trial {
    /// Measures the missing costs of visited elements: each alone, with its arguments and on its
    /// recorded packets, and where that is not possible its class. The extra cost of calls in a
    /// graph of many is measured once, when there is one. `tell` is called with the measured
    /// elements, and with those that cannot be and why. Returns true if the calibration has more
    /// than before.
    pub fn measure(
        &self,
        bench: &Bench,
        calibrated: &mut Calibrated,
        sampled: &Sampled,
        ports: &Ports,
        tell: &mut dyn FnMut(String),
    ) -> bool {
        let any = self.measure_elements(bench, calibrated, sampled, ports, tell);
        if calibrated.elements.contains_key(COLD) || !cache_pressure::matters(&sampled.visits) {
            return any;
        }
        tell("measuring what elements take more in a graph of many, once, in half a minute".into());
        match cache_pressure::measure(bench, calibrated, tell) {
            Ok(fitted) => {
                calibrated.elements.insert(COLD.into(), fitted);
                true
            }
            Err(error) => {
                tell(format!("note: not measured: {error}"));
                any
            }
        }
    }

    /// Measures elements, without the extra cost of calls between them.
    pub(super) fn measure_elements(
        &self,
        bench: &Bench,
        calibrated: &mut Calibrated,
        sampled: &Sampled,
        ports: &Ports,
        tell: &mut dyn FnMut(String),
    ) -> bool {
        let mut any = false;
        if ![ROUND, ENGINE].iter().all(|name| calibrated.elements.contains_key(*name)) {
            any |= measure_class(bench, calibrated, PLAIN.into(), tell);
        }
        let matters = |visit: &&Visit| is_charged(visit, ports) && visit.times >= RARE;
        for visit in sampled.visits.iter().filter(matters) {
            let Some(key) = &visit.alone else { continue };
            if calibrated.alone.contains_key(key) {
                continue;
            }
            tell(format!("measuring {}", shortened(&name(visit))));
            match self.alone(bench, visit) {
                Ok(fitted) => {
                    calibrated.alone.insert(key.clone(), fitted);
                    any = true;
                }
                // Its class is, then.
                Err(error) => tell(format!(
                    "note: {} cannot be measured alone, its class is charged: {error}",
                    shortened(&name(visit))
                )),
            }
        }
        for class in wanted(calibrated, &sampled.visits, ports) {
            any |= measure_class(bench, calibrated, class, tell);
        }
        any
    }
}

/// Measures the cost of a class, or a case of one; returns true if that was possible.
fn measure_class(
    bench: &Bench,
    calibrated: &mut Calibrated,
    class: String,
    tell: &mut dyn FnMut(String),
) -> bool {
    tell(format!("measuring {class}"));
    let found = of_class(bench, &class);
    match found {
        Ok((fitted, of_engine)) => {
            calibrated.elements.extend(of_engine);
            calibrated.elements.insert(class, fitted);
            true
        }
        Err(error) => {
            tell(format!("note: not measured: {error}"));
            false
        }
    }
}

/// Returns true if the estimate has the cost of an element.
fn is_charged(visit: &Visit, ports: &Ports) -> bool {
    visit.part == PathRole::Element || *ports == Ports::Samples
}

fn name(visit: &Visit) -> String {
    match visit.part {
        PathRole::Element => with_arguments(visit.class, &visit.config),
        PathRole::Receive => SAMPLES.0.into(),
        PathRole::Transmit => SAMPLES.1.into(),
    }
}

/// Classes, and cases of them, to be measured: those without any cost, and those for the cost of
/// putting packets in order where they are.
fn wanted(calibrated: &Calibrated, visits: &[Visit], ports: &Ports) -> Vec<String> {
    let mut wanted: Vec<String> = unmeasured(calibrated, visits, ports)
        .into_iter()
        .map(|class| {
            let is_case = |known: &&str| known.split(':').next() == Some(&class);
            let exact = element_classes().find(|known| *known == class);
            exact.or_else(|| element_classes().find(is_case)).map_or(class, str::to_owned)
        })
        .collect();
    let has = |name: &str| calibrated.elements.contains_key(name);
    if visits.iter().any(|visit| visit.ordered) {
        let cases = [JOIN_CASES.0, JOIN_CASES.1].into_iter().filter(|name| !has(name));
        wanted.extend(cases.map(str::to_owned));
    }
    wanted.sort_unstable();
    wanted.dedup();
    wanted
}

/// The cost of a class by itself, with the engine's costs found beside it.
fn of_class(
    bench: &Bench,
    class: &str,
) -> Result<(ElementFit, BTreeMap<String, ElementFit>), String> {
    let (mut own, mut failed) = (Vec::new(), String::new());
    let mut of_engine: BTreeMap<String, Vec<Observation<f64>>> = BTreeMap::new();
    for repetition in 0..REPETITIONS {
        for vector in VECTORS {
            let kind = Point::Element(Element { class: class.into(), vector, arguments: None });
            let spec = Spec { repetition, duration_ms: DURATION_MS, ..Spec::new(kind) };
            let (outcome, reason, values) = bench.measure(&spec);
            // With packets timed by the clock, a window may have had none.
            if outcome == Outcome::Void {
                failed = reason.unwrap_or_default();
                continue;
            }
            if outcome != Outcome::Measured {
                return Err(format!("{class}: {}", reason.unwrap_or_default()));
            }
            own.extend(observed(&values, value::CYCLES, vector));
            for (name, value) in [(ENGINE, value::ENGINE), (ROUND, value::ROUND)] {
                if let Some(point) = observed(&values, value, vector) {
                    of_engine.entry(name.into()).or_default().push(point);
                }
            }
        }
    }
    if own.is_empty() {
        return Err(format!("{class}: {failed}"));
    }
    let of_engine = of_engine.into_iter();
    let of_engine = of_engine.map(|(name, points)| {
        let fitted = calibration::call(&points);
        fitted.map(|fitted| (name, fitted)).map_err(|error| error.to_string())
    });
    Ok((fitted(&own), of_engine.collect::<Result<_, _>>()?))
}

/// The cost by the size of frames; where these were all alike, their own.
fn fitted(points: &[Observation<f64>]) -> ElementFit {
    let of_these = || fit(&points.iter().map(|point| point.value).collect::<Vec<_>>());
    calibration::element(points).unwrap_or_else(|_| of_these())
}

/// A figure, at the size that frames had.
fn observed(values: &Values, name: &str, vector: u32) -> Option<Observation<f64>> {
    let at = values.get(value::VECTOR).copied().unwrap_or(vector.into());
    let value = *values.get(name)?;
    Some(Observation { input: at, value, weight: at.sqrt() })
}

/// The first words of a long text.
fn shortened(text: &str) -> String {
    const MOST: usize = 40;
    match text.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;

    use super::{super::packet_counts::tests::trial, *};
    use crate::{
        calibration::calibrate,
        plan::{Basis, EstimateInputs, estimate},
        point::Record,
    };

    /// A calibration that knows a `Counter`, of 10 cycles.
    pub(in crate::plan) fn calibrated() -> Calibrated {
        let records: Vec<Record> = [1, 4, 16, 64]
            .into_iter()
            .map(|vector| {
                let element = Element { class: "Counter".into(), vector, arguments: None };
                let cycles = 10.0 + 5.0 / f64::from(vector);
                let values = Values::from([
                    (value::CYCLES.to_owned(), cycles),
                    (value::COUNTER.to_owned(), 1e9),
                ]);
                let outcome = (Outcome::Measured, None, values);
                Record::new(Spec::new(Point::Element(element)), "x", "m", outcome)
            })
            .collect();
        calibrate(&records, &BTreeMap::new()).unwrap()
    }

    #[test]
    fn frames_that_are_all_alike_have_a_cost() {
        let point = |input: f64, value: f64| Observation { input, value, weight: 1.0 };
        let rare = fitted(&[point(1.0, 30.0), point(1.0, 20.0), point(1.0, 40.0)]);
        assert_eq!(rare.cost.per_packet.get(), 20.0);
        let usual: Vec<_> = [1.0, 4.0, 16.0, 64.0].map(|at| point(at, 10.0 + 40.0 / at)).into();
        assert!((fitted(&usual).cost.per_burst.get() - 40.0).abs() < 0.5);
    }

    #[test]
    fn unknown_costs_alone_are_wanted() {
        let sampled = |text: &str| trial(text, &[]).sample().unwrap();
        let mut known = calibrated();
        let text = "FromDevice(a) -> Counter -> s :: RoundRobinSwitch; s[0] -> d :: Discard;
            s[1] -> Counter -> d";
        let visits = sampled(text).visits;
        let samples = wanted(&known, &visits, &Ports::Samples);
        let mut all = vec!["Discard", "FromPort:capture", "HashSwitch:apart", "HashSwitch:meet"];
        all.push("RoundRobinSwitch");
        assert_eq!(samples, all);
        let fitted = known.elements["Counter"].clone();
        for name in ["HashSwitch:apart", "HashSwitch:meet", "RoundRobinSwitch", ROUND] {
            known.elements.insert(name.into(), fitted.clone());
        }
        assert!(wanted(&known, &visits, &Ports::Nothing).contains(&"Discard".to_owned()));
        known.elements.insert("Discard".into(), fitted);
        assert!(wanted(&known, &visits, &Ports::Nothing).is_empty());
    }

    /// Of a graph of a few elements these are measured, and the engine's round and call.
    #[test]
    fn needed_costs_alone_are_measured() {
        let trial = trial("FromDevice(a) -> Counter -> Paint(1) -> Discard", &[]);
        let sampled = trial.sample().unwrap();
        let bench = Bench::new(linerate_elements::library());
        let mut calibrated = calibrated();
        let mut told = Vec::new();
        let mut tell = |text: String| told.push(text);
        assert!(trial.measure(&bench, &mut calibrated, &sampled, &Ports::Nothing, &mut tell));
        let wanted = ["Discard", "Counter()", "Paint(1)", "Discard()"];
        assert_eq!(told, wanted.map(|name| format!("measuring {name}")));
        assert!(!calibrated.elements.contains_key(COLD));
        // All of it is known then.
        let mut told = Vec::new();
        let mut tell = |text: String| told.push(text);
        assert!(!trial.measure(&bench, &mut calibrated, &sampled, &Ports::Nothing, &mut tell));
        assert!(told.is_empty(), "{told:?}");
    }

    /// Classes without a configuration of their own, and one that makes packets by the clock.
    #[test]
    fn everything_is_measured_somehow() {
        let trial = trial(
            "FromDevice(a) -> c :: Counter -> Truncate(20) -> Pad(64) -> PaintSwitch -> d :: Discard;
             RatedSource(RATE 1000) -> c;",
            &[],
        );
        let sampled = trial.sample().unwrap();
        let bench = Bench::new(linerate_elements::library());
        let mut calibrated = calibrated();
        let mut told = Vec::new();
        let mut tell = |text: String| told.push(text);
        assert!(trial.measure_elements(
            &bench,
            &mut calibrated,
            &sampled,
            &Ports::Samples,
            &mut tell
        ));
        assert!(calibrated.elements.contains_key(ROUND), "{told:?}");
        let inputs = EstimateInputs { ports: Ports::Samples, scenario: Default::default() };
        let found = estimate(&calibrated, &inputs, &sampled.visits).unwrap();
        let weak: Vec<_> = found.lines.iter().filter(|line| !line.known).collect();
        assert!(weak.is_empty(), "{weak:?}");
        let alone = found.lines.iter().filter(|line| line.basis == Basis::Alone);
        assert!(alone.count() >= 4, "{:?}", found.lines);
    }
}
