//! Controllers and clients of other projects, with our switch between hosts.

use std::fs;
use std::process::{Command, Stdio};

use linerate_test_support::{Lab, Namespace, Running, controllers, wait_until};

use crate::hosts::{host, no_ping, wait_for_listener, wait_for_ping};
use crate::support::{LINERATE, Scratch, TIMEOUT};

/// Address of the first controller.
const CONTROLLER: &str = "tcp:127.0.0.1:6653";

/// Three hosts at a switch, and the namespace of the programs beside it.
struct Net {
    hosts: [Namespace; 3],
    middle: Namespace,
    scratch: Scratch,
}

impl Net {
    fn new() -> Net {
        let lab = Lab::new();
        let middle = lab.namespace("switch");
        let hosts = [1, 2, 3].map(|number| {
            let (port, address) = (format!("p{number}"), format!("198.18.0.{number}/24"));
            host(&lab, &middle, &format!("h{number}"), &port, &address)
        });
        Net { hosts, middle, scratch: Scratch::new() }
    }

    /// Starts our switch as its user would: its datapath is number 1, its ports are 1 to 3.
    #[track_caller]
    fn switch(&self, channels: &[&str]) -> Running {
        let control = self.scratch.file("control");
        let mut command = self.middle.command([LINERATE, "switch", "--control", &control]);
        command.args(["--no-huge", "--tables", "16", "--datapath-id", "1"]);
        command.args(channels.iter().flat_map(|channel| ["--openflow", channel]));
        command.args(
            (1..=3).flat_map(|port| ["--port".to_owned(), format!("p{port}=packet:p{port}")]),
        );
        self.spawn(command, "switch.log")
    }

    /// Starts a program whose output goes into a file.
    #[track_caller]
    fn spawn(&self, mut command: Command, log: &str) -> Running {
        let log = fs::File::create(self.scratch.file(log)).expect("a file");
        command.current_dir(self.scratch.path()).env("PYTHONUNBUFFERED", "1");
        command.env("OVS_RUNDIR", self.scratch.path()).stdin(Stdio::null());
        command.stdout(log.try_clone().expect("a file")).stderr(log);
        self.middle.spawn_command(command)
    }

    /// Starts an application of os-ken that is in this folder, listening at a port.
    #[track_caller]
    fn os_ken(&self, folder: &str, application: &str, port: u16, rank: u32) -> Running {
        let manager = self.scratch.file("manager.py");
        fs::write(&manager, controllers::MANAGER).expect("a file");
        let python = controllers::require_python();
        let mut command = self.middle.command([python.to_str().expect("text"), &manager]);
        let port_text = port.to_string();
        command.args([application, "--ofp-listen-host", "127.0.0.1"]);
        command.args(["--ofp-tcp-listen-port", &port_text]);
        command.env("PYTHONPATH", folder).env("OSKEN_HUB_TYPE", "eventlet");
        command.env("RANK", rank.to_string());
        let running = self.spawn(command, &format!("os-ken-{rank}.log"));
        wait_for_listener(&self.middle, port);
        running
    }

    fn said(&self, log: &str) -> String {
        fs::read_to_string(self.scratch.file(log)).unwrap_or_default()
    }

    /// The logs of all programs, for the message of a failure.
    fn logs(&self) -> String {
        let entries = fs::read_dir(self.scratch.path()).expect("a folder").flatten();
        let logs = entries.filter(|entry| entry.path().extension().is_some_and(|e| e == "log"));
        let text = logs.map(|log| {
            let name = log.file_name().to_string_lossy().into_owned();
            format!("--- {name}\n{}\n", self.said(&name))
        });
        text.collect()
    }

    /// All hosts reach each other.
    #[track_caller]
    fn reach(&self) {
        for (from, to) in [(0, 1), (1, 2), (2, 0)] {
            wait_for_ping(&self.hosts[from], &format!("198.18.0.{}", to + 1));
        }
    }
}

/// As text, without a panic on the way: shown where a test fails.
struct PrintOnDrop<'a>(&'a Net);

impl Drop for PrintOnDrop<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.0.logs());
        }
    }
}

#[test]
#[ignore = "needs root"]
fn hosts_reach_each_other_by_controllers_that_learn() {
    let net = Net::new();
    let _shown = PrintOnDrop(&net);
    let _switch = net.switch(&[CONTROLLER]);
    {
        let program = controllers::require_test_controller();
        let program = program.to_str().expect("text");
        let command = net.middle.command([program, "ptcp:6653:127.0.0.1"]);
        let _controller = net.spawn(command, "ovs-testcontroller.log");
        net.reach();
    }
    // The other comes in its place: the switch finds it by itself, and takes its flows.
    let folder = controllers::folder();
    let folder = folder.to_str().expect("text");
    for application in ["simple_switch_13", "simple_switch", "simple_switch_14", "simple_switch_15"]
    {
        for host in &net.hosts {
            host.ip(["neigh", "flush", "all"]);
        }
        let _controller = net.os_ken(folder, application, 6653, 1);
        net.reach();
        let log = net.said("os-ken-1.log");
        assert!(log.contains("packet in 1 "), "{application}: {log}");
        assert!(!log.contains("Traceback"), "{application}: {log}");
    }
}

const FAUCET: &str = "\
acls:
  no-ping:
    - rule:
        dl_type: 0x800
        nw_proto: 1
        ipv4_dst: 198.18.0.2
        actions: {allow: 0}
    - rule:
        actions: {allow: 1}
vlans:
  office: {vid: 100}
  guests: {vid: 200}
dps:
  sw:
    dp_id: 0x1
    hardware: Open vSwitch
    interfaces:
      1: {native_vlan: office}
      2: {native_vlan: PLACE}
      3: {native_vlan: office, acl_in: no-ping}
";

#[test]
#[ignore = "needs root"]
fn faucet_has_its_lans_and_its_rules_and_reads_them_anew() {
    let net = Net::new();
    let _shown = PrintOnDrop(&net);
    let file = net.scratch.file("faucet.yaml");
    fs::write(&file, FAUCET.replace("PLACE", "office")).expect("a file");
    let program = controllers::folder().join("bin/faucet");
    let _ = controllers::require_python();
    let mut command = net.middle.command([program.to_str().expect("text")]);
    command.args(["--ryu-ofp-tcp-listen-port", "6653", "--ryu-ofp-listen-host", "127.0.0.1"]);
    for (name, value) in [
        ("FAUCET_CONFIG", &file),
        ("FAUCET_LOG", &net.scratch.file("faucet.log")),
        ("FAUCET_EXCEPTION_LOG", &net.scratch.file("exceptions.log")),
        ("FAUCET_PROMETHEUS_ADDR", &"127.0.0.1".to_owned()),
    ] {
        command.env(name, value);
    }
    let mut faucet = net.spawn(command, "output.log");
    let _switch = net.switch(&[CONTROLLER]);
    let [one, two, three] = &net.hosts;
    wait_for_ping(one, "198.18.0.2");
    wait_for_ping(three, "198.18.0.1");
    no_ping(three, &[], "198.18.0.2");
    no_ping(two, &[], "198.18.0.3");
    // The second host moves to another VLAN.
    fs::write(&file, FAUCET.replace("PLACE", "guests")).expect("a file");
    faucet.signal(rustix::process::Signal::HUP);
    let apart = || !one.run(["ping", "-c", "1", "-W", "1", "198.18.0.2"]).status.success();
    assert!(wait_until(apart, TIMEOUT), "the reload changes nothing");
    wait_for_ping(one, "198.18.0.3");
    fs::write(&file, FAUCET.replace("PLACE", "office")).expect("a file");
    faucet.signal(rustix::process::Signal::HUP);
    wait_for_ping(one, "198.18.0.2");
    no_ping(three, &[], "198.18.0.2");
    assert_eq!(net.said("exceptions.log"), "");
}

#[test]
#[ignore = "needs root"]
fn a_slave_takes_over_without_loss() {
    let net = Net::new();
    let _shown = PrintOnDrop(&net);
    let folder = net.scratch.path().to_str().expect("text").to_owned();
    fs::write(net.scratch.file("roles.py"), include_str!("roles.py")).expect("a file");
    let mut master = net.os_ken(&folder, "roles", 6653, 1);
    let _slave = net.os_ken(&folder, "roles", 6654, 2);
    let _switch = net.switch(&[CONTROLLER, "tcp:127.0.0.1:6654"]);
    let said = |log: &str, text: &str| {
        wait_until(|| net.said(log).lines().any(|line| line.trim() == text), TIMEOUT)
    };
    assert!(said("os-ken-1.log", "has its flows"), "{}", net.logs());
    assert!(said("os-ken-2.log", "refused: it is a slave"), "{}", net.logs());
    wait_for_ping(&net.hosts[0], "198.18.0.2");
    let mut ping = net.hosts[0].command(["ping", "-n", "-q", "-i", "0.01", "-c", "500"]);
    ping.args(["-W", "5", "198.18.0.2"]).stdout(Stdio::piped());
    let received = || net.hosts[0].counters("e0").rx_packets;
    let before = received();
    let ping = net.hosts[0].spawn_command(ping);
    assert!(wait_until(|| received() >= before + 100, TIMEOUT), "the pings get no answer");
    master.signal(rustix::process::Signal::KILL);
    assert!(said("os-ken-2.log", "has its flows"), "{}", net.logs());
    let output = ping.output(TIMEOUT);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("500 packets transmitted, 500 received"), "{text}");
}

#[test]
#[ignore = "needs root"]
fn requests_of_open_vswitchs_client_are_answered() {
    let net = Net::new();
    let _shown = PrintOnDrop(&net);
    let _switch = net.switch(&["ptcp:6653:127.0.0.1"]);
    wait_for_listener(&net.middle, 6653);
    let file = net.scratch.file("flows");
    for version in ["OpenFlow10", "OpenFlow13", "OpenFlow14", "OpenFlow15"] {
        let client = |words: &[&str]| {
            let option = format!("-O{version}");
            let all = [&["ovs-ofctl", &option, words[0], CONTROLLER], &words[1..]].concat();
            net.middle.expect(all)
        };
        let has = |words: &[&str], parts: &[&str]| {
            let text = client(words);
            for part in parts {
                assert!(text.contains(part), "{version} {words:?}: no {part:?} in {text}");
            }
        };
        has(&["probe"], &[]);
        client(&["ping", "64"]);
        has(&["show"], &["dpid:0000000000000001", "1(p1)", "2(p2)", "3(p3)"]);
        has(&["dump-desc"], &["Linerate"]);
        has(&["dump-ports"], &["rx pkts", "tx pkts"]);
        has(&["dump-ports-desc"], &["1(p1)"]);
        has(&["dump-tables"], &["table 0"]);
        client(&["del-flows"]);
        client(&["add-flow", "priority=7,tcp,tp_dst=80,actions=output:2"]);
        client(&["add-flow", "arp,actions=ALL"]);
        has(&["dump-flows"], &["priority=7,tcp,tp_dst=80 actions=output:", "arp actions=ALL"]);
        has(&["dump-aggregate"], &["flow_count=2"]);
        client(&["mod-flows", "tcp,tp_dst=80,actions=output:3"]);
        has(&["dump-flows", "tcp"], &["actions=output:"]);
        fs::write(&file, "in_port=1,actions=2\nin_port=2,actions=1\n").expect("a file");
        client(&["replace-flows", &file]);
        has(&["dump-flows"], &["in_port=", "actions=output:"]);
        has(&["dump-aggregate"], &["flow_count=2"]);
        assert_eq!(client(&["diff-flows", &file]), "", "{version}");
        wait_for_ping(&net.hosts[0], "198.18.0.2");
        client(&["del-flows", "in_port=1", "--strict"]);
        client(&["mod-port", "3", "no-flood"]);
        client(&["mod-port", "3", "flood"]);
        client(&["packet-out", "in_port=controller packet=ffffffffffff0200000000010806 actions=2"]);
        if version == "OpenFlow10" {
            continue;
        }
        client(&["add-group", "group_id=5,type=all,bucket=output:1,bucket=output:2"]);
        has(&["dump-groups"], &["group_id=5,type=all"]);
        has(&["dump-group-stats"], &["group_id=5"]);
        client(&["mod-group", "group_id=5,type=indirect,bucket=output:2"]);
        client(&["del-groups"]);
        client(&["add-meter", "meter=1 pktps band=type=drop rate=1000"]);
        has(&["dump-meters"], &["meter=1 pktps", "rate=1000"]);
        has(&["meter-stats"], &["meter:1"]);
        // In 1.5 it expects 16 bytes, of the 24 that the specification has.
        if version != "OpenFlow15" {
            has(&["meter-features"], &["max_meter"]);
        }
        client(&["mod-meter", "meter=1 kbps band=type=drop rate=10"]);
        client(&["del-meters"]);
        fs::write(&file, "add in_port=1,actions=2\nadd in_port=3,actions=drop\n").expect("a file");
        client(&["add-flows", &file, "--bundle"]);
        has(&["dump-flows"], &["in_port="]);
    }
}
