//! Files that are written whole, and never over a file that is being read.
//!
//! A program that opens a file for writing empties it, also one that it still reads, by the same name,
//! a hard link or a symbolic link. So files that are read are registered, by the numbers that the
//! kernel has for them, and [`create`] and [`replace`] refuse those before anything is opened. Files
//! of other programs are none of this: a capture may be read while another program writes it.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs::{self, File, Metadata, OpenOptions, Permissions},
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::{MetadataExt, PermissionsExt},
    },
    path::{Path, PathBuf},
    process,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use rustix::fs::{Access, MemfdFlags, Mode, OFlags};

/// The file system of a file, and its number there.
type Identity = (u64, u64);

/// Files that are being read, and how often.
static READ: Mutex<BTreeMap<Identity, usize>> = Mutex::new(BTreeMap::new());

/// Whether outputs are only [checked](only_check_outputs).
static CHECKS_ONLY: AtomicBool = AtomicBool::new(false);

/// Makes [`create`] and [`open_to_write`] check from now on that this process may write a file, and
/// neither create nor change it: bytes written go nowhere. For programs that make a configuration's
/// elements and do not run them.
pub fn only_check_outputs() {
    CHECKS_ONLY.store(true, Ordering::Relaxed);
}

fn registered() -> MutexGuard<'static, BTreeMap<Identity, usize>> {
    READ.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file that is read as long as this is there: this process does not write it meanwhile.
#[derive(Debug)]
pub struct ReadGuard {
    file: Identity,
    /// Keeps the number from becoming another file's.
    _pin: OwnedFd,
}

impl ReadGuard {
    /// Registers the file of a name; `None` where there is none, or where writing destroys nothing: a
    /// pipe, a device.
    pub fn of_name(path: &Path) -> Option<ReadGuard> {
        // O_PATH reads nothing, and needs no right to.
        let pin = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
        ReadGuard::new(pin)
    }

    /// As [`ReadGuard::of_name`], for a file that is open: standard input.
    pub fn of_open(file: impl AsFd) -> Option<ReadGuard> {
        ReadGuard::new(file.as_fd().try_clone_to_owned().ok()?)
    }

    /// As [`ReadGuard::of_name`]; `-` is standard input.
    pub fn of_input(path: &Path) -> Option<ReadGuard> {
        if path == Path::new("-") {
            ReadGuard::of_open(io::stdin())
        } else {
            ReadGuard::of_name(path)
        }
    }

    fn new(pin: OwnedFd) -> Option<ReadGuard> {
        let file = File::from(pin);
        let file_identity = identity(&file.metadata().ok()?)?;
        *registered().entry(file_identity).or_default() += 1;
        Some(ReadGuard { file: file_identity, _pin: file.into() })
    }
}

impl Drop for ReadGuard {
    fn drop(&mut self) {
        let mut files = registered();
        if let Some(readers) = files.get_mut(&self.file) {
            *readers -= 1;
            if *readers == 0 {
                files.remove(&self.file);
            }
        }
    }
}

/// Of regular files.
fn identity(about: &Metadata) -> Option<Identity> {
    about.is_file().then(|| (about.dev(), about.ino()))
}

fn refuse_read(about: &Metadata) -> io::Result<()> {
    match identity(about) {
        Some(file) if registered().contains_key(&file) => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "this program reads that file, and writing would destroy it: name another to write",
        )),
        _ => Ok(()),
    }
}

/// Refuses a file that this process reads; one that is not there may be written.
///
/// # Errors
///
/// When it is read.
pub fn check_unread(path: &Path) -> io::Result<()> {
    fs::metadata(path).map_or(Ok(()), |about| refuse_read(&about))
}

/// As [`check_unread`], for a file that is open: standard output.
///
/// # Errors
///
/// When it is read.
pub fn check_open_unread(file: impl AsFd) -> io::Result<()> {
    let file = File::from(file.as_fd().try_clone_to_owned()?);
    refuse_read(&file.metadata()?)
}

/// Opens a file for writing and keeps its contents.
///
/// # Errors
///
/// When this process reads it, or it cannot be opened.
pub fn open_to_write(path: &Path) -> io::Result<File> {
    check_unread(path)?;
    if CHECKS_ONLY.load(Ordering::Relaxed) {
        check_writable(path)?;
        return Ok(rustix::fs::memfd_create(c"output", MemfdFlags::CLOEXEC)?.into());
    }
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
    // The name may have become another file's meanwhile.
    refuse_read(&file.metadata()?)?;
    Ok(file)
}

/// Checks that a file may be written, or created where there is none.
fn check_writable(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match fs::metadata(path) {
        Ok(about) if about.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(_) => Ok(rustix::fs::access(path, Access::WRITE_OK)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let folder = folder.unwrap_or(Path::new("."));
            Ok(rustix::fs::access(folder, Access::WRITE_OK | Access::EXEC_OK)?)
        }
        Err(error) => Err(error),
    }
}

/// Creates a file, or empties the one that is there.
///
/// # Errors
///
/// When this process reads it, or it cannot be opened.
pub fn create(path: &Path) -> io::Result<File> {
    let file = open_to_write(path)?;
    // Pipes and devices have no length.
    if file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    Ok(file)
}

/// Gives a file new contents in one step: they are written beside it, under another name, and a
/// reader of the file finds the old or the new ones, whole. Pipes and devices are written as they
/// are.
///
/// # Errors
///
/// When this process reads the file, or it cannot be written; then it is as it was.
pub fn replace(path: &Path, contents: &[u8]) -> io::Result<()> {
    let about = fs::metadata(path);
    if let Ok(about) = &about {
        refuse_read(about)?;
        if !about.is_file() {
            return fs::write(path, contents);
        }
    }
    // A symbolic link stays, and its target is replaced.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let beside = beside(&path)?;
    let written = fs::write(&beside, contents)
        .and_then(|()| match &about {
            Ok(about) => {
                fs::set_permissions(&beside, Permissions::from_mode(about.mode() & 0o7777))
            }
            Err(_) => Ok(()),
        })
        .and_then(|()| fs::rename(&beside, &path));
    if written.is_err() {
        // The reason counts, not the result of tidying up.
        let _ = fs::remove_file(&beside);
    }
    written
}

/// A name in the same folder that no listing of it shows.
fn beside(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?;
    let mut hidden = OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{}", process::id()));
    Ok(path.with_file_name(hidden))
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        os::unix::fs::symlink,
    };

    use super::*;

    #[test]
    fn a_file_that_is_read_is_not_written_by_any_name() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("x"), "contents").unwrap();
        fs::hard_link(at("x"), at("hard")).unwrap();
        symlink("x", at("soft")).unwrap();
        fs::write(at("other"), "other").unwrap();
        let (guard, second) = (ReadGuard::of_name(&at("x")), ReadGuard::of_name(&at("soft")));
        for name in ["x", "hard", "soft"] {
            for refused in [create(&at(name)).map(drop), replace(&at(name), b"new")] {
                assert!(refused.unwrap_err().to_string().contains("destroy"), "{name}");
            }
        }
        assert_eq!(fs::read_to_string(at("x")).unwrap(), "contents");
        create(&at("other")).unwrap().write_all(b"new").unwrap();
        assert_eq!(fs::read_to_string(at("other")).unwrap(), "new");
        drop(guard);
        assert!(check_unread(&at("x")).is_err(), "it is read twice");
        drop(second);
        create(&at("x")).unwrap();
        assert_eq!(fs::read_to_string(at("hard")).unwrap(), "");
    }

    #[test]
    fn standard_streams_are_files_as_well() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        fs::write(&path, "contents").unwrap();
        let file = File::open(&path).unwrap();
        let guard = ReadGuard::of_open(&file).unwrap();
        assert!(create(&path).is_err() && check_open_unread(&file).is_err());
        drop(guard);
        check_open_unread(&file).unwrap();
        assert!(ReadGuard::of_name(Path::new("/dev/null")).is_none());
        create(Path::new("/dev/null")).unwrap();
    }

    /// A reader that has the file open goes on with the old contents, and one that opens it then has the new.
    #[test]
    fn contents_are_replaced_in_one_step() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        replace(&at("x"), b"old").unwrap();
        fs::set_permissions(at("x"), Permissions::from_mode(0o640)).unwrap();
        symlink("x", at("soft")).unwrap();
        let mut open = File::open(at("x")).unwrap();
        replace(&at("soft"), b"new").unwrap();
        let mut text = String::new();
        open.read_to_string(&mut text).unwrap();
        assert_eq!((text.as_str(), &*fs::read_to_string(at("x")).unwrap()), ("old", "new"));
        assert!(fs::symlink_metadata(at("soft")).unwrap().is_symlink());
        assert_eq!(fs::metadata(at("x")).unwrap().mode() & 0o777, 0o640);
        replace(Path::new("/dev/null"), b"gone").unwrap();
        assert!(replace(&folder.path().join("no/folder"), b"").is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left behind");
    }
}
