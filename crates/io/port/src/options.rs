//! Options of ports: their declaration, once, and parsing of those in a port's name by it. Errors and help
//! texts come from the declaration.
//!
//! A driver asks for the options by name; an undeclared option cannot be asked for, and options
//! left in the end were misspelt, so that nothing is silently ignored.

use std::str::FromStr;

use linerate_linux::closest;

use crate::{error::UriError, uri::PortUri};

/// Options that are of use in the same case.
#[derive(Debug, Clone, Copy)]
pub struct OptionGroup {
    /// The case, as in "when the file is read"; empty: always.
    pub when: &'static str,
    /// The options.
    pub options: &'static [PortOption],
}

/// An option of a port.
#[derive(Debug, Clone, Copy)]
pub struct PortOption {
    /// The part before the equals sign.
    pub name: &'static str,
    /// Type and range of the value.
    pub value: Value,
    /// Default: a value, or a few words.
    pub default: &'static str,
    /// Meaning of the option, for help.
    pub help: &'static str,
}

/// Type and range of an option's value.
#[derive(Debug, Clone, Copy)]
pub enum Value {
    /// On or off; the name alone is on.
    Switch,
    /// A whole number.
    Number {
        /// The least it can be.
        least: u64,
        /// The most.
        most: u64,
    },
    /// One of these words, each with its meaning.
    Word(&'static [(&'static str, &'static str)]),
    /// Text that is read further.
    Text {
        /// Notation, as in `ADDRESS/PREFIX`.
        form: &'static str,
        /// Expected value, for errors.
        expected: &'static str,
    },
}

impl PortOption {
    /// Returns the notation of the option: `size=N`.
    pub fn usage(&self) -> String {
        match self.value {
            Value::Switch => self.name.into(),
            Value::Number { .. } => format!("{}=N", self.name),
            Value::Word(words) => {
                let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
                format!("{}={}", self.name, words.join("|"))
            }
            Value::Text { form, .. } => format!("{}={form}", self.name),
        }
    }
}

impl Value {
    /// Returns the expected value in words: `a number from 1 to 64`.
    pub fn expected(&self) -> String {
        match self {
            Value::Switch => "yes or no".into(),
            Value::Number { least, most: u64::MAX } => format!("a number from {least}"),
            Value::Number { least, most } => format!("a number from {least} to {most}"),
            Value::Word(words) => {
                let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
                match words.as_slice() {
                    [rest @ .., last] if !rest.is_empty() => {
                        format!("{} or {last}", rest.join(", "))
                    }
                    words => words.join(""),
                }
            }
            Value::Text { expected, .. } => (*expected).into(),
        }
    }
}

/// The queues of a port in software.
pub(crate) const QUEUES: PortOption = PortOption {
    name: "queues",
    value: Value::Number { least: 1, most: 64 },
    default: "one for each worker that uses it",
    help: "How many queues there are.",
};

/// The options of a [`PortUri`] while a driver takes them out.
///
/// Its methods panic when a driver asks for an option that it has not declared, or not as such.
#[derive(Debug)]
pub struct Options<'a> {
    uri: &'a PortUri,
    declared: &'static [OptionGroup],
    asked: Vec<&'static str>,
}

impl PortUri {
    /// The options, to be taken one by one as they are declared.
    pub fn options(&self, declared: &'static [OptionGroup]) -> Options<'_> {
        Options { uri: self, declared, asked: Vec::new() }
    }
}

impl<'a> Options<'a> {
    /// Takes an option's text: `None` when absent, `Some("")` when given without a value.
    fn take(&mut self, key: &str) -> (&'static PortOption, Option<&'a str>) {
        let mut all = self.declared.iter().flat_map(|group| group.options);
        let option = all.find(|option| option.name == key);
        let option = option.unwrap_or_else(|| panic!("option {key} is not declared"));
        self.asked.push(option.name);
        let written = self.uri.written().iter().find(|(name, _)| name == key);
        (option, written.map(|(_, value)| value.as_deref().unwrap_or("")))
    }

    fn wrong(&self, option: &'static PortOption, value: &str) -> UriError {
        self.refuse(option.name, value, option.value.expected())
    }

    /// The error for an option's value that is not as `expected`.
    pub fn refuse(
        &self,
        option: &'static str,
        value: &str,
        expected: impl Into<String>,
    ) -> UriError {
        UriError::Value {
            uri: self.uri.to_string(),
            option,
            value: value.into(),
            expected: expected.into(),
        }
    }

    /// Takes an option's text: `None` when absent, `Some("")` when given
    /// without a value.
    pub fn text(&mut self, key: &str) -> Option<&'a str> {
        self.take(key).1
    }

    /// Takes a switch that was given: `key`, `key=yes|on|true|1` or `key=no|off|false|0`.
    ///
    /// # Errors
    ///
    /// For any other value.
    pub fn switch(&mut self, key: &str) -> Result<Option<bool>, UriError> {
        let (option, text) = self.take(key);
        let Some(text) = text else { return Ok(None) };
        truth(text).map(Some).ok_or_else(|| self.wrong(option, text))
    }

    /// Takes a switch; its declared default when it is not given.
    ///
    /// # Errors
    ///
    /// As of [`Options::switch`].
    pub fn is_on(&mut self, key: &str) -> Result<bool, UriError> {
        let given = self.switch(key)?;
        let default = truth(self.take(key).0.default);
        Ok(given.or(default).unwrap_or_else(|| panic!("{key} is declared to be on or off")))
    }

    /// Takes one of the declared words.
    ///
    /// # Errors
    ///
    /// For any other word.
    pub fn word(&mut self, key: &str) -> Result<Option<&'a str>, UriError> {
        let (option, text) = self.take(key);
        let Value::Word(words) = option.value else { panic!("{key} is declared as words") };
        match text {
            Some(text) if words.iter().all(|(word, _)| *word != text) => {
                Err(self.wrong(option, text))
            }
            text => Ok(text),
        }
    }

    /// Takes an option with a value of type `T`.
    ///
    /// # Errors
    ///
    /// When the value does not parse.
    pub fn value<T: FromStr>(&mut self, key: &str) -> Result<Option<T>, UriError> {
        let (option, text) = self.take(key);
        let Some(text) = text else { return Ok(None) };
        text.parse().map(Some).map_err(|_| self.wrong(option, text))
    }

    /// Takes a whole number in the declared range.
    ///
    /// # Errors
    ///
    /// When the value is not a number or outside.
    pub fn number(&mut self, key: &str) -> Result<Option<u64>, UriError> {
        self.number_to(key, u64::MAX)
    }

    /// Takes a whole number in the declared range and not above `limit`.
    ///
    /// # Errors
    ///
    /// When the value is not a number or outside.
    pub fn number_to(&mut self, key: &str, limit: u64) -> Result<Option<u64>, UriError> {
        let (option, text) = self.take(key);
        let Value::Number { least, most } = option.value else {
            panic!("{key} is declared as a number");
        };
        let Some(text) = text else { return Ok(None) };
        let most = most.min(limit);
        match text.parse() {
            Ok(number) if (least..=most).contains(&number) => Ok(Some(number)),
            _ => Err(self.refuse(option.name, text, Value::Number { least, most }.expected())),
        }
    }

    /// The declared default of a number.
    pub fn default_of(&self, key: &str) -> u64 {
        let mut all = self.declared.iter().flat_map(|group| group.options);
        let number = all.find(|option| option.name == key).map(|option| option.default.parse());
        number.and_then(Result::ok).unwrap_or_else(|| panic!("{key} has no number by default"))
    }

    /// Refuses options that were not taken.
    ///
    /// # Errors
    ///
    /// Names the first such option and the ones the driver knows, or says when it is of use.
    pub fn finish(self) -> Result<(), UriError> {
        let asked = |option: &PortOption| self.asked.contains(&option.name);
        let groups = || self.declared.iter();
        debug_assert!(
            groups().all(|group| {
                group.options.iter().all(asked) || !group.options.iter().any(asked)
            }),
            "of each group all options are asked for or none: {:?}",
            self.asked
        );
        let mut written = self.uri.written().iter().map(|(name, _)| name.as_str());
        let Some(left) = written.find(|name| !self.asked.contains(name)) else { return Ok(()) };
        let uri = self.uri.to_string();
        let of_use = groups().find(|group| group.options.iter().any(|known| known.name == left));
        if let Some(group) = of_use {
            return Err(UriError::UselessOption { uri, option: left.into(), when: group.when });
        }
        let used = groups().flat_map(|group| group.options).filter(|option| asked(option));
        let known: Vec<&str> = used.map(|option| option.name).collect();
        let suggestion = closest(left, known.iter().copied())
            .map(|meant| format!("; did you mean {meant}?"))
            .unwrap_or_default();
        let known = if known.is_empty() { "none".into() } else { known.join(", ") };
        Err(UriError::UnknownOption { uri, option: left.into(), known, suggestion })
    }
}

/// Parses the value of a switch.
pub(crate) fn truth(text: &str) -> Option<bool> {
    match text {
        "" | "yes" | "on" | "true" | "1" => Some(true),
        "no" | "off" | "false" | "0" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBER: Value = Value::Number { least: 60, most: 9000 };
    const DECLARED: &[OptionGroup] = &[
        OptionGroup {
            when: "",
            options: &[
                PortOption { name: "size", value: NUMBER, default: "60", help: "" },
                PortOption { name: "copy", value: Value::Switch, default: "off", help: "" },
                PortOption {
                    name: "mode",
                    value: Value::Word(&[("fast", ""), ("safe", "")]),
                    default: "fast",
                    help: "",
                },
            ],
        },
        OptionGroup {
            when: "when it is written",
            options: &[PortOption {
                name: "out",
                value: Value::Text { form: "FILE", expected: "a file" },
                default: "none",
                help: "",
            }],
        },
    ];

    fn take(text: &str) -> Result<(Option<u64>, bool, Option<String>), UriError> {
        let uri: PortUri = text.parse().unwrap();
        let mut options = uri.options(DECLARED);
        let size = options.number("size")?;
        let copy = options.is_on("copy")?;
        let mode = options.word("mode")?.map(str::to_owned);
        options.finish()?;
        Ok((size, copy, mode))
    }

    #[test]
    fn given_and_default_values_are_read() {
        assert_eq!(take("x:"), Ok((None, false, None)));
        assert_eq!(take("x:?size=64&copy&mode=safe"), Ok((Some(64), true, Some("safe".into()))));
        let uri: PortUri = "x:".parse().unwrap();
        assert_eq!(uri.options(DECLARED).default_of("size"), 60);
    }

    #[test]
    fn wrong_options_are_refused() {
        for (text, message) in [
            ("x:?size=59", "size=59: expected a number from 60 to 9000"),
            ("x:?size=many", "size=many: expected a number from 60 to 9000"),
            ("x:?copy=2", "copy=2: expected yes or no"),
            ("x:?mode=slow", "mode=slow: expected fast or safe"),
            (
                "x:?sze=64",
                "there is no option \"sze\"; options are: size, copy, mode; did you mean size?",
            ),
            ("x:?q", "there is no option \"q\"; options are: size, copy, mode"),
            ("x:?out=y", "option out is of use only when it is written"),
        ] {
            let error = take(text).unwrap_err().to_string();
            assert!(error.ends_with(message), "{text}: {error}");
        }
    }

    #[test]
    #[should_panic(expected = "option speed is not declared")]
    fn undeclared_options_cannot_be_read() {
        let uri: PortUri = "x:".parse().unwrap();
        let _ = uri.options(DECLARED).number("speed");
    }
}
