//! Names that one process has at a time.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{FlockOperation, Mode, OFlags, flock},
    io::Errno,
};

use super::RuntimeDirectory;

/// The suffix of the file that is locked for a name.
const SUFFIX: &str = "lock";
/// The file that is locked while names are claimed and given back.
const DIRECTORY_LOCK: &str = ".lock";

/// Exclusive lock on the names of a directory, to be held for a moment only.
#[derive(Debug)]
pub struct DirectoryLock {
    _file: File,
}

/// A name that belongs to this process until the claim is dropped.
#[derive(Debug)]
pub struct Claim {
    directory: RuntimeDirectory,
    path: PathBuf,
    /// Locked; the lock ends with the descriptor, which is closed on exec.
    _file: File,
}

impl RuntimeDirectory {
    /// Locks the directory's names against this account's other processes; waits for the lock.
    ///
    /// # Errors
    ///
    /// When the file of the lock cannot be opened. Only this account and root can open it.
    pub fn lock(&self) -> io::Result<DirectoryLock> {
        let file = open(&self.path.join(DIRECTORY_LOCK))?;
        flock(&file, FlockOperation::LockExclusive)?;
        Ok(DirectoryLock { _file: file })
    }

    /// Gives a name to this process; `None` if another process, or another claim, has it.
    ///
    /// # Errors
    ///
    /// When its file cannot be made or locked.
    pub fn claim(&self, name: &str) -> io::Result<Option<Claim>> {
        if !RuntimeDirectory::is_name(name) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let _alone = self.lock()?;
        let path = self.path.join(format!("{name}.{SUFFIX}"));
        let file = open(&path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Claim { directory: self.clone(), path, _file: file })),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // Without the lock of the directory the file could be removed between another process's
        // opening and locking it. An empty file that stays does no harm.
        if let Ok(_alone) = self.directory.lock() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?.into())
}
