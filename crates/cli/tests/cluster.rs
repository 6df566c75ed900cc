//! `linerate cluster`: a server and consumers, each a process, without privileges.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use linerate_port::pcap::Reader;
use rustix::process::{Pid, Signal, kill_process};

/// Sources that wait for no network. The rate is one that a debug build keeps up with, and there is room for
/// more than a second, as a program may run late on a busy machine.
const CONFIG: &str = "s :: RatedSource(LENGTH 100, RATE 5000, LIMIT -1) \
    -> fan :: ConsumerFanOut(a b, recorder, CELLS 8192); FromConsumer(a) -> back :: Counter -> Discard";

fn linerate(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
    command.arg("cluster").args(words).stdin(Stdio::null());
    command
}

fn output(words: &[&str]) -> Output {
    linerate(words).output().unwrap()
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A process that is ended with SIGINT, or killed when the test has failed.
struct Running(Child);

impl Running {
    fn start(words: &[&str]) -> Running {
        let child = linerate(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        Running(child.unwrap())
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    /// Ends it as Ctrl-C does; returns whether all was well, and its standard error.
    fn end(mut self) -> (bool, String) {
        self.signal(Signal::INT);
        let mut said = String::new();
        self.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (self.0.wait().unwrap().success(), said)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until `holds`.
fn wait(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < until, "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// A figure of a consumer, as the server prints it.
fn figure(address: &str, name: &str, key: &str) -> serde_json::Value {
    let lines = text(&output(&["status", address, "--json"]));
    let objects = lines.lines().map(|line| serde_json::from_str(line).unwrap());
    let found = objects.into_iter().find(|object: &serde_json::Value| object["consumer"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {lines}"))[key].clone()
}

fn serve(address: &str, config: &str) -> Running {
    let serve = Running::start(&["serve", "-q", "-e", config, "--socket", address, "--no-huge"]);
    wait("the server listens", || output(&["status", address]).status.success());
    serve
}

#[test]
fn programs_attach_are_shown_changed_detached_and_nothing_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let address = folder.path().join("c.sock").to_str().unwrap().to_owned();
    let file = folder.path().join("trace.pcapng").to_str().unwrap().to_owned();
    let server = serve(&address, CONFIG);
    let recorder = Running::start(&["attach", &address, "recorder", "--write", &file, "-q"]);
    let mut a =
        Running::start(&["attach", &address, "a", "--send", "--json", "--interval", "50ms"]);
    let b = Running::start(&["attach", &address, "b", "-q"]);
    for name in ["a", "b", "recorder"] {
        wait(name, || figure(&address, name, "state") == "attached");
    }
    let taken = output(&["attach", &address, "a"]);
    assert_eq!(taken.status.code(), Some(7), "{taken:?}");
    assert_eq!(output(&["attach", &address, "nobody"]).status.code(), Some(2));
    assert_eq!(output(&["status", "/nowhere/c.sock"]).status.code(), Some(5));

    let balanced = text(&output(&["balance", &address]));
    let lines: Vec<Vec<&str>> =
        balanced.lines().map(|line| line.split_whitespace().collect()).collect();
    let table = [
        ["balancer", "name", "weight", "buckets"],
        ["fan.0", "a", "1", "512"],
        ["fan.0", "b", "1", "512"],
    ];
    assert_eq!(lines[1..], table, "{balanced}");
    let moved = text(&output(&["weights", &address, "fan.0", "1", "0"]));
    assert_eq!(moved, "512 of 1024 buckets of flows have moved\n");
    assert_eq!(output(&["weights", &address, "fan.0", "1"]).status.code(), Some(2));
    // All packets are of one flow, which is a's now; they come back.
    wait("a sends", || figure(&address, "a", "sent").as_u64().unwrap() > 100);
    let shown = text(&output(&["status", &address]));
    assert!(
        shown.lines().next().unwrap().starts_with("name") && shown.contains("recorder"),
        "{shown}"
    );
    let top =
        text(&output(&["top", &address, "--interval", "100ms", "--duration", "300ms", "--json"]));
    let last: serde_json::Value = serde_json::from_str(top.lines().last().unwrap()).unwrap();
    assert!(last["packets_pps"].is_number() && last["time"].as_f64().unwrap() >= 0.3, "{top}");

    text(&output(&["detach", &address, "b"]));
    wait("b has gone", || figure(&address, "b", "state") == "absent");
    assert!(!b.end().0, "it was told to go");
    // One that is killed is replaced.
    let died = figure(&address, "a", "died").as_u64().unwrap();
    let rows = BufReader::new(a.0.stdout.take().unwrap());
    assert!(rows.lines().take(3).all(|line| line.unwrap().contains("\"event\"")));
    a.signal(Signal::KILL);
    wait("a has gone", || figure(&address, "a", "state") == "absent");
    assert!(figure(&address, "a", "died").as_u64().unwrap() <= died + 1);
    drop(a);
    let again = output(&["attach", &address, "a", "-n", "10", "-q"]);
    assert!(again.status.success());

    let (ok, said) = recorder.end();
    assert!(ok && said.contains(" 0 lost because"), "{said}");
    let mut packets = 0;
    let mut reader = Reader::open(&file).unwrap();
    while let Some(record) = reader.next().unwrap() {
        assert_eq!(record.data.len(), 100);
        packets += 1;
    }
    let counted = said.split(' ').next().unwrap().replace(',', "");
    assert!(packets > 100 && counted == packets.to_string(), "{packets}: {said}");

    let waiting = Running::start(&["attach", &address, "b", "-q"]);
    wait("it is attached", || figure(&address, "b", "state") == "attached");
    let (ok, said) = server.end();
    assert!(ok && !said.contains("not given back"), "{said}");
    let left = Instant::now() + Duration::from_secs(60);
    let mut waiting = waiting;
    while waiting.0.try_wait().unwrap().is_none() {
        assert!(Instant::now() < left, "it does not learn that the server has ended");
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(waiting.0.wait().unwrap().code(), Some(7));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "only the capture is left");
}

#[test]
fn recorded_packets_have_their_reception_time_and_the_newest_files_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let address = folder.path().join("r.sock").to_str().unwrap().to_owned();
    let config = "RatedSource(LENGTH 60, RATE 20000, LIMIT -1) -> SetTimestamp(1700000000.5) \
                  -> ToConsumer(recorder)";
    let server = serve(&address, config);
    let traces = folder.path().join("traces");
    fs::create_dir(&traces).unwrap();
    let file = traces.join("t.pcapng").to_str().unwrap().to_owned();
    let words = ["attach", &address, "recorder", "-q", "-n", "1000", "-w", &file];
    text(&output(&[&words[..], &["--rotate-size", "10k", "--keep", "3"]].concat()));
    let mut names: Vec<_> =
        fs::read_dir(&traces).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names.len(), 3, "{names:?}");
    for name in names {
        let name = name.to_str().unwrap().to_owned();
        assert!(name.ends_with("_20231114221320.pcapng") && *name > *"t_00004", "{name}");
        let path = traces.join(name);
        assert!(fs::metadata(&path).unwrap().len() <= 10_240);
        let mut reader = Reader::open(&path).unwrap();
        while let Some(record) = reader.next().unwrap() {
            assert_eq!((record.ts_ns, record.data.len()), (1_700_000_000_500_000_000, 60));
        }
    }
    // Only a file that is begun anew leaves old ones.
    assert!(!output(&[&words[..], &["--keep", "3"]].concat()).status.success());
    assert!(server.end().0);
}

/// There are always more packets than a burst has.
#[test]
fn a_count_of_packets_is_exact() {
    let folder = tempfile::tempdir().unwrap();
    let address = folder.path().join("n.sock").to_str().unwrap().to_owned();
    let server = serve(&address, "InfiniteSource(LENGTH 60) -> ToConsumer(a)");
    let file = folder.path().join("n.pcap").to_str().unwrap().to_owned();
    for count in [1u64, 10, 64, 100] {
        let number = count.to_string();
        let words = ["attach", &address, "a", "-n", &number, "--write", &file, "--json"];
        let said = text(&output(&words));
        let last: serde_json::Value =
            serde_json::from_str(said.lines().next_back().unwrap()).unwrap();
        let mut written = 0;
        let mut reader = Reader::open(&file).unwrap();
        while reader.next().unwrap().is_some() {
            written += 1;
        }
        assert_eq!((last["packets"].as_u64(), written), (Some(count), count), "{said}");
    }
    assert!(server.end().0);
}

#[test]
fn memory_is_said_before_it_is_taken() {
    let config = "Idle -> ConsumerFanOut(a b, c if tcp port 80, CELLS 4000);
        Idle -> q :: Queue(500) -> ToConsumer(d);
        Idle -> i :: InlineConsumer(e, CELLS 100, QUEUE 300) -> Discard";
    let said = text(&output(&["serve", "-e", config, "--precompute", "--socket", "@unused"]));
    assert!(said.contains("12,000 packets held by ConsumerFanOut@"), "{said}");
    assert!(
        said.contains("500 packets held by q") && said.contains("1,024 packets held by"),
        "{said}"
    );
    assert!(said.contains("400 packets held by i when full"), "{said}");
    assert!(said.contains("sysctl vm.nr_hugepages="), "{said}");
    let json = text(&output(&["serve", "-e", config, "--precompute", "--json"]));
    let object: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(object["buffers"].as_u64().unwrap() > 13_924, "{json}");
}

/// The memory of isolated programs beside the arena, as predicted and as mapped.
#[test]
fn memory_of_isolated_programs_is_as_predicted() {
    let socket = format!("@linerate-precompute-{}", std::process::id());
    let config = "Idle -> ConsumerFanOut(shared, copied, CELLS 100, ISOLATED copied);
        Idle -> ConsumerBalancer(one if tcp where src port 80, two, ISOLATED \"one two\", CELLS 5);
        Idle -> ToConsumer(strict, ACCESS write, CELLS 1000);
        FromConsumer(strict, ACCESS isolated, SPARE 30) -> Discard";
    let words = ["serve", "-e", config, "--no-huge"];
    let json = text(&output(&[&words[..], &["--precompute", "--json"]].concat()));
    let object: serde_json::Value = serde_json::from_str(&json).unwrap();
    let own = object["isolated"].as_array().unwrap();
    let names: Vec<&str> = own.iter().map(|own| own["program"].as_str().unwrap()).collect();
    assert_eq!(names, ["copied", "one", "two", "strict"]);
    let said = |name: &str| {
        let found = own.iter().find(|own| own["program"] == name).unwrap();
        found["bytes"].as_u64().unwrap()
    };
    let all: u64 = names.iter().map(|name| said(name)).sum();
    assert_eq!(object["total_bytes"].as_u64().unwrap(), object["bytes"].as_u64().unwrap() + all);

    let server = serve(&socket, config);
    let maps = format!("/proc/{}/maps", server.0.id());
    let mapped = || {
        let maps = fs::read_to_string(&maps).unwrap();
        let of_programs =
            ["memfd:linerate-isolated", "memfd:linerate-directory", "memfd:linerate-channel"];
        let of_programs = |line: &&str| of_programs.iter().any(|name| line.contains(name));
        let size = |line: &str| {
            let (from, to) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
            let number = |text| u64::from_str_radix(text, 16).unwrap();
            number(to) - number(from)
        };
        maps.lines().filter(of_programs).map(size).sum::<u64>()
    };
    let mut before = mapped();
    let mut programs = Vec::new();
    for name in names {
        programs.push(Running::start(&["attach", &socket, name]));
        wait("it is attached", || figure(&socket, name, "attached") == 1);
        assert_eq!(mapped() - before, said(name), "{name}");
        before = mapped();
    }
}

#[test]
fn a_server_that_cannot_listen_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    for (socket, code) in [(file.to_str().unwrap(), 7), ("@", 8)] {
        let output = output(&["serve", "-q", "-e", "Idle -> ToConsumer(a)", "--socket", socket]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{said}");
    }
    let output = output(&["serve", "-q", "-e", "Idle -> ToConsumer(a)"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("linerate cluster serve --socket"), "{said}");
}

/// An inline consumer is stopped, goes on, is killed and comes again: traffic goes on, or stops, as
/// the configuration says, and arrives in order, and nothing of it twice.
#[test]
fn an_inline_consumer_may_be_stopped_and_killed() {
    let folder = tempfile::tempdir().unwrap();
    for (fail, access) in
        [("open", "read"), ("open", "write"), ("closed", "write"), ("open", "isolated")]
    {
        let address = folder.path().join("i.sock").to_str().unwrap().to_owned();
        let file = folder.path().join("trace.pcap").to_str().unwrap().to_owned();
        let config = format!(
            "RatedSource(LENGTH 60, RATE 2000, LIMIT -1) -> NumberPacket(0) \
             -> InlineConsumer(ids, FAIL {fail}, ACCESS {access}, LIMIT 500ms, QUEUE 8192, CELLS 8192) \
             -> ToConsumer(recorder, CELLS 8192)"
        );
        let server = serve(&address, &config);
        let ask = || Running::start(&["attach", &address, "ids", "--send", "-q"]);
        let mut ids = ask();
        wait("it is asked", || figure(&address, "ids", "passed").as_u64().unwrap() > 0);
        let recorder = Running::start(&["attach", &address, "recorder", "--write", &file, "-q"]);
        wait("it records", || figure(&address, "recorder", "packets").as_u64().unwrap() > 0);
        let number = |key: &str| figure(&address, "ids", key).as_u64().unwrap();
        let recorded = || figure(&address, "recorder", "packets").as_u64().unwrap();
        let silent = || {
            // Decided without it, and at least one of them after a time that it let run out.
            let before = number("unasked") + number("unanswered");
            wait("others are decided", || number("unasked") + number("unanswered") > before + 500);
            let before = recorded();
            wait("traffic goes on, or not", || {
                // The scenario: time in which there are packets.
                thread::sleep(Duration::from_millis(50));
                (recorded() > before) == (fail == "open")
            });
        };
        let normal = || {
            wait("it is asked about all", || {
                let before = (number("passed"), number("unasked") + number("unanswered"));
                // The scenario: time in which there are packets.
                thread::sleep(Duration::from_millis(50));
                number("passed") > before.0 && number("unasked") + number("unanswered") == before.1
            });
        };
        ids.signal(Signal::STOP);
        silent();
        assert!(number("unanswered") > 0);
        ids.signal(Signal::CONT);
        normal();
        assert!(number("late") > 0);
        ids.signal(Signal::KILL);
        wait("it has gone", || figure(&address, "ids", "state") == "absent");
        silent();
        drop(ids);
        ids = ask();
        normal();
        let (ok, said) = recorder.end();
        assert!(ok && said.contains(" 0 lost because"), "{said}");
        drop(ids);
        assert!(server.end().0);
        let (mut numbers, mut times) = (Vec::new(), Vec::new());
        let mut reader = Reader::open(&file).unwrap();
        while let Some(record) = reader.next().unwrap() {
            times.push(Duration::from_nanos(record.ts_ns));
            numbers.push(u64::from_le_bytes(record.data[..8].try_into().unwrap()));
        }
        let how = format!("{fail} {access}");
        assert!(numbers.is_sorted_by(|a, b| a < b), "{how}: twice, or out of order");
        let missing = numbers.last().unwrap() - numbers[0] + 1 - numbers.len() as u64;
        assert_eq!(missing == 0, fail == "open", "{how}: {missing} of {}", numbers.len());
        let pause = times.windows(2).map(|two| two[1].saturating_sub(two[0])).max().unwrap();
        println!("{how}: {} packets, the longest time without one {pause:?}", numbers.len());
    }
}
