//! Malicious memif peer, in either role, driven by the bytes of an input, beside two that are not.
//!
//! Asserted besides the absence of panics and of accesses the kernel stops: bytes behind the peer's
//! memory are neither read nor written; the other two lose no packet and get none that is not
//! theirs; the next peer is served; no buffer is lost. The first byte says the role, and whether a
//! server is lent the packets themselves.

#![no_main]

use std::{
    cell::RefCell,
    thread,
    time::{Duration, Instant},
};

use libfuzzer_sys::fuzz_target;
use linerate_fuzz::{
    Bytes, isolate,
    peers::{LENGTHS, Station, VictimPeers, memory, wait_for},
    show,
};
use linerate_memory::Arena;
use linerate_test_support::memif::{MaliciousPeer, Role, SENTINEL};

const SOCKET: &str = "@foul";
/// Lengths of the packets sent to the malicious peer.
const SENT: [usize; 3] = [60, 9000, 2048];

/// Two that do as they should, on the socket of a server that is played foul with.
struct World {
    /// Memory of all that are here for one input.
    arena: Arena,
    victims: VictimPeers,
}

impl World {
    fn new() -> World {
        World { arena: memory(), victims: VictimPeers::new(SOCKET) }
    }

    /// Asserts that the next peer is served.
    fn serve_next(&mut self, station: &mut Station) {
        let mut next = Station::open(&self.arena, &format!("memif:{SOCKET}"));
        wait_for("the next peer", || station.is_up() && next.is_up());
        let mut arrived = 0;
        wait_for("a packet of the next peer", || {
            next.send(0, &LENGTHS[..1]);
            station.receive(0, |packet| arrived += usize::from(packet == [0; LENGTHS[0]]));
            arrived > 0
        });
    }

    fn run(&mut self, role: Role, zero_copy: bool, bytes: &[u8]) {
        let (name, uri) = match role {
            Role::Client => (SOCKET, format!("memif:{SOCKET}?role=server&queues=2")),
            Role::Server if zero_copy => {
                ("@fouls", "memif:@fouls?queues=2&slots=16&zero-copy".into())
            }
            Role::Server => ("@fouls", "memif:@fouls?queues=2&slots=16".into()),
        };
        let mut attacker = MaliciousPeer::new(role, name, bytes);
        let mut station = Station::open(&self.arena, &uri);
        let mut was_connected = false;
        while attacker.step() {
            if attacker.is_connected() && !was_connected {
                // The one knows a moment before the other.
                let link = station.port.info.link.as_ref().expect("it has a link");
                link.wait_up(Duration::from_millis(5));
            }
            was_connected = attacker.is_connected();
            for queue in 0..station.port.queues.len() {
                station.receive(queue, |packet| {
                    assert!(packet.len() >= 14);
                    let foreign = packet.windows(SENTINEL.len()).any(|bytes| bytes == SENTINEL);
                    assert!(!foreign, "bytes from behind a region");
                });
                station.send(queue, &SENT);
            }
            self.victims.turn();
        }
        drop(attacker);
        self.victims.end();
        if role == Role::Client {
            self.serve_next(&mut station);
        }
        drop(station);
        // Closing a port does not wait for the peer, which may have buffers for a moment.
        let until = Instant::now() + Duration::from_secs(5);
        while self.arena.accounting().held > 0 && Instant::now() < until {
            thread::yield_now();
        }
        assert_eq!(self.arena.accounting().held, 0, "buffers are lost");
    }
}

thread_local! {
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
}

fuzz_target!(init: isolate(), |data: &[u8]| {
    let mut bytes = Bytes(data);
    let first = bytes.byte();
    let (role, zero_copy) = ([Role::Client, Role::Server][usize::from(first % 2)], first >= 128);
    show(format!("{role:?} {zero_copy} {:?}", bytes.0));
    WORLD.with_borrow_mut(|world| {
        world.get_or_insert_with(World::new).run(role, zero_copy, bytes.0);
    });
});
