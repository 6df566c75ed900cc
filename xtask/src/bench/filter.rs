//! Case `filter`: `IPFilter` beside DPDK's `rte_acl`, with the same rules and packets. Both must allow
//! the same number of packets.
//!
//! Ours is the cost of the element, from a frame of packets to a frame of the allowed ones, with the
//! others freed; theirs is the cost of finding the headers and classifying. Neither includes source
//! and sink.

use std::fmt::Write as _;
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::capture::{MemoryFolder, Pages};
use super::ours::Ours;
use super::peers::{Memory, Programs};
use super::routers::Finite;
use super::row::{Row, row};

const BURST: u32 = 256;
/// Distinct packets.
const PACKETS: usize = 1 << 16;
/// Number of times that the packets are repeated.
const ROUNDS: usize = 16;
/// Names of the rows, and their numbers of rules including the last one, `allow all`.
const CASES: [(&str, usize); 4] =
    [("filter 10", 10), ("filter 50", 50), ("filter 500", 500), ("filter 5000", 5000)];
const PORTS: [u16; 16] =
    [22, 25, 53, 80, 110, 123, 143, 179, 443, 445, 993, 1723, 3306, 3389, 5060, 8080];

/// Programs and settings of the measurement.
pub(super) struct Filters<'a> {
    pub(super) ours: &'a Ours,
    pub(super) programs: &'a Programs,
    pub(super) memory: &'a Memory,
    pub(super) window: Duration,
    pub(super) repetitions: u32,
}

impl Filters<'_> {
    pub(super) fn measure(&self, rows: &mut Vec<Row>) -> Result<()> {
        let folder = MemoryFolder::new(Pages::Large)?;
        let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
        for _ in 0..self.repetitions {
            for (case, count) in CASES {
                let mut random = Random(count as u64);
                let rules: Vec<Rule> = (1..count).map(|_| random.rule()).collect();
                let packets: Vec<_> = (0..PACKETS).map(|_| random.packet(&rules)).collect();
                write_capture(&path("capture"), &packets, ROUNDS)?;
                fs::write(path("packets"), packets.concat())?;
                fs::write(path("rules"), acl(&rules))?;
                let files = [path("rules"), path("packets")];
                let theirs = self.programs.rte_filter(self.memory, &files, BURST, self.window)?;
                fs::write(path("filter.click"), configuration(&path("capture"), &rules))?;
                let ours = self.ours.graph_to_end(path("filter.click").as_ref(), BURST)?;
                let allowed = ours["packets"].as_u64().context("no packets")?;
                ensure!(
                    allowed == theirs.sum * ROUNDS as u64,
                    "{case}: ours allows {allowed}, rte_acl {} times {ROUNDS}",
                    theirs.sum
                );
                // Ours reports cycles per allowed packet, theirs per packet, dropped ones included.
                let total = (PACKETS * ROUNDS) as f64;
                let cycles = ours["elements"]["filter"].as_f64().context("no cycles")?;
                let cycles = cycles * allowed as f64 / total;
                let filters = row(rows, case, BURST, "rte_acl");
                filters.ours.push(cycles);
                filters.theirs.push(theirs.cycles.median);
            }
        }
        Ok(())
    }
}

struct Rule {
    allow: bool,
    source: (u32, u32),
    destination: (u32, u32),
    protocol: u8,
    port: Option<u16>,
}

/// Random numbers, reproducible by their seed (`SplitMix64`).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.next() as usize % from.len()]
    }

    /// Returns a random network with one of these prefix lengths.
    fn network(&mut self, lengths: &[u32]) -> (u32, u32) {
        let length = self.pick(lengths);
        (self.next() as u32 & mask(length), length)
    }

    fn rule(&mut self) -> Rule {
        let protocol = self.pick(&[6, 6, 6, 17, 17, 1]);
        let has_port = protocol != 1 && !self.next().is_multiple_of(5);
        Rule {
            allow: !self.next().is_multiple_of(3),
            source: self.network(&[0, 8, 16, 24, 24, 32]),
            destination: self.network(&[0, 16, 24, 24, 32, 32]),
            protocol,
            port: has_port.then(|| self.pick(&PORTS)),
        }
    }

    /// Returns a random packet; nine of ten resemble a rule.
    fn packet(&mut self, rules: &[Rule]) -> [u8; 64] {
        let (mut source, mut destination) = (self.next() as u32, self.next() as u32);
        let (mut port, mut protocol) = (self.next() as u16, self.pick(&[6u8, 17, 1]));
        if !self.next().is_multiple_of(10) {
            let rule = &rules[self.next() as usize % rules.len()];
            source = source & !mask(rule.source.1) | rule.source.0;
            if !self.next().is_multiple_of(3) {
                destination = destination & !mask(rule.destination.1) | rule.destination.0;
            }
            if !self.next().is_multiple_of(5) {
                port = rule.port.unwrap_or(port);
            }
            protocol = rule.protocol;
        }
        let mut bytes = [0; 64];
        bytes[12] = 8;
        bytes[14..18].copy_from_slice(&[0x45, 0, 0, 50]);
        bytes[22..24].copy_from_slice(&[64, protocol]);
        bytes[26..30].copy_from_slice(&source.to_be_bytes());
        bytes[30..34].copy_from_slice(&destination.to_be_bytes());
        bytes[34..36].copy_from_slice(&(self.next() as u16).to_be_bytes());
        bytes[36..38].copy_from_slice(&port.to_be_bytes());
        bytes
    }
}

fn mask(length: u32) -> u32 {
    u32::MAX.checked_shl(32 - length).unwrap_or(0)
}

/// Returns the rules in the format of `rte_filter.c`.
fn acl(rules: &[Rule]) -> String {
    let mut text = String::new();
    for Rule { allow, source, destination, protocol, port } in rules {
        let (low, high) = port.map_or((0, u16::MAX), |port| (port, port));
        let action = if *allow { 1 } else { 2 };
        let ((from, from_bits), (to, to_bits)) = (source, destination);
        let _ = writeln!(
            text,
            "{from} {from_bits} {to} {to_bits} {protocol} 255 {low} {high} {action}"
        );
    }
    text + "0 0 0 0 0 0 0 65535 1\n"
}

fn configuration(capture: &str, rules: &[Rule]) -> String {
    let mut text =
        format!("FromDump({capture}, STOP true) -> MarkIPHeader(14) -> filter :: IPFilter(");
    for Rule { allow, source, destination, protocol, port } in rules {
        text += if *allow { "allow" } else { "deny" };
        for (side, (address, length)) in [("src", source), ("dst", destination)] {
            if *length > 0 {
                let _ = write!(text, " {side} net {}/{length}", Ipv4Addr::from(*address));
            }
        }
        let _ = write!(text, " proto {protocol}");
        if let Some(port) = port {
            let _ = write!(text, " dst port {port}");
        }
        text += ", ";
    }
    text + "allow all) -> end :: Discard;"
}

/// Returns a configuration with `count` rules that reads its packets `rounds` times, and one without
/// the filter.
pub(super) fn finite(folder: &Path, count: usize, rounds: u32) -> Result<[Finite; 2]> {
    let mut random = Random(count as u64);
    let rules: Vec<Rule> = (1..count).map(|_| random.rule()).collect();
    let packets: Vec<_> = (0..PACKETS).map(|_| random.packet(&rules)).collect();
    let capture = folder.join(format!("filter-{rounds}")).to_string_lossy().into_owned();
    write_capture(&capture, &packets, rounds as usize)?;
    let text = configuration(&capture, &rules);
    let (before, _) = text.split_once("-> filter ::").context("there is no filter")?;
    let without = format!("{before} -> end :: Discard;");
    Ok([text, without].map(|text| Finite { text, at: "end" }))
}

/// Writes a capture that has the packets `rounds` times.
fn write_capture(path: &str, packets: &[[u8; 64]], rounds: usize) -> Result<()> {
    let mut round = Vec::with_capacity(packets.len() * 80);
    for packet in packets {
        for word in [0u32, 0, 64, 64] {
            round.extend(word.to_le_bytes());
        }
        round.extend(packet);
    }
    let mut bytes = Vec::with_capacity(24 + round.len() * rounds);
    // pcap, microseconds, version 2.4, snaplen 65535, Ethernet.
    for word in [0xa1b2_c3d4u32, 4 << 16 | 2, 0, 0, 65535, 1] {
        bytes.extend(word.to_le_bytes());
    }
    for _ in 0..rounds {
        bytes.extend_from_slice(&round);
    }
    fs::write(path, bytes).with_context(|| format!("cannot write {path}"))
}
