//! List of configurations, and their files in a folder.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Serialize;

/// Kind, repository, commit and path of every configuration.
const LIST: &str = include_str!("list.tsv");

/// Platform a configuration was written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Platform {
    /// Click itself.
    Click,
    /// DPDK or netmap, mostly through `FastClick`.
    Dpdk,
    /// Click, with elements of 802.11, which are left out here.
    Wifi,
    /// Being included by another one.
    Library,
}

/// A file of the list.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) kind: Platform,
    /// `OWNER/NAME` on GitHub.
    pub(super) repository: String,
    pub(super) commit: String,
    /// Its path in the repository.
    pub(super) path: String,
    /// Variables to set when it is started, as NAME=VALUE.
    pub(super) variables: Vec<String>,
}

impl Entry {
    fn parse(line: &str) -> Result<Entry> {
        let fields: Vec<&str> = line.split('\t').collect();
        let &[kind, repository, commit, path, ref rest @ ..] = fields.as_slice() else {
            bail!("list.tsv: `{line}` has not four fields");
        };
        let variables = rest.iter().flat_map(|words| words.split(' ')).map(str::to_owned).collect();
        let kind = match kind {
            "click" => Platform::Click,
            "dpdk" => Platform::Dpdk,
            "wifi" => Platform::Wifi,
            "library" => Platform::Library,
            other => bail!("list.tsv: there is no kind `{other}`"),
        };
        let [repository, commit, path] = [repository, commit, path].map(str::to_owned);
        Ok(Entry { kind, repository, commit, path, variables })
    }

    /// The folder of its repository at its commit, below `folder`.
    pub(super) fn tree(&self, folder: &Path) -> PathBuf {
        folder.join(self.repository.replace('/', "+")).join(&self.commit)
    }

    /// Returns its name in the table.
    pub(super) fn name(&self) -> String {
        format!("{}/{}", self.repository, self.path)
    }
}

/// The whole list, provided that every file of it is in `folder`.
pub(super) fn read(folder: &Path) -> Result<Vec<Entry>> {
    let entries = entries()?;
    let lacks = |entry: &&Entry| !entry.tree(folder).join(&entry.path).is_file();
    let missing: Vec<_> = entries.iter().filter(lacks).collect();
    if let Some(first) = missing.first() {
        bail!(
            "{} of {} configurations are missing in {}, the first is {}/{}: fetch commit {} of \
             https://github.com/{}",
            missing.len(),
            entries.len(),
            folder.display(),
            first.tree(Path::new("")).display(),
            first.path,
            first.commit,
            first.repository
        );
    }
    Ok(entries)
}

fn entries() -> Result<Vec<Entry>> {
    let lines = LIST.lines().filter(|line| !line.starts_with('#'));
    lines.map(Entry::parse).collect::<Result<_>>().context("xtask/src/conformance/public")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn the_list_is_large_and_of_many_sources() {
        let entries = entries().unwrap();
        let count = |kind| entries.iter().filter(|entry| entry.kind == kind).count();
        assert!(
            count(Platform::Click) + count(Platform::Wifi) >= 150 && count(Platform::Dpdk) >= 30
        );
        let mut repositories = BTreeMap::new();
        for entry in entries.iter().filter(|entry| entry.kind == Platform::Click) {
            *repositories.entry(&entry.repository).or_insert(0) += 1;
        }
        assert!(repositories.len() >= 40 && repositories.values().all(|&files| files <= 40));
    }

    #[test]
    fn every_file_is_named_once_by_a_commit() {
        let mut entries = entries().unwrap();
        assert!(entries.iter().all(|entry| entry.commit.len() == 40));
        let all = entries.len();
        entries.sort_by_key(Entry::name);
        entries.dedup_by_key(|entry| entry.name());
        assert_eq!(entries.len(), all);
    }
}
