//! Malicious vhost-user peer, a driver's side or a device, driven by the bytes of an input, beside
//! two others that are not.
//!
//! Asserted besides the absence of panics and of accesses the kernel stops: bytes behind a driver's
//! memory are neither read nor written; the other two lose no packet and get none that is not
//! theirs; the next peer is served; no buffer is lost. The first byte chooses the peer.

#![no_main]

use std::{
    cell::RefCell,
    thread,
    time::{Duration, Instant},
};

use libfuzzer_sys::fuzz_target;
use linerate_fuzz::{
    Bytes, isolate,
    peers::{Station, VictimPeers, memory, wait_for},
    show,
};
use linerate_memory::Arena;
use linerate_test_support::{
    vhost::{self, SENTINEL},
    vhost_device,
};

const SOCKET: &str = "@foul";
/// Lengths of the packets sent to the malicious peer.
const SENT: [usize; 3] = [60, 9000, 2048];
/// An orderly packet.
const ORDERLY: [u8; 60] = [vhost::ORDERLY; 60];

/// State that stays from one input to the next.
struct World {
    /// Memory of all that are here for one input.
    arena: Arena,
    victims: VictimPeers,
}

impl World {
    fn new() -> World {
        World { arena: memory(), victims: VictimPeers::new("@others") }
    }

    /// Receives and sends on a port as a worker does. Returns true if an orderly packet came.
    fn use_up(station: &mut Station) -> bool {
        let mut orderly = false;
        station.receive(0, |packet| {
            assert!(packet.len() >= 14);
            let foreign = packet.windows(SENTINEL.len()).any(|bytes| bytes == SENTINEL);
            assert!(!foreign, "bytes from behind a region");
            orderly |= packet == ORDERLY;
        });
        station.send(0, &SENT);
        orderly
    }

    fn turn(&mut self, station: &mut Station) {
        World::use_up(station);
        self.victims.turn();
    }

    fn play_driver(&mut self, bytes: &[u8]) {
        let mut station = Station::open(&self.arena, &format!("vhost:{SOCKET}"));
        let mut attacker = vhost::MaliciousPeer::new(SOCKET, bytes);
        let mut was_negotiated = false;
        while attacker.step() {
            if attacker.is_negotiated() && !was_negotiated {
                // The one knows a moment before the other.
                let link = station.port.info.link.as_ref().expect("it has a link");
                link.wait_up(Duration::from_millis(5));
            }
            was_negotiated = attacker.is_negotiated();
            self.turn(&mut station);
        }
        drop(attacker);
        for packed in [0, 1] {
            let setup = [packed, 3];
            let mut next = vhost::MaliciousPeer::new(SOCKET, &setup);
            wait_for("a packet of the next driver", || {
                next.serve();
                (0..20).any(|_| {
                    std::thread::sleep(Duration::from_micros(200));
                    World::use_up(&mut station)
                })
            });
        }
    }

    fn play_device(&mut self, bytes: &[u8]) {
        let mut attacker = vhost_device::MaliciousPeer::new(SOCKET, bytes);
        let uri = format!("vhost:{SOCKET}?role=driver&slots=16");
        let mut station = Station::open(&self.arena, &uri);
        while attacker.step() {
            self.turn(&mut station);
        }
        attacker.leave();
        wait_for("a packet of the next device", || {
            attacker.serve();
            World::use_up(&mut station)
        });
    }
}

thread_local! {
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
}

fuzz_target!(init: isolate(), |data: &[u8]| {
    let mut bytes = Bytes(data);
    let is_driver = *bytes.choice(&[true, false]);
    show(format!("{} {:?}", if is_driver { "driver" } else { "device" }, bytes.0));
    WORLD.with_borrow_mut(|world| {
        let world = world.get_or_insert_with(World::new);
        if is_driver {
            world.play_driver(bytes.0);
        } else {
            world.play_device(bytes.0);
        }
        world.victims.end();
        // Closing a port does not wait for the peer, which may have buffers for a moment.
        let until = Instant::now() + Duration::from_secs(5);
        while world.arena.accounting().held > 0 && Instant::now() < until {
            thread::yield_now();
        }
        assert_eq!(world.arena.accounting().held, 0, "buffers are lost");
    });
});
