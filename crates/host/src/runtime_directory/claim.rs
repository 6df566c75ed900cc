//! Names that one process at a time can own.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
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

/// The longest wait for the lock of a directory, which its holders need for a few system calls.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest wait at exit. Files that stay behind do no harm.
const LAST_LOCK_TIMEOUT: Duration = Duration::from_millis(100);
/// The pause between two attempts; flock(2) has no time limit.
const LOCK_RETRY: Duration = Duration::from_millis(2);

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
    /// Locks the directory's names against this account's other processes; waits ten seconds at most.
    ///
    /// # Errors
    ///
    /// When the lock file cannot be opened, as by accounts other than this one and root, or stays locked
    /// by another process, such as a stopped one ([`io::ErrorKind::TimedOut`]).
    pub fn lock(&self) -> io::Result<DirectoryLock> {
        self.lock_within(LOCK_TIMEOUT)
    }

    /// Locks the directory's names for the clean-up at exit; waits 0.1 s at most.
    ///
    /// # Errors
    ///
    /// Those of [`RuntimeDirectory::lock`].
    pub fn lock_for_cleanup(&self) -> io::Result<DirectoryLock> {
        self.lock_within(LAST_LOCK_TIMEOUT)
    }

    pub(super) fn lock_within(&self, timeout: Duration) -> io::Result<DirectoryLock> {
        let path = self.path.join(DIRECTORY_LOCK);
        let file = open(&path)?;
        let until = Instant::now() + timeout;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(DirectoryLock { _file: file }),
                Err(Errno::WOULDBLOCK) if Instant::now() < until => thread::sleep(LOCK_RETRY),
                Err(Errno::WOULDBLOCK) => {
                    let path = path.display();
                    let text =
                        format!("another process keeps {path} locked (`fuser {path}` names it)");
                    return Err(io::Error::new(io::ErrorKind::TimedOut, text));
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Claims a name for this process; `None` if another process, or another claim, owns it.
    ///
    /// # Errors
    ///
    /// When the lock file of the name cannot be created or locked.
    pub fn claim(&self, name: &str) -> io::Result<Option<Claim>> {
        if !RuntimeDirectory::is_name(name) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let _lock = self.lock()?;
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
        // opening and locking it.
        if let Ok(_lock) = self.directory.lock_for_cleanup() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?.into())
}
