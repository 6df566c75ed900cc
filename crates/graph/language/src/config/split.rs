//! Splitting into arguments and words.

use std::ops::Range;

use super::{comment, is_space, opaque};

/// Cuts `config` at its top-level commas. Every argument is
/// [uncommented](uncomment); an empty last one is left out.
///
/// ```
/// # use linerate_language::config::split;
/// assert_eq!(split(" a /* one */ b, 'c, d',, "), ["a b", "'c, d'", ""]);
/// ```
pub fn split(config: &str) -> Vec<String> {
    let mut arguments = Vec::new();
    let mut rest = config;
    while !rest.is_empty() {
        let (argument, length) = take(rest, true);
        let last = length == rest.len();
        if !last || !argument.is_empty() {
            arguments.push(argument);
        }
        rest = &rest[(length + 1).min(rest.len())..];
    }
    arguments
}

/// Ranges in `config` of the arguments that [`split`] makes of it, with the space around them.
pub fn places(config: &str) -> Vec<Range<usize>> {
    let (mut places, mut start) = (Vec::new(), 0);
    while start < config.len() {
        let end = start + take(&config[start..], true).1;
        places.push(start..end);
        start = end + 1;
    }
    places
}

/// `text` without the space around it, and with one space for each comment
/// and the space around that. Other space stays.
pub fn uncomment(text: &str) -> String {
    take(text, false).0
}

/// The first argument of `text` (all of it unless `commas` end arguments), and
/// its length in the text.
fn take(text: &str, commas: bool) -> (String, usize) {
    let bytes = text.as_bytes();
    let mut out = String::new();
    let mut at = skip_blank(bytes);
    // The part read and not yet written, without the space at its end.
    let (mut left, mut right) = (at, at);
    let mut after_comment = false;
    while at < bytes.len() {
        let comment = comment(&bytes[at..]);
        if is_space(bytes[at]) {
            at += 1;
        } else if comment > 0 {
            at += comment;
            after_comment = true;
        } else if commas && bytes[at] == b',' {
            break;
        } else {
            if after_comment {
                out.push_str(&text[left..right]);
                out.push(' ');
                left = at;
                after_comment = false;
            }
            at += opaque(&bytes[at..]).max(1);
            right = at;
        }
    }
    out.push_str(&text[left..right]);
    (out, at)
}

/// The length of the space and comments at the start.
fn skip_blank(bytes: &[u8]) -> usize {
    let mut at = 0;
    while at < bytes.len() {
        match comment(&bytes[at..]) {
            0 if is_space(bytes[at]) => at += 1,
            0 => break,
            length => at += length,
        }
    }
    at
}

/// Cuts `text` at space and comments outside quotes.
pub fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text;
    loop {
        let (word, after) = shift_word(rest);
        if word.is_empty() {
            return words;
        }
        words.push(word);
        rest = after;
    }
}

/// The first word of `text`, and the rest behind it and the space after it.
pub fn shift_word(text: &str) -> (&str, &str) {
    let bytes = text.as_bytes();
    let start = skip_blank(bytes);
    let mut end = start;
    while end < bytes.len() && !is_space(bytes[end]) && comment(&bytes[end..]) == 0 {
        end += opaque(&bytes[end..]).max(1);
    }
    let after = end + skip_blank(&bytes[end..]);
    (&text[start..end], &text[after..])
}

/// `KEYWORD rest`, if `argument` starts with something that can be a keyword.
pub fn keyword(argument: &str) -> Option<(&str, &str)> {
    let bytes = argument.as_bytes();
    let length = bytes.iter().position(|&byte| is_space(byte)).unwrap_or(bytes.len());
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"_.:?!".contains(byte);
    if length == 0 || !bytes[..length].iter().all(allowed) {
        return None;
    }
    let rest = argument[length..].trim_start_matches(|c: char| c.is_ascii() && is_space(c as u8));
    Some((&argument[..length], rest))
}

/// The arguments as one configuration string.
pub fn join<S: AsRef<str>>(arguments: &[S]) -> String {
    let mut out = String::new();
    for (index, argument) in arguments.iter().enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        out.push_str(argument.as_ref());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments() {
        for (config, expected) in [
            ("", &[][..]),
            ("  ", &[]),
            ("a", &["a"]),
            ("a,", &["a"]),
            ("a, ,", &["a", ""]),
            (",a", &["", "a"]),
            (",", &[""]),
            ("  a /*?*/ b,  c, ", &["a b", "c"]),
            ("\"x, y\" // ?", &["\"x, y\""]),
            ("'x, y', \\<2c ,>", &["'x, y'", "\\<2c ,>"]),
            ("a  b", &["a  b"]),
            ("a// , b\n,c", &["a", "c"]),
            ("\"a\\\",b\",c", &["\"a\\\",b\"", "c"]),
            ("(a,b)", &["(a", "b)"]),
            ("'open, c", &["'open, c"]),
            ("é , ü", &["é", "ü"]),
        ] {
            assert_eq!(split(config), expected, "{config}");
        }
    }

    #[test]
    fn comments() {
        for (text, expected) in [
            ("  a   b  ", "a   b"),
            ("  a /* Comment */       b  ", "a b"),
            ("  \" /*???  */ \"  ", "\" /*???  */ \""),
            ("/* x */", ""),
            ("a /* x */ // y\n /* z */ b /* w */", "a b"),
            ("a, b", "a, b"),
        ] {
            assert_eq!(uncomment(text), expected, "{text}");
        }
    }

    #[test]
    fn words_end_at_space_and_comments() {
        for (text, expected) in [
            ("a  b, c", &["a", "b,", "c"][..]),
            ("  'a /*?*/ b'c", &["'a /*?*/ b'c"]),
            ("a/*x*/b", &["a", "b"]),
            ("a/b", &["a/b"]),
            ("\"a b\"\\<20 20> c", &["\"a b\"\\<20 20>", "c"]),
            ("", &[]),
        ] {
            assert_eq!(words(text), expected, "{text}");
        }
    }

    #[test]
    fn keywords() {
        for (argument, expected) in [
            ("LIMIT 10", Some(("LIMIT", "10"))),
            ("LIMIT", Some(("LIMIT", ""))),
            ("a.b:c?! \t x y", Some(("a.b:c?!", "x y"))),
            ("\"LIMIT\" 1", None),
            ("1-2 x", None),
            ("", None),
        ] {
            assert_eq!(keyword(argument), expected, "{argument}");
        }
    }
}
