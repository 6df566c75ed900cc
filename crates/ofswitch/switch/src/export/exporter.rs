//! Exporter: the thread that sends to collectors.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

use super::ipfix::{Clock, Ipfix};
use super::observer::Observer;
use super::options::{ExportOptions, IpfixOptions, SflowOptions};
use super::record::FlowRecord;
use super::sflow::{Interface, Sample, Sflow};

/// Message of a worker.
#[derive(Debug)]
pub(super) enum ExportMessage {
    Records(Vec<FlowRecord>),
    Sample(Box<Sample>),
    End,
}

/// Capacity of the queue: batches of records, and samples.
const WAITING: usize = 4096;
/// Most pairs of collector sets and domains, which flows choose: each has a message of its own.
const WRITERS: usize = 1024;
/// Time a record waits for others in the same message.
const GATHER: Duration = Duration::from_millis(200);

/// Records and samples exported, and those lost.
#[derive(Debug, Default)]
pub(super) struct Counts {
    records: AtomicU64,
    samples: AtomicU64,
    lost_records: AtomicU64,
    lost_samples: AtomicU64,
    errors: AtomicU64,
}

impl Counts {
    pub(super) fn lose_records(&self, count: u64) {
        self.lost_records.fetch_add(count, Relaxed);
    }

    pub(super) fn lose_sample(&self) {
        self.lost_samples.fetch_add(1, Relaxed);
    }
}

/// Records and samples exported so far, and those lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExportCounts {
    /// Flow records in messages.
    pub records: u64,
    /// Samples of packets in datagrams.
    pub samples: u64,
    /// Flow records that were dropped because the exporter did not get to them.
    pub lost_records: u64,
    /// Samples that were dropped so.
    pub lost_samples: u64,
    /// Datagrams that could not be sent.
    pub errors: u64,
}

/// Exports flows and packets to collectors. Dropping it sends the rest and ends its thread.
#[derive(Debug)]
pub struct Exporter {
    options: ExportOptions,
    channel: SyncSender<ExportMessage>,
    counts: Arc<Counts>,
    thread: Option<JoinHandle<()>>,
}

impl Exporter {
    /// Starts the exporter. `interfaces` returns the ports of counter samples.
    ///
    /// # Errors
    ///
    /// When there is no socket or no thread to be had.
    pub fn start(
        options: ExportOptions,
        interfaces: impl Fn() -> Vec<Interface> + Send + 'static,
    ) -> io::Result<Exporter> {
        let (channel, messages) = sync_channel(WAITING);
        let counts = Arc::new(Counts::default());
        let work = Work::new(&options, Box::new(interfaces), Arc::clone(&counts))?;
        let thread =
            thread::Builder::new().name("export".into()).spawn(move || work.run(&messages))?;
        Ok(Exporter { options, channel, counts, thread: Some(thread) })
    }

    /// The part of a worker.
    #[must_use]
    pub fn observer(&self) -> Observer {
        Observer::new(&self.options, self.channel.clone(), Arc::clone(&self.counts))
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn counts(&self) -> ExportCounts {
        ExportCounts {
            records: self.counts.records.load(Relaxed),
            samples: self.counts.samples.load(Relaxed),
            lost_records: self.counts.lost_records.load(Relaxed),
            lost_samples: self.counts.lost_samples.load(Relaxed),
            errors: self.counts.errors.load(Relaxed),
        }
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = self.channel.send(ExportMessage::End);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Sockets to collectors.
struct Collectors {
    all: Vec<Collector>,
    counts: Arc<Counts>,
}

struct Collector {
    socket: UdpSocket,
    address: SocketAddr,
    /// Whether there was a way to it: a network may come up later than the switch.
    is_connected: bool,
}

impl Collector {
    fn new(address: SocketAddr) -> io::Result<Collector> {
        let own: SocketAddr = if address.is_ipv4() {
            (Ipv4Addr::UNSPECIFIED, 0).into()
        } else {
            (Ipv6Addr::UNSPECIFIED, 0).into()
        };
        let socket = UdpSocket::bind(own)?;
        // A datagram there is no room for is lost like one on the way.
        socket.set_nonblocking(true)?;
        let is_connected = socket.connect(address).is_ok();
        Ok(Collector { socket, address, is_connected })
    }

    fn send(&mut self, datagram: &[u8]) -> io::Result<usize> {
        if !self.is_connected {
            self.socket.connect(self.address)?;
            self.is_connected = true;
        }
        self.socket.send(datagram)
    }
}

impl Collectors {
    fn new(addresses: &[SocketAddr], counts: &Arc<Counts>) -> io::Result<Collectors> {
        let all = addresses.iter().map(|address| Collector::new(*address));
        Ok(Collectors { all: all.collect::<io::Result<_>>()?, counts: Arc::clone(counts) })
    }

    fn send(&mut self, datagram: &[u8]) {
        for collector in &mut self.all {
            if collector.send(datagram).is_err() {
                self.counts.errors.fetch_add(1, Relaxed);
            }
        }
    }
}

struct Work {
    counts: Arc<Counts>,
    clock_offset: u64,
    flows: Option<FlowWork>,
    samples: Option<SampleWork>,
}

struct FlowWork {
    options: IpfixOptions,
    /// The collectors of each set; 0 is those of all packets.
    sets: BTreeMap<u32, Collectors>,
    /// Message writer of each set and domain, and the time its templates are due.
    writers: BTreeMap<(u32, u32), (Ipfix, Instant)>,
}

struct SampleWork {
    options: SflowOptions,
    collectors: Collectors,
    writer: Sflow,
    interfaces: Box<dyn Fn() -> Vec<Interface> + Send>,
    start: Instant,
    due: Option<Instant>,
}

impl Work {
    fn new(
        options: &ExportOptions,
        interfaces: Box<dyn Fn() -> Vec<Interface> + Send>,
        counts: Arc<Counts>,
    ) -> io::Result<Work> {
        let flows = match &options.ipfix {
            Some(options) => {
                let mut sets = BTreeMap::new();
                for (number, addresses) in &options.sets {
                    sets.insert(*number, Collectors::new(addresses, &counts)?);
                }
                sets.insert(0, Collectors::new(&options.collectors, &counts)?);
                Some(FlowWork { options: options.clone(), sets, writers: BTreeMap::new() })
            }
            None => None,
        };
        let samples = match &options.sflow {
            Some(options) => Some(SampleWork {
                collectors: Collectors::new(&options.collectors, &counts)?,
                writer: Sflow::new(options.agent, options.datagram, options.rate.max(1)),
                options: options.clone(),
                interfaces,
                start: Instant::now(),
                due: (!options.polling.is_zero()).then(Instant::now),
            }),
            None => None,
        };
        Ok(Work { counts, clock_offset: options.clock_offset, flows, samples })
    }

    fn run(mut self, messages: &Receiver<ExportMessage>) {
        let mut finished = Instant::now();
        loop {
            let next = messages.recv_timeout(GATHER);
            let end = matches!(next, Ok(ExportMessage::End) | Err(RecvTimeoutError::Disconnected));
            match next {
                Ok(ExportMessage::Records(records)) => self.records(&records),
                Ok(ExportMessage::Sample(sample)) => self.sample(&sample),
                Ok(ExportMessage::End) | Err(_) => {}
            }
            if end {
                // Messages sent before the end are exported, too.
                while let Ok(last) = messages.try_recv() {
                    match last {
                        ExportMessage::Records(records) => self.records(&records),
                        ExportMessage::Sample(sample) => self.sample(&sample),
                        ExportMessage::End => {}
                    }
                }
            }
            // Behind each message: there may always be another one.
            self.poll();
            if end || finished.elapsed() >= GATHER {
                self.finish();
                finished = Instant::now();
            }
            if end {
                return;
            }
        }
    }

    fn records(&mut self, records: &[FlowRecord]) {
        let Some(FlowWork { options, sets, writers }) = &mut self.flows else { return };
        let (clock, now) = (clock(self.clock_offset), Instant::now());
        for record in records {
            let stream = record.stream;
            let Some(collectors) = sets.get_mut(&stream.set) else {
                self.counts.lose_records(1);
                continue;
            };
            let stream = (stream.set, stream.domain);
            if writers.len() >= WRITERS && !writers.contains_key(&stream) {
                self.counts.lose_records(1);
                continue;
            }
            let mut send = |message: &[u8]| collectors.send(message);
            let (set, domain) = stream;
            let (writer, due) = writers.entry(stream).or_insert_with(|| {
                let sampling = if set == 0 { options.sampling.max(1) } else { 1 };
                (Ipfix::new(domain, options.message, sampling), now)
            });
            if *due <= now {
                writer.templates(&clock, &mut send);
                *due = now + options.refresh;
            }
            writer.add(record, &clock, &mut send);
            self.counts.records.fetch_add(1, Relaxed);
        }
    }

    fn sample(&mut self, sample: &Sample) {
        let Some(work) = &mut self.samples else { return };
        let lost = self.counts.lost_samples.load(Relaxed) as u32;
        let uptime = work.uptime();
        let SampleWork { writer, collectors, .. } = work;
        writer.sample(sample, lost, uptime, &mut |datagram| collectors.send(datagram));
        self.counts.samples.fetch_add(1, Relaxed);
    }

    /// Adds counters of ports when they are due.
    fn poll(&mut self) {
        let Some(work) = &mut self.samples else { return };
        let (uptime, now) = (work.uptime(), Instant::now());
        if work.due.is_some_and(|due| due <= now) {
            work.due = Some(now + work.options.polling);
            let SampleWork { writer, collectors, interfaces, .. } = work;
            for interface in interfaces() {
                writer.counters(&interface, uptime, &mut |datagram| collectors.send(datagram));
            }
        }
    }

    /// Sends the messages under way.
    fn finish(&mut self) {
        if let Some(FlowWork { sets, writers, .. }) = &mut self.flows {
            let clock = clock(self.clock_offset);
            for ((set, _), (writer, _)) in writers {
                if let Some(collectors) = sets.get_mut(set) {
                    writer.finish(&clock, &mut |message| collectors.send(message));
                }
            }
        }
        if let Some(work) = &mut self.samples {
            let uptime = work.uptime();
            let SampleWork { writer, collectors, .. } = work;
            writer.finish(uptime, &mut |datagram| collectors.send(datagram));
        }
    }
}

impl SampleWork {
    fn uptime(&self) -> u32 {
        self.start.elapsed().as_millis() as u32
    }
}

/// Reads both clocks.
fn clock(offset: u64) -> Clock {
    let time = clock_gettime(ClockId::Monotonic);
    let monotonic = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
    let steady = monotonic.wrapping_add(offset);
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Clock { steady, wall: wall.as_millis() as u64 }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn counters_are_told_however_much_there_is_to_tell() {
        let (asked, counts) = (Arc::new(AtomicUsize::new(0)), Arc::new(Counts::default()));
        let interfaces = {
            let asked = Arc::clone(&asked);
            Box::new(move || {
                asked.fetch_add(1, Relaxed);
                Vec::new()
            })
        };
        let sflow = SflowOptions { polling: Duration::from_nanos(1), ..SflowOptions::default() };
        let options = ExportOptions { sflow: Some(sflow), ..ExportOptions::default() };
        let work = Work::new(&options, interfaces, Arc::clone(&counts)).expect("sockets");
        let (sender, messages) = sync_channel(WAITING);
        for _ in 1..WAITING {
            sender
                .send(ExportMessage::Sample(Box::new(Sample::new(&[0; 64], 1, 2, 1))))
                .expect("room");
        }
        sender.send(ExportMessage::End).expect("room");
        work.run(&messages);
        assert_eq!(counts.samples.load(Relaxed) as usize, WAITING - 1);
        assert!(asked.load(Relaxed) > 1, "while samples waited");
    }
}
