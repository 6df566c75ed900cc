//! IP options as text: `rr{10.0.0.1}+2`, `lsrr{1.0.0.1^2.0.0.2}`, `ts{1,2}`.

use std::io::Write;

use super::{tcp_options::print_data, view::u32_at};
use crate::cursor::{Cursor, fit};

const END: u8 = 0;
const PADDING: u8 = 1;
const RECORD_ROUTE: u8 = 7;
const TIMESTAMP: u8 = 68;
const LOOSE_ROUTE: u8 = 131;
const STRICT_ROUTE: u8 = 137;

/// Writes options; a `?` when one is malformed, a `.` when there is none.
pub(super) fn print(options: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    if print_some(options, out).is_none() {
        out.truncate(start);
        out.push(b'?');
    } else if out.len() == start {
        out.push(b'.');
    }
}

fn print_some(mut rest: &[u8], out: &mut Vec<u8>) -> Option<()> {
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
        let option = rest.get(..usize::from(*behind.first()?)).filter(|it| it.len() >= 2)?;
        rest = &rest[option.len()..];
        if out.len() > start {
            out.push(b';');
        }
        match *kind {
            RECORD_ROUTE => print_route("rr", option, out)?,
            LOOSE_ROUTE => print_route("lsrr", option, out)?,
            STRICT_ROUTE => print_route("ssrr", option, out)?,
            TIMESTAMP => print_times(option, out)?,
            kind => {
                let _ = write!(out, "{kind}");
                let _ = print_data(&option[2..], out);
            }
        }
    }
    Some(())
}

fn print_address(address: &[u8], out: &mut Vec<u8>) {
    let _ = write!(out, "{}", std::net::Ipv4Addr::from(u32_at(address, 0)));
}

/// A route: addresses, with a mark where the pointer is.
fn print_route(name: &str, option: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let pointer = usize::from(*option.get(2)?).checked_sub(1).filter(|pointer| *pointer >= 3)?;
    let records = name == "rr";
    let _ = write!(out, "{name}{{");
    let mut at = 3;
    let mut separator = "";
    while let Some(address) = option.get(at..at + 4) {
        if at == pointer {
            if records {
                break;
            }
            separator = "^";
        }
        out.extend_from_slice(separator.as_bytes());
        print_address(address, out);
        separator = ",";
        at += 4;
    }
    if at == option.len() && at == pointer && !records {
        out.push(b'^');
    }
    out.push(b'}');
    if at + 4 <= option.len() && at == pointer && records {
        let _ = write!(out, "+{}", (option.len() - at) / 4);
    }
    Some(())
}

/// Prints times, with addresses if the flag is set.
fn print_times(option: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let &[_, _, pointer, flags] = option.first_chunk()?;
    let pointer = usize::from(pointer).checked_sub(1).filter(|pointer| *pointer >= 4)?;
    let flag = flags & 15;
    let size = if matches!(flag, 1..=3) { 8 } else { 4 };
    let _ = match flag {
        0 => write!(out, "ts{{"),
        1 => write!(out, "ts.ip{{"),
        3 => write!(out, "ts.preip{{"),
        flag => write!(out, "ts.{flag}{{"),
    };
    let mut at = 4;
    let mut separator = "";
    while at + size <= option.len() {
        if at == pointer {
            if flag != 3 {
                break;
            }
            separator = "^";
        }
        out.extend_from_slice(separator.as_bytes());
        if flag != 0 {
            print_address(option.get(at..).unwrap_or_default(), out);
            at += 4;
        }
        if flag != 3 || at <= pointer {
            if flag != 0 {
                out.push(b'=');
            }
            let value = u32_at(option, at);
            let mark = if value >> 31 == 1 { "!" } else { "" };
            let _ = write!(out, "{mark}{}", value & 0x7fff_ffff);
        }
        separator = ",";
        at += 4;
    }
    if at == option.len() && at == pointer {
        out.push(b'^');
    }
    out.push(b'}');
    if at + size <= option.len() && at == pointer {
        let _ = write!(out, "+{}", (option.len() - at) / size);
    }
    if flags >> 4 != 0 {
        let _ = write!(out, "++{}", flags >> 4);
    }
    Some(())
}

/// Reads options.
pub(super) fn parse(text: &str, out: &mut Vec<u8>) -> Option<()> {
    out.clear();
    if text.is_empty() || text == "." {
        return Some(());
    }
    let mut cursor = Cursor(text);
    loop {
        parse_one(&mut cursor, out)?;
        if !cursor.separator()? {
            return fit(out);
        }
    }
}

fn parse_one(cursor: &mut Cursor<'_>, out: &mut Vec<u8>) -> Option<()> {
    if cursor.eat("rr{") {
        parse_route(cursor, RECORD_ROUTE, out)
    } else if cursor.eat("ssrr{") {
        parse_route(cursor, STRICT_ROUTE, out)
    } else if cursor.eat("lsrr{") {
        parse_route(cursor, LOOSE_ROUTE, out)
    } else if cursor.eat("ts") {
        parse_times(cursor, out)
    } else if cursor.at_digit() {
        cursor.numbered(out)
    } else if cursor.eat("nop") {
        out.push(PADDING);
        Some(())
    } else if cursor.eat("eol") {
        out.push(END);
        Some(())
    } else {
        None
    }
}

/// Returns the pointer of the option that begins at `start`: behind its bytes so far, counted from
/// one.
fn pointer(start: usize, out: &[u8]) -> Option<u8> {
    u8::try_from(out.len() - start + 1).ok()
}

fn parse_route(cursor: &mut Cursor<'_>, kind: u8, out: &mut Vec<u8>) -> Option<()> {
    let start = out.len();
    out.extend([kind, 0, 0]);
    let mut marked = None;
    loop {
        if marked.is_none() && cursor.eat("^") {
            marked = Some(pointer(start, out)?);
        }
        if !cursor.at_digit() {
            break;
        }
        out.extend(cursor.address()?);
        cursor.eat(",");
    }
    if !cursor.eat("}") {
        return None;
    }
    out[start + 2] = marked.or_else(|| pointer(start, out))?;
    if cursor.eat("+") {
        let room = cursor.number().filter(|room| *room < 64)?;
        out.resize(out.len() + room as usize * 4, 0);
    }
    out[start + 1] = u8::try_from(out.len() - start).ok()?;
    Some(())
}

fn parse_times(cursor: &mut Cursor<'_>, out: &mut Vec<u8>) -> Option<()> {
    let start = out.len();
    let flag = if cursor.eat(".ip") {
        1
    } else if cursor.eat(".preip") {
        3
    } else if cursor.eat(".") {
        cursor.byte().filter(|flag| *flag <= 15)?
    } else {
        0
    };
    if !cursor.eat("{") {
        return None;
    }
    out.extend([TIMESTAMP, 0, 0, 0]);
    let mut marked = None;
    loop {
        if marked.is_none() && cursor.eat("^") {
            marked = Some(pointer(start, out)?);
        }
        if !cursor.at_digit() && !cursor.0.starts_with('!') {
            break;
        }
        if matches!(flag, 1 | 3) {
            out.extend(cursor.address()?);
        }
        if !matches!(flag, 1 | 3) || cursor.eat("=") {
            let mark = if cursor.eat("!") { 1 << 31 } else { 0 };
            let unknown = marked.is_some() && cursor.eat("?");
            let value = if unknown { 0 } else { cursor.number()? | mark };
            out.extend(value.to_be_bytes());
        } else if marked.is_some() {
            out.extend([0; 4]);
        } else {
            return None;
        }
        cursor.eat(",");
    }
    if !cursor.eat("}") {
        return None;
    }
    out[start + 2] = marked.or_else(|| pointer(start, out))?;
    let mut overflow = 0;
    if !cursor.0.starts_with("++") && cursor.eat("+") {
        let room = cursor.number().filter(|room| *room < 64)?;
        let size = if matches!(flag, 1 | 3) { 8 } else { 4 };
        out.resize(out.len() + room as usize * size, 0);
    }
    if cursor.eat("++") {
        overflow = cursor.byte().filter(|overflow| *overflow < 16)?;
    }
    out[start + 3] = overflow << 4 | flag;
    out[start + 1] = u8::try_from(out.len() - start).ok()?;
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_there_and_back() {
        for text in [
            ".",
            "rr{}+3",
            "rr{10.0.0.1,20.0.0.2}+5",
            "ssrr{1.0.0.1,1.0.0.2^1.0.0.3}",
            "lsrr{^1.0.0.1}",
            "lsrr{1.0.0.1^}",
            "ts{1,10000,!45}+2++3",
            "ts.ip{1.0.0.1=1,1.0.0.2=2}+1",
            "ts.preip{1.0.0.1=1^1.0.0.2,1.0.0.3}",
            "99=0:5:10",
            "99=0:5:10;148=0:0",
        ] {
            let mut options = Vec::new();
            parse(text, &mut options).unwrap_or_else(|| panic!("{text}"));
            let mut out = Vec::new();
            print(&options, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), text);
        }
    }

    #[test]
    fn malformed_text_and_options() {
        let mut options = Vec::new();
        for text in
            ["rr{1.2.3}", "rr{1.2.3.4", "ts{x}", "ts.ip{1.2.3.4}", "rr{}+99", "ts.99{}", "x"]
        {
            assert!(parse(text, &mut options).is_none(), "{text}");
        }
        for bad in [&[7][..], &[7, 3, 3], &[68, 4, 4, 0], &[99, 1], &[148, 9, 0]] {
            let mut out = Vec::new();
            print(bad, &mut out);
            assert_eq!(out, b"?", "{bad:?}");
        }
    }
}
