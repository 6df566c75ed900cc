//! Tree of installed files, for all kinds of packages.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, Result};

use super::{PROGRAMS, read, source};
use crate::{reference, shell};

/// Shells, and where their completions belong below `share`.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "bash-completion/completions/linerate"),
    ("zsh", "zsh/vendor-completions/_linerate"),
    ("fish", "fish/vendor_completions.d/linerate.fish"),
];

/// A file.
pub(super) struct File {
    /// Its path below the folder of its kind, without a slash in front.
    pub(super) path: String,
    pub(super) bytes: Vec<u8>,
}

/// Installed files, by kind.
pub(super) struct Tree {
    /// Programs, by name.
    pub(super) programs: Vec<File>,
    /// Pages by name: `linerate.1`.
    pub(super) manual: Vec<File>,
    /// Below `share`.
    pub(super) completions: Vec<File>,
    /// Configurations by name.
    pub(super) examples: Vec<File>,
    /// Documents that go with every copy: the guide in a folder, with the reference.
    pub(super) documents: Vec<File>,
}

impl Tree {
    /// Collects the programs in a folder, which also write their pages, completions and references.
    pub(super) fn new(programs: &Path) -> Result<Tree> {
        let scratch = tempfile::tempdir().context("no temporary folder")?;
        let linerate = programs.join(PROGRAMS[0]);
        let manual = scratch.path().join("man");
        fs::create_dir(&manual)?;
        shell::run(Command::new(&linerate).arg("man").arg(&manual))?;
        let completions = COMPLETIONS.iter().map(|(name, path)| {
            let text = shell::output(Command::new(&linerate).args(["completions", name]))?;
            Ok(File { path: (*path).into(), bytes: text.into_bytes() })
        });
        let stripped = PROGRAMS.iter().map(|name| {
            let to = scratch.path().join(name);
            let mut strip = Command::new("strip");
            shell::run(strip.arg("-o").arg(&to).arg(programs.join(name)))?;
            Ok(File { path: (*name).into(), bytes: read(&to)? })
        });
        let documents = ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"];
        let documents = documents
            .iter()
            .map(|name| Ok(File { path: (*name).into(), bytes: read(&source(name))? }));
        let guide = scratch.path().join("guide");
        let pages = reference::write(&guide, || Command::new(&linerate))?;
        let pages = pages.iter().map(|page| document(page, scratch.path()));
        Ok(Tree {
            programs: stripped.collect::<Result<_>>()?,
            manual: files(&manual)?,
            completions: completions.collect::<Result<_>>()?,
            examples: files(&source("examples"))?,
            documents: documents.chain(pages).collect::<Result<_>>()?,
        })
    }
}

/// A document, by its path below a folder.
fn document(path: &Path, folder: &Path) -> Result<File> {
    let below = path.strip_prefix(folder).context("a page is below its folder")?;
    Ok(File { path: below.to_string_lossy().into_owned(), bytes: read(path)? })
}

/// The files right in a folder, by name.
pub(super) fn files(folder: &Path) -> Result<Vec<File>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("no {}", folder.display()))? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            let path = entry.file_name().to_string_lossy().into_owned();
            files.push(File { path, bytes: read(&entry.path())? });
        }
    }
    files.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(files)
}
