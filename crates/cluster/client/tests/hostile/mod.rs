//! A server with honest consumers and a malicious one: for tests and for fuzzing.
//!
//! Asserted besides the absence of panics and of accesses the kernel stops: honest consumers get
//! all packets, whole and in order, and packets they are asked about pass so; of the packets the
//! malicious one is asked about nothing leaves twice or out of order; the next consumer under its
//! names is served; no buffer is lost.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use linerate_client::{Access, Consumer, Verdict};
use linerate_cluster::{
    BalancerHandle, Broker, ConsumerHandle, Granted, InlineConfig, InlineHandle,
};
use linerate_memory::{Arena, ArenaOptions, Frame, PoolCache};
use linerate_test_support::cluster::MaliciousPeer;

/// Names that the foul one attaches as: those that are lent packets, and those that are asked.
const LENT: [(&str, Access); 3] =
    [("read", Access::Read), ("write", Access::Write), ("copies", Access::Isolated)];
const ASKED: [(&str, Access, bool); 5] = [
    ("asked-read", Access::Read, true),
    ("asked-write", Access::Write, true),
    ("asked-write-closed", Access::Write, false),
    ("asked-copies", Access::Isolated, true),
    ("asked-copies-closed", Access::Isolated, false),
];
/// All of them.
const NAMES: [&str; 8] = [
    "read",
    "write",
    "copies",
    "asked-read",
    "asked-write",
    "asked-write-closed",
    "asked-copies",
    "asked-copies-closed",
];
/// Packets of a turn, and bytes of each.
const PACKETS: usize = 3;
const LENGTH: usize = 64;
/// Offset of a packet's number, behind its headers.
const NUMBER: usize = 42;

/// A server, and those that do as they should.
pub(crate) struct World {
    arena: Arena,
    pool: PoolCache,
    broker: Arc<Broker>,
    address: String,
    lent: Vec<BalancerHandle>,
    sent: Vec<ConsumerHandle>,
    asked: Vec<InlineElement>,
    /// An honest consumer that gets all packets, and the number of the next.
    good: Consumer,
    got: u64,
    frame: Frame,
    absent: Frame,
}

/// An element that asks, and the consumer of it that does as it should.
struct InlineElement {
    asks: InlineHandle,
    good: Option<Consumer>,
    /// The number that left last, and how many there were.
    last: u64,
    left: u64,
    asked: u64,
}

impl World {
    /// A server at an abstract socket.
    pub(crate) fn new(address: &str) -> World {
        let options = ArenaOptions { size: 2 << 20, huge: false, ..ArenaOptions::default() };
        let arena = options.create().expect("memory can be had");
        let broker = Broker::open(address, &arena).expect("nobody else listens there");
        let granted = |access| Granted { access, cells: 8 };
        let balancer = |(name, access): (&str, Access)| {
            let consumers = [(name.to_string(), 1)];
            BalancerHandle::new(&broker, name, &consumers, granted(access), true).expect("a name")
        };
        let good = ("good", Access::Read);
        let lent = std::iter::once(good).chain(LENT).map(balancer).collect();
        let sent = LENT.map(|(name, access)| {
            ConsumerHandle::to_receive(&broker, name, access, 2).expect("a name")
        });
        let asking = |(name, access, open): (&str, Access, bool)| {
            let limit = Duration::from_millis(if name == "good-asked" { 60_000 } else { 2 });
            let flow_time = Duration::from_millis(20);
            let terms = InlineConfig { limit, open, most: 32, flows: 4, flow_time };
            let asks = InlineHandle::new(&broker, name, granted(access), terms).expect("a name");
            InlineElement { asks, good: None, last: 0, left: 0, asked: 0 }
        };
        let good_asked = ("good-asked", Access::Isolated, false);
        let mut asked: Vec<InlineElement> =
            std::iter::once(good_asked).chain(ASKED).map(asking).collect();
        let attach = |name| Consumer::attach(address, name).expect("a place is free");
        asked[0].good = Some(attach("good-asked"));
        World {
            pool: arena.cache(32),
            good: attach("good"),
            arena,
            broker,
            address: address.into(),
            lent,
            sent: sent.into(),
            asked,
            got: 0,
            frame: Frame::new(32),
            absent: Frame::new(32),
        }
    }

    /// Packets with these numbers; also in their annotations, where receivers of copies cannot
    /// change them.
    fn packets(&mut self, before: u64) {
        for number in (before + 1..).take(PACKETS) {
            let slot = self.pool.take_one(LENGTH);
            // The foul one has at most as many as it may.
            let mut slot = slot.expect("there are more buffers than all may hold");
            let meta = self.arena.meta_mut(&mut slot).expect("a packet of ours");
            meta.reset();
            meta.timestamp = number;
            let packet = self.arena.packet_mut(&mut slot).expect("a packet of ours");
            packet.fill(number as u8);
            // UDP, of one of eight flows.
            packet[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
            packet[16..24].copy_from_slice(&[0, 50, 0, 0, 0, 0, 64, 17]);
            packet[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
            packet[34..38].copy_from_slice(&[0, number as u8 % 8, 0, 53]);
            packet[38..42].copy_from_slice(&[0, 30, 0, 0]);
            packet[NUMBER..NUMBER + 8].copy_from_slice(&number.to_ne_bytes());
            self.frame.push(slot).expect("a frame of a turn's");
        }
    }

    /// Does all work of the server's in a turn.
    pub(crate) fn turn(&mut self) {
        let ids: Vec<usize> = self.lent.iter().map(BalancerHandle::balancer).collect();
        self.packets(self.got);
        let (pool, frame) = (&mut self.pool, &mut self.frame);
        let hashes = [0; PACKETS];
        self.broker.dispatcher().share_out(&ids, &hashes, false, pool, frame, &mut self.absent);
        assert!(frame.is_empty() && self.absent.is_empty(), "the good one has got all");
        self.good.receive().expect("the server is there");
        for packet in self.good.packets() {
            self.got += 1;
            let number = u64::from_ne_bytes(packet[NUMBER..NUMBER + 8].try_into().unwrap());
            assert_eq!((number, packet.len()), (self.got, LENGTH), "one is missing");
            assert!(packet[NUMBER + 8..].iter().all(|byte| *byte == number as u8));
            // All it has is had by others, too.
        }
        self.good.receive().expect("the server is there");
        for at in 0..self.sent.len() {
            self.broker.dispatcher().receive(
                self.sent[at].endpoint(),
                &mut self.pool,
                &mut self.frame,
            );
            self.look_and_give();
        }
        for at in 0..self.asked.len() {
            self.packets(self.asked[at].asked);
            self.ask(at);
        }
    }

    /// Sent packets are inside of their buffers, and can be read.
    fn look_and_give(&mut self) {
        let bytes = self.arena.packets(&self.frame).flatten();
        std::hint::black_box(bytes.fold(0u8, |sum, byte| sum ^ byte));
        self.pool.give(&mut self.frame);
    }

    /// Asks about packets, and looks at those that leave.
    fn ask(&mut self, at: usize) {
        let InlineElement { asks, good, last, left, asked } = &mut self.asked[at];
        *asked += self.frame.len() as u64;
        self.broker.dispatcher().ask(asks, &mut self.pool, &mut self.frame);
        let refused = self.frame.len();
        assert!(good.is_none() || refused == 0);
        self.pool.give(&mut self.frame);
        if let Some(good) = good {
            good.receive().expect("the server is there");
            good.answer(|_| Verdict::Pass).expect("the server is there");
        }
        self.broker.dispatcher().drain(asks, &mut self.pool, &mut self.frame);
        for slot in self.frame.slots() {
            let number = self.arena.meta(slot).timestamp;
            assert!(number > *last, "{number} left behind {last}");
            *last = number;
            *left += 1;
        }
        assert!(*left <= *asked);
        if good.is_some() {
            assert_eq!(left, asked, "what it lets pass passes");
        }
        self.look_and_give();
    }

    /// Lets the malicious one act as the bytes say, and the next consumer be honest.
    pub(crate) fn run(mut self, bytes: &[u8]) {
        let mut attacker = MaliciousPeer::new(&self.address, &NAMES, bytes);
        while attacker.step() {
            self.turn();
        }
        drop(attacker);
        let until = Instant::now() + Duration::from_secs(20);
        let name = NAMES[bytes.first().map_or(0, |byte| usize::from(*byte) % NAMES.len())];
        let next = loop {
            self.turn();
            match Consumer::attach(&self.address, name) {
                Ok(next) => break next,
                Err(error) => assert!(Instant::now() < until, "{name} is not free: {error}"),
            }
            thread::sleep(Duration::from_micros(200));
        };
        self.serve_next(next, until);
        let World { arena, pool, broker, good, asked, lent, sent, frame, absent, .. } = self;
        drop((good, asked, lent, sent, frame, absent, pool, broker));
        assert_eq!(arena.accounting().held, 0, "buffers are lost");
    }

    fn serve_next(&mut self, mut next: Consumer, until: Instant) {
        let mut served = 0;
        while served < 2 * PACKETS {
            self.turn();
            assert!(Instant::now() < until, "the next one gets nothing");
            let received = next.receive().expect("the server is there");
            assert!(next.packets().all(|packet| packet.len() == LENGTH));
            served += received;
            if next.is_asked() {
                next.answer(|_| Verdict::Pass).expect("the server is there");
            }
            if received == 0 {
                // Those of the one before had their time.
                thread::sleep(Duration::from_millis(1));
            }
        }
    }
}
