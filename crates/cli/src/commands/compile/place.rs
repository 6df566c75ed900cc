//! Placing of the results: the program, and the crate if it is kept.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    process,
};

use anyhow::{Context as _, Result};
use rustix::fs::{Access, access};

use super::generate::{GeneratedFile, MARK};
use crate::{
    configuration::Source,
    exit::{UsageError, cannot_write},
};

/// The file that the program becomes.
#[derive(Debug)]
pub(super) struct Destination(PathBuf);

impl Destination {
    /// Checks, before anything takes time, whether it can be written.
    pub(super) fn new(path: &Path, source: &Source) -> Result<Destination> {
        let refuse = |why: &str| Err(UsageError(format!("{}: {why}", path.display())).into());
        if let Ok(there) = fs::metadata(path) {
            if there.is_dir() {
                return refuse("there is a folder of that name; choose another with -o PROGRAM");
            }
            if !there.is_file() {
                return refuse("this is no file a program can be in");
            }
            let text = match source {
                Source::File(name) => fs::metadata(name).ok(),
                _ => None,
            };
            let is = |text: &fs::Metadata| (text.dev(), text.ino()) == (there.dev(), there.ino());
            if text.as_ref().is_some_and(is) {
                return refuse("this is the configuration; name the program with -o PROGRAM");
            }
        }
        let destination = Destination(path.into());
        let Some(_) = path.file_name() else { return refuse("this is no name of a file") };
        access(destination.folder(), Access::WRITE_OK | Access::EXEC_OK)
            .map_err(|error| cannot_write(path, error.into()))?;
        Ok(destination)
    }

    fn folder(&self) -> &Path {
        let parent = self.0.parent().filter(|parent| !parent.as_os_str().is_empty());
        parent.unwrap_or(Path::new("."))
    }

    /// The command that calls it from here.
    pub(super) fn called(&self) -> String {
        let here = if self.0.components().count() == 1 { "./" } else { "" };
        format!("{here}{}", self.0.display())
    }

    /// Puts a copy of `program` there, whole or not at all, and returns how large it is.
    pub(super) fn put(&self, program: &Path) -> Result<u64> {
        let name = self.0.file_name().unwrap_or_default().to_string_lossy();
        let beside = RemoveOnDrop(self.folder().join(format!(".{name}.{}", process::id())));
        let put = || {
            let size = fs::copy(program, &beside.0)?;
            // The mode of cargo's file depends on the user's mask, as that of this does.
            let mode = fs::metadata(&beside.0)?.permissions().mode();
            fs::set_permissions(&beside.0, fs::Permissions::from_mode(mode | 0o100))?;
            fs::rename(&beside.0, &self.0)?;
            Ok(size)
        };
        put().map_err(|error| cannot_write(&self.0, error))
    }
}

/// A file that does not stay. Once it has been renamed there is nothing to remove.
struct RemoveOnDrop(PathBuf);

impl Drop for RemoveOnDrop {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// A folder for the crate.
#[derive(Debug)]
pub(super) struct CrateFolder(PathBuf);

impl CrateFolder {
    /// Takes a folder that is empty, not yet there, or has a crate that was kept before.
    pub(super) fn new(folder: &Path) -> Result<CrateFolder> {
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
        let is_ours = manifest.lines().next().is_some_and(|line| line.contains(MARK));
        let entries = fs::read_dir(folder).map(Iterator::count).unwrap_or(0);
        if entries > 0 && !is_ours || folder.is_file() {
            let why = "there is something else; name another folder, or an empty one";
            return Err(UsageError(format!("--keep {}: {why}", folder.display())).into());
        }
        Ok(CrateFolder(folder.into()))
    }

    pub(super) fn write(&self, files: &[GeneratedFile], lock: &Path) -> Result<()> {
        write(&self.0, files)?;
        if lock.is_file() {
            fs::copy(lock, self.0.join("Cargo.lock"))
                .map_err(|error| cannot_write(&self.0, error))?;
        }
        Ok(())
    }
}

/// Writes a crate to a folder. Files that are as they should be are not touched, so that cargo sees
/// the changes; files of another configuration are removed.
pub(super) fn write(folder: &Path, files: &[GeneratedFile]) -> Result<()> {
    let configuration = folder.join("configuration");
    for entry in fs::read_dir(&configuration).into_iter().flatten().flatten() {
        if !files.iter().any(|file| folder.join(&file.path) == entry.path()) {
            fs::remove_file(entry.path())
                .with_context(|| format!("cannot remove {}", entry.path().display()))?;
        }
    }
    for file in files {
        let path = folder.join(&file.path);
        if fs::read(&path).is_ok_and(|there| there == file.text.as_bytes()) {
            continue;
        }
        let parent = path.parent().unwrap_or(folder);
        fs::create_dir_all(parent)
            .and_then(|()| fs::write(&path, &file.text))
            .map_err(|error| cannot_write(&path, error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(result: Result<impl std::fmt::Debug>) -> String {
        format!("{:#}", result.unwrap_err())
    }

    #[test]
    fn a_file_is_not_overwritten_unless_it_is_a_program() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.click");
        fs::write(&file, "Idle").unwrap();
        let source = Source::File(file.to_string_lossy().into());
        assert!(refusal(Destination::new(folder.path(), &source)).contains("a folder"));
        assert!(refusal(Destination::new(&file, &source)).contains("the configuration"));
        assert!(refusal(Destination::new(Path::new("/dev/null"), &source)).contains("no file"));
        let nowhere = folder.path().join("no/where");
        assert!(refusal(Destination::new(&nowhere, &source)).starts_with("cannot write"));

        let program = folder.path().join("a");
        let destination = Destination::new(&program, &source).unwrap();
        assert_eq!(destination.put(&file).unwrap(), 4);
        assert_eq!(fs::metadata(&program).unwrap().permissions().mode() & 0o100, 0o100);
        destination.put(Path::new("/nowhere")).unwrap_err();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "something is left");
    }

    #[test]
    fn a_crate_is_kept_where_nothing_else_is() {
        let folder = tempfile::tempdir().unwrap();
        let crates = |text: &str| {
            let file =
                |path: &str, text: &str| GeneratedFile { path: path.into(), text: text.into() };
            [
                file("Cargo.toml", &format!("# {MARK}")),
                file(&format!("configuration/{text}.click"), text),
            ]
        };
        let none = folder.path().join("none");
        for text in ["a", "b"] {
            let kept = CrateFolder::new(&folder.path().join("new")).unwrap();
            kept.write(&crates(text), &none).unwrap();
        }
        let texts = fs::read_dir(folder.path().join("new/configuration")).unwrap();
        let names: Vec<_> = texts.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["b.click"]);
        assert!(refusal(CrateFolder::new(folder.path())).contains("something else"));
    }
}
