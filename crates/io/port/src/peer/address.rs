//! Address of a UNIX socket: a path, or a name without a file.

use std::{fmt, io, path::Path};

use rustix::net::SocketAddrUnix;

/// Longest path or name of a UNIX socket, with its terminating or leading zero byte (unix(7)).
const LONGEST: usize = 108;

/// An address as it is written: `/run/x.sock`, or `@x`, which is Linux's abstract name `x`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address(String);

impl Address {
    /// `None` for text that cannot name a socket.
    pub fn parse(text: &str) -> Option<Address> {
        let named = !text.is_empty() && text != "@" && text.len() < LONGEST;
        named.then(|| Address(text.into()))
    }

    /// Its file, if it has one.
    pub fn path(&self) -> Option<&Path> {
        (!self.0.starts_with('@')).then(|| Path::new(&self.0))
    }

    /// The address in the kernel's form.
    ///
    /// # Errors
    ///
    /// When the kernel has no such addresses.
    pub fn socket(&self) -> io::Result<SocketAddrUnix> {
        // Without a zero byte at the end of the name, as VPP, libmemif and DPDK have it.
        Ok(match self.0.strip_prefix('@') {
            Some(name) => SocketAddrUnix::new_abstract_name(name.as_bytes())?,
            None => SocketAddrUnix::new(self.0.as_str())?,
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
