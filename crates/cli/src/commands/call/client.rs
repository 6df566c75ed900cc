//! A client of control sockets.
//!
//! Speaks the protocol of Click's `ControlSocket`, version 1.3: a greeting,
//! then for each command a line `CODE text`, with `-` after the code when more
//! lines follow; data come as `DATA n` and n bytes. Works with Click's own.

use std::{
    fmt,
    io::{self, BufRead, BufReader, ErrorKind, Read, Write},
    net::{TcpStream, ToSocketAddrs},
    os::unix::net::UnixStream,
    time::Duration,
};

use anyhow::{Result, anyhow, bail};

/// The answer to a command there is not.
const UNIMPLEMENTED: u16 = 501;
/// The answer to who reads what can only be written.
const WRITE_ONLY: u16 = 530;
/// What there is to be said of a router that has gone.
const CLOSED: &str = "the router has closed the connection";
/// More bytes than any handler answers with.
const LONGEST: usize = 1 << 30;

/// A stream to a router.
trait Stream: Read + Write {}

impl<T: Read + Write> Stream for T {}

pub(in crate::commands) struct Client {
    stream: BufReader<Box<dyn Stream>>,
}

/// What a router says to a command.
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

/// A router that has answered, and does not do what it was asked for.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::commands) struct Refusal(Reply);

impl Refusal {
    /// Whether what was read can only be written.
    pub(super) fn is_write_only(&self) -> bool {
        self.0.code == WRITE_ONLY
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.0.text, self.0.code)
    }
}

impl std::error::Error for Refusal {}

/// A conversation that has broken off. It is no error of a file, and nobody who reads our output
/// has gone.
fn broken(error: io::Error) -> anyhow::Error {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => anyhow!("no answer in time"),
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => anyhow!(CLOSED),
        _ => anyhow!("{error}"),
    }
}

impl Client {
    pub(in crate::commands) fn connect(address: &str, timeout: Duration) -> Result<Client> {
        let stream: Box<dyn Stream> = if address.contains('/') {
            let stream = UnixStream::connect(address).map_err(|error| match error.kind() {
                // These are about the file.
                ErrorKind::NotFound | ErrorKind::PermissionDenied => anyhow::Error::from(error),
                _ => broken(error),
            })?;
            stream.set_read_timeout(Some(timeout)).map_err(broken)?;
            Box::new(stream)
        } else {
            let full = if address.contains(':') {
                address.to_owned()
            } else {
                format!("localhost:{address}")
            };
            let stream = connect_tcp(&full, timeout)?;
            stream.set_read_timeout(Some(timeout)).map_err(broken)?;
            stream.set_nodelay(true).map_err(broken)?;
            Box::new(stream)
        };
        Client::over(stream)
    }

    fn over(stream: Box<dyn Stream>) -> Result<Client> {
        let mut client = Client { stream: BufReader::new(stream) };
        let greeting = client.line()?;
        if !greeting.starts_with("Click::ControlSocket/1.") {
            bail!("what answers is no control socket: it says {greeting:?}");
        }
        Ok(client)
    }

    /// Says the token. A router that does not know the command wants none.
    pub(in crate::commands) fn authenticate(mut self, token: Option<&str>) -> Result<Client> {
        if let Some(token) = token {
            self.send(&format!("AUTH {token}"), &[])?;
            let reply = self.reply()?;
            if reply.code != UNIMPLEMENTED {
                reply.success()?;
            }
        }
        Ok(self)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = Vec::new();
        self.stream.by_ref().take(1 << 16).read_until(b'\n', &mut line).map_err(broken)?;
        if line.is_empty() {
            bail!(CLOSED);
        }
        let text = String::from_utf8_lossy(&line);
        Ok(text.trim_end_matches(['\r', '\n']).to_owned())
    }

    fn reply(&mut self) -> Result<Reply> {
        let mut text = Vec::new();
        loop {
            let line = self.line()?;
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
        let length = line.strip_prefix("DATA ").and_then(|length| length.parse::<usize>().ok());
        let Some(length) = length.filter(|length| *length <= LONGEST) else {
            bail!("expected data, got {line:?}");
        };
        let mut data = Vec::new();
        self.stream.by_ref().take(length as u64).read_to_end(&mut data).map_err(broken)?;
        if data.len() < length {
            bail!("the router has closed the connection within its answer");
        }
        Ok(data)
    }

    /// Writes a handler; returns what there is to be told of it.
    pub(in crate::commands) fn write(&mut self, handler: &str, value: &[u8]) -> Result<String> {
        self.send(&format!("WRITEDATA {handler} {}", value.len()), value)?;
        let reply = self.reply()?.success()?;
        // The first line says that it was done, and more lines what there is to tell.
        let told = reply.text.split_once('\n').map_or("", |(_, told)| told);
        Ok(if reply.code == 200 { told.into() } else { reply.text })
    }
}

fn connect_tcp(address: &str, timeout: Duration) -> Result<TcpStream> {
    let mut last = None;
    for address in address.to_socket_addrs().map_err(broken)? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = Some(error),
        }
    }
    Err(last.map_or_else(|| anyhow!("no such host"), broken))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers with what it was made with and keeps what is written.
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

    fn client(answers: &str) -> Result<Client> {
        let answers = io::Cursor::new(answers.as_bytes().to_vec());
        Client::over(Box::new(Script { answers }))
    }

    #[test]
    fn who_has_gone_has_closed_the_connection() {
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
