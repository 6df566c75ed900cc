//! Configurations of others, planned and run on captures: the packets are those that `cargo xtask
//! conformance public` runs them on, to and from the addresses they name.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use super::Planned;
use super::answer::{self, Answer};
use crate::conformance::traffic::{self, Addresses};

/// Devices that are given addresses: `linerate plan` counts them from 0.
const DEVICES: u8 = 8;

/// Folders in which libraries are looked for, each in the one before.
const LIBRARIES: usize = 5;

/// A configuration in a file.
#[derive(Debug)]
struct Public {
    name: String,
    file: PathBuf,
    variables: Vec<String>,
    seconds: u32,
    capture: PathBuf,
    /// Goes with the capture.
    _folder: TempDir,
}

/// A line of a list.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    /// The name as it was written.
    name: String,
    variables: Vec<String>,
}

/// All that are in a folder, or that a list names, each with a capture.
pub(super) fn configurations(list: &Path, seconds: u32) -> Result<Vec<Box<dyn Planned>>> {
    let list = list.canonicalize().with_context(|| list.display().to_string())?;
    let (folder, entries) = if list.is_dir() {
        let mut files = Vec::new();
        find(&list, &mut files)?;
        files.sort();
        let name = |file: PathBuf| file.strip_prefix(&list).unwrap_or(&file).display().to_string();
        let entry = |file| Entry { name: name(file), variables: Vec::new() };
        (list.clone(), files.into_iter().map(entry).collect())
    } else {
        let text = fs::read_to_string(&list).with_context(|| list.display().to_string())?;
        (list.parent().unwrap_or(Path::new("/")).to_owned(), entries(&text)?)
    };
    if entries.is_empty() {
        bail!("{} names no configuration", list.display());
    }
    let made = entries.into_iter().map(|entry| public(&folder, entry, seconds));
    made.map(|public| Ok(Box::new(public?) as Box<dyn Planned>)).collect()
}

/// Adds the configurations in a folder and those in it. Those of projects may have elements that
/// `linerate` itself has not.
fn find(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            if !path.join("Cargo.toml").exists() {
                find(&path, files)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "click") {
            files.push(path);
        }
    }
    Ok(())
}

/// The lines of a list that are neither empty nor remarks.
fn entries(text: &str) -> Result<Vec<Entry>> {
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let mut words = line.split_whitespace().map(str::to_owned);
            let name = words.next().unwrap_or_default();
            let variables: Vec<String> = words.collect();
            if let Some(wrong) = variables.iter().find(|word| !word.contains('=')) {
                bail!("`{line}`: {wrong} is no NAME=VALUE");
            }
            Ok(Entry { name, variables })
        })
        .collect()
}

fn public(folder: &Path, Entry { name, variables }: Entry, seconds: u32) -> Result<Public> {
    let file = folder.join(&name);
    let text = fs::read(&file).with_context(|| file.display().to_string())?;
    let mut addresses = Addresses::parse(&String::from_utf8_lossy(&text));
    (0..DEVICES).for_each(|device| addresses.add_mac([2, 0, 0, 0, 1, device]));
    let own = tempfile::tempdir().context("cannot make a folder for a capture")?;
    let capture = own.path().join("packets.pcap");
    traffic::write(&capture, &addresses, 0).context("cannot write a capture")?;
    Ok(Public { name, file, variables, seconds, capture, _folder: own })
}

impl Planned for Public {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn ask(&self, linerate: &Path, dir: &Path) -> Result<Answer> {
        let Public { file, variables, seconds, capture, .. } = self;
        let here = file.parent().unwrap_or(Path::new("/"));
        // Libraries are beside it, or in one of the folders it is in.
        let path: String = here
            .ancestors()
            .take(LIBRARIES)
            .map(|folder| format!("{}:", folder.display()))
            .collect();
        let mut command = Command::new("timeout");
        command
            .arg("--kill-after=5")
            .arg(seconds.to_string())
            .arg(linerate)
            .arg("plan")
            .arg(dir)
            .arg(file)
            .args(variables)
            .arg("--packets")
            .arg(capture)
            .current_dir(here)
            .env("CLICKPATH", path);
        answer::ask(&mut command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_files_and_variables() {
        let found = entries("# ours\n\na.click\n  b/c.click LEFT=eth0 N=3\n").unwrap();
        let entry = |name: &str, variables: &[&str]| Entry {
            name: name.to_owned(),
            variables: variables.iter().map(|one| (*one).to_owned()).collect(),
        };
        assert_eq!(found, [entry("a.click", &[]), entry("b/c.click", &["LEFT=eth0", "N=3"])]);
        assert!(entries("a.click LEFT").unwrap_err().to_string().contains("LEFT is no NAME=VALUE"));
    }

    #[test]
    fn folders_and_lists_name_the_same() {
        let folder = tempfile::tempdir().unwrap();
        for inner in ["in", "project"] {
            fs::create_dir(folder.path().join(inner)).unwrap();
        }
        let project = ["project/Cargo.toml", "project/own.click"];
        for file in ["b.click", "in/a.click", "in/other.txt"].into_iter().chain(project) {
            fs::write(folder.path().join(file), "Idle -> Discard(); // 10.1.2.3").unwrap();
        }
        let names = |list: &Path| -> Vec<String> {
            configurations(list, 1).unwrap().iter().map(|one| one.name()).collect()
        };
        assert_eq!(names(folder.path()), ["b.click", "in/a.click"]);
        let list = folder.path().join("list");
        fs::write(&list, "b.click\nin/a.click\n").unwrap();
        assert_eq!(names(&list), ["b.click", "in/a.click"]);
        fs::write(&list, "c.click\n").unwrap();
        assert!(configurations(&list, 1).is_err());
    }
}
