//! Exported symbols.

use std::{collections::BTreeSet, env, fs, path::PathBuf, process::Command};

use linerate_pcap::exports::{ExportSource, FUNCTIONS, VARIABLES};
use linerate_test_support::programs::require;

/// The shared library, which cargo leaves beside the tests.
pub(crate) fn library() -> PathBuf {
    let built = env::current_exe().unwrap().parent().unwrap().to_path_buf();
    let library = built.join("liblinerate_pcap.so");
    assert!(library.exists(), "{library:?}");
    library
}

/// The symbols that a library defines: their types and sizes.
fn symbols(library: &str) -> BTreeSet<(String, String, Option<u64>)> {
    let output = Command::new(require("readelf")).args(["-W", "--dyn-syms", library]).output();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    text.lines()
        .filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let &[_, _, size, kind, "GLOBAL", "DEFAULT", place, name, ..] = &words[..] else {
                return None;
            };
            // Of variables programs hold copies: their sizes count.
            let size = (kind == "OBJECT").then(|| size.parse().unwrap());
            (place != "UND").then(|| (name.to_owned(), kind.to_owned(), size))
        })
        .collect()
}

#[test]
#[ignore = "needs libpcap and readelf"]
fn every_symbol_of_debians_library_is_exported_and_no_other() {
    let ours = symbols(library().to_str().unwrap());
    let theirs = symbols(&system_library());
    assert_eq!(ours.len(), 96);
    assert_eq!(ours, theirs);
    let listed: BTreeSet<&str> =
        FUNCTIONS.iter().map(|(name, _)| *name).chain(VARIABLES.iter().copied()).collect();
    let exported: BTreeSet<&str> = ours.iter().map(|(name, ..)| name.as_str()).collect();
    assert_eq!(listed, exported);
}

pub(crate) fn system_library() -> String {
    let folder = format!("/usr/lib/{}-linux-gnu", env::consts::ARCH);
    format!("{folder}/libpcap.so.0.8")
}

#[test]
#[ignore = "needs readelf"]
fn programs_find_it_by_debians_name() {
    let output = Command::new(require("readelf")).arg("-d").arg(library()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("soname: [libpcap.so.0.8]"), "{text}");
}

/// The page lists every symbol under a heading that names its implementation.
#[test]
fn the_page_has_every_symbol() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("../../docs/guide/pcap-symbols.md")).unwrap();
    let mut written = Vec::new();
    for section in page.split("\n## ").skip(1) {
        let (heading, symbols) = section.split_once('\n').unwrap();
        written.extend(symbols.split('`').skip(1).step_by(2).map(|name| (heading, name)));
    }
    written.sort_unstable();
    let variables = VARIABLES.iter().map(|name| (words(ExportSource::Data), *name));
    let functions = FUNCTIONS.iter().map(|(name, how)| (words(*how), *name));
    let mut expected: Vec<_> = functions.chain(variables).collect();
    expected.sort_unstable();
    assert_eq!(written, expected);
}

#[test]
fn every_symbol_is_called_by_a_test() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/pcap");
    let files = ["semantics.rs", "leaving.rs", "table.rs", "words.rs", "programs.rs", "support.rs"];
    let sources = files.map(|name| fs::read_to_string(folder.join(name)).unwrap()).concat();
    // A declaration is no call.
    let code: Vec<&str> = sources
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .filter(|line| !line.contains("fn ") && !line.contains("static "))
        .collect();
    let is_in = |line: &str, name: &str, behind: &str| {
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        line.match_indices(name).any(|(at, _)| {
            let rest = &line[at + name.len()..];
            !line[..at].ends_with(is_part) && !rest.starts_with(is_part) && rest.starts_with(behind)
        })
    };
    let functions = FUNCTIONS.iter().map(|(name, _)| (*name, "("));
    let symbols = functions.chain(VARIABLES.iter().map(|name| (*name, "")));
    let uncalled: Vec<&str> = symbols
        .filter(|(name, behind)| !code.iter().any(|line| is_in(line, name, behind)))
        .map(|(name, _)| name)
        .collect();
    assert!(uncalled.is_empty(), "not called: {uncalled:?}");
}

fn words(how: ExportSource) -> &'static str {
    match how {
        ExportSource::Forwarded => "forwarded",
        ExportSource::ByHandle => "ours for our handles",
        ExportSource::ByName => "ours for our devices",
        ExportSource::Alone => "forwarded, ours where there is no libpcap",
        ExportSource::Data => "data",
    }
}
