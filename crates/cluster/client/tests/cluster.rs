//! Consumers of a cluster, in this process and in others.
#![allow(missing_docs, reason = "a test program")]

mod hostile;
mod inline;
mod isolated;
mod killed;
mod limits;
mod recording;

use std::{
    env, fs,
    io::{BufRead, BufReader, Read},
    os::{fd::OwnedFd, unix::fs::FileExt},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use linerate_client::{Access, ClientError, Connection, Consumer, Reason, Verdict};
use linerate_cluster::{
    BalancerHandle, Broker, ConsumerHandle, DropCounts, Granted, InlineConfig, InlineHandle,
    transport::{self, Received},
    wire::{Reply, Request, SIZE},
};
use linerate_memory::{Arena, ArenaOptions, Frame, PoolCache};
use linerate_port::{
    pcap::Reader,
    peer::{address::Address, listen},
};
use linerate_test_support::{await_waiting, is_by_itself, programs::require, thread_number};
use rustix::{
    net::{SendFlags, SocketType},
    process::{Pid, Signal, kill_process},
};

const ROLE: &str = "LINERATE_TEST_CONSUMER";
const READ: Granted = Granted { access: Access::Read, cells: 128 };
const WRITE: Granted = Granted { access: Access::Write, cells: 128 };
const ISOLATED: Granted = Granted { access: Access::Isolated, cells: 128 };
/// Flows that packets are of.
const FLOWS: u64 = 64;

/// A name for a socket that no other test has.
fn address() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("@linerate-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A server as a graph would be one.
struct Server {
    arena: Arena,
    pool: PoolCache,
    broker: Arc<Broker>,
    address: String,
    balancers: Vec<BalancerHandle>,
    absent: Frame,
    /// Packets made so far of each flow.
    made: Vec<u64>,
    next: u64,
}

impl Server {
    fn new() -> Server {
        let options = ArenaOptions { size: 4 << 20, huge: false, ..ArenaOptions::default() };
        let arena = options.create().unwrap();
        let address = address();
        let broker = Broker::open(&address, &arena).unwrap();
        Server {
            pool: arena.cache(32),
            arena,
            broker,
            address,
            balancers: Vec::new(),
            absent: Frame::new(32),
            made: vec![0; FLOWS as usize],
            next: 0,
        }
    }

    /// Another balancer of consumers of equal weight.
    fn add(&mut self, name: &str, consumers: &[&str], granted: Granted) {
        let consumers: Vec<_> = consumers.iter().map(|name| (name.to_string(), 1)).collect();
        self.balancers
            .push(BalancerHandle::new(&self.broker, name, &consumers, granted, true).unwrap());
    }

    /// Shares out packets that hold their flow and their number in it; returns how many no consumer
    /// got.
    fn share_out(&mut self, count: usize) -> usize {
        let mut frame = self.packets(count);
        let ids: Vec<usize> = self.balancers.iter().map(BalancerHandle::balancer).collect();
        self.share(&ids, &mut frame)
    }

    /// Makes such packets, 32 at most.
    fn packets(&mut self, count: usize) -> Frame {
        let mut frame = Frame::new(32);
        for _ in 0..count.min(32) {
            let Some(mut slot) = self.pool.take_one(60 + (self.next % 1000) as usize) else {
                break;
            };
            let flow = self.next % FLOWS;
            self.next += 1;
            let number = self.made[flow as usize];
            self.made[flow as usize] += 1;
            let bytes = self.arena.packet_mut(&mut slot).unwrap();
            bytes.fill(number as u8);
            bytes[..8].copy_from_slice(&flow.to_ne_bytes());
            bytes[8..16].copy_from_slice(&number.to_ne_bytes());
            frame.push(slot).unwrap();
        }
        frame
    }

    /// Shares out packets among the consumers of balancers; returns how many no consumer got.
    fn share(&mut self, ids: &[usize], frame: &mut Frame) -> usize {
        let flow = |packet: &[u8]| u64::from_ne_bytes(packet[..8].try_into().unwrap());
        let packets = self.arena.packets(frame);
        let hashes: Vec<u64> =
            packets.map(|packet| flow(packet).wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        let (pool, absent) = (&mut self.pool, &mut self.absent);
        self.broker.dispatcher().share_out(ids, &hashes, false, pool, frame, absent);
        let nobody = frame.len() + absent.len();
        pool.give(frame);
        pool.give(absent);
        nobody
    }

    /// Takes the packets that consumers have returned, and nothing else.
    fn take_back(&mut self) {
        let ids: Vec<usize> = self.balancers.iter().map(BalancerHandle::balancer).collect();
        let (pool, absent) = (&mut self.pool, &mut self.absent);
        self.broker.dispatcher().share_out(&ids, &[], false, pool, &mut Frame::new(1), absent);
    }

    fn wait_for(&self, what: &str, mut holds: impl FnMut(&Server) -> bool) {
        let until = Instant::now() + Duration::from_secs(20);
        while !holds(self) {
            assert!(Instant::now() < until, "{what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Ends it, and finds no buffer lost.
    fn finish(self) {
        let Server { arena, pool, broker, balancers, absent, .. } = self;
        drop((balancers, pool, absent, broker));
        assert_eq!(arena.accounting().held, 0, "buffers are lost");
    }
}

/// Checks that a packet is whole; returns its flow and number.
fn check(packet: &[u8]) -> (u64, u64) {
    let word = |at: usize| u64::from_ne_bytes(packet[at..at + 8].try_into().unwrap());
    let (flow, number) = (word(0), word(8));
    assert!(packet[16..].iter().all(|byte| *byte == number as u8), "{packet:?}");
    (flow, number)
}

#[test]
fn packets_come_and_go_without_a_copy() {
    let mut server = Server::new();
    server.add("b", &["one"], WRITE);
    let from = ConsumerHandle::to_receive(&server.broker, "one", Access::Write, 4).unwrap();
    assert_eq!(server.share_out(3), 3, "nobody is attached");
    let mut consumer = Consumer::attach(&server.address, "one").unwrap();
    assert_eq!(consumer.access(), Access::Write);
    assert!(!consumer.wait(Some(Duration::ZERO)).unwrap());
    assert_eq!(server.share_out(5), 0);
    assert!(consumer.wait(None).unwrap());
    assert_eq!(consumer.receive().unwrap(), 5);
    assert!(consumer.packets().map(check).all(|(_, number)| number == 0));
    // The first is changed and goes on with the last, the others are given back.
    consumer.packet_mut(0).unwrap()[16..].fill(9);
    let mut at = 0;
    let sent = consumer.send(|_| {
        at += 1;
        at == 1 || at == 5
    });
    assert_eq!(sent.unwrap(), 2);
    // Four of its own, for which buffers are replaced when they have come.
    for number in 0..4 {
        assert!(consumer.transmit(&[number; 77]).unwrap(), "{number}");
    }
    assert!(!consumer.transmit(&[0; 77]).unwrap() && !consumer.transmit(&[0; 5000]).unwrap());
    let mut frame = Frame::new(32);
    let mut dispatcher = server.broker.dispatcher();
    assert_eq!(dispatcher.receive(from.endpoint(), &mut server.pool, &mut frame), 6);
    drop(dispatcher);
    let got: Vec<&[u8]> = server.arena.packets(&frame).collect();
    assert!(got[0][16..].iter().all(|byte| *byte == 9));
    assert_eq!(got[2..], [[0; 77], [1; 77], [2; 77], [3; 77]]);
    server.pool.give(&mut frame);
    assert!(consumer.transmit(&[7; 77]).unwrap());
    let figures = consumer.figures();
    assert_eq!((figures.packets, figures.lost_absent, figures.sent), (5, 3, 6));
    assert_eq!((figures.attached, figures.malformed, consumer.malformed()), (1, 0, 0));
    drop(consumer);
    server.wait_for("it has gone", |_| from.figures().state == 0);
    drop(from);
    server.finish();
}

#[test]
fn a_grant_is_the_least_of_all_elements() {
    let server = Server::new();
    let to = |name: &str, granted| ConsumerHandle::to_send(&server.broker, name, granted).unwrap();
    let attach = |name: &str| Consumer::attach(&server.address, name).unwrap();
    // One that only sends.
    let from = ConsumerHandle::to_receive(&server.broker, "sends", Access::Isolated, 2).unwrap();
    let wants_more = Consumer::attach_for(&server.address, "sends", Some(Access::Write));
    assert!(matches!(wants_more, Err(ClientError::Refused { reason: Reason::NotGranted, .. })));
    let mut sends = attach("sends");
    assert_eq!(sends.access(), Access::Isolated);
    assert!(sends.transmit(&[1; 60]).unwrap());
    // Elements in either order.
    let _both = [to("a", ISOLATED), to("a", WRITE), to("b", READ), to("b", ISOLATED)];
    let [a, b] = ["a", "b"].map(attach);
    assert_eq!((a.access(), b.access()), (Access::Isolated, Access::Isolated));
    // A configuration that follows another.
    for (name, granted) in [("reads", READ), ("writes", WRITE)] {
        let before = to(name, granted);
        let mut consumer = attach(name);
        assert_eq!(consumer.access(), granted.access);
        let next = to(name, ISOLATED);
        let ended = consumer.wait(None);
        assert!(matches!(ended, Err(ClientError::Ended(Reason::NotGranted))), "{ended:?}");
        drop((consumer, before));
        server.wait_for("it has gone", |_| next.figures().state == 0);
        let mut consumer = attach(name);
        assert_eq!(consumer.access(), Access::Isolated);
        // A consumer with less than it may have goes on.
        let last = to(name, granted);
        drop(next);
        assert!(!consumer.wait(Some(Duration::from_millis(50))).unwrap());
        drop((consumer, last));
    }
    drop((sends, a, b, from, _both));
    server.finish();
}

#[test]
fn packets_for_absent_consumers_are_counted_once_while_they_wait() {
    let mut server = Server::new();
    server.add("here", &["slow"], Granted { cells: 8, ..READ });
    server.add("gone", &["nobody"], READ);
    let mut slow = Consumer::attach(&server.address, "slow").unwrap();
    let ids: Vec<usize> = server.balancers.iter().map(BalancerHandle::balancer).collect();
    let mut frame = server.packets(32);
    for gone in [8, 16, 24, 32] {
        for _ in 0..3 {
            let (pool, absent) = (&mut server.pool, &mut server.absent);
            server.broker.dispatcher().share_out(&ids, &[0; 32], true, pool, &mut frame, absent);
            let figures = server.balancers[1].endpoints()[0].figures();
            assert_eq!((frame.len(), figures.lost_absent), (32 - gone, gone as u64));
        }
        assert_eq!(slow.receive().unwrap(), 8);
        assert_eq!(slow.receive().unwrap(), 0);
    }
    drop(slow);
    server.finish();
}

#[test]
fn packets_are_kept_in_frames_of_the_callers() {
    let mut server = Server::new();
    server.add("b", &["one"], WRITE);
    let from = ConsumerHandle::to_receive(&server.broker, "one", Access::Write, 4).unwrap();
    let mut consumer = Consumer::attach(&server.address, "one").unwrap();
    server.share_out(32);
    // Packets taken by waiting come first, as many of them as there is room for.
    assert!(consumer.wait(None).unwrap());
    let (mut kept, mut other, mut sent) = (Frame::new(5), Frame::new(100), Frame::new(128));
    assert_eq!(consumer.receive_into(&mut kept).unwrap(), 5);
    let flows = |consumer: &Consumer, frame: &Frame| -> Vec<u64> {
        consumer.arena().packets(frame).map(|packet| check(packet).0).collect()
    };
    assert_eq!(flows(&consumer, &kept), [0, 1, 2, 3, 4]);
    // All others are used again, while those stay.
    for _ in 0..100 {
        server.share_out(32);
        while consumer.receive_into(&mut other).unwrap() > 0 {}
        consumer.release(&mut other).unwrap();
        assert_eq!(
            server.broker.dispatcher().receive(from.endpoint(), &mut server.pool, &mut sent),
            0
        );
    }
    assert_eq!(flows(&consumer, &kept), [0, 1, 2, 3, 4]);
    // More at once than a burst has.
    for _ in 0..3 {
        server.share_out(32);
    }
    assert_eq!(consumer.receive_into(&mut other).unwrap(), 96);
    assert_eq!(consumer.send_from(&mut other, |packet| check(packet).0 > 0).unwrap(), 95);
    assert_eq!(consumer.send_from(&mut kept, |_| true).unwrap(), 5);
    assert!(kept.is_empty() && other.is_empty());
    assert_eq!(
        server.broker.dispatcher().receive(from.endpoint(), &mut server.pool, &mut sent),
        100
    );
    server.pool.give(&mut sent);
    drop((consumer, from));
    server.finish();
}

/// A follower forgets the addresses of a program when that goes, and must not learn them again from
/// packets that come behind that.
#[test]
fn a_program_is_gone_when_its_last_packets_have_arrived() {
    let mut server = Server::new();
    let from = ConsumerHandle::to_receive(&server.broker, "one", Access::Write, 4).unwrap();
    let attachment = from.attachment();
    let mut frame = Frame::new(32);
    let mut receive = |server: &mut Server| {
        let received =
            server.broker.dispatcher().receive(from.endpoint(), &mut server.pool, &mut frame);
        server.pool.give(&mut frame);
        received
    };
    let is_gone = |server: &Server| !server.broker.dispatcher().is_attached("one");
    // The count of changes is odd while a program is attached.
    let attach = |server: &Server| {
        let mut consumer = Consumer::attach(&server.address, "one").unwrap();
        assert!(consumer.transmit(&[7; 60]).unwrap());
        consumer
    };
    let consumer = attach(&server);
    assert_eq!(receive(&mut server), 1);
    drop(consumer);
    server.wait_for("it goes", is_gone);
    assert_eq!(attachment.changes(), 1, "a packet of it is on its way");
    assert_eq!(receive(&mut server), 0);
    assert_eq!(attachment.changes(), 2);
    // One that comes meanwhile is another.
    let consumer = attach(&server);
    assert_eq!(receive(&mut server), 1);
    drop(consumer);
    server.wait_for("it goes", is_gone);
    let consumer = attach(&server);
    assert_eq!(attachment.changes(), 5);
    assert_eq!((receive(&mut server), receive(&mut server)), (1, 0));
    // Nothing is on its way: it is told at once.
    drop(consumer);
    server.wait_for("it goes", is_gone);
    assert_eq!(attachment.changes(), 6);
    // No program is going to come for more.
    let consumer = attach(&server);
    assert_eq!(receive(&mut server), 1);
    drop(consumer);
    server.wait_for("it goes", is_gone);
    assert_eq!(attachment.changes(), 7);
    drop(from);
    assert_eq!(attachment.changes(), 8);
    server.finish();
}

#[test]
fn a_reader_writes_nothing_and_sends_packets_unchanged() {
    let mut server = Server::new();
    server.add("b", &["one"], READ);
    let from = ConsumerHandle::to_receive(&server.broker, "one", Access::Write, 4).unwrap();
    let wants_more = Consumer::attach_for(&server.address, "one", Some(Access::Write));
    assert!(matches!(wants_more, Err(ClientError::Refused { reason: Reason::NotGranted, .. })));
    let mut consumer = Consumer::attach(&server.address, "one").unwrap();
    server.share_out(3);
    assert_eq!(consumer.receive().unwrap(), 3);
    assert!(consumer.packet_mut(0).is_none());
    assert!(!consumer.transmit(&[1; 60]).unwrap());
    assert_eq!(consumer.send(|_| true).unwrap(), 3);
    let mut frame = Frame::new(32);
    server.broker.dispatcher().receive(from.endpoint(), &mut server.pool, &mut frame);
    assert_eq!(server.arena.packets(&frame).map(check).count(), 3);
    server.pool.give(&mut frame);
    drop((consumer, from));
    server.finish();
}

#[test]
fn names_are_known_and_had_by_one() {
    let mut server = Server::new();
    server.add("b", &["one", "two"], READ);
    let refused = |name: &str| match Consumer::attach(&server.address, name) {
        Err(ClientError::Refused { reason, text }) => (reason, text),
        other => panic!("{other:?}"),
    };
    assert_eq!(refused("three"), (Reason::Unknown, "there are one, two".into()));
    assert_eq!(refused("no name").0, Reason::Protocol);
    let first = Consumer::attach(&server.address, "one").unwrap();
    assert_eq!(refused("one").0, Reason::Taken);
    let _second = Consumer::attach(&server.address, "two").unwrap();
    drop(first);
    // Until the server has seen that the first has gone.
    let until = Instant::now() + Duration::from_secs(60);
    while Consumer::attach(&server.address, "one").is_err() {
        assert!(Instant::now() < until, "its place stays taken");
    }
    assert!(Broker::open("", &server.arena).is_err());
    let same = Broker::open(&server.address, &server.arena).unwrap();
    assert!(Arc::ptr_eq(&same, &server.broker));
    let other = ArenaOptions { size: 1 << 20, huge: false, ..Default::default() }.create().unwrap();
    assert!(Broker::open(&server.address, &other).is_err());
    drop(same);
    server.finish();
}

#[test]
fn weights_are_changed_and_consumers_detached_from_outside() {
    let mut server = Server::new();
    server.add("b", &["one", "two"], READ);
    let mut one = Consumer::attach(&server.address, "one").unwrap();
    let _two = Consumer::attach(&server.address, "two").unwrap();
    let connection = Connection::open(&server.address).unwrap();
    let figures = connection.figures().unwrap();
    let shares = |at: usize| -> Vec<(u32, usize)> {
        figures.balancers()[at].1.iter().map(|share| (share.weight, share.buckets)).collect()
    };
    assert_eq!(shares(0), [(1, 512), (1, 512)]);
    assert_eq!(connection.weigh("b", &[3, 1]).unwrap(), 256);
    assert_eq!(shares(0), [(3, 768), (1, 256)]);
    let refused = |result: Result<u32, ClientError>| match result {
        Err(ClientError::Refused { reason, .. }) => reason,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(connection.weigh("b", &[1])), Reason::Protocol);
    assert_eq!(refused(connection.weigh("c", &[1, 1])), Reason::Unknown);
    assert_eq!(refused(connection.detach("three").map(|()| 0)), Reason::Unknown);
    connection.detach("one").unwrap();
    assert!(matches!(one.wait(None), Err(ClientError::Ended(Reason::Detached))));
    assert_eq!(shares(0), [(3, 0), (1, 1024)]);
    server.finish();
}

#[test]
fn every_application_sees_all_and_a_silent_one_loses_its_own() {
    let mut server = Server::new();
    server.add("ids", &["ids0", "ids1"], READ);
    server.add("recorder", &["recorder"], READ);
    server.add("sleeper", &["sleeper"], READ);
    let names = ["ids0", "ids1", "recorder", "sleeper"];
    let mut all = names.map(|name| Consumer::attach(&server.address, name).unwrap());
    let mut seen = [0; 3];
    for _ in 0..100 {
        assert_eq!(server.share_out(16), 0);
        for (consumer, seen) in all.iter_mut().zip(&mut seen) {
            *seen += consumer.receive().unwrap() as u64;
        }
    }
    for (consumer, seen) in all.iter_mut().zip(&mut seen) {
        while consumer.receive().unwrap() > 0 {
            *seen += consumer.packets().count() as u64;
        }
    }
    assert_eq!((seen[0] + seen[1], seen[2]), (1600, 1600));
    let figures = all[3].figures();
    assert_eq!((figures.packets, figures.lost_full, figures.held), (128, 1600 - 128, 128));
    assert!(seen[0] > 0 && seen[1] > 0 && all[2].figures().lost_full == 0);
    drop(all);
    server.finish();
}

/// A process in the role `role`: this program once more.
struct Process(Child);

impl Process {
    fn start(role: &str, address: &str, name: &str) -> Process {
        let child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "consumer_process", "--nocapture", "--test-threads=1"])
            .env(ROLE, format!("{role} {address} {name}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        Process(child.unwrap())
    }

    fn stdin(&mut self) -> Option<ChildStdin> {
        self.0.stdin.take()
    }

    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Ends it in good order; returns the number in its last `result` line.
    fn result(mut self) -> u64 {
        drop(self.stdin());
        let said = self.ends();
        let found = said.lines().find_map(|line| line.strip_prefix("result ")?.parse().ok());
        found.expect("a result")
    }

    /// Waits until it has ended; returns its output.
    fn ends(&mut self) -> String {
        let mut said = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(self.0.wait().unwrap().success(), "{said}");
        said
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Not a test of its own: the roles of the other processes.
#[test]
fn consumer_process() {
    let Ok(text) = env::var(ROLE) else { return };
    let words: Vec<&str> = text.split(' ').collect();
    match words[0] {
        "reads" => reads(Consumer::attach(words[1], words[2]).unwrap()),
        "serves" => serves(words[1]),
        "records" => {
            recording::recorder::record(words[1..].iter().map(ToString::to_string)).unwrap();
        }
        role => panic!("{role}"),
    }
}

/// Returns true if the starter of this process wants it to end.
fn is_to_end() -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let stdin = std::io::stdin();
    let mut polled = [PollFd::new(&stdin, PollFlags::IN)];
    poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() > 0
}

/// Counts packets, which are whole and, flow by flow, in order, none of them missing between the first
/// and the last.
fn reads(mut consumer: Consumer) {
    let (mut count, mut next) = (0u64, vec![None; FLOWS as usize]);
    while !is_to_end() || consumer.figures().waiting > 0 {
        consumer.wait(Some(Duration::from_millis(2))).unwrap();
        while consumer.receive().unwrap() > 0 {
            for (flow, number) in consumer.packets().map(check) {
                let next = &mut next[flow as usize];
                assert!(next.is_none_or(|next| next <= number), "order of flow {flow}");
                *next = Some(number + 1);
                count += 1;
            }
        }
    }
    assert_eq!(consumer.malformed(), 0);
    println!("\nresult {count}");
}

/// A server with a consumer called `one`, until it is killed.
fn serves(address: &str) {
    let options = ArenaOptions { size: 1 << 20, huge: false, ..ArenaOptions::default() };
    let arena = options.create().unwrap();
    let broker = Broker::open(address, &arena).unwrap();
    let _place = ConsumerHandle::to_send(&broker, "one", WRITE).unwrap();
    println!("\nready");
    while !is_to_end() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Sends a message that no client sends, with descriptors where the kernel lets it (not to a server
/// since Linux 6.16).
fn say_with_descriptors(socket: &OwnedFd) {
    use std::os::fd::AsFd;
    let message = Reply::Figures.encode();
    let said = transport::send(socket, &message, &[socket.as_fd(); 5]);
    if said.is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied) {
        transport::send(socket, &message, &[]).unwrap();
    }
}

fn connected(address: &str) -> OwnedFd {
    let socket = listen::open(SocketType::SEQPACKET).unwrap();
    let address = Address::parse(address).unwrap().socket().unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    while let Err(error) = rustix::net::connect(&socket, &address) {
        assert!(error == rustix::io::Errno::AGAIN && Instant::now() < until, "{error}");
        std::thread::sleep(Duration::from_micros(200));
    }
    socket
}

/// Attaches by hand: returns the connection, and the descriptors handed over.
fn attached(address: &str, name: &str) -> (OwnedFd, Vec<OwnedFd>) {
    let socket = connected(address);
    let attach = Request::Attach { name: name.into(), access: None };
    transport::send(&socket, &attach.encode(), &[]).unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        match transport::receive(&socket) {
            Received::Message(_, files) if files.len() == 5 => return (socket, files),
            Received::Nothing => assert!(Instant::now() < until, "no answer"),
            other => panic!("{other:?}"),
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_malformed_request_ends_its_connection_alone() {
    let mut server = Server::new();
    server.add("b", &["good", "bad"], WRITE);
    let mut good = Consumer::attach(&server.address, "good").unwrap();
    let attach = Request::Attach { name: "bad".into(), access: None }.encode();
    let mut wrong = Request::Look.encode();
    wrong[4] = 99;
    let mut received = 0;
    let mut flow = |server: &mut Server| {
        server.share_out(8);
        received += good.receive().unwrap() as u64;
    };
    for turn in 0..40 {
        let socket = connected(&server.address);
        match turn % 8 {
            0 => drop(rustix::net::send(&socket, &[7; 100], SendFlags::empty()).unwrap()),
            1 => transport::send(&socket, &[0; SIZE], &[]).unwrap(),
            2 => transport::send(&socket, &wrong, &[]).unwrap(),
            3 => say_with_descriptors(&socket),
            4 => transport::send(&socket, &Reply::Figures.encode(), &[]).unwrap(),
            5 => {
                // A consumer that goes on talking.
                transport::send(&socket, &attach, &[]).unwrap();
                let _ = transport::send(&socket, &attach, &[]);
            }
            6 => {
                // One that gets its files and leaves.
                transport::send(&socket, &attach, &[]).unwrap();
            }
            _ => {
                // One that asks without end and reads nothing.
                while transport::send(&socket, &Request::Look.encode(), &[]).is_ok() {
                    flow(&mut server);
                }
            }
        }
        flow(&mut server);
        if turn % 8 < 5 {
            let until = Instant::now() + Duration::from_secs(60);
            while !matches!(transport::receive(&socket), Received::Closed) {
                flow(&mut server);
                assert!(Instant::now() < until, "{turn}: it is not dismissed");
            }
        }
        drop(socket);
        let broker = Arc::clone(&server.broker);
        let until = Instant::now() + Duration::from_secs(60);
        while broker.dispatcher().is_attached("bad") {
            flow(&mut server);
            assert!(Instant::now() < until, "{turn}: it stays attached");
        }
    }
    while good.receive().unwrap() > 0 {
        received += good.packets().count() as u64;
    }
    let figures = good.figures();
    assert_eq!((figures.packets, figures.lost_full, good.malformed()), (received, 0, 0));
    drop(good);
    server.finish();
}

/// A writer that was told to go, or goes on talking, has the memory until it has ended.
#[test]
fn a_writer_keeps_its_memory_until_it_has_ended() {
    use rustix::net::{Shutdown, shutdown};
    let mut server = Server::new();
    server.add("b", &["one"], WRITE);
    let connection = Connection::open(&server.address).unwrap();
    let says: [fn(&OwnedFd); 5] = [
        |socket| shutdown(socket, Shutdown::Write).unwrap(),
        |socket| _ = rustix::net::send(socket, &[], SendFlags::empty()).unwrap(),
        |socket| _ = rustix::net::send(socket, &[7; 100], SendFlags::empty()).unwrap(),
        say_with_descriptors,
        |socket| transport::send(socket, &Request::Look.encode(), &[]).unwrap(),
    ];
    for (at, says) in says.into_iter().enumerate() {
        for is_detached in [false, true] {
            let (socket, _files) = attached(&server.address, "one");
            assert_eq!(server.share_out(8), 0);
            if is_detached {
                connection.detach("one").unwrap();
            }
            says(&socket);
            let figures = |server: &Server| server.balancers[0].endpoints()[0].figures();
            server.wait_for("it is told to go", |server| figures(server).state != 1);
            // The scenario: time for any later work of the server.
            for _ in 0..3 {
                std::thread::sleep(Duration::from_millis(30));
                connection.figures().unwrap();
            }
            let figures = figures(&server);
            assert_eq!((figures.state, figures.held), (2, 8), "{at} {is_detached}");
            let other = Consumer::attach(&server.address, "one");
            assert!(matches!(other, Err(ClientError::Refused { reason: Reason::Taken, .. })));
            drop(socket);
            let place = &server.balancers[0].endpoints()[0];
            server.wait_for("it has gone", |_| place.figures().state == 0);
        }
    }
    server.finish();
}

#[test]
fn an_early_consumer_waits_for_the_whole_configuration() {
    let address = address();
    let options = ArenaOptions { size: 4 << 20, huge: false, ..ArenaOptions::default() };
    let arena = options.create().unwrap();
    let (broker, hold) = Broker::open_held(&address, &arena).unwrap();
    std::thread::scope(|scope| {
        let (sender, number) = std::sync::mpsc::channel();
        let address = &address;
        let early = scope.spawn(move || {
            sender.send(thread_number()).unwrap();
            Consumer::attach(address, "one")
        });
        await_waiting(number.recv().unwrap());
        let place = ConsumerHandle::to_send(&broker, "one", READ).unwrap();
        assert_eq!(place.figures().attached, 0);
        drop(hold);
        drop(early.join().unwrap().unwrap());
        // Another configuration is being made that grants less: the old one stays until it is
        // whole.
        let mut reader = Consumer::attach(address, "one");
        let until = Instant::now() + Duration::from_secs(60);
        while reader.is_err() && Instant::now() < until {
            reader = Consumer::attach(address, "one");
        }
        let mut reader = reader.unwrap();
        let (_, hold) = Broker::open_held(address, &arena).unwrap();
        let next = ConsumerHandle::to_send(&broker, "one", ISOLATED).unwrap();
        assert!(!reader.wait(Some(Duration::from_millis(50))).unwrap());
        drop(next);
        drop(hold);
        assert!(!reader.wait(Some(Duration::from_millis(50))).unwrap());
    });
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(48))]

    /// A consumer can harm itself alone. `cargo xtask fuzz cluster` goes on from here.
    #[test]
    fn a_hostile_consumer_harms_no_other(
        bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..3000),
    ) {
        hostile::World::new(&address()).run(&bytes);
    }
}

/// `examples/count.rs`, which is built with the tests.
#[test]
fn the_example_counts_until_its_server_ends() {
    let mut server = Server::new();
    server.add("b", &["one"], READ);
    let tests = env::current_exe().unwrap();
    let program = tests.parent().unwrap().parent().unwrap().join("examples/count");
    let mut command = Command::new(program);
    let counting = command.args([&server.address, "one"]).stdout(Stdio::piped()).spawn().unwrap();
    server.wait_for("it attaches", |server| server.broker.dispatcher().is_attached("one"));
    for _ in 0..4 {
        assert_eq!(server.share_out(8), 0);
    }
    server.wait_for("it takes them", |server| {
        server.balancers[0].endpoints()[0].figures().waiting == 0
    });
    server.finish();
    let output = counting.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success());
    // All bytes behind the sixteenth are the number of the packet in its flow: the first of each.
    assert!(said.contains("0.0.0.0/8: 32 packets") && said.ends_with("0 lost\n"), "{said}");
}
