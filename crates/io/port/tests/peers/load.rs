//! Numbered packets there and back, while peers come and go.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use linerate_memory::Frame;
use linerate_port::DropReason;

use crate::rig::{Station, TIMEOUT};

/// Number of restarts of each side, unless `LINERATE_RESTARTS` gives one: starting DPDK takes most
/// of a second.
const RESTARTS: usize = 2;

pub(crate) fn restarts() -> usize {
    let restarts = std::env::var("LINERATE_RESTARTS");
    restarts.map_or(RESTARTS, |number| number.parse().unwrap())
}

/// Packets with numbers that count on and on, so that one that comes twice, or late, is noticed.
#[derive(Default)]
pub(crate) struct Load {
    next: u64,
    last: u64,
    /// Packets that came back.
    pub(crate) back: usize,
    /// Packets the port took.
    pub(crate) taken: u64,
}

impl Load {
    /// Sends without a pause, independent of the packets that come back, until `until` is true.
    /// Returns how many came back.
    #[track_caller]
    pub(crate) fn run(
        &mut self,
        station: &mut Station,
        mut until: impl FnMut(&Station) -> bool,
    ) -> usize {
        let before = self.back;
        let limit = Instant::now() + TIMEOUT;
        while !until(station) {
            assert!(Instant::now() < limit, "nothing changes: {}", station.detail());
            let mut frame = Frame::new(32);
            station.pool.take(&mut frame, 32, 60);
            for slot in frame.slots_mut() {
                self.next += 1;
                let packet = station.arena.packet_mut(slot).unwrap();
                packet.fill(0xa5);
                packet[14..22].copy_from_slice(&self.next.to_be_bytes());
            }
            let transmit = station.port.queues[0].transmit.as_mut().unwrap();
            self.taken += transmit.transmit(&mut station.pool, &mut frame).unwrap() as u64;
            station.pool.give(&mut frame);
            let back = station.take(0);
            for packet in &back {
                assert_eq!(packet.len(), 60);
                let number = u64::from_be_bytes(packet[14..22].try_into().unwrap());
                assert!(number > self.last && number <= self.next, "{number} after {}", self.last);
                self.last = number;
            }
            self.back += back.len();
            if back.is_empty() {
                thread::yield_now();
            }
        }
        self.back - before
    }

    /// Until so many packets came back.
    #[track_caller]
    pub(crate) fn flow(&mut self, station: &mut Station, packets: usize) {
        let limit = Instant::now() + TIMEOUT;
        let mut count = 0;
        while count < packets {
            let until = Instant::now() + Duration::from_millis(2);
            count += self.run(station, |_| Instant::now() >= until);
            assert!(Instant::now() < limit, "a stuck ring: {}", station.detail());
        }
        // Packets that a driver sends before it has enabled its queue are to be thrown away.
        let counts = station.received();
        assert_eq!(counts.dropped(), counts.dropped_for(DropReason::LinkDown));
    }
}

/// Open files, and mappings of shared memory: with those of the process's signaller of eventfds, which stays.
pub(crate) fn resources() -> (usize, usize) {
    linerate_linux::eventfd::Signaller::shared().unwrap();
    let mappings = fs::read_to_string("/proc/self/maps").unwrap();
    let shared = mappings.lines().filter(|line| line.split(' ').nth(1).unwrap().ends_with('s'));
    (fs::read_dir("/proc/self/fd").unwrap().count(), shared.count())
}

/// The [`resources`] once they have stayed equal for a second: threads close a peer's descriptors, and nothing tells
/// when the last has.
pub(crate) fn settled(station: &mut Station) -> (usize, usize) {
    let (mut last, mut since) = (resources(), Instant::now());
    while since.elapsed() < Duration::from_secs(1) {
        let_go(station);
        thread::sleep(Duration::from_millis(20));
        let now = resources();
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
    last
}

/// A queue lets go of its ring when it is looked at.
pub(crate) fn let_go(station: &mut Station) {
    let transmit = station.port.queues[0].transmit.as_mut().unwrap();
    transmit.flush(&mut station.pool).unwrap();
    assert!(station.take(0).is_empty());
}
