//! The runtime directory: control sockets and tokens of one account's programs.
//!
//! Root has `/run/linerate`; every other account has `linerate` in `XDG_RUNTIME_DIR`, or
//! `/tmp/linerate-UID` where that variable names no directory of the account's own. A directory is
//! used only if it belongs to the account and no other account can write to it, and a symbolic link
//! in its place is refused: so every name in it was made by the account. `RUNTIME_DIRECTORY` of
//! systemd is not used, because clients do not have it.
//!
//! A [`Claim`] gives a name to one process at a time. It is a lock on a file, which the kernel
//! releases when the process ends, however it ends.

mod claim;

use std::{
    env,
    ffi::OsStr,
    fs, io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{Mode, OFlags, Stat},
    io::Errno,
    process::Uid,
};
use thiserror::Error;

pub use claim::{Claim, DirectoryLock};

/// The directory of root.
const OF_ROOT: &str = "/run/linerate";
/// The parent of the directory of an account without a usable `XDG_RUNTIME_DIR`.
const SHARED: &str = "/tmp";
/// The name of the directory in `XDG_RUNTIME_DIR`.
const NAME: &str = "linerate";
/// The variable of the XDG Base Directory Specification.
const VARIABLE: &str = "XDG_RUNTIME_DIR";
/// Permission bits that let other accounts make, remove or rename entries.
const OTHERS_WRITE: u32 = 0o022;
/// Permission bits of other accounts.
const OTHERS: u32 = 0o077;
/// The bit that keeps entries from being removed by other accounts than their owners.
const STICKY: u32 = 0o1000;
/// Bytes of the longest name of an instance.
const LONGEST_NAME: usize = 64;

/// The directory of an account, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeDirectory {
    path: PathBuf,
}

/// A runtime directory cannot be used.
#[derive(Debug, Error)]
#[error("cannot use the runtime directory {}: {reason}; {advice}", path.display())]
pub struct RuntimeDirectoryError {
    path: PathBuf,
    reason: String,
    advice: String,
}

/// The path of a directory, and the owner and mode that it must have.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Location {
    path: PathBuf,
    owner: Uid,
    /// The mode it is made with. A directory of mode 0700 must not be accessible to others.
    mode: u32,
}

impl Location {
    /// The directory of the account that this process runs as.
    fn own() -> Location {
        Location::for_account(rustix::process::geteuid(), env::var_os(VARIABLE).as_deref())
    }

    fn of_root() -> Location {
        Location { path: OF_ROOT.into(), owner: Uid::ROOT, mode: 0o755 }
    }

    /// The directory of an account whose `XDG_RUNTIME_DIR` is `runtime`.
    fn for_account(owner: Uid, runtime: Option<&OsStr>) -> Location {
        if owner.is_root() {
            return Location::of_root();
        }
        let usable = runtime.map(Path::new).filter(|path| is_private_parent(path, owner));
        let path = match usable {
            Some(parent) => parent.join(NAME),
            None => Path::new(SHARED).join(format!("{NAME}-{}", owner.as_raw())),
        };
        Location { path, owner, mode: 0o700 }
    }

    fn error(&self, reason: impl ToString, advice: impl Into<String>) -> RuntimeDirectoryError {
        let (reason, advice) = (reason.to_string(), advice.into());
        RuntimeDirectoryError { path: self.path.clone(), reason, advice }
    }

    /// The directory, checked, if it exists.
    fn open(&self) -> Result<Option<RuntimeDirectory>, RuntimeDirectoryError> {
        let directory = match self.descriptor() {
            Ok(directory) => directory,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP | Errno::NOTDIR) => {
                return Err(self.error("it is not a directory", self.removal()));
            }
            Err(error) => return Err(self.error(io::Error::from(error), self.choice())),
        };
        let about = rustix::fs::fstat(&directory)
            .map_err(|error| self.error(io::Error::from(error), self.choice()))?;
        if about.st_uid != self.owner.as_raw() {
            let reason = format!(
                "it belongs to uid {}, and not to uid {}",
                about.st_uid,
                self.owner.as_raw()
            );
            return Err(self.error(reason, self.removal()));
        }
        let excess = permissions(&about) & if self.mode == 0o700 { OTHERS } else { OTHERS_WRITE };
        if excess != 0 {
            let reason = format!("its mode is {:04o}", permissions(&about));
            let advice = format!("chmod {:o} {}", self.mode, self.path.display());
            return Err(self.error(reason, advice));
        }
        let parent = self.path.parent().unwrap_or(Path::new("/"));
        if !keeps_entries(parent, self.owner) {
            let reason = format!("other accounts can rename what is in {}", parent.display());
            return Err(self.error(reason, self.choice()));
        }
        Ok(Some(RuntimeDirectory { path: self.path.clone() }))
    }

    /// The directory, made if it does not exist.
    fn create(&self) -> Result<RuntimeDirectory, RuntimeDirectoryError> {
        match rustix::fs::mkdir(&self.path, Mode::from_raw_mode(0o700)) {
            // The umask may have taken bits, and the mode of root's lets others pass.
            Ok(()) => rustix::fs::chmod(&self.path, Mode::from_raw_mode(self.mode))
                .map_err(|error| self.error(io::Error::from(error), self.choice()))?,
            Err(Errno::EXIST) => {}
            Err(error) => return Err(self.error(io::Error::from(error), self.choice())),
        }
        let gone = || self.error("it has been removed", "start again");
        self.open()?.ok_or_else(gone)
    }

    fn descriptor(&self) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::open(&self.path, flags, Mode::empty())
    }

    fn removal(&self) -> String {
        format!("have {} removed, or {}", self.path.display(), self.choice())
    }

    /// The alternatives for the user.
    fn choice(&self) -> String {
        if self.owner.is_root() {
            return "name a socket by its path".into();
        }
        format!("set {VARIABLE} to a directory of your own, or name a socket by its path")
    }
}

/// The permission bits, sticky included.
fn permissions(about: &Stat) -> u32 {
    about.st_mode & 0o7777
}

/// Returns true if a path is that of a directory of this account that others cannot write to.
fn is_private_parent(path: &Path, owner: Uid) -> bool {
    path.is_absolute()
        && rustix::fs::stat(path).is_ok_and(|about| {
            let is_directory = rustix::fs::FileType::from_raw_mode(about.st_mode).is_dir();
            is_directory
                && about.st_uid == owner.as_raw()
                && permissions(&about) & OTHERS_WRITE == 0
        })
}

/// Returns true if only `owner` and root can rename an entry of the directory that belongs to `owner`.
fn keeps_entries(path: &Path, owner: Uid) -> bool {
    rustix::fs::stat(path).is_ok_and(|about| {
        let mode = permissions(&about);
        let trusted = about.st_uid == 0 || about.st_uid == owner.as_raw();
        trusted && (mode & OTHERS_WRITE == 0 || mode & STICKY != 0)
    })
}

impl RuntimeDirectory {
    /// The directory of this account; made if it does not exist.
    ///
    /// # Errors
    ///
    /// When it cannot be made, belongs to another account, is a symbolic link, or is open to
    /// other accounts. The error names the next step.
    pub fn create() -> Result<RuntimeDirectory, RuntimeDirectoryError> {
        Location::own().create()
    }

    /// The directory of this account, if it exists.
    ///
    /// # Errors
    ///
    /// When it must not be used.
    pub fn open() -> Result<Option<RuntimeDirectory>, RuntimeDirectoryError> {
        Location::own().open()
    }

    /// The directory of root, if it exists.
    ///
    /// # Errors
    ///
    /// When it must not be used.
    pub fn of_root() -> Result<Option<RuntimeDirectory>, RuntimeDirectoryError> {
        Location::of_root().open()
    }

    /// A private directory of this account at another path, made if it does not exist: for tests.
    ///
    /// # Errors
    ///
    /// As of [`RuntimeDirectory::create`].
    pub fn at(path: &Path) -> Result<RuntimeDirectory, RuntimeDirectoryError> {
        let owner = rustix::process::geteuid();
        Location { path: path.into(), owner, mode: 0o700 }.create()
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true if it is a valid name of an instance: up to 64 letters, digits, `_`, `-` and `.`, the
    /// first of them a letter, a digit or `_`.
    pub fn is_name(name: &str) -> bool {
        let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        name.len() <= LONGEST_NAME
            && name.bytes().all(inner)
            && !name.starts_with(['-', '.'])
            && !name.is_empty()
    }

    /// The names of entries that end in `suffix`, without it, in order.
    ///
    /// # Errors
    ///
    /// When the directory cannot be read.
    pub fn names(&self, suffix: &str) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let name = entry?.file_name();
            let name = name.to_str().and_then(|name| name.strip_suffix(suffix));
            names.extend(name.filter(|name| RuntimeDirectory::is_name(name)).map(str::to_owned));
        }
        names.sort_unstable();
        Ok(names)
    }
}

#[cfg(test)]
mod tests;
