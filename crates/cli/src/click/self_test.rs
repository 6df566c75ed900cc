//! `CLPTest`: checks the reading of command lines, as the library's other elements of that kind
//! check lower layers. It is known to `click` alone, whose command lines these are.

use linerate_graph::{Class, DuplicateClass, ElementBuilder, Inert, Library};

use super::options::{Item, OptionType, Options, Quotes, Spec, Value};

const CLASS: Class = Class {
    name: "CLPTest",
    family: "selftest",
    summary: "checks how command lines are read",
    ports: "0/0",
    cost: "Nothing while packets are handled.",
    example: "CLPTest;\nScript(stop);",
    make: |make| Box::new(check(make)),
    ..Class::here()
};

/// The elements `click` knows.
pub(super) fn library(more: &[&'static Class]) -> Result<Library, DuplicateClass> {
    crate::library(more)?.with([&CLASS])
}

const fn spec(long: &'static str, short: char, value: OptionType) -> Spec<char> {
    Spec { long, short: Some(short), id: short, value, negate: true, whole: false }
}

static SPECS: &[Spec<char>] = &[
    spec("animal", 'a', OptionType::Text),
    spec("ant", 'n', OptionType::Integer),
    spec("bird", 'b', OptionType::Flag),
    spec("cat", 'c', OptionType::MaybeInteger),
];

/// Reads a command line: a letter for each option, a `!` in front of one turned round, and its
/// value behind it.
fn read(line: &str) -> Result<String, String> {
    let words = line.split_whitespace().map(String::from);
    let mut options = Options::new(SPECS, words, Quotes::plain());
    let mut out = Vec::new();
    while let Some(item) = options.next() {
        out.push(match item? {
            Item::Argument(word) => word,
            Item::Option { id, value, negated, .. } => {
                let sign = if negated { "!" } else { "" };
                let value = match value {
                    Value::None => String::new(),
                    Value::Text(text) => text,
                    Value::Integer(number) => number.to_string(),
                    Value::Real(number) => number.to_string(),
                };
                format!("{sign}{id}{value}")
            }
        });
    }
    Ok(out.join(" "))
}

fn check(make: &mut ElementBuilder<'_>) -> Inert {
    let cases = [
        ("--animal cow --bird x", Some("acow b x")),
        ("--animal=cow --no-bird", Some("acow !b")),
        ("--ani cow --b", Some("acow b")),
        ("-acow -b -n 3", Some("acow b n3")),
        ("-bn3 -bc", Some("b n3 b c")),
        ("-c7 --cat=8 --cat 9", Some("c7 c8 c 9")),
        ("-b -- -b --bird", Some("b -b --bird")),
        ("- -b", Some("- b")),
        // Several options fit, none fits, and a value is no number.
        ("--an 3", None),
        ("--dog", None),
        ("-n x", None),
        ("--animal", None),
    ];
    for (line, expected) in cases {
        let found = read(line);
        if found.as_deref().ok() != expected {
            make.error(format!("test '{line}' failed: {found:?}"));
            return Inert;
        }
    }
    make.tell("All tests pass!");
    Inert
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_passes_here() {
        let loaded = linerate_graph::load(
            "config",
            "CLPTest",
            &library(&[]).unwrap(),
            &Default::default(),
            &mut |_, _| Err(None),
        );
        assert!(loaded.plan.is_some());
        assert!(read("--an 3").unwrap_err().starts_with("option '--an' is ambiguous"));
    }
}
