//! A configuration on the same packets with Click and with us.
//!
//! Devices are replaced by captures: packets read from an interface come from a generated one,
//! packets sent to it go to one that is compared. Both run in simulated time, ours once for each
//! frame limit. Packets must be the same, byte for byte and in order, for each output, and so must
//! the values of the counting handlers. Time stamps are not compared: packets that an element makes
//! have the time at which its turn came. Nor is how far queues filled at a frame limit above 1:
//! frames come to them whole. Nor, there, are the identifications of ICMP errors, which all
//! `ICMPError`s number together: several have errors of a frame at a time. Rewriters take ports in
//! sequence: which ones they draw otherwise is random.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::net::Ipv4Addr;

use anyhow::{Context, Result};
use serde::Serialize;

use super::Programs;
use super::captures::{self, OnCaptures, packet_difference, packets_in};
use super::devices;
use super::sandbox::{ProgramResult, Sandbox};
use super::text::Declaration;
use super::traffic::Addresses;

/// Handlers that are compared where Click's element has them.
const HANDLERS: [&str; 14] = [
    "count",
    "byte_count",
    "drops",
    "length",
    FILLED,
    "queries",
    "responses",
    "replies",
    "table",
    "table_size",
    "size",
    "mapping_failures",
    "packets",
    "bytes",
];

/// Handler with the greatest length of a queue.
const FILLED: &str = "highwater_length";

/// Classes with handlers that tell times, not values.
const TIMED: [&str; 2] = ["Script", "DriverManager"];

/// The name of the configuration that runs.
const FILE: &str = "conformance.click";

/// Result of running a configuration.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Comparison {
    /// As with Click, at every frame limit.
    Same {
        /// Number of packets Click sent.
        packets: usize,
        /// To how many outputs.
        outputs: usize,
        /// Number of handlers that were compared.
        handlers: usize,
    },
    /// The first difference.
    Different(String),
    /// It did not run, and why.
    LeftOut(String),
}

impl Comparison {
    /// Returns the remark for the table.
    pub(super) fn remark(&self) -> Option<String> {
        match self {
            Comparison::Same { packets, outputs, handlers } => {
                Some(format!("same {packets} packets at {outputs} outputs, {handlers} handlers"))
            }
            Comparison::Different(difference) => Some(format!("DIFFERS {difference}")),
            Comparison::LeftOut(reason) => Some(format!("not run, {reason}")),
        }
    }
}

/// Output of a run.
#[derive(Debug)]
struct Observed {
    /// The packets of each output.
    outputs: Vec<Vec<Vec<u8>>>,
    /// Value of each handler.
    handlers: BTreeMap<String, String>,
}

pub(super) fn compare(
    sandbox: &Sandbox,
    programs: &Programs,
    flat: &str,
    declarations: &[Declaration],
    vectors: &[u16],
) -> Result<Comparison> {
    if let Some(reason) = devices::unfit(declarations) {
        return Ok(Comparison::LeftOut(reason));
    }
    let (on_captures, mut addresses) = prepare(sandbox, flat, declarations)?;
    let outputs = on_captures.outputs;
    // Those it starts with.
    on_captures.write_inputs(sandbox.here(), &addresses)?;
    let (handlers, own) = handlers(sandbox, programs, declarations)?;
    for address in own {
        addresses.add_own(address);
    }
    on_captures.write_inputs(sandbox.here(), &addresses)?;
    let mut words = vec!["--simtime"];
    words.extend(handlers.iter().flat_map(|handler| ["-h", handler]));
    words.push(FILE);
    let ended = sandbox.run(&programs.click, &words)?;
    if ended.endless || !ended.success {
        return Ok(Comparison::LeftOut(format!("Click: {}", ended.complaint())));
    }
    let mut click = observe(sandbox, outputs, &handlers, &ended)?;
    let moved = |(name, value): (&String, &String)| name.ends_with("count") && value != "0";
    let packets = click.outputs.iter().map(Vec::len).sum();
    if packets == 0 && !click.handlers.iter().any(moved) {
        return Ok(Comparison::LeftOut("no packet moves".to_owned()));
    }
    let mut frames = false;
    for &vector in vectors {
        // Handlers taken out of Click's result are so from then on.
        frames |= vector > 1;
        if frames {
            click.handlers.retain(|name, _| !name.ends_with(FILLED));
            mask_errors(&mut click);
        }
        let vector = vector.to_string();
        let words: Vec<&str> = ["--vector", &vector].into_iter().chain(words.clone()).collect();
        let ended = sandbox.run(&programs.our_click, &words)?;
        if ended.endless || !ended.success {
            let complaint = ended.complaint();
            return Ok(Comparison::Different(format!("at frame limit {vector}: {complaint}")));
        }
        let mut ours = observe(sandbox, outputs, &handlers, &ended)?;
        if frames {
            mask_errors(&mut ours);
        }
        if let Some(difference) = difference(&click, &ours) {
            return Ok(Comparison::Different(format!("at frame limit {vector}: {difference}")));
        }
    }
    Ok(Comparison::Same { packets, outputs, handlers: handlers.len() })
}

/// Writes the configuration on captures. Hosts have the addresses it names, and those of its
/// interfaces.
fn prepare(
    sandbox: &Sandbox,
    flat: &str,
    declarations: &[Declaration],
) -> Result<(OnCaptures, Addresses)> {
    let mut addresses = Addresses::parse(flat);
    for number in 1..=devices::interfaces(declarations).len() as u8 {
        let (mac, address) = Sandbox::addresses(number);
        addresses.add_mac(mac);
        addresses.add(address);
    }
    let on_captures = captures::substitute(flat, declarations, devices::in_sequence);
    let text = format!("{}\n{}", on_captures.text, captures::end(&[]));
    let path = sandbox.here().join(FILE);
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok((on_captures, addresses))
}

/// The handlers that count, of all of Click's elements that have them, and the addresses that
/// elements have.
fn handlers(
    sandbox: &Sandbox,
    programs: &Programs,
    declarations: &[Declaration],
) -> Result<(Vec<String>, Vec<Ipv4Addr>)> {
    let all = sandbox.run(&programs.click, &["-q", "-h", "*.handlers", FILE])?;
    let (mut found, mut addresses) = (Vec::new(), Vec::new());
    for (name, list) in answers(&all.stdout) {
        let element = name.trim_end_matches(".handlers");
        let class = declarations.iter().find(|one| one.name == element).map(|one| &one.class);
        if class.is_none_or(|class| TIMED.contains(&class.as_str())) {
            continue;
        }
        for line in list.lines() {
            let (handler, flags) = line.split_once('\t').unwrap_or((line, ""));
            if HANDLERS.contains(&handler) && flags.starts_with('r') {
                found.push(format!("{element}.{handler}"));
            }
            if handler == "ipaddr" {
                addresses.extend(["-h".to_owned(), format!("{element}.ipaddr")]);
            }
        }
    }
    let words = ["-q", FILE].into_iter().chain(addresses.iter().map(String::as_str));
    let own = sandbox.run(&programs.click, &words.collect::<Vec<_>>())?;
    let own = own.stdout.lines().filter_map(|line| line.trim().parse().ok());
    Ok((found, own.collect()))
}

/// Reads the output of a run, and removes it.
fn observe(
    sandbox: &Sandbox,
    outputs: usize,
    handlers: &[String],
    ended: &ProgramResult,
) -> Result<Observed> {
    let mut packets = Vec::new();
    for number in 0..outputs {
        let path = sandbox.here().join(captures::output(number));
        packets.push(packets_in(&path).with_context(|| format!("cannot read {}", path.display()))?);
        fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
    }
    let said = match handlers {
        // With one handler there is no name in front of its value.
        [only] => BTreeMap::from([(only.clone(), ended.stdout.trim_end().to_owned())]),
        _ => answers(&ended.stdout),
    };
    Ok(Observed { outputs: packets, handlers: said })
}

/// Parses the output of `-h` with several handlers: each name with a colon, its value, an empty
/// line.
fn answers(text: &str) -> BTreeMap<String, String> {
    let mut answers = BTreeMap::new();
    let mut current: Option<(String, String)> = None;
    for line in text.lines() {
        match line.strip_suffix(':').filter(|name| name.contains('.') && !name.contains(' ')) {
            Some(name) => {
                answers.extend(current.replace((name.to_owned(), String::new())));
            }
            None => {
                if let Some((_, value)) = &mut current {
                    let _ = writeln!(value, "{line}");
                }
            }
        }
    }
    answers.extend(current);
    answers.into_iter().map(|(name, value)| (name, value.trim_end().to_owned())).collect()
}

/// Takes the identification, and the checksum over it, out of ICMP errors.
fn mask_errors(observed: &mut Observed) {
    for packet in observed.outputs.iter_mut().flatten() {
        if let Some(at) = error_in(packet) {
            packet[at + 4..at + 6].fill(0);
            packet[at + 10..at + 12].fill(0);
        }
    }
}

/// Offset of the IP header of a packet that is an ICMP error, with an Ethernet header or without.
fn error_in(packet: &[u8]) -> Option<usize> {
    const ERRORS: [u8; 5] = [3, 4, 5, 11, 12];
    let ethernet = packet.get(12..14) == Some(&[8, 0]);
    let at = if ethernet { 14 } else { 0 };
    let ip = packet.get(at..).filter(|ip| ip.len() >= 20 && ip[0] >> 4 == 4 && ip[9] == 1)?;
    let icmp = ip.get(usize::from(ip[0] & 15) * 4)?;
    ERRORS.contains(icmp).then_some(at)
}

fn difference(click: &Observed, ours: &Observed) -> Option<String> {
    for (number, (theirs, ours)) in click.outputs.iter().zip(&ours.outputs).enumerate() {
        if let Some(found) = packet_difference(["Click", "we"], [theirs, ours]) {
            return Some(format!("output {number}: {found}"));
        }
    }
    for (handler, theirs) in &click.handlers {
        let ours = ours.handlers.get(handler).map_or("", String::as_str);
        // Tables are hashed: their order means nothing.
        let lines = |text: &str| {
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines.sort_unstable();
            lines
        };
        if lines(theirs) != lines(ours) {
            return Some(format!("{handler} is `{theirs}` with Click, `{ours}` with us"));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_taken_apart() {
        let text = "a.count:\n3\n\nb/c@1.table:\n1.2.3.4: x\n\tlive\n\nq.drops:\n0\n\n";
        let found = answers(text);
        assert_eq!(found["a.count"], "3");
        assert_eq!(found["b/c@1.table"], "1.2.3.4: x\n\tlive");
        assert_eq!(found.len(), 3);
    }

    #[test]
    fn identifications_of_errors_are_masked() {
        let packet = |ethernet: bool, kind: u8, ident: u8| {
            let mut packet = vec![0; if ethernet { 14 } else { 0 }];
            if ethernet {
                packet[12] = 8;
            }
            packet.extend([0x45, 0, 0, 28, ident, ident, 0, 0, 255, 1, ident, 1]);
            packet.extend([1, 0, 0, 1, 1, 0, 0, 2, kind, 0, 0, 0, 0, 0, 0, 0]);
            packet
        };
        for ethernet in [false, true] {
            for (kind, masked) in [(3, true), (11, true), (8, false)] {
                let [one, other] = [1, 2].map(|ident| {
                    let outputs = vec![vec![packet(ethernet, kind, ident)]];
                    let mut observed = Observed { outputs, handlers: BTreeMap::new() };
                    mask_errors(&mut observed);
                    observed.outputs
                });
                assert_eq!(one == other, masked, "{kind} {ethernet}");
            }
        }
    }

    #[test]
    fn the_first_difference_is_said() {
        let observed = |packets: &[&[u8]], count: &str| Observed {
            outputs: vec![packets.iter().map(|packet| packet.to_vec()).collect()],
            handlers: BTreeMap::from([("c.count".to_owned(), count.to_owned())]),
        };
        let click = observed(&[&[1, 2], &[3]], "2");
        assert_eq!(difference(&click, &observed(&[&[1, 2], &[3]], "2")), None);
        let other = difference(&click, &observed(&[&[1, 2]], "2")).unwrap();
        assert!(other.contains("packet 1: Click (1) 03, we none"), "{other}");
        let other = difference(&click, &observed(&[&[1, 2], &[3]], "1")).unwrap();
        assert_eq!(other, "c.count is `2` with Click, `1` with us");
    }
}
