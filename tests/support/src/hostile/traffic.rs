//! Honest traffic: datagrams between two hosts, paced, numbered, and stamped with the time of sending.
//!
//! Both hosts are on one machine and share its clock. A datagram that is lost is missed by its number when
//! nothing more arrives after the senders have stopped.

use std::{
    net::UdpSocket,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;
use rustix::time::ClockId;

use super::{
    Scene, Traffic,
    figures::{TrafficFigures, histogram},
};
use crate::wait_until;

/// Interval of the datagrams of a direction.
pub(super) const GAP: Duration = Duration::from_millis(1);
/// Time that a receiver waits for a datagram before it checks for the end.
const LOOK: Duration = Duration::from_millis(20);
/// Silence after which missing datagrams count as lost.
const QUIET: Duration = Duration::from_secs(3);
/// Longest wait for datagrams that are on their way.
const DRAIN: Duration = Duration::from_secs(20);
/// Receive buffer, for datagrams that arrive while a receiver does not run.
const ROOM: usize = 16 << 20;
const MAGIC: [u8; 4] = *b"HNST";
/// The signature of `linerate generate`.
const SIGNED: [u8; 4] = *b"LNRT";
/// The fields of a signature that have 48 bits.
const MASK: u64 = (1 << 48) - 1;
/// Numbers that may come behind a later one at the beginning, and the most of a measurement.
const EARLIER: u64 = 256;
const MOST: u64 = 1 << 30;

/// The sockets of the two hosts.
#[derive(Debug)]
pub(super) struct Hosts {
    sockets: [UdpSocket; 2],
    traffic: Traffic,
    /// Numbers measurements, so that late datagrams of one are not taken for those of the next.
    run: u32,
}

/// One direction of a measurement.
#[derive(Default)]
struct Direction {
    sent: AtomicU64,
    received: AtomicU64,
}

/// Results of a receiver.
struct Received {
    seen: ArrivedNumbers,
    latency: Histogram<u64>,
}

impl Hosts {
    /// Sockets in the namespaces of the scene's hosts.
    pub(super) fn new(scene: &Scene, traffic: Traffic) -> Hosts {
        let sockets = [0, 1].map(|at: usize| {
            scene.hosts()[at].enter(|| {
                let socket =
                    UdpSocket::bind((Scene::HOSTS[at], Scene::DATAGRAMS)).expect("a socket");
                rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, ROOM)
                    .expect("root may have large buffers");
                socket.set_read_timeout(Some(LOOK)).expect("a timeout");
                socket
            })
        });
        Hosts { sockets, traffic, run: 0 }
    }

    /// Waits until datagrams pass, in both directions.
    pub(super) fn wait(&self, timeout: Duration, is_alive: impl FnMut() -> bool) -> bool {
        let mut is_alive = is_alive;
        let mut arrived = [self.traffic == Traffic::None, self.traffic != Traffic::Through];
        let passes = || {
            if !is_alive() {
                return true;
            }
            for at in [0, 1] {
                if self.traffic == Traffic::Through {
                    // The interface has just been made; an error shows in that nothing arrives.
                    let _ = self.send(at, 0, 0);
                }
                arrived[at] |= self.sockets[1 - at].recv(&mut [0; 2048]).is_ok();
            }
            arrived == [true; 2]
        };
        wait_until(passes, timeout) && arrived == [true; 2]
    }

    fn send(&self, from: usize, run: u32, number: u64) -> std::io::Result<()> {
        let mut bytes = [0; 24];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..8].copy_from_slice(&run.to_be_bytes());
        bytes[8..16].copy_from_slice(&number.to_be_bytes());
        bytes[16..].copy_from_slice(&now().to_be_bytes());
        let to = (Scene::HOSTS[1 - from], Scene::DATAGRAMS);
        self.sockets[from].send_to(&bytes, to).map(|_| ())
    }

    /// Sends datagrams while `wait` runs, and returns their loss and latency.
    pub(super) fn measure(&mut self, wait: impl FnOnce()) -> TrafficFigures {
        self.run += 1;
        match self.traffic {
            Traffic::Through => self.through(wait),
            Traffic::Generated => self.generated(wait),
            Traffic::None => {
                wait();
                TrafficFigures::default()
            }
        }
    }

    fn through(&self, wait: impl FnOnce()) -> TrafficFigures {
        let directions: [Direction; 2] = Default::default();
        let (ends, drained) = (AtomicBool::new(false), AtomicBool::new(false));
        let received = thread::scope(|scope| {
            let receivers = [0, 1].map(|from: usize| {
                let direction = &directions[from];
                let goes_on = || !drained.load(Ordering::Relaxed);
                scope.spawn(move || self.receive(1 - from, direction, goes_on))
            });
            let senders = [0, 1].map(|from: usize| {
                let direction = &directions[from];
                let goes_on = || !ends.load(Ordering::Relaxed);
                scope.spawn(move || self.send_paced(from, direction, goes_on))
            });
            wait();
            ends.store(true, Ordering::Relaxed);
            for sender in senders {
                sender.join().expect("a sender does not panic");
            }
            drain(&directions);
            drained.store(true, Ordering::Relaxed);
            receivers.map(|receiver| receiver.join().expect("a receiver does not panic"))
        });
        let sent = directions.iter().map(|direction| direction.sent.load(Ordering::Relaxed)).sum();
        figures(sent, &received)
    }

    /// Receives a program's own stream. A gap in the numbers is a loss.
    fn generated(&self, wait: impl FnOnce()) -> TrafficFigures {
        let (direction, ends) = (Direction::default(), AtomicBool::new(false));
        let received = thread::scope(|scope| {
            let (direction, ends) = (&direction, &ends);
            let goes_on = || !ends.load(Ordering::Relaxed);
            let receiver = scope.spawn(move || self.receive(1, direction, goes_on));
            wait();
            ends.store(true, Ordering::Relaxed);
            receiver.join().expect("a receiver does not panic")
        });
        figures(received.seen.span(), &[received])
    }

    fn send_paced(&self, from: usize, direction: &Direction, goes_on: impl Fn() -> bool) {
        let begun = Instant::now();
        let mut number = 0;
        while goes_on() {
            let due = begun + GAP * u32::try_from(number).expect("a trial of days");
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if self.send(from, self.run, number).is_ok() {
                number += 1;
                direction.sent.store(number, Ordering::Relaxed);
            }
        }
    }

    fn receive(&self, at: usize, direction: &Direction, goes_on: impl Fn() -> bool) -> Received {
        let mut received = Received { seen: ArrivedNumbers::default(), latency: histogram() };
        let mut bytes = [0; 2048];
        while goes_on() {
            // An error is mostly that nothing came for a moment.
            let Ok(len) = self.sockets[at].recv(&mut bytes) else { continue };
            let Some((number, age)) = self.read(&bytes[..len]) else { continue };
            if received.seen.insert(number) {
                received.latency.saturating_record(age);
                direction.received.fetch_add(1, Ordering::Relaxed);
            }
        }
        received
    }

    /// The number of a datagram of this measurement, and how long it was on its way.
    fn read(&self, bytes: &[u8]) -> Option<(u64, u64)> {
        match self.traffic {
            Traffic::Generated => {
                let bytes = bytes.first_chunk::<18>().filter(|bytes| bytes[..4] == SIGNED)?;
                let long = |at: usize| {
                    bytes[at..at + 6].iter().fold(0, |value, byte| value << 8 | u64::from(*byte))
                };
                Some((long(6), now().wrapping_sub(long(12)) & MASK))
            }
            _ => {
                let bytes = bytes.first_chunk::<24>().filter(|bytes| bytes[..4] == MAGIC)?;
                let long = |at: usize| {
                    bytes[at..at + 8].iter().fold(0, |value, byte| value << 8 | u64::from(*byte))
                };
                let of_this_run = bytes[4..8] == self.run.to_be_bytes();
                of_this_run.then(|| (long(8), now().saturating_sub(long(16))))
            }
        }
    }
}

fn figures(sent: u64, received: &[Received]) -> TrafficFigures {
    let mut latency = histogram();
    for of in received {
        latency.add(&of.latency).expect("histograms with the same bounds");
    }
    TrafficFigures {
        sent,
        received: received.iter().map(|of| of.seen.count).sum(),
        duplicates: received.iter().map(|of| of.seen.again).sum(),
        latency: (&latency).into(),
    }
}

/// Waits until all datagrams have arrived, or no more do.
fn drain(directions: &[Direction]) {
    let sum = |of: fn(&Direction) -> &AtomicU64| -> u64 {
        directions.iter().map(|direction| of(direction).load(Ordering::Relaxed)).sum()
    };
    let sent = sum(|direction| &direction.sent);
    let mut last = (0, Instant::now());
    let is_over = || {
        let received = sum(|direction| &direction.received);
        if received > last.0 {
            last = (received, Instant::now());
        }
        received == sent || last.1.elapsed() > QUIET
    };
    // Datagrams missing then are lost.
    let _ = wait_until(is_over, DRAIN);
}

/// Nanoseconds of the clock that all of the machine shares.
fn now() -> u64 {
    let time = rustix::time::clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The numbers that have come.
#[derive(Default)]
struct ArrivedNumbers {
    /// A bit for each from the first.
    words: Vec<u64>,
    /// The number of the first bit, and the least and the largest that have come.
    bounds: Option<[u64; 3]>,
    count: u64,
    again: u64,
}

impl ArrivedNumbers {
    /// Notes a number; `true` when it is new.
    fn insert(&mut self, number: u64) -> bool {
        // A generator starts at any number, and its first datagrams may come in another order.
        let [base, least, largest] =
            self.bounds.get_or_insert([number.saturating_sub(EARLIER), number, number]);
        let Some(at) = number.checked_sub(*base).filter(|at| *at < MOST) else { return false };
        let (word, bit) = ((at / 64) as usize, 1 << (at % 64));
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        if self.words[word] & bit != 0 {
            self.again += 1;
            return false;
        }
        self.words[word] |= bit;
        (*least, *largest) = (number.min(*least), number.max(*largest));
        self.count += 1;
        true
    }

    /// Count of the numbers from the least to the largest.
    fn span(&self) -> u64 {
        self.bounds.map_or(0, |[_, least, largest]| largest - least + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_counted_once() {
        let mut seen = ArrivedNumbers::default();
        assert!(seen.insert(100) && seen.insert(101) && seen.insert(230));
        assert!(!seen.insert(101));
        assert_eq!((seen.count, seen.again, seen.span()), (3, 1, 131));
    }
}
