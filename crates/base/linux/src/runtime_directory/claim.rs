//! Names that one process at a time can own.
//!
//! The lock file of a name is made, locked and removed under the lock of the directory alone. A file
//! whose lock is free therefore belongs to a program that was killed, and the next claim removes it.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::FileTypeExt as _,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    fs::{FlockOperation, Mode, OFlags, flock},
    io::Errno,
};

use super::RuntimeDirectory;
use crate::socket_file;

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

    /// Claims a name for this process; `None` if another process, or another claim, owns it. Removes
    /// the lock files and sockets of programs that were killed.
    ///
    /// # Errors
    ///
    /// When the lock file of the name cannot be created or locked.
    pub fn claim(&self, name: &str) -> io::Result<Option<Claim>> {
        if !RuntimeDirectory::is_name(name) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let lock = self.lock()?;
        self.remove_leftovers(&lock);
        let path = self.lock_file(name);
        let file = lock_name(&path)?;
        Ok(file.map(|file| Claim { directory: self.clone(), path, _file: file }))
    }

    fn lock_file(&self, name: &str) -> PathBuf {
        self.path.join(format!("{name}.{SUFFIX}"))
    }

    /// Removes the lock files of names that no process owns, and the sockets `NAME.*` beside them that no
    /// process listens at. Other files stay: a user may keep them here. What cannot be removed does no
    /// harm.
    fn remove_leftovers(&self, _lock: &DirectoryLock) {
        let Ok(entries) = fs::read_dir(&self.path) else { return };
        let entries: Vec<_> = entries.flatten().collect();
        let sockets: Vec<PathBuf> = entries
            .iter()
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_socket()))
            .map(fs::DirEntry::path)
            .collect();
        let locks = entries.iter().map(fs::DirEntry::path).filter(|path| has_suffix(path, SUFFIX));
        for lock in locks {
            let Ok(Some(_free)) = lock_name(&lock) else { continue };
            for socket in sockets.iter().filter(|path| path.file_stem() == lock.file_stem()) {
                socket_file::remove_stale(socket);
            }
            let _ = fs::remove_file(&lock);
        }
    }
}

/// Locks the file of a name, made if it does not exist; `None` if a process owns the name.
fn lock_name(path: &Path) -> io::Result<Option<File>> {
    let file = open(path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn has_suffix(path: &Path, suffix: &str) -> bool {
    path.extension().is_some_and(|extension| extension == suffix)
}

impl Drop for Claim {
    fn drop(&mut self) {
        // Without the lock of the directory the file could be removed between another process's
        // opening and locking it.
        if let Ok(_lock) = self.directory.lock_for_cleanup() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?.into())
}

#[cfg(test)]
mod tests {
    use std::{
        os::unix::net::UnixListener,
        sync::atomic::{AtomicBool, Ordering},
    };

    use super::*;

    fn directory(folder: &tempfile::TempDir) -> RuntimeDirectory {
        RuntimeDirectory::at(&folder.path().join("linerate")).unwrap()
    }

    fn entries(directory: &RuntimeDirectory) -> Vec<String> {
        let entries = fs::read_dir(directory.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn a_claim_removes_the_files_of_killed_programs() {
        let folder = tempfile::tempdir().unwrap();
        let directory = directory(&folder);
        let path = |name: &str| directory.path().join(name);
        let _kept = directory.claim("kept").unwrap().unwrap();
        for name in ["killed-7.lock", "killed.lock"] {
            fs::write(path(name), "").unwrap();
        }
        for name in ["killed-7.sock", "killed-7.openflow", "killed-7.x.sock", "kept.sock"] {
            drop(UnixListener::bind(path(name)).unwrap());
        }
        // A socket that was named by its path, and the state of a switch.
        let _listener = UnixListener::bind(path("killed.sock")).unwrap();
        fs::write(path("killed-7.state"), "flows").unwrap();
        let claim = directory.claim("new").unwrap().unwrap();
        let left = ["kept.lock", "kept.sock", "killed-7.state", "killed-7.x.sock", "killed.sock"];
        let all = [&[".lock"][..], &left, &["new.lock"]].concat();
        assert_eq!(entries(&directory), all);
        drop(claim);
        assert_eq!(entries(&directory), all[..all.len() - 1]);
    }

    /// Half of the programs are killed: they close their file without removing it.
    #[test]
    fn programs_that_start_and_end_at_once_never_share_a_name() {
        let folder = tempfile::tempdir().unwrap();
        let directory = directory(&folder);
        let taken = AtomicBool::new(false);
        let hold = || {
            assert!(!taken.swap(true, Ordering::SeqCst), "two have the name");
            thread::yield_now();
            taken.store(false, Ordering::SeqCst);
        };
        thread::scope(|scope| {
            for number in 0..4 {
                let (directory, hold) = (&directory, &hold);
                scope.spawn(move || {
                    for round in 0..100 {
                        if (number + round) % 2 == 0 {
                            let claim = directory.claim("router").unwrap();
                            if claim.is_some() {
                                hold();
                            }
                        } else {
                            let alone = directory.lock().unwrap();
                            directory.remove_leftovers(&alone);
                            let file = lock_name(&directory.lock_file("router")).unwrap();
                            drop(alone);
                            if file.is_some() {
                                hold();
                            }
                        }
                    }
                });
            }
        });
        let _last = directory.claim("last").unwrap().unwrap();
        assert_eq!(entries(&directory), [".lock", "last.lock"]);
    }
}
