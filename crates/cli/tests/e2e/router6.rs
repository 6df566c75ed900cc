//! The example `router6.click` between two hosts of the kernel's.

use linerate_testlab::{Lab, Namespace};

use crate::{
    hosts::{
        element, iperf_all, iperf_server, ping_text, python, routed_host, run, stop, traceroute,
        wait_for_ping,
    },
    support::{Program, number},
};

const FAR: &str = "2001:db8:0:2::2";

struct Net {
    a: Namespace,
    b: Namespace,
    router: Namespace,
    program: Program,
}

#[track_caller]
fn net(arguments: &str) -> Net {
    let lab = Lab::new();
    let router = lab.namespace("router");
    let a = routed_host(&lab, &router, "left", "2001:db8:0:1::2/64", "2001:db8:0:1::1");
    let b = routed_host(&lab, &router, "right", "2001:db8:0:2::2/64", "2001:db8:0:2::1");
    let program = run(&router, "router6.click", arguments);
    wait_for_ping(&a, FAR);
    Net { a, b, router, program }
}

/// What comes of a datagram to a port where nobody listens.
const KNOCK: &str = "\
import socket, sys
wire = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
wire.settimeout(30)
wire.connect((sys.argv[1], 9))
wire.send(b'hello')
try:
    wire.recv(100)
except ConnectionRefusedError:
    print('refused')
";

#[test]
#[ignore = "needs root"]
fn hosts_reach_each_other_and_are_told_what_is_wrong() {
    let Net { a, b, router, program } = net("RIGHT_MTU=1280");
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
    for to in [FAR, "2001:db8:0:1::1", "2001:db8:0:2::1"] {
        assert_eq!(python(&a, KNOCK, &[to]).trim(), "refused", "{to}");
    }
    // The kernel of the router's namespace has no part in it.
    assert_eq!(router.expect(["cat", "/proc/sys/net/ipv6/conf/all/forwarding"]).trim(), "0");
    stop(program);
}

#[test]
#[ignore = "needs root"]
fn traceroute_shows_the_way() {
    let Net { a, b: _b, router: _router, program } = net("");
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
    let Net { a, b, router: _router, program } = net(arguments);
    let _server = iperf_server(&b, 5201);
    iperf_all(&a, FAR, &[]);
    let summary = stop(program);
    for side in ["left", "right"] {
        let packets = number(element(&summary, &format!("{side}/send")), "packets");
        assert!(packets > 1000, "{side}: {packets}");
    }
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
