//! The example `router6.click` between two hosts of the kernel's.

use crate::hosts::{HostPair, assert_refused, ping_text, stop, traceroute};

const FAR: &str = "2001:db8:0:2::2";

#[track_caller]
fn net(arguments: &str) -> HostPair {
    let hosts =
        [["2001:db8:0:1::2/64", "2001:db8:0:1::1"], ["2001:db8:0:2::2/64", "2001:db8:0:2::1"]];
    HostPair::new("router6.click", arguments, hosts)
}

#[test]
#[ignore = "needs root"]
fn hosts_reach_each_other_and_get_icmp_errors() {
    let HostPair { left: a, right: b, middle: router, program } = net("RIGHT_MTU=1280");
    let reply = ping_text(&b, &[], "2001:db8:0:1::2");
    assert!(reply.contains("ttl=63"), "{reply}");
    let near = "From 2001:db8:0:1::1 icmp_seq=1";
    for (arguments, to, expected) in [
        (&["-t", "1"][..], FAR, format!("{near} Time exceeded: Hop limit")),
        (&["-M", "do", "-s", "1400"], FAR, format!("{near} Packet too big: mtu=1280")),
        // The sender knows by now, and divides it.
        (&["-s", "4000"], FAR, format!("4008 bytes from {FAR}")),
        (&[], "2001:db8:ff::1", format!("{near} Destination unreachable: No route")),
    ] {
        let output = ping_text(&a, arguments, to);
        assert!(output.contains(&expected), "{to} {arguments:?}: {output}");
    }
    for to in ["2001:db8:0:1::1", "2001:db8:0:2::1"] {
        for size in ["0", "56", "1400"] {
            let output = ping_text(&a, &["-s", size], to);
            assert!(output.contains(&format!("bytes from {to}: icmp_seq=1")), "{output}");
        }
    }
    for to in [FAR, "2001:db8:0:1::1", "2001:db8:0:2::1"] {
        assert_refused(&a, to);
    }
    // The kernel of the router's namespace has no part in it.
    assert_eq!(router.expect(["cat", "/proc/sys/net/ipv6/conf/all/forwarding"]).trim(), "0");
    stop(program);
}

#[test]
#[ignore = "needs root"]
fn traceroute_shows_the_way() {
    let HostPair { left: a, right: _b, middle: _router, program } = net("");
    for method in ["--udp", "--icmp", "--tcp"] {
        let (hops, text) = traceroute(&a, method, FAR);
        assert_eq!(hops, ["2001:db8:0:1::1", FAR], "{text}");
    }
    let (hops, text) = traceroute(&a, "--udp", "2001:db8:0:1::1");
    assert_eq!(hops, ["2001:db8:0:1::1"], "{text}");
    stop(program);
}

/// A smaller MTU behind the router: TCP finds out by its errors.
#[track_caller]
fn carries(arguments: &str) {
    net(arguments).carries(FAR, ["left/send", "right/send"]);
}

#[test]
#[ignore = "needs root"]
fn it_carries_traffic_over_packet_sockets() {
    carries("RIGHT_MTU=1280");
}

#[test]
#[ignore = "needs root"]
fn it_carries_traffic_over_xdp() {
    carries("METHOD=XDP");
}
