//! Drivers and devices that play foul, beside two peers that do not.

use std::time::Duration;

use linerate_memory::Frame;
use linerate_test_support::{
    vhost::{MaliciousPeer, ORDERLY, SENTINEL},
    vhost_device,
};
use proptest::prelude::*;

use crate::rig::{Station, all_come_home, packets, socket, wait_for};

/// Two ports of this process that speak to each other meanwhile.
struct Bystanders {
    stations: [Station; 2],
    sent: Vec<Vec<u8>>,
}

impl Bystanders {
    fn open() -> Bystanders {
        let socket = socket();
        let server = Station::open(&format!("memif:{socket}?role=server"));
        let client = Station::open(&format!("memif:{socket}?wait=20"));
        server.wait_up();
        Bystanders { stations: [server, client], sent: packets([60, 1500, 61, 600]) }
    }

    fn turn(&mut self) {
        for (from, to) in [(0, 1), (1, 0)] {
            self.stations[from].send(0, &self.sent);
            let came = self.stations[to].expect(0, self.sent.len());
            assert!(came == self.sent, "a bystander got something else");
        }
    }
}

/// Does with a port all that a worker does. Returns whether an orderly packet came.
fn use_up(station: &mut Station, sent: &[Vec<u8>]) -> bool {
    let mut orderly = false;
    for packet in station.take(0) {
        assert!((14..=station.arena.room()).contains(&packet.len()));
        let foreign = packet.windows(SENTINEL.len()).any(|bytes| bytes == SENTINEL);
        assert!(!foreign, "bytes from behind a region");
        orderly |= packet == [ORDERLY; 60];
    }
    let mut frame = Frame::new(sent.len());
    for packet in sent {
        let mut slot = station.pool.take_one(packet.len()).unwrap();
        station.arena.packet_mut(&mut slot).unwrap().copy_from_slice(packet);
        frame.push(slot).unwrap();
    }
    let Station { pool, port, .. } = &mut *station;
    let transmit = port.queues[0].transmit.as_mut().unwrap();
    transmit.transmit(pool, &mut frame).unwrap();
    let _ = transmit.wake();
    transmit.flush(pool).unwrap();
    pool.give(&mut frame);
    let _ = station.receive(0).wake();
    orderly
}

/// A device that plays foul with a driver of ours.
fn play_device(bytes: &[u8]) {
    let socket = socket();
    let mut attacker = vhost_device::MaliciousPeer::new(&socket, bytes);
    let mut station = Station::open(&format!("vhost:{socket}?role=driver&slots=16"));
    let mut bystanders = Bystanders::open();
    let sent = packets([60, 1500]);
    while attacker.step() {
        use_up(&mut station, &sent);
        bystanders.turn();
    }
    // The next peer is believed.
    attacker.leave();
    wait_for("a packet of the next device", || {
        attacker.serve();
        use_up(&mut station, &sent)
    });
    finish(station, bystanders);
}

fn finish(station: Station, bystanders: Bystanders) {
    let arena = station.arena.clone();
    drop(station);
    all_come_home(&arena);
    for station in &bystanders.stations {
        assert_eq!((station.sent().dropped(), station.received().dropped()), (0, 0));
        assert_eq!(station.port.info.link.as_ref().unwrap().changes(), 1, "{}", station.detail());
    }
}

fn play(bytes: &[u8]) {
    let socket = socket();
    let mut station = Station::open(&format!("vhost:{socket}"));
    let mut bystanders = Bystanders::open();
    let sent = packets([60, 1500]);
    let mut attacker = MaliciousPeer::new(&socket, bytes);
    let mut was_negotiated = false;
    while attacker.step() {
        if attacker.is_negotiated() && !was_negotiated {
            // The one knows a moment before the other.
            station.port.info.link.as_ref().unwrap().wait_up(Duration::from_millis(5));
        }
        was_negotiated = attacker.is_negotiated();
        use_up(&mut station, &sent);
        bystanders.turn();
    }
    drop(attacker);
    // The next peer is served.
    for packed in [0, 1] {
        let setup = [packed, 3];
        let mut next = MaliciousPeer::new(&socket, &setup);
        wait_for("a packet of the next driver", || {
            next.serve();
            (0..20).any(|_| {
                std::thread::sleep(Duration::from_micros(200));
                use_up(&mut station, &sent)
            })
        });
    }
    finish(station, bystanders);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_hostile_driver_harms_no_other(bytes in proptest::collection::vec(any::<u8>(), 8..300)) {
        play(&bytes);
    }

    #[test]
    fn a_hostile_device_harms_no_other(bytes in proptest::collection::vec(any::<u8>(), 8..300)) {
        play_device(&bytes);
    }
}
