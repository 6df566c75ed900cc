//! `cargo xtask bench switch tables`: cost of a packet in a switch with flow tables, beside Open
//! vSwitch with its datapath in user space.
//!
//! Packets of 64 bytes come from a capture in memory that is passed through again and again, by the ports
//! that both have for that: DPDK's `net_pcap` with `infinite_rx`, and ours with `loop`. Both copy
//! each packet into a buffer of their own. They go to a port that takes everything and frees it. Rules are
//! the same file. Cycles are those of the switch's core in rounds with packets, receive and free
//! included.

use std::fmt::Write as _;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure as hold};
use serde_json::{Value, json};

use super::baseline::Baseline;
use super::frames::Capture;
use super::ours::Ours;
use super::peers::open_vswitch::DpdkPort;
use super::peers::{Memory, OpenVswitch, Peer, ensure, open_vswitch};
use super::priority::Priority;
use super::restore::{RestoreOnDrop, unique_name};
use super::routers::Finite;
use super::row::{Row, row};
use crate::shell;

const PEER: &str = "Open vSwitch";
const BURST: u32 = 256;
/// Flows where there are many.
const MANY: usize = 10_000;
/// Packets of one flow in a capture: as many as of many flows, so that the memory they are in is as far.
const SAME: usize = 10_000;
/// Packets none of which is like another: many more than ours remembers. Open vSwitch has them in
/// buffers, and does not come to the end of these in a measurement.
const NEW: usize = 2_000_000;
const NEW_OF_PEER: usize = 40_000;
/// Short, so that it meets few of its flows, or none, a second time.
const NEW_TIME: Duration = Duration::from_millis(100);
/// Time for Open vSwitch to see its flows, and for caches to fill.
const SETTLE: Duration = Duration::from_millis(400);
/// Settings of Open vSwitch that are measured; the better counts.
const SETTINGS: [(&str, &[&str]); 2] =
    [("exact-match cache", &[]), ("signature cache", &["other_config:smc-enable=true"])];

/// A case: its name, the most cycles a packet may cost, its traffic and its rules.
const CASES: [(&str, Option<f64>, Traffic, Rules); 7] = [
    ("one flow to a port", Some(40.0), Traffic::One, Rules::Port),
    ("one flow, rule of IP", Some(50.0), Traffic::One, Rules::Ip),
    ("10,000 flows, one rule", Some(70.0), Traffic::Many, Rules::Ip),
    ("10,000 exact rules", Some(110.0), Traffic::Many, Rules::Exact),
    ("500 prefixes", Some(120.0), Traffic::Many, Rules::Prefixes),
    ("every packet new", None, Traffic::New, Rules::Copied),
    ("the same, not kept", None, Traffic::New, Rules::Copied),
];
/// The case that is measured with nothing remembered, on our side alone.
const UNKEPT: usize = 6;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Traffic {
    One,
    Many,
    New,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rules {
    /// All of a port.
    Port,
    /// All of an address range.
    Ip,
    /// A rule for each flow.
    Exact,
    /// Address ranges of several lengths.
    Prefixes,
    /// A rule that copies addresses and ports, so that a decision holds for a flow alone.
    Copied,
}

/// A flow of UDP.
#[derive(Debug, Clone, Copy)]
struct Flow {
    from: Ipv4Addr,
    to: Ipv4Addr,
    ports: (u16, u16),
}

/// Flows in 10.0.0.0/8 that are the same in every run.
fn flows(count: usize) -> impl Iterator<Item = Flow> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    (0..count).map(move |_| {
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let (addresses, ports) = (next(), next());
        let address = |bits: u64| Ipv4Addr::from(0x0a00_0000 | bits as u32 & 0x00ff_ffff);
        let port = |bits: u64| bits as u16 | 1024;
        let ports = (port(ports), port(ports >> 16));
        Flow { from: address(addresses), to: address(addresses >> 24), ports }
    })
}

fn rules(kind: Rules) -> String {
    let mut text = String::new();
    let mut line = |matching: &str| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{matching},actions=output:2");
    };
    match kind {
        Rules::Port => line("in_port=1"),
        Rules::Ip => line("ip,nw_dst=10.0.0.0/8"),
        Rules::Exact => return exact_rules(MANY),
        Rules::Prefixes => {
            line("priority=1,ip,nw_dst=10.0.0.0/8");
            for (number, Flow { to, .. }) in flows(499).enumerate() {
                let length = 12 + number as u32 % 13;
                let range = Ipv4Addr::from(u32::from(to) >> (32 - length) << (32 - length));
                line(&format!("priority={},ip,nw_dst={range}/{length}", 100 + length));
            }
        }
        Rules::Copied => {
            return "udp,actions=move:NXM_OF_IP_SRC[]->NXM_NX_REG0[],\
                    move:NXM_OF_IP_DST[]->NXM_NX_REG1[],\
                    move:NXM_OF_UDP_SRC[]->NXM_NX_REG2[0..15],output:2\n"
                .to_owned();
        }
    }
    text
}

/// So many rules, each for one flow.
pub(super) fn exact_rules(count: usize) -> String {
    let mut text = String::new();
    for Flow { from, to, ports: (source, destination) } in flows(count) {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "udp,nw_src={from},nw_dst={to},tp_src={source},tp_dst={destination},actions=output:2"
        );
    }
    text
}

fn capture(kind: Traffic, is_peer: bool) -> Capture {
    let mut capture = Capture::new();
    let mut add = |Flow { from, to, ports }| capture.udp(from, ports.0, to, ports.1);
    match (kind, is_peer) {
        (Traffic::One, _) => {
            let one = flows(1).next().unwrap_or_else(|| unreachable!("there is one"));
            (0..SAME).for_each(|_| add(one));
        }
        (Traffic::Many, _) => flows(MANY).for_each(add),
        (Traffic::New, true) => flows(NEW_OF_PEER).for_each(add),
        (Traffic::New, false) => flows(NEW).for_each(add),
    }
    capture
}

/// Cases with counted instructions: all but those in which every packet is new.
pub(super) fn counted() -> impl Iterator<Item = &'static str> {
    CASES.into_iter().filter(|(.., kind)| *kind != Rules::Copied).map(|(name, ..)| name)
}

/// A case that comes to an end, and the same without the switch.
pub(super) fn finite(folder: &Path, case: &str, rounds: u32) -> Result<[Finite; 2]> {
    let found = CASES.into_iter().find(|(name, ..)| *name == case);
    let (_, _, traffic, kind) = found.context("there is no such case")?;
    let capture = capture(traffic, false).write(folder, &format!("{traffic:?}"))?;
    let file = folder.join(format!("rules-{kind:?}"));
    fs::write(&file, rules(kind))?;
    let source = format!("FromPort(pcap:{}?loop={rounds}, STOP true)", capture.display());
    let text = format!(
        "{source} -> s :: FlowSwitch(TABLES 1, FILE {}); Idle -> [1] s; s [0] -> Discard;
         s [1] -> end :: Discard;",
        file.display()
    );
    let without = format!("{source} -> end :: Discard;");
    Ok([text, without].map(|text| Finite { text, at: "end" }))
}

/// Settings of the measurement.
#[derive(Debug, Clone, Copy)]
pub(super) struct TableSettings {
    pub(super) repetitions: u32,
    pub(super) ms: u64,
    pub(super) json: bool,
}

struct Bench {
    wanted: TableSettings,
    ours: Ours,
    theirs: PathBuf,
    memory: Memory,
    folder: PathBuf,
    _undo: RestoreOnDrop,
}

/// Measures, and returns the result where it is to be JSON.
pub(super) fn run(wanted: TableSettings) -> Result<Value> {
    let ours = Ours::build()?;
    if let Err(refusal) = ensure(Peer::Dpdk) {
        bail!("{refusal}: there is no switch to measure beside");
    }
    hold!(shell::is_root(), "Open vSwitch makes an interface of its own, which needs root");
    let theirs = open_vswitch::provide()?;
    let _priority = Priority::raise();
    let memory = Memory::reserve_for_two();
    let folder = std::env::temp_dir().join(unique_name());
    fs::create_dir(&folder)?;
    let undo = {
        let folder = folder.clone();
        RestoreOnDrop::by(move || drop(fs::remove_dir_all(folder)))
    };
    let mut baseline = Baseline::new(None)?;
    baseline.sample(&memory, wanted.repetitions, Duration::from_millis(wanted.ms))?;
    let bench = Bench { wanted, ours, theirs, memory, folder, _undo: undo };
    let mut rows: Vec<Row> = Vec::new();
    for repetition in 1..=wanted.repetitions {
        if !wanted.json {
            eprintln!("measuring, {repetition} of {}", wanted.repetitions);
        }
        let mut kept = f64::NAN;
        for (number, (name, _, traffic, kind)) in CASES.into_iter().enumerate() {
            let file = bench.file(&format!("rules-{kind:?}"), || Ok(rules(kind).into_bytes()))?;
            let ours = bench.ours(traffic, &file, number == UNKEPT)?;
            if number == UNKEPT {
                let row = row(&mut rows, name, BURST, "ours, kept");
                row.ours.push(ours);
                row.theirs.push(kept);
                continue;
            }
            kept = ours;
            let mut best = f64::INFINITY;
            for (_, settings) in SETTINGS {
                best = best.min(bench.theirs(traffic, &file, settings)?);
            }
            let row = row(&mut rows, name, BURST, PEER);
            row.ours.push(ours);
            row.theirs.push(best);
        }
    }
    bench.print(&rows, &baseline)
}

impl Bench {
    /// A file that is made once.
    fn file(&self, name: &str, bytes: impl FnOnce() -> Result<Vec<u8>>) -> Result<PathBuf> {
        let path = self.folder.join(name);
        if !path.exists() {
            fs::write(&path, bytes()?)?;
        }
        Ok(path)
    }

    fn capture(&self, kind: Traffic, is_peer: bool) -> Result<PathBuf> {
        let name = format!("{kind:?}-{is_peer}");
        let path = self.folder.join(format!("{name}.pcap"));
        if path.exists() {
            return Ok(path);
        }
        capture(kind, is_peer).write(&self.folder, &name)
    }

    /// Ours, once.
    fn ours(&self, traffic: Traffic, rules: &Path, is_unkept: bool) -> Result<f64> {
        let capture = self.capture(traffic, false)?;
        let cache = if is_unkept { "CACHE 0, " } else { "" };
        let text = format!(
            "FromPort(pcap:{}?loop) -> s :: FlowSwitch(TABLES 1, {cache}FILE {});
             Idle -> [1] s; s [0] -> Discard; s [1] -> end :: ToPort(null:);",
            capture.display(),
            rules.display()
        );
        let file = self.folder.join("switch.click");
        fs::write(&file, text)?;
        let time = Duration::from_millis(self.wanted.ms);
        let line = self.ours.graph_file(&file, "end", BURST, SETTLE, time)?;
        line["cycles"].as_f64().with_context(|| format!("no cycles in {line}"))
    }

    /// Open vSwitch, once.
    fn theirs(&self, traffic: Traffic, rules: &Path, settings: &[&str]) -> Result<f64> {
        let capture = self.capture(traffic, true)?;
        let ports = [
            format!("net_pcap0,rx_pcap={},infinite_rx=1", capture.display()),
            "net_null1,no-rx=1".to_owned(),
        ];
        let ports = ports.map(|devargs| DpdkPort { devargs, queues: 1 });
        let switch = OpenVswitch::with_ports(&self.theirs, &self.memory, &ports, settings)?;
        switch.settle()?;
        switch.set_flows(rules)?;
        let mut time = Duration::from_millis(self.wanted.ms);
        if traffic == Traffic::New {
            time = time.min(NEW_TIME);
        } else {
            sleep(SETTLE);
        }
        switch.clear()?;
        sleep(time);
        let (cycles, packets) = switch.cycles()?;
        hold!(packets > 0, "Open vSwitch has received nothing");
        Ok(cycles)
    }

    fn print(&self, rows: &[Row], baseline: &Baseline) -> Result<Value> {
        let limit =
            |row: &Row| CASES.iter().find(|case| case.0 == row.case).and_then(|case| case.1);
        if self.wanted.json {
            let json = |row: &Row| {
                let mut value = row.json();
                value["wanted_cycles"] = limit(row).into();
                value
            };
            let rows: Vec<_> = rows.iter().map(json).collect();
            return Ok(json!({ "yardstick": baseline.json(), "rows": rows }));
        }
        println!(
            "TSC cycles of the switch's core for each packet of 64 bytes, receive and free included; {} \
             repetitions of {} ms; of Open vSwitch the better of {} and {}",
            self.wanted.repetitions, self.wanted.ms, SETTINGS[0].0, SETTINGS[1].0
        );
        baseline.print();
        Row::print_header();
        rows.iter().for_each(|row| row.print(baseline.figure()));
        for row in rows {
            if let Some(limit) = limit(row) {
                println!("wanted of \"{}\": at most {limit:.0}", row.case);
            }
        }
        Ok(Value::Null)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_of_the_flows_there_are() {
        let text = rules(Rules::Exact);
        assert_eq!(text.lines().count(), MANY);
        let Flow { from, to, .. } = flows(1).next().expect("one");
        assert!(text.starts_with(&format!("udp,nw_src={from},nw_dst={to},tp_src=")), "{text:.80}");
        assert_eq!(rules(Rules::Prefixes).lines().count(), 500);
        assert_eq!(from.octets()[0], 10);
    }
}
