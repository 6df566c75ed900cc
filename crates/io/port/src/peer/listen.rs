//! A UNIX socket that listens, and its file.

use std::{
    fs, io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::{FileTypeExt, MetadataExt, PermissionsExt},
    },
};

use linerate_linux::socket::{admit_descriptors, refuse_descriptors};
use rustix::{
    fs::Mode,
    io::Errno,
    net::{AddressFamily, SocketFlags, SocketType, sockopt::socket_peercred},
    process::{getegid, geteuid},
};

use super::address::Address;
use crate::{error::OpenError, kernel::OpenErrors};

/// The step that gives a socket its name.
const BIND: &str = "bind the socket";

/// Reason why a socket cannot be listened at.
#[derive(Debug)]
pub enum ListenError {
    /// Another process listens there.
    InUse,
    /// Something that is no socket is there.
    NoSocket,
    /// The kernel refused a step.
    System(&'static str, io::Error),
}

/// The error of opening a port for it; `alternative` is the option with which the port would
/// connect instead.
pub(crate) fn error(
    errors: &OpenErrors,
    address: &Address,
    alternative: &str,
    error: ListenError,
) -> OpenError {
    match error {
        ListenError::InUse => errors.busy(format!(
            "another process listens at {address}; end it, choose another socket, or connect to \
             it with {alternative}"
        )),
        ListenError::NoSocket => errors
            .busy(format!("{address} is there and not a socket; choose another name or remove it")),
        ListenError::System(BIND, source) if source.kind() == io::ErrorKind::NotFound => errors
            .file(format!("the folder of {address} does not exist; make it, or choose another")),
        ListenError::System(step, source) => errors.failed(step)(source),
    }
}

/// A socket that does not wait.
///
/// # Errors
///
/// When the kernel refuses.
pub fn open(kind: SocketType) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None)?)
}

/// A socket that listens.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    address: Address,
    /// Identity of the file, so that only that one is removed.
    file: Option<(u64, u64)>,
    access: Option<Access>,
    refuses_descriptors: bool,
}

/// Users that may connect: permissions of the socket's file, as of chmod(1). By default the user of this
/// process, and its group unless the umask forbids it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Access(pub(crate) Option<Mode>);

impl Socket {
    /// Listens there.
    ///
    /// # Errors
    ///
    /// When it cannot be listened at.
    pub fn bind(address: &Address, kind: SocketType, backlog: i32) -> Result<Socket, ListenError> {
        Socket::bind_with(address, kind, backlog, None)
    }

    /// Listens there for some users. The kernel checks the permissions of the file; for a socket without a
    /// file [`Socket::admits`] checks them. Descriptors come with messages of a connection once
    /// [`Socket::admit_descriptors`] has let them.
    ///
    /// # Errors
    ///
    /// When the socket cannot be made there.
    pub(crate) fn bind_with(
        address: &Address,
        kind: SocketType,
        backlog: i32,
        access: Option<Access>,
    ) -> Result<Socket, ListenError> {
        let fd = bind(address, kind, access)?;
        let file = address.path().and_then(|path| fs::symlink_metadata(path).ok());
        let file = file.map(|file| (file.dev(), file.ino()));
        let refuses_descriptors = access.is_some() && refuse_descriptors(&fd);
        rustix::net::listen(&fd, backlog)
            .map_err(|error| ListenError::System("listen", error.into()))?;
        Ok(Socket { fd, address: address.clone(), file, access, refuses_descriptors })
    }

    /// Returns true if a connection that was not admitted holds no descriptors, so that its close cannot wait.
    pub(crate) fn refuses_descriptors(&self) -> bool {
        self.refuses_descriptors
    }

    /// Lets the peer of an accepted connection send descriptors. A peer of either protocol waits for an
    /// answer before it sends the first.
    pub(crate) fn admit_descriptors(&self, connection: impl AsFd) {
        if self.refuses_descriptors {
            admit_descriptors(connection);
        }
    }

    /// Returns true if the user at the other end of a connection may connect.
    pub(crate) fn admits(&self, connection: impl AsFd) -> bool {
        let (Some(Access(mode)), None) = (self.access, self.address.path()) else { return true };
        let Ok(peer) = socket_peercred(connection) else { return false };
        let mode = mode.unwrap_or(Mode::empty());
        let same_user = peer.uid.is_root() || peer.uid == geteuid();
        let same_group = peer.gid == getegid() && mode.contains(Mode::WGRP);
        same_user || same_group || mode.contains(Mode::WOTH)
    }

    /// Descriptor that is readable when a client connects.
    pub fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// Removes its file, unless another has taken its place.
    pub fn unlink(&self) {
        if let (Some(path), Some(ours)) = (self.address.path(), self.file) {
            let now = fs::symlink_metadata(path).ok();
            if now.is_some_and(|now| (now.dev(), now.ino()) == ours) {
                let _ = fs::remove_file(path);
            }
        }
    }
}

/// Makes the socket, which does not listen yet. A file that a dead process left behind is removed.
fn bind(
    address: &Address,
    kind: SocketType,
    access: Option<Access>,
) -> Result<OwnedFd, ListenError> {
    let system = |step| move |error: Errno| ListenError::System(step, error.into());
    let socket = open(kind).map_err(|error| ListenError::System("make a socket", error))?;
    if let Some(Access(mode)) = access {
        // The file is made with these permissions, less the umask: no other user can connect before.
        let most = mode.unwrap_or(Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::WGRP);
        rustix::fs::fchmod(&socket, most).map_err(system("set the socket's permissions"))?;
    }
    let name = address.socket().map_err(|error| ListenError::System("name a socket", error))?;
    match rustix::net::bind(&socket, &name) {
        Ok(()) => {}
        Err(Errno::ADDRINUSE) => {
            let Some(path) = address.path() else { return Err(ListenError::InUse) };
            let is_socket = fs::symlink_metadata(path)
                .map(|file| file.file_type().is_socket())
                .map_err(|error| ListenError::System("look at the socket's file", error))?;
            if !is_socket {
                return Err(ListenError::NoSocket);
            }
            let probe = open(kind).map_err(|error| ListenError::System("make a socket", error))?;
            if rustix::net::connect(&probe, &name) != Err(Errno::CONNREFUSED) {
                return Err(ListenError::InUse);
            }
            fs::remove_file(path)
                .map_err(|error| ListenError::System("remove a stale socket", error))?;
            rustix::net::bind(&socket, &name).map_err(system(BIND))?;
        }
        Err(errno) => return Err(system(BIND)(errno)),
    }
    if let (Some(Access(Some(mode))), Some(path)) = (access, address.path()) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode.bits()))
            .map_err(|error| ListenError::System("set the socket's permissions", error))?;
    }
    Ok(socket)
}
