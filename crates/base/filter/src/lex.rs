//! Lexer: the words of an expression.

use std::net::Ipv6Addr;

/// A word or a sign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    /// A keyword or a name.
    Word(String),
    /// A name that is no keyword: written with a `\` in front.
    Escaped(String),
    Number(u32),
    /// Two to four numbers with dots between them.
    Dotted(Vec<u32>),
    Ipv6(Ipv6Addr),
    Mac([u8; 6]),
    Sign(&'static str),
}

/// Longer ones first.
const SIGNS: &[(&str, &str)] = &[
    ("&&", "and"),
    ("||", "or"),
    ("==", "="),
    ("!=", "!="),
    (">=", ">="),
    ("<=", "<="),
    ("<<", "<<"),
    (">>", ">>"),
    ("=", "="),
    ("!", "not"),
    (">", ">"),
    ("<", "<"),
    ("(", "("),
    (")", ")"),
    ("[", "["),
    ("]", "]"),
    (":", ":"),
    ("/", "/"),
    ("+", "+"),
    ("-", "-"),
    ("*", "*"),
    ("%", "%"),
    ("&", "&"),
    ("|", "|"),
    ("^", "^"),
];

/// Takes an expression apart.
pub(super) fn words(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (token, length) = next(rest)?;
        tokens.push(token);
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

fn next(text: &str) -> Result<(Token, usize), String> {
    if let Some(found) = link_address(text).or_else(|| ipv6(text)) {
        return Ok(found);
    }
    let first = text.chars().next().unwrap_or(' ');
    if first.is_ascii_alphanumeric() {
        return word(text);
    }
    if let Some(name) = text.strip_prefix('\\') {
        let length = name_length(name);
        if length > 0 {
            return Ok((Token::Escaped(name[..length].into()), length + 1));
        }
    }
    let sign = SIGNS.iter().find(|(written, _)| text.starts_with(written));
    match sign {
        Some((written, "and" | "or" | "not")) => {
            let word = SIGNS.iter().find(|(same, _)| same == written).map_or("", |sign| sign.1);
            Ok((Token::Word(word.into()), written.len()))
        }
        Some((written, sign)) => Ok((Token::Sign(sign), written.len())),
        None => Err(format!("illegal character '{first}'")),
    }
}

/// Letters and digits, with signs of names between them.
fn name_length(text: &str) -> usize {
    let inside = |b: &u8| b.is_ascii_alphanumeric() || b"-_.".contains(b);
    let length = text.bytes().take_while(|b| inside(b)).count();
    let end = |b: u8| b.is_ascii_alphanumeric() || b == b'.';
    text.as_bytes()[..length].iter().rposition(|b| end(*b)).map_or(0, |last| last + 1)
}

fn word(text: &str) -> Result<(Token, usize), String> {
    let length = name_length(text);
    let name = &text[..length];
    if let Some(address) = written_otherwise(name) {
        return Ok((Token::Mac(address), length));
    }
    if let Some(number) = number(name) {
        return Ok((number?, length));
    }
    let parts: Option<Vec<u32>> = name.split('.').map(|part| part.parse().ok()).collect();
    match parts {
        Some(parts) if parts.len() <= 4 => Ok((Token::Dotted(parts), length)),
        _ => Ok((Token::Word(name.into()), length)),
    }
}

/// A number as C writes it; `None` for something else.
fn number(text: &str) -> Option<Result<Token, String>> {
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None if text.len() > 1 && text.starts_with('0') => (&text[1..], 8),
        None => (text, 10),
    };
    if digits.is_empty() || !digits.bytes().all(|b| char::from(b).is_digit(radix)) {
        return None;
    }
    let value = u32::from_str_radix(digits, radix);
    Some(value.map(Token::Number).map_err(|_| format!("number {text} overflows 32 bits")))
}

/// An Ethernet address: `02:00:00:00:00:01`.
fn link_address(text: &str) -> Option<(Token, usize)> {
    let inside = |b: &u8| b.is_ascii_hexdigit() || *b == b':';
    let length = text.bytes().take_while(|b| inside(b)).count();
    Some((Token::Mac(six_bytes(&text[..length], ':')?), length))
}

/// An Ethernet address in other notations: `02-00-00-00-00-01`, `2.0.0.0.0.1`, `0200.0000.0001`,
/// `020000000001`.
fn written_otherwise(name: &str) -> Option<[u8; 6]> {
    if let Some(bytes) = six_bytes(name, '-').or_else(|| six_bytes(name, '.')) {
        return Some(bytes);
    }
    let groups: Vec<&str> = name.split('.').collect();
    let lengths: Vec<usize> = groups.iter().map(|group| group.len()).collect();
    if lengths != [12] && lengths != [4, 4, 4] {
        return None;
    }
    let number = u64::from_str_radix(&groups.concat(), 16).ok()?;
    number.to_be_bytes()[2..].try_into().ok()
}

/// Six bytes of one or two hexadecimal digits with a sign between them.
fn six_bytes(text: &str, sign: char) -> Option<[u8; 6]> {
    let parts: Option<Vec<u8>> = text
        .split(sign)
        .map(|part| u8::from_str_radix(part, 16).ok().filter(|_| part.len() <= 2))
        .collect();
    parts?.try_into().ok()
}

fn ipv6(text: &str) -> Option<(Token, usize)> {
    let inside = |b: &u8| b.is_ascii_hexdigit() || b":.".contains(b);
    let length = text.bytes().take_while(|b| inside(b)).count();
    let address = text[..length].parse::<Ipv6Addr>().ok()?;
    Some((Token::Ipv6(address), length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ethernet_addresses_are_written_in_many_ways() {
        for text in [
            "2:0:0:0:a:1",
            "02:00:00:00:0A:01",
            "02-00-00-00-0a-01",
            "2.0.0.0.a.1",
            "0200.0000.0a01",
            "020000000a01",
        ] {
            assert_eq!(words(text), Ok(vec![Token::Mac([2, 0, 0, 0, 10, 1])]), "{text}");
        }
        assert_eq!(
            words("123456789012").unwrap(),
            [Token::Mac([0x12, 0x34, 0x56, 0x78, 0x90, 0x12])]
        );
        for (text, token) in [
            ("02000000a01", Token::Word("02000000a01".into())),
            ("0200.0000.0a01.1", Token::Word("0200.0000.0a01.1".into())),
            ("1.2.3.4", Token::Dotted(vec![1, 2, 3, 4])),
            ("1.1000", Token::Dotted(vec![1, 1000])),
            ("1.2.3.4.5", Token::Word("1.2.3.4.5".into())),
        ] {
            assert_eq!(words(text), Ok(vec![token]), "{text}");
        }
        assert_eq!(words("12345678901"), Err("number 12345678901 overflows 32 bits".into()));
    }
}
