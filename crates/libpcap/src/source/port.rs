//! Ports.

use std::sync::Arc;

use linerate_filter::Instruction;
use linerate_memory::{Frame, PoolCache};
use linerate_port::{Counters, Counts, PortError, PortFault, PortUri, Receive};

use super::{OpenFailure, OpenOptions, OpenedSource, Source, Tally, Wakes, arena};
use crate::inject::{PacketSink, PortSink};

/// Buffers that each direction keeps at hand.
const CACHE: usize = 512;
/// Bytes of a packet in the kernel's ring, about: the divisor of a buffer's size in bytes.
const RING_SLOT: usize = 2048;
/// Seconds for a peer that is to be there to answer: packets sent before would be lost.
const ANSWER: &str = "2";

/// Opens a port for both directions.
pub(super) fn open(uri: &PortUri, wishes: OpenOptions) -> Result<OpenedSource, OpenFailure> {
    // Under the name that the program knows.
    let uri = as_asked(uri, wishes).shown_as(uri.to_string());
    let mut context = arena::context(&uri, wishes.buffer_size)?;
    context.types = true;
    let port =
        without_signals(|| linerate_port::open(&uri, &context)).map_err(OpenFailure::from)?;
    let mut receives = Vec::new();
    let mut transmit = None;
    for queue in port.queues {
        receives.extend(queue.receive);
        // One is enough: sending is by one thread at a time.
        transmit = transmit.or(queue.transmit);
    }
    let arena = context.arena;
    let sink = transmit.map(|transmit| {
        let pool = arena.cache(CACHE);
        Box::new(PortSink::new(transmit, pool, port.info.frame_limit)) as Box<dyn PacketSink>
    });
    let source = PortSource { receives, turn: 0, pool: arena.cache(CACHE) };
    Ok(OpenedSource {
        source: Box::new(source),
        sink,
        arena,
        raw: uri.driver() == "tun",
        stamps: port.info.stamps,
        directions: port.info.types,
        mode: port.info.mode,
    })
}

/// The port with the program's settings, where its name does not have them.
fn as_asked(uri: &PortUri, wishes: OpenOptions) -> PortUri {
    let switch = |on: bool| if on { "on" } else { "off" }.to_owned();
    let mut asked = Vec::new();
    if matches!(uri.driver(), "packet" | "xdp") {
        asked.push(("promisc", switch(wishes.promiscuous)));
    }
    if uri.driver() == "packet" {
        // As libpcap has it: packets that this host sends, too, and the time of each.
        asked.push(("outbound", switch(true)));
        asked.push(("time", switch(true)));
        if wishes.buffer_size > 0 {
            let slots = (wishes.buffer_size / RING_SLOT).clamp(64, 1 << 18);
            asked.push(("slots", slots.to_string()));
        }
    }
    // A listening port waits for a peer, for any time.
    let connects = match uri.driver() {
        "memif" => !says(uri, "role", "server"),
        "vhost" => says(uri, "role", "driver"),
        _ => false,
    };
    if connects {
        asked.push(("wait", ANSWER.to_owned()));
    }
    asked.into_iter().fold(uri.clone(), |uri, (key, value)| {
        let is_written = uri.written().iter().any(|(written, _)| written == key);
        if is_written { uri } else { uri.with(key, value) }
    })
}

/// Returns true if a port's name has this option with this value.
fn says(uri: &PortUri, key: &str, value: &str) -> bool {
    uri.written().iter().any(|(written, is)| written == key && is.as_deref() == Some(value))
}

struct PortSource {
    /// One for each queue.
    receives: Vec<Box<dyn Receive>>,
    /// The queue that is asked first.
    turn: usize,
    pool: PoolCache,
}

impl Source for PortSource {
    #[inline]
    fn receive(&mut self, frame: &mut Frame) -> Result<usize, String> {
        self.pool.give(frame);
        for _ in 0..self.receives.len() {
            let queue = self.turn;
            self.turn = if queue + 1 == self.receives.len() { 0 } else { queue + 1 };
            let received = self.receives[queue].receive(&mut self.pool, frame).map_err(words)?;
            if received > 0 {
                return Ok(received);
            }
        }
        Ok(0)
    }

    fn wakes(&mut self) -> Result<Wakes<'_>, String> {
        Ok(self.receives.iter_mut().map(|receive| receive.wake()).collect())
    }

    fn ended(&self) -> bool {
        self.receives.iter().all(|receive| receive.ended())
    }

    fn leave_out(&mut self, unwanted_by: &[Instruction]) {
        for receive in &mut self.receives {
            receive.leave_out(Some(unwanted_by));
        }
    }

    fn refresh(&mut self) {
        self.receives.iter_mut().for_each(|receive| receive.refresh());
    }

    fn tally(&self) -> Arc<dyn Tally> {
        let counters = self.receives.iter().map(|receive| Arc::clone(receive.counters()));
        Arc::new(QueueCounters(counters.collect()))
    }

    fn close(&mut self, frame: &mut Frame) {
        self.pool.give(frame);
        for receive in &mut self.receives {
            receive.close(&mut self.pool);
        }
    }
}

struct QueueCounters(Vec<Arc<Counters>>);

impl Tally for QueueCounters {
    fn read(&self) -> Counts {
        self.0.iter().map(|counters| counters.read()).sum()
    }
}

/// libpcap's words for a failure, where it has some.
#[cold]
fn words(error: PortError) -> String {
    match error.fault() {
        PortFault::Gone { .. } => "The interface disappeared".into(),
        _ => error.to_string(),
    }
}

/// Blocks all signals of this thread meanwhile: threads that are made there then leave them to the
/// program's, whose handlers may rely on it.
fn without_signals<T>(run: impl FnOnce() -> T) -> T {
    // SAFETY: the sets are this function's own, and the former set is set again.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let result = run();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        result
    }
}
