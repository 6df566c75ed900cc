//! A UNIX socket that listens, and its file.

use std::{
    fs, io,
    os::{
        fd::OwnedFd,
        unix::fs::{FileTypeExt, MetadataExt},
    },
};

use rustix::{
    io::Errno,
    net::{AddressFamily, SocketFlags, SocketType},
};

use super::address::Address;
use crate::{error::OpenError, kernel::OpenErrors};

/// Why nobody can listen there.
#[derive(Debug)]
pub enum ListenError {
    /// Another process listens there.
    InUse,
    /// Something that is no socket is there.
    NoSocket,
    /// The kernel refused a step.
    System(&'static str, io::Error),
}

/// The same for whoever opens a port; `alternative` is how it would connect instead.
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
    /// Which file it is, so that only that one is removed.
    file: Option<(u64, u64)>,
}

impl Socket {
    /// Listens there.
    ///
    /// # Errors
    ///
    /// Why nobody can.
    pub fn bind(address: &Address, kind: SocketType, backlog: i32) -> Result<Socket, ListenError> {
        let fd = bind(address, kind, backlog)?;
        let file = address.path().and_then(|path| fs::metadata(path).ok());
        let file = file.map(|file| (file.dev(), file.ino()));
        Ok(Socket { fd, address: address.clone(), file })
    }

    /// What is readable when somebody connects.
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

/// Makes the socket. A file that a dead process left behind is removed.
fn bind(address: &Address, kind: SocketType, backlog: i32) -> Result<OwnedFd, ListenError> {
    let system = |step| move |error: Errno| ListenError::System(step, error.into());
    let socket = open(kind).map_err(|error| ListenError::System("make a socket", error))?;
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
            rustix::net::bind(&socket, &name).map_err(system("bind the socket"))?;
        }
        Err(errno) => return Err(system("bind the socket")(errno)),
    }
    rustix::net::listen(&socket, backlog).map_err(system("listen"))?;
    Ok(socket)
}
