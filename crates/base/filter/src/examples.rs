//! The examples of tcpdump(1) and pcap-filter(7).

use std::net::IpAddr;

use super::{
    Filter, Names,
    tests::{names, packets, run},
};

/// As they are in the pages, and with numbers for names that only the pages' authors have.
pub(super) const EXAMPLES: &[(&str, &str)] = &[
    ("host sundown", "host 10.9.9.9"),
    ("host helios and ( hot or ace )", "host 10.0.0.1 and (10.1.2.3 or 10.9.9.9)"),
    ("ip host ace and not helios", "ip host 10.9.9.9 and not 10.0.0.1"),
    ("net ucb-ether", "net 10.1.0.0"),
    ("ip and not net localnet", "ip and not net 10.0.0.0"),
    (
        "tcp[tcpflags] & (tcp-syn|tcp-fin) != 0 and not src and dst net localnet",
        "tcp[tcpflags] & (tcp-syn|tcp-fin) != 0 and not src and dst net 10.0.0.0",
    ),
    ("host foo", "host 10.1.2.3"),
    ("net 128.3", "net 128.3"),
    ("port 20", "port 20"),
    ("portrange 6000-6008", "portrange 6000-6008"),
    ("src foo", "src 10.1.2.3"),
    ("dst net 128.3", "dst net 128.3"),
    ("src or dst port ftp-data", "src or dst port 20"),
    ("ether src 2:0:0:0:0:2", "ether src 2:0:0:0:0:2"),
    ("arp net 128.3", "arp net 128.3"),
    ("tcp port 21", "tcp port 21"),
    ("udp portrange 7000-7009", "udp portrange 7000-7009"),
    ("host foo and not port ftp and not port ftp-data", "host 10.1.2.3 and not port 21 and not 20"),
    ("tcp dst port ftp or ftp-data or domain", "tcp dst port 21 or 20 or 53"),
    ("ether proto \\ip and host foo", "ether proto \\ip and host 10.1.2.3"),
    ("ether host 2:0:0:0:0:1 and not host foo", "ether host 2:0:0:0:0:1 and not host 10.1.2.3"),
    ("dst port 513", "dst port 513"),
    ("port domain", "port domain"),
    ("ip proto \\icmp", "ip proto 1"),
    ("proto \\udp", "proto 17"),
    ("ip6 protochain 6", "ip6 protochain 6"),
    ("ip6 protochain 44", "ip6 protochain 44"),
    ("ether proto \\arp", "ether proto \\arp"),
    ("fddi proto \\arp", "fddi proto \\arp"),
    ("vlan 100 && vlan 200", "vlan 100 && vlan 200"),
    ("vlan && vlan 300 && ip", "vlan && vlan 300 && ip"),
    ("mpls 100000 && mpls 1024", "mpls 100000 && mpls 1024"),
    ("mpls && mpls 1024 && host 192.9.200.1", "mpls && mpls 1024 && host 192.9.200.1"),
    ("pppoes 0x27 && ip", "pppoes 0x27 && ip"),
    ("geneve 0xb && ip", "geneve 0xb && ip"),
    ("ether[0] & 1 != 0", "ether[0] & 1 != 0"),
    ("ip[0] & 0xf != 5", "ip[0] & 0xf != 5"),
    ("ip[6:2] & 0x1fff = 0", "ip[6:2] & 0x1fff = 0"),
    ("not host vs and ace", "not host 10.1.2.3 and host 10.9.9.9"),
    ("not (host vs or ace)", "not (host 10.1.2.3 or 10.9.9.9)"),
    (
        "tcp[tcpflags] & (tcp-rst|tcp-ack) == (tcp-rst|tcp-ack)",
        "tcp[tcpflags] & (tcp-rst|tcp-ack) == (tcp-rst|tcp-ack)",
    ),
    (
        "tcp port 80 and (((ip[2:2] - ((ip[0]&0xf)<<2)) - ((tcp[12]&0xf0)>>2)) != 0)",
        "tcp port 80 and (((ip[2:2] - ((ip[0]&0xf)<<2)) - ((tcp[12]&0xf0)>>2)) != 0)",
    ),
    ("ether[0] & 1 = 0 and ip[16] >= 224", "ether[0] & 1 = 0 and ip[16] >= 224"),
    (
        "icmp[icmptype] != icmp-echo and icmp[icmptype] != icmp-echoreply",
        "icmp[icmptype] != icmp-echo and icmp[icmptype] != icmp-echoreply",
    ),
    (
        "icmp6[icmp6type] != icmp6-echo and icmp6[icmp6type] != icmp6-echoreply",
        "icmp6[icmp6type] != icmp6-echo and icmp6[icmp6type] != icmp6-echoreply",
    ),
];

/// Examples of the pages that tcpdump refuses where it knows IPv6.
pub(super) const REFUSED: &[&str] =
    &["gateway snup and (port ftp or ftp-data)", "gateway snup and ip[2:2] > 576"];

/// The names of the pages stand for addresses of the [`packets`].
fn named<'a>() -> Names<'a> {
    Names {
        host: &|name| {
            let address = match name {
                "helios" => [10, 0, 0, 1],
                "hot" | "foo" | "vs" => [10, 1, 2, 3],
                "sundown" | "ace" => [10, 9, 9, 9],
                _ => return Vec::new(),
            };
            vec![IpAddr::from(address)]
        },
        network: &|name| match name {
            "ucb-ether" => Some(0x0a01_0000),
            "localnet" => Some(0x0a00_0000),
            _ => None,
        },
        ..names()
    }
}

#[test]
fn examples_of_the_manual_choose_as_written_in_numbers() {
    let packets = packets();
    let mut some = 0;
    for (example, in_numbers) in EXAMPLES {
        let read = |text: &str| {
            Filter::new(text, named()).unwrap_or_else(|error| panic!("{text}: {error}"))
        };
        let (example_filter, filter) = (read(example), read(in_numbers));
        let program = example_filter.program();
        for packet in &packets {
            let wanted = filter.accepts(packet);
            assert_eq!(example_filter.accepts(packet), wanted, "{example}: {packet:02x?}");
            if let Some(program) = &program {
                assert_eq!(run(program, packet) > 0, wanted, "{example}: {packet:02x?}");
            }
            some += usize::from(wanted);
        }
        // A loop through headers is no program for the kernel.
        assert_eq!(program.is_none(), example.contains("protochain"), "{example}");
    }
    assert!(some > 100, "{some}");
    for example in REFUSED {
        let error = "'gateway' not supported in this configuration";
        assert_eq!(Filter::new(example, named()).map(|_| ()), Err(error.into()), "{example}");
    }
}
