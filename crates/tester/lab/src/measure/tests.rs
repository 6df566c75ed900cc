use std::sync::Mutex;

use super::*;
use crate::point::*;

/// Points are measured one at a time: all of them want the same core.
static ONE: Mutex<()> = Mutex::new(());

fn bench() -> Bench {
    Bench::new(linerate_elements::library())
}

fn measured(text: &str) -> Values {
    let _one = ONE.lock();
    let spec = Spec::parse(text).unwrap();
    let (outcome, reason, values) = bench().measure(&spec);
    assert_eq!(outcome, Outcome::Measured, "{text}: {reason:?}");
    assert!(values.values().all(|value| value.is_finite()), "{text}: {values:?}");
    values
}

fn reason(text: &str) -> (Outcome, String) {
    let _one = ONE.lock();
    let spec = Spec::parse(text).unwrap();
    let (outcome, reason, values) = bench().measure(&spec);
    assert!(values.is_empty());
    (outcome, reason.unwrap())
}

#[test]
fn every_kind_in_memory_has_figures() {
    for text in [
        r#"{"kind": "forward", "driver": "null", "duration_ms": 5}"#,
        r#"{"kind": "forward", "bidirectional": true, "touch": "mac", "duration_ms": 5}"#,
        r#"{"kind": "forward", "burst": 1, "work": 100, "duration_ms": 5}"#,
        r#"{"kind": "forward", "accesses": 2, "working_set": 65536, "duration_ms": 5}"#,
        r#"{"kind": "forward", "frame": 9018, "touch": "copy", "duration_ms": 5}"#,
        r#"{"kind": "receive", "duration_ms": 5}"#,
        r#"{"kind": "receive", "driver": "null", "burst": 512, "duration_ms": 5}"#,
        r#"{"kind": "transmit", "burst": 7, "duration_ms": 5}"#,
        r#"{"kind": "transmit", "driver": "null", "duration_ms": 5}"#,
        r#"{"kind": "pipeline", "placement": "same-core", "duration_ms": 5}"#,
        r#"{"kind": "poll-rate", "polls_per_s": 100000, "duration_ms": 5}"#,
        r#"{"kind": "inline", "path": "memory", "duration_ms": 5}"#,
        r#"{"kind": "batch-case", "case": "switch", "duration_ms": 5}"#,
        r#"{"kind": "batch-case", "case": "click", "driver": "null", "duration_ms": 5}"#,
    ] {
        let values = measured(text);
        assert!(values["pps"] > 0.0, "{text}: {values:?}");
    }
}

#[test]
fn a_walk_and_a_load_have_times() {
    let walk = measured(r#"{"kind": "walk", "bytes": 16384, "chains": 4, "duration_ms": 5}"#);
    assert!(walk[value::ACCESS] > 0.0);
    let load = measured(r#"{"kind": "load", "cycles": 1000, "duration_ms": 5}"#);
    assert!(load[value::BURNT] > 0.0 && load["runs"] >= 101.0);
}

#[test]
fn a_graph_accounts_for_its_elements() {
    let values = measured(
        r#"{"kind": "graph", "vector": 16, "destinations": "round-robin", "duration_ms": 25,
            "configuration": "FromPort($FRAMES) -> a :: CycleLoad($W) -> end :: Discard",
            "variables": {"W": "50"}}"#,
    );
    assert!(values[value::VECTOR] > 1.0 && values[value::VECTOR] <= 16.0, "{values:?}");
    assert!(values.contains_key("element.a.cycles_per_packet"));
}

/// Classes without a small configuration of their own: one whose example is another's, and one that
/// wants packets without an Ethernet header.
#[test]
fn classes_are_measured_in_their_examples() {
    for class in ["FullNoteQueue", "StripIPHeader"] {
        let text = format!(r#"{{"kind": "element", "class": "{class}", "duration_ms": 25}}"#);
        assert!(measured(&text)[value::VECTOR] >= 1.0, "{class}");
    }
}

#[test]
fn points_for_two_cores_are_unsupported_on_one() {
    let _one = ONE.lock();
    let mut bench = bench();
    bench.cpu.allowed.truncate(1);
    for text in [
        r#"{"kind": "latency"}"#,
        r#"{"kind": "pipeline"}"#,
        r#"{"kind": "cluster"}"#,
        r#"{"kind": "cluster", "way": "threads", "cores": 1}"#,
    ] {
        let (outcome, reason, _) = bench.measure(&Spec::parse(text).unwrap());
        assert_eq!(outcome, Outcome::Unsupported, "{text}: {reason:?}");
        assert_eq!(reason.unwrap(), "2 threads need as many cores, and there are 1");
    }
}

/// On a machine that others use a try may be void, and says why; none has figures
/// that make no sense.
#[test]
fn latencies_are_in_order() {
    let _one = ONE.lock();
    const BUSY: [&str; 4] = [
        "the sending thread was held up",
        "the worker did not run",
        "packets did not come back",
        "no packet came back",
    ];
    let bench = bench();
    for repetition in 0..10 {
        let text = format!(
            r#"{{"kind": "latency", "load_percent": 30, "duration_ms": 5, "repetition": {repetition}}}"#
        );
        let (outcome, reason, values) = bench.measure(&Spec::parse(&text).unwrap());
        if outcome == Outcome::Void {
            let reason = reason.unwrap();
            assert!(BUSY.iter().any(|busy| reason.contains(busy)), "{reason}");
            continue;
        }
        let possible = bench.cpu.allowed.len() > 1;
        assert_eq!(outcome == Outcome::Measured, possible, "{reason:?}");
        if !possible {
            break;
        }
        let order = [
            "latency_min_ns",
            "latency_p50_ns",
            "latency_p90_ns",
            "latency_p99_ns",
            "latency_max_ns",
        ];
        let latencies = order.map(|name| values[name]);
        assert!(latencies[0] > 0.0 && latencies.is_sorted(), "{latencies:?}");
        let mean = values[value::LATENCY_MEAN];
        assert!((latencies[0]..=latencies[4]).contains(&mean), "{mean} {latencies:?}");
        assert!(values[value::RATE] > 0.0 && values["packets"] > 0.0, "{values:?}");
        let lost = values[value::LOST];
        assert!((0.0..=1.0).contains(&lost), "{lost}");
    }
}

#[test]
fn figures_that_are_none_make_a_point_void() {
    let good = Values::from([("a".into(), 1.0)]);
    assert_eq!(finite(good.clone()).unwrap(), good);
    for wrong in [f64::NAN, f64::INFINITY] {
        let failure = finite(Values::from([("a".into(), 1.0), ("b".into(), wrong)])).unwrap_err();
        assert!(matches!(&failure, Failure::Void(reason) if reason.starts_with("b came out as")));
    }
}

#[test]
fn a_pipeline_of_two_cores_ends() {
    let _one = ONE.lock();
    for repetition in 0..20 {
        let text = format!(
            r#"{{"kind": "pipeline", "burst": 4, "duration_ms": 2, "repetition": {repetition}}}"#
        );
        let (outcome, reason, _) = bench().measure(&Spec::parse(&text).unwrap());
        // Void where the other thread has not run in so short a time.
        assert!(outcome != Outcome::Unsupported || reason.unwrap().contains("cores"));
    }
}

/// Measures a point of several threads; it is void while other load has the cores all the time.
fn measured_at_last(point: &str) -> Values {
    let _one = ONE.lock();
    for repetition in 0..50 {
        let text = format!(r#"{{{point}, "repetition": {repetition}}}"#);
        let (outcome, reason, values) = bench().measure(&Spec::parse(&text).unwrap());
        if outcome == Outcome::Measured {
            return values;
        }
        let reason = reason.unwrap();
        let is_busy = ["no packet came through", "no core's time was taken"];
        assert!(outcome == Outcome::Void && is_busy.contains(&reason.as_str()), "{reason}");
    }
    panic!("{point}: no packet came through in any of fifty times");
}

/// A worker that does everything neither hands over nor waits; a receiver does.
#[test]
fn time_is_said_to_be_for_polling_and_for_handing_over() {
    let values =
        measured_at_last(r#""kind": "cluster", "cores": 1, "work": 100, "duration_ms": 5"#);
    assert_eq!((values[value::POLLING], values[value::HAND_OVER]), (0.0, 0.0));
    assert!(values[value::RHO] > 0.0 && values[value::CYCLES] >= 100.0, "{values:?}");
    let bench = bench();
    if bench.cpu.allowed.len() < 2 {
        return;
    }
    let values =
        measured_at_last(r#""kind": "cluster", "way": "threads", "work": 100, "duration_ms": 30"#);
    assert!(values[value::POLLING] > 0.0 && values[value::HAND_OVER] > 0.0, "{values:?}");
    let parts = values[value::RHO_POLLING] + values[value::RHO_HAND_OVER];
    assert!(parts < values[value::RHO], "{values:?}");
    let (outcome, why) = reason(r#"{"kind": "cluster", "way": "processes"}"#);
    assert_eq!(outcome, Outcome::Unsupported);
    assert_eq!(why, "it is not known what program is a worker");
}

#[test]
fn unsupported_points_have_a_reason_and_no_figures() {
    for (text, part) in [
        (r#"{"kind": "forward", "workers": 5000}"#, "5000 threads"),
        (r#"{"kind": "forward", "burst": 0}"#, "a burst of 0"),
        (r#"{"kind": "forward", "clock_khz": 1}"#, "clock of core"),
        (r#"{"kind": "element", "class": "Frobnicate"}"#, "Frobnicate"),
        (r#"{"kind": "pipeline", "placement": "other-node", "workers": 4000}"#, "node"),
        (r#"{"kind": "poll-rate", "driver": "xdp"}"#, ""),
    ] {
        let (outcome, reason) = reason(text);
        assert_eq!(outcome, Outcome::Unsupported, "{reason}");
        assert!(reason.contains(part), "{reason}");
    }
}

#[test]
fn points_that_fail_are_void() {
    let (outcome, reason) = reason(r#"{"kind": "graph", "configuration": "a -> b"}"#);
    assert_eq!(outcome, Outcome::Void, "{reason}");
    assert!(!reason.is_empty());
}

#[test]
#[ignore = "needs root"]
fn every_kind_over_interfaces_has_figures() {
    for driver in ["packet", "xdp"] {
        for kind in ["forward", "receive", "transmit", "batch-case"] {
            let text = format!(r#"{{"kind": "{kind}", "driver": "{driver}", "duration_ms": 30}}"#);
            assert!(measured(&text)["pps"] > 0.0);
        }
    }
    for path in ["kernel", "ours"] {
        let text = format!(r#"{{"kind": "inline", "path": "{path}", "duration_ms": 30}}"#);
        assert!(measured(&text)["received_percent"] > 0.0);
    }
}

#[test]
#[ignore = "needs root"]
fn frames_no_interface_carries_are_unsupported() {
    let (outcome, reason) = reason(r#"{"kind": "forward", "driver": "xdp", "frame": 9018}"#);
    assert_eq!(outcome, Outcome::Unsupported);
    assert!(reason.contains("1518"), "{reason}");
}
