//! Keys and values: `key`, `key=value`, `key:value` and `key(value)`, with commas or spaces between
//! them. Commas inside of parentheses are the value's.

use super::error::{Fail, Parsed};

/// A key, and its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pair<'t> {
    pub(super) key: &'t str,
    /// Empty where there is none.
    pub(super) value: &'t str,
    /// All of it.
    pub(super) whole: &'t str,
    /// The text from the value on.
    pub(super) rest: &'t str,
}

impl<'t> Pair<'t> {
    /// The value, which must be there.
    pub(super) fn wanted(&self) -> Parsed<'t, &'t str> {
        if self.value.is_empty() {
            return Err(Fail::new(self.whole, format!("\"{}\" needs a value", self.key))
                .help(format!("{}=…", self.key)));
        }
        Ok(self.value)
    }
}

/// The pairs of a text.
#[derive(Debug, Clone)]
pub(super) struct Pairs<'t> {
    rest: &'t str,
}

const SPACE: [char; 5] = [',', ' ', '\t', '\r', '\n'];
const BEHIND_KEY: [char; 8] = [':', '=', '(', ',', ' ', '\t', '\r', '\n'];

impl<'t> Pairs<'t> {
    pub(super) fn new(text: &'t str) -> Pairs<'t> {
        Pairs { rest: text }
    }

    fn pair(&mut self) -> Parsed<'t, Option<Pair<'t>>> {
        let text = self.rest.trim_start_matches(SPACE);
        if text.is_empty() {
            self.rest = text;
            return Ok(None);
        }
        let end = text.find(BEHIND_KEY).unwrap_or(text.len());
        let (key, behind) = text.split_at(end);
        let ends: &[char] = match behind.chars().next() {
            Some(':' | '=') => &SPACE,
            Some('(') => &[')'],
            _ => {
                self.rest = behind;
                let rest = &behind[..0];
                return Ok(Some(Pair { key, value: rest, whole: key, rest }));
            }
        };
        let rest = &behind[1..];
        let mut length = value_length(rest, ends)?;
        // `(x)->y` has the whole as its value.
        if ends == [')'] {
            if length == rest.len() {
                return Err(Fail::new(&behind[..1], "this parenthesis is not closed"));
            }
            if rest[length..].starts_with(")->") {
                length += value_length(&rest[length..], &SPACE)?;
            }
        }
        let value = &rest[..length];
        let closed = rest[length..].starts_with(')') && ends == [')'];
        let used = end + 1 + length + usize::from(closed);
        let whole = &text[..used];
        self.rest = &text[used..];
        Ok(Some(Pair { key, value, whole, rest }))
    }
}

impl<'t> Iterator for Pairs<'t> {
    type Item = Parsed<'t, Pair<'t>>;

    fn next(&mut self) -> Option<Self::Item> {
        let pair = self.pair().transpose();
        if matches!(pair, Some(Err(_))) {
            self.rest = "";
        }
        pair
    }
}

/// Returns the length of a value that ends with one of these.
fn value_length<'t>(text: &'t str, ends: &[char]) -> Parsed<'t, usize> {
    let mut depth = Vec::new();
    for (at, letter) in text.char_indices() {
        match letter {
            _ if depth.is_empty() && ends.contains(&letter) => return Ok(at),
            '(' => depth.push(at),
            ')' => {
                depth.pop();
            }
            _ => {}
        }
    }
    match depth.pop() {
        Some(at) => Err(Fail::new(&text[at..=at], "this parenthesis is not closed")),
        None => Ok(text.len()),
    }
}

/// The parts between commas, without the spaces around them.
pub(super) fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<(&str, &str)> {
        Pairs::new(text).map(|pair| pair.map(|pair| (pair.key, pair.value)).unwrap()).collect()
    }

    #[test]
    fn pairs_are_found() {
        let text = " tcp, nw_src=10.0.0.0/8 tp_dst:80,,";
        assert_eq!(all(text), [("tcp", ""), ("nw_src", "10.0.0.0/8"), ("tp_dst", "80")]);
        let text = "resubmit(,1),ct(commit,exec(load:1->a)),check(9)->b[0],x=f(1,2)";
        let found = [
            ("resubmit", ",1"),
            ("ct", "commit,exec(load:1->a)"),
            ("check", "9)->b[0]"),
            ("x", "f(1,2)"),
        ];
        assert_eq!(all(text), found);
        assert_eq!(all("pause,"), [("pause", "")]);
        assert_eq!(all("  "), []);
    }

    #[test]
    fn parentheses_must_be_closed() {
        for text in ["ct(commit", "a=f(1", "ct(exec(a)", "learn(("] {
            let fail = Pairs::new(text).next().unwrap().unwrap_err();
            let error = fail.within(text);
            assert!(error.what().contains("not closed"), "{text}: {error}");
        }
    }
}
