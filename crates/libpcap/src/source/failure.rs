//! Errors of opening, in libpcap's numbers.

use std::{ffi::c_int, io};

use linerate_client::ClientError;
use linerate_port::OpenError;

use crate::abi::{ERROR, ERROR_NO_SUCH_DEVICE, ERROR_PERM_DENIED};

/// Status that `pcap_activate` returns, and the text beside it.
#[derive(Debug)]
pub(crate) struct OpenFailure {
    pub(crate) status: c_int,
    pub(crate) text: String,
}

impl OpenFailure {
    pub(crate) fn other(text: impl Into<String>) -> OpenFailure {
        OpenFailure { status: ERROR, text: text.into() }
    }
}

impl From<OpenError> for OpenFailure {
    fn from(error: OpenError) -> OpenFailure {
        let status = match &error {
            OpenError::NoInterface { .. } => ERROR_NO_SUCH_DEVICE,
            OpenError::Permission { .. } => ERROR_PERM_DENIED,
            _ => ERROR,
        };
        let text = match &error {
            // Opens that libpcap knows, too, fail with its texts.
            OpenError::NoInterface { port, .. } if port.starts_with("packet:") => {
                "No such device exists".into()
            }
            OpenError::Permission { port, .. } if port.starts_with("packet:") => {
                "socket: Operation not permitted".into()
            }
            // A program's error buffer has room for 255 bytes, and there is no option of a command.
            OpenError::Disconnects { interface, uses, .. } => format!(
                "this takes what {interface} receives away from the host, which has {uses}: \
                 packet:{interface} copies it instead, and ?disconnect=on confirms that it may",
            ),
            OpenError::Permission { port, action, .. } if port.starts_with("xdp:") => format!(
                "{port}: not permitted to {action}; programs that give up their rights before they \
                 open a device capture by packet: or from a cluster",
            ),
            // Programs print it on a line of theirs.
            other => other.to_string().replace('\n', " "),
        };
        OpenFailure { status, text }
    }
}

impl From<ClientError> for OpenFailure {
    fn from(error: ClientError) -> OpenFailure {
        let status = match &error {
            ClientError::Connect { source, .. } => match source.kind() {
                io::ErrorKind::PermissionDenied => ERROR_PERM_DENIED,
                _ => ERROR_NO_SUCH_DEVICE,
            },
            _ => ERROR,
        };
        OpenFailure { status, text: error.to_string() }
    }
}
