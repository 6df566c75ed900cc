//! Open vSwitch's client as judge.
//!
//! `ovs-ofctl parse-flows` prints the message it would send for a text. The message made here of
//! the text, printed by `ovs-ofctl ofp-parse`, has to be the same; so has the one it makes of our
//! text for it.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use linerate_openflow::text::Syntax;
use linerate_openflow::wire::{FlowModCommand, Message, Version};

/// Texts with all words there are; the versions that have them: all, those since 1.1, the newest.
const EVERYWHERE: &str = include_str!("flows.txt");
const NEWER: &str = include_str!("newer.txt");
const NEWEST: &str = include_str!("newest.txt");

/// Returns the output of `ovs-ofctl`.
fn run(version: Version, arguments: &[&str]) -> String {
    let version = format!("OpenFlow{}", version.to_string().replace('.', ""));
    let output = Command::new(linerate_test_support::require("ovs-ofctl"))
        .args(["-O", &version])
        .args(arguments)
        .output()
        .expect("ovs-ofctl runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{version} {arguments:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The messages of a printed list, without their transactions.
///
/// In 1.0 it has two messages for a flow, and chooses one for a whole file; and that the switch
/// chooses a table is the default.
fn messages(printed: &str) -> Vec<String> {
    let message = |line: &str| {
        let (name, rest) = line.split_once(" (xid=")?;
        let (_, body) = rest.split_once("): ")?;
        let name = name.replace("NXT_", "OFPT_");
        Some(format!("{name} {}", body.replace("ADD table:255 ", "ADD ")))
    };
    printed.lines().filter_map(message).collect()
}

/// The messages it makes of texts.
fn theirs(folder: &Path, version: Version, texts: &[String]) -> Vec<String> {
    let file = folder.join("flows.txt");
    std::fs::write(&file, texts.join("\n")).expect("a file");
    messages(&run(version, &["parse-flows", file.to_str().expect("a plain name")]))
}

/// Ours, as it prints them.
fn ours(folder: &Path, version: Version, texts: &[String]) -> Vec<String> {
    let mut bytes = Vec::new();
    for text in texts {
        let flow = Syntax::new(version).flow(text, FlowModCommand::Add);
        let flow = flow.unwrap_or_else(|error| panic!("{version}: {error}\n{}", error.shown(text)));
        let message = Message::FlowMod(flow).encode(version, 1);
        bytes.extend(message.unwrap_or_else(|error| panic!("{version}: {error}: {text}")));
    }
    let file = folder.join("messages");
    std::fs::write(&file, bytes).expect("a file");
    messages(&run(version, &["ofp-parse", file.to_str().expect("a plain name")]))
}

fn compare(texts: &[String], one: &[String], other: &[String], what: &str) {
    let mut wrong = String::new();
    for (text, (one, other)) in texts.iter().zip(one.iter().zip(other)) {
        if one != other {
            writeln!(wrong, "{text}\n  {one}\n  {other}").expect("to a string");
        }
    }
    assert!(wrong.is_empty(), "{what}:\n{wrong}");
    assert_eq!((one.len(), other.len()), (texts.len(), texts.len()), "{what}");
}

#[test]
#[ignore = "needs ovs-ofctl"]
fn flows_mean_the_same_to_open_vswitch() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    for version in Version::ALL {
        let newer = if version == Version::V10 { "" } else { NEWER };
        let newest = if version == Version::V15 { NEWEST } else { "" };
        let lines = EVERYWHERE.lines().chain(newer.lines()).chain(newest.lines());
        let texts: Vec<String> =
            lines.filter(|line| !line.starts_with('#')).map(str::to_owned).collect();
        let theirs = theirs(folder.path(), version, &texts);
        compare(&texts, &theirs, &ours(folder.path(), version, &texts), "as read");
        // Its output is parsed here as the same, but for names that it prints and does not parse.
        let printed: Vec<String> = theirs
            .iter()
            .filter_map(|line| line.split_once("ADD ").map(|(_, text)| text))
            .filter(|text| !text.contains("pri:"))
            .map(|text| {
                text.replace(" idle:", " idle_timeout:").replace(" hard:", " hard_timeout:")
            })
            .collect();
        let again = self::ours(folder.path(), version, &printed);
        let same: Vec<String> =
            theirs.iter().filter(|line| !line.contains("pri:")).cloned().collect();
        compare(&printed, &same, &again, "as printed there");
        // Our output is parsed there as the same.
        let syntax = Syntax::new(version);
        let print = |text: &String| {
            let flow = syntax.flow(text, FlowModCommand::Add).expect("it was read before");
            let printed = syntax.print_flow(&flow);
            let read = syntax.flow(&printed, FlowModCommand::Add);
            assert_eq!(read.as_ref(), Ok(&flow), "{text}\n{printed}");
            printed
        };
        let printed: Vec<String> = texts.iter().map(print).collect();
        compare(&printed, &theirs, &self::theirs(folder.path(), version, &printed), "as printed");
    }
}
