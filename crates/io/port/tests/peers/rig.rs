//! Support for the tests: ports on memory of their own, and packets that can be told apart.

use std::{
    sync::{
        atomic::{AtomicU32, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use linerate_memory::{Arena, ArenaOptions, Frame, PoolCache};
use linerate_port::{Context, Counts, Port, Receive, Transmit};

/// Time that a test waits for an event before it fails.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);

/// A unique name for an abstract socket.
pub(crate) fn socket() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    format!("@linerate-test-{}-{number}", std::process::id())
}

/// A port with memory of its own.
pub(crate) struct Station {
    pub(crate) arena: Arena,
    pub(crate) pool: PoolCache,
    pub(crate) port: Port,
}

pub(crate) fn arena(buffer_size: usize) -> Arena {
    arena_of(8 << 20, buffer_size)
}

/// Of that many bytes.
fn arena_of(size: usize, buffer_size: usize) -> Arena {
    let options = ArenaOptions { size, huge: false, buffer_size, ..Default::default() };
    options.create().unwrap()
}

impl Station {
    #[track_caller]
    pub(crate) fn open(uri: &str) -> Station {
        Station::with(uri, 2112)
    }

    /// With buffers of another size.
    #[track_caller]
    pub(crate) fn with(uri: &str, buffer_size: usize) -> Station {
        Station::on(uri, arena(buffer_size))
    }

    /// With enough buffers of that size to lend a peer `slots` of them.
    #[track_caller]
    pub(crate) fn lending(uri: &str, slots: usize, buffer_size: usize) -> Station {
        Station::on(uri, arena_of((8 << 20) + 2 * slots * buffer_size, buffer_size))
    }

    #[track_caller]
    fn on(uri: &str, arena: Arena) -> Station {
        let port = linerate_port::open(&uri.parse().unwrap(), &Context::new(arena.clone()));
        let port = port.unwrap_or_else(|error| panic!("{error}"));
        Station { pool: arena.cache(256), arena, port }
    }

    pub(crate) fn receive(&mut self, queue: usize) -> &mut dyn Receive {
        self.port.queues[queue].receive.as_deref_mut().unwrap()
    }

    pub(crate) fn transmit(&mut self, queue: usize) -> &mut dyn Transmit {
        self.port.queues[queue].transmit.as_deref_mut().unwrap()
    }

    #[track_caller]
    pub(crate) fn wait_up(&self) {
        let link = self.port.info.link.as_ref().unwrap();
        assert!(link.wait_up(TIMEOUT), "the link stays down: {}", link.detail());
    }

    #[track_caller]
    pub(crate) fn wait_down(&self) {
        let link = self.port.info.link.clone().unwrap();
        wait_for("the link to go down", || !link.is_up());
    }

    pub(crate) fn detail(&self) -> String {
        self.port.info.link.as_ref().unwrap().detail()
    }

    /// Sends these packets, waiting for place.
    #[track_caller]
    pub(crate) fn send(&mut self, queue: usize, packets: &[Vec<u8>]) {
        let until = Instant::now() + TIMEOUT;
        for some in packets.chunks(64) {
            let mut frame = Frame::new(64);
            for packet in some {
                let mut slot = self.pool.take_one(packet.len()).unwrap();
                self.arena.packet_mut(&mut slot).unwrap().copy_from_slice(packet);
                frame.push(slot).unwrap();
            }
            while !frame.is_empty() {
                let queue = &mut self.port.queues[queue];
                let transmit = queue.transmit.as_mut().unwrap();
                if transmit.transmit(&mut self.pool, &mut frame).unwrap() == 0 {
                    thread::yield_now();
                }
                assert!(Instant::now() < until, "nobody takes the packets");
            }
        }
    }

    /// Takes the packets that are there now.
    pub(crate) fn take(&mut self, queue: usize) -> Vec<Vec<u8>> {
        let mut frame = Frame::new(64);
        let receive = self.port.queues[queue].receive.as_mut().unwrap();
        receive.receive(&mut self.pool, &mut frame).unwrap();
        let packets = self.arena.packets(&frame).map(<[u8]>::to_vec).collect();
        self.pool.give(&mut frame);
        packets
    }

    /// The next `count` packets.
    #[track_caller]
    pub(crate) fn expect(&mut self, queue: usize, count: usize) -> Vec<Vec<u8>> {
        let mut packets = Vec::new();
        wait_for("packets", || {
            packets.extend(self.take(queue));
            packets.len() >= count
        });
        packets
    }

    pub(crate) fn received(&self) -> Counts {
        let sides = self.port.queues.iter().filter_map(|queue| queue.receive.as_ref());
        sides.map(|side| side.counters().read()).sum()
    }

    pub(crate) fn sent(&self) -> Counts {
        let sides = self.port.queues.iter().filter_map(|queue| queue.transmit.as_ref());
        sides.map(|side| side.counters().read()).sum()
    }
}

#[track_caller]
pub(crate) fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let until = Instant::now() + TIMEOUT;
    while !condition() {
        assert!(Instant::now() < until, "waited in vain for {what}");
        thread::sleep(Duration::from_micros(200));
    }
}

/// All buffers are free. Those that a peer was lent are a moment after a port was closed, which does not
/// wait for the peer.
#[track_caller]
pub(crate) fn all_come_home(arena: &Arena) {
    wait_for("all buffers to be back", || arena.accounting().held == 0);
}

/// Runs it on a thread, and fails when it does not end.
#[track_caller]
pub(crate) fn in_time<T: Send + 'static>(
    what: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> T {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || tell.send(run()));
    told.recv_timeout(TIMEOUT).unwrap_or_else(|_| panic!("{what} waits for a peer"))
}

/// Packets of these lengths, each of which can be told from the others.
pub(crate) fn packets(lengths: impl IntoIterator<Item = usize>) -> Vec<Vec<u8>> {
    let of = |(number, length): (usize, usize)| {
        let mut packet: Vec<u8> =
            (0..length).map(|at| (at * 7 + number * 31 + (at >> 8)) as u8).collect();
        packet[..8].copy_from_slice(&(number as u64).to_be_bytes());
        packet
    };
    lengths.into_iter().enumerate().map(of).collect()
}
