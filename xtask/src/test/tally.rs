//! Tally of the results of `cargo test`, read from its output line by line.
//!
//! The format is that of the stable libtest harness. A test program that ends without its result
//! line (killed, aborted) counts as one failure.

/// The tests of one `cargo test`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Number of tests passed.
    pub(super) passed: u64,
    /// Failed tests, as `program: test`.
    pub(super) failed: Vec<String>,
    /// Ignored tests with the reason given in their attribute.
    pub(super) ignored: Vec<Ignored>,
    /// The program that cargo runs.
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
    /// Reads the next line.
    pub(super) fn line(&mut self, line: &str) {
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
        } else if line.starts_with("running ") && line.contains(" test") {
            self.end();
            self.running = true;
        } else if let Some(rest) = line.strip_prefix("test result: ") {
            self.result(rest);
        } else if let Some(rest) = line.strip_prefix("test ") {
            self.test(rest);
        }
    }

    /// Ends the input: a program still running then has died.
    pub(super) fn end(&mut self) {
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
    use super::*;

    fn read(text: &str) -> Tally {
        let mut tally = Tally::default();
        for line in text.lines() {
            tally.line(line);
        }
        tally.end();
        tally
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
             test crates/memory/src/ring.rs - ring (line 4) ... ok\n\
             test crates/memory/src/ring.rs - ring (line 9) ... ignored\n\
             test result: ok. 1 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n",
        );
        assert_eq!(tally.passed, 1);
        assert!(tally.ignored[0].documentation);
        assert_eq!(tally.ignored[0].reason, "ignored without a reason");
    }
}
