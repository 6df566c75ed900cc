//! An interface's first IPv4 address and the gateway of its default route.
//!
//! Read from `RTM_GETADDR` and `RTM_GETROUTE`; nothing is changed. Sources:
//! `linux/if_addr.h`, `linux/rtnetlink.h`.

use std::net::Ipv4Addr;

use super::{
    InterfaceError, find,
    netlink::{Netlink, attributes},
};

/// Bytes of `struct ifaddrmsg`.
const ADDRESS_HEADER: usize = 8;
/// Bytes of `struct rtmsg`.
const ROUTE_HEADER: usize = 12;

/// IPv4 settings of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ipv4 {
    /// Its first address.
    pub address: Ipv4Addr,
    /// The length of that address's prefix.
    pub prefix: u8,
    /// The gateway of the default route through it.
    pub gateway: Option<Ipv4Addr>,
}

/// The IPv4 settings of the interface `name`; `None` if it has no address.
///
/// # Errors
///
/// When there is no such interface, or the kernel gives no answer.
pub fn ipv4(name: &str) -> Result<Option<Ipv4>, InterfaceError> {
    let index = find(name)?.index;
    let step = InterfaceError::system("list addresses");
    let mut netlink = Netlink::route().map_err(&step)?;
    let mut header = [0; ADDRESS_HEADER];
    header[0] = libc::AF_INET as u8;
    let addresses = netlink.dump(libc::RTM_GETADDR, &header).map_err(&step)?;
    let mut header = [0; ROUTE_HEADER];
    header[0] = libc::AF_INET as u8;
    let routes = netlink.dump(libc::RTM_GETROUTE, &header).map_err(&step)?;
    let address = addresses.iter().find_map(|message| address(&message.body, index));
    let gateway = routes.iter().find_map(|message| gateway(&message.body, index));
    Ok(address.map(|(address, prefix)| Ipv4 { address, prefix, gateway }))
}

fn address(body: &[u8], index: u32) -> Option<(Ipv4Addr, u8)> {
    let (header, rest) = body.split_at_checked(ADDRESS_HEADER)?;
    let [_, prefix, _, _, at @ ..] = header else { return None };
    if u32::from_ne_bytes(at.try_into().ok()?) != index {
        return None;
    }
    let (_, local) = attributes(rest).find(|(kind, _)| *kind == libc::IFA_LOCAL)?;
    Some((<[u8; 4]>::try_from(local).ok()?.into(), *prefix))
}

fn gateway(body: &[u8], index: u32) -> Option<Ipv4Addr> {
    let (header, rest) = body.split_at_checked(ROUTE_HEADER)?;
    let attribute = |wanted: u16| {
        let (_, value) = attributes(rest).find(|(kind, _)| *kind == wanted)?;
        <[u8; 4]>::try_from(value).ok()
    };
    // A default route's destination has no bits.
    let through = header[1] == 0 && attribute(libc::RTA_OIF)? == index.to_ne_bytes();
    attribute(libc::RTA_GATEWAY).filter(|_| through).map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_has_its_address() {
        let known = ipv4("lo").expect("lo exists").expect("it has an address");
        assert_eq!(known, Ipv4 { address: Ipv4Addr::LOCALHOST, prefix: 8, gateway: None });
        assert!(ipv4("no-such-device").is_err());
    }

    #[test]
    fn messages() {
        let mut message = vec![libc::AF_INET as u8, 24, 0, 0];
        message.extend(7u32.to_ne_bytes());
        message.extend([8, 0, libc::IFA_LOCAL as u8, 0, 10, 0, 0, 1]);
        assert_eq!(address(&message, 7), Some((Ipv4Addr::new(10, 0, 0, 1), 24)));
        assert_eq!(address(&message, 8), None);
        assert_eq!(address(&message[..7], 7), None);

        let mut message = vec![libc::AF_INET as u8, 0, 0, 0, 254, 3, 0, 1, 0, 0, 0, 0];
        message.extend([8, 0, libc::RTA_GATEWAY as u8, 0, 10, 0, 0, 254]);
        message.extend([8, 0, libc::RTA_OIF as u8, 0]);
        message.extend(7u32.to_ne_bytes());
        assert_eq!(gateway(&message, 7), Some(Ipv4Addr::new(10, 0, 0, 254)));
        assert_eq!(gateway(&message, 8), None);
        message[1] = 8;
        assert_eq!(gateway(&message, 7), None);
    }
}
