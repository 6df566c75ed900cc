//! `examples/nat.click` between two hosts inside, and a router and a host outside, all the
//! kernel's.

use std::process::Stdio;

use linerate_test_support::{Lab, Namespace, Running};

use crate::{
    hosts::{
        assert_refused, bridge, change_address, iperf_all, iperf_server, no_ping, ping_text,
        python, run, server, stop, text, traceroute, wait_for_ping,
    },
    support::{Program, TIMEOUT},
};

/// The host outside, behind a router at 203.0.113.2.
const WORLD: &str = "192.0.2.2";
/// The outside address of all hosts inside.
const PUBLIC: &str = "203.0.113.1";

/// Answers with the address it sees, but only when it has two connections.
const PAIR: &str = "\
import socket
server = socket.create_server(('', 7000))
print('ready')
while True:
    both = [server.accept() for _ in range(2)]
    for wire, peer in both:
        wire.sendall(' '.join(map(str, peer)).encode())
        wire.close()
";

/// Answers with the address it sees.
const WHO: &str = "\
import socket
server = socket.create_server(('', 80))
print('ready')
while True:
    wire, peer = server.accept()
    wire.sendall(peer[0].encode())
    wire.close()
";

/// Prints a server's answer, in so many seconds, to a connection from a port.
const ASK: &str = "\
import socket, sys
to = (sys.argv[1], int(sys.argv[2]))
wire = socket.create_connection(to, float(sys.argv[4]), source_address=('', int(sys.argv[3])))
print(wire.recv(100).decode())
";

struct Net {
    inside: [Namespace; 2],
    lan: Namespace,
    nat: Namespace,
    gateway: Namespace,
    world: Namespace,
    program: Program,
}

#[track_caller]
fn net(arguments: &str) -> Net {
    let lab = Lab::new();
    let [lan, nat, gateway, world] =
        ["lan", "nat", "gateway", "world"].map(|label| lab.namespace(label));
    let inside = ["2", "3"].map(|number| {
        let host = lab.namespace(&format!("inside{number}"));
        lab.veth(&host, "e0", &lan, &format!("p{number}"));
        host.add_address("e0", &format!("198.18.0.{number}/24"));
        host.ip(["route", "add", "default", "via", "198.18.0.1"]);
        host
    });
    lab.veth(&lan, "uplink", &nat, "inside");
    bridge(&lan, &["p2", "p3", "uplink"]);
    lab.veth(&gateway, "n0", &nat, "outside");
    lab.veth(&gateway, "w0", &world, "e0");
    gateway.add_address("n0", "203.0.113.2/24");
    gateway.add_address("w0", "192.0.2.1/24");
    gateway.set("net/ipv4/ip_forward", "1");
    world.add_address("e0", "192.0.2.2/24");
    // It knows nothing of the network inside.
    world.ip(["route", "add", "203.0.113.0/24", "via", "192.0.2.1"]);
    for (host, interface) in [(&gateway, "w0"), (&world, "e0")] {
        host.set_mtu(interface, 1280);
    }
    let program = run(&nat, "nat.click", arguments);
    for host in &inside {
        wait_for_ping(host, WORLD);
    }
    Net { inside, lan, nat, gateway, world, program }
}

impl Net {
    /// Ends it; only now may the namespaces go.
    #[track_caller]
    fn stop(self) {
        let Net { program, lan, nat, .. } = self;
        stop(program);
        drop((lan, nat));
    }
}

/// A program in the background with its output kept.
#[track_caller]
fn start(host: &Namespace, words: &[&str]) -> Running {
    let mut command = host.command(words);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    host.spawn_command(command)
}

#[test]
#[ignore = "needs root"]
fn hosts_inside_share_an_address() {
    share("");
}

#[test]
#[ignore = "needs root"]
fn also_over_xdp_on_two_workers() {
    share("METHOD=XDP --workers 2");
}

#[track_caller]
fn share(arguments: &str) {
    let net = net(arguments);
    let [one, two] = &net.inside;
    // Pings with the same identifier at the same time.
    let pings = [one, two].map(|host| {
        start(host, &["ping", "-e", "4242", "-c", "20", "-i", "0.05", "-W", "20", WORLD])
    });
    for ping in pings {
        let shown = text(&ping.output(TIMEOUT));
        assert!(shown.contains(" 0% packet loss"), "{shown}");
    }
    // Connections from the same port at the same time: one of them gets another.
    let _pair = server(&net.world, PAIR, &[]);
    let asked =
        [one, two].map(|host| start(host, &["python3", "-c", ASK, WORLD, "7000", "4000", "30"]));
    let seen = asked.map(|running| text(&running.output(TIMEOUT)).trim().to_owned());
    for peer in &seen {
        assert!(peer.starts_with(&format!("{PUBLIC} ")), "{seen:?}");
    }
    assert_ne!(seen[0], seen[1]);
    assert!(seen.contains(&format!("{PUBLIC} 4000")), "{seen:?}");
    let _iperf = iperf_server(&net.world, 5201);
    iperf_all(one, WORLD, &[]);
    iperf_all(two, WORLD, &[]);
    net.stop();
}

#[test]
#[ignore = "needs root"]
fn errors_reach_the_host_of_their_flow() {
    let net = net("OUTSIDE_MTU=1400");
    let [one, two] = &net.inside;
    for method in ["--udp", "--icmp", "--tcp"] {
        let (hops, text) = traceroute(one, method, WORLD);
        assert_eq!(hops, ["198.18.0.1", "203.0.113.2", WORLD], "{text}");
    }
    assert_refused(two, WORLD);
    for (size, expected) in [
        // Its own link's MTU is smaller than the packet: the error is about the rewritten packet.
        ("1390", "From 198.18.0.1 icmp_seq=1 Frag needed and DF set (mtu = 1400)"),
        ("1300", "From 203.0.113.2 icmp_seq=1 Frag needed and DF set (mtu = 1280)"),
    ] {
        let shown = ping_text(two, &["-M", "do", "-s", size], WORLD);
        assert!(shown.contains(expected), "{shown}");
    }
    net.stop();
}

#[test]
#[ignore = "needs root"]
fn fragments_are_translated() {
    let net = net("--buffer-size 16K");
    let shown = ping_text(&net.inside[1], &["-s", "4000"], WORLD);
    assert!(shown.contains(&format!("4008 bytes from {WORLD}")), "{shown}");
    net.stop();
}

#[test]
#[ignore = "needs root"]
fn the_gateway_is_found_at_its_new_address() {
    let net = net("");
    change_address(&net.gateway, "n0", "203.0.113.2");
    wait_for_ping(&net.inside[0], WORLD);
    assert_refused(&net.inside[0], WORLD);
    net.stop();
}

#[test]
#[ignore = "needs root"]
fn from_outside_one_port_leads_inside() {
    let net = net("");
    let _who = server(&net.inside[0], WHO, &[]);
    // The server sees the client's address.
    assert_eq!(python(&net.world, ASK, &[PUBLIC, "8080", "0", "30"]).trim(), WORLD);
    let _iperf = iperf_server(&net.inside[0], 5201);
    // Its other ports are closed, and so are all inside addresses.
    let refused = net.world.run(["python3", "-c", ASK, PUBLIC, "5201", "0", "2"]);
    assert!(!refused.status.success());
    net.gateway.ip(["route", "add", "198.18.0.0/24", "via", PUBLIC]);
    no_ping(&net.gateway, &[], "198.18.0.2");
    // Its own addresses answer.
    wait_for_ping(&net.world, PUBLIC);
    for own in ["198.18.0.1", PUBLIC] {
        wait_for_ping(&net.inside[0], own);
    }
    net.stop();
}
