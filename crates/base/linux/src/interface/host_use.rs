//! The host's own use of an interface: its addresses and default routes there.
//!
//! Those of interfaces stacked on it count, too: the bridge or bond it belongs to, and the VLAN and
//! macvlan interfaces made of it. IPv6 link-local addresses do not, since every interface has one.
//! Sources: `linux/if_addr.h`, `linux/rtnetlink.h`.

use std::{fmt, io, net::IpAddr};

use netlink_packet_core::Parseable;
use netlink_packet_route::{
    address::{AddressAttribute, AddressMessage, AddressMessageBuffer},
    route::{RouteAttribute, RouteMessage, RouteMessageBuffer, RouteType},
};

use super::{InterfaceError, Link, list, netlink::Netlink};

/// Bytes of `struct ifaddrmsg`.
const ADDRESS_HEADER: usize = 8;
/// Bytes of `struct rtmsg`.
const ROUTE_HEADER: usize = 12;

/// Something the host reaches or is reached by through an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostUse {
    /// An address of the host.
    Address {
        /// The interface that has it.
        interface: String,
        /// The address.
        address: IpAddr,
        /// The length of its prefix.
        prefix: u8,
    },
    /// A default route.
    DefaultRoute {
        /// The interface it leads to.
        interface: String,
    },
}

impl HostUse {
    fn interface(&self) -> &str {
        match self {
            HostUse::Address { interface, .. } | HostUse::DefaultRoute { interface } => interface,
        }
    }
}

impl fmt::Display for HostUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostUse::Address { address, prefix, .. } => write!(f, "{address}/{prefix}"),
            HostUse::DefaultRoute { .. } => f.write_str("the default route"),
        }?;
        write!(f, " on {}", self.interface())
    }
}

/// Uses of an interface by the host; empty where it can be taken without the host noticing.
///
/// # Errors
///
/// When the kernel gives no answer over netlink.
pub fn host_uses(link: &Link) -> Result<Vec<HostUse>, InterfaceError> {
    read(link).map_err(InterfaceError::system("list addresses and routes"))
}

fn read(link: &Link) -> io::Result<Vec<HostUse>> {
    let mut netlink = Netlink::route()?;
    let upon = standing_on(link, &list(&mut netlink)?);
    let name = |index: u32| {
        let found = upon.iter().find(|link| link.index == index);
        found.map(|link| link.name.clone())
    };
    let addresses = netlink.dump(libc::RTM_GETADDR, &[0; ADDRESS_HEADER])?;
    let routes = netlink.dump(libc::RTM_GETROUTE, &[0; ROUTE_HEADER])?;
    let addresses = addresses.iter().filter_map(|message| {
        let (index, address, prefix) = address(&message.body)?;
        Some(HostUse::Address { interface: name(index)?, address, prefix })
    });
    let defaults = routes.iter().flat_map(|message| default_route(&message.body));
    let mut uses: Vec<HostUse> = addresses.collect();
    for interface in defaults.filter_map(name) {
        let route = HostUse::DefaultRoute { interface };
        if !uses.contains(&route) {
            uses.push(route);
        }
    }
    Ok(uses)
}

/// The interface and all that gets its packets through it.
fn standing_on(link: &Link, links: &[Link]) -> Vec<Link> {
    let mut found = vec![link.clone()];
    let mut at = 0;
    while let Some(lower) = found.get(at).cloned() {
        at += 1;
        for upper in links.iter().filter(|upper| {
            // A veth's peer stands beside it.
            let made_of = upper.peer == Some(lower.index)
                && upper.peer_namespace.is_none()
                && upper.kind != "veth";
            made_of || lower.controller == Some(upper.index)
        }) {
            if found.iter().all(|known| known.index != upper.index) {
                found.push(upper.clone());
            }
        }
    }
    found
}

/// The interface of an `RTM_NEWADDR` message and the address it has there.
fn address(body: &[u8]) -> Option<(u32, IpAddr, u8)> {
    let message = AddressMessage::parse(&AddressMessageBuffer::new_checked(&body).ok()?).ok()?;
    let attribute = |local: bool| {
        message.attributes.iter().find_map(|attribute| match attribute {
            AddressAttribute::Local(address) if local => Some(*address),
            AddressAttribute::Address(address) if !local => Some(*address),
            _ => None,
        })
    };
    let address = attribute(true).or_else(|| attribute(false))?;
    let link_local = matches!(address, IpAddr::V6(address) if address.is_unicast_link_local());
    (!link_local).then_some((message.header.index, address, message.header.prefix_len))
}

/// The interfaces an `RTM_NEWROUTE` message leads to if it is a default route.
fn default_route(body: &[u8]) -> Vec<u32> {
    let message = RouteMessageBuffer::new_checked(&body);
    let message = message.and_then(|message| RouteMessage::parse(&message));
    let Ok(message) = message else { return Vec::new() };
    let header = &message.header;
    if header.destination_prefix_length != 0 || header.kind != RouteType::Unicast {
        return Vec::new();
    }
    let devices = message.attributes.iter().flat_map(|attribute| match attribute {
        RouteAttribute::Oif(device) => vec![*device],
        RouteAttribute::MultiPath(hops) => hops.iter().map(|hop| hop.interface_index).collect(),
        _ => Vec::new(),
    });
    devices.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_carries_an_address() {
        let uses = host_uses(&super::super::find("lo").unwrap()).unwrap();
        let texts: Vec<String> = uses.iter().map(ToString::to_string).collect();
        assert!(texts.contains(&"127.0.0.1/8 on lo".into()), "{texts:?}");
    }

    #[test]
    fn interfaces_on_top_of_another_are_found() {
        let link = |index, kind: &str, peer, controller| Link {
            index,
            kind: kind.into(),
            peer,
            controller,
            ..Link::default()
        };
        let card = link(2, "device", None, Some(5));
        let links = [
            card.clone(),
            link(3, "vlan", Some(2), None),
            link(4, "macvlan", Some(3), None),
            link(5, "bridge", None, None),
            link(6, "veth", Some(2), None),
            Link { peer_namespace: Some(0), ..link(7, "macvlan", Some(2), None) },
            link(8, "device", None, None),
        ];
        let mut found: Vec<u32> =
            standing_on(&card, &links).iter().map(|link| link.index).collect();
        found.sort_unstable();
        assert_eq!(found, [2, 3, 4, 5]);
    }
}
