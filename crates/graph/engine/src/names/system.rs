//! Hosts, networks and stations by the names that this system has for them, and not a
//! configuration: those of its resolver, of `/etc/networks` and of `/etc/ethers`.

use std::{
    fs,
    net::{IpAddr, ToSocketAddrs},
};

use linerate_packet::MacAddr;

use super::services::{known_protocol, lines, system_port};

/// All addresses of a host, in the resolver's order. It may ask other machines, and wait for them.
fn system_host(name: &str) -> Vec<IpAddr> {
    let mut addresses = Vec::new();
    // Not to be found is to have none.
    for found in (name, 0).to_socket_addrs().into_iter().flatten() {
        if !addresses.contains(&found.ip()) {
            addresses.push(found.ip());
        }
    }
    addresses
}

/// The number of an IPv4 network of `/etc/networks`, as an address.
fn system_network(name: &str) -> Option<u32> {
    network(&fs::read_to_string("/etc/networks").ok()?, name)
}

/// The Ethernet address of a station of `/etc/ethers`.
fn ethers_lookup(name: &str) -> Option<MacAddr> {
    station(&fs::read_to_string("/etc/ethers").ok()?, name)
}

/// Names in filters of tcpdump's language: those of the system, and the mask of the network that
/// packets come from, as far as it is known.
pub fn filter_names(netmask: Option<u32>) -> linerate_filter::Names<'static> {
    linerate_filter::Names {
        port: &|name, protocol| system_port(name, protocol).and_then(|port| port.try_into().ok()),
        protocol: &|name| known_protocol(name).filter(|number| *number <= u8::MAX.into()),
        host: &system_host,
        network: &system_network,
        station: &|name| ethers_lookup(name).map(|station| station.0),
        netmask,
    }
}

fn network(text: &str, name: &str) -> Option<u32> {
    let (number, _) = lines(text).find(|(_, names)| names.contains(&name))?;
    let mut bytes = [0; 4];
    let mut parts = number.split('.');
    for (byte, part) in bytes.iter_mut().zip(&mut parts) {
        *byte = part.parse().ok()?;
    }
    parts.next().is_none().then_some(u32::from_be_bytes(bytes))
}

fn station(text: &str, name: &str) -> Option<MacAddr> {
    let of = |(station, address): (&str, Vec<&str>)| {
        (station == name).then(|| address.first()?.parse().ok()).flatten()
    };
    lines(text).find_map(of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files() {
        let text = "# comment\nloopback 127.0.0.0\nours 10.1 us\nlong 1.2.3.4.5\nbad x\n";
        assert_eq!(network(text, "loopback"), Some(0x7f00_0000));
        assert_eq!(network(text, "us"), Some(0x0a01_0000));
        for name in ["long", "bad", "127.0.0.0", "comment"] {
            assert_eq!(network(text, name), None, "{name}");
        }
        let text = "02:00:00:00:00:01 printer # upstairs\nbad gate\n2:0:0:0:0:2 gate\n";
        assert_eq!(station(text, "printer"), Some(MacAddr([2, 0, 0, 0, 0, 1])));
        assert_eq!(station(text, "gate"), Some(MacAddr([2, 0, 0, 0, 0, 2])));
        assert_eq!(station(text, "upstairs"), None);
    }

    #[test]
    fn filters_know_names() {
        let names = filter_names(Some(0xffff_ff00));
        assert_eq!((names.protocol)("tcp"), Some(6));
        assert_eq!((names.protocol)("no-such-protocol"), None);
        assert_eq!((names.port)("domain", 17), Some(53));
        assert_eq!((names.host)("192.0.2.1"), [IpAddr::from([192, 0, 2, 1])]);
        assert_eq!(names.netmask, Some(0xffff_ff00));
    }

    #[test]
    fn addresses_are_hosts() {
        assert_eq!(system_host("192.0.2.1"), [IpAddr::from([192, 0, 2, 1])]);
    }
}
