//! A client of control sockets.
//!
//! Speaks the protocol of Click's `ControlSocket`, version 1.3: a greeting,
//! then for each command a line `CODE text`, with `-` after the code when more
//! lines follow; data come as `DATA n` and n bytes. Works with Click's own.

use std::{
    env, fmt, fs,
    io::{self, BufRead, BufReader, ErrorKind, Read, Write},
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs},
    os::unix::net::UnixStream,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, anyhow, bail};
use linerate_linux::local_socket::tcp_peer_uid;
use rustix::net::sockopt::socket_peercred;

use super::locate::{self, Address};
use crate::{
    control::TOKEN_VARIABLE,
    control_address::connect_unix,
    exit::{UsageError, cannot_read},
    output::Output,
};

/// The answer to a command that does not exist.
const UNIMPLEMENTED: u16 = 501;
/// The answer to a read of a handler that can only be written, and to a command that needs a token.
const PERMISSION: u16 = 530;
/// The answer to a call of a handler that the element does not have.
const NO_HANDLER: u16 = 511;
/// The answer to a token at a socket without one: the connection can read all the same.
const NO_TOKEN: &str = "There is no token";
/// The error of a conversation that the router has ended.
const CLOSED: &str = "the router has closed the connection";
/// Bytes of the longest value of a handler that is accepted: tables of millions of routes are shorter.
const LONGEST: u64 = 256 << 20;
/// Bytes of the longest line.
const LONGEST_LINE: u64 = 1 << 16;
/// Bytes of the longest answer in lines.
const LONGEST_REPLY: usize = 1 << 20;
/// The shortest time limit that a socket has.
const SHORTEST: Duration = Duration::from_millis(1);

/// A stream to a router.
trait Stream: Read + Write {
    /// Limits the time of the next system call.
    fn limit(&self, time: Duration) -> io::Result<()>;
}

impl Stream for UnixStream {
    fn limit(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))?;
        self.set_write_timeout(Some(time))
    }
}

impl Stream for TcpStream {
    fn limit(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))?;
        self.set_write_timeout(Some(time))
    }
}

/// A stream with a time limit for a command and its whole answer, which ends it for a peer that sends a
/// byte now and then, too.
struct Timed {
    stream: Box<dyn Stream>,
    timeout: Duration,
    /// `None` if the limit exceeds the clock's range.
    deadline: Option<Instant>,
}

impl Timed {
    fn new(stream: Box<dyn Stream>, timeout: Duration) -> Timed {
        let mut timed = Timed { stream, timeout, deadline: None };
        timed.restart();
        timed
    }

    /// Starts the time limit of a command.
    fn restart(&mut self) {
        self.deadline = Instant::now().checked_add(self.timeout);
    }

    fn limit(&self) -> io::Result<()> {
        let Some(deadline) = self.deadline else { return Ok(()) };
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        self.stream.limit(left.max(SHORTEST))
    }
}

impl Read for Timed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.limit()?;
        self.stream.read(buffer)
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.limit()?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

pub(in crate::commands) struct Client {
    stream: BufReader<Timed>,
}

/// A router's reply to a command.
#[derive(Debug, PartialEq, Eq)]
struct Reply {
    code: u16,
    /// Its lines, without the code.
    text: String,
}

impl Reply {
    /// The text of a success.
    fn success(self) -> Result<Reply, Refusal> {
        if (200..300).contains(&self.code) { Ok(self) } else { Err(Refusal(self)) }
    }
}

/// A router has answered, and refuses the command.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::commands) struct Refusal(Reply);

impl Refusal {
    /// Returns true if the handler read can only be written.
    pub(super) fn is_write_only(&self) -> bool {
        self.0.code == PERMISSION && self.0.text.ends_with(" write-only")
    }

    /// Returns true if there is no such handler.
    pub(super) fn is_no_handler(&self) -> bool {
        self.0.code == NO_HANDLER
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.0.text, self.0.code)
    }
}

impl std::error::Error for Refusal {}

/// The error for a conversation that has broken off. It is no error of a file, and the reader of
/// our output has not gone.
fn broken(error: io::Error) -> anyhow::Error {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => anyhow!("no answer in time"),
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => anyhow!(CLOSED),
        _ => anyhow!("{error}"),
    }
}

/// A conversation that does not begin: where nothing listens, the error is about the socket.
fn unreachable(error: io::Error) -> anyhow::Error {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::PermissionDenied | ErrorKind::ConnectionRefused => {
            error.into()
        }
        _ => broken(error),
    }
}

impl Client {
    /// Connects to a control socket, and sends the token where that gives a right.
    ///
    /// The owner of a UNIX socket's peer is checked before a byte is sent. A socket of another account is
    /// used only if the user gave its path, and gets no token. A token that was found by its port is sent
    /// only to a process of its account on this host.
    ///
    /// # Errors
    ///
    /// When nothing answers in time, a name leads to another account's socket, or the token is wrong.
    pub(in crate::commands) fn connect(
        address: &str,
        token_file: Option<&Path>,
        timeout: Duration,
    ) -> Result<Client> {
        let token = given_token(token_file)?;
        match Address::parse(address) {
            Address::Path(path) => Client::unix(&path, true, token.as_deref(), timeout),
            Address::Named(name) => {
                Client::unix(&locate::socket(&name)?, false, token.as_deref(), timeout)
            }
            Address::Tcp { host, port } => Client::tcp(&host, &port, token.as_deref(), timeout),
        }
    }

    fn unix(path: &Path, by_path: bool, token: Option<&str>, timeout: Duration) -> Result<Client> {
        let stream = connect_unix(path, timeout).map_err(unreachable)?;
        let own = rustix::process::geteuid();
        let owner = socket_peercred(&stream).context("cannot see whose the control socket is")?.uid;
        let is_foreign = owner != own && !owner.is_root();
        let (path, owner) = (path.display(), owner.as_raw());
        if is_foreign && !by_path {
            bail!(
                "the control socket {path} belongs to uid {owner} and not to this account: nothing is \
                 sent to it; name it by its path to read from it"
            );
        }
        if is_foreign && (token.is_some() || !own.is_root()) {
            let withheld = if token.is_some() { ", so no token is sent" } else { "" };
            let note =
                format!("linerate: the control socket {path} belongs to uid {owner}{withheld}");
            Output::new(false).line(&note);
        }
        let client = Client::over(Box::new(stream), timeout)?;
        // This account and root can write without one.
        match token.filter(|_| !is_foreign && owner != own.as_raw()) {
            Some(token) => client.authenticate(token),
            None => Ok(client),
        }
    }

    fn tcp(host: &str, port: &str, token: Option<&str>, timeout: Duration) -> Result<Client> {
        let number: u16 = port.parse().map_err(|_| {
            UsageError(format!("{port} is not a TCP port: they end at {}", u16::MAX))
        })?;
        let stream = connect_tcp(host, number, timeout)?;
        stream.set_nodelay(true).map_err(broken)?;
        let peer = stream.try_clone().map_err(broken)?;
        let client = Client::over(Box::new(stream), timeout)?;
        if let Some(token) = token {
            return client.authenticate(token);
        }
        // A token that was found belongs to one process: another account can listen at the same port of
        // another address, and must not get it.
        if !peer.peer_addr().is_ok_and(|peer| peer.ip().is_loopback()) {
            return Ok(client);
        }
        let Some(token) = locate::token(number)? else { return Ok(client) };
        match tcp_peer_uid(&peer).context("cannot see whose the control socket is")? {
            Some(uid) if uid == 0 || uid == rustix::process::geteuid().as_raw() => {
                client.authenticate(&token)
            }
            _ => {
                let note = format!(
                    "linerate: port {port} at this address belongs to another account, so no token is sent"
                );
                Output::new(false).line(&note);
                Ok(client)
            }
        }
    }

    fn over(stream: Box<dyn Stream>, timeout: Duration) -> Result<Client> {
        let mut client = Client { stream: BufReader::new(Timed::new(stream, timeout)) };
        let greeting = client.line()?;
        if !greeting.starts_with("Click::ControlSocket/1.") {
            bail!("what answers is no control socket: it says {greeting:?}");
        }
        Ok(client)
    }

    /// Sends the token. A router that does not know the command, or has no token, needs none.
    fn authenticate(mut self, token: &str) -> Result<Client> {
        self.send(&format!("AUTH {token}"), &[])?;
        let reply = self.reply()?;
        if reply.code != UNIMPLEMENTED && reply.text != NO_TOKEN {
            reply.success()?;
        }
        Ok(self)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = Vec::new();
        self.stream.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line).map_err(broken)?;
        if line.is_empty() {
            bail!(CLOSED);
        }
        let text = String::from_utf8_lossy(&line);
        Ok(text.trim_end_matches(['\r', '\n']).to_owned())
    }

    fn reply(&mut self) -> Result<Reply> {
        let (mut text, mut length) = (Vec::new(), 0);
        loop {
            let line = self.line()?;
            length += line.len();
            if length > LONGEST_REPLY {
                bail!("the router's answer is longer than {LONGEST_REPLY} bytes");
            }
            let code = line.get(..3).and_then(|code| code.parse().ok());
            let Some(code) = code else { bail!("the router's answer has no code: {line:?}") };
            text.push(line.get(4..).unwrap_or_default().to_owned());
            if line.as_bytes().get(3) != Some(&b'-') {
                return Ok(Reply { code, text: text.join("\n") });
            }
        }
    }

    fn send(&mut self, command: &str, data: &[u8]) -> Result<()> {
        if command.contains(['\r', '\n']) {
            bail!("a handler's name and parameter must be on one line");
        }
        let stream = self.stream.get_mut();
        stream.restart();
        stream.write_all(&[command.as_bytes(), b"\r\n", data].concat()).map_err(broken)?;
        stream.flush().map_err(broken)
    }

    /// Reads a handler.
    pub(in crate::commands) fn read(
        &mut self,
        handler: &str,
        parameter: Option<&str>,
    ) -> Result<Vec<u8>> {
        let parameter = parameter.map_or(String::new(), |parameter| format!(" {parameter}"));
        self.send(&format!("READ {handler}{parameter}"), &[])?;
        self.reply()?.success()?;
        let line = self.line()?;
        let length = line.strip_prefix("DATA ").and_then(|length| length.parse::<u64>().ok());
        let Some(length) = length else { bail!("expected data, got {line:?}") };
        if length > LONGEST {
            bail!("the router's answer has {length} bytes, more than {LONGEST}");
        }
        let mut data = Vec::new();
        self.stream.by_ref().take(length).read_to_end(&mut data).map_err(broken)?;
        if (data.len() as u64) < length {
            bail!("the router has closed the connection within its answer");
        }
        Ok(data)
    }

    /// Writes a handler; returns its messages.
    pub(in crate::commands) fn write(&mut self, handler: &str, value: &[u8]) -> Result<String> {
        self.send(&format!("WRITEDATA {handler} {}", value.len()), value)?;
        let reply = self.reply()?.success()?;
        // The first line says that it was done, further ones are its messages.
        let told = reply.text.split_once('\n').map_or("", |(_, told)| told);
        Ok(if reply.code == 200 { told.into() } else { reply.text })
    }
}

/// The token that the user gave, in a file or in the environment.
fn given_token(file: Option<&Path>) -> Result<Option<String>> {
    let text = match file {
        Some(name) => Some(
            fs::read_to_string(name)
                .map_err(|error| cannot_read(&name.to_string_lossy(), error))?,
        ),
        None => env::var(TOKEN_VARIABLE).ok(),
    };
    Ok(text.map(|text| text.trim().to_owned()))
}

fn connect_tcp(host: &str, port: u16, timeout: Duration) -> Result<TcpStream> {
    let deadline = Instant::now().checked_add(timeout);
    let mut last = None;
    let addresses: Vec<SocketAddr> = match host {
        // IPv4's first: a program that was started with a port alone listens there.
        "" => vec![(Ipv4Addr::LOCALHOST, port).into(), (Ipv6Addr::LOCALHOST, port).into()],
        host => (host, port).to_socket_addrs().map_err(broken)?.collect(),
    };
    for address in addresses {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        match TcpStream::connect_timeout(&address, left.unwrap_or(timeout).max(SHORTEST)) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = Some(error),
        }
    }
    Err(last.map_or_else(|| anyhow!("no such host"), unreachable))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers with the replies given and keeps all that is written.
    struct Script {
        answers: io::Cursor<Vec<u8>>,
    }

    impl Read for Script {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.answers.read(buffer)
        }
    }

    impl Write for Script {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Stream for Script {
        fn limit(&self, _: Duration) -> io::Result<()> {
            Ok(())
        }
    }

    fn client(answers: &str) -> Result<Client> {
        let answers = io::Cursor::new(answers.as_bytes().to_vec());
        Client::over(Box::new(Script { answers }), Duration::from_secs(60))
    }

    #[test]
    fn a_reset_or_broken_pipe_is_a_closed_connection() {
        for kind in [ErrorKind::BrokenPipe, ErrorKind::ConnectionReset] {
            assert_eq!(broken(kind.into()).to_string(), CLOSED);
        }
    }

    #[test]
    fn answers_of_all_kinds() {
        let greeting = "Click::ControlSocket/1.3\r\n";
        let with = |answer: &str| client(&format!("{greeting}{answer}")).unwrap();
        let data = with("200 Read handler 'c.count' OK\r\nDATA 4\r\n1\n23").read("c.count", None);
        assert_eq!(data.unwrap(), b"1\n23");
        let error = with("510 No element named 'c'\r\n").read("c.count", None).unwrap_err();
        assert_eq!(error.to_string(), "No element named 'c' (510)");
        let button = with("530 Handler 'c.reset' write-only\r\n").read("c.reset", None);
        assert!(button.unwrap_err().downcast::<Refusal>().unwrap().is_write_only());
        let told = with("220-Write handler OK\r\n220 with a remark\r\n").write("c.x", b"1");
        assert_eq!(told.unwrap(), "Write handler OK\nwith a remark");
        assert_eq!(with("200 OK\r\n").write("c.x", b"").unwrap(), "");
        let notes = with("200-Write handler OK:\r\n200-one\r\n200 two\r\n").write("c.x", b"");
        assert_eq!(notes.unwrap(), "one\ntwo");
        for broken in [
            "",
            "2",
            "x00 OK\r\n",
            "200 OK\r\n",
            "200 OK\r\nDATA x\r\n",
            "200 OK\r\nDATA 9\r\nshort",
            "200 OK\r\nDATA 99999999999\r\n",
        ] {
            assert!(with(broken).read("c", None).is_err(), "{broken:?}");
        }
        assert!(client("SSH-2.0\r\n").is_err());
        assert!(with("").read("a\nWRITE b", None).is_err());
    }
}
