//! Tests that are ignored when their program is run plainly, and the passes that run them.
//!
//! The reason in a test's `#[ignore = "needs root, alone"]` says what it needs, and behind a comma in
//! which pass it is run. libtest prints the reason of a test that it passes over, and nowhere else:
//! a program is asked for the names of its ignored tests, and then to run exactly these, which it
//! does not. So the attribute is the one place that decides, a test is not moved by a new name, and no
//! program is linked for a pass.

use anyhow::{Context, Result, bail};

use super::programs::Program;
use crate::shell;

/// Pass over the ignored tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pass {
    /// Those that mostly wait for packets: several at a time.
    Ordinary,
    /// Those that wait for entries to get old, by the clock: they leave the processors alone and
    /// want others to, so all of them run at once and nothing beside them.
    Waits,
    /// Those that measure, keep up rates, open all files a process may or change a setting of the
    /// machine, each of which has it to itself.
    Alone,
}

/// Ignored tests of a program.
#[derive(Debug)]
pub(super) struct IgnoredTests<'a> {
    pub(super) program: &'a Program,
    tests: Vec<(String, Pass)>,
}

impl<'a> IgnoredTests<'a> {
    /// Asks a program.
    pub(super) fn list(program: &'a Program) -> Result<Self> {
        let ask = |arguments: &[&str]| {
            // An exit status other than 0 is an error: nothing is run.
            shell::output(program.command().args(arguments))
                .with_context(|| format!("{} does not list its ignored tests", program.source))
        };
        let names = ask(&["--ignored", "--list", "--format=terse"])?;
        let names: Vec<_> = names.lines().filter_map(|line| line.strip_suffix(": test")).collect();
        let mut tests = Vec::new();
        if !names.is_empty() {
            let reasons = ask(&[&["--exact"][..], &names[..]].concat())?;
            for name in names {
                let reason = reason(&reasons, name)
                    .with_context(|| format!("{} gives no reason for {name}", program.source))?;
                let pass = pass(reason)
                    .with_context(|| format!("{}: `#[ignore]` of {name}", program.source))?;
                tests.push((name.to_owned(), pass));
            }
        }
        Ok(Self { program, tests })
    }

    /// The arguments that run the tests of a pass, so many at a time; none if there is no such test.
    pub(super) fn arguments(&self, pass: Pass, at_a_time: usize) -> Option<Vec<String>> {
        let names = self.tests.iter().filter(|(_, theirs)| *theirs == pass);
        let names: Vec<_> = names.map(|(name, _)| name.clone()).collect();
        let options = ["--ignored".into(), "--exact".into(), format!("--test-threads={at_a_time}")];
        (!names.is_empty()).then(|| options.into_iter().chain(names).collect())
    }
}

/// The reason that a program gives for an ignored test: empty where there is none.
fn reason<'a>(output: &'a str, name: &str) -> Option<&'a str> {
    output.lines().find_map(|line| {
        let rest = line.strip_prefix("test ")?.strip_prefix(name)?;
        // Of a test that should panic, that is said in between.
        let rest = rest.strip_prefix(" - should panic").unwrap_or(rest);
        let reason = rest.strip_prefix(" ... ignored")?;
        Some(reason.strip_prefix(", ").unwrap_or(reason))
    })
}

/// The pass that a reason asks for.
fn pass(reason: &str) -> Result<Pass> {
    match reason.split_once(", ") {
        None => Ok(Pass::Ordinary),
        Some((_, "waits")) => Ok(Pass::Waits),
        Some((_, "alone")) => Ok(Pass::Alone),
        Some((_, word)) => bail!("`{word}` is no pass: write `waits` or `alone`, or no comma"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_names_the_pass() {
        assert_eq!(pass("needs root").unwrap(), Pass::Ordinary);
        assert_eq!(pass("").unwrap(), Pass::Ordinary);
        assert_eq!(pass("needs root, waits").unwrap(), Pass::Waits);
        assert_eq!(pass("needs root, alone").unwrap(), Pass::Alone);
        assert!(pass("needs root, lone").unwrap_err().to_string().contains("`lone` is no pass"));
    }

    #[test]
    fn reasons_are_those_of_the_whole_name() {
        let output = "\nrunning 4 tests\n\
                      test lab::rates ... ignored, needs root\n\
                      test lab::rates::of_two ... ignored, needs root, alone\n\
                      test lab::late - should panic ... ignored, needs root, waits\n\
                      test lab ... ignored\n";
        assert_eq!(reason(output, "lab::rates::of_two"), Some("needs root, alone"));
        assert_eq!(reason(output, "lab::rates"), Some("needs root"));
        assert_eq!(reason(output, "lab::late"), Some("needs root, waits"));
        assert_eq!(reason(output, "lab"), Some(""));
        assert_eq!(reason(output, "lab::rate"), None);
    }

    /// This program's own are those of the measurement of live frames.
    #[test]
    fn a_program_tells_its_ignored_tests() {
        let program = Program::this();
        let ignored = IgnoredTests::list(&program).unwrap();
        let arguments = ignored.arguments(Pass::Ordinary, 7).expect("there are some");
        assert_eq!(arguments[..3], ["--ignored", "--exact", "--test-threads=7"]);
        assert!(arguments[3..].iter().all(|name| name.starts_with("bench::live_frames::")));
        assert_eq!(ignored.arguments(Pass::Waits, 7), None);
    }
}
