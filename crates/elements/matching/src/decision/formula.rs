//! Conditions on packets: tests, put together.

use super::{
    program::{Step, To},
    test::Test,
};

/// A condition on packets. Parts without any test in them do not count: they
/// are as good as not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Formula {
    Test(Test),
    Not(Box<Formula>),
    /// Likewise for packets long enough; those too short for a test get the answer they got
    /// without.
    NotIfWhole(Box<Formula>),
    All(Vec<Formula>),
    Any(Vec<Formula>),
    /// A condition, a formula for packets that fulfil it, another condition, and so on; the last
    /// formula is for the rest.
    Choose(Vec<Formula>),
}

impl Formula {
    /// The condition without tests.
    pub(crate) const EMPTY: Formula = Formula::All(Vec::new());

    /// Tests in it.
    pub(crate) fn tests(&self) -> usize {
        match self {
            Formula::Test(_) => 1,
            Formula::Not(of) | Formula::NotIfWhole(of) => of.tests(),
            Formula::All(parts) | Formula::Any(parts) | Formula::Choose(parts) => {
                parts.iter().map(Formula::tests).sum()
            }
        }
    }

    /// Adds the steps that lead to `yes` where it holds, and else to `no`.
    pub(super) fn emit(&self, steps: &mut Vec<Step>, yes: To, no: To) {
        self.emit_turned(steps, yes, no, false);
    }

    fn emit_turned(&self, steps: &mut Vec<Step>, yes: To, no: To, turned: bool) {
        match self {
            Formula::Test(test) => {
                let test = Test { short: test.short != turned, ..*test };
                steps.push(Step { test, yes, no });
            }
            Formula::Not(of) => of.emit_turned(steps, no, yes, turned),
            Formula::NotIfWhole(of) => of.emit_turned(steps, no, yes, !turned),
            Formula::All(parts) | Formula::Any(parts) | Formula::Choose(parts) => {
                let parts: Vec<_> =
                    parts.iter().map(|part| (part, part.tests())).filter(|(_, n)| *n > 0).collect();
                let mut at = 0;
                while let Some((part, tests)) = parts.get(at) {
                    let behind = steps.len() + tests;
                    let next = To::Step(behind);
                    at += 1;
                    let last = at == parts.len();
                    match self {
                        _ if last => part.emit_turned(steps, yes, no, turned),
                        Formula::All(_) => part.emit_turned(steps, next, no, turned),
                        Formula::Any(_) => part.emit_turned(steps, yes, next, turned),
                        _ if at + 1 == parts.len() => part.emit_turned(steps, next, no, turned),
                        _ => {
                            let (then, tests) = parts[at];
                            part.emit_turned(steps, next, To::Step(behind + tests), turned);
                            then.emit_turned(steps, yes, no, turned);
                            at += 1;
                        }
                    }
                }
            }
        }
    }
}
