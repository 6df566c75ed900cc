//! Commands of clients of a control socket, parsed from their bytes.
//!
//! Nothing is called and nothing is answered here: bytes become commands, or an error in the
//! protocol's words. Source: the `ControlSocket` protocol 1.3 as Click documents and speaks it.

use linerate_graph::parse_integer;

/// Longest command line, and most data of one command, in bytes.
pub(super) const LINE_LIMIT: usize = 1 << 20;
pub(super) const DATA_LIMIT: usize = 64 << 20;

/// Response codes.
pub(super) mod code {
    /// It was done.
    pub(in super::super) const OK: u16 = 200;
    /// It was done, and is probably a mistake.
    pub(in super::super) const WARNING: u16 = 220;
    /// The command or its arguments are wrong.
    pub(in super::super) const SYNTAX: u16 = 500;
    /// There is no such command, or it cannot be carried out.
    pub(in super::super) const UNIMPLEMENTED: u16 = 501;
    /// There is no such element.
    pub(in super::super) const NO_ELEMENT: u16 = 510;
    /// The element has no such handler.
    pub(in super::super) const NO_HANDLER: u16 = 511;
    /// The handler failed.
    pub(in super::super) const HANDLER: u16 = 520;
    /// There is more data than is taken.
    pub(in super::super) const TOO_BIG: u16 = 521;
    /// A call by number failed.
    pub(in super::super) const LLRPC: u16 = 522;
    /// The client may not do this.
    pub(in super::super) const PERMISSION: u16 = 530;
    /// Another failure.
    pub(in super::super) const UNSPECIFIED: u16 = 590;
}

/// Command of a client.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// Nothing: an empty line.
    Nothing,
    Read {
        handler: String,
        parameter: String,
    },
    Write {
        handler: String,
        value: String,
    },
    /// Whether a handler can be read, or written.
    Check {
        handler: String,
        write: bool,
    },
    /// A call by number, with data.
    Llrpc {
        name: String,
        data: Vec<u8>,
    },
    Help,
    /// Says the token.
    Authenticate {
        token: String,
    },
    /// Ends the conversation; whether there was more on the line.
    Quit {
        more: bool,
    },
    /// A malformed command: the code and the text to answer with.
    Wrong {
        code: u16,
        text: String,
    },
    /// Likewise, after which no further command can be parsed.
    Lost {
        code: u16,
        text: String,
    },
}

/// Takes the first command off `input`: it and the bytes it is long. `None`
/// when more has to come; `closed` is whether nothing more will.
pub(super) fn take(input: &[u8], closed: bool) -> Option<(Command, usize)> {
    let end = input.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
    if end.unwrap_or(input.len()) > LINE_LIMIT {
        let text = format!("Line longer than {LINE_LIMIT} bytes");
        return Some((lost(code::TOO_BIG, text), input.len()));
    }
    let line = match end {
        Some(end) => &input[..end],
        None if closed && !input.is_empty() => input,
        None => return None,
    };
    // A carriage return at the very end may have its newline still to come.
    let after = end.map_or(input.len(), |end| end + line_end(&input[end..]));
    let line = String::from_utf8_lossy(line);
    let (first, rest) = word(&line);
    if first.is_empty() {
        return Some((Command::Nothing, after));
    }
    let name = first.to_ascii_uppercase();
    let (handler, rest) = word(rest);
    let given = if handler.is_empty() { 0 } else { 1 + rest.split_ascii_whitespace().count() };
    let handler = handler.to_owned();
    let rest = rest.trim_matches(is_space);
    let data = || &input[after..];
    Some(match (name.as_str(), given) {
        ("READ" | "GET", 1..) => (Command::Read { handler, parameter: rest.into() }, after),
        ("WRITE" | "SET", 1..) => (Command::Write { handler, value: rest.into() }, after),
        ("READDATA" | "WRITEDATA" | "SETDATA", 2) => match length(rest) {
            None => (wrong(code::SYNTAX, format!("Syntax error in '{name}'")), after),
            Some(length) if length > DATA_LIMIT => {
                let text = format!("Data too large for handler '{handler}'");
                return Some((lost(code::TOO_BIG, text), input.len()));
            }
            Some(length) => match data().get(..length) {
                Some(text) => (with_text(&name, handler, text), after + length),
                None => return insufficient(closed, after),
            },
        },
        ("READUNTIL" | "WRITEUNTIL", 1..) => match until(data(), rest.as_bytes()) {
            Some((length, taken)) => (with_text(&name, handler, &data()[..length]), after + taken),
            // It is looked through anew with each piece that comes.
            None if data().len() > LINE_LIMIT => {
                let text = format!("Data too large for handler '{handler}'");
                return Some((lost(code::TOO_BIG, text), input.len()));
            }
            None => return insufficient(closed, after),
        },
        ("AUTH", 1) => (Command::Authenticate { token: handler }, after),
        ("CHECKREAD", 1) => (Command::Check { handler, write: false }, after),
        ("CHECKWRITE", 1) => (Command::Check { handler, write: true }, after),
        ("LLRPC", 1 | 2) => match if rest.is_empty() { Some(0) } else { length(rest) } {
            None => (wrong(code::SYNTAX, "Syntax error in 'llrpc'"), after),
            Some(length) if length > DATA_LIMIT => {
                return Some((lost(code::TOO_BIG, "Data too large for LLRPC"), input.len()));
            }
            Some(length) if data().len() < length => return insufficient(closed, after),
            Some(length) => {
                let data = data()[..length].to_vec();
                (Command::Llrpc { name: handler, data }, after + length)
            }
        },
        (
            "READ" | "GET" | "WRITE" | "SET" | "READDATA" | "WRITEDATA" | "SETDATA" | "READUNTIL"
            | "WRITEUNTIL" | "CHECKREAD" | "CHECKWRITE" | "LLRPC" | "AUTH",
            _,
        ) => (wrong(code::SYNTAX, "Wrong number of arguments"), after),
        ("CLOSE" | "QUIT", _) => (Command::Quit { more: given > 0 }, input.len()),
        ("HELP", _) => (Command::Help, after),
        _ => (wrong(code::UNIMPLEMENTED, format!("Command '{name}' unimplemented")), after),
    })
}

fn wrong(code: u16, text: impl Into<String>) -> Command {
    Command::Wrong { code, text: text.into() }
}

fn lost(code: u16, text: impl Into<String>) -> Command {
    Command::Lost { code, text: text.into() }
}

/// Returns an error if the connection closed before the announced data came.
fn insufficient(closed: bool, after: usize) -> Option<(Command, usize)> {
    closed.then(|| (wrong(code::SYNTAX, "Not enough data"), after))
}

fn with_text(name: &str, handler: String, text: &[u8]) -> Command {
    let text = String::from_utf8_lossy(text).into_owned();
    if name.starts_with('R') {
        Command::Read { handler, parameter: text }
    } else {
        Command::Write { handler, value: text }
    }
}

/// Bytes of the line end that `bytes` start with.
fn line_end(bytes: &[u8]) -> usize {
    if bytes.starts_with(b"\r\n") { 2 } else { 1 }
}

fn is_space(c: char) -> bool {
    c.is_ascii_whitespace() || c == '\x0b'
}

fn word(text: &str) -> (&str, &str) {
    let text = text.trim_start_matches(is_space);
    text.split_at(text.find(is_space).unwrap_or(text.len()))
}

fn length(text: &str) -> Option<usize> {
    let length = i32::try_from(parse_integer(text)?).ok()?;
    usize::try_from(length).ok()
}

/// Returns the length of the lines before the one that is `terminator`, space behind it aside,
/// without it and with it.
fn until(data: &[u8], terminator: &[u8]) -> Option<(usize, usize)> {
    let mut start = 0;
    loop {
        let end = data[start..].iter().position(|byte| matches!(byte, b'\r' | b'\n'))?;
        let line = data[start..start + end].trim_ascii_end();
        let next = start + end + line_end(&data[start + end..]);
        if line == terminator {
            return Some((start, next));
        }
        start = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(handler: &str, parameter: &str) -> Command {
        Command::Read { handler: handler.into(), parameter: parameter.into() }
    }

    fn write(handler: &str, value: &str) -> Command {
        Command::Write { handler: handler.into(), value: value.into() }
    }

    #[test]
    fn commands_are_taken_and_the_rest_is_left() {
        let syntax = |text: &str| wrong(code::SYNTAX, text);
        for (input, expected, rest) in [
            ("read c.count\r\nx", read("c.count", ""), "x"),
            (" GET  a.b  c  d \n", read("a.b", "c  d"), ""),
            ("write a.b x y\rz", write("a.b", "x y"), "z"),
            ("WRITEDATA a.b 3\r\na\nbREAD", write("a.b", "a\nb"), "READ"),
            ("readdata a.b 0\nx", read("a.b", ""), "x"),
            ("READUNTIL a.b EOF \nx\ny\nEOF \nz", read("a.b", "x\ny\n"), "z"),
            ("WRITEUNTIL a.b\nx\r\n\r\nz", write("a.b", "x\r\n"), "z"),
            ("\n\n", Command::Nothing, "\n"),
            ("READ\n", syntax("Wrong number of arguments"), ""),
            ("READDATA a\n", syntax("Wrong number of arguments"), ""),
            ("READDATA a x\n", syntax("Syntax error in 'READDATA'"), ""),
            ("READDATA a -1\n", syntax("Syntax error in 'READDATA'"), ""),
            ("quit\nREAD", Command::Quit { more: false }, ""),
            ("auth s3cret\nx", Command::Authenticate { token: "s3cret".into() }, "x"),
            ("AUTH a b\n", syntax("Wrong number of arguments"), ""),
            ("foo bar\n", wrong(code::UNIMPLEMENTED, "Command 'FOO' unimplemented"), ""),
        ] {
            let (command, length) = take(input.as_bytes(), false).unwrap();
            assert_eq!((command, &input[length..]), (expected, rest), "{input:?}");
        }
    }

    #[test]
    fn incomplete_commands_wait() {
        for input in ["", "READ a.b", "WRITEDATA a.b 3\r\nab", "READUNTIL a.b X\nx\nX"] {
            assert_eq!(take(input.as_bytes(), false), None, "{input:?}");
        }
        let (command, length) = take(b"WRITEDATA a.b 3\r\nab", true).unwrap();
        assert_eq!((command, length), (wrong(code::SYNTAX, "Not enough data"), 17));
        assert_eq!(take(b"READ a.b", true), Some((read("a.b", ""), 8)));
    }

    #[test]
    fn commands_beyond_a_limit_end_the_connection() {
        let line = vec![b'x'; LINE_LIMIT + 1];
        assert!(matches!(take(&line, false), Some((Command::Lost { code: code::TOO_BIG, .. }, _))));
        let input = format!("WRITEDATA a.b {}\n", DATA_LIMIT + 1);
        let taken = take(input.as_bytes(), false);
        assert!(matches!(taken, Some((Command::Lost { code: code::TOO_BIG, .. }, _))));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_understood_or_refused(
            input in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200),
            closed: bool,
        ) {
            if let Some((_, length)) = take(&input, closed) {
                proptest::prop_assert!(length > 0 && length <= input.len());
            } else {
                proptest::prop_assert!(!closed || input.is_empty());
            }
        }
    }
}
