//! Extra cost of elements in a graph of many over their cost alone.
//!
//! Between two frames of an element its code, its state and the predictors of its branches stay in
//! the processor's first-level caches when it is alone. In a graph others are called in between,
//! the more the colder it finds them. The extra cost of a cold call differs from processor to
//! processor. So it is measured, by a graph of the usual elements: its time beyond the sum of the
//! costs of its elements alone is divided among their calls.

use std::time::Duration;

use linerate_graph::lang::{Globals, SourceMap, load};
use linerate_model::{Cost, Estimate, Scenario};

use super::{EstimateInputs, Ports, SampleError, SampleRun, Trial, Visit, estimate};
use crate::{
    FrameMaker,
    calibration::{self, Calibrated, ElementFit},
    instruments::frames,
    measure::Bench,
    point::Destinations,
};

/// From a link by a routing table to four others, each on another way.
const GRAPH: &str = "\
FromDevice(a) -> kind :: Classifier(12/0806, 12/0800, -);
kind[0] -> Discard; kind[2] -> Discard;
kind[1] -> Paint(1) -> Strip(14) -> CheckIPHeader -> GetIPAddress(16)
    -> routes :: RadixIPLookup(198.19.0.0/22 0, 198.19.4.0/22 1, 198.19.8.0/22 2, 198.19.12.0/22 3, 0/0 0);
routes[0] -> DropBroadcasts -> IPGWOptions(198.18.0.1) -> FixIPSrc(198.18.0.1) -> DecIPTTL
    -> IPFragmenter(1500) -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> Queue -> ToDevice(b);
routes[1] -> IPFilter(deny dst port 23, deny src net 10.0.0.0/8, allow all) -> SetIPDSCP(10)
    -> SetIPChecksum -> Unstrip(14) -> EtherRewrite(2:0:0:0:0:1, 2:0:0:0:0:2) -> Queue -> ToDevice(c);
routes[2] -> CheckUDPHeader -> ports :: IPClassifier(udp dst port 53, udp, -);
ports[0] -> Discard; ports[2] -> Discard;
ports[1] -> SetUDPChecksum -> Counter -> flows :: HashSwitch(16, 2);
flows[0] -> Discard; flows[1] -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> Discard;
routes[3] -> AverageCounter -> SetIPAddress(198.18.0.2) -> CheckLength(1500)
    -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> VLANEncap(7) -> Queue -> ToDevice(d);
";
/// The packets go to so many addresses, as many on each way.
const ADDRESSES: u32 = 4096;
/// Others that leave nothing of an element in the first-level caches.
const MANY: f64 = 16.0;
/// Coldness of calls from which their extra cost is worth measuring: five elements called in turns.
/// Fewer stay in the processor's first-level caches.
const WORTH: f64 = 0.25;
/// Most packets in a frame of it, at which it is measured: least and most.
const VECTORS: [u16; 2] = [1, 256];
const TIME: Duration = Duration::from_millis(600);

/// Coldness of each visit, from 0 when no other element works between two of its frames to 1.
pub(super) fn coldness(visits: &[Visit]) -> Vec<f64> {
    let calls = |visit: &Visit| visit.times / visit.mean_vector.max(1.0);
    let of = |visit: &Visit| {
        let own = calls(visit);
        let others = visits.iter().map(|other| (calls(other) / own).min(1.0)).sum::<f64>() - 1.0;
        if own > 0.0 { (others / MANY).clamp(0.0, 1.0) } else { 0.0 }
    };
    visits.iter().map(of).collect()
}

/// Returns true if calls of these visits are so cold that their extra cost has to be measured.
pub(super) fn matters(visits: &[Visit]) -> bool {
    coldness(visits).into_iter().any(|cold| cold >= WORTH)
}

/// Measures the extra cost of a cold call.
///
/// # Errors
///
/// When the graph cannot be run.
pub(super) fn measure(
    bench: &Bench,
    calibrated: &mut Calibrated,
    tell: &mut dyn FnMut(String),
) -> Result<ElementFit, SampleError> {
    let mut calls = [0.0; VECTORS.len()];
    for (call, vector) in calls.iter_mut().zip(VECTORS) {
        *call = at(bench, calibrated, vector, tell)?;
    }
    Ok(fit(calls))
}

/// Cycles that a cold call with frames of this size takes more.
fn at(
    bench: &Bench,
    calibrated: &mut Calibrated,
    vector: u16,
    tell: &mut dyn FnMut(String),
) -> Result<f64, SampleError> {
    let trial = trial(bench, vector)?;
    let sampled = trial.sample()?;
    let ports = Ports::Samples;
    trial.measure_elements(bench, calibrated, &sampled, &ports, tell);
    let scenario = Scenario { clock: calibrated.counter, ..calibration::forwarder() };
    let estimated = estimate(calibrated, &EstimateInputs { ports, scenario }, &sampled.visits);
    let alone = estimated.map_err(|error| SampleError::Measure(error.to_string()))?.cycles();
    let reached = trial.measured_rate(bench, TIME, sampled.most)?;
    let visits = sampled.visits.iter().zip(coldness(&sampled.visits));
    let cold: f64 =
        visits.map(|(visit, cold)| cold * visit.times / visit.mean_vector.max(1.0)).sum();
    Ok(((reached.cycles - alone.get()) / cold).max(0.0))
}

fn trial(bench: &Bench, vector: u16) -> Result<Trial, SampleError> {
    let library = bench.library();
    let mut sources = SourceMap::new();
    let file = sources.add("cold", GRAPH);
    let mut no_libraries = |_: &str, _: &str| Err(None);
    let (flat, found) = load(&mut sources, file, library, &Globals::default(), &mut no_libraries);
    if found.has_errors() {
        return Err(SampleError::Configuration(found));
    }
    let frames = frames(Destinations::Uniform, ADDRESSES, 64, 1).map_err(SampleError::Measure)?;
    let mut sample =
        FrameMaker::of_frames(frames).map_err(|error| SampleError::Measure(error.to_string()))?;
    let run = SampleRun { vector: vector.into(), ..SampleRun::default() };
    Trial::new(flat, library, &mut sample, run)
}

/// The extra cost of calls with frames of the measured sizes, as a cost.
fn fit([small, large]: [f64; 2]) -> ElementFit {
    let [one, many] = VECTORS.map(f64::from);
    // Cycles per packet are `a + b / B`.
    let per_burst = ((small / one - large / many) / (1.0 / one - 1.0 / many)).max(0.0);
    let cost = Cost::new((large / many - per_burst / many).max(0.0), per_burst);
    let exactly = |value: f64| Estimate { value, low: value, high: value };
    ElementFit {
        cost,
        per_packet: exactly(cost.per_packet.get()),
        per_frame: exactly(cost.per_burst.get()),
        samples: Vec::new(),
        points: VECTORS.len(),
    }
}

#[cfg(test)]
mod tests {
    use linerate_model::units::Packets;

    use super::{
        super::{
            measure::tests::calibrated, microbench::fit as fit_alone,
            packet_counts::tests::trial as tried,
        },
        *,
    };
    use crate::calibration::{ENGINE, ROUND};

    #[test]
    fn elements_are_the_colder_the_more_others_work_between_their_frames() {
        let cold = |text: &str, name: &str| {
            let visits = tried(text, &[]).sample().unwrap().visits;
            let at = visits.iter().position(|visit| visit.name == name).unwrap();
            coldness(&visits)[at]
        };
        // One other for each frame.
        assert_eq!(cold("FromDevice(a) -> d :: Discard", "d"), 1.0 / MANY);
        let chain = format!("FromDevice(a) {} -> d :: Discard", "-> Null".repeat(20));
        assert_eq!(cold(&chain, "d"), 1.0);
        // Others that are called less often count less.
        let rare = "FromDevice(a) -> s :: RandomSample(0.02) -> Counter -> Counter -> Discard; s[1] -> d :: Discard";
        assert!(cold(rare, "d") < 5.0 / MANY, "{}", cold(rare, "d"));
    }

    #[test]
    fn it_matters_in_graphs_of_more_than_a_few_elements() {
        let matters = |text: &str| matters(&tried(text, &[]).sample().unwrap().visits);
        assert!(!matters("FromDevice(a) -> Counter -> Discard"));
        assert!(!matters("FromDevice(a) -> Counter -> Paint(1) -> Discard"));
        assert!(matters("FromDevice(a) -> Counter -> Paint(1) -> Strip(14) -> Discard"));
        assert!(!matters("Idle -> Discard"));
        // The graph that says so is one.
        let bench = Bench::new(linerate_elements::library());
        assert!(super::matters(&trial(&bench, 1).unwrap().sample().unwrap().visits));
    }

    #[test]
    fn the_additional_time_of_calls_is_a_cost() {
        let found = fit([40.0, 180.0]).cost;
        let call = |vector: f64| found.at(Packets::new(vector)).get() * vector;
        assert!((call(1.0) - 40.0).abs() < 1e-9 && (call(256.0) - 180.0).abs() < 1e-9);
        assert!((40.0..180.0).contains(&call(32.0)));
    }

    /// Elements that take nothing alone leave all that the graph takes, dear ones nothing of it.
    #[test]
    fn costs_of_elements_alone_are_not_counted_again() {
        let bench = Bench::new(linerate_elements::library());
        let [free, dear] = [0.0, 1e6].map(|cycles| {
            let sampled = trial(&bench, VECTORS[1]).unwrap().sample().unwrap();
            let mut calibrated = calibrated();
            let alone = || fit_alone(&[cycles; 3]);
            let keys = sampled.visits.into_iter().filter_map(|visit| visit.alone);
            calibrated.alone.extend(keys.map(|key| (key, alone())));
            for class in ["FromPort:capture", ROUND, ENGINE] {
                calibrated.elements.insert(class.into(), alone());
            }
            at(&bench, &mut calibrated, VECTORS[1], &mut |_| {}).unwrap()
        });
        assert!(free > 0.0 && dear == 0.0, "{free} {dear}");
    }

    /// The graph runs, and all of its elements have packets.
    #[test]
    fn the_graph_can_be_run() {
        let bench = Bench::new(linerate_elements::library());
        for vector in VECTORS {
            let visits = trial(&bench, vector).unwrap().sample().unwrap().visits;
            assert!(visits.len() > 30, "{visits:?}");
            assert!(visits.iter().all(|visit| !visit.ordered && !visit.meets), "{visits:?}");
        }
    }
}
