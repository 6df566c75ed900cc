//! Quoting and unquoting.
//!
//! Unquoted values are bytes, not text: `"\x00"` is a byte of a packet.

use super::{comment, hexadecimal, is_space, opaque, uncomment};

/// The value of `text`: comments and one level of quotes are removed, escapes in double quotes and
/// `\<...>` are replaced by their bytes.
///
/// ```
/// # use linerate_language::config::unquote;
/// assert_eq!(unquote(r#""\n" abc /* 123 */ '/* def */'"#), b"\n abc /* def */");
/// assert_eq!(unquote(r"\<48 65 6c>p"), b"Help");
/// ```
pub fn unquote(text: &str) -> Vec<u8> {
    let text = uncomment(text);
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut quote = None;
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        match (byte, quote) {
            (b'"' | b'\'', None) => quote = Some(byte),
            (_, Some(mark)) if mark == byte => quote = None,
            (b'\\', Some(b'"')) if at + 1 < bytes.len() => {
                at += escape(&bytes[at..], &mut out);
                continue;
            }
            (b'\\', None) if bytes.get(at + 1) == Some(&b'<') => {
                at += escape(&bytes[at..], &mut out);
                continue;
            }
            _ => out.push(byte),
        }
        at += 1;
    }
    out
}

/// Appends the bytes of the escape at the start of `bytes`; returns its length. There is at least
/// one byte after the backslash.
fn escape(bytes: &[u8], out: &mut Vec<u8>) -> usize {
    let simple = match bytes[1] {
        b'<' => {
            let length = hexadecimal(bytes);
            pairs(&bytes[2..length], out);
            return length;
        }
        b'0'..=b'7' => {
            let digits = bytes[1..].iter().take(3);
            let digits = digits.take_while(|b| matches!(b, b'0'..=b'7'));
            let (mut value, mut length) = (0u32, 1);
            for digit in digits {
                value = value * 8 + u32::from(digit - b'0');
                length += 1;
            }
            out.push(value as u8);
            return length;
        }
        b'x' => {
            let (mut value, mut length) = (0u8, 2);
            while let Some(digit) = bytes.get(length).and_then(|&b| nibble(b)) {
                value = (value << 4) | digit;
                length += 1;
            }
            out.push(value);
            return length;
        }
        b'\r' if bytes.get(2) == Some(&b'\n') => return 3,
        b'\r' | b'\n' => return 2,
        b'a' => 0x07,
        b'b' => 0x08,
        b'f' => 0x0c,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 0x0b,
        other => other,
    };
    out.push(simple);
    2
}

/// The bytes whose hexadecimal digits are in `bytes`; other characters are stepped over.
fn pairs(bytes: &[u8], out: &mut Vec<u8>) {
    let mut at = 0;
    let mut high = None;
    while at < bytes.len() {
        let comment = comment(&bytes[at..]);
        if comment > 0 {
            at += comment;
            continue;
        }
        if let Some(digit) = nibble(bytes[at]) {
            high = match high {
                None => Some(digit),
                Some(high) => {
                    out.push((high << 4) | digit);
                    None
                }
            };
        }
        at += 1;
    }
}

fn nibble(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

/// `data` as one double-quoted string that [`unquote`] turns into `data`
/// again.
pub fn quote(data: &[u8]) -> String {
    quoted(data, false)
}

/// As `quote`, with line ends as they are.
pub fn quote_lines(data: &[u8]) -> String {
    quoted(data, true)
}

fn quoted(data: &[u8], lines: bool) -> String {
    let mut out = String::with_capacity(data.len() + 2);
    out.push('"');
    for &byte in data {
        match byte {
            b'\\' | b'"' | b'$' => {
                out.push('\\');
                out.push(char::from(byte));
            }
            b'\t' => out.push_str("\\t"),
            b'\r' => out.push_str("\\r"),
            b'\n' if lines => out.push('\n'),
            b'\n' => out.push_str("\\n"),
            32..127 => out.push(char::from(byte)),
            _ => {
                out.push('\\');
                for shift in [6, 3, 0] {
                    out.push(char::from(b'0' + ((byte >> shift) & 7)));
                }
            }
        }
    }
    out.push('"');
    out
}

/// The value of `text` if it is one string: not empty, and without space outside quotes.
pub fn string(text: &str) -> Option<Vec<u8>> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if is_space(bytes[at]) {
            return None;
        }
        at += match bytes[at] {
            // Comments do not end strings.
            b'/' => 1,
            _ => opaque(&bytes[at..]).max(1),
        };
    }
    (!bytes.is_empty()).then(|| unquote(text))
}

/// Returns true if `word` is a plain word: printable, without space, quotes, backslashes and
/// commas.
pub fn is_word(word: &[u8]) -> bool {
    let plain = |byte: &u8| byte.is_ascii_graphic() && !b"\"'\\,".contains(byte);
    !word.is_empty() && word.iter().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unquoting() {
        for (text, expected) in [
            ("abc", &b"abc"[..]),
            ("\"a\\a\\b\\t\\n\\v\\f\\r\\\\\"", b"a\x07\x08\t\n\x0b\x0c\r\\"),
            ("\"\\1\\12\\123\\1234\\400\"", b"\x01\x0a\x53\x534\x00"),
            ("\"\\x4\\x41\\x1234\\xg\"", b"\x04\x41\x34\0g"),
            ("\"\\$\\'\\\"\\,\\q\"", b"$'\",q"),
            ("'\\n\"'", b"\\n\""),
            ("a'b'\"c\"d", b"abcd"),
            ("\\<48656c6C 6f 2 /* And finally */ 1>", b"Hello!"),
            ("\"\\<41/* > */42>\"", b"AB"),
            ("\\<414>", b"A"),
            ("\\n", b"\\n"),
            ("\"a\\\nb\\\r\nc\"", b"abc"),
            ("\"open\\", b"open\\"),
            ("\\<41", b"A"),
            ("é", "é".as_bytes()),
            (" a /* x */ b ", b"a b"),
        ] {
            assert_eq!(unquote(text), expected, "{text}");
        }
    }

    #[test]
    fn quoting() {
        for (data, expected) in [
            (&b""[..], "\"\""),
            (b"a b", "\"a b\""),
            (b"\\\"$", "\"\\\\\\\"\\$\""),
            (b"\t\r\n", "\"\\t\\r\\n\""),
            (b"\x00\x7f\xff", "\"\\000\\177\\377\""),
        ] {
            assert_eq!(quote(data), expected);
        }
        assert_eq!(quote_lines(b"a\nb"), "\"a\nb\"");
    }

    #[test]
    fn strings() {
        assert_eq!(string("a'b c'").as_deref(), Some(&b"ab c"[..]));
        assert_eq!(string("a b"), None);
        assert_eq!(string(""), None);
        assert_eq!(string("\"\"").as_deref(), Some(&b""[..]));
    }

    proptest::proptest! {
        #[test]
        fn quoting_is_undone(data: Vec<u8>) {
            assert_eq!(unquote(&quote(&data)), data);
            assert_eq!(string(&quote(&data)).as_deref(), Some(&data[..]));
        }

        #[test]
        fn nothing_panics(text: String) {
            unquote(&text);
            super::super::split(&text);
            super::super::words(&text);
            string(&text);
        }
    }
}
