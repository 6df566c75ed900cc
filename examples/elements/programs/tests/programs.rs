//! Tests of the programs of this project, run as their users run them.

use std::{fs, process::Command};

/// Runs a program; returns its output, errors included, and true if it succeeded.
fn started(program: &str, arguments: &[&str]) -> (String, bool) {
    let mut command = Command::new(program);
    command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).args(arguments);
    let output = command.output().expect("it starts");
    let text = [output.stdout, output.stderr].concat();
    (String::from_utf8(text).expect("text"), output.status.success())
}

fn linerate(arguments: &[&str]) -> String {
    let (text, done) = started(env!("CARGO_BIN_EXE_linerate"), arguments);
    assert!(done, "{arguments:?}: {text}");
    text
}

#[test]
fn all_are_documented() {
    let library = linerate_elements::library();
    linerate_elements_testing::assert_documented(example_elements::CLASSES, &library);
}

#[test]
fn run_counts_dropped_packets() {
    let text = linerate(&["run", "neighbour.click", "--simtime"]);
    for line in [
        "link: 2 dropped: standby",
        "near: 1 dropped: too far away",
        "once: 2 dropped: duplicate",
        "messages   Counter                  3 ",
    ] {
        assert!(text.contains(line), "no {line} in\n{text}");
    }
}

#[test]
fn check_knows_their_ports_and_arguments() {
    let text = linerate(&["check", "neighbour.click"]);
    assert!(
        text.contains("near :: TTLSecurity(1), worker 0\n  output 0  push -> once\n"),
        "{text}"
    );
    let wrong = "Idle -> TTLSecurity(256) -> Discard";
    let (text, done) = started(env!("CARGO_BIN_EXE_linerate"), &["check", "-e", wrong]);
    assert!(!done && text.contains("error: HOPS: out of range, bound 255\n"), "{text}");
}

#[test]
fn elements_explains_them() {
    let text = linerate(&["elements", "DropDuplicates"]);
    assert!(text.starts_with("DropDuplicates: drops packets that came a moment ago\n"), "{text}");
    assert!(text.ends_with("\nSource\n  src/drop_duplicates.rs\n"), "{text}");
    assert!(linerate(&["elements"]).contains("\nexample\n  DropDuplicates "));
}

/// The entry of the costs of elements in a calibration, and one without any cost.
const ELEMENTS: &str = r#""elements":{"#;
const COLD: &str = r#""cold": {
    "cost": {"per_packet": 0.0, "per_burst": 0.0},
    "per_packet": {"value": 0.0, "low": 0.0, "high": 0.0},
    "per_frame": {"value": 0.0, "low": 0.0, "high": 0.0},
    "samples": [],
    "points": 2
}"#;

#[test]
fn plan_measures_them() {
    let results = concat!(env!("CARGO_TARGET_TMPDIR"), "/example-elements");
    // Of an earlier run.
    let _ = fs::remove_dir_all(results);
    for class in ["InfiniteSource", "Discard"] {
        for vector in [1, 64] {
            let point = format!(
                r#"{{"kind": "element", "class": "{class}", "vector": {vector}, "duration_ms": 5}}"#
            );
            linerate(&["lab", "point", &point, "--dir", results]);
        }
    }
    linerate(&["lab", "calibrate", results]);
    // The extra cost of elements in a graph of many is no matter here, and takes a minute to
    // measure.
    let file = format!("{results}/calibration.json");
    let known = fs::read_to_string(&file).expect("a calibration");
    assert!(known.contains(ELEMENTS), "{known}");
    fs::write(&file, known.replace(ELEMENTS, &format!("{ELEMENTS}{COLD},"))).expect("written");
    let configuration = r"InfiniteSource(DATA \<45 00 00 14 00 00 00 00 ff>)
        -> near :: TTLSecurity(1) -> once :: DropDuplicates -> Discard";
    let text = linerate(&["plan", results, "--measure", "-e", configuration]);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for row in ["near TTLSecurity 1.000 ", "once DropDuplicates 1.000 "] {
        assert!(words.contains(row), "no {row} in\n{text}");
    }
}

#[test]
fn click_knows_them() {
    let arguments =
        ["--simtime", "neighbour.click", "-h", "messages.count", "-h", "once.duplicates"];
    let (text, done) = started(env!("CARGO_BIN_EXE_click"), &arguments);
    assert!(done);
    assert_eq!(text, "messages.count:\n3\n\nonce.duplicates:\n2\n\n");
}
