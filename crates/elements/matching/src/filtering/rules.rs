//! Rules: an action and an expression each.

use linerate_graph::{Make, integer_in, unquoted};

use super::{
    compile,
    parser::Parser,
    primitive::{Finding, Findings},
    tree::Tree,
    words::{Dictionary, split},
};
use crate::decision::{Formula, Program, Test, To};

/// A packet for which the tree holds goes there.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) to: To,
    /// `None` when it holds for all packets.
    pub(super) tree: Option<Tree>,
}

/// What arguments come to.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) rules: Vec<Rule>,
    /// What is wrong, and what is to be told.
    findings: Vec<Finding>,
}

impl Rules {
    /// Reads rules for an element with so many outputs.
    pub(super) fn read(texts: &[String], outputs: usize, dictionary: Dictionary<'_>) -> Rules {
        let (mut rules, mut findings) = (Vec::new(), Vec::new());
        for (number, text) in texts.iter().enumerate() {
            let words = split(&unquoted(text));
            let Some((action, words)) = words.split_first() else {
                findings.push(Finding::Error(format!("empty pattern {number}")));
                continue;
            };
            let mut found = Findings::default();
            let to = read_action(action, outputs, &mut found);
            let tree = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
                [] | ["-" | "any" | "all"] => None,
                _ => Some(Parser::new(words, dictionary, &mut found).parse()),
            };
            rules.push(Rule { to, tree });
            findings.extend(found.0.into_iter().map(|finding| match finding {
                Finding::Error(text) => Finding::Error(format!("pattern {number}: {text}")),
                Finding::Warning(text) => {
                    Finding::Warning(format!("pattern {number}: warning: {text}"))
                }
            }));
        }
        Rules { rules, findings }
    }

    /// What is wrong, a line each; empty when nothing is.
    pub(super) fn errors(&self) -> Vec<&str> {
        fn error(finding: &Finding) -> Option<&str> {
            match finding {
                Finding::Error(text) => Some(text),
                Finding::Warning(_) => None,
            }
        }
        self.findings.iter().filter_map(error).collect()
    }

    /// Says all that is to be said.
    pub(super) fn tell(&self, make: &mut Make<'_>) {
        for finding in &self.findings {
            match finding {
                Finding::Error(text) => make.error(text.clone()),
                // Click's warning begins behind the pattern it is about.
                Finding::Warning(text) => make.tell(text.clone()),
            }
        }
    }

    /// What the rules ask of packets; nothing where something is wrong.
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

/// The program of formulas.
pub(super) fn program(formulas: &[(Formula, To)]) -> Program {
    Program::first_rule(formulas, compile::place)
}

/// Where packets go: `allow`, `deny`, `drop`, or the number of an output.
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
                found.error(format!("unknown slot ID '{word}'"));
                To::Never
            }
        },
    }
}
