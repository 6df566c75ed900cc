//! Ports that share memory with a malicious peer, and two that do with each other.

use std::{
    thread,
    time::{Duration, Instant},
};

use linerate_memory::{Arena, ArenaOptions, Frame, PoolCache};
use linerate_port::{Context, Counts, Port};

/// Time in which an awaited event must come.
const TIMEOUT: Duration = Duration::from_secs(8);
/// Lengths of the packets the two send each other.
pub const LENGTHS: [usize; 4] = [60, 1514, 61, 600];

/// A port, and memory for it.
pub struct Station {
    arena: Arena,
    pool: PoolCache,
    pub port: Port,
}

impl Station {
    pub fn open(arena: &Arena, uri: &str) -> Station {
        let context = Context::new(arena.clone());
        let port = linerate_port::open(&uri.parse().expect("a port"), &context);
        let port = port.unwrap_or_else(|error| panic!("{error}"));
        Station { arena: arena.clone(), pool: arena.cache(256), port }
    }

    /// Sends as many packets as there is place for, one of each length: filled with its number in
    /// the sequence.
    pub fn send(&mut self, queue: usize, lengths: &[usize]) -> usize {
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

    pub fn receive(&mut self, queue: usize, mut look: impl FnMut(&[u8])) {
        let mut frame = Frame::new(64);
        let receive = self.port.queues[queue].receive.as_mut().expect("a side to receive by");
        receive.receive(&mut self.pool, &mut frame).expect("no error");
        let _ = receive.wake();
        self.arena.packets(&frame).for_each(&mut look);
        self.pool.give(&mut frame);
    }

    pub fn is_up(&self) -> bool {
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

/// Memory of its own, in the buffers of which a frame of 9,000 bytes has room.
pub fn memory() -> Arena {
    let options =
        ArenaOptions { size: 16 << 20, huge: false, buffer_size: 9600, ..Default::default() };
    options.create().expect("16 megabytes can be had")
}

/// Two that do as they should, on an interface of a socket with another number than 0.
pub struct VictimPeers {
    stations: [Station; 2],
    arrived: [usize; 2],
    sent: [usize; 2],
}

impl VictimPeers {
    pub fn new(socket: &str) -> VictimPeers {
        let theirs = memory();
        let server = Station::open(&theirs, &format!("memif:{socket}?role=server&id=1"));
        let client = Station::open(&theirs, &format!("memif:{socket}?id=1"));
        wait_for("two good peers", || server.is_up() && client.is_up());
        VictimPeers { stations: [server, client], arrived: [0; 2], sent: [0; 2] }
    }

    /// Sends some from each to the other, and looks at those that have come.
    pub fn turn(&mut self) {
        for (station, sent) in self.stations.iter_mut().zip(&mut self.sent) {
            let taken = station.send(0, &LENGTHS);
            assert_eq!(taken, LENGTHS.len(), "a ring that nobody empties");
            *sent += taken;
        }
        self.look();
    }

    /// Asserts that packets arrive as they were sent, in order.
    fn look(&mut self) {
        for (station, arrived) in self.stations.iter_mut().zip(&mut self.arrived) {
            station.receive(0, |packet| {
                let number = *arrived % LENGTHS.len();
                assert_eq!(packet.len(), LENGTHS[number], "packet {arrived}");
                assert!(packet.iter().all(|&byte| byte == number as u8), "packet {arrived}");
                *arrived += 1;
            });
        }
    }

    /// All of it arrives, and nothing else does.
    pub fn end(&mut self) {
        wait_for("the others' packets", || {
            self.look();
            self.arrived[0] >= self.sent[1] && self.arrived[1] >= self.sent[0]
        });
        assert_eq!((self.arrived[0], self.arrived[1]), (self.sent[1], self.sent[0]));
        for station in &self.stations {
            assert_eq!((station.dropped(), station.changes()), (0, 1));
        }
    }
}

/// Waits until something has happened.
///
/// # Panics
///
/// When it does not.
pub fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let until = Instant::now() + TIMEOUT;
    while !condition() {
        assert!(Instant::now() < until, "waited in vain for {what}");
        thread::sleep(Duration::from_micros(200));
    }
}
