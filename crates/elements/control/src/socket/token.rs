//! Authentication token that clients of a control socket send first.
//!
//! It is read from a file or from the environment, not written in the configuration, which clients
//! can read. Clients with it are not told apart, and nothing is encrypted.

use std::{env, fmt, fs, os::unix::fs::MetadataExt};

use ctutils::CtEq;
use linerate_graph::ElementBuilder;

/// Permissions of users but the owner of a file.
const OTHERS: u32 = 0o077;

/// A token. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Token(String);

impl Token {
    /// Reads the token from the place in an argument; `None` without the argument. After an error
    /// it is one that no client has.
    pub(super) fn from_argument(make: &mut ElementBuilder<'_>, argument: &str) -> Option<Token> {
        let place: String = make.get(argument)?;
        let found = match place.split_once(':') {
            Some(("file", name)) => from_file(make, name),
            Some(("env", name)) => {
                env::var(name).map_err(|_| format!("there is no variable {name}"))
            }
            _ => Err("expected `file:NAME` or `env:NAME`".into()),
        };
        let token = found.map(|text| text.trim().to_owned()).and_then(|token| {
            let word = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
            word.then_some(token).ok_or_else(|| "the token must be one word of ASCII".into())
        });
        Some(Token(token.unwrap_or_else(|error| {
            make.error(format!("{argument}: {place}: {error}"));
            String::new()
        })))
    }

    /// Returns true if a client sent it, in a time independent of the number of right bytes.
    pub(super) fn is(&self, said: &str) -> bool {
        !self.0.is_empty() && self.0.as_bytes().ct_eq(said.as_bytes()).to_bool()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

fn from_file(make: &mut ElementBuilder<'_>, name: &str) -> Result<String, String> {
    let read = fs::metadata(name).and_then(|about| Ok((about.mode(), fs::read_to_string(name)?)));
    let (mode, text) = read.map_err(|error| error.to_string())?;
    if mode & OTHERS != 0 {
        make.warn(format!("others may read the token in {name}; do `chmod 600 {name}`"));
    }
    Ok(text)
}
