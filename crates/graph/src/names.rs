//! Names of addresses and ports: what `AddressInfo` and `PortInfo` define.

use std::{
    collections::HashMap,
    net::{Ipv4Addr, Ipv6Addr},
};

use linerate_packet::MacAddr;

/// What one name stands for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Addresses {
    /// IPv4 address.
    pub ipv4: Option<Ipv4Addr>,
    /// IPv4 prefix: address and length.
    pub ipv4_net: Option<(Ipv4Addr, u8)>,
    /// IPv6 address.
    pub ipv6: Option<Ipv6Addr>,
    /// IPv6 prefix.
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
    ports: HashMap<String, u16>,
}

impl Names {
    /// The entry of a name defined by `element`, made if there is none.
    pub fn define(&mut self, element: &str, name: &str) -> &mut Addresses {
        self.addresses.entry(join(scope(element), name)).or_default()
    }

    /// Defines a transport port's name.
    pub fn define_port(&mut self, element: &str, name: &str, port: u16) {
        self.ports.insert(join(scope(element), name), port);
    }

    /// What `name` stands for in an argument of `element`.
    pub fn find<T>(
        &self,
        element: &str,
        name: &str,
        what: impl Fn(&Addresses) -> Option<T>,
    ) -> Option<T> {
        outward(element, name).find_map(|full| self.addresses.get(&full).and_then(&what))
    }

    /// The port `name` stands for in an argument of `element`.
    pub fn port(&self, element: &str, name: &str) -> Option<u16> {
        outward(element, name).find_map(|full| self.ports.get(&full).copied())
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
