//! Files of UNIX sockets that this process listens at.
//!
//! A file has its permissions before a client can connect. Only the file that was made here is removed,
//! as another may have taken its name. A file without a listener, left by a process that was killed, is
//! replaced if it belongs to this account.

use std::{
    fs, io,
    os::{
        fd::AsRawFd as _,
        unix::{
            fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _},
            net::UnixListener,
        },
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType},
};
use thiserror::Error;

use crate::socket::BACKLOG;

/// The bits of a mode that are permissions.
const PERMISSIONS: u32 = 0o777;

/// Listening at a path failed.
#[derive(Debug, Error)]
#[error("{call}: {source}")]
pub struct CannotBind {
    /// The system call that failed.
    pub call: &'static str,
    /// Its error.
    pub source: io::Error,
}

impl CannotBind {
    fn for_call<E: Into<io::Error>>(call: &'static str) -> impl FnOnce(E) -> CannotBind {
        move |error| CannotBind { call, source: error.into() }
    }
}

/// The file of a socket, removed with this value.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// Device and inode of the file.
    identity: (u64, u64),
}

impl SocketFile {
    /// Listens at a path, at a file with the permissions `mode`. The listener does not block.
    ///
    /// # Errors
    ///
    /// When a system call fails, which the error names.
    pub fn listen(path: &Path, mode: u32) -> Result<(UnixListener, SocketFile), CannotBind> {
        let address = SocketAddrUnix::new(path).map_err(CannotBind::for_call("bind"))?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
            .map_err(CannotBind::for_call("socket"))?;
        // The file is made with the permissions of the socket, less the umask.
        let wanted = Mode::from_raw_mode(mode);
        rustix::fs::fchmod(&socket, wanted).map_err(CannotBind::for_call("fchmod"))?;
        let bound = match rustix::net::bind(&socket, &address) {
            Err(Errno::ADDRINUSE) if remove_stale(path) => rustix::net::bind(&socket, &address),
            bound => bound,
        };
        bound.map_err(CannotBind::for_call("bind"))?;
        let file = SocketFile::made(path, mode)?;
        // Until here connections are refused.
        rustix::net::listen(&socket, BACKLOG).map_err(CannotBind::for_call("listen"))?;
        Ok((socket.into(), file))
    }

    /// The file that was just made, with its permissions.
    fn made(path: &Path, mode: u32) -> Result<SocketFile, CannotBind> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::open(path, flags, Mode::empty());
        let file = fs::File::from(opened.map_err(CannotBind::for_call("open"))?);
        let about = file.metadata().map_err(CannotBind::for_call("stat"))?;
        if !about.file_type().is_socket() || about.uid() != rustix::process::geteuid().as_raw() {
            return Err(CannotBind { call: "bind", source: Errno::ADDRINUSE.into() });
        }
        if about.mode() & PERMISSIONS != mode {
            // By the descriptor: another file may have the name by now.
            let own = format!("/proc/self/fd/{}", file.as_raw_fd());
            let permissions = fs::Permissions::from_mode(mode);
            fs::set_permissions(own, permissions).map_err(CannotBind::for_call("chmod"))?;
        }
        Ok(SocketFile { path: path.into(), identity: (about.dev(), about.ino()) })
    }

    /// The file of a socket that already exists at `path`; `None` when there is none.
    pub fn find(path: &Path) -> Option<SocketFile> {
        let about = fs::symlink_metadata(path).ok()?;
        let file = SocketFile { path: path.into(), identity: (about.dev(), about.ino()) };
        about.file_type().is_socket().then_some(file)
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path) == Some(self.identity) {
            // There is no caller to report to.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let about = fs::symlink_metadata(path).ok()?;
    Some((about.dev(), about.ino()))
}

/// Removes the file of a socket without a listener, if it is this account's; returns true if it was
/// removed.
pub(crate) fn remove_stale(path: &Path) -> bool {
    let Ok(about) = fs::symlink_metadata(path) else { return false };
    about.file_type().is_socket()
        && about.uid() == rustix::process::geteuid().as_raw()
        && connection(path) == Err(Errno::CONNREFUSED)
        && identity(path) == Some((about.dev(), about.ino()))
        && fs::remove_file(path).is_ok()
}

/// Tries to connect, without waiting for a listener whose queue is full.
fn connection(path: &Path) -> rustix::io::Result<()> {
    let address = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let probe = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&probe, &address)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("linerate-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        path
    }

    #[test]
    fn a_socket_has_its_permissions_whatever_the_umask() {
        let folder = folder("socket-mode");
        for mode in [0o600, 0o660, 0o666, 0o777] {
            let path = folder.join(format!("{mode:o}"));
            let (_listener, _file) = SocketFile::listen(&path, mode).unwrap();
            assert_eq!(fs::metadata(&path).unwrap().mode() & PERMISSIONS, mode, "{mode:o}");
            UnixStream::connect(&path).unwrap();
        }
        fs::remove_dir(folder).unwrap();
    }

    /// The kernel refuses them before a reader could have to close them.
    #[test]
    fn descriptors_are_refused() {
        use std::{io::IoSlice, mem::MaybeUninit, os::fd::AsFd};

        use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

        let folder = folder("socket-descriptors");
        let path = folder.join("a");
        let (listener, _file) = SocketFile::listen(&path, 0o600).unwrap();
        if crate::close::Closers::unless_refused(&listener).is_some() {
            println!("not tested: this kernel is older than Linux 6.16");
            return;
        }
        let client = UnixStream::connect(&path).unwrap();
        let send = || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            let descriptor = [client.as_fd()];
            assert!(control.push(SendAncillaryMessage::ScmRights(&descriptor)));
            sendmsg(&client, &[IoSlice::new(b"read")], &mut control, SendFlags::NOSIGNAL)
        };
        assert_eq!(send(), Err(Errno::PERM));
        let (_server, _) = listener.accept().unwrap();
        assert_eq!(send(), Err(Errno::PERM));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn only_its_own_file_is_removed() {
        let folder = folder("socket-own");
        let path = folder.join("a");
        let (_first, file) = SocketFile::listen(&path, 0o600).unwrap();
        fs::remove_file(&path).unwrap();
        let (_second, other) = SocketFile::listen(&path, 0o600).unwrap();
        drop(file);
        UnixStream::connect(&path).unwrap();
        drop(other);
        assert!(!path.exists());
        fs::remove_dir(folder).unwrap();
    }

    #[test]
    fn a_stale_socket_gives_way_and_no_other_file() {
        let folder = folder("socket-stale");
        let [left, used, text, link] =
            ["left", "used", "text", "link"].map(|name| folder.join(name));
        let (listener, file) = SocketFile::listen(&left, 0o600).unwrap();
        std::mem::forget(file);
        drop(listener);
        let _ours = SocketFile::listen(&left, 0o600).unwrap();
        let (_listener, _file) = SocketFile::listen(&used, 0o600).unwrap();
        fs::write(&text, "text").unwrap();
        std::os::unix::fs::symlink(&text, &link).unwrap();
        for path in [&used, &text, &link] {
            let error = SocketFile::listen(path, 0o600).unwrap_err();
            assert_eq!((error.call, error.source.kind()), ("bind", io::ErrorKind::AddrInUse));
        }
        assert_eq!(fs::read_to_string(&text).unwrap(), "text");
        fs::remove_dir_all(folder).unwrap();
    }
}
