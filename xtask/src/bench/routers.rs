//! The cases `ipv4-1`, `ipv4-100k`, `ipv6`, `arp`, `arp-4k`, `arp-64k`, `switch`, `nat`, `click-router` and
//! `click-router-full`: paths of packets through the elements of routers and switches.
//!
//! Frames of 64 bytes come from a capture file held in memory ([`super::frames`]). The account
//! charges every element with its own cycles: the cost of a source can be left out, and the result
//! is the sum of the others and the engine's. Before the measurement the configuration runs for a
//! while, so that tables which fill with passing packets are full.

use std::fmt::Write as _;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Map, Value, json};

use super::baseline::Figure;
use super::frames::{Capture, v4, v6};
use super::ours::Ours;
use super::restore::{RestoreOnDrop, unique_name};
use super::row::{best, median, multiple};

/// Packets in a frame.
pub(super) const BURST: u32 = 256;
/// Time for which tables fill.
pub(super) const WARM: Duration = Duration::from_millis(700);
/// The Ethernet header that frames leave with.
const REWRITE: &str = "EtherRewrite(2:0:0:0:0:1, 2:0:0:0:0:2)";
/// Next hops that the case `arp` looks up.
const NEIGHBOURS: u32 = 200;
/// Steps of a script.
const STEPS: u32 = 1024;
/// Hosts of the case `switch`, half of them at each of two ports.
const HOSTS: u32 = 1000;
/// Flows of the case `nat`.
const TRANSLATED: u32 = 100_000;
/// The path of that case.
const NAT: &str = "strip :: Strip(14) -> check :: CheckIPHeader
    -> nat :: IPRewriter(pattern 198.51.100.1 1024-65535# - - 0 0, MAPPING_CAPACITY 200000)
    -> end :: Discard;
";
/// Routes and flows of the case `click-router`.
const CLICK_ROUTES: u32 = 667;
const CLICK_FLOWS: u32 = 4096;
/// Hosts at each interface of the case `click-router-full`.
const CLICK_HOSTS: u32 = 200;
/// Configuration of that case, but for its devices.
const EXAMPLE: &str = include_str!("../../../examples/router.click");

/// Elements whose cycles count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CountedCycles {
    /// Those of all elements but the sources.
    Path,
    /// Those of all elements.
    All,
    /// Those of one.
    Element(&'static str),
}

impl CountedCycles {
    /// Returns the note printed behind the figures.
    fn note(self) -> &'static str {
        match self {
            CountedCycles::Path => "source excluded",
            CountedCycles::All => "source included",
            CountedCycles::Element(_) => "one element of the path",
        }
    }

    fn cycles(self, elements: &Map<String, Value>, engine: f64) -> f64 {
        let cycles = |name: &str, value: &Value| match self {
            CountedCycles::Path if name.starts_with("source") => 0.0,
            CountedCycles::Element(only) if name != only => 0.0,
            _ => value.as_f64().unwrap_or(0.0),
        };
        let sum: f64 = elements.iter().map(|(name, value)| cycles(name, value)).sum();
        if matches!(self, CountedCycles::Element(_)) { sum } else { sum + engine }
    }
}

/// A case: its name, the cycles that count, the element that sees every packet once, and the
/// function that writes the configuration into a folder.
type Case = (&'static str, CountedCycles, &'static str, fn(&Path) -> Result<String>);

const CASES: [Case; 10] = [
    ("ipv4-1", CountedCycles::Path, "end", |folder| ip_path(folder, "one4", false)),
    ("ipv4-100k", CountedCycles::Path, "end", |folder| ip_path(folder, "random4", false)),
    ("ipv6", CountedCycles::Path, "end", |folder| ip_path(folder, "random6", true)),
    ("arp", CountedCycles::Element("arp"), "end", arp),
    ("arp-4k", CountedCycles::Element("arp"), "end", |folder| segment(folder, 1 << 12)),
    ("arp-64k", CountedCycles::Element("arp"), "end", |folder| segment(folder, 1 << 16)),
    ("switch", CountedCycles::Path, "switch", switch),
    ("nat", CountedCycles::Path, "end", nat),
    ("click-router", CountedCycles::All, "check", click_router),
    ("click-router-full", CountedCycles::All, "routes", click_router_full),
];

/// Result of a case.
#[derive(Debug)]
pub(super) struct Router {
    case: &'static str,
    counted: CountedCycles,
    /// Cycles per packet of each repetition.
    cycles: Vec<f64>,
    /// Of one repetition, by element: cycles for each packet of the case.
    parts: Map<String, Value>,
}

/// The measurement of those cases that are wanted.
pub(super) fn measure(
    ours: &Ours,
    window: Duration,
    repetitions: u32,
    wants: impl Fn(&str) -> bool,
) -> Result<Vec<Router>> {
    let wanted: Vec<_> = CASES.iter().filter(|(case, ..)| wants(case)).collect();
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let folder = std::env::temp_dir().join(unique_name());
    let _undo = {
        let folder = folder.clone();
        RestoreOnDrop::by(move || drop(fs::remove_dir_all(folder)))
    };
    ours.tables(&folder)?;
    let mut paths = Vec::new();
    for (case, counted, at, configuration) in wanted {
        let file = folder.join(format!("{case}.click"));
        fs::write(&file, configuration(&folder)?)?;
        let mut path = Router { case, counted: *counted, cycles: Vec::new(), parts: Map::new() };
        for _ in 0..repetitions {
            let line = ours.graph_file(&file, at, BURST, WARM, window)?;
            let packets = line["packets"].as_f64().context("no packets were counted")?;
            ensure!(packets > 0.0, "no packet came through: {line}");
            path.parts = line["elements"].as_object().context("no elements were measured")?.clone();
            let engine = line["engine_cycles"].as_f64().context("no engine was measured")?;
            path.cycles.push(counted.cycles(&path.parts, engine));
        }
        paths.push(path);
    }
    Ok(paths)
}

/// A configuration that comes to an end, and the element that counts its packets.
#[derive(Debug)]
pub(super) struct Finite {
    pub(super) text: String,
    pub(super) at: &'static str,
}

/// A case whose captures are read so many times, and its rest without the measured part, which
/// counts every packet. `folder` has the tables of [`Ours::tables`].
pub(super) fn finite(folder: &Path, case: &str, rounds: u32) -> Result<[Finite; 2]> {
    let found = CASES.iter().find(|(name, ..)| *name == case);
    let (_, counted, at, configuration) = found.context("there is no such case")?;
    let text = configuration(folder)?.replace("?loop=0", &format!("?loop={rounds}, STOP true"));
    let without = match counted {
        CountedCycles::Element(name) => {
            let split = text.split_once(&format!("-> {name} ::"));
            let (before, _) = split.with_context(|| format!("{case} has no {name}"))?;
            format!("{before} -> end :: Discard;")
        }
        CountedCycles::Path | CountedCycles::All => sources_alone(&text),
    };
    Ok([Finite { text, at }, Finite { text: without, at: "end" }])
}

/// The sources of a configuration, and an end.
fn sources_alone(text: &str) -> String {
    let mut alone = String::from("end :: Discard;\n");
    for (at, _) in text.match_indices("FromPort(") {
        let length = text[at..].find(')').map_or(0, |end| end + 1);
        alone += &format!("{} -> end;\n", &text[at..at + length]);
    }
    alone
}

impl Router {
    /// Makes a case with this result, for tests of its report.
    #[cfg(test)]
    pub(super) fn with_cycles(case: &'static str, cycles: f64) -> Router {
        Router { case, counted: CountedCycles::Path, cycles: vec![cycles], parts: Map::new() }
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "case": self.case,
            "burst": BURST,
            "cycles_best": best(&self.cycles),
            "cycles_median": median(&self.cycles),
            "peer": Value::Null,
            "peer_cycles_best": Value::Null,
            "peer_cycles_median": Value::Null,
            "ratio_median": Value::Null,
            "counted": self.counted.note(),
            "elements": self.parts,
        })
    }

    /// Its name and figure, as they are kept.
    pub(super) fn kept(&self) -> Option<(String, Figure)> {
        Some((format!("{}, burst {BURST}, ours", self.case), Figure::from_samples(&self.cycles)?))
    }

    pub(super) fn print(&self, reference: Option<Figure>) {
        println!(
            "{:<16} {BURST:>5} {:>9.2} {:>9.2} {:>7}   {}",
            self.case,
            best(&self.cycles),
            median(&self.cycles),
            multiple(&self.cycles, reference),
            self.counted.note()
        );
        for (name, cycles) in &self.parts {
            println!("{:>16} {:>15.2}", name, cycles.as_f64().unwrap_or(0.0));
        }
    }
}

/// A source of the frames of a capture, over and over.
fn source(name: &str, frames: &Path) -> String {
    format!("{name} :: FromPort(pcap:{}?loop=0)", frames.display())
}

/// The frames for the 65,536 destinations of a table of [`Ours::tables`], and the table's routes with a
/// gateway and output 0 for each.
fn table(folder: &Path, table: &str, ipv6: bool) -> Result<(PathBuf, String)> {
    let read = |kind: &str| fs::read(folder.join(format!("{table}.{kind}")));
    let (routes, destinations) = (read("routes")?, read("few")?);
    let width = if ipv6 { 16 } else { 4 };
    let mut capture = Capture::new();
    for destination in destinations.chunks_exact(width) {
        if ipv6 {
            capture.ipv6(v6(destination)?);
        } else {
            capture.udp([10, 0, 0, 1].into(), 1, v4(destination)?, 2);
        }
    }
    let mut list = String::new();
    for route in routes.chunks_exact(width + 8) {
        let (address, rest) = route.split_at(width);
        let number =
            |at: usize| -> Result<u32> { Ok(u32::from_ne_bytes(rest[at..at + 4].try_into()?)) };
        let (length, hop) = (number(0)?, number(4)? & 0xff);
        let separator = if list.is_empty() { "" } else { ",\n" };
        if ipv6 {
            write!(list, "{separator}{}/{length} fe80::{hop:x} 0", v6(address)?)?;
        } else {
            write!(list, "{separator}{}/{length} 192.168.0.{hop} 0", v4(address)?)?;
        }
    }
    Ok((capture.write(folder, table)?, list))
}

/// Header check, lookup, one hop less, a new Ethernet header.
fn ip_path(folder: &Path, name: &str, ipv6: bool) -> Result<String> {
    let (frames, routes) = table(folder, name, ipv6)?;
    let path = if ipv6 {
        format!(
            "check :: CheckIP6Header(OFFSET 14) -> get :: GetIP6Address(38) \
             -> route :: LookupIP6Route({routes}) -> ttl :: DecIP6HLIM"
        )
    } else {
        format!("check :: CheckIPHeader(14) -> route :: RadixIPLookup({routes}) -> ttl :: DecIPTTL")
    };
    let source = source("source", &frames);
    Ok(format!("{source} -> {path} -> rewrite :: {REWRITE} -> end :: Discard;\n"))
}

/// As [`ip_path`], with 100,000 routes of IPv4 and a second source.
pub(super) fn ip_path_of_two(folder: &Path) -> Result<String> {
    let second = source("source2", &folder.join("random4.pcap"));
    Ok(format!("{}{second} -> check;\n", ip_path(folder, "random4", false)?))
}

/// The path of one route with an `ARPQuerier` that knows all next hops, of which the addresses' first
/// bits choose one.
fn arp(folder: &Path) -> Result<String> {
    let (frames, _) = table(folder, "one4", false)?;
    let mut routes = String::from("0/0 192.168.0.1 0");
    let mut known = String::new();
    for neighbour in 1..=NEIGHBOURS {
        write!(routes, ",\n{neighbour}.0.0.0/8 192.168.0.{neighbour} 0")?;
        writeln!(known, "write arp.insert 192.168.0.{neighbour} 2:0:0:0:1:{neighbour:x},")?;
    }
    let source = source("source", &frames);
    Ok(format!(
        "{source} -> strip :: Strip(14) -> check :: CheckIPHeader -> route :: RadixIPLookup({routes})\n\
         -> ttl :: DecIPTTL -> arp :: ARPQuerier(192.168.0.254, 2:0:0:0:0:1) -> end :: Discard;\n\
         Idle -> [1] arp;\nScript({known} end);\n"
    ))
}

/// As `ip_path`, without next hops: packets for all of the neighbours on one segment, a power of
/// two, in an order that no processor guesses.
fn segment(folder: &Path, neighbours: u32) -> Result<String> {
    let (net, middle) = (u32::from_be_bytes([10, 0, 0, 0]), neighbours / 2);
    let mut capture = Capture::new();
    let mut neighbour = 1u32;
    for _ in 0..neighbours.max(1 << 16) {
        // Each comes once in as many (Knuth, The Art of Computer Programming, section 3.2.1.2).
        neighbour = neighbour.wrapping_mul(1_664_525).wrapping_add(middle | 1) % neighbours;
        capture.udp([192, 0, 2, 1].into(), 1, (net + 1 + neighbour).into(), 2);
    }
    let mut known = String::from("Script(");
    for neighbour in 0..neighbours {
        // A script of very many steps is taken for one without end.
        if neighbour % STEPS == STEPS - 1 {
            known.push_str("end);\nScript(");
        }
        let [.., high, low] = neighbour.to_be_bytes();
        let address: Ipv4Addr = (net + 1 + neighbour).into();
        writeln!(known, "write arp.insert {address} 2:0:0:1:{high:x}:{low:x},")?;
    }
    let source = source("source", &capture.write(folder, &format!("segment{neighbours}"))?);
    Ok(format!(
        "{source} -> strip :: Strip(14) -> check :: CheckIPHeader -> route :: RadixIPLookup(10.0.0.0/8 0)\n\
         -> ttl :: DecIPTTL -> arp :: ARPQuerier(10.255.0.1/8, 2:0:0:0:0:1) -> end :: Discard;\n\
         Idle -> [1] arp;\n{known} end);\n"
    ))
}

/// A switch of two ports. Every host talks to hosts at the other port.
pub(super) fn switch(folder: &Path) -> Result<String> {
    let half = HOSTS / 2;
    let mut captures = [Capture::new(), Capture::new()];
    for turn in 0..half * 16 {
        // Any host to any other.
        let (one, other) = (turn % half, half + turn.wrapping_mul(2_654_435_761) % half);
        captures[0].between(other, one);
        captures[1].between(one, other);
    }
    let [left, right] = captures;
    let (left, right) = (left.write(folder, "left")?, right.write(folder, "right")?);
    let (left, right) = (source("source", &left), source("source2", &right));
    Ok(format!(
        "{left} -> [0] switch :: EtherSwitch [0] -> Discard;\n\
         {right} -> [1] switch [1] -> Discard;\n"
    ))
}

/// Flows of many hosts behind an address.
fn nat(folder: &Path) -> Result<String> {
    let source = source("source", &translated(folder, "flows", 0..TRANSLATED)?);
    Ok(format!("{source} -> {NAT}"))
}

/// As `nat`, from two sources, each of which has half of the flows.
pub(super) fn nat_of_two(folder: &Path) -> Result<String> {
    let half = TRANSLATED / 2;
    let first = source("source", &translated(folder, "first", 0..half)?);
    let second = source("source2", &translated(folder, "second", half..TRANSLATED)?);
    Ok(format!("{first} -> {NAT}{second} -> strip;\n"))
}

/// A packet of each flow.
fn translated(folder: &Path, name: &str, flows: std::ops::Range<u32>) -> Result<PathBuf> {
    let mut capture = Capture::new();
    for flow in flows {
        let inside = (u32::from_be_bytes([10, 0, 0, 0]) + 1 + flow / 50).into();
        let outside = (u32::from_be_bytes([198, 18, 0, 0]) + flow % 1000).into();
        capture.udp(inside, 1024 + (flow % 50) as u16 * 1000, outside, 53);
    }
    capture.write(folder, name)
}

/// The forwarding path of the router that Click is known for, from two classified inputs' common table to
/// the framing of two outputs.
fn click_router(folder: &Path) -> Result<String> {
    let mut capture = Capture::new();
    for flow in 0..CLICK_FLOWS {
        let network = flow.wrapping_mul(2_654_435_761) % CLICK_ROUTES;
        let to = u32::from_be_bytes([20, 0, 0, 1]) + (network << 16) + flow % 200;
        capture.udp((u32::from_be_bytes([10, 0, 0, 0]) + flow).into(), 1024, to.into(), 53);
    }
    let mut routes = String::new();
    for network in 0..CLICK_ROUTES {
        let separator = if network == 0 { "" } else { ",\n" };
        let address = v4(&(u32::from_be_bytes([20, 0, 0, 0]) + (network << 16)).to_ne_bytes())?;
        write!(routes, "{separator}{address}/16 192.168.{}.1 {}", network % 2, network % 2)?;
    }
    let source = source("source", &capture.write(folder, "click-flows")?);
    let mut text = format!(
        "{source} -> kind :: Classifier(12/0800, -) -> paint :: Paint(1) -> strip :: Strip(14)\n\
         -> check :: CheckIPHeader(INTERFACES 192.168.0.254/24 192.168.1.254/24)\n\
         -> route :: RadixIPLookup({routes});\nkind [1] -> Discard;\n"
    );
    for output in 0..2 {
        let colour = output + 2;
        writeln!(
            text,
            "route [{output}] -> broadcasts{output} :: DropBroadcasts\n\
             -> redirect{output} :: PaintTee({colour}) -> options{output} :: IPGWOptions(192.168.{output}.254)\n\
             -> fix{output} :: FixIPSrc(192.168.{output}.254) -> ttl{output} :: DecIPTTL\n\
             -> fragment{output} :: IPFragmenter(1500)\n\
             -> encapsulate{output} :: EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> Discard;\n\
             redirect{output} [1] -> Discard;"
        )?;
    }
    Ok(text)
}

/// As [`click_router`], with a second source.
pub(super) fn click_router_of_two(folder: &Path) -> Result<String> {
    let second = source("source2", &folder.join("click-flows.pcap"));
    Ok(format!("{}{second} -> kind;\n", click_router(folder)?))
}

/// The router of the examples, which knows its neighbours, with traffic both ways. Of a hundred packets
/// one has come too far and one goes where no route leads; both are answered.
fn click_router_full(folder: &Path) -> Result<String> {
    let mut known = String::new();
    for (name, own, other) in [("left", 18, 19), ("right", 19, 18)] {
        let host =
            |network, number: u32| [198, network, 0, 2 + (number % CLICK_HOSTS) as u8].into();
        let mut capture = Capture::new();
        for flow in 0..CLICK_FLOWS {
            let (from, to) = (host(own, flow), host(other, flow.wrapping_mul(2_654_435_761) >> 8));
            match flow % 100 {
                0 => capture.expiring(from, 1024, to, 53),
                50 => capture.udp(from, 1024, [203, 0, 113, 1].into(), 53),
                _ => capture.udp(from, 1024, to, 53),
            }
        }
        capture.write(folder, name)?;
        for number in 0..CLICK_HOSTS {
            let address: Ipv4Addr = host(own, number);
            writeln!(known, "write {name}/arp.insert {address} 2:0:0:0:{own}:{number:x},")?;
        }
    }
    let from = format!("FromPort(pcap:{}/${{device}}.pcap?loop=0)", folder.display());
    let mut text = EXAMPLE.to_owned();
    for (what, by) in [
        (
            "left $LEFT_IP, right $RIGHT_IP",
            "left $LEFT_IP 2:0:0:0:0:8, right $RIGHT_IP 2:0:0:0:0:8",
        ),
        ("FromDevice($device, METHOD $METHOD)", &from),
        ("ToDevice($device)", "Discard(BURST 32)"),
    ] {
        ensure!(text.contains(what), "examples/router.click has no {what}");
        text = text.replace(what, by);
    }
    Ok(format!("{text}\nScript({known} end);\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_has_packets_for_all_its_neighbours() {
        let folder = std::env::temp_dir().join(unique_name());
        fs::create_dir_all(&folder).unwrap();
        let _undo = {
            let folder = folder.clone();
            RestoreOnDrop::by(move || drop(fs::remove_dir_all(folder)))
        };
        let text = segment(&folder, 4096).unwrap();
        assert_eq!(text.matches("write arp.insert 10.0.").count(), 4096);
        let capture = fs::read(folder.join("segment4096.pcap")).unwrap();
        // 24 bytes, then 16 in front of each of 65,536 frames.
        let length = (capture.len() - 24) / 65_536;
        let last = |frame: &[u8]| frame[16 + 30..][..4].to_vec();
        let mut seen: Vec<_> = capture[24..].chunks_exact(length).map(last).collect();
        assert!(seen[1] > seen[0] || seen[2] > seen[1], "in order");
        seen.sort_unstable();
        seen.dedup();
        assert_eq!((seen.len(), &seen[0][..]), (4096, &[10, 0, 0, 1][..]));
    }

    #[test]
    fn sources_are_left_out_where_they_do_not_count() {
        let elements = json!({ "source": 10.0, "source2": 5.0, "arp": 2.0, "end": null });
        let elements = elements.as_object().unwrap();
        assert_eq!(CountedCycles::Path.cycles(elements, 1.0), 3.0);
        assert_eq!(CountedCycles::All.cycles(elements, 1.0), 18.0);
        assert_eq!(CountedCycles::Element("arp").cycles(elements, 1.0), 2.0);
    }
}
