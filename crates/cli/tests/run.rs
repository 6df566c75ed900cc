//! `linerate run` and `check` from end to end: cases without a network.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

fn linerate(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
    command.args(arguments).stdin(Stdio::null());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn json(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// A folder that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("linerate-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A program that does not outlive its test.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Running {
        Running(command.spawn().unwrap())
    }

    fn interrupt(&self) {
        kill_process(Pid::from_child(&self.0), Signal::INT).unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Examples that need interfaces, or guests: they are run between hosts in network namespaces by the
/// tests in `e2e`.
const ON_INTERFACES: [&str; 16] = [
    "arp-responder.click",
    "echo.click",
    "firewall.click",
    "guests.click",
    "host-router.click",
    "load-balancer.click",
    "nat.click",
    "nat64.click",
    "ping-responder.click",
    "port-mirror.click",
    "router.click",
    "router6.click",
    "shaper.click",
    "switch.click",
    "vlan-switch.click",
    "vxlan.click",
];

#[test]
fn every_example_runs() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "click") {
            continue;
        }
        count += 1;
        let name = path.file_name().unwrap().to_str().unwrap();
        let path = path.to_str().unwrap();
        if ON_INTERFACES.contains(&name) {
            let output = linerate(&["check", "--dry", path]).output().unwrap();
            assert!(output.status.success(), "{path}: {}", text(&output.stderr));
            continue;
        }
        let output = linerate(&["run", path, "--duration", "200ms"]).output().unwrap();
        let err = text(&output.stderr);
        assert!(output.status.success(), "{path}: {err}");
        assert!(err.contains("(engine)"), "{path}: {err}");
    }
    assert!(count > ON_INTERFACES.len());
}

/// The switch of guests has a silent uplink by default: frames of one guest are all there are.
#[test]
fn a_switch_of_guests_without_an_uplink_makes_no_frames() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/guests.click");
    let guests = ["A=null:a?count=100", "B=null:b?count=0", "C=null:c?count=0"];
    let mut command = linerate(&["run", "--json", "--duration", "200ms"]);
    let output = command.arg(example).args(guests).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let summary = text(&output.stdout).lines().map(json).next_back().unwrap();
    let elements = summary["elements"].as_array().unwrap();
    let sources = elements.iter().filter(|element| element["class"] == "FromPort");
    let sent: Vec<u64> = sources.map(|source| source["packets"].as_u64().unwrap()).collect();
    assert_eq!(sent.len(), 4, "{summary}");
    assert!(sent.iter().sum::<u64>() <= 100, "{sent:?}");
}

/// Frames of `null:` do not hold bytes that elements wrote into the buffers before.
#[test]
fn frames_out_of_nothing_are_never_those_of_others() {
    let config = "InfiniteSource(DATA \"other packets of this program, longer than a header\", \
        LIMIT 20000) -> Discard;
        FromPort(null:?count=20000, STOP true) -> k :: Classifier(12/88b5 14/00000000, -);
        k -> Discard; k [1] -> others :: Counter -> Discard";
    let output = linerate(&["run", "-e", config, "--json"]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let summary = text(&output.stdout).lines().map(json).next_back().unwrap();
    let elements = summary["elements"].as_array().unwrap();
    let packets = |name: &str| {
        elements
            .iter()
            .find(|element| element["name"] == name)
            .map(|found| found["packets"].clone())
    };
    assert_eq!((packets("k"), packets("others")), (Some(20000.into()), Some(0.into())));
}

#[test]
fn figures_for_programs_balance() {
    let config = "i :: InfiniteSource(LIMIT 1000) -> c :: Counter -> q :: SimpleQueue(100)";
    let config = format!("{config}; q -> Idle; t :: InfiniteSource(LIMIT 1, STOP true) -> Discard");
    let output = linerate(&["run", "-e", &config, "--json", "--simtime"]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let out = text(&output.stdout);
    let lines: Vec<Value> = out.lines().map(json).collect();
    assert_eq!(lines[0]["event"], "start");
    let summary = lines.last().unwrap();
    assert_eq!(summary["event"], "summary");
    assert_eq!(summary["buffers_held"], 0);
    let element = |name: &str| {
        let all = summary["elements"].as_array().unwrap();
        all.iter().find(|element| element["name"] == name).unwrap().clone()
    };
    let (source, counter, queue) = (element("i"), element("c"), element("q"));
    assert_eq!(counter["packets"], source["packets"]);
    let dropped = queue["drops"].as_object().unwrap().values().map(|n| n.as_u64().unwrap());
    assert_eq!(dropped.sum::<u64>(), source["packets"].as_u64().unwrap().saturating_sub(100));
    let worker = &summary["workers"][0];
    let parts = ["io", "task", "idle"].map(|part| worker[part].as_f64().unwrap());
    assert!((parts.iter().sum::<f64>() - 1.0).abs() < 0.02, "{worker}");
}

/// The objects of a run, one per line.
fn objects(config: &str, options: &[&str]) -> Vec<Value> {
    let arguments = [&["run", "-e", config, "--json", "--interval", "20ms"], options].concat();
    let output = linerate(&arguments).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).lines().map(json).collect()
}

/// The rows of a table are all there is, in every interval.
#[test]
fn every_interval_is_whole() {
    let config = "InfiniteSource -> Counter -> Queue -> Unqueue -> Discard;
        RatedSource(RATE 100) -> Queue -> t :: ToPort(null:); Idle -> Discard";
    let events = objects(config, &["--duration", "300ms"]);
    let with_figures = events.iter().filter(|event| event.get("elements").is_some());
    assert!(with_figures.clone().count() > 5, "{events:?}");
    for figures in with_figures {
        let part = |figures: &Value, key: &str| figures[key].as_f64().unwrap();
        let elements = figures["elements"].as_array().unwrap().iter();
        let shares: f64 = elements.map(|element| part(element, "share")).sum();
        let sum = shares + part(figures, "engine_share") + part(figures, "idle_share");
        assert!((sum - 1.0).abs() < 1e-6, "{sum}: {figures}");
        let worker = &figures["workers"][0];
        let sum: f64 = ["io", "task", "idle"].map(|key| part(worker, key)).iter().sum();
        assert!((sum - 1.0).abs() < 1e-6, "{sum}: {figures}");
    }
}

/// A sink that pulls has packets and costs like all others, however few they are.
#[test]
fn packets_of_a_sink_are_those_it_took() {
    let config = "s :: RatedSource(RATE 200, LIMIT 20) -> q :: Queue -> t :: ToPort(null:);
        DriverManager(wait 200ms)";
    let events = objects(config, &[]);
    let summary = events.last().unwrap();
    for element in &summary["elements"].as_array().unwrap()[..3] {
        assert_eq!(element["packets"], 20, "{element}");
        assert!(element["cycles_per_packet"].as_f64().unwrap() > 0.0, "{element}");
        assert!(element["share"].as_f64().unwrap() > 0.0, "{element}");
    }
}

/// The words of the table are plain, and explained where that is asked for.
#[test]
fn an_idle_run_says_idle() {
    let arguments = ["run", "-e", "Idle -> Discard", "--duration", "200ms", "--explain"];
    let output = linerate(&arguments).args(["--interval", "50ms"]).output().unwrap();
    let err = text(&output.stderr);
    let line = err.lines().rfind(|line| line.contains("worker 0:")).unwrap();
    let idle = line.rsplit_once("idle").unwrap().1.trim().trim_end_matches(" %");
    assert!(idle.parse::<f64>().unwrap() > 95.0, "{err}");
    assert!(line.contains("  0 pps") && line.contains("processing"), "{err}");
    assert!(err.lines().any(|line| line.starts_with("(idle) ")), "{err}");
    for word in ["C_IO", "C_task", "C_busy", "cyc/pkt:", "share:", "frame:"] {
        assert!(err.contains(word), "no {word}: {err}");
    }
    assert!(!line.contains("busy"), "{err}");
}

#[test]
fn runs_without_packets_say_so() {
    let folder = Folder::new("nothing");
    let control = folder.0.join("control");
    let control = control.to_str().unwrap();
    let said = |arguments: &[&str]| {
        let output = linerate(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        text(&output.stdout) + &text(&output.stderr)
    };
    let run = said(&["run", "-e", "", "--no-huge", "--duration", "100ms"]);
    assert!(run.contains("nothing runs"), "{run}");
    let switch = ["switch", "--no-huge", "--duration", "100ms", "--control", control];
    let empty = said(&switch);
    assert!(empty.contains("no ports yet") && !empty.contains("EtherSwitch"), "{empty}");
    // Its table is about ports.
    let port = format!("guest=memif:{}", folder.0.join("guest").display());
    let one = said(&[&switch[..], &[&port]].concat());
    assert!(one.contains("port   received") && one.contains("\nguest"), "{one}");
    assert!(!one.contains("FromPort") && !one.contains("no ports yet"), "{one}");
}

/// Once, under the first row, with any columns; and no more than that.
#[test]
fn every_table_explains_its_columns() {
    for line in [
        "forward null: null:",
        "forward --bidirectional ring:a?loop&seed=64 ring:b?loop",
        "generate null: --rate 10kpps",
        "sink null:",
    ] {
        let words: Vec<&str> = line.split_whitespace().collect();
        let mut command = linerate(&words);
        command.args(["--explain", "--duration", "300ms", "--interval", "50ms"]);
        let output = command.output().unwrap();
        let err = text(&output.stderr);
        assert!(output.status.success(), "{line}: {err}");
        for what in ["drop/s: packets dropped", "cyc/pkt: cycles of work", "(C_busy)."] {
            assert_eq!(err.matches(what).count(), 1, "{line}: {err}");
        }
    }
}

/// Output of a program that ends on a terminal.
fn on_terminal(arguments: &[&str], environment: &[(&str, &str)]) -> String {
    let flags = rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY;
    let ours = rustix::pty::openpt(flags).unwrap();
    rustix::pty::grantpt(&ours).unwrap();
    rustix::pty::unlockpt(&ours).unwrap();
    let name = rustix::pty::ptsname(&ours, Vec::new()).unwrap();
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY;
    let theirs = rustix::fs::open(&name, flags, rustix::fs::Mode::empty()).unwrap();
    let mut command = linerate(arguments);
    command.env_remove("NO_COLOR").env("TERM", "xterm").envs(environment.iter().copied());
    command.stdout(Stdio::null()).stderr(Stdio::from(theirs));
    let mut child = Running::start(&mut command);
    drop(command);
    let mut bytes = Vec::new();
    // An error at the end: the other side has no user any more.
    let _ = fs::File::from(ours).read_to_end(&mut bytes);
    child.0.wait().unwrap();
    text(&bytes)
}

#[test]
fn a_terminal_shows_colours_unless_they_are_unwanted() {
    let wrong = ["check", "-e", "Idle -> Discrad"];
    assert!(on_terminal(&wrong, &[]).contains("\x1b["));
    assert!(on_terminal(&wrong, &[("NO_COLOR", "")]).contains("\x1b["));
    for plain in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let text = on_terminal(&wrong, &[plain]);
        assert!(text.contains("Discrad") && !text.contains('\x1b'), "{plain:?}: {text:?}");
    }
    let run = ["run", "-e", "Idle -> Discard", "--duration", "200ms", "--interval", "50ms"];
    assert!(on_terminal(&run, &[]).contains("\x1b[J"));
    assert!(on_terminal(&run, &[("NO_COLOR", "1")]).contains("\x1b[J"));
    let text = on_terminal(&run, &[("TERM", "dumb")]);
    assert!(text.contains("(idle)") && !text.contains('\x1b'), "{text:?}");
}

#[test]
fn ctrl_c_ends_the_run_with_its_totals() {
    let arguments = ["run", "-e", "InfiniteSource -> Discard", "--interval", "50ms"];
    let mut child = Running::start(linerate(&arguments).stderr(Stdio::piped()));
    let mut lines = BufReader::new(child.0.stderr.take().unwrap()).lines();
    // A line of figures: it runs.
    assert!(lines.any(|line| line.unwrap().contains("worker 0")));
    child.interrupt();
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert!(child.0.wait().unwrap().success());
    assert!(rest.iter().any(|line| line.starts_with("(engine)")), "{rest:?}");
}

/// Flows are not packets: a translator's tables take no packet memory.
#[test]
fn only_queues_take_packet_memory() {
    let buffers = |config: &str| {
        let config = format!("{config}; InfiniteSource(LIMIT 1, STOP true) -> Discard");
        let output = linerate(&["run", "-e", &config, "--json", "-q"]).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        json(text(&output.stdout).lines().next().unwrap())["buffers"].as_u64().unwrap()
    };
    let none = buffers("Idle -> Discard");
    let nat = "r :: IPRewriter(pattern 198.18.0.1 1024-65535# - - 0 0);
        s :: EtherSwitch; Idle -> r -> Discard; Idle -> s -> Discard; Idle -> [1] s [1] -> Discard";
    assert_eq!(buffers(nat), none);
    assert!(buffers("Idle -> q :: Queue(10000) -> Discard") > none + 9000);
}

fn fails(arguments: &[&str], code: i32, reason: &str) {
    let Output { status, stderr, .. } = linerate(arguments).output().unwrap();
    assert_eq!(status.code(), Some(code), "{arguments:?}: {}", text(&stderr));
    assert!(text(&stderr).contains(reason), "{arguments:?}: {}", text(&stderr));
}

#[test]
fn errors_are_shown_and_have_their_exit_code() {
    fails(&["run", "-e", "Idle -> Discrad"], 8, "did you mean 'Discard'?");
    fails(&["check", "-e", "Idle -> Queue(x) -> Discard"], 8, "CAPACITY: invalid number");
    fails(&["check", "-e", "Idle -> Queue -> Queue -> Discard"], 8, "pull output 0");
    fails(&["run"], 2, "no configuration");
    fails(&["run", "a.click", "b.click"], 2, "more than one");
    fails(&["run", "-e", "Idle", "--watch"], 2, "--watch needs a FILE");
    fails(&["run", "-e", "Idle", "--simtime", "-j", "2"], 2, "one worker");
    for command in [&["run", "-e", "Idle"][..], &["forward", "null:", "null:"]] {
        fails(&[command, &["--cores", "999"]].concat(), 2, "core 999 cannot be used");
    }
    fails(&["run", "/nonexistent.click"], 5, "/nonexistent.click");
    fails(&["elements", "Que"], 2, "Queue");
    fails(&["call", "/nonexistent.socket", "list"], 5, "/nonexistent.socket");
    fails(&["call", "127.0.0.1:1", "list"], 5, "cannot reach a router at 127.0.0.1:1");
    fails(&["forward", "pcap:x.pcap?speed=8", "null:"], 2, "only with rate=recorded");
    fails(&["replay", "x.pcap", "null:", "--rate", "max", "--speed", "8"], 2, "rate=recorded");
    fails(&["replay", "-", "null:", "--loop", "2"], 2, "loop is of use only for a file");
}

/// The reader of the start message may end the run at once, and gets the figures.
#[test]
fn a_signal_right_behind_the_start_ends_a_run_in_order() {
    for _ in 0..20 {
        let arguments = ["run", "-e", "Idle -> Discard", "--json", "-q"];
        let mut run = Running::start(linerate(&arguments).stdout(Stdio::piped()));
        let mut lines = BufReader::new(run.0.stdout.take().unwrap()).lines();
        assert_eq!(json(&lines.next().unwrap().unwrap())["event"], "start");
        run.interrupt();
        let last = lines.map(Result::unwrap).last();
        assert!(last.is_some_and(|last| json(&last)["event"] == "summary"));
        assert!(run.0.wait().unwrap().success());
    }
}

/// One error for one interface that is not there, and one for a variable that is misspelt.
#[test]
fn a_missing_interface_is_named_once() {
    let router = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/router.click");
    let router = router.to_str().unwrap();
    let said = |arguments: &[&str], code: i32| {
        let output = linerate(arguments).output().unwrap();
        let err = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {err}");
        err
    };
    let err = said(&["check", router, "LEFT=no-such-if0", "RIGHT=no-such-if1"], 4);
    assert!(err.contains("has 2 errors"), "{err}");
    for name in ["no-such-if0", "no-such-if1"] {
        assert_eq!(err.matches(&format!("there is no interface {name:?}")).count(), 1, "{err}");
    }
    let err = said(&["check", router], 4);
    assert!(
        err.contains("\nset LEFT and RIGHT to an interface of this machine, as in LEFT=eth1"),
        "{err}"
    );
    let err = said(&["check", "-e", "define($DEV no-such-if); FromDevice($DEV) -> Discard"], 4);
    assert!(err.contains("\nset DEV to an interface of this machine, as in DEV=eth1"), "{err}");
    let err = said(&["check", router, "LEFT=l", "RIGHT=lo"], 4);
    assert!(err.contains("did you mean lo?") && err.contains("lo has no Ethernet"), "{err}");
    let err = said(&["check", router, "LEFTT=lo"], 2);
    assert!(err.contains("did you mean LEFT=lo?"), "{err}");
    let err = said(&["run", "-e", "Idle -> Discard", "FOO=1"], 2);
    assert!(err.contains("no variable $FOO"), "{err}");
}

/// Devices that cannot be had have their own exit codes also when a configuration names them.
#[test]
fn devices_of_a_configuration_have_their_exit_codes() {
    let folder = Folder::new("devices");
    let missing = folder.0.join("missing.pcap");
    fails(&["run", "-e", "FromDevice(no-such-if0) -> Discard"], 4, "no-such-if0");
    fails(&["check", "-e", "Idle -> ToPort(packet:no-such-if0)"], 4, "no-such-if0");
    let capture = format!("FromPort(pcap:{}) -> Discard", missing.display());
    fails(&["run", "-e", &capture], 5, "missing.pcap");
    fails(&["run", "-e", "FromPort(packet:lo?no=1) -> Discard"], 8, "no option");
    // The other error has to be mended first.
    fails(&["run", "-e", "FromDevice(no-such-if0) -> Queue(x) -> Discard"], 8, "CAPACITY");
}

#[test]
fn words_of_filters_are_marked_once_and_floods_of_errors_end() {
    let config = "f :: IPFilter(allow scr host 1.2.3.4, allow tpc, deny dst prot 5);
        Idle -> f -> Discard";
    let output = linerate(&["check", "-e", config]).output().unwrap();
    let err = text(&output.stderr);
    assert!(err.contains("has 3 errors"), "{err}");
    let marks = err.lines().filter(|line| line.contains('^'));
    let marked: Vec<usize> = marks.map(|line| line.matches('^').count()).collect();
    assert_eq!(marked, ["scr", "tpc", "prot"].map(str::len), "{err}");
    assert!(err.contains("did you mean `src`?") && err.contains("did you mean `tcp`?"), "{err}");
    let folder = Folder::new("binary");
    let path = folder.0.join("binary");
    let bytes: Vec<u8> =
        (0..40_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    fs::write(&path, bytes).unwrap();
    let output = linerate(&["check", path.to_str().unwrap()]).output().unwrap();
    assert_eq!(output.status.code(), Some(8));
    assert!(output.stderr.len() < 20_000, "{}", output.stderr.len());
}

#[test]
fn a_graph_is_shown_in_every_format() {
    for (format, start) in [
        ("--format=text", "2 elements"),
        ("--format=dot", "digraph"),
        ("--format=svg", "<svg"),
        ("--json", "{"),
    ] {
        let arguments = ["check", "-e", "Idle -> d :: Discard", format];
        let output = linerate(&arguments).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(text(&output.stdout).starts_with(start), "{}", text(&output.stdout));
    }
}

#[test]
fn a_changed_file_replaces_the_running_configuration() {
    let folder = Folder::new("watch");
    let path = folder.0.join("router.click");
    fs::write(&path, "i :: InfiniteSource -> c :: Counter -> Discard").unwrap();
    let arguments = ["run", path.to_str().unwrap(), "--watch", "--json", "--interval", "50ms"];
    let mut child =
        Running::start(linerate(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()));
    let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
    let mut notes = BufReader::new(child.0.stderr.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    fs::write(&path, "i :: InfiniteSource -> c :: Conter -> Discard").unwrap();
    assert!(notes.any(|line| line.unwrap().contains("the old configuration goes on")));
    fs::write(&path, "i :: InfiniteSource -> n :: Null -> c :: Counter -> Discard").unwrap();
    assert!(notes.any(|line| line.unwrap().contains("has changed and runs now")));
    let replaced = lines.any(|line| {
        let elements = json(&line.unwrap())["elements"].clone();
        elements.as_array().is_some_and(|all| all.iter().any(|element| element["name"] == "n"))
    });
    assert!(replaced);
    child.interrupt();
    let summary = lines.map(|line| json(&line.unwrap())).find(|line| line["event"] == "summary");
    let summary = summary.unwrap();
    let seconds = |key: &str| summary[key].as_f64().unwrap();
    // Those of the configuration that came last.
    assert!(seconds("counted_seconds") < seconds("seconds"), "{summary}");
    assert!(child.0.wait().unwrap().success());
}

#[test]
fn handlers_of_a_running_router_are_called() {
    let folder = Folder::new("call");
    let socket = folder.0.join("control.sock");
    let socket = socket.to_str().unwrap();
    let config = "i :: InfiniteSource -> c :: Counter -> q :: Queue(10) -> Unqueue -> Discard";
    let arguments = ["run", "-e", config, "--control", socket, "--interval", "50ms"];
    let mut child = Running::start(linerate(&arguments).stderr(Stdio::piped()));
    let mut lines = BufReader::new(child.0.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("worker 0")));
    let call = |arguments: &[&str]| {
        let all = [&["call", socket], arguments].concat();
        let output = linerate(&all).output().unwrap();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, out, err) = call(&["c.count"]);
    assert!(code == Some(0) && out.trim().parse::<u64>().unwrap() > 0, "{out}{err}");
    assert_eq!(call(&["q.capacity", "20"]), (Some(0), String::new(), String::new()));
    assert_eq!(call(&["q.capacity"]).1, "20\n");
    let (code, _, err) = call(&["x.count"]);
    assert!(code == Some(1) && err.contains("(510)"), "{code:?} {err}");
    assert_eq!(call(&["stop", "--write"]).0, Some(0));
    assert!(lines.any(|line| line.unwrap().starts_with("(engine)")));
    assert!(child.0.wait().unwrap().success());
}

/// A capture file whose third packet claims an impossible length.
fn broken_capture(folder: &Folder) -> String {
    let path = folder.0.join("broken.pcap");
    let mut bytes = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65535, 1] {
        bytes.extend(word.to_ne_bytes());
    }
    for length in [60_u32, 60, u32::MAX >> 1] {
        for word in [0, 0, length, length] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend([0; 60]);
    }
    fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().into()
}

#[test]
fn a_run_that_fails_says_why_once() {
    let folder = Folder::new("fails");
    let config = format!("f :: FromPort(pcap:{}) -> Discard", broken_capture(&folder));
    let click = Command::new(env!("CARGO_BIN_EXE_click"))
        .args(["-e", &config])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let ours = linerate(&["run", "-e", &config, "-q"]).output().unwrap();
    for output in [click, ours] {
        let err = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{err}");
        assert_eq!(err.matches("corrupt at byte").count(), 1, "{err}");
    }
}

/// As Click 2.1: a signal ends a run well, and one that a script handles only
/// if that says so.
#[test]
fn signals_end_a_run_unless_a_script_handles_them() {
    for (signal, name) in [(Signal::INT, "INT"), (Signal::TERM, "TERM")] {
        let start = |config: &str| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_click"));
            let config = format!("{config}; Script(TYPE ACTIVE, print \"ready\"); Idle -> Discard");
            let command = command.args(["-e", &config]).stdin(Stdio::null());
            Running::start(command.stdout(Stdio::piped()))
        };
        let lines = |child: &mut Running| BufReader::new(child.0.stdout.take().unwrap()).lines();
        let send = |child: &Running| kill_process(Pid::from_child(&child.0), signal).unwrap();

        let mut plain = start("Idle -> Discard");
        let mut out = lines(&mut plain);
        assert_eq!(out.next().unwrap().unwrap(), "ready");
        send(&plain);
        assert!(out.next().is_none());
        assert_eq!(plain.0.wait().unwrap().code(), Some(0));

        let script = format!("Script(TYPE SIGNAL {name}, print \"caught\")");
        let mut handled = start(&script);
        let mut out = lines(&mut handled);
        assert_eq!(out.next().unwrap().unwrap(), "ready");
        send(&handled);
        assert_eq!(out.next().unwrap().unwrap(), "caught");
        // It goes on, and handles the next one as well.
        send(&handled);
        assert_eq!(out.next().unwrap().unwrap(), "caught");
    }
}

/// A configuration for DPDK runs on any port.
#[test]
fn devices_stand_for_ports() {
    let configuration = "f :: FromDPDKDevice(0) -> ToDPDKDevice(0000:03:00.1);
        DriverManager(wait 50ms, print f.count, print f.uri, stop)";
    let devices = ["--device", "0=null:?count=5", "--device", "0000:03:00.1=null:"];
    let command = |words: &[&str]| linerate(words).args(devices).output().unwrap();
    let run = command(&["run", "-q", "-e", configuration]);
    assert_eq!(text(&run.stdout), "5\nnull:?count=5\n", "{}", text(&run.stderr));
    let check = command(&["check", "-e", configuration]);
    assert!(check.status.success(), "{}", text(&check.stderr));
    let mut click = Command::new(env!("CARGO_BIN_EXE_click"));
    let click = click.args(devices).args(["-e", configuration]).output().unwrap();
    assert_eq!(text(&click.stdout), "5\nnull:?count=5\n", "{}", text(&click.stderr));
    let without = linerate(&["check", "-e", configuration]).output().unwrap();
    assert!(text(&without.stderr).contains("--device 0=xdp:INTERFACE"), "{without:?}");
}

/// Texts for people and JSON are never among the data.
#[test]
fn standard_output_has_the_packets_alone_when_they_go_there() {
    let folder = Folder::new("output");
    let path = folder.0.join("packets.pcap");
    let capture = |options: &[&str]| {
        let all = [&["capture", "null:?count=5", "--format", "pcap"], options].concat();
        let output = linerate(&all).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        output
    };
    let beside = capture(&[path.to_str().unwrap()]);
    assert!(beside.stdout.is_empty() && text(&beside.stderr).contains("captured 5 packets"));
    let file = fs::read(path).unwrap();
    for (options, said) in [(&["-"][..], "captured 5 packets"), (&["-", "--json"], "summary")] {
        let piped = capture(options);
        // The header of the file, which has no time in it.
        assert_eq!((piped.stdout.len(), &piped.stdout[..24]), (file.len(), &file[..24]));
        assert!(text(&piped.stderr).contains(said), "{}", text(&piped.stderr));
    }
}

#[test]
fn a_closed_output_ends_a_command_and_a_full_one_is_an_error() {
    for arguments in [&["completions", "bash"][..], &["elements"], &["elements", "Queue"]] {
        let closed = {
            let mut child = linerate(arguments);
            let (reader, writer) = std::io::pipe().unwrap();
            drop(reader);
            child.stdout(writer).stderr(Stdio::piped()).output().unwrap()
        };
        let said = (closed.status.code(), text(&closed.stderr));
        assert_eq!(said, (Some(0), String::new()), "{arguments:?}");
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let full = linerate(arguments).stdout(full).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(full.status.code(), Some(5), "{arguments:?}: {}", text(&full.stderr));
        assert!(text(&full.stderr).contains("No space left on device"), "{arguments:?}");
    }
}
