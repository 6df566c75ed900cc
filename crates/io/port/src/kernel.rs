//! Steps common to all drivers of a kernel interface when they open: find the interface, check that
//! frames fit the buffers, and report errors.

use std::io;

use linerate_linux::interface::{self, InterfaceError, Link};
use linerate_memory::Arena;

use crate::{error::OpenError, uri::PortUri};

/// Bytes of an Ethernet header and one 802.1Q tag: the part of a frame beyond the MTU.
pub(crate) const FRAMING: usize = 14 + 4;

/// The errors of one port that is being opened.
pub(crate) struct OpenErrors {
    port: String,
    /// Remedy for a step that takes privileges.
    remedy: String,
}

impl OpenErrors {
    /// For a port whose privileged steps all take one capability.
    pub(crate) fn new(uri: &PortUri, capability: &str) -> OpenErrors {
        let remedy =
            format!("run as root, or grant the capability: setcap {capability}+ep PROGRAM");
        OpenErrors::with_remedy(uri, remedy)
    }

    /// For a port with its own remedy for its privileged steps.
    pub(crate) fn with_remedy(uri: &PortUri, remedy: String) -> OpenErrors {
        OpenErrors { port: uri.to_string(), remedy }
    }

    pub(crate) fn unsupported(&self, reason: String) -> OpenError {
        OpenError::Unsupported { port: self.port.clone(), reason }
    }

    pub(crate) fn busy(&self, reason: String) -> OpenError {
        OpenError::Busy { port: self.port.clone(), reason }
    }

    /// A file or its folder that cannot be used.
    pub(crate) fn file(&self, reason: String) -> OpenError {
        OpenError::File { port: self.port.clone(), reason }
    }

    /// A step that failed, maybe because it takes privileges.
    pub(crate) fn failed(&self, step: &'static str) -> impl Fn(io::Error) -> OpenError {
        move |source| {
            if source.kind() == io::ErrorKind::PermissionDenied {
                self.not_permitted(step, self.remedy.clone())
            } else {
                OpenError::System { port: self.port.clone(), step, source }
            }
        }
    }

    /// A step that the process may not do, and a remedy.
    pub(crate) fn not_permitted(&self, action: impl Into<String>, remedy: String) -> OpenError {
        OpenError::Permission { port: self.port.clone(), action: action.into(), remedy }
    }

    /// An interface that cannot be used or changed.
    pub(crate) fn interface(&self, error: InterfaceError) -> OpenError {
        let port = self.port.clone();
        match error {
            source @ (InterfaceError::Unknown { .. } | InterfaceError::Gone { .. }) => {
                OpenError::NoInterface { port, source }
            }
            InterfaceError::NotPermitted { action, interface, .. } => {
                self.not_permitted(format!("{action} interface {interface}"), self.remedy.clone())
            }
            InterfaceError::System { step, source } => OpenError::System { port, step, source },
        }
    }

    /// The interface a port is to use.
    pub(crate) fn find(&self, name: &str) -> Result<Link, OpenError> {
        interface::find(name).map_err(|error| self.interface(error))
    }

    /// Refuses an interface whose frames do not fit the arena's buffers.
    pub(crate) fn check_room(&self, mtu: usize, arena: &Arena) -> Result<(), OpenError> {
        let (needed, room) = (mtu + FRAMING, arena.room());
        if needed <= room {
            return Ok(());
        }
        Err(self.unsupported(format!(
            "its MTU of {mtu} makes frames of up to {needed} bytes, and a buffer has room for \
             {room}; use --buffer-size {} or lower the MTU to {}",
            needed + arena.headroom(),
            room.saturating_sub(FRAMING),
        )))
    }
}
