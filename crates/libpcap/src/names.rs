//! Device names that are ours, and the port that each of them is.

use std::{env, ffi::CStr, fmt};

use linerate_linux::interface;
use linerate_port::{DRIVERS, PortUri, parse_device};

/// A variable with names of devices and the ports they stand for: `eth0=xdp:eth0,eth1=ring:x`.
pub const MAP: &str = "LINERATE_PCAP_MAP";
/// A variable with the port that every other Ethernet interface of the kernel stands for, without its
/// name: `packet:`, or `xdp:?queues=1`.
pub const PLAIN: &str = "LINERATE_PCAP_PLAIN";
/// Variable that asks for a report of opened ports on standard error, where that is a terminal.
pub const SAY: &str = "LINERATE_PCAP_SAY";
/// Prefix of a port's name, or of the name of an interface that is to be opened as `packet:` does.
pub const PREFIX: &str = "linerate:";

/// Target of a device name of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// A port.
    Port(PortUri),
    /// A consumer of a cluster.
    Consumer {
        /// Socket at which the cluster is attached to.
        socket: String,
        /// The place that is taken.
        name: String,
    },
}

impl Target {
    /// The kernel's interface that it is on, as far as its name says.
    pub(crate) fn interface(&self) -> Option<&str> {
        match self {
            Target::Port(uri) if matches!(uri.driver(), "packet" | "xdp" | "tap" | "tun") => {
                Some(uri.name())
            }
            _ => None,
        }
    }

    /// Returns true if it is a capture file.
    pub(crate) fn is_a_file(&self) -> bool {
        matches!(self, Target::Port(uri) if uri.driver() == "pcap")
    }

    /// Returns true if threads belong to it, which a child of this process does not have.
    pub(crate) fn has_helpers(&self) -> bool {
        matches!(self, Target::Port(uri) if matches!(uri.driver(), "memif" | "vhost"))
    }

    /// Returns true if it is an existing interface, as libpcap opens: other targets make files,
    /// interfaces and sockets, or read any file.
    fn is_an_interface(&self) -> bool {
        matches!(self, Target::Port(uri) if matches!(uri.driver(), "packet" | "xdp"))
    }

    /// Effect on the host's packets, in words.
    pub(crate) fn effect(&self) -> &'static str {
        match self {
            Target::Port(uri) => match uri.driver() {
                "packet" => "tapped: the host has its packets as well",
                "xdp" => "taken: what it receives, the host does not see while this runs",
                "pcap" => "a file",
                _ => "a port of its own, of which the host sees nothing",
            },
            Target::Consumer { .. } => "packets that a cluster shares out",
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Port(uri) => uri.fmt(f),
            Target::Consumer { socket, name } => write!(f, "cluster:{socket}?name={name}"),
        }
    }
}

/// Target of a device name: `None` when it is left to the system library. An error is about a name
/// that is ours and makes no sense.
pub(crate) fn target(device: &str) -> Result<Option<Target>, String> {
    let target = named(device)?;
    if is_privileged() && target.as_ref().is_some_and(|target| !target.is_an_interface()) {
        return Err(format!(
            "{device}: a program that has more rights than who runs it opens interfaces alone"
        ));
    }
    Ok(target)
}

fn named(device: &str) -> Result<Option<Target>, String> {
    for (name, port) in mapped()? {
        if name == device {
            return port_named(&port).map(Some);
        }
    }
    if let Some(rest) = device.strip_prefix(PREFIX) {
        let named = if rest.contains(':') { rest.into() } else { format!("packet:{rest}") };
        return port_named(&named).map(Some);
    }
    let driver = device.split_once(':').map(|(driver, _)| driver);
    match driver {
        Some(driver) if driver == "cluster" || DRIVERS.iter().any(|one| one.name == driver) => {
            port_named(device).map(Some)
        }
        _ => plain(device),
    }
}

/// Target of an interface's name by itself.
fn plain(device: &str) -> Result<Option<Target>, String> {
    let Some(port) = variable(PLAIN) else { return Ok(None) };
    if !is_ethernet(device) {
        return Ok(None);
    }
    let wrong = || format!("{PLAIN}: {port:?} is no port without its name, as packet: or xdp:");
    let (driver, options) = port.split_once(':').ok_or_else(wrong)?;
    let named = PortUri::new(driver, device).to_string();
    port_named(&format!("{named}{options}")).map(Some)
}

/// Returns true if there is an interface of that name that carries Ethernet frames. The loopback
/// interface's are longer than a buffer.
fn is_ethernet(device: &str) -> bool {
    let link = interface::find(device);
    link.is_ok_and(|link| link.name == device && link.ethernet && link.kind != "loopback")
}

/// The names of the map with their ports, in its order.
pub(crate) fn mapped() -> Result<Vec<(String, String)>, String> {
    let Some(map) = variable(MAP) else { return Ok(Vec::new()) };
    map.split(',')
        .filter(|entry| !entry.is_empty())
        .map(|entry| match entry.split_once('=') {
            // A cluster is no driver's.
            Some((name, port)) if port.starts_with("cluster:") && !name.is_empty() => {
                Ok((name.into(), port.into()))
            }
            _ => parse_device(entry).map(|(name, port)| (name, port.to_string())),
        })
        .collect::<Result<_, _>>()
        .map_err(|error| format!("{MAP}: {error}"))
}

fn port_named(text: &str) -> Result<Target, String> {
    let uri: PortUri = text.parse().map_err(|error| format!("{error}"))?;
    if uri.driver() != "cluster" {
        return Ok(Target::Port(uri));
    }
    let wrong = || format!("{text}: write cluster:SOCKET?name=CONSUMER");
    match uri.written() {
        [(key, Some(name))] if key == "name" && !uri.name().is_empty() => {
            Ok(Target::Consumer { socket: uri.name().into(), name: name.clone() })
        }
        _ => Err(wrong()),
    }
}

/// A variable of the environment; `None` for programs with more rights than the user that started
/// them (set-user-ID, capabilities of files): they would lend them.
pub(crate) fn variable(name: &str) -> Option<String> {
    if is_privileged() { None } else { env::var(name).ok() }
}

/// Returns true if this program has more rights than the user that has started it.
fn is_privileged() -> bool {
    // SAFETY: a look at the auxiliary vector, which every process has.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// A device's name from C; `None` for null, which is libpcap's `any`.
///
/// # Safety
///
/// `device` is null or a string that ends.
pub(crate) unsafe fn device_name<'a>(device: *const std::ffi::c_char) -> Option<&'a str> {
    if device.is_null() {
        return None;
    }
    // SAFETY: as the caller says.
    unsafe { CStr::from_ptr(device) }.to_str().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(device: &str) -> Option<String> {
        target(device).unwrap().map(|target| target.to_string())
    }

    #[test]
    fn ports_and_the_prefix_are_ours_and_nothing_else() {
        assert_eq!(shown("xdp:eth0?queues=2").as_deref(), Some("xdp:eth0?queues=2"));
        assert_eq!(shown("linerate:eth0").as_deref(), Some("packet:eth0"));
        assert_eq!(shown("linerate:ring:x").as_deref(), Some("ring:x"));
        assert_eq!(shown("cluster:@x?name=a").as_deref(), Some("cluster:@x?name=a"));
        for theirs in ["eth0", "any", "eth0:1", "usbmon1", "nflog:3", "rpcap://h/eth0", "lo", ""] {
            assert_eq!(shown(theirs), None, "{theirs}");
        }
    }

    #[test]
    fn only_interfaces_are_for_programs_with_more_rights() {
        let is =
            |device: &str| named(device).unwrap().is_none_or(|target| target.is_an_interface());
        for device in ["eth0", "packet:eth0", "linerate:eth0", "xdp:eth0?queues=1"] {
            assert!(is(device), "{device}");
        }
        for device in ["pcap:/etc/shadow", "tap:x", "memif:/x?role=server", "cluster:@x?name=a"] {
            assert!(!is(device), "{device}");
        }
    }

    #[test]
    fn wrong_names_of_our_devices_are_errors() {
        for wrong in ["cluster:@x", "cluster:?name=a", "xdp:eth0?=1", "cluster:@x?name=a&b=c"] {
            assert!(target(wrong).is_err(), "{wrong}");
        }
    }
}
