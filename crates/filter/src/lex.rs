//! The words of an expression.

use std::net::Ipv6Addr;

/// A word or a sign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    /// A keyword or a name.
    Word(String),
    /// A name that is no keyword: written with a `\` in front.
    Escaped(String),
    Number(u32),
    /// Numbers with dots between them: two to four bytes.
    Dotted(Vec<u8>),
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
    if let Some(number) = number(name) {
        return Ok((number?, length));
    }
    let parts: Option<Vec<u32>> = name.split('.').map(|part| part.parse().ok()).collect();
    match parts {
        Some(parts) if parts.len() <= 4 => {
            let bytes: Option<Vec<u8>> =
                parts.iter().map(|part| u8::try_from(*part).ok()).collect();
            let bytes = bytes.ok_or_else(|| format!("illegal IPv4 address {name}"))?;
            Ok((Token::Dotted(bytes), length))
        }
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
    Some(value.map(Token::Number).map_err(|_| format!("number {text} is too large")))
}

/// Six bytes of one or two hexadecimal digits with `:` between them.
fn link_address(text: &str) -> Option<(Token, usize)> {
    let inside = |b: &u8| b.is_ascii_hexdigit() || *b == b':';
    let length = text.bytes().take_while(|b| inside(b)).count();
    let parts: Option<Vec<u8>> = text[..length]
        .split(':')
        .map(|part| u8::from_str_radix(part, 16).ok().filter(|_| part.len() <= 2))
        .collect();
    let bytes: [u8; 6] = parts?.try_into().ok()?;
    Some((Token::Mac(bytes), length))
}

fn ipv6(text: &str) -> Option<(Token, usize)> {
    let inside = |b: &u8| b.is_ascii_hexdigit() || b":.".contains(b);
    let length = text.bytes().take_while(|b| inside(b)).count();
    let address = text[..length].parse::<Ipv6Addr>().ok()?;
    Some((Token::Ipv6(address), length))
}
