//! Tally of the results of test programs, read from their output line by line.
//!
//! The format is that of the stable libtest harness. A test program that ends without its result
//! line (killed, aborted) counts as one failure.

use super::runner::FinishedJob;

/// The tests of one program, or of all that a `cargo test` runs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Number of tests passed.
    pub(super) passed: u64,
    /// Failed tests, as `program: test`.
    pub(super) failed: Vec<String>,
    /// Ignored tests with the reason given in their attribute.
    pub(super) ignored: Vec<Ignored>,
    /// The program that runs.
    program: String,
    /// Whether a program has begun and not yet reported its result.
    running: bool,
    /// Failures of the running program seen so far.
    failures: u64,
}

/// A test that was not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ignored {
    /// `program: test`.
    pub(super) test: String,
    /// The reason in its `#[ignore = "..."]`.
    pub(super) reason: String,
    /// Whether it is an example in the documentation.
    pub(super) documentation: bool,
}

impl Tally {
    /// Reads what a program has printed, and how it has ended.
    pub(super) fn read(ended: &FinishedJob) -> Self {
        let mut tally = Self { program: ended.label.title.clone(), ..Self::default() };
        let mut has_result = ended.label.is_cargo;
        for line in ended.output.lines() {
            if ended.label.is_cargo {
                tally.cargo_line(line);
            } else {
                tally.line(line);
            }
            has_result |= line.starts_with("test result: ");
        }
        let (title, end, is_success) = (&ended.label.title, &ended.end, ended.end.is_success());
        if tally.running || (is_success && !has_result) {
            tally.failed.push(format!("{}: ended without a result ({end})", tally.program));
        } else if !is_success && tally.failed.is_empty() {
            tally.failed.push(format!("{title}: failed without a failed test ({end})"));
        }
        tally
    }

    /// Adds those of other programs.
    pub(super) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed.extend(other.failed);
        self.ignored.extend(other.ignored);
    }

    /// Reads the next line of a `cargo test`, which names its programs.
    fn cargo_line(&mut self, line: &str) {
        let trimmed = line.trim_start();
        if let Some(rest) = trimmed.strip_prefix("Running ") {
            // `Running unittests src/lib.rs (target/debug/deps/linerate_memory-0123456789abcdef)`
            if let Some((what, path)) = rest.split_once(" (") {
                self.end();
                self.program = program_name(what, path);
            }
        } else if let Some(name) = trimmed.strip_prefix("Doc-tests ") {
            self.end();
            self.program = format!("{name} documentation");
        } else {
            self.line(line);
        }
    }

    /// Reads the next line of a test program.
    fn line(&mut self, line: &str) {
        if line.starts_with("running ") && line.contains(" test") {
            self.end();
            self.running = true;
        } else if let Some(rest) = line.strip_prefix("test result: ") {
            self.result(rest);
        } else if let Some(rest) = line.strip_prefix("test ") {
            self.test(rest);
        }
    }

    /// Ends a program that cargo ran: one still running then has died.
    fn end(&mut self) {
        if self.running {
            self.failed.push(format!("{}: ended without a result", self.program));
        }
        self.running = false;
        self.failures = 0;
    }

    /// `ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.00s`
    fn result(&mut self, rest: &str) {
        let count = |what: &str| -> u64 {
            rest.split([';', '.'])
                .filter_map(|part| part.trim().strip_suffix(what))
                .find_map(|number| number.trim().parse().ok())
                .unwrap_or(0)
        };
        self.passed += count(" passed");
        // A test's own output can hide its FAILED line; the count cannot be hidden.
        for _ in self.failures..count(" failed") {
            self.failed.push(format!("{}: a test whose name was not seen", self.program));
        }
        self.running = false;
        self.failures = 0;
    }

    /// `ring::tests::wraps ... ok`, `... FAILED` or `... ignored, needs root`.
    fn test(&mut self, rest: &str) {
        let Some((name, verdict)) = rest.rsplit_once(" ... ") else { return };
        let test = format!("{}: {}", self.program, name.trim_end_matches(" - should panic"));
        if verdict == "FAILED" {
            self.failures += 1;
            self.failed.push(test);
        } else if let Some(reason) = verdict.strip_prefix("ignored") {
            let reason = reason.trim_start_matches(", ");
            let reason = if reason.is_empty() { "ignored without a reason" } else { reason };
            let documentation = self.program.ends_with(" documentation");
            self.ignored.push(Ignored { test, reason: reason.to_owned(), documentation });
        }
    }
}

/// Returns `linerate_memory src/lib.rs` for cargo's line about a test program.
fn program_name(what: &str, path: &str) -> String {
    let file = path.trim_end_matches(')').rsplit('/').next().unwrap_or(path);
    let package = file.rsplit_once('-').map_or(file, |(name, _hash)| name);
    format!("{package} {}", what.trim_start_matches("unittests "))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;
    use std::time::Duration;

    use super::super::runner::{End, Label};
    use super::*;

    /// Of a cargo that ran this.
    fn read(text: &str) -> Tally {
        let mut ended = ended(text, exit(101));
        ended.label.is_cargo = true;
        Tally::read(&ended)
    }

    fn ended(output: &str, end: End) -> FinishedJob {
        let title = "crates/io/port/tests/xdp/main.rs".to_owned();
        let label = Label { title, step: "a step", rerun: String::new(), is_cargo: false };
        FinishedJob { label, output: output.to_owned(), time: Duration::ZERO, end }
    }

    fn exit(code: i32) -> End {
        End::Status(ExitStatus::from_raw(code << 8))
    }

    #[test]
    fn counts_passed_failed_and_ignored() {
        let tally = read(
            "     Running unittests src/lib.rs (target/debug/deps/linerate_memory-0a1b)\n\
             \n\
             running 4 tests\n\
             test ring::wraps ... ok\n\
             test ring::full - should panic ... ok\n\
             test pool::leaks ... FAILED\n\
             test lab::ping ... ignored, needs root\n\
             \n\
             test result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; \
             finished in 0.10s\n",
        );
        assert_eq!(tally.passed, 2);
        assert_eq!(tally.failed, ["linerate_memory src/lib.rs: pool::leaks"]);
        assert_eq!(
            tally.ignored,
            [Ignored {
                test: "linerate_memory src/lib.rs: lab::ping".into(),
                reason: "needs root".into(),
                documentation: false,
            }]
        );
    }

    #[test]
    fn a_program_that_dies_is_a_failure() {
        let tally = read(
            "     Running tests/xdp.rs (target/debug/deps/xdp-0a1b)\n\
             running 2 tests\n\
             test one ... ok\n\
             error: test failed, to rerun pass `-p linerate-port --test xdp`\n\
             \x20    Running tests/tap.rs (target/debug/deps/tap-0a1b)\n\
             running 1 test\n\
             test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n",
        );
        assert_eq!(tally.passed, 1);
        assert_eq!(tally.failed, ["xdp tests/xdp.rs: ended without a result"]);
    }

    #[test]
    fn a_failure_without_its_line_still_counts() {
        let tally = read(
            "     Running tests/xdp.rs (target/debug/deps/xdp-0a1b)\n\
             running 1 test\n\
             test one ... noise from the test FAILED?\n\
             test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out\n",
        );
        assert_eq!(tally.failed, ["xdp tests/xdp.rs: a test whose name was not seen"]);
    }

    #[test]
    fn documentation_tests_are_told_apart() {
        let tally = read(
            "   Doc-tests linerate_memory\n\
             running 2 tests\n\
             test crates/base/memory/src/ring.rs - ring (line 4) ... ok\n\
             test crates/base/memory/src/ring.rs - ring (line 9) ... ignored\n\
             test result: ok. 1 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n",
        );
        assert_eq!(tally.passed, 1);
        assert!(tally.ignored[0].documentation);
        assert_eq!(tally.ignored[0].reason, "ignored without a reason");
    }

    #[test]
    fn a_program_is_called_by_its_title_whatever_it_prints() {
        let text = "running 2 tests\n     Running one (two)\ntest one ... ok\ntest two ... FAILED\n\
                    test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out\n";
        let tally = Tally::read(&ended(text, exit(101)));
        assert_eq!(
            (tally.passed, tally.failed),
            (1, vec!["crates/io/port/tests/xdp/main.rs: two".into()])
        );
    }

    #[test]
    fn how_a_program_without_a_result_ended_is_told() {
        let failed = |text: &str, end: End| Tally::read(&ended(text, end)).failed;
        let name = "crates/io/port/tests/xdp/main.rs";
        let begun = "running 2 tests\ntest one ... ok\n";
        assert_eq!(
            failed(begun, End::Status(ExitStatus::from_raw(11))),
            [format!("{name}: ended without a result (signal: 11 (SIGSEGV))")]
        );
        assert_eq!(
            failed(begun, End::TooLong(Duration::from_secs(900))),
            [format!("{name}: ended without a result (killed after 900 s)")]
        );
        assert_eq!(
            failed(begun, exit(0)),
            [format!("{name}: ended without a result (exit status: 0)")]
        );
        // It ended before its tests began.
        assert_eq!(
            failed("", exit(0)),
            [format!("{name}: ended without a result (exit status: 0)")]
        );
        assert_eq!(
            failed("", End::NotRun("cannot start it: no memory".into())),
            [format!("{name}: failed without a failed test (cannot start it: no memory)")]
        );
        // A destructor after the last test.
        let good = "running 1 test\ntest one ... ok\n\
                    test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n";
        assert_eq!(
            failed(good, exit(1)),
            [format!("{name}: failed without a failed test (exit status: 1)")]
        );
        assert!(failed(good, exit(0)).is_empty());
    }

    #[test]
    fn tallies_are_added() {
        let good = "running 2 tests\ntest one ... ok\ntest two ... ignored, needs root\n\
                    test result: ok. 1 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n";
        let mut sum = Tally::read(&ended(good, exit(0)));
        sum.add(Tally::read(&ended(good, exit(0))));
        sum.add(read("error: no such package\n"));
        assert_eq!((sum.passed, sum.ignored.len()), (2, 2));
        assert_eq!(
            sum.failed,
            ["crates/io/port/tests/xdp/main.rs: failed without a failed test (exit status: 101)"]
        );
    }
}
