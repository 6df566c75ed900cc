//! What `linerate doctor` says about one aspect of the machine.

use serde::Serialize;

/// One aspect of the machine, judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Which aspect.
    pub name: &'static str,
    /// How good it is.
    pub status: Status,
    /// What was found.
    pub value: String,
    /// What it means for packet processing, if it is not as it could be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consequence: Option<String>,
    /// The command that helps, or what to do where no command does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// How good an aspect of the machine is.
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

    /// What it means.
    pub(super) fn so(self, consequence: impl Into<String>) -> Finding {
        Finding { consequence: Some(consequence.into()), ..self }
    }

    /// What to do about it.
    pub(super) fn fix(self, remedy: impl Into<String>) -> Finding {
        Finding { remedy: Some(remedy.into()), ..self }
    }
}
