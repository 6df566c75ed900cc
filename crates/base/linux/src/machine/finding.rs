//! Findings of `linerate doctor`, each about one aspect of the machine.

use serde::Serialize;

/// One aspect of the machine, judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Name of the aspect.
    pub name: &'static str,
    /// Its status.
    pub status: Status,
    /// The value found.
    pub value: String,
    /// Consequence for packet processing, if it is not as it could be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consequence: Option<String>,
    /// The command that helps, or advice where no command does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// Status of an aspect of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// As good as it gets, or a fact that is neither good nor bad.
    Ok,
    /// Works, with less than could be had.
    Degraded,
    /// Something cannot be used.
    Missing,
}

impl Finding {
    /// All is well.
    pub(super) fn ok(name: &'static str, value: impl Into<String>) -> Finding {
        Finding { name, status: Status::Ok, value: value.into(), consequence: None, remedy: None }
    }

    /// Works, with less.
    pub(super) fn degraded(name: &'static str, value: impl Into<String>) -> Finding {
        Finding { status: Status::Degraded, ..Finding::ok(name, value) }
    }

    /// Cannot be used.
    pub(super) fn missing(name: &'static str, value: impl Into<String>) -> Finding {
        Finding { status: Status::Missing, ..Finding::ok(name, value) }
    }

    /// Adds the consequence.
    pub(super) fn consequence(self, consequence: impl Into<String>) -> Finding {
        Finding { consequence: Some(consequence.into()), ..self }
    }

    /// Adds the remedy.
    pub(super) fn remedy(self, remedy: impl Into<String>) -> Finding {
        Finding { remedy: Some(remedy.into()), ..self }
    }
}
