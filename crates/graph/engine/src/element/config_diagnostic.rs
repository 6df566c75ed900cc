//! Diagnostics about elements while they are made: in Click's words, with the place in the text
//! that each is about, and the error behind it where there is one.

use std::fmt;

use linerate_linux::interface::{self, InterfaceError};

use super::Plan;
use crate::{
    lang::{
        Cause, Diagnostic, Diagnostics, Severity, Span,
        config::{places, split, words},
    },
    names::{Addresses, Names, device_ipv4, device_mac},
};

/// Something said about an element's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfigDiagnostic {
    /// The error, or else a remark.
    pub(crate) message: String,
    /// Error, warning or less.
    pub(crate) severity: Severity,
    /// The argument it is about, as it was written.
    pub(crate) argument: Option<String>,
    /// The word of it.
    pub(crate) word: Option<String>,
    /// The correction that was probably meant.
    pub(crate) help: Option<String>,
    /// Whether it only follows from one before.
    pub(crate) follows: bool,
    /// The error behind it.
    pub(crate) cause: Option<Cause>,
}

impl ConfigDiagnostic {
    pub(crate) fn error(message: impl Into<String>) -> ConfigDiagnostic {
        ConfigDiagnostic {
            message: message.into(),
            severity: Severity::Error,
            argument: None,
            word: None,
            help: None,
            follows: false,
            cause: None,
        }
    }
}

/// Reports diagnostics about an element, in Click's words.
pub(crate) fn report(
    plan: &Plan,
    names: &Names,
    at: usize,
    doing: &str,
    found: Vec<ConfigDiagnostic>,
    errors: &mut Diagnostics,
) {
    let element = &plan.elements[at];
    let context = format!("While {doing} '{} :: {}':", element.name, element.class.name);
    for diagnostic in found {
        let mut landmark = plan.flat.elements[at].landmark.clone();
        let argument = diagnostic.argument.as_deref();
        let span = argument.and_then(|text| span_of(plan, at, text, diagnostic.word.as_deref()));
        if let Some(span) = span {
            landmark.span = span;
        }
        let mut found = Diagnostic::error(landmark, diagnostic.message);
        found.severity = diagnostic.severity;
        found.follows = diagnostic.follows;
        let missing = || missing_address(names, &element.name, argument.unwrap_or(&element.config));
        found.cause = match found.severity {
            Severity::Error => diagnostic.cause.or_else(missing),
            _ => None,
        };
        errors.push(found.context(context.as_str()).help(diagnostic.help));
    }
}

/// Returns the span of an argument, or of a word of it, if it can be told: if its element's
/// configuration stands in the text as it is.
fn span_of(plan: &Plan, at: usize, argument: &str, word: Option<&str>) -> Option<Span> {
    let span = plan.flat.elements[at].landmark.span;
    let config = plan.elements[at].config.as_str();
    let text = plan.source.get(span.start..span.end).filter(|_| span.file == plan.flat.file)?;
    let start = text.rfind(config).filter(|_| !argument.is_empty())?;
    let number = split(config).iter().position(|text| text == argument)?;
    let place = places(config).into_iter().nth(number)?;
    let within = place.start + config[place].find(argument)?;
    let (from, length) = match word.and_then(|word| Some((find_word(argument, word)?, word))) {
        Some((from, word)) => (from, word.len()),
        None => (0, argument.len()),
    };
    let start = span.start + start + within + from;
    Some(Span { start, end: start + length, ..span })
}

/// Returns the offset of a word in a text, not as a part of a longer one.
fn find_word(text: &str, word: &str) -> Option<usize> {
    let joins = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let whole = |at: &usize| {
        let before = text[..*at].chars().next_back().is_some_and(joins);
        let behind = text[at + word.len()..].chars().next().is_some_and(joins);
        !(word.starts_with(joins) && before || word.ends_with(joins) && behind)
    };
    text.match_indices(word).map(|(at, _)| at).find(whole).filter(|_| !word.is_empty())
}

/// Returns the cause when a text means no address because it names one of an interface that the
/// configuration does not define: the interface is not there or has none.
fn missing_address(names: &Names, element: &str, text: &str) -> Option<Cause> {
    let separate = |c: char| c == ',' || c == '/' || c == '"' || c == '(' || c == ')';
    let mut words = words(text).into_iter().flat_map(|word| word.split(separate));
    words.find_map(|word| {
        let (name, suffix) = word.split_at(word.rfind(':').filter(|at| *at > 0)?);
        let wanted = AddressKind::new(&suffix.to_ascii_lowercase())?;
        if names.find(element, name, |known| wanted.is_in(known).then_some(())).is_some() {
            return None;
        }
        match interface::find(name) {
            Ok(_) if wanted.device_has(name) => None,
            Ok(_) => Some(Cause::new(NoAddress { name: name.into(), wanted })),
            Err(error @ InterfaceError::Unknown { .. }) => Some(Cause::new(error)),
            Err(_) => None,
        }
    })
}

/// An interface has no address of the kind wanted.
#[derive(Debug, thiserror::Error)]
#[error("interface {name} has no {wanted} address, and no AddressInfo says one for {name}")]
struct NoAddress {
    name: String,
    wanted: AddressKind,
}

/// The kind of address a suffix of a name means.
#[derive(Debug, Clone, Copy)]
enum AddressKind {
    Ethernet,
    Ipv4,
    Ipv4Prefix,
}

impl AddressKind {
    fn new(suffix: &str) -> Option<AddressKind> {
        match suffix {
            ":eth" | ":ether" | ":ethernet" => Some(AddressKind::Ethernet),
            ":ip" | ":ip4" => Some(AddressKind::Ipv4),
            ":net" | ":ipnet" | ":ip4net" | ":bcast" | ":gw" => Some(AddressKind::Ipv4Prefix),
            _ => None,
        }
    }

    fn is_in(self, known: &Addresses) -> bool {
        match self {
            AddressKind::Ethernet => known.mac.is_some(),
            AddressKind::Ipv4 => known.ipv4.is_some(),
            AddressKind::Ipv4Prefix => known.ipv4_net.is_some(),
        }
    }

    fn device_has(self, name: &str) -> bool {
        match self {
            AddressKind::Ethernet => device_mac(name).is_some(),
            AddressKind::Ipv4 | AddressKind::Ipv4Prefix => device_ipv4(name).is_some(),
        }
    }
}

impl fmt::Display for AddressKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if matches!(self, AddressKind::Ethernet) { "Ethernet" } else { "IPv4" })
    }
}

#[cfg(test)]
mod tests {
    use linerate_packet::MacAddr;

    use super::*;

    #[test]
    fn words_are_found_whole() {
        assert_eq!(find_word("allow tcpx tcp", "tcp"), Some(11));
        assert_eq!(find_word("a=b", "="), Some(1));
        assert_eq!(find_word("tcpx", "tcp"), None);
        assert_eq!(find_word("tcp", ""), None);
    }

    #[test]
    fn an_interface_that_has_no_such_address_is_named() {
        let mut names = Names::default();
        names.define("info", "defined").mac = Some(MacAddr::BROADCAST);
        let missing = |text| missing_address(&names, "x", text).map(|error| error.to_string());
        let named = missing("198.18.0.1/24 no-such-if0:eth").unwrap();
        assert!(named.starts_with("there is no interface \"no-such-if0\""), "{named}");
        assert!(missing("(no-such-if0:gw, 1.2.3.4)").is_some());
        assert!(missing("defined:ip").is_some());
        let without = missing("lo:eth").unwrap();
        assert!(without.starts_with("interface lo has no Ethernet address"), "{without}");
        for fine in ["lo:ip", "defined:eth", "2001:db8::1", "a:b", ":eth", "00:01:02"] {
            assert_eq!(missing(fine), None, "{fine}");
        }
    }
}
