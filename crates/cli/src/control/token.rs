//! Tokens of TCP control sockets that were started without one.
//!
//! A token is 256 random bits from the kernel, in a file of mode 0600 in the runtime directory. The
//! element reads it from a file that belongs to this process alone (`control-PID-N.token`); clients of
//! the same account find it by the port, as `control-PORT.token`, a hard link that exists from the
//! moment the port is bound. Two network namespaces can have the same port: the link belongs to the latest
//! process, and only that process removes it.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    process,
};

use linerate_linux::{Claim, RuntimeDirectory};
use rustix::{
    fs::{Mode, OFlags},
    rand::{GetRandomFlags, getrandom},
};

/// The suffix of the files.
pub(crate) const SUFFIX: &str = ".token";
/// Bytes of a token.
const BYTES: usize = 32;

/// The name of the file with the token of a port.
pub(crate) fn file_name(port: u16) -> String {
    format!("control-{port}{SUFFIX}")
}

/// The port of the file of this name, without the suffix; `None` if it is of a process.
pub(crate) fn port_of(name: &str) -> Option<u16> {
    name.strip_prefix("control-")?.parse().ok()
}

/// A token in a file, which is removed when this is dropped.
#[derive(Debug)]
pub(super) struct MadeToken {
    directory: RuntimeDirectory,
    /// The file of this process.
    path: PathBuf,
    /// The link by which clients find it.
    link: Option<PathBuf>,
    inode: u64,
    /// Marks the file as in use.
    _claim: Claim,
}

impl MadeToken {
    /// Makes a token in the runtime directory.
    pub(super) fn new(directory: &RuntimeDirectory) -> io::Result<MadeToken> {
        remove_stale(directory)?;
        let mut number = 0;
        let (name, claim) = loop {
            let name = format!("control-{}-{number}", process::id());
            match directory.claim(&name)? {
                Some(claim) => break (name, claim),
                None => number += 1,
            }
        };
        let path = directory.path().join(name + SUFFIX);
        let mut bytes = [0; BYTES];
        fill_random(&mut bytes)?;
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR)?);
        let inode = file.metadata()?.ino();
        let made =
            MadeToken { directory: directory.clone(), path, link: None, inode, _claim: claim };
        writeln!(file, "{text}")?;
        Ok(made)
    }

    /// The file that the element reads.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The file that clients find.
    pub(super) fn link(&self) -> Option<&Path> {
        self.link.as_deref()
    }

    /// Publishes the token under the port of its socket.
    pub(super) fn publish(&mut self, port: u16) -> io::Result<()> {
        let _alone = self.directory.lock()?;
        let link = self.directory.path().join(file_name(port));
        // A link of another process is replaced in one step.
        let temporary = self.path.with_extension("link");
        let _ = fs::remove_file(&temporary);
        fs::hard_link(&self.path, &temporary)?;
        fs::rename(&temporary, &link)?;
        self.link = Some(link);
        Ok(())
    }
}

impl Drop for MadeToken {
    fn drop(&mut self) {
        if let (Some(link), Ok(_alone)) = (&self.link, self.directory.lock_for_cleanup())
            && fs::symlink_metadata(link).is_ok_and(|found| found.ino() == self.inode)
        {
            let _ = fs::remove_file(link);
        }
        let _ = fs::remove_file(&self.path);
    }
}

/// Removes the link of a port whose process was killed, or whose token the user gave.
pub(super) fn remove_stale_link(directory: &RuntimeDirectory, port: u16) -> io::Result<()> {
    let _alone = directory.lock()?;
    let link = directory.path().join(file_name(port));
    if fs::symlink_metadata(&link).is_ok_and(|found| found.nlink() == 1) {
        fs::remove_file(&link)?;
    }
    Ok(())
}

/// Removes tokens whose processes have been killed: their names can be claimed, and then their
/// links are the last names of the files.
fn remove_stale(directory: &RuntimeDirectory) -> io::Result<()> {
    let names = directory.names(SUFFIX)?;
    for name in names.iter().filter(|name| port_of(name).is_none()) {
        if let Some(_claim) = directory.claim(name)? {
            let _ = fs::remove_file(directory.path().join(format!("{name}{SUFFIX}")));
        }
    }
    for port in names.iter().filter_map(|name| port_of(name)) {
        remove_stale_link(directory, port)?;
    }
    Ok(())
}

/// Fills a buffer with random bytes of the kernel.
fn fill_random(bytes: &mut [u8; BYTES]) -> io::Result<()> {
    let mut filled = 0;
    while filled < BYTES {
        filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty())?;
    }
    Ok(())
}
