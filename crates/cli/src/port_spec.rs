//! A port of a switch as it is written: `[NAME=]PORT`.

use std::{fmt, str::FromStr};

use linerate_port::PortUri;

/// Longest name of a port.
const LONGEST: usize = 32;

/// The other end of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PortTarget {
    /// A port of any driver.
    Uri(PortUri),
    /// A program of a cluster, isolated, that attaches by the port's name.
    Consumer,
}

/// A port as it is written: `[NAME=]PORT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PortSpec {
    pub(crate) name: Option<String>,
    pub(crate) target: PortTarget,
}

impl FromStr for PortSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<PortSpec, String> {
        // A port without a name has a colon before its first =.
        let (name, port) = match text.split_once('=') {
            Some((name, port)) if !name.contains(':') => (Some(name), port),
            _ => (None, text),
        };
        let name = name.map(|name| check_name(name).map(|()| name.to_owned())).transpose()?;
        if port == "consumer:" {
            if name.is_none() {
                return Err("a consumer attaches by the port's name: write NAME=consumer:".into());
            }
            return Ok(PortSpec { name, target: PortTarget::Consumer });
        }
        let uri: PortUri = port.parse().map_err(|error| format!("{error}"))?;
        let written = |key: &str| uri.written().iter().find(|(known, _)| known == key);
        // As it says off, if it does.
        let is_off = |value: &str| matches!(value, "off" | "no" | "false" | "0");
        if written("zero-copy").is_some_and(|(_, value)| !value.as_deref().is_some_and(is_off)) {
            return Err(
                "zero-copy would give the other end the packets of all ports: leave it out".into(),
            );
        }
        Ok(PortSpec { name, target: PortTarget::Uri(uri) })
    }
}

impl fmt::Display for PortSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.name {
            write!(f, "{name}=")?;
        }
        match &self.target {
            PortTarget::Uri(uri) => uri.fmt(f),
            PortTarget::Consumer => f.write_str("consumer:"),
        }
    }
}

/// Checks a name for a port: elements are named after it.
fn check_name(name: &str) -> Result<(), String> {
    let begins = name.starts_with(|first: char| first.is_ascii_alphabetic());
    let word = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if begins && word && name.len() <= LONGEST {
        return Ok(());
    }
    Err(format!(
        "{name:?} is no name of a port: it begins with a letter, and has letters, digits and _, at \
         most {LONGEST}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<PortSpec, String> {
        text.parse()
    }

    #[test]
    fn ports_are_named_or_not() {
        let spec = parse("a_1=tap:x?mtu=1500").unwrap();
        assert_eq!(spec.name.as_deref(), Some("a_1"));
        assert_eq!(spec.target, PortTarget::Uri("tap:x?mtu=1500".parse().unwrap()));
        let spec = parse("memif:/run/a=b?id=3").unwrap();
        assert_eq!(spec.name, None);
        assert_eq!(spec.target, PortTarget::Uri("memif:/run/a=b?id=3".parse().unwrap()));
        let spec = parse("a=memif:@x?role=client").unwrap();
        assert_eq!(spec.target, PortTarget::Uri("memif:@x?role=client".parse().unwrap()));
        assert_eq!(parse("ids=consumer:").unwrap().target, PortTarget::Consumer);
        for (text, advice) in [
            ("consumer:", "write NAME=consumer:"),
            ("eth0", "expected driver:name"),
            ("1a=tap:x", "is no name of a port"),
            ("a-b=tap:x", "is no name of a port"),
            ("=tap:x", "is no name of a port"),
            ("a=memif:/x?role=client&zero-copy", "leave it out"),
            ("a=memif:/x?role=client&zero-copy=on", "leave it out"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(advice), "{text}: {error}");
        }
        assert!(parse("a=memif:/x?role=client&zero-copy=off").is_ok());
    }
}
