//! The examples that answer by themselves, `ping-responder.click` and `echo.click`, and the one
//! that finds a server, `load-balancer.click`.

use std::collections::BTreeMap;

use linerate_test_support::{Lab, Namespace, Running};

use crate::{
    hosts::{bridge, host, no_ping, ping_text, python, routed_host, run, server, stop},
    support::{LINERATE, Scratch},
};

#[test]
#[ignore = "needs root"]
fn pings_are_answered_for_a_network() {
    let lab = Lab::new();
    let middle = lab.namespace("middle");
    let asking = host(&lab, &middle, "asking", "p1", "198.18.0.1/16");
    let program = run(&middle, "ping-responder.click", "DEV=p1 NET=198.18.7.0/24");
    for to in ["198.18.7.0", "198.18.7.1", "198.18.7.254"] {
        // ping compares the answer with its request.
        for size in ["0", "1", "56", "1472"] {
            let shown = ping_text(&asking, &["-s", size], to);
            assert!(shown.contains(&format!("bytes from {to}: icmp_seq=1 ttl=255")), "{shown}");
            assert!(!shown.contains("wrong data"), "{shown}");
        }
    }
    no_ping(&asking, &[], "198.18.8.1");
    no_ping(&asking, &["-s", "4000"], "198.18.7.1");
    stop(program);
}

/// Sends datagrams of all lengths and compares the answers.
const ECHO: &str = "\
import random, socket, sys
wire = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
wire.settimeout(float(sys.argv[3]))
wire.connect((sys.argv[1], int(sys.argv[2])))
data = random.Random(1)
try:
    for length in [0, 1, 2, 3, 17, 18, 19, 100, 1000, 1471, 1472]:
        sent = data.randbytes(length)
        wire.send(sent)
        assert wire.recv(2000) == sent, length
    print('the same')
except TimeoutError:
    print('silence')
";

#[test]
#[ignore = "needs root"]
fn datagrams_come_back_as_they_were() {
    let lab = Lab::new();
    let middle = lab.namespace("middle");
    let asking = host(&lab, &middle, "asking", "p1", "198.18.0.1/24");
    let program = run(&middle, "echo.click", "DEV=p1 IP=198.18.0.7 PORT=4000");
    assert_eq!(python(&asking, ECHO, &["198.18.0.7", "4000", "30"]).trim(), "the same");
    assert_eq!(python(&asking, ECHO, &["198.18.0.7", "4001", "1"]).trim(), "silence");
    no_ping(&asking, &[], "198.18.0.7");
    stop(program);
}

/// A server that answers datagrams and connections to an address with its name.
const NAMED: &str = "\
import selectors, socket, sys
name, address = sys.argv[1].encode(), (sys.argv[2], 5000)
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(address)
tcp = socket.create_server(address, backlog=500)
waiting = selectors.DefaultSelector()
for wire in [udp, tcp]:
    waiting.register(wire, selectors.EVENT_READ)
print('ready')
while True:
    for key, _ in waiting.select():
        if key.fileobj is udp:
            _, peer = udp.recvfrom(2000)
            udp.sendto(name, peer)
        else:
            wire, _ = tcp.accept()
            wire.sendall(name)
            wire.close()
";

/// Names of the servers that answer three datagrams and a connection from each of some ports: `PORT
/// NAME...`, a line each. Lost ones are not repeated.
const FLOWS: &str = "\
import socket, sys
address = (sys.argv[1], 5000)
for port in range(20000, 20000 + int(sys.argv[2])):
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.settimeout(30)
    udp.bind(('', port))
    udp.connect(address)
    names = []
    for _ in range(3):
        udp.send(b'who')
        names.append(udp.recv(100).decode())
    tcp = socket.create_connection(address, timeout=30)
    tcp.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    assert tcp.recv(100).decode() in ['one', 'two', 'three']
    tcp.close()
    print(port, *names)
";

/// The server of each flow's datagrams.
#[track_caller]
fn flows(client: &Namespace, count: usize) -> BTreeMap<String, String> {
    let shown = python(client, FLOWS, &["198.18.0.100", &count.to_string()]);
    let flows: BTreeMap<_, _> = shown
        .lines()
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            assert!(words[1..].iter().all(|name| *name == words[1]), "a flow came apart: {line}");
            (words[0].to_owned(), words[1].to_owned())
        })
        .collect();
    assert_eq!(flows.len(), count, "{shown}");
    flows
}

#[test]
#[ignore = "needs root"]
fn flows_are_spread_over_servers_and_stay_there() {
    const FLOW_COUNT: usize = 300;
    let lab = Lab::new();
    let (middle, lan) = (lab.namespace("middle"), lab.namespace("lan"));
    let client = routed_host(&lab, &middle, "clients", "198.18.0.2/24", "198.18.0.1");
    lab.veth(&lan, "uplink", &middle, "servers");
    let backends = ["one", "two", "three"].map(|name| {
        let address = match name {
            "one" => "198.19.0.11/24",
            "two" => "198.19.0.12/24",
            _ => "198.19.0.13/24",
        };
        let backend = routed_host(&lab, &lan, name, address, "198.19.0.1");
        backend.add_address("lo", "198.18.0.100/32");
        backend.set("net/ipv4/conf/e0/arp_ignore", "1");
        backend
    });
    bridge(&lan, &["uplink", "one", "two", "three"]);
    let scratch = Scratch::new();
    let control = scratch.file("control");
    let program = run(&middle, "load-balancer.click", &format!("--control {control}"));
    let names = ["one", "two", "three"];
    let _servers: Vec<Running> = backends
        .iter()
        .zip(names)
        .map(|(backend, name)| server(backend, NAMED, &[name, "198.18.0.100"]))
        .collect();

    let before = flows(&client, FLOW_COUNT);
    for name in names {
        // Equal addresses and ports give equal choices each time: no luck is in it.
        let count = before.values().filter(|server| *server == name).count();
        assert!((60..=140).contains(&count), "{count} of {FLOW_COUNT} flows came to {name}");
    }
    // Another time it is the same, and without a server only its flows go elsewhere.
    assert_eq!(flows(&client, FLOW_COUNT), before);
    client.expect([LINERATE, "call", &control, "balance.active", "0 2"]);
    for (port, server) in flows(&client, FLOW_COUNT) {
        let was = &before[&port];
        assert!(server != "two" && (server == *was || was == "two"), "{port}: {was}, {server}");
    }
    let counts = client.expect([LINERATE, "call", &control, "balance.counts"]);
    assert!(counts.lines().all(|count| count.parse::<u64>().unwrap() > 500), "{counts}");
    stop(program);
}
