//! Endpoints with a link between them that loses, delays, doubles and damages frames, in a time of
//! their own; and connections with segments made by hand.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use linerate_packet::{
    MacAddr,
    build::{Link, Tagging},
    tcp::Flags,
    vlan::Tci,
};
use proptest::prelude::*;

use super::{
    ConnectionCounts, Endpoint, Failure, Group, Hosts, NextHop, Service, Timeouts,
    connection::{Connection, End, Progress, Role, Rules, SegmentPlan},
    group::tests::group,
    payload::{RequestHeader, fill, fill_asking},
    segment::{Data, Ends, Incoming},
};
use crate::{Pattern, Values};

const MILLISECOND: u64 = 1_000_000;
/// Events after which something goes round in circles.
const EVENTS: u32 = 1_000_000;

fn timeouts() -> Timeouts {
    let timeout = Duration::from_secs(30);
    Timeouts { retransmit: Duration::from_millis(200), retries: 6, timeout }
}

fn hosts(ipv6: bool, first: u128, count: u128) -> Hosts {
    Hosts { ipv6, values: Values::between(first, first + count - 1).unwrap() }
}

/// From the test's network to the whole of the server's.
pub(super) fn group_of(ipv6: bool) -> Group {
    let (source, destination) = if ipv6 {
        (0x2001_0002 << 96 | 1, 0x2001_0002 << 96 | 0x1_0000)
    } else {
        (0xc612_0001, 0xc613_0001)
    };
    Group {
        sources: hosts(ipv6, source, 3),
        destinations: hosts(ipv6, destination, 2),
        source_ports: Values::between(1024, 2023).unwrap(),
        concurrent: 4,
        timeouts: timeouts(),
        ..group()
    }
}

pub(super) fn service(ipv6: bool) -> Service {
    let first = if ipv6 { 0x2001_0002 << 96 | 0x1_0000 } else { 0xc613_0000 };
    Service {
        addresses: vec![hosts(ipv6, first, 256)],
        mac: MacAddr([2, 0, 0, 0, 0, 2]),
        concurrent: 100,
        mss: 1460,
        timeouts: timeouts(),
    }
}

fn client(group: Group, count: u64) -> Endpoint {
    Endpoint::client(vec![group], Pattern::Constant, 1, Some(count), 0).unwrap()
}

fn server(service: Service) -> Endpoint {
    Endpoint::server(service, None, 0).unwrap()
}

/// Faults of the link, in frames of a thousand.
#[derive(Debug, Clone, Copy, Default)]
struct Faults {
    lost: u32,
    doubled: u32,
    damaged: u32,
    /// Frames take longer by up to this, in nanoseconds.
    jitter: u64,
}

/// A client and a server with a link between them.
struct Net {
    ends: [Endpoint; 2],
    faults: Faults,
    random: fastrand::Rng,
    /// Frames on their way, by when they arrive, and to whom.
    flying: BTreeMap<(u64, u32), (usize, Vec<u8>)>,
    launched: u32,
    time: u64,
    /// Most connections that were open at the client at a time.
    most: u64,
}

impl Net {
    fn new(client: Endpoint, server: Endpoint, faults: Faults, seed: u64) -> Net {
        Net {
            ends: [client, server],
            faults,
            random: fastrand::Rng::with_seed(seed),
            flying: BTreeMap::new(),
            launched: 0,
            time: 0,
            most: 0,
        }
    }

    fn counts(&self) -> [ConnectionCounts; 2] {
        self.ends.each_ref().map(|end| end.report().counts)
    }

    fn happens(&mut self, of_thousand: u32) -> bool {
        self.random.u32(..1000) < of_thousand
    }

    fn launch(&mut self, to: usize, frame: &[u8]) {
        if self.happens(self.faults.lost) {
            return;
        }
        for _ in 0..1 + u32::from(self.happens(self.faults.doubled)) {
            let mut frame = frame.to_vec();
            if self.happens(self.faults.damaged) {
                let at = self.random.usize(..frame.len());
                frame[at] ^= 1 << self.random.u32(..8);
            }
            let arrives = self.time + 50_000 + self.random.u64(..=self.faults.jitter);
            self.launched += 1;
            self.flying.insert((arrives, self.launched), (to, frame));
        }
    }

    /// Delivers the frames that arrive now, and takes those that the ends send.
    fn step(&mut self) {
        while let Some(first) = self.flying.first_entry() {
            if first.key().0 > self.time {
                break;
            }
            let (to, frame) = first.remove();
            self.ends[to].receive(&frame, self.time);
        }
        for from in 0..2 {
            self.ends[from].advance(self.time);
            while let Some(outgoing) = self.ends[from].next(self.time) {
                let mut frame = vec![0xaa; outgoing.frame_len()];
                self.ends[from].write(&outgoing, &mut frame).unwrap();
                self.launch(1 - from, &frame);
            }
        }
        self.most = self.most.max(self.ends[0].report().counts.open);
    }

    /// Time of the next event.
    fn next(&self) -> Option<u64> {
        let flying = self.flying.keys().next().map(|(arrives, _)| *arrives);
        let wakes = self.ends.iter().filter_map(|end| end.wake(self.time));
        wakes.chain(flying).min()
    }

    fn is_over(&self) -> bool {
        let open = self.ends[1].report().counts.open;
        self.ends[0].is_finished() && open == 0 && self.flying.is_empty()
    }

    /// Until all connections have ended on both sides.
    fn run(&mut self) {
        for _ in 0..EVENTS {
            self.step();
            if self.is_over() {
                return;
            }
            let Some(next) = self.next() else { panic!("nothing happens: {:?}", self.counts()) };
            self.time = next.max(self.time + 1);
        }
        panic!("it does not end: {:?}", self.counts());
    }

    /// For a time.
    fn run_for(&mut self, nanoseconds: u64) {
        let until = self.time + nanoseconds;
        while self.time < until {
            self.step();
            self.time = self.next().unwrap_or(until).clamp(self.time + 1, until);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_connection_ends_and_its_bytes_are_right(
        faults in (0..200u32, 0..200u32, 0..50u32, prop_oneof![Just(0u64), 1..5 * MILLISECOND]),
        request in 12..3000u32,
        response in 0..6000u32,
        requests in 1..4u64,
        think in prop_oneof![Just(0u64), 1..500u64],
        mss in prop_oneof![Just(1460u16), 200..1000u16],
        ipv6 in any::<bool>(),
        seed in any::<u64>(),
    ) {
        const COUNT: u64 = 6;
        let (lost, doubled, damaged, jitter) = faults;
        let group = Group {
            request,
            response,
            requests,
            think: Duration::from_millis(think),
            mss,
            ..group_of(ipv6)
        };
        let faults = Faults { lost, doubled, damaged, jitter };
        let mut net = Net::new(client(group, COUNT), server(service(ipv6)), faults, seed);
        net.run();
        let [client, server] = net.counts();
        prop_assert_eq!((client.begun, client.open, server.open), (COUNT, 0, 0));
        prop_assert_eq!(client.completed + client.failed(), COUNT);
        prop_assert_eq!(server.completed + server.failed(), server.begun);
        let mismatched = [client, server].map(|side| side.failed_for(Failure::Mismatched));
        prop_assert_eq!(mismatched, [0, 0]);
        if client.completed == COUNT {
            let [asked, answered] =
                [request, response].map(|bytes| u64::from(bytes) * requests * COUNT);
            prop_assert_eq!((client.bytes_sent, client.bytes_received), (asked, answered));
            prop_assert_eq!(server.bytes_received, asked);
        }
        prop_assert!(net.most <= 4, "{} open at a time", net.most);
    }
}

/// Flags, distances of both numbers from those expected, a window, bytes, and whether time passes.
type SegmentChoice = (u8, i32, i32, u16, usize, bool);

fn anything() -> impl Strategy<Value = SegmentChoice> {
    let near = || prop_oneof![4 => -3..3i32, 2 => -2000..2000i32, 1 => any::<i32>()];
    (any::<u8>(), near(), near(), any::<u16>(), 0..1500usize, any::<bool>())
}

proptest! {
    /// A connection survives any segments, and sends no more than it may.
    #[test]
    fn any_segments_are_survived(
        steps in proptest::collection::vec(anything(), 1..60),
        server in any::<bool>(),
    ) {
        let mut hand = if server { ManualPeer::server() } else { ManualPeer::client(group()) };
        let mut stream = [0; 1500];
        fill_asking(&mut stream, 0, RequestHeader { request: 20, response: 3000 });
        for (flags, seq, ack, window, len, passes) in steps {
            while let Some(piece) = hand.send() {
                prop_assert!(piece.len <= 1460);
            }
            let (expected, sent) = hand.connection.numbers();
            let numbers = (expected.wrapping_add_signed(seq), sent.wrapping_add_signed(ack));
            let payload = if flags & 0x40 == 0 { &stream[..len] } else { &[] };
            let progress = hand.receive(Flags(flags & 0x3f), numbers.0, numbers.1, window, payload);
            if let Some(end) = progress.ended {
                prop_assert!(!hand.connection.has_ended());
                hand.connection.finish(end);
            }
            if passes && let Some(failure) = hand.wait() {
                hand.connection.finish(End::Failed(failure));
            }
        }
    }

    #[test]
    fn any_frames_are_survived(
        frames in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..120), 1..20),
        kind in prop_oneof![Just(0x0800u16), Just(0x0806u16), Just(0x86ddu16), Just(0x8100u16)],
    ) {
        let [mut client, mut server] = [client(group_of(false), 5), server(service(false))];
        for (time, mut frame) in (0..).zip(frames) {
            if let Some(field) = frame.get_mut(12..14) {
                field.copy_from_slice(&kind.to_be_bytes());
            }
            for end in [&mut client, &mut server] {
                end.receive(&frame, time);
                end.advance(time);
                while let Some(outgoing) = end.next(time) {
                    let mut frame = vec![0; outgoing.frame_len()];
                    end.write(&outgoing, &mut frame).unwrap();
                }
            }
        }
    }
}

#[test]
fn over_a_good_link_nothing_is_sent_twice() {
    for ipv6 in [false, true] {
        let group = Group { request: 5000, response: 100_000, requests: 2, ..group_of(ipv6) };
        let mut net = Net::new(client(group, 20), server(service(ipv6)), Faults::default(), 1);
        net.run();
        for (side, sent, received) in [(0, 10_000, 200_000), (1, 200_000, 10_000)] {
            let report = net.ends[side].report();
            let counts = report.counts;
            let ended = (counts.begun, counts.opened, counts.completed, counts.failed());
            assert_eq!(ended, (20, 20, 20, 0), "{counts:?}");
            assert_eq!((counts.bytes_sent, counts.bytes_received), (20 * sent, 20 * received));
            let odd = counts.retransmitted + counts.out_of_order + counts.strays + counts.malformed;
            assert_eq!(odd, 0, "{counts:?}");
            assert_eq!((report.handshake.count(), report.whole.count()), (20, 20));
            assert!(report.handshake.min() >= 50_000);
            assert!(report.whole.min() > report.handshake.max());
        }
        assert_eq!(net.most, 4);
    }
}

#[test]
fn the_way_to_the_server_is_asked_for() {
    for ipv6 in [false, true] {
        let group = group_of(ipv6);
        let hop = NextHop::Address(group.destinations.at(0));
        let group = Group { next_hop: hop, ..group };
        let mut net = Net::new(client(group, 5), server(service(ipv6)), Faults::default(), 1);
        net.run();
        assert_eq!(net.counts().map(|counts| counts.completed), [5, 5]);
        assert!(net.ends[0].report().unreachable.is_empty());
    }
}

#[test]
fn an_absent_next_hop_is_reported() {
    let address: IpAddr = "198.20.0.1".parse().unwrap();
    let group = Group { next_hop: NextHop::Address(address), ..group_of(false) };
    let mut net = Net::new(client(group, 5), server(service(false)), Faults::default(), 1);
    net.run();
    assert_eq!(net.ends[0].report().unreachable, [address]);
    assert_eq!(net.counts()[0].begun, 0);
}

#[test]
fn without_an_answer_they_time_out() {
    let faults = Faults { lost: 1000, ..Faults::default() };
    let mut net = Net::new(client(group_of(false), 8), server(service(false)), faults, 1);
    net.run();
    let [counts, _] = net.counts();
    assert_eq!(counts.failed_for(Failure::TimedOut), 8);
    assert_eq!(counts.retransmitted, 8 * u64::from(timeouts().retries));
    // 200 ms, doubled six times: a hundred and twenty-seven of them for each of two rounds.
    assert!(net.time >= 2 * 127 * 200 * MILLISECOND);
}

#[test]
fn a_host_without_a_server_refuses() {
    let host = Group { sources: service(false).addresses[0], ..group_of(false) };
    let mut net = Net::new(client(group_of(false), 8), client(host, 0), Faults::default(), 1);
    net.run();
    assert_eq!(net.counts()[0].failed_for(Failure::Refused), 8);
    assert_eq!(net.counts()[1].strays, 8);
}

#[test]
fn strangers_are_left_alone() {
    let elsewhere = Service { addresses: vec![hosts(false, 0xc614_0000, 1)], ..service(false) };
    let mut net = Net::new(client(group_of(false), 1), server(elsewhere), Faults::default(), 1);
    net.run();
    let [client, server] = net.counts();
    assert_eq!(client.failed_for(Failure::TimedOut), 1);
    assert_eq!((server.foreign, server.segments_sent), (client.segments_sent, 0));
}

#[test]
fn a_given_payload_is_sent() {
    let payload = b"GET / HTTP/1.0\r\n\r\n".to_vec();
    let group = Group { request: 36, response: 0, payload, ..group_of(false) };
    let mut net = Net::new(client(group, 3), server(service(false)), Faults::default(), 1);
    net.run();
    // The server does not answer a client without its header.
    let [client, server] = net.counts();
    assert_eq!((client.completed, server.completed), (3, 3));
    assert_eq!((server.bytes_received, server.bytes_sent), (3 * 36, 0));
}

#[test]
fn a_rate_is_kept() {
    let group = Group { rate: Some(100.0), concurrent: 100, ..group_of(false) };
    let mut net = Net::new(client(group, 1000), server(service(false)), Faults::default(), 1);
    net.run_for(1000 * MILLISECOND);
    let [counts, _] = net.counts();
    assert!(counts.begun.abs_diff(100) <= 1 && counts.due == counts.begun, "{counts:?}");
}

#[test]
fn a_full_server_drops_syns_and_clients_send_them_again() {
    let full = Service { concurrent: 1, ..service(false) };
    let think = Duration::from_millis(50);
    let group = Group { concurrent: 2, think, ..group_of(false) };
    let mut net = Net::new(client(group, 4), server(full), Faults::default(), 1);
    net.run();
    let [client, server] = net.counts();
    assert_eq!((client.completed, server.completed), (4, 4));
    assert!(server.listen_overflows > 0 && client.retransmitted == server.listen_overflows);
}

#[test]
fn an_aborted_connection_is_reset_on_the_other_side() {
    let think = Duration::from_secs(10);
    let group = Group { think, ..group_of(false) };
    let mut net = Net::new(client(group, 1000), server(service(false)), Faults::default(), 1);
    net.run_for(100 * MILLISECOND);
    net.ends[0].abort();
    net.run();
    let [client, server] = net.counts();
    assert_eq!((client.aborted, client.completed), (4, 0));
    assert_eq!(server.failed_for(Failure::Reset), 4);
}

/// A first sequence number that wraps while it is counted up.
const ISS: u32 = u32::MAX - 10;

fn incoming(flags: Flags, seq: u32, ack: u32, window: u16, payload: &[u8]) -> Incoming<'_> {
    let [local, peer] = ["198.18.0.1", "198.19.0.1"].map(|text| text.parse().unwrap());
    let ends = Ends { local, peer, local_port: 1024, peer_port: 80, vlan: 0 };
    let link = Link { src: MacAddr([2; 6]), dst: MacAddr([4; 6]), tags: Tagging::Untagged };
    Incoming { link, ends, seq, ack, flags, window, mss: None, payload }
}

/// A connection that is spoken to by hand, from the sequence number 1000.
struct ManualPeer {
    connection: Connection,
    rules: Rules,
    tick: u64,
}

impl ManualPeer {
    fn client(group: Group) -> ManualPeer {
        let rules = group.rules(0);
        let link = Link::new(MacAddr([2; 6]), MacAddr([4; 6]));
        ManualPeer { connection: Connection::client(0, &rules, link, ISS, 0), rules, tick: 0 }
    }

    /// A server whose client's SYN has the number 999.
    fn server() -> ManualPeer {
        let rules = timeouts().rules(Role::Server, 1460);
        let syn = incoming(Flags::SYN, 999, 0, 1000, &[]);
        ManualPeer { connection: Connection::server(0, &rules, &syn, ISS, 0), rules, tick: 0 }
    }

    /// A client whose SYN was answered, with this window.
    fn open(group: Group, window: u16) -> ManualPeer {
        let mut hand = ManualPeer::client(group);
        let syn = hand.send().unwrap();
        assert_eq!((syn.flags, syn.mss), (Flags::SYN, Some(1460)));
        let answer = Flags::SYN | Flags::ACK;
        let progress = hand.receive(answer, 1000, syn.seq.wrapping_add(1), window, &[]);
        assert!(progress.opened && progress.ended.is_none());
        hand
    }

    fn send(&mut self) -> Option<SegmentPlan> {
        self.connection.send(&self.rules, self.tick)
    }

    fn receive(
        &mut self,
        flags: Flags,
        seq: u32,
        ack: u32,
        window: u16,
        payload: &[u8],
    ) -> Progress {
        let segment = incoming(flags, seq, ack, window, payload);
        self.connection.receive(&self.rules, &segment, self.tick)
    }

    /// Waits until the deadline; says whether it has failed.
    fn wait(&mut self) -> Option<Failure> {
        self.tick = self.connection.deadline;
        self.connection.expire(&self.rules, self.tick)
    }
}

#[test]
fn a_server_that_ends_before_it_has_answered_has_closed_early() {
    let mut hand = ManualPeer::open(group(), 1000);
    let request = hand.send().unwrap();
    assert_eq!((request.seq, request.len), (ISS.wrapping_add(1), 100));
    let ack = request.seq.wrapping_add(100);
    let progress = hand.receive(Flags::FIN | Flags::ACK, 1001, ack, 1000, &[]);
    assert_eq!(progress.ended, Some(End::Failed(Failure::ClosedEarly)));
    assert_eq!(progress.acked, 100);
}

#[test]
fn segments_are_not_longer_than_the_other_side_takes() {
    // A peer that names no size gets the least that all must take.
    let mut hand = ManualPeer::open(Group { request: 1000, ..group() }, 60_000);
    let lengths: Vec<u16> = std::iter::from_fn(|| hand.send()).map(|piece| piece.len).collect();
    assert_eq!(lengths, [536, 464]);
}

/// Frames that go back to a client have its tags, and are no longer for that.
#[test]
fn a_server_leaves_room_for_tags() {
    let rules = timeouts().rules(Role::Server, 1460);
    let syn = incoming(Flags::SYN, 999, 0, 60_000, &[]);
    let tags = Tagging::Double { outer: Tci(1), inner: Tci(2) };
    let syn = Incoming { link: Link { tags, ..syn.link }, mss: Some(9000), ..syn };
    let connection = Connection::server(0, &rules, &syn, ISS, 0);
    let mut hand = ManualPeer { connection, rules, tick: 0 };
    assert_eq!(hand.send().unwrap().mss, Some(1460));
    let ask = RequestHeader { request: 12, response: 5000 }.to_bytes();
    let progress = hand.receive(Flags::ACK, 1000, ISS.wrapping_add(1), 60_000, &ask);
    assert!(progress.opened && progress.ended.is_none());
    assert_eq!(hand.send().unwrap().len, 1452);
}

/// A byte is tried again and again, for as long as the other side says that its window is closed.
#[test]
fn a_closed_window_is_probed() {
    let mut hand = ManualPeer::open(group(), 0);
    let ack = hand.send().unwrap();
    assert_eq!((ack.flags, ack.len), (Flags::ACK, 0));
    assert_eq!(hand.send(), None);
    for _ in 0..20 {
        assert_eq!(hand.wait(), None);
        let probe = hand.send().unwrap();
        assert_eq!((probe.seq, probe.len), (ISS.wrapping_add(1), 1));
        hand.receive(Flags::ACK, 1001, ISS.wrapping_add(1), 0, &[]);
    }
    hand.receive(Flags::ACK, 1001, ISS.wrapping_add(2), 50, &[]);
    assert_eq!(hand.send().unwrap().len, 50);
}

#[test]
fn a_silent_server_is_given_up_and_told() {
    let mut hand = ManualPeer::open(Group { timeouts: timeouts(), ..group() }, 1000);
    assert!(hand.send().is_some());
    let mut again = 0;
    let failure = loop {
        if let Some(failure) = hand.wait() {
            break failure;
        }
        let piece = hand.send().unwrap();
        assert!(piece.again);
        again += 1;
    };
    assert_eq!((failure, again), (Failure::TimedOut, 6));
    hand.connection.finish(End::Failed(failure));
    assert!(hand.send().unwrap().flags.contains(Flags::RST));
    assert!(hand.connection.is_over() && hand.send().is_none());
}

#[test]
fn other_bytes_than_expected_fail_it() {
    let mut hand = ManualPeer::open(group(), 1000);
    hand.send().unwrap();
    let ack = ISS.wrapping_add(101);
    let progress = hand.receive(Flags::ACK, 1001, ack, 1000, &[0xff; 10]);
    assert_eq!(progress.ended, Some(End::Failed(Failure::Mismatched)));
}

/// Segments that come twice or behind a gap are acknowledged and not counted.
#[test]
fn only_the_next_bytes_are_taken() {
    let mut hand = ManualPeer::open(group(), 1000);
    hand.send().unwrap();
    let ack = ISS.wrapping_add(101);
    let mut stream = [0; 300];
    fill(&mut stream, 0);
    let gap = hand.receive(Flags::ACK, 1101, ack, 1000, &stream[100..200]);
    assert_eq!((gap.taken, gap.out_of_order), (0, true));
    assert_eq!(hand.send().unwrap().ack, 1001);
    let first = hand.receive(Flags::ACK, 1001, ack, 1000, &stream[..150]);
    assert_eq!((first.taken, first.out_of_order), (150, false));
    // The new part of a segment with an old begin.
    let rest = hand.receive(Flags::ACK, 1101, ack, 1000, &stream[100..300]);
    assert_eq!(rest.taken, 150);
    let twice = hand.receive(Flags::ACK, 1001, ack, 1000, &stream[..150]);
    assert_eq!((twice.taken, twice.ended), (0, None));
    assert_eq!(hand.send().unwrap().ack, 1301);
}

/// A reset counts only with the number that is expected (RFC 5961).
#[test]
fn a_guessed_reset_is_asked_about() {
    let mut hand = ManualPeer::open(group(), 1000);
    hand.send().unwrap();
    for seq in [900, 1002, 200_000] {
        assert_eq!(hand.receive(Flags::RST, seq, 0, 0, &[]).ended, None, "{seq}");
    }
    let challenge = hand.send().unwrap();
    assert_eq!((challenge.flags, challenge.data, challenge.ack), (Flags::ACK, Data::None, 1001));
    let reset = hand.receive(Flags::RST, 1001, 0, 0, &[]);
    assert_eq!(reset.ended, Some(End::Failed(Failure::Reset)));
}

#[test]
fn segments_of_a_former_connection_are_denied() {
    let mut hand = ManualPeer::client(group());
    hand.send().unwrap();
    let progress = hand.receive(Flags::ACK, 5, 77, 1000, &[]);
    assert!(progress.stale && progress.ended.is_none());
    let refused = hand.receive(Flags::RST | Flags::ACK, 0, ISS.wrapping_add(1), 0, &[]);
    assert_eq!(refused.ended, Some(End::Failed(Failure::Refused)));
}
