//! A port of the switch: its properties and its description.

use linerate_packet::MacAddr;
use linerate_port::PortUri;
use serde_json::{Value, json};

use crate::{exit::UsageError, port_spec::PortTarget};

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
    use crate::port_spec::PortSpec;

    #[test]
    fn secrets_are_not_told() {
        let target = "a=memif:/x?secret=psst".parse::<PortSpec>().unwrap().target;
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
