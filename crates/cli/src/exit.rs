//! Exit codes: the kind of a program's end, for scripts.

use std::{io, process::ExitCode};

use linerate_cluster::BrokerError;
use linerate_graph::{
    BuildError,
    lang::{Cause, Diagnostic, Diagnostics, Severity, SourceMap},
};
use linerate_linux::{RuntimeDirectoryError, interface::InterfaceError};
use linerate_memory::MemoryError;
use linerate_port::{OpenError, PortError, PortFault};

use crate::terminal;

/// Text for the help pages; the codes are those of [`Code`].
pub(crate) const HELP: &str = "\
Exit codes:
  0  done, or stopped by a signal after cleaning up
  1  failed for a reason that has no code of its own
  2  the command line or a port name is wrong
  3  not permitted
  4  no such interface, or it has gone
  5  a file cannot be read or written, or nothing listens at a socket
  6  not enough memory
  7  the port is in use or cannot do what was asked
  8  the configuration is wrong
  9  the host would lose its connections, and nobody said --disconnect";

/// End of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    Failure = 1,
    Usage = 2,
    Permission = 3,
    NoInterface = 4,
    File = 5,
    Memory = 6,
    Unavailable = 7,
    Configuration = 8,
    Disconnects = 9,
}

/// All of them.
#[cfg(any(test, feature = "commands"))]
const CODES: [Code; 9] = [
    Code::Failure,
    Code::Usage,
    Code::Permission,
    Code::NoInterface,
    Code::File,
    Code::Memory,
    Code::Unavailable,
    Code::Configuration,
    Code::Disconnects,
];

impl From<Code> for ExitCode {
    fn from(code: Code) -> ExitCode {
        ExitCode::from(code as u8)
    }
}

/// The command line asks for something that makes no sense.
#[derive(Debug)]
pub(crate) struct UsageError(pub(crate) String);

impl std::fmt::Display for UsageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// An error told by another process of ours, or of a configuration that the user has not seen.
#[cfg(feature = "commands")]
#[derive(Debug)]
pub(crate) struct ReportedError {
    code: Code,
    text: String,
}

#[cfg(feature = "commands")]
impl ReportedError {
    /// An error with the code of the process that ended for it.
    pub(crate) fn new(code: &serde_json::Value, text: &str) -> ReportedError {
        let known = CODES.into_iter().find(|known| code.as_u64() == Some(*known as u64));
        ReportedError::with_code(known.unwrap_or(Code::Failure), text)
    }

    pub(crate) fn with_code(code: Code, text: &str) -> ReportedError {
        ReportedError { code, text: text.into() }
    }
}

#[cfg(feature = "commands")]
impl std::fmt::Display for ReportedError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(feature = "commands")]
impl std::error::Error for ReportedError {}

/// A configuration that cannot be run.
#[derive(Debug)]
pub(crate) struct ConfigurationError {
    errors: usize,
    /// The cause of all errors, where it is one thing.
    cause: Option<Cause>,
    /// Set if its text is wrong, and not the options or ports it names.
    in_text: bool,
    /// Its errors, marked in its source.
    text: String,
    /// Its errors without the source.
    #[cfg(feature = "commands")]
    brief: String,
}

impl ConfigurationError {
    /// From the messages of reading it; in colours where standard error shows them.
    pub(crate) fn new(found: &Diagnostics, sources: &SourceMap) -> ConfigurationError {
        let placed = |found: &Diagnostic| found.severity == Severity::Error && found.is_placed();
        let cause = found.cause().filter(|_| !found.iter().any(placed));
        let (in_text, text) = match cause {
            Some(cause) => (false, cause.to_string()),
            None => (true, found.rich(sources, terminal::colours())),
        };
        let unset = unset_variables(&text, sources);
        let text = match unset.first() {
            Some(first) => format!(
                "{}\n\nset {} to an interface of this machine, as in {first}=eth1",
                text.trim_end(),
                unset.join(" and "),
            ),
            None => text,
        };
        ConfigurationError {
            in_text,
            errors: found.errors_told(),
            cause: found.cause().cloned(),
            text,
            #[cfg(feature = "commands")]
            brief: brief_of(found),
        }
    }

    /// The code of a port or an interface that the configuration needs and cannot have; else that
    /// of a wrong configuration.
    fn code(&self) -> Code {
        match self.code_of_cause() {
            None | Some(Code::Usage | Code::Failure) => Code::Configuration,
            Some(code) => code,
        }
    }

    fn code_of_cause(&self) -> Option<Code> {
        let cause = self.cause.as_ref().map(Cause::error);
        std::iter::successors(cause, |cause| cause.source()).find_map(code_of_cause)
    }

    /// Returns true if the text of an address, port or name in it is wrong.
    #[cfg(feature = "commands")]
    pub(crate) fn is_usage(&self) -> bool {
        self.code_of_cause() == Some(Code::Usage)
    }

    /// The thing that this machine lacks and another may have, if that is the only error.
    #[cfg(feature = "commands")]
    pub(crate) fn missing_here(&self) -> Option<String> {
        let cause = self.cause.as_ref().filter(|_| self.code() != Code::Configuration);
        cause.map(ToString::to_string)
    }

    /// Its errors, for a user who has not seen the configuration.
    #[cfg(feature = "commands")]
    pub(crate) fn brief(&self) -> &str {
        if self.in_text { &self.brief } else { &self.text }
    }

    /// From the error that kept the elements from being made.
    pub(crate) fn from_build_error(error: BuildError, sources: &SourceMap) -> anyhow::Error {
        match error {
            BuildError::Configuration(found) => ConfigurationError::new(&found, sources).into(),
            other => other.into(),
        }
    }
}

impl std::fmt::Display for ConfigurationError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.in_text {
            return f.write_str(&self.text);
        }
        let plural = if self.errors == 1 { "" } else { "s" };
        write!(f, "the configuration has {} error{plural}\n\n", self.errors)?;
        f.write_str(self.text.trim_end())
    }
}

impl std::error::Error for ConfigurationError {}

/// The variables of a configuration that have their defaults, which are interfaces that an error misses.
fn unset_variables<'a>(error: &str, sources: &'a SourceMap) -> Vec<&'a str> {
    let mut unset: Vec<&str> = sources
        .texts()
        .flat_map(|text| text.split('$').skip(1))
        .filter_map(|behind| behind.split_once(' '))
        .filter_map(|(name, rest)| Some((name, rest.split([',', ')', ' ', '\n']).next()?)))
        .filter(|(_, default)| error.contains(&format!("there is no interface {default:?} in")))
        .map(|(name, _)| name)
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'))
        .collect();
    unset.dedup();
    unset
}

/// The errors, without their places.
#[cfg(feature = "commands")]
fn brief_of(found: &Diagnostics) -> String {
    let errors = found.iter().filter(|found| found.severity == Severity::Error);
    errors.map(|error| error.message.as_str()).collect::<Vec<_>>().join("; ")
}

/// A configuration that is not there.
pub(crate) fn cannot_read(name: &str, error: io::Error) -> anyhow::Error {
    anyhow::Error::from(error).context(format!("cannot read {name}"))
}

/// A file that cannot be written.
pub(crate) fn cannot_write(path: &std::path::Path, error: io::Error) -> anyhow::Error {
    anyhow::Error::from(error).context(format!("cannot write {}", path.display()))
}

/// The code for an error, by the first cause that has one.
pub(crate) fn code_of(error: &anyhow::Error) -> Code {
    error.chain().find_map(code_of_cause).unwrap_or(Code::Failure)
}

fn code_of_cause(cause: &(dyn std::error::Error + 'static)) -> Option<Code> {
    if cause.is::<UsageError>() {
        return Some(Code::Usage);
    }
    if let Some(error) = cause.downcast_ref::<ConfigurationError>() {
        return Some(error.code());
    }
    if cause.is::<RuntimeDirectoryError>() {
        return Some(Code::File);
    }
    #[cfg(feature = "commands")]
    if let Some(told) = cause.downcast_ref::<ReportedError>() {
        return Some(told.code);
    }
    if let Some(error) = cause.downcast_ref::<MemoryError>() {
        return Some(match error {
            MemoryError::Option { .. } => Code::Usage,
            _ => Code::Memory,
        });
    }
    if let Some(error) = cause.downcast_ref::<OpenError>() {
        return Some(match error {
            OpenError::Uri(_) => Code::Usage,
            OpenError::NoInterface { .. } => Code::NoInterface,
            OpenError::Permission { .. } => Code::Permission,
            OpenError::Disconnects { .. } => Code::Disconnects,
            OpenError::Busy { .. } | OpenError::Unsupported { .. } => Code::Unavailable,
            OpenError::File { .. } => Code::File,
            OpenError::Memory { .. } => Code::Memory,
            _ => Code::Failure,
        });
    }
    if let Some(error) = cause.downcast_ref::<PortError>() {
        return Some(match error.fault() {
            PortFault::Gone { .. } => Code::NoInterface,
            PortFault::File { .. } => Code::File,
            PortFault::Changed { .. } => Code::Unavailable,
            _ => Code::Failure,
        });
    }
    if let Some(error) = cause.downcast_ref::<InterfaceError>() {
        return Some(match error {
            InterfaceError::Unknown { .. } | InterfaceError::Gone { .. } => Code::NoInterface,
            InterfaceError::NotPermitted { .. } => Code::Permission,
            _ => Code::Failure,
        });
    }
    if let Some(error) = cause.downcast_ref::<BrokerError>() {
        return Some(match error {
            BrokerError::Address(_) => Code::Usage,
            BrokerError::InUse(_) | BrokerError::NoSocket(_) => Code::Unavailable,
            BrokerError::System { source, .. } => code_of_io(source),
            _ => Code::Failure,
        });
    }
    #[cfg(feature = "commands")]
    if let Some(code) = code_of_controller(cause) {
        return Some(code);
    }
    #[cfg(feature = "commands")]
    if let Some(code) = code_of_client(cause) {
        return Some(code);
    }
    #[cfg(feature = "commands")]
    if let Some(code) = code_of_lab(cause) {
        return Some(code);
    }
    cause.downcast_ref::<io::Error>().map(code_of_io)
}

fn code_of_io(error: &io::Error) -> Code {
    match error.kind() {
        io::ErrorKind::PermissionDenied => Code::Permission,
        io::ErrorKind::AddrInUse => Code::Unavailable,
        _ => Code::File,
    }
}

/// The code of a controller's connection to a switch.
#[cfg(feature = "commands")]
fn code_of_controller(cause: &(dyn std::error::Error + 'static)) -> Option<Code> {
    use linerate_ofswitch::control::{ClientError, TlsError};
    match cause.downcast_ref::<ClientError>()? {
        ClientError::Connect { error, .. } => Some(code_of_io(error)),
        ClientError::Tls(TlsError::File { .. }) => Some(Code::File),
        _ => None,
    }
}

/// The code of a client's connection to a cluster's server.
#[cfg(feature = "commands")]
fn code_of_client(cause: &(dyn std::error::Error + 'static)) -> Option<Code> {
    use linerate_client::{ClientError, Reason};
    Some(match cause.downcast_ref::<ClientError>()? {
        ClientError::Address(_) => Code::Usage,
        ClientError::Connect { source, .. } => code_of_io(source),
        ClientError::ServerGone | ClientError::Ended(_) => Code::Unavailable,
        ClientError::Refused { reason, .. } => match reason {
            Reason::Unknown | Reason::Protocol => Code::Usage,
            Reason::NotGranted | Reason::Stranger => Code::Permission,
            _ => Code::Unavailable,
        },
        _ => Code::Failure,
    })
}

/// The code of an error in the lab.
#[cfg(feature = "commands")]
fn code_of_lab(cause: &(dyn std::error::Error + 'static)) -> Option<Code> {
    use linerate_lab::{
        connections::EndpointError, experiment::ExperimentError, point::SpecError,
        store::StoreError,
    };
    if cause.is::<EndpointError>() {
        return Some(Code::Memory);
    }
    if cause.is::<SpecError>() {
        return Some(Code::Configuration);
    }
    if let Some(error) = cause.downcast_ref::<ExperimentError>() {
        return Some(match error {
            ExperimentError::File { .. } => Code::File,
            ExperimentError::Unknown { .. } => Code::Usage,
            _ => Code::Configuration,
        });
    }
    cause.downcast_ref::<StoreError>().map(|error| match error {
        StoreError::InUse(_) => Code::Unavailable,
        StoreError::OtherMachine { .. } => Code::Usage,
        _ => Code::File,
    })
}

/// Ends a program: prints the error, if there is one, and gives its kind to scripts.
pub(crate) fn end(program: &str, done: anyhow::Result<()>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{program}: error: {}", text_of(&error));
            code_of(&error).into()
        }
    }
}

/// An error's text with those of its causes. A cause that the text has already is left out.
pub(crate) fn text_of(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |text, cause| match text {
        text if text.is_empty() => cause,
        text if text.contains(&cause) => text,
        text => format!("{text}: {cause}"),
    })
}

/// Returns true if the reader of our output has gone: no reason to complain.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let broken = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
    };
    error.chain().any(broken)
}

#[cfg(test)]
mod tests {
    use anyhow::Context;
    use linerate_graph::lang::{Landmark, Span};

    use super::*;

    #[test]
    fn the_cause_decides_however_deep() {
        let source = InterfaceError::Unknown { name: "x".into(), hint: String::new() };
        let open = OpenError::NoInterface { port: "packet:x".into(), source };
        let error = anyhow::Error::from(open).context("opening");
        assert_eq!(code_of(&error), Code::NoInterface);
        let memory = MemoryError::TooLarge { wanted: 2, available: 1 };
        assert_eq!(code_of(&Err::<(), _>(memory).context("x").unwrap_err()), Code::Memory);
        assert_eq!(code_of(&anyhow::anyhow!("else")), Code::Failure);
    }

    /// The code holds also where an element could not be initialized for that reason.
    #[test]
    fn a_configuration_that_disconnects_the_host_has_its_code() {
        let refused = OpenError::Disconnects {
            port: "xdp:eth0".into(),
            interface: "eth0".into(),
            uses: "192.0.2.1/24 on eth0".into(),
            port_confirmed: "xdp:eth0?disconnect=on".into(),
        };
        let text = "FromPort(xdp:eth0) -> Discard";
        let mut sources = SourceMap::new();
        let file = sources.add("config", text);
        let span = Span { file, start: 0, end: 18 };
        let landmark = Landmark { span, file: "config".into(), line: 1 };
        let mut found = Diagnostics::default();
        let mut error = Diagnostic::error(landmark, refused.to_string());
        error.cause = Some(Cause::new(refused));
        found.push(error);
        let error = anyhow::Error::from(ConfigurationError::new(&found, &sources));
        assert_eq!(code_of(&error), Code::Disconnects);
    }

    #[test]
    fn a_cause_is_said_once() {
        let missing = || io::Error::from_raw_os_error(2);
        let words = missing().to_string();
        let told = anyhow::anyhow!("cannot reach it: {words}").context("no switch");
        assert_eq!(text_of(&told), format!("no switch: cannot reach it: {words}"));
        let connect =
            linerate_client::ClientError::Connect { address: "@x".into(), source: missing() };
        let error = anyhow::Error::from(connect);
        assert_eq!(text_of(&error), format!("cannot connect to a cluster at @x: {words}"));
        assert_eq!(code_of(&error), Code::File);
        let plain = anyhow::Error::from(missing()).context("cannot read x");
        assert_eq!(text_of(&plain), format!("cannot read x: {words}"));
    }

    #[test]
    fn every_code_is_in_the_help() {
        for code in CODES {
            assert!(HELP.contains(&format!("\n  {}  ", code as u8)), "{code:?}");
        }
    }
}
