//! Where commands listen for control connections, as people type it.

use std::{
    env, fmt, fs, io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    os::unix::{fs::FileTypeExt as _, net::UnixStream},
    str::FromStr,
};

use linerate_graph::lang::config::quote;

use crate::{exit::UsageError, options::Controlled};

/// The variable of the environment with the token that clients say.
pub(crate) const TOKEN_VARIABLE: &str = "LINERATE_CONTROL_TOKEN";

/// A place to listen at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ControlAddress {
    /// A TCP port; `or_above` is whether one of the next will do.
    Tcp { address: IpAddr, port: u16, or_above: bool },
    /// The file of a UNIX socket.
    Unix(String),
}

impl ControlAddress {
    /// Whether those on other machines can connect.
    pub(crate) fn is_reached_by_others(&self) -> bool {
        matches!(self, ControlAddress::Tcp { address, .. } if !address.is_loopback())
    }

    /// Takes a UNIX socket away that a process has left which was killed: nobody answers there.
    pub(crate) fn take_stale_away(&self) {
        let ControlAddress::Unix(name) = self else { return };
        let is_socket = |found: fs::Metadata| found.file_type().is_socket();
        let is_refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
        if fs::symlink_metadata(name).is_ok_and(is_socket)
            && UnixStream::connect(name).is_err_and(is_refused)
        {
            // Whoever listens there next says why it cannot.
            let _ = fs::remove_file(name);
        }
    }

    /// The arguments of a `ControlSocket` there; `token` says where the clients' token is.
    pub(crate) fn config(&self, token: Option<&str>) -> String {
        let mut config = match self {
            ControlAddress::Tcp { address, port, or_above } => {
                let above = if *or_above { "+" } else { "" };
                format!("TCP, {port}{above}, ADDRESS {address}")
            }
            ControlAddress::Unix(name) => format!("UNIX, {}", quote(name.as_bytes())),
        };
        if let Some(token) = token.filter(|_| matches!(self, ControlAddress::Tcp { .. })) {
            config += &format!(", TOKEN {}", quote(token.as_bytes()));
        }
        config
    }
}

impl FromStr for ControlAddress {
    type Err = String;

    /// `PORT`, `ADDRESS:PORT`, either with `+` behind, or a file's name with a slash in it.
    fn from_str(text: &str) -> Result<ControlAddress, String> {
        if text.contains('/') {
            return Ok(ControlAddress::Unix(text.into()));
        }
        let (plain, or_above) = match text.strip_suffix('+') {
            Some(plain) => (plain, true),
            None => (text, false),
        };
        let tcp = |address, port| ControlAddress::Tcp { address, port, or_above };
        if let Ok(port) = plain.parse() {
            return Ok(tcp(Ipv4Addr::LOCALHOST.into(), port));
        }
        let local = || {
            Some(tcp(Ipv4Addr::LOCALHOST.into(), plain.strip_prefix("localhost:")?.parse().ok()?))
        };
        let known = plain.parse().map(|at: SocketAddr| tcp(at.ip(), at.port())).ok().or_else(local);
        known.ok_or_else(|| {
            if !plain.is_empty() && plain.bytes().all(|byte| byte.is_ascii_digit()) {
                return format!("{plain} is no TCP port: they end at {}", u16::MAX);
            }
            "write a TCP port (7777), an address and a port (192.0.2.1:7777, [::]:7777), or the \
             file of a UNIX socket with a slash in it (./router.sock)"
                .into()
        })
    }
}

impl fmt::Display for ControlAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ControlAddress::Tcp { address, port, .. } => SocketAddr::new(*address, *port).fmt(f),
            ControlAddress::Unix(name) => f.write_str(name),
        }
    }
}

impl Controlled {
    /// Where the token is that clients of TCP ports say. Those that others reach have one.
    pub(crate) fn token(&self) -> Result<Option<String>, UsageError> {
        let variable = || env::var_os(TOKEN_VARIABLE).map(|_| format!("env:{TOKEN_VARIABLE}"));
        let token = self.token_file.as_ref().map(|name| format!("file:{name}")).or_else(variable);
        match self.control.iter().find(|address| address.is_reached_by_others()) {
            Some(address) if token.is_none() => Err(UsageError(format!(
                "--control {address}: whoever reaches it could stop the run, so clients must say \
                 a token: --token-file FILE, or {TOKEN_VARIABLE}; or listen on this host alone, at \
                 127.0.0.1"
            ))),
            _ => Ok(token),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_socket_that_nobody_listens_at_is_taken_away() {
        let folder = tempfile::tempdir().unwrap();
        let [used, left, file] = ["used", "left", "file"].map(|name| folder.path().join(name));
        let _listener = std::os::unix::net::UnixListener::bind(&used).unwrap();
        drop(std::os::unix::net::UnixListener::bind(&left).unwrap());
        fs::write(&file, "text").unwrap();
        for (path, stays) in [(&used, true), (&left, false), (&file, true)] {
            ControlAddress::Unix(path.to_str().unwrap().into()).take_stale_away();
            assert_eq!(path.exists(), stays, "{}", path.display());
        }
    }

    fn parsed(text: &str) -> Result<ControlAddress, String> {
        text.parse()
    }

    #[test]
    fn only_those_who_ask_are_reached_by_others() {
        for (text, config, reached) in [
            ("7777", "TCP, 7777, ADDRESS 127.0.0.1", false),
            ("7777+", "TCP, 7777+, ADDRESS 127.0.0.1", false),
            ("localhost:1", "TCP, 1, ADDRESS 127.0.0.1", false),
            ("[::1]:7", "TCP, 7, ADDRESS ::1", false),
            ("0.0.0.0:7777", "TCP, 7777, ADDRESS 0.0.0.0", true),
            ("[::]:7777+", "TCP, 7777+, ADDRESS ::", true),
            ("/run/a.sock", "UNIX, \"/run/a.sock\"", false),
            ("./a, b", "UNIX, \"./a, b\"", false),
        ] {
            let address = parsed(text).unwrap();
            assert_eq!((&*address.config(None), address.is_reached_by_others()), (config, reached));
        }
        let with = parsed("7777").unwrap().config(Some("env:X"));
        assert_eq!(with, "TCP, 7777, ADDRESS 127.0.0.1, TOKEN \"env:X\"");
        assert_eq!(parsed("/a").unwrap().config(Some("env:X")), "UNIX, \"/a\"");
    }

    #[test]
    fn what_is_no_port_becomes_no_file() {
        assert_eq!(parsed("99999").unwrap_err(), "99999 is no TCP port: they end at 65535");
        for wrong in ["", "7777x", "router", "host:port", "1.2.3.4", "1.2.3.4:99999", "::1:7"] {
            assert!(parsed(wrong).unwrap_err().contains("./router.sock"), "{wrong}");
        }
    }
}
