//! Flow table of a worker: each flow with its counts since its last record.
//!
//! A table of fixed size in buckets of eight, so a packet costs one bucket however many flows there
//! are, and no flow keeps another from being counted: in a full bucket the least recently used one
//! is exported and makes room. Time-outs are found by going through a little of the table each
//! time.

use super::record::{EndReason, FlowRecord, PacketRecord, Stream, Tuple};

/// Flows in a bucket.
const WAYS: usize = 8;
/// Nanoseconds for which stragglers still count after the end of a TCP connection.
const STRAGGLERS: u64 = 1_000_000_000;
/// Flags of TCP that end a flow: FIN and RST.
const ENDS: u16 = 0b101;

/// Time-outs of flows, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timeouts {
    /// Time without a packet.
    pub(super) idle: u64,
    /// Time with packets.
    pub(super) active: u64,
}

#[derive(Debug)]
pub(super) struct Flows {
    /// A few bits of each flow's hash, 0 where there is none.
    tags: Vec<[u16; WAYS]>,
    records: Vec<FlowRecord>,
    /// Number of flows.
    live: usize,
    timeouts: Timeouts,
    /// Bucket to search next for expired flows, and the time of the last search.
    next: usize,
    looked: u64,
}

impl Flows {
    /// Creates a table for at least so many flows.
    pub(super) fn new(capacity: usize, timeouts: Timeouts) -> Flows {
        let buckets = capacity.div_ceil(WAYS).next_power_of_two();
        let nothing = FlowRecord {
            tuple: PacketRecord::read(&[], 0).tuple,
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
            live: 0,
            timeouts,
            next: 0,
            looked: 0,
        }
    }

    /// Returns true if there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Counts a packet, and exports the flows that end by it.
    #[inline]
    pub(super) fn count(
        &mut self,
        seen: &PacketRecord,
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
                self.live += 1;
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
        self.live -= 1;
        let record = self.records[bucket * WAYS + way];
        // It may have been exported and no packet come since.
        if record.packets > 0 {
            tell(FlowRecord { reason, ..record });
        }
    }

    /// Exports expired flows, of a part of the table that grows with the time since the last call:
    /// all of it in an eighth of the shorter time-out.
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

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const TIMEOUTS: Timeouts = Timeouts { idle: 10 * SECOND, active: 60 * SECOND };

    /// Returns a packet of TCP from a port, with flags.
    fn packet(port: u16, flags: u8) -> PacketRecord {
        let mut packet = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
        packet.extend([0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        packet.extend(port.to_be_bytes());
        packet.extend([0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, flags, 0, 0, 0, 0, 0, 0]);
        PacketRecord::read(&packet, 1)
    }

    /// Returns the records while packets come each second for a while, and then none.
    fn told(seconds: u64, flags: impl Fn(u64) -> u8) -> Vec<(u64, FlowRecord)> {
        let mut flows = Flows::new(64, TIMEOUTS);
        let mut told = Vec::new();
        for second in 1..=200 {
            let now = second * SECOND;
            let mut tell = |record| told.push((second, record));
            if second <= seconds {
                flows.count(&packet(7, flags(second)), Stream::default(), 2, now, &mut tell);
            }
            flows.tick(now, &mut tell);
        }
        told
    }

    #[test]
    fn a_flow_without_packets_is_over() {
        let told = told(5, |_| 0);
        let [(second, record)] = told[..] else { panic!("{told:?}") };
        assert!((15..=17).contains(&second), "{second}");
        assert_eq!((record.reason, record.packets, record.bytes), (EndReason::Idle, 5, 200));
        assert_eq!((record.first, record.last), (SECOND, 5 * SECOND));
    }

    #[test]
    fn a_flow_that_goes_on_is_told_of() {
        let told = told(100, |_| 0);
        let [(early, active), (late, idle)] = told[..] else { panic!("{told:?}") };
        assert!((61..=63).contains(&early), "{early}");
        assert!((110..=112).contains(&late), "{late}");
        assert_eq!((active.reason, idle.reason), (EndReason::Active, EndReason::Idle));
        assert_eq!(active.packets + idle.packets, 100);
    }

    #[test]
    fn a_flow_ends_with_its_tcp_connection() {
        let told = told(5, |second| if second == 5 { 0b1_0001 } else { 0b1_0000 });
        let [(second, record)] = told[..] else { panic!("{told:?}") };
        assert!((6..=8).contains(&second), "{second}");
        assert_eq!((record.reason, record.tcp_flags), (EndReason::End, 0b1_0001));
    }

    /// Each packet is exported once, with any number of flows.
    #[test]
    fn no_packet_is_lost_for_want_of_room() {
        let mut flows = Flows::new(64, TIMEOUTS);
        let (mut packets, mut reasons) = (0, Vec::new());
        let mut tell = |record: FlowRecord| {
            packets += record.packets;
            reasons.push(record.reason);
        };
        for nth in 0..10_000u64 {
            let port = (nth * nth % 997) as u16;
            flows.count(&packet(port, 0), Stream::default(), 2, nth * 1000, &mut tell);
        }
        flows.end_all(EndReason::Forced, &mut tell);
        assert_eq!(packets, 10_000);
        assert!(reasons.contains(&EndReason::LackOfResources));
        assert!(reasons.iter().filter(|reason| **reason == EndReason::Forced).count() <= 64);
    }
}
