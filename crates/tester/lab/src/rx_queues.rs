//! The receiving half of sinks and testers: frames taken from the queues of a
//! port, their signatures analysed, and their buffers given back.

use std::{collections::BTreeMap, time::Duration};

use hdrhistogram::Histogram;
use linerate_memory::{Frame, PoolCache};
use linerate_packet::{EtherType, IpProtocol, Tcp, flow, vlan};
use linerate_port::{PortError, Receive, Wake};

use crate::{
    clock::now,
    sequence::{Sequence, SequenceCounts},
    signature::Signature,
};

/// Longest latency the histogram tells apart.
const LATENCY_MAX: Duration = Duration::from_secs(60);
/// Streams told apart; frames of more are counted as unsigned.
const STREAMS_MAX: usize = 1024;

/// Latencies, to three significant digits, in nanoseconds.
#[derive(Debug, Clone)]
pub struct Latency {
    histogram: Histogram<u64>,
}

impl Default for Latency {
    fn default() -> Latency {
        let bounds = Histogram::new_with_bounds(1, LATENCY_MAX.as_nanos() as u64, 3);
        Latency { histogram: bounds.expect("the bounds are those of a histogram") }
    }
}

impl Latency {
    /// Takes note of a latency.
    #[inline]
    pub fn record(&mut self, nanoseconds: u64) {
        self.histogram.saturating_record(nanoseconds.max(1));
    }

    /// Number of recorded latencies.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The smallest.
    pub fn min(&self) -> u64 {
        self.histogram.min()
    }

    /// The largest.
    pub fn max(&self) -> u64 {
        self.histogram.max()
    }

    /// The mean.
    pub fn mean(&self) -> f64 {
        self.histogram.mean()
    }

    /// The latency that `percent` of the frames do not exceed.
    pub fn percentile(&self, percent: f64) -> u64 {
        self.histogram.value_at_percentile(percent)
    }

    /// The latencies recorded after `earlier`, which is an earlier state of this.
    pub fn since(&self, earlier: &Latency) -> Latency {
        let mut histogram = self.histogram.clone();
        // Fails only when `earlier` is no earlier state.
        let _ = histogram.subtract(&earlier.histogram);
        Latency { histogram }
    }
}

/// Counts and latencies of arrived frames.
#[derive(Debug, Clone, Default)]
pub struct Arrivals {
    /// All frames.
    pub frames: u64,
    /// Their bytes, without FCS.
    pub bytes: u64,
    /// Frames without a signature.
    pub unsigned: u64,
    /// Loss, duplication and reordering of each stream.
    pub streams: BTreeMap<u16, SequenceCounts>,
    /// Latency of the signed frames.
    pub latency: Latency,
    /// Sending time, by the clock of signatures, of the frame behind the last gap in the sequence
    /// numbers when it came.
    pub last_gap: Option<u64>,
}

impl Arrivals {
    /// The streams together.
    pub fn total(&self) -> SequenceCounts {
        let mut total = SequenceCounts::default();
        for counts in self.streams.values() {
            total.received += counts.received;
            total.lost += counts.lost;
            total.duplicates += counts.duplicates;
            total.reordered += counts.reordered;
            total.stale += counts.stale;
            total.reorder_extent = total.reorder_extent.max(counts.reorder_extent);
        }
        total
    }
}

/// The receive queues of a port and their arrivals.
pub(crate) struct RxQueues {
    receives: Vec<Box<dyn Receive>>,
    pool: PoolCache,
    frame: Frame,
    /// Most frames taken at a time.
    burst: usize,
    arrivals: Arrivals,
    sequences: BTreeMap<u16, Sequence>,
    /// The only stream that counts; all when `None`.
    only: Option<u16>,
}

impl RxQueues {
    /// Takes at most `burst` frames at a time.
    pub(crate) fn new(receives: Vec<Box<dyn Receive>>, pool: PoolCache, burst: usize) -> RxQueues {
        RxQueues {
            receives,
            pool,
            frame: Frame::new(burst),
            burst,
            arrivals: Arrivals::default(),
            sequences: BTreeMap::new(),
            only: None,
        }
    }

    /// Forgets all arrivals. From now on frames of other streams than this one count as unsigned.
    pub(crate) fn begin(&mut self, only: u16) {
        self.only = Some(only);
        self.arrivals = Arrivals::default();
        self.sequences.clear();
    }

    /// Takes at most so many frames at a time from now on, and never more than a burst; `false` when
    /// none is to be taken.
    pub(crate) fn limit(&mut self, frames: u64) -> bool {
        let limit = usize::try_from(frames).map_or(self.burst, |frames| frames.min(self.burst));
        if limit > 0 {
            self.frame.set_limit(limit);
        }
        limit > 0
    }

    pub(crate) fn queues(&self) -> usize {
        self.receives.len()
    }

    /// Takes the frames that are ready at one queue; returns how many, which
    /// [`analyse`](Self::analyse) then looks at.
    #[inline]
    pub(crate) fn receive(&mut self, queue: usize) -> Result<usize, PortError> {
        self.receives[queue].receive(&mut self.pool, &mut self.frame)
    }

    /// Looks at every frame received and gives them back; returns the time at
    /// which it did.
    #[inline]
    pub(crate) fn analyse(&mut self) -> u64 {
        let time = now();
        self.arrivals.frames += self.frame.len() as u64;
        self.arrivals.bytes += self.frame.bytes();
        for packet in self.pool.arena().packets(&self.frame) {
            let wanted =
                |signature: &Signature| self.only.is_none_or(|only| only == signature.stream);
            let Some(signature) = find(packet).filter(wanted) else {
                self.arrivals.unsigned += 1;
                continue;
            };
            let streams = self.sequences.len();
            let missed = match self.sequences.get_mut(&signature.stream) {
                Some(sequence) => sequence.arrived(signature.sequence),
                None if streams < STREAMS_MAX => {
                    self.sequences.entry(signature.stream).or_default().arrived(signature.sequence)
                }
                None => {
                    self.arrivals.unsigned += 1;
                    continue;
                }
            };
            if missed {
                self.arrivals.last_gap = Some(signature.time);
            }
            self.arrivals.latency.record(signature.age(time));
        }
        self.pool.give(&mut self.frame);
        time
    }

    /// All arrivals so far.
    pub(crate) fn arrivals(&mut self) -> &Arrivals {
        let counts = self.sequences.iter().map(|(&stream, sequence)| (stream, sequence.counts()));
        self.arrivals.streams = counts.collect();
        &self.arrivals
    }

    /// Frames of a stream that have arrived for the first time.
    pub(crate) fn received(&self, stream: u16) -> u64 {
        self.sequences.get(&stream).map_or(0, |sequence| sequence.counts().received)
    }

    /// Returns true if no frame will ever come again.
    pub(crate) fn ended(&self) -> bool {
        self.receives.iter().all(|receive| receive.ended())
    }

    /// Events after which a queue may have frames.
    pub(crate) fn wakes(&mut self) -> Vec<Wake<'_>> {
        self.receives.iter_mut().map(|receive| receive.wake()).collect()
    }

    pub(crate) fn refresh(&mut self) {
        self.receives.iter_mut().for_each(|receive| receive.refresh());
    }

    /// Gives all buffers back.
    pub(crate) fn close(&mut self) {
        for receive in &mut self.receives {
            receive.refresh();
            receive.close(&mut self.pool);
        }
    }
}

/// The signature of a frame: where the payload of its UDP, TCP or ICMP echo
/// begins, or right behind the Ethernet header and its tags.
#[inline]
fn find(frame: &[u8]) -> Option<Signature> {
    let payload = match flow::extract(frame, flow::VlanRule::Outer) {
        Ok(flow) => {
            let transport = usize::from(flow.transport);
            transport
                + match flow.key.protocol() {
                    IpProtocol::TCP => Tcp::new_checked(frame.get(transport..)?).ok()?.header_len(),
                    // UDP and ICMP echo.
                    _ => 8,
                }
        }
        Err(_) => {
            let tags = vlan::walk(frame).ok()?;
            let ip = matches!(tags.ether_type, EtherType::IPV4 | EtherType::IPV6);
            if ip {
                return None;
            }
            tags.payload
        }
    };
    Signature::from_bytes(frame.get(payload..)?)
}
