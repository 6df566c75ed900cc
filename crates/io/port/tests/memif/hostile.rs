//! Peers that play foul, in both roles, beside two that do not.

use std::time::Duration;

use linerate_memory::Frame;
use linerate_test_support::memif::{MaliciousPeer, Role, SENTINEL};
use proptest::prelude::*;

use crate::rig::{Station, all_come_home, packets, socket, wait_for};

/// Two interfaces that speak to each other as they should, meanwhile.
struct Bystanders {
    server: Station,
    client: Station,
    sent: Vec<Vec<u8>>,
    arrived: [usize; 2],
    rounds: usize,
}

impl Bystanders {
    fn open(socket: &str) -> Bystanders {
        let server = Station::open(&format!("memif:{socket}?role=server&id=1"));
        let client = Station::open(&format!("memif:{socket}?id=1&wait=20"));
        server.wait_up();
        Bystanders {
            server,
            client,
            sent: packets([60, 1500, 61, 600]),
            arrived: [0; 2],
            rounds: 0,
        }
    }

    fn turn(&mut self) {
        self.server.send(0, &self.sent);
        self.client.send(0, &self.sent);
        self.rounds += 1;
        self.look();
    }

    /// Packets arrive as sent, in order, each once.
    fn look(&mut self) {
        for (station, arrived) in
            [&mut self.server, &mut self.client].into_iter().zip(&mut self.arrived)
        {
            for packet in station.take(0) {
                assert!(packet == self.sent[*arrived % self.sent.len()], "packet {arrived}");
                *arrived += 1;
            }
        }
    }

    fn end(mut self) {
        let all = self.rounds * self.sent.len();
        wait_for("the bystanders' packets", || {
            self.look();
            self.arrived.iter().all(|&arrived| arrived >= all)
        });
        assert_eq!(self.arrived, [all; 2]);
        for side in [&self.server, &self.client] {
            assert_eq!((side.sent().dropped(), side.received().dropped()), (0, 0));
            assert_eq!(side.port.info.link.as_ref().unwrap().changes(), 1, "{}", side.detail());
        }
    }
}

/// Does with a port all that a worker does.
fn use_up(station: &mut Station, sent: &[Vec<u8>]) {
    for queue in 0..station.port.queues.len() {
        for packet in station.take(queue) {
            assert!((14..=station.arena.room()).contains(&packet.len()));
            let foreign = packet.windows(SENTINEL.len()).any(|bytes| bytes == SENTINEL);
            assert!(!foreign, "bytes from behind a region");
        }
        let mut frame = Frame::new(sent.len());
        for packet in sent {
            let mut slot = station.pool.take_one(packet.len()).unwrap();
            station.arena.packet_mut(&mut slot).unwrap().copy_from_slice(packet);
            frame.push(slot).unwrap();
        }
        let Station { pool, port, .. } = station;
        let transmit = port.queues[queue].transmit.as_mut().unwrap();
        transmit.transmit(pool, &mut frame).unwrap();
        let _ = transmit.wake();
        transmit.flush(pool).unwrap();
        pool.give(&mut frame);
        let _ = station.receive(queue).wake();
    }
}

/// A peer that comes after a malicious one is served as if there had been none.
fn is_served(station: &mut Station, other: &mut Station) {
    other.wait_up();
    station.wait_up();
    // One that lends its buffers does so when it looks for packets.
    station.take(0);
    let sent = packets([60, 1500]);
    for at in 0..sent.len() {
        // Packets of the peer before that were on the way may come first.
        other.send(0, &sent[at..=at]);
        wait_for("a packet of the next peer", || station.take(0).contains(&sent[at]));
        station.send(0, &sent[at..=at]);
        wait_for("a packet to the next peer", || other.take(0).contains(&sent[at]));
    }
}

/// Has a peer play foul with a port of ours with these options.
fn play(role: Role, options: &str, bytes: &[u8]) {
    let (ours, theirs) = (socket(), socket());
    // A server's bystanders are on its own socket.
    let (uri, beside) = match role {
        Role::Client => (format!("memif:{ours}?role=server&queues=2{options}"), &ours),
        Role::Server => (format!("memif:{ours}?queues=2&slots=16{options}"), &theirs),
    };
    let mut attacker = MaliciousPeer::new(role, &ours, bytes);
    let mut station = Station::with(&uri, 9600);
    let mut bystanders = Bystanders::open(beside);
    let sent = packets([60, 9000, 2048]);
    let mut was_connected = false;
    while attacker.step() {
        if attacker.is_connected() && !was_connected {
            // The one knows a moment before the other.
            station.port.info.link.as_ref().unwrap().wait_up(Duration::from_millis(5));
        }
        was_connected = attacker.is_connected();
        use_up(&mut station, &sent);
        bystanders.turn();
    }
    drop(attacker);
    bystanders.end();
    let next = match role {
        Role::Client => format!("memif:{ours}"),
        Role::Server => format!("memif:{ours}?role=server"),
    };
    let mut other = Station::open(&next);
    is_served(&mut station, &mut other);
    let arenas = [station.arena.clone(), other.arena.clone()];
    drop((station, other));
    arenas.iter().for_each(all_come_home);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_hostile_client_harms_no_other(bytes in proptest::collection::vec(any::<u8>(), 8..200)) {
        play(Role::Client, "", &bytes);
    }
}

proptest! {
    // It takes a client a while to try again.
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn a_hostile_server_harms_no_other(bytes in proptest::collection::vec(any::<u8>(), 8..200)) {
        play(Role::Server, "", &bytes);
    }

    /// It writes anything into the rings. That it keeps its hands off packets it was not given is
    /// its promise.
    #[test]
    fn nor_does_one_that_is_lent_our_packets(bytes in proptest::collection::vec(any::<u8>(), 8..200)) {
        play(Role::Server, "&zero-copy", &bytes);
    }
}
