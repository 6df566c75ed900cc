//! Readiness of a configuration, and the messages to a service manager.

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::net::UnixDatagram,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};

const FOREVER: &str = "InfiniteSource -> c :: Counter -> Discard";

fn linerate(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// A folder that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("linerate-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().into()
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
    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Stands for a service manager.
struct Manager(UnixDatagram);

impl Manager {
    fn new(path: &str) -> Manager {
        let socket = UnixDatagram::bind(path).unwrap();
        // Nothing in the tests takes so long.
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Manager(socket)
    }

    /// The next message with a line `wanted` in it.
    fn until(&self, wanted: &str) -> String {
        let next = || {
            let mut buffer = [0; 4096];
            let length = self.0.recv(&mut buffer).unwrap();
            String::from_utf8_lossy(&buffer[..length]).into_owned()
        };
        std::iter::repeat_with(next).find(|told| told.lines().any(|line| line == wanted)).unwrap()
    }
}

#[test]
fn people_and_programs_are_told_that_it_is_ready() {
    let mut command = linerate(&["run", "-e", FOREVER, "-j", "2", "--interval", "50ms"]);
    let mut run = Running(command.stderr(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(run.0.stderr.take().unwrap()).lines();
    let ready = lines.find(|line| line.as_ref().unwrap().starts_with("linerate: ready")).unwrap();
    assert!(ready.unwrap().ends_with("s: 3 elements on 2 workers"));
    let mut command = linerate(&["run", "-e", FOREVER, "--json", "--interval", "50ms"]);
    let mut run = Running(command.stdout(Stdio::piped()).spawn().unwrap());
    let lines = BufReader::new(run.0.stdout.take().unwrap()).lines();
    let mut events = lines.map(|line| {
        let object: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
        object["event"].as_str().unwrap().to_owned()
    });
    let first: Vec<String> = events.by_ref().take(3).collect();
    assert_eq!(first, ["start", "ready", "interval"]);
}

#[test]
fn scripts_wait_for_it() {
    let folder = Folder::new("ready");
    let socket = folder.path("control.sock");
    let wait = |time: &str| {
        let arguments = ["call", &socket, "--ready", "--timeout", time];
        linerate(&arguments).stderr(Stdio::null()).status().unwrap().success()
    };
    assert!(!wait("10ms"));
    let arguments = ["run", "-e", FOREVER, "-q", "--control", &socket, "--ready-fd", "1"];
    let mut command = linerate(&arguments);
    let mut run = Running(command.stdout(Stdio::piped()).spawn().unwrap());
    assert!(wait("60s"));
    let mut line = String::new();
    BufReader::new(run.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, format!("ready {socket}\n"));
    let closed = linerate(&["run", "-e", "Idle", "--ready-fd", "77"]).output().unwrap();
    assert_eq!(closed.status.code(), Some(2), "{closed:?}");
}

#[test]
fn a_service_manager_hears_of_start_reload_life_and_end() {
    let folder = Folder::new("service");
    let file = folder.path("router.click");
    fs::write(&file, FOREVER).unwrap();
    let notify = folder.path("notify");
    let manager = Manager::new(&notify);
    let until = |wanted: &str| manager.until(wanted);
    let mut command = linerate(&["run", &file, "-q"]);
    command.env("NOTIFY_SOCKET", &notify).env("WATCHDOG_USEC", "20000").stderr(Stdio::null());
    let mut run = Running(command.spawn().unwrap());
    assert!(until("READY=1").contains("STATUS=3 elements on 1 worker"));
    until("WATCHDOG=1");
    fs::write(&file, format!("{FOREVER}; Idle -> Discard")).unwrap();
    run.signal(Signal::HUP);
    assert!(until("RELOADING=1").contains("MONOTONIC_USEC="));
    assert!(until("READY=1").contains("STATUS=5 elements on 1 worker"));
    // One that is wrong: the old one goes on.
    fs::write(&file, "Idle -> Discrad").unwrap();
    run.signal(Signal::HUP);
    until("RELOADING=1");
    assert!(until("READY=1").contains("the old configuration goes on"));
    until("WATCHDOG=1");
    run.signal(Signal::TERM);
    until("STOPPING=1");
    assert!(run.0.wait().unwrap().success());
}

/// Commands that move packets between ports report it as a configuration does.
#[test]
fn commands_between_ports_tell_it_too() {
    let folder = Folder::new("between");
    let file = folder.path("x.pcap");
    for words in [
        &["forward", "ring:a", "ring:b"][..],
        &["capture", "ring:a", &file],
        &["sink", "ring:a"],
        &["generate", "null:", "--rate", "1kpps"],
    ] {
        let notify = folder.path(words[0]);
        let manager = Manager::new(&notify);
        let mut command = linerate(&[words, &["-q", "--ready-fd", "1"]].concat());
        command.env("NOTIFY_SOCKET", &notify).env("WATCHDOG_USEC", "20000");
        let mut run =
            Running(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
        let told = manager.until("READY=1");
        assert!(told.contains(&format!("STATUS={} ", words[0])), "{told}");
        assert!(told.contains(" on 1 worker"), "{told}");
        let mut line = String::new();
        BufReader::new(run.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "{words:?}");
        manager.until("WATCHDOG=1");
        run.signal(Signal::TERM);
        manager.until("STOPPING=1");
        assert!(run.0.wait().unwrap().success(), "{words:?}");
    }
    let closed = linerate(&["sink", "null:", "--ready-fd", "77"]).output().unwrap();
    assert_eq!(closed.status.code(), Some(2), "{closed:?}");
}

/// The events of a command that ends by itself, in the order of its lines.
fn events(arguments: &[&str]) -> Vec<String> {
    let output = linerate(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let lines = String::from_utf8(output.stdout).unwrap();
    let event = |line: &str| {
        let object: serde_json::Value = serde_json::from_str(line).unwrap();
        object["event"].as_str().unwrap().to_owned()
    };
    lines.lines().map(event).collect()
}

/// Also one that has ended before readiness was looked for.
#[test]
fn a_short_run_was_ready_too() {
    for command in [
        &["forward", "null:?count=5", "null:", "--json"][..],
        &["run", "-e", "InfiniteSource(LIMIT 5, STOP true) -> Discard", "--json"],
    ] {
        let events = events(command);
        let [first, second, .., last] = &*events else { panic!("{events:?}") };
        assert_eq!([&**first, second, last], ["start", "ready", "summary"], "{command:?}");
    }
}

/// Packets of a file come as soon as a worker runs.
#[test]
fn packets_come_behind_readiness() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../io/port/tests/data/scapy-nano-little.pcap");
    for _ in 0..5 {
        let events = events(&["capture", "-r", file, "--json"]);
        let [first, second, packets @ .., last] = &*events else { panic!("{events:?}") };
        assert_eq!([&**first, second, last], ["start", "ready", "summary"], "{events:?}");
        assert!(!packets.is_empty() && packets.iter().all(|event| event == "packet"), "{events:?}");
    }
}
