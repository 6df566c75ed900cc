//! The flows a worker knows of, each with what has been seen since it was last told of.
//!
//! A table of fixed size in buckets of eight, so a packet costs one bucket however many flows there are,
//! and no flow keeps another from being known: in a full bucket the one that was used longest ago is told
//! of and makes room. Time-outs are found by going through a little of the table each time.

use super::record::{EndReason, FlowRecord, Seen, Stream, Tuple};

/// Flows in a bucket.
const WAYS: usize = 8;
/// How long after TCP has said it is over stragglers still count, in nanoseconds.
const STRAGGLERS: u64 = 1_000_000_000;
/// Flags of TCP that end a flow: FIN and RST.
const ENDS: u16 = 0b101;

/// When flows are told of, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timeouts {
    /// After so long without a packet.
    pub(super) idle: u64,
    /// After so long with packets.
    pub(super) active: u64,
}

#[derive(Debug)]
pub(super) struct Flows {
    /// A few bits of each flow's hash, 0 where there is none.
    tags: Vec<[u16; WAYS]>,
    records: Vec<FlowRecord>,
    timeouts: Timeouts,
    /// The bucket that is looked at next for what is over, and when the last was.
    next: usize,
    looked: u64,
}

impl Flows {
    /// For at least so many flows.
    pub(super) fn new(capacity: usize, timeouts: Timeouts) -> Flows {
        let buckets = capacity.div_ceil(WAYS).next_power_of_two();
        let nothing = FlowRecord {
            tuple: Seen::read(&[], 0).tuple,
            stream: Stream::default(),
            packets: 0,
            bytes: 0,
            frame_bytes: 0,
            first: 0,
            last: 0,
            addresses: [0; 2],
            out_port: 0,
            tcp_flags: 0,
            ttl: [0; 2],
            reason: EndReason::Idle,
        };
        Flows {
            tags: vec![[0; WAYS]; buckets],
            records: vec![nothing; buckets * WAYS],
            timeouts,
            next: 0,
            looked: 0,
        }
    }

    /// Counts a packet. What is over by that is told.
    #[inline]
    pub(super) fn count(
        &mut self,
        seen: &Seen,
        stream: Stream,
        out_port: u32,
        now: u64,
        tell: &mut impl FnMut(FlowRecord),
    ) {
        let hash = seen.tuple.hash();
        let bucket = hash as usize & (self.tags.len() - 1);
        let tag = (hash >> 48) as u16 | 1;
        let place = self.find(bucket, tag, &seen.tuple);
        let place = match place {
            Some(place) => place,
            None => {
                let way = self.make_room(bucket, tell);
                self.tags[bucket][way] = tag;
                let place = bucket * WAYS + way;
                self.records[place] = FlowRecord {
                    tuple: seen.tuple,
                    stream,
                    packets: 0,
                    bytes: 0,
                    frame_bytes: 0,
                    first: now,
                    last: now,
                    addresses: seen.addresses,
                    out_port,
                    tcp_flags: 0,
                    ttl: [seen.ttl; 2],
                    reason: EndReason::Idle,
                };
                place
            }
        };
        let record = &mut self.records[place];
        if record.packets == 0 {
            record.first = now;
        }
        record.packets += 1;
        record.bytes += seen.bytes;
        record.frame_bytes += seen.frame_bytes;
        record.last = now;
        record.tcp_flags |= seen.tcp_flags;
        record.ttl = [record.ttl[0].min(seen.ttl), record.ttl[1].max(seen.ttl)];
    }

    #[inline]
    fn find(&self, bucket: usize, tag: u16, tuple: &Tuple) -> Option<usize> {
        let ways = self.tags[bucket].iter().enumerate().filter(|(_, other)| **other == tag);
        ways.map(|(way, _)| bucket * WAYS + way).find(|&place| self.records[place].tuple == *tuple)
    }

    /// A way of a bucket that has no flow any more.
    #[cold]
    fn make_room(&mut self, bucket: usize, tell: &mut impl FnMut(FlowRecord)) -> usize {
        if let Some(free) = self.tags[bucket].iter().position(|tag| *tag == 0) {
            return free;
        }
        let last = |way: &usize| self.records[bucket * WAYS + way].last;
        let oldest = (0..WAYS).min_by_key(last).unwrap_or_default();
        self.end(bucket, oldest, EndReason::LackOfResources, tell);
        oldest
    }

    fn end(
        &mut self,
        bucket: usize,
        way: usize,
        reason: EndReason,
        tell: &mut impl FnMut(FlowRecord),
    ) {
        self.tags[bucket][way] = 0;
        let record = self.records[bucket * WAYS + way];
        // It may have been told of and nothing come since.
        if record.packets > 0 {
            tell(FlowRecord { reason, ..record });
        }
    }

    /// Tells of what is over, of a part of all flows that grows with the time since the last call: all
    /// in an eighth of the shorter time-out.
    pub(super) fn tick(&mut self, now: u64, tell: &mut impl FnMut(FlowRecord)) {
        let round = (self.timeouts.idle.min(self.timeouts.active) / 8).max(1);
        let buckets = self.tags.len() as u64;
        let since = now.saturating_sub(self.looked).min(round);
        let count = (u128::from(buckets) * u128::from(since)).div_euclid(u128::from(round)) as u64;
        if count == 0 {
            return;
        }
        self.looked = now;
        for _ in 0..count {
            self.look(self.next, now, tell);
            self.next = (self.next + 1) & (self.tags.len() - 1);
        }
    }

    fn look(&mut self, bucket: usize, now: u64, tell: &mut impl FnMut(FlowRecord)) {
        if self.tags[bucket] == [0; WAYS] {
            return;
        }
        for way in 0..WAYS {
            if self.tags[bucket][way] == 0 {
                continue;
            }
            let record = &mut self.records[bucket * WAYS + way];
            let idle = now.saturating_sub(record.last);
            if record.tcp_flags & ENDS != 0 && idle >= STRAGGLERS.min(self.timeouts.idle) {
                self.end(bucket, way, EndReason::End, tell);
            } else if idle >= self.timeouts.idle {
                self.end(bucket, way, EndReason::Idle, tell);
            } else if record.packets > 0 && now.saturating_sub(record.first) >= self.timeouts.active
            {
                tell(FlowRecord { reason: EndReason::Active, ..*record });
                (record.packets, record.bytes, record.frame_bytes) = (0, 0, 0);
                record.first = now;
            }
        }
    }

    /// Tells of all there are, and forgets them.
    pub(super) fn end_all(&mut self, reason: EndReason, tell: &mut impl FnMut(FlowRecord)) {
        for bucket in 0..self.tags.len() {
            for way in 0..WAYS {
                if self.tags[bucket][way] != 0 {
                    self.end(bucket, way, reason, tell);
                }
            }
        }
    }
}
