//! The cases `ipv4-1`, `ipv4-100k` and `ipv6`: the path of a packet through a router's elements.
//!
//! Frames of 64 bytes for 65,536 destinations come from a capture file held in memory. What the source
//! costs is left out: the account charges every element with its own cycles, and what counts is the sum
//! of the others and the engine's.

use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::ours::Ours;
use super::row::{best, median};
use super::undo::{Undo, unique_name};

/// Packets in a frame.
const BURST: u32 = 256;
/// Length of a packet.
const LENGTH: usize = 64;
/// The Ethernet header that frames leave with.
const REWRITE: &str = "EtherRewrite(2:0:0:0:0:1, 2:0:0:0:0:2)";

/// A case: its name, the files of its table, and whether it is one of IPv6.
const CASES: [(&str, &str, bool); 3] =
    [("ipv4-1", "one4", false), ("ipv4-100k", "random4", false), ("ipv6", "random6", true)];

/// What was measured of a case.
#[derive(Debug)]
pub(super) struct Router {
    case: &'static str,
    /// Cycles per packet of each repetition.
    cycles: Vec<f64>,
    /// Of one repetition, by element.
    parts: Value,
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
        Undo::by(move || drop(fs::remove_dir_all(folder)))
    };
    ours.tables(&folder)?;
    let mut paths = Vec::new();
    for (case, table, ipv6) in wanted {
        let file = configuration(&folder, table, *ipv6)?;
        let mut path = Router { case, cycles: Vec::new(), parts: Value::Null };
        for _ in 0..repetitions {
            let line = ours.graph_file(&file, BURST, window)?;
            let elements = line["elements"].as_object().context("no elements were measured")?;
            let others = elements.iter().filter(|(name, _)| *name != "source");
            let cycles: f64 = others.filter_map(|(_, cycles)| cycles.as_f64()).sum();
            let engine = line["engine_cycles"].as_f64().context("no engine was measured")?;
            ensure!(line["packets"].as_u64() > Some(0), "no packet came through: {line}");
            path.cycles.push(cycles + engine);
            path.parts = line["elements"].clone();
        }
        paths.push(path);
    }
    Ok(paths)
}

impl Router {
    pub(super) fn json(&self) -> Value {
        json!({
            "case": self.case,
            "burst": BURST,
            "cycles_best": best(&self.cycles),
            "cycles_median": median(&self.cycles),
            "elements": self.parts,
        })
    }

    pub(super) fn print(&self) {
        println!(
            "{:<16} {BURST:>5} {:>9.2} {:>9.2}   source excluded",
            self.case,
            best(&self.cycles),
            median(&self.cycles)
        );
        for (name, cycles) in self.parts.as_object().into_iter().flatten() {
            println!("{:>16} {:>15.2}", name, cycles.as_f64().unwrap_or(f64::NAN));
        }
    }
}

/// Writes frames and a configuration for a table of [`Ours::tables`]; returns where it is.
fn configuration(folder: &Path, table: &str, ipv6: bool) -> Result<PathBuf> {
    let read = |kind: &str| fs::read(folder.join(format!("{table}.{kind}")));
    let (routes, destinations) = (read("routes")?, read("few")?);
    let width = if ipv6 { 16 } else { 4 };
    let mut capture = capture_header();
    for destination in destinations.chunks_exact(width) {
        record(&mut capture, &frame(destination));
    }
    let frames = folder.join(format!("{table}.pcap"));
    fs::write(&frames, capture)?;
    let mut list = String::new();
    for route in routes.chunks_exact(width + 8) {
        let (address, rest) = route.split_at(width);
        let number =
            |at: usize| -> Result<u32> { Ok(u32::from_ne_bytes(rest[at..at + 4].try_into()?)) };
        let (length, hop) = (number(0)?, number(4)? & 0xff);
        let separator = if list.is_empty() { "" } else { ",\n" };
        match ipv6 {
            true => write!(list, "{separator}{}/{length} fe80::{hop:x} 0", v6(address)?)?,
            false => write!(list, "{separator}{}/{length} 192.168.0.{hop} 0", v4(address)?)?,
        }
    }
    let path = match ipv6 {
        true => format!(
            "check :: CheckIP6Header(OFFSET 14) -> get :: GetIP6Address(38) \
             -> route :: LookupIP6Route({list}) -> ttl :: DecIP6HLIM"
        ),
        false => format!(
            "check :: CheckIPHeader(14) -> route :: RadixIPLookup({list}) -> ttl :: DecIPTTL"
        ),
    };
    let source = format!("source :: FromPort(pcap:{}?loop=0)", frames.display());
    let text = format!("{source} -> {path} -> rewrite :: {REWRITE} -> end :: Discard;\n");
    let file = folder.join(format!("{table}.click"));
    fs::write(&file, text)?;
    Ok(file)
}

fn v4(address: &[u8]) -> Result<Ipv4Addr> {
    Ok(Ipv4Addr::from(u32::from_ne_bytes(address.try_into()?)))
}

fn v6(address: &[u8]) -> Result<Ipv6Addr> {
    Ok(Ipv6Addr::from(<[u8; 16]>::try_from(address)?))
}

/// A frame for an address as it is in a table's file.
fn frame(destination: &[u8]) -> [u8; LENGTH] {
    let mut frame = [0; LENGTH];
    frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 8, 2, 0, 0, 0, 0, 9]);
    if let Ok(address) = v6(destination) {
        frame[12..16].copy_from_slice(&[0x86, 0xdd, 0x60, 0]);
        let length = (LENGTH - 14 - 40) as u8;
        frame[19..22].copy_from_slice(&[length, 59, 64]);
        frame[22..38].copy_from_slice(&"2001:db8::1".parse().unwrap_or(address).octets());
        frame[38..54].copy_from_slice(&address.octets());
        return frame;
    }
    let length = (LENGTH - 14) as u8;
    frame[12..18].copy_from_slice(&[8, 0, 0x45, 0, 0, length]);
    (frame[22], frame[23]) = (64, 17);
    frame[26..30].copy_from_slice(&[10, 0, 0, 1]);
    if let Ok(address) = v4(destination) {
        frame[30..34].copy_from_slice(&address.octets());
    }
    let words = frame[14..34].chunks_exact(2).map(|two| u32::from(two[0]) << 8 | u32::from(two[1]));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    frame[24..26].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
    frame
}

fn capture_header() -> Vec<u8> {
    let words = [0xa1b2_c3d4_u32, 4 << 16 | 2, 0, 0, 65535, 1];
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn record(capture: &mut Vec<u8>, frame: &[u8; LENGTH]) {
    let words = [0, 0, LENGTH as u32, LENGTH as u32];
    capture.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    capture.extend(frame);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_sound() {
        let four = frame(&u32::from(Ipv4Addr::new(1, 2, 3, 4)).to_ne_bytes());
        let words =
            four[14..34].chunks_exact(2).map(|two| u32::from(two[0]) << 8 | u32::from(two[1]));
        let sum: u32 = words.sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
        assert_eq!(four[30..34], [1, 2, 3, 4]);
        let six = frame(&[7; 16]);
        assert_eq!((six[14] >> 4, six[18], six[19]), (6, 0, 10));
        assert_eq!(six[38..54], [7; 16]);
    }
}
