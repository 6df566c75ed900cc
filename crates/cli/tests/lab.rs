//! `linerate lab run`, `point` and `list` from end to end: cases without a network.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Longest time that anything may take before a test gives up.
const TIMEOUT: Duration = Duration::from_secs(120);

fn lab(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
    command.arg("lab").args(arguments).stdin(Stdio::null());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn succeed(arguments: &[&str]) -> Output {
    let output = lab(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    output
}

/// An experiment whose points are many and short.
fn experiment(dir: &Path) -> String {
    let file = dir.join("short.toml");
    let text = "name = 'short'\ntitle = 'Short'\nabout = ''\nexpect = ''\nrepetitions = 3\n\
        duration_ms = 20\n\
        [[grid]]\nrole = 'fit'\npoint = { kind = 'forward' }\n\
        vary = { driver = ['null', 'ring'], burst = [1, 8, 64], work = [0, 100] }\n\
        [[grid]]\nrole = 'held-out'\npoint = { kind = 'forward', driver = 'ring' }\n\
        vary = { burst = [3, 24] }\n\
        [[grid]]\npoint = { kind = 'load' }\nvary = { cycles = [10, 1000] }\n\
        [[grid]]\npoint = { kind = 'forward', workers = 5000 }\n";
    fs::write(&file, text).unwrap();
    file.display().to_string()
}

fn lines(dir: &Path) -> Vec<Value> {
    let text = fs::read_to_string(dir.join("points.jsonl")).unwrap_or_default();
    // The last line may still be under way.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn keys(dir: &Path) -> BTreeSet<String> {
    let lines = lines(dir);
    let keys: BTreeSet<String> =
        lines.iter().map(|line| line["key"].as_str().unwrap().to_owned()).collect();
    assert_eq!(keys.len(), lines.len(), "a point is there twice");
    keys
}

/// A run that is under way; killed if the test fails.
struct Running(Child);

impl Running {
    fn start(file: &str, dir: &Path) -> Running {
        let mut command = lab(&["run", file, "--dir", dir.to_str().unwrap()]);
        Running(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    /// Signals it once it has measured at least so many points.
    fn signal_after(&self, points: usize, dir: &Path, signal: Signal) {
        let deadline = Instant::now() + TIMEOUT;
        while lines(dir).len() < points {
            assert!(Instant::now() < deadline, "no points come");
            thread::sleep(Duration::from_millis(2));
        }
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn an_interrupted_run_ends_with_the_same_points() {
    let folder = tempfile::tempdir().unwrap();
    let file = experiment(folder.path());
    let (whole, broken) = (folder.path().join("whole"), folder.path().join("broken"));
    succeed(&["run", &file, "--dir", whole.to_str().unwrap()]);
    let expected = keys(&whole);
    assert_eq!(expected.len(), 3 * (12 + 2 + 2 + 1));

    let mut run = Running::start(&file, &broken);
    run.signal_after(3, &broken, Signal::INT);
    assert!(run.0.wait().unwrap().success(), "Ctrl-C ends a run in order");
    let first = keys(&broken);
    assert!(first.len() < expected.len() && first.is_subset(&expected));

    // Killed, and in the middle of a line.
    let mut run = Running::start(&file, &broken);
    run.signal_after(first.len() + 3, &broken, Signal::KILL);
    run.0.wait().unwrap();
    let path = broken.join("points.jsonl");
    let mut torn = fs::read(&path).unwrap();
    torn.extend_from_slice(br#"{"key": "00"#);
    fs::write(&path, torn).unwrap();

    let output = succeed(&["run", &file, "--dir", broken.to_str().unwrap(), "--json"]);
    assert_eq!(keys(&broken), expected);
    let printed = text(&output.stdout);
    let summary: Value = serde_json::from_str(printed.lines().last().unwrap()).unwrap();
    let (done, skipped) = (&summary["done"], &summary["skipped"]);
    assert_eq!(done.as_u64().unwrap() + skipped.as_u64().unwrap(), expected.len() as u64);
    assert!(skipped.as_u64().unwrap() >= 6);

    // Everything is there: nothing is measured.
    let output = succeed(&["run", &file, "--dir", broken.to_str().unwrap()]);
    assert!(text(&output.stdout).starts_with("0 points in"), "{}", text(&output.stdout));
    let kept = fs::read_to_string(broken.join("experiments/short.toml")).unwrap();
    assert_eq!(kept, fs::read_to_string(&file).unwrap());
    let machine: Value =
        serde_json::from_str(&fs::read_to_string(broken.join("machine.json")).unwrap()).unwrap();
    assert!(lines(&broken).iter().all(|line| line["machine"] == machine["id"]));
}

/// An experiment whose second point takes hours.
fn hanging(dir: &Path) -> String {
    let file = dir.join("hanging.toml");
    let text = "name = 'hanging'\ntitle = ''\nabout = ''\nexpect = ''\nrepetitions = 1\n\
        duration_ms = 5\n\
        [[grid]]\npoint = { kind = 'forward', burst = 2048 }\n\
        vary = { work = [0, 4294967295] }\n";
    fs::write(&file, text).unwrap();
    file.display().to_string()
}

#[test]
fn a_run_ends_during_a_point_that_does_not_and_leaves_no_process() {
    let folder = tempfile::tempdir().unwrap();
    let file = hanging(folder.path());
    for (name, signal) in [("stopped", Signal::INT), ("killed", Signal::KILL)] {
        let dir = folder.path().join(name);
        let mut run = Running::start(&file, &dir);
        run.signal_after(1, &dir, Signal::CONT);
        let id = run.0.id();
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
        let measuring: Vec<&str> = children.split_whitespace().collect();
        assert_eq!(measuring.len(), 1, "{children}");
        run.signal_after(1, &dir, signal);
        let status = run.0.wait().unwrap();
        assert_eq!(status.success(), signal == Signal::INT, "{status}");
        // A killed process is gone as soon as its parent has asked for its status.
        let path = format!("/proc/{}/cmdline", measuring[0]);
        let deadline = Instant::now() + TIMEOUT;
        while fs::read(&path).is_ok_and(|line| !line.is_empty()) {
            assert!(Instant::now() < deadline, "it goes on measuring");
            thread::sleep(Duration::from_millis(5));
        }
        let lines = lines(&dir);
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0]["outcome"], "measured");
    }
}

#[test]
fn a_void_point_is_measured_again() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    let spec = r#"{"kind": "load", "cycles": 100, "duration_ms": 2}"#;
    succeed(&["point", spec, "--dir", dir]);
    let path = folder.path().join("points.jsonl");
    let mut record = lines(folder.path()).remove(0);
    record["outcome"] = "void".into();
    record["reason"] = "held up".into();
    record["values"] = Value::Object(Default::default());
    fs::write(&path, format!("{record}\n")).unwrap();
    let again = succeed(&["point", spec, "--dir", dir]);
    let again: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(again["outcome"], "measured");
    // The last line counts, and is not added to.
    assert_eq!(lines(folder.path()).len(), 2);
    succeed(&["point", spec, "--dir", dir]);
    assert_eq!(lines(folder.path()).last(), Some(&again));
    assert_eq!(lines(folder.path()).len(), 2);
}

#[test]
fn unsupported_points_are_kept_with_their_reason() {
    let folder = tempfile::tempdir().unwrap();
    let spec = r#"{"kind": "forward", "workers": 5000}"#;
    let output = succeed(&["point", spec, "--dir", folder.path().to_str().unwrap()]);
    let record: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(record["outcome"], "unsupported");
    assert!(record["reason"].as_str().unwrap().contains("5000 threads"));
    assert_eq!(record["values"].as_object().unwrap().len(), 0);
}

#[test]
fn a_point_is_one_line_however_often_it_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("results");
    let dir = dir.to_str().unwrap();
    let spec = r#"{"kind": "forward", "burst": 4, "duration_ms": 5}"#;
    // The point of equal parameters, otherwise written, and from a file.
    let file = folder.path().join("spec.json");
    fs::write(&file, r#"{"duration_ms": 5, "seed": 1, "burst": 4, "kind": "forward"}"#).unwrap();
    let first = text(&succeed(&["point", spec, "--dir", dir]).stdout);
    let second = text(&succeed(&["point", file.to_str().unwrap(), "--dir", dir]).stdout);
    assert_eq!(first, second);
    assert_eq!(first.lines().count(), 1);
    assert_eq!(lines(Path::new(dir)).len(), 1);
    let record: Value = serde_json::from_str(&first).unwrap();
    assert_eq!(record["outcome"], "measured");
    assert!(record["values"]["pps"].as_f64().unwrap() > 0.0);

    // The command in the record measures the same point, through a shell.
    let command = record["command"].as_str().unwrap();
    let program = format!("'{}' ", env!("CARGO_BIN_EXE_linerate"));
    let command = command.replacen("linerate ", &program, 1);
    let output = Command::new("sh").args(["-c", &command]).output().unwrap();
    assert!(output.status.success(), "{command}: {}", text(&output.stderr));
    let again: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(again["key"], record["key"]);
    assert_eq!(again["spec"], record["spec"]);
}

#[test]
fn wrong_specs_are_refused() {
    for (spec, part) in [
        (r#"{"kind": "forward", "brust": 4}"#, "unknown field `brust`, expected one of"),
        (r#"{"kind": "fly"}"#, "unknown variant `fly`"),
        (r#"{"kind": "forward", "duration_ms": -1}"#, "`duration_ms` is -1"),
    ] {
        let output = lab(&["point", spec]).output().unwrap();
        assert_eq!(output.status.code(), Some(8), "{spec}");
        assert!(output.stdout.is_empty());
        assert!(text(&output.stderr).contains(part), "{}", text(&output.stderr));
    }
    let folder = tempfile::tempdir().unwrap();
    let file = experiment(folder.path());
    let wrong = fs::read_to_string(&file).unwrap().replace("burst", "brust");
    fs::write(&file, wrong).unwrap();
    let output = lab(&["run", &file]).current_dir(folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(8));
    assert!(text(&output.stderr).contains("grid 1: unknown field `brust`"));
    assert!(!folder.path().join("lab-results").exists(), "nothing is begun");
    // Another experiment of the name of one that is there.
    let other = fs::read_to_string(&file).unwrap().replace("brust", "burst");
    fs::write(&file, other.replace("'short'", "'burst'")).unwrap();
    let output = lab(&["run", "all", &file]).current_dir(folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("two experiments are called burst"));
    let missing = folder.path().join("missing");
    for line in [["report", missing.to_str().unwrap()], ["run", "missing.toml"]] {
        let output = lab(&line).current_dir(folder.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(5));
        let said = text(&output.stderr);
        assert_eq!(said.matches("No such file").count(), 1, "{said}");
    }
    let output = lab(&["run", "brust"]).current_dir(folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("no experiment is called brust"));
}

#[test]
fn a_device_without_a_core_of_its_own_is_refused() {
    let configuration = "FromPort($IN) -> ToPort($OUT)";
    for cores in [&["--cores", "0"][..], &["--cores", "0,1", "-j", "2"]] {
        let output = lab(&[&["ndr", "-e", configuration], cores].concat()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{cores:?}");
        let said = text(&output.stderr);
        assert!(said.contains("for generator and sink and for each worker"), "{said}");
    }
}

/// The workers are processes, which this program starts from itself.
#[test]
fn packets_are_handed_over_to_processes_of_this_program() {
    let measure = |repetition: u32| -> Value {
        let point = r#""kind": "cluster", "way": "processes", "work": 100, "duration_ms": 40"#;
        let spec = format!(r#"{{{point}, "repetition": {repetition}}}"#);
        serde_json::from_slice(&succeed(&["point", &spec]).stdout).unwrap()
    };
    // Where others have the cores all the time no packet comes through.
    let mut records = (0..20).map(measure);
    let record = records.find(|record| record["outcome"] != "void").unwrap();
    if std::thread::available_parallelism().unwrap().get() < 2 {
        assert_eq!(record["outcome"], "unsupported", "{record}");
        return;
    }
    assert_eq!(record["outcome"], "measured", "{record}");
    let figure = |name: &str| record["values"][name].as_f64().unwrap();
    assert!(figure("pps") > 0.0 && figure("hand_over_share") > 0.0, "{record}");
    let parts = figure("rho_polling_percent_per_gbit") + figure("rho_hand_over_percent_per_gbit");
    assert!(parts < figure("rho_percent_per_gbit"), "{record}");
}

#[test]
fn experiments_are_listed_with_points_that_are_points() {
    let listed = text(&succeed(&["list"]).stdout);
    for name in
        ["burst", "io-cost", "walk", "latency", "elements", "inline", "cluster", "batch-case"]
    {
        assert!(listed.lines().any(|line| line.starts_with(name)), "{name}: {listed}");
    }
    let points = text(&succeed(&["list", "burst", "--quick", "--json"]).stdout);
    assert!(points.lines().count() > 10);
    for line in points.lines() {
        let point: Value = serde_json::from_str(line).unwrap();
        assert!(["forward", "receive", "transmit"].contains(&point["kind"].as_str().unwrap()));
    }
    // Experiments share points: each is listed once.
    let count = |names: &[&str]| {
        let words = [&["list", "--quick", "--json"], names].concat();
        let points = text(&succeed(&words).stdout);
        let different: BTreeSet<&str> = points.lines().collect();
        assert_eq!(different.len(), points.lines().count(), "{names:?}");
        different.len()
    };
    assert!(count(&["burst", "io-cost"]) < count(&["burst"]) + count(&["io-cost"]));
    assert!(text(&succeed(&["list", "walk"]).stdout).contains("Expected: Latency rises"));
}
