//! Rules: an action and an expression each.

use linerate_graph::{ElementBuilder, integer_in, unquoted};

use super::{
    compile,
    parser::Parser,
    primitive::{Finding, Findings},
    tree::Tree,
    words::{Dictionary, meant, split},
};
use crate::decision::{Formula, Program, Test, To};

/// A packet for which the tree holds goes there.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) to: To,
    /// `None` when it holds for all packets.
    pub(super) tree: Option<Tree>,
}

/// Rules of the arguments.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) rules: Vec<Rule>,
    /// Errors, and warnings.
    findings: Vec<PatternFinding>,
}

/// Message about a pattern.
#[derive(Debug)]
struct PatternFinding {
    pattern: usize,
    finding: Finding,
    /// Set if it follows from another fault of the pattern: words behind an unknown one are not
    /// understood either.
    follows: bool,
}

impl Rules {
    /// Reads rules for an element with so many outputs.
    pub(super) fn read(texts: &[String], outputs: usize, dictionary: Dictionary<'_>) -> Rules {
        let (mut rules, mut findings) = (Vec::new(), Vec::new());
        for (pattern, text) in texts.iter().enumerate() {
            let words = split(&unquoted(text));
            let mut found = Findings::default();
            let Some((action, words)) = words.split_first() else {
                found.error(format!("empty pattern {pattern}"));
                findings.extend(told(pattern, found));
                continue;
            };
            let to = read_action(action, outputs, &mut found);
            let tree = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
                [] | ["-" | "any" | "all"] => None,
                _ => Some(Parser::new(words, dictionary, &mut found).parse()),
            };
            rules.push(Rule { to, tree });
            for finding in &mut found.0 {
                let warning = if finding.is_error { "" } else { "warning: " };
                finding.text = format!("pattern {pattern}: {warning}{}", finding.text);
            }
            findings.extend(told(pattern, found));
        }
        Rules { rules, findings }
    }

    /// Returns the errors, a line each; empty when there are none.
    pub(super) fn errors(&self) -> Vec<&str> {
        let errors = self.findings.iter().filter(|told| told.finding.is_error);
        errors.map(|told| told.finding.text.as_str()).collect()
    }

    /// The first of these that does not follow from another.
    pub(super) fn first_error(&self) -> Option<&str> {
        let mut told = self.findings.iter().filter(|told| told.finding.is_error && !told.follows);
        told.next().map(|told| told.finding.text.as_str())
    }

    /// Reports the findings about patterns.
    pub(super) fn tell(&self, make: &mut ElementBuilder<'_>, patterns: &[String]) {
        for PatternFinding { pattern, finding, follows } in &self.findings {
            let text = finding.text.clone();
            match finding.is_error {
                true if *follows => make.error_follows(text),
                true => {
                    let word = finding.word.as_deref();
                    let help = word.and_then(meant).map(|word| format!("did you mean `{word}`?"));
                    let written = patterns.get(*pattern).map_or("", String::as_str);
                    make.error_at(text, written, word, help);
                }
                // Click's warning begins behind the pattern it is about.
                false => make.tell(text),
            }
        }
    }

    /// Returns the conditions of the rules; none if there is an error.
    pub(super) fn formulas(&self) -> Vec<(Formula, To)> {
        if !self.errors().is_empty() {
            return Vec::new();
        }
        let formula = |rule: &Rule| {
            let always = || Formula::Test(Test::ALWAYS);
            (rule.tree.as_ref().map_or_else(always, compile::formula), rule.to)
        };
        self.rules.iter().map(formula).collect()
    }
}

/// Returns the messages about a pattern. One error of it is reported: the first unknown word, or
/// else the first error.
fn told(pattern: usize, found: Findings) -> Vec<PatternFinding> {
    let at = |wanted: fn(&Finding) -> bool| found.0.iter().position(wanted);
    let first = at(|found| found.is_error && found.word.is_some()).or_else(|| at(|it| it.is_error));
    let told = found.0.into_iter().enumerate().map(|(at, finding)| {
        let follows = finding.is_error && Some(at) != first;
        PatternFinding { pattern, finding, follows }
    });
    told.collect()
}

/// The program of formulas.
pub(super) fn program(formulas: &[(Formula, To)]) -> Program {
    Program::first_rule(formulas, compile::place)
}

/// Parses the target of packets: `allow`, `deny`, `drop`, or the number of an output.
fn read_action(word: &str, outputs: usize, found: &mut Findings) -> To {
    match word {
        "allow" if outputs == 0 => {
            found.error("'allow' is meaningless, element has zero outputs");
            To::Never
        }
        "allow" => To::Output(0),
        "deny" | "drop" => To::Never,
        _ => match integer_in(word, 0, true).and_then(|number| i32::try_from(number).ok()) {
            Some(number) => match usize::try_from(number).ok().filter(|output| *output < outputs) {
                Some(output) => To::Output(output),
                None => {
                    found.error(format!("slot '{number}' out of range"));
                    To::Never
                }
            },
            None => {
                found.error_at(word, format!("unknown slot ID '{word}'"));
                To::Never
            }
        },
    }
}
