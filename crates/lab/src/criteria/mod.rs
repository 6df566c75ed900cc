//! The shape criteria: what any machine must show if it is measured rightly,
//! whatever its figures are.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A criterion and what the points say to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Criterion {
    /// Its number, from 1.
    pub number: u32,
    /// What is expected.
    pub text: String,
    /// Whether it holds.
    pub verdict: Verdict,
    /// The figures it was judged by, or why it could not be.
    pub evidence: String,
    /// The figure that shows it.
    pub figure: Option<String>,
}

/// Whether a criterion holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It holds.
    Pass,
    /// It does not.
    Fail,
    /// This machine cannot show it, or it was not measured.
    CannotShow,
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Verdict::Pass => "pass",
            Verdict::Fail => "fail",
            Verdict::CannotShow => "cannot be shown here",
        })
    }
}
