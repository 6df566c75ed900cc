//! Exceptions: cases that our switch fails, with the reason.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Deserialize;

/// Contents of `exceptions.toml`: reasons by files of cases, or single cases of them as `FILE
/// #NUMBER`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Exceptions {
    /// Cases that fail.
    fails: BTreeMap<String, String>,
    /// Cases that pass or fail by how fast the machine is, and its other load.
    may_fail: BTreeMap<String, String>,
}

impl Exceptions {
    pub(super) fn load() -> Result<Exceptions> {
        toml::from_str(include_str!("exceptions.toml")).context("exceptions.toml is not valid")
    }

    /// Returns the reason why a case fails.
    pub(super) fn reason(&self, file: &str, number: usize) -> Option<&str> {
        let case = format!("{file} #{number}");
        let known = |key: &str| self.fails.get(key).or_else(|| self.may_fail.get(key));
        known(&case).or_else(|| known(file)).map(String::as_str)
    }

    /// Returns the cases listed as failing that pass: a case, or all of a file. Cases come with
    /// their file and number, and whether they have passed.
    pub(super) fn outdated<'a>(
        &self,
        cases: impl Iterator<Item = (&'a str, usize, bool)> + Clone,
    ) -> Vec<&str> {
        let passes = |key: &&String| {
            let mut of = cases
                .clone()
                .filter(|(file, number, _)| *key == file || **key == format!("{file} #{number}"))
                .peekable();
            of.peek().is_some() && of.all(|(_, _, passed)| passed)
        };
        self.fails.keys().filter(passes).map(String::as_str).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_is_no_exception_but_where_it_may_fail() {
        let exceptions: Exceptions = toml::from_str(
            "[fails]\n\"match: a\" = \"one\"\n\"match: b #2\" = \"two\"\n\"match: d\" = \"four\"\n\
             [may-fail]\n\"meter: c\" = \"three\"\n",
        )
        .expect("valid");
        let of = |file, number| exceptions.reason(file, number);
        assert_eq!([of("match: a", 7), of("match: b", 2)], [Some("one"), Some("two")]);
        assert_eq!([of("match: b", 1), of("meter: c", 1)], [None, Some("three")]);
        let cases = |second| {
            [
                ("match: a", 1, true),
                ("match: a", 2, second),
                ("match: b", 1, false),
                ("match: b", 2, second),
                ("meter: c", 1, true),
            ]
        };
        assert!(exceptions.outdated(cases(false).into_iter()).is_empty());
        assert_eq!(exceptions.outdated(cases(true).into_iter()), ["match: a", "match: b #2"]);
    }

    #[test]
    fn the_file_is_valid() {
        Exceptions::load().expect("valid");
    }
}
