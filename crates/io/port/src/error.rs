//! Errors of ports, by the action that is left to the caller.

use std::io;

use linerate_linux::interface::InterfaceError;
use linerate_memory::MemoryError;

/// A port name that cannot be used as written.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum UriError {
    /// No name with a port it stands for.
    #[error("{text:?} is not NAME=PORT, as in 0=xdp:eth0")]
    Device {
        /// The text that was given.
        text: String,
    },
    /// Not `driver:name?options`.
    #[error("port {uri:?}: {reason}")]
    Syntax {
        /// The text.
        uri: String,
        /// The rule it breaks.
        reason: &'static str,
    },
    /// An option is given twice.
    #[error("port {uri:?}: option {option} is given twice")]
    Repeated {
        /// The text.
        uri: String,
        /// The option.
        option: String,
    },
    /// No such driver.
    #[error("port {uri:?}: there is no driver {driver:?}; drivers are {known}{suggestion}")]
    UnknownDriver {
        /// The port.
        uri: String,
        /// The driver asked for.
        driver: String,
        /// All drivers.
        known: String,
        /// `; did you mean ...?`, or nothing.
        suggestion: String,
    },
    /// The driver has no such option.
    #[error("port {uri}: there is no option {option:?}; options are: {known}{suggestion}")]
    UnknownOption {
        /// The port.
        uri: String,
        /// The option.
        option: String,
        /// The driver's options.
        known: String,
        /// `; did you mean ...?`, or nothing.
        suggestion: String,
    },
    /// The driver has the option for another case.
    #[error("port {uri}: option {option} is of use only {when}")]
    UselessOption {
        /// The port.
        uri: String,
        /// The option.
        option: String,
        /// When it is of use.
        when: &'static str,
    },
    /// An option's value is not of its kind.
    #[error("port {uri}: option {option}={value}: expected {expected}")]
    Value {
        /// The port.
        uri: String,
        /// The option.
        option: &'static str,
        /// Its value.
        value: String,
        /// The value expected.
        expected: String,
    },
}

/// Why a port could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The name is wrong.
    #[error(transparent)]
    Uri(#[from] UriError),
    /// There is no such interface, or it has gone.
    #[error("{port}: {source}")]
    NoInterface {
        /// The port.
        port: String,
        /// The error that names the interface, and those there are.
        source: InterfaceError,
    },
    /// The process may not do this.
    #[error("{port}: not permitted to {action}; {remedy}")]
    Permission {
        /// The port.
        port: String,
        /// The action that was refused.
        action: String,
        /// A remedy that would allow it.
        remedy: String,
    },
    /// The host itself uses the interface and would lose it, and that was not confirmed.
    #[error(
        "{port}: this takes what {interface} receives away from the host, which has {uses}: its \
         connections through {interface}, SSH too, stand still until the port is closed; confirm \
         it with --disconnect (or {port_confirmed}), or use packet:{interface}, which copies"
    )]
    Disconnects {
        /// The port.
        port: String,
        /// The interface.
        interface: String,
        /// The addresses and default routes.
        uses: String,
        /// The port's name with the option that confirms it.
        port_confirmed: String,
    },
    /// Another user has it.
    #[error("{port}: busy: {reason}")]
    Busy {
        /// The port.
        port: String,
        /// The user that has it, and the next step.
        reason: String,
    },
    /// The kernel, the interface or the settings do not allow it.
    #[error("{port}: {reason}")]
    Unsupported {
        /// The port.
        port: String,
        /// The reason, and an alternative.
        reason: String,
    },
    /// A file cannot be used.
    #[error("{port}: {reason}")]
    File {
        /// The port.
        port: String,
        /// The fault of the file.
        reason: String,
    },
    /// Memory is short.
    #[error("{port}: {source}")]
    Memory {
        /// The port.
        port: String,
        /// Why.
        source: MemoryError,
    },
    /// The kernel refused a step, for a reason none of the others names.
    #[error("{port}: {step}: {source}")]
    System {
        /// The port.
        port: String,
        /// The step that failed.
        step: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
}

/// An open port stopped working. Packets that could not be sent or received are counters, not
/// errors. No larger than a pointer: the result of a burst is returned in registers.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct PortError(Box<PortFault>);

impl PortError {
    /// Why.
    pub fn fault(&self) -> &PortFault {
        &self.0
    }

    /// Returns true if the port can be opened again once the interface is there and fits.
    pub fn comes_back(&self) -> bool {
        matches!(self.fault(), PortFault::Gone { .. } | PortFault::Changed { .. })
    }
}

impl From<PortFault> for PortError {
    #[cold]
    fn from(fault: PortFault) -> PortError {
        PortError(Box::new(fault))
    }
}

/// Why an open port stopped working.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PortFault {
    /// The interface was deleted: the port has to be opened again once there
    /// is a new one.
    #[error("{port}: the interface has gone")]
    Gone {
        /// The port.
        port: String,
    },
    /// The interface was changed so that the port no longer fits it: it has to
    /// be opened again.
    #[error("{port}: {reason}; open the port again")]
    Changed {
        /// The port.
        port: String,
        /// The change.
        reason: String,
    },
    /// The file being read or written failed.
    #[error("{port}: {reason}")]
    File {
        /// The port.
        port: String,
        /// The fault.
        reason: String,
    },
    /// The kernel refused a step.
    #[error("{port}: {step}: {source}")]
    System {
        /// The port.
        port: String,
        /// The step that failed.
        step: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
}
