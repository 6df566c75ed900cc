//! Two networks joined by `linerate forward` like by a cable, over every kind of port and mixed
//! pairs: crossing frames must not show it.

use std::{fs, process::Stdio, thread, time::Duration};

use linerate_test_support::{Counters, Lab, Namespace, wait_until};
use serde_json::Value;

use crate::{
    hosts::wait_for_listener,
    support::{Program, Scratch, TIMEOUT, assert_balanced, drops, number},
    wire::{Listener, assert_same, frames, send},
};

/// Kinds of port that join the two networks.
const PAIRS: [(&str, &str); 6] = [
    ("packet", "packet"),
    ("xdp", "xdp"),
    ("tap", "tap"),
    ("packet", "xdp"),
    ("packet", "tap"),
    ("xdp", "tap"),
];

/// `left` and `right`, with interfaces `l0` and `r0`, and a forwarder between them in `middle`.
pub(crate) struct Cable {
    pub(crate) left: Namespace,
    pub(crate) middle: Namespace,
    pub(crate) right: Namespace,
    forwarder: Program,
}

impl Cable {
    /// Joins them through two kinds of port.
    #[track_caller]
    pub(crate) fn new((a, b): (&str, &str), options: &str) -> Cable {
        let lab = Lab::new();
        let [left, middle, right] = ["left", "middle", "right"].map(|label| lab.namespace(label));
        for (kind, outer, far, inner) in [(a, &left, "l0", "a0"), (b, &right, "r0", "b0")] {
            // A tap has no peer: a bridge joins it to the veth pair.
            let near = if kind == "tap" { format!("{inner}v") } else { inner.to_owned() };
            lab.veth(outer, far, &middle, &near);
        }
        let line = format!("forward --bidirectional {options} {a}:a0 {b}:b0");
        let forwarder = Program::ready(&middle, &line);
        for (kind, inner) in [(a, "a0"), (b, "b0")] {
            if kind == "tap" {
                bridge(&middle, inner);
            }
        }
        Cable { left, middle, right, forwarder }
    }

    /// Gives both ends addresses.
    fn addresses(&self) {
        for (namespace, interface, host) in [(&self.left, "l0", 1), (&self.right, "r0", 2)] {
            namespace.add_address(interface, &format!("198.18.0.{host}/24"));
            namespace.add_address(interface, &format!("2001:2::{host}/64"));
        }
    }

    fn counters(&self) -> [Counters; 2] {
        [self.left.counters("l0"), self.right.counters("r0")]
    }

    /// Silences both ends, ends the forwarder, and holds its books against the kernel's. Bytes
    /// only where told: a veth end with an XDP program counts them without the Ethernet header.
    #[track_caller]
    fn settle(self, bytes: bool) -> Value {
        for (namespace, interface) in [(&self.left, "l0"), (&self.right, "r0")] {
            namespace.ip(["address", "flush", "dev", interface]);
            namespace.set(&format!("net/ipv6/conf/{interface}/disable_ipv6"), "1");
        }
        let mut before = self.counters();
        // The scenario: a time without a frame, which is longer than the kernel's between two of its own.
        let quiet = || {
            thread::sleep(Duration::from_millis(300));
            let now = self.counters();
            std::mem::replace(&mut before, now) == now
        };
        assert!(wait_until(quiet, TIMEOUT), "something goes on sending");
        let [left, right] = self.counters();
        let summary = self.forwarder.stop();
        assert_balanced(&summary);
        let [forth, back] = [&summary["flows"][0], &summary["flows"][1]];
        for (flow, from, to) in [(forth, left, right), (back, right, left)] {
            let arrived = number(flow, "received_packets") + drops(flow, "receive_drops");
            assert_eq!(from.tx_packets, arrived, "sent against received: {flow}");
            assert_eq!(number(flow, "sent_packets"), to.rx_packets, "forwarded: {flow}");
            if bytes {
                assert_eq!(number(flow, "sent_bytes"), to.rx_bytes, "forwarded: {flow}");
            }
        }
        let links = || self.middle.ip(["-details", "link", "show"]);
        assert!(wait_until(|| !links().contains("prog/xdp"), TIMEOUT), "{}", links());
        summary
    }
}

/// Joins the tap to the veth pair's near end.
fn bridge(namespace: &Namespace, tap: &str) {
    let (bridge, near) = (format!("{tap}b"), format!("{tap}v"));
    namespace.ip(["link", "add", &bridge, "type", "bridge", "mcast_snooping", "0"]);
    for port in [tap, &near] {
        namespace.ip(["link", "set", port, "master", &bridge, "up"]);
    }
    namespace.link_up(&bridge);
}

#[track_caller]
fn ping(from: &Namespace) {
    // Lengths on the wire without the FCS, from the shortest frame to the longest.
    for length in [60, 61, 128, 594, 1280, 1513, 1514] {
        for (to, headers) in [("198.18.0.2", 42), ("2001:2::2", 62)] {
            let payload = u32::saturating_sub(length, headers).to_string();
            from.expect([
                "ping", "-c", "2", "-i", "0.01", "-W", "10", "-M", "do", "-s", &payload, to,
            ]);
        }
    }
}

#[track_caller]
fn iperf(cable: &Cable) {
    for direction in [&[][..], &["--reverse"]] {
        let mut server = cable.right.command(["iperf3", "-s", "-1", "-p", "5201"]);
        server.stdout(Stdio::null());
        let mut server = cable.right.spawn_command(server);
        wait_for_listener(&cable.right, 5201);
        let client = ["iperf3", "-c", "198.18.0.2", "-p", "5201", "-n", "16M", "--json"];
        let report = cable.left.expect([&client[..], direction].concat());
        let report: Value = serde_json::from_str(&report).unwrap();
        let received = number(&report["end"]["sum_received"], "bytes");
        // Data on the way when the sender ends are not counted.
        assert!(received >= 8 << 20, "{received} bytes arrived");
        server.wait(TIMEOUT);
    }
}

const RECEIVER: &str = "\
import socket, sys
server = socket.create_server(('::', 5202), family=socket.AF_INET6, dualstack_ipv6=True)
wire, _ = server.accept()
with open(sys.argv[1], 'wb') as file:
    while block := wire.recv(1 << 20):
        file.write(block)
";

const SENDER: &str = "\
import socket, sys
wire = socket.create_connection((sys.argv[1], 5202))
wire.sendfile(open(sys.argv[2], 'rb'))
wire.close()
";

/// Copies a file of so many MiB over TCP and compares checksums.
#[track_caller]
fn copy_file(cable: &Cable, mib: usize) {
    let scratch = Scratch::new();
    let (sent, received) = (scratch.file("sent"), scratch.file("received"));
    let make = format!(
        "import random\nr = random.Random(7)\nf = open('{sent}', 'wb')\n\
         [f.write(r.randbytes(1 << 20)) for _ in range({mib})]"
    );
    cable.left.expect(["python3", "-c", &make]);
    let mut server = cable.right.spawn(["python3", "-c", RECEIVER, &received]);
    wait_for_listener(&cable.right, 5202);
    cable.left.expect(["python3", "-c", SENDER, "2001:2::2", &sent]);
    assert!(server.wait(TIMEOUT).success());
    assert_eq!(fs::metadata(&received).unwrap().len(), (mib << 20) as u64);
    let sum = |file: &str| {
        let line = cable.left.expect(["sha256sum", file]);
        line.split_whitespace().next().unwrap().to_owned()
    };
    assert_eq!(sum(&sent), sum(&received));
}

/// Everything a cable carries, over one pair of ports.
fn carries_everything(pair: (&str, &str)) {
    let cable = Cable::new(pair, "");
    let frames = frames();
    let ends = [(&cable.left, "l0"), (&cable.right, "r0")];
    for [from, to] in [ends, [ends[1], ends[0]]] {
        let listener = Listener::start(to.0, to.1);
        send(from.0, from.1, &frames);
        assert_same(&listener.frames(frames.len()), &frames);
    }
    cable.addresses();
    ping(&cable.left);
    iperf(&cable);
    copy_file(&cable, 64);
    // The bridge that joins a tap to the cable takes VLAN tags out of frames while it holds them,
    // and then the interfaces count four bytes less.
    cable.settle(pair.0 != "tap" && pair.1 != "tap");
}

#[test]
#[ignore = "needs root"]
fn packet_ports_carry_everything() {
    carries_everything(("packet", "packet"));
}

#[test]
#[ignore = "needs root"]
fn xdp_ports_carry_everything() {
    carries_everything(("xdp", "xdp"));
}

#[test]
#[ignore = "needs root"]
fn tap_ports_carry_everything() {
    carries_everything(("tap", "tap"));
}

#[test]
#[ignore = "needs root"]
fn packet_and_xdp_ports_carry_everything() {
    carries_everything(("packet", "xdp"));
}

#[test]
#[ignore = "needs root"]
fn packet_and_tap_ports_carry_everything() {
    carries_everything(("packet", "tap"));
}

#[test]
#[ignore = "needs root"]
fn xdp_and_tap_ports_carry_everything() {
    carries_everything(("xdp", "tap"));
}

/// The kernel hands over segments of up to 64 KiB with checksums still to be filled in: frames that
/// leave the cable must nevertheless be accepted by TCP.
#[test]
#[ignore = "needs root"]
fn packet_ports_carry_tcp_with_offloads_on() {
    let cable = Cable::new(("packet", "packet"), "");
    for (namespace, interface) in
        [(&cable.left, "l0"), (&cable.middle, "a0"), (&cable.middle, "b0"), (&cable.right, "r0")]
    {
        for offload in ["rx", "tx", "sg", "tso", "gso", "gro"] {
            // Not every kernel lets all of them be changed.
            namespace.run(["ethtool", "-K", interface, offload, "on"]);
        }
        let features = namespace.expect(["ethtool", "-k", interface]);
        assert!(features.contains("tcp-segmentation-offload: on"), "{features}");
    }
    cable.addresses();
    ping(&cable.left);
    iperf(&cable);
    copy_file(&cable, 64);
    let summary = cable.forwarder.stop();
    assert_balanced(&summary);
}

/// A whole gigabyte; the other tests copy less, to end soon.
#[test]
#[ignore = "needs root, alone"]
fn a_gigabyte_crosses_unharmed() {
    let cable = Cable::new(("xdp", "packet"), "");
    cable.addresses();
    copy_file(&cable, 1024);
    cable.settle(true);
}

/// At a rate every machine that builds this sustains, nothing is lost, doubled or overtaken, and
/// all four books agree: generator, forwarder, sink and kernel.
#[test]
#[ignore = "needs root, alone"]
fn nothing_is_lost_at_a_sustained_rate() {
    const COUNT: u64 = 20_000;
    for pair in PAIRS {
        let cable = Cable::new(pair, "");
        let sink = Program::ready(&cable.right, &format!("sink xdp:r0 --count {COUNT}"));
        let line = format!("generate xdp:l0 --rate 10kpps --count {COUNT} --size 64-1514/29");
        let generated = Program::start(&cable.left, &line).end().summary();
        assert_eq!(number(&generated, "accepted"), COUNT, "{pair:?}: {generated}");
        let arrived = sink.end().summary();
        let forwarded = cable.settle(false);
        for (key, expected) in
            [("unique", COUNT), ("lost", 0), ("duplicates", 0), ("reordered", 0), ("unsigned", 0)]
        {
            assert_eq!(number(&arrived, key), expected, "{pair:?} {key}: {arrived}\n{forwarded}");
        }
        assert_eq!(number(&forwarded["flows"][0], "sent_packets"), COUNT, "{pair:?}");
    }
}
