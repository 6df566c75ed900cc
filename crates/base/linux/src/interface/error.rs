//! Errors of interfaces, by the action that is left to the caller.

use std::io;

use crate::suggest::closest;

/// Why something about an interface could not be found out or changed.
///
/// Every kind is told apart by the code that opens ports, so a new one is meant to make it fail to
/// compile.
#[derive(Debug, thiserror::Error)]
pub enum InterfaceError {
    /// There is no such interface in this network namespace.
    #[error("there is no interface {name:?} in this network namespace{hint}")]
    Unknown {
        /// The name asked for.
        name: String,
        /// `; did you mean eth0? available: eth0, lo`, or the part of it that
        /// can be said.
        hint: String,
    },
    /// The interface went away while it was being used.
    #[error("interface {interface} has gone")]
    Gone {
        /// Its name, or `#` and its index where only that is known.
        interface: String,
    },
    /// The process lacks a capability.
    #[error(
        "not permitted to {action} interface {interface}: needs {capability}; run as root, or \
         grant it as `linerate doctor` says"
    )]
    NotPermitted {
        /// The action that was refused, as a verb.
        action: &'static str,
        /// The interface.
        interface: String,
        /// The capability that would allow it.
        capability: &'static str,
    },
    /// The kernel refused a step for another reason.
    #[error("{step}: {source}")]
    System {
        /// The step that failed.
        step: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
}

impl InterfaceError {
    /// The error for a name that is not among `available`.
    pub(super) fn unknown(name: &str, available: &[String]) -> InterfaceError {
        let hint = if available.is_empty() {
            "; it has none".into()
        } else {
            let names = available.join(", ");
            match closest(name, available.iter().map(String::as_str)) {
                Some(meant) => format!("; did you mean {meant}? available: {names}"),
                None => format!("; available: {names}"),
            }
        };
        InterfaceError::Unknown { name: name.into(), hint }
    }

    /// The error for a step the kernel refused.
    pub(super) fn system(step: &'static str) -> impl Fn(io::Error) -> InterfaceError {
        move |source| InterfaceError::System { step, source }
    }

    /// The error for a change of `interface` the kernel refused.
    pub(super) fn change(
        action: &'static str,
        interface: &str,
        capability: &'static str,
        source: io::Error,
    ) -> InterfaceError {
        let interface = interface.to_owned();
        if source.kind() == io::ErrorKind::PermissionDenied {
            InterfaceError::NotPermitted { action, interface, capability }
        } else if source.raw_os_error() == Some(libc::ENODEV) {
            InterfaceError::Gone { interface }
        } else {
            InterfaceError::System { step: action, source }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_lists_the_interfaces() {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        for (name, available, hint) in [
            ("eht0", &["lo", "eth0"][..], "did you mean eth0? available: lo, eth0"),
            ("tap7\u{1b}[2J", &["lo"], "available: lo"),
            ("x", &[], "it has none"),
        ] {
            let error = InterfaceError::unknown(name, &names(available)).to_string();
            // Quoted and escaped: it is typed by a person and printed on a terminal.
            let named = format!("there is no interface {name:?} in this network namespace");
            assert_eq!(error, format!("{named}; {hint}"));
        }
    }

    #[test]
    fn a_refused_change_names_the_needed_capability() {
        let refused = |number| {
            InterfaceError::change(
                "set up",
                "eth0",
                "CAP_NET_ADMIN",
                io::Error::from_raw_os_error(number),
            )
        };
        assert_eq!(
            refused(libc::EPERM).to_string(),
            "not permitted to set up interface eth0: needs CAP_NET_ADMIN; run as root, or grant it \
             as `linerate doctor` says"
        );
        assert_eq!(refused(libc::ENODEV).to_string(), "interface eth0 has gone");
        assert!(matches!(refused(libc::EBUSY), InterfaceError::System { .. }));
    }
}
