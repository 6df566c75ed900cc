//! Devices by the names of other frameworks.
//!
//! A name without a definition (`DeviceInfo`, `--device`) is a network interface, reached as the
//! framework would: past the kernel, by `xdp:`. Elements that receive from one such device share its
//! queues, where `FromPort` elements each open their own.

use std::sync::Arc;

use linerate_graph::ElementBuilder;
use linerate_linux::interface;
use linerate_port::PortUri;

use super::{
    device::{Devices, port},
    port_users::{has, quietly},
};

const NONEXISTENT: &str = "ALLOW_NONEXISTENT";

/// Framework of a device name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framework {
    /// DPDK's: a port's number, or the place of a device on the PCI bus.
    Dpdk,
    /// netmap's: an interface with `netmap:` in front, perhaps, and a choice of
    /// rings behind.
    Netmap,
    /// The kernel's.
    Interface,
}

impl Framework {
    /// Returns the port of a name.
    fn port(self, make: &ElementBuilder<'_>, name: &str) -> Result<PortUri, String> {
        let known = |name: &str| port(make, name);
        if let Some(found) = known(name) {
            return found.map_err(|error| error.to_string());
        }
        match self {
            Framework::Interface => Ok(PortUri::new("xdp", name)),
            Framework::Dpdk if interface::find(name).is_ok() => Ok(PortUri::new("xdp", name)),
            Framework::Dpdk => Err(format!("{name}: Unknown or invalid PORT; {}", advice(name))),
            Framework::Netmap if name.starts_with("vale") => {
                Err(format!("{name}: there are no VALE switches; {}", advice(name)))
            }
            Framework::Netmap => {
                let plain = plain(name);
                let found = known(plain).unwrap_or_else(|| Ok(PortUri::new("xdp", plain)));
                found.map_err(|error| error.to_string())
            }
        }
    }

    /// Returns the key under which senders look for a device.
    fn key(self, name: &str) -> String {
        match self {
            Framework::Dpdk => format!("dpdk {name}"),
            Framework::Netmap => format!("netmap {}", plain(name)),
            Framework::Interface => name.into(),
        }
    }
}

/// Returns advice on defining the port.
fn advice(name: &str) -> String {
    format!(
        "say which port it is by --device {name}=xdp:INTERFACE, or by DeviceInfo({name} xdp:INTERFACE)"
    )
}

/// Returns the interface in a name of netmap's, without the parts around it: `netmap:eth0-2/R`.
pub(super) fn plain(name: &str) -> &str {
    let name = name.strip_prefix("netmap:").unwrap_or(name);
    let name = name.split(['^', '*', '{', '}', '/', '@']).next().unwrap_or(name);
    match name.rsplit_once('-') {
        Some((plain, ring)) if !ring.is_empty() && ring.bytes().all(|b| b.is_ascii_digit()) => {
            plain
        }
        _ => name,
    }
}

/// Arguments of an element about its device.
#[derive(Clone, Copy)]
pub(super) struct Naming {
    pub(super) kind: Framework,
    /// The argument with the device's name.
    pub(super) argument: &'static str,
    /// Options for a port without a definition.
    pub(super) options: fn(&mut ElementBuilder<'_>, PortUri) -> PortUri,
}

impl Naming {
    /// The port of an element; a stand-in that brings nothing where there need
    /// be none.
    fn find(self, make: &mut ElementBuilder<'_>) -> Result<PortUri, String> {
        let name: String = quietly(make, self.argument).unwrap_or_default();
        let found = self.kind.port(make, &name);
        let is_missing = |uri: &PortUri| {
            matches!(uri.driver(), "xdp" | "packet") && interface::find(uri.name()).is_err()
        };
        if has(make, NONEXISTENT)
            && quietly(make, NONEXISTENT).unwrap_or(false)
            && found.as_ref().map_or(true, is_missing)
        {
            return Ok(PortUri::new("null", "").with("count", 0));
        }
        let uri = found?;
        let is_named = port(make, &name).is_some() || port(make, plain(&name)).is_some();
        Ok(if is_named { uri } else { (self.options)(make, uri) })
    }

    /// Registers the port for senders to the same device.
    pub(super) fn prepare(self, make: &mut ElementBuilder<'_>) {
        let name: Option<String> = quietly(make, self.argument);
        if let (Some(name), Ok(uri)) = (name, self.find(make)) {
            make.world.common::<Devices>().add(&self.kind.key(&name), &uri);
        }
    }

    /// The port of an element that receives; a stand-in after an error.
    pub(super) fn source(self, make: &mut ElementBuilder<'_>) -> PortUri {
        make.need::<String>(self.argument);
        self.check(make);
        let found = self.find(make);
        self.or_stand_in(make, found)
    }

    /// The port of an element that sends; a stand-in after an error.
    pub(super) fn sink(self, make: &mut ElementBuilder<'_>) -> PortUri {
        let name: String = make.need(self.argument);
        self.check(make);
        let devices: Arc<Devices> = make.world.common();
        let found = devices.find(&self.kind.key(&name)).map_or_else(|| self.find(make), Ok);
        self.or_stand_in(make, found)
    }

    /// Reports errors in an argument looked at before.
    fn check(self, make: &mut ElementBuilder<'_>) {
        if has(make, NONEXISTENT) {
            make.or(NONEXISTENT, false);
        }
    }

    fn or_stand_in(self, make: &mut ElementBuilder<'_>, found: Result<PortUri, String>) -> PortUri {
        found.unwrap_or_else(|error| {
            if make.is_given(self.argument) {
                make.error(error);
            }
            PortUri::new("null", "")
        })
    }
}

/// Restricts a port to frames for this host, if the arguments ask for that.
pub(super) fn by_promisc(make: &mut ElementBuilder<'_>, uri: PortUri) -> PortUri {
    // Those that send have no such argument.
    let on = !has(make, "PROMISC") || quietly(make, "PROMISC").unwrap_or(true);
    if on { uri } else { uri.with("promisc", "off") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_netmap_are_of_interfaces() {
        for (name, interface) in [
            ("netmap:eth0", "eth0"),
            ("netmap:eth0-2/R", "eth0"),
            ("netmap:eth0^", "eth0"),
            ("netmap:en-a*", "en-a"),
            ("netmap:eth0{1", "eth0"),
            ("eth0", "eth0"),
        ] {
            assert_eq!(plain(name), interface);
        }
    }
}
