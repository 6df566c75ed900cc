//! Exported symbols.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::PathBuf,
    process::Command,
};

use linerate_pcap::exports::{ExportSource, FUNCTIONS, VARIABLES};
use linerate_testlab::programs::require;

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
fn programs_find_it_by_debians_name() {
    let output = Command::new(require("readelf")).arg("-d").arg(library()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("soname: [libpcap.so.0.8]"), "{text}");
}

/// The table in the guide has a line for each export, with how it is done and a test that there is.
#[test]
fn the_guide_has_every_symbol_and_its_test() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let guide = fs::read_to_string(root.join("../../docs/pcap-symbols.md")).unwrap();
    let rows: Vec<Vec<&str>> = guide
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let sources: String =
        ["semantics.rs", "leaving.rs", "table.rs", "words.rs", "programs.rs", "support.rs"]
            .map(|name| fs::read_to_string(root.join("tests/pcap").join(name)).unwrap())
            .concat();
    let functions = functions(&sources);
    let expected = FUNCTIONS
        .iter()
        .map(|(name, how)| (*name, *how))
        .chain(VARIABLES.iter().map(|name| (*name, ExportSource::Data)));
    let mut written = BTreeSet::new();
    let mut uncalled = Vec::new();
    for row in &rows {
        let [name, how, test] = &row[..] else { panic!("{row:?}") };
        let name = name.trim_matches('`');
        assert!(written.insert((name.to_owned(), (*how).to_owned())), "{name} twice");
        let test = test.trim_matches('`');
        assert!(functions.contains_key(test), "{name}: there is no test {test}");
        if !uses(&functions, test, name, 3) {
            uncalled.push(format!("{name} by {test}"));
        }
    }
    assert!(uncalled.is_empty(), "not called: {uncalled:#?}");
    let expected: BTreeSet<_> =
        expected.map(|(name, how)| (name.to_owned(), words(how).to_owned())).collect();
    assert_eq!(written, expected);
}

/// The functions of a source and their text. They end with a brace that is as far in as they begin.
fn functions(source: &str) -> BTreeMap<&str, Vec<String>> {
    let mut functions: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut open: Vec<(&str, usize)> = Vec::new();
    for line in source.lines() {
        let depth = line.len() - line.trim_start().len();
        let code = line.trim_start();
        if let Some((_, rest)) = code.split_once("fn ").filter(|(before, _)| !before.contains("//"))
        {
            let name = rest.split(['(', '<']).next().unwrap_or_default();
            open.push((name, depth));
            functions.entry(name).or_default().push(String::new());
            continue;
        }
        for (name, _) in &open {
            let text = functions.get_mut(name).and_then(|all| all.last_mut()).expect("it is open");
            text.push_str(code.split("//").next().unwrap_or_default());
            text.push('\n');
        }
        open.retain(|(_, from)| !(code == "}" && *from == depth));
    }
    functions
}

/// Returns true if a function calls one of libpcap's, or looks at a variable of it, by itself or by
/// others of the tests'.
fn uses(functions: &BTreeMap<&str, Vec<String>>, by: &str, name: &str, depth: usize) -> bool {
    // Behind a word that is called is a parenthesis; behind one that is handed over as a function
    // to call, the end of another, or a conversion.
    let has = |text: &str, word: &str, behind: &[&str]| {
        text.match_indices(word).any(|(at, _)| {
            let is_part = |c: char| c.is_alphanumeric() || c == '_';
            !text[..at].ends_with(is_part)
                && behind.iter().any(|behind| text[at + word.len()..].starts_with(behind))
        })
    };
    let is_variable = VARIABLES.contains(&name);
    let behind: &[&str] = if is_variable { &[""] } else { &["("] };
    functions.get(by).is_some_and(|bodies| {
        bodies.iter().any(|text| {
            has(text, name, behind)
                || depth > 0
                    && functions.keys().any(|other| {
                        has(text, other, &["(", ")", " as "])
                            && uses(functions, other, name, depth - 1)
                    })
        })
    })
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
