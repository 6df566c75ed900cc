//! TCP options as text: `mss1460;sackok;ts1:2`.

use std::io::Write;

use super::view::u32_at;
use crate::cursor::{Cursor, fit};

const END: u8 = 0;
const PADDING: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMP: u8 = 8;

/// Selection of the options to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mask {
    /// All but padding.
    All,
    /// All but padding and times.
    NotTime,
    /// Selective acknowledgement alone.
    Sack,
}

impl Mask {
    fn has(self, kind: u8) -> bool {
        match self {
            Mask::All => true,
            Mask::NotTime => kind != TIMESTAMP,
            Mask::Sack => matches!(kind, SACK_PERMITTED | SACK),
        }
    }
}

/// Writes options; a `?` when one is malformed, a `.` when there is none.
pub(super) fn print(options: &[u8], mask: Mask, out: &mut Vec<u8>) {
    let start = out.len();
    if print_some(options, mask, out).is_none() {
        out.truncate(start);
        out.push(b'?');
    } else if out.len() == start {
        out.push(b'.');
    }
}

fn print_some(mut rest: &[u8], mask: Mask, out: &mut Vec<u8>) -> Option<()> {
    let start = out.len();
    while let [kind, behind @ ..] = rest {
        match *kind {
            END => break,
            PADDING => {
                rest = behind;
                continue;
            }
            _ => {}
        }
        let length = usize::from(*behind.first()?);
        let option = rest.get(..length).filter(|option| option.len() >= 2)?;
        rest = &rest[length..];
        let fits = match *kind {
            MSS => length == 4,
            WINDOW_SCALE => length == 3,
            SACK_PERMITTED => length == 2,
            SACK => length % 8 == 2,
            TIMESTAMP => length == 10,
            _ => true,
        };
        if !fits {
            return None;
        }
        if mask.has(*kind) {
            print_one(*kind, &option[2..], start, out);
        }
    }
    Some(())
}

fn print_one(kind: u8, data: &[u8], start: usize, out: &mut Vec<u8>) {
    let separate = |out: &mut Vec<u8>| {
        if out.len() > start {
            out.push(b';');
        }
    };
    if kind == SACK {
        for block in data.chunks_exact(8) {
            separate(out);
            let _ = write!(out, "sack{}-{}", u32_at(block, 0), u32_at(block, 4));
        }
        return;
    }
    separate(out);
    let _ = match (kind, data) {
        (MSS, &[high, low]) => write!(out, "mss{}", u16::from_be_bytes([high, low])),
        (WINDOW_SCALE, &[shift]) => write!(out, "wscale{shift}"),
        (SACK_PERMITTED, _) => write!(out, "sackok"),
        (TIMESTAMP, data) => write!(out, "ts{}:{}", u32_at(data, 0), u32_at(data, 4)),
        _ => {
            let _ = write!(out, "{kind}");
            print_data(data, out)
        }
    };
}

/// Writes the bytes of an option: `=1:2`.
pub(super) fn print_data(data: &[u8], out: &mut Vec<u8>) -> std::io::Result<()> {
    let marks = std::iter::once('=').chain(std::iter::repeat(':'));
    marks.zip(data).try_for_each(|(mark, byte)| write!(out, "{mark}{byte}"))
}

/// Copies the options of a mask.
pub(super) fn pack(mut rest: &[u8], mask: Mask, out: &mut Vec<u8>) {
    if mask == Mask::All {
        out.extend_from_slice(rest);
        return;
    }
    while let [kind, behind @ ..] = rest {
        match *kind {
            END => break,
            PADDING => rest = behind,
            _ => {
                let length = behind.first().map_or(0, |length| usize::from(*length));
                let Some(option) = rest.get(..length).filter(|_| length >= 2) else { break };
                if mask.has(*kind) {
                    out.extend_from_slice(option);
                }
                rest = &rest[length..];
            }
        }
    }
}

/// Reads options.
pub(super) fn parse(text: &str, mask: Mask, out: &mut Vec<u8>) -> Option<()> {
    out.clear();
    if text.is_empty() || text == "." {
        return Some(());
    }
    let mut cursor = Cursor(text);
    loop {
        parse_one(&mut cursor, mask, out)?;
        if !cursor.separator()? {
            return fit(out);
        }
    }
}

fn parse_one(cursor: &mut Cursor<'_>, mask: Mask, out: &mut Vec<u8>) -> Option<()> {
    if mask.has(MSS) && cursor.eat("mss") {
        let [high, low] = u16::try_from(cursor.number()?).ok()?.to_be_bytes();
        out.extend([MSS, 4, high, low]);
    } else if mask.has(WINDOW_SCALE) && cursor.eat("wscale") {
        out.extend([WINDOW_SCALE, 3, cursor.byte()?]);
    } else if cursor.eat("sackok") {
        out.extend([SACK_PERMITTED, 2]);
    } else if cursor.eat("sack") {
        // Neighbours joined by commas are blocks of one option.
        let at = out.len();
        out.extend([SACK, 0]);
        loop {
            out.extend(cursor.number()?.to_be_bytes());
            if !cursor.eat("-") && !cursor.eat(":") {
                return None;
            }
            out.extend(cursor.number()?.to_be_bytes());
            if !cursor.eat(",sack") {
                break;
            }
        }
        out[at + 1] = u8::try_from(out.len() - at).ok()?;
    } else if mask.has(TIMESTAMP) && cursor.eat("ts") {
        let first = cursor.number()?;
        if !cursor.eat(":") {
            return None;
        }
        if out.is_empty() {
            out.extend([PADDING, PADDING]);
        }
        out.extend([TIMESTAMP, 10]);
        out.extend(first.to_be_bytes());
        out.extend(cursor.number()?.to_be_bytes());
    } else if mask != Mask::Sack && cursor.at_digit() {
        cursor.numbered(out)?;
    } else if mask == Mask::All && cursor.eat("nop") {
        out.push(PADDING);
    } else if mask == Mask::All && cursor.eat("eol") {
        out.push(END);
    } else {
        return None;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(options: &[u8], mask: Mask) -> String {
        let mut out = Vec::new();
        print(options, mask, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn text_there_and_back() {
        for text in ["mss1460", "sackok;wscale7", "mss1;ts123:456", "sack1-2", "99=1:2;98", "255=0"]
        {
            let mut options = Vec::new();
            let parsed = parse(text, Mask::All, &mut options);
            // An option without bytes has no length either, which only the end
            // may follow.
            if text.ends_with("98") {
                assert_eq!(printed(&options, Mask::All), "?");
            } else {
                assert!(parsed.is_some(), "{text}");
                assert_eq!(printed(&options, Mask::All), text);
            }
        }
        let mut options = Vec::new();
        parse("ts1:2", Mask::All, &mut options).unwrap();
        assert_eq!(options, [1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
        parse("sack1-2,sack3-4", Mask::All, &mut options).unwrap();
        assert_eq!(options[..2], [5, 18]);
        assert_eq!(printed(&options, Mask::Sack), "sack1-2;sack3-4");
        for text in ["mss70000", "wscale256", "ts1", "sack1", "x", "99=256", "mss1 "] {
            assert!(parse(text, Mask::All, &mut options).is_none(), "{text}");
        }
    }

    #[test]
    fn masks_choose_and_malformed_options_show() {
        let options = [2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 1, 3, 3, 7];
        assert_eq!(printed(&options, Mask::All), "mss1460;sackok;ts1:2;wscale7");
        assert_eq!(printed(&options, Mask::NotTime), "mss1460;sackok;wscale7");
        assert_eq!(printed(&options, Mask::Sack), "sackok");
        let mut packed = Vec::new();
        pack(&options, Mask::Sack, &mut packed);
        assert_eq!(packed, [4, 2]);
        assert_eq!(printed(&[1, 1, 0, 99], Mask::All), ".");
        for bad in [&[2][..], &[2, 3, 0], &[3, 2], &[5, 3, 0], &[99, 1], &[99, 9, 0]] {
            assert_eq!(printed(bad, Mask::All), "?", "{bad:?}");
        }
    }
}
