//! `linerate lab compare`: forwarders of others beside ours, and nothing left
//! behind.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use linerate_test_support::{Lab, require};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::LINERATE;

/// Namespaces made by a process.
fn namespaces(id: u32) -> Vec<String> {
    let prefix = format!("linerate-compare-{id}-");
    let entries = fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with(&prefix)).collect()
}

/// Mark of all processes that one comparison starts: a variable, which programs hand on. Other
/// tests have equal peers meanwhile.
const MARK: &str = "LINERATE_TEST_COMPARISON";

/// Programs that a comparison of this mark has started and that have not ended.
fn running(mark: &str) -> Vec<String> {
    let mark = format!("{MARK}={mark}");
    let is_marked = |folder: &Path| {
        let variables = fs::read(folder.join("environ")).unwrap_or_default();
        variables.split(|&byte| byte == 0).any(|variable| variable == mark.as_bytes())
    };
    let folders = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    let name = |folder: PathBuf| fs::read_to_string(folder.join("comm")).ok();
    folders.filter(|folder| is_marked(folder)).filter_map(name).collect()
}

/// Runs it; `watch` sees each object with the process that printed it.
fn compare(mark: &str, line: &str, mut watch: impl FnMut(&Value, Pid)) -> Value {
    // Root, and the programs by which networks are made.
    let _lab = Lab::new();
    let mut child = Command::new("timeout")
        .args(["--foreground", "--kill-after=5", "150", LINERATE, "lab", "compare"])
        .args(line.split_whitespace())
        .args(["--json"])
        .env(MARK, mark)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let guard = Pid::from_child(&child);
    let output = BufReader::new(child.stdout.take().unwrap());
    let mut last = Value::Null;
    for line in output.lines() {
        last = serde_json::from_str(&line.unwrap()).unwrap();
        watch(&last, guard);
    }
    let status = child.wait().unwrap();
    assert!(status.success(), "{status}: {last}");
    assert_eq!(last["event"], "result", "{last}");
    last
}

/// The measured forwarders, and the reasons for the others.
fn measured(result: &Value) -> Vec<String> {
    let rows = result["rows"].as_array().unwrap();
    for row in rows {
        assert!(row["forwarded_pps"]["median"].as_f64().unwrap() > 0.0, "{row}");
        let ratio = &row["ratio"];
        let [low, median, high] = ["low", "median", "high"].map(|key| ratio[key].as_f64().unwrap());
        assert!(0.0 < low && low <= median && median <= high, "{row}");
        assert!(row["latency_p50_ns"].as_f64().unwrap() > 0.0, "{row}");
    }
    rows.iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
#[ignore = "needs root, alone"]
fn at_least_five_peers_are_measured_beside_ours() {
    for program in ["dpdk-testpmd", "ovs-vswitchd", "gcc", "pcap-config"] {
        require(program);
    }
    let result = compare("whole", "--rounds 2 --window 100ms", |_, _| ());
    let found = measured(&result);
    for name in [
        "linerate forward xdp:",
        "linerate forward packet:",
        "linerate run (router) xdp:",
        "testpmd net_af_xdp",
        "testpmd net_af_packet",
        "Open vSwitch userspace",
        "libpcap bridge",
        "Linux bridge",
        "Linux forwarding",
        "linerate forward memif:",
        "testpmd net_memif",
    ] {
        assert!(found.iter().any(|other| other == name), "{name}: {result}");
    }
    // Each had a turn in both rounds, and not always after the same.
    let turns = result["turns"].as_array().unwrap();
    let begins = |round: usize| {
        turns.iter().find(|turn| turn["round"].as_u64() == Some(round as u64)).unwrap()["name"]
            .clone()
    };
    assert_eq!(turns.len(), 2 * found.len());
    assert_ne!(begins(0), begins(1));
    for missing in result["missing"].as_array().unwrap() {
        assert!(!missing["reason"].as_str().unwrap().is_empty());
    }
    assert_eq!(result["interrupted"], false);
}

/// Ctrl-C in the middle of a turn: finished turns are reported, and neither namespaces nor
/// processes are left.
#[test]
#[ignore = "needs root, alone"]
fn an_interrupted_comparison_leaves_nothing() {
    let mut made = None;
    let line = "--rounds 1000 --window 300ms --only open,libpcap";
    let result = compare("interrupted", line, |object, guard| {
        if object["event"] == "turn" && object["round"] == 1 && made.is_none() {
            assert!(running("interrupted").len() > 1, "they are not found");
            // The program is the only child of its guard.
            let children = format!("/proc/{0}/task/{0}/children", guard.as_raw_nonzero());
            let children = fs::read_to_string(children).unwrap();
            let id: i32 = children.split_whitespace().next().unwrap().parse().unwrap();
            made = Some(id as u32);
            kill_process(Pid::from_raw(id).unwrap(), Signal::INT).unwrap();
        }
    });
    assert_eq!(result["interrupted"], true);
    assert_eq!(measured(&result).len(), 3, "{result}");
    let id = made.unwrap();
    assert_eq!(namespaces(id), Vec::<String>::new());
    assert_eq!(running("interrupted"), Vec::<String>::new());
}

#[test]
fn it_says_that_it_needs_root() {
    let unprivileged = [require("setpriv").to_str().unwrap(), "--reuid=65534", "--clear-groups"]
        .map(str::to_owned);
    let root = rustix::process::geteuid().is_root();
    let mut words: Vec<String> = if root { unprivileged.to_vec() } else { Vec::new() };
    words.extend([LINERATE, "lab", "compare"].map(str::to_owned));
    let output = Command::new(&words[0]).args(&words[1..]).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("need root"), "{output:?}");
}
