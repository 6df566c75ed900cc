//! `examples/nat64.click` between two hosts that have only IPv6 and one that has only IPv4.

use std::process::Stdio;

use linerate_test_support::Lab;

use crate::{
    hosts::{
        assert_refused, bridge, host, iperf_all, iperf_server, no_ping, ping_text, routed_host,
        run, stop, text, traceroute, wait_for_ping,
    },
    support::TIMEOUT,
};

/// The IPv4 host as those with IPv6 see it.
const FOUR: &str = "64:ff9b::c613:2";

#[test]
#[ignore = "needs root"]
fn hosts_with_ipv6_reach_one_with_ipv4() {
    let lab = Lab::new();
    let (middle, lan) = (lab.namespace("middle"), lab.namespace("lan"));
    lab.veth(&lan, "uplink", &middle, "six");
    let six = ["2", "3"].map(|number| {
        let (port, address) = (format!("p{number}"), format!("2001:db8::{number}/64"));
        routed_host(&lab, &lan, &port, &address, "2001:db8::1")
    });
    bridge(&lan, &["uplink", "p2", "p3"]);
    let four = host(&lab, &middle, "four", "four", "198.19.0.2/24");
    let program = run(&middle, "nat64.click", "");
    for host in &six {
        wait_for_ping(host, FOUR);
    }
    let shown = ping_text(&six[0], &[], FOUR);
    assert!(shown.contains("ttl=63"), "{shown}");
    // At the same time, with the same identifier.
    let pings = six.each_ref().map(|host| {
        let words = ["ping", "-e", "4242", "-c", "20", "-i", "0.05", "-W", "20", FOUR];
        let mut command = host.command(words);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        host.spawn_command(command)
    });
    for ping in pings {
        let shown = text(&ping.output(TIMEOUT));
        assert!(shown.contains(" 0% packet loss"), "{shown}");
    }
    // Errors come from the other side as well, and go to the sender of the packet.
    for method in ["--udp", "--icmp", "--tcp"] {
        let (hops, text) = traceroute(&six[1], method, FOUR);
        assert_eq!(hops, ["2001:db8::1", FOUR], "{text}");
    }
    assert_refused(&six[0], FOUR);
    let _server = iperf_server(&four, 5201);
    for host in &six {
        iperf_all(host, FOUR, &[]);
    }
    // The IPv4 host knows of one other.
    let neighbours = four.ip(["neighbour", "show", "dev", "e0"]);
    assert!(neighbours.lines().count() == 1 && neighbours.contains("198.19.0.1 "), "{neighbours}");
    no_ping(&four, &[], "198.19.0.3");
    let shown = ping_text(&six[0], &[], "2001:db8:9::1");
    assert!(shown.contains("No route"), "{shown}");
    stop(program);
}
