//! The name of a point.

use std::{fmt, str::FromStr};

use md5::{Digest as _, Md5};
use serde::{Deserialize, Serialize};

/// A hash in hexadecimal digits: MD5, which every scripting language has, of text without forgers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Key(String);

/// Text that is not a key.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is not a key: 32 hexadecimal digits")]
pub struct KeyError(String);

impl Key {
    /// The hash of a text.
    pub fn for_text(text: &str) -> Key {
        Key(Md5::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Its digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Key {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Key, KeyError> {
        let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() == 32 && text.bytes().all(digit) {
            Ok(Key(text.into()))
        } else {
            Err(KeyError(text.into()))
        }
    }
}

impl TryFrom<String> for Key {
    type Error = KeyError;

    fn try_from(text: String) -> Result<Key, KeyError> {
        text.parse()
    }
}

impl fmt::Display for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_rfc_1321() {
        assert_eq!(Key::for_text("abc").as_str(), "900150983cd24fb0d6963f7d28e17f72");
        assert_eq!(Key::for_text("").to_string(), "d41d8cd98f00b204e9800998ecf8427e");
    }

    #[test]
    fn keys_are_read_as_written() {
        let key = Key::for_text("x");
        assert_eq!(key.to_string().parse::<Key>().unwrap(), key);
        for text in ["", "900150983CD24FB0D6963F7D28E17F72", "900150983cd24fb0d6963f7d28e17f7"] {
            assert!(text.parse::<Key>().is_err(), "{text}");
        }
    }
}
