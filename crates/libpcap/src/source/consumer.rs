//! Capture as a consumer of a cluster, which shares the packets of another process.

use std::{
    os::fd::AsFd,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use linerate_client as client;
use linerate_memory::Frame;
use linerate_port::{Counts, DRAIN_LIMIT, DropReason, Interest, Wake};
use smallvec::smallvec;

use super::{OpenFailure, OpenedSource, Source, Tally, Wakes};
use crate::inject::{PacketSink, SendFailure};

/// The consumer, for the receiving and the sending side, which may be two threads.
type Shared = Arc<Mutex<client::Consumer>>;

/// The receiving side.
pub(crate) struct Consumer {
    consumer: Shared,
    /// Event to wait for: the consumer's descriptor, once more, to be lent without its lock.
    events: std::os::fd::OwnedFd,
}

impl Consumer {
    /// Takes the place of that name.
    pub(super) fn open(socket: &str, name: &str) -> Result<OpenedSource, OpenFailure> {
        let consumer = client::Consumer::attach(socket, name)?;
        if consumer.is_asked() {
            return Err(OpenFailure::other(format!(
                "{socket}: {name} is asked what is to become of packets, which programs that capture \
                 do not answer; name a Consumer",
            )));
        }
        let events = consumer.as_fd().try_clone_to_owned();
        let events = events.map_err(|error| OpenFailure::other(error.to_string()))?;
        let arena = consumer.arena().clone();
        let mode = format!("consumer {name} of the cluster at {socket}");
        let sent = consumer.figures().sent;
        // Without a buffer to write to, a packet would be waited with for ever.
        let sends = consumer.spare() > 0;
        let consumer: Shared = Arc::new(Mutex::new(consumer));
        let source = Box::new(Consumer { consumer: Arc::clone(&consumer), events });
        let sink = Box::new(ConsumerSink { consumer, sent });
        Ok(OpenedSource {
            source,
            sink: sends.then_some(sink as Box<dyn PacketSink>),
            arena,
            raw: false,
            stamps: true,
            directions: false,
            mode,
        })
    }
}

fn lock(consumer: &Shared) -> std::sync::MutexGuard<'_, client::Consumer> {
    consumer.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Source for Consumer {
    fn receive(&mut self, frame: &mut Frame) -> Result<usize, String> {
        let mut consumer = lock(&self.consumer);
        if !frame.is_empty() {
            consumer.release(frame).map_err(|error| error.to_string())?;
        }
        consumer.receive_into(frame).map_err(|error| error.to_string())
    }

    fn wakes(&mut self) -> Result<Wakes<'_>, String> {
        let nothing = lock(&self.consumer).prepare_wait().map_err(|error| error.to_string())?;
        Ok(smallvec![if nothing {
            Wake::Fd(self.events.as_fd(), Interest::Read)
        } else {
            Wake::Now
        }])
    }

    fn tally(&self) -> Arc<dyn Tally> {
        let (packets, lost) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(ConsumerCounters { consumer: Arc::clone(&self.consumer), packets, lost })
    }

    fn close(&mut self, frame: &mut Frame) {
        let _ = lock(&self.consumer).release(frame);
    }
}

/// The server's figures of this consumer, and the last that were read.
struct ConsumerCounters {
    consumer: Shared,
    packets: AtomicU64,
    lost: AtomicU64,
}

impl Tally for ConsumerCounters {
    fn read(&self) -> Counts {
        // A signal's handler that interrupts the owner of the lock must not wait for it.
        if let Ok(consumer) = self.consumer.try_lock() {
            let figures = consumer.figures();
            self.packets.store(figures.packets, Ordering::Relaxed);
            self.lost.store(figures.lost_full, Ordering::Relaxed);
        }
        let packets = self.packets.load(Ordering::Relaxed);
        let mut counts = Counts { packets, ..Counts::default() };
        counts.drops[DropReason::Overrun as usize] = self.lost.load(Ordering::Relaxed);
        counts
    }
}

struct ConsumerSink {
    consumer: Shared,
    /// Packets the server will have had from this place when it has all.
    sent: u64,
}

/// Interval of looks whether the server has the packets sent.
const LOOK: Duration = Duration::from_micros(50);

impl PacketSink for ConsumerSink {
    fn send(&mut self, packet: &[u8], _: bool) -> Result<(), SendFailure> {
        let mut consumer = lock(&self.consumer);
        if packet.len() > consumer.arena().room() {
            return Err(SendFailure::Errno(libc::EMSGSIZE));
        }
        match consumer.transmit(packet) {
            Ok(true) => {
                self.sent += 1;
                Ok(())
            }
            Ok(false) => Err(SendFailure::Full),
            Err(error) => Err(SendFailure::Text(error.to_string())),
        }
    }

    /// The server drops packets it has not passed on of a program that has gone.
    fn close(&mut self) {
        let until = Instant::now() + DRAIN_LIMIT;
        while lock(&self.consumer).figures().sent < self.sent && Instant::now() < until {
            thread::sleep(LOOK);
        }
    }
}
