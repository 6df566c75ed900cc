//! Names of this system: in its files, and hosts by its resolver, which may ask other machines and
//! wait for them, as libpcap's does.

use std::{fs, net::ToSocketAddrs};

use linerate_filter::Names;

const TCP: u32 = 6;
const UDP: u32 = 17;

/// Names of the system, in a network of that mask.
pub(super) fn of_the_system(mask: Option<u32>) -> Names<'static> {
    Names {
        port: &|name, protocol| {
            let protocol = match protocol {
                TCP => "tcp",
                UDP => "udp",
                _ => return None,
            };
            port(&read("/etc/services"), name, protocol)
        },
        protocol: &|name| protocol(&read("/etc/protocols"), name),
        host: &|name| {
            let mut addresses = Vec::new();
            // Not to be found is to have none.
            for found in (name, 0).to_socket_addrs().into_iter().flatten() {
                if !addresses.contains(&found.ip()) {
                    addresses.push(found.ip());
                }
            }
            addresses
        },
        network: &|name| network(&read("/etc/networks"), name),
        station: &|name| station(&read("/etc/ethers"), name),
        netmask: mask,
    }
}

/// A file that is not there has no names.
fn read(file: &str) -> String {
    fs::read_to_string(file).unwrap_or_default()
}

/// The words of each line that has some.
fn lines(text: &str) -> impl Iterator<Item = (&str, Vec<&str>)> {
    text.lines().filter_map(|line| {
        let (line, _) = line.split_once('#').unwrap_or((line, ""));
        let mut words = line.split_whitespace();
        words.next().map(|first| (first, words.collect()))
    })
}

/// The port of a name, of lines `domain 53/tcp dns`.
fn port(text: &str, name: &str, protocol: &str) -> Option<u16> {
    lines(text).find_map(|(first, rest)| {
        let (number, of) = rest.first()?.split_once('/')?;
        let is = of == protocol && (first == name || rest[1..].contains(&name));
        if is { number.parse().ok() } else { None }
    })
}

/// The number of a protocol, of lines `tcp 6 TCP`.
fn protocol(text: &str, name: &str) -> Option<u32> {
    lines(text).find_map(|(first, rest)| {
        let is = first == name || rest.get(1..)?.contains(&name);
        if is { rest.first()?.parse::<u8>().ok().map(u32::from) } else { None }
    })
}

/// The number of a network, of lines `loopback 127.0.0.0`, as the C library has it: an address.
fn network(text: &str, name: &str) -> Option<u32> {
    let is = |(first, rest): &(&str, Vec<&str>)| {
        *first == name || rest.get(1..).is_some_and(|aliases| aliases.contains(&name))
    };
    let (_, rest) = lines(text).find(is)?;
    let mut bytes = [0; 4];
    let mut parts = rest.first()?.split('.');
    for (byte, part) in bytes.iter_mut().zip(&mut parts) {
        *byte = part.parse().ok()?;
    }
    parts.next().is_none().then_some(u32::from_be_bytes(bytes))
}

/// The address of a station, of lines `2:0:0:0:0:1 printer`.
fn station(text: &str, name: &str) -> Option<[u8; 6]> {
    lines(text).find_map(|(address, names)| {
        let bytes: Option<Vec<u8>> =
            address.split(':').map(|byte| u8::from_str_radix(byte, 16).ok()).collect();
        if names.first() == Some(&name) { bytes?.try_into().ok() } else { None }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_those_of_their_protocol() {
        let text =
            "# services\ndomain 53/tcp dns # names\ndomain\t53/udp\nonly 9/udp\nbad\nworse x/tcp\n";
        assert_eq!(port(text, "domain", "tcp"), Some(53));
        assert_eq!(port(text, "dns", "tcp"), Some(53));
        for (name, protocol) in
            [("dns", "udp"), ("only", "tcp"), ("bad", "tcp"), ("worse", "tcp"), ("53/tcp", "tcp")]
        {
            assert_eq!(port(text, name, protocol), None, "{name}");
        }
    }

    #[test]
    fn protocols_networks_and_stations() {
        let text = "ip 0 IP\ntcp 6 TCP # transmission\nwrong 256 x\nbad\n";
        assert_eq!((protocol(text, "tcp"), protocol(text, "TCP")), (Some(6), Some(6)));
        for name in ["6", "wrong", "bad", "transmission"] {
            assert_eq!(protocol(text, name), None, "{name}");
        }
        let text = "loopback 127.0.0.0\nours 10.1 us\nlong 1.2.3.4.5\nbad x\nworse\n";
        assert_eq!(network(text, "loopback"), Some(0x7f00_0000));
        assert_eq!(network(text, "us"), Some(0x0a01_0000));
        for name in ["long", "bad", "worse", "127.0.0.0"] {
            assert_eq!(network(text, name), None, "{name}");
        }
        let text = "02:00:00:00:00:01 printer # upstairs\nbad gate\n2:0:0:0:0:2 gate\n";
        assert_eq!(station(text, "printer"), Some([2, 0, 0, 0, 0, 1]));
        assert_eq!(station(text, "gate"), Some([2, 0, 0, 0, 0, 2]));
        assert_eq!(station(text, "upstairs"), None);
    }
}
