//! The chains of `cargo xtask bench chains`, and the configurations they are measured in.
//!
//! A configuration is a source of one packet, a start that prepares it for the chain, copies of the
//! chain, and a sink. It is in Click's language and uses only elements that Click has, so that
//! Click and FastClick take the same file. Every chain leaves packets as another copy of itself
//! takes them.
#![forbid(unsafe_code)]

use std::fmt::Write as _;

/// An Ethernet header and a UDP packet of 50 bytes: 64 bytes in all.
const UDP: &str = "00000000 00020000 00000001 0800 4500 0032 0000 0000 4011 66b9 0a00 0001 0a00 \
    0002 0007 0007 001e 0000 00000000 00000000 00000000 00000000 00000000 0000";
/// As `UDP`, with IPv6: 40 bytes of header, 10 of UDP.
const UDP6: &str = "00000000 00020000 00000001 86dd 6000 0000 000a 1140 20010db8 00000000 00000000 \
    00000001 20010db8 00010000 00000000 00000002 0007 0007 000a 0000 0000";
/// The host 10.0.0.1 asks where 10.0.0.2 is.
const QUERY: &str = "ffffffffffff 000000000001 0806 0001 0800 0604 0001 000000000001 0a000001 \
    000000000000 0a000002 00000000 00000000 00000000 00000000 0000";
/// From the other side of a switch: to the source of [`UDP`] from its destination.
const ANSWER: &str = "00000000 00010000 00000002 0800 4500 0032 0000 0000 4011 66b9 0a00 0002 0a00 \
    0001 0007 0007 001e 0000 00000000 00000000 00000000 00000000 00000000 0000";

/// The answer of the host 10.0.0.2 to the querier.
const REPLY: &str = "020000000001 020000000002 0806 0001 0800 0604 0002 020000000002 0a000002 \
    020000000001 0a0000fe 00000000 00000000 00000000 00000000 0000";

/// Capacity of a queue, in packets: a multiple of every sensible burst.
const QUEUE: u64 = 1024;

/// A chain of elements.
#[derive(Debug, Clone, Copy)]
pub struct Chain {
    /// Its name for `--only`.
    pub name: &'static str,
    /// Its elements, for people.
    pub about: &'static str,
    /// The bytes of the packet.
    packet: &'static str,
    /// Elements that prepare the packet for the chain, once.
    start: &'static str,
    /// Elements between `input` and `output`; `BURST` stands for packets in a frame.
    elements: &'static str,
    /// Statements beside it, in each copy.
    beside: &'static str,
    /// Packets that may still be in a copy when the source has sent its last and ends the run.
    pub holds: u64,
}

/// Over IP packets whose header is known, as most are.
const fn over_ip(name: &'static str, about: &'static str, elements: &'static str) -> Chain {
    let start = "Strip(14) -> CheckIPHeader";
    Chain { name, about, packet: UDP, start, elements, beside: "", holds: 0 }
}

/// Over frames as they are.
const fn over_ethernet(
    name: &'static str,
    about: &'static str,
    elements: &'static str,
    beside: &'static str,
) -> Chain {
    Chain { name, about, packet: UDP, start: "Null", elements, beside, holds: 0 }
}

/// All of them, in the order in which they are measured.
pub const CHAINS: [Chain; 18] = [
    over_ip("strip", "Unstrip, Strip", "Unstrip(14) -> Strip(14)"),
    over_ip(
        "ip",
        "CheckIPHeader, RadixIPLookup, DecIPTTL",
        "CheckIPHeader -> RadixIPLookup(0/0 192.168.0.1 0) -> DecIPTTL",
    ),
    over_ip(
        "router",
        "CheckIPHeader, RadixIPLookup, DropBroadcasts, IPGWOptions, FixIPSrc, DecIPTTL, \
         IPFragmenter, EtherEncap, Classifier, Strip",
        "CheckIPHeader -> RadixIPLookup(0/0 192.168.0.1 0) -> DropBroadcasts
    -> IPGWOptions(192.168.0.254) -> FixIPSrc(192.168.0.254) -> DecIPTTL -> IPFragmenter(1500)
    -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> Classifier(12/0800) -> Strip(14)",
    ),
    over_ethernet("counter", "Counter", "Counter", ""),
    over_ip(
        "nat",
        "CheckIPHeader, IPRewriter of one flow",
        "CheckIPHeader -> IPRewriter(pattern 198.51.100.1 1024-65535# - - 0 0)",
    ),
    over_ethernet(
        "switch",
        "EtherSwitch of two ports, both hosts known",
        "[0] switch :: EtherSwitch [1]",
        // Tells the switch where the destination is.
        "InfiniteSource(DATA \\<ANSWER>, LIMIT 1) -> [1] switch [0] -> Discard;",
    ),
    over_ip(
        "filter",
        "IPFilter of ten rules, the last matches",
        "IPFilter(deny src net 172.16.0.0/12, deny src net 192.168.0.0/16, deny dst net 127.0.0.0/8,
        deny dst host 10.0.0.255, deny tcp dst port 22, deny tcp dst port 23, deny udp dst port 69,
        deny icmp type 5, deny ip frag, allow udp)",
    ),
    over_ethernet(
        "classifier",
        "Classifier of four patterns, the third matches",
        "kind :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -) [2]",
        "kind[0] -> Discard; kind[1] -> Discard; kind[3] -> Discard;",
    ),
    Chain {
        // Packets that wait for the answer go on when it comes.
        beside: "InfiniteSource(DATA \\<REPLY>, LIMIT 1) -> [1] arp [1] -> Discard;",
        ..over_ip(
            "arp-querier",
            "ARPQuerier of a known neighbour, Strip",
            "[0] arp :: ARPQuerier(10.0.0.254, 2:0:0:0:0:1) -> Strip(14)",
        )
    },
    Chain {
        name: "arp-responder",
        about: "ARPResponder, StoreData that makes the answer a query",
        packet: QUERY,
        start: "Null",
        elements: "ARPResponder(10.0.0.0/8 2:0:0:0:0:2) -> StoreData(20, \\<0001>)",
        beside: "",
        holds: 0,
    },
    Chain {
        name: "ipv6",
        about: "CheckIP6Header, GetIP6Address, LookupIP6Route, DecIP6HLIM",
        packet: UDP6,
        start: "Strip(14)",
        elements: "CheckIP6Header -> GetIP6Address(24) -> LookupIP6Route(::/0 fe80::1 0) -> DecIP6HLIM",
        beside: "",
        holds: 0,
    },
    over_ethernet("vlan", "VLANEncap, VLANDecap", "VLANEncap(7) -> VLANDecap", ""),
    over_ip("checksum", "SetIPChecksum, CheckIPHeader", "SetIPChecksum -> CheckIPHeader"),
    over_ip("udp-checksum", "SetUDPChecksum, CheckUDPHeader", "SetUDPChecksum -> CheckUDPHeader"),
    over_ip(
        "tunnel",
        "UDPIPEncap, Strip of what it put in front",
        "UDPIPEncap(192.0.2.1, 4789, 192.0.2.2, 4789) -> Strip(28)",
    ),
    over_ethernet(
        "ethernet",
        "StoreEtherAddress, EtherMirror",
        "StoreEtherAddress(2:0:0:0:0:1, src) -> EtherMirror",
        "",
    ),
    over_ethernet("paint", "Paint, CheckPaint", "Paint(1) -> CheckPaint(1)", ""),
    Chain {
        holds: QUEUE,
        ..over_ethernet("queue", "Queue, Unqueue", "Queue(1024) -> Unqueue(BURST)", "")
    },
];

/// Setting of a configuration.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// Copies of the chain in it.
    pub copies: u32,
    /// Packets that go through.
    pub packets: u64,
    /// Packets that are sent at a time.
    pub burst: u32,
}

impl Chain {
    /// The configuration. At its end it prints `delivered N`, see [`delivered`].
    pub fn configuration(&self, setting: Setting) -> String {
        let Setting { copies, packets, burst } = setting;
        let elements = self.elements.replace("BURST", &burst.to_string());
        let beside = self.beside.replace("ANSWER", ANSWER).replace("REPLY", REPLY);
        let mut text = format!(
            "// {copies} times: {}\nelementclass Chain {{\n  input -> {elements} -> output;\n",
            self.about
        );
        if !beside.is_empty() {
            let _ = writeln!(text, "  {beside}");
        }
        let _ = write!(
            text,
            "}}\nInfiniteSource(DATA \\<{}>,\n    LIMIT {packets}, BURST {burst}, TIMESTAMP false, \
             STOP true)\n  -> {}\n",
            self.packet, self.start
        );
        for _ in 0..copies {
            text.push_str("  -> Chain\n");
        }
        text.push_str(
            "  -> end :: Discard;\nDriverManager(wait_stop, print \"delivered $(end.count)\");\n",
        );
        text
    }
}

/// Returns the number of packets that reached the end, from the output of a run.
pub fn delivered(output: &str) -> Option<u64> {
    output.lines().rev().find_map(|line| line.strip_prefix("delivered ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use linerate_elements_testing::{RunWith, TestLibrary};
    use linerate_graph::Library;

    use super::*;

    struct Whole;

    impl TestLibrary for Whole {
        fn library() -> Library {
            linerate_elements::library()
        }
    }

    /// Simulated time goes on after the end of the source, so that packets held by queues arrive,
    /// too.
    #[test]
    fn every_chain_delivers_all_packets() {
        for chain in CHAINS {
            for (copies, limit) in [(1, 1), (1, 256), (11, 1), (11, 256)] {
                let setting = Setting { copies, packets: 600, burst: 256 };
                let text = chain.configuration(setting);
                let text = text.replace("wait_stop,", "wait_stop, wait 1s,");
                let mut run = RunWith::<Whole>::new(&text).frame_limit(limit);
                assert_eq!(run.refused(), "", "{}", chain.name);
                run.run();
                let output = run.output();
                let found = delivered(&output);
                assert_eq!(found, Some(600), "{} at {limit}: {output}", chain.name);
            }
        }
    }
}
