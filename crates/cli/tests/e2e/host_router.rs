//! `examples/host-router.click`: a router on interfaces that stay its host's.

use linerate_test_support::{Lab, wait_until};

use crate::{
    hosts::{
        iperf_all, iperf_server, ping, ping_text, routed_host, run, stop, traceroute, wait_for_ping,
    },
    support::TIMEOUT,
};

#[test]
#[ignore = "needs root"]
fn the_host_answers_and_its_routes_are_followed() {
    let lab = Lab::new();
    let router = lab.namespace("router");
    let a = routed_host(&lab, &router, "left", "198.18.0.2/24", "198.18.0.1");
    let b = routed_host(&lab, &router, "right", "198.19.0.2/24", "198.19.0.1");
    let program = run(&router, "host-router.click", "");
    wait_for_ping(&a, "198.19.0.2");
    // The kernel has no part in forwarding,
    assert_eq!(router.expect(["cat", "/proc/sys/net/ipv4/ip_forward"]).trim(), "0");
    let shown = ping_text(&a, &[], "198.19.0.2");
    assert!(shown.contains("ttl=63"), "{shown}");
    let (hops, text) = traceroute(&a, "--udp", "198.19.0.2");
    assert_eq!(hops, ["198.18.0.1", "198.19.0.2"], "{text}");
    let _at_b = iperf_server(&b, 5201);
    iperf_all(&a, "198.19.0.2", &[]);
    // but answers for the router itself, with its own TTL,
    for own in ["198.18.0.1", "198.19.0.1"] {
        let shown = ping_text(&a, &[], own);
        assert!(shown.contains("ttl=64"), "{shown}");
    }
    // serves,
    let _at_router = iperf_server(&router, 5202);
    iperf_all(&a, "198.18.0.1", &["-p", "5202"]);
    // and reaches others.
    for host in ["198.18.0.2", "198.19.0.2"] {
        wait_for_ping(&router, host);
    }

    // Another network behind b: there is no way until the kernel has one.
    let far = "203.0.113.1";
    b.add_address("lo", "203.0.113.1/32");
    let unreachable = || {
        ping_text(&a, &[], far).contains("From 198.18.0.1 icmp_seq=1 Destination Net Unreachable")
    };
    let reachable = || ping(&a, &["-W", "1"], far).status.success();
    assert!(unreachable());
    for route in [
        &["203.0.113.0/24", "via", "198.19.0.2"][..],
        // Not to where it leads, but through the right interface.
        &["203.0.113.1/32", "via", "198.19.0.2", "dev", "tap-right"],
        &["default", "via", "198.19.0.2"],
    ] {
        let ip = |verb: &str| router.expect([&["ip", "route", verb], route].concat());
        ip("add");
        assert!(wait_until(reachable, TIMEOUT), "{route:?}");
        ip("del");
        assert!(wait_until(unreachable, TIMEOUT), "{route:?}");
    }
    router.ip(["route", "add", "203.0.113.0/24", "via", "198.19.0.2"]);
    assert!(wait_until(reachable, TIMEOUT));
    router.ip(["route", "add", "prohibit", "203.0.113.1/32"]);
    assert!(wait_until(unreachable, TIMEOUT));
    stop(program);
    // The taps go with the program.
    assert!(!router.ip(["link", "show"]).contains("tap-"));
}
