//! Ports that device elements name, read from the plan before packet memory and elements exist: the
//! ports determine how much packet memory is needed.
//!
//! An invalid device name or definition yields no port here; the element reports it later.

use std::collections::HashMap;

use linerate_graph::{Plan, unquoted};
use linerate_port::{Devices, PortUri};

use super::{
    device_info,
    names::{self, Naming},
};

/// The port of a device element: `xdp:` with the device's name, unless a definition maps that name
/// to another port.
pub(super) fn named(plan: &Plan, at: usize, devices: &Devices, naming: Naming) -> Vec<PortUri> {
    let Some(name) = plan.argument(at, naming.argument) else { return Vec::new() };
    let name = unquoted(name.trim());
    let informs = |at: &usize| plan.elements[*at].class.name == device_info::CLASS.name;
    let said: HashMap<String, PortUri> = (0..plan.elements.len())
        .filter(informs)
        .flat_map(|at| plan.rest(at))
        .filter_map(|text| device_info::definition(&text)?.ok())
        .collect();
    let known = |name: &str| devices.get(name).or_else(|| said.get(name)).cloned();
    let plain = names::plain(&name);
    let own = || PortUri::new("xdp", plain);
    vec![known(&name).or_else(|| known(plain)).unwrap_or_else(own)]
}

#[cfg(test)]
mod tests {
    use linerate_graph::{Library, lang::Globals, load};
    use linerate_port::packets_kept;

    use super::*;

    fn plan(text: &str) -> Plan {
        let library = Library::new(crate::CLASSES.iter().copied());
        let mut no_libraries = |_: &str, _: &str| Err(None);
        let loaded = load("test", text, &library, &Globals::default(), &mut no_libraries);
        loaded.plan.unwrap_or_else(|| panic!("{text}: {:?}", loaded.found))
    }

    #[test]
    fn devices_are_ports_by_every_name() {
        for (text, wanted) in [
            ("FromPort(xdp:a) -> ToPort(\"xdp:b?ring=64\")", &["xdp:a", "xdp:b?ring=64"][..]),
            ("FromPort(xdp:a) -> ToPort(xdp:a)", &["xdp:a"]),
            ("XDPFromDevice(a) -> XDPToDevice(DEV b, MODE skb)", &["xdp:a", "xdp:b"]),
            ("FromNetmapDevice(netmap:a-2/R) -> ToNetmapDevice(b^)", &["xdp:a", "xdp:b"]),
            ("FromDPDKDevice(a) -> ToDPDKDevice(1)", &["xdp:a", "xdp:d"]),
            ("FromDevice(c) -> ToPort(null:)", &["xdp:e?queues=2"]),
            ("DeviceInfo(a xdp:f, b null:); XDPFromDevice(a) -> XDPToDevice(b)", &["xdp:f"]),
            ("DeviceInfo(0 \"xdp:f\"); FromDPDKDevice(0) -> ToPort(null:)", &["xdp:f"]),
            ("FromPort(packet:a) -> ToPort(null:)", &[]),
        ] {
            let devices = [("1", "xdp:d"), ("c", "xdp:e?queues=2")];
            let devices =
                devices.map(|(name, port)| (name.to_owned(), port.parse::<PortUri>().unwrap()));
            let mut ports: Vec<String> = plan(text)
                .ports(&devices.into_iter().collect())
                .iter()
                .map(PortUri::to_string)
                .filter(|port| port.starts_with("xdp:"))
                .collect();
            ports.sort_unstable();
            assert_eq!(ports, wanted, "{text}");
        }
    }

    /// Loopback has long rings, as every interface without hardware has.
    #[test]
    fn rings_count_whatever_names_them() {
        let kept = packets_kept(&"xdp:lo".parse().unwrap());
        assert!(kept > 0);
        for text in ["FromPort(xdp:lo)", "XDPFromDevice(lo)", "FromDPDKDevice(lo)"] {
            let plan = plan(&format!("{text} -> ToPort(null:)"));
            assert_eq!(plan.packets_needed(&Devices::default()), kept, "{text}");
        }
    }
}
