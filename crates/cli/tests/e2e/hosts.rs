//! Hosts around the namespace an example runs in, and the programs they talk by.

use std::{
    io::{BufRead, BufReader},
    process::{Output, Stdio},
};

use linerate_test_support::{Lab, Namespace, Running, wait_until};
use serde_json::Value;

use crate::support::{Program, TIMEOUT, number};

/// Runs an example of the repository with these variables and options.
#[track_caller]
pub(crate) fn run(middle: &Namespace, name: &str, arguments: &str) -> Program {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    Program::ready(middle, &format!("run {folder}/{name} {arguments}"))
}

/// Ends an example, which must have given back all packets; returns its figures.
#[track_caller]
pub(crate) fn stop(program: Program) -> Value {
    let summary = program.stop();
    assert_eq!(summary["buffers_held"], 0, "{summary}");
    summary
}

/// The figures of one element.
#[track_caller]
pub(crate) fn element<'a>(summary: &'a Value, name: &str) -> &'a Value {
    let elements = summary["elements"].as_array().expect("elements");
    let found = elements.iter().find(|element| element["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {summary}"))
}

/// A host with one interface, `e0`, at `port` of the namespace in the middle.
#[track_caller]
pub(crate) fn host(
    lab: &Lab,
    middle: &Namespace,
    label: &str,
    port: &str,
    address: &str,
) -> Namespace {
    let host = lab.namespace(label);
    lab.veth(&host, "e0", middle, port);
    if !address.is_empty() {
        host.add_address("e0", address);
    }
    host
}

/// A host with a route to everywhere else.
#[track_caller]
pub(crate) fn routed_host(
    lab: &Lab,
    middle: &Namespace,
    port: &str,
    address: &str,
    gateway: &str,
) -> Namespace {
    let host = host(lab, middle, &format!("at{port}"), port, address);
    host.ip(["route", "add", "default", "via", gateway]);
    host
}

/// A bridge of the kernel's that joins interfaces of a namespace.
#[track_caller]
pub(crate) fn bridge(namespace: &Namespace, ports: &[&str]) {
    namespace.ip(["link", "add", "br0", "type", "bridge", "mcast_snooping", "0"]);
    for port in ports {
        namespace.ip(["link", "set", port, "master", "br0"]);
    }
    namespace.link_up("br0");
}

/// Sends one echo request.
pub(crate) fn ping(from: &Namespace, arguments: &[&str], to: &str) -> Output {
    from.run([&["ping", "-n", "-c", "1"], arguments, &[to]].concat())
}

/// Output of ping, with an answer waited for patiently.
pub(crate) fn ping_text(from: &Namespace, arguments: &[&str], to: &str) -> String {
    text(&ping(from, &[&["-W", "10"], arguments].concat(), to))
}

/// Waits until pings are answered: neighbours are known then, both ways.
#[track_caller]
pub(crate) fn wait_for_ping(from: &Namespace, to: &str) {
    let up = wait_until(|| ping(from, &["-W", "1"], to).status.success(), TIMEOUT);
    assert!(up, "{to} does not answer");
}

/// A ping that must not be answered.
#[track_caller]
pub(crate) fn no_ping(from: &Namespace, arguments: &[&str], to: &str) {
    let output = ping(from, &[&["-W", "1"], arguments].concat(), to);
    assert!(!output.status.success(), "{to} answers: {}", text(&output));
}

/// The routers traceroute sees on the way, and its output.
#[track_caller]
pub(crate) fn traceroute(from: &Namespace, method: &str, to: &str) -> (Vec<String>, String) {
    let text = from.expect(["traceroute", "-n", "-w", "10", "-q", "1", "-N", "1", method, to]);
    let hop = |line: &str| line.split_whitespace().nth(1).unwrap_or_default().to_owned();
    (text.lines().skip(1).map(hop).collect(), text)
}

/// A program in Python that prints `ready` when it serves.
#[track_caller]
pub(crate) fn server(host: &Namespace, script: &str, arguments: &[&str]) -> Running {
    let mut command = host.command([&["python3", "-u", "-c", script], arguments].concat());
    command.stdout(Stdio::piped());
    let mut running = host.spawn_command(command);
    let mut line = String::new();
    let out = running.stdout().expect("a pipe");
    BufReader::new(out).read_line(&mut line).expect("its output");
    assert_eq!(line.trim(), "ready");
    running
}

/// Output of a program in Python.
#[track_caller]
pub(crate) fn python(host: &Namespace, script: &str, arguments: &[&str]) -> String {
    host.expect([&["python3", "-c", script], arguments].concat())
}

/// A datagram to a port without a listener is refused.
#[track_caller]
pub(crate) fn assert_refused(from: &Namespace, to: &str) {
    const KNOCK: &str = "\
import socket, sys
address = socket.getaddrinfo(sys.argv[1], 9, type=socket.SOCK_DGRAM)[0]
wire = socket.socket(*address[:3])
wire.settimeout(30)
wire.connect(address[4])
wire.send(b'hello')
try:
    wire.recv(100)
except ConnectionRefusedError:
    print('refused')
";
    assert_eq!(python(from, KNOCK, &[to]).trim(), "refused", "{to}");
}

/// Gives a host's interface another Ethernet address and has it say so, as virtual machines do that
/// have moved.
#[track_caller]
pub(crate) fn change_address(host: &Namespace, interface: &str, ip: &str) {
    const ANNOUNCE: &str = "\
from scapy.all import ARP, Ether, get_if_hwaddr, sendp
import sys
interface, ip = sys.argv[1:]
mac = get_if_hwaddr(interface)
reply = ARP(op=2, hwsrc=mac, psrc=ip, hwdst=mac, pdst=ip)
sendp(Ether(src=mac, dst='ff:ff:ff:ff:ff:ff') / reply, iface=interface, verbose=False)
";
    host.ip(["link", "set", interface, "address", "02:00:00:00:00:bb"]);
    python(host, ANNOUNCE, &[interface, ip]);
}

/// An example with two hosts at its interfaces `left` and `right`, which reach each other by it.
pub(crate) struct HostPair {
    pub(crate) left: Namespace,
    pub(crate) right: Namespace,
    pub(crate) middle: Namespace,
    pub(crate) program: Program,
}

impl HostPair {
    /// The hosts have an address and a gateway each. The example runs once a ping comes back.
    #[track_caller]
    pub(crate) fn new(example: &str, arguments: &str, hosts: [[&str; 2]; 2]) -> HostPair {
        let lab = Lab::new();
        let middle = lab.namespace("middle");
        let [left, right] = [("left", hosts[0]), ("right", hosts[1])]
            .map(|(port, [address, gateway])| routed_host(&lab, &middle, port, address, gateway));
        let program = run(&middle, example, arguments);
        let far = hosts[1][0].split('/').next().expect("an address");
        wait_for_ping(&left, far);
        HostPair { left, right, middle, program }
    }

    /// TCP and UDP through it, and nothing that it holds back.
    #[track_caller]
    pub(crate) fn carries(self, to: &str, elements: [&str; 2]) {
        let _server = iperf_server(&self.right, 5201);
        iperf_all(&self.left, to, &[]);
        let summary = stop(self.program);
        for name in elements {
            let packets = number(element(&summary, name), "packets");
            assert!(packets > 1000, "{name}: {packets}");
        }
    }
}

/// Output of a program.
pub(crate) fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Waits until something listens on a TCP port.
#[track_caller]
pub(crate) fn wait_for_listener(host: &Namespace, port: u16) {
    let filter = format!("sport = :{port}");
    let listening = || host.expect(["ss", "-Hltn", &filter]).contains("LISTEN");
    assert!(wait_until(listening, TIMEOUT), "nothing listens on {port}");
}

/// An iperf3 server, for any number of clients.
#[track_caller]
pub(crate) fn iperf_server(host: &Namespace, port: u16) -> Running {
    let mut server = host.command(["iperf3", "-s", "-p", &port.to_string()]);
    server.stdout(Stdio::null());
    let server = host.spawn_command(server);
    wait_for_listener(host, port);
    server
}

/// Bytes that an iperf3 client got across, with the arguments that say how.
#[track_caller]
pub(crate) fn iperf(from: &Namespace, to: &str, arguments: &[&str]) -> u64 {
    let words = [&["iperf3", "--json", "-c", to], arguments].concat();
    let report: Value = serde_json::from_str(&from.expect(words)).expect("JSON");
    let end = &report["end"];
    let received = if end["sum_received"].is_null() { &end["sum"] } else { &end["sum_received"] };
    let lost = end["sum"]["lost_packets"].as_u64().unwrap_or(0);
    let length = report["start"]["test_start"]["blksize"].as_u64().expect("a length");
    number(received, "bytes").saturating_sub(lost * length)
}

/// TCP both ways and UDP, each of which must bring across most of the data. No rate is asserted.
#[track_caller]
pub(crate) fn iperf_all(from: &Namespace, to: &str, arguments: &[&str]) {
    for direction in [&[][..], &["--reverse"]] {
        let received = iperf(from, to, &[&["-n", "16M"], arguments, direction].concat());
        // Data on the way when the sender ends are not counted.
        assert!(received >= 4 << 20, "TCP {direction:?}: {received} bytes");
    }
    let udp = ["-u", "-b", "8M", "-n", "200K", "-l", "1000"];
    let received = iperf(from, to, &[&udp[..], arguments].concat());
    assert!(received >= 100 << 10, "UDP: {received} bytes");
}
