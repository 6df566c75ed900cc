//! `examples/firewall.click` and a bridge of the kernel's with the same rules in nftables.

use linerate_test_support::Namespace;

use super::exchange::{Difference, compare, net, steps};
use crate::hosts::{bridge, run, stop};

const SCRIPT: &str = include_str!("firewall.py");

/// The example's rules. Outside is `p0`.
const RULES: &str = "\
table bridge firewall {
  chain forward {
    type filter hook forward priority 0; policy drop;
    ether type arp accept
    ether type != ip drop
    iifname p0 goto from_outside
    iifname p1 goto from_inside
  }
  chain from_outside {
    ip saddr 192.0.2.0/25 drop
    ip frag-off & 0x1fff != 0 accept
    ip daddr 192.0.2.80 tcp dport { 80, 443 } accept
    tcp flags & ack == ack accept
    udp sport { 53, 123 } accept
    icmp type { echo-reply, destination-unreachable, time-exceeded } accept
    drop
  }
  chain from_inside {
    ip saddr != 192.0.2.0/25 drop
    tcp dport 25 ip saddr != 192.0.2.80 drop
    accept
  }
}
";

fn linux(middle: &Namespace) {
    bridge(middle, &["p0", "p1"]);
    middle.set("net/bridge/bridge-nf-call-iptables", "0");
    middle.expect(["nft", RULES]);
}

#[test]
#[ignore = "needs root"]
fn packets_pass_as_they_pass_nftables() {
    let kernels = net(2);
    linux(&kernels.middle);
    let linux = steps(&kernels, SCRIPT, &[]);
    drop(kernels);

    let net = net(2);
    let variables = "OUTSIDE=packet:p0 INSIDE=packet:p1 NET=192.0.2.0/25 SERVER=192.0.2.80";
    let program = run(&net.middle, "firewall.click", variables);
    let ours = steps(&net, SCRIPT, &[]);
    stop(program);
    compare(&linux, &ours, DIFFERENCES, 75);
}

const DIFFERENCES: &[Difference] = &[
    (
        "wrong-sum",
        "Linux filters what a bridge passes without looking whether its header is sound",
        |linux, ours| linux.only().0 == 1 && ours.is_silent(),
    ),
    (
        "icmp-empty",
        "for a message without a type Linux takes that from the padding behind the packet",
        |linux, ours| linux.only().0 == 1 && ours.is_silent(),
    ),
];
