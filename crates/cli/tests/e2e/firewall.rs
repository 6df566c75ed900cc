//! `examples/firewall.click` between two hosts of one network, with the programs people use.

use linerate_test_support::{Lab, Namespace, Running};
use serde_json::Value;

use crate::{
    hosts::{iperf_all, iperf_server, traceroute, wait_for_listener},
    support::{LINERATE, Program},
};

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/firewall.click");
const OUTSIDE: &str = "198.18.0.1";
const INSIDE: &str = "198.18.0.2";

/// A server that answers with a word on each of the TCP ports given.
const SERVER: &str = "\
import selectors, socket, sys
waiting = selectors.DefaultSelector()
for port in sys.argv[1:]:
    waiting.register(socket.create_server(('', int(port))), selectors.EVENT_READ)
print('ready', flush=True)
while True:
    for key, _ in waiting.select():
        wire, _ = key.fileobj.accept()
        wire.sendall(b'hello')
        wire.close()
";

/// Says `hello`, or that nothing came in time.
const CLIENT: &str = "\
import socket, sys
try:
    wire = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=float(sys.argv[3]))
    print(wire.recv(100).decode())
except TimeoutError:
    print('silence')
";

struct Firewall {
    outside: Namespace,
    inside: Namespace,
    program: Program,
    /// Programs end with the namespace they are in.
    _middle: Namespace,
    _servers: [Running; 2],
}

impl Firewall {
    fn new(driver: &str) -> Firewall {
        let lab = Lab::new();
        let [outside, middle, inside] =
            ["outside", "middle", "inside"].map(|label| lab.namespace(label));
        for (host, address, near) in [(&outside, OUTSIDE, "o0"), (&inside, INSIDE, "i0")] {
            lab.veth(host, "e0", &middle, near);
            host.add_address("e0", &format!("{address}/24"));
        }
        let ports = ["OUTSIDE", "INSIDE"].map(|side| {
            let name = if side == "OUTSIDE" { "o0" } else { "i0" };
            format!("{side}={driver}:{name}")
        });
        let variables = [&ports[0], &ports[1], "NET=198.18.0.2/31", "SERVER=198.18.0.2"];
        let line = [&[LINERATE, "run", EXAMPLE], &variables[..], &["--json"]].concat();
        let command = middle.command(&line);
        let mut program = Program::start_command(&middle, command, &line[1..].join(" "));
        program.wait_ready();
        let servers = [(&outside, ["25", "80", "8080"]), (&inside, ["22", "80", "8080"])];
        let servers = servers.map(|(host, ports)| {
            let server = host.spawn([&["python3", "-c", SERVER][..], &ports].concat());
            for port in ports {
                wait_for_listener(host, port.parse().expect("a port"));
            }
            server
        });
        Firewall { outside, inside, program, _middle: middle, _servers: servers }
    }
}

/// Returns true if a host gets an answer from a TCP port of another.
fn answers(from: &Namespace, to: &str, port: &str, refused: bool) -> bool {
    // Passed traffic is waited for with patience, blocked traffic for a while.
    let patience = if refused { "1.5" } else { "30" };
    match from.expect(["python3", "-c", CLIENT, to, port, patience]).trim() {
        "hello" => true,
        "silence" => false,
        other => panic!("{other}"),
    }
}

fn passes(driver: &str) {
    let firewall = Firewall::new(driver);
    let Firewall { outside, inside, .. } = &firewall;
    // Echo requests go out and replies come back, but not the other way round.
    inside.expect(["ping", "-c", "3", "-i", "0.05", "-W", "20", OUTSIDE]);
    let output = outside.run(["ping", "-c", "2", "-i", "0.05", "-W", "1", INSIDE]);
    assert!(!output.status.success(), "{output:?}");
    // In fragments as well: the first is known by its header, the later ones follow.
    inside.expect(["ping", "-c", "2", "-i", "0.05", "-W", "20", "-s", "4000", OUTSIDE]);
    for method in ["--udp", "--icmp", "--tcp"] {
        let (hops, text) = traceroute(inside, method, OUTSIDE);
        assert_eq!(hops, [OUTSIDE], "{text}");
    }
    // Much at once, by a port whose answers are let in.
    let _server = iperf_server(outside, 53);
    iperf_all(inside, OUTSIDE, &["-p", "53"]);
    // The server's port is open to all, its others are not.
    assert!(answers(outside, INSIDE, "80", false));
    assert!(!answers(outside, INSIDE, "22", true));
    assert!(!answers(outside, INSIDE, "8080", true));
    // From inside everything goes.
    for port in ["25", "80", "8080"] {
        assert!(answers(inside, OUTSIDE, port, false), "{port}");
    }
    // A spoofed inside address does not pass.
    outside.add_address("e0", "198.18.0.3/24");
    let spoofed = ["ping", "-c", "1", "-W", "1", "-I", "198.18.0.3", INSIDE];
    assert!(!outside.run(spoofed).status.success());

    let summary = firewall.program.stop();
    assert_eq!(summary["buffers_held"], 0, "{summary}");
    let rules = |name: &str| -> Value {
        let elements = summary["elements"].as_array().expect("elements");
        let found = elements.iter().find(|element| element["name"] == name);
        found.unwrap_or_else(|| panic!("no {name} in {summary}")).clone()
    };
    // Two echo requests, a spoofed one, and segments to two ports, some of them repeated.
    let denied = rules("from_outside/rules")["drops"]["denied"].as_u64();
    assert!(denied.is_some_and(|denied| denied >= 5), "{summary}");
}

#[test]
#[ignore = "needs root"]
fn a_firewall_over_packet_sockets() {
    passes("packet");
}

#[test]
#[ignore = "needs root"]
fn a_firewall_over_xdp() {
    passes("xdp");
}
