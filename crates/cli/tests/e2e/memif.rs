//! Programs on `memif:` ports, with DPDK's testpmd at the other end.

use linerate_test_support::{
    Lab,
    testpmd::{Setup, Testpmd},
    wait_until,
};

use crate::{
    hosts::{host, wait_for_ping},
    support::{Program, Scratch, TIMEOUT, assert_balanced, drops, linerate, number},
};

/// A socket in a folder of its own.
struct Socket {
    scratch: Scratch,
}

impl Socket {
    fn new() -> Socket {
        Socket { scratch: Scratch::new() }
    }

    fn path(&self) -> String {
        self.scratch.file("memif.sock")
    }

    /// A testpmd on interface 0, in this role.
    fn testpmd(&self, role: &str, engine: &str) -> Testpmd {
        let path = self.path();
        Testpmd::start(&Setup {
            name: "linerate-e2e",
            device: &format!("net_memif0,role={role},id=0,socket={path},socket-abstract=no"),
            megabytes: "96",
            arguments: &["--total-num-mbufs=8192"],
            queues: 1,
            engine,
        })
    }
}

/// Value of a handler of a running configuration.
#[track_caller]
fn read(control: &str, handler: &str) -> String {
    let ended = linerate(&format!("call {control} {handler}"));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    ended.stdout.trim().to_owned()
}

/// The peer is killed and comes back, twice, and packets come all the time: forwarding goes on by
/// itself, and packets without a peer are counted.
#[test]
#[ignore = "needs root"]
fn a_forwarder_follows_a_peer_that_dies_and_comes_back() {
    let lab = Lab::new();
    let namespace = lab.namespace("f");
    let socket = Socket::new();
    let path = socket.path();
    let uri = format!("memif:{path}?role=server");
    let line = format!("forward memif:{path}?role=server&id=1 {uri}");
    let mut forwarder = Program::ready(&namespace, &line);
    forwarder.wait_for(&format!("the link of {uri} is down: waiting for a client"));
    let sender = Program::ready(&namespace, &format!("generate memif:{path}?id=1 --rate 20kpps"));
    for turn in 1..=2 {
        let mut testpmd = socket.testpmd("client", "rxonly");
        let up = format!("the link of {uri} is up: DPDK");
        let said = || forwarder.stderr().matches(&up).count() == turn;
        assert!(wait_until(said, TIMEOUT), "{}", forwarder.stderr());
        let arrives = || testpmd.counts().0 > 1000;
        assert!(wait_until(arrives, TIMEOUT), "nothing arrives after {turn} starts");
        drop(testpmd);
        let down = format!("the link of {uri} is down: ");
        let said = || forwarder.stderr().matches(&down).count() == turn + 1;
        assert!(wait_until(said, TIMEOUT), "{}", forwarder.stderr());
    }
    sender.stop();
    forwarder.running.signal(rustix::process::Signal::INT);
    let ended = forwarder.end();
    let links = ended.json();
    let of_peer = links.iter().filter(|object| object["event"] == "link" && object["port"] == *uri);
    let ups: Vec<_> = of_peer.map(|object| object["up"] == true).collect();
    assert_eq!(ups, [false, true, false, true, false]);
    let summary = ended.summary();
    assert_balanced(&summary);
    let flow = &summary["flows"][0];
    assert!(number(&flow["transmit_drops"], "link_down") > 0, "{flow}");
    assert!(number(flow, "sent_packets") > 2000 && drops(flow, "receive_drops") == 0, "{flow}");
}

/// A switch with two cables and a peer in memory. Hosts at a port are forgotten when its link goes
/// down, and the others go on.
#[test]
#[ignore = "needs root"]
fn a_switch_forgets_hosts_behind_a_link_that_went_down() {
    let lab = Lab::new();
    let middle = lab.namespace("switch");
    let a = host(&lab, &middle, "a", "pa", "198.18.0.1/24");
    let b = host(&lab, &middle, "b", "pb", "198.18.0.2/24");
    let socket = Socket::new();
    let control = socket.scratch.file("control");
    let configuration = socket.scratch.file("switch.click");
    let text = format!(
        "s :: EtherSwitch;
         pa :: FromPort(packet:pa) -> [0] s [0] -> Queue -> ToPort(packet:pa);
         pb :: FromPort(packet:pb) -> [1] s [1] -> ToPort(packet:pb);
         pm :: FromPort(\"memif:{0}?role=server\") -> [2] s [2] -> tm :: ToPort(\"memif:{0}?role=server\");",
        socket.path(),
    );
    std::fs::write(&configuration, text).unwrap();
    let line = format!("run {configuration} --control {control}");
    let mut program = Program::ready(&middle, &line);
    let at = |port: &str| {
        let table = read(&control, "s.table");
        table.lines().filter(|line| line.ends_with(port)).count()
    };
    wait_for_ping(&a, "198.18.0.2");
    assert_eq!((at(" 0"), at(" 1"), at(" 2")), (1, 1, 0));
    assert_eq!(read(&control, "pm.link"), "false");
    assert!(read(&control, "pm.link_detail").starts_with("waiting for a client"));

    let testpmd = socket.testpmd("client", "txonly");
    assert!(wait_until(|| at(" 2") > 0, TIMEOUT), "nobody is at the third port");
    assert_eq!(read(&control, "pm.link"), "true");
    drop(testpmd);
    assert!(wait_until(|| at(" 2") == 0, TIMEOUT), "the peer's host is remembered");
    assert_eq!((at(" 0"), at(" 1")), (1, 1));
    assert_eq!(read(&control, "tm.link"), "false");
    assert_eq!(read(&control, "tm.link_changes"), "2");
    // A broadcast goes there too, and is counted.
    a.ip(["neigh", "flush", "dev", "e0"]);
    wait_for_ping(&a, "198.18.0.2");
    let dropped = || !read(&control, "tm.counters").contains("link_down 0");
    assert!(wait_until(dropped, TIMEOUT), "{}", read(&control, "tm.counters"));

    b.link_down("e0");
    assert!(wait_until(|| at(" 1") == 0, TIMEOUT), "who was behind the cable is remembered");
    assert_eq!(read(&control, "pb.link"), "false");
    assert_eq!(at(" 0"), 1);
    program.wait_for("the link of pb is down: its other end is not connected");
    b.link_up("e0");
    wait_for_ping(&a, "198.18.0.2");
    assert_eq!((at(" 1"), read(&control, "pb.link_changes").as_str()), (1, "3"));
    crate::hosts::stop(program);
}

/// Commands that take a port take this one.
#[test]
#[ignore = "needs root"]
fn commands_on_ports_share_memory_with_testpmd() {
    let lab = Lab::new();
    let namespace = lab.namespace("m");
    let socket = Socket::new();
    let path = socket.path();
    let mut receiving = socket.testpmd("server", "rxonly");
    let line = format!("generate memif:{path}?wait=20 --rate 500pps");
    let sender = Program::ready(&namespace, &line);
    // It forgets them when the connection ends.
    assert!(wait_until(|| receiving.counts().0 >= 1000, TIMEOUT), "{:?}", receiving.counts());
    // testpmd (22.11) dies in net_memif when a peer leaves in the midst of a burst, so it stops first. It
    // has when it answers again, long before the ring is full.
    receiving.send_command("stop");
    receiving.counts();
    let sent = sender.stop();
    assert!(number(&sent, "accepted") >= 1000, "{sent}");
    assert_eq!(sent["transmit_drops"], serde_json::json!({}), "{sent}");

    let listed = linerate(&format!("ports memif:{path} --json"));
    assert_eq!(listed.code, Some(0), "{listed:?}; testpmd died of {:?}", receiving.died_of());
    let listed = listed.json().remove(0);
    assert_eq!(listed["owners"][0]["name"], "dpdk-testpmd", "{listed}");
    assert_eq!(listed["ports"][0]["port"], format!("memif:{path}"));
    assert_eq!(listed["connected"].as_array().map(Vec::len), Some(0), "{listed}");
    drop(receiving);
    linerate(&format!("ports memif:{path}")).failed(5, &["no program listens at"]);

    let file = socket.scratch.file("got.pcap");
    let lines = [
        format!("sink memif:{path}?wait=20 --count 1000"),
        format!("capture memif:{path}?wait=20 -w {file} --count 1000"),
    ];
    for line in lines {
        // Each leaves in the midst of bursts.
        std::fs::remove_file(&path).unwrap();
        let sending = socket.testpmd("server", "txonly");
        let got = Program::start(&namespace, &line).end().summary();
        let flow = got.get("flows").map_or(&got, |flows| &flows[0]);
        assert!(number(flow, "received_packets") >= 1000, "{line}: {got}");
        drop(sending);
    }
    assert_eq!(crate::wire::records(&std::fs::read(&file).unwrap()).len(), 1000);
}

/// `lab ndr` over one, with DPDK's testpmd as the device.
#[test]
#[ignore = "needs root"]
fn a_search_finds_the_rate_of_testpmd_from_memory_to_memory() {
    let lab = Lab::new();
    let namespace = lab.namespace("n");
    // A search opens its port anew for each trial, and testpmd (22.11) dies in net_memif when a
    // peer leaves in the midst of a burst: then the device is gone, through no fault of ours.
    for _ in 0..5 {
        let socket = Socket::new();
        let mut device = socket.testpmd("server", "io");
        let port = format!("memif:{}?wait=20", socket.path());
        let line = format!(
            "lab ndr --tx {port} --rx {port} --isolated --goal pdr --max-rate 2kpps --trial 50ms \
             --sum 100ms --late 1s --force --json"
        );
        let words = std::iter::once(crate::support::LINERATE).chain(line.split(' '));
        let output = namespace.run(words);
        if !output.status.success() && device.died_of().is_some() {
            eprintln!("testpmd has died, and is started again");
            continue;
        }
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{output:?}");
        let last = said.lines().last().unwrap_or_default();
        let result: serde_json::Value = serde_json::from_str(last).unwrap();
        assert_eq!(result["event"], "result", "{said}");
        return;
    }
    panic!("testpmd dies each time");
}
