//! The Ethernet examples between hosts of the kernel: they must find each other, and no third one
//! may hear of it.

use linerate_test_support::{Lab, Namespace, wait_until};

use crate::{
    hosts::{host, iperf_all, iperf_server, ping_text, traceroute},
    support::{Program, TIMEOUT},
};

fn example(name: &str) -> String {
    format!("{}/../../examples/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[track_caller]
fn ping(from: &Namespace, to: &str) {
    from.expect(["ping", "-c", "3", "-i", "0.05", "-W", "10", "-s", "1400", to]);
}

#[track_caller]
fn unreachable(from: &Namespace, to: &str) {
    let output = from.run(["ping", "-c", "2", "-i", "0.05", "-W", "1", to]);
    assert!(!output.status.success(), "{to} answers");
}

#[test]
#[ignore = "needs root"]
fn a_switch_joins_three_hosts() {
    let lab = Lab::new();
    let middle = lab.namespace("middle");
    let hosts = ["1", "2", "3"].map(|number| {
        let (label, port) = (format!("host{number}"), format!("p{number}"));
        host(&lab, &middle, &label, &port, &format!("198.18.0.{number}/24"))
    });
    let line = format!("run {} A=p1 B=p2 C=p3", example("switch.click"));
    let program = Program::ready(&middle, &line);
    for from in &hosts {
        for to in ["198.18.0.1", "198.18.0.2", "198.18.0.3"] {
            ping(from, to);
        }
    }
    // Frames to a known host go to one port only: the third host gets none of them.
    let before = hosts[2].counters("e0").rx_packets;
    hosts[0].expect(["ping", "-c", "50", "-i", "0.002", "-W", "10", "198.18.0.2"]);
    let heard = hosts[2].counters("e0").rx_packets - before;
    assert!(heard < 20, "{heard} packets for others have reached a host");
    // Long packets, and many of them.
    let shown = ping_text(&hosts[0], &["-s", "4000"], "198.18.0.2");
    assert!(shown.contains("4008 bytes from 198.18.0.2"), "{shown}");
    let (hops, text) = traceroute(&hosts[0], "--udp", "198.18.0.2");
    assert_eq!(hops, ["198.18.0.2"], "{text}");
    let _server = iperf_server(&hosts[1], 5201);
    iperf_all(&hosts[0], "198.18.0.2", &[]);
    let summary = program.stop();
    assert_eq!(summary["buffers_held"], 0, "{summary}");
}

/// Two switches with a trunk between them, which tcpdump looks at.
#[test]
#[ignore = "needs root"]
fn vlans_are_apart_and_share_a_trunk() {
    let lab = Lab::new();
    let switches = ["left", "right"].map(|label| lab.namespace(label));
    lab.veth(&switches[0], "t0", &switches[1], "t0");
    let hosts = ["1", "2"].map(|number| {
        let switch = &switches[usize::from(number == "2")];
        switch.set("net/ipv6/conf/t0/disable_ipv6", "1");
        ["10", "20"].map(|vlan| {
            let (label, port) = (format!("host{vlan}x{number}"), format!("p{vlan}"));
            host(&lab, switch, &label, &port, &format!("198.18.{vlan}.{number}/24"))
        })
    });
    let line = format!("run {} RED=p10 BLUE=p20 TRUNK=t0", example("vlan-switch.click"));
    let programs = switches.each_ref().map(|switch| Program::ready(switch, &line));
    let watch =
        ["tcpdump", "-i", "t0", "-e", "-n", "-l", "--immediate-mode", "-c", "12", "icmp or vlan"];
    let mut watcher = switches[0].command(watch);
    watcher.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null());
    let mut watcher = switches[0].spawn_command(watcher);
    let pings = || {
        for (vlan, at) in [("10", 0), ("20", 1)] {
            ping(&hosts[0][at], &format!("198.18.{vlan}.2"));
            ping(&hosts[1][at], &format!("198.18.{vlan}.1"));
        }
        // It may have begun to look later than these began.
        !watcher.is_running()
    };
    assert!(wait_until(pings, TIMEOUT), "tcpdump sees nothing");
    let seen = watcher.output(TIMEOUT);
    let seen = String::from_utf8_lossy(&seen.stdout).into_owned();
    for line in seen.lines() {
        let vlan = if line.contains("198.18.10.") { "vlan 10," } else { "vlan 20," };
        assert!(line.contains("802.1Q") && line.contains(vlan), "{seen}");
    }
    assert!(seen.lines().count() >= 12, "{seen}");
    // An equal network in the other VLAN is another one.
    hosts[1][1].add_address("e0", "198.18.10.3/24");
    unreachable(&hosts[0][0], "198.18.10.3");
    for program in programs {
        let summary = program.stop();
        assert_eq!(summary["buffers_held"], 0, "{summary}");
    }
}

#[test]
#[ignore = "needs root"]
fn queries_are_answered_for_a_network() {
    let lab = Lab::new();
    let middle = lab.namespace("middle");
    let asking = host(&lab, &middle, "asking", "p1", "198.18.0.1/16");
    let config = example("arp-responder.click");
    let line = format!("run {config} DEV=p1 NET=198.18.7.0/24 MAC=02:00:00:00:00:77");
    let program = Program::ready(&middle, &line);
    // Nothing answers the ping; the kernel's neighbour table has the answer of ARP.
    for to in ["198.18.7.1", "198.18.7.254", "198.18.8.1"] {
        let _ = asking.run(["ping", "-c", "1", "-W", "1", to]);
    }
    let neighbours = || asking.ip(["neighbour", "show", "dev", "e0"]);
    let told = |ip: &str| {
        neighbours()
            .lines()
            .any(|line| line.starts_with(&format!("{ip} ")) && line.contains("02:00:00:00:00:77"))
    };
    let both = || told("198.18.7.1") && told("198.18.7.254");
    assert!(wait_until(both, TIMEOUT), "{}", neighbours());
    assert!(!told("198.18.8.1"), "{}", neighbours());
    let summary = program.stop();
    assert_eq!(summary["buffers_held"], 0, "{summary}");
}
