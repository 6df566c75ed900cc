//! What is said in the names of all ports whose peer is another process.

use std::time::Duration;

use super::address::Address;
use crate::{
    driver::{PortOption, Value},
    error::UriError,
    options::Options,
    uri::PortUri,
};

/// How long opening waits.
pub(crate) const WAIT: PortOption = PortOption {
    name: "wait",
    value: Value::Number { least: 0, most: 3600 },
    default: "0",
    help: "How many seconds opening waits for the peer, at most.",
};

/// What [`WAIT`] says.
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
