//! Words, strings, file names, and arguments as they were written.

use std::{os::unix::ffi::OsStrExt, path::PathBuf};

use super::{Value, or_parse_error};
use crate::{
    element::Scope,
    lang::config::{is_word, keyword, quote, string},
};

impl Value for String {
    fn parse(text: &str, _: &Scope<'_>) -> Result<String, String> {
        let bytes = or_parse_error(string(text))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn unparse(&self, _: &Scope<'_>) -> String {
        as_string(self.as_bytes())
    }
}

impl Value for Vec<u8> {
    fn parse(text: &str, _: &Scope<'_>) -> Result<Vec<u8>, String> {
        or_parse_error(string(text))
    }

    fn unparse(&self, _: &Scope<'_>) -> String {
        as_string(self)
    }
}

/// Bytes as an argument of that value: in quotes, unless they are a word without a meaning of its own.
pub(super) fn as_string(bytes: &[u8]) -> String {
    match str::from_utf8(bytes) {
        Ok(text) if is_word(bytes) && string(text).is_some_and(|read| read == bytes) => text.into(),
        _ => quote(bytes),
    }
}

/// The argument as it was written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Text(pub String);

impl Value for Text {
    fn parse(text: &str, _: &Scope<'_>) -> Result<Text, String> {
        Ok(Text(text.into()))
    }

    fn unparse(&self, _: &Scope<'_>) -> String {
        self.0.clone()
    }
}

/// A string without spaces, quotes, commas and control characters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Word(pub String);

impl Value for Word {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<Word, String> {
        let word = String::parse(text, scope)?;
        or_parse_error(Some(word).filter(|word| is_word(word.as_bytes())).map(Word))
    }

    fn unparse(&self, _: &Scope<'_>) -> String {
        as_string(self.0.as_bytes())
    }
}

/// A word that can be a keyword, without quotes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Keyword(pub String);

impl Value for Keyword {
    fn parse(text: &str, _: &Scope<'_>) -> Result<Keyword, String> {
        let whole = keyword(text).filter(|(word, _)| word.len() == text.len());
        or_parse_error(whole.map(|(word, _)| Keyword(word.into())))
    }

    fn unparse(&self, _: &Scope<'_>) -> String {
        self.0.clone()
    }
}

/// A file's name. `~` at its start is the user's home directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filename(pub PathBuf);

impl Value for Filename {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<Filename, String> {
        let name = String::parse(text, scope)?;
        if name.is_empty() {
            return or_parse_error(None);
        }
        let mut path = match name.strip_prefix('~') {
            Some(rest) => expand_home(rest).unwrap_or(name),
            None => name,
        };
        while let Some(at) = path.find("//") {
            path.remove(at);
        }
        Ok(Filename(path.into()))
    }

    fn unparse(&self, _: &Scope<'_>) -> String {
        as_string(self.0.as_os_str().as_bytes())
    }
}

/// Expands a path behind a `~` by the home directory of the user it names, or without a name of the
/// user that runs the program.
fn expand_home(rest: &str) -> Option<String> {
    let (user, rest) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let home = if user.is_empty() {
        std::env::var("HOME").ok()?
    } else {
        let users = std::fs::read_to_string("/etc/passwd").ok()?;
        home_of(&users, user)?
    };
    Some(home + rest)
}

/// A user's directory in the text of `/etc/passwd`.
fn home_of(users: &str, user: &str) -> Option<String> {
    let line = users.lines().find(|line| line.split(':').next() == Some(user))?;
    line.split(':').nth(5).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::value::tests::read;

    #[test]
    fn strings_words_and_keywords() {
        assert_eq!(read::<String>("\"a b\"c"), Ok("a bc".into()));
        assert_eq!(read::<String>("a b"), Err("parse error".into()));
        assert_eq!(read::<String>(""), Err("parse error".into()));
        assert_eq!(read::<Vec<u8>>("\\<00 ff>"), Ok(vec![0, 255]));
        assert_eq!(read("'a'b"), Ok(Word("ab".into())));
        assert_eq!(read::<Word>("'a b'"), Err("parse error".into()));
        assert_eq!(read("A:b!"), Ok(Keyword("A:b!".into())));
        assert_eq!(read::<Keyword>("'A'"), Err("parse error".into()));
        assert_eq!(read::<Keyword>("A B"), Err("parse error".into()));
        assert_eq!(read(" a, b "), Ok(Text(" a, b ".into())));
    }

    #[test]
    fn file_names() {
        let home = std::env::var("HOME").unwrap_or_else(|_| "~".into()).replace("//", "/");
        for (text, expected) in [
            ("a.pcap", "a.pcap".to_owned()),
            ("'a b'", "a b".to_owned()),
            ("'/tmp///x//y'", "/tmp/x/y".to_owned()),
            ("~", home.clone()),
            ("~/x", format!("{home}/x").replace("//", "/")),
            ("'~no such user'", "~no such user".to_owned()),
        ] {
            assert_eq!(read(text), Ok(Filename(expected.into())), "{text}");
        }
        assert_eq!(read::<Filename>("\"\""), Err("parse error".into()));
        let users = "root:x:0:0:root:/root:/bin/sh\nann:x:7:7::/home/ann:/bin/sh\n";
        assert_eq!(home_of(users, "ann").as_deref(), Some("/home/ann"));
        assert_eq!(home_of(users, "bob"), None);
    }
}
