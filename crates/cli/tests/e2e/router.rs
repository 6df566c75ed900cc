//! The example `router.click` between two hosts of the kernel's: pings, errors, fragments, path MTU
//! discovery, and the programs people use, on one worker and on two, over both kinds of socket.

use crate::hosts::{
    HostPair, change_address, iperf_all, iperf_server, ping, ping_text, stop, traceroute,
    wait_for_ping,
};

/// The example runs once a ping comes back.
#[track_caller]
fn net(arguments: &str) -> HostPair {
    let hosts = [["198.18.0.2/24", "198.18.0.1"], ["198.19.0.2/24", "198.19.0.1"]];
    HostPair::new("router.click", arguments, hosts)
}

#[test]
#[ignore = "needs root"]
fn hosts_reach_each_other_and_get_icmp_errors() {
    let HostPair { left: a, right: b, middle: router, program } = net("RIGHT_MTU=1280");
    let reply = ping_text(&b, &[], "198.18.0.2");
    assert!(reply.contains("ttl=63"), "{reply}");
    // Both ways in fragments: those for the right are divided once more.
    let reply = ping_text(&a, &["-s", "4000"], "198.19.0.2");
    assert!(reply.contains("4008 bytes from 198.19.0.2"), "{reply}");
    for (arguments, to, expected) in [
        (&["-t", "1"][..], "198.19.0.2", "From 198.18.0.1 icmp_seq=1 Time to live exceeded"),
        (&["-M", "do", "-s", "1400"], "198.19.0.2", "Frag needed and DF set (mtu = 1280)"),
        (&[], "203.0.113.1", "From 198.18.0.1 icmp_seq=1 Destination Net Unreachable"),
        // The router's own addresses answer, also to fragments.
        (&[], "198.18.0.1", "64 bytes from 198.18.0.1: icmp_seq=1 ttl=254"),
        (&[], "198.19.0.1", "64 bytes from 198.19.0.1: icmp_seq=1 ttl=254"),
        (&["-s", "1700"], "198.18.0.1", "1708 bytes from 198.18.0.1"),
    ] {
        let output = ping_text(&a, arguments, to);
        assert!(output.contains(expected), "{to} {arguments:?}: {output}");
    }
    // No host answers for a whole network.
    assert!(!ping(&a, &["-W", "1", "-b"], "198.19.0.255").status.success());
    // The kernel of the router's namespace has no part in it.
    assert_eq!(router.expect(["cat", "/proc/sys/net/ipv4/ip_forward"]).trim(), "0");
    stop(program);
}

#[test]
#[ignore = "needs root"]
fn traceroute_shows_the_way() {
    let HostPair { left: a, right: _b, middle: _router, program } = net("");
    for method in ["--udp", "--icmp", "--tcp"] {
        let (hops, text) = traceroute(&a, method, "198.19.0.2");
        assert_eq!(hops, ["198.18.0.1", "198.19.0.2"], "{text}");
        let (hops, text) = traceroute(&a, method, "198.18.0.1");
        assert_eq!(hops, ["198.18.0.1"], "{text}");
    }
    stop(program);
}

#[track_caller]
fn carries(arguments: &str) {
    net(arguments).carries("198.19.0.2", ["left/send", "right/send"]);
}

#[test]
#[ignore = "needs root"]
fn it_carries_traffic_over_packet_sockets() {
    carries("");
}

#[test]
#[ignore = "needs root"]
fn it_carries_traffic_over_xdp() {
    carries("METHOD=XDP");
}

#[test]
#[ignore = "needs root"]
fn two_workers_carry_traffic() {
    carries("--workers 2");
}

/// A link with a smaller MTU behind it: TCP finds out by the router's errors.
#[test]
#[ignore = "needs root"]
fn tcp_discovers_the_path_mtu() {
    let HostPair { left: a, right: b, middle: _router, program } = net("RIGHT_MTU=1280");
    let _server = iperf_server(&b, 5201);
    iperf_all(&a, "198.19.0.2", &[]);
    let route = a.ip(["route", "get", "198.19.0.2"]);
    assert!(route.contains("mtu 1280"), "{route}");
    stop(program);
}

#[test]
#[ignore = "needs root"]
fn a_host_is_found_at_its_new_address() {
    let HostPair { left: a, right: b, middle: _router, program } = net("");
    change_address(&b, "e0", "198.19.0.2");
    wait_for_ping(&a, "198.19.0.2");
    stop(program);
}
