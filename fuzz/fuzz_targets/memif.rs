//! A memif peer that plays foul, in either role, as the bytes of an input say, beside two that do not.
//!
//! Asserted besides the absence of panics and of accesses the kernel stops: what lies behind the
//! peer's memory is neither read nor written; the other two lose no packet and get none that is not
//! theirs; whoever comes next is served; no buffer is lost. The first byte says the role.

#![no_main]

use std::{
    cell::RefCell,
    thread,
    time::{Duration, Instant},
};

use libfuzzer_sys::fuzz_target;
use linerate_fuzz::{Bytes, isolate, show};
use linerate_memory::{Arena, ArenaOptions, Frame, PoolCache};
use linerate_port::{Context, Counts, Port};
use linerate_testlab::memif::{Foul, Role, SENTINEL};

/// How long what has to happen may take.
const PATIENCE: Duration = Duration::from_secs(8);
const SOCKET: &str = "@foul";
/// What the two send each other, and what the peer that plays foul is sent.
const LENGTHS: [usize; 4] = [60, 1514, 61, 600];
const SENT: [usize; 3] = [60, 9000, 2048];

/// A port, and memory for it.
struct Station {
    arena: Arena,
    pool: PoolCache,
    port: Port,
}

impl Station {
    fn open(arena: &Arena, uri: &str) -> Station {
        let context = Context::new(arena.clone());
        let port = linerate_port::open(&uri.parse().expect("a port"), &context);
        let port = port.unwrap_or_else(|error| panic!("{error}"));
        Station { arena: arena.clone(), pool: arena.cache(256), port }
    }

    /// Sends what there is place for, a packet of each length: filled with its number in the
    /// sequence.
    fn send(&mut self, queue: usize, lengths: &[usize]) -> usize {
        let mut frame = Frame::new(lengths.len());
        for (number, &length) in lengths.iter().enumerate() {
            let mut slot = self.pool.take_one(length).expect("enough buffers");
            self.arena.packet_mut(&mut slot).expect("a buffer of ours").fill(number as u8);
            frame.push(slot).expect("room for all");
        }
        let transmit = self.port.queues[queue].transmit.as_mut().expect("a side to send by");
        let taken = transmit.transmit(&mut self.pool, &mut frame).expect("no error");
        let _ = transmit.wake();
        transmit.flush(&mut self.pool).expect("no error");
        self.pool.give(&mut frame);
        taken
    }

    fn receive(&mut self, queue: usize, mut look: impl FnMut(&[u8])) {
        let mut frame = Frame::new(64);
        let receive = self.port.queues[queue].receive.as_mut().expect("a side to receive by");
        receive.receive(&mut self.pool, &mut frame).expect("no error");
        let _ = receive.wake();
        self.arena.packets(&frame).for_each(&mut look);
        self.pool.give(&mut frame);
    }

    fn is_up(&self) -> bool {
        self.port.info.link.as_ref().is_some_and(|link| link.is_up())
    }

    fn changes(&self) -> u64 {
        self.port.info.link.as_ref().map_or(0, |link| link.changes())
    }

    fn dropped(&self) -> u64 {
        let sides = self.port.queues.iter().flat_map(|queue| {
            let received = queue.receive.as_ref().map(|side| side.counters().read());
            received.into_iter().chain(queue.transmit.as_ref().map(|side| side.counters().read()))
        });
        sides.sum::<Counts>().dropped()
    }
}

/// Two that do as they should, on the socket of a server that is played foul with.
struct World {
    /// Memory of all that are here for one input.
    arena: Arena,
    bystanders: [Station; 2],
    arrived: [usize; 2],
    sent: [usize; 2],
}

impl World {
    fn new() -> World {
        let options =
            ArenaOptions { size: 16 << 20, huge: false, buffer_size: 9600, ..Default::default() };
        let arena = || options.create().expect("16 megabytes can be had");
        let theirs = arena();
        let server = Station::open(&theirs, &format!("memif:{SOCKET}?role=server&id=1"));
        let client = Station::open(&theirs, &format!("memif:{SOCKET}?id=1"));
        wait_for("two good peers", || server.is_up() && client.is_up());
        World { arena: arena(), bystanders: [server, client], arrived: [0; 2], sent: [0; 2] }
    }

    fn turn(&mut self) {
        for (station, sent) in self.bystanders.iter_mut().zip(&mut self.sent) {
            let taken = station.send(0, &LENGTHS);
            assert_eq!(taken, LENGTHS.len(), "a ring that nobody empties");
            *sent += taken;
        }
        self.look();
    }

    /// What arrives is what was sent, in order.
    fn look(&mut self) {
        for (station, arrived) in self.bystanders.iter_mut().zip(&mut self.arrived) {
            station.receive(0, |packet| {
                let number = *arrived % LENGTHS.len();
                assert_eq!(packet.len(), LENGTHS[number], "packet {arrived}");
                assert!(packet.iter().all(|&byte| byte == number as u8), "packet {arrived}");
                *arrived += 1;
            });
        }
    }

    fn end(&mut self) {
        wait_for("the others' packets", || {
            self.look();
            self.arrived[0] >= self.sent[1] && self.arrived[1] >= self.sent[0]
        });
        assert_eq!((self.arrived[0], self.arrived[1]), (self.sent[1], self.sent[0]));
        for station in &self.bystanders {
            assert_eq!((station.dropped(), station.changes()), (0, 1));
        }
    }

    /// Whoever comes next is served.
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

    fn run(&mut self, role: Role, bytes: &[u8]) {
        let (name, uri) = match role {
            Role::Client => (SOCKET, format!("memif:{SOCKET}?role=server&queues=2")),
            Role::Server => ("@fouls", "memif:@fouls?queues=2&slots=16".into()),
        };
        let mut foul = Foul::new(role, name, bytes);
        let mut station = Station::open(&self.arena, &uri);
        let mut was_connected = false;
        while foul.step() {
            if foul.is_connected() && !was_connected {
                // The one knows a moment before the other.
                let link = station.port.info.link.as_ref().expect("it has a link");
                link.wait_up(Duration::from_millis(5));
            }
            was_connected = foul.is_connected();
            for queue in 0..station.port.queues.len() {
                station.receive(queue, |packet| {
                    assert!(packet.len() >= 14);
                    let foreign = packet.windows(SENTINEL.len()).any(|bytes| bytes == SENTINEL);
                    assert!(!foreign, "bytes from behind a region");
                });
                station.send(queue, &SENT);
            }
            self.turn();
        }
        drop(foul);
        self.end();
        if role == Role::Client {
            self.serve_next(&mut station);
        }
        drop(station);
        assert_eq!(self.arena.accounting().held, 0, "buffers are lost");
    }
}

fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < until, "waited in vain for {what}");
        thread::sleep(Duration::from_micros(200));
    }
}

thread_local! {
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
}

fuzz_target!(init: isolate(), |data: &[u8]| {
    let mut bytes = Bytes(data);
    let role = *bytes.choice(&[Role::Client, Role::Server]);
    show(format!("{role:?} {:?}", bytes.0));
    WORLD.with_borrow_mut(|world| world.get_or_insert_with(World::new).run(role, bytes.0));
});
