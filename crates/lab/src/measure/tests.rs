use std::sync::Mutex;

use super::*;
use crate::point::*;

/// Points are measured one at a time: all of them want the same core.
static ONE: Mutex<()> = Mutex::new(());

fn measured(text: &str) -> Values {
    let _one = ONE.lock();
    let spec = Spec::parse(text).unwrap();
    let (outcome, reason, values) = Bench::new().measure(&spec);
    assert_eq!(outcome, Outcome::Measured, "{text}: {reason:?}");
    assert!(values.values().all(|value| value.is_finite()), "{text}: {values:?}");
    values
}

fn reason(text: &str) -> (Outcome, String) {
    let _one = ONE.lock();
    let spec = Spec::parse(text).unwrap();
    let (outcome, reason, values) = Bench::new().measure(&spec);
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

#[test]
fn latency_needs_two_cores_and_is_never_negative() {
    let _one = ONE.lock();
    let text = r#"{"kind": "latency", "load_percent": 30, "duration_ms": 10}"#;
    let spec = Spec::parse(text).unwrap();
    let (outcome, reason, values) = Bench::new().measure(&spec);
    match outcome {
        Outcome::Measured => assert!(values["latency_p50_ns"] <= values["latency_p99_ns"]),
        Outcome::Void => assert!(reason.as_ref().unwrap().contains("held up"), "{reason:?}"),
        Outcome::Unsupported => assert!(reason.as_ref().unwrap().contains("cores"), "{reason:?}"),
    }
}

#[test]
fn a_pipeline_of_two_cores_ends() {
    let _one = ONE.lock();
    for repetition in 0..20 {
        let text = format!(
            r#"{{"kind": "pipeline", "burst": 4, "duration_ms": 2, "repetition": {repetition}}}"#
        );
        let (outcome, reason, _) = Bench::new().measure(&Spec::parse(&text).unwrap());
        // Void where the other thread has not run in so short a time.
        assert!(outcome != Outcome::Unsupported || reason.unwrap().contains("cores"));
    }
}

#[test]
fn what_a_machine_cannot_do_has_a_reason_and_no_figures() {
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
fn what_does_not_work_is_void() {
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
