//! Summary at the end of `cargo xtask test`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use super::tally::{Ignored, Tally};

/// Outcome of a step.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It ran to its end in this time, with any result of its tests.
    Ran(Duration),
    /// It ended without a verdict on its tests.
    Broken(String),
    /// It did not run, for this reason.
    NotRun(&'static str),
}

/// Steps in the order they ran, and notices on the way.
#[derive(Debug, Default)]
pub(super) struct Summary {
    steps: Vec<(&'static str, Outcome, Tally)>,
    notices: Vec<String>,
}

impl Summary {
    /// Enters a step.
    pub(super) fn step(&mut self, title: &'static str, outcome: Outcome, tally: Tally) {
        self.steps.push((title, outcome, tally));
    }

    /// Enters a step that was left out.
    pub(super) fn not_run(&mut self, title: &'static str, reason: &'static str) {
        self.step(title, Outcome::NotRun(reason), Tally::default());
    }

    /// Enters a step that ended without a verdict.
    pub(super) fn broken(&mut self, title: &'static str, error: &anyhow::Error) {
        self.step(title, Outcome::Broken(format!("{error:#}")), Tally::default());
    }

    /// Something the reader must know.
    pub(super) fn notice(&mut self, text: String) {
        eprintln!("\nNOTICE: {text}\n");
        self.notices.push(text);
    }

    /// Drops the ignored tests seen so far: a later step runs exactly these. Examples in the
    /// documentation stay, since no step runs them.
    pub(super) fn forget_ignored(&mut self) {
        for (_, _, tally) in &mut self.steps {
            tally.ignored.retain(|ignored| ignored.documentation);
        }
    }

    /// Returns true if all is well; with `complete`, only if everything ran, too.
    pub(super) fn success(&self, complete: bool) -> bool {
        self.failures() == 0 && !(complete && self.skipped() > 0)
    }

    fn passed(&self) -> u64 {
        self.steps.iter().map(|(_, _, tally)| tally.passed).sum()
    }

    fn failures(&self) -> usize {
        let broken =
            self.steps.iter().filter(|(_, outcome, _)| matches!(outcome, Outcome::Broken(_)));
        broken.count() + self.steps.iter().map(|(_, _, tally)| tally.failed.len()).sum::<usize>()
    }

    fn ignored(&self) -> impl Iterator<Item = &Ignored> {
        self.steps.iter().flat_map(|(_, _, tally)| &tally.ignored)
    }

    /// Ignored tests, and one for each step left out with tests that are not among them.
    fn skipped(&self) -> usize {
        let ignored = self.ignored().count();
        let steps =
            self.steps.iter().filter(|(_, outcome, _)| matches!(outcome, Outcome::NotRun(_)));
        // The root step's tests were seen as ignored by the step before it.
        let counted = steps.clone().filter(|(title, ..)| *title == super::ROOT && ignored > 0);
        ignored + steps.clone().count() - counted.count()
    }

    /// The text of the summary. Its last line is the plain count.
    pub(super) fn render(&self, complete: bool) -> String {
        let mut text = String::from("\n== Summary ==\n");
        // Writing to a String cannot fail.
        let _ = self.write(&mut text, complete);
        text
    }

    fn write(&self, text: &mut String, complete: bool) -> std::fmt::Result {
        for (title, outcome, tally) in &self.steps {
            match outcome {
                Outcome::Ran(time) if tally.failed.is_empty() && tally.passed == 0 => {
                    writeln!(text, "{title:<40} ok ({} s)", time.as_secs())?;
                }
                Outcome::Ran(time) => {
                    let (passed, failed) = (tally.passed, tally.failed.len());
                    let time = time.as_secs();
                    writeln!(text, "{title:<40} {passed} passed, {failed} failed ({time} s)")?;
                }
                Outcome::Broken(reason) => writeln!(text, "{title:<40} FAILED: {reason}")?,
                Outcome::NotRun(reason) => writeln!(text, "{title:<40} NOT RUN: {reason}")?,
            }
        }
        for (_, _, tally) in self.steps.iter().filter(|(_, _, tally)| !tally.failed.is_empty()) {
            writeln!(text, "\nFAILED:")?;
            for test in &tally.failed {
                writeln!(text, "  {test}")?;
            }
        }
        let mut reasons = BTreeMap::<&str, Vec<&str>>::new();
        for ignored in self.ignored() {
            reasons.entry(&ignored.reason).or_default().push(&ignored.test);
        }
        for (reason, tests) in reasons {
            writeln!(text, "\nNOT RUN: {} tests: {reason}", tests.len())?;
            for test in tests {
                writeln!(text, "  {test}")?;
            }
        }
        for notice in &self.notices {
            writeln!(text, "\nNOTICE: {notice}")?;
        }
        if complete && self.skipped() > 0 {
            writeln!(text, "\nFAILED: not everything ran, and all of it was required")?;
        }
        let (passed, failed) = (self.passed(), self.failures());
        match self.skipped() {
            0 => writeln!(text, "\n{passed} passed, {failed} failed"),
            skipped => writeln!(text, "\n{passed} passed, {failed} failed, {skipped} skipped"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ignored(documentation: bool) -> Ignored {
        Ignored { test: "port tap".into(), reason: "needs root".into(), documentation }
    }

    fn tally(passed: u64, failed: &[&str], ignored: Vec<Ignored>) -> Tally {
        let failed = failed.iter().map(|&test| test.to_owned()).collect();
        let mut tally = Tally::default();
        (tally.passed, tally.failed, tally.ignored) = (passed, failed, ignored);
        tally
    }

    fn last_line(summary: &Summary, complete: bool) -> String {
        summary.render(complete).lines().last().unwrap_or_default().to_owned()
    }

    #[test]
    fn all_well() {
        let mut summary = Summary::default();
        summary.step(
            "a",
            Outcome::Ran(Duration::from_secs(1)),
            tally(3, &[], vec![ignored(false)]),
        );
        summary.forget_ignored();
        summary.step(super::super::ROOT, Outcome::Ran(Duration::ZERO), tally(1, &[], vec![]));
        assert_eq!(last_line(&summary, true), "4 passed, 0 failed");
        assert!(summary.success(true));
    }

    #[test]
    fn a_failed_test_or_a_broken_step_fails() {
        let mut summary = Summary::default();
        summary.step("a", Outcome::Ran(Duration::ZERO), tally(3, &["x: y"], vec![]));
        summary.step("b", Outcome::Broken("no compiler".into()), tally(0, &[], vec![]));
        assert_eq!(last_line(&summary, false), "3 passed, 2 failed");
        assert!(!summary.success(false));
        assert!(summary.render(false).contains("FAILED:\n  x: y\n"));
    }

    #[test]
    fn what_did_not_run_is_counted_once_and_fails_where_all_is_required() {
        let mut summary = Summary::default();
        summary.step(
            "a",
            Outcome::Ran(Duration::ZERO),
            tally(3, &[], vec![ignored(false), ignored(false)]),
        );
        summary.not_run("loom", "--quick");
        summary.not_run(super::super::ROOT, "not root");
        assert_eq!(last_line(&summary, false), "3 passed, 0 failed, 3 skipped");
        assert!(summary.success(false));
        assert!(!summary.success(true));
        assert!(summary.render(true).contains("NOT RUN: 2 tests: needs root"));
    }

    #[test]
    fn ignored_documentation_is_never_forgotten() {
        let mut summary = Summary::default();
        summary.step("a", Outcome::Ran(Duration::ZERO), tally(1, &[], vec![ignored(true)]));
        summary.forget_ignored();
        assert_eq!(last_line(&summary, false), "1 passed, 0 failed, 1 skipped");
    }
}
