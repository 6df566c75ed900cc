//! The transmitting side of `pcap:FILE`: frames go to a file instead of a wire.
//!
//! The time written is that of the burst, or with `times=packet` the one a packet was received at;
//! then its length is the one it had before a capture cut it. In a cooked capture the interface by
//! which it came takes the place of its Ethernet header. Nothing is dropped: a write that
//! fails is an error, with the frames not written left in the frame. Writing may wait for the disk.
//! The file is completed when the port is closed. It carries no statistics: losses before a frame
//! came here are known only to its source.

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use linerate_memory::{Frame, PoolCache};

use super::cooked::{ETHERNET_HEADER, HEADER, header};
use super::error::Error;
use super::rotate::Rotating;
use super::writer::Writer;
use crate::counters::Counters;
use crate::error::{PortError, PortFault};
use crate::port::Transmit;

/// Nanoseconds since 1970.
pub(super) fn wall_clock() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

/// Destination of records.
#[derive(Debug)]
pub(super) enum Output {
    File(Writer),
    Files(Box<Rotating>),
}

impl Output {
    fn write(&mut self, ts_ns: u64, missing: u32, packet: &[u8]) -> Result<(), Error> {
        // A slot's length is 16 bits, and that of a header less.
        let length = (packet.len() as u32).saturating_add(missing);
        match self {
            Self::File(writer) => writer.write(ts_ns, length, packet),
            Self::Files(files) => files.write(ts_ns, length, packet),
        }
    }

    fn flush(&mut self) -> Result<(), Error> {
        match self {
            Self::File(writer) => writer.flush(),
            Self::Files(files) => files.flush(),
        }
    }
}

/// Records to a file. `Now` tells the time in nanoseconds since 1970.
pub(super) struct Recorder<Now> {
    port: String,
    output: Output,
    /// Whether a packet's own time goes before that of the burst.
    packet_times: bool,
    /// The record that is written, where it differs from the frame: in a cooked capture.
    cooked: Option<Vec<u8>>,
    now: Now,
    counters: Arc<Counters>,
}

impl<Now: FnMut() -> u64 + Send> Recorder<Now> {
    pub(super) fn new(port: String, output: Output, packet_times: bool, now: Now) -> Self {
        Self { port, output, packet_times, cooked: None, now, counters: Counters::shared() }
    }

    /// Likewise as a cooked capture.
    pub(super) fn cooked(self) -> Self {
        Self { cooked: Some(Vec::with_capacity(HEADER + usize::from(u16::MAX))), ..self }
    }

    fn error(&self, error: &Error) -> PortError {
        PortFault::File { port: self.port.clone(), reason: error.fault.to_string() }.into()
    }
}

impl<Now: FnMut() -> u64 + Send> Transmit for Recorder<Now> {
    fn transmit(&mut self, pool: &mut PoolCache, frame: &mut Frame) -> Result<usize, PortError> {
        if frame.is_empty() {
            return Ok(0);
        }
        let now = (self.now)();
        let arena = pool.arena();
        let (mut sent, mut bytes) = (0, 0);
        let mut failed = None;
        for slot in frame.slots() {
            let meta = arena.meta(slot);
            let ts_ns = match meta.timestamp {
                ts_ns if self.packet_times && ts_ns != 0 => ts_ns,
                _ => now,
            };
            let missing = if self.packet_times { meta.missing() } else { 0 };
            let packet = arena.packet(slot);
            let record = match &mut self.cooked {
                None => packet,
                Some(record) => {
                    record.clear();
                    record.extend_from_slice(&header(meta, packet));
                    record.extend_from_slice(packet.get(ETHERNET_HEADER..).unwrap_or_default());
                    &record[..]
                }
            };
            if let Err(error) = self.output.write(ts_ns, missing, record) {
                failed = Some(self.error(&error));
                break;
            }
            sent += 1;
            bytes += packet.len() as u64;
        }
        pool.give_front(frame, sent);
        self.counters.passed(sent, bytes);
        failed.map_or(Ok(sent), Err)
    }

    fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    fn flush(&mut self, _pool: &mut PoolCache) -> Result<usize, PortError> {
        self.output.flush().map(|()| 0).map_err(|error| self.error(&error))
    }

    fn close(&mut self, _pool: &mut PoolCache) {
        // A run without packets leaves an empty capture, too. An error is that of the next flush, which
        // there is not, or has been told of.
        let _ = self.output.flush();
    }
}
