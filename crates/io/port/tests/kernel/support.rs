//! Support for the tests of kernel ports: a place to open ports, and a small forwarder.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use linerate_memory::{Arena, ArenaOptions, Frame, PoolCache};
use linerate_port::{Context, Counts, OpenError, Port, PortError, Receive, Transmit, wait_any};
use linerate_test_support::Namespace;

/// Time that a test waits for an event before it fails.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);

/// An arena of 4 MiB with small pages.
pub(crate) fn arena() -> Arena {
    ArenaOptions { size: 4 << 20, huge: false, ..Default::default() }.create().unwrap()
}

/// Opens a port inside a namespace.
pub(crate) fn try_open(space: &Namespace, arena: &Arena, uri: &str) -> Result<Port, OpenError> {
    let context = Context::new(arena.clone());
    space.enter(|| linerate_port::open(&uri.parse().unwrap(), &context))
}

/// Opens a port inside a namespace that can be had.
#[track_caller]
pub(crate) fn open(space: &Namespace, arena: &Arena, uri: &str) -> Port {
    try_open(space, arena, uri).unwrap_or_else(|error| panic!("{error}"))
}

/// Opens a port that cannot be had.
#[track_caller]
pub(crate) fn refused(space: &Namespace, arena: &Arena, uri: &str) -> OpenError {
    match try_open(space, arena, uri) {
        Ok(port) => panic!("{port:?} was opened"),
        Err(error) => error,
    }
}

/// The only queue's sides.
pub(crate) fn sides(mut port: Port) -> (Box<dyn Receive>, Box<dyn Transmit>) {
    let queue = port.queues.remove(0);
    (queue.receive.unwrap(), queue.transmit.unwrap())
}

/// A frame of `length` bytes that differ, with `header` behind the addresses.
pub(crate) fn frame(length: usize, header: &[u8], seed: u8) -> Vec<u8> {
    let mut bytes: Vec<u8> =
        (0..length).map(|at| (at * 7) as u8 ^ (at >> 8) as u8 ^ seed).collect();
    bytes[..12].copy_from_slice(&[2, 0, 0, 0, 0, 0xb, 2, 0, 0, 0, 0, 0xa]);
    bytes[12..12 + header.len()].copy_from_slice(header);
    bytes
}

/// Frames of all lengths, tagged once, twice, or not.
pub(crate) fn assortment() -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for length in (60..=1514).step_by(97).chain([61, 1513, 1514]) {
        frames.push(frame(length, &[0x88, 0xb5], 1));
    }
    for length in [64, 600, 1514, 1518] {
        frames.push(frame(length, &[0x81, 0x00, 0x60, 0x2a, 0x88, 0xb5], 2));
    }
    for length in [68, 600, 1514] {
        frames.push(frame(length, &[0x88, 0xa8, 0x00, 0x07, 0x81, 0x00, 0xef, 0xff, 8, 0], 3));
        frames.push(frame(length, &[0x81, 0x00, 0x00, 0x07, 0x81, 0x00, 0x0f, 0xfe, 8, 0], 4));
    }
    frames
}

/// Puts frames of these bytes at the end of `to`.
pub(crate) fn put(pool: &mut PoolCache, to: &mut Frame, frames: &[Vec<u8>]) {
    for bytes in frames {
        let mut slot = pool.take_one(bytes.len()).unwrap();
        pool.arena().packet_mut(&mut slot).unwrap().copy_from_slice(bytes);
        to.push(slot).unwrap();
    }
}

/// Sends everything, waiting for place.
#[track_caller]
pub(crate) fn send(pool: &mut PoolCache, transmit: &mut dyn Transmit, frames: &[Vec<u8>]) {
    let deadline = Instant::now() + TIMEOUT;
    let mut frame = Frame::new(64);
    for run in frames.chunks(64) {
        put(pool, &mut frame, run);
        while !frame.is_empty() {
            transmit.transmit(pool, &mut frame).unwrap();
            assert!(Instant::now() < deadline, "never sent");
        }
    }
}

/// Receives `count` packets.
#[track_caller]
pub(crate) fn receive(pool: &mut PoolCache, from: &mut dyn Receive, count: usize) -> Vec<Vec<u8>> {
    let deadline = Instant::now() + TIMEOUT;
    let mut got = Vec::new();
    let mut frame = Frame::new(32);
    while got.len() < count {
        assert!(Instant::now() < deadline, "only {} of {count} packets came", got.len());
        if from.receive(pool, &mut frame).unwrap() == 0 {
            from.wait(Duration::from_millis(100)).unwrap();
        }
        got.extend(pool.arena().packets(&frame).map(<[u8]>::to_vec));
        pool.give(&mut frame);
    }
    got
}

/// Result of forwarding, and counts: received from the first port, sent to the second, received
/// from the second, and sent to the first.
pub(crate) type Outcome = (Result<(), PortError>, [Counts; 4]);

/// Forwards between two ports, both ways, until dropped.
pub(crate) struct Forwarder {
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<Outcome>>,
}

impl Forwarder {
    /// Starts forwarding between two ports of one queue.
    pub(crate) fn start(arena: &Arena, a: Port, b: Port) -> Forwarder {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, arena) = (Arc::clone(&stop), arena.clone());
        let thread = thread::spawn(move || forward(&arena, a, b, &stopped));
        Forwarder { stop, thread: Some(thread) }
    }

    /// Stops forwarding.
    pub(crate) fn stop(mut self) -> Outcome {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn forward(arena: &Arena, a: Port, b: Port, stop: &AtomicBool) -> Outcome {
    let mut pool = arena.cache(256);
    let (mut from_a, mut to_a) = sides(a);
    let (mut from_b, mut to_b) = sides(b);
    let (mut there, mut back) = (Frame::new(64), Frame::new(64));
    let mut step = || {
        let mut moved = move_some(&mut pool, &mut *from_a, &mut *to_b, &mut there)?;
        moved += move_some(&mut pool, &mut *from_b, &mut *to_a, &mut back)?;
        if moved == 0 && there.is_empty() && back.is_empty() {
            wait_any(&[from_a.wake(), from_b.wake()], Duration::from_millis(20)).unwrap();
        }
        Ok(())
    };
    let mut result = Ok(());
    while result.is_ok() && !stop.load(Ordering::Relaxed) {
        result = step();
    }
    pool.give(&mut there);
    pool.give(&mut back);
    from_a.refresh();
    from_b.refresh();
    let counts = [from_a.counters(), to_b.counters(), from_b.counters(), to_a.counters()];
    (result, counts.map(|counters| counters.read()))
}

fn move_some(
    pool: &mut PoolCache,
    from: &mut dyn Receive,
    to: &mut dyn Transmit,
    frame: &mut Frame,
) -> Result<usize, PortError> {
    let received = from.receive(pool, frame)?;
    if !frame.is_empty() {
        to.transmit(pool, frame)?;
    }
    Ok(received)
}

/// Nothing that one side received was not sent or counted by the other.
#[track_caller]
pub(crate) fn assert_balanced(counts: &[Counts; 4]) {
    for pair in counts.chunks(2) {
        let (received, sent) = (pair[0], pair[1]);
        assert_eq!(received.packets, sent.packets + sent.dropped(), "{counts:?}");
    }
}
