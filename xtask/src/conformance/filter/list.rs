//! List of captures, and their files in a folder.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Repository, commit and path of every capture.
const LIST: &str = include_str!("captures.tsv");
/// Endings of the names of captures.
const EXTENSIONS: [&str; 3] = ["pcap", "pcapng", "cap"];

/// A capture.
#[derive(Debug, Clone)]
pub(super) struct Capture {
    /// Its name in the table.
    pub(super) name: String,
    pub(super) file: PathBuf,
}

/// Those of the list, provided that every file of it is in `folder`.
pub(super) fn listed(folder: &Path) -> Result<Vec<Capture>> {
    let mut captures = Vec::new();
    let mut missing = Vec::new();
    for line in LIST.lines().filter(|line| !line.starts_with('#')) {
        let [repository, commit, path] = line.split('\t').collect::<Vec<_>>()[..] else {
            bail!("captures.tsv: `{line}` has not three fields");
        };
        let file = folder.join(repository.replace('/', "+")).join(commit).join(path);
        if !file.is_file() {
            missing.push((file.clone(), repository, commit));
        }
        captures.push(Capture { name: format!("{repository}/{path}"), file });
    }
    if let Some((file, repository, commit)) = missing.first() {
        bail!(
            "{} of {} captures are missing, the first is {}: fetch commit {commit} of \
             https://github.com/{repository}, or have what is there tried by --all",
            missing.len(),
            captures.len(),
            file.display(),
        );
    }
    Ok(captures)
}

/// All that are somewhere below `folder`, sorted.
pub(super) fn found(folder: &Path) -> Result<Vec<Capture>> {
    let mut captures = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(below) = folders.pop() {
        let entries =
            fs::read_dir(&below).with_context(|| format!("cannot read {}", below.display()))?;
        for entry in entries {
            let file = entry?.path();
            let extension = file.extension().and_then(|extension| extension.to_str());
            if file.is_dir() {
                folders.push(file);
            } else if extension.is_some_and(|extension| EXTENSIONS.contains(&extension)) {
                let name = file.strip_prefix(folder)?.to_string_lossy().into_owned();
                captures.push(Capture { name, file });
            }
        }
    }
    captures.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(captures)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_list_is_long_and_of_several_sources() {
        let rows: BTreeSet<Vec<&str>> = LIST
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| line.split('\t').collect())
            .collect();
        assert!(rows.iter().all(|row| row.len() == 3 && row[1].len() == 40));
        let repositories: BTreeSet<&str> = rows.iter().map(|row| row[0]).collect();
        assert!(rows.len() >= 60 && repositories.len() >= 4, "{repositories:?}");
    }

    #[test]
    fn what_is_missing_is_named_with_where_to_get_it() {
        let folder = tempfile::tempdir().unwrap();
        let error = listed(folder.path()).unwrap_err().to_string();
        assert!(error.contains(" captures are missing, the first is "), "{error}");
        assert!(error.contains("https://github.com/"), "{error}");
    }

    #[test]
    fn captures_are_found_in_folders() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("b")).unwrap();
        for name in ["b/x.pcapng", "b/x.txt", "a.pcap"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let found = found(folder.path()).unwrap();
        let names: Vec<_> = found.iter().map(|capture| capture.name.as_str()).collect();
        assert_eq!(names, ["a.pcap", "b/x.pcapng"]);
    }
}
