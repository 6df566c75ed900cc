//! Arguments: their declarations, and the assignment of the arguments of a configuration string to
//! these.
//!
//! Click's rules: each declared argument in turn takes those given with its
//! keyword, of which the last counts; a positional one that was not given by
//! keyword takes the next argument without one. A positional argument that
//! must be given takes the next argument even if it looks like a keyword's.
//! Declared arguments that are [late](Arg::late) come after all others, and do not find
//! the arguments that those have taken.
//! The type of an argument (`value`), asked by the `builder`, decides the meaning of its text.

/// One configuration argument.
#[derive(Debug, Clone, Copy)]
pub struct Arg {
    /// Its keyword.
    pub name: &'static str,
    /// Whether and where it must be given.
    pub need: Need,
    /// Whether it is looked for among the arguments all others left ([`Arg::late`]).
    pub late: bool,
    /// Whether it says how many packets the element may hold ([`Arg::holds`]).
    pub holds: Holds,
    /// The kind of value, for people: `bool`, `packets`, `bandwidth`.
    pub kind: &'static str,
    /// The value that holds when it is not given, for people.
    pub default: &'static str,
    /// Its effect, in a line.
    pub help: &'static str,
}

impl Arg {
    /// A positional argument that must be given.
    pub const fn required(name: &'static str, kind: &'static str, help: &'static str) -> Arg {
        Arg {
            name,
            need: Need::Positional { required: true },
            late: false,
            holds: Holds::Nothing,
            kind,
            default: "",
            help,
        }
    }

    /// A positional argument that may be left out.
    pub const fn optional(
        name: &'static str,
        kind: &'static str,
        default: &'static str,
        help: &'static str,
    ) -> Arg {
        let need = Need::Positional { required: false };
        Arg { name, need, late: false, holds: Holds::Nothing, kind, default, help }
    }

    /// A keyword argument that may be left out.
    pub const fn keyword(
        name: &'static str,
        kind: &'static str,
        default: &'static str,
        help: &'static str,
    ) -> Arg {
        let need = Need::Keyword { required: false };
        Arg { name, need, late: false, holds: Holds::Nothing, kind, default, help }
    }

    /// All positional arguments from here on
    /// ([`ElementBuilder::rest`](crate::ElementBuilder::rest)).
    pub const fn rest(name: &'static str, kind: &'static str, help: &'static str) -> Arg {
        Arg { name, need: Need::Rest, late: false, holds: Holds::Nothing, kind, default: "", help }
    }

    /// Keywords of the other arguments may be written in front of it. In Click
    /// elements decide that one by one: most want positional arguments first.
    pub const fn late(self) -> Arg {
        Arg { late: true, ..self }
    }

    /// It is the number of packets that the element keeps when it is full: packet memory has
    /// room for them ([`Plan::packets_held`](crate::Plan::packets_held)).
    pub const fn holds(self) -> Arg {
        Arg { holds: Holds::Once, ..self }
    }

    /// Sets `Holds::ForEach`: packets are held for each word of the class's [`Arg::rest`], except
    /// those of an argument from a word `if` or `where` on.
    pub const fn holds_for_each(self) -> Arg {
        Arg { holds: Holds::ForEach, ..self }
    }
}

/// Whether an argument is a number of packets that the element keeps when it is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// It is not.
    Nothing,
    /// It is.
    Once,
    /// As many for each of several that the element names.
    ForEach,
}

/// Whether and where an argument must be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// By its place or by its keyword.
    Positional {
        /// Whether it must be given.
        required: bool,
    },
    /// By its keyword.
    Keyword {
        /// Whether it must be given.
        required: bool,
    },
    /// Every positional argument not taken by one before.
    Rest,
}

/// The arguments given to an element.
#[derive(Debug, Default)]
pub(crate) struct Arguments {
    /// As they were written.
    texts: Vec<String>,
    /// For each declared argument those given for it.
    given: Vec<(&'static str, Vec<Given>)>,
    /// Those given for none.
    left: Vec<usize>,
}

/// An argument given for a declared one.
#[derive(Debug, Clone, Copy)]
struct Given {
    /// Its place.
    at: usize,
    /// Start of its value, behind the keyword.
    from: usize,
}

impl Arguments {
    /// Gives `texts` to the `declared` arguments.
    pub(crate) fn assign(declared: &[Arg], texts: Vec<String>) -> Arguments {
        let keywords: Vec<usize> = texts.iter().map(|text| keyword_length(text)).collect();
        let mut free = vec![true; texts.len()];
        let mut given = Vec::new();
        for late in [false, true] {
            let places: Vec<usize> = (0..texts.len()).filter(|at| free[*at]).collect();
            // Those before are taken by their place; the next one's place is here.
            let mut place = 0;
            let asked = |arg: &&Arg| arg.need != Need::Rest && arg.late == late;
            for arg in declared.iter().filter(asked) {
                let mut taken = Vec::new();
                for (at, text) in texts.iter().enumerate() {
                    let length = keywords[at];
                    if free[at] && length > 0 && &text[..length] == arg.name {
                        free[at] = false;
                        taken.push(Given { at, from: value_start(text, length) });
                    }
                }
                if let Need::Positional { required } = arg.need
                    && let Some(&at) = places.get(place)
                {
                    let forced = required && taken.is_empty();
                    if free[at] && (forced || keywords[at] == 0) {
                        free[at] = false;
                        // Of the same one given twice, the later one counts.
                        taken.push(Given { at, from: 0 });
                        taken.sort_by_key(|given| given.at);
                        place += 1;
                    }
                }
                given.push((arg.name, taken));
            }
        }
        let left = (0..texts.len()).filter(|at| free[*at]).collect();
        Arguments { texts, given, left }
    }

    fn given(&self, name: &str) -> &[Given] {
        let found = self.given.iter().find(|(known, _)| *known == name);
        found.map_or(&[], |(_, given)| given)
    }

    /// The text of a declared argument and its place: the last one given.
    pub(crate) fn last(&self, name: &str) -> Option<(&str, usize)> {
        let given = self.given(name).last()?;
        Some((&self.texts[given.at][given.from..], given.at))
    }

    /// All texts given for a declared argument, in order, and their places.
    pub(crate) fn all(&self, name: &str) -> Vec<(String, usize)> {
        let text = |given: &Given| (self.texts[given.at][given.from..].to_owned(), given.at);
        self.given(name).iter().map(text).collect()
    }

    /// An argument as it was written, with its keyword.
    pub(crate) fn written(&self, at: usize) -> String {
        self.texts[at].clone()
    }

    /// Those that are for no declared argument, and their places.
    pub(crate) fn left(&self) -> impl Iterator<Item = (&str, usize)> {
        self.left.iter().map(|at| (self.texts[*at].as_str(), *at))
    }
}

/// The keyword an argument that is for nothing begins with, if any.
pub fn keyword(text: &str) -> Option<&str> {
    let length = keyword_length(text);
    (length > 0).then(|| &text[..length])
}

/// The length of the keyword at the start of an argument: 0 if there is none,
/// or nothing follows it.
fn keyword_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    if !bytes.first().is_some_and(|b| b.is_ascii_alphabetic() || *b == b'_') {
        return 0;
    }
    let allowed = |b: &u8| b.is_ascii_alphanumeric() || b"_:.?!".contains(b);
    let length = bytes.iter().take_while(|b| allowed(b)).count();
    let start = value_start(text, length);
    if start > length && start < text.len() { length } else { 0 }
}

/// Returns the offset of the value behind a keyword and the space that follows it.
fn value_start(text: &str, length: usize) -> usize {
    let space = |b: &&u8| b.is_ascii_whitespace() || **b == 0x0b;
    length + text.as_bytes()[length..].iter().take_while(space).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lang::config::split;

    const DECLARED: &[Arg] = &[
        Arg::required("A", "", ""),
        Arg::optional("B", "", "", ""),
        Arg::optional("C", "", "", ""),
        Arg::keyword("K", "", "", ""),
    ];

    /// Renders the text that each declared argument got, and the text left over.
    fn assigned(config: &str) -> String {
        assigned_to(DECLARED, config)
    }

    fn assigned_to(declared: &[Arg], config: &str) -> String {
        let arguments = Arguments::assign(declared, split(config));
        let mut out = Vec::new();
        for arg in declared {
            if let Some((text, _)) = arguments.last(arg.name) {
                out.push(format!("{}={text}", arg.name));
            }
        }
        out.extend(arguments.left().map(|(text, _)| format!("+{text}")));
        out.join(" ")
    }

    #[test]
    fn as_click_assigns() {
        for (config, expected) in [
            ("", ""),
            ("1", "A=1"),
            ("1, 2, 3", "A=1 B=2 C=3"),
            ("1, 2, 3, 4", "A=1 B=2 C=3 +4"),
            ("A 1, 2", "A=1 +2"),
            ("1, K 2", "A=1 K=2"),
            ("1, K 2, 3", "A=1 K=2 +3"),
            ("1, B 2, 3", "A=1 B=2 +3"),
            ("1, C 2, 3", "A=1 C=2 +3"),
            ("K 1, K 2, A 3", "A=3 K=2"),
            ("K 1", "A=K 1"),
            ("FOO 1", "A=FOO 1"),
            ("FOO 1, A 2", "A=2 +FOO 1"),
            ("1, FOO 2, 3", "A=1 +FOO 2 +3"),
            ("A", "A=A"),
            ("1, K", "A=1 B=K"),
            ("A 1, A 2", "A=2"),
            ("1, A 2", "A=2"),
            ("1, , K \t 'x y'", "A=1 B= K='x y'"),
        ] {
            assert_eq!(assigned(config), expected, "{config}");
        }
    }

    #[test]
    fn keywords_in_front_of_late_ones() {
        const LATE: &[Arg] = &[
            Arg::required("A", "", "").late(),
            Arg::keyword("K", "", "", ""),
            Arg::optional("B", "", "", "").late(),
        ];
        for (config, expected) in [
            ("K 1, 2, 3", "A=2 K=1 B=3"),
            ("2, K 1, 3", "A=2 K=1 B=3"),
            ("K 1, B 3, 2", "A=B 3 K=1 B=2"),
            ("K 1", "K=1"),
            ("K 1, 2, X 3", "A=2 K=1 +X 3"),
        ] {
            assert_eq!(assigned_to(LATE, config), expected, "{config}");
        }
    }

    #[test]
    fn all_of_a_repeated_keyword() {
        let arguments = Arguments::assign(DECLARED, split("1, K 2, K 3"));
        assert_eq!(arguments.all("K"), [("2".to_owned(), 1), ("3".to_owned(), 2)]);
        assert!(arguments.all("B").is_empty());
    }
}
