//! Clients and controllers of others, unmodified: Open vSwitch's `ovs-ofctl` and
//! `ovs-testcontroller`, and the Python package c65of, which decodes the switch's messages.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use linerate_ofswitch::conntrack::Tracked;
use linerate_ofswitch::control::{Agent, AgentOptions};
use linerate_ofswitch::key::Key;
use linerate_ofswitch::pipeline::{Continuation, Punt, Step, Suspended};
use linerate_openflow::wire::{
    Action, Ct, Field, Instruction, PacketInReason, PortConfig, Version, Zone,
};
use linerate_test_support::{controllers, require, wait_until};

use crate::controller::{PATIENCE, Served, switch};

/// A program that is killed with its test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _gone = self.0.wait();
    }
}

/// Open vSwitch's client for a switch, in a version.
struct Client<'a> {
    served: &'a Served,
    version: Version,
}

impl Client<'_> {
    fn command(&self, words: &[&str]) -> Command {
        let version = format!("OpenFlow{}", self.version.to_string().replace('.', ""));
        let socket = format!("unix:{}", self.served.path().display());
        let mut command = Command::new(require("ovs-ofctl"));
        command.args(["--timeout=20", "-O", &version]);
        command.args(words.iter().map(|&word| if word == "SWITCH" { &socket } else { word }));
        command.env("OVS_RUNDIR", self.served.folder.path()).stdin(Stdio::null());
        command
    }

    /// Returns its output; it must succeed without complaints.
    #[track_caller]
    fn run(&self, words: &[&str]) -> String {
        let output = self.command(words).output().expect("ovs-ofctl runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        let version = self.version;
        assert!(output.status.success() && errors.is_empty(), "{version} {words:?}: {errors}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Returns its complaint.
    #[track_caller]
    fn refused(&self, words: &[&str]) -> String {
        let output = self.command(words).output().expect("ovs-ofctl runs");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// Returns the flows, without counters and ages.
    #[track_caller]
    fn flows(&self) -> Vec<String> {
        let dumped = self.run(&["dump-flows", "SWITCH", "--no-stats"]);
        let lines = dumped.lines().filter(|line| line.contains("actions"));
        lines.map(|line| line.trim().to_owned()).collect()
    }
}

fn clients(served: &Served) -> impl Iterator<Item = Client<'_>> {
    Version::ALL.into_iter().map(move |version| Client { served, version })
}

#[test]
#[ignore = "needs ovs-ofctl"]
fn open_vswitchs_client_reads_the_switch() {
    let served = Served::new(|_| {});
    for client in clients(&served) {
        let newer = client.version > Version::V10;
        let shown = client.run(&["show", "SWITCH"]);
        assert!(shown.contains("dpid:0000000000000042"), "{shown}");
        assert!(shown.contains("n_tables:4, n_buffers:0"), "{shown}");
        assert!(shown.contains("2(port2): addr:02:00:00:00:00:02"), "{shown}");
        assert!(shown.contains("OFPT_GET_CONFIG_REPLY"), "{shown}");
        assert!(client.run(&["dump-desc", "SWITCH"]).contains("Manufacturer: Linerate"));
        let ports = client.run(&["dump-ports", "SWITCH"]);
        assert!(ports.contains("3 ports"), "{ports}");
        let one = client.run(&["dump-ports", "SWITCH", "2"]);
        assert!(one.contains("1 ports") && one.contains("rx pkts=0"), "{one}");
        assert!(client.run(&["dump-ports-desc", "SWITCH"]).contains("1(port1)"));
        let tables = client.run(&["dump-tables", "SWITCH"]);
        assert!(tables.contains("active=0, lookup=0, matched=0"), "{tables}");
        assert!(client.run(&["dump-aggregate", "SWITCH"]).contains("flow_count=0"));
        assert_eq!(client.flows(), Vec::<String>::new());
        client.run(&["dump-groups", "SWITCH"]);
        client.run(&["dump-group-stats", "SWITCH"]);
        client.run(&["queue-stats", "SWITCH"]);
        client.run(&["probe", "SWITCH"]);
        assert!(client.run(&["ping", "SWITCH"]).contains("64 bytes from"));
        if newer {
            let features = client.run(&["dump-table-features", "SWITCH"]);
            assert!(features.contains("table 0"), "{features}");
            assert!(
                client.run(&["dump-group-features", "SWITCH"]).contains("OFPST_GROUP_FEATURES")
            );
            // Open vSwitch has the form of before in OpenFlow 1.5, too.
            if client.version < Version::V15 {
                assert!(client.run(&["meter-features", "SWITCH"]).contains("max_meter"));
            }
            client.run(&["dump-meters", "SWITCH"]);
            client.run(&["meter-stats", "SWITCH"]);
        }
        if client.version > Version::V13 {
            assert!(client.run(&["dump-table-desc", "SWITCH"]).contains("table 0"));
        }
        for how in ["nx-match", "drop", "normal"] {
            client.run(&["set-frags", "SWITCH", how]);
            assert!(client.run(&["get-frags", "SWITCH"]).contains(how));
        }
        assert!(client.refused(&["set-frags", "SWITCH", "reassemble"]).contains("reassemble"));
    }
}

#[test]
#[ignore = "needs ovs-ofctl"]
fn open_vswitchs_client_changes_the_switch() {
    for version in Version::ALL {
        let served = Served::new(|_| {});
        let client = Client { served: &served, version };
        let newer = version > Version::V10;
        let first =
            "table=0,priority=7,cookie=5,idle_timeout=60,ip,nw_src=10.0.0.0/8,actions=output:2";
        client.run(&["add-flow", "SWITCH", first]);
        client.run(&["add-flow", "SWITCH", "priority=1,arp,actions=FLOOD"]);
        let flows = client.flows();
        assert_eq!(flows.len(), 2, "{flows:?}");
        let ours = flows.iter().find(|flow| flow.contains("cookie=0x5")).expect("the first flow");
        assert!(ours.contains("priority=7,ip,nw_src=10.0.0.0/8 actions="), "{ours}");
        assert!(ours.contains("idle_timeout=60"), "{ours}");
        client.run(&["mod-flows", "SWITCH", "ip,actions=output:3"]);
        assert!(client.flows().iter().any(|flow| flow.contains("nw_src=10.0.0.0/8")));
        let dumped = client.run(&["dump-flows", "SWITCH", "ip"]);
        assert!(dumped.contains("port3") || dumped.contains("output:3"), "{dumped}");
        client.run(&["--strict", "del-flows", "SWITCH", "priority=1,arp"]);
        assert_eq!(client.flows().len(), 1);

        // Many from a file, in place of the present ones.
        let file = served.folder.path().join("flows");
        let lines: String =
            (0..200).map(|nth| format!("tcp,tp_dst={nth},actions=output:1\n")).collect();
        std::fs::write(&file, &lines).expect("a file");
        let file = file.to_string_lossy().into_owned();
        client.run(&["add-flows", "SWITCH", &file]);
        assert_eq!(client.flows().len(), 201);
        client.run(&["replace-flows", "SWITCH", &file]);
        assert_eq!(client.flows().len(), 200);
        assert_eq!(client.run(&["diff-flows", "SWITCH", &file]), "");
        assert!(client.run(&["dump-aggregate", "SWITCH", "tcp"]).contains("flow_count=200"));
        client.run(&["del-flows", "SWITCH"]);
        assert_eq!(client.flows(), Vec::<String>::new());

        client.run(&["add-group", "SWITCH", "group_id=3,type=all,bucket=output:1,bucket=output:2"]);
        let groups = client.run(&["dump-groups", "SWITCH"]);
        assert!(groups.contains("group_id=3,type=all"), "{groups}");
        client.run(&["mod-group", "SWITCH", "group_id=3,type=select,bucket=output:1"]);
        if newer {
            client.run(&["add-flow", "SWITCH", "ip,actions=group:3"]);
            client.run(&["del-groups", "SWITCH", "group_id=3"]);
            assert_eq!(client.flows().len(), 0, "flows go with their group");
            client.run(&["add-meter", "SWITCH", "meter=4,kbps,band=type=drop,rate=9"]);
            client.run(&[
                "mod-meter",
                "SWITCH",
                "meter=4,kbps,burst,band=type=drop,rate=9,burst_size=3",
            ]);
            let meters = client.run(&["dump-meters", "SWITCH"]);
            assert!(meters.contains("meter=4 kbps burst"), "{meters}");
            assert!(client.run(&["meter-stats", "SWITCH"]).contains("meter:4"));
            client.run(&["del-meters", "SWITCH"]);
            let bundle = "table=1,priority=9,ip,actions=drop";
            client.run(&["--bundle", "add-flow", "SWITCH", bundle]);
            client.run(&["--bundle", "replace-flows", "SWITCH", &file]);
            assert_eq!(client.flows().len(), 200);
        }
        client.run(&["mod-port", "SWITCH", "2", "down"]);
        let port = served.switch().snapshot();
        let port = port.port(linerate_openflow::wire::PortNumber(2)).expect("a port").port.config;
        assert!(port.contains(PortConfig::DOWN));
        client.run(&["mod-port", "SWITCH", "port2", "up"]);
        if version == Version::V14 {
            client.run(&["mod-table", "SWITCH", "1", "evict"]);
            assert!(client.run(&["dump-table-desc", "SWITCH"]).contains("eviction=on"));
        }
        let said = client.refused(&["add-flow", "SWITCH", "table=77,ip,actions=drop"]);
        assert!(said.contains("OFPT_ERROR"), "{said}");
    }
}

#[test]
#[ignore = "needs ovs-ofctl"]
fn open_vswitch_sends_packets() {
    let served = Served::new(|_| {});
    for client in clients(&served) {
        client.run(&[
            "packet-out",
            "SWITCH",
            "in_port=1 packet=0102030405060708090a0b0c0d0e0f actions=output:2",
        ]);
        let injected = served.switch().next_injection().expect("a packet for a worker");
        assert_eq!(injected.packet, (1..=15).collect::<Vec<u8>>());
        assert_eq!(injected.key.get(Field::InPort), 1);
        let steps = &injected.decision.steps;
        assert!(matches!(steps[..], [Step::Output { port: 2, .. }]), "{steps:?}");
    }
}

/// A packet-in.
fn told() -> Punt {
    Punt {
        reason: PacketInReason::Action,
        table: 0,
        cookie: 0x1234,
        max_len: 0xffff,
        id: 0,
        userdata: Vec::new(),
        meter: 0,
        state: Box::default(),
        written: Box::default(),
        resume: None,
    }
}

/// Sends a packet to controllers as a worker does.
fn punt(served: &Served, cookie: u64) {
    let punt = Punt { cookie, ..told() };
    let mut key = Key::default();
    key.set(Field::InPort, 3);
    let packet: Vec<u8> = (1..=60).collect();
    served.switch().punt(&Arc::new(punt), &key, &packet);
}

#[test]
#[ignore = "needs ovs-ofctl"]
fn open_vswitch_resumes() {
    let served = Served::new(|_| {});
    for client in clients(&served) {
        let mut command = client.command(&["monitor", "SWITCH", "65534", "resume"]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let mut monitor = Killed(child.expect("ovs-ofctl runs"));
        let errors = monitor.0.stderr.take().expect("a pipe");
        let (send, lines) = std::sync::mpsc::channel();
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(errors).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        let mut said = String::new();
        let goes_on = || {
            // It asks for packets some time after it came.
            let resume = Arc::new(Continuation { number: 77, state: Suspended::default() });
            let mut key = Key::default();
            key.set(Field::InPort, 3);
            let punt = Arc::new(Punt { resume: Some(resume), ..told() });
            served.switch().punt(&punt, &key, &(1..=60).collect::<Vec<u8>>());
            if let Ok(line) = lines.recv_timeout(Duration::from_millis(100)) {
                said += &format!("{line}\n");
            }
            served.switch().next_injection().is_some_and(|injected| {
                assert_eq!(injected.packet, (1..=60).collect::<Vec<u8>>());
                assert_eq!(injected.key.continuation(), 77);
                true
            })
        };
        assert!(wait_until(goes_on, PATIENCE), "{}: {said}", client.version);
        let read = || {
            lines.try_iter().for_each(|line| said += &format!("{line}\n"));
            said.contains("continuation.bridge=")
        };
        assert!(wait_until(read, PATIENCE), "{}: {said}", client.version);
        assert!(said.contains("NXT_PACKET_IN2") && !said.contains("decode error"), "{said}");
        drop(monitor);
        reader.join().expect("it ends with the pipe");
        while served.switch().next_injection().is_some() {}
    }
}

#[test]
#[ignore = "needs ovs-ofctl"]
fn open_vswitch_watches() {
    let served = Served::new(|_| {});
    for client in clients(&served) {
        let mut command = client.command(&["monitor", "SWITCH", "65534"]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let mut monitor = Killed(child.expect("ovs-ofctl runs"));
        let listens = || {
            let status = served.agent.status().targets.remove(0);
            status.controllers.iter().any(|controller| controller.version.is_some())
        };
        assert!(wait_until(listens, PATIENCE));
        let errors = monitor.0.stderr.take().expect("a pipe");
        let (send, lines) = std::sync::mpsc::channel();
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(errors).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        // It has asked for packets some time after it came.
        let said = || {
            punt(&served, 0x1234);
            lines.recv_timeout(Duration::from_millis(100)).is_ok_and(|line| {
                line.contains("PACKET_IN") && line.contains("total_len=60 in_port=3")
            })
        };
        assert!(wait_until(said, PATIENCE), "{}", client.version);
        let add = "hard_timeout=1,send_flow_rem,priority=5,udp,actions=output:1";
        client.run(&["add-flow", "SWITCH", add]);
        client.run(&["mod-port", "SWITCH", "3", "no-forward"]);
        client.run(&["mod-port", "SWITCH", "3", "forward"]);
        let (mut removed, mut status) = (false, false);
        let both = || {
            for line in lines.try_iter() {
                removed |= line.contains("FLOW_REMOVED") && line.contains("priority=5,udp");
                status |= line.contains("PORT_STATUS") && line.contains("MOD: 3(port3)");
            }
            removed && status
        };
        assert!(wait_until(both, PATIENCE), "{}: {removed} {status}", client.version);
        drop(monitor);
        drop(lines);
        reader.join().expect("lines are read");
    }
}

#[test]
#[ignore = "needs ovs-ofctl"]
fn open_vswitch_watches_flows() {
    let served = Served::new(|_| {});
    for client in clients(&served) {
        client.run(&["del-flows", "SWITCH"]);
        client.run(&["add-flow", "SWITCH", "priority=4,arp,actions=output:1"]);
        let mut command = client.command(&["monitor", "SWITCH", "watch:"]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let mut monitor = Killed(child.expect("ovs-ofctl runs"));
        let errors = monitor.0.stderr.take().expect("a pipe");
        let (send, lines) = std::sync::mpsc::channel();
        let reader = std::thread::spawn(move || {
            let lines = BufReader::new(errors).lines().map_while(Result::ok);
            lines.filter(|line| line.contains("event=")).for_each(|line| drop(send.send(line)));
        });
        // It is there some time after it has come. Its first flows it prints elsewhere.
        let add = ["add-flow", "SWITCH", "priority=5,udp,idle_timeout=77,actions=output:1"];
        let is_added = || {
            client.run(&add);
            lines.recv_timeout(Duration::from_millis(100)).is_ok_and(|line| {
                ["event=ADDED", "idle_timeout=77", "actions=output:1"]
                    .iter()
                    .all(|part| line.contains(part))
            })
        };
        assert!(wait_until(is_added, PATIENCE), "{}", client.version);
        let next = |event: &str| {
            let mut others = lines.iter().skip_while(|line| line.contains("event=ADDED"));
            let line = others.next().unwrap_or_default();
            assert!(line.contains(event), "{}: {line:?} is not {event}", client.version);
            line
        };
        client.run(&["mod-flows", "SWITCH", "udp,actions=output:2"]);
        assert!(next("event=MODIFIED").contains("actions=output:2"));
        client.run(&["--strict", "del-flows", "SWITCH", "priority=5,udp"]);
        assert!(next("event=DELETED").contains("reason=delete"));
        drop(monitor);
        reader.join().expect("lines are read");
    }
}

/// A packet of UDP between two hosts, without a checksum.
fn udp(source: [u8; 4], destination: [u8; 4], ports: (u16, u16)) -> Vec<u8> {
    let mut packet = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00];
    packet.extend([0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0]);
    packet.extend(source);
    packet.extend(destination);
    packet.extend(ports.0.to_be_bytes());
    packet.extend(ports.1.to_be_bytes());
    packet.extend([0, 8, 0, 0]);
    packet
}

#[test]
#[ignore = "needs ovs-ofctl"]
fn open_vswitch_has_connections_forgotten() {
    let served = Served::new(|_| {});
    let tracker = &served.switch().shared_state().tracker;
    let zone = |number: u16| {
        let (table, actions) = (None, Vec::new());
        Ct { commit: true, force: false, zone: Zone::Number(number), table, helper: 0, actions }
    };
    // The agent forgets connections that have timed out.
    const NOW: u64 = 1 << 62;
    let keep_all = || {
        for (number, port) in [(0, 1), (0, 2), (1, 1), (2, 1)] {
            let mut packet = udp([10, 0, 0, 1], [10, 0, 0, 2], (port, 53));
            let mut key = Key::default();
            linerate_ofswitch::key::extract(&packet, &mut key);
            let tracked = tracker.track(&zone(number), number, &mut key, &mut packet, NOW);
            assert!(matches!(tracked, Tracked::One), "{tracked:?}");
        }
        assert_eq!(tracker.len(), 4);
    };
    let whole = "ct_nw_src=10.0.0.1,ct_nw_dst=10.0.0.2,ct_nw_proto=17,ct_tp_src=1,ct_tp_dst=53";
    let answer = "ct_nw_src=10.0.0.2,ct_nw_proto=17,ct_tp_dst=2";
    for client in clients(&served) {
        for (words, left) in [
            (&["ct-flush-zone", "SWITCH", "1"][..], 3),
            (&["ct-flush", "SWITCH"], 0),
            (&["ct-flush", "SWITCH", "zone=0"], 2),
            (&["ct-flush", "SWITCH", whole], 3),
            (&["ct-flush", "SWITCH", "zone=2", whole], 3),
            (&["ct-flush", "SWITCH", "zone=3", whole], 4),
            (&["ct-flush", "SWITCH", "ct_nw_src=10.0.0.1,ct_nw_proto=17,ct_tp_src=1"], 1),
            (&["ct-flush", "SWITCH", "ct_nw_dst=10.0.0.1"], 4),
            (&["ct-flush", "SWITCH", "", answer], 3),
        ] {
            keep_all();
            client.run(words);
            assert_eq!(tracker.len(), left, "{} {words:?}", client.version);
        }
    }
}

/// Returns a free port.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

#[test]
#[ignore = "needs ovs-testcontroller"]
fn open_vswitch_controls() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    for version in ["OpenFlow10", "OpenFlow13", "OpenFlow14"] {
        let port = free_port();
        let child = Command::new(controllers::require_test_controller())
            .args(["-O", version, "--max-idle=60", &format!("ptcp:{port}:127.0.0.1")])
            .env("OVS_RUNDIR", folder.path())
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let _controller = Killed(child.expect("ovs-testcontroller runs"));
        let options = AgentOptions {
            targets: vec![format!("tcp:127.0.0.1:{port}").parse().expect("a target")],
            backoff: (Duration::from_millis(20), Duration::from_millis(100)),
            ..AgentOptions::default()
        };
        let agent = Agent::start(switch(), options).expect("an agent");
        // It learns where an address is from a packet, and writes a flow when it knows both.
        let send = |from: u8, to: u8, port: u32| {
            let mut packet = vec![2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from, 0x08, 0x00];
            packet.resize(60, 0);
            let punt = Punt {
                reason: PacketInReason::NoMatch,
                table: 0,
                // A flow of a table that matches everything; in 1.0 there is none.
                cookie: if version == "OpenFlow10" { u64::MAX } else { 0 },
                max_len: 0xffff,
                id: 0,
                userdata: Vec::new(),
                meter: 0,
                state: Box::default(),
                written: Box::default(),
                resume: None,
            };
            let mut key = Key::default();
            key.set(Field::InPort, port.into());
            agent.switch().punt(&Arc::new(punt), &key, &packet);
        };
        let learnt = || {
            send(0x11, 0x22, 1);
            send(0x22, 0x11, 2);
            let snapshot = agent.switch().snapshot();
            let mut flows = snapshot.flows(0);
            flows.any(|flow| {
                let to_1 =
                    Action::Output { port: linerate_openflow::wire::PortNumber(1), max_len: 0 };
                flow.matching.unpack().exact(Field::EthDst) == Some(0x0200_0000_0011)
                    && flow.instructions.iter().any(|instruction| match instruction {
                        Instruction::ApplyActions(actions) => actions.contains(&to_1),
                        _ => false,
                    })
            })
        };
        assert!(wait_until(learnt, PATIENCE), "{version}: {:?}", agent.status());
        assert!(agent.switch().next_injection().is_some(), "it sends the packet on");
    }
}

#[test]
#[ignore = "needs c65of"]
fn c65of_speaks_with_the_switch() {
    let served = Served::new(|_| {});
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/control/c65of_client.py");
    let child = Command::new(controllers::require_python())
        .args(["-B", script])
        .arg(served.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn();
    let mut client = Killed(child.expect("Python runs"));
    let mut lines = BufReader::new(client.0.stdout.take().expect("a pipe")).lines();
    let mut next = |wanted: &[&str]| {
        let line = lines.next().and_then(Result::ok).unwrap_or_else(|| panic!("no {wanted:?}"));
        for part in wanted {
            assert!(line.contains(part), "no {part} in {line}");
        }
    };
    next(&["OFPHello"]);
    next(&["OFPErrorMsg", "\"type\": 5", "\"code\": 2"]);
    next(&["OFPBarrierReply"]);
    next(&["OFPSwitchFeatures", "\"datapath_id\": 66", "\"n_tables\": 4"]);
    next(&["OFPGetConfigReply"]);
    next(&["OFPGetAsyncReply", "\"packet_in_mask\": [3, 0]"]);
    next(&["OFPRoleReply", "\"generation_id\": 3", "\"role\": 2"]);
    next(&["OFPDescStatsReply", "Linerate"]);
    next(&["OFPFlowStatsReply", "\"cookie\": 7", "02:00:00:00:00:09", "10.0.0.0"]);
    next(&["OFPAggregateStatsReply", "\"flow_count\": 1"]);
    next(&["OFPTableStatsReply", "\"active_count\": 1"]);
    next(&["OFPPortStatsReply"]);
    next(&["OFPGroupStatsReply", "\"group_id\": 5"]);
    next(&["OFPGroupDescStatsReply", "\"group_id\": 5"]);
    next(&["OFPGroupFeaturesStatsReply"]);
    next(&["OFPMeterFeaturesStatsReply"]);
    next(&["OFPPortDescStatsReply", "port3"]);
    next(&["OFPTableFeaturesStatsReply"]);
    next(&["OFPBarrierReply"]);
    punt(&served, 0x1234);
    next(&["OFPPacketIn", "\"cookie\": 4660", "\"in_port\"", "\"total_len\": 60"]);
    assert!(client.0.wait().expect("it ends").success());
}
