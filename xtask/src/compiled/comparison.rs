//! Account of a run's output, and the first difference from another.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::conformance::captures::{packet_difference, packets_in};

use super::stage::{MARK, Stage};

/// The programs compared, in messages.
const WHO: [&str; 2] = ["`linerate run`", "the program"];

/// Classes that no packet comes to.
const PORTLESS: [&str; 2] = ["AddressInfo", "Script"];

/// Output of a run.
#[derive(Debug, PartialEq)]
pub(super) struct RunOutput {
    /// The captures it has written, as they are, time stamps included.
    captures: Vec<Vec<u8>>,
    /// Their packets.
    packets: Vec<Vec<Vec<u8>>>,
    /// Of each element: class, packets, and drops by reason.
    elements: BTreeMap<String, Value>,
    /// Buffers that had not come home.
    held: String,
    /// Value of each handler.
    handlers: BTreeMap<String, String>,
    /// Further output.
    said: String,
}

/// Number of equal items.
#[derive(Debug)]
pub(super) struct EqualCounts {
    /// Packets in captures.
    pub(super) packets: usize,
    pub(super) handlers: usize,
    pub(super) elements: usize,
    /// Elements that packets came to.
    pub(super) used: usize,
}

impl RunOutput {
    /// Runs a command to its end, and takes its files out of the folder.
    pub(super) fn record(command: &mut Command, stage: &Stage) -> Result<RunOutput> {
        let output = command.output().context("cannot start it")?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        if !output.status.success() {
            let program = command.get_program().to_string_lossy();
            bail!("{program} ended with {}: {}", output.status, stderr.trim());
        }
        let mut captures = Vec::new();
        let mut packets = Vec::new();
        for name in stage.outputs() {
            let path = stage.folder().join(name);
            let unreadable = || format!("cannot read {}", path.display());
            captures.push(fs::read(&path).with_context(unreadable)?);
            packets.push(packets_in(&path).with_context(unreadable)?);
            fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
        let (handlers, said) = answers(&stderr);
        let (elements, held) = summary(&stdout)?;
        Ok(RunOutput { captures, packets, elements, held, handlers, said })
    }

    /// Returns the first difference between the output of `linerate run` and a program's.
    pub(super) fn difference(&self, program: &RunOutput) -> Option<String> {
        for (number, (ours, its)) in self.packets.iter().zip(&program.packets).enumerate() {
            if let Some(found) = packet_difference(WHO, [ours, its]) {
                return Some(format!("output {number}: {found}"));
            }
            if self.captures[number] != program.captures[number] {
                return Some(format!("output {number}: the same packets at other times"));
            }
        }
        let said = |one: &Value| one.to_string();
        map_difference(&self.elements, &program.elements, said)
            .or_else(|| map_difference(&self.handlers, &program.handlers, String::clone))
            .or_else(|| {
                let others = [
                    ("what was printed", &self.said, &program.said),
                    ("buffers held at the end", &self.held, &program.held),
                ];
                let (what, ours, its) = others.into_iter().find(|(_, ours, its)| ours != its)?;
                Some(told(what, ours, its))
            })
    }

    /// Counts the items compared.
    pub(super) fn summary(&self) -> EqualCounts {
        let for_packets = |element: &&Value| !PORTLESS.map(Value::from).contains(&element["class"]);
        let is_used = |element: &&Value| element["packets"] != json!(0);
        let elements = || self.elements.values().filter(for_packets);
        EqualCounts {
            packets: self.packets.iter().map(Vec::len).sum(),
            handlers: self.handlers.len(),
            elements: elements().count(),
            used: elements().filter(is_used).count(),
        }
    }
}

/// The first name of which two say something else.
fn map_difference<T: PartialEq>(
    ours: &BTreeMap<String, T>,
    its: &BTreeMap<String, T>,
    said: impl Fn(&T) -> String,
) -> Option<String> {
    let names = ours.keys().chain(its.keys());
    let name = names.into_iter().find(|name| ours.get(*name) != its.get(*name))?;
    let said = |one: Option<&T>| one.map_or("nothing".to_owned(), &said);
    Some(told(name, &said(ours.get(name)), &said(its.get(name))))
}

fn told(what: &str, ours: &str, its: &str) -> String {
    format!("{what} is `{ours}` with {}, `{its}` with {}", WHO[0], WHO[1])
}

/// Class, packets and drops of each element, and buffers that had not come home, from the summary
/// in the output for programs.
fn summary(stdout: &str) -> Result<(BTreeMap<String, Value>, String)> {
    let lines = || stdout.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let summary =
        lines().find(|line| line["event"] == "summary").context("no summary at its end")?;
    let elements = summary["elements"].as_array().context("no elements in its summary")?;
    let entry = |element: &Value| {
        let name = element["name"].as_str().unwrap_or_default().to_owned();
        let part = |name: &str| element[name].clone();
        let account =
            json!({"class": part("class"), "packets": part("packets"), "drops": part("drops")});
        (name, account)
    };
    Ok((elements.iter().map(entry).collect(), summary["buffers_held"].to_string()))
}

/// Takes handlers and their values out of the output.
fn answers(text: &str) -> (BTreeMap<String, String>, String) {
    let mut answers = BTreeMap::new();
    let mut said = String::new();
    let mut current: Option<(String, String)> = None;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix(MARK) {
            answers.extend(current.replace((name.to_owned(), String::new())));
        } else {
            let value = current.as_mut().map_or(&mut said, |(_, value)| value);
            *value += line;
            value.push('\n');
        }
    }
    answers.extend(current);
    (answers, said)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(packets: &[&[u8]], drops: u64, count: &str) -> RunOutput {
        let summary = json!({
            "event": "summary",
            "buffers_held": 0,
            "elements": [
                {"name": "c", "class": "Counter", "packets": 2, "drops": {"too long": drops}},
                {"name": "s", "class": "Script", "packets": 0, "drops": {}},
            ],
        });
        let (elements, held) = super::summary(&summary.to_string()).unwrap();
        let (handlers, said) = answers(&format!("hello\n{MARK}c.count\n{count}\n"));
        RunOutput {
            captures: vec![packets.concat()],
            packets: vec![packets.iter().map(|packet| packet.to_vec()).collect()],
            elements,
            held,
            handlers,
            said,
        }
    }

    #[test]
    fn every_kind_of_difference_is_found() {
        let one = || account(&[&[1], &[2]], 1, "2");
        assert_eq!(one().difference(&one()), None);
        let mut later = one();
        later.captures[0].push(0);
        let mut louder = one();
        louder.said.push('!');
        let mut holding = one();
        holding.held = "1".into();
        let mut longer = one();
        longer.handlers.insert("c.rate".into(), "1\n".into());
        for (other, told) in [
            (account(&[&[1], &[3]], 1, "2"), "output 0: "),
            (account(&[&[1]], 1, "2"), "output 0: "),
            (later, "output 0: the same packets at other times"),
            (account(&[&[1], &[2]], 3, "2"), "c is `"),
            (account(&[&[1], &[2]], 1, "5"), "c.count is `2\n` with `linerate run`, `5\n`"),
            (longer, "c.rate is `nothing`"),
            (louder, "what was printed is `"),
            (holding, "buffers held at the end is `0`"),
        ] {
            let found = one().difference(&other).unwrap();
            assert!(found.starts_with(told), "{found}");
        }
    }

    #[test]
    fn what_was_the_same_is_counted() {
        let same = account(&[&[1], &[2]], 1, "2").summary();
        assert_eq!((same.packets, same.handlers, same.elements, same.used), (2, 1, 1, 1));
    }
}
