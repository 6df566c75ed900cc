//! Build of the project in `examples/elements`, as projects outside the repository are built.
//!
//! It is a workspace of its own with its own lock file. The part it shares with this one, the
//! packages of the registry, is not compiled twice: they are locked to the same versions, compiled
//! with the same settings, and lie in the same folder. Our own crates are: cargo takes those of
//! another workspace for others.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use toml::{Table, Value};

use crate::shell;

const FOLDER: &str = "examples/elements";
const LOCK: &str = "Cargo.lock";
/// Optimisation level of our crates there: its tests need no fast library.
const OURS: i64 = 0;

/// The part of a lock file that is looked at.
#[derive(Deserialize)]
struct Lock {
    package: Vec<Package>,
}

#[derive(Deserialize, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Package {
    name: String,
    version: String,
    /// None for a package in a folder.
    source: Option<String>,
}

/// Its manifest.
pub(crate) fn manifest() -> PathBuf {
    folder().join("Cargo.toml")
}

/// A subcommand of cargo in that folder.
pub(crate) fn cargo(subcommand: &str, arguments: &[&str]) -> Result<Command> {
    let built = env::var_os("CARGO_TARGET_DIR").map_or("target".into(), PathBuf::from);
    let built = shell::root().join(built);
    let own = built.join("outsider");
    fs::create_dir_all(&own).with_context(|| format!("cannot make {}", own.display()))?;
    let settings = own.join("profile.toml");
    fs::write(&settings, profile()?.to_string())
        .with_context(|| format!("cannot write {}", settings.display()))?;
    let mut command = shell::cargo(&[subcommand, "--config"]);
    command.arg(settings).args(arguments).current_dir(folder());
    // Programs of its own, for they are called as ours are; the rest beside ours.
    command.env("CARGO_BUILD_BUILD_DIR", &built).env("CARGO_TARGET_DIR", own);
    Ok(command)
}

/// The profile of its dependencies: those of the registry as in this workspace, ours quickly.
fn profile() -> Result<Table> {
    let text = fs::read_to_string(shell::root().join("Cargo.toml"));
    let manifest: Table = toml::from_str(&text.context("cannot read Cargo.toml")?)?;
    let dev = manifest.get("profile").and_then(|profiles| profiles.get("dev"));
    let mut dev = dev.and_then(Value::as_table).context("no [profile.dev] in Cargo.toml")?.clone();
    let special = dev.remove("package");
    let special = special.as_ref().and_then(Value::as_table);
    let packages = lock(&folder().join(LOCK))?.into_iter().filter_map(|package| {
        let settings = match package.source {
            None => Value::Table(Table::from_iter([("opt-level".into(), OURS.into())])),
            Some(_) => special?.get(&package.name)?.clone(),
        };
        Some((package.name, settings))
    });
    dev.insert("package".into(), Value::Table(packages.collect()));
    let profiles = Table::from_iter([("dev".to_owned(), Value::Table(dev))]);
    Ok(Table::from_iter([("profile".to_owned(), Value::Table(profiles))]))
}

fn folder() -> PathBuf {
    shell::root().join(FOLDER)
}

fn lock(path: &Path) -> Result<BTreeSet<Package>> {
    let text = fs::read_to_string(path).with_context(|| format!("no {}", path.display()))?;
    let lock: Lock = toml::from_str(&text)?;
    Ok(lock.package.into_iter().collect())
}

/// Whether its lock file is in step with ours.
pub(crate) fn check_lock() -> Result<()> {
    let stale = |reason: String| {
        format!(
            "{FOLDER}/{LOCK} is not in step with {LOCK}: {reason}. Make it anew:\n  \
             cp {LOCK} {FOLDER}/ && cargo metadata --format-version 1 --manifest-path \
             {FOLDER}/Cargo.toml >/dev/null"
        )
    };
    let ours = lock(&shell::root().join(LOCK))?;
    let theirs = lock(&folder().join(LOCK))?;
    let other = theirs.iter().find(|package| package.source.is_some() && !ours.contains(package));
    if let Some(Package { name, version, .. }) = other {
        bail!(stale(format!("{name} {version} is in one only")));
    }
    if shell::output(&mut cargo("metadata", &["--format-version", "1", "--locked"])?).is_err() {
        bail!(stale("our crates have other dependencies now".into()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page that tells how the project came about.
    const PAGE: &str = "docs/write-an-element.md";

    /// Blocks of the page that are in one of those languages.
    fn blocks(page: &str) -> Vec<&str> {
        let blocks = page.split("\n```").skip(1).step_by(2);
        let languages = ["rust\n", "toml\n", "click\n"];
        blocks
            .filter_map(|block| languages.iter().find_map(|name| block.strip_prefix(name)))
            .collect()
    }

    #[test]
    fn the_code_of_the_page_is_that_of_the_project() {
        let names = [
            "Cargo.toml",
            "neighbour.click",
            "src/bin/click.rs",
            "src/bin/linerate.rs",
            "src/drop_duplicates.rs",
            "src/failover.rs",
            "src/lib.rs",
            "src/ttl_security.rs",
        ];
        let files = names.map(|name| (name, fs::read_to_string(folder().join(name)).unwrap()));
        let page = fs::read_to_string(shell::root().join(PAGE)).unwrap();
        let blocks = blocks(&page);
        for block in &blocks {
            assert!(files.iter().any(|(_, text)| text.contains(block)), "{PAGE} has\n{block}");
        }
        for (name, text) in &files {
            assert!(
                blocks.iter().any(|block| text.contains(block)),
                "{PAGE} has nothing of {name}"
            );
        }
    }
}
