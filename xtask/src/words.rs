//! Words of the sources and of commit subjects: the rules of CONTRIBUTING.md that a program can check.
//!
//! Limits are counts of what stands; they only go down.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Result, bail};

use crate::shell;

/// First words of a summary line whose subject is no thing.
const BEGINNINGS: [&str; 7] = ["What", "Who", "Whose", "Whoever", "Nobody", "Somebody", "The same"];
/// Summary lines that begin so.
const SUMMARIES: usize = 0;
/// Names of types without a noun of the field.
const NOUNLESS: [&str; 17] = [
    "Kind", "Place", "Line", "State", "Known", "Found", "Way", "Wanted", "Shown", "Told", "Said",
    "Have", "Settled", "Lent", "Spent", "Doing", "Calm",
];
/// Types with such a name that other modules see.
const TYPES: usize = 4;
/// Functions named `of` that other modules see.
const FUNCTIONS: usize = 4;
/// Longest subject of a commit, in characters.
const SUBJECT: usize = 72;
/// Folders of the sources.
const FOLDERS: [&str; 6] = ["crates", "tests", "xtask", "fuzz", "examples", "bench"];

/// Checks the sources, and the commits since this file came.
///
/// # Errors
///
/// When there is more of something than its limit, or when a file cannot be read.
pub(crate) fn check() -> Result<()> {
    let mut files = Vec::new();
    for folder in FOLDERS {
        sources(&shell::root().join(folder), &mut files)?;
    }
    let mut found = [Vec::new(), Vec::new(), Vec::new()];
    for file in &files {
        let text = fs::read_to_string(file)?;
        let name = file.strip_prefix(shell::root()).unwrap_or(file).display();
        for (kind, line) in violations(&text) {
            found[kind].push(format!("{name}:{line}"));
        }
    }
    let kinds = [
        ("summary lines whose subject is no thing", SUMMARIES),
        ("types without a noun in their name", TYPES),
        ("functions named `of`", FUNCTIONS),
    ];
    for ((kind, limit), places) in kinds.iter().zip(&found) {
        if places.len() > *limit {
            let shown = places.iter().rev().take(20).cloned().collect::<Vec<_>>().join("\n  ");
            bail!("{} {kind}, and {limit} before; among them\n  {shown}", places.len());
        }
    }
    subjects()
}

/// Violations in a file: index of the kind, and line number.
fn violations(text: &str) -> impl Iterator<Item = (usize, usize)> {
    let mut before = "";
    text.lines().enumerate().filter_map(move |(at, line)| {
        let line = line.trim_start();
        let previous = std::mem::replace(&mut before, line);
        let kind = match ["/// ", "//! "].into_iter().find(|mark| line.starts_with(mark)) {
            Some(mark) => {
                let is_first = !previous.starts_with(mark.trim_end());
                (is_first && BEGINNINGS.iter().any(|word| has_word(&line[4..], word))).then_some(0)
            }
            None => declaration(line),
        };
        kind.map(|kind| (kind, at + 1))
    })
}

fn has_word(text: &str, word: &str) -> bool {
    let rest = text.strip_prefix(word);
    rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_'))
}

/// Index of the violation that a line declares.
fn declaration(line: &str) -> Option<usize> {
    let rest = line.strip_prefix("pub")?;
    let rest = match rest.strip_prefix('(') {
        Some(scope) => scope.split_once(") ")?.1,
        None => rest.strip_prefix(' ')?,
    };
    let rest = rest.strip_prefix("const ").unwrap_or(rest);
    let (keyword, name) = rest.split_once(' ')?;
    match keyword {
        "fn" => has_word(name, "of").then_some(2),
        "struct" | "enum" | "type" | "trait" => {
            NOUNLESS.iter().any(|word| has_word(name, word)).then_some(1)
        }
        _ => None,
    }
}

fn sources(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            if path.file_name().is_none_or(|name| name != "target") {
                sources(&path, files)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(())
}

/// Checks the subjects of the commits since this file came.
fn subjects() -> Result<()> {
    let git = |arguments: &[&str]| {
        let mut command = std::process::Command::new("git");
        let output = command.arg("-C").arg(shell::root()).args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let first = git(&["log", "--diff-filter=A", "--format=%H", "--", "xtask/src/words.rs"]);
    let first = first.as_deref().map(str::trim).filter(|hash| !hash.is_empty());
    let Some(hash) = first.and_then(|hashes| hashes.lines().last()) else {
        eprintln!("NOT CHECKED: subjects of commits, without the repository's history");
        return Ok(());
    };
    let subjects = git(&["log", "--format=%s", &format!("{hash}..HEAD")]).unwrap_or_default();
    let long = subjects.lines().find(|subject| subject.chars().count() > SUBJECT);
    match long {
        Some(subject) => bail!("the subject of a commit is longer than {SUBJECT}: {subject}"),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn violations_are_found_by_line() {
        let text = "/// What it is.\n/// The same.\nfn f() {}\n    //! Whose.\n/// Whatever.\n\
            pub fn of(a: u8) {}\npub(crate) const fn of() {}\npub fn offer() {}\nfn of() {}\n\
            pub(super) enum Kind {\npub struct KindOfPort;\nstruct Place;\n";
        let found: Vec<_> = violations(text).collect();
        assert_eq!(found, [(0, 1), (0, 4), (2, 6), (2, 7), (1, 10)]);
    }
}
