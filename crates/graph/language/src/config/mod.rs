//! Configuration strings: the text between the parentheses.
//!
//! The functions here cut such a string into arguments and words, take quotes away and put them on,
//! and substitute variables. The meaning of an argument (a number, an address) is not decided here.
//!
//! Source: the "Configuration strings" of click(5), and Click's behaviour.

mod assign;
mod expand;
mod quote;
mod split;

pub use assign::{Parameter, assign};
pub(crate) use expand::references;
pub use expand::{Budget, Form, Scope, Variables, expand};
pub use quote::{is_word, quote, quote_lines, string, unquote};
pub use split::places;
pub use split::{join, keyword, shift_word, split, uncomment, words};

/// Returns true if `byte` is space, as C's `isspace` has it.
pub(super) fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

/// The length of the comment `bytes` start with, with its line end; 0 if they
/// start with none. A comment that is not closed goes to the end.
pub(super) fn comment(bytes: &[u8]) -> usize {
    match bytes {
        [b'/', b'/', rest @ ..] => match rest.iter().position(|b| matches!(b, b'\n' | b'\r')) {
            Some(end) if rest[end..].starts_with(b"\r\n") => 2 + end + 2,
            Some(end) => 2 + end + 1,
            None => bytes.len(),
        },
        [b'/', b'*', rest @ ..] => {
            rest.windows(2).position(|pair| pair == b"*/").map_or(bytes.len(), |end| 2 + end + 2)
        }
        _ => 0,
    }
}

/// The length of the `\<...>` that `bytes` start with; 0 if they start with
/// none.
fn hexadecimal(bytes: &[u8]) -> usize {
    if !bytes.starts_with(b"\\<") {
        return 0;
    }
    let mut at = 2;
    while at < bytes.len() {
        if bytes[at] == b'>' {
            return at + 1;
        }
        at += comment(&bytes[at..]).max(1);
    }
    bytes.len()
}

/// The length of the quoted string `bytes` start with, quotes included; 0 if
/// they start with none.
pub(super) fn quoted(bytes: &[u8]) -> usize {
    let Some(&mark @ (b'\'' | b'"')) = bytes.first() else {
        return 0;
    };
    let mut at = 1;
    while at < bytes.len() {
        if bytes[at] == mark {
            return at + 1;
        }
        at += match bytes[at] {
            b'\\' if mark == b'"' => hexadecimal(&bytes[at..]).max(2),
            _ => 1,
        };
    }
    bytes.len()
}

/// The length of the part at the start of `bytes` in which commas, parentheses and spaces do not
/// count: a quoted string, `\<...>` or a comment; 0 if it is none.
pub(super) fn opaque(bytes: &[u8]) -> usize {
    match bytes.first() {
        Some(b'\'' | b'"') => quoted(bytes),
        Some(b'\\') => hexadecimal(bytes),
        Some(b'/') => comment(bytes),
        _ => 0,
    }
}
