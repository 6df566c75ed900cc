//! Cost of running and of forwarding: memory and system calls.
//!
//! Allocations and locks are counted in the worker crate's own test of the same name, inside the
//! process.

use std::{
    collections::HashMap,
    fs,
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use linerate_test_support::{Lab, require};

use crate::support::{DRIVERS, LINERATE, Program, Scratch, linerate, number, words};

#[test]
fn four_megabytes_are_enough() {
    let ring = "forward --bidirectional ring:a?loop&seed=256 ring:b?loop";
    for command in ["forward null: null:", ring] {
        let line = format!("{command} --arena 4M --count 100000 --json --quiet");
        let summary = linerate(&line).summary();
        assert_eq!(number(&summary["flows"][0], "sent_packets"), 100_000, "{summary}");
        assert_eq!(number(&summary, "buffers_held"), 0, "{summary}");
    }
}

/// Memory of its own beyond the arena stays under 8 MB, with arenas of any size. Pages of the
/// program's file are not counted: unoptimised it has several times the code that is installed (8
/// MB of that are resident).
#[test]
fn little_memory_is_used_beyond_the_arena() {
    for arena in [4, 64] {
        let mut child = Command::new(LINERATE)
            .args(words("forward null: null: --duration 60s --json --no-huge --arena"))
            .arg(format!("{arena}M"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let status = format!("/proc/{}/status", child.id());
        // VmHWM: the most it ever had, which includes start-up.
        let read = || -> u64 {
            let text = fs::read_to_string(&status).unwrap();
            let figure = |name: &str| -> u64 {
                let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
                line.split_whitespace().nth(1).map_or(0, |number| number.parse().unwrap())
            };
            figure("VmHWM:").saturating_sub(figure("RssFile:"))
        };
        // All of the arena is present before the first packet moves, and figures come of packets that have.
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let runs = lines.any(|line| line.contains("\"event\":\"interval\""));
        let most = read();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(runs, "it has ended");
        assert!(most > arena << 10, "the arena never became resident");
        let beyond = most - (arena << 10);
        println!("{beyond} KiB beyond an arena of {arena} MiB");
        assert!(beyond < 8_000, "{beyond} KiB beyond an arena of {arena} MiB");
    }
}

/// The system calls the worker thread makes, by name.
///
/// strace prefixes every line with the thread; the worker is the one that is given its name.
#[track_caller]
fn worker_calls(trace: &str) -> HashMap<String, u64> {
    let naming = trace.lines().find(|line| line.contains("PR_SET_NAME, \"worker-0\""));
    let worker = naming.expect("a worker thread").split_whitespace().next().unwrap();
    let mut calls = HashMap::new();
    for line in trace.lines() {
        let Some((thread, call)) = line.split_once(char::is_whitespace) else { continue };
        // Resumed calls were counted when they began; signals and exits are no calls.
        let call = call.trim_start();
        if thread == worker
            && !call.starts_with("<...")
            && let Some((name, _)) = call.split_once('(')
        {
            *calls.entry(name.to_owned()).or_default() += 1;
        }
    }
    calls
}

/// Runs a counted forwarding under strace, outside any namespace.
#[track_caller]
fn traced(line: &str) -> HashMap<String, u64> {
    let scratch = Scratch::new();
    let file = scratch.file("trace");
    let output = Command::new(require("strace"))
        .args(["--follow-forks", "--output", &file, LINERATE])
        .args(words(line))
        .args(["--json", "--quiet", "--idle", "poll"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    worker_calls(&fs::read_to_string(&file).unwrap())
}

/// Ten times the packets, not one system call more: neither for packets nor for locks, which would
/// show as futex calls when contended.
#[test]
#[ignore = "needs root"]
fn memory_ports_make_no_system_call_per_packet() {
    let null = "forward null: null:";
    let ring = "forward --bidirectional ring:a?loop&seed=512 ring:b?loop";
    let mac = "forward --swap-mac null:?copy null:";
    for command in [null, ring, mac] {
        let few = traced(&format!("{command} --count 200k"));
        let many = traced(&format!("{command} --count 2M"));
        let sum = |calls: &HashMap<String, u64>| calls.values().sum::<u64>();
        println!("{command}: {} calls, then {}: {many:?}", sum(&few), sum(&many));
        // A few that depend on time, not on packets, are none per packet.
        assert!(sum(&many) <= sum(&few) + 20, "{command}: {few:?} then {many:?}");
        assert!(many.get("futex").is_none_or(|&calls| calls <= 4), "{command}: {many:?}");
    }
}

/// Ports on interfaces need the kernel, but once per burst and not per packet.
#[test]
#[ignore = "needs root"]
fn interface_ports_make_system_calls_per_burst() {
    const COUNT: u64 = 20_000;
    for driver in DRIVERS {
        let lab = Lab::new();
        let [a, b, c] = ["a", "b", "c"].map(|label| lab.namespace(label));
        lab.veth(&a, "a0", &b, "b0");
        lab.veth(&b, "b1", &c, "c0");
        let scratch = Scratch::new();
        let file = scratch.file("trace");
        let line = format!("forward {driver}:b0 {driver}:b1 --count {COUNT} --idle poll");
        let strace = require("strace");
        let prefix = [strace.to_str().unwrap(), "--follow-forks", "--output", &file, LINERATE];
        let all = [&prefix[..], &words(&line), &["--json", "--quiet"]].concat();
        let mut forwarder = Program::start_command(&b, b.command(all), &line);
        forwarder.wait_ready();
        // More than it takes, since a generator at full speed may be faster than the forwarder.
        let mut source = Program::start(&a, "generate xdp:a0 --rate max --duration 60s");
        let summary = forwarder.end().summary();
        source.running.signal(rustix::process::Signal::INT);
        source.end().summary();
        assert_eq!(number(&summary["flows"][0], "received_packets"), COUNT, "{summary}");
        let calls = worker_calls(&fs::read_to_string(&file).unwrap());
        let sum: u64 = calls.values().sum();
        println!("{driver}: {sum} calls for {COUNT} packets: {calls:?}");
        assert!(sum < COUNT / 4, "{driver}: {sum} calls for {COUNT} packets: {calls:?}");
    }
}
