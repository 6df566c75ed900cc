//! Options common to all ports whose peer is another process.

use std::time::Duration;

use rustix::fs::Mode;

use super::{address::Address, listen::Access};
use crate::{
    error::UriError,
    options::{Options, PortOption, Value},
    uri::PortUri,
};

/// Time that opening waits.
pub(crate) const WAIT: PortOption = PortOption {
    name: "wait",
    value: Value::Number { least: 0, most: 3600 },
    default: "0",
    help: "How many seconds opening waits for the peer, at most.",
};

/// The value of [`WAIT`].
pub(crate) fn wait(options: &mut Options<'_>) -> Result<Duration, UriError> {
    let seconds = options.number(WAIT.name)?.unwrap_or(options.default_of(WAIT.name));
    Ok(Duration::from_secs(seconds))
}

/// The socket that a port is named by.
pub(crate) fn address(uri: &PortUri) -> Result<Address, UriError> {
    Address::parse(uri.name()).ok_or_else(|| UriError::Syntax {
        uri: uri.to_string(),
        reason: "expected the path of a socket, or @NAME, of at most 107 bytes",
    })
}

/// Limit of a peer's memory that is mapped.
pub(crate) const MEMORY: PortOption = PortOption {
    name: "memory",
    value: Value::Number { least: 1, most: 16 << 10 },
    default: "256",
    help: "Most memory of a peer that is mapped, in GiB. The values of all ports of a program add \
           up to 32 TiB at most.",
};

/// Reads [`MEMORY`], in bytes.
pub(crate) fn memory(options: &mut Options<'_>) -> Result<u64, UriError> {
    let most = options.number(MEMORY.name)?.unwrap_or(options.default_of(MEMORY.name));
    Ok(most << 30)
}

const OCTAL: &str = "permissions of a file in octal, such as 660";

/// Users that may connect.
pub(crate) const MODE: PortOption = PortOption {
    name: "mode",
    value: Value::Text { form: "MODE", expected: OCTAL },
    default: "660, less the umask, and for an abstract socket 600",
    help: "Permissions of the socket's file, as of `chmod`: 660 lets the group connect, 666 every \
           user. An abstract socket admits the same users.",
};

/// Reads [`MODE`].
pub(crate) fn mode(options: &mut Options<'_>) -> Result<Access, UriError> {
    let Some(text) = options.text(MODE.name) else { return Ok(Access(None)) };
    let bits = u32::from_str_radix(text, 8).ok().filter(|bits| *bits <= 0o777);
    let mode = bits.map(Mode::from_bits_retain);
    mode.map(|mode| Access(Some(mode))).ok_or_else(|| options.refuse(MODE.name, text, OCTAL))
}
