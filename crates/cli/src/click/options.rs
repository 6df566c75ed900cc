//! Command-line options as Click's programs take them.
//!
//! Long options may be cut short as long as they stay unambiguous, short ones put together (`-qe
//! EXPR`), and errors are in Click's words. This is not how `linerate` reads its command line:
//! there `clap` does.

use std::{collections::VecDeque, env};

/// A program's option.
#[derive(Debug)]
pub(super) struct Spec<Id> {
    /// Its long name.
    pub(super) long: &'static str,
    /// Its letter.
    pub(super) short: Option<char>,
    /// Its meaning, which several names may share.
    pub(super) id: Id,
    /// Kind of its value.
    pub(super) value: OptionType,
    /// Whether `--no-` in front of it turns it round.
    pub(super) negate: bool,
    /// Whether it must be written in full.
    pub(super) whole: bool,
}

/// Value of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OptionType {
    /// Nothing.
    Flag,
    /// Any text.
    Text,
    /// A whole number.
    Integer,
    /// A whole number or nothing.
    MaybeInteger,
    /// A number or nothing.
    MaybeReal,
}

/// An item of the command line.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Item<Id> {
    /// An option: as it was written, its value, whether it was turned round.
    Option { id: Id, written: String, value: Value, negated: bool },
    /// Something that is no option.
    Argument(String),
}

/// The value of an option.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    /// There is none.
    None,
    /// A text.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// A number.
    Real(f64),
}

impl Value {
    /// The text of an option that must have one.
    pub(super) fn text(self) -> String {
        match self {
            Value::Text(text) => text,
            _ => String::new(),
        }
    }
}

/// Reads a command line.
pub(super) struct Options<Id: 'static> {
    specs: &'static [Spec<Id>],
    arguments: VecDeque<String>,
    /// Letters of an argument that are still to be read.
    letters: String,
    only_arguments: bool,
    quotes: Quotes,
}

/// Marks around a word in a message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Quotes(&'static str, &'static str);

impl Quotes {
    /// The quotes of Click's messages about options in this environment.
    pub(super) fn from_env() -> Quotes {
        let language = env::var("LANG").unwrap_or_default();
        if ["UTF-8", "UTF8", "utf8"].iter().any(|name| language.contains(name)) {
            Quotes("\u{2018}", "\u{2019}")
        } else {
            Quotes::plain()
        }
    }

    /// The quotes of a terminal that knows no others.
    pub(super) fn plain() -> Quotes {
        Quotes("'", "'")
    }

    /// A word in its marks.
    pub(super) fn around(self, word: &str) -> String {
        format!("{}{word}{}", self.0, self.1)
    }
}

/// An option as it is found on the command line.
struct MatchedOption<Id: 'static> {
    spec: &'static Spec<Id>,
    written: String,
    attached: Option<String>,
    negated: bool,
}

impl<Id: Copy + PartialEq> Options<Id> {
    /// A command line without the program's name.
    pub(super) fn new(
        specs: &'static [Spec<Id>],
        arguments: impl IntoIterator<Item = String>,
        quotes: Quotes,
    ) -> Options<Id> {
        Options {
            specs,
            arguments: arguments.into_iter().collect(),
            letters: String::new(),
            only_arguments: false,
            quotes,
        }
    }

    /// The next item: `None` at the end, an error in Click's words when it cannot be understood.
    pub(super) fn next(&mut self) -> Option<Result<Item<Id>, String>> {
        if !self.letters.is_empty() {
            return Some(self.letter());
        }
        let argument = self.arguments.pop_front()?;
        if self.only_arguments || argument == "-" || !argument.starts_with('-') {
            return Some(Ok(Item::Argument(argument)));
        }
        if argument == "--" {
            self.only_arguments = true;
            return self.next();
        }
        Some(match argument.strip_prefix("--") {
            Some(name) => self.long(name),
            None => {
                self.letters = argument[1..].into();
                self.letter()
            }
        })
    }

    fn unknown(&self, written: &str) -> String {
        format!("unrecognized option {}", self.quotes.around(written))
    }

    fn letter(&mut self) -> Result<Item<Id>, String> {
        let letter = self.letters.remove(0);
        let written = format!("-{letter}");
        let Some(spec) = self.specs.iter().find(|spec| spec.short == Some(letter)) else {
            self.letters.clear();
            return Err(self.unknown(&written));
        };
        let attached = (spec.value != OptionType::Flag && !self.letters.is_empty()).then(|| {
            let rest = std::mem::take(&mut self.letters);
            rest.strip_prefix('=').map_or(rest.clone(), str::to_owned)
        });
        self.value(MatchedOption { spec, written, attached, negated: false })
    }

    fn long(&mut self, text: &str) -> Result<Item<Id>, String> {
        let (name, attached) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (text, None),
        };
        let plain = self.specs.iter().filter(|spec| !spec.long.is_empty());
        let plain = plain.map(|spec| (spec, spec.long.to_owned(), false));
        let turned = self.specs.iter().filter(|spec| spec.negate && !spec.long.is_empty());
        let turned = turned.map(|spec| (spec, format!("no-{}", spec.long), true));
        let all: Vec<_> = plain.chain(turned).collect();
        let mut fitting: Vec<_> = all.iter().filter(|(_, long, _)| long == name).collect();
        if fitting.is_empty() {
            let fits = |long: &str, spec: &Spec<Id>| !spec.whole && long.starts_with(name);
            fitting = all.iter().filter(|(spec, long, _)| fits(long, spec)).collect();
            // `--no` alone does not name an option to turn round.
            if name.len() <= 3 && "no-".starts_with(name) && !name.is_empty() {
                fitting.clear();
            }
        }
        let Some((spec, long, negated)) = fitting.first() else {
            return Err(self.unknown(&format!("--{text}")));
        };
        if fitting.iter().any(|(other, ..)| other.id != spec.id) {
            let names: Vec<&str> = fitting.iter().map(|(_, long, _)| long.as_str()).collect();
            return Err(self.ambiguous(text, &names));
        }
        let written = format!("--{long}");
        self.value(MatchedOption { spec, written, attached, negated: *negated })
    }

    fn ambiguous(&self, text: &str, names: &[&str]) -> String {
        let mut quoted: Vec<String> =
            names.iter().map(|name| self.quotes.around(&format!("--{name}"))).collect();
        if quoted.len() > 4 {
            quoted.truncate(4);
            quoted.push("others".into());
        }
        let last = quoted.pop().unwrap_or_default();
        let comma = if quoted.len() > 1 { "," } else { "" };
        let option = self.quotes.around(&format!("--{text}"));
        format!(
            "option {option} is ambiguous\n(Possibilities are {}{comma} and {last}.)",
            quoted.join(", ")
        )
    }

    fn value(&mut self, found: MatchedOption<Id>) -> Result<Item<Id>, String> {
        let MatchedOption { spec, written, mut attached, negated } = found;
        let option = self.quotes.around(&written);
        if attached.is_some() && (spec.value == OptionType::Flag || negated) {
            return Err(format!("{option} can{}t take an argument", self.quotes.1));
        }
        let must = matches!(spec.value, OptionType::Text | OptionType::Integer);
        if attached.is_none() && must && !negated {
            attached = self.arguments.pop_front();
            if attached.is_none() {
                return Err(format!("{option} requires an argument"));
            }
        }
        let expects = |what: &str, text: &str| {
            format!("{option} expects {what}, not {}", self.quotes.around(text))
        };
        let value = match (attached, spec.value) {
            (None, _) => Value::None,
            (Some(text), OptionType::Integer | OptionType::MaybeInteger) => {
                let number = linerate_graph::parse_integer(&text);
                let number = number.and_then(|number| i64::try_from(number).ok());
                Value::Integer(number.ok_or_else(|| expects("an integer", &text))?)
            }
            (Some(text), OptionType::MaybeReal) => {
                Value::Real(text.parse().map_err(|_| expects("a real number", &text))?)
            }
            (Some(text), _) => Value::Text(text),
        };
        Ok(Item::Option { id: spec.id, written, value, negated })
    }

    /// The error for an option with a wrong value.
    pub(super) fn expects(&self, written: &str, what: &str, text: &str) -> String {
        let option = self.quotes.around(written);
        format!("{option} expects {what}, not {}", self.quotes.around(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Id {
        Quit,
        Expression,
        Exit,
        Warnings,
        Time,
    }

    const SPECS: &[Spec<Id>] = &[
        Spec {
            long: "quit",
            short: Some('q'),
            id: Id::Quit,
            value: OptionType::Flag,
            negate: false,
            whole: false,
        },
        Spec {
            long: "expression",
            short: Some('e'),
            id: Id::Expression,
            value: OptionType::Text,
            negate: false,
            whole: false,
        },
        Spec {
            long: "exit",
            short: Some('x'),
            id: Id::Exit,
            value: OptionType::Integer,
            negate: false,
            whole: false,
        },
        Spec {
            long: "warnings",
            short: None,
            id: Id::Warnings,
            value: OptionType::Flag,
            negate: true,
            whole: false,
        },
        Spec {
            long: "simtime",
            short: None,
            id: Id::Time,
            value: OptionType::MaybeReal,
            negate: false,
            whole: false,
        },
        Spec {
            long: "simu",
            short: None,
            id: Id::Time,
            value: OptionType::MaybeReal,
            negate: false,
            whole: false,
        },
    ];

    fn read(line: &[&str]) -> Result<Vec<Item<Id>>, String> {
        let arguments = line.iter().map(|word| (*word).to_owned());
        let mut options = Options::new(SPECS, arguments, Quotes("'", "'"));
        std::iter::from_fn(|| options.next()).collect()
    }

    fn option(id: Id, written: &str, value: Value, negated: bool) -> Item<Id> {
        Item::Option { id, written: written.into(), value, negated }
    }

    #[test]
    fn options_in_all_their_forms() {
        let quit = || option(Id::Quit, "-q", Value::None, false);
        let text = |written: &str, text: &str| {
            option(Id::Expression, written, Value::Text(text.into()), false)
        };
        assert_eq!(
            read(&["-qeA", "-e", "-q"]).unwrap(),
            [quit(), text("-e", "A"), text("-e", "-q")]
        );
        assert_eq!(read(&["--expr=a=b"]).unwrap(), [text("--expression", "a=b")]);
        assert_eq!(read(&["-e=a"]).unwrap(), [text("-e", "a")]);
        let negated = option(Id::Warnings, "--no-warnings", Value::None, true);
        assert_eq!(read(&["--no-w"]).unwrap(), [negated]);
        let time = |value| option(Id::Time, "--simtime", value, false);
        assert_eq!(
            read(&["--sim", "--simtime=3"]).unwrap(),
            [time(Value::None), time(Value::Real(3.0))]
        );
        let number = option(Id::Exit, "-x", Value::Integer(16), false);
        assert_eq!(read(&["-x", "0x10"]).unwrap(), [number]);
        let words = |word: &str| Item::Argument(word.into());
        assert_eq!(
            read(&["-", "a=b", "--", "-q"]).unwrap(),
            [words("-"), words("a=b"), words("-q")]
        );
    }

    #[test]
    fn wrong_options_have_clicks_messages() {
        for (line, message) in [
            (&["--bogus"][..], "unrecognized option '--bogus'"),
            (&["-qZ"], "unrecognized option '-Z'"),
            (&["-q=3"], "unrecognized option '-='"),
            (&["--no-quit"], "unrecognized option '--no-quit'"),
            (&["--no"], "unrecognized option '--no'"),
            (&["-e"], "'-e' requires an argument"),
            (&["--quit=3"], "'--quit' can't take an argument"),
            (&["--no-warn=3"], "'--no-warnings' can't take an argument"),
            (&["-x", "1.5"], "'-x' expects an integer, not '1.5'"),
            (&["--simtime="], "'--simtime' expects a real number, not ''"),
            (
                &["--ex"],
                "option '--ex' is ambiguous\n(Possibilities are '--expression' and '--exit'.)",
            ),
        ] {
            assert_eq!(read(line).unwrap_err(), message, "{line:?}");
        }
    }
}
