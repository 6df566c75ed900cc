//! Tar archives that are reproducible, and the tarball.

use std::{
    collections::BTreeSet,
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use flate2::{Compression, GzBuilder, write::GzEncoder};
use tar::{Builder, EntryType, Header};

use super::{Release, UNITS, source, tree::Tree};

/// An archive that belongs to root, in which everything is as old as the release.
pub(super) struct Archive<W: Write> {
    builder: Builder<W>,
    time: u64,
    folders: BTreeSet<PathBuf>,
}

impl<W: Write> Archive<W> {
    pub(super) fn new(to: W, time: u64) -> Archive<W> {
        Archive { builder: Builder::new(to), time, folders: BTreeSet::new() }
    }

    /// A file, and the folders it is in.
    pub(super) fn file(&mut self, path: &str, mode: u32, bytes: &[u8]) -> Result<()> {
        if let Some(folder) = Path::new(path).parent() {
            self.folder(folder, 0o755)?;
        }
        self.entry(path.as_ref(), EntryType::Regular, mode, bytes)
    }

    /// A folder, and those it is in.
    pub(super) fn folder(&mut self, path: &Path, mode: u32) -> Result<()> {
        if path.as_os_str().is_empty() || !self.folders.insert(path.to_owned()) {
            return Ok(());
        }
        if let Some(around) = path.parent() {
            self.folder(around, 0o755)?;
        }
        self.entry(path, EntryType::Directory, mode, &[])
    }

    fn entry(&mut self, path: &Path, kind: EntryType, mode: u32, bytes: &[u8]) -> Result<()> {
        let mut header = Header::new_ustar();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_mtime(self.time);
        header.set_size(bytes.len() as u64);
        self.builder
            .append_data(&mut header, path, bytes)
            .with_context(|| format!("cannot put {} into an archive", path.display()))
    }

    /// Ends the archive.
    pub(super) fn finish(self) -> Result<W> {
        Ok(self.builder.into_inner()?)
    }
}

/// Compressed by gzip, without the time.
pub(super) fn gzip<W: Write>(to: W) -> GzEncoder<W> {
    GzBuilder::new().write(to, Compression::best())
}

/// Compresses some bytes.
pub(super) fn gzipped(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut gzip = gzip(Vec::new());
    gzip.write_all(bytes)?;
    Ok(gzip.finish()?)
}

/// Makes the tarball: one folder, to be used where it lies or copied to `/usr/local`.
pub(super) fn make(release: &Release, tree: &Tree) -> Result<PathBuf> {
    let top = format!("linerate-{}-{}", release.version, std::env::consts::ARCH);
    let path = release.path(&format!("{top}.tar.gz"));
    let file = fs::File::create(&path).with_context(|| format!("cannot write {path:?}"))?;
    let mut archive = Archive::new(gzip(file), release.time);
    for program in &tree.programs {
        archive.file(&format!("{top}/bin/{}", program.path), 0o755, &program.bytes)?;
    }
    for unit in UNITS {
        let text = super::read(&source("packaging").join(unit))?;
        archive.file(&format!("{top}/lib/systemd/system/{unit}"), 0o644, &text)?;
    }
    for (below, files) in [
        ("share/man/man1/", &tree.manual),
        ("share/", &tree.completions),
        ("examples/", &tree.examples),
        ("", &tree.documents),
    ] {
        for file in files {
            archive.file(&format!("{top}/{below}{}", file.path), 0o644, &file.bytes)?;
        }
    }
    archive.finish()?.finish()?;
    Ok(path)
}
