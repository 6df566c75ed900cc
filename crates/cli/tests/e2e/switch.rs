//! `linerate switch` between strangers: programs in shared memory, machines, interfaces.
//!
//! Two programs exchange numbered frames, a window of them at a time, so that losses and reordering
//! are known exactly and nothing depends on scheduling.

use std::{
    collections::VecDeque,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use linerate_client::Consumer;
use linerate_memory::{Arena, ArenaOptions, Frame, PoolCache};
use linerate_port::{Context, Direction, Receive, Transmit, open};
use linerate_test_support::{
    Lab, Namespace,
    testpmd::{Setup, Testpmd},
    wait_until,
};
use serde_json::Value;

use crate::support::{Program, Scratch, TIMEOUT, linerate, number};

/// Frames on their way at a time in each direction: fewer than wait in front of a port.
pub(crate) const WINDOW: usize = 100;
/// The type of the frames that are counted (IEEE Std 802, local experiments).
const TYPE: [u8; 2] = [0x88, 0xb5];

/// A running switch, with its control socket.
pub(crate) struct Switch {
    scratch: Scratch,
    program: Program,
    namespace: Namespace,
    _lab: Lab,
}

impl Switch {
    /// Starts a switch with these ports and options, in which `%` is its folder.
    #[track_caller]
    pub(crate) fn start(line: &str) -> Switch {
        let lab = Lab::new();
        let namespace = lab.namespace("switch");
        Switch::start_in(lab, namespace, line)
    }

    #[track_caller]
    pub(crate) fn start_in(lab: Lab, namespace: Namespace, line: &str) -> Switch {
        let scratch = Scratch::new();
        let folder = scratch.file("");
        let folder = folder.trim_end_matches('/');
        let line = format!("switch --no-huge --control %/control {line}").replace('%', folder);
        let program = Program::ready(&namespace, &line);
        Switch { scratch, program, namespace, _lab: lab }
    }

    pub(crate) fn file(&self, name: &str) -> String {
        self.scratch.file(name)
    }

    /// `linerate switch add`, or another; `%` is its folder.
    #[track_caller]
    pub(crate) fn ask(&self, words: &str) -> String {
        let control = self.file("control");
        let folder = self.file("");
        let words = words.replace('%', folder.trim_end_matches('/'));
        let ended = linerate(&format!("switch {words} --control {control}"));
        assert_eq!(ended.code, Some(0), "{words}: {ended:?}");
        ended.stdout
    }

    #[track_caller]
    fn ports(&self) -> Vec<Value> {
        let text = self.ask("list --json");
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[track_caller]
    pub(crate) fn figure(&self, port: &str, key: &str) -> u64 {
        let ports = self.ports();
        let port = ports.iter().find(|other| other["name"] == port);
        number(port.unwrap_or_else(|| panic!("no such port in {ports:?}")), key)
    }

    /// The ports that hosts are known at, by the last digits of their addresses.
    #[track_caller]
    fn hosts(&self) -> Vec<(String, String)> {
        let text = self.ask("show --json");
        let hosts = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        hosts.map(|host| (text(&host["mac"])[15..].to_owned(), text(&host["port"]))).collect()
    }

    /// Ends it: all packets are back, and only files of the test are left.
    #[track_caller]
    pub(crate) fn stop(self) -> Value {
        let summary = self.program.stop();
        assert_eq!(summary["buffers_held"], 0, "{summary}");
        let left: Vec<_> = std::fs::read_dir(self.scratch.path()).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
        summary
    }
}

/// A program at a port of the switch.
pub(crate) struct Host {
    number: u8,
    link: Link,
}

enum Link {
    Memif { receive: Box<dyn Receive>, transmit: Box<dyn Transmit>, pool: PoolCache, arena: Arena },
    Isolated(Box<Consumer>),
}

impl Host {
    /// A host that connects to a port in shared memory.
    pub(crate) fn memif(number: u8, socket: &str) -> Host {
        let options = ArenaOptions { size: 8 << 20, huge: false, ..Default::default() };
        let arena = options.create().unwrap();
        let context = Context::new(arena.clone()).toward(Direction::Both);
        let uri = format!("memif:{socket}?wait=20").parse().unwrap();
        let mut port = open(&uri, &context).unwrap();
        let queue = port.queues.remove(0);
        let (receive, transmit) = (queue.receive.unwrap(), queue.transmit.unwrap());
        Host { number, link: Link::Memif { receive, transmit, pool: arena.cache(64), arena } }
    }

    /// A program of a cluster.
    fn isolated(number: u8, socket: &str, name: &str) -> Host {
        let until = Instant::now() + TIMEOUT;
        loop {
            match Consumer::attach(socket, name) {
                Ok(consumer) => return Host { number, link: Link::Isolated(Box::new(consumer)) },
                Err(error) => assert!(Instant::now() < until, "{error}"),
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn mac(number: u8) -> [u8; 6] {
        if number == 0xff { [0xff; 6] } else { [2, 0, 0, 0, 0, number] }
    }

    /// Sends a frame with that in it; whether there was room.
    fn send(&mut self, to: u8, what: u64) -> bool {
        let mut bytes = [0; 60];
        bytes[..6].copy_from_slice(&Host::mac(to));
        bytes[6..12].copy_from_slice(&Host::mac(self.number));
        bytes[12..14].copy_from_slice(&TYPE);
        bytes[14..22].copy_from_slice(&what.to_le_bytes());
        self.send_bytes(&bytes)
    }

    fn send_bytes(&mut self, bytes: &[u8]) -> bool {
        match &mut self.link {
            Link::Memif { transmit, pool, arena, .. } => {
                let mut frame = Frame::new(1);
                assert_eq!(pool.take(&mut frame, 1, bytes.len()), 1, "a buffer");
                let slot = &mut frame.slots_mut()[0];
                arena.packet_mut(slot).unwrap().copy_from_slice(bytes);
                let sent = transmit.transmit(pool, &mut frame).unwrap() == 1;
                transmit.flush(pool).unwrap();
                pool.give(&mut frame);
                sent
            }
            Link::Isolated(consumer) => consumer.transmit(bytes).unwrap(),
        }
    }

    /// Takes the frames from a host, in order, and passes over others.
    fn receive(&mut self, from: u8, into: &mut VecDeque<u64>) {
        let (own, other) = (Host::mac(self.number), Host::mac(from));
        self.take(|bytes| {
            if bytes.len() >= 22 && bytes[..6] == own && bytes[6..12] == other {
                assert_eq!((bytes.len(), &bytes[12..14]), (60, &TYPE[..]), "it is as it was sent");
                into.push_back(u64::from_le_bytes(*bytes[14..22].first_chunk().unwrap()));
            }
        });
    }

    /// Counts of frames between two other hosts, and of the rest.
    fn overheard(&mut self, others: [u8; 2]) -> (usize, usize) {
        let others = others.map(Host::mac);
        let is_of = |mac: &[u8]| others.iter().any(|other| other == mac);
        let (mut theirs, mut rest) = (0, 0);
        loop {
            let before = theirs + rest;
            self.take(|bytes| {
                let is_theirs = is_of(&bytes[..6]) && is_of(&bytes[6..12]);
                *(if is_theirs { &mut theirs } else { &mut rest }) += 1;
            });
            if theirs + rest == before {
                return (theirs, rest);
            }
        }
    }

    fn take(&mut self, mut look: impl FnMut(&[u8])) {
        match &mut self.link {
            Link::Memif { receive, pool, arena, .. } => {
                let mut frame = Frame::new(256);
                receive.receive(pool, &mut frame).unwrap();
                frame.slots().iter().for_each(|slot| look(arena.packet(slot)));
                pool.give(&mut frame);
            }
            Link::Isolated(consumer) => {
                consumer.receive().unwrap();
                consumer.packets().for_each(&mut look);
            }
        }
    }
}

/// Waits until something comes from one to the other.
pub(crate) fn meet(one: &mut Host, other: &mut Host) {
    let (mut came, until) = (VecDeque::new(), Instant::now() + TIMEOUT);
    while came.is_empty() {
        one.send(other.number, u64::MAX);
        thread::sleep(Duration::from_millis(2));
        other.receive(one.number, &mut came);
        assert!(Instant::now() < until, "nothing comes from one to the other");
    }
}

/// Two hosts that send each other numbered frames.
pub(crate) struct Pair {
    hosts: [Host; 2],
    sent: [u64; 2],
    pub(crate) came: [u64; 2],
}

impl Pair {
    pub(crate) fn new(mut hosts: [Host; 2]) -> Pair {
        // Both are known from then on.
        let [a, b] = &mut hosts;
        meet(a, b);
        meet(b, a);
        let mut pair = Pair { hosts, sent: [0; 2], came: [0; 2] };
        pair.drain();
        pair
    }

    /// Takes the frames that are left of the first exchange.
    fn drain(&mut self) {
        let mut rest = VecDeque::new();
        let (mut quiet, until) = (0, Instant::now() + TIMEOUT);
        while quiet < 20 {
            let before = rest.len();
            let [a, b] = &mut self.hosts;
            a.receive(b.number, &mut rest);
            b.receive(a.number, &mut rest);
            quiet = if rest.len() == before { quiet + 1 } else { 0 };
            assert!(Instant::now() < until);
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Sends as many as may be on their way, and takes the arrived ones, which must be all there
    /// are, once and in order.
    #[track_caller]
    fn turn(&mut self) {
        for from in [0, 1] {
            let to = self.hosts[1 - from].number;
            while self.sent[from] - self.came[from] < WINDOW as u64
                && self.hosts[from].send(to, self.sent[from])
            {
                self.sent[from] += 1;
            }
        }
        for from in [0, 1] {
            let mut came = VecDeque::new();
            let number = self.hosts[from].number;
            self.hosts[1 - from].receive(number, &mut came);
            for what in came {
                assert_eq!(what, self.came[from], "lost, or out of order, from host {number}");
                self.came[from] += 1;
            }
        }
    }

    /// Goes on until each got so many more.
    #[track_caller]
    pub(crate) fn exchange(&mut self, frames: u64) {
        let goal = self.came.map(|came| came + frames);
        let until = Instant::now() + TIMEOUT;
        while self.came[0] < goal[0] || self.came[1] < goal[1] {
            self.turn();
            assert!(
                Instant::now() < until,
                "frames are missing: {:?} of {:?}",
                self.came,
                self.sent
            );
        }
    }
}

/// Ports of all kinds come and go a hundred times while two programs exchange frames: none of these
/// is lost, out of order, or goes to a third one, because the hosts' ports stay known; and hosts
/// behind a port that went are forgotten.
#[test]
#[ignore = "needs root"]
fn ports_come_and_go_without_loss_at_others() {
    let mut switch =
        Switch::start("--socket %/socket a=memif:%/a b=consumer: bystander=memif:%/bystander");
    let a = Host::memif(1, &switch.file("a"));
    let b = Host::isolated(2, &switch.file("socket"), "b");
    let mut pair = Pair::new([a, b]);
    let flooded = switch.figure("bystander", "absent");
    assert!(flooded > 0, "frames for who is not known go everywhere");
    let mut bystander = Host::memif(9, &switch.file("bystander"));
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
        let kinds = ["memif:%/c", "vhost:%/c", "tap:sw-c", "consumer:"];
        for round in 0..100 {
            let before = turns.load(Ordering::Relaxed);
            switch.ask(&format!("add c={}", kinds[round % kinds.len()]));
            if round % 20 == 0 {
                let mut guest = Host::memif(3, &switch.file("c"));
                let known = || {
                    guest.send(0xff, 0);
                    switch.hosts().contains(&("03".into(), "c".into()))
                };
                assert!(wait_until(known, TIMEOUT), "the third host is not learnt");
            }
            switch.ask("remove c");
            let hosts = switch.hosts();
            let expected = [("01".into(), "a".into()), ("02".into(), "b".into())];
            assert_eq!(hosts, expected, "after {round} rounds");
            let goes_on = || turns.load(Ordering::Relaxed) > before;
            assert!(wait_until(goes_on, TIMEOUT), "frames flow between two changes");
        }
    });
    // But those that the third host broadcast.
    let (theirs, others) = bystander.overheard([1, 2]);
    assert!(theirs == 0 && others > 0, "{theirs} frames of theirs have come, and {others} others");
    let third = switch.ports().iter().map(|port| port["name"].clone()).collect::<Vec<_>>();
    assert_eq!(third, ["a", "b", "bystander"]);
    let of_third = linerate(&format!("call {} learning.moves", switch.file("control")));
    assert_eq!(of_third.stdout.trim(), "0", "nobody has moved");
    println!("{} frames each way; {others} of others went everywhere", pair.came[0]);
    assert_eq!(switch.figure("a", "full") + switch.figure("b", "full"), 0);
    switch.program.wait_for("port c is gone");
    drop((pair, bystander));
    switch.stop();
}

/// Where a port has gone, the packets of those that are left wait apart as before, and losses stay
/// counted.
#[test]
#[ignore = "needs root"]
fn packets_wait_apart_where_a_port_has_gone() {
    let switch = Switch::start("a=memif:%/a b=memif:%/b sleeps=memif:%/sleeps d=memif:%/d");
    let read = |handler: &str| {
        let ended = linerate(&format!("call {} {handler}", switch.file("control")));
        assert_eq!(ended.code, Some(0), "{handler}: {ended:?}");
        ended.stdout.trim().to_owned()
    };
    let sleeps = Host::memif(3, &switch.file("sleeps"));
    let mut d = Host::memif(4, &switch.file("d"));
    // More than it has room for.
    let fills = || {
        for _ in 0..1000 {
            d.send(3, 0);
        }
        read("sleeps_from3.drops").parse::<u64>().unwrap() > 0
    };
    assert!(wait_until(fills, TIMEOUT), "{:?}", switch.ports());
    switch.ask("remove b");
    assert_eq!((read("a_enters.color"), read("d_enters.color")), ("0".into(), "3".into()));
    let mut pair = Pair::new([Host::memif(1, &switch.file("a")), d]);
    pair.exchange(1000);
    let lost = || (read("sleeps_from3.drops"), switch.figure("sleeps", "full"));
    let before = lost();
    switch.ask("remove d");
    assert_eq!(lost(), before, "{:?}", switch.ports());
    drop((pair, sleeps));
    switch.stop();
}

/// Raised when a test ends, however.
pub(crate) struct StopOnDrop<'a>(pub(crate) &'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A program that ends is forgotten as a host behind a cable is, and one that comes by its name is
/// learnt anew.
#[test]
#[ignore = "needs root"]
fn hosts_behind_a_program_that_dies_are_forgotten() {
    let switch = Switch::start("--socket %/socket a=memif:%/a b=consumer: c=consumer:");
    let socket = switch.file("socket");
    let mut a = Host::memif(1, &switch.file("a"));
    let mut c = Host::isolated(3, &socket, "c");
    for round in 0..3 {
        let mut b = Host::isolated(2, &socket, "b");
        meet(&mut b, &mut a);
        meet(&mut a, &mut c);
        meet(&mut c, &mut a);
        let known = switch.hosts();
        assert!(known.contains(&("02".into(), "b".into())), "{round}: {known:?}");
        drop(b);
        let forgotten = || !switch.hosts().iter().any(|(mac, _)| mac == "02");
        assert!(wait_until(forgotten, TIMEOUT), "{round}: {:?}", switch.hosts());
        let left = switch.hosts();
        assert!(left.contains(&("01".into(), "a".into())), "{left:?}");
        assert!(left.contains(&("03".into(), "c".into())), "others are not: {left:?}");
    }
    drop((a, c));
    switch.stop();
}

/// Pairs of programs whose ports are on several workers, while other ports come and go.
#[test]
#[ignore = "needs root"]
fn several_workers_lose_nothing_between_them() {
    let switch = Switch::start(
        "--workers 3 --socket %/socket a=memif:%/a b=consumer: c=memif:%/c d=memif:%/d e=consumer:",
    );
    let socket = switch.file("socket");
    let one = Pair::new([Host::memif(1, &switch.file("a")), Host::isolated(2, &socket, "b")]);
    let two = Pair::new([Host::memif(3, &switch.file("c")), Host::memif(4, &switch.file("d"))]);
    let (ends, turns) = (AtomicBool::new(false), AtomicU64::new(0));
    let pairs = thread::scope(|scope| {
        let threads = [one, two].map(|mut pair| {
            let (ends, turns) = (&ends, &turns);
            scope.spawn(move || {
                while !ends.load(Ordering::Relaxed) {
                    pair.exchange(100);
                    turns.fetch_add(1, Ordering::Relaxed);
                }
                pair.exchange(WINDOW as u64);
                pair
            })
        });
        let _ends = StopOnDrop(&ends);
        for round in 0..20 {
            let before = turns.load(Ordering::Relaxed);
            switch.ask(&format!("add f={}", ["memif:%/f", "consumer:"][round % 2]));
            switch.ask("remove f");
            let goes_on = || turns.load(Ordering::Relaxed) > before;
            assert!(wait_until(goes_on, TIMEOUT), "frames flow between two changes");
        }
        drop(_ends);
        threads.map(|thread| thread.join().unwrap())
    });
    println!("{:?} frames each way", pairs.each_ref().map(|pair| pair.came[0]));
    let full: u64 = ["a", "b", "c", "d"].iter().map(|port| switch.figure(port, "full")).sum();
    assert_eq!(full, 0, "{:?}", switch.ports());
    drop(pairs);
    switch.stop();
}

/// This machine's stack, another behind a cable, and programs, in two VLANs of which nothing gets into
/// the other, and a trunk of both.
#[test]
#[ignore = "needs root"]
fn vlans_are_networks_of_their_own() {
    let lab = Lab::new();
    let middle = lab.namespace("switch");
    let far = crate::hosts::host(&lab, &middle, "far", "cable", "198.18.0.2/24");
    let switch = Switch::start_in(
        lab,
        middle,
        "--socket %/socket host=tap:sw0?addr=198.18.0.1/24 up=packet:cable c=memif:%/c d=consumer: \
         e=memif:%/e all=memif:%/all other=tap:sw1?addr=198.18.1.1/24 --vlan 'host=access 10' \
         --vlan 'up=access 10' --vlan 'c=access 20' --vlan 'd=access 20' --vlan 'e=access 10' \
         --vlan 'all=trunk all' --vlan 'other=access 20'",
    );
    let here = &switch.namespace;
    let mut all = Host::memif(7, &switch.file("all"));
    crate::hosts::wait_for_ping(here, "198.18.0.2");
    far.ip(["addr", "add", "198.18.1.2/24", "dev", "e0"]);
    let other = here.run(["ping", "-c", "2", "-i", "0.2", "-W", "1", "-I", "sw1", "198.18.1.2"]);
    assert!(!other.status.success(), "the cable is not in VLAN 20");
    // Both have broadcast, by ARP: with tags on the trunk.
    let (mut asked, arp) = (Vec::new(), [0x08, 0x06]);
    let came = || {
        all.take(|bytes| asked.push(bytes.to_vec()));
        [10, 20].iter().all(|vlan| {
            let tag = [0x81, 0, 0, *vlan, arp[0], arp[1]];
            asked.iter().any(|bytes| bytes[..6] == [0xff; 6] && bytes[12..18] == tag)
        })
    };
    assert!(wait_until(came, TIMEOUT), "{asked:02x?}");
    assert!(asked.iter().all(|bytes| bytes[12..14] == [0x81, 0]), "{asked:02x?}");

    let mut in_ten = Host::memif(9, &switch.file("e"));
    let hosts = [Host::memif(3, &switch.file("c")), Host::isolated(4, &switch.file("socket"), "d")];
    let mut pair = Pair::new(hosts);
    pair.exchange(1000);
    // A broadcast goes to those of the VLAN, with a tag where there are tags.
    assert!(pair.hosts[0].send(0xff, 5));
    let mut tagged = Vec::new();
    let came = || {
        all.take(|bytes| tagged.push(bytes.to_vec()));
        tagged.iter().any(|bytes| bytes[..6] == [0xff; 6] && bytes[6..12] == Host::mac(3))
    };
    assert!(wait_until(came, TIMEOUT), "{tagged:02x?}");
    let theirs = tagged.iter().filter(|bytes| bytes[6..12] == Host::mac(3));
    for bytes in theirs {
        assert_eq!(bytes[12..18], [0x81, 0, 0, 20, TYPE[0], TYPE[1]], "{bytes:02x?}");
    }
    // By tags the trunk's host is in both.
    for (vlan, to) in [(20, 3), (10, 9)] {
        let mut bytes = [0; 64];
        bytes[..6].copy_from_slice(&Host::mac(to));
        bytes[6..12].copy_from_slice(&Host::mac(7));
        bytes[12..16].copy_from_slice(&[0x81, 0, 0, vlan]);
        bytes[16..18].copy_from_slice(&TYPE);
        bytes[18..26].copy_from_slice(&77_u64.to_le_bytes());
        assert!(all.send_bytes(&bytes));
        let host = if to == 9 { &mut in_ten } else { &mut pair.hosts[0] };
        let mut found = VecDeque::new();
        let came = || {
            host.receive(7, &mut found);
            !found.is_empty()
        };
        assert!(wait_until(came, TIMEOUT), "nothing comes by VLAN {vlan}");
        assert_eq!(found, [77], "without its tag");
    }
    assert_eq!(in_ten.overheard([3, 4]).0, 0, "another VLAN's");
    let known = switch.ask("show --json");
    let places: Vec<(u64, Value)> = known
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|host| host["port"] == "all")
        .map(|host| (number(&host, "vlan"), host["mac"].clone()))
        .collect();
    assert_eq!(places.len(), 2, "once in each: {known}");
    drop((pair, in_ten, all));
    switch.stop();
}

/// Bytes for malicious peers, another series for each turn.
fn noise(turn: u64) -> Vec<u8> {
    let mut state = turn.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..1500).map(|_| next()).collect()
}

/// One program does not read, one floods all and one of them, and three write garbage into all that
/// they share with the switch: two others, in the midst of it, lose nothing, get nothing twice and
/// all in order. The flood loses its own frames.
#[test]
#[ignore = "needs root"]
fn programs_that_do_not_read_flood_or_write_garbage_harm_no_other() {
    let abstract_name = |name: &str| format!("@linerate-e2e-{}-{name}", std::process::id());
    let [foul_memif, foul_vhost, socket] = ["memif", "vhost", "socket"].map(abstract_name);
    let switch = Switch::start(&format!(
        "--socket {socket} a=memif:%/a b=consumer: sleeps=memif:%/sleeps floods=memif:%/floods \
         drowns=memif:%/drowns garbage=memif:{foul_memif} wrong=vhost:{foul_vhost} nonsense=consumer:"
    ));
    let a = Host::memif(1, &switch.file("a"));
    // Names without a file are of a namespace.
    let inside = &switch.namespace;
    let b = inside.enter(|| Host::isolated(2, &socket, "b"));
    let mut sleeps = Host::memif(4, &switch.file("sleeps"));
    let mut drowns = Host::memif(5, &switch.file("drowns"));
    let mut pair = Pair::new([a, b]);
    for host in [&mut sleeps, &mut drowns] {
        assert!(host.send(0xff, 0));
    }
    assert!(wait_until(|| switch.hosts().len() == 4, TIMEOUT), "{:?}", switch.hosts());

    let flood = |arguments: &str| {
        let port = switch.file("floods");
        let line = format!("generate memif:{port}?wait=20 --src-mac 02:00:00:00:00:06 {arguments}");
        Program::ready(&switch.namespace, &line)
    };
    let ends = AtomicBool::new(false);
    let rounds = thread::scope(|scope| {
        let attacker = [
            scope.spawn(|| {
                inside.enter(|| {
                    until(&ends, |turn| {
                        let bytes = noise(3 * turn);
                        let role = linerate_test_support::memif::Role::Client;
                        let mut attacker = linerate_test_support::memif::MaliciousPeer::new(
                            role,
                            &foul_memif,
                            &bytes,
                        );
                        while attacker.step() && !ends.load(Ordering::Relaxed) {}
                    })
                })
            }),
            scope.spawn(|| {
                inside.enter(|| {
                    until(&ends, |turn| {
                        let bytes = noise(3 * turn + 1);
                        let mut attacker =
                            linerate_test_support::vhost::MaliciousPeer::new(&foul_vhost, &bytes);
                        while attacker.step() && !ends.load(Ordering::Relaxed) {}
                    })
                })
            }),
            scope.spawn(|| {
                inside.enter(|| {
                    until(&ends, |turn| {
                        let bytes = noise(3 * turn + 2);
                        let names = ["nonsense"];
                        let mut attacker = linerate_test_support::cluster::MaliciousPeer::new(
                            &socket, &names, &bytes,
                        );
                        while attacker.step() && !ends.load(Ordering::Relaxed) {}
                    })
                })
            }),
        ];
        let _ends = StopOnDrop(&ends);
        // To all, to one that does not read, to one of the two that talk.
        for to in ["ff:ff:ff:ff:ff:ff", "02:00:00:00:00:04", "02:00:00:00:00:02"] {
            let flooding = flood(&format!("--dst-mac {to}"));
            pair.exchange(3_000);
            flooding.stop();
        }
        drop(_ends);
        attacker.map(|thread| thread.join().unwrap())
    });
    println!("those who play foul have begun {rounds:?} times");
    assert!(rounds.iter().all(|rounds| *rounds > 0));
    let figure = |port: &str, key: &str| switch.figure(port, key);
    assert!(figure("sleeps", "full") > 1000, "who does not read loses what is for it");
    assert!(figure("drowns", "full") > 0, "{:?}", switch.ports());
    assert!(figure("nonsense", "refused") > 0, "{:?}", switch.ports());
    // The sleeper, which is still there, finds the first frames.
    let mut found = VecDeque::new();
    sleeps.receive(6, &mut found);
    drop((pair, sleeps, drowns));
    switch.stop();
}

/// Does something again and again until the end; returns how often.
fn until(ends: &AtomicBool, mut once: impl FnMut(u64)) -> u64 {
    let mut turn = 0;
    while !ends.load(Ordering::Relaxed) {
        once(turn);
        turn += 1;
    }
    turn
}

/// A static address of one port cannot be taken by others; without one, a port that claims an
/// address gets the frames to it, as on every switch.
#[test]
#[ignore = "needs root"]
fn a_forged_source_address_gets_no_frames() {
    let switch =
        Switch::start("--vlans a=memif:%/a b=memif:%/b c=memif:%/c --mac a=02:00:00:00:00:01");
    let mut pair =
        Pair::new([Host::memif(1, &switch.file("a")), Host::memif(2, &switch.file("b"))]);
    let mut forger = Host::memif(1, &switch.file("c"));
    for what in 0..50 {
        assert!(forger.send(2, what));
    }
    assert!(wait_until(|| switch.figure("c", "forged") == 50, TIMEOUT), "{:?}", switch.ports());
    pair.exchange(200);
    // Nor can its owner say to be another.
    pair.hosts[0].number = 7;
    assert!(pair.hosts[0].send(2, 0));
    assert!(wait_until(|| switch.figure("a", "forged") == 1, TIMEOUT), "{:?}", switch.ports());
    let hosts: Vec<String> = switch.hosts().into_iter().map(|(_, port)| port).collect();
    assert_eq!(hosts, ["a", "b"]);
    drop((pair, forger));
    switch.stop();
}

/// Peers of other projects: this machine's stack behind a TAP interface and behind a cable, DPDK's
/// testpmd as a client in shared memory and as a driver, and iperf3 through all of it.
#[test]
#[ignore = "needs root"]
fn a_kernel_a_cable_and_testpmd_reach_each_other() {
    let lab = Lab::new();
    let middle = lab.namespace("switch");
    let far = crate::hosts::host(&lab, &middle, "far", "cable", "198.18.0.2/24");
    let switch = Switch::start_in(
        lab,
        middle,
        "--socket %/socket tap=tap:sw0?addr=198.18.0.1/24 up=packet:cable",
    );
    let here = &switch.namespace;
    crate::hosts::wait_for_ping(here, "198.18.0.2");
    let _server = far.spawn(["iperf3", "--server", "--one-off"]);
    let connects = || {
        let ran = here.run(["iperf3", "--client", "198.18.0.2", "--bytes", "4M", "--json"]);
        ran.status.success()
    };
    assert!(wait_until(connects, TIMEOUT), "no connection through the switch");

    for (name, port, device) in [
        (
            "client",
            "memif:%/m",
            "net_memif0,role=client,id=0,socket=%/m,socket-abstract=no,mac=02:00:00:00:00:0c",
        ),
        ("guest", "vhost:%/v", "net_virtio_user0,path=%/v,mac=02:00:00:00:00:0c"),
    ] {
        switch.ask(&format!("add {name}={port}"));
        let folder = switch.file("");
        let device = device.replace('%', folder.trim_end_matches('/'));
        let testpmd = Testpmd::start(&Setup {
            name: "linerate-e2e",
            device: &device,
            megabytes: "96",
            arguments: &["--total-num-mbufs=8192"],
            queues: 1,
            engine: "icmpecho",
        });
        // It would answer to every address: it is asked about none.
        far.ip(["neigh", "replace", "198.18.0.9", "lladdr", "02:00:00:00:00:0c", "dev", "e0"]);
        let answers = || far.run(["ping", "-c", "1", "-W", "1", "198.18.0.9"]).status.success();
        assert!(wait_until(answers, TIMEOUT), "testpmd does not answer as {name}");
        far.expect(["ping", "-c", "20", "-i", "0.01", "-W", "5", "198.18.0.9"]);
        assert!(switch.hosts().contains(&("0c".into(), name.into())), "{:?}", switch.hosts());
        drop(testpmd);
        let forgotten = || !switch.hosts().iter().any(|(mac, _)| mac == "0c");
        assert!(wait_until(forgotten, TIMEOUT), "who has gone is remembered");
        switch.ask(&format!("remove {name}"));
    }
    crate::hosts::wait_for_ping(here, "198.18.0.2");
    // testpmd leaves the socket that it listened at, none of which is ours.
    switch.stop();
}

/// Impossible requests are refused, with advice, and change nothing.
#[test]
#[ignore = "needs root"]
fn impossible_requests_change_nothing() {
    let switch = Switch::start("a=memif:%/a");
    let control = switch.file("control");
    let at = |words: &str| linerate(&format!("switch {words} --control {control}"));
    for (words, code, parts) in [
        ("add a=tap:other", 2, ["there is a port a already"]),
        ("add b=tap:no/name", 2, ["an interface name is 1 to 15"]),
        ("add b=consumer:", 2, ["start the switch with --socket"]),
        ("add b=tap:sw1 --vlan access-10", 2, ["start it with --vlans"]),
        ("add b=packet:nowhere", 4, ["nowhere"]),
        ("remove b", 2, ["no port is called b; there are: a"]),
        ("show b", 2, ["no port is called b; there are: a"]),
    ] {
        at(words).failed(code, &parts);
    }
    // The errors are equal on the line that starts one.
    for (port, part) in [
        ("b=tap:no/name", "an interface name is 1 to 15"),
        ("b=nodriver:x", "there is no driver \"nodriver\""),
    ] {
        let ended = linerate(&format!("switch {port} --control {control}-b"));
        ended.failed(2, &[part]);
        assert!(
            !ended.stderr.contains("FromPort"),
            "nobody has written a configuration: {ended:?}"
        );
    }
    let other = linerate(&format!("switch b=memif:{} --control {control}", switch.file("b")));
    other.failed(7, &["control"]);
    linerate("switch list --control /nowhere/control")
        .failed(5, &["start one by `linerate switch`"]);
    let names: Vec<_> = switch.ports().into_iter().map(|port| port["name"].clone()).collect();
    assert_eq!(names, ["a"]);
    switch.stop();
}
