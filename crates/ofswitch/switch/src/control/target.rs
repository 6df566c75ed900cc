//! Targets: addresses a switch connects to, and addresses it listens at.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

/// The port of OpenFlow, as IANA has it.
pub const DEFAULT_PORT: u16 = 6653;

/// The longest path of a UNIX socket, in bytes (unix(7)).
const LONGEST_PATH: usize = 107;

/// Address of an active or passive connection to controllers.
///
/// The text is as in Open vSwitch: `tcp:HOST[:PORT]`, `ssl:HOST[:PORT]` and `unix:PATH` are
/// connected to, `ptcp:[PORT][:ADDRESS]`, `pssl:[PORT][:ADDRESS]` and `punix:PATH` are listened at.
/// An address of IPv6 is in brackets.
///
/// ```
/// use linerate_ofswitch::control::Target;
///
/// let target: Target = "tcp:[::1]".parse()?;
/// assert_eq!(target.to_string(), "tcp:[::1]:6653");
/// assert!("ptcp:6654:127.0.0.1".parse::<Target>()?.is_passive());
/// # Ok::<(), linerate_ofswitch::control::TargetError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Target {
    /// A controller that is connected to.
    Connect {
        /// Its name or address, without brackets.
        host: String,
        /// Its port.
        port: u16,
        /// Whether by TLS.
        secure: bool,
    },
    /// A controller's UNIX socket.
    ConnectUnix(PathBuf),
    /// An address that is listened at.
    Listen {
        /// The address; port 0 is any that is free.
        address: SocketAddr,
        /// Whether by TLS.
        secure: bool,
    },
    /// A UNIX socket that is listened at.
    ListenUnix(PathBuf),
}

/// Why a text is no [`Target`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// It does not begin with a way.
    #[error("no controller: '{0}'; it begins with tcp:, ssl:, unix:, ptcp:, pssl: or punix:")]
    Way(String),
    /// There is no host.
    #[error("'{0}' has no host: tcp:HOST[:PORT]")]
    Host(String),
    /// The port is no number, or out of range.
    #[error("'{port}' in '{target}' is no port from {least} to 65535")]
    Port {
        /// The whole text.
        target: String,
        /// Text of the port.
        port: String,
        /// The smallest there is.
        least: u16,
    },
    /// The address to listen at is invalid.
    #[error(
        "'{address}' in '{target}' is no address to listen at; one of IPv6 is in brackets, and \
         names are not looked up"
    )]
    Address {
        /// The whole text.
        target: String,
        /// Text of the address.
        address: String,
    },
    /// An address of IPv6 has no brackets, or not both.
    #[error("'{0}': an address of IPv6 is in brackets, and a port behind them: tcp:[::1]:6653")]
    Brackets(String),
    /// There is no path, or it is too long for a socket.
    #[error("'{0}' has no path of a UNIX socket, which has 1 to {LONGEST_PATH} bytes")]
    Path(String),
}

impl Target {
    /// Returns true if it is listened at.
    #[must_use]
    pub fn is_passive(&self) -> bool {
        matches!(self, Target::Listen { .. } | Target::ListenUnix(_))
    }

    /// Returns true if it needs a key and certificates.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        matches!(self, Target::Connect { secure: true, .. } | Target::Listen { secure: true, .. })
    }

    fn connect(text: &str, rest: &str, secure: bool) -> Result<Target, TargetError> {
        let (host, port) = match rest.strip_prefix('[') {
            Some(rest) => {
                let brackets = || TargetError::Brackets(text.to_owned());
                let (host, behind) = rest.split_once(']').ok_or_else(brackets)?;
                match behind.strip_prefix(':') {
                    Some(port) => (host, Some(port)),
                    None if behind.is_empty() => (host, None),
                    None => return Err(brackets()),
                }
            }
            None => match rest.split_once(':') {
                Some((_, port)) if port.contains(':') => {
                    return Err(TargetError::Brackets(text.to_owned()));
                }
                Some((host, port)) => (host, Some(port)),
                None => (rest, None),
            },
        };
        if host.is_empty() {
            return Err(TargetError::Host(text.to_owned()));
        }
        let port = port.map_or(Ok(DEFAULT_PORT), |port| parse_port(text, port, 1))?;
        Ok(Target::Connect { host: host.to_owned(), port, secure })
    }

    fn listen(text: &str, rest: &str, secure: bool) -> Result<Target, TargetError> {
        let (port, host) = match rest.split_once(':') {
            Some((port, host)) => (port, host),
            None => (rest, ""),
        };
        let port = if port.is_empty() { DEFAULT_PORT } else { parse_port(text, port, 0)? };
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let address = match bare {
            Some(inner) => inner.parse().ok().map(IpAddr::V6),
            None if host.is_empty() => Some(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
            None => host.parse().ok().map(IpAddr::V4),
        };
        let address = address.ok_or_else(|| TargetError::Address {
            target: text.to_owned(),
            address: host.to_owned(),
        })?;
        Ok(Target::Listen { address: SocketAddr::new(address, port), secure })
    }
}

fn parse_port(target: &str, port: &str, least: u16) -> Result<u16, TargetError> {
    let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let number = port.parse().ok().filter(|&number| digits && number >= least);
    number.ok_or_else(|| TargetError::Port {
        target: target.to_owned(),
        port: port.to_owned(),
        least,
    })
}

fn parse_path(target: &str, path: &str) -> Result<PathBuf, TargetError> {
    // A zero byte would end the name earlier.
    if path.is_empty() || path.len() > LONGEST_PATH || path.contains('\0') {
        return Err(TargetError::Path(target.to_owned()));
    }
    Ok(PathBuf::from(path))
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Target, TargetError> {
        let way = || TargetError::Way(text.to_owned());
        let (kind, rest) = text.split_once(':').ok_or_else(way)?;
        match kind {
            "tcp" => Target::connect(text, rest, false),
            "ssl" => Target::connect(text, rest, true),
            "unix" => parse_path(text, rest).map(Target::ConnectUnix),
            "ptcp" => Target::listen(text, rest, false),
            "pssl" => Target::listen(text, rest, true),
            "punix" => parse_path(text, rest).map(Target::ListenUnix),
            _ => Err(way()),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Connect { host, port, secure } => {
                let way = if *secure { "ssl" } else { "tcp" };
                if host.contains(':') {
                    write!(formatter, "{way}:[{host}]:{port}")
                } else {
                    write!(formatter, "{way}:{host}:{port}")
                }
            }
            Target::ConnectUnix(path) => write!(formatter, "unix:{}", path.display()),
            Target::Listen { address, secure } => {
                let (way, port) = (if *secure { "pssl" } else { "ptcp" }, address.port());
                match address.ip() {
                    IpAddr::V4(address) if address.is_unspecified() => {
                        write!(formatter, "{way}:{port}")
                    }
                    IpAddr::V4(address) => write!(formatter, "{way}:{port}:{address}"),
                    IpAddr::V6(address) => write!(formatter, "{way}:{port}:[{address}]"),
                }
            }
            Target::ListenUnix(path) => write!(formatter, "punix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_targets_and_the_same_texts() {
        for (text, full) in [
            ("tcp:10.0.0.1", "tcp:10.0.0.1:6653"),
            ("tcp:10.0.0.1:6633", "tcp:10.0.0.1:6633"),
            ("tcp:controller.example:1", "tcp:controller.example:1"),
            ("ssl:[fe80::1%eth0]:7", "ssl:[fe80::1%eth0]:7"),
            ("unix:/run/a:b", "unix:/run/a:b"),
            ("ptcp:", "ptcp:6653"),
            ("ptcp:0", "ptcp:0"),
            ("ptcp::127.0.0.1", "ptcp:6653:127.0.0.1"),
            ("pssl:6654:[::1]", "pssl:6654:[::1]"),
            ("ptcp:6654:[::]", "ptcp:6654:[::]"),
            ("punix:switch.mgmt", "punix:switch.mgmt"),
        ] {
            let target: Target = text.parse().expect(text);
            assert_eq!(target.to_string(), full);
            assert_eq!(full.parse(), Ok(target.clone()));
            assert_eq!(target.is_passive(), text.starts_with('p'));
            assert_eq!(target.is_secure(), text.contains("ssl"));
        }
    }

    #[test]
    fn wrong_targets_are_refused() {
        let error = |text: &str| text.parse::<Target>().expect_err(text).to_string();
        assert!(error("10.0.0.1").contains("it begins with tcp:"));
        assert!(error("udp:10.0.0.1").contains("no controller: 'udp:10.0.0.1'"));
        assert!(error("tcp:").contains("has no host"));
        assert!(error("tcp::6653").contains("has no host"));
        assert!(error("tcp:a:0").contains("'0' in 'tcp:a:0' is no port from 1 to 65535"));
        assert!(error("tcp:a:+1").contains("no port"));
        assert!(error("tcp:a:").contains("no port"));
        assert!(error("tcp:::1").contains("in brackets"));
        assert!(error("tcp:[::1]6653").contains("in brackets"));
        assert!(error("tcp:[::1").contains("in brackets"));
        assert!(error("ptcp:65536").contains("from 0 to 65535"));
        assert!(error("ptcp:1:localhost").contains("'localhost' in 'ptcp:1:localhost'"));
        assert!(error("ptcp:1:::1").contains("in brackets"));
        assert!(error("unix:").contains("1 to 107 bytes"));
        assert!(error(&format!("punix:/{}", "a".repeat(107))).contains("1 to 107 bytes"));
    }
}
