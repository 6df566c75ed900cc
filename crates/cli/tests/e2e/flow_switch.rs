//! `linerate switch --openflow`, ruled by `linerate flow`: records of collectors, state after a
//! restart, access of controllers, and ports that come and go.

use std::{
    fs,
    net::IpAddr,
    path::PathBuf,
    process::Stdio,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
};

use linerate_test_support::authority::{Authority, EC, IssuedCert, RSA};
use linerate_test_support::{Lab, Namespace, Running, wait_until};
use rustix::process::Signal;
use serde_json::Value;

use crate::hosts::{host, iperf, iperf_server, no_ping, wait_for_ping};
use crate::support::{
    DRIVERS, Ended, LINERATE, Program, Scratch, TIMEOUT, linerate, linerate_in, number, words,
};
use crate::switch::{Host, Pair, StopOnDrop, Switch, WINDOW};

/// Two hosts at a switch of ours, whose ports are called `a` and `b`.
struct Net {
    // Programs end before their namespaces.
    switch: Option<Program>,
    hosts: [Namespace; 2],
    middle: Namespace,
    scratch: Scratch,
    /// `packet` or `xdp`.
    driver: &'static str,
}

impl Net {
    fn new(driver: &'static str) -> Net {
        let lab = Lab::new();
        let middle = lab.namespace("switch");
        let hosts = [1, 2].map(|number| {
            let (port, address) = (format!("p{number}"), format!("198.18.0.{number}/24"));
            host(&lab, &middle, &format!("h{number}"), &port, &address)
        });
        Net { switch: None, hosts, middle, scratch: Scratch::new(), driver }
    }

    /// Starts the switch; `%` is the folder of the test.
    #[track_caller]
    fn start(&mut self, options: &str) {
        let ports = format!("a={0}:p1 b={0}:p2", self.driver);
        let line = format!("switch --no-huge --control %/control {options} {ports}");
        self.switch = Some(Program::ready(&self.middle, &self.in_folder(&line)));
    }

    fn in_folder(&self, text: &str) -> String {
        text.replace('%', self.scratch.path().to_str().expect("text"))
    }

    /// Ends it as Ctrl-C does.
    #[track_caller]
    fn stop(&mut self) -> Value {
        let summary = self.switch.take().expect("it runs").stop();
        assert_eq!(summary["buffers_held"], 0, "{summary}");
        summary
    }

    /// Kills it without a warning.
    #[track_caller]
    fn kill(&mut self) {
        self.switch.take().expect("it runs").kill();
    }

    /// `linerate flow` with its socket.
    #[track_caller]
    fn flow(&self, words: &str) -> String {
        let ended = linerate(&self.in_folder(&format!("flow --switch unix:%/flows {words}")));
        assert_eq!(ended.code, Some(0), "{words}: {ended:?}");
        ended.stdout
    }

    #[track_caller]
    fn objects(&self, words: &str) -> Vec<Value> {
        let text = self.flow(&format!("{words} --json"));
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// A count of the element that exports.
    #[track_caller]
    fn exported(&self, handler: &str) -> u64 {
        let ended = linerate(&self.in_folder(&format!("call %/control export.{handler}")));
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.stdout.trim().parse().expect("a number")
    }
}

/// A collector of nfdump's in a namespace, with the folder of its files.
struct Collector {
    program: Running,
    folder: PathBuf,
    namespace: Namespace,
    port: u16,
}

impl Collector {
    #[track_caller]
    fn start(net: &Net, name: &str, port: u16) -> Collector {
        let folder = PathBuf::from(net.scratch.file(name));
        fs::create_dir(&folder).expect("a folder");
        let port_text = port.to_string();
        let words = [name, "-b", "127.0.0.1", "-t", "3600", "-p", &port_text, "-w"];
        let mut command = net.middle.command(words);
        command.arg(&folder).stdout(Stdio::null()).stderr(Stdio::null());
        let program = net.middle.spawn_command(command);
        let collector = Collector { program, folder, namespace: net.middle.clone(), port };
        let listens = wait_until(|| !collector.socket().is_empty(), TIMEOUT);
        assert!(listens, "{name} does not listen");
        collector
    }

    /// The kernel's line about its socket: unread bytes are the second word.
    fn socket(&self) -> String {
        self.namespace.expect(["ss", "-Hlun", &format!("sport = :{}", self.port)])
    }

    /// Ends it, and returns packets and bytes of each protocol that were decoded.
    #[track_caller]
    fn end(mut self) -> [(u64, u64); 2] {
        let is_read = || self.socket().split_whitespace().nth(1) == Some("0");
        assert!(wait_until(is_read, TIMEOUT), "{}", self.socket());
        self.program.signal(Signal::TERM);
        let _ = self.program.wait(TIMEOUT);
        let folder = self.folder.to_str().expect("text");
        let text = self.namespace.expect(["nfdump", "-q", "-N", "-o", "csv", "-R", folder]);
        let mut counts = [(0, 0); 2];
        for line in text.lines().filter(|line| line.starts_with("20")) {
            let columns: Vec<&str> = line.split(',').map(str::trim).collect();
            let number = |nth: usize| columns[nth].parse::<u64>().expect("a number");
            let kind = match columns[7] {
                "ICMP" => 0,
                "UDP" => 1,
                _ => continue,
            };
            let from: IpAddr = columns[3].parse().expect("an address");
            let ways = if from.to_string() == "198.18.0.1" { (1, 2) } else { (2, 1) };
            assert_eq!((number(15), number(16)), ways, "ports: {line}");
            counts[kind] = (counts[kind].0 + number(11), counts[kind].1 + number(12));
        }
        counts
    }
}

/// Bytes around IP in a frame, and of its check, which is not in a received frame.
const ETHERNET: u64 = 14;
const CHECK: u64 = 4;

#[test]
#[ignore = "needs root"]
fn collectors_decode_the_forwarded_traffic() {
    for driver in DRIVERS {
        let mut net = Net::new(driver);
        let records = Collector::start(&net, "nfcapd", 4739);
        let samples = Collector::start(&net, "sfcapd", 6343);
        net.start(
            "--openflow punix:%/flows --ipfix 127.0.0.1 --ipfix-idle 100ms --ipfix-active 1s \
             --sflow localhost:6343 --sflow-rate 1",
        );
        net.flow("add arp,actions=flood icmp,actions=normal udp,actions=normal tcp,actions=normal");
        let [one, two] = &net.hosts;
        wait_for_ping(one, "198.18.0.2");
        one.expect(["ping", "-n", "-q", "-i", "0.01", "-c", "50", "-s", "300", "198.18.0.2"]);
        let server = iperf_server(two, 5201);
        iperf(one, "198.18.0.2", &["-u", "-b", "4M", "-n", "300K", "-l", "1000"]);
        drop(server);
        // It is told while the switch runs, when flows are over.
        let told = wait_until(|| net.exported("records") > 0, TIMEOUT);
        assert!(told, "{driver}: {}", net.flow("dump"));
        let flows = net.objects("dump");
        let ports = net.objects("ports");
        let counts = ["icmp", "udp"].map(|protocol| {
            let flow = flows.iter().find(|flow| flow["match"] == protocol);
            let flow = flow.unwrap_or_else(|| panic!("{protocol}: {flows:?}"));
            (number(flow, "packets"), number(flow, "bytes"))
        });
        assert!(counts[0].0 >= 102 && counts[1].0 >= 300, "{counts:?}");
        let all: u64 = flows.iter().map(|flow| number(flow, "packets")).sum();
        let received: u64 = ports.iter().map(|port| number(port, "received")).sum();
        assert_eq!(all, received, "{flows:?} {ports:?}");
        let sampled = wait_until(|| net.exported("samples") == received, TIMEOUT);
        assert!(sampled, "{driver}: {} of {received}", net.exported("samples"));
        assert_eq!((net.exported("lost"), net.exported("errors")), (0, 0));
        net.stop();
        let of_ip = counts.map(|(packets, bytes)| (packets, bytes - packets * ETHERNET));
        assert_eq!(records.end(), of_ip, "{driver}: IPFIX");
        let with_check = counts.map(|(packets, bytes)| (packets, bytes + packets * CHECK));
        assert_eq!(samples.end(), with_check, "{driver}: sFlow");
    }
}

/// The flows, groups, meters and settings, without their counts.
#[track_caller]
fn dumped(net: &Net) -> String {
    let flows = net.flow("dump --plain");
    let kept = |part: &&str| {
        let counted = ["duration=", "n_packets=", "n_bytes=", "idle_age=", "hard_age="];
        !counted.iter().any(|count| part.trim_start().starts_with(count))
    };
    let flows =
        flows.lines().map(|line| line.split(',').filter(kept).collect::<Vec<_>>().join(","));
    let mut flows: Vec<String> = flows.collect();
    flows.sort();
    let words = ["ovs-ofctl", "-OOpenFlow15"];
    let socket = net.in_folder("unix:%/flows");
    let asked = ["dump-groups", "dump-meters", "dump-ports-desc"].map(|question| {
        let answer = net.middle.expect([&words[..], &[question, &socket]].concat());
        // The number of the question.
        answer.lines().skip(1).map(|line| format!("{line}\n")).collect::<String>()
    });
    format!("{}\n{}", flows.join("\n"), asked.join(""))
}

#[test]
#[ignore = "needs root"]
fn a_state_is_there_again_however_the_switch_ended() {
    for driver in DRIVERS {
        let mut net = Net::new(driver);
        let first = net.scratch.file("first");
        fs::write(&first, "priority=1,actions=normal\n").expect("a file");
        let options = "--openflow punix:%/flows --flows %/first --state %/state --tables 4";
        net.start(options);
        assert!(dumped(&net).contains("priority=1"), "what is there from the start");
        net.flow("meters --add meter=7,pktps,burst,stats,band=type=drop,rate=100,burst_size=9");
        net.flow("groups --add group_id=3,type=select,bucket=weight:2,output:a,bucket=output:b");
        net.flow("add 'cookie=0xfeed,priority=9,udp,tp_dst=9,hard_timeout=3000,idle_timeout=2000,actions=meter:7,group:3'");
        net.flow("add 'table=1,importance=4,ip,nw_dst=10.0.0.0/9,actions=dec_ttl,learn(table=2,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],output:NXM_OF_IN_PORT[]),output:b'");
        net.flow("add 'table=2,tcp,tcp_flags=+syn-ack,actions=ct(commit,zone=5,nat(src=10.1.0.1-10.1.0.9),table=3)'");
        net.flow("del --strict priority=1");
        net.flow("add priority=2,in_port=a,actions=output:b priority=2,in_port=b,actions=output:a");
        let socket = net.in_folder("unix:%/flows");
        net.middle.expect(["ovs-ofctl", "-OOpenFlow13", "mod-port", &socket, "b", "no-packet-in"]);
        net.middle.expect(["ovs-ofctl", "-OOpenFlow10", "mod-port", &socket, "b", "no-flood"]);
        net.middle.expect(["ovs-ofctl", "-OOpenFlow14", "mod-table", &socket, "1", "evict"]);
        let before = dumped(&net);
        for part in ["group_id=3", "meter=7", "NO_PACKET_IN", "cookie=0xfeed", "learn("] {
            assert!(before.contains(part), "no {part} in {before}");
        }
        let kept = net.scratch.file("state");
        // Once as by Ctrl-C, just after a change; and without a warning, when the change has been written.
        net.flow("add priority=3,arp,in_port=a,actions=output:b");
        let before = dumped(&net);
        net.stop();
        net.start(options);
        assert_eq!(dumped(&net), before, "{driver}: Ctrl-C");
        wait_for_ping(&net.hosts[0], "198.18.0.2");
        net.flow("add priority=4,in_port=b,actions=drop");
        let before = dumped(&net);
        let written = || fs::read_to_string(&kept).is_ok_and(|text| text.contains("priority=4,"));
        assert!(wait_until(written, TIMEOUT), "{:?}", fs::read_to_string(&kept));
        net.kill();
        net.start(options);
        assert_eq!(dumped(&net), before, "{driver}: SIGKILL");
        no_ping(&net.hosts[0], &[], "198.18.0.2");
        net.flow("del --strict priority=4,in_port=b");
        wait_for_ping(&net.hosts[0], "198.18.0.2");
        net.stop();
        let text = fs::read_to_string(&kept).expect("a state");
        assert!(text.contains("table 1 eviction\n") && text.contains("port 0x50 b\n"), "{text}");
    }
}

#[test]
#[ignore = "needs root"]
fn a_state_that_cannot_be_read_or_kept_is_said_at_once() {
    let net = Net::new("packet");
    let line = "switch --no-huge --control %/control --openflow punix:%/flows a=packet:p1 --state";
    let start = |state: &str| linerate_in(&net.middle, &net.in_folder(&format!("{line} {state}")));
    start("%/nowhere/state").failed(5, &["cannot keep the state in", "nowhere/state"]);
    fs::write(net.scratch.file("state"), "# one\nflow 1.3 actions=outptu:1\n").expect("a file");
    start("%/state").failed(5, &["cannot read the state in", "line 2", "outptu"]);
}

/// Words of a command line for TLS.
fn keys(issued: &IssuedCert) -> String {
    let path = |path: &PathBuf| path.to_str().expect("text").to_owned();
    let IssuedCert { key, certificate, authority } = issued;
    format!(
        "--private-key {} --certificate {} --ca-cert {}",
        path(key),
        path(certificate),
        path(authority)
    )
}

#[test]
#[ignore = "needs root"]
fn every_command_goes_by_tls_and_only_with_a_trusted_certificate() {
    let mut net = Net::new("packet");
    let ours = Authority::new(net.scratch.path(), "ours");
    let theirs = Authority::new(net.scratch.path(), "theirs");
    let switch = keys(&ours.issue("switch", EC, "2"));
    let owner = ours.issue("owner", RSA, "2");
    let stranger = theirs.issue("stranger", EC, "2");
    net.start(&format!("--openflow pssl:6653:127.0.0.1 {switch}"));
    let middle = net.middle.clone();
    let ask = |who: &IssuedCert, words: &str| -> Ended {
        let at = format!("--switch ssl:127.0.0.1:6653 --timeout 20s {}", keys(who));
        linerate_plainly(&middle, &net.in_folder(&format!("flow {at} {words}")))
    };
    let control = "--control %/control";
    fs::write(net.scratch.file("flows"), "arp,actions=flood\nip,actions=normal\n").expect("a file");
    for (words, said) in [
        ("add priority=3,tcp,actions=output:b 'actions=normal'".to_owned(), ""),
        ("dump".to_owned(), "tcp"),
        ("mod --strict priority=3,tcp,actions=output:a".to_owned(), ""),
        ("dump --plain".to_owned(), "priority=3,tcp actions=output:a"),
        ("del tcp".to_owned(), ""),
        ("replace %/flows".to_owned(), ""),
        ("dump --json".to_owned(), "\"match\":\"arp\""),
        ("groups --add group_id=1,type=all,bucket=output:a,bucket=output:b".to_owned(), ""),
        ("groups".to_owned(), "output:a"),
        ("meters --add meter=1,pktps,band=type=drop,rate=10".to_owned(), ""),
        ("meters".to_owned(), "10"),
        ("tables --all".to_owned(), "0"),
        ("ports".to_owned(), "a"),
        ("top --count 1".to_owned(), "arp"),
        ("monitor --duration 10ms".to_owned(), ""),
        (format!("trace in_port=a,arp {control}"), "arp"),
        (format!("cache {control}"), ""),
    ] {
        let ended = ask(&owner, &words);
        assert_eq!(ended.code, Some(0), "{words}: {ended:?}");
        assert!(ended.stdout.contains(said), "{words}: {ended:?}");
    }
    wait_for_ping(&net.hosts[0], "198.18.0.2");
    // A foreign authority's certificate does not count, on either side.
    let knows_us = IssuedCert { authority: owner.authority.clone(), ..stranger.clone() };
    let knows_them = IssuedCert { authority: stranger.authority.clone(), ..owner.clone() };
    ask(&knows_us, "dump").failed(1, &["refuses our certificate: UnknownCA"]);
    ask(&knows_us, "add actions=drop").failed(1, &["refuses our certificate: UnknownCA"]);
    ask(&knows_them, "dump").failed(1, &["invalid peer certificate: UnknownIssuer"]);
    let plain = linerate_plainly(&middle, "flow --switch tcp:127.0.0.1:6653 --timeout 2s dump");
    plain.failed(1, &["the switch"]);
    let no_keys = linerate_plainly(&middle, "flow --switch ssl:127.0.0.1:6653 dump");
    no_keys.failed(2, &["needs --private-key, --certificate and --ca-cert"]);
    assert!(!ask(&owner, "dump --plain").stdout.contains("drop"), "nobody else has added flows");
    net.stop();

    // The other way about: the switch comes to whom it may.
    net.start(&format!("--openflow ssl:127.0.0.1:6633 {switch}"));
    let at = format!("flow --switch pssl:6633:127.0.0.1 --timeout 30s {}", keys(&owner));
    let ended = linerate_plainly(&net.middle, &format!("{at} ports"));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    net.stop();
}

/// A command that prints for people, in a namespace.
#[track_caller]
fn linerate_plainly(namespace: &Namespace, line: &str) -> Ended {
    let all = [&[LINERATE][..], &words(line)].concat();
    Program::start_command(namespace, namespace.command(all), line).end()
}

/// Cables are pulled and plugged in again: controllers hear it, and ports that come or go change nothing.
#[test]
#[ignore = "needs root"]
fn links_of_ports_are_told_to_controllers() {
    for driver in DRIVERS {
        let mut net = Net::new(driver);
        net.start("--openflow punix:%/flows");
        net.flow("add actions=normal");
        wait_for_ping(&net.hosts[0], "198.18.0.2");
        let state = |port: &str| {
            let ports = net.objects("ports");
            let port = ports.iter().find(|other| other["name"] == port).expect("a port");
            port["state"].as_str().expect("a word").to_owned()
        };
        let up = state("a");
        assert_eq!(state("b"), up);
        let line = net.in_folder("flow --switch unix:%/flows monitor --json");
        let all = [&[LINERATE][..], &words(&line)].concat();
        let monitor = Program::start_command(&net.middle, net.middle.command(all), &line);
        // It hears of a flow that ends, so it hears of ports.
        let hears = || {
            net.flow("add priority=99,arp,send_flow_rem,actions=drop");
            net.flow("del --strict priority=99,arp");
            monitor.stdout().contains("flow-removed")
        };
        assert!(wait_until(hears, TIMEOUT), "{}", monitor.stderr());
        let told = || -> Vec<(String, bool)> {
            let text = monitor.stdout();
            let objects = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let of_ports = objects.filter(|object| object["event"] == "port-status");
            let name = |object: &Value| object["name"].as_str().expect("a name").to_owned();
            of_ports.map(|object| (name(&object), object["link"] == true)).collect()
        };
        let has = |events: &[(&str, bool)]| {
            let events: Vec<_> =
                events.iter().map(|(name, up)| ((*name).to_owned(), *up)).collect();
            let met = wait_until(|| told().len() >= events.len(), TIMEOUT);
            assert!(met, "{driver}: {:?}", told());
            assert_eq!(told(), events, "{driver}");
        };
        net.hosts[1].link_down("e0");
        has(&[("b", false)]);
        assert!(state("b") != up && state("a") == up, "{driver}: {}", net.flow("ports"));
        // Another port comes and goes: the state of the others stays, and no message says
        // otherwise.
        let ask = |words: &str| {
            let ended = linerate(&net.in_folder(&format!("switch {words} --control %/control")));
            assert_eq!(ended.code, Some(0), "{ended:?}");
        };
        ask("add c=tap:fs-c");
        has(&[("b", false), ("c", true)]);
        assert!(state("b") != up, "{driver}: it is down as before");
        ask("remove c");
        has(&[("b", false), ("c", true), ("c", true)]);
        assert!(state("b") != up, "{driver}: it is down as before");
        net.hosts[1].link_up("e0");
        has(&[("b", false), ("c", true), ("c", true), ("b", true)]);
        assert_eq!(state("b"), up, "{driver}");
        wait_for_ping(&net.hosts[0], "198.18.0.2");
        net.stop();
        drop(monitor);
    }
}

/// Two programs exchange numbered frames by flows, with ports on several workers, while other ports come
/// and go: nothing is lost or out of order, flows stay, and they count every frame.
#[test]
#[ignore = "needs root"]
fn ports_come_and_go_between_flows_and_nothing_is_lost() {
    for workers in [1, 3] {
        let switch = Switch::start(&format!(
            "--workers {workers} --openflow punix:%/flows a=memif:%/a b=memif:%/b"
        ));
        let socket = switch.file("flows");
        let flow = |words: &str| {
            let ended = linerate(&format!("flow --switch unix:{socket} {words}"));
            assert_eq!(ended.code, Some(0), "{words}: {ended:?}");
            ended.stdout
        };
        flow(
            "add in_port=a,actions=output:b in_port=b,actions=resubmit(,1) table=1,actions=output:a",
        );
        let [a, b] = ["a", "b"].map(|name| switch.file(name));
        let mut pair = Pair::new([Host::memif(1, &a), Host::memif(2, &b)]);
        let (ends, turns) = (AtomicBool::new(false), AtomicU64::new(0));
        thread::scope(|scope| {
            scope.spawn(|| {
                while !ends.load(Ordering::Relaxed) {
                    pair.exchange(100);
                    turns.fetch_add(1, Ordering::Relaxed);
                }
                pair.exchange(WINDOW as u64);
            });
            let _ends = StopOnDrop(&ends);
            for round in 0..20 {
                let before = turns.load(Ordering::Relaxed);
                switch.ask(&format!("add c={}", ["memif:%/c", "tap:fs-c"][round % 2]));
                flow(&format!("add priority={},in_port=c,actions=drop", 100 + round));
                let refused = linerate(&format!(
                    "switch add d=packet:nowhere --control {}",
                    switch.file("control")
                ));
                assert_ne!(refused.code, Some(0));
                switch.ask("remove c");
                let goes_on = || turns.load(Ordering::Relaxed) > before;
                assert!(
                    wait_until(goes_on, TIMEOUT),
                    "frames flow after change {round}: {}{}",
                    flow("ports"),
                    switch.ask("list")
                );
            }
        });
        let flows = flow("dump --json");
        assert_eq!(flows.lines().count(), 3 + 20, "{flows}");
        let ports = flow("ports --json");
        let ports = ports.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let ports: Vec<Value> = ports.collect();
        let count = |name: &str, key: &str| {
            let port = ports.iter().find(|port| port["name"] == name);
            number(port.unwrap_or_else(|| panic!("no {name} in {ports:?}")), key)
        };
        assert!(ports.len() == 2 || ports.iter().all(|port| port["name"] != "c"), "{ports:?}");
        for (from, to, came) in [("a", "b", pair.came[0]), ("b", "a", pair.came[1])] {
            assert_eq!(count(from, "received"), count(to, "sent"), "{ports:?}");
            assert!(count(from, "received") >= came, "{ports:?}");
        }
        drop(pair);
        // The number of a port that has gone is empty, and the others keep their numbers.
        switch.ask("remove a");
        let left = flow("ports --json");
        assert!(left.lines().count() == 1 && left.contains("\"port\":\"2\""), "{left}");
        switch.stop();
    }
}
