//! Well-known ports and protocols by name: the ones Click knows, and then
//! those in `/etc/services` and `/etc/protocols`, read when first needed.

use std::{collections::HashMap, fs, sync::OnceLock};

/// TCP's protocol number.
pub(crate) const TCP: u32 = 6;
/// UDP's protocol number.
pub(crate) const UDP: u32 = 17;

/// Protocols Click knows; some stand for several, with numbers beyond 255.
const PROTOCOLS: &[(&str, u32)] = &[
    ("dccp", 33),
    ("gre", 47),
    ("icmp", 1),
    ("igmp", 2),
    ("ipip", 4),
    ("payload", 259),
    ("sctp", 132),
    ("tcp", TCP),
    ("tcpudp", 256),
    ("transp", 258),
    ("udp", UDP),
];

/// Ports of TCP and UDP Click knows.
const PORTS: &[(&str, u32)] = &[
    ("auth", 113),
    ("bootpc", 68),
    ("bootps", 67),
    ("chargen", 19),
    ("daytime", 13),
    ("discard", 9),
    ("dns", 53),
    ("domain", 53),
    ("echo", 7),
    ("finger", 79),
    ("ftp", 21),
    ("ftp-data", 20),
    ("https", 443),
    ("imap3", 220),
    ("imaps", 993),
    ("irc", 194),
    ("netbios-dgm", 138),
    ("netbios-ns", 137),
    ("netbios-ssn", 139),
    ("nntp", 119),
    ("ntp", 123),
    ("pop3", 110),
    ("pop3s", 995),
    ("pptp", 1723),
    ("rip", 520),
    ("route", 520),
    ("smtp", 25),
    ("snmp", 161),
    ("snmp-trap", 162),
    ("ssh", 22),
    ("sunrpc", 111),
    ("telnet", 23),
    ("tftp", 69),
    ("www", 80),
];

/// The number of a protocol of IP by its name: one that Click knows, or one of `/etc/protocols`.
pub(crate) fn known_protocol(name: &str) -> Option<u32> {
    static FILE: OnceLock<HashMap<String, u32>> = OnceLock::new();
    built_in(PROTOCOLS, name).or_else(|| {
        let read = || protocols(&fs::read_to_string("/etc/protocols").unwrap_or_default());
        FILE.get_or_init(read).get(name).copied()
    })
}

/// The number of a port by its name and its protocol: one that Click knows, or one of
/// `/etc/services`.
pub(crate) fn known_port(name: &str, protocol: u32) -> Option<u32> {
    let table = if matches!(protocol, TCP | UDP) { PORTS } else { &[] };
    built_in(table, name).or_else(|| listed_port(name, protocol))
}

/// As `known_port`, by the names other programs have: those in `/etc/services`, where many names
/// are of one protocol alone. Of names that are not in there Click knows some.
pub(super) fn system_port(name: &str, protocol: u32) -> Option<u32> {
    if listed_port(name, TCP).or_else(|| listed_port(name, UDP)).is_none() {
        return known_port(name, protocol);
    }
    listed_port(name, protocol)
}

/// One of `/etc/services`.
fn listed_port(name: &str, protocol: u32) -> Option<u32> {
    static FILE: OnceLock<HashMap<(u32, String), u32>> = OnceLock::new();
    let read = || services(&fs::read_to_string("/etc/services").unwrap_or_default());
    FILE.get_or_init(read).get(&(protocol, name.to_owned())).copied()
}

fn built_in(table: &[(&str, u32)], name: &str) -> Option<u32> {
    table.iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
}

/// The lines of such a file: the second word, and all the others.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (&str, Vec<&str>)> {
    text.lines().filter_map(|line| {
        let line = line.split('#').next().unwrap_or_default();
        let mut words: Vec<_> = line.split_whitespace().collect();
        (words.len() > 1).then(|| (words.remove(1), words))
    })
}

fn protocols(text: &str) -> HashMap<String, u32> {
    let mut known = HashMap::new();
    for (number, names) in lines(text) {
        if let Some(number) = number.parse().ok().filter(|number| *number < 256) {
            known.extend(names.into_iter().map(|name| (name.to_owned(), number)));
        }
    }
    known
}

fn services(text: &str) -> HashMap<(u32, String), u32> {
    let mut known = HashMap::new();
    for (place, names) in lines(text) {
        let Some((port, protocol)) = place.split_once(['/', ',']) else { continue };
        let port = port.parse().ok().filter(|port| *port < 65_536);
        if let (Some(port), Some(protocol)) = (port, known_protocol(protocol)) {
            known.extend(names.into_iter().map(|name| ((protocol, name.to_owned()), port)));
        }
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_names() {
        assert_eq!(known_protocol("udp"), Some(17));
        assert_eq!(known_protocol("no such protocol"), None);
        assert_eq!(known_port("dns", UDP), Some(53));
        assert_eq!(known_port("no such port", TCP), None);
        // No file has it, and Click knows it of both.
        assert_eq!((system_port("imap3", TCP), system_port("dns", UDP)), (Some(220), Some(53)));
        assert_eq!(system_port("no such port", TCP), None);
    }

    #[test]
    fn files() {
        let text =
            "# comment\nssh  22/tcp # x\nhttp 80/tcp www web\nbad\nsyslog 514/udp\nbig 99999/tcp\n";
        let known = services(text);
        let port = |protocol, name: &str| known.get(&(protocol, name.to_owned())).copied();
        assert_eq!(port(TCP, "ssh"), Some(22));
        assert_eq!(port(TCP, "web"), Some(80));
        assert_eq!(port(UDP, "syslog"), Some(514));
        assert_eq!(port(TCP, "syslog"), None);
        assert_eq!(port(TCP, "big"), None);
        let known = protocols("ospf 89 OSPFIGP\nx y\n");
        assert_eq!((known.get("OSPFIGP"), known.get("x")), (Some(&89), None));
    }
}
