//! `linerate call`: a client of control sockets.
//!
//! Speaks the protocol of Click's `ControlSocket`, version 1.3: a greeting,
//! then for each command a line `CODE text`, with `-` after the code when more
//! lines follow; data come as `DATA n` and n bytes. Works with Click's own.

use std::{
    env, fs,
    io::{self, BufRead, BufReader, Read, Write},
    net::{TcpStream, ToSocketAddrs},
    os::unix::net::UnixStream,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

use crate::{args::Call, control_address::TOKEN_VARIABLE, exit::cannot_read};

/// How often it is asked whether a router is ready.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// The answer to a command there is not.
const UNIMPLEMENTED: u16 = 501;
/// More bytes than any handler answers with.
const LONGEST: usize = 1 << 30;

pub(crate) fn run(args: &Call) -> Result<()> {
    let token = token(args)?;
    let Some(handler) = &args.handler else { return wait_until_ready(args, token.as_deref()) };
    let mut client = Client::connect(&args.address, args.timeout)
        .and_then(|client| client.authenticate(token.as_deref()))
        .with_context(|| format!("cannot reach a router at {}", args.address))?;
    let value = match args.value.as_deref() {
        Some("-") => {
            let mut value = Vec::new();
            io::stdin().lock().read_to_end(&mut value)?;
            Some(value)
        }
        Some(value) => Some(value.as_bytes().to_vec()),
        None => args.write.then(Vec::new),
    };
    match value {
        Some(value) => {
            let told = client.write(handler, &value)?;
            if !told.is_empty() {
                eprintln!("{told}");
            }
        }
        None => {
            let mut data = client.read(handler, args.parameter.as_deref())?;
            if data.last().is_some_and(|last| *last != b'\n') {
                data.push(b'\n');
            }
            let mut out = io::stdout().lock();
            out.write_all(&data)?;
            out.flush()?;
        }
    }
    Ok(())
}

/// The token to be said, if there is one.
fn token(args: &Call) -> Result<Option<String>> {
    let text = match &args.token_file {
        Some(name) => Some(
            fs::read_to_string(name)
                .map_err(|error| cannot_read(&name.to_string_lossy(), error))?,
        ),
        None => env::var(TOKEN_VARIABLE).ok(),
    };
    Ok(text.map(|text| text.trim().to_owned()))
}

/// Waits until a router answers. Its ports are open when its control socket is, and what
/// answers is a worker that runs.
fn wait_until_ready(args: &Call, token: Option<&str>) -> Result<()> {
    let end = Instant::now() + args.timeout;
    loop {
        let left = end.saturating_duration_since(Instant::now()).max(LOOK_AGAIN);
        let answer = Client::connect(&args.address, left)
            .and_then(|client| client.authenticate(token)?.read("version", None));
        let Err(error) = answer else { return Ok(()) };
        if Instant::now() >= end {
            return Err(error.context(format!("{} is not ready", args.address)));
        }
        thread::sleep(LOOK_AGAIN);
    }
}

/// A stream to a router.
trait Stream: Read + Write {}

impl<T: Read + Write> Stream for T {}

struct Client {
    stream: BufReader<Box<dyn Stream>>,
}

/// What a router says to a command.
#[derive(Debug, PartialEq, Eq)]
struct Reply {
    code: u16,
    /// Its lines, without the code.
    text: String,
}

impl Client {
    fn connect(address: &str, timeout: Duration) -> Result<Client> {
        let stream: Box<dyn Stream> = if address.contains('/') {
            let stream = UnixStream::connect(address)?;
            stream.set_read_timeout(Some(timeout))?;
            Box::new(stream)
        } else {
            let full = if address.contains(':') {
                address.to_owned()
            } else {
                format!("localhost:{address}")
            };
            let stream = connect_tcp(&full, timeout)?;
            stream.set_read_timeout(Some(timeout))?;
            stream.set_nodelay(true)?;
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
    fn authenticate(mut self, token: Option<&str>) -> Result<Client> {
        if let Some(token) = token {
            self.send(&format!("AUTH {token}"), &[])?;
            let reply = self.reply()?;
            if !(200..300).contains(&reply.code) && reply.code != UNIMPLEMENTED {
                bail!("{} ({})", reply.text, reply.code);
            }
        }
        Ok(self)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = Vec::new();
        self.stream.by_ref().take(1 << 16).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            bail!("the router has closed the connection");
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
        stream.write_all(&[command.as_bytes(), b"\r\n", data].concat())?;
        Ok(stream.flush()?)
    }

    fn read(&mut self, handler: &str, parameter: Option<&str>) -> Result<Vec<u8>> {
        let parameter = parameter.map_or(String::new(), |parameter| format!(" {parameter}"));
        self.send(&format!("READ {handler}{parameter}"), &[])?;
        let reply = self.reply()?;
        if !(200..300).contains(&reply.code) {
            bail!("{} ({})", reply.text, reply.code);
        }
        let line = self.line()?;
        let length = line.strip_prefix("DATA ").and_then(|length| length.parse::<usize>().ok());
        let Some(length) = length.filter(|length| *length <= LONGEST) else {
            bail!("expected data, got {line:?}");
        };
        let mut data = Vec::new();
        self.stream.by_ref().take(length as u64).read_to_end(&mut data)?;
        if data.len() < length {
            bail!("the router has closed the connection within its answer");
        }
        Ok(data)
    }

    fn write(&mut self, handler: &str, value: &[u8]) -> Result<String> {
        self.send(&format!("WRITEDATA {handler} {}", value.len()), value)?;
        let reply = self.reply()?;
        if !(200..300).contains(&reply.code) {
            bail!("{} ({})", reply.text, reply.code);
        }
        // The first line says that it was done, and more lines what there is to tell.
        let told = reply.text.split_once('\n').map_or("", |(_, told)| told);
        Ok(if reply.code == 200 { told.into() } else { reply.text })
    }
}

fn connect_tcp(address: &str, timeout: Duration) -> Result<TcpStream> {
    let mut last = None;
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = Some(error),
        }
    }
    Err(last.map_or_else(|| anyhow::anyhow!("no such host"), Into::into))
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
    fn answers_of_all_kinds() {
        let greeting = "Click::ControlSocket/1.3\r\n";
        let with = |answer: &str| client(&format!("{greeting}{answer}")).unwrap();
        let data = with("200 Read handler 'c.count' OK\r\nDATA 4\r\n1\n23").read("c.count", None);
        assert_eq!(data.unwrap(), b"1\n23");
        let error = with("510 No element named 'c'\r\n").read("c.count", None).unwrap_err();
        assert_eq!(error.to_string(), "No element named 'c' (510)");
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
