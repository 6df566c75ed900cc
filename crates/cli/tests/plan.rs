//! `linerate lab calibrate`, `lab report` and `plan` as programs: on made-up results, so that the
//! right answers are known.

use std::{
    path::Path,
    process::{Command, Output},
};

use linerate_lab::{
    point::{Driver, Element, Forward, Outcome, Point, Record, Spec, Values, value},
    store::{MACHINE, Store},
};
use serde_json::{Value, json};

const CLOCK: f64 = 2e9;

/// A directory with results: a `Counter` costs 20 cycles and 64 per frame, a
/// source 10, the engine and a `Discard` nothing.
fn results() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(dir.path()).unwrap();
    store.write_json(MACHINE, &json!({ "id": "made-up", "model": "none" })).unwrap();
    let mut add = |kind: Point, name: &str, figure: f64| {
        let values = [(name.to_owned(), figure), (value::COUNTER.to_owned(), CLOCK)];
        let outcome = (Outcome::Measured, None, Values::from(values));
        store.append(&Record::new(Spec::new(kind), "x", "made-up", outcome)).unwrap();
    };
    for vector in [1, 4, 16, 64, 256] {
        for (class, per_packet, per_frame) in
            [("Counter", 20.0, 64.0), ("InfiniteSource", 10.0, 0.0), ("Discard", 0.0, 0.0)]
        {
            let element = Element { class: class.into(), vector, arguments: None };
            let cycles = per_packet + per_frame / f64::from(vector);
            add(Point::Element(element), value::CYCLES, cycles);
        }
        let forward = Forward { driver: Driver::Ring, burst: vector, ..Forward::default() };
        let cycles = 30.0 + 100.0 / f64::from(vector);
        add(Point::Forward(forward), value::RATE, CLOCK / cycles);
    }
    for work in [100, 200, 400] {
        let forward = Forward { work, ..Forward::default() };
        let cycles = 30.0 + 100.0 / 32.0 + f64::from(work);
        add(Point::Forward(forward), value::RATE, CLOCK / cycles);
    }
    dir
}

fn linerate(dir: &Path, arguments: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_linerate"))
        .current_dir(dir)
        .args(arguments)
        .output()
        .expect("linerate runs");
    eprintln!("{}", String::from_utf8_lossy(&output.stderr));
    output
}

#[track_caller]
fn printed(dir: &Path, arguments: &[&str]) -> String {
    let output = linerate(dir, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
fn refused(dir: &Path, arguments: &[&str]) -> String {
    let output = linerate(dir, arguments);
    assert!(!output.status.success(), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn results_become_a_calibration_and_a_report() {
    let dir = results();
    let text = printed(dir.path(), &["lab", "calibrate", "."]);
    assert!(text.contains("ring ports  receive per packet"), "{text}");
    assert!(dir.path().join("calibration.json").exists());
    let text = printed(dir.path(), &["lab", "report", ".", "--also", "markdown,csv,json,svg"]);
    assert!(text.contains(" 2  pass"), "{text}");
    assert!(text.contains("Not measured here: criteria 1, 3, "), "{text}");
    assert!(!text.contains("cannot be shown") && !text.contains(" 3  "), "{text}");
    for file in ["report.html", "report.md", "report.json", "figures/burst.svg", "tables/gates.csv"]
    {
        assert!(dir.path().join(file).exists(), "{file}");
    }
    let empty = tempfile::tempdir().unwrap();
    let error = refused(empty.path(), &["lab", "report", "."]);
    assert!(error.contains("cannot report .") && error.contains("points.jsonl"), "{error}");
}

fn plan(dir: &Path, arguments: &[&str]) -> Value {
    let all: Vec<&str> = ["plan", ".", "--json"].iter().chain(arguments).copied().collect();
    serde_json::from_str(&printed(dir, &all)).unwrap()
}

#[track_caller]
fn near(found: &Value, wanted: f64) {
    let found = found.as_f64().unwrap_or(f64::NAN);
    assert!((found - wanted).abs() <= 0.01 * wanted, "{found}, not {wanted}");
}

#[test]
fn a_plan_sums_the_costs_of_elements() {
    let dir = results();
    printed(dir.path(), &["lab", "calibrate", "."]);
    let one = "InfiniteSource -> Counter -> Discard";
    // 10 + 20 + 64 / 64.
    let found = plan(dir.path(), &["-e", one, "--burst", "64"]);
    near(&found["cycles_per_packet"], 31.0);
    near(&found["throughput_pps"]["value"], CLOCK / 31.0);
    assert_eq!(found["limit"], "cycles");
    assert_eq!(found["elements"][1]["class"], "Counter");

    let two =
        "InfiniteSource -> s :: RoundRobinSwitch; s[0] -> Counter -> Discard; s[1] -> Discard";
    let lossy = "InfiniteSource(DATA x) -> CheckIPHeader -> Counter -> Discard";
    let noted = |text: &str| {
        let output = linerate(dir.path(), &["plan", ".", "-e", text]);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let note = noted(lossy);
    assert!(note.contains("100 % of the sample packets are dropped at CheckIPHeader"), "{note}");
    // A plan with an unmeasured element is answered, and the element named.
    let note = noted(two);
    assert!(note.contains("nobody has measured what RoundRobinSwitch costs"), "{note}");
    assert!(note.contains("--measure measures it"), "{note}");
    let found = plan(dir.path(), &["-e", two]);
    assert_eq!(
        (&found["elements"][0]["known"], &found["elements"][1]["known"]),
        (&json!(true), &json!(false)),
        "{found}"
    );

    // A link and a faster clock: the link is the limit.
    let found = plan(dir.path(), &["-e", one, "--clock", "20GHz", "--link", "10Gbit/s"]);
    near(&found["throughput_pps"]["value"], 14.88e6);
    assert_eq!(found["limit"], "link");

    let found = plan(dir.path(), &["-e", one, "--burst", "64", "--rate", "100Mpps"]);
    near(&found["wanted"]["clock"]["needed"]["value"], 31.0 * 100e6);
    near(&found["wanted"]["cores"]["needed"]["value"], 2.0);
    assert_eq!(found["wanted"]["task_cycles"]["unreachable"]["limit"], "cycles");
}

/// The speed of this machine must not matter: only that it is measured, and with these arguments.
#[test]
fn rules_are_measured_as_they_are_and_the_answer_is_checked() {
    let dir = results();
    printed(dir.path(), &["lab", "calibrate", "."]);
    let rules = "FromDevice(a) -> IPFilter(allow udp, deny all) -> Counter -> ToPort(packet:b);";
    let error = refused(dir.path(), &["plan", ".", "--check", "-e", rules]);
    assert!(error.contains("no measured cost of FromPort:capture, IPFilter; --measure"), "{error}");
    let found = plan(dir.path(), &["--measure", "--check", "-e", rules]);
    assert_eq!(found["elements"][1]["charged"], "IPFilter(allow udp, deny all)");
    // For so few elements, the extra cost of calls in a graph of many is not needed.
    let file = dir.path().join("calibration.json");
    let known: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(known["elements"]["cold"], Value::Null);
    assert_eq!(found["elements"][0]["charged"], "FromPort:capture");
    let (predicted, measured) = (&found["throughput_pps"]["value"], &found["measured_pps"]);
    let ratio = predicted.as_f64().unwrap() / measured.as_f64().unwrap();
    let error = found["error"].as_f64().unwrap();
    assert!((ratio - 1.0 - error).abs() < 1e-9 && ratio > 0.0, "{found}");
    // Measured costs are kept; other rules are not those.
    let text = printed(dir.path(), &["plan", ".", "--check", "-e", rules]);
    assert!(text.contains("the answer is "), "{text}");
    let other = rules.replace("allow udp", "allow tcp or udp");
    let output = linerate(dir.path(), &["plan", ".", "-e", &other]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    assert!(said.contains("nobody has measured what IPFilter costs"), "{said}");
    assert!(said.contains("--measure measures it"), "{said}");
    let fast = refused(dir.path(), &["plan", ".", "--check", "--clock", "3GHz", "-e", rules]);
    assert!(fast.contains("--clock"), "{fast}");
}

/// All accepted configurations are answered: also those whose packets come from no port.
#[test]
fn configurations_driven_by_timers_are_planned() {
    let dir = results();
    printed(dir.path(), &["lab", "calibrate", "."]);
    let found = plan(dir.path(), &["-e", "Idle -> Discard"]);
    near(&found["throughput_pps"]["value"], 0.0);
    assert!(found["assumed"].as_str().unwrap().contains("no packet comes"), "{found}");
    let text = "InfiniteSource -> Counter -> Queue -> TimedSink(0.001s)";
    let found = plan(dir.path(), &["-e", text]);
    near(&found["throughput_pps"]["value"], 1000.0);
    assert_eq!(found["limit"], "sources");
    assert!(found["throughput_pps"]["low"].as_f64().unwrap() < 1000.0, "{found}");
    let output = linerate(dir.path(), &["plan", ".", "-e", text]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("packets of InfiniteSource come by the clock"), "{said}");
    // Unknown costs widen the interval, and the width without them is printed.
    assert!(said.contains("for what is not known the interval is"), "{said}");
    let idle = plan(dir.path(), &["--check", "-e", "Idle -> Discard"]);
    assert_eq!((&idle["measured_pps"], &idle["error"]), (&json!(0.0), &json!(0.0)), "{idle}");
}

#[test]
fn a_plan_without_a_configuration_is_of_ports() {
    let dir = results();
    printed(dir.path(), &["lab", "calibrate", "."]);
    let found = plan(dir.path(), &["--work", "100", "--burst", "50"]);
    near(&found["throughput_pps"]["value"], CLOCK / 132.0);
    let text = printed(dir.path(), &["plan", ".", "--work", "100", "--rate", "14.88Mpps"]);
    assert!(text.contains("limited by processor cycles"), "{text}");
    assert!(text.contains("for 14.88 Mpps:"), "{text}");
    let error = refused(dir.path(), &["plan", ".", "--port", "xdp"]);
    assert!(error.contains("xdp ports were not measured: there are ring"), "{error}");
    assert!(error.contains("`linerate lab run burst --dir .` measures them"), "{error}");
}

/// A calibration from other experiments.
#[test]
fn costs_that_are_missing_name_the_run_that_measures_them() {
    let dir = results();
    printed(dir.path(), &["lab", "calibrate", "."]);
    let file = dir.path().join("calibration.json");
    let known: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let without = |key: &str| {
        let mut known = known.clone();
        known[key] = json!({});
        std::fs::write(&file, known.to_string()).unwrap();
    };
    let one = "InfiniteSource -> Counter -> Discard";
    without("elements");
    for calibration in [".", "calibration.json"] {
        let error = refused(dir.path(), &["plan", calibration, "-e", one]);
        assert!(error.contains("no measured cost of Counter, Discard, InfiniteSource"), "{error}");
        assert!(error.contains("`linerate lab run elements --dir .` measures those"), "{error}");
        assert!(error.contains("--measure those of this configuration"), "{error}");
    }
    without("drivers");
    for port in ["ring", "tap"] {
        for words in [&[][..], &["-e", one]] {
            let words = [&["plan", ".", "--port", port], words].concat();
            let error = refused(dir.path(), &words);
            assert!(error.contains(&format!("{port} ports were not measured; ")), "{error}");
            assert!(error.contains("`linerate lab run burst --dir .` measures "), "{error}");
        }
    }
}

#[test]
fn errors_of_a_plan_say_the_next_step() {
    let dir = results();
    let error = refused(dir.path(), &["plan", ".", "-e", "Idle -> Discard"]);
    assert!(error.contains("cannot read ./calibration.json"), "{error}");
    assert!(error.contains("`linerate lab run elements --dir results` makes one"), "{error}");
    std::fs::write(dir.path().join("nat.click"), "Idle -> Discard;").unwrap();
    let error = refused(dir.path(), &["plan", "nat.click"]);
    assert!(error.contains("nat.click is not a calibration"), "{error}");
    assert!(error.contains("`linerate lab run elements --dir results` makes one"), "{error}");
    printed(dir.path(), &["lab", "calibrate", "."]);
    let error = refused(dir.path(), &["plan", ".", "-e", "Nonsense -> Discard"]);
    assert!(error.contains("undeclared element 'Nonsense'"), "{error}");
}
