//! Missing and impossible things: every command ends with the code for them, and gives the reason once, in
//! the words of its command line.
#![allow(missing_docs, reason = "a test program")]

use std::{
    collections::BTreeSet,
    process::{Command, Output, Stdio},
};

const LINERATE: &str = env!("CARGO_BIN_EXE_linerate");
const INTERFACE: i32 = 4;
const FILE: i32 = 5;

/// Commands that need nothing that may be missing.
const NEED_NOTHING: [&str; 5] = ["completions", "doctor", "elements", "lab compare", "lab point"];

/// At least one line for each of the other commands with a missing thing, and the code of that
/// thing.
const MISSING: &[(&str, i32)] = &[
    ("call /nonesuch/x.sock rates", FILE),
    ("call 127.0.0.1:1 rates", FILE),
    ("capture -i nonesuch0 --print", INTERFACE),
    ("capture -i nonesuch0 -w /dev/null -Q in", INTERFACE),
    ("capture -r /nonesuch/x.pcap", FILE),
    ("check /nonesuch/x.click", FILE),
    ("cluster attach @nonesuch-socket a", FILE),
    ("cluster attach /nonesuch/x.sock a", FILE),
    ("cluster balance @nonesuch-socket", FILE),
    ("cluster detach @nonesuch-socket a", FILE),
    ("cluster serve /nonesuch/x.click", FILE),
    ("cluster status @nonesuch-socket", FILE),
    ("cluster status /nonesuch/x.sock", FILE),
    ("cluster top @nonesuch-socket", FILE),
    ("cluster weights @nonesuch-socket b 1", FILE),
    ("compile /nonesuch/x.click", FILE),
    ("flow add --switch unix:/nonesuch/x actions=drop", FILE),
    ("flow cache --control /nonesuch/x.sock", FILE),
    ("flow connections --control /nonesuch/x.sock", FILE),
    ("flow connections list --control /nonesuch/x.sock", FILE),
    ("flow connections flush --all --control /nonesuch/x.sock", FILE),
    ("flow connections limit --control /nonesuch/x.sock", FILE),
    ("flow connections timeout --control /nonesuch/x.sock", FILE),
    ("flow connections fragments --control /nonesuch/x.sock", FILE),
    ("flow del --switch unix:/nonesuch/x --all", FILE),
    ("flow dump --switch unix:/nonesuch/x", FILE),
    ("flow dump --switch tcp:127.0.0.1:1", FILE),
    ("flow dump --switch nonesuch", FILE),
    ("flow groups --switch unix:/nonesuch/x", FILE),
    ("flow meters --switch unix:/nonesuch/x", FILE),
    ("flow mod --switch unix:/nonesuch/x actions=drop", FILE),
    ("flow monitor --switch unix:/nonesuch/x", FILE),
    ("flow ports --switch unix:/nonesuch/x", FILE),
    ("flow replace --switch unix:/nonesuch/x /nonesuch/flows", FILE),
    ("flow tables --switch unix:/nonesuch/x", FILE),
    ("flow top --switch unix:/nonesuch/x", FILE),
    ("flow trace --control /nonesuch/x.sock in_port=1", FILE),
    ("flow trace --pcap /nonesuch/x.pcap", FILE),
    ("forward null: packet:nonesuch0", INTERFACE),
    ("forward pcap:/nonesuch/x.pcap null:", FILE),
    ("generate packet:nonesuch0", INTERFACE),
    ("generate null: --profile /nonesuch/x.toml", FILE),
    ("lab back-to-back /nonesuch/x.click", FILE),
    ("lab calibrate /nonesuch/results", FILE),
    ("lab latency /nonesuch/x.click", FILE),
    ("lab list /nonesuch/x.toml", FILE),
    ("lab loss /nonesuch/x.click", FILE),
    ("lab ndr /nonesuch/x.click", FILE),
    ("lab recovery /nonesuch/x.click", FILE),
    ("lab report /nonesuch/results", FILE),
    ("lab run /nonesuch/x.toml", FILE),
    ("man /nonesuch/folder", FILE),
    ("pcap -q -- /nonesuch/program", FILE),
    ("pcap -q --library /nonesuch/x.so -- true", FILE),
    ("plan /nonesuch/results x.click", FILE),
    ("ports memif:/nonesuch/x.sock", FILE),
    ("ports packet:nonesuch0", INTERFACE),
    ("replay /nonesuch/x.pcap null:", FILE),
    ("run /nonesuch/x.click", FILE),
    ("sink packet:nonesuch0", INTERFACE),
    ("switch packet:nonesuch0", INTERFACE),
    ("switch add --control /nonesuch/x.sock null:", FILE),
    ("switch list --control /nonesuch/x.sock", FILE),
    ("switch remove --control /nonesuch/x.sock a", FILE),
    ("switch show --control /nonesuch/x.sock", FILE),
];

fn run<'a>(words: impl IntoIterator<Item = &'a str>) -> Output {
    let mut command = Command::new(LINERATE);
    command.args(words).stdin(Stdio::null()).env_remove("LINERATE_CONTROL_TOKEN");
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The commands below one, by their lines in its help.
fn commands(of: &[&str]) -> Vec<String> {
    let help = text(&run(of.iter().copied().chain(["--help"])).stdout);
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let lines = listed.take_while(|line| !line.is_empty());
    let names = lines.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    names.filter(|name| !name.is_empty() && *name != "help").map(Into::into).collect()
}

/// Every command that does something, as it is written.
fn leaves() -> BTreeSet<String> {
    let mut leaves = BTreeSet::new();
    let mut left = commands(&[]);
    while let Some(command) = left.pop() {
        let words: Vec<&str> = command.split(' ').collect();
        let below = commands(&words);
        left.extend(below.iter().map(|name| format!("{command} {name}")));
        // These do something by their names alone, too.
        if below.is_empty() || matches!(command.as_str(), "switch" | "flow connections") {
            leaves.insert(command);
        }
    }
    leaves
}

/// The command that a line is of.
fn command_of<'a>(line: &str, leaves: &'a BTreeSet<String>) -> Option<&'a String> {
    let is_of = |leaf: &&String| line == **leaf || line.starts_with(&format!("{leaf} "));
    leaves.iter().filter(is_of).max_by_key(|leaf| leaf.len())
}

#[test]
fn missing_things_have_one_code_and_are_named_once() {
    let leaves = leaves();
    let tried: BTreeSet<_> =
        MISSING.iter().filter_map(|(line, _)| command_of(line, &leaves)).collect();
    let untried: Vec<_> = leaves
        .iter()
        .filter(|leaf| !tried.contains(leaf) && !NEED_NOTHING.contains(&leaf.as_str()))
        .collect();
    assert!(leaves.len() > 40 && untried.is_empty(), "no line for {untried:?}");
    let mut wrong = Vec::new();
    for (line, code) in MISSING {
        let output = run(line.split(' '));
        let said = text(&output.stderr);
        let mut faults = Vec::new();
        if output.status.code() != Some(*code) {
            faults.push("another code");
        }
        // No line has an option behind a port, nor names a file by a port but where that is written.
        if said.contains('?') || said.contains(" pcap:") && !line.contains("pcap:") {
            faults.push("a port that nobody has written");
        }
        for words in ["os error", "No such file or directory", "Connection refused", "error: "] {
            if said.matches(words).count() > 1 {
                faults.push("said more than once");
            }
        }
        if !faults.is_empty() {
            wrong.push(format!("{line}: {faults:?}, {:?}: {said}", output.status.code()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
