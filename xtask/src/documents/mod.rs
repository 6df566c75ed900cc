//! `cargo xtask documents`: the parts of the repository's documents that are generated.
//!
//! `ARCHITECTURE.md` has the ladder of crates, the table of crates and the layers of modules, each between two marks. They are
//! drawn from the manifests ([`workspace`], [`ladder`]) and from the imports of modules ([`layers`](crate::layers)). The tests
//! of this module find crates that break the rule of the ladder, parts that are out of date, links that lead nowhere, and
//! documents that have grown too long.

mod ladder;
pub(crate) mod link;
#[cfg(test)]
mod tests;
mod workspace;

use std::{fs, path::Path};

use anyhow::{Context, Result};

use crate::shell;
use workspace::Workspace;

/// The document with generated parts.
const DOCUMENT: &str = "ARCHITECTURE.md";

/// A generated part.
struct Part {
    /// Its name in the marks around it.
    name: &'static str,
    draw: fn(&Workspace) -> Result<String>,
}

const PARTS: [Part; 3] = [
    Part { name: "ladder", draw: Workspace::ladder },
    Part { name: "crates", draw: Workspace::table },
    Part { name: "modules", draw: Workspace::modules },
];

/// Writes the generated parts anew.
pub(crate) fn run() -> Result<()> {
    let path = shell::root().join(DOCUMENT);
    let text = read(&path)?;
    let current = drawn(&text)?;
    if current == text {
        println!("the generated parts of {DOCUMENT} are current");
        return Ok(());
    }
    fs::write(&path, current).with_context(|| format!("cannot write {DOCUMENT}"))?;
    println!("{DOCUMENT} is written");
    Ok(())
}

/// The document with its generated parts as they should be.
fn drawn(text: &str) -> Result<String> {
    let workspace = Workspace::read()?;
    PARTS.iter().try_fold(text.to_owned(), |text, part| {
        replaced(&text, part.name, &(part.draw)(&workspace)?)
    })
}

/// A text whose part of that name has another content.
fn replaced(text: &str, part: &str, content: &str) -> Result<String> {
    let begin = format!("<!-- {part}: by `cargo xtask documents` -->\n");
    let end = format!("\n<!-- end of {part} -->");
    let missing =
        || format!("{DOCUMENT} has no part between `{}` and `{}`", begin.trim(), end.trim());
    let (before, rest) = text.split_once(&begin).with_context(missing)?;
    let (_, behind) = rest.split_once(&end).with_context(missing)?;
    Ok(format!("{before}{begin}{content}{end}{behind}"))
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}
