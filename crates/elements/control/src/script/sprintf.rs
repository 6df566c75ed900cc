//! The `sprintf` handler.
//!
//! Conversions are `d i u o x X s %`, with flags, width and precision; as in
//! Click the precision counts only for strings and `#` only for hexadecimal
//! numbers. Widths are bounded: the text comes from outside.

use linerate_graph::{
    lang::config::{shift_word, string, unquote},
    parse_integer,
};

use super::numbers::Answer;

/// Most characters a conversion is padded to.
const WIDTH_LIMIT: usize = 4096;

/// One conversion.
#[derive(Default)]
struct Conversion {
    zero: bool,
    left: bool,
    plus: bool,
    space: bool,
    prefix: bool,
    width: usize,
    precision: Option<usize>,
    size: Size,
}

#[derive(Default, Clone, Copy, PartialEq)]
enum Size {
    #[default]
    Long,
    Short,
}

/// The text of `sprintf FORMAT WORD...`.
pub(super) fn sprintf(parameter: &str) -> Answer {
    let (format, mut rest) = shift_word(parameter);
    let format = String::from_utf8_lossy(&unquote(format)).into_owned();
    let mut out = String::new();
    let mut format = format.as_str();
    while let Some((before, after)) = format.split_once('%') {
        out.push_str(before);
        let (conversion, kind, after) = read(after, &mut rest).ok_or("syntax error")?;
        format = after;
        out.push_str(&convert(&conversion, kind, &mut rest).ok_or("syntax error")?);
    }
    if !rest.is_empty() {
        return Err("syntax error".into());
    }
    out.push_str(format);
    Ok(out)
}

/// Reads a conversion behind its `%`: returns it, its letter, and its text.
fn read<'a>(text: &'a str, rest: &mut &str) -> Option<(Conversion, char, &'a str)> {
    let mut conversion = Conversion::default();
    let mut chars = text.chars().peekable();
    while let Some(flag) = chars.next_if(|c| "0#- +".contains(*c)) {
        match flag {
            '0' => conversion.zero = true,
            '#' => conversion.prefix = true,
            '-' => conversion.left = true,
            '+' => conversion.plus = true,
            _ => conversion.space = true,
        }
    }
    let mut number = |chars: &mut std::iter::Peekable<std::str::Chars<'a>>| {
        if chars.next_if_eq(&'*').is_some() {
            let value = parse_integer(shift(rest))?;
            return usize::try_from(value).ok();
        }
        let mut value = 0usize;
        while let Some(digit) = chars.peek().and_then(|c| c.to_digit(10)) {
            value = value.saturating_mul(10).saturating_add(digit as usize);
            chars.next();
        }
        Some(value)
    };
    conversion.width = number(&mut chars)?;
    if chars.next_if_eq(&'.').is_some() {
        conversion.precision = Some(number(&mut chars)?);
    }
    if conversion.width > WIDTH_LIMIT {
        return None;
    }
    while let Some(size) = chars.next_if(|c| "hlLq".contains(*c)) {
        conversion.size = if size == 'h' { Size::Short } else { Size::Long };
    }
    let kind = chars.next()?;
    let left: usize = chars.map(char::len_utf8).sum();
    Some((conversion, kind, &text[text.len() - left..]))
}

fn shift<'a>(rest: &mut &'a str) -> &'a str {
    let (word, after) = shift_word(rest);
    *rest = after;
    word
}

fn convert(conversion: &Conversion, kind: char, rest: &mut &str) -> Option<String> {
    match kind {
        '%' => Some("%".into()),
        's' => {
            let bytes = string(shift(rest))?;
            let text = String::from_utf8_lossy(&bytes);
            let text: String =
                text.chars().take(conversion.precision.unwrap_or(usize::MAX)).collect();
            Some(padded(conversion, "", &text, false))
        }
        'd' | 'i' => {
            let mut value = i64::try_from(parse_integer(shift(rest))?).ok()?;
            if conversion.size == Size::Short {
                value = i64::from(value as i16);
            }
            let sign = match (value < 0, conversion.plus, conversion.space) {
                (true, ..) => "-",
                (_, true, _) => "+",
                (_, _, true) => " ",
                _ => "",
            };
            Some(padded(conversion, sign, &value.unsigned_abs().to_string(), true))
        }
        'o' | 'x' | 'X' | 'u' => {
            let word = shift(rest);
            let mut value = u64::try_from(parse_integer(word)?).ok()?;
            if conversion.size == Size::Short {
                value = u64::from(value as u16);
            }
            let (prefix, digits) = match kind {
                'o' => ("", format!("{value:o}")),
                'x' => ("0x", format!("{value:x}")),
                'X' => ("0X", format!("{value:X}")),
                _ => ("", value.to_string()),
            };
            let prefix = if conversion.prefix && value != 0 { prefix } else { "" };
            Some(padded(conversion, prefix, &digits, true))
        }
        _ => None,
    }
}

fn padded(conversion: &Conversion, prefix: &str, digits: &str, number: bool) -> String {
    let length = prefix.len() + digits.chars().count();
    let missing = conversion.width.saturating_sub(length);
    match (conversion.left, conversion.zero && number) {
        (true, _) => format!("{prefix}{digits}{}", " ".repeat(missing)),
        (_, true) => format!("{prefix}{}{digits}", "0".repeat(missing)),
        _ => format!("{}{prefix}{digits}", " ".repeat(missing)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversions_are_clicks() {
        for (call, expected) in [
            ("[%5s] abc", "[  abc]"),
            ("[%-5s] abc", "[abc  ]"),
            ("[%.2s] abc", "[ab]"),
            ("[%s] \"a b\"", "[a b]"),
            ("[%+d] 5", "[+5]"),
            ("\"[% d]\" 5", "[ 5]"),
            ("[%#x] 255", "[0xff]"),
            ("[%#o] 8", "[10]"),
            ("[%08.3d] 5", "[00000005]"),
            ("[%hx] 65537", "[1]"),
            ("[%hd] 40000", "[-25536]"),
            ("[%lld] 9", "[9]"),
            ("[%d] 0x10", "[16]"),
            ("[%X] 255", "[FF]"),
            ("[%-+5d] 3", "[+3   ]"),
            ("[%%]", "[%]"),
            ("%05x|%-6s|%3d 127 abc -4", "0007f|abc   | -4"),
        ] {
            assert_eq!(sprintf(call).as_deref(), Ok(expected), "{call}");
        }
    }

    #[test]
    fn wrong_formats_are_syntax_errors() {
        for call in [
            "%u -1",
            "%x -1",
            "%i 1.5",
            "%c a",
            "%5 1",
            "%d",
            "%d 99999999999999999999",
            "%",
            "x y",
            "%99999999999999999999d 1",
            "%",
        ] {
            assert_eq!(sprintf(call).err().as_deref(), Some("syntax error"), "{call}");
        }
    }
}
