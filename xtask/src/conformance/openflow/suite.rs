//! Cases of os-ken's switch tester, as its wheel has them.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::shell;

/// More packets in a second than the tester, a Python program, sends while others run beside it.
const MANY: u64 = 5_000;

/// A file of cases.
#[derive(Debug, Clone)]
pub(super) struct File {
    /// Its path below the suite, without the extension: `match/00_IN_PORT`.
    pub(super) name: String,
    /// The tester's name of it: `match: 00_IN_PORT`.
    pub(super) title: String,
    /// The tester's names of its cases.
    pub(super) cases: Vec<String>,
    path: PathBuf,
    /// Seconds it takes at least, about.
    seconds: f64,
    /// Whether it measures rates.
    pub(super) measures: bool,
    /// Whether it measures those of many packets.
    pub(super) heavy: bool,
}

/// Returns the folder of the suite for OpenFlow 1.3.
pub(super) fn folder(python: &Path) -> Result<PathBuf> {
    let program = "import os_ken.tests.switch as s; print(s.__path__[0])";
    let folder = shell::output(Command::new(python).args(["-c", program]))?;
    Ok(PathBuf::from(folder.trim()).join("of13"))
}

/// All files below a folder, by name.
pub(super) fn files(root: &Path) -> Result<Vec<File>> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries =
            fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "json") {
                files.push(read(root, &path)?);
            }
        }
    }
    files.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    let titles: BTreeSet<_> = files.iter().map(|file| &file.title).collect();
    ensure!(titles.len() == files.len(), "two files of the suite have one title");
    Ok(files)
}

fn read(root: &Path, path: &Path) -> Result<File> {
    let shown = path.display();
    let text = fs::read(path).with_context(|| format!("cannot read {shown}"))?;
    let Value::Array(list) = serde_json::from_slice(&text)? else { bail!("{shown} is no list") };
    let mut file = File {
        name: path.strip_prefix(root)?.with_extension("").to_string_lossy().into_owned(),
        title: String::new(),
        cases: Vec::new(),
        path: path.to_owned(),
        seconds: 0.0,
        measures: false,
        heavy: false,
    };
    for value in list {
        if let Some(title) = value.as_str() {
            title.clone_into(&mut file.title);
            continue;
        }
        let name = value["description"].as_str().with_context(|| format!("{shown}: no name"))?;
        file.cases.push(name.to_owned());
        for test in value["tests"].as_array().into_iter().flatten() {
            let packets = &test["ingress"]["packets"];
            if packets.is_object() {
                file.measures = true;
                file.seconds += packets["duration_time"].as_f64().unwrap_or(30.0);
                file.heavy |= packets["pktps"].as_u64().unwrap_or(1000) >= MANY;
            } else {
                // It waits a second before it asks whether nothing matched.
                file.seconds += if test["table-miss"].is_array() { 1.2 } else { 0.2 };
            }
        }
    }
    Ok(file)
}

/// Divides files into parts that take about as long. Those that measure many packets are in parts of
/// their own, which are to be run one at a time.
pub(super) fn divide(files: &[File], jobs: usize) -> (Vec<Vec<File>>, Vec<Vec<File>>) {
    let (heavy, mut light): (Vec<File>, Vec<File>) =
        files.iter().cloned().partition(|file| file.heavy);
    light.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
    let mut parts: Vec<(f64, Vec<File>)> = vec![(0.0, Vec::new()); jobs.max(1)];
    for file in light {
        let least = parts.iter_mut().min_by(|(one, _), (other, _)| one.total_cmp(other));
        if let Some((seconds, part)) = least {
            *seconds += file.seconds;
            part.push(file);
        }
    }
    let parts = parts.into_iter().map(|(_, part)| part).filter(|part| !part.is_empty());
    let heavy = if heavy.is_empty() { Vec::new() } else { vec![heavy] };
    (parts.collect(), heavy)
}

/// Makes a folder with nothing but these files, for the tester to go through.
pub(super) fn gather(part: &[File], folder: &Path) -> Result<()> {
    for file in part {
        let link = folder.join(format!("{}.json", file.name.replace('/', "-")));
        symlink(&file.path, link).context("cannot link to a file of the suite")?;
    }
    Ok(())
}
