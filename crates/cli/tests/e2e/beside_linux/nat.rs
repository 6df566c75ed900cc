//! `examples/nat.click` and the kernel's masquerading with a port that leads inside.

use linerate_test_support::Namespace;

use super::{
    exchange::{Difference, Net, Step, compare, net, steps},
    routers::word,
};
use crate::{
    hosts::{run, stop},
    support::{LINERATE, Program, Scratch},
};

const SCRIPT: &str = concat!(include_str!("nat_hosts.py"), "\n", include_str!("nat.py"));
/// The hosts inside, all at one interface, and the next router outside.
const INSIDE: [&str; 3] = ["198.18.0.2", "198.18.0.3", "198.18.0.9"];
const INSIDE_MAC: &str = "02:00:00:00:0a:00";
const GATEWAY: &str = "203.0.113.2";
const GATEWAY_MAC: &str = "02:00:00:00:0a:01";

/// The example's rules. Inside is `p0`.
const RULES: &str = "\
table ip nat {
  chain incoming {
    type nat hook prerouting priority dstnat;
    iifname p1 ip daddr 203.0.113.1 tcp dport 8080 dnat to 198.18.0.2:80
  }
  chain outgoing {
    type nat hook postrouting priority srcnat;
    oifname p1 masquerade
  }
}
table ip filter {
  chain forward {
    type filter hook forward priority filter; policy drop;
    ct state invalid drop
    iifname p0 accept
    ct state established,related accept
    ct status dnat accept
  }
  chain input {
    type filter hook input priority filter; policy drop;
    iifname p0 accept
    icmp type echo-request accept
  }
}
";

/// Configures the kernel as the example.
pub(super) fn linux(nat: &Namespace) {
    for (interface, own) in [("p0", "198.18.0.1/24"), ("p1", "203.0.113.1/24")] {
        nat.add_address(interface, own);
    }
    let neighbours = INSIDE.map(|host| (host, INSIDE_MAC, "p0"));
    for (host, mac, interface) in neighbours.into_iter().chain([(GATEWAY, GATEWAY_MAC, "p1")]) {
        let words = ["ip", "neighbour", "add", host, "lladdr", mac, "nud", "permanent"];
        nat.expect([&words[..], &["dev", interface]].concat());
    }
    nat.ip(["route", "add", "default", "via", GATEWAY]);
    nat.set_mtu("p1", 1280);
    nat.set("net/ipv4/ip_forward", "1");
    nat.set("net/ipv4/icmp_ratemask", "0");
    nat.expect(["nft", RULES]);
}

/// Runs the example in the middle; `control` is a socket to be made, and every host is known.
#[track_caller]
pub(super) fn ours(net: &Net, control: &str, arguments: &str) -> Program {
    let arguments =
        format!("INSIDE=p0 OUTSIDE=p1 OUTSIDE_MTU=1280 --control {control} {arguments}");
    let program = run(&net.middle, "nat.click", &arguments);
    let tell = |handler: &str, host: &str, mac: &str| {
        net.middle.expect([LINERATE, "call", control, handler, &format!("{host} {mac}")]);
    };
    for host in INSIDE {
        tell("inside/arp.insert", host, INSIDE_MAC);
    }
    tell("outside/arp.insert", GATEWAY, GATEWAY_MAC);
    program
}

/// Ports and identifiers are compared by the order of their first use, since each side may choose
/// them as it likes; the program that makes the packets answers to the ports that it sees.
#[test]
#[ignore = "needs root"]
fn flows_are_translated_as_they_are_by_nftables() {
    let kernels = net(2);
    linux(&kernels.middle);
    let linux = steps(&kernels, SCRIPT, &[]);
    drop(kernels);

    let net = net(2);
    let scratch = Scratch::new();
    let control = scratch.file("control");
    let program = ours(&net, &control, "");
    let ours = steps(&net, SCRIPT, &[]);
    stop(program);
    compare(&linux, &ours, DIFFERENCES, 55);
}

const DIFFERENCES: &[Difference] = &[
    (
        "over-mtu-df",
        "ours counts the TTL down before it finds the packet too long, and quotes it so",
        |linux, ours| {
            let ((at, mut linux), (ours_at, ours)) = (linux.only(), ours.only());
            let quoted = &mut linux[14 + 20 + 8..];
            quoted[8] -= 1;
            // The sum grows by the decrement of the TTL.
            let sum = u16::try_from(word(quoted, 10) + 0x100).expect("no carry");
            quoted[10..12].copy_from_slice(&sum.to_be_bytes());
            (at, ours_at) == (0, 0) && linux == ours
        },
    ),
    ("part-2", PARTS, same_in_one_piece),
    ("part-late-first-1", PARTS, same_in_one_piece),
    ("part-back-2", PARTS, same_in_one_piece),
    (
        "gre",
        "Linux translates addresses of protocols without ports, as long as no two hosts use them; \
            the example says that it has no such protocol",
        |linux, ours| {
            let (at, error) = ours.only();
            linux.only().0 == 1 && at == 0 && error[14 + 20..][..2] == [3, 2]
        },
    ),
    (
        "udp-wrong-checksum",
        "Linux looks at it and finds the packet part of no flow; ours leaves it as wrong as it was, \
            for the receiver to find",
        |linux, ours| linux.is_silent() && ours.only().0 == 1,
    ),
];

const PARTS: &str = "both put packets together to see their ports; Linux divides them again into \
    parts as large as they were, ours only into such as the next link needs";

fn same_in_one_piece(linux: &Step, ours: &Step) -> bool {
    let (end, whole) = ours.only();
    let parts = linux.frames(end);
    let data: Vec<u8> = parts.iter().flat_map(|frame| frame[14 + 20..].to_vec()).collect();
    parts.len() > 1 && data == whole[14 + 20..]
}
