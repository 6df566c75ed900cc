//! Names of addresses and ports: defined by `AddressInfo` and `PortInfo`, the well-known ones, and
//! those of this machine's network devices.

mod devices;
mod services;
mod system;

use std::{
    collections::HashMap,
    net::{Ipv4Addr, Ipv6Addr},
};

use linerate_packet::MacAddr;

pub use devices::device_ipv4;
pub(crate) use devices::{device_gateway, device_mac};
pub(crate) use services::{TCP, UDP, known_port, known_protocol};
pub use system::filter_names;

/// Addresses that one name stands for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Addresses {
    /// IPv4 address.
    pub ipv4: Option<Ipv4Addr>,
    /// IPv4 prefix: address and mask.
    pub ipv4_net: Option<(Ipv4Addr, Ipv4Addr)>,
    /// IPv6 address.
    pub ipv6: Option<Ipv6Addr>,
    /// IPv6 prefix: address and length.
    pub ipv6_net: Option<(Ipv6Addr, u8)>,
    /// Ethernet address.
    pub mac: Option<MacAddr>,
}

/// All names of a configuration. A name holds in the compound it was defined
/// in and inside it.
#[derive(Debug, Clone, Default)]
pub struct Names {
    /// By compound prefix and name.
    addresses: HashMap<String, Addresses>,
    /// By protocol, and compound prefix and name.
    ports: HashMap<(u32, String), u32>,
}

impl Names {
    /// The entry of a name defined by `element`, made if there is none.
    pub fn define(&mut self, element: &str, name: &str) -> &mut Addresses {
        self.addresses.entry(join(scope(element), name)).or_default()
    }

    /// Defines the name of a port of an IP protocol.
    pub fn define_port(&mut self, element: &str, protocol: u32, name: &str, port: u32) {
        self.ports.insert((protocol, join(scope(element), name)), port);
    }

    /// Resolves `name` in an argument of `element`, by the innermost definition that has one.
    pub fn find<T>(
        &self,
        element: &str,
        name: &str,
        what: impl Fn(&Addresses) -> Option<T>,
    ) -> Option<T> {
        if self.addresses.is_empty() {
            return None;
        }
        outward(element, name).find_map(|full| self.addresses.get(&full).and_then(&what))
    }

    /// The port of an IP protocol that `name` stands for in an argument of
    /// `element`.
    pub fn port(&self, element: &str, protocol: u32, name: &str) -> Option<u32> {
        if self.ports.is_empty() {
            return None;
        }
        outward(element, name).find_map(|full| self.ports.get(&(protocol, full)).copied())
    }
}

/// The compound an element is in.
fn scope(element: &str) -> &str {
    element.rfind('/').map_or("", |slash| &element[..slash])
}

fn join(scope: &str, name: &str) -> String {
    if scope.is_empty() { name.into() } else { format!("{scope}/{name}") }
}

/// `name` in the compound of `element`, in the one around it, and so on.
fn outward<'a>(element: &'a str, name: &'a str) -> impl Iterator<Item = String> + 'a {
    let mut at = Some(scope(element));
    std::iter::from_fn(move || {
        let here = at?;
        at = (!here.is_empty()).then(|| scope(here));
        Some(join(here, name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_hold_in_their_compound_and_inside_it() {
        let mut names = Names::default();
        let (outer, inner) = (Ipv4Addr::new(1, 0, 0, 1), Ipv4Addr::new(2, 0, 0, 1));
        names.define("info", "a").ipv4 = Some(outer);
        names.define("c/info", "a").ipv4 = Some(inner);
        names.define("c/d/info", "a").mac = Some(MacAddr::BROADCAST);
        let find = |element: &str| names.find(element, "a", |entry| entry.ipv4);
        assert_eq!(find("x"), Some(outer));
        assert_eq!(find("c/x"), Some(inner));
        // The innermost definition is of another kind and does not count.
        assert_eq!(find("c/d/x"), Some(inner));
        assert_eq!(find("cc/x"), Some(outer));
        assert_eq!(names.find("c/x", "a", |entry| entry.mac), None);
        assert_eq!(names.find("x", "b", |entry| entry.ipv4), None);
    }

    #[test]
    fn ports_are_of_a_protocol() {
        let mut names = Names::default();
        names.define_port("c/info", TCP, "web", 8080);
        assert_eq!(names.port("c/x", TCP, "web"), Some(8080));
        assert_eq!(names.port("c/x", UDP, "web"), None);
        assert_eq!(names.port("x", TCP, "web"), None);
    }
}
