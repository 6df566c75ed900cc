//! Precedence over other programs on the machine while a measurement runs.
//!
//! The kernel shares processor time between sessions first and between their processes after, so
//! `nice` does nothing against a build in another terminal; the priority of the session does.

use std::fs;

use super::restore::RestoreOnDrop;

const AUTOGROUP: &str = "/proc/self/autogroup";

/// The highest priority for this session, until dropped.
#[derive(Debug)]
pub(crate) struct Priority {
    _undo: Option<RestoreOnDrop>,
}

impl Priority {
    /// Raises it where that is allowed; says so where it is not.
    pub(crate) fn raise() -> Self {
        let before = fs::read_to_string(AUTOGROUP).ok().and_then(|text| nice(&text));
        let Some(before) = before.filter(|_| fs::write(AUTOGROUP, "-20").is_ok()) else {
            eprintln!(
                "no precedence over other programs ({AUTOGROUP} cannot be written): keep the \
                 machine quiet"
            );
            return Priority { _undo: None };
        };
        let undo = RestoreOnDrop::by(move || {
            // Lowering one's own priority is always allowed.
            let _ = fs::write(AUTOGROUP, before.to_string());
        });
        Priority { _undo: Some(undo) }
    }
}

/// The file reads `/autogroup-25 nice 0`.
fn nice(text: &str) -> Option<i32> {
    text.split_once("nice ")?.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priority_of_the_session_is_read() {
        assert_eq!(nice("/autogroup-25 nice 0\n"), Some(0));
        assert_eq!(nice("/autogroup-7 nice -20\n"), Some(-20));
        assert_eq!(nice(""), None);
    }
}
