//! Workspaces of their own in this repository, `examples/elements` and `fuzz`, built beside the main one.
//!
//! Each has its own lock file. The part that it shares with the main workspace, the packages of the
//! registry, is not compiled twice: they are locked to the same versions, compiled with the same
//! settings, and lie in the same folder. Our own crates are: cargo takes those of another workspace
//! for others.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result};
use serde::Deserialize;
use toml::{Table, Value};

use crate::shell;

pub(crate) const LOCK: &str = "Cargo.lock";
/// Optimisation level of our crates there: nothing there needs a fast library.
const OURS: i64 = 0;

/// The part of a lock file that is looked at.
#[derive(Deserialize)]
struct Lock {
    package: Vec<Package>,
}

/// Package in a lock file.
#[derive(Deserialize, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    /// None for a package in a folder.
    pub(crate) source: Option<String>,
}

/// The packages of a lock file.
pub(crate) fn lock(path: &Path) -> Result<BTreeSet<Package>> {
    let text = fs::read_to_string(path).with_context(|| format!("no {}", path.display()))?;
    let lock: Lock = toml::from_str(&text)?;
    Ok(lock.package.into_iter().collect())
}

/// A subcommand of cargo in the folder of such a workspace; its programs go to the folder of that
/// name beside ours.
pub(crate) fn cargo(
    folder: &Path,
    name: &str,
    subcommand: &str,
    arguments: &[&str],
) -> Result<Command> {
    let built = env::var_os("CARGO_TARGET_DIR").map_or("target".into(), PathBuf::from);
    let built = shell::root().join(built);
    let own = built.join(name);
    fs::create_dir_all(&own).with_context(|| format!("cannot make {}", own.display()))?;
    let settings = own.join("profile.toml");
    fs::write(&settings, profile(folder)?.to_string())
        .with_context(|| format!("cannot write {}", settings.display()))?;
    let mut command = shell::cargo(&[subcommand, "--config"]);
    command.arg(settings).args(arguments).current_dir(folder);
    // Programs of its own, for they are called as ours are; the rest beside ours.
    command.env("CARGO_BUILD_BUILD_DIR", &built).env("CARGO_TARGET_DIR", own);
    Ok(command)
}

/// The profile of its dependencies: those of the registry as in the main workspace, ours quickly.
fn profile(folder: &Path) -> Result<Table> {
    let text = fs::read_to_string(shell::root().join("Cargo.toml"));
    let manifest: Table = toml::from_str(&text.context("cannot read Cargo.toml")?)?;
    let dev = manifest.get("profile").and_then(|profiles| profiles.get("dev"));
    let mut dev = dev.and_then(Value::as_table).context("no [profile.dev] in Cargo.toml")?.clone();
    let special = dev.remove("package");
    let special = special.as_ref().and_then(Value::as_table);
    let packages = lock(&folder.join(LOCK))?.into_iter().filter_map(|package| {
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
