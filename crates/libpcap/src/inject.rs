//! Sending: `pcap_inject`, `pcap_sendpacket` and their bursts.
//!
//! A packet that is sent outside of a callback is on its way when the call returns. Packets that a
//! callback of `pcap_dispatch` or `pcap_loop` sends, by any handle, go in bursts: when there are
//! [`HOLD`] of them, and before that call looks for more packets, sleeps or returns. Packets sent
//! in the last callback of a call that is given a count go at once, since none comes behind it.
//! A call that finds no room waits for it, unless its handle is non-blocking or its loop is broken;
//! then the rest goes with the next call, or when the sending handle is closed.

mod boundary;
mod port;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(crate) use self::{
    boundary::{Anchor, Boundary, flush_held, is_reading},
    port::PortSink,
};

/// Packets that are held back at most.
const HOLD: usize = 64;

/// The reason why a packet was not sent.
#[derive(Debug)]
pub(crate) enum SendFailure {
    /// There is no room for it now.
    Full,
    /// An error number of the kernel.
    Errno(i32),
    /// Another error, as text.
    Text(String),
}

/// Destination of packets.
pub(crate) trait PacketSink: Send {
    /// Takes a packet; it may hold it back until [`PacketSink::flush`] when it is told so.
    fn send(&mut self, packet: &[u8], hold: bool) -> Result<(), SendFailure>;

    /// Sends the packets held back; returns how many packets there was no room for yet.
    fn flush(&mut self) -> usize {
        0
    }

    /// Waits until there may be room.
    fn wait(&mut self) {
        std::thread::sleep(std::time::Duration::from_micros(50));
    }

    /// Waits a while for packets on their way, and closes.
    fn close(&mut self) {}
}

/// The packet sink of a handle: the receiving thread may be another one, and both may send.
#[derive(Clone)]
pub(crate) struct Sender(Arc<Mutex<Box<dyn PacketSink>>>);

impl Sender {
    pub(crate) fn new(sink: Box<dyn PacketSink>) -> Sender {
        Sender(Arc::new(Mutex::new(sink)))
    }

    fn lock(&self) -> MutexGuard<'_, Box<dyn PacketSink>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a packet. Where there is no room it waits for some, until `ends` returns an error
    /// number.
    pub(crate) fn send(
        &self,
        packet: &[u8],
        ends: impl Fn() -> Option<i32>,
    ) -> Result<(), SendFailure> {
        let hold = boundary::holds_back();
        let mut sink = self.lock();
        loop {
            match sink.send(packet, hold) {
                Err(SendFailure::Full) => match ends() {
                    Some(number) => return Err(SendFailure::Errno(number)),
                    None => {
                        sink.flush();
                        sink.wait();
                    }
                },
                Err(failure) => return Err(failure),
                Ok(()) => break,
            }
        }
        drop(sink);
        if hold {
            boundary::remember(self);
        }
        Ok(())
    }

    /// Sends the packets held back, which the program has been told are sent; waits for room until
    /// `ends` returns true. Returns true if all are on their way.
    fn flush(&self, ends: impl Fn() -> bool) -> bool {
        let mut sink = self.lock();
        while sink.flush() > 0 {
            if ends() {
                return false;
            }
            sink.wait();
        }
        true
    }

    /// Sends as many packets as there is room for now, if no thread is sending.
    fn flush_some(&self) {
        if let Ok(mut sink) = self.0.try_lock() {
            sink.flush();
        }
    }

    /// Forgets packets held back by this thread, and leaves the sink open: another process uses it.
    pub(crate) fn detach(&self) {
        boundary::forget(self);
    }

    /// Waits for packets on their way, and closes.
    pub(crate) fn close(&self) {
        boundary::forget(self);
        self.lock().close();
    }

    fn is_same(&self, other: &Sender) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
