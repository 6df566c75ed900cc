//! Control sockets of a command line: their addresses, their names and their elements.

use std::{
    fmt, fs, io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    os::unix::{fs::FileTypeExt as _, net::UnixStream},
    path::Path,
    str::FromStr,
    time::Duration,
};

use linerate_linux::RuntimeDirectory;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType,
    sockopt::{Timeout, set_socket_timeout},
};

/// The shortest time limit that a socket has.
const SHORTEST: Duration = Duration::from_millis(1);
/// Time limit of a connection that only checks for a listener.
const LOOK: Duration = Duration::from_millis(200);

/// The address of a control socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ControlAddress {
    /// A UNIX socket in the runtime directory, with a name or the default one.
    Named(Option<String>),
    /// The path of a UNIX socket.
    Unix(String),
    /// A TCP port; `or_above` if one of the next will do.
    Tcp { address: IpAddr, port: u16, or_above: bool },
}

/// Connects to a UNIX socket. A listener that takes no connections ends it by the time limit.
pub(crate) fn connect_unix(path: &Path, timeout: Duration) -> io::Result<UnixStream> {
    let address = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // connect(2) obeys SO_SNDTIMEO on these sockets. A time beyond the kernel's range is no limit.
    let _ = set_socket_timeout(&socket, Timeout::Send, Some(timeout.max(SHORTEST)));
    rustix::net::connect(&socket, &address)?;
    Ok(socket.into())
}

/// Returns true if a program listens at a UNIX socket, whether it takes connections or not.
pub(crate) fn is_listened_at(path: &Path) -> bool {
    match connect_unix(path, LOOK) {
        Ok(_) => true,
        Err(error) => error.kind() == io::ErrorKind::WouldBlock,
    }
}

/// Removes the file of a UNIX socket that a killed process has left: connections to it are refused.
pub(crate) fn remove_stale_socket(path: &Path) {
    let is_socket = |found: fs::Metadata| found.file_type().is_socket();
    let is_refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    if fs::symlink_metadata(path).is_ok_and(is_socket)
        && connect_unix(path, LOOK).is_err_and(is_refused)
    {
        // The listener that takes its place reports why it cannot.
        let _ = fs::remove_file(path);
    }
}

/// Returns true if a word is probably the next argument after a `--control` without a value: a port's URI, a variable of the configuration, or a file.
fn is_other_argument(text: &str) -> bool {
    let before_slash = text.split('/').next().unwrap_or_default();
    let is_port = before_slash.contains([':', '=']);
    text.contains('/') && (is_port || fs::metadata(text).is_ok_and(|found| found.is_file()))
}

impl FromStr for ControlAddress {
    type Err = String;

    /// Nothing, `NAME`, `PATH` with a slash, or `PORT` and `ADDRESS:PORT`, either with `+` behind.
    fn from_str(text: &str) -> Result<ControlAddress, String> {
        if text.is_empty() {
            return Ok(ControlAddress::Named(None));
        }
        if is_other_argument(text) {
            return Err(format!(
                "{text} is not the address of a control socket; for the default one write --control \
                 behind {text}, or in front of another option"
            ));
        }
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
        if let Some(known) = known {
            return Ok(known);
        }
        if !plain.is_empty() && plain.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(format!("{plain} is not a TCP port: they end at {}", u16::MAX));
        }
        // A dot is left to files: `--control router.click` is a slip.
        if RuntimeDirectory::is_name(text) && !text.contains('.') {
            return Ok(ControlAddress::Named(Some(text.into())));
        }
        Err(format!(
            "{text} is not the address of a control socket: write a name (router), a path with a \
             slash (./router.sock), a TCP port (7777), or an address and a port (192.0.2.1:7777, \
             [::]:7777); for the default one write --control behind {text}, or in front of another \
             option"
        ))
    }
}

impl fmt::Display for ControlAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ControlAddress::Tcp { address, port, .. } => SocketAddr::new(*address, *port).fmt(f),
            ControlAddress::Unix(text) | ControlAddress::Named(Some(text)) => f.write_str(text),
            ControlAddress::Named(None) => Ok(()),
        }
    }
}

/// Permission bits of UNIX sockets: octal, as `chmod` takes them.
pub(crate) fn parse_mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    match mode {
        Some(mode) if mode & 0o600 == 0o600 => Ok(mode),
        Some(_) => Err(format!("{text} keeps the owner out: the mode includes 0600")),
        None => Err(format!("{text} is not a mode: write three octal digits, as in 0660")),
    }
}

/// A name that a control socket can have, from the name of a file or a command: a letter, a digit,
/// `_` or `-` in the place of each other character.
pub(crate) fn instance_name(stem: &str) -> String {
    let plain = |letter: char| match letter {
        '_' | '-' => letter,
        letter if letter.is_ascii_alphanumeric() => letter,
        _ => '-',
    };
    let name: String = stem.chars().map(plain).take(LONGEST_STEM).collect();
    let name = name.trim_start_matches('-');
    if name.is_empty() { UNNAMED.into() } else { name.into() }
}

/// Letters of an instance's name, which leave room for the number of a process.
const LONGEST_STEM: usize = 40;
/// The name of an instance where a file's name has no letter in it.
const UNNAMED: &str = "linerate";

/// The name of the element of a control socket of the command line, as Click's driver names it.
pub(crate) fn element_name(number: usize) -> String {
    match number {
        0 => "click_driver@@ControlSocket".into(),
        more => format!("click_driver@@ControlSocket@{more}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<ControlAddress, String> {
        text.parse()
    }

    #[test]
    fn only_a_socket_without_a_listener_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let [used, left, file] = ["used", "left", "file"].map(|name| folder.path().join(name));
        let _listener = std::os::unix::net::UnixListener::bind(&used).unwrap();
        drop(std::os::unix::net::UnixListener::bind(&left).unwrap());
        fs::write(&file, "text").unwrap();
        for (path, stays) in [(&used, true), (&left, false), (&file, true)] {
            remove_stale_socket(path);
            assert_eq!(path.exists(), stays, "{}", path.display());
        }
    }

    #[test]
    fn a_bare_port_is_of_this_host_alone() {
        let tcp = |address: &str, port, or_above| {
            let address = address.parse().unwrap();
            Ok(ControlAddress::Tcp { address, port, or_above })
        };
        assert_eq!(parsed("7777"), tcp("127.0.0.1", 7777, false));
        assert_eq!(parsed("7777+"), tcp("127.0.0.1", 7777, true));
        assert_eq!(parsed("localhost:1"), tcp("127.0.0.1", 1, false));
        assert_eq!(parsed("[::1]:7"), tcp("::1", 7, false));
        assert_eq!(parsed("0.0.0.0:7777"), tcp("0.0.0.0", 7777, false));
        assert_eq!(parsed("[::]:7777+"), tcp("::", 7777, true));
    }

    #[test]
    fn a_word_is_a_name_and_a_slash_makes_a_path() {
        assert_eq!(parsed(""), Ok(ControlAddress::Named(None)));
        assert_eq!(parsed("router-2"), Ok(ControlAddress::Named(Some("router-2".into()))));
        for path in ["/run/a.sock", "./a, b", "a/b", "./a:b", "./a=b"] {
            assert_eq!(parsed(path), Ok(ControlAddress::Unix(path.into())), "{path}");
        }
        assert_eq!(parsed("99999").unwrap_err(), "99999 is not a TCP port: they end at 65535");
    }

    #[test]
    fn another_argument_is_not_taken_for_an_address() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("router");
        fs::write(&file, "Idle").unwrap();
        let existing = file.to_str().unwrap();
        for argument in [
            "router.click",
            "DEV=eth1",
            "null:",
            "packet:eth1",
            "a=memif:/run/a.sock",
            "pcap:/tmp/x.pcap",
            "-",
            "host:port",
            "1.2.3.4",
            "1.2.3.4:99999",
            "::1:7",
            "..",
            existing,
        ] {
            let error = parsed(argument).unwrap_err();
            assert!(error.contains(&format!("write --control behind {argument}")), "{error}");
        }
    }

    #[test]
    fn a_mode_is_octal_and_has_the_owner_in_it() {
        assert_eq!(parse_mode("0660"), Ok(0o660));
        assert_eq!(parse_mode("600"), Ok(0o600));
        assert!(parse_mode("0060").unwrap_err().contains("keeps the owner out"));
        for wrong in ["", "rw", "0888", "01777", "-1"] {
            assert!(parse_mode(wrong).unwrap_err().contains("octal"), "{wrong}");
        }
    }

    #[test]
    fn a_file_or_a_command_gives_the_name() {
        for (stem, name) in [
            ("router", "router"),
            ("my.router v2", "my-router-v2"),
            (".hidden", "hidden"),
            ("ä", "linerate"),
            ("", "linerate"),
        ] {
            assert_eq!(instance_name(stem), name);
            assert!(RuntimeDirectory::is_name(name));
        }
        assert_eq!(instance_name(&"n".repeat(1000)).len(), LONGEST_STEM);
    }
}
