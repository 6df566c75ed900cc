//! Observation of packets by a worker, for the exporter.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use super::exporter::{Counts, ExportMessage};
use super::flows::{Flows, Timeouts};
use super::options::ExportOptions;
use super::record::{EndReason, FlowRecord, PacketRecord, Stream};
use super::sflow::Sample;
use crate::wire;

/// Input and output of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PortPair {
    /// The port it came in by.
    pub in_port: u32,
    /// The port it went out by first, 0 for none.
    pub out_port: u32,
    /// Number of ports it went out by.
    pub copies: u32,
}

/// Records that go to the exporter at once.
const BATCH: usize = 32;

/// A worker's part of the export: it looks at packets, and never waits.
///
/// Records and samples are dropped and counted while the exporter's queue is full.
#[derive(Debug)]
pub struct Observer {
    flows: Option<Flows>,
    streams: Vec<Stream>,
    /// Packets until the next that is looked at, and of how many one is.
    flow_wait: u32,
    flow_sampling: u32,
    /// Likewise until the next sample, 0 for none.
    sample_wait: u32,
    sample_rate: u32,
    random: fastrand::Rng,
    outbox: Outbox,
}

#[derive(Debug)]
struct Outbox {
    batch: Vec<FlowRecord>,
    channel: SyncSender<ExportMessage>,
    counts: Arc<Counts>,
}

impl Outbox {
    fn add(&mut self, record: FlowRecord) {
        self.batch.push(record);
        if self.batch.len() >= BATCH {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH));
        let count = batch.len() as u64;
        if self.channel.try_send(ExportMessage::Records(batch)).is_err() {
            self.counts.lose_records(count);
        }
    }
}

impl Observer {
    pub(super) fn new(
        options: &ExportOptions,
        channel: SyncSender<ExportMessage>,
        counts: Arc<Counts>,
    ) -> Observer {
        let nanoseconds =
            |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(1);
        let flows = options.ipfix.as_ref().map(|options| {
            let (idle, active) = (nanoseconds(options.idle), nanoseconds(options.active));
            Flows::new(options.capacity, Timeouts { idle, active })
        });
        let own = options.ipfix.as_ref().map_or(0, |options| options.domain);
        let all = options.ipfix.as_ref().filter(|options| !options.collectors.is_empty());
        let flow_sampling = all.map_or(0, |options| options.sampling.max(1));
        let sample_rate = options.sflow.as_ref().map_or(0, |options| options.rate.max(1));
        let mut observer = Observer {
            flows,
            streams: vec![Stream { set: 0, domain: own, point: 0 }],
            flow_wait: flow_sampling,
            flow_sampling,
            sample_wait: 0,
            sample_rate,
            random: fastrand::Rng::new(),
            outbox: Outbox { batch: Vec::with_capacity(BATCH), channel, counts },
        };
        observer.sample_wait = observer.skip();
        observer
    }

    /// Returns the number of packets until the next sample, `sample_rate` on average.
    fn skip(&mut self) -> u32 {
        match self.sample_rate {
            0 => 0,
            rate => self.random.u32(1..=rate.saturating_mul(2).saturating_sub(1)),
        }
    }

    /// Looks at a packet, before its headers are changed. `now` is of the steady clock, in
    /// nanoseconds.
    #[inline]
    pub fn see(&mut self, packet: &[u8], port_pair: PortPair, now: u64) {
        if self.flow_sampling != 0 {
            self.flow_wait -= 1;
            if self.flow_wait == 0 {
                self.flow_wait = self.flow_sampling;
                self.count(packet, port_pair, 0, now);
            }
        }
        if self.sample_rate != 0 {
            self.sample_wait -= 1;
            if self.sample_wait == 0 {
                self.pick(packet, port_pair);
            }
        }
    }

    #[inline]
    fn count(&mut self, packet: &[u8], port_pair: PortPair, stream: u32, now: u64) {
        let Some(flows) = &mut self.flows else { return };
        let mut seen = PacketRecord::read(packet, port_pair.in_port);
        seen.tuple = seen.tuple.of_stream(stream);
        let said = self.streams[stream as usize];
        flows.count(&seen, said, port_pair.out_port, now, &mut |record| self.outbox.add(record));
    }

    #[cold]
    fn pick(&mut self, packet: &[u8], port_pair: PortPair) {
        self.sample_wait = self.skip();
        let sample = Sample::new(packet, port_pair.in_port, port_pair.out_port, port_pair.copies);
        if self.outbox.channel.try_send(ExportMessage::Sample(Box::new(sample))).is_err() {
            self.outbox.counts.lose_sample();
        }
    }

    /// Samples a packet for a flow's action, with the probability of that.
    pub fn sample(&mut self, sample: &wire::Sample, packet: &[u8], port_pair: PortPair, now: u64) {
        /// Observation points at most; records of further ones are lost.
        const MOST: usize = 4096;
        if self.random.u16(..u16::MAX) >= sample.probability {
            return;
        }
        let stream =
            Stream { set: sample.collector_set, domain: sample.domain, point: sample.point };
        let known = self.streams[1..].iter().position(|other| *other == stream);
        let nth = match known {
            Some(nth) => nth + 1,
            None if self.streams.len() < MOST => {
                self.streams.push(stream);
                self.streams.len() - 1
            }
            None => return self.outbox.counts.lose_records(1),
        };
        self.count(packet, port_pair, nth as u32, now);
    }

    /// Returns true if there are flows to export at some time.
    #[must_use]
    pub fn has_flows(&self) -> bool {
        self.flows.as_ref().is_some_and(|flows| !flows.is_empty())
    }

    /// Looks for flows that are over: to be called often, each time a little is done.
    pub fn tick(&mut self, now: u64) {
        let Observer { flows: Some(flows), outbox, .. } = self else { return };
        flows.tick(now, &mut |record| outbox.add(record));
        outbox.flush();
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        if let Some(flows) = &mut self.flows {
            flows.end_all(EndReason::Forced, &mut |record| self.outbox.add(record));
        }
        self.outbox.flush();
    }
}
