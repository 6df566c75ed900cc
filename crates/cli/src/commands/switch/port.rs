//! A port of the switch: its text, its properties and its description.

use std::{fmt, str::FromStr};

use linerate_packet::MacAddr;
use linerate_port::PortUri;
use serde_json::{Value, json};

use crate::exit::UsageError;

/// Longest name of a port.
const LONGEST: usize = 32;

/// The other end of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PortTarget {
    /// A port of any driver.
    Uri(PortUri),
    /// A program of a cluster, isolated, that attaches by the port's name.
    Consumer,
}

/// A port as it is written: `[NAME=]PORT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PortSpec {
    pub(super) name: Option<String>,
    pub(super) target: PortTarget,
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

/// A port of a switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Port {
    pub(super) name: String,
    pub(super) target: PortTarget,
    /// Its VLANs, as `VLANSwitch` has them.
    pub(super) vlan: Option<String>,
    /// Addresses that are its own.
    pub(super) macs: Vec<MacAddr>,
    /// A number that no other port has, as small as can be: which queues its packets wait in, and
    /// which worker it is on.
    pub(super) number: usize,
}

impl Port {
    /// The port and its VLANs, as far as they can be checked alone.
    pub(super) fn new(
        name: String,
        target: PortTarget,
        vlan: Option<&str>,
        macs: Vec<MacAddr>,
        number: usize,
    ) -> Result<Port, UsageError> {
        let vlan = vlan.map(str::to_ascii_uppercase);
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b' ' | b'-');
        if let Some(vlan) = vlan.as_ref().filter(|vlan| !vlan.bytes().all(plain)) {
            return Err(UsageError(format!(
                "{vlan:?}: write access VLAN, or trunk VLANS [native VLAN]"
            )));
        }
        if let Some(mac) = macs.iter().find(|mac| mac.0[0] & 1 != 0) {
            return Err(UsageError(format!("{mac} is the address of a group, not of a host")));
        }
        Ok(Port { name, target, vlan, macs, number })
    }

    /// The URI to open for the one that is written: a switch is the server of a memif socket unless the user
    /// says otherwise.
    pub(super) fn opened(uri: &PortUri) -> PortUri {
        let has_role = uri.written().iter().any(|(key, _)| key == "role");
        let uri = uri.clone();
        if uri.driver() == "memif" && !has_role { uri.with("role", "server") } else { uri }
    }

    /// Its other end, as it is written. A secret stays one.
    pub(super) fn behind_text(&self) -> String {
        match &self.target {
            PortTarget::Consumer => "consumer:".into(),
            PortTarget::Uri(uri) if uri.written().iter().any(|(key, _)| key == "secret") => {
                uri.clone().without("secret").with("secret", "...").to_string()
            }
            PortTarget::Uri(uri) => uri.to_string(),
        }
    }

    /// Its description for clients.
    pub(super) fn json(&self) -> Value {
        let macs: Vec<String> = self.macs.iter().map(ToString::to_string).collect();
        json!({"name": self.name, "port": self.behind_text(), "vlan": self.vlan, "macs": macs})
    }
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

    #[test]
    fn secrets_are_not_told() {
        let target = parse("a=memif:/x?secret=psst").unwrap().target;
        let port = Port::new("a".into(), target, None, Vec::new(), 0).unwrap();
        assert_eq!(port.json()["port"], "memif:/x?secret=...");
    }

    #[test]
    fn vlans_and_addresses_are_checked() {
        let port = |vlan, mac: &str| {
            Port::new("a".into(), PortTarget::Consumer, vlan, vec![mac.parse().unwrap()], 0)
        };
        let own = "02:00:00:00:00:01";
        let vlan = port(Some("trunk 5-7 native 1"), own).unwrap().vlan;
        assert_eq!(vlan.as_deref(), Some("TRUNK 5-7 NATIVE 1"));
        assert!(port(Some("access 1); stop"), own).is_err());
        assert!(port(None, "03:00:00:00:00:01").is_err());
    }
}
