//! Flow cache (the fast path): applies decisions made for earlier packets of the same megaflow.
//!
//! Each worker has a [`FlowCache`] of its own, so nothing in it is shared and nothing waits. It
//! keeps entries: a decision of the pipeline, and the values of the bits that the decision looked
//! at. A frame comes in by one port, and the bits that all entries of that port look at are their
//! *union*:
//!
//! - Where the union has no bit of a packet, one entry has the frame, and no packet is touched.
//! - Else only the headers that have bits of it are read, a row of words for each packet; a frame
//!   that is all the entry's that had the one before is seen on the way.
//! - Else each row is hashed under the union, and signatures lead to a candidate, which is compared
//!   under its own mask. Cache lines of all packets are prefetched before the first is read.
//! - Other packets are looked up by all masks one after the other (tuple space search: Srinivasan,
//!   Suri and Varghese, "Packet classification using tuple space search", SIGCOMM 1999), and
//!   decided by the [pipeline](crate::pipeline) in the end.
//!
//! Unions make this short: packets of any number of masks are found by one hash, at the
//! price of a signature for each kind of packet that the *union* tells apart, which may be many for
//! an entry. That is why signatures are apart from entries, and small.
//!
//! A change of the tables stops no worker and empties no cache. Entries have the version they were
//! decided for; one with an older version is checked against the changes since then when it is hit,
//! and decided anew if one of them may concern it.
//!
//! Entries count by themselves; their counts are added to the shared counters by
//! [`FlowCache::tick`], on request ([`FlowCache::flush`]) and when the worker is idle.

mod classify;
mod dump;
mod entries;
mod execute;
mod insert_evict;
mod observe;
mod outlet;
mod rows;
mod signatures;
mod storm;
mod tables;
mod tally;

use std::collections::VecDeque;
use std::sync::Arc;

use linerate_memory::{Frame, Slot};

pub use dump::{EntryInfo, Totals};
pub use outlet::{Drop, Outlet};
pub use tables::Tables;

use crate::key::extract::Needed;
use crate::pipeline::Decision;
use crate::table::{PortCount, PortCounters, Snapshot};
use crate::wire::PortNumber;
use entries::{DROP, Entries, GO_ON, STEPS};
use observe::Observed;
use rows::{NARROW, Seed, WIDE};
use signatures::Signatures;
use storm::{MissStormDetector, PortHitRate};

/// Options of a flow cache.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Entries it has at most; with 0 every packet is decided by itself.
    pub entries: usize,
    /// Packets of a frame that are decided while other ports have packets, too; others without an
    /// entry are dropped. A port may use the rest later, up to [`saved`](Self::saved).
    pub budget: u32,
    /// Maximum of the saved budget, in packets.
    pub saved: u32,
    /// Nanoseconds after which an unused entry is forgotten.
    pub patience: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options { entries: 65_536, budget: 32, saved: 2048, patience: 10_000_000_000 }
    }
}

/// An entry that is none.
const NONE: u32 = u32::MAX;
/// Marks in the place of an output: packets dropped by flows, ...
const TO_DROP: u32 = DROP as u32;
/// ... packets with further steps, ...
const TO_STEPS: u32 = STEPS as u32;
/// ... packets that may be looked up again, ...
const TO_GO_ON: u32 = GO_ON as u32;
/// ... and undecided packets.
const TO_UNDECIDED: u32 = GO_ON as u32 - 1;
/// Outputs are less.
const OUTPUTS: u32 = 0xff00;

/// Frames after which a port that had packets counts as silent.
const SILENCE: u64 = 64;

/// Counts of packets by result, and of entries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets of frames that one entry had.
    pub frame_hits: u64,
    /// Packets an entry was found for by their signature.
    pub found: u64,
    /// Packets whose entry was found by tuple space search.
    pub searched: u64,
    /// Packets decided by the pipeline.
    pub decided: u64,
    /// Packets dropped because they were over their port's budget.
    pub refused: u64,
    /// Entries made.
    pub made: u64,
    /// Entries forgotten for others.
    pub evicted: u64,
    /// Entries that still held after a change of tables.
    pub kept: u64,
    /// Entries that were decided anew then.
    pub renewed: u64,
    /// Decisions that were not kept, as entries were of no use.
    pub bypassed: u64,
}

/// State of a port.
#[derive(Debug)]
struct Port {
    /// Its number in OpenFlow.
    number: u32,
    counters: Option<Arc<PortCounters>>,
    receives: bool,
    forwards: bool,
    /// Header fields to read of packets.
    needed: Needed,
    /// Whether entries look at headers beside the near words.
    is_wide: bool,
    /// The entry that had the last packet.
    last: u32,
    /// Whether it had the whole frame.
    is_single: bool,
    /// Misses it may have.
    credit: u32,
    /// Hit rate of its packets.
    hit_rate: PortHitRate,
    counted: [u64; PortCount::ALL.len()],
}

/// Flow cache of a worker.
#[derive(Debug)]
pub struct FlowCache {
    options: Options,
    seed: Seed,
    entries: Entries,
    signatures: Signatures,
    ports: Vec<Port>,
    snapshot: Arc<Snapshot>,
    /// Goes up with each snapshot.
    epoch: u32,
    /// Entries with packets that have not been added to counters.
    dirty: Vec<u32>,
    counts: Counts,
    frames: u64,
    /// Port of the last frame, and number of the frame at which it last changed.
    turn: (usize, Option<u64>),
    storm: MissStormDetector,
    /// Whether decisions are inserted.
    keeps: bool,
    /// Whether there were decisions since room was made last.
    has_missed: bool,
    narrow: Vec<[u64; NARROW]>,
    wide: Vec<[u64; WIDE]>,
    signed: Vec<u32>,
    candidates: Vec<u32>,
    outputs: Vec<u32>,
    found: Vec<u32>,
    /// Decisions of packets that have no entry, in their order.
    alone: VecDeque<Arc<Decision>>,
    queue: Vec<Slot>,
    observed: Option<Box<Observed>>,
    /// Repeated lookups of the current packet and its copies.
    lookups: u32,
    /// The next packet had an entry that may not hold any more.
    excused: bool,
}

impl FlowCache {
    /// Creates a cache without entries, for a switch with ports of these numbers as outputs.
    #[must_use]
    pub fn new(ports: &[u32], options: Options) -> FlowCache {
        let port = |number: &u32| Port {
            number: *number,
            counters: None,
            receives: true,
            forwards: true,
            needed: Needed::NOTHING,
            is_wide: false,
            last: NONE,
            is_single: true,
            credit: options.saved,
            hit_rate: PortHitRate::GOOD,
            counted: Default::default(),
        };
        FlowCache {
            options,
            seed: Seed::new(),
            entries: Entries::new(ports.len(), options.entries),
            signatures: Signatures::new(options.entries),
            ports: ports.iter().take(OUTPUTS as usize).map(port).collect(),
            snapshot: Arc::default(),
            epoch: 1,
            dirty: Vec::new(),
            counts: Counts::default(),
            frames: 0,
            turn: (usize::MAX, None),
            storm: MissStormDetector::default(),
            keeps: true,
            has_missed: false,
            narrow: Vec::new(),
            wide: Vec::new(),
            signed: Vec::new(),
            candidates: Vec::new(),
            outputs: Vec::new(),
            found: Vec::new(),
            alone: VecDeque::new(),
            queue: Vec::new(),
            observed: None,
            lookups: 0,
            excused: false,
        }
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The tables it has seen last.
    #[must_use]
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// Sets the tables until it takes newer ones: [`refresh`](Self::refresh) may find the lock
    /// taken, and a new cache has no flows.
    #[must_use]
    pub fn with_tables(mut self, snapshot: Arc<Snapshot>) -> FlowCache {
        self.snapshot = snapshot;
        self.apply_snapshot();
        self
    }

    /// Takes the newest tables, unless they are being changed.
    pub fn refresh<T: Tables>(&mut self, tables: &T) {
        if tables.refresh(&mut self.snapshot) {
            self.apply_snapshot();
        }
    }

    #[cold]
    fn apply_snapshot(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
        if self.epoch == 0 {
            // Numbers begin again: entries of all times would be those of this one.
            self.clear(0);
            self.epoch = 1;
        }
        for port in &mut self.ports {
            if let Some(known) = self.snapshot.port(PortNumber(port.number)) {
                port.receives = known.receives();
                port.forwards = known.forwards();
                if port.counters.as_ref().is_none_or(|own| !Arc::ptr_eq(own, &known.counters)) {
                    port.counters = Some(Arc::clone(&known.counters));
                }
            }
        }
    }

    /// Processes packets that came in by the port of this place, at a time of the steady clock in
    /// nanoseconds. All of them go to `out`.
    #[inline]
    pub fn process<T: Tables, O: Outlet>(
        &mut self,
        tables: &T,
        out: &mut O,
        place: usize,
        frame: &mut Frame,
        now: u64,
    ) {
        if frame.is_empty() || place >= self.ports.len() {
            return out.drop_frame(frame, Drop::Receive);
        }
        self.refresh(tables);
        self.frames += 1;
        if self.turn.0 != place {
            let is_first = self.turn.0 == usize::MAX;
            self.turn = (place, (!is_first).then_some(self.frames));
        }
        let (packets, bytes) = (frame.len() as u64, frame.bytes());
        let port = &mut self.ports[place];
        port.counted[PortCount::Received as usize] += packets;
        port.counted[PortCount::ReceivedBytes as usize] += bytes;
        port.credit = (port.credit + self.options.budget).min(self.options.saved);
        if !port.receives {
            port.counted[PortCount::ReceivedDropped as usize] += packets;
            return out.drop_frame(frame, Drop::Receive);
        }
        if self.options.entries == 0 {
            return self.decide_each(tables, out, place, frame, now);
        }
        self.keeps = true;
        if !self.entries.has_room(frame.len()) {
            let port = &mut self.ports[place];
            self.keeps = !self.storm.is_on() || port.hit_rate.is_sample();
            if !self.keeps && port.hit_rate.is_bad() && self.is_alone() {
                return self.decide_each(tables, out, place, frame, now);
            }
            if self.keeps && self.has_missed {
                self.make_room(frame.len(), now);
            }
        }
        let last = self.last_of(place);
        if port_needs_nothing(&self.ports[place])
            && let Some((entry, _)) = last
        {
            return self.apply_to_frame(tables, out, (place, entry), frame, (bytes, now));
        }
        if self.ports[place].is_wide {
            self.rows::<WIDE, T, O>(tables, out, place, frame, (bytes, now));
        } else {
            self.rows::<NARROW, T, O>(tables, out, place, frame, (bytes, now));
        }
    }

    /// Returns true if no other port has packets.
    fn is_alone(&self) -> bool {
        self.turn.1.is_none_or(|at| self.frames - at > SILENCE)
    }
}

#[inline(always)]
fn port_needs_nothing(port: &Port) -> bool {
    port.needed.is_nothing() && !port.is_wide
}

#[cfg(test)]
mod stress;
#[cfg(test)]
mod tests;
